/* SPDX-License-Identifier: Apache-2.0 */
/* shmemd --check-nics on simulated ConnectX NICs, healthy and with each fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fixture-daemon.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"

static void move(const char *from, const char *to)
{
	char a[256], b[256];

	ASSERT_OK(rename(sim_nic_path(a, from), sim_nic_path(b, to)));
}

struct answer {
	int status;
	char text[16384];
};

static void ask(struct answer *answer)
{
	answer->status = fixture_daemon_run((const char *[]){"--check-nics", "--json", NULL}, answer->text,
					    sizeof(answer->text));
	ASSERT(strstr(answer->text, "{\"schema_version\":1,\"needs\":["));
	ASSERT(strstr(answer->text, answer->status == 0 ? "\n],\"usable\":true}\n" : "\n],\"usable\":false}\n"));
}

static bool says(const struct answer *answer, const char *nic, const char *need, const char *state)
{
	char words[256];

	snprintf(words, sizeof(words), "{\"nic\":\"%s\",\"need\":\"%s\",\"state\":\"%s\",\"reason\":\"", nic, need, state);
	return strstr(answer->text, words);
}

static void expect(const struct answer *answer, const char *nic, const char *need, const char *state)
{
	if (!says(answer, nic, need, state))
		test_fail(TEST_WHERE, "%s of \"%s\" is not %s in: %s", need, nic, state, answer->text);
}

/* The simulator carries out a command a moment later. */
static void await(struct answer *answer, const char *nic, const char *need, const char *state)
{
	for (unsigned int i = 0; i < 1000; i++) {
		ask(answer);
		if (says(answer, nic, need, state))
			return;
	}
	expect(answer, nic, need, state);
}

TEST(nics_that_can_be_used_have_all_that_is_needed)
{
	static const char *const needs[] = {"command-descriptor", "devx",    "doorbell-page", "dmabuf", "peermem", "rc",
					    "dc",		  "atomics", "limits",	      "port",	"gid"};
	static struct answer answer;
	char path[256];

	sim_nic_path(path, "");
	ask(&answer);
	ASSERT_EQ(answer.status, 0);
	expect(&answer, "", "devices", "ok");
	expect(&answer, "", "rdma-core", "ok");
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		expect(&answer, "mlx5_0", needs[i], "ok");
		expect(&answer, "mlx5_1", needs[i], "ok");
	}
}

/* The kernel's modules for GPU memory, in a tree that looks like sysfs. */
TEST(peer_memory_module_is_named)
{
	static struct answer answer;
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	setenv("SHMEMD_SYSFS", tree.root, 1);
	ask(&answer);
	expect(&answer, "mlx5_0", "peermem", "ok");
	ASSERT(strstr(answer.text, "no peer memory module is loaded"));
	sysfs_tree_put(&tree, "module/nvidia_peermem/refcnt", "0\n");
	ask(&answer);
	expect(&answer, "mlx5_0", "peermem", "ok");
	ASSERT(strstr(answer.text, "nvidia_peermem is loaded"));
	unsetenv("SHMEMD_SYSFS");
	sysfs_tree_deinit(&tree);
}

/* A daemon that runs is asked nothing and keeps its sessions. */
TEST(check_works_beside_a_daemon)
{
	struct fixture_daemon daemon;
	static struct answer answer;

	fixture_daemon_start(&daemon, NULL);
	ask(&answer);
	ASSERT_EQ(answer.status, 0);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

/* A link-local address is left. */
TEST(port_without_an_address_that_routers_know_is_a_warning)
{
	static struct answer answer;

	sim_nic_happen("gid-gone 0");
	await(&answer, "mlx5_0", "gid", "warn");
	ASSERT_EQ(answer.status, 0);
	ASSERT(strstr(answer.text, "give the port's network interface an IP address"));
	expect(&answer, "mlx5_0", "devx", "ok");
	expect(&answer, "mlx5_1", "gid", "ok");
	sim_nic_happen("gid-back 0");
	await(&answer, "mlx5_0", "gid", "ok");
}

TEST(port_that_is_down_is_a_warning)
{
	static struct answer answer;

	sim_nic_happen("port-down 1");
	await(&answer, "mlx5_1", "port", "warn");
	ASSERT_EQ(answer.status, 0);
	expect(&answer, "mlx5_0", "port", "ok");
	sim_nic_happen("port-up 1");
	await(&answer, "mlx5_1", "port", "ok");
}

TEST(nics_that_are_lost_are_not_there)
{
	static struct answer answer;

	sim_nic_happen("fatal 0");
	sim_nic_happen("fatal 1");
	await(&answer, "", "devices", "fail");
	ASSERT_EQ(answer.status, 1);
	ASSERT(!strstr(answer.text, "{\"nic\":\"mlx5_"));
	sim_nic_happen("return 0");
	sim_nic_happen("return 1");
	await(&answer, "", "devices", "ok");
	await(&answer, "mlx5_0", "devx", "ok");
	await(&answer, "mlx5_1", "devx", "ok");
}

TEST(node_that_is_missing_is_named)
{
	static struct answer answer;

	move("dev/infiniband/uverbs0", "away");
	ask(&answer);
	move("away", "dev/infiniband/uverbs0");
	ASSERT_EQ(answer.status, 1);
	expect(&answer, "", "command-descriptor", "fail");
	ASSERT(strstr(answer.text, "/dev/infiniband/uverbs0: No such file or directory"));
}
