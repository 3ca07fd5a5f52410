/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing that a client hands over holds up the daemon, its end, or the service manager, however the client has prepared it.
 *
 * During each attack another session is answered and registers memory, and SIGKILL ends the daemon. Time limits are far above the
 * times measured, and far below how long the attackers hold on. On an emulated machine SHMEMD_TEST_SLOWNESS multiplies the limits.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/hostile-lab.h"
#include "tests/system/stall-lab.h"

#define N_ASKED 15
#define ANSWER_NSEC (100 * NSEC_PER_MSEC) /* of the median */
#define DEATH_NSEC NSEC_PER_SEC
#define MOST_SLOWNESS 8ul
#define WAIT_SEC 8 /* for one answer: then the daemon stands */

static uint64_t slowness(void)
{
	const char *text = getenv("SHMEMD_TEST_SLOWNESS");
	unsigned long n = text ? strtoul(text, NULL, 10) : 1;

	return n < 1 ? 1 : n > MOST_SLOWNESS ? MOST_SLOWNESS : n;
}

/* A wait that takes too long fails the test with a message, before its time limit does. */
static void limit_waiting(const struct raw_client *raw)
{
	const struct timeval most = {.tv_sec = WAIT_SEC};

	ASSERT_OK(setsockopt(raw->sock, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)));
}

static void open_victim(struct raw_client *raw, const char *socket, bool resumes)
{
	raw_connect(raw, socket);
	if (resumes)
		raw_hello_resumes(raw);
	else
		raw_hello(raw, MSG_ROLE_CLIENT);
	raw_open_nic(raw, "");
	limit_waiting(raw);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void deregister(struct raw_client *raw, uint32_t handle)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = handle;
	raw_expect(raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

/* A question, and memory with a descriptor. */
static void expect_served(struct raw_client *raw)
{
	uint64_t took[N_ASKED];
	struct msg_status_rep status;

	for (int i = 0; i < N_ASKED; i++) {
		uint64_t begin = nsec_now();

		raw_status(raw, &status);
		deregister(raw, raw_reg(raw, 4096));
		took[i] = nsec_now() - begin;
		usleep(10000);
	}
	qsort(took, N_ASKED, sizeof(took[0]), compare);
	ASSERT_LT(took[N_ASKED / 2], slowness() * ANSWER_NSEC);
}

/* SIGKILL, and how long it takes. */
static void expect_death(struct fixture_daemon *daemon, struct stall_attacker *attacker)
{
	uint64_t begin = nsec_now(), took = 0;
	bool dead = false;

	ASSERT_OK(kill(daemon->pid, SIGKILL));
	while (!dead && took < 5 * slowness() * DEATH_NSEC) {
		dead = waitpid(daemon->pid, NULL, WNOHANG) == daemon->pid;
		took = nsec_now() - begin;
		usleep(500);
	}
	stall_end(attacker);
	if (!dead)
		waitpid(daemon->pid, NULL, 0);
	daemon->pid = 0;
	ASSERT_LT(took, slowness() * DEATH_NSEC);
}

/* It stands still while the attacker sends. */
static void attack_behind_its_back(const struct fixture_daemon *daemon, struct stall_attacker *attacker)
{
	ASSERT_OK(kill(daemon->pid, SIGSTOP));
	ASSERT_EQ(waitpid(daemon->pid, NULL, WUNTRACED), daemon->pid);
	stall_go_on(attacker);
	ASSERT_OK(kill(daemon->pid, SIGCONT));
}

/* The best of several: others run beside it. */
static bool start_attack(struct stall_attacker *attacker, enum stall stall, enum stall_way way, const char *socket)
{
	for (int i = 0; i < 5; i++) {
		if (!stall_start(attacker, stall, way, socket, false))
			return false;
		if (!attacker->is_slow || i == 4)
			break;
		stall_end(attacker);
	}
	return true;
}

static void try_attack(enum stall stall, enum stall_way way)
{
	struct stall_attacker attacker;
	struct fixture_daemon daemon;
	struct raw_client raw;

	fixture_daemon_start(&daemon, "--soft-nics=1", "--socket-mode=0666", NULL);
	ASSERT_OK(chmod(daemon.folder, 0755));
	open_victim(&raw, daemon.socket, false);
	if (!start_attack(&attacker, stall, way, daemon.socket)) {
		fixture_daemon_kill(&daemon);
		test_skip("this machine or this user cannot make one");
	}
	ASSERT(!attacker.is_slow);
	if (way == STALL_UNREAD)
		attack_behind_its_back(&daemon, &attacker);
	expect_served(&raw);
	expect_death(&daemon, &attacker);
	raw_close(&raw);
	fixture_daemon_kill(&daemon);
}

static void try_ways(enum stall stall)
{
	static const enum stall_way ways[] = {STALL_WITHDRAWN, STALL_PUBLISHED, STALL_UNREAD};

	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		try_attack(stall, ways[i]);
}

TEST_TIMEOUT(socket_in_which_a_send_stands_delays_no_client, 60)
{
	try_ways(STALL_SOCKET);
}

TEST_TIMEOUT(pipe_in_which_a_write_stands_delays_no_client, 60)
{
	try_ways(STALL_PIPE);
}

TEST_TIMEOUT(eventfd_that_a_standing_epoll_watches_delays_no_client, 60)
{
	try_ways(STALL_EVENTFD);
}

TEST_TIMEOUT(userfaultfd_of_a_process_that_stands_delays_no_client, 60)
{
	try_ways(STALL_USERFAULTFD);
}

TEST_TIMEOUT(epoll_descriptor_that_watches_very_much_delays_no_client, 60)
{
	try_ways(STALL_EPOLL);
}

TEST_TIMEOUT(packet_sockets_delay_no_client, 60)
{
	try_ways(STALL_PACKET);
}

TEST_TIMEOUT(inotify_descriptors_delay_no_client, 60)
{
	try_ways(STALL_INOTIFY);
}

/* The eventfd that wakes a NIC: the daemon makes it, and closes it last. */
TEST_TIMEOUT(descriptor_from_the_daemon_that_a_standing_epoll_watches_delays_no_client, 60)
{
	try_attack(STALL_EVENTFD, STALL_HANDED_OUT);
}

/* ---- the service manager ------------------------------------------------------------------------------------------ */

static void expect_resumed(struct raw_client *raw)
{
	struct msg msg;

	do
		ASSERT_OK(raw_recv(raw, &msg, NULL));
	while (msg.kind != MSG_RESUMED_EVENT);
}

/* If only the daemon's own user can connect, no other user can attack. */
static void start_keeper(struct fixture_keeper *keeper)
{
	fixture_keeper_start(keeper, "--soft-nics=1", "--socket-mode=0666", NULL);
	ASSERT_OK(chmod(keeper->daemon.folder, 0755));
}

static unsigned int count_kept(struct fixture_keeper *keeper)
{
	static char names[65536];

	return fixture_keeper_list(keeper, names, sizeof(names));
}

/* It lets go of what it has of the attacker's session while the attacker holds on. */
static void try_keeper(enum stall stall)
{
	struct fixture_keeper keeper = {0};
	struct stall_attacker attacker;
	struct raw_client raw;
	uint64_t begin;

	start_keeper(&keeper);
	open_victim(&raw, keeper.daemon.socket, true);
	if (!stall_start(&attacker, stall, STALL_PUBLISHED, keeper.daemon.socket, true)) {
		fixture_keeper_stop(&keeper);
		test_skip("this machine or this user cannot make one");
	}
	begin = nsec_now();
	fixture_keeper_kill_daemon(&keeper);
	expect_resumed(&raw);
	stall_go_on(&attacker);
	expect_served(&raw);
	ASSERT_GT(count_kept(&keeper), 0);
	raw_close(&raw);
	fixture_keeper_stop(&keeper);
	ASSERT_LT(nsec_now() - begin, 5 * slowness() * DEATH_NSEC);
	stall_end(&attacker);
}

/* With the socket that it watches, and with the eventfd of its NIC, which the service manager has while the session lives. */
TEST_TIMEOUT(descriptors_of_a_kept_session_delay_neither_the_daemon_nor_the_service_manager, 60)
{
	struct fixture_keeper keeper = {0};
	struct stall_attacker attacker;
	struct raw_client raw;
	uint64_t begin;

	start_keeper(&keeper);
	open_victim(&raw, keeper.daemon.socket, true);
	begin = nsec_now();
	if (!stall_start(&attacker, STALL_EVENTFD, STALL_HANDED_OUT, keeper.daemon.socket, true)) {
		fixture_keeper_stop(&keeper);
		test_skip("this machine or this user cannot make one");
	}
	expect_served(&raw);
	fixture_keeper_kill_daemon(&keeper);
	expect_resumed(&raw);
	raw_close(&raw);
	fixture_keeper_stop(&keeper);
	ASSERT_LT(nsec_now() - begin, 5 * slowness() * DEATH_NSEC);
	stall_end(&attacker);
}

TEST_TIMEOUT(pipe_that_is_published_does_not_reach_the_service_manager, 60)
{
	try_keeper(STALL_PIPE);
}

TEST_TIMEOUT(eventfd_that_is_published_does_not_reach_the_service_manager, 60)
{
	try_keeper(STALL_EVENTFD);
}

TEST_TIMEOUT(userfaultfd_that_is_published_does_not_reach_the_service_manager, 60)
{
	try_keeper(STALL_USERFAULTFD);
}

/* It closes the socket of a session in which there is a descriptor that no daemon has read. */
static void try_late(enum stall stall, bool comes_back)
{
	struct fixture_keeper keeper = {0};
	struct stall_attacker attacker;
	struct raw_client raw;
	uint64_t begin;

	start_keeper(&keeper);
	open_victim(&raw, keeper.daemon.socket, true);
	if (!stall_start(&attacker, stall, STALL_LATE, keeper.daemon.socket, true)) {
		fixture_keeper_stop(&keeper);
		test_skip("this machine or this user cannot make one");
	}
	fixture_keeper_hold(&keeper);
	stall_go_on(&attacker);
	begin = nsec_now();
	if (comes_back) {
		fixture_keeper_go(&keeper);
		expect_resumed(&raw);
		expect_served(&raw);
	}
	raw_close(&raw);
	fixture_keeper_stop(&keeper);
	ASSERT_LT(nsec_now() - begin, 5 * slowness() * DEATH_NSEC);
	stall_end(&attacker);
}

TEST_TIMEOUT(pipe_that_is_sent_while_no_daemon_runs_holds_up_neither_the_next_one_nor_the_service_manager, 60)
{
	try_late(STALL_PIPE, true);
	try_late(STALL_PIPE, false);
}

/* By a connection that has no session yet, and will have none. */
static void try_early(enum stall stall)
{
	struct fixture_keeper keeper = {.activated = true};
	struct stall_attacker attacker;
	struct raw_client raw;

	start_keeper(&keeper);
	ASSERT_OK(chmod(keeper.daemon.socket, 0666));
	/* It gives the socket back as it found it: descriptors pass. */
	fixture_keeper_stop_daemon(&keeper);
	if (!stall_start(&attacker, stall, STALL_EARLY, keeper.daemon.socket, false)) {
		fixture_keeper_stop(&keeper);
		test_skip("this machine or this user cannot make one");
	}
	fixture_keeper_go(&keeper);
	open_victim(&raw, keeper.daemon.socket, true);
	expect_served(&raw);
	raw_close(&raw);
	fixture_keeper_stop(&keeper);
	stall_end(&attacker);
}

TEST_TIMEOUT(descriptors_that_are_sent_before_the_first_daemon_delay_no_client, 60)
{
	try_early(STALL_SOCKET);
	try_early(STALL_PIPE);
	try_early(STALL_EVENTFD);
}

TEST_TIMEOUT(eventfd_that_is_sent_while_no_daemon_runs_holds_up_neither_the_next_one_nor_the_service_manager, 60)
{
	try_late(STALL_EVENTFD, true);
	try_late(STALL_EVENTFD, false);
}
