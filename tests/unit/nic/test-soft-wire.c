/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the daemon and the processes of executors: somebody in the middle changes what happens when a packet passes, or takes the
 * place of a process and says what no process of ours says.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "daemon/nic/soft/remote/remote-wire.h"
#include "daemon/porter/zygote.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define UID 70001u
#define MANY_QPS 4096u /* their layout does not fit a packet */
#define QUIET_NSEC (30 * NSEC_PER_MSEC)

/* One NIC, whose processes are what start() makes. */
struct lab {
	struct list nics;
	struct nic *nic;
	pthread_t thread;

	/* in the middle */
	int zygote, daemon, process;
	void (*look)(struct lab *l, const struct remote_head *head, bool is_answer); /* before it is passed on */

	/* in the place of a process */
	int works, asks, events;
	int32_t first_result, result, value; /* of the start, of works, of what else an answer says */
};

static void lab_init(struct lab *l, int (*start)(void *arg, uint32_t uid, int *ret_channel))
{
	const struct nic_soft_attr attr = {
		.n_nics = 1, .gpu_poll_usec = 100, .spin_usec = 20, .start_process = start, .start_arg = l, .linger_msec = 200};

	*l = (struct lab){.asks = -1, .events = -1};
	list_init(&l->nics);
	ASSERT_OK(nic_soft_probe(&attr, &l->nics));
	l->nic = list_first_entry(&l->nics, struct nic, link);
}

/* ---- in the middle --------------------------------------------------------------------------------------------------------- */

static void close_fds(struct msghdr *header)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(header);
	int fd;

	for (size_t at = 0; c && CMSG_LEN(at + sizeof(fd)) <= c->cmsg_len; at += sizeof(fd)) {
		memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
		close(fd);
	}
}

/* As it is, with its descriptors. False: the sender has gone. */
static bool pass(struct lab *l, int from, int to)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * (REMOTE_MAX_FDS + 1))];
	static uint8_t packet[sizeof(struct remote_head) + REMOTE_INLINE_BYTES];
	struct iovec iov = {.iov_base = packet, .iov_len = sizeof(packet)};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct remote_head head;
	ssize_t n = recvmsg(from, &header, MSG_CMSG_CLOEXEC);

	if (n < (ssize_t)sizeof(head))
		return false;
	memcpy(&head, packet, sizeof(head));
	l->look(l, &head, from == l->process);
	iov.iov_len = (size_t)n;
	n = sendmsg(to, &header, MSG_NOSIGNAL);
	close_fds(&header);
	return n > 0;
}

/* Requests and answers take turns. */
static void *relay(void *arg)
{
	struct lab *l = arg;

	while (pass(l, l->daemon, l->process) && pass(l, l->process, l->daemon))
		;
	shutdown(l->daemon, SHUT_RDWR);
	shutdown(l->process, SHUT_RDWR);
	return NULL;
}

static int start_behind_relay(void *arg, uint32_t uid, int *ret_channel)
{
	const struct zygote_order order = {.kind = ZYGOTE_NIC, .uid = uid};
	struct lab *l = arg;
	int fds[2], r;

	r = zygote_fork(l->zygote, &order, -1, &l->process);
	if (r < 0)
		return r;
	ASSERT_OK(fcntl(l->process, F_SETFL, 0));
	ASSERT_OK(remote_pair(fds));
	*ret_channel = fds[0];
	l->daemon = fds[1];
	return -pthread_create(&l->thread, NULL, relay, l);
}

static void lab_init_relay(struct lab *l, void (*look)(struct lab *l, const struct remote_head *head, bool is_answer))
{
	int zygote;

	ASSERT_OK(zygote_start(nic_soft_serve, &zygote));
	lab_init(l, start_behind_relay);
	l->zygote = zygote;
	l->look = look;
}

static void lab_deinit_relay(struct lab *l)
{
	ASSERT(!l->nic->ops->close(l->nic));
	ASSERT_OK(pthread_join(l->thread, NULL));
	close(l->daemon);
	close(l->process);
	close(l->zygote);
}

/* After the daemon has written down how ports are, and before the process has read it. */
static void take_port_down(struct lab *l, const struct remote_head *head, bool is_answer)
{
	if (head->op == REMOTE_INIT && !is_answer)
		ASSERT_OK(l->nic->ops->port_set(l->nic, NIC_PORT_DOWN));
}

TEST(a_process_that_is_starting_hears_that_a_port_goes_down)
{
	struct shmd_cqe cqe;
	struct client c;
	struct lab l;

	lab_init_relay(&l, take_port_down);
	client_open_for(&c, l.nic, 1, UID, 1);
	client_connect(&c, 0, &c, 0);
	client_post_inline(&c, 0, 1, &c, 0);
	client_ring(&c, 0);
	ASSERT(!client_poll(&c, 0, &cqe, QUIET_NSEC));
	ASSERT_OK(l.nic->ops->port_set(l.nic, NIC_PORT_ACTIVE));
	client_complete(&c, 0);
	client_close(&c);
	lab_deinit_relay(&l);
}

static int create_many(struct client *c, struct nic_queues **ret_queues)
{
	_cleanup_(nic_layout_deinit) struct nic_layout layout = {0};
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues_attr attr;
	uint8_t *map;
	int r;

	client_attr(&attr, MANY_QPS, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	mem.length_bytes = layout.total_bytes;
	mem.fd = client_memfd(mem.length_bytes, &map);
	r = c->ctx->nic->ops->queues_create(c->ctx, &mem, &layout, ret_queues);
	munmap(map, mem.length_bytes);
	close(mem.fd);
	return r;
}

static struct rlimit fds_before;
static unsigned int n_undone;

/* From the answer to a large request on, and until the daemon has had it. */
static void leave_no_fds(struct lab *l, const struct remote_head *head, bool is_answer)
{
	const struct rlimit none = {.rlim_cur = 3, .rlim_max = fds_before.rlim_max};

	if (head->op == REMOTE_QUEUES_CREATE && is_answer && head->is_in_file && n_undone == 0)
		ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
	if (head->op == REMOTE_QUEUES_DESTROY && !is_answer)
		ASSERT_OK(setrlimit(RLIMIT_NOFILE, &fds_before));
	if (head->op == REMOTE_QUEUES_DESTROY && is_answer)
		n_undone += head->result == 0;
}

TEST(queues_whose_answer_finds_no_room_in_the_daemon_are_gone)
{
	struct nic_queues *queues;
	struct client c;
	struct lab l;

	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &fds_before));
	lab_init_relay(&l, leave_no_fds);
	client_open_for(&c, l.nic, 1, UID, 1);
	ASSERT_ERR(create_many(&c, &queues), EMFILE);
	ASSERT_EQ(n_undone, 1u);
	ASSERT_OK(create_many(&c, &queues));
	ASSERT_OK(l.nic->ops->queues_destroy(queues));
	client_close(&c);
	lab_deinit_relay(&l);
}
