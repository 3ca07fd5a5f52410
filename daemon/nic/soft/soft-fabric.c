/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way between the soft NICs of one daemon: ports by GID, and the mailboxes of their executors, the lanes.
 *
 * A mailbox is a stack that any thread pushes to with one compare-and-swap and that the executor's thread takes
 * whole and reverses; so it keeps the order of each sender. The sender looks at `asleep` after its push, the
 * sleeper at the stacks after it set `asleep`, all sequentially consistent: one of the two sees the other, and
 * the eventfd is written only for a thread that sleeps.
 *
 * Ports are reference counted: by their NIC, by each route of a connected QP and by each end of a channel. A packet goes to the
 * executor that has its QP at that moment. A packet in the lane of an executor that ends finds no QP with the next one, or is freed
 * with the port.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

struct soft_fabric *soft_fabric_new(void)
{
	struct soft_fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric)
		return NULL;
	if (soft_shared_new(&fabric->shared, &fabric->shared_fd) < 0) {
		free(fabric);
		return NULL;
	}
	fabric->refs = 1;
	fabric->want_fd = -1;
	fabric->import_nsec = SOFT_IMPORT_NSEC;
	pthread_mutex_init(&fabric->lock, NULL);
	return fabric;
}

static int map_view(struct soft_fabric *fabric, int table_fd, int part_fd)
{
	int r = soft_shared_map(table_fd, &fabric->shared);

	if (r == 0)
		r = soft_part_map(part_fd, true, &fabric->parts[fabric->own_exec]);
	if (r < 0)
		return r;
	fabric->want_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fabric->want_fd < 0 ? -errno : 0;
}

int soft_fabric_new_view(int table_fd, int part_fd, unsigned int own_exec, struct soft_fabric **ret_fabric)
{
	struct soft_fabric *fabric = own_exec < SOFT_MAX_EXECS ? calloc(1, sizeof(*fabric)) : NULL;
	int r;

	if (!fabric)
		return own_exec < SOFT_MAX_EXECS ? -ENOMEM : -EINVAL;
	fabric->refs = 1;
	fabric->shared_fd = fabric->want_fd = -1;
	fabric->own_exec = own_exec;
	pthread_mutex_init(&fabric->lock, NULL);
	r = map_view(fabric, table_fd, part_fd);
	if (r < 0)
		soft_fabric_unref(fabric);
	else
		*ret_fabric = fabric;
	return r;
}

static void drop_wants(struct soft_fabric *fabric)
{
	struct list *link;

	while ((link = soft_stack_pop(&fabric->wants)))
		free(container_of(link, struct soft_want, link));
}

struct soft_fabric *soft_fabric_ref(struct soft_fabric *fabric)
{
	pthread_mutex_lock(&fabric->lock);
	fabric->refs++;
	pthread_mutex_unlock(&fabric->lock);
	return fabric;
}

struct soft_fabric *soft_fabric_unref(struct soft_fabric *fabric)
{
	uint32_t refs;

	if (!fabric)
		return NULL;
	pthread_mutex_lock(&fabric->lock);
	refs = --fabric->refs;
	pthread_mutex_unlock(&fabric->lock);
	if (refs == 0) {
		soft_ends_reap(fabric);
		drop_wants(fabric);
		for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++)
			soft_part_unmap(fabric->parts[i]);
		soft_shared_unmap(fabric->shared);
		safe_close(fabric->shared_fd);
		safe_close(fabric->want_fd);
		pthread_mutex_destroy(&fabric->lock);
		free(fabric);
	}
	return NULL;
}

/* Under the lock. A place is free when nobody goes by the port that had it. */
static int add_locked(struct soft_fabric *fabric, struct soft_port *port, const uint8_t gid[16])
{
	uint16_t id = 0;

	while (id < SOFT_MAX_NICS && __atomic_load_n(&fabric->shared->ports[id].present, __ATOMIC_ACQUIRE))
		id++;
	if (id == SOFT_MAX_NICS)
		return -ENOSPC;
	port->id = id;
	port->shared = &fabric->shared->ports[id];
	port->shared->down = 0;
	memcpy(port->shared->gid, gid, sizeof(port->shared->gid));
	if (soft_shared_numbers_init(&port->shared->qpns) < 0 || soft_shared_numbers_init(&port->shared->cqns) < 0)
		return -EIO;
	__atomic_store_n(&port->shared->present, 1, __ATOMIC_RELEASE);
	fabric->ports[id] = port;
	return 0;
}

int soft_fabric_add(struct soft_fabric *fabric, const uint8_t gid[16], struct soft_port **ret_port)
{
	struct soft_port *port = calloc(1, sizeof(*port));
	int r;

	if (!port)
		return -ENOMEM;
	port->refs = 1;
	pthread_mutex_lock(&fabric->lock);
	r = add_locked(fabric, port, gid);
	pthread_mutex_unlock(&fabric->lock);
	if (r < 0) {
		free(port);
		return r;
	}
	port->fabric = soft_fabric_ref(fabric);
	*ret_port = port;
	return 0;
}

int soft_fabric_join(struct soft_fabric *fabric, unsigned int id, struct soft_port **ret_port)
{
	struct soft_port *port;

	if (id >= SOFT_MAX_NICS || !__atomic_load_n(&fabric->shared->ports[id].present, __ATOMIC_ACQUIRE))
		return -ENODEV;
	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	port->refs = 1;
	/* bounded: above. */
	port->id = (uint16_t)id;
	port->shared = &fabric->shared->ports[id];
	port->fabric = soft_fabric_ref(fabric);
	pthread_mutex_lock(&fabric->lock);
	fabric->ports[id] = port;
	pthread_mutex_unlock(&fabric->lock);
	*ret_port = port;
	return 0;
}

void soft_fabric_remove(struct soft_fabric *fabric, struct soft_port *port)
{
	pthread_mutex_lock(&fabric->lock);
	for (unsigned int i = 0; i < SOFT_MAX_NICS; i++)
		if (fabric->ports[i] == port)
			fabric->ports[i] = NULL;
	pthread_mutex_unlock(&fabric->lock);
}

static int take_and_unlock(struct soft_fabric *fabric, struct soft_port *found, struct soft_port **ret_port)
{
	if (found)
		__atomic_fetch_add(&found->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&fabric->lock);
	if (!found)
		return -EHOSTUNREACH;
	*ret_port = found;
	return 0;
}

int soft_fabric_find_port(struct soft_fabric *fabric, const void *claimed, struct soft_port **ret_port)
{
	struct soft_port *found = NULL;

	pthread_mutex_lock(&fabric->lock);
	for (unsigned int i = 0; i < SOFT_MAX_NICS && !found; i++)
		if (fabric->ports[i] && fabric->ports[i] == claimed)
			found = fabric->ports[i];
	return take_and_unlock(fabric, found, ret_port);
}

int soft_fabric_find_id(struct soft_fabric *fabric, uint32_t id, struct soft_port **ret_port)
{
	if (id >= SOFT_MAX_NICS)
		return -EHOSTUNREACH;
	pthread_mutex_lock(&fabric->lock);
	return take_and_unlock(fabric, fabric->ports[id], ret_port);
}

int soft_fabric_find(struct soft_fabric *fabric, const uint8_t gid[16], struct soft_port **ret_port)
{
	struct soft_port *found = NULL;

	pthread_mutex_lock(&fabric->lock);
	for (unsigned int i = 0; i < SOFT_MAX_NICS && !found; i++)
		if (fabric->ports[i] && memcmp(fabric->ports[i]->shared->gid, gid, 16) == 0)
			found = fabric->ports[i];
	return take_and_unlock(fabric, found, ret_port);
}

static int check_gids(const struct soft_fabric *fabric, unsigned int n, const uint8_t (*gids)[16])
{
	for (unsigned int i = 0; i < n && i < SOFT_MAX_NICS; i++)
		if (fabric->ports[i] && (fabric->ports[i]->settled || soft_fabric_is_view(fabric)) && memcmp(fabric->ports[i]->shared->gid, gids[i], 16) != 0)
			return -EXDEV;
	return 0;
}

int soft_fabric_adopt(struct soft_fabric *fabric, unsigned int n, const uint8_t (*gids)[16])
{
	int r;

	pthread_mutex_lock(&fabric->lock);
	r = check_gids(fabric, n, gids);
	for (unsigned int i = 0; r == 0 && i < n && i < SOFT_MAX_NICS; i++) {
		if (!fabric->ports[i] || fabric->ports[i]->settled || soft_fabric_is_view(fabric))
			continue;
		memcpy(fabric->ports[i]->shared->gid, gids[i], 16);
		fabric->ports[i]->settled = true;
	}
	pthread_mutex_unlock(&fabric->lock);
	return r;
}

void soft_fabric_settle(struct soft_fabric *fabric, struct soft_port *port)
{
	pthread_mutex_lock(&fabric->lock);
	port->settled = true;
	pthread_mutex_unlock(&fabric->lock);
}

unsigned int soft_fabric_gids(struct soft_fabric *fabric, uint8_t (*ret_gids)[16])
{
	unsigned int n = 0;

	pthread_mutex_lock(&fabric->lock);
	for (; n < SOFT_MAX_NICS && fabric->ports[n]; n++)
		memcpy(ret_gids[n], fabric->ports[n]->shared->gid, 16);
	pthread_mutex_unlock(&fabric->lock);
	return n;
}

/* The GID is a prefix and the MAC as EUI-64. */
void soft_port_mac(const struct soft_port *port, uint8_t ret_mac[6])
{
	ret_mac[0] = port->shared->gid[8] ^ 0x02;
	ret_mac[1] = port->shared->gid[9];
	ret_mac[2] = port->shared->gid[10];
	memcpy(ret_mac + 3, port->shared->gid + 13, 3);
}

struct soft_port *soft_port_unref(struct soft_port *port)
{
	if (!port || __atomic_sub_fetch(&port->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return NULL;
	for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++)
		soft_lane_free(port->lanes[i]);
	if (!soft_fabric_is_view(port->fabric))
		__atomic_store_n(&port->shared->present, 0, __ATOMIC_RELEASE);
	soft_fabric_unref(port->fabric);
	free(port);
	return NULL;
}

bool soft_port_is_down(const struct soft_port *port)
{
	return __atomic_load_n(&port->shared->down, __ATOMIC_RELAXED);
}

int soft_port_lane(struct soft_port *port, unsigned int exec, struct soft_lane **ret_lane)
{
	struct soft_lane *lane = port->lanes[exec];
	struct soft_shared_part *part = port->fabric->parts[exec];

	if (!lane) {
		lane = soft_lane_new(&port->shared->owners[exec], part ? &part->lanes[port->id] : NULL);
		if (!lane)
			return -errno;
		lane->port = port->id;
		lane->exec = (uint16_t)exec;
		/* Another process may have been here before. */
		lane->shared->asleep = lane->shared->bell = 0;
		__atomic_store_n(&port->lanes[exec], lane, __ATOMIC_RELEASE);
	}
	*ret_lane = lane;
	return 0;
}

/* Several threads may look for it at once. */
static struct soft_lane *make_remote_lane(struct soft_port *port, unsigned int exec)
{
	struct soft_lane *lane = aligned_alloc(_Alignof(struct soft_lane), sizeof(*lane)), *there = NULL;

	if (!lane)
		return NULL;
	memset(lane, 0, sizeof(*lane));
	lane->owner = &port->shared->owners[exec];
	lane->port = port->id;
	lane->exec = (uint16_t)exec;
	lane->wake_fd = -1;
	if (__atomic_compare_exchange_n(&port->lanes[exec], &there, lane, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return lane;
	free(lane);
	return there;
}

struct soft_lane *soft_port_exec_lane(struct soft_port *port, unsigned int exec)
{
	struct soft_lane *lane = exec < SOFT_MAX_EXECS ? __atomic_load_n(&port->lanes[exec], __ATOMIC_ACQUIRE) : NULL;

	if (lane || exec >= SOFT_MAX_EXECS || !soft_fabric_is_view(port->fabric) || exec == port->fabric->own_exec)
		return lane;
	return make_remote_lane(port, exec);
}

struct soft_lane *soft_port_find_lane(struct soft_port *port, uint32_t qpn)
{
	int exec = soft_shared_number_exec(&port->shared->qpns, qpn);

	return exec < 0 ? NULL : soft_port_exec_lane(port, (unsigned int)exec);
}

const struct soft_shared_lane *soft_lane_thread(const struct soft_fabric *fabric, const struct soft_lane *lane)
{
	const struct soft_shared_part *part;

	if (!soft_lane_is_remote(lane))
		return lane->shared;
	part = __atomic_load_n(&fabric->parts[lane->exec], __ATOMIC_ACQUIRE);
	return part ? &part->lanes[lane->port] : NULL;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------------- */

struct soft_lane *soft_lane_new(struct soft_shared_owner *owner, struct soft_shared_lane *shared)
{
	struct soft_lane *lane = aligned_alloc(_Alignof(struct soft_lane), sizeof(*lane));

	if (!lane)
		return NULL;
	memset(lane, 0, sizeof(*lane));
	lane->owner = owner;
	lane->shared = shared ? shared : &lane->own;
	lane->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lane->wake_fd >= 0)
		return lane;
	free(lane);
	return NULL;
}

struct soft_lane *soft_lane_free(struct soft_lane *lane)
{
	struct list left;

	if (!lane)
		return NULL;
	list_init(&left);
	soft_lane_take(&lane->packets, &left);
	while (!list_empty(&left)) {
		struct list *link = left.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	soft_ends_forget(lane);
	assert_bug(!lane->calls);
	safe_close(lane->wake_fd);
	free(lane);
	return NULL;
}

void soft_lane_push(struct soft_lane *lane, struct list **stack, struct list *item)
{
	struct list *head = __atomic_load_n(stack, __ATOMIC_RELAXED);

	do {
		item->next = head;
	} while (!__atomic_compare_exchange_n(stack, &head, item, true, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	soft_lane_wake(lane);
}

bool soft_lane_take(struct list **stack, struct list *items)
{
	struct list *newest, *at;

	if (!__atomic_load_n(stack, __ATOMIC_RELAXED))
		return false;
	newest = __atomic_exchange_n(stack, NULL, __ATOMIC_ACQUIRE);
	/* Walking from the newest, each goes in front of the ones that were pushed after it. */
	at = items->prev;
	while (newest) {
		struct list *next = newest->next;

		list_insert_after(at, newest);
		newest = next;
	}
	return true;
}

static void write_wake(struct soft_lane *lane)
{
	doorbell_wake(lane->wake_fd);
}

void soft_lane_wake(struct soft_lane *lane)
{
	if (soft_shared_lane_must_wake(lane->shared))
		write_wake(lane);
}

void soft_lane_ring(struct soft_lane *lane)
{
	if (soft_shared_lane_ring(lane->shared))
		write_wake(lane);
}
