/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that decide and cannot be read, or wrong answers: never good, and no failure of the machine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/topo/check-states.h"

#define STATE(name) static void name(struct check_tree *tree)
#define PUT(path, ...) sysfs_tree_put(&tree->machine.files, path, __VA_ARGS__)
#define LOCK(path) check_tree_lock(tree, path)

#define NIC0 "sys/devices/" CHECK_NIC0 "/"
#define GIDS0 NIC0 "infiniband/mlx5_0/ports/1/"

STATE(class_locked)
{
	LOCK("sys/bus/pci/devices/0000:13:00.0/class");
}

STATE(function_is_a_loop)
{
	LOCK("sys/bus/pci/devices/0000:13:00.0");
}

STATE(vendor_locked)
{
	LOCK("sys/bus/pci/devices/0000:13:00.0/vendor");
}

STATE(nic_vendor_locked)
{
	LOCK(NIC0 "vendor");
}

STATE(types_locked)
{
	for (unsigned int row = 0; row < 4; row++) {
		char path[256];

		snprintf(path, sizeof(path), GIDS0 "gid_attrs/types/%u", row);
		LOCK(path);
	}
}

STATE(rows_locked)
{
	LOCK(GIDS0 "gids/3");
}

STATE(link_layer_locked)
{
	LOCK(GIDS0 "link_layer");
}

/* The only one that is not link-local. */
static void put_gid(struct check_tree *tree, const char *gid)
{
	PUT(GIDS0 "gids/3", "%s\n", gid);
}

STATE(gid_of_zeroconf)
{
	put_gid(tree, "0000:0000:0000:0000:0000:ffff:a9fe:0102");
}

STATE(gid_of_loopback)
{
	put_gid(tree, "0000:0000:0000:0000:0000:ffff:7f00:0001");
}

STATE(gid_of_many)
{
	put_gid(tree, "ff02:0000:0000:0000:0000:0000:0000:0001");
}

STATE(limit_is_nonsense)
{
	PUT("proc/17/limits", "Max locked memory         garbage\n");
}

STATE(limit_is_cut)
{
	PUT("proc/17/limits", "Max locked memory\n");
}

STATE(daemon_hangs)
{
	tree->daemon = (struct check_daemon){.error = -ETIMEDOUT};
}

STATE(daemon_is_older)
{
	tree->daemon = (struct check_daemon){.error = -EPROTONOSUPPORT};
}

STATE(bridge_does_not_answer)
{
	uint8_t config[CHECK_CONFIG_BYTES];

	memset(config, 0xff, sizeof(config));
	check_tree_config_bytes(tree, "0000:12:01.0", config);
}

STATE(override_of_another_name)
{
	PUT("proc/driver/nvidia/params", "RegistryDwords: \"XPeerMappingOverride=1\"\n");
}

STATE(override_twice)
{
	PUT("proc/driver/nvidia/params", "RegistryDwords: \"PeerMappingOverride=1;PeerMappingOverride=0\"\n");
}

/* The MTU that 96 bytes of headers leave. */
STATE(mtu_just_large_enough)
{
	PUT("sys/class/net/eth0/mtu", "4192\n");
	PUT("sys/class/net/eth1/mtu", "4192\n");
}

const struct check_verdict check_verdicts_unread[] = {
	{"devices", class_locked, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:13:00.0/class cannot be read"},
	{"assignment", class_locked, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:13:00.0/class cannot be read"},
	{"driver", class_locked, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:13:00.0/class cannot be read"},
	{"acs", class_locked, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:13:00.0/class cannot be read"},
	{"devices", function_is_a_loop, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:13:00.0/class cannot be read"},
	{"driver", vendor_locked, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:13:00.0/vendor cannot be read"},
	{"rdma-core", nic_vendor_locked, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:14:00.0/vendor cannot be read"},
	{"firmware", nic_vendor_locked, CHECK_WARN, "not known: /sys/bus/pci/devices/0000:14:00.0/vendor cannot be read"},
	{"gid", types_locked, CHECK_WARN, "mlx5_0: not known: /sys/class/infiniband/mlx5_0/ports/1/gids cannot be read"},
	{"gid", rows_locked, CHECK_WARN, "mlx5_0: not known: /sys/class/infiniband/mlx5_0/ports/1/gids cannot be read"},
	{"gid", link_layer_locked, CHECK_WARN, "mlx5_0: not known: /sys/class/infiniband/mlx5_0/ports/1/link_layer cannot be read"},
	{"gid", gid_of_zeroconf, CHECK_WARN, "mlx5_0: its only GIDs of RoCE v2 are link-local"},
	{"gid", gid_of_loopback, CHECK_WARN, "mlx5_0: its only GIDs of RoCE v2 are link-local"},
	{"gid", gid_of_many, CHECK_WARN, "mlx5_0: its only GIDs of RoCE v2 are link-local"},
	{"memory-lock", limit_is_nonsense, CHECK_WARN, "not known: /proc/17/limits cannot be read"},
	{"memory-lock", limit_is_cut, CHECK_WARN, "not known: /proc/17/limits cannot be read"},
	{"memory-lock", daemon_hangs, CHECK_WARN, "not known: the daemon cannot be asked", "journalctl -u shmemd"},
	{"memory-lock", daemon_locked, CHECK_WARN, "not known: the daemon cannot be asked", "as root"},
	{"threads", daemon_hangs, CHECK_WARN, "not known: the daemon cannot be asked", "systemctl status shmemd"},
	{"doorbells", daemon_is_older, CHECK_WARN, "not known: the daemon cannot be asked", "the shmemctl of its version"},
	{"acs", bridge_does_not_answer, CHECK_WARN, "or the bridge does not answer"},
	{"peer-mapping", override_of_another_name, CHECK_WARN, "PeerMappingOverride is not set"},
	{"peer-mapping", override_twice, CHECK_WARN, "PeerMappingOverride is not set"},
	{"mtu", mtu_just_large_enough, CHECK_OK, "2 ports"},
	{0},
};
