/* SPDX-License-Identifier: Apache-2.0 */
/* A dump of a running machine, here a tree of sysfs: read again, it is the same machine, down to assignments and their reasons. */
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/topo.h"
#include "tests/lib/machine-tree.h"
#include "tests/lib/test.h"

#define NVIDIA 0x10de
#define MELLANOX 0x15b3
#define CLASS_3D 0x030200
#define CLASS_ETHERNET 0x020000
#define CLASS_INFINIBAND 0x020700

#define SWITCH "pci0000:00/0000:00:01.0/0000:01:00.0"
#define MANAGER SWITCH "/0000:02:03.0/0000:06:00.0"
#define FAR_PORT "pci0000:a0/0000:a0:0"

static void put_nic(struct machine_tree *tree, struct machine_nic nic)
{
	nic.gbps = nic.gbps ? nic.gbps : 400;
	machine_tree_pci(tree, nic.path, nic.netdev ? CLASS_ETHERNET : CLASS_INFINIBAND, MELLANOX, 1);
	machine_tree_nic(tree, &nic);
}

/* A NIC for each reason that a machine by itself has not to use one. */
static void put_machine(struct machine_tree *tree)
{
	machine_tree_init(tree, 2);
	machine_tree_pci(tree, SWITCH "/0000:02:00.0/0000:03:00.0", CLASS_3D, NVIDIA, 0);
	machine_tree_pci(tree, "pci0000:80/0000:80:01.0/0000:81:00.0", 0x030000, NVIDIA, 1);
	sysfs_tree_put(&tree->files, "proc/driver/nvidia/gpus/0000:03:00.0/information", "Model: \t NVIDIA <H100>\nGPU UUID: \t GPU-1\n");
	put_nic(tree, (struct machine_nic){.path = SWITCH "/0000:02:01.0/0000:04:00.0", .name = "mlx5_7", .netdev = "eth7"});
	put_nic(tree, (struct machine_nic){.path = "pci0000:80/0000:80:02.0/0000:82:00.0", .name = "mlx5_0", .pci_speed = "8.0 GT/s PCIe",
					   .pci_width = 8, .firmware = "16.35.1012", .guid = "a088:c203:00ab:9999"});
	put_nic(tree, (struct machine_nic){.path = FAR_PORT "1.0/0000:a1:00.0", .name = "slow", .netdev = "eth0", .gbps = 25, .mtu_bytes = 1500,
					   .is_netdev_down = true, .has_no_gids = true});
	put_nic(tree, (struct machine_nic){.path = FAR_PORT "2.0/0000:a2:00.0", .name = "pf", .is_down = true});
	put_nic(tree, (struct machine_nic){.path = FAR_PORT "2.0/0000:a2:00.1", .name = "vf", .physfn = "0000:a2:00.0"});
	put_nic(tree, (struct machine_nic){.path = FAR_PORT "2.0/0000:a2:00.2", .name = "vf2", .physfn = "0000:82:00.0"});
	put_nic(tree, (struct machine_nic){.path = FAR_PORT "3.0/0000:a3:00.0", .name = "first", .netdev = "p0", .bond = "bond0"});
	put_nic(tree, (struct machine_nic){.path = FAR_PORT "3.0/0000:a3:00.1", .name = "second", .netdev = "p1", .bond = "bond0"});
	put_nic(tree, (struct machine_nic){.path = MANAGER, .name = "manager"});
	sysfs_tree_put(&tree->files, "sys/devices/" MANAGER "/vpd", "ConnectX-7 SMDL=SW_MNG");
	machine_tree_pci(tree, SWITCH "/0000:02:04.0/0000:07:00.0", CLASS_INFINIBAND, MELLANOX, 0);
}

static struct topo *read_machine(void)
{
	struct topo_host_attr attr = {0};
	struct machine_tree tree;
	struct topo *topo = NULL;

	put_machine(&tree);
	attr.sys = tree.sys;
	attr.proc = tree.proc;
	ASSERT_OK(topo_read_host(&attr, &topo));
	machine_tree_deinit(&tree);
	ASSERT_EQ(topo->n_gpus, 2);
	ASSERT_EQ(topo->n_nics, 10);
	return topo;
}

static struct topo *replay(const struct topo *topo)
{
	char *text = NULL, why[TOPO_WHY_BYTES];
	struct topo *again = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	topo_dump(topo, out);
	ASSERT_OK(fclose(out));
	ASSERT_OK(topo_parse(text, n_bytes, &again, why));
	free(text);
	return again;
}

static void assert_same_port(const struct topo_nic *a, const struct topo_nic *b)
{
	ASSERT_EQ(a->seen.port, b->seen.port);
	ASSERT_STREQ(a->seen.name, b->seen.name);
	ASSERT_STREQ(a->seen.netdev, b->seen.netdev);
	ASSERT_STREQ(a->seen.bond, b->seen.bond);
	ASSERT_STREQ(a->seen.firmware, b->seen.firmware);
	ASSERT_EQ(a->seen.state, b->seen.state);
	ASSERT_EQ(a->seen.fabric, b->seen.fabric);
	ASSERT_EQ(a->role, b->role);
	ASSERT_EQ(a->seen.manages_switches, b->seen.manages_switches);
	ASSERT_EQ(a->has_no_driver, b->has_no_driver);
	ASSERT_EQ(a->is_unmanaged, b->is_unmanaged);
	ASSERT_EQ(a->seen.phys_state, b->seen.phys_state);
	ASSERT_EQ(a->seen.lid, b->seen.lid);
	ASSERT_EQ(a->guid, b->guid);
	ASSERT_EQ(a->seen.node_guid, b->seen.node_guid);
	ASSERT_EQ(a->seen.pf, b->seen.pf);
	ASSERT_MEMEQ(&a->seen.link, &b->seen.link, sizeof(a->seen.link));
}

static void assert_same_gid(const struct host_gid *a, const struct host_gid *b)
{
	ASSERT_MEMEQ(a->bytes, b->bytes, sizeof(a->bytes));
	ASSERT_EQ(a->index, b->index);
	ASSERT_EQ(a->type == HOST_GID_ROCE_V2, b->type == HOST_GID_ROCE_V2);
	ASSERT_STREQ(a->netdev, b->netdev);
}

static void assert_same_abilities(const struct topo_nic *a, const struct topo_nic *b)
{
	ASSERT_EQ(a->seen.mtu_bytes, b->seen.mtu_bytes);
	ASSERT_EQ(a->seen.active_mtu_bytes, b->seen.active_mtu_bytes);
	ASSERT_EQ(a->seen.max_mtu_bytes, b->seen.max_mtu_bytes);
	ASSERT_EQ(a->seen.rate_mbps, b->seen.rate_mbps);
	ASSERT_EQ(a->seen.n_lanes, b->seen.n_lanes);
	ASSERT_EQ(a->seen.max_rate_mbps, b->seen.max_rate_mbps);
	ASSERT_EQ(a->seen.max_lanes, b->seen.max_lanes);
	ASSERT_EQ(a->seen.netdev_is_up, b->seen.netdev_is_up);
	ASSERT_EQ(a->seen.has_devx, b->seen.has_devx);
	ASSERT_EQ(a->seen.has_masked_atomics, b->seen.has_masked_atomics);
	ASSERT_EQ(a->seen.has_dmabuf, b->seen.has_dmabuf);
	ASSERT_EQ(a->seen.has_blueflame, b->seen.has_blueflame);
	ASSERT_EQ(a->seen.has_gids, b->seen.has_gids);
	ASSERT_EQ(a->seen.n_gids, b->seen.n_gids);
	for (unsigned int i = 0; i < a->seen.n_gids; i++)
		assert_same_gid(&a->seen.gids[i], &b->seen.gids[i]);
}

/* And all that is above it. */
static void assert_same_node(const struct topo *a, unsigned int node_a, const struct topo *b, unsigned int node_b)
{
	int at_a = (int)node_a, at_b = (int)node_b;

	for (; at_a >= 0 && at_b >= 0; at_a = a->nodes[at_a].parent, at_b = b->nodes[at_b].parent) {
		ASSERT_EQ(a->nodes[at_a].kind, b->nodes[at_b].kind);
		ASSERT_EQ(a->nodes[at_a].n_hops, b->nodes[at_b].n_hops);
		ASSERT_EQ(a->nodes[at_a].numa, b->nodes[at_b].numa);
		ASSERT_EQ(a->nodes[at_a].pci, b->nodes[at_b].pci);
		ASSERT_EQ(a->nodes[at_a].class_code, b->nodes[at_b].class_code);
		ASSERT_EQ(a->nodes[at_a].vendor, b->nodes[at_b].vendor);
		ASSERT_EQ(a->nodes[at_a].device, b->nodes[at_b].device);
		/* Bridges have none: only what a function's link carries is asked for. */
		ASSERT_EQ(a->nodes[at_a].link_mbps, b->nodes[at_b].link_mbps);
	}
	ASSERT_EQ(at_a, at_b);
}

static void assert_same_machine(const struct topo *a, const struct topo *b)
{
	ASSERT_EQ(a->n_gpus, b->n_gpus);
	ASSERT_EQ(a->n_nics, b->n_nics);
	ASSERT_EQ(a->n_numa, b->n_numa);
	ASSERT_EQ(a->n_hosts, b->n_hosts);
	ASSERT_EQ(a->has_xgmi, b->has_xgmi);
	for (unsigned int i = 0; i < a->n_gpus; i++) {
		assert_same_node(a, a->gpus[i].node, b, b->gpus[i].node);
		ASSERT_STREQ(a->gpus[i].uuid, b->gpus[i].uuid);
		ASSERT_STREQ(a->gpus[i].name, b->gpus[i].name);
		ASSERT_EQ(a->gpus[i].has_mig, b->gpus[i].has_mig);
		ASSERT_EQ(a->gpus[i].n_switch_links, b->gpus[i].n_switch_links);
		ASSERT_MEMEQ(a->gpu_links[i], b->gpu_links[i], sizeof(a->gpu_links[i]));
	}
	for (unsigned int i = 0; i < a->n_nics; i++) {
		assert_same_node(a, a->nics[i].node, b, b->nics[i].node);
		assert_same_port(&a->nics[i], &b->nics[i]);
		assert_same_abilities(&a->nics[i], &b->nics[i]);
	}
}

/* Facts that a folder of files cannot carry, different for each device. */
static void add_answers(struct topo *topo)
{
	topo->has_xgmi = true;
	topo->gpus[1].has_mig = true;
	topo->gpus[1].n_switch_links = 18;
	topo->gpu_links[0][1] = topo->gpu_links[1][0] = 4;
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		struct topo_nic *nic = &topo->nics[i];

		nic->is_unmanaged = i % 2;
		nic->seen.active_mtu_bytes = 1024 + i;
		nic->seen.max_mtu_bytes = 4096 + i;
		nic->seen.max_rate_mbps = 800000 + i;
		nic->seen.max_lanes = i;
		nic->seen.has_devx = (enum host_known)(i % 3);
		nic->seen.has_masked_atomics = (enum host_known)((i + 1) % 3);
		nic->seen.has_dmabuf = (enum host_known)(i / 3 % 3);
		nic->seen.has_blueflame = (enum host_known)((i / 3 + 1) % 3);
	}
}

TEST(a_dump_has_all_that_is_known_of_a_machine)
{
	struct topo *topo = read_machine(), *again;

	add_answers(topo);
	again = replay(topo);
	assert_same_machine(topo, again);
	topo_free(again);
	topo_free(topo);
}

static void assert_same_map(const struct topo *a, const struct topo *b, bool seen[TOPO_NOT_INCLUDED + 1])
{
	struct topo_map *map_a = calloc(1, sizeof(*map_a)), *map_b = calloc(1, sizeof(*map_b));
	char why_a[TOPO_WHY_BYTES], why_b[TOPO_WHY_BYTES];

	ASSERT(map_a && map_b);
	topo_assign(a, NULL, map_a);
	topo_assign(b, NULL, map_b);
	for (unsigned int i = 0; i < a->n_gpus; i++) {
		ASSERT_GT(map_a->gpus[i].n_nics, 0);
		ASSERT_EQ(map_a->gpus[i].n_nics, map_b->gpus[i].n_nics);
		ASSERT_MEMEQ(map_a->gpus[i].nics, map_b->gpus[i].nics, map_a->gpus[i].n_nics * sizeof(map_a->gpus[i].nics[0]));
	}
	for (unsigned int i = 0; i < a->n_nics; i++) {
		ASSERT_EQ(map_a->excluded[i], map_b->excluded[i]);
		seen[map_a->excluded[i]] = true;
		if (map_a->excluded[i] != TOPO_USED)
			ASSERT_STREQ(topo_reason_excluded(a, map_a, i, why_a), topo_reason_excluded(b, map_b, i, why_b));
	}
	free(map_a);
	free(map_b);
}

TEST(a_dump_gives_the_same_map_and_the_same_exclusions)
{
	static const enum topo_exclusion wanted[] = {TOPO_USED,	   TOPO_IS_BRIDGE, TOPO_NO_DRIVER,   TOPO_DOWN,
						     TOPO_PF_DOWN, TOPO_PF_TAKEN,  TOPO_BOND_MEMBER, TOPO_SLOW};
	struct topo *topo = read_machine(), *again = replay(topo);
	bool seen[TOPO_NOT_INCLUDED + 1] = {false};

	assert_same_map(topo, again, seen);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		ASSERT(seen[wanted[i]]);
	topo_free(again);
	topo_free(topo);
}
