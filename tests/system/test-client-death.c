/* SPDX-License-Identifier: Apache-2.0 */
/* However a client ends, within a second nothing of it is left: sessions, queues, memory, quotas. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/raw-traffic.h"

static void expect_zero_within_a_second(struct raw_client *ctl)
{
	daemon_expect_empty(ctl, NSEC_PER_SEC);
}

/* In a child: write as fast as it can, for ever. Tells through `ready` that traffic flows. */
static void __attribute__((noreturn)) write_for_ever(const char *socket, int ready)
{
	struct raw_traffic t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raw_traffic_init(&t, socket);
	for (uint64_t n = 0;; n++) {
		for (int i = 0; i < 8; i++)
			raw_traffic_write(&t, 524288, 0, 262144);
		if (n == 0 && write(ready, "x", 1) != 1)
			_exit(1);
		for (int i = 0; i < 8; i++)
			raw_traffic_poll(&t);
	}
}

TEST(sigkill_in_mid_traffic_leaves_nothing)
{
	struct fixture_daemon daemon;
	struct raw_client ctl;
	pid_t pids[4];
	int ready[2];
	char c;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	ASSERT_OK(pipe(ready));
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			write_for_ever(daemon.socket, ready[1]);
	}
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(read(ready[0], &c, 1), 1);
	ASSERT(!daemon_is_empty(&ctl));
	for (int i = 0; i < 4; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < 4; i++)
		waitpid(pids[i], NULL, 0);
	expect_zero_within_a_second(&ctl);
	close(ready[0]);
	close(ready[1]);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

TEST(exit_without_a_word_leaves_nothing)
{
	struct fixture_daemon daemon;
	struct raw_client ctl;
	struct raw_traffic t;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	raw_traffic_init(&t, daemon.socket);
	ASSERT(!daemon_is_empty(&ctl));
	raw_traffic_deinit(&t);
	expect_zero_within_a_second(&ctl);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

/* The grandchild inherits the socket and lives on; the session belonged to the child. */
TEST(death_is_noticed_while_another_process_holds_the_socket)
{
	struct fixture_daemon daemon;
	struct raw_client ctl;
	int ready[2], hold[2];
	pid_t pid;
	char c;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	ASSERT_OK(pipe(ready));
	ASSERT_OK(pipe(hold));
	pid = fork();
	if (pid == 0) {
		struct raw_traffic t;

		close(hold[1]);
		raw_traffic_init(&t, daemon.socket);
		if (fork() == 0) {
			/* Until the test is over. */
			_exit(write(ready[1], "x", 1) != 1 || read(hold[0], &c, 1) < 0);
		}
		pause();
	}
	close(hold[0]);
	ASSERT_EQ(read(ready[0], &c, 1), 1);
	ASSERT(!daemon_is_empty(&ctl));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect_zero_within_a_second(&ctl);
	close(hold[1]);
	close(ready[0]);
	close(ready[1]);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

/* The wait for the flush is bounded: a NIC that has stopped does not keep a session alive. */
TEST(stopped_nic_does_not_hold_up_teardown)
{
	struct fixture_daemon daemon;
	struct raw_client ctl;
	struct raw_traffic t;

	setenv("SHMEMD_FAULT", "soft.nic-thread-stop:1", 1);
	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	raw_traffic_init(&t, daemon.socket);
	for (int i = 0; i < 8; i++)
		raw_traffic_write(&t, 4096, 0, 4096);
	raw_traffic_poll(&t);
	raw_traffic_deinit(&t);
	expect_zero_within_a_second(&ctl);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

TEST(many_sessions_come_and_go)
{
	struct fixture_daemon daemon;
	struct msg_status_rep status;
	struct raw_client ctl;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	for (int i = 0; i < 50; i++) {
		struct raw_traffic t;

		raw_traffic_init(&t, daemon.socket);
		raw_traffic_write(&t, 4096, 0, 64);
		raw_traffic_poll(&t);
		raw_traffic_deinit(&t);
	}
	expect_zero_within_a_second(&ctl);
	raw_status(&ctl, &status);
	ASSERT_EQ(status.sessions_total, 50);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}
