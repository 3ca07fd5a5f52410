/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that lie, change or come in floods: the daemon refuses them, holds none, and serves the others. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/hostile-lab.h"
#include "tests/system/raw-traffic.h"

#define KERNEL_MAX_FDS 253u /* SCM_MAX_FD */

/* With one NIC: each starts a thread for its first session, and keeps it. */
static void start(struct fixture_daemon *daemon)
{
	fixture_daemon_start(daemon, "--soft-nics=1", NULL);
}

static void fill_reg(struct msg *req)
{
	msg_init(req, MSG_MEM_REG_REQ, 0);
	req->mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 4096};
}

static void open_session(struct raw_client *raw, const struct fixture_daemon *daemon)
{
	raw_connect(raw, daemon->socket);
	raw_hello(raw, MSG_ROLE_CLIENT);
	raw_open_nic(raw, "");
}

/* Ask, and keep what comes with the reply. */
static void ask_for_fds(struct raw_client *raw, struct msg *req, struct msg *rep, struct fdlist *fds)
{
	fdlist_init(fds);
	raw_send(raw, req, NULL, 0);
	ASSERT_OK(raw_recv(raw, rep, fds));
	ASSERT_GT(fds->n, 0);
}

/* Cut it, punch it, fill it, empty it, make its reader block. Returns how many were memory. */
static unsigned int abuse(const struct fdlist *fds)
{
	const uint64_t most = UINT64_MAX - 1;
	unsigned int n_memfds = 0;
	uint64_t count;

	for (unsigned int i = 0; i < fds->n; i++) {
		int fd = fdlist_get(fds, i);

		if (fcntl(fd, F_GET_SEALS) < 0) {
			ASSERT_EQ(write(fd, &most, sizeof(most)), sizeof(most));
			ASSERT_OK(fcntl(fd, F_SETFL, 0));
			ASSERT_EQ(read(fd, &count, sizeof(count)), sizeof(count));
			continue;
		}
		ASSERT_EQ(ftruncate(fd, 0), -1);
		ASSERT_EQ(errno, EPERM);
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
		n_memfds++;
	}
	return n_memfds;
}

/* Health page, doorbell page, NIC page, wake descriptor, queue memory; another session's traffic goes on. */
TEST(descriptors_from_the_daemon_cannot_be_turned_against_it)
{
	struct msg_hello_req hello = {.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	struct fixture_daemon daemon;
	unsigned int n_memfds = 0;
	struct fdlist fds[3];
	struct raw_client raw;
	struct raw_traffic t;
	struct msg req, rep;

	start(&daemon);
	raw_connect(&raw, daemon.socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = hello;
	ask_for_fds(&raw, &req, &rep, &fds[0]);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	ask_for_fds(&raw, &req, &rep, &fds[1]);
	raw_fill_create(&req, 3);
	ask_for_fds(&raw, &req, &rep, &fds[2]);
	msg_deinit(&rep);
	raw_traffic_init(&t, daemon.socket);
	for (unsigned int i = 0; i < 3; i++)
		n_memfds += abuse(&fds[i]);
	ASSERT_GE(n_memfds, 4);
	for (int i = 0; i < 100; i++) {
		raw_traffic_write(&t, 8192, 0, 4096);
		ASSERT_EQ(raw_traffic_poll(&t), SHMD_CQE_REQ);
	}
	for (unsigned int i = 0; i < 3; i++)
		fdlist_deinit(&fds[i]);
	raw_close(&raw);
	fixture_daemon_assert_alive(&daemon);
	raw_traffic_deinit(&t);
	fixture_daemon_stop(&daemon);
}

struct cutter {
	int fd;
	bool stop;
};

static void *cut_and_grow(void *arg)
{
	struct cutter *cutter = arg;

	while (!__atomic_load_n(&cutter->stop, __ATOMIC_ACQUIRE))
		if (ftruncate(cutter->fd, 0) < 0 || ftruncate(cutter->fd, STRANGE_FD_BYTES) < 0)
			break;
	return NULL;
}

/* While a thread cuts and grows it, and in the end seals it: whatever is taken holds what was asked for. */
TEST(memory_that_shrinks_while_it_is_registered)
{
	struct cutter cutter = {.fd = strange_fd_new(STRANGE_UNSEALED)};
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	pthread_t thread;

	start(&daemon);
	open_session(&raw, &daemon);
	ASSERT_OK(pthread_create(&thread, NULL, cut_and_grow, &cutter));
	for (int i = 0; i < 300; i++) {
		raw_fill_create(&req, 1);
		req.queue_create_req.mem_kind = MSG_MEM_MEMFD;
		req.queue_create_req.mem_bytes = STRANGE_FD_BYTES;
		raw_expect_error(&raw, &req, &cutter.fd, 1, SHMD_STATUS_MEM_SEALS);
		fill_reg(&req);
		raw_expect_error(&raw, &req, &cutter.fd, 1, SHMD_STATUS_MEM_SEALS);
	}
	ASSERT_OK(fcntl(cutter.fd, F_ADD_SEALS, F_SEAL_SHRINK));
	raw_ask(&raw, &req, &cutter.fd, 1, &rep);
	ASSERT(rep.kind == MSG_MEM_REG_REP || rep.error_rep.status == SHMD_STATUS_MEM_RANGE);
	__atomic_store_n(&cutter.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	close(cutter.fd);
	fixture_daemon_assert_alive(&daemon);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(descriptors_that_are_not_what_they_claim_are_refused_and_closed)
{
	struct fixture_daemon daemon;
	struct raw_client raw, other;
	unsigned int n_fds;

	start(&daemon);
	open_session(&other, &daemon);
	n_fds = hostile_settled_fds(&daemon);
	open_session(&raw, &daemon);
	for (unsigned int kind = 0; kind < STRANGE_FD_N; kind++)
		hostile_try_everything(&raw, kind);
	raw_close(&raw);
	hostile_expect_alone(&other);
	hostile_expect_fds(&daemon, n_fds);
	raw_close(&other);
	fixture_daemon_stop(&daemon);
}

/* As many as the kernel lets through, with a packet that is a request. False when the daemon has hung up. */
static bool flood(struct raw_client *raw, int fd, unsigned int n_fds)
{
	static const char packet[] = "\x08\x05\x92\x03\x00"; /* status-req */
	struct iovec iov = {.iov_base = (void *)packet, .iov_len = sizeof(packet) - 1};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(KERNEL_MAX_FDS * sizeof(int))];
	} control = {0};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
				.msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};

	control.align = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
	for (unsigned int i = 0; i < n_fds; i++)
		memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &fd, sizeof(fd));
	return sendmsg(raw->sock, &header, MSG_NOSIGNAL) >= 0;
}

/* Clients that send nothing but descriptors, before Hello and after it; the pair tells when all copies are closed. */
TEST(floods_of_descriptors_leave_none)
{
	static const unsigned int amounts[] = {KERNEL_MAX_FDS, FRAMING_MAX_FDS + 1, FRAMING_MAX_FDS};
	struct fixture_daemon daemon;
	struct raw_client raw, other;
	unsigned int n_fds;
	int socks[2];
	char c;

	start(&daemon);
	open_session(&other, &daemon);
	n_fds = hostile_settled_fds(&daemon);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
	for (unsigned int i = 0; i < 60; i++) {
		raw_connect(&raw, daemon.socket);
		if (i & 1)
			raw_hello(&raw, MSG_ROLE_CLIENT);
		for (unsigned int k = 0; k < 20 && flood(&raw, socks[0], amounts[i / 2 % 3]); k++)
			;
		raw_close(&raw);
	}
	close(socks[0]);
	ASSERT_EQ(read(socks[1], &c, 1), 0);
	close(socks[1]);
	hostile_expect_alone(&other);
	hostile_expect_fds(&daemon, n_fds);
	raw_close(&other);
	fixture_daemon_stop(&daemon);
}

/* Each reply has a descriptor, and the client takes none: what the daemon keeps for one client has an end. */
TEST(fetched_descriptors_that_stay_unread_are_bounded)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	int fd = strange_fd_new(STRANGE_SEALED), r = 0, bytes;
	struct fixture_daemon daemon;
	struct raw_client raw, other;
	unsigned int n_fds, most = 0;
	struct msg req, rep;

	start(&daemon);
	open_session(&other, &daemon);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.has_fd = true;
	raw_expect(&raw, &req, &fd, 1, MSG_OK_REP, &rep);
	n_fds = hostile_settled_fds(&daemon);
	msg_init(&req, MSG_FETCH_REQ, 9);
	bytes = msg_encode(&req, buf, sizeof(buf));
	for (unsigned int i = 0; i < 20000 && r == 0; i++) {
		r = framing_send(raw.sock, buf, (size_t)bytes, NULL, 0);
		if (i % 64 == 0 && daemon_n_fds(daemon.pid) > most)
			most = daemon_n_fds(daemon.pid);
	}
	ASSERT(r == -EPIPE || r == -ECONNRESET);
	ASSERT_LE(most, n_fds + 256);
	raw_close(&raw);
	close(fd);
	hostile_expect_alone(&other);
	hostile_expect_fds(&daemon, n_fds);
	raw_close(&other);
	fixture_daemon_stop(&daemon);
}

/* ---- refused connections -------------------------------------------------------------------------------------- */

#define N_EARLY 40u

static bool kernel_refuses_fds(void)
{
	int socks[2], r;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	r = framing_set_passing(socks[0], false);
	close(socks[0]);
	close(socks[1]);
	return r == 0;
}

/* Sent to a daemon that stands still, so that it cannot have accepted: nothing reaches it that it would have to close. */
TEST(descriptors_cannot_be_sent_before_a_connection_is_accepted)
{
	struct raw_client early[N_EARLY], raw;
	int fd = strange_fd_new(STRANGE_SEALED);
	/* The daemon closes descriptors that an older kernel lets through. */
	const int expected = kernel_refuses_fds() ? -EPERM : 0;
	struct fixture_daemon daemon;
	unsigned int n_fds;
	struct msg req, rep;

	fixture_daemon_start(&daemon, "--soft-nics=1", "--max-connections=3", NULL);
	n_fds = hostile_settled_fds(&daemon);
	ASSERT_OK(kill(daemon.pid, SIGSTOP));
	ASSERT_EQ(waitpid(daemon.pid, NULL, WUNTRACED), daemon.pid);
	for (unsigned int i = 0; i < N_EARLY; i++) {
		raw_connect(&early[i], daemon.socket);
		ASSERT_EQ(framing_send(early[i].sock, "x", 1, &fd, 1), expected);
	}
	ASSERT_OK(kill(daemon.pid, SIGCONT));
	/* Three are let in, and the last is not. */
	ASSERT_OK(raw_recv(&early[N_EARLY - 1], &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_ERROR_REP);
	for (unsigned int i = 0; i < N_EARLY; i++)
		raw_close(&early[i]);
	hostile_expect_fds(&daemon, n_fds);
	/* Any client with a session may send them. */
	open_session(&raw, &daemon);
	fill_reg(&req);
	raw_expect(&raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	close(fd);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* ---- what the process may open -------------------------------------------------------------------------------- */

#define SMALL_LIMIT 200u
#define N_FLOOD 120u /* each costs the daemon two */

static void wait_for_fds(const struct fixture_daemon *daemon, unsigned int n)
{
	uint64_t end = nsec_now() + 10 * NSEC_PER_SEC;

	while (daemon_n_fds(daemon->pid) < n) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "the daemon holds %u descriptors and not %u", daemon_n_fds(daemon->pid), n);
		usleep(5000);
	}
}

/* Connections that wait for a place get one when it is free. */
TEST(a_flood_of_connections_leaves_descriptors_to_sessions_that_live)
{
	const struct rlimit limit = {SMALL_LIMIT, SMALL_LIMIT};
	struct raw_client flood[N_FLOOD], raw, late;
	struct fixture_daemon daemon;

	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	fixture_daemon_start(&daemon, "--soft-nics=1", "--handshake-timeout=600000", NULL);
	open_session(&raw, &daemon);
	for (unsigned int i = 0; i < N_FLOOD; i++)
		raw_connect(&flood[i], daemon.socket);
	wait_for_fds(&daemon, SMALL_LIMIT - SMALL_LIMIT / 8 - 1);
	ASSERT_LT(hostile_settled_fds(&daemon), SMALL_LIMIT - SMALL_LIMIT / 10);
	for (unsigned int i = 0; i < 20; i++)
		raw_reg(&raw, 4096);
	for (unsigned int i = 0; i < N_FLOOD; i++)
		raw_close(&flood[i]);
	open_session(&late, &daemon);
	raw_reg(&late, 4096);
	raw_close(&late);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* ---- what was sent and is not read ---------------------------------------------------------------------------- */

static void expect_hang_up(const struct raw_client *raw)
{
	struct pollfd p = {.fd = raw->sock, .events = 0};

	ASSERT_EQ(poll(&p, 1, 10000), 1);
	ASSERT(p.revents & POLLHUP);
}

/* It holds its socket, and the daemon does not wait for ever: what was kept for it goes when it reads or hangs up. */
TEST(sessions_that_end_with_unread_descriptors_leave_nothing)
{
	struct fixture_daemon daemon;
	struct raw_client raw[20], other;
	unsigned int n_fds;
	struct msg req;

	start(&daemon);
	open_session(&other, &daemon);
	n_fds = hostile_settled_fds(&daemon);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	for (unsigned int i = 0; i < 20; i++) {
		raw_connect(&raw[i], daemon.socket);
		raw_send(&raw[i], &req, NULL, 0);
		ASSERT_OK(shutdown(raw[i].sock, SHUT_WR));
	}
	/* The sessions have gone with their health pages, and a socket is left of each. */
	for (unsigned int i = 0; i < 20; i++)
		expect_hang_up(&raw[i]);
	hostile_expect_fds(&daemon, n_fds + 20);
	ASSERT_EQ(hostile_settled_fds(&daemon), n_fds + 20);
	for (unsigned int i = 0; i < 10; i++)
		ASSERT_OK(raw_recv(&raw[i], &req, NULL));
	for (unsigned int i = 10; i < 20; i++)
		raw_close(&raw[i]);
	hostile_expect_fds(&daemon, n_fds);
	for (unsigned int i = 0; i < 10; i++)
		raw_close(&raw[i]);
	raw_close(&other);
	fixture_daemon_stop(&daemon);
}

/* ---- ways in -------------------------------------------------------------------------------------------------- */

#define ACCEPTING 0x10000u /* flags of /proc/net/unix: __SO_ACCEPTCON */

/* The Unix sockets of the daemon's network namespace: is this one of them, and does it listen, and where? */
static bool find_unix(pid_t pid, unsigned long inode, unsigned int *ret_flags, char path[256])
{
	unsigned long number;
	char name[64], line[512];
	bool found = false;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/net/unix", pid);
	f = fopen(name, "re");
	ASSERT(f);
	while (!found && fgets(line, sizeof(line), f)) {
		path[0] = 0;
		found = sscanf(line, "%*s %*x %*x %x %*x %*x %lu %255s", ret_flags, &number, path) >= 2 && number == inode;
	}
	fclose(f);
	return found;
}

/* Is this descriptor a socket, and if so, which? */
static bool socket_inode(int dir_fd, const char *name, unsigned long *ret_inode)
{
	char target[256] = "";

	return readlinkat(dir_fd, name, target, sizeof(target) - 1) > 0 &&
	       sscanf(target, "socket:[%lu]", ret_inode) == 1;
}

/*
 * The list of sockets is read in parts, and what comes and goes in the whole namespace meanwhile may hide one; sockets
 * of the daemon that are about to close are gone at the next look.
 */
static bool is_unix_or_gone(pid_t pid, int dir_fd, const char *name, unsigned int *ret_flags, char path[256])
{
	uint64_t end = nsec_now() + 10 * NSEC_PER_SEC;
	unsigned long inode;

	while (socket_inode(dir_fd, name, &inode)) {
		if (find_unix(pid, inode, ret_flags, path))
			return true;
		if (nsec_now() > end)
			return false;
		usleep(10000);
	}
	*ret_flags = 0;
	return true;
}

/* With sessions on two NICs and traffic: sockets of any other family are entrances that no filter covers. */
TEST(the_control_socket_is_the_only_way_in)
{
	unsigned int n_listening = 0, n_sockets = 0, flags;
	struct fixture_daemon daemon;
	struct raw_traffic t[2];
	char folder[64], path[256];
	unsigned long inode;
	struct dirent *entry;
	DIR *dir;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (int i = 0; i < 2; i++) {
		raw_traffic_init(&t[i], daemon.socket);
		raw_traffic_write(&t[i], 8192, 0, 4096);
		ASSERT_EQ(raw_traffic_poll(&t[i]), SHMD_CQE_REQ);
	}
	snprintf(folder, sizeof(folder), "/proc/%d/fd", daemon.pid);
	dir = opendir(folder);
	ASSERT(dir);
	while ((entry = readdir(dir))) {
		if (!socket_inode(dirfd(dir), entry->d_name, &inode))
			continue;
		n_sockets++;
		if (!is_unix_or_gone(daemon.pid, dirfd(dir), entry->d_name, &flags, path))
			test_fail(TEST_WHERE, "descriptor %s is a socket of another family than AF_UNIX", entry->d_name);
		if (flags & ACCEPTING) {
			ASSERT_STREQ(path, daemon.socket);
			n_listening++;
		}
	}
	closedir(dir);
	ASSERT_EQ(n_listening, 1);
	ASSERT_GE(n_sockets, 3);
	for (int i = 0; i < 2; i++)
		raw_traffic_deinit(&t[i]);
	fixture_daemon_stop(&daemon);
}
