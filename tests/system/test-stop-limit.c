/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that is to stop waits no longer than 10 s for what does not end. Beside test-start, since it takes those 10 s. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"

#define STOP_NSEC (10 * NSEC_PER_SEC) /* for which the daemon waits although nothing ends */
#define SIT_WRITES 8u /* after which the fault point makes a NIC's thread stand still */

/* As one that sleeps in the kernel at its user's memory, but for a minute. */
TEST_TIMEOUT(stop_that_waits_for_the_memory_of_a_user_ends_after_10_s_with_status_1, 60)
{
	struct fixture_daemon daemon;
	struct raw_traffic t;
	uint64_t begin;
	int status;

	setenv("SHMEMD_FAULT", "soft.sit-still:60000", 1);
	fixture_daemon_start(&daemon, "--soft-executors=thread", NULL);
	raw_traffic_init_with(&t, daemon.socket, &(struct raw_traffic_attr){.nic = raw_traffic_nic(0)});
	for (unsigned int i = 0; i < SIT_WRITES; i++) {
		raw_traffic_write(&t, 4096, 0, 4096);
		ASSERT_EQ(raw_traffic_poll(&t), (unsigned int)SHMD_CQE_REQ);
	}
	usleep(100000);
	ASSERT_OK(kill(daemon.pid, SIGTERM));
	begin = nsec_now();
	ASSERT_EQ(waitpid(daemon.pid, &status, 0), daemon.pid);
	ASSERT(WIFEXITED(status));
	ASSERT_EQ(WEXITSTATUS(status), 1);
	ASSERT_GE(nsec_now() - begin, STOP_NSEC);
	ASSERT_LT(nsec_now() - begin, 3 * STOP_NSEC);
	fixture_daemon_assert_logged(&daemon, "the end of a session waits for memory of its user: leaving the rest to the kernel");
	ASSERT_EQ(access(daemon.socket, F_OK), -1);
	raw_traffic_deinit(&t);
	daemon.pid = 0;
	fixture_daemon_kill(&daemon);
}
