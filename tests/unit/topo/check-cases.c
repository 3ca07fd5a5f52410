/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of each check: good, failing, unreadable. A tree is the good machine with one thing changed. */
#include "tests/unit/topo/check-states.h"

#define STATE(name) static void name(struct check_tree *tree)
#define PUT(path, ...) sysfs_tree_put(&tree->machine.files, path, __VA_ARGS__)
#define REMOVE(path) sysfs_tree_remove(&tree->machine.files, path)
#define LOCK(path) check_tree_lock(tree, path)

#define VERSION "proc/driver/nvidia/version"
#define PARAMS "proc/driver/nvidia/params"
#define CLOSED_DRIVER "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Sat Sep  2 00:00:00 UTC 2023\n"

/* ---- the driver */

STATE(driver_other)
{
	PUT(VERSION, "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build\n");
}

STATE(driver_closed)
{
	PUT(VERSION, CLOSED_DRIVER, "535.104.05");
}

STATE(version_locked)
{
	LOCK(VERSION);
}

STATE(params_locked)
{
	LOCK(PARAMS);
}

STATE(override_among_others)
{
	PUT(PARAMS, "RegistryDwords: \"RMDebug=0;PeerMappingOverride=1;Other=2\"\n");
}

STATE(override_lacks)
{
	PUT(PARAMS, "RegistryDwords: \"\"\nRegistryDwordsPerDevice: \"PeerMappingOverride=1\"\n");
}

STATE(stream_memory_on)
{
	PUT(VERSION, CLOSED_DRIVER, "470.82.01");
	PUT(PARAMS, "EnableStreamMemOPs: 1\n");
}

STATE(stream_memory_off)
{
	PUT(VERSION, CLOSED_DRIVER, "470.82.01");
	PUT(PARAMS, "EnableStreamMemOPs: 0\n");
}

STATE(stream_memory_locked)
{
	PUT(VERSION, CLOSED_DRIVER, "470.82.01");
	LOCK(PARAMS);
}

STATE(peermem_there)
{
	driver_closed(tree);
	PUT("sys/module/nvidia_peermem/refcnt", "0\n");
}

STATE(peermem_locked)
{
	driver_closed(tree);
	LOCK("sys/module/nvidia_peermem");
}

STATE(gdrcopy_there)
{
	PUT("sys/module/gdrdrv/refcnt", "0\n");
	PUT("dev/gdrdrv", "\n");
}

STATE(gdrcopy_half)
{
	PUT("sys/module/gdrdrv/refcnt", "0\n");
}

STATE(gdrcopy_locked)
{
	LOCK("sys/module/gdrdrv");
}

/* ---- kernel, libraries, limits */

STATE(kernel_limit)
{
	PUT("proc/sys/kernel/osrelease", "5.12.0\n");
}

STATE(kernel_old)
{
	PUT("proc/sys/kernel/osrelease", "5.6.19\n");
}

STATE(kernel_locked)
{
	LOCK("proc/sys/kernel/osrelease");
}

STATE(rdma_core_new)
{
	REMOVE("usr/lib/x86_64-linux-gnu/libmlx5.so.1");
	sysfs_tree_link(&tree->machine.files, "usr/lib64/libmlx5.so.1", "libmlx5.so.1.27.63.0");
}

STATE(rdma_core_old)
{
	REMOVE("usr/lib/x86_64-linux-gnu/libmlx5.so.1");
	sysfs_tree_link(&tree->machine.files, "usr/lib/x86_64-linux-gnu/libmlx5.so.1", "libmlx5.so.1.22.39.0");
}

/* A file, not the link that tells the version. */
STATE(rdma_core_strange)
{
	REMOVE("usr/lib/x86_64-linux-gnu/libmlx5.so.1");
	PUT("usr/lib/x86_64-linux-gnu/libmlx5.so.1", "\n");
}

STATE(node_lacks)
{
	REMOVE("dev/infiniband/uverbs1");
}

STATE(device_nodes_locked)
{
	LOCK("sys/class/infiniband_verbs");
}

STATE(lock_limit_does_not_count)
{
	check_tree_limit(tree, "8388608", 0x4000);
}

STATE(lock_limit_low)
{
	check_tree_limit(tree, "8388608", 0);
}

STATE(lock_limit_locked)
{
	LOCK("proc/17/limits");
	LOCK("proc/self/limits");
}

/* ---- settings */

STATE(settings_doubtful)
{
	tree->settings.warning = "nics-include names mlx5_O, a NIC that this machine does not have";
}

STATE(settings_locked)
{
	tree->settings.unread = "cannot read shmemd.conf: Permission denied";
}

const struct check_case check_cases[] = {
	{"devices", nic_far, nics_gone, nics_locked, CHECK_FAIL, "2 GPUs and no RDMA NIC"},
	{"assignment", check_tree_leave, nics_gone, numa_locked, CHECK_FAIL, "it has no NIC"},
	{"settings", check_tree_leave, settings_doubtful, settings_locked, CHECK_WARN, "nics-include names mlx5_O", "ok"},
	{"driver", driver_other, driver_closed, version_locked, CHECK_WARN,
	 "closed kernel modules"},
	{"peer-mapping", override_among_others, override_lacks, params_locked, CHECK_WARN,
	 "PeerMappingOverride is not set"},
	{"stream-memory", stream_memory_on, stream_memory_off, stream_memory_locked, CHECK_WARN,
	 "470.82.01 has them only"},
	{"gpu-memory", peermem_there, driver_closed, peermem_locked, CHECK_FAIL,
	 "no peer memory module"},
	{"gdrcopy", gdrcopy_there, gdrcopy_half, gdrcopy_locked, CHECK_WARN,
	 "/dev/gdrdrv is not there"},
	{"kernel", kernel_limit, kernel_old, kernel_locked, CHECK_WARN,
	 "5.6 has no doorbell pages"},
	{"rdma-core", rdma_core_new, rdma_core_old, rdma_core_strange, CHECK_FAIL,
	 "rdma-core 39: too old"},
	{"device-nodes", check_tree_leave, node_lacks, device_nodes_locked, CHECK_FAIL,
	 "/dev/infiniband/uverbs1 is not there"},
	{"memory-lock", lock_limit_does_not_count, lock_limit_low, lock_limit_locked, CHECK_WARN,
	 "may lock 8192 KiB"},
	{"iommu", iommu_off, iommu_translates, iommu_locked, CHECK_WARN,
	 "1 of 4 GPUs and NICs, 0000:84:00.0 the first (DMA-FQ)"},
	{"acs", acs_direct, acs_redirects, acs_locked, CHECK_WARN, "ACS of this bridge"},
	{"pci-link", link_of_vf, link_slow, link_locked, CHECK_WARN,
	 "runs at 16.0 GT/s x16, and could at 32.0 GT/s x16"},
	{"port", port_of_bridge_down, port_down, port_locked, CHECK_FAIL, "its port is down"},
	{"rate", check_tree_leave, rate_slow, rate_locked, CHECK_WARN,
	 "25 Gb/s over part of its lanes, beside others of 400 Gb/s"},
	{"mtu", check_tree_leave, mtu_mixed, mtu_locked, CHECK_WARN,
	 "an MTU of 4200, beside others of 9000"},
	{"gid", gid_on_infiniband, gid_old, gid_locked, CHECK_FAIL, "no GID of RoCE v2"},
	{"devx", check_tree_leave, devx_lacks, devx_untold, CHECK_FAIL, "lets no commands through",
	 "warn"},
	{"atomics", check_tree_leave, atomics_lack, atomics_untold, CHECK_WARN, "no masked atomics",
	 "warn"},
	{"firmware", firmware_other_model, firmware_old, firmware_locked, CHECK_WARN,
	 "28.33.2028 is older than 28.35"},
	{"guids", check_tree_leave, guid_twice, guid_locked, CHECK_FAIL,
	 "mlx5_0 has the same GUID"},
	{"driven", nic_of_bridge_unmanaged, nic_new, daemon_locked, CHECK_WARN,
	 "the daemon has not opened it, or could not", "ok"},
	{"threads", thread_elsewhere, thread_far, threads_locked, CHECK_WARN,
	 "ran on processor 3, and its NIC is on NUMA node 1", "ok"},
	{"doorbells", no_daemon, session_on_cpu, daemon_locked, CHECK_WARN,
	 "train, pid 99, has doorbell mode cpu: mlx5_0", "ok"},
	{0},
};
