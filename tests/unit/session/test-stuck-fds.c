/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose close hangs count for their sender until they are closed. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/later.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

#define MAX_FDS 40
#define SLACK_FDS 100 /* sockets and pages of the sessions, and what may come before a session ends */
#define N_BLOCKING 40
#define N_FLOOD 600
#define OTHER_UID 4242u

/* In place of the C library's: the kernel returns this to a process with too many descriptors in flight that is not privileged. */
static int send_error;

ssize_t sendmsg(int sock, const struct msghdr *header, int flags)
{
	if (send_error && header->msg_controllen > 0) {
		errno = send_error;
		return -1;
	}
	return syscall(SYS_sendmsg, sock, header, flags);
}

/* As a kernel before 6.16 has it. */
static bool knows_no_passing;

int setsockopt(int sock, int level, int option, const void *value, socklen_t bytes)
{
	if (knows_no_passing && level == SOL_SOCKET && option == SO_PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, sock, level, option, value, bytes);
}

int getsockopt(int sock, int level, int option, void *value, socklen_t *bytes)
{
	if (knows_no_passing && level == SOL_SOCKET && option == SO_PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return (int)syscall(SYS_getsockopt, sock, level, option, value, bytes);
}

struct attack {
	int peers[N_BLOCKING]; /* while they are open, closing blocks */
	unsigned int n_sent, n_refused, n_ended, n_shut_out;
};

static int n_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	ASSERT(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int lingering(int *ret_peer)
{
	int sock = strange_fd_lingering(60, ret_peer);

	if (sock < 0)
		test_skip("no TCP here");
	return sock;
}

/* A Unix socket; the first ones hold what blocks when it is closed with them. */
static int next_fd(struct attack *attack)
{
	struct raw_client raw = {.sock = -1};
	int pair[2], inner;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	if (attack->n_sent < N_BLOCKING) {
		inner = lingering(&attack->peers[attack->n_sent]);
		raw.sock = pair[0];
		raw_send_bytes(&raw, "x", 1, &inner, 1);
		close(inner);
	}
	attack->n_sent++;
	close(pair[0]);
	return pair[1];
}

static void reg_one(struct attack *attack, struct pair *pair)
{
	struct msg req, rep;
	int fd = next_fd(attack);

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	pair->raw.pump = NULL;
	raw_send(&pair->raw, &req, &fd, 1);
	close(fd); /* before the session sees it: its own is the last */
	session_readable(pair->session);
	while (pair->session->is_reading && !pair->session->ended) {
		lab_hear_porters(pair->lab);
		session_readable(pair->session);
	}
	if (pair->session->ended) {
		attack->n_ended++;
		pair_expect_end(pair, SHMD_STATUS_QUOTA_FDS);
		return;
	}
	ASSERT_OK(raw_recv(&pair->raw, &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_ERROR_REP);
	attack->n_refused += rep.error_rep.status == SHMD_STATUS_QUOTA_FDS;
}

static void expect_shut_out(struct lab *lab)
{
	struct raw_client raw = {0};
	struct session *session;
	struct msg msg;
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	ASSERT_ERR(session_new(&lab->registry, socks[0], &session), EDQUOT);
	raw.sock = socks[1];
	ASSERT_OK(raw_recv(&raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_ERROR_REP);
	ASSERT_EQ(msg.error_rep.status, SHMD_STATUS_QUOTA_FDS);
	raw_close(&raw);
}

/* From now on its quota is that of another user. */
static void move_to_other_user(struct pair *pair, struct lab *lab)
{
	struct session *session = pair->session;

	quota_charge_deinit(&session->session_charge);
	quota_charge_deinit(&session->connection_charge);
	quota_user_deinit(&session->user);
	ASSERT_OK(quota_user_init(&session->user, &lab->registry.quota, OTHER_UID, ""));

}

static void register_file(struct pair *pair)
{
	int fd = raw_memfd(4096);
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	raw_expect(&pair->raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	close(fd);
}

static void wait_until_closed(struct lab *lab)
{
	uint64_t end = nsec_now() + 10 * NSEC_PER_SEC;

	do {
		ASSERT_LT(nsec_now(), end);
		lab_hear_porters(lab);
		quota_collect(&lab->registry.quota);
	} while (lab->registry.quota.total.n[QUOTA_FDS] >= MAX_FDS / 2);
}

TEST(descriptors_that_never_finish_closing_are_bounded_by_their_senders_quota)
{
	struct attack attack = {0};
	struct pair pair, other;
	struct lab lab;
	int before;

	/* Unread packets are cut off. */
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	lab_init_porters(&lab, MAX_FDS);
	pair_init_hello(&other, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&other.raw, "fake0");
	move_to_other_user(&other, &lab);
	before = n_open_fds();
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	while (attack.n_sent < N_FLOOD && !pair.session->ended)
		reg_one(&attack, &pair);
	ASSERT_LT(n_open_fds(), before + N_BLOCKING + MAX_FDS + SLACK_FDS);
	ASSERT_GT(attack.n_refused, 0);
	ASSERT_EQ(attack.n_ended, 1);
	pair_deinit(&pair);
	ASSERT_GE(lab.registry.quota.total.n[QUOTA_FDS], MAX_FDS);
	for (int i = 0; i < 10; i++)
		expect_shut_out(&lab);
	register_file(&other);

	for (int i = 0; i < N_BLOCKING; i++)
		close(attack.peers[i]);
	wait_until_closed(&lab);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	register_file(&pair);
	pair_deinit(&pair);
	pair_deinit(&other);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Packets that a session never reads stay in its socket: one open descriptor, which counts. */
TEST(descriptors_behind_the_end_of_a_session_cost_one)
{
	struct attack attack = {0};
	struct pair pair;
	struct lab lab;
	int fds[4];

	/* Unread packets are cut off. */
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	lab_init_porters(&lab, MAX_FDS);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	pair.raw.pump = NULL;
	for (int i = 0; i < 4; i++)
		fds[i] = next_fd(&attack);
	for (int i = 0; i < 4; i++) {
		raw_send_bytes(&pair.raw, "x", 1, &fds[i], 1);
		close(fds[i]);
	}
	pair_deinit(&pair);
	quota_collect(&lab.registry.quota);
	ASSERT_EQ(lab.registry.quota.total.n[QUOTA_FDS], 1);
	for (int i = 0; i < 4; i++)
		close(attack.peers[i]);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* If the kernel lets descriptors through anyway, the porter has the socket from the start. */
TEST(descriptors_before_hello_go_to_a_porter_if_the_kernel_lets_them_through)
{
	struct attack attack = {0};
	struct pair pair;
	struct lab lab;
	int fd;

	/* Unread packets are cut off. */
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	knows_no_passing = true;
	lab_init_porters(&lab, MAX_FDS);
	pair_init(&pair, &lab);
	ASSERT(pair.session->connection.slot);
	pair.raw.pump = NULL;
	fd = next_fd(&attack);
	raw_send_bytes(&pair.raw, "x", 1, &fd, 1);
	close(fd);
	pair_deinit(&pair);
	quota_collect(&lab.registry.quota);
	ASSERT_EQ(lab.registry.quota.total.n[QUOTA_FDS], 1);
	close(attack.peers[0]);
	knows_no_passing = false;
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(connection_has_no_porter_before_hello_if_the_kernel_blocks_descriptors)
{
	struct pair pair;
	struct lab lab;
	int fd = raw_memfd(4096), socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	/* As the listening socket has it. */
	if (framing_set_passing(socks[0], false) < 0)
		test_skip("no SO_PASSRIGHTS here");
	lab_init_porters(&lab, MAX_FDS);
	pair_init_on(&pair, &lab, socks);
	ASSERT(!pair.session->connection.slot);
	ASSERT_ERR(framing_send(pair.raw.sock, "x", 1, &fd, 1), EPERM);
	raw_hello(&pair.raw, MSG_ROLE_CLIENT);
	ASSERT(pair.session->connection.slot);
	raw_open_nic(&pair.raw, "fake0");
	register_file(&pair);
	close(fd);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Others do not read: a session that does is late, and nothing worse. */
TEST(too_many_descriptors_in_flight_delay_a_reply_and_end_no_session)
{
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, MAX_FDS);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	send_error = ETOOMANYREFS;
	raw_send(&pair.raw, &req, NULL, 0);
	ASSERT_ERR(raw_recv(&pair.raw, &rep, NULL), EAGAIN);
	ASSERT(!pair.session->ended);
	ASSERT(session_stalled(pair.session));
	ASSERT(!session_wants_write(pair.session)); /* its socket has room: a loop that waits for that would spin */
	session_writable(pair.session);
	ASSERT(session_stalled(pair.session));
	send_error = 0;
	session_writable(pair.session);
	ASSERT(!session_stalled(pair.session));
	ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_NIC_OPEN_REP);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* ---- what the daemon sent ------------------------------------------------------------------------------------- */

/* The reply brings the health page. */
static void ask_hello(struct pair *pair)
{
	struct msg req;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	raw_send(&pair->raw, &req, NULL, 0);
}

static void read_hello(struct pair *pair)
{
	struct msg rep;

	ASSERT_OK(raw_recv(&pair->raw, &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
}

static void move_and_recount(struct pair *pair, struct lab *lab)
{
	struct connection *conn = &pair->session->connection;

	move_to_other_user(pair, lab);
	quota_user_deinit(&conn->inflight->user);
	quota_user_copy(&conn->inflight->user, &pair->session->user);
}

/* Also when its sessions have ended. A client that reads is counted no longer. */
TEST(descriptors_that_a_user_leaves_unread_are_bounded_and_delay_no_other)
{
	uint64_t end = nsec_now() + 10 * NSEC_PER_SEC;
	struct pair hogs[2], more, other;
	struct lab lab;

	lab_init(&lab, MAX_FDS);
	lab.registry.quota.max_inflight_fds = 2;
	for (int i = 0; i < 2; i++) {
		pair_init(&hogs[i], &lab);
		ask_hello(&hogs[i]);
		hogs[i].session = session_free(hogs[i].session);
	}
	ASSERT_EQ(lab.registry.inflight.n_ended, 2);
	ASSERT_EQ(lab.registry.quota.total.n[QUOTA_CONNECTIONS], 2);
	pair_init(&more, &lab);
	ask_hello(&more);
	ASSERT(session_stalled(more.session));
	session_writable(more.session);
	ASSERT(session_stalled(more.session));
	pair_init(&other, &lab);
	move_and_recount(&other, &lab);
	ask_hello(&other);
	read_hello(&other);

	read_hello(&hogs[0]);
	while (session_stalled(more.session) && nsec_now() < end)
		session_writable(more.session);
	ASSERT(!session_stalled(more.session));
	read_hello(&more);
	ASSERT_EQ(lab.registry.inflight.n_ended, 1);
	raw_close(&hogs[0].raw);
	raw_close(&hogs[1].raw);
	pair_deinit(&more);
	pair_deinit(&other);
	lab_assert_empty(&lab);
	ASSERT_EQ(lab.registry.inflight.n_ended, 0);
	lab_deinit(&lab);
}

/* Hundreds of replies may wait, and each is tried a hundred times a second. */
TEST(replies_that_wait_for_room_look_at_others_seldom)
{
	uint64_t begin, end = nsec_now() + 10 * NSEC_PER_SEC;
	const struct list *first;
	struct pair pairs[40];
	struct lab lab;
	bool looked;

	lab_init(&lab, 1000);
	lab.registry.quota.max_inflight_fds = 39;
	for (int i = 0; i < 40; i++) {
		pair_init(&pairs[i], &lab);
		ask_hello(&pairs[i]);
	}
	ASSERT(session_stalled(pairs[39].session));
	/* Unless it was interrupted for long. */
	do {
		begin = nsec_now();
		lab.registry.inflight.looked_nsec = begin;
		first = lab.registry.inflight.sockets.next;
		for (int i = 0; i < 3; i++)
			session_writable(pairs[39].session);
		looked = lab.registry.inflight.sockets.next != first;
	} while (nsec_now() - begin >= NSEC_PER_MSEC && nsec_now() < end);
	ASSERT(!looked);
	for (int i = 0; i < 40; i++)
		pair_deinit(&pairs[i]);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* The end is behind what was not read, as if the socket were closed. */
TEST(client_that_reads_late_finds_what_was_sent_and_the_end)
{
	struct pair pair;
	struct msg rep;
	struct lab lab;

	lab_init(&lab, MAX_FDS);
	pair_init(&pair, &lab);
	ask_hello(&pair);
	pair.session = session_free(pair.session);
	ASSERT_EQ(lab.registry.inflight.n_ended, 1);
	read_hello(&pair);
	ASSERT_ERR(raw_recv(&pair.raw, &rep, NULL), ECONNRESET);
	lab_assert_empty(&lab);
	raw_close(&pair.raw);
	lab_deinit(&lab);
}

/* Without a regular look. */
TEST(a_connection_takes_the_place_of_one_whose_client_has_gone)
{
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 3);
	for (int i = 0; i < 10; i++) {
		pair_init(&pair, &lab);
		ask_hello(&pair);
		pair_deinit(&pair);
		ASSERT_EQ(lab.registry.inflight.n_ended, 1);
	}
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Its end of the socket, in an unread packet: what would keep the socket is in the socket. */
TEST(a_client_that_sends_its_own_socket_leaves_nothing)
{
	struct pair pair;
	struct lab lab;

	/* Unread packets are cut off. */
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	lab_init_porters(&lab, MAX_FDS);
	pair_init(&pair, &lab);
	ask_hello(&pair);
	pair.raw.pump = NULL;
	raw_send_bytes(&pair.raw, "x", 1, &pair.raw.sock, 1);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* The porter has a packet in hand when the client has read: descriptors behind that packet are for no other process. */
TEST(porter_that_drops_what_was_not_read_is_alone_at_the_socket)
{
	struct attack attack = {0};
	struct pair pair;
	struct lab lab;

	/* Unread packets are cut off. */
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	lab_init_porters(&lab, MAX_FDS);
	pair_init(&pair, &lab);
	ask_hello(&pair);
	pair.raw.pump = NULL;
	for (int i = 0; i < 2; i++) {
		int fd = next_fd(&attack);

		raw_send_bytes(&pair.raw, "x", 1, &fd, 1);
		raw_send_bytes(&pair.raw, "x", 1, NULL, 0);
		close(fd);
	}
	pair.session = session_free(pair.session);
	read_hello(&pair);
	inflight_look(&lab.registry.inflight, 1);
	ASSERT_EQ(lab.registry.inflight.n_ended, 0);
	quota_collect(&lab.registry.quota);
	ASSERT_EQ(lab.registry.quota.total.n[QUOTA_FDS], 1);
	for (int i = 0; i < 2; i++)
		close(attack.peers[i]);
	raw_close(&pair.raw);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* A session cannot end in a way that its descriptors are counted no more: with its own socket in the packet, as above. */
TEST(session_that_ends_while_there_are_no_descriptors_keeps_its_place_until_it_is_read)
{
	struct rlimit limit, none;
	struct pair pair;
	struct lab lab;

	/* Unread packets are cut off. */
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	lab_init_porters(&lab, MAX_FDS);
	pair_init(&pair, &lab);
	ask_hello(&pair);
	pair.raw.pump = NULL;
	raw_send_bytes(&pair.raw, "x", 1, &pair.raw.sock, 1);
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	none = (struct rlimit){0, limit.rlim_max};
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
	pair.session = session_free(pair.session);
	inflight_look(&lab.registry.inflight, 1);
	ASSERT_EQ(lab.registry.inflight.n_ended, 1);
	ASSERT_EQ(lab.registry.quota.total.n[QUOTA_CONNECTIONS], 1);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	raw_close(&pair.raw);
	inflight_look(&lab.registry.inflight, 1);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}
