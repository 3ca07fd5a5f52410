/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of a port, from the byte of verbs and from sysfs. */
#include <stdio.h>

#include "daemon/host/host.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"

#define WIDTH_2X 16
#define WIDTH_4X 2
#define EDR 32
#define NDR 128

static uint64_t rate(const struct sysfs_tree *tree, uint8_t width, uint8_t speed)
{
	char nic[128];

	snprintf(nic, sizeof(nic), "%s/mlx5_0", tree->root);
	return host_rate_mbps(nic, 1, width, speed);
}

static void put(const struct sysfs_tree *tree, const char *text)
{
	sysfs_tree_put(tree, "mlx5_0/ports/1/rate", "%s\n", text);
}

TEST(rates_beyond_the_byte_are_read_from_sysfs)
{
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	put(&tree, "800 Gb/sec (4X XDR)");
	ASSERT_EQ(rate(&tree, WIDTH_4X, NDR), 800000u);
	put(&tree, "400 Gb/sec (2X XDR)");
	ASSERT_EQ(rate(&tree, WIDTH_2X, NDR), 400000u);
	put(&tree, "400 Gb/sec (4X NDR)");
	ASSERT_EQ(rate(&tree, WIDTH_4X, NDR), 400000u);
	sysfs_tree_deinit(&tree);
}

TEST(rates_within_the_byte_are_not_read_from_sysfs)
{
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	put(&tree, "800 Gb/sec (4X XDR)");
	ASSERT_EQ(rate(&tree, WIDTH_4X, EDR), 100000u);
	ASSERT_EQ(rate(&tree, WIDTH_4X, 0), 0u);
	ASSERT_EQ(rate(&tree, 0, EDR), 0u);
	sysfs_tree_deinit(&tree);
}

TEST(without_an_answer_of_sysfs_that_of_verbs_counts)
{
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	ASSERT_EQ(rate(&tree, WIDTH_4X, NDR), 400000u);
	put(&tree, "garbage");
	ASSERT_EQ(rate(&tree, WIDTH_4X, NDR), 400000u);
	put(&tree, "2.5 Gb/sec (1X SDR)");
	ASSERT_EQ(rate(&tree, WIDTH_4X, NDR), 400000u);
	sysfs_tree_deinit(&tree);
}
