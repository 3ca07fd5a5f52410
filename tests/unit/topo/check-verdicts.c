/* SPDX-License-Identifier: Apache-2.0 */
/* Machines on which a check is easily wrong: healthy ones it must leave alone, and faults it must not call good. */
#include "tests/unit/topo/check-states.h"

#define STATE(name) static void name(struct check_tree *tree)
#define PUT(path, ...) sysfs_tree_put(&tree->machine.files, path, __VA_ARGS__)
#define REMOVE(path) sysfs_tree_remove(&tree->machine.files, path)
#define LOCK(path) check_tree_lock(tree, path)

/* Beside NIC1, as the second port of the same card. */
#define SECOND "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:84:00.1"

static void add_second(struct check_tree *tree, struct machine_nic nic)
{
	nic.path = SECOND;
	nic.name = "mlx5_2";
	nic.gbps = 400;
	machine_tree_pci(&tree->machine, SECOND, 0x020000, 0x15b3, 1);
	machine_tree_nic(&tree->machine, &nic);
}

/* ---- ports that are not in use */

STATE(second_port_unplugged)
{
	add_second(tree, (struct machine_nic){.netdev = "eth2", .is_down = true});
}

STATE(far_port_of_shared_nic_down)
{
	nic_far(tree);
	add_second(tree, (struct machine_nic){.netdev = "eth2", .is_down = true});
}

STATE(all_ports_down)
{
	PUT("sys/devices/" CHECK_NIC0 "/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	port_down(tree);
}

STATE(spare_nic_unmanaged)
{
	machine_tree_pci(&tree->machine, SECOND, 0x020700, 0x15b3, 1);
}

STATE(only_near_nic_unmanaged)
{
	REMOVE("sys/class/infiniband/mlx5_1");
	REMOVE("sys/devices/" CHECK_NIC1 "/infiniband");
	PUT("sys/devices/" CHECK_NIC1 "/class", "0x020700\n");
}

/* Only the second port of the function is in use. */
static void include_second_port(struct check_tree *tree)
{
	static const char *const files[] = {"state", "rate", "link_layer"};
	static const char *const texts[] = {"4: ACTIVE", "400 Gb/sec (8X HDR)", "Ethernet"};
	char path[160];

	for (unsigned int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path),
			 "sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/ports/2/%s", files[i]);
		PUT(path, "%s\n", texts[i]);
	}
	tree->included = "mlx5_0, mlx5_1:2";
}

static void tell_second_port_nothing(struct topo *topo)
{
	check_tree_tell(topo);
	topo->nics[2].seen.has_devx = HOST_NO;
	topo->nics[2].seen.has_masked_atomics = HOST_NO;
}

STATE(second_port_alone_lacks)
{
	include_second_port(tree);
	tree->change = tell_second_port_nothing;
}

STATE(second_port_alone_old)
{
	include_second_port(tree);
	firmware_old(tree);
}

STATE(second_port_alone_slow)
{
	include_second_port(tree);
	PUT("sys/devices/" CHECK_NIC1 "/current_link_speed", "16.0 GT/s PCIe\n");
}

/* ---- virtual functions and bonds */

STATE(vf_beside_its_pf)
{
	check_tree_vf(tree, "0000:84:00.0");
}

STATE(vf_of_down_pf)
{
	vf_beside_its_pf(tree);
	port_down(tree);
}

STATE(vf_of_second_port_unplugged)
{
	second_port_unplugged(tree);
	check_tree_vf(tree, "0000:84:00.1");
}

/* Another device of the function of mlx5_1, which may be a part of that. */
STATE(device_twice)
{
	machine_tree_nic(&tree->machine, &(struct machine_nic){.path = CHECK_NIC1, .name = "mlx5_9", .netdev = "eth9", .gbps = 400});
}

STATE(part_of_device)
{
	device_twice(tree);
	PUT("sys/devices/" CHECK_NIC1 "/infiniband/mlx5_9/parent", "mlx5_1\n");
}

STATE(port_of_bond)
{
	sysfs_tree_link(&tree->machine.files, "sys/devices/" CHECK_NIC1 "/net/eth1/master",
			"../../../virtual/net/bond0");
	add_second(tree, (struct machine_nic){.netdev = "eth2", .bond = "bond0"});
}

STATE(port_of_bond_down)
{
	port_of_bond(tree);
	port_down(tree);
}

/* Verbs of InfiniBand know of no bond. */
STATE(port_of_ipoib_bond)
{
	port_of_bond(tree);
	PUT("sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand\n");
	PUT("sys/devices/" SECOND "/infiniband/mlx5_2/ports/1/link_layer", "InfiniBand\n");
}

STATE(port_of_ipoib_bond_down)
{
	port_of_ipoib_bond(tree);
	PUT("sys/devices/" SECOND "/infiniband/mlx5_2/ports/1/state", "1: DOWN\n");
}

STATE(ports_of_bond_down)
{
	port_of_bond_down(tree);
	PUT("sys/devices/" SECOND "/infiniband/mlx5_2/ports/1/state", "1: DOWN\n");
}

/* ---- kernels and libraries whose drivers are newer than their version */

static void tell_dmabuf(struct topo *topo, enum host_known dmabuf)
{
	check_tree_tell(topo);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		topo->nics[i].seen.has_dmabuf = dmabuf;
}

static void with_dmabuf(struct topo *topo)
{
	tell_dmabuf(topo, HOST_YES);
}

static void without_dmabuf(struct topo *topo)
{
	tell_dmabuf(topo, HOST_YES);
	topo->nics[1].seen.has_dmabuf = HOST_NO;
}

STATE(kernel_backported)
{
	PUT("proc/sys/kernel/osrelease", "4.18.0-553.el8_10.x86_64\n");
}

STATE(kernel_backported_dmabuf)
{
	kernel_backported(tree);
	tree->change = with_dmabuf;
}

STATE(kernel_unasked)
{
	kernel_backported(tree);
	tree->change = NULL;
}

STATE(kernel_old)
{
	kernel_unasked(tree);
	PUT("proc/sys/kernel/osrelease", "4.18.0-25-generic\n");
}

STATE(kernel_without_mlx5)
{
	kernel_old(tree);
	PUT("sys/devices/" CHECK_NIC0 "/vendor", "0x8086\n");
	PUT("sys/devices/" CHECK_NIC1 "/vendor", "0x14e4\n");
}

STATE(dmabuf_refused)
{
	tree->change = without_dmabuf;
}

STATE(library_elsewhere)
{
	REMOVE("usr/lib/x86_64-linux-gnu/libmlx5.so.1");
}

STATE(library_lacks)
{
	library_elsewhere(tree);
	tree->change = NULL;
}

/* A NIC that manages switches needs no node. */
STATE(node_of_spare_lacks)
{
	port_of_bridge_down(tree);
	REMOVE("dev/infiniband/uverbs1");
}

/* ---- PCI */

STATE(gpu_width_unknown)
{
	PUT("sys/devices/" CHECK_GPU1 "/current_link_width", "0\n");
}

STATE(gpu_max_width_unknown)
{
	PUT("sys/devices/" CHECK_GPU1 "/max_link_width", "Unknown\n");
}

STATE(gpu_width_locked)
{
	LOCK("sys/devices/" CHECK_GPU1 "/current_link_width");
}

STATE(gpu_width_not_there)
{
	REMOVE("sys/devices/" CHECK_GPU1 "/current_link_width");
}

/* Without a translation service on the device, nothing is called "directly". */
STATE(acs_redirects_untranslated)
{
	check_tree_config(tree, "0000:12:01.0", 0x5d);
}

/* This machine's access to configuration spaces does not reach the rest. */
STATE(acs_cut)
{
	PUT("sys/bus/pci/devices/0000:12:01.0/config", "%256s", "");
}

STATE(iommu_locked_and_translates)
{
	LOCK("sys/devices/" CHECK_NIC0 "/iommu_group/type");
	iommu_translates(tree);
}

/* ---- NICs */

STATE(mtus_of_two_fabrics)
{
	gid_on_infiniband(tree);
	tree->change = NULL;
}

static void active_mtu_4096(struct topo *topo)
{
	check_tree_tell(topo);
	topo->nics[0].seen.active_mtu_bytes = 4096;
}

STATE(mtus_of_two_fabrics_good)
{
	gid_on_infiniband(tree);
	tree->change = active_mtu_4096;
}

static void set_max(struct topo *topo, unsigned int nic, uint64_t mbps, uint32_t n_lanes)
{
	topo->nics[nic].seen.max_rate_mbps = mbps;
	topo->nics[nic].seen.max_lanes = n_lanes;
}

static void capable_of_it(struct topo *topo)
{
	check_tree_tell(topo);
	set_max(topo, 0, 400000, 4);
	set_max(topo, 1, 400000, 8);
}

static void one_tells(struct topo *topo)
{
	check_tree_tell(topo);
	set_max(topo, 0, 400000, 4);
}

static void all_capable_of_more(struct topo *topo)
{
	check_tree_tell(topo);
	set_max(topo, 0, 800000, 8);
	set_max(topo, 1, 800000, 0);
}

STATE(rates_at_best)
{
	tree->change = capable_of_it;
}

STATE(rate_at_best_of_one)
{
	tree->change = one_tells;
}

/* Equal, and none is what it could be. */
STATE(rates_degraded)
{
	tree->change = all_capable_of_more;
}

STATE(rate_degraded_of_one_nic)
{
	nic_far(tree);
	PUT("sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/ports/1/rate", "100 Gb/sec (1X NDR)\n");
	tree->change = one_tells;
}

static void infiniband_capable_of_more(struct topo *topo)
{
	check_tree_tell(topo);
	set_max(topo, 0, 800000, 0);
}

STATE(rate_degraded_on_infiniband)
{
	gid_on_infiniband(tree);
	tree->change = infiniband_capable_of_more;
}

STATE(rate_degraded_beside_others)
{
	rate_slow(tree);
	tree->change = capable_of_it;
}

STATE(firmware_unparsable)
{
	PUT("sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/fw_ver", "engineering\n");
}

STATE(firmware_family_unknown)
{
	PUT("sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/fw_ver", "99.48.1000\n");
}

STATE(guid_zero)
{
	PUT("sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/node_guid", "0000:0000:0000:0000\n");
}

static void put_infiniband(struct check_tree *tree)
{
	gid_on_infiniband(tree);
	PUT("sys/devices/" CHECK_NIC0 "/vpd", "ConnectX-7 SMDL=CX7\n");
}

STATE(manager_may_be)
{
	put_infiniband(tree);
	LOCK("sys/devices/" CHECK_NIC0 "/vpd");
}

/* Not the GPU's only near NIC: the check would report that as well. */
STATE(manager_seen)
{
	add_second(tree, (struct machine_nic){0});
	PUT("sys/devices/" SECOND "/vpd", "SMDL=SW_MNG\n");
	check_tree_mode(tree, "sys/devices/" SECOND "/vpd", 0600);
}

/* Named and not read, by root neither: a folder. The daemon may read it. */
STATE(manager_unread_here)
{
	gid_on_infiniband(tree);
	PUT("sys/devices/" CHECK_NIC0 "/vpd/data", "\n");
	REMOVE("sys/devices/" CHECK_NIC0 "/vpd/data");
	check_tree_mode(tree, "sys/devices/" CHECK_NIC0 "/vpd", 0400);
}

STATE(manager_seen_by_daemon)
{
	manager_seen(tree);
	check_tree_mode(tree, "sys/devices/" SECOND "/vpd", 0400);
}

/* ---- addresses of interfaces that are down */

#define GIDS1 "sys/devices/" CHECK_NIC1 "/infiniband/mlx5_1/ports/1/"
#define LAST_GID "3" /* the one that is not link-local */

STATE(gid_interface_down)
{
	PUT("sys/class/net/eth1/operstate", "down\n");
}

STATE(gid_interface_locked)
{
	LOCK("sys/class/net/eth1/operstate");
}

/* As of some drivers, always. */
STATE(gid_interface_untold)
{
	PUT("sys/class/net/eth1/operstate", "unknown\n");
}

/* The interface itself is up, with its link-local address. */
STATE(gid_vlan_down)
{
	PUT(GIDS1 "gid_attrs/ndevs/" LAST_GID, "eth1.100\n");
	PUT("sys/class/net/eth1.100/operstate", "lowerlayerdown\n");
}

STATE(gid_vlan_not_there)
{
	PUT(GIDS1 "gid_attrs/ndevs/" LAST_GID, "eth1.100\n");
}

/* All that is not link-local is left to the judgement. */
STATE(gid_vlan_alone_down)
{
	gid_vlan_down(tree);
	PUT(GIDS1 "gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n");
}

/* One part of a bond may be down. */
STATE(gid_bond_up)
{
	gid_interface_down(tree);
	for (unsigned int row = 0; row < 4; row++) {
		char path[160];

		snprintf(path, sizeof(path), GIDS1 "gid_attrs/ndevs/%u", row);
		PUT(path, "bond0\n");
	}
	PUT("sys/class/net/bond0/operstate", "up\n");
}

STATE(gid_without_interface)
{
	REMOVE(GIDS1 "gid_attrs/ndevs");
}

/* A good result needs one line only. */
STATE(gid_one_of_two_up)
{
	gid_interface_locked(tree);
	PUT(GIDS1 "gid_attrs/ndevs/" LAST_GID, "eth1.100\n");
	PUT("sys/class/net/eth1.100/operstate", "up\n");
}

STATE(gid_link_local_only)
{
	PUT(GIDS1 "gids/" LAST_GID, "0000:0000:0000:0000:0000:0000:0000:0000\n");
}

/* ---- devices whose ports are not readable */

#define PORTS(pci, name) "sys/devices/" pci "/infiniband/" name "/ports"

STATE(ports_locked)
{
	LOCK(PORTS(CHECK_NIC1, "mlx5_1"));
}

STATE(ports_of_infiniband_locked)
{
	ports_locked(tree);
	PUT("sys/devices/" CHECK_NIC1 "/class", "0x020700\n");
}

STATE(ports_of_all_locked)
{
	ports_locked(tree);
	LOCK(PORTS(CHECK_NIC0, "mlx5_0"));
}

/* Neither has a PCI function of its own, nor ports that count. */
STATE(ports_of_software)
{
	PUT("sys/devices/virtual/infiniband/rxe0/fw_ver", "\n");
	sysfs_tree_link(&tree->machine.files, "sys/class/infiniband/rxe0",
			"../../devices/virtual/infiniband/rxe0");
	PUT("sys/devices/" CHECK_NIC1 "/mlx5_core.sf.4/infiniband/mlx5_9/fw_ver", "28.42.1000\n");
	sysfs_tree_link(&tree->machine.files, "sys/class/infiniband/mlx5_9",
			"../../devices/" CHECK_NIC1 "/mlx5_core.sf.4/infiniband/mlx5_9");
}

/* The verdict on a folder that another user made. */
STATE(names_with_escapes)
{
	PUT("sys/devices/" CHECK_NIC1 "/infiniband/mlx\033[2J/fw_ver", "28.42.1000\n");
	sysfs_tree_link(&tree->machine.files, "sys/class/infiniband/mlx\033[2J",
			"../../devices/" CHECK_NIC1 "/infiniband/mlx\033[2J");
	PUT("sys/class/infiniband_verbs/uverbs\0337/ibdev", "mlx5_0\n");
}

const struct check_verdict check_verdicts[] = {
	{"devices", ports_locked, CHECK_WARN,
	 "mlx5_1: not known: /sys/class/infiniband/mlx5_1/ports cannot be read"},
	{"devices", names_with_escapes, CHECK_WARN,
	 "mlx?[2J: not known: /sys/class/infiniband/mlx?[2J/ports cannot be read",
	 "ls -l /sys/class/infiniband/mlx?[2J/ports"},
	{"device-nodes", names_with_escapes, CHECK_FAIL,
	 "uverbs?7: /dev/infiniband/uverbs?7 is not there"},
	{"devices", device_twice, CHECK_WARN, "mlx5_9 is left out, beside mlx5_1"},
	{"port", device_twice, CHECK_OK, "2, all active"},
	{"devices", part_of_device, CHECK_OK, "2 GPUs, 2 ports of RDMA NICs"},
	{"devices", ports_of_software, CHECK_OK, "2 GPUs, 2 ports of RDMA NICs"},
	{"port", ports_of_all_locked, CHECK_WARN,
	 "mlx5_0: not known: /sys/class/infiniband/mlx5_0/ports cannot be read"},
	{"assignment", ports_of_all_locked, CHECK_WARN, "mlx5_1: not known"},
	{"assignment", nics_locked, CHECK_WARN, "not known: /sys/class/infiniband cannot be read"},
	{"port", ports_of_infiniband_locked, CHECK_WARN, "0000:84:00.0: not known"},
	{"devices", ports_of_infiniband_locked, CHECK_WARN, "mlx5_1: not known"},
	{"port", second_port_unplugged, CHECK_WARN, "mlx5_2: its port is down; no GPU misses it"},
	{"port", far_port_of_shared_nic_down, CHECK_FAIL,
	 "mlx5_2: its port is down: no GPU gets it"},
	{"port", all_ports_down, CHECK_FAIL, "mlx5_0: its port is down: no GPU gets it"},
	{"port", spare_nic_unmanaged, CHECK_WARN,
	 "0000:84:00.1: it has no RDMA driver; no GPU misses it"},
	{"port", only_near_nic_unmanaged, CHECK_FAIL, "0000:84:00.0: it has no RDMA driver"},
	{"devx", second_port_alone_lacks, CHECK_FAIL, "mlx5_1/2: kernel or firmware"},
	{"atomics", second_port_alone_lacks, CHECK_WARN, "mlx5_1/2: no masked atomics"},
	{"firmware", second_port_alone_old, CHECK_WARN, "mlx5_1/2: firmware 28.33.2028 is older"},
	{"pci-link", second_port_alone_slow, CHECK_WARN, "mlx5_1/2: its PCI link runs at 16.0"},
	{"port", vf_beside_its_pf, CHECK_OK, "2, all active"},
	{"port", vf_of_down_pf, CHECK_FAIL,
	 "mlx5_3: it is a virtual function of mlx5_1, whose port is down: no GPU gets it",
	 "gpu-nic-map gives it"},
	{"assignment", vf_of_down_pf, CHECK_WARN, "GPU1: its NIC mlx5_0 is on another NUMA node"},
	{"port", vf_of_second_port_unplugged, CHECK_WARN,
	 "mlx5_3: it is a virtual function of mlx5_2, whose port is down; no GPU misses it"},
	{"assignment", vf_of_second_port_unplugged, CHECK_OK, "on its NUMA node or nearer"},
	{"port", port_of_bond, CHECK_OK, "2, all active"},
	{"port", port_of_bond_down, CHECK_WARN, "mlx5_1: its port is down; no GPU misses it"},
	{"assignment", port_of_bond_down, CHECK_OK, "on its NUMA node or nearer"},
	{"port", port_of_ipoib_bond, CHECK_OK, "3, all active"},
	{"port", port_of_ipoib_bond_down, CHECK_WARN, "mlx5_2: its port is down"},
	{"port", ports_of_bond_down, CHECK_FAIL, "mlx5_2: its port is down: no GPU gets it"},
	{"kernel", kernel_backported, CHECK_OK,
	 "4.18, with drivers of a newer one: they let commands"},
	{"kernel", kernel_backported_dmabuf, CHECK_OK,
	 "4.18, with drivers of a newer one: they register dmabufs"},
	{"kernel", kernel_unasked, CHECK_WARN, "not known: 4.18 of a distribution", "as root"},
	{"kernel", kernel_old, CHECK_FAIL, "4.18 lets no commands through"},
	{"gpu-memory", kernel_unasked, CHECK_WARN, "not known: 4.18 of a distribution", "as root"},
	{"kernel", kernel_without_mlx5, CHECK_WARN, "4.18 lets no commands through"},
	{"rdma-core", library_elsewhere, CHECK_WARN, "not known: libmlx5 was loaded from a folder"},
	{"rdma-core", library_lacks, CHECK_FAIL, "libmlx5 is not installed"},
	{"device-nodes", node_of_spare_lacks, CHECK_OK, "all below /dev/infiniband"},
	{"gpu-memory", kernel_backported_dmabuf, CHECK_OK, "dmabufs"},
	{"gpu-memory", dmabuf_refused, CHECK_FAIL, "since the driver of a NIC registers none"},
	{"pci-link", gpu_width_unknown, CHECK_WARN, "GPU1: not known"},
	{"pci-link", gpu_max_width_unknown, CHECK_WARN, "GPU1: not known"},
	{"pci-link", gpu_width_locked, CHECK_WARN, "GPU1: not known"},
	{"pci-link", gpu_width_not_there, CHECK_OK, "of GPUs with all lanes"},
	{"acs", acs_redirects_untranslated, CHECK_WARN, "0000:12:01.0: ACS of this bridge"},
	{"acs", acs_cut, CHECK_WARN, "0000:12:01.0: not known"},
	{"iommu", iommu_locked_and_translates, CHECK_WARN, "not known"},
	{"iommu", iommu_locked_and_translates, CHECK_WARN, "0000:84:00.0 the first (DMA-FQ)"},
	{"mtu", mtus_of_two_fabrics, CHECK_WARN, "mlx5_0: not known"},
	{"mtu", mtus_of_two_fabrics_good, CHECK_OK, "2 ports, each with the largest"},
	{"mtu", all_ports_down, CHECK_OK, "no port is in use"},
	{"rate", all_ports_down, CHECK_OK, "no port is in use"},
	{"rate", rates_at_best, CHECK_OK, "400 Gb/s everywhere, and no port is capable of more"},
	{"rate", rate_at_best_of_one, CHECK_OK, "400 Gb/s everywhere"},
	{"rate", rates_degraded, CHECK_WARN,
	 "mlx5_0: runs at 400 Gb/s over 4 of 8 lanes, and could at 800 Gb/s"},
	{"rate", rates_degraded, CHECK_WARN, "mlx5_1: runs at 400 Gb/s, and could at 800 Gb/s"},
	{"rate", rate_degraded_of_one_nic, CHECK_WARN,
	 "mlx5_1: runs at 100 Gb/s over 1 of 4 lanes, and could at 400 Gb/s"},
	{"rate", rate_degraded_on_infiniband, CHECK_WARN,
	 "mlx5_0: runs at 400 Gb/s, and could at 800 Gb/s at least"},
	{"rate", rate_degraded_beside_others, CHECK_WARN,
	 "mlx5_1: 25 Gb/s over 1 of 8 lanes, beside others of 400 Gb/s: no GPU gets it; it could "
	 "at 400 Gb/s"},
	{"gid", gid_interface_down, CHECK_FAIL,
	 "mlx5_1: eth1 is down, and its GIDs of RoCE v2 need it: no peer reaches it"},
	{"gid", gid_interface_locked, CHECK_WARN,
	 "mlx5_1: not known: /sys/class/net/eth1/operstate cannot be read"},
	{"gid", gid_interface_untold, CHECK_OK, "every port has one that peers reach"},
	{"gid", gid_vlan_down, CHECK_WARN,
	 "mlx5_1: eth1.100 is down, and all its GIDs of RoCE v2 but link-local ones need it"},
	{"gid", gid_vlan_not_there, CHECK_WARN,
	 "mlx5_1: not known: /sys/class/net/eth1.100/operstate cannot be read"},
	{"gid", gid_vlan_alone_down, CHECK_FAIL,
	 "mlx5_1: eth1.100 is down, and its GIDs of RoCE v2 need it: no peer reaches it"},
	{"gid", gid_bond_up, CHECK_OK, "every port has one that peers reach"},
	{"gid", gid_without_interface, CHECK_WARN,
	 "not known: /sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/3 cannot be read"},
	{"gid", gid_one_of_two_up, CHECK_OK, "every port has one that peers reach"},
	{"gid", gid_link_local_only, CHECK_WARN, "mlx5_1: its only GIDs of RoCE v2 are link-local"},
	{"firmware", firmware_unparsable, CHECK_WARN,
	 "mlx5_1: not known whether firmware engineering is new enough"},
	{"firmware", firmware_family_unknown, CHECK_WARN,
	 "mlx5_1: not known whether firmware 99.48.1000 is new enough"},
	{"guids", guid_zero, CHECK_WARN, "mlx5_1: it has no GUID"},
	{"assignment", put_infiniband, CHECK_OK, "on its NUMA node or nearer"},
	{"assignment", manager_may_be, CHECK_WARN, "mlx5_0: not known whether it manages switches",
	 "lets the daemon see it; if it is one, nics-exclude = mlx5_0"},
	{"assignment", manager_unread_here, CHECK_WARN,
	 "mlx5_0: not known whether it manages switches", "run shmemctl doctor as root"},
	{"assignment", manager_seen, CHECK_WARN, "mlx5_2: it manages switches",
	 "lets the daemon see it; or nics-exclude = mlx5_2"},
	{"assignment", manager_seen_by_daemon, CHECK_OK, "on its NUMA node or nearer"},
	{0},
};
