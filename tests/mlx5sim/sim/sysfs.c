/* SPDX-License-Identifier: Apache-2.0 */
/* The tree that stands for sysfs and /dev/infiniband, as plain files under the simulator's folder. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "tests/mlx5sim/sim/sim.h"

#define PCI "devices/mlx5sim/pci0000:00/0000:00:%02x.0"

struct tree {
	const struct sim *sim;
	int error; /* the first one */
};

static void make_parents(char *path)
{
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(path, 0755);
		*at = '/';
	}
}

static void __attribute__((format(printf, 3, 4)))
put(struct tree *tree, const char *name, const char *format, ...)
{
	char path[PATH_MAX], hidden[PATH_MAX];
	va_list args;
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", tree->sim->root, name);
	make_parents(path);
	/* Whole or not at all, also for a process that reads it at this moment. */
	snprintf(hidden, sizeof(hidden), "%s/new", tree->sim->root);
	file = fopen(hidden, "we");
	if (!file) {
		tree->error = tree->error ? tree->error : -errno;
		return;
	}
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	if ((fclose(file) != 0 || rename(hidden, path) < 0) && !tree->error)
		tree->error = -errno;
}

static void put_link(struct tree *tree, const char *name, const char *target)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", tree->sim->root, name);
	make_parents(path);
	if (symlink(target, path) < 0 && !tree->error)
		tree->error = -errno;
}

/* `buf` receives folder/name, for one use. */
static const char *in(char *buf, const char *folder, const char *name)
{
	snprintf(buf, PATH_MAX, "%s/%s", folder, name);
	return buf;
}

static void format_guid(char *buf, uint64_t guid)
{
	snprintf(buf, 32, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
}

static void format_gid(char *buf, const uint8_t gid[16])
{
	for (int i = 0; i < 8; i++)
		buf += sprintf(buf, "%s%02x%02x", i ? ":" : "", gid[2 * i], gid[2 * i + 1]);
}

static void put_gids(struct tree *tree, const struct nic *nic, const char *port)
{
	char path[PATH_MAX], name[64], gid[64];

	for (unsigned int i = 0; i < nic->n_gids; i++) {
		format_gid(gid, nic->gids[i]);
		snprintf(name, sizeof(name), "gids/%u", i);
		put(tree, in(path, port, name), "%s\n", gid);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		put(tree, in(path, port, name), "%s\n",
		    nic->gid_types[i] == IB_UVERBS_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
		snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
		if (tree->sim->ethernet)
			put(tree, in(path, port, name), "lo\n");
	}
}

static void put_port_state(struct tree *tree, const struct nic *nic, const char *port)
{
	char path[PATH_MAX];

	put(tree, in(path, port, "state"), nic->port_down ? "1: DOWN\n" : "4: ACTIVE\n");
	put(tree, in(path, port, "phys_state"), nic->port_down ? "3: Disabled\n" : "5: LinkUp\n");
	put(tree, in(path, port, "rate"), nic->lanes_gone ? "25 Gb/sec (1X EDR)\n" : "100 Gb/sec (4X EDR)\n");
}

static void put_port(struct tree *tree, const struct nic *nic, const char *port)
{
	bool ethernet = tree->sim->ethernet;
	char path[PATH_MAX];

	put(tree, in(path, port, "link_layer"), "%s\n", ethernet ? "Ethernet" : "InfiniBand");
	put_port_state(tree, nic, port);
	put(tree, in(path, port, "lid"), "0x%x\n", nic->lid);
	put(tree, in(path, port, "sm_lid"), "0x%x\n", ethernet ? 0 : 1);
	put(tree, in(path, port, "pkeys/0"), "0xffff\n");
	put_gids(tree, nic, port);
}

static void put_pci(struct tree *tree, const char *device)
{
	char path[PATH_MAX];

	put(tree, in(path, device, "modalias"),
	    "pci:v000015B3d0000101Dsv000015B3sd00000001bc02sc00i00\n");
	put(tree, in(path, device, "vendor"), "0x15b3\n");
	put(tree, in(path, device, "device"), "0x101d\n");
	put(tree, in(path, device, "subsystem_vendor"), "0x15b3\n");
	put(tree, in(path, device, "subsystem_device"), "0x0001\n");
	put(tree, in(path, device, "class"), "0x020000\n");
	put(tree, in(path, device, "numa_node"), "-1\n");
	put_link(tree, in(path, device, "driver"), "../../../../bus/pci/drivers/mlx5_core");
}

/* Makes it visible: its links in the classes, and its node. */
static void put_listing(struct tree *tree, const struct nic *nic)
{
	char name[64], target[128];
	int index = nic->index;

	snprintf(name, sizeof(name), "/sys/class/infiniband/mlx5_%d", index);
	snprintf(target, sizeof(target), "../../" PCI "/infiniband/mlx5_%d", index + 1, index);
	put_link(tree, name, target);
	snprintf(name, sizeof(name), "/dev/infiniband/uverbs%d", index);
	put(tree, name, "%s", "");
	snprintf(name, sizeof(name), "/sys/class/infiniband_verbs/uverbs%d", index);
	snprintf(target, sizeof(target), "../../" PCI "/infiniband_verbs/uverbs%d", index + 1, index);
	put_link(tree, name, target);
}

static void remove_listing(const struct nic *nic)
{
	static const char *const names[] = {"/sys/class/infiniband_verbs/uverbs", "/sys/class/infiniband/mlx5_",
					    "/dev/infiniband/uverbs"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s%d", nic->sim->root, names[i], nic->index);
		unlink(path);
	}
}

void sim_tree_list(const struct nic *nic, bool listed)
{
	struct tree tree = {.sim = nic->sim};

	if (listed)
		put_listing(&tree, nic);
	else
		remove_listing(nic);
}

void sim_tree_port(const struct nic *nic)
{
	struct tree tree = {.sim = nic->sim};
	char port[128];

	snprintf(port, sizeof(port), "/sys/" PCI "/infiniband/mlx5_%d/ports/1", nic->index + 1, nic->index);
	put_port_state(&tree, nic, port);
}

static void put_nic(struct tree *tree, const struct nic *nic)
{
	char path[PATH_MAX], device[128], folder[256], target[300], guid[32];

	snprintf(device, sizeof(device), "/sys/" PCI, nic->index + 1);
	put_pci(tree, device);
	format_guid(guid, nic->guid);
	snprintf(folder, sizeof(folder), "%s/infiniband/mlx5_%d", device, nic->index);
	put(tree, in(path, folder, "node_type"), "1: CA\n");
	put(tree, in(path, folder, "node_guid"), "%s\n", guid);
	put(tree, in(path, folder, "sys_image_guid"), "%s\n", guid);
	put(tree, in(path, folder, "node_desc"), "mlx5_%d simulated\n", nic->index);
	put(tree, in(path, folder, "fw_ver"), "22.36.1010\n");
	put(tree, in(path, folder, "hca_type"), "MT4125\n");
	put(tree, in(path, folder, "hw_rev"), "0\n");
	put(tree, in(path, folder, "board_id"), "SIM_0000000001\n");
	put_link(tree, in(path, folder, "device"), "../..");
	snprintf(target, sizeof(target), "%s/ports/1", folder);
	put_port(tree, nic, target);

	snprintf(folder, sizeof(folder), "%s/infiniband_verbs/uverbs%d", device, nic->index);
	put(tree, in(path, folder, "ibdev"), "mlx5_%d\n", nic->index);
	put(tree, in(path, folder, "dev"), "%d:%d\n", SIM_CHAR_MAJOR, SIM_CHAR_MINOR + nic->index);
	put(tree, in(path, folder, "abi_version"), "1\n");
	put_link(tree, in(path, folder, "device"), "../..");
	put_listing(tree, nic);
}

int sim_write_tree(const struct sim *sim)
{
	struct tree tree = {.sim = sim};

	put(&tree, "/sys/class/infiniband_verbs/abi_version", "6\n");
	for (int i = 0; i < sim->n_nics; i++)
		put_nic(&tree, &sim->nics[i]);
	return tree.error;
}
