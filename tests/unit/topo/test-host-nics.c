/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC that a GPU gets on a machine as sysfs shows it, and the NICs that no GPU gets. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/host-lab.h"

#define BESIDE_PATH SWITCH "/0000:02:05.0/0000:08:00"

TEST(an_unplugged_nic_leaves_its_gpu_the_next_nearest)
{
	struct machine_tree tree;
	struct topo_map *map;
	struct topo *topo;

	put_machine(&tree);
	topo = read_tree(&tree, NULL);
	map = map_of(topo);
	ASSERT_STREQ(topo->nics[map->gpus[0].nics[0]].seen.name, "mlx5_7");
	free(map);
	topo_free(topo);
	machine_tree_unplug(&tree, NIC_PATH, "mlx5_7");
	topo = read_tree(&tree, NULL);
	map = map_of(topo);
	ASSERT_EQ(topo->n_nics, 1);
	ASSERT_STREQ(topo->nics[map->gpus[0].nics[0]].seen.name, "mlx5_0");
	free(map);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

static enum topo_exclusion excluded(const struct topo *topo, const struct topo_map *map, const char *name, const char *says)
{
	char why[TOPO_WHY_BYTES];

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		if (strcmp(topo->nics[i].seen.name, name))
			continue;
		if (map->excluded[i] != TOPO_USED)
			ASSERT(strstr(topo_reason_excluded(topo, map, i, why), says));
		return map->excluded[i];
	}
	ASSERT(!"there is no such NIC");
	return TOPO_USED;
}

TEST(nics_that_no_gpu_should_get_are_recognized_in_sysfs)
{
	struct machine_tree tree;
	struct topo_map *map;
	struct topo *topo;

	put_machine(&tree);
	put_nic(&tree, (struct machine_nic){.path = "pci0000:a0/0000:a0:01.0/0000:a1:00.0", .name = "slow", .netdev = "eth0", .gbps = 25});
	put_nic(&tree, (struct machine_nic){.path = "pci0000:a0/0000:a0:02.0/0000:a2:00.0", .name = "pf", .gbps = 400, .is_down = true});
	put_nic(&tree, (struct machine_nic){.path = "pci0000:a0/0000:a0:02.0/0000:a2:00.1", .name = "vf", .gbps = 400,
					    .physfn = "0000:a2:00.0"});
	put_nic(&tree, (struct machine_nic){.path = "pci0000:a0/0000:a0:02.0/0000:a2:00.2", .name = "vf2", .gbps = 400,
					    .physfn = "0000:81:00.0"});
	put_nic(&tree, (struct machine_nic){.path = "pci0000:a0/0000:a0:03.0/0000:a3:00.0", .name = "bond_first", .netdev = "p0",
					    .bond = "bond0", .gbps = 400});
	put_nic(&tree, (struct machine_nic){.path = "pci0000:a0/0000:a0:03.0/0000:a3:00.1", .name = "bond_second", .netdev = "p1",
					    .bond = "bond0", .gbps = 400});
	put_nic(&tree, (struct machine_nic){.path = SWITCH "/0000:02:03.0/0000:06:00.0", .name = "manager", .gbps = 400});
	sysfs_tree_put(&tree.files, "sys/devices/" SWITCH "/0000:02:03.0/0000:06:00.0/vpd", "ConnectX-7 SMDL=SW_MNG");
	/* It is a register that answers slowly: one of Ethernet, which manages none, is not asked. */
	sysfs_tree_put(&tree.files, "sys/devices/pci0000:a0/0000:a0:03.0/0000:a3:00.0/vpd",
		       "ConnectX-7 SMDL=SW_MNG");
	machine_tree_pci(&tree, SWITCH "/0000:02:04.0/0000:07:00.0", CLASS_INFINIBAND, MELLANOX, 0);
	topo = read_tree(&tree, NULL);
	map = map_of(topo);
	ASSERT_EQ(topo->n_nics, 10);
	ASSERT_EQ(excluded(topo, map, "slow", "25 Gb/s beside the 400 Gb/s of"), TOPO_SLOW);
	ASSERT_EQ(excluded(topo, map, "pf", "down, physically disabled"), TOPO_DOWN);
	ASSERT_EQ(excluded(topo, map, "vf", "virtual function of pf, whose port is down"), TOPO_PF_DOWN);
	ASSERT_EQ(excluded(topo, map, "vf2", "virtual function of mlx5_0, which is in use"), TOPO_PF_TAKEN);
	ASSERT_EQ(excluded(topo, map, "bond_first", ""), TOPO_USED);
	ASSERT_EQ(excluded(topo, map, "bond_second", "bond bond0, which bond_first stands for"), TOPO_BOND_MEMBER);
	ASSERT_EQ(excluded(topo, map, "manager", "switches of GPU links"), TOPO_IS_BRIDGE);
	ASSERT_EQ(excluded(topo, map, "", "driver"), TOPO_NO_DRIVER);
	/* The switch manager hangs beside the GPU as the NIC does. */
	ASSERT_EQ(map->gpus[0].n_nics, 1);
	ASSERT_STREQ(topo->nics[map->gpus[0].nics[0]].seen.name, "mlx5_7");
	free(map);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

/* "..03.0/..06.0": with so many lanes of PCIe 5. */
static void put_lanes(struct machine_tree *tree, const char *path, const char *n)
{
	char file[200];

	snprintf(file, sizeof(file), "sys/devices/%s/max_link_width", path);
	sysfs_tree_put(&tree->files, file, "%s\n", n);
}

static enum topo_exclusion judge_manager(struct machine_tree *tree)
{
	struct topo *topo = read_tree(tree, NULL);
	struct topo_map *map = map_of(topo);
	enum topo_exclusion is = excluded(topo, map, "manager", "");

	free(map);
	topo_free(topo);
	return is;
}

#define MANAGER_PATH SWITCH "/0000:02:03.0/0000:06:00.0"

/* A daemon's user without the rule of udev cannot read them. */
TEST(without_product_data_a_narrow_link_tells_a_manager_of_switches)
{
	struct machine_tree tree;

	put_machine(&tree);
	put_nic(&tree, (struct machine_nic){.path = MANAGER_PATH, .name = "manager", .gbps = 400});
	ASSERT_EQ(judge_manager(&tree), TOPO_USED);
	put_lanes(&tree, MANAGER_PATH, "2");
	ASSERT_EQ(judge_manager(&tree), TOPO_SEEMS_BRIDGE);
	/* Four lanes may be for data, and so may what every link is. */
	put_lanes(&tree, MANAGER_PATH, "4");
	ASSERT_EQ(judge_manager(&tree), TOPO_USED);
	put_lanes(&tree, MANAGER_PATH, "1");
	put_lanes(&tree, NIC_PATH, "1");
	put_lanes(&tree, FAR_NIC_PATH, "1");
	ASSERT_EQ(judge_manager(&tree), TOPO_USED);
	machine_tree_deinit(&tree);
}

/* Product data decide where they can be read. */
TEST(product_data_without_the_mark_clear_a_nic_with_a_narrow_link)
{
	struct machine_tree tree;

	put_machine(&tree);
	put_nic(&tree, (struct machine_nic){.path = MANAGER_PATH, .name = "manager", .gbps = 400});
	put_lanes(&tree, MANAGER_PATH, "2");
	sysfs_tree_put(&tree.files, "sys/devices/" MANAGER_PATH "/vpd", "ConnectX-7 SMDL=MBF345");
	ASSERT_EQ(judge_manager(&tree), TOPO_USED);
	machine_tree_deinit(&tree);
}

TEST(a_vf_of_a_pf_that_is_down_is_not_assigned)
{
	struct machine_tree tree;

	put_lonely_gpu(&tree);
	put_nic(&tree, (struct machine_nic){.path = BESIDE_PATH ".0", .name = "pf", .gbps = 400, .is_down = true});
	put_nic(&tree, (struct machine_nic){.path = BESIDE_PATH ".1", .name = "vf", .gbps = 400, .physfn = "0000:08:00.0"});
	assert_given(&tree, "far");
	sysfs_tree_put(&tree.files, "sys/devices/" BESIDE_PATH ".0/infiniband/pf/ports/1/state", "4: ACTIVE\n");
	assert_given(&tree, "pf");
	machine_tree_deinit(&tree);
}

TEST(a_slow_nic_beside_the_gpu_yields_to_a_fast_one_far_away)
{
	struct machine_tree tree;

	put_lonely_gpu(&tree);
	put_nic(&tree, (struct machine_nic){.path = BESIDE_PATH ".0", .name = "near", .netdev = "eth0", .gbps = 25});
	assert_given(&tree, "far");
	sysfs_tree_put(&tree.files, "sys/devices/" BESIDE_PATH ".0/infiniband/near/ports/1/rate", "400 Gb/sec (4X NDR)\n");
	assert_given(&tree, "near");
	machine_tree_deinit(&tree);
}

TEST(the_gpu_has_one_port_of_a_bond)
{
	struct machine_tree tree;

	put_lonely_gpu(&tree);
	put_nic(&tree, (struct machine_nic){.path = BESIDE_PATH ".0", .name = "first", .netdev = "p0", .bond = "bond0", .gbps = 400});
	put_nic(&tree, (struct machine_nic){.path = BESIDE_PATH ".1", .name = "second", .netdev = "p1", .bond = "bond0", .gbps = 400});
	assert_given(&tree, "first");
	machine_tree_deinit(&tree);
}

/* One switch shows which devices are near where no NUMA node is given. */
TEST(without_numa_nodes_the_nearest_nic_is_given_all_the_same)
{
	struct machine_tree tree;

	machine_tree_init(&tree, 0);
	machine_tree_pci(&tree, GPU_PATH, CLASS_3D, NVIDIA, -1);
	put_nic(&tree, (struct machine_nic){.path = "pci0000:00/0000:00:03.0", .name = "first_by_address", .gbps = 400});
	put_nic(&tree, (struct machine_nic){.path = NIC_PATH, .name = "near", .gbps = 400});
	for (unsigned int i = 0; i < 2; i++)
		sysfs_tree_put(&tree.files, i ? "sys/devices/" NIC_PATH "/numa_node" : "sys/devices/pci0000:00/0000:00:03.0/numa_node",
			       "-1\n");
	assert_given(&tree, "near");
	machine_tree_deinit(&tree);
}

/* Some hypervisors put all devices on one host bridge, straight or each behind a port, and leave only NUMA nodes to tell them by. */
static void judge_flat(bool has_ports)
{
	static const struct {
		int numa;
		const char *nic;
	} devices[] = {{0, NULL}, {1, NULL}, {1, "first"}, {0, "second"}};
	struct machine_tree tree;
	struct topo_map *map;
	struct topo *topo;
	char path[80];

	machine_tree_init(&tree, 2);
	for (unsigned int i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		snprintf(path, sizeof(path), "pci0000:00/0000:00:%02x.0", i + 1);
		if (has_ports)
			snprintf(path, sizeof(path), "pci0000:00/0000:00:%02x.0/0000:%02x:00.0", i + 1, i + 1);
		machine_tree_pci(&tree, path, devices[i].nic ? CLASS_INFINIBAND : CLASS_3D, devices[i].nic ? MELLANOX : NVIDIA,
				 devices[i].numa);
		if (devices[i].nic)
			machine_tree_nic(&tree, &(struct machine_nic){.path = path, .name = devices[i].nic, .gbps = 400});
	}
	topo = read_tree(&tree, NULL);
	map = map_of(topo);
	ASSERT_EQ(map->gpus[0].n_nics, 1);
	ASSERT_STREQ(topo->nics[map->gpus[0].nics[0]].seen.name, "second");
	ASSERT_EQ(map->gpus[1].n_nics, 1);
	ASSERT_STREQ(topo->nics[map->gpus[1].nics[0]].seen.name, "first");
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_SYS);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[1].node), TOPO_PHB);
	free(map);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

TEST(numa_nodes_tell_what_is_near_on_one_host_bridge)
{
	judge_flat(false);
	judge_flat(true);
}

TEST(devices_that_are_unplugged_and_plugged_in_again)
{
	struct machine_tree tree;
	struct topo *topo;

	put_lonely_gpu(&tree);
	put_nic(&tree, (struct machine_nic){.path = NIC_PATH, .name = "near", .gbps = 400});
	assert_given(&tree, "near");
	machine_tree_unplug(&tree, NIC_PATH, "near");
	assert_given(&tree, "far");
	put_nic(&tree, (struct machine_nic){.path = NIC_PATH, .name = "near", .gbps = 400});
	assert_given(&tree, "near");
	sysfs_tree_remove(&tree.files, "sys/bus/pci/devices/0000:03:00.0");
	topo = read_tree(&tree, NULL);
	ASSERT_EQ(topo->n_gpus, 0);
	ASSERT_EQ(topo->n_nics, 2);
	topo_free(topo);
	machine_tree_pci(&tree, GPU_PATH, CLASS_3D, NVIDIA, 0);
	assert_given(&tree, "near");
	machine_tree_deinit(&tree);
}
