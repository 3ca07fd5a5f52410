/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices without a backend appear, change and go while the whole daemon runs, in a tree that looks like sysfs.
 * test-mlx5-unmanaged does the same on simulated ConnectX devices.
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
#include "tests/lib/machine-tree.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"

#define LIMIT_NSEC (20 * NSEC_PER_SEC)

/* A look takes a second; a request in between sees the former state. */
static void wait_for_list(const char *words)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;

	do {
		ASSERT_EQ(CTL("--json", "list", "nics"), 0);
		if (strstr(ctl_text, words))
			return;
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	} while (nsec_now() < end);
	test_fail(TEST_WHERE, "no %s in: %s", words, ctl_text);
}

static void start(struct fixture_daemon *daemon, const struct sysfs_tree *tree)
{
	setenv("SHMEMD_SYSFS", tree->root, 1);
	fixture_daemon_start(daemon, "--soft-nics=1", NULL);
	setenv("SHMEMD_SOCKET", daemon->socket, 1);
}

static int start_monitor(pid_t *ret_pid)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	int out;

	*ret_pid = ctl_start((const char *const[]){"monitor", "--kind", "port-state,nic-lost", NULL}, &out);
	do {
		ASSERT_EQ(CTL("--json", "status"), 0);
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	} while (!strstr(ctl_text, "\"n_monitors\":1") && nsec_now() < end);
	ASSERT_HAS("\"n_monitors\":1");
	ctl_text[0] = 0;
	return out;
}

static void expect_open_refused(const struct fixture_daemon *daemon, const char *nic, const char *words)
{
	struct raw_client raw;
	struct msg req, rep;

	raw_connect(&raw, daemon->socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", nic);
	raw_expect(&raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_NO_NIC);
	if (!strstr(rep.error_rep.text, words))
		test_fail(TEST_WHERE, "no \"%s\" in: %s", words, rep.error_rep.text);
	/* The session lives, and may open one that is driven. */
	raw_open_nic(&raw, "");
	raw_close(&raw);
}

TEST_TIMEOUT(devices_that_come_change_and_go_are_listed_and_reported, 90)
{
	struct fixture_daemon daemon;
	struct sysfs_tree tree;
	pid_t pid;
	int out;

	sysfs_tree_init(&tree);
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 1);
	start(&daemon, &tree);
	wait_for_list("{\"name\":\"rxe0\",\"driver\":\"rdma_rxe\",\"pci\":\"\",\"netdev\":\"veth0\",\"port\":1,"
		      "\"link\":\"ethernet\",\"state\":\"active\",\"phys_state\":\"link-up\",\"lid\":0,\"mtu_bytes\":1024,"
		      "\"rate_mbps\":2500,\"gids\":[{\"index\":0,\"gid\":\"fe80::250:56ff:fe00:1\",\"type\":\"roce-v2\"},"
		      "{\"index\":1,\"gid\":\"::ffff:10.0.0.1\",\"type\":\"roce-v2\"}],\"reason\":\"shmemd does not support rxe0");
	ASSERT_EQ(CTL("list", "nics"), 0);
	ASSERT_HAS("NICs that shmemd does not manage", "rdma_rxe", "veth0", "link-up", "2.5 Gb/s", "fe80::250:56ff:fe00:1",
		   "::ffff:10.0.0.1", "roce-v2");
	expect_open_refused(&daemon, "rxe0", "which is no ConnectX; choose another NIC");
	out = start_monitor(&pid);
	sysfs_tree_port(&tree, "rxe0", 1, false);
	ctl_wait_for(out, "rxe0 is down");
	sysfs_tree_port(&tree, "rxe0", 1, true);
	ctl_wait_for(out, "rxe0 is active");
	sysfs_tree_add_rxe(&tree, "rxe1", "veth1", 2);
	ctl_wait_for(out, "rxe1 is active: it was found; shmemd does not manage it");
	sysfs_tree_delete(&tree, "rxe0");
	ctl_wait_for(out, "rxe0 is gone");
	kill(pid, SIGTERM);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	close(out);
	wait_for_list("\"undriven\":[{\"name\":\"rxe1\"");
	ctl_assert_lacks("rxe0");
	expect_open_refused(&daemon, "rxe0", "no NIC is called \"rxe0\"");
	fixture_daemon_assert_logged(&daemon, "NIC rxe0 is gone; no backend drove it");
	fixture_daemon_stop(&daemon);
	sysfs_tree_deinit(&tree);
}

/* The kernel gets RDMA while the daemon runs: a module was loaded. */
TEST_TIMEOUT(the_first_device_of_a_host_is_found, 60)
{
	struct fixture_daemon daemon;
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	start(&daemon, &tree);
	wait_for_list("\"undriven\":[]");
	ASSERT_EQ(CTL("list", "nics"), 0);
	ctl_assert_lacks("does not manage");
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 1);
	wait_for_list("\"name\":\"rxe0\"");
	fixture_daemon_stop(&daemon);
	sysfs_tree_deinit(&tree);
}

TEST(daemon_that_insists_on_connectx_names_the_other_nics)
{
	char out[8192], option[128];
	const char *args[] = {"--backend=mlx5", option, NULL};
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 1);
	sysfs_tree_add_rxe(&tree, "rxe1", "veth1", 2);
	setenv("SHMEMD_SYSFS", tree.root, 1);
	snprintf(option, sizeof(option), "--socket=%s/sock", tree.root);
	ASSERT_NE(fixture_daemon_run(args, out, sizeof(out)), 0);
	if (!strstr(out, "this host has rxe0 (rdma_rxe) and 1 more, which shmemd does not support yet"))
		test_fail(TEST_WHERE, "%s", out);
	sysfs_tree_deinit(&tree);
}

static void put_functions(struct machine_tree *machine, unsigned int n, unsigned int class_code)
{
	char path[64];

	for (unsigned int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "pci0000:00/0000:00:%02x.%u", i / 8, i % 8);
		machine_tree_pci(machine, path, class_code, 0x15b3, 0);
	}
}

/* Such a machine has no map, and its daemon starts all the same. */
TEST_TIMEOUT(a_machine_with_too_many_gpus_is_served, 60)
{
	struct fixture_daemon daemon;
	struct machine_tree machine;

	machine_tree_init(&machine, 1);
	put_functions(&machine, 65, 0x030200);
	setenv("SHMEMD_SYSFS", machine.sys, 1);
	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	ASSERT_EQ(CTL("--json", "status"), 0);
	fixture_daemon_assert_logged(&daemon, "this machine has more GPUs, NICs or bridges than shmemd can map");
	fixture_daemon_assert_logged(&daemon,
				     "shmemd has no map of this machine, so it gives NICs to GPUs in turn");
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&machine);
}

/* One of them is it. */
TEST_TIMEOUT(a_machine_with_two_devices_of_a_function_has_a_map, 60)
{
	struct fixture_daemon daemon;
	struct machine_tree machine;

	machine_tree_init(&machine, 1);
	put_functions(&machine, 1, 0x020000);
	machine_tree_nic(&machine, &(struct machine_nic){.path = "pci0000:00/0000:00:00.0", .name = "mlx5_0", .gbps = 400});
	machine_tree_nic(&machine, &(struct machine_nic){.path = "pci0000:00/0000:00:00.0", .name = "mlx5_1", .gbps = 400});
	setenv("SHMEMD_SYSFS", machine.sys, 1);
	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	ASSERT_EQ(CTL("--json", "status"), 0);
	fixture_daemon_assert_logged(&daemon, "the map of this machine is incomplete: the NIC 0000:00:00.0 is there twice: "
					      "mlx5_1 is left out, beside mlx5_0");
	ASSERT(!fixture_daemon_has_logged(&daemon, "in turn"));
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&machine);
}
