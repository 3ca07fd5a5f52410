/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The porter: it reads packets with descriptors from its uid's sockets, keeps the descriptors open for longer than the daemon
 * does, and closes them.
 *
 * This thread carries out the orders, and waits for the daemon alone. Closers do everything that may wait for a client: one closes,
 * another writes health pages; this thread closes small memory only. When the daemon has died, its descriptors are open until the kernel has
 * ended it, which its pidfd reports. The porter closes nothing before that, so that no close of the daemon's is the last one.
 * Sockets that the service manager has stay open for a while longer, for the same reason.
 *
 * It refuses nothing, since orders come from the daemon. Out of memory it ends, and the daemon starts another one.
 */
#include "daemon/porter/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/porter/closer.h"
#include "daemon/porter/message.h"
#include "proto/base/cleanup.h"
#include "proto/base/hash.h"
#include "proto/base/nsec.h"
#include "proto/base/list.h"
#include "proto/base/sandbox.h"
#include "proto/framing.h"

/* The kernel lets no packet carry more (SCM_MAX_FD). */
#define MAX_FDS 253u
#define SMALL_BLOCKS ((16 << 20) / 512)
/* Without a pidfd: so long after the channel's end the daemon's descriptors are taken for closed. */
#define BLIND_MSEC 1000
/* So long after the service manager began to let go of what it had. */
#define RELEASE_MSEC 1000
#define LOOK_MSEC 100 /* how often it looks whether the next daemon has everything */

struct hold {
	struct closer_job job;
	uint64_t id;
	int last; /* owned: the daemon's last one, or -1 */
	unsigned int n;
	int fds[]; /* owned */
};

struct attached {
	struct attached *next;
	int fd; /* owned */
};

/* Files that the service manager had as well, and closes when it hears of the end. */
struct grave {
	struct list link; /* porter.graves, in the order of their ends */
	struct closer_job job;
	int follow; /* owned: hangs up when the manager has heard of it; -1: it has, or this process knows nothing of that */
	uint64_t end_nsec; /* by then it has closed them */
	struct attached *attached; /* owned */
};

struct slot {
	struct closer_job job, drain_job;
	bool is_draining; /* atomic: drain_job is the closer's */
	struct list link;
	uint32_t id;
	int sock; /* owned */
	int last; /* owned: the daemon's last one, or -1 */
	bool is_kept; /* by the service manager */
	bool was_kept; /* at some time */
	int follow; /* owned: see struct grave; -1: none */
	struct attached *attached; /* owned */
};

static struct {
	struct process_attr attr;
	struct hash slots, holds;
	struct list all_slots; /* struct slot.link */
	struct list graves; /* struct grave.link */
	uint8_t *packet; /* FRAMING_MAX_PACKET_BYTES + 1 */
} porter;

static int send_to_daemon(const struct msghdr *header)
{
	ssize_t n;

	do
		n = sendmsg(porter.attr.channel, header, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Where too many descriptors of the daemon's user are unread, the bytes alone: the daemon answers that none was free. */
static void send_news(const struct porter_news *news, const void *bytes, size_t n, int fd)
{
	struct iovec iov[] = {{(void *)news, sizeof(*news)}, {(void *)bytes, n}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr header = {.msg_iov = iov, .msg_iovlen = n ? 2 : 1};

	if (fd >= 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		control.align = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	if (send_to_daemon(&header) != -ETOOMANYREFS)
		return;
	header.msg_control = NULL;
	header.msg_controllen = 0;
	send_to_daemon(&header);
}

static void send_event(enum porter_event event, uint32_t slot, uint64_t hold)
{
	const struct porter_news news = {.event = event, .slot = slot, .hold = hold};

	send_news(&news, NULL, 0, -1);
}

static void __attribute__((noreturn)) out_of_memory(void)
{
	_exit(EXIT_FAILURE);
}

static void *need(void *memory)
{
	if (!memory)
		out_of_memory();
	return memory;
}

static void remember(struct hash *hash, uint64_t id, void *value)
{
	if (hash_add(hash, id, value) < 0)
		out_of_memory();
}

/* ---- holds -------------------------------------------------------------------------------------------------------- */

static void close_hold(struct closer_job *job)
{
	struct hold *hold = container_of(job, struct hold, job);

	for (unsigned int i = 0; i < hold->n; i++)
		safe_close(hold->fds[i]);
	safe_close(hold->last);
	send_event(PORTER_CLOSED, 0, hold->id);
	free(hold);
}

static bool is_small_memory(int fd)
{
	struct stat st;

	return fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &st) == 0 && st.st_blocks < SMALL_BLOCKS;
}

static void drop_hold(struct hold *hold)
{
	hold->job.run = close_hold;
	if (hold->n == 1 && is_small_memory(hold->fds[0]))
		close_hold(&hold->job);
	else
		closer_run(CLOSER_FILES, &hold->job);
}

static void add_hold(uint64_t id, const int *fds, unsigned int n)
{
	/* bounded: MAX_FDS. */
	struct hold *hold;

	if (n == 0)
		return;
	hold = need(malloc(sizeof(*hold) + n * sizeof(int)));

	*hold = (struct hold){.id = id, .n = n, .last = -1};
	memcpy(hold->fds, fds, n * sizeof(int));
	remember(&porter.holds, id, hold);
}

/* This porter does not know a hold of the one before it: that hold has fd alone. */
static void on_last_of_hold(uint64_t id, int fd)
{
	struct hold *hold = hash_get(&porter.holds, id);

	if (hold)
		hold->last = fd;
	else if (fd >= 0)
		add_hold(id, &fd, 1);
}

static void on_drop(const struct porter_order *order)
{
	struct hold *hold = hash_remove(&porter.holds, order->hold);

	if (hold)
		drop_hold(hold);
	else
		send_event(PORTER_CLOSED, 0, order->hold);
}

/* ---- slots -------------------------------------------------------------------------------------------------------- */

static void add_slot(uint32_t id, int sock)
{
	struct slot *slot = need(calloc(1, sizeof(*slot)));

	slot->id = id;
	slot->sock = sock;
	slot->last = slot->follow = -1;
	list_add_tail(&porter.all_slots, &slot->link);
	remember(&porter.slots, id, slot);
}

static void attach(struct slot *slot, int fd)
{
	struct attached *attached = need(malloc(sizeof(*attached)));

	*attached = (struct attached){.next = slot->attached, .fd = fd};
	slot->attached = attached;
}

/*
 * Linux frees sockets that lie in each other's queues when it looks for such circles, which it does when a process closes any
 * socket of this family. The close that completed the circle may have come too early, and perhaps no other follows.
 */
static void have_circles_found(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	safe_close(pair[0]);
	safe_close(pair[1]);
}

static void run_drain(struct closer_job *job)
{
	struct slot *slot = container_of(job, struct slot, drain_job);

	framing_drain(slot->sock);
	have_circles_found();
	__atomic_store_n(&slot->is_draining, false, __ATOMIC_RELEASE);
}

static void close_attached(struct attached *attached)
{
	while (attached) {
		struct attached *next = attached->next;

		close(attached->fd);
		free(attached);
		attached = next;
	}
}

static void run_end(struct closer_job *job)
{
	struct slot *slot = container_of(job, struct slot, job);

	framing_drain(slot->sock);
	safe_close(slot->last);
	close(slot->sock);
	close_attached(slot->attached);
	have_circles_found();
	send_event(PORTER_ENDED, slot->id, 0);
	free(slot);
}

static void run_grave(struct closer_job *job)
{
	struct grave *grave = container_of(job, struct grave, job);

	close_attached(grave->attached);
	free(grave);
}

/* The close of the service manager must not be the last one. */
static void bury(struct slot *slot)
{
	struct grave *grave = need(malloc(sizeof(*grave)));

	*grave = (struct grave){.job.run = run_grave, .end_nsec = nsec_add(nsec_now(), RELEASE_MSEC * NSEC_PER_MSEC)};
	grave->attached = take_ptr(slot->attached);
	grave->follow = take_fd(&slot->follow);
	list_add_tail(&porter.graves, &grave->link);
}

/* The manager hears of the ends in their order. */
static void follow_manager(uint64_t now)
{
	struct grave *grave;

	list_for_each_entry(grave, &porter.graves, link) {
		struct pollfd wait = {.fd = grave->follow};

		if (grave->follow < 0)
			continue;
		if (poll(&wait, 1, 0) <= 0)
			return;
		grave->follow = safe_close(grave->follow);
		grave->end_nsec = nsec_add(now, RELEASE_MSEC * NSEC_PER_MSEC);
	}
}

/* Returns for how many milliseconds nothing is to be done; -1: until somebody else is buried. */
static int look_at_graves(void)
{
	struct grave *grave, *tmp;
	uint64_t now = nsec_now();

	follow_manager(now);
	list_for_each_entry_safe(grave, tmp, &porter.graves, link) {
		if (grave->follow >= 0)
			return LOOK_MSEC;
		if (grave->end_nsec > now)
			return (int)((grave->end_nsec - now) / NSEC_PER_MSEC) + 1;
		list_del(&grave->link);
		closer_run(CLOSER_FILES, &grave->job);
	}
	return -1;
}

static void end_slot(struct slot *slot)
{
	if (slot->was_kept && slot->attached)
		bury(slot);
	slot->follow = safe_close(slot->follow);
	hash_remove(&porter.slots, slot->id);
	list_del(&slot->link);
	slot->job.run = run_end;
	closer_run(CLOSER_FILES, &slot->job);
}

static void drain_slot(struct slot *slot)
{
	if (__atomic_exchange_n(&slot->is_draining, true, __ATOMIC_ACQUIRE))
		return;
	slot->drain_job.run = run_drain;
	closer_run(CLOSER_FILES, &slot->drain_job);
}

/* ---- health pages ------------------------------------------------------------------------------------------------- */

struct telling {
	struct closer_job job;
	uint32_t slot;
	int fd; /* owned */
	struct words words;
};

static void run_telling(struct closer_job *job)
{
	struct telling *telling = container_of(job, struct telling, job);

	if (words_write(telling->fd, &telling->words) < 0)
		out_of_memory();
	close(telling->fd);
	send_event(PORTER_TOLD, telling->slot, 0);
	free(telling);
}

static void on_tell(const struct porter_order *order, int fd)
{
	struct telling *telling = need(malloc(sizeof(*telling)));

	*telling = (struct telling){.job.run = run_telling, .slot = order->slot, .fd = fd, .words = order->words};
	closer_run(CLOSER_WORDS, &telling->job);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

struct received {
	ssize_t bytes;
	unsigned int n;
	int fds[MAX_FDS];
};

static void collect(struct msghdr *header, struct received *in)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		unsigned int n = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || in->n + n > MAX_FDS)
			continue;
		memcpy(&in->fds[in->n], CMSG_DATA(c), n * sizeof(int));
		in->n += n;
	}
}

static int judge(const struct msghdr *header, const struct received *in)
{
	if (in->bytes == 0 && in->n == 0)
		return -ECONNRESET;
	if (header->msg_flags & MSG_TRUNC || (size_t)in->bytes > FRAMING_MAX_PACKET_BYTES || in->n > FRAMING_MAX_FDS)
		return -EMSGSIZE;
	/* The control buffer has room for all that a packet can carry, so this process had no free descriptor. */
	return header->msg_flags & MSG_CTRUNC ? -EMFILE : 0;
}

static int receive(int sock, struct received *in)
{
	struct iovec iov = {.iov_base = porter.packet, .iov_len = FRAMING_MAX_PACKET_BYTES + 1};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control;
	struct msghdr header = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};

	do
		in->bytes = recvmsg(sock, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (in->bytes < 0 && errno == EINTR);
	if (in->bytes < 0)
		return -errno;
	collect(&header, in);
	return judge(&header, in);
}

/* No request has more than one descriptor. If there are several, the porter passes none on and closes all with the hold. */
static void on_recv(const struct porter_order *order, const struct slot *slot)
{
	struct porter_news news = {.event = PORTER_PACKET, .slot = order->slot, .hold = order->hold};
	struct received in = {0};
	int fd = -1;

	news.r = receive(slot->sock, &in);
	news.n_fds = in.n;
	add_hold(order->hold, in.fds, in.n);
	if (news.r == 0 && in.n == 1) {
		inspect_fd(in.fds[0], &news.info);
		fd = inspect_refusal(news.info.kind) ? -1 : in.fds[0];
	}
	send_news(&news, porter.packet, news.r == 0 || news.r == -EMFILE ? (size_t)in.bytes : 0, fd);
}

/* ---- orders ------------------------------------------------------------------------------------------------------- */

static void on_keep(const struct porter_order *order, struct slot *slot)
{
	slot->is_kept = order->value;
	slot->was_kept |= slot->is_kept;
}

static void on_follow(struct slot *slot, int fd)
{
	safe_close(slot->follow);
	slot->follow = fd;
}

static void carry_out(const struct porter_order *order, int fd)
{
	struct slot *slot = hash_get(&porter.slots, order->slot);

	if (order->op == PORTER_SOCKET && fd >= 0)
		add_slot(order->slot, fd);
	else if (order->op == PORTER_HOLD && fd >= 0)
		add_hold(order->hold, &fd, 1);
	else if (order->op == PORTER_DROP)
		on_drop(order);
	else if (order->op == PORTER_LAST && order->hold != 0)
		on_last_of_hold(order->hold, fd);
	else if (order->op == PORTER_TELL && fd >= 0)
		on_tell(order, fd);
	else if (!slot)
		safe_close(fd);
	else if (order->op == PORTER_ATTACH && fd >= 0)
		attach(slot, fd);
	else if (order->op == PORTER_FOLLOW && fd >= 0)
		on_follow(slot, fd);
	else if (order->op == PORTER_RECV)
		on_recv(order, slot);
	else if (order->op == PORTER_KEEP)
		on_keep(order, slot);
	else if (order->op == PORTER_DRAIN)
		drain_slot(slot);
	else if (order->op == PORTER_END)
		end_slot(slot);
	else if (order->op == PORTER_LAST)
		slot->last = fd;
}

static int fd_of(struct msghdr *header)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(header);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void await_orders(void)
{
	struct pollfd wait = {.fd = porter.attr.channel, .events = POLLIN};

	while (!list_empty(&porter.graves) && poll(&wait, 1, look_at_graves()) <= 0)
		;
}

static void await_graves(void)
{
	int msec;

	while ((msec = look_at_graves()) >= 0)
		poll(NULL, 0, msec);
}

/* False: the channel has hung up. */
static bool serve_one(void)
{
	struct porter_order order;
	struct iovec iov = {.iov_base = &order, .iov_len = sizeof(order)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr header = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	ssize_t bytes = recvmsg(porter.attr.channel, &header, MSG_CMSG_CLOEXEC);

	/* The daemon did not read all news: that error precedes the orders that are still in the queue, and comes once. */
	if (bytes < 0 && (errno == EINTR || errno == ECONNRESET))
		return true;
	/*
	 * This process had no free descriptor, so it cannot hold what it was given: the daemon starts another porter and sends
	 * everything again. If the order was to close the descriptor, the kernel has done that.
	 */
	if (bytes > 0 && header.msg_flags & MSG_CTRUNC && order.op != PORTER_LAST)
		_exit(EXIT_FAILURE);
	if (bytes == (ssize_t)sizeof(order))
		carry_out(&order, fd_of(&header));
	return bytes > 0;
}

/* ---- after the daemon --------------------------------------------------------------------------------------------- */

static void wait_for_death(void)
{
	struct pollfd wait = {.fd = porter.attr.daemon_pidfd, .events = POLLIN};

	if (wait.fd < 0)
		poll(NULL, 0, BLIND_MSEC);
	else
		while (poll(&wait, 1, -1) < 0 && errno == EINTR)
			;
}

static bool any_kept(void)
{
	struct slot *slot;

	list_for_each_entry(slot, &porter.all_slots, link)
		if (slot->is_kept)
			return true;
	return false;
}

static void drop_all_holds(void)
{
	struct hold *hold;
	uint64_t id;
	size_t pos = 0;

	while ((hold = hash_next(&porter.holds, &pos, &id)))
		drop_hold(hold);
	hash_deinit(&porter.holds);
}

/* The clients see the end first: the closer may be busy. */
static void end_slots(bool kept)
{
	struct slot *slot, *tmp;

	list_for_each_entry(slot, &porter.all_slots, link)
		if (slot->is_kept == kept)
			shutdown(slot->sock, SHUT_RDWR);
	list_for_each_entry_safe(slot, tmp, &porter.all_slots, link)
		if (slot->is_kept == kept)
			end_slot(slot);
}

/* Each daemon that has taken everything over writes one byte (porters_tell_taken()). */
static int count_taken(void)
{
	int n = 0;

	return ioctl(porter.attr.lifeline, FIONREAD, &n) < 0 ? 0 : n;
}

/* True: the service manager has begun to close what it kept. False: the next daemon has all of it, or the time is over. */
static bool await_end(int n_taken)
{
	uint64_t end = nsec_add(nsec_now(), porter.attr.linger_msec * NSEC_PER_MSEC), now;
	struct pollfd wait = {.fd = porter.attr.lifeline};

	while ((now = nsec_now()) < end && count_taken() == n_taken) {
		uint64_t msec = (end - now) / NSEC_PER_MSEC + 1;

		look_at_graves();
		if (poll(&wait, 1, msec < LOOK_MSEC ? (int)msec : LOOK_MSEC) > 0)
			return true;
	}
	return false;
}

/*
 * The daemon has died. If the service manager gives the daemon up, it closes the sockets one after the other: their clients see the
 * end at once, and the porter's close comes later than the manager's. Otherwise the next daemon and its porters have them by then, and
 * the manager closes what the daemon did not take over.
 */
static void linger(int n_taken)
{
	bool is_given_up = await_end(n_taken);
	struct slot *slot;

	list_for_each_entry(slot, &porter.all_slots, link)
		if (is_given_up)
			shutdown(slot->sock, SHUT_RDWR);
	poll(NULL, 0, RELEASE_MSEC);
}

/* Only a close: the session may go on in the next daemon, which has this socket too. */
static void let_go_of_kept(void)
{
	struct slot *slot;

	list_for_each_entry(slot, &porter.all_slots, link)
		close(slot->sock);
}

void process_run(const struct process_attr *attr)
{
	char name[16];
	int n_taken;

	porter.attr = *attr;
	hash_init(&porter.slots);
	hash_init(&porter.holds);
	list_init(&porter.all_slots);
	list_init(&porter.graves);
	porter.packet = need(malloc(FRAMING_MAX_PACKET_BYTES + 1));
	sandbox_enter(false);
	snprintf(name, sizeof(name), "porter %u", attr->uid);
	prctl(PR_SET_NAME, name);
	send_event(PORTER_STARTED, 0, 0);
	do
		await_orders();
	while (serve_one());
	n_taken = count_taken();
	if (porter.holds.n > 0 || porter.slots.n > 0)
		wait_for_death();
	end_slots(false);
	drop_all_holds();
	if (any_kept())
		linger(n_taken);
	let_go_of_kept();
	await_graves();
	closer_wait();
	_exit(EXIT_SUCCESS);
}
