/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a daemon with simulated ConnectX NICs that it cannot use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fixture-daemon.h"
#include "tests/lib/test.h"

static const char *in_tree(char path[256], const char *name)
{
	const char *root = getenv("MLX5SIM_ROOT");

	if (!root)
		test_skip("files of real devices stay as they are");
	snprintf(path, 256, "%s/%s", root, name);
	return path;
}

static void move(const char *from, const char *to)
{
	char a[256], b[256];

	ASSERT_OK(rename(in_tree(a, from), in_tree(b, to)));
}

static void expect_refused(const char *words)
{
	char folder[80], out[8192], option[96];
	const char *args[] = {"--backend=mlx5", option, NULL};

	test_make_folder(folder, sizeof(folder), "shmemd-start");
	snprintf(option, sizeof(option), "--socket=%s/sock", folder);
	ASSERT_NE(fixture_daemon_run(args, out, sizeof(out)), 0);
	ASSERT_OK(rmdir(folder));
	if (!strstr(out, words))
		test_fail(TEST_WHERE, "no \"%s\" in: %s", words, out);
}

static void expect_soft(const char *words)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--backend=auto", NULL);
	fixture_daemon_assert_logged(&daemon, words);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

TEST(auto_says_which_nodes_are_missing_and_takes_soft_nics)
{
	const char *words = "cannot use these NICs: /dev/infiniband/uverbs";

	move("dev/infiniband/uverbs0", "away0");
	move("dev/infiniband/uverbs1", "away1");
	expect_soft(words);
	expect_refused(words);
	move("away0", "dev/infiniband/uverbs0");
	move("away1", "dev/infiniband/uverbs1");
}

/* An interface of the kernel that libibverbs does not know. */
TEST(auto_says_why_devices_cannot_be_listed_and_takes_soft_nics)
{
	char path[256];
	FILE *file;

	move("sys/class/infiniband_verbs/abi_version", "away");
	file = fopen(in_tree(path, "sys/class/infiniband_verbs/abi_version"), "w");
	ASSERT(file);
	ASSERT_GT(fprintf(file, "999\n"), 0);
	ASSERT_OK(fclose(file));
	expect_soft("cannot look for ConnectX NICs: ");
	expect_refused("cannot look for ConnectX NICs: ");
	move("away", "sys/class/infiniband_verbs/abi_version");
}
