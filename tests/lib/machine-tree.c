/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/machine-tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/test.h"

#define PATH_BYTES 400
#define N_ROWS 8u /* of a table of addresses, at least */

static void format(char buf[PATH_BYTES], const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void format(char buf[PATH_BYTES], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	ASSERT_LT(vsnprintf(buf, PATH_BYTES, fmt, args), PATH_BYTES);
	va_end(args);
}

void machine_tree_init(struct machine_tree *tree, unsigned int n_numa)
{
	char path[PATH_BYTES];

	sysfs_tree_init(&tree->files);
	snprintf(tree->sys, sizeof(tree->sys), "%s/sys", tree->files.root);
	snprintf(tree->proc, sizeof(tree->proc), "%s/proc", tree->files.root);
	sysfs_tree_put(&tree->files, "proc/version", "Linux\n");
	for (unsigned int i = 0; i < n_numa; i++) {
		format(path, "sys/devices/system/node/node%u/numastat", i);
		sysfs_tree_put(&tree->files, path, "\n");
	}
}

void machine_tree_deinit(struct machine_tree *tree)
{
	sysfs_tree_deinit(&tree->files);
}

static bool is_there(const struct machine_tree *tree, const char *file)
{
	char path[PATH_BYTES];
	struct stat st;

	format(path, "%s/%s", tree->files.root, file);
	return lstat(path, &st) == 0;
}

static void put_function(struct machine_tree *tree, const char *path, unsigned int class_code, unsigned int vendor, int numa)
{
	char file[PATH_BYTES], target[PATH_BYTES];
	const char *address = strrchr(path, '/') + 1;

	format(file, "sys/devices/%s/class", path);
	sysfs_tree_put(&tree->files, file, "0x%06x\n", class_code);
	format(file, "sys/devices/%s/vendor", path);
	sysfs_tree_put(&tree->files, file, "0x%04x\n", vendor);
	format(file, "sys/devices/%s/device", path);
	sysfs_tree_put(&tree->files, file, "0x1021\n");
	format(file, "sys/devices/%s/numa_node", path);
	sysfs_tree_put(&tree->files, file, "%d\n", numa);
	format(file, "sys/devices/%s/current_link_speed", path);
	sysfs_tree_put(&tree->files, file, "32.0 GT/s PCIe\n");
	format(file, "sys/devices/%s/max_link_speed", path);
	sysfs_tree_put(&tree->files, file, "32.0 GT/s PCIe\n");
	format(file, "sys/devices/%s/current_link_width", path);
	sysfs_tree_put(&tree->files, file, "16\n");
	format(file, "sys/devices/%s/max_link_width", path);
	sysfs_tree_put(&tree->files, file, "16\n");
	format(file, "sys/bus/pci/devices/%s", address);
	format(target, "../../../devices/%s", path);
	/* A bridge is made once for each function below it. */
	if (!is_there(tree, file))
		sysfs_tree_link(&tree->files, file, target);
}

void machine_tree_pci(struct machine_tree *tree, const char *path, unsigned int class_code, unsigned int vendor, int numa)
{
	char above[PATH_BYTES];

	/* Behind the host bridge every part but the last is a bridge. */
	for (const char *end = strchr(path, '/'); end && (end = strchr(end + 1, '/'));) {
		format(above, "%.*s", (int)(end - path), path);
		put_function(tree, above, 0x060400, 0x10b5, numa);
	}
	put_function(tree, path, class_code, vendor, numa);
}

/* Below a folder, whose file's name is a format as well. */
#define PUT(folder, file, ...) \
	do { \
		char path_[PATH_BYTES]; \
\
		format(path_, "%s/" file, folder); \
		sysfs_tree_put(&tree->files, path_, __VA_ARGS__); \
	} while (0)

static void put_gid(struct machine_tree *tree, const char *port, const struct machine_gid *gid)
{
	char path[PATH_BYTES];

	format(path, "%s/gids/%u", port, gid->index);
	sysfs_tree_put(&tree->files, path, "%s\n", gid->address);
	format(path, "%s/gid_attrs/types/%u", port, gid->index);
	sysfs_tree_put(&tree->files, path, "%s\n", gid->type);
	format(path, "%s/gid_attrs/ndevs/%u", port, gid->index);
	if (gid->netdev)
		sysfs_tree_put(&tree->files, path, "%s\n", gid->netdev);
}

/* An interface has its link-local address and an IPv4 one, each for both versions of RoCE. */
static void put_own_gids(struct machine_tree *tree, const char *port, const struct machine_nic *nic, unsigned int id)
{
	char local[40], ipv4[40];

	snprintf(local, sizeof(local), "fe80:0000:0000:0000:a288:c2ff:feab:%04x", id & 0xffff);
	snprintf(ipv4, sizeof(ipv4), "0000:0000:0000:0000:0000:ffff:0a00:%04x", id & 0xffff);
	put_gid(tree, port, &(struct machine_gid){0, local, "IB/RoCE v1", nic->netdev});
	if (!nic->netdev)
		return;
	put_gid(tree, port, &(struct machine_gid){1, local, "RoCE v2", nic->netdev});
	put_gid(tree, port, &(struct machine_gid){2, ipv4, "IB/RoCE v1", nic->netdev});
	put_gid(tree, port, &(struct machine_gid){3, ipv4, "RoCE v2", nic->netdev});
}

/* Free rows are zeros, and have no type. */
static void put_gids(struct machine_tree *tree, const char *port, const struct machine_nic *nic, unsigned int id)
{
	char path[PATH_BYTES];
	unsigned int row;

	for (row = 0; row < N_ROWS; row++) {
		format(path, "%s/gids/%u", port, row);
		sysfs_tree_put(&tree->files, path, "0000:0000:0000:0000:0000:0000:0000:0000\n");
	}
	for (row = 0; row < nic->n_gids; row++)
		put_gid(tree, port, &nic->gids[row]);
	if (!nic->n_gids && !nic->has_no_gids)
		put_own_gids(tree, port, nic, id);
}

/* Bus, slot and function: no other device of the machine has them. */
static unsigned int id_of(const char *path)
{
	unsigned int bus, slot, function;

	ASSERT_EQ(sscanf(strrchr(path, '/') + 6, "%x:%x.%x", &bus, &slot, &function), 3);
	return bus << 8 | slot << 3 | function;
}

static void put_port(struct machine_tree *tree, const char *folder, const struct machine_nic *nic)
{
	unsigned int id = id_of(nic->path);
	char port[PATH_BYTES];

	format(port, "%s/ports/1", folder);
	PUT(port, "state", "%s", nic->is_down ? "1: DOWN\n" : "4: ACTIVE\n");
	PUT(port, "phys_state", "%s", nic->is_down ? "3: Disabled\n" : "5: LinkUp\n");
	PUT(port, "rate", "%u Gb/sec (4X NDR)\n", nic->gbps);
	PUT(port, "link_layer", "%s", nic->netdev ? "Ethernet\n" : "InfiniBand\n");
	PUT(port, "lid", "0x%x\n", nic->netdev ? 0 : id);
	put_gids(tree, port, nic, id);
	PUT(folder, "fw_ver", "%s\n", nic->firmware ? nic->firmware : "28.42.1000");
	if (nic->guid)
		PUT(folder, "node_guid", "%s\n", nic->guid);
	else
		PUT(folder, "node_guid", "a088:c203:00ab:%04x\n", id);
}

static void put_pci_link(struct machine_tree *tree, const struct machine_nic *nic)
{
	char folder[PATH_BYTES];

	format(folder, "sys/devices/%s", nic->path);
	if (nic->pci_speed)
		PUT(folder, "current_link_speed", "%s\n", nic->pci_speed);
	if (nic->pci_width)
		PUT(folder, "current_link_width", "%u\n", nic->pci_width);
}

static void put_netdev(struct machine_tree *tree, const struct machine_nic *nic)
{
	char folder[PATH_BYTES], file[PATH_BYTES], target[PATH_BYTES];

	format(folder, "sys/devices/%s/net/%s", nic->path, nic->netdev);
	PUT(folder, "dev_port", "0\n");
	PUT(folder, "mtu", "%u\n", nic->mtu_bytes ? nic->mtu_bytes : 9000);
	PUT(folder, "operstate", "%s", nic->is_down || nic->is_netdev_down ? "down\n" : "up\n");
	format(file, "sys/class/net/%s", nic->netdev);
	format(target, "../../devices/%s/net/%s", nic->path, nic->netdev);
	sysfs_tree_link(&tree->files, file, target);
	if (!nic->bond)
		return;
	format(file, "sys/devices/%s/net/%s/master", nic->path, nic->netdev);
	format(target, "../../../virtual/net/%s", nic->bond);
	sysfs_tree_link(&tree->files, file, target);
	format(file, "sys/class/net/%s/bonding/mode", nic->bond);
	sysfs_tree_put(&tree->files, file, "802.3ad 4\n");
}

void machine_tree_nic(struct machine_tree *tree, const struct machine_nic *nic)
{
	char folder[PATH_BYTES], file[PATH_BYTES], target[PATH_BYTES];

	format(folder, "sys/devices/%s/infiniband/%s", nic->path, nic->name);
	put_port(tree, folder, nic);
	put_pci_link(tree, nic);
	format(file, "%s/device", folder);
	format(target, "../../../%s", strrchr(nic->path, '/') + 1);
	sysfs_tree_link(&tree->files, file, target);
	if (nic->physfn) {
		format(file, "sys/devices/%s/physfn", nic->path);
		format(target, "../%s", nic->physfn);
		sysfs_tree_link(&tree->files, file, target);
	}
	if (nic->netdev)
		put_netdev(tree, nic);
	format(file, "sys/class/infiniband/%s", nic->name);
	format(target, "../../devices/%s/infiniband/%s", nic->path, nic->name);
	sysfs_tree_link(&tree->files, file, target);
}

void machine_tree_unplug(struct machine_tree *tree, const char *path, const char *nic)
{
	char file[PATH_BYTES];

	format(file, "sys/class/infiniband/%s", nic);
	sysfs_tree_remove(&tree->files, file);
	format(file, "sys/bus/pci/devices/%s", strrchr(path, '/') + 1);
	sysfs_tree_remove(&tree->files, file);
	format(file, "sys/devices/%s", path);
	sysfs_tree_remove(&tree->files, file);
}
