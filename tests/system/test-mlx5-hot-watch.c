/* SPDX-License-Identifier: Apache-2.0 */
/* The hot-spot watch on NICs whose counters the kernel has: simulated ConnectX NICs, and a tree with counters that the test writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"

#define LIMIT_NSEC (60 * NSEC_PER_SEC)

struct lab {
	struct sysfs_tree tree;
	struct fixture_daemon daemon;
	struct raw_client a, b;
	unsigned long long words[2]; /* of four bytes, one way */
};

static void write_counters(struct lab *lab, unsigned int nic)
{
	const char *name = nic ? "mlx5_1" : "mlx5_0";
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/1/counters/port_xmit_data", name);
	sysfs_tree_put(&lab->tree, path, "%llu\n", lab->words[nic]);
	snprintf(path, sizeof(path), "class/infiniband/%s/ports/1/counters/port_rcv_data", name);
	sysfs_tree_put(&lab->tree, path, "%llu\n", 3 * lab->words[nic]);
}

static void lab_init(struct lab *lab)
{
	memset(lab, 0, sizeof(*lab));
	sysfs_tree_init(&lab->tree);
	write_counters(lab, 0);
	write_counters(lab, 1);
	setenv("SHMEMD_SYSFS", lab->tree.root, 1);
	fixture_daemon_start(&lab->daemon, "--hot-spot-period=20", "--hot-spot-time=200", "--hot-spot-rate=1", NULL);
	raw_connect(&lab->a, lab->daemon.socket);
	raw_hello(&lab->a, MSG_ROLE_CLIENT);
	raw_open_nic(&lab->a, "mlx5_0");
	raw_connect(&lab->b, lab->daemon.socket);
	raw_hello(&lab->b, MSG_ROLE_CLIENT);
	raw_open_nic(&lab->b, "mlx5_1");
}

static void lab_deinit(struct lab *lab)
{
	raw_close(&lab->a);
	raw_close(&lab->b);
	fixture_daemon_stop(&lab->daemon);
	sysfs_tree_deinit(&lab->tree);
}

/* Time passes in which the NICs carry so many MiB of words each. */
static struct msg_status_rep pass(struct lab *lab, unsigned int a, unsigned int b)
{
	struct msg_status_rep status;

	lab->words[0] += (unsigned long long)a << 20;
	lab->words[1] += (unsigned long long)b << 20;
	write_counters(lab, 0);
	write_counters(lab, 1);
	usleep(5000);
	raw_status(&lab->a, &status);
	return status;
}

TEST_TIMEOUT(counters_of_the_kernel_tell_which_nic_is_hot, 180)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	struct msg_status_rep status;
	struct lab lab;

	lab_init(&lab);
	/* From here on a second is quiet: both carry as much. */
	for (int i = 0; i < 100; i++)
		ASSERT_STREQ(pass(&lab, 1, 1).hot_nic, "");
	do {
		ASSERT_LT(nsec_now(), end);
		status = pass(&lab, 1, 99);
	} while (strcmp(status.hot_nic, "mlx5_1") != 0);
	ASSERT_STREQ(status.hot_among, "mlx5_0, mlx5_1");
	ASSERT_GE(status.hot_share_percent, 80u);
	fixture_daemon_assert_logged(&lab.daemon, "mlx5_1 has carried ");
	do {
		ASSERT_LT(nsec_now(), end);
		status = pass(&lab, 1, 1);
	} while (status.hot_nic[0]);
	lab_deinit(&lab);
}

/* An unreadable counter plays no part, and ends nothing. */
TEST_TIMEOUT(nics_without_counters_are_left_out, 120)
{
	struct lab lab;

	lab_init(&lab);
	sysfs_tree_remove(&lab.tree, "class/infiniband/mlx5_0/ports/1/counters");
	for (int i = 0; i < 100; i++) {
		struct msg_status_rep status;

		lab.words[1] += 99ull << 20;
		write_counters(&lab, 1);
		usleep(5000);
		raw_status(&lab.a, &status);
		ASSERT_STREQ(status.hot_nic, "");
	}
	fixture_daemon_assert_alive(&lab.daemon);
	lab_deinit(&lab);
}

/* Once: it stays so. */
TEST_TIMEOUT(a_watch_that_sees_nothing_says_so, 120)
{
	struct lab lab;

	lab_init(&lab);
	sysfs_tree_remove(&lab.tree, "class/infiniband/mlx5_0/ports/1/counters");
	sysfs_tree_remove(&lab.tree, "class/infiniband/mlx5_1/ports/1/counters");
	fixture_daemon_assert_logged(&lab.daemon, "cannot read the counters of any port below ");
	lab_deinit(&lab);
}
