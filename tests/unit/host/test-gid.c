/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a port's GID, from tables as kernels have them. */
#include <errno.h>
#include <stdio.h>

#include "daemon/host/host.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"

#define IPV4(a, b, c, d) {[10] = 0xff, 0xff, a, b, c, d}
#define LOCAL {0xfe, 0x80, [15] = 1}
#define GLOBAL {0x20, 0x01, 0x0d, 0xb8, [15] = 1}
#define UNIQUE {0xfd, 0x00, [15] = 1}

static int choose(const struct host_gid_row *gids, size_t n)
{
	return host_gid_choose(gids, n, 1, true);
}

#define CHOOSE(...) choose((const struct host_gid_row[]){__VA_ARGS__}, sizeof((struct host_gid_row[]){__VA_ARGS__}) / sizeof(struct host_gid_row))
#define V2 .port = 1, .is_roce_v2 = true

TEST(addresses_that_pass_routers_come_before_others)
{
	ASSERT_EQ(CHOOSE({V2, .bytes = LOCAL}), 0);
	ASSERT_EQ(CHOOSE({V2, .bytes = LOCAL}, {V2, .bytes = GLOBAL}), 1);
	ASSERT_EQ(CHOOSE({V2, .bytes = LOCAL}, {V2, .bytes = UNIQUE}), 1);
	ASSERT_EQ(CHOOSE({V2, .bytes = GLOBAL}, {V2, .bytes = LOCAL}, {V2, .bytes = IPV4(10, 0, 0, 1)}), 2);
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(169, 254, 0, 1)}, {V2, .bytes = GLOBAL}), 1);
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(127, 0, 0, 1)}, {V2, .bytes = GLOBAL}), 1);
	/* The first of two equal ones wins, so that the choice is stable. */
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(10, 0, 0, 1)}, {V2, .bytes = IPV4(10, 0, 0, 2)}), 0);
}

TEST(version_1_and_other_ports_are_no_choice)
{
	ASSERT_EQ(CHOOSE({.port = 1, .bytes = IPV4(10, 0, 0, 1)}, {V2, .bytes = LOCAL}), 1);
	ASSERT_EQ(CHOOSE({.port = 2, .is_roce_v2 = true, .bytes = IPV4(10, 0, 0, 1)}, {V2, .bytes = LOCAL}), 1);
	ASSERT_EQ(CHOOSE({.port = 1, .bytes = IPV4(10, 0, 0, 1)}), -ENOENT);
	/* Commands have eight bits for it. */
	ASSERT_EQ(CHOOSE({V2, .index = 256, .bytes = IPV4(10, 0, 0, 1)}, {V2, .index = 255, .bytes = LOCAL}), 1);
}

TEST(an_address_that_reaches_no_peer_is_not_chosen)
{
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(224, 0, 0, 1)}, {V2, .bytes = LOCAL}), 1);
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(255, 255, 255, 255)}, {V2, .bytes = LOCAL}), 1);
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(240, 0, 0, 1)}), -ENOENT);
	ASSERT_EQ(CHOOSE({V2, .bytes = {0}}, {V2, .bytes = {0xff, 0x02}}), -ENOENT);
}

TEST(the_index_plays_no_part)
{
	for (uint32_t index = 0; index < 256; index++) {
		const struct host_gid_row gids[] = {{V2, .index = 255 - index, .bytes = LOCAL}, {V2, .index = index, .bytes = IPV4(10, 0, 0, 1)}};

		ASSERT_EQ(choose(gids, 2), 1);
	}
}

TEST(the_ports_own_interface_that_is_up_is_preferred)
{
	/* A VLAN upon it, listed before. */
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(10, 1, 0, 1)}, {V2, .bytes = IPV4(10, 0, 0, 1), .is_netdev_own = true}), 1);
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(10, 1, 0, 1)}, {V2, .bytes = GLOBAL, .is_netdev_own = true}), 1);
	/* Without an address that passes routers of its own, the VLAN's. */
	ASSERT_EQ(CHOOSE({V2, .bytes = LOCAL, .is_netdev_own = true}, {V2, .bytes = IPV4(10, 1, 0, 1)}), 1);
	/* An interface that is down reaches no peer. */
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(10, 0, 0, 1), .is_netdev_own = true, .is_netdev_down = true}, {V2, .bytes = IPV4(10, 1, 0, 1)}),
		  1);
	ASSERT_EQ(CHOOSE({V2, .bytes = IPV4(10, 0, 0, 1), .is_netdev_down = true}, {V2, .bytes = LOCAL}), 1);
	ASSERT_EQ(CHOOSE({V2, .bytes = LOCAL, .is_netdev_down = true}, {V2, .bytes = IPV4(10, 0, 0, 1), .is_netdev_down = true}), 1);
}

TEST(infiniband_takes_the_first_of_its_port)
{
	const struct host_gid_row gids[] = {{.port = 2, .bytes = LOCAL}, {.port = 1, .bytes = LOCAL}, {.port = 1, .bytes = GLOBAL}};

	ASSERT_EQ(host_gid_choose(gids, 3, 1, false), 1);
	ASSERT_EQ(host_gid_choose(gids, 3, 3, false), -ENOENT);
}

static struct host_gid_row look(const struct sysfs_tree *tree, uint32_t index)
{
	struct host_gid_row gid = {V2, .index = index};
	char nic[128], net[128];

	snprintf(nic, sizeof(nic), "%s/mlx5_0", tree->root);
	snprintf(net, sizeof(net), "%s/net", tree->root);
	host_gid_look(nic, net, &gid);
	return gid;
}

TEST(sysfs_tells_whose_address_it_is)
{
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	sysfs_tree_put(&tree, "mlx5_0/ports/1/gid_attrs/ndevs/0", "eth0\n");
	sysfs_tree_put(&tree, "mlx5_0/ports/1/gid_attrs/ndevs/1", "eth0.7\n");
	sysfs_tree_put(&tree, "mlx5_0/ports/1/gid_attrs/ndevs/2", "eth0.8\n");
	sysfs_tree_put(&tree, "mlx5_0/device/net/eth0/dev_port", "0\n");
	sysfs_tree_put(&tree, "net/eth0/operstate", "up\n");
	sysfs_tree_put(&tree, "net/eth0.7/operstate", "lowerlayerdown\n");
	ASSERT(look(&tree, 0).is_netdev_own);
	ASSERT(!look(&tree, 0).is_netdev_down);
	ASSERT(!look(&tree, 1).is_netdev_own);
	ASSERT(look(&tree, 1).is_netdev_down);
	/* It is unknown. */
	ASSERT(!look(&tree, 2).is_netdev_down);
	ASSERT(!look(&tree, 3).is_netdev_own);
	ASSERT(!look(&tree, 3).is_netdev_down);
	sysfs_tree_put(&tree, "net/eth0/operstate", "down\n");
	ASSERT(look(&tree, 0).is_netdev_down);
	sysfs_tree_deinit(&tree);
}
