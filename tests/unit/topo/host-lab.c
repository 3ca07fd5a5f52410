/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/topo/host-lab.h"

#include <stdlib.h>

#include "tests/lib/test.h"

struct topo *read_tree(const struct machine_tree *tree, const char *nvml)
{
	struct topo_host_attr attr = {.sys = tree->sys, .proc = tree->proc, .nvml = nvml};
	struct topo *topo = NULL;

	ASSERT_OK(topo_read_host(&attr, &topo));
	return topo;
}

struct topo_map *map_of(const struct topo *topo)
{
	struct topo_map *map = calloc(1, sizeof(*map));

	ASSERT(map);
	topo_assign(topo, NULL, map);
	return map;
}

void put_nic(struct machine_tree *tree, struct machine_nic nic)
{
	machine_tree_pci(tree, nic.path, nic.netdev ? CLASS_ETHERNET : CLASS_INFINIBAND, MELLANOX, 0);
	machine_tree_nic(tree, &nic);
}

void put_machine(struct machine_tree *tree)
{
	machine_tree_init(tree, 2);
	machine_tree_pci(tree, GPU_PATH, CLASS_3D, NVIDIA, 0);
	put_nic(tree, (struct machine_nic){.path = NIC_PATH, .name = "mlx5_7", .netdev = "eth7", .gbps = 400});
	put_nic(tree, (struct machine_nic){.path = FAR_NIC_PATH, .name = "mlx5_0", .gbps = 400});
	/* Neither is one: a network card without RDMA, a display of a management controller. */
	machine_tree_pci(tree, SWITCH "/0000:02:02.0/0000:05:00.0", CLASS_ETHERNET, 0x8086, 0);
	machine_tree_pci(tree, "pci0000:00/0000:00:1c.0/0000:09:00.0", 0x030000, 0x1a03, 0);
}

/* The only GPU's only NIC by its name; each time the machine is read as it is. */
void assert_given(const struct machine_tree *tree, const char *name)
{
	struct topo *topo = read_tree(tree, NULL);
	struct topo_map *map = map_of(topo);

	ASSERT_EQ(topo->n_gpus, 1);
	ASSERT_EQ(map->gpus[0].n_nics, 1);
	ASSERT_STREQ(topo->nics[map->gpus[0].nics[0]].seen.name, name);
	free(map);
	topo_free(topo);
}

/* Beside the GPU there is only what cannot be used, so it gets the far NIC; what could be used beside it changes that. */
void put_lonely_gpu(struct machine_tree *tree)
{
	machine_tree_init(tree, 2);
	machine_tree_pci(tree, GPU_PATH, CLASS_3D, NVIDIA, 0);
	put_nic(tree, (struct machine_nic){.path = FAR_NIC_PATH, .name = "far", .gbps = 400});
	assert_given(tree, "far");
}
