/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/topo/check-states.h"

#include <errno.h>
#include <string.h>

#define STATE(name) void name(struct check_tree *tree)
#define PUT(path, ...) sysfs_tree_put(&tree->machine.files, path, __VA_ARGS__)
#define REMOVE(path) sysfs_tree_remove(&tree->machine.files, path)
#define LOCK(path) check_tree_lock(tree, path)

#define PORT0 "sys/devices/" CHECK_NIC0 "/infiniband/mlx5_0/ports/1/"
#define DEVICE1 "sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/"

/* ---- devices and distances */

STATE(nics_gone)
{
	machine_tree_unplug(&tree->machine, CHECK_NIC0, "mlx5_0");
	machine_tree_unplug(&tree->machine, CHECK_NIC1, "mlx5_1");
}

STATE(nics_locked)
{
	LOCK("sys/class/infiniband");
}

STATE(nic_far)
{
	machine_tree_unplug(&tree->machine, CHECK_NIC0, "mlx5_0");
}

/* The GPU and all that is above it. */
STATE(numa_locked)
{
	nic_far(tree);
	LOCK("sys/devices/" CHECK_GPU0 "/numa_node");
	LOCK("sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/numa_node");
	LOCK("sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/numa_node");
	LOCK("sys/devices/pci0000:10/0000:10:01.0/numa_node");
}

/* ---- PCI */

STATE(iommu_off)
{
	REMOVE("sys/devices/" CHECK_GPU0 "/iommu_group");
	REMOVE("sys/devices/" CHECK_NIC0 "/iommu_group");
	REMOVE("sys/devices/" CHECK_GPU1 "/iommu_group");
	REMOVE("sys/devices/" CHECK_NIC1 "/iommu_group");
}

STATE(iommu_translates)
{
	PUT("sys/devices/" CHECK_NIC1 "/iommu_group/type", "DMA-FQ\n");
}

STATE(iommu_locked)
{
	LOCK("sys/devices/" CHECK_NIC1 "/iommu_group/type");
}

/* All of it is on but what sends peers up. */
STATE(acs_direct)
{
	check_tree_config(tree, "0000:12:01.0", 0x51);
}

STATE(acs_redirects)
{
	check_tree_config(tree, "0000:12:01.0", 0x1d);
}

STATE(acs_locked)
{
	LOCK("sys/bus/pci/devices/0000:12:01.0/config");
}

STATE(link_of_vf)
{
	PUT("sys/devices/" CHECK_NIC1 "/current_link_speed", "Unknown\n");
	sysfs_tree_link(&tree->machine.files, "sys/devices/" CHECK_NIC1 "/physfn", "../0000:14:00.0");
}

STATE(link_slow)
{
	PUT("sys/devices/" CHECK_NIC1 "/current_link_speed", "16.0 GT/s PCIe\n");
	PUT("sys/devices/" CHECK_GPU1 "/current_link_width", "8\n");
}

STATE(link_locked)
{
	LOCK("sys/devices/" CHECK_NIC1 "/current_link_speed");
}

/* ---- ports */

STATE(port_of_bridge_down)
{
	PUT("sys/devices/" CHECK_NIC1 "/vpd", "SW_MNG\n");
	PUT(DEVICE1 "ports/1/link_layer", "InfiniBand\n");
	PUT(DEVICE1 "ports/1/state", "1: DOWN\n");
}

STATE(port_down)
{
	PUT(DEVICE1 "ports/1/state", "1: DOWN\n");
}

STATE(port_locked)
{
	LOCK(DEVICE1 "ports/1/state");
}

STATE(rate_slow)
{
	PUT(DEVICE1 "ports/1/rate", "25 Gb/sec (1X EDR)\n");
}

STATE(rate_locked)
{
	LOCK(DEVICE1 "ports/1/rate");
}

STATE(mtu_mixed)
{
	PUT("sys/class/net/eth1/mtu", "4200\n");
}

STATE(mtu_locked)
{
	LOCK("sys/class/net/eth1/mtu");
}

/* Any will do there. */
STATE(gid_on_infiniband)
{
	PUT(PORT0 "link_layer", "InfiniBand\n");
	REMOVE(PORT0 "gids");
	REMOVE(PORT0 "gid_attrs");
	PUT(PORT0 "gids/0", "fe80:0000:0000:0000:a088:c203:00ab:0001\n");
	PUT(PORT0 "gid_attrs/types/0", "IB/RoCE v1\n");
}

STATE(gid_old)
{
	REMOVE(PORT0 "gids");
	REMOVE(PORT0 "gid_attrs");
	PUT(PORT0 "gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
	PUT(PORT0 "gid_attrs/types/0", "IB/RoCE v1\n");
}

STATE(gid_locked)
{
	LOCK(PORT0 "gids");
}

/* ---- devices */

static void set_second(struct topo *topo, enum host_known devx, enum host_known atomics)
{
	check_tree_tell(topo);
	topo->nics[1].seen.has_devx = devx;
	topo->nics[1].seen.has_masked_atomics = atomics;
}

static void without_devx(struct topo *topo)
{
	set_second(topo, HOST_NO, HOST_YES);
}

static void without_atomics(struct topo *topo)
{
	set_second(topo, HOST_YES, HOST_NO);
}

static void untold(struct topo *topo)
{
	set_second(topo, HOST_NOT_KNOWN, HOST_NOT_KNOWN);
}

STATE(devx_lacks)
{
	tree->change = without_devx;
}

STATE(devx_untold)
{
	tree->change = untold;
}

STATE(atomics_lack)
{
	tree->change = without_atomics;
}

STATE(atomics_untold)
{
	tree->change = untold;
}

STATE(firmware_other_model)
{
	PUT(DEVICE1 "fw_ver", "32.38.1002\n");
	PUT("sys/devices/" CHECK_NIC1 "/device", "0xa2dc\n");
}

STATE(firmware_old)
{
	PUT(DEVICE1 "fw_ver", "28.33.2028\n");
}

STATE(firmware_locked)
{
	LOCK(DEVICE1 "fw_ver");
}

STATE(guid_twice)
{
	PUT(DEVICE1 "node_guid", "a088:c203:00cd:0007\n");
	PUT("sys/devices/" CHECK_NIC0 "/infiniband/mlx5_0/node_guid", "a088:c203:00cd:0007\n");
}

STATE(guid_locked)
{
	LOCK(DEVICE1 "node_guid");
}

/* ---- the daemon */

static void leave_unmanaged(struct check_tree *tree, const char *name)
{
	strcpy(tree->unmanaged[0].name, name);
	tree->unmanaged[0].port = 1;
	tree->daemon.n_unmanaged = 1;
}

STATE(nic_of_bridge_unmanaged)
{
	port_of_bridge_down(tree);
	leave_unmanaged(tree, "mlx5_1");
}

STATE(nic_new)
{
	leave_unmanaged(tree, "mlx5_1");
}

/* One that serves no NIC may be anywhere. */
STATE(thread_elsewhere)
{
	check_tree_thread(tree, 17, "shmemd) S (x", 12);
}

STATE(thread_far)
{
	check_tree_thread(tree, 18, "bell-mlx5_1", 3);
}

STATE(threads_locked)
{
	LOCK("proc/17/task");
}

STATE(no_daemon)
{
	tree->daemon = (struct check_daemon){.error = -ENOENT};
}

STATE(session_on_cpu)
{
	strcpy(tree->session.doorbell, "cpu");
	strcpy(tree->session.reason, "mlx5_0: the GPU cannot reach the page");
}

STATE(daemon_locked)
{
	tree->daemon = (struct check_daemon){.error = -EACCES};
}
