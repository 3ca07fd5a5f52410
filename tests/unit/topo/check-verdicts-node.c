/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of which a check easily claims what it did not see, or advises what harms. */
#include "tests/unit/topo/check-states.h"

#include <errno.h>
#include <stdio.h>

#define STATE(name) static void name(struct check_tree *tree)
#define PUT(path, ...) sysfs_tree_put(&tree->machine.files, path, __VA_ARGS__)
#define REMOVE(path) sysfs_tree_remove(&tree->machine.files, path)
#define LOCK(path) check_tree_lock(tree, path)

/* ---- NICs that are no ConnectX, or older than mlx5 */

STATE(nics_of_others)
{
	PUT("sys/devices/" CHECK_NIC0 "/vendor", "0x1d0f\n");
	PUT("sys/devices/" CHECK_NIC1 "/vendor", "0x8086\n");
}

STATE(nics_of_others_down)
{
	nics_of_others(tree);
	PUT("sys/devices/" CHECK_NIC0 "/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	port_down(tree);
}

STATE(nic_of_others_beside)
{
	PUT("sys/devices/" CHECK_NIC1 "/vendor", "0x8086\n");
}

STATE(nics_older)
{
	PUT("sys/devices/" CHECK_NIC0 "/device", "0x1003\n");
	PUT("sys/devices/" CHECK_NIC1 "/device", "0x673c\n");
	tree->change = NULL;
}

STATE(nics_older_without_library)
{
	nics_older(tree);
	REMOVE("usr/lib/x86_64-linux-gnu/libmlx5.so.1");
}

STATE(nic_oldest_of_mlx5)
{
	PUT("sys/devices/" CHECK_NIC1 "/device", "0x1011\n");
	devx_lacks(tree);
}

/* ---- GUIDs of what is set aside */

#define VF_GUID "sys/devices/" CHECK_VF "/infiniband/mlx5_3/node_guid"

STATE(guid_of_spare_zero)
{
	check_tree_vf(tree, "0000:84:00.0");
	PUT(VF_GUID, "0000:0000:0000:0000\n");
}

STATE(guid_of_spare_locked)
{
	check_tree_vf(tree, "0000:84:00.0");
	LOCK(VF_GUID);
}

STATE(guid_of_spare_twice)
{
	check_tree_vf(tree, "0000:84:00.0");
	PUT(VF_GUID, "a088:c203:00cd:0007\n");
	PUT("sys/devices/" CHECK_NIC0 "/infiniband/mlx5_0/node_guid", "a088:c203:00cd:0007\n");
}

/* ---- settings of the GPU's driver */

#define PARAMS "proc/driver/nvidia/params"

STATE(override_beside_others)
{
	PUT(PARAMS, "RegistryDwords: \"RMDebug=0; PeerMappingOverride=0;Other=0x2\"\n");
}

STATE(override_alone_lacks)
{
	PUT(PARAMS, "RegistryDwords: \"\"\nOther: 1\n");
}

/* A character that would end the quotes of a shell. */
STATE(override_beside_quotes)
{
	PUT(PARAMS, "RegistryDwords: \"A=1;B='2'\"\n");
}

STATE(override_beside_many)
{
	PUT(PARAMS, "RegistryDwords: \"A=1;%0300u=1\"\n", 7);
}

STATE(stream_memory_off)
{
	PUT("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "
					  "470.82.01  Thu Oct 21 00:00:00 UTC 2021\n");
}

/* ---- a folder that lacks what the kernel always has */

STATE(sysfs_lacks)
{
	REMOVE("sys");
	tree->daemon.error = -ENOENT;
}

STATE(pci_lacks)
{
	nics_gone(tree);
	REMOVE("sys/bus");
}

/* There, and without a single function. */
STATE(pci_empty)
{
	sysfs_lacks(tree);
	PUT("sys/bus/pci/devices/none", "\n");
	REMOVE("sys/bus/pci/devices/none");
}

STATE(iommu_untold)
{
	REMOVE("sys/devices/" CHECK_NIC1 "/iommu_group/type");
}

/* The link is there, the folder that it names is not. */
STATE(iommu_out_of_reach)
{
	REMOVE("sys/devices/" CHECK_NIC1 "/iommu_group");
	sysfs_tree_link(&tree->machine.files, "sys/devices/" CHECK_NIC1 "/iommu_group",
			"../../../../../../kernel/iommu_groups/7");
}

/* Each hangs on a root port of its own. */
STATE(bridges_lack)
{
	machine_tree_unplug(&tree->machine, CHECK_NIC0, "mlx5_0");
	REMOVE("sys/bus/pci/devices/0000:83:00.0");
}

STATE(ports_all_spare)
{
	tree->included = "mlx5_7";
}

#define NO_PCI "not known: there is no /sys/bus/pci/devices"
#define NONE_TO_JUDGE "no ConnectX that mlx5 drives is here to be judged"

const struct check_verdict check_verdicts_node[] = {
	{"devx", nics_of_others, CHECK_OK, NONE_TO_JUDGE},
	{"firmware", nics_of_others, CHECK_OK, NONE_TO_JUDGE},
	{"atomics", nics_of_others, CHECK_WARN, "mlx5_0: not known: mlx5_0 is no ConnectX",
	 "nics-exclude = mlx5_0"},
	{"atomics", nics_of_others, CHECK_WARN, "mlx5_1: not known: mlx5_1 is no ConnectX"},
	{"atomics", nics_of_others_down, CHECK_OK, NONE_TO_JUDGE},
	{"devx", nic_of_others_beside, CHECK_OK, "firmware commands are let through"},
	{"atomics", nic_of_others_beside, CHECK_WARN, "mlx5_1: not known: mlx5_1 is no ConnectX"},
	{"devx", nics_older, CHECK_OK, NONE_TO_JUDGE},
	{"firmware", nics_older, CHECK_OK, NONE_TO_JUDGE},
	{"atomics", nics_older, CHECK_WARN, "mlx5_0: not known: mlx5_0 is no ConnectX"},
	{"rdma-core", nics_older_without_library, CHECK_OK, "no ConnectX that mlx5 drives is here"},
	{"devx", nic_oldest_of_mlx5, CHECK_FAIL, "mlx5_1: kernel or firmware"},
	{"atomics", atomics_lack, CHECK_WARN, "mlx5_1: no masked atomics",
	 "mlxconfig -d 0000:84:00.0 -e query PCI_ATOMIC_MODE"},
	{"guids", guid_of_spare_zero, CHECK_OK, "each device has its own"},
	{"guids", guid_of_spare_locked, CHECK_WARN, "mlx5_3: not known"},
	{"guids", guid_of_spare_twice, CHECK_FAIL, "mlx5_3: mlx5_0 has the same GUID"},
	{"peer-mapping", override_beside_others, CHECK_WARN, "PeerMappingOverride is not set",
	 "'options nvidia NVreg_RegistryDwords=\"RMDebug=0;Other=0x2;PeerMappingOverride=1;\"' >> "
	 "/etc"},
	{"peer-mapping", override_alone_lacks, CHECK_WARN, "PeerMappingOverride is not set",
	 "NVreg_RegistryDwords=\"PeerMappingOverride=1;\"'"},
	{"peer-mapping", override_beside_quotes, CHECK_WARN, "PeerMappingOverride is not set",
	 "add PeerMappingOverride=1; to what"},
	{"peer-mapping", override_beside_many, CHECK_WARN, "PeerMappingOverride is not set",
	 "add PeerMappingOverride=1; to what"},
	{"stream-memory", stream_memory_off, CHECK_WARN, "470.82.01 has them only",
	 "update-initramfs -u or dracut -f; reboot"},
	{"devices", sysfs_lacks, CHECK_WARN, NO_PCI, "--root"},
	{"assignment", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"driver", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"peer-mapping", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"stream-memory", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"gpu-memory", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"gdrcopy", sysfs_lacks, CHECK_WARN, "not known: /sys/module cannot be read"},
	{"rdma-core", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"device-nodes", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"iommu", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"acs", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"pci-link", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"port", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"atomics", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"guids", sysfs_lacks, CHECK_WARN, NO_PCI},
	{"driver", pci_lacks, CHECK_WARN, NO_PCI},
	{"driver", pci_empty, CHECK_OK, "no GPU is here"},
	{"devices", pci_empty, CHECK_FAIL, "0 GPUs and no RDMA NIC"},
	{"iommu", pci_empty, CHECK_OK, "there is no GPU, and no NIC in use"},
	{"device-nodes", pci_empty, CHECK_OK, "there is no RDMA NIC that would need one"},
	{"iommu", iommu_untold, CHECK_WARN,
	 "not known: /sys/bus/pci/devices/0000:84:00.0/iommu_group/type cannot be read"},
	{"iommu", iommu_out_of_reach, CHECK_WARN,
	 "not known: /sys/bus/pci/devices/0000:84:00.0/iommu_group/type cannot be read"},
	{"acs", bridges_lack, CHECK_OK, "no bridge is between a GPU and its NIC"},
	{"port", ports_all_spare, CHECK_OK, "all NICs are set aside"},
	{"gid", ports_all_spare, CHECK_OK, "no port is in use"},
	{0},
};
