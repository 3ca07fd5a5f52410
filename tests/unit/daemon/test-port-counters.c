/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of ports, in a folder that looks like sysfs. */
#include <errno.h>
#include <stdint.h>

#include "daemon/port-counters.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"

#define COUNTERS "class/infiniband/mlx5_0/ports/2/counters/"

static void put(const struct sysfs_tree *tree, const char *sent, const char *received)
{
	sysfs_tree_put(tree, COUNTERS "port_xmit_data", "%s", sent);
	sysfs_tree_put(tree, COUNTERS "port_rcv_data", "%s", received);
}

TEST(words_of_both_ways_become_bytes)
{
	struct sysfs_tree tree;
	uint64_t bytes = 0;

	sysfs_tree_init(&tree);
	put(&tree, "1000\n", "24\n");
	ASSERT_OK(port_counters_read(tree.root, "mlx5_0", 2, &bytes));
	ASSERT_EQ(bytes, 4096);
	ASSERT_OK(port_counters_read(tree.root, "mlx5_0:2", 2, &bytes));
	ASSERT_EQ(bytes, 4096);
	/* Modulo 2^64, as differences are taken. */
	put(&tree, "18446744073709551615", "2");
	ASSERT_OK(port_counters_read(tree.root, "mlx5_0", 2, &bytes));
	ASSERT_EQ(bytes, 4);
	sysfs_tree_deinit(&tree);
}

TEST(what_is_no_counter_is_refused)
{
	static const char *const wrong[] = {"", "\n", "-1", " 1", "+1", "0x10", "1 2", "18446744073709551616", "N/A", NULL};
	struct sysfs_tree tree;
	uint64_t bytes = 7;

	sysfs_tree_init(&tree);
	for (unsigned int i = 0; wrong[i]; i++) {
		put(&tree, "1", wrong[i]);
		ASSERT_EQ(port_counters_read(tree.root, "mlx5_0", 2, &bytes), -EINVAL);
	}
	/* A counter of 32 bits stays there. */
	put(&tree, "4294967295", "1");
	ASSERT_EQ(port_counters_read(tree.root, "mlx5_0", 2, &bytes), -ERANGE);
	put(&tree, "4294967296", "1");
	ASSERT_OK(port_counters_read(tree.root, "mlx5_0", 2, &bytes));
	ASSERT_EQ(bytes, 4 * (4294967296 + 1));
	sysfs_tree_deinit(&tree);
}

TEST(what_is_not_there_is_told)
{
	struct sysfs_tree tree;
	uint64_t bytes = 7;

	sysfs_tree_init(&tree);
	put(&tree, "1", "1");
	ASSERT_EQ(port_counters_read(tree.root, "mlx5_1", 2, &bytes), -ENOENT);
	ASSERT_EQ(port_counters_read(tree.root, "mlx5_0", 1, &bytes), -ENOENT);
	ASSERT_EQ(port_counters_read(tree.root, "", 2, &bytes), -ENOENT);
	ASSERT_EQ(port_counters_read(tree.root, "../infiniband/mlx5_0", 2, &bytes), -ENOENT);
	sysfs_tree_remove(&tree, COUNTERS "port_rcv_data");
	ASSERT_EQ(port_counters_read(tree.root, "mlx5_0", 2, &bytes), -ENOENT);
	ASSERT_EQ(bytes, 7);
	sysfs_tree_deinit(&tree);
}
