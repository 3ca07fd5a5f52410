/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX NICs that the daemon does not drive, since an option asks for soft ones, and those that it does. On simulated
 * ones: the words of libibverbs and sysfs on them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"

#define LIMIT_NSEC (20 * NSEC_PER_SEC)

static void start(struct fixture_daemon *daemon, const char *backend)
{
	/* The same tree as without, looked at more often. */
	setenv("SHMEMD_SYSFS", "/sys", 1);
	fixture_daemon_start(daemon, backend, NULL);
	setenv("SHMEMD_SOCKET", daemon->socket, 1);
}

static void wait_for_list(const char *words)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;

	do {
		ASSERT_EQ(CTL("--json", "list", "nics"), 0);
		if (strstr(ctl_text, words))
			return;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	} while (nsec_now() < end);
	test_fail(TEST_WHERE, "no %s in: %s", words, ctl_text);
}

static int start_monitor(pid_t *ret_pid)
{
	int out;

	*ret_pid = ctl_start((const char *const[]){"monitor", "--kind", "port-state,nic-lost", NULL}, &out);
	do {
		ASSERT_EQ(CTL("--json", "status"), 0);
	} while (!strstr(ctl_text, "\"n_monitors\":1"));
	ctl_text[0] = 0;
	return out;
}

static void end_monitor(pid_t pid, int out)
{
	kill(pid, SIGTERM);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	close(out);
}

static void expect_open_refused(const struct fixture_daemon *daemon)
{
	struct raw_client raw;
	struct msg req, rep;

	raw_connect(&raw, daemon->socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "mlx5_0");
	raw_expect(&raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_NO_NIC);
	ASSERT(strstr(rep.error_rep.text, "shmemd does not manage mlx5_0 (mlx5_core): shmemd was started with --backend soft"));
	raw_close(&raw);
}

TEST_TIMEOUT(nics_left_alone_are_listed_and_reported, 90)
{
	struct fixture_daemon daemon;
	pid_t pid;
	int out;

	sim_nic_happen("port-up 0");
	start(&daemon, "--backend=soft");
	wait_for_list("\"undriven\":[{\"name\":\"mlx5_0\",\"driver\":\"mlx5_core\",\"pci\":\"0000:00:01.0\",\"netdev\":\"lo\","
		      "\"port\":1,\"link\":\"ethernet\",\"state\":\"active\",\"phys_state\":\"link-up\",\"lid\":0,"
		      "\"mtu_bytes\":1024,\"rate_mbps\":100000,\"gids\":[{\"index\":0,");
	ASSERT_HAS("\"type\":\"roce-v1\"", "\"type\":\"roce-v2\"", "{\"name\":\"mlx5_1\"", "\"name\":\"soft0\"");
	expect_open_refused(&daemon);
	CTL("doctor");
	ASSERT_HAS("WARN  driven         mlx5_0: no session gets it",
		   "WARN  driven         mlx5_1: ");
	out = start_monitor(&pid);
	sim_nic_happen("port-down 0");
	ctl_wait_for(out, "mlx5_0 is down");
	sim_nic_happen("port-up 0");
	ctl_wait_for(out, "mlx5_0 is active");
	sim_nic_happen("fatal 0");
	ctl_wait_for(out, "mlx5_0 is gone: no backend drove it");
	wait_for_list("\"undriven\":[{\"name\":\"mlx5_1\"");
	sim_nic_happen("return 0");
	ctl_wait_for(out, "mlx5_0 is active: it was found");
	end_monitor(pid, out);
	wait_for_list("\"undriven\":[{\"name\":\"mlx5_0\"");
	fixture_daemon_stop(&daemon);
}

/* Also while it is lost and when it has returned. */
TEST_TIMEOUT(nics_that_a_backend_drives_are_listed_once, 90)
{
	struct fixture_daemon daemon;
	pid_t pid;
	int out;

	start(&daemon, "--backend=mlx5");
	out = start_monitor(&pid);
	wait_for_list("\"undriven\":[]");
	sim_nic_happen("fatal 0");
	ctl_wait_for(out, "mlx5_0 is gone");
	wait_for_list("\"state\":\"lost\"");
	sim_nic_happen("return 0");
	ctl_wait_for(out, "mlx5_0 is active");
	/* Some looks later. */
	for (int i = 0; i < 5; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
		ASSERT_EQ(CTL("--json", "list", "nics"), 0);
		ASSERT_HAS("\"undriven\":[]");
	}
	CTL("doctor");
	ASSERT_HAS("OK    driven ");
	end_monitor(pid, out);
	fixture_daemon_stop(&daemon);
}
