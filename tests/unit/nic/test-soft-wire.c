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
#include <sys/eventfd.h>
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
	const struct zygote_order order = {.kind = ZYGOTE_EXECUTOR, .uid = uid};
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

	ASSERT_OK(zygote_start(&(struct zygote_runs){.run = {[ZYGOTE_EXECUTOR] = nic_soft_serve}}, &zygote));
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

/* ---- in the place of a process --------------------------------------------------------------------------------------------- */

static void reply(const struct lab *l, int sock, const struct remote_packet *request, int32_t result, const void *body, size_t bytes, unsigned int n_fds,
		  const int *fds)
{
	const struct remote_head head = {
		.op = request->head.op, .seq = request->head.seq, .result = result, .value = (uint32_t)l->value, .bytes = bytes};

	ASSERT_OK(remote_send(sock, &head, body, n_fds, fds, false));
}

static void be_asked(struct lab *l)
{
	struct remote_packet packet;

	if (remote_recv(l->asks, REMOTE_FOR_EVER, &packet) < 0)
		return;
	ASSERT_EQ(packet.head.op, REMOTE_EVENTS);
	l->events = remote_packet_take_fd(&packet, 0);
	reply(l, l->asks, &packet, 0, NULL, 0, 0, NULL);
	remote_packet_deinit(&packet);
}

static void open_one(struct lab *l, const struct remote_packet *request)
{
	const struct remote_opened opened = {.ctx = 1, .pdn = 1, .n_ports = 1};
	int fds[REMOTE_FD_NIC_PAGE];

	for (unsigned int i = 0; i < REMOTE_FD_NIC_PAGE; i++)
		fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	reply(l, l->works, request, 0, &opened, sizeof(opened), REMOTE_FD_NIC_PAGE, fds);
	for (unsigned int i = 0; i < REMOTE_FD_NIC_PAGE; i++)
		close(fds[i]);
}

static void work(struct lab *l, struct remote_packet *request)
{
	uint32_t op = request->head.op;

	if (op == REMOTE_INIT) {
		l->asks = remote_packet_take_fd(request, 0);
		reply(l, l->works, request, l->first_result, NULL, 0, 0, NULL);
		be_asked(l);
	} else if (op == REMOTE_CTX_OPEN) {
		open_one(l, request);
	} else {
		reply(l, l->works, request, l->result, NULL, 0, 0, NULL);
	}
}

static void *impersonate(void *arg)
{
	struct lab *l = arg;
	struct remote_packet request;

	while (remote_recv(l->works, REMOTE_FOR_EVER, &request) == 0) {
		work(l, &request);
		remote_packet_deinit(&request);
	}
	shutdown(l->works, SHUT_RDWR);
	if (l->asks >= 0)
		shutdown(l->asks, SHUT_RDWR);
	return NULL;
}

static int start_impostor(void *arg, uint32_t uid, int *ret_channel)
{
	struct lab *l = arg;
	int fds[2];

	ASSERT_OK(remote_pair(fds));
	*ret_channel = fds[0];
	l->works = fds[1];
	return -pthread_create(&l->thread, NULL, impersonate, l);
}

static int open_ctx(struct lab *l, struct nic_ctx **ret_ctx)
{
	const struct nic_ctx_attr attr = {.session_id = 1, .uid = UID, .health_fd = -1};

	return l->nic->ops->ctx_open(l->nic, &attr, ret_ctx);
}

static void lab_deinit_impostor(struct lab *l)
{
	ASSERT(!l->nic->ops->close(l->nic));
	ASSERT_OK(pthread_join(l->thread, NULL));
	close(l->works);
	close(l->asks);
	if (l->events >= 0)
		close(l->events);
}

/* Results are 0 or an error. Whoever calls the NIC takes anything else for a success, with what comes of it. */
TEST(a_process_whose_start_has_no_such_result_counts_as_dead)
{
	struct nic_ctx *ctx = NULL;
	struct lab l;

	lab_init(&l, start_impostor);
	l.first_result = 1;
	ASSERT_LT(open_ctx(&l, &ctx), 0);
	ASSERT(!ctx);
	lab_deinit_impostor(&l);
}

TEST(a_work_with_no_such_result_fails)
{
	const struct nic_peer peer = {.qpn = 1};
	struct nic_ctx *ctx;
	unsigned int n_done;
	struct lab l;

	lab_init(&l, start_impostor);
	ASSERT_OK(open_ctx(&l, &ctx));
	l.value = 7;
	ASSERT_ERR(l.nic->ops->connect(ctx, 1, &peer, &client_params, &n_done), EIO);
	l.value = -5000;
	ASSERT_ERR(l.nic->ops->connect(ctx, 1, &peer, &client_params, &n_done), EIO);
	l.result = 7;
	ASSERT_ERR(l.nic->ops->qp_modify(ctx, 1, NIC_QPS_ERR), ENODEV);
	l.nic->ops->ctx_close(ctx);
	lab_deinit_impostor(&l);
}

static int unread_bytes(int sock)
{
	int n = 0;

	ASSERT_OK(ioctl(sock, SIOCOUTQ, &n));
	return n;
}

/* A process could write them as fast as they are read, and the loop of the daemon would have no end. */
TEST(events_of_sessions_that_are_not_there_are_dropped_a_few_at_a_time)
{
	struct nic_event event = {.kind = NIC_EVENT_QP_ERROR, .session_id = 99};
	struct nic_ctx *ctx;
	struct lab l;
	int r;

	lab_init(&l, start_impostor);
	ASSERT_OK(open_ctx(&l, &ctx));
	for (unsigned int i = 0; i < 100; i++)
		ASSERT_EQ(send(l.events, &event, sizeof(event), MSG_DONTWAIT), (ssize_t)sizeof(event));
	event.session_id = 1;
	ASSERT_EQ(send(l.events, &event, sizeof(event), MSG_DONTWAIT), (ssize_t)sizeof(event));
	ASSERT_ERR(l.nic->ops->next_event(l.nic, &event), EAGAIN);
	ASSERT_GT(unread_bytes(l.events), 0);
	for (unsigned int i = 0; i < 100 && (r = l.nic->ops->next_event(l.nic, &event)) == -EAGAIN; i++)
		;
	ASSERT_OK(r);
	ASSERT_EQ(event.session_id, 1u);
	l.nic->ops->ctx_close(ctx);
	lab_deinit_impostor(&l);
}

/* ---- wishes ----------------------------------------------------------------------------------------------------------------- */

TEST(a_process_cannot_make_the_daemon_wait_for_its_wish)
{
	const struct remote_want want = {.nic = 3, .peer_nic = 2, .peer_seat = 200};
	int fd = eventfd(0, EFD_CLOEXEC); /* as a process leaves it that cleared O_NONBLOCK */
	struct remote_want got;
	uint64_t word;

	if (test_emulator())
		test_skip("an emulator of programs has no preadv2");
	ASSERT_GE(fd, 0);
	ASSERT_ERR(remote_want_read(fd, &word), EAGAIN);
	word = remote_want_encode(&want);
	ASSERT_EQ(write(fd, &word, sizeof(word)), (ssize_t)sizeof(word));
	ASSERT_OK(remote_want_read(fd, &word));
	got = remote_want_decode(word);
	ASSERT(got.nic == want.nic && got.peer_nic == want.peer_nic && got.peer_seat == want.peer_seat);
	ASSERT_ERR(remote_want_read(fd, &word), EAGAIN);
	close(fd);
}

/* Ancillary data are padded, and the number that a packet may have is odd. */
TEST(packet_with_a_descriptor_too_many_comes_without_any)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE((REMOTE_MAX_FDS + 2) * sizeof(int))] = {0};
	struct remote_head head = {.op = REMOTE_CTX_OPEN};
	struct iovec iov = {.iov_base = &head, .iov_len = sizeof(head)};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	struct remote_packet packet;
	int ends[2], socks[2], fds[REMOTE_MAX_FDS + 2];
	char byte;

	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	ASSERT_OK(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	ASSERT_OK(remote_pair(socks));
	for (unsigned int i = 0; i < REMOTE_MAX_FDS + 2; i++)
		fds[i] = ends[1];
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(fds)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	ASSERT_EQ(sendmsg(socks[0], &header, 0), (ssize_t)sizeof(head));
	close(ends[1]);
	ASSERT_OK(remote_recv(socks[1], REMOTE_FOR_EVER, &packet));
	ASSERT_EQ(packet.n_fds, 0u);
	ASSERT_EQ(read(ends[0], &byte, 1), 0);
	remote_packet_deinit(&packet);
	close(ends[0]);
	close(socks[0]);
	close(socks[1]);
}
