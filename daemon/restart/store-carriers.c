/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carriers of memfds.
 *
 * A service manager compares each new descriptor with all that it has. The kernel keeps a descriptor in a packet alive as long as
 * the socket whose queue has the packet. So the manager keeps two sockets, and the daemon sends memfds from one to the other. The
 * manager hears nothing of them.
 *
 * Only the first packet of a queue can be received. To take one out of the middle, the daemon passes the packets before it to the
 * end: it looks at the first one, sends a copy, and only then receives the first. If it is killed between the two, a name is there
 * twice with the same memory, and the next daemon takes one of them out. So each name is in a queue at every moment, and queues are
 * short, since passing costs four system calls for each packet.
 *
 * The daemon may be the last one who closes a memfd. That cannot wait for anybody, but takes long if the memory is large: a thread
 * of its own does it then (later.h). A carrier of which nothing is needed is the manager's to close.
 *
 * Invariants: a queue is linked in `open` if it has a free place, and in `dirty` if something of it is to go. Only the daemon has
 * these sockets, so its lists are what lies in the queues.
 */
#include "daemon/restart/store-carriers.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/service/fdstore.h"
#include "proto/base/cleanup.h"
#include "proto/base/later.h"

/* More make removing dear, fewer give the manager more to compare. */
#define PACKETS_PER_QUEUE 8u
/* The kernel limits unread descriptors of a user to RLIMIT_NOFILE. Replies to clients need the rest. */
#define IN_FLIGHT_SHARE 4u
/* Blocks of 512 bytes: what takes longer to free than a thread that serves clients may take. */
#define CLOSE_LATER_BLOCKS 512

/* Session 0 does not exist. A daemon that knows no carriers discards them. */
#define NAME_FORMAT "s0-b%x.%u"

struct carried {
	struct list link; /* in order, as in the socket */
	struct carrier_queue *queue;
	bool gone; /* to be taken out */
};

struct carrier_queue {
	struct list open, dirty;
	struct carrier *carrier;
	struct list packets; /* struct carried.link, owned */
	unsigned int n, n_gone;
	int fd; /* owned; whose queue it is; -1: not claimed */
};

struct carrier {
	struct list link;
	unsigned int number;
	uint64_t mark; /* of fdstore.h: the manager has it */
	struct carrier_queue queues[CARRIERS_NAMES];
};

/* ---- packets ------------------------------------------------------------------------------------------------------- */

static int peer_fd(const struct carrier_queue *queue)
{
	struct carrier_queue *queues = queue->carrier->queues;

	return queues[queue == queues].fd;
}

static int send_packet(const struct carrier_queue *queue, const char *name, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)name, .iov_len = strlen(name)};
	struct msghdr hdr = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&hdr);

	*cmsg = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd))};
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(peer_fd(queue), &hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The first packet, which stays. A duplicate of its descriptor, the caller's; -EAGAIN: there is no packet; -EMFILE. */
static int look_first(const struct carrier_queue *queue, char name[FDSTORE_NAME_BYTES])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = name, .iov_len = FDSTORE_NAME_BYTES - 1};
	struct msghdr hdr = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(queue->fd, &hdr, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&hdr);
	int fd;

	if (n < 0)
		return -errno;
	name[n] = 0;
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return -EMFILE;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

/* -1: at the first packet, always. Otherwise each look begins where the one before ended. */
static int set_look_from(const struct carrier_queue *queue, int byte)
{
	return setsockopt(queue->fd, SOL_SOCKET, SO_PEEK_OFF, &byte, sizeof(byte)) < 0 ? -errno : 0;
}

/* Without room for a descriptor the kernel closes the one that comes with it. */
static void receive_first(const struct carrier_queue *queue)
{
	char name[FDSTORE_NAME_BYTES];

	while (recv(queue->fd, name, sizeof(name), MSG_DONTWAIT) < 0 && errno == EINTR)
		;
}

/* ---- queues -------------------------------------------------------------------------------------------------------- */

/* After each change of n and n_gone. */
static void link_queue(struct carriers *carriers, struct carrier_queue *queue)
{
	bool open = queue->n < PACKETS_PER_QUEUE, dirty = queue->n_gone > 0;

	if (open && list_empty(&queue->open))
		list_add_tail(&carriers->open, &queue->open);
	else if (!open)
		list_del(&queue->open);
	if (dirty && list_empty(&queue->dirty))
		list_add_tail(&carriers->dirty, &queue->dirty);
	else if (!dirty)
		list_del(&queue->dirty);
}

static struct carried *carried_new(struct carriers *carriers, struct carrier_queue *queue)
{
	struct carried *carried = calloc(1, sizeof(*carried));

	if (!carried)
		return NULL;
	carried->queue = queue;
	list_add_tail(&queue->packets, &carried->link);
	queue->n++;
	carriers->n_carried++;
	link_queue(carriers, queue);
	return carried;
}

static void carried_free(struct carriers *carriers, struct carried *carried)
{
	struct carrier_queue *queue = carried->queue;

	list_del(&carried->link);
	queue->n--;
	queue->n_gone -= carried->gone;
	carriers->n_carried--;
	link_queue(carriers, queue);
	free(carried);
}

void carriers_remove(struct carriers *carriers, struct carried *carried)
{
	carried->gone = true;
	carried->queue->n_gone++;
	link_queue(carriers, carried->queue);
}

int carriers_put(struct carriers *carriers, const char *name, int fd, struct carried **ret_carried)
{
	struct carrier_queue *queue;
	struct carried *carried;
	int r;

	if (list_empty(&carriers->open))
		return -ENOSPC;
	queue = list_first_entry(&carriers->open, struct carrier_queue, open);
	carried = carried_new(carriers, queue);
	if (!carried)
		return -ENOMEM;
	r = send_packet(queue, name, fd);
	if (r < 0) {
		carried_free(carriers, carried);
		return r;
	}
	if (carriers->spare == queue->carrier)
		carriers->spare = NULL;
	*ret_carried = carried;
	return 0;
}

/* ---- taking out ---------------------------------------------------------------------------------------------------- */

struct closing {
	struct later later;
	int fd;
};

static void run_close(struct later *item)
{
	struct closing *closing = container_of(item, struct closing, later);

	safe_close(closing->fd);
	free(closing);
}

/* It may be the last one of this memory. */
static void close_memory(int fd)
{
	struct closing *closing;
	struct stat st;

	closing = fd >= 0 && fstat(fd, &st) == 0 && st.st_blocks >= CLOSE_LATER_BLOCKS ? malloc(sizeof(*closing)) : NULL;
	if (closing) {
		*closing = (struct closing){.later.fn = run_close, .fd = fd};
		if (later_run(&closing->later) == 0)
			return;
		free(closing);
	}
	safe_close(fd);
}

static void drop_first(struct carriers *carriers, struct carried *carried)
{
	char name[FDSTORE_NAME_BYTES];
	int fd = look_first(carried->queue, name);

	receive_first(carried->queue);
	close_memory(fd);
	carried_free(carriers, carried);
}

static int pass_first(struct carried *carried)
{
	struct carrier_queue *queue = carried->queue;
	char name[FDSTORE_NAME_BYTES];
	_cleanup_close_ int fd = look_first(queue, name);
	int r = fd < 0 ? fd : send_packet(queue, name, fd);

	if (r < 0)
		return r;
	receive_first(queue);
	list_del(&carried->link);
	list_add_tail(&queue->packets, &carried->link);
	return 0;
}

/* If the system has no room for a copy the rest waits for the next time, and so do all queues that need one. */
static void settle_queue(struct carriers *carriers, struct carrier_queue *queue)
{
	while (queue->n_gone > 0) {
		struct carried *first = list_first_entry(&queue->packets, struct carried, link);

		if (first->gone) {
			drop_first(carriers, first);
		} else if (carriers->is_stuck || pass_first(first) < 0) {
			carriers->is_stuck = true;
			return;
		}
	}
}

/* ---- carriers ------------------------------------------------------------------------------------------------------ */

static void name_queue(const struct carrier_queue *queue, char name[FDSTORE_NAME_BYTES])
{
	snprintf(name, FDSTORE_NAME_BYTES, NAME_FORMAT, queue->carrier->number, queue != queue->carrier->queues);
}

/* In the manager's list of names, with what stands between two. */
static size_t count_name_bytes(const struct carrier *carrier)
{
	char name[FDSTORE_NAME_BYTES];
	size_t n = 0;

	for (unsigned int i = 0; i < CARRIERS_NAMES; i++) {
		name_queue(&carrier->queues[i], name);
		n += strlen(name) + 1;
	}
	return n;
}

static struct carrier *carrier_new(struct carriers *carriers, unsigned int number)
{
	struct carrier *carrier = calloc(1, sizeof(*carrier));

	if (!carrier)
		return NULL;
	carrier->number = number;
	for (unsigned int i = 0; i < CARRIERS_NAMES; i++) {
		carrier->queues[i].carrier = carrier;
		carrier->queues[i].fd = -1;
		list_init(&carrier->queues[i].open);
		list_init(&carrier->queues[i].dirty);
		list_init(&carrier->queues[i].packets);
	}
	list_add_tail(&carriers->all, &carrier->link);
	carriers->n++;
	carriers->name_bytes += count_name_bytes(carrier);
	if (number > carriers->last_number)
		carriers->last_number = number;
	return carrier;
}

static void carrier_free(struct carriers *carriers, struct carrier *carrier)
{
	struct carried *carried, *tmp;

	for (unsigned int i = 0; i < CARRIERS_NAMES; i++) {
		struct carrier_queue *queue = &carrier->queues[i];

		list_for_each_entry_safe(carried, tmp, &queue->packets, link)
			carried_free(carriers, carried);
		list_del(&queue->open);
		list_del(&queue->dirty);
		safe_close(queue->fd);
	}
	if (carriers->spare == carrier)
		carriers->spare = NULL;
	list_del(&carrier->link);
	carriers->n--;
	carriers->name_bytes -= count_name_bytes(carrier);
	free(carrier);
}

static void drop_all(struct carriers *carriers, struct carrier *carrier)
{
	for (unsigned int i = 0; i < CARRIERS_NAMES; i++)
		while (carrier->queues[i].n > 0)
			drop_first(carriers, list_first_entry(&carrier->queues[i].packets, struct carried, link));
}

/* The manager closes the sockets after the daemon has, and so what lies in them; or it has not got them, and this is the last close. */
static void let_go(struct carriers *carriers, struct carrier *carrier)
{
	char names[CARRIERS_NAMES][FDSTORE_NAME_BYTES];

	for (unsigned int i = 0; i < CARRIERS_NAMES; i++)
		name_queue(&carrier->queues[i], names[i]);
	if (!fdstore_reached(carrier->mark))
		drop_all(carriers, carrier);
	carrier_free(carriers, carrier);
	for (unsigned int i = 0; i < CARRIERS_NAMES; i++)
		fdstore_drop(names[i]);
}

static int keep(const struct carrier *carrier)
{
	char name[FDSTORE_NAME_BYTES];
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < CARRIERS_NAMES; i++) {
		name_queue(&carrier->queues[i], name);
		r = fdstore_keep(name, carrier->queues[i].fd);
	}
	return r;
}

static bool may_grow(const struct carriers *carriers)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && carriers->last_number < UINT_MAX &&
	       carriers->n_carried + CARRIERS_NAMES * PACKETS_PER_QUEUE <= limit.rlim_cur / IN_FLIGHT_SHARE;
}

int carriers_grow(struct carriers *carriers)
{
	struct carrier *carrier;
	int fds[CARRIERS_NAMES], r;

	if (!may_grow(carriers))
		return -EDQUOT;
	carrier = carrier_new(carriers, carriers->last_number + 1);
	if (!carrier)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
		r = -errno;
		carrier_free(carriers, carrier);
		return r;
	}
	for (unsigned int i = 0; i < CARRIERS_NAMES; i++) {
		carrier->queues[i].fd = fds[i];
		link_queue(carriers, &carrier->queues[i]);
	}
	/* Where the next daemon could not look at more than one packet, nothing may lie in queues. */
	r = set_look_from(&carrier->queues[0], -1);
	if (r < 0) {
		carrier_free(carriers, carrier);
		return r;
	}
	r = keep(carrier);
	carrier->mark = fdstore_mark();
	if (r < 0)
		let_go(carriers, carrier);
	else
		carriers->spare = carrier;
	return r;
}

uint64_t carriers_mark(const struct carried *carried)
{
	return carried->queue->carrier->mark;
}

static bool is_needless(const struct carrier *carrier)
{
	return carrier->queues[0].n == carrier->queues[0].n_gone && carrier->queues[1].n == carrier->queues[1].n_gone;
}

/* Another carrier has a free place. */
static bool is_other_open(const struct carriers *carriers, const struct carrier *carrier)
{
	const struct carrier_queue *queue;

	/* bounded: two of them are this carrier's. */
	list_for_each_entry(queue, &carriers->open, open)
		if (queue->carrier != carrier)
			return true;
	return false;
}

/* The manager will never have it. */
static bool is_lost(const struct carrier *carrier)
{
	char name[FDSTORE_NAME_BYTES];
	bool is_lost = false;

	for (unsigned int i = 0; i < CARRIERS_NAMES; i++) {
		name_queue(&carrier->queues[i], name);
		is_lost |= fdstore_has_lost(name);
	}
	return is_lost;
}

static void settle_carrier(struct carriers *carriers, struct carrier *carrier, bool keep_spare)
{
	bool is_spare = is_needless(carrier) && keep_spare && !is_other_open(carriers, carrier) && !is_lost(carrier);

	if (is_needless(carrier) && !is_spare) {
		let_go(carriers, carrier);
		return;
	}
	for (unsigned int i = 0; i < CARRIERS_NAMES; i++)
		settle_queue(carriers, &carrier->queues[i]);
	if (is_spare)
		carriers->spare = carrier;
}

void carriers_settle(struct carriers *carriers, bool keep_spare)
{
	struct list dirty;

	/* A queue whose packets cannot be passed on stays dirty, and is looked at once. */
	carriers->is_stuck = false;
	list_init(&dirty);
	list_splice_tail(&dirty, &carriers->dirty);
	while (!list_empty(&dirty)) {
		struct carrier_queue *queue = list_first_entry(&dirty, struct carrier_queue, dirty);

		list_del(&queue->dirty);
		list_add_tail(&carriers->dirty, &queue->dirty);
		settle_carrier(carriers, queue->carrier, keep_spare);
	}
	if (carriers->spare && (!keep_spare || is_other_open(carriers, carriers->spare) || is_lost(carriers->spare)))
		let_go(carriers, carriers->spare);
}

/* ---- of an earlier daemon ------------------------------------------------------------------------------------------ */

static bool parse_name(const char *name, unsigned int *ret_number, unsigned int *ret_i)
{
	int end = 0;

	return sscanf(name, NAME_FORMAT "%n", ret_number, ret_i, &end) == 2 && !name[end] && *ret_i < CARRIERS_NAMES;
}

bool carriers_is_name(const char *name)
{
	unsigned int number, i;

	return parse_name(name, &number, &i);
}

static struct carrier *find(const struct carriers *carriers, unsigned int number)
{
	struct carrier *carrier;

	/* The two sockets of a pair come in a row, as they were kept. */
	for (struct list *at = carriers->all.prev; at != &carriers->all; at = at->prev) {
		carrier = container_of(at, struct carrier, link);
		if (carrier->number == number)
			return carrier;
	}
	return NULL;
}

int carriers_claim(struct carriers *carriers, const char *name, int fd)
{
	struct carrier *carrier;
	unsigned int number, i;

	if (!parse_name(name, &number, &i)) {
		safe_close(fd);
		return -EINVAL;
	}
	carrier = find(carriers, number);
	if (!carrier)
		carrier = carrier_new(carriers, number);
	if (!carrier || carrier->queues[i].fd >= 0) {
		safe_close(fd);
		return carrier ? 0 : -ENOMEM;
	}
	carrier->queues[i].fd = fd;
	return 0;
}

/* -EAGAIN: there are no more. For memory that finds no free descriptor nobody has use: a daemon with fewer of them starts, too. */
static int read_packet(struct carriers *carriers, struct carrier_queue *queue, carriers_found_fn fn, void *arg)
{
	char name[FDSTORE_NAME_BYTES];
	int fd = look_first(queue, name);
	struct carried *carried;

	if (fd < 0 && fd != -EMFILE)
		return fd;
	carried = carried_new(carriers, queue);
	if (carried && fd >= 0 && fn(arg, carried, name, fd))
		return 0;
	safe_close(fd);
	if (!carried)
		return -ENOMEM;
	carriers_remove(carriers, carried);
	return 0;
}

static int read_queue(struct carriers *carriers, struct carrier_queue *queue, carriers_found_fn fn, void *arg)
{
	int r = set_look_from(queue, 0);

	while (r == 0)
		r = read_packet(carriers, queue, fn, arg);
	if (r != -EAGAIN)
		return r;
	link_queue(carriers, queue);
	return set_look_from(queue, -1);
}

/* A daemon that was killed between the two sockets of a pair had put nothing into them. */
static int read_carrier(struct carriers *carriers, struct carrier *carrier, carriers_found_fn fn, void *arg)
{
	int r = 0;

	if (carrier->queues[0].fd < 0 || carrier->queues[1].fd < 0) {
		let_go(carriers, carrier);
		return 0;
	}
	for (unsigned int i = 0; r == 0 && i < CARRIERS_NAMES; i++)
		r = read_queue(carriers, &carrier->queues[i], fn, arg);
	if (r < 0 || carrier->queues[0].n + carrier->queues[1].n > 0)
		return r;
	if (carriers->spare)
		let_go(carriers, carrier);
	else
		carriers->spare = carrier;
	return 0;
}

int carriers_claimed(struct carriers *carriers, carriers_found_fn fn, void *arg)
{
	struct carrier *carrier, *tmp;
	int r = 0;

	list_for_each_entry_safe(carrier, tmp, &carriers->all, link)
		if (r == 0)
			r = read_carrier(carriers, carrier, fn, arg);
	return r;
}

/* ---- birth and death ----------------------------------------------------------------------------------------------- */

void carriers_init(struct carriers *carriers)
{
	*carriers = (struct carriers){0};
	list_init(&carriers->all);
	list_init(&carriers->open);
	list_init(&carriers->dirty);
}

void carriers_deinit(struct carriers *carriers)
{
	struct carrier *carrier, *tmp;

	list_for_each_entry_safe(carrier, tmp, &carriers->all, link)
		carrier_free(carriers, carrier);
}
