/* SPDX-License-Identifier: Apache-2.0 */
/* A porter that dies, and one that cannot be forked: another one gets what it had, and no request waits for ever. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/porter/foreign-account.h"
#include "daemon/porter/porter.h"
#include "daemon/porter/zygote.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/child.h"
#include "tests/lib/test.h"
#include "porter-lab.h"

static void kill_porter(struct scene *s)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	unsigned int n_failed = s->n_failed;
	pid_t pid;

	while ((pid = find_porter()) == 0)
		ASSERT_LT(nsec_now(), end);
	ASSERT_OK(kill(pid, SIGKILL));
	while (s->n_failed == n_failed) {
		ASSERT_LT(nsec_now(), end);
		hear(s);
	}
}

/* The session has gone, and its socket stays open for what its client has not read. */
static void drain_while_the_porter_reads(struct client *client, struct scene *s, pid_t *ret_porter, int *ret_pipe)
{
	scene_init(s);
	client_init(client, s);
	while ((*ret_porter = find_porter()) == 0)
		hear(s);
	ASSERT_OK(kill(*ret_porter, SIGSTOP));
	*ret_pipe = send_pipe(client);
	ASSERT_OK(porter_slot_recv(client->slot));
	ASSERT_OK(shutdown(client->sock, SHUT_RDWR));
	porter_slot_drain(client->slot);
}

TEST_TIMEOUT(packet_that_comes_after_the_drain_is_closed_and_not_reported, 60)
{
	struct client client;
	struct scene s;
	pid_t porter;
	int pipe;

	drain_while_the_porter_reads(&client, &s, &porter, &pipe);
	ASSERT_OK(kill(porter, SIGCONT));
	expect_closed_elsewhere(pipe, &s);
	ASSERT(!client.heard);
	close(pipe);
	client_deinit(&client);
	scene_deinit(&s);
}

TEST_WAITS(death_of_a_porter_after_the_drain_is_not_reported_to_the_session, 60)
{
	struct client client;
	struct scene s;
	pid_t porter;
	int pipe;

	drain_while_the_porter_reads(&client, &s, &porter, &pipe);
	kill_porter(&s);
	ASSERT(!client.heard);
	close(pipe);
	client_deinit(&client);
	scene_deinit(&s);
}

TEST_WAITS(another_porter_is_given_what_one_that_died_had, 60)
{
	struct client client;
	struct scene s;
	int pipe, later;

	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	scene_init(&s);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	receive(&client, &s);
	kill_porter(&s);
	ASSERT(is_open_elsewhere(pipe));
	/* It reads what comes from then on, holds what is here, and closes it. */
	later = send_pipe(&client);
	held_close(client.fd);
	client.fd = -1;
	receive(&client, &s);
	ASSERT_OK(client.r);
	expect_closed_elsewhere(pipe, &s);
	close(pipe);
	client_deinit(&client);
	expect_closed_elsewhere(later, &s);
	close(later);
	scene_deinit(&s);
}

/* The test has not read its channel since. */
static void kill_unseen(void)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	pid_t pid;

	while ((pid = find_porter()) == 0)
		ASSERT_LT(nsec_now(), end);
	ASSERT_OK(kill(pid, SIGKILL));
	while (kill(pid, 0) == 0)
		ASSERT_LT(nsec_now(), end);
}

/* Between two porters the daemon is the only one who has it: its close is not the last one even then. */
TEST_WAITS(close_while_no_porter_runs_is_left_to_the_next_one, 60)
{
	struct client client;
	struct scene s;
	int pipe;

	scene_init(&s);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	receive(&client, &s);
	kill_porter(&s);
	/* Porters of one uid are started no more often than once a second. */
	ASSERT_EQ(s.channel, -1);
	held_close(client.fd);
	client.fd = -1;
	ASSERT(is_open_elsewhere(pipe));
	ASSERT_EQ(foreign_account_unclosed(s.account), 1);
	expect_closed_elsewhere(pipe, &s);
	close(pipe);
	client_deinit(&client);
	scene_deinit(&s);
}

/* The same before its death was seen. */
TEST_WAITS(close_behind_the_back_of_a_dead_porter_is_left_to_the_next_one, 60)
{
	struct client client;
	struct scene s;
	int pipe;

	scene_init(&s);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	receive(&client, &s);
	kill_unseen();
	held_close(client.fd);
	client.fd = -1;
	ASSERT(is_open_elsewhere(pipe));
	expect_closed_elsewhere(pipe, &s);
	close(pipe);
	client_deinit(&client);
	scene_deinit(&s);
}

TEST_WAITS(socket_that_ends_behind_the_back_of_a_dead_porter_is_left_to_the_next_one, 60)
{
	struct client client;
	int fds[2], pipe;
	struct scene s;

	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	scene_init(&s);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	ASSERT_OK(porter_slot_attach(client.slot, fds[1], true));
	kill_unseen();
	close(fds[1]);
	client_deinit(&client);
	ASSERT(is_open_elsewhere(pipe));
	ASSERT(is_open_elsewhere(fds[0]));
	/* Socket and descriptor: what a porter has yet to close counts, all of it. */
	ASSERT_EQ(foreign_account_unclosed(s.account), 2);
	expect_closed_elsewhere(pipe, &s);
	expect_closed_elsewhere(fds[0], &s);
	close(pipe);
	close(fds[0]);
	scene_deinit(&s);
}

/* News that the daemon leaves unread are an error to its porter, which comes before orders that are still on their way. */
TEST_WAITS(orders_behind_a_reset_are_carried_out, 60)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct client first, second;
	struct pollfd wait = {.events = POLLIN};
	struct scene s;
	int fds[2];
	pid_t pid;

	scene_init(&s);
	client_init(&first, &s);
	client_deinit(&first);
	wait.fd = s.channel;
	ASSERT_EQ(poll(&wait, 1, PATIENCE_NSEC / NSEC_PER_MSEC), 1);
	pid = find_porter();
	ASSERT_GT(pid, 0);
	ASSERT_OK(kill(pid, SIGSTOP));
	client_init(&second, &s);
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	ASSERT_OK(porter_slot_attach(second.slot, fds[1], false));
	close(fds[1]);
	/* This process is the daemon, whose channel is closed and who is not dead. */
	ASSERT_EQ(dup2(null, s.channel), s.channel);
	ASSERT_OK(kill(pid, SIGCONT));
	for (int i = 0; i < 20; i++)
		ASSERT_OK(poll(NULL, 0, 10));
	ASSERT(is_open_elsewhere(fds[0]));
	porter_readable(s.porter);
	close(fds[0]);
	client_deinit(&second);
	scene_deinit(&s);
	close(null);
}

/* ---- descriptors that a service manager has, too ------------------------------------------------------------------------------ */

#define MANAGER_NSEC (1300 * NSEC_PER_MSEC) /* longer than a porter waits for a manager that has heard */

struct grave {
	int attached[2], follow[2], told[2];
};

static void make_pipe(int fds[2])
{
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
}

/* A daemon with two sessions that a manager keeps: one ends, and then it dies. */
static void __attribute__((noreturn)) be_daemon(const struct grave *grave)
{
	struct client ended, kept;
	struct scene s;
	pid_t porter;
	int zygote;

	ASSERT_OK(zygote_start(NULL, &zygote));
	scene_init_linger(&s, zygote, 60 * NSEC_PER_SEC);
	client_init(&kept, &s);
	client_init(&ended, &s);
	porter_slot_keep(kept.slot, true);
	porter_slot_keep(ended.slot, true);
	ASSERT_OK(porter_slot_attach(ended.slot, grave->attached[1], true));
	ASSERT_OK(porter_slot_follow(ended.slot, grave->follow[0]));
	client_deinit(&ended);
	wait_until_closed(&s);
	porter = find_porter();
	ASSERT_EQ(write(grave->told[1], &porter, sizeof(porter)), (ssize_t)sizeof(porter));
	_exit(0);
}

/* Also when the daemon has died, and the porter waits for the next one to take over what is kept. */
TEST_WAITS(descriptors_of_a_kept_session_outlast_a_deaf_manager_and_go_while_the_porter_waits_for_the_next_daemon, 60)
{
	uint64_t end = nsec_now() + MANAGER_NSEC;
	struct grave grave;
	pid_t daemon, porter;
	int status;

	make_pipe(grave.attached);
	make_pipe(grave.follow);
	make_pipe(grave.told);
	daemon = fork();
	ASSERT_GE(daemon, 0);
	if (daemon == 0)
		be_daemon(&grave);
	close(grave.attached[1]);
	close(grave.follow[0]);
	close(grave.told[1]);
	ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(read(grave.told[0], &porter, sizeof(porter)), (ssize_t)sizeof(porter));
	while (nsec_now() < end) {
		ASSERT(is_open_elsewhere(grave.attached[0]));
		ASSERT_OK(poll(NULL, 0, 10));
	}
	/* The manager has heard. */
	close(grave.follow[1]);
	ASSERT(is_open_elsewhere(grave.attached[0]));
	end = nsec_now() + PATIENCE_NSEC;
	while (is_open_elsewhere(grave.attached[0])) {
		ASSERT_LT(nsec_now(), end);
		ASSERT_OK(poll(NULL, 0, 10));
	}
	/* It waits still. */
	ASSERT_OK(kill(porter, SIGKILL));
	close(grave.attached[0]);
	close(grave.told[0]);
}

static void *watch_nothing(void *arg, int fd, struct porter *porter)
{
	return NULL;
}

TEST(socket_is_not_closed_if_no_porter_can_be_started)
{
	struct scene s;
	struct porters_attr attr = {.hooks = {.arg = &s, .watch = watch_nothing, .alarm = on_alarm}};
	struct client client = {.fd = -1};
	int socks[2], pipe;
	char byte;

	ASSERT_OK(zygote_start(NULL, &attr.zygote));
	ASSERT_OK(porters_new(&attr, &s.porters));
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	client.peer = socks[1];
	pipe = send_pipe(&client);
	porters_discard(s.porters, socks[0]);
	ASSERT_EQ(recv(socks[1], &byte, 1, 0), 0);
	ASSERT(is_open_elsewhere(pipe));
	close(socks[0]);
	close(socks[1]);
	close(pipe);
	porters_free(s.porters);
}

static void limit_processes(rlim_t n)
{
	struct rlimit limit;
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	pid_t zygote;

	while ((zygote = child_called(getpid(), "shmemd-zygote")) == 0)
		ASSERT_LT(nsec_now(), end);
	ASSERT_OK(prlimit(zygote, RLIMIT_NPROC, NULL, &limit));
	limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
	ASSERT_OK(prlimit(zygote, RLIMIT_NPROC, &limit, NULL));
}

static void hear_zygote_until(struct scene *s, bool is_in_trouble)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (!porters_trouble(s->porters) == is_in_trouble) {
		ASSERT_LT(nsec_now(), end);
		ASSERT_OK(porters_hear_zygote(s->porters));
		hear(s);
	}
}

/* The limit of processes does not bind root. */
static void be_ordinary(void)
{
	if (geteuid() == 0 && setresuid(UID, UID, UID) < 0)
		test_skip("root here cannot become an ordinary user");
	prctl(PR_SET_DUMPABLE, 1);
}

/* Everything that was sent lies in a channel that only the order for its porter has: no process closes it. */
TEST_TIMEOUT(order_for_a_porter_waits_while_none_can_be_forked, 60)
{
	struct client client;
	struct scene s;
	int pipe;

	if (test_emulator())
		test_skip("qemu-user sets no limit on processes");
	be_ordinary();
	scene_init(&s);
	limit_processes(0);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	client_deinit(&client);
	for (int i = 0; i < 20; i++)
		hear(&s);
	ASSERT(is_open_elsewhere(pipe));
	hear_zygote_until(&s, true);
	ASSERT_STREQ(porters_trouble(s.porters), strerror(EAGAIN));
	limit_processes(RLIM_INFINITY);
	expect_closed_elsewhere(pipe, &s);
	hear_zygote_until(&s, false);
	ASSERT_EQ(s.n_failed, 0);
	close(pipe);
	scene_deinit(&s);
}

/* The kernel rejects a descriptor while more of the same user are unread than the sender may have open. */
TEST_TIMEOUT(packet_comes_without_its_descriptor_while_too_many_are_unread, 60)
{
	struct rlimit limit = {.rlim_cur = 30};
	struct client client;
	int unread[2], pipe;
	struct scene s;
	pid_t porter;

	be_ordinary();
	scene_init(&s);
	client_init(&client, &s);
	while ((porter = find_porter()) == 0)
		hear(&s);
	limit.rlim_max = limit.rlim_cur;
	ASSERT_OK(prlimit(porter, RLIMIT_NOFILE, &limit, NULL));
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, unread));
	pipe = send_pipe(&client);
	for (rlim_t i = 0; i <= limit.rlim_cur; i++)
		ASSERT_OK(framing_send(unread[0], "x", 1, &pipe, 1));
	receive(&client, &s);
	ASSERT_ERR(client.r, EMFILE);
	ASSERT_STREQ(client.text, "hello");
	close(unread[0]);
	close(unread[1]);
	expect_closed_elsewhere(pipe, &s);
	close(pipe);
	close(send_pipe(&client));
	receive(&client, &s);
	ASSERT_OK(client.r);
	ASSERT_GE(client.fd, 0);
	client_deinit(&client);
	scene_deinit(&s);
}

/* The request ends with an error, and the slot with the next porter. */
TEST_WAITS(request_does_not_wait_for_a_porter_that_cannot_be_forked, 60)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	struct client client;
	struct scene s;
	int pipe;

	be_ordinary();
	scene_init(&s);
	client_init(&client, &s);
	while (find_porter() == 0)
		hear(&s);
	limit_processes(0);
	kill_porter(&s);
	pipe = send_pipe(&client);
	ASSERT_OK(porter_slot_recv(client.slot));
	while (!client.heard) {
		ASSERT_LT(nsec_now(), end);
		ASSERT_OK(porters_hear_zygote(s.porters));
		hear(&s);
	}
	ASSERT_ERR(client.r, EPIPE);
	ASSERT(porters_trouble(s.porters));
	client.heard = false;
	client_deinit(&client);
	limit_processes(RLIM_INFINITY);
	expect_closed_elsewhere(pipe, &s);
	ASSERT(!client.heard);
	close(pipe);
	scene_deinit(&s);
}

/* No porter can be started any more: the one that runs goes on, and once it has ended, no slot waits. */
TEST_TIMEOUT(end_of_the_zygote_is_reported_and_ends_waits_for_porters, 60)
{
	struct porter_slot_attr attr = {.uid = UID + 1, .packet = on_packet};
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	struct porter_slot *slot;
	struct client client;
	struct scene s;
	pid_t porter;

	scene_init(&s);
	client_init(&client, &s);
	while ((porter = find_porter()) == 0)
		hear(&s);
	ASSERT_OK(kill(child_called(getpid(), "shmemd-zygote"), SIGKILL));
	while (porters_hear_zygote(s.porters) == 0)
		ASSERT_LT(nsec_now(), end);
	ASSERT(porters_trouble(s.porters));
	close(send_pipe(&client));
	receive(&client, &s);
	ASSERT_OK(client.r);
	held_close(client.fd);
	ASSERT_ERR(porter_slot_new(s.porters, &attr, &slot), EPIPE);
	ASSERT_OK(kill(porter, SIGSTOP));
	ASSERT_OK(porter_slot_recv(client.slot));
	client.heard = false;
	ASSERT_OK(kill(porter, SIGKILL));
	while (!client.heard) {
		ASSERT_LT(nsec_now(), end);
		hear(&s);
	}
	ASSERT_ERR(client.r, EPIPE);
	ASSERT_ERR(porter_slot_recv(client.slot), EPIPE);
	ASSERT_EQ(s.n_failed, 1);
	porter_slot_end(client.slot, client.sock);
	close(client.peer);
	porters_free(s.porters);
	foreign_account_unref(s.account);
}

TEST_WAITS(lasting_descriptor_is_given_to_the_next_porter, 60)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	struct client client;
	struct scene s;
	int fds[2];

	scene_init(&s);
	client_init(&client, &s);
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	ASSERT_OK(porter_slot_attach(client.slot, fds[1], true));
	close(fds[1]);
	kill_porter(&s);
	while (s.channel < 0 || !porter_slot_await(client.slot)) {
		ASSERT_LT(nsec_now(), end);
		hear(&s);
	}
	ASSERT(is_open_elsewhere(fds[0]));
	client_deinit(&client);
	expect_closed_elsewhere(fds[0], &s);
	close(fds[0]);
	scene_deinit(&s);
}

TEST_WAITS(death_of_a_porter_ends_waits_for_it, 60)
{
	struct client client;
	struct scene s;
	pid_t pid;
	int pipe;

	scene_init(&s);
	client_init(&client, &s);
	while ((pid = find_porter()) == 0)
		hear(&s);
	ASSERT_OK(kill(pid, SIGSTOP));
	pipe = send_pipe(&client);
	ASSERT_OK(porter_slot_recv(client.slot));
	kill_porter(&s);
	ASSERT(client.heard);
	ASSERT_ERR(client.r, EPIPE);
	receive(&client, &s);
	ASSERT_OK(client.r);
	close(pipe);
	client_deinit(&client);
	scene_deinit(&s);
}

static void on_ready(void *arg)
{
	bool *is_ready = arg;

	*is_ready = true;
}

/* One that had its porter, and whose porter died, waits as a new one does. */
TEST_WAITS(arrival_of_a_socket_at_its_porter_is_reported, 60)
{
	struct porter_slot_attr attr = {.uid = UID, .packet = on_packet, .ready = on_ready};
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	struct porter_slot *slot;
	bool is_ready = false;
	struct scene s;
	int socks[2];

	scene_init(&s);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	attr.account = s.account;
	attr.sock = socks[0];
	attr.arg = &is_ready;
	ASSERT_OK(porter_slot_new(s.porters, &attr, &slot));
	ASSERT(!porter_slot_await(slot));
	while (!is_ready) {
		ASSERT_LT(nsec_now(), end);
		hear(&s);
	}
	ASSERT(porter_slot_await(slot));
	is_ready = false;
	kill_porter(&s);
	/* Porters of one uid are started no more often than once a second. */
	ASSERT(!porter_slot_await(slot));
	while (!is_ready) {
		ASSERT_LT(nsec_now(), end);
		hear(&s);
	}
	ASSERT(porter_slot_await(slot));
	porter_slot_end(slot, socks[0]);
	close(socks[1]);
	scene_deinit(&s);
}

/* More orders than its channel holds, for one that stands: all of them are carried out when it goes on. */
TEST_TIMEOUT(orders_for_which_there_is_no_room_are_not_lost, 60)
{
	enum { N = 1500 };
	static struct client clients[N];
	struct scene s;
	pid_t pid;

	scene_init(&s);
	client_init(&clients[0], &s);
	while ((pid = find_porter()) == 0)
		hear(&s);
	ASSERT_OK(kill(pid, SIGSTOP));
	for (int i = 1; i < N; i++) {
		client_init(&clients[i], &s);
		client_deinit(&clients[i]);
	}
	ASSERT_EQ(foreign_account_unclosed(s.account), N - 1);
	ASSERT_OK(kill(pid, SIGCONT));
	wait_until_closed(&s);
	client_deinit(&clients[0]);
	scene_deinit(&s);
}
