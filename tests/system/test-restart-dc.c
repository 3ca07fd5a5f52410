/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon is killed while a DCI changes to another DCT, or a DCT to another DCI, under a service manager that keeps
 * descriptors. The demo over dynamic connections verifies every byte and counts every atomic as in an undisturbed run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/test.h"

/* Its report goes to the test's own output. */
static void run_demo(const char *socket)
{
	char patience[16];
	pid_t pid = fork();
	int status;

	snprintf(patience, sizeof(patience), "%u", (unsigned int)(test_patience_nsec() / NSEC_PER_SEC));
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		setenv("SHMEMD_SOCKET", socket, 1);
		execl(SHMEMD_DEMO, "shmemd-demo", "--dc", "--json", "--patience", patience,
		      (char *)NULL);
		_exit(126);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	ASSERT_EQ(WEXITSTATUS(status), 0);
}

/* One NIC: its thread dies between two atomics, so each of them is known. */
static void kill_at_connection(const char *step, unsigned int nth)
{
	struct fixture_keeper keeper = {0};
	char fault[32];

	snprintf(fault, sizeof(fault), "%s:%u", step, nth);
	setenv("SHMEMD_FAULT", fault, 1);
	fixture_keeper_start(&keeper, "--restart-grace=600000", "--soft-nics=1", NULL);
	run_demo(keeper.daemon.socket);
	ASSERT_EQ(fixture_keeper_n_starts(&keeper), 2);
	fixture_keeper_wait_start(&keeper, 2);
	fixture_keeper_stop(&keeper);
}

TEST_TIMEOUT(daemon_killed_while_a_dynamic_connection_changes_loses_nothing_and_does_nothing_twice,
	     240)
{
	static const unsigned int passings[] = {1, 2, 40, 3, 4, 6, 60, 70};
	unsigned int n = test_is_full() ? sizeof(passings) / sizeof(passings[0]) : 3;

	for (unsigned int i = 0; i < n; i++)
		kill_at_connection(i % 2 ? "engine.connected" : "engine.connect", passings[i]);
}
