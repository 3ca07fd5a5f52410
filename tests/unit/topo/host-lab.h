/* SPDX-License-Identifier: Apache-2.0 */
/* Machines in trees of sysfs, read as the running machine is. */
#ifndef SHMD_TESTS_HOST_LAB_H
#define SHMD_TESTS_HOST_LAB_H

#include "daemon/topo/topo.h"
#include "tests/lib/machine-tree.h"

#define NVIDIA 0x10de
#define MELLANOX 0x15b3
#define CLASS_3D 0x030200
#define CLASS_ETHERNET 0x020000
#define CLASS_INFINIBAND 0x020700
#define SWITCH "pci0000:00/0000:00:01.0/0000:01:00.0"
#define GPU_PATH SWITCH "/0000:02:00.0/0000:03:00.0"
#define NIC_PATH SWITCH "/0000:02:01.0/0000:04:00.0"
#define FAR_NIC_PATH "pci0000:80/0000:80:01.0/0000:81:00.0"

/* nvml: a library to be asked; NULL: none. */
struct topo *read_tree(const struct machine_tree *tree, const char *nvml);
struct topo_map *map_of(const struct topo *topo);
void put_nic(struct machine_tree *tree, struct machine_nic nic);
/* A GPU, one NIC near it and one far from it. */
void put_machine(struct machine_tree *tree);
/* A GPU and a NIC far from it. */
void put_lonely_gpu(struct machine_tree *tree);
/* Reads the machine anew: its only GPU gets this NIC alone. */
void assert_given(const struct machine_tree *tree, const char *name);

#endif
