/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the soft backend that need no thread: numbers, mailboxes, ports. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/nic/soft/soft.h"
#include "tests/lib/test.h"

TEST(numbers_are_24_bits_and_never_special)
{
	struct soft_numbers numbers;
	uint32_t number;
	int object;

	ASSERT_OK(soft_numbers_init(&numbers));
	/* Far enough to go round, and through the last generation to the first. */
	for (unsigned int i = 0; i < 3 * 65536; i++) {
		if (i == 65536)
			numbers.generation = 0xfe;
		ASSERT_OK(soft_numbers_alloc(&numbers, &object, &number));
		ASSERT_GT(number, 1u);
		ASSERT_LT(number, 0xffffffu);
		ASSERT(soft_numbers_find(&numbers, number) == &object);
		soft_numbers_dealloc(&numbers, number);
		ASSERT(!soft_numbers_find(&numbers, number));
	}
	ASSERT(!soft_numbers_find(&numbers, 0));
	ASSERT(!soft_numbers_find(&numbers, UINT32_MAX));
	soft_numbers_deinit(&numbers);
}

TEST(numbers_end_when_every_slot_is_taken)
{
	uint32_t *number = calloc(65536, sizeof(*number)), more;
	struct soft_numbers numbers;

	ASSERT(number);
	ASSERT_OK(soft_numbers_init(&numbers));
	for (unsigned int i = 0; i < 65536; i++)
		ASSERT_OK(soft_numbers_alloc(&numbers, &number[i], &number[i]));
	ASSERT_ERR(soft_numbers_alloc(&numbers, &more, &more), ENOSPC);
	for (unsigned int i = 0; i < 65536; i++)
		ASSERT(soft_numbers_find(&numbers, number[i]) == &number[i]);
	soft_numbers_dealloc(&numbers, number[777]);
	ASSERT_OK(soft_numbers_alloc(&numbers, &more, &more));
	ASSERT_NE(more, number[777]); /* the same slot, another generation */
	ASSERT_EQ(more & 0xffff, number[777] & 0xffff);
	soft_numbers_deinit(&numbers);
	free(number);
}

#define N_PUSHERS 4
#define N_ITEMS 20000

struct pusher {
	pthread_t thread;
	struct soft_port *port;
	struct list items[N_ITEMS];
};

static void *pusher_main(void *arg)
{
	struct pusher *pusher = arg;

	for (unsigned int i = 0; i < N_ITEMS; i++)
		soft_port_push(pusher->port, &pusher->port->packets, &pusher->items[i]);
	return NULL;
}

/* Nothing is lost, nothing comes twice, and what one thread pushed stays in its order. */
TEST(a_mailbox_keeps_the_order_of_each_sender)
{
	struct pusher *pushers = calloc(N_PUSHERS, sizeof(*pushers));
	unsigned int next[N_PUSHERS] = {0}, n = 0;
	const uint8_t gid[16] = {1};
	struct soft_port *port = soft_port_new(gid);
	struct list items, *link;

	ASSERT(pushers && port);
	for (unsigned int p = 0; p < N_PUSHERS; p++) {
		pushers[p].port = port;
		ASSERT_OK(pthread_create(&pushers[p].thread, NULL, pusher_main, &pushers[p]));
	}
	list_init(&items);
	while (n < N_PUSHERS * N_ITEMS) {
		soft_port_take(&port->packets, &items);
		for (; !list_empty(&items); n++) {
			unsigned int p = 0;

			link = items.next;
			list_del(link);
			while (link < pushers[p].items || link >= pushers[p].items + N_ITEMS)
				p++;
			ASSERT(link == &pushers[p].items[next[p]++]);
		}
	}
	for (unsigned int p = 0; p < N_PUSHERS; p++)
		ASSERT_OK(pthread_join(pushers[p].thread, NULL));
	ASSERT(!soft_port_take(&port->packets, &items));
	soft_port_unref(port);
	free(pushers);
}

TEST(taking_appends_behind_what_is_there)
{
	const uint8_t gid[16] = {1};
	struct soft_port *port = soft_port_new(gid);
	struct list items, a, b, c;

	ASSERT(port);
	list_init(&items);
	soft_port_push(port, &port->packets, &a);
	ASSERT(soft_port_take(&port->packets, &items));
	soft_port_push(port, &port->packets, &b);
	soft_port_push(port, &port->packets, &c);
	ASSERT(soft_port_take(&port->packets, &items));
	ASSERT(items.next == &a && a.next == &b && b.next == &c && c.next == &items);
	ASSERT(items.prev == &c && c.prev == &b && b.prev == &a && a.prev == &items);
	soft_port_unref(port);
}

TEST(ports_are_found_by_gid_and_outlive_their_nic)
{
	const uint8_t gid[2][16] = {{1}, {2}};
	struct soft_fabric *fabric = soft_fabric_new();
	struct soft_port *port = soft_port_new(gid[0]), *route = NULL;

	ASSERT(fabric && port);
	ASSERT_ERR(soft_fabric_find(fabric, gid[0], &route), EHOSTUNREACH);
	ASSERT_OK(soft_fabric_add(fabric, port));
	ASSERT_ERR(soft_fabric_find(fabric, gid[1], &route), EHOSTUNREACH);
	ASSERT_OK(soft_fabric_find(fabric, gid[0], &route));
	ASSERT(route == port);
	soft_fabric_remove(fabric, port);
	soft_port_unref(port);
	soft_port_wake(route);
	ASSERT_MEMEQ(route->gid, gid[0], 16);
	ASSERT_ERR(soft_fabric_find(fabric, gid[0], &port), EHOSTUNREACH);
	soft_port_unref(route);
	soft_fabric_unref(fabric);
}

/* More sessions have news than there is room for, and the port goes down. */
TEST(news_of_the_port_are_not_pushed_out_by_those_of_sessions)
{
	static struct soft_nic nic;
	struct engine_event error = {.kind = ENGINE_EVENT_QP_ERROR, .syndrome = 1};
	struct soft_ctx ctx = {.nic = &nic};
	struct soft_queues queues = {.ctx = &ctx};
	uint32_t word = 0;
	struct soft_qp qp = {.queues = &queues, .error = &word};
	struct nic_event event, last = {0};
	unsigned int n = 0;

	nic.base.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_OK(soft_events_init(&nic.events));
	ASSERT_OK(soft_numbers_init(&nic.qpns));
	ASSERT_OK(soft_numbers_alloc(&nic.qpns, &qp, &error.number));
	for (ctx.base.session_id = 1; ctx.base.session_id <= 300; ctx.base.session_id++)
		soft_event(&nic, &error);
	for (int i = 0; i < 5; i++)
		soft_event_port(&nic, i % 2 ? NIC_PORT_ACTIVE : NIC_PORT_DOWN);
	for (; soft_next_event(&nic.base, &event) == 0; n++)
		if (event.session_id == 0 && event.kind != NIC_EVENT_DROPPED)
			last = event;
	ASSERT_EQ(n, SOFT_MAX_EVENTS + 3); /* and how many were lost */
	ASSERT_EQ(last.kind, NIC_EVENT_PORT_STATE);
	ASSERT_EQ(last.state, NIC_PORT_DOWN);
	soft_numbers_deinit(&nic.qpns);
	soft_events_deinit(&nic.events);
	close(nic.base.event_fd);
}

/* In any order, reported and lost events add up to all events; then nothing is readable. */
TEST(events_that_find_no_room_are_counted)
{
	static struct soft_nic nic;
	struct engine_event error = {.kind = ENGINE_EVENT_QP_ERROR, .syndrome = 1};
	struct soft_ctx ctx = {.nic = &nic};
	struct soft_queues queues = {.ctx = &ctx};
	uint32_t word = 0, n_told = 0, n_lost = 0, n_merged = 0;
	struct soft_qp qp = {.queues = &queues, .error = &word};
	struct nic_event event;
	uint64_t count;

	nic.base.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_OK(soft_events_init(&nic.events));
	ASSERT_OK(soft_numbers_init(&nic.qpns));
	ASSERT_OK(soft_numbers_alloc(&nic.qpns, &qp, &error.number));
	for (unsigned int i = 0; i < 900; i++) {
		ctx.base.session_id = 1 + i % 300;
		soft_event(&nic, &error);
	}
	while (soft_next_event(&nic.base, &event) == 0) {
		n_told += event.kind == NIC_EVENT_QP_ERROR;
		n_lost += event.n_lost;
		n_merged += event.kind == NIC_EVENT_QP_ERROR && event.n_lost > 0;
		ASSERT_EQ(event.number == 0, event.n_lost > 0);
	}
	ASSERT_EQ(event.kind, NIC_EVENT_DROPPED);
	ASSERT_EQ(n_told + n_lost, 900);
	ASSERT_GT(n_merged, 0);
	ASSERT_EQ(read(nic.base.event_fd, &count, sizeof(count)), -1);
	soft_numbers_deinit(&nic.qpns);
	soft_events_deinit(&nic.events);
	close(nic.base.event_fd);
}
