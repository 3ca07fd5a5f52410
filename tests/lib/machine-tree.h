/* SPDX-License-Identifier: Apache-2.0 */
/* A folder with the sys/ and proc/ of a machine with GPUs and NICs, as the kernel shows them. */
#ifndef SHMD_TESTS_MACHINE_TREE_H
#define SHMD_TESTS_MACHINE_TREE_H

#include "tests/lib/sysfs-tree.h"

struct machine_tree {
	struct sysfs_tree files;
	char sys[80];
	char proc[80];
};

void machine_tree_init(struct machine_tree *tree, unsigned int n_numa);
void machine_tree_deinit(struct machine_tree *tree);

/*
 * A PCI function. `path` is what it hangs on, down to itself: "pci0000:00/0000:00:01.0/0000:01:00.0"; bridges on it are made with
 * it. class_code has six hex digits. numa -1: the firmware does not say.
 */
void machine_tree_pci(struct machine_tree *tree, const char *path, unsigned int class_code, unsigned int vendor, int numa);
/* A row of a port's table of addresses; the text is as the kernel writes it. */
struct machine_gid {
	unsigned int index;
	const char *address;
	const char *type; /* "RoCE v2", "IB/RoCE v1" */
	const char *netdev;
};
/*
 * The RDMA device of a function, with one port, and an interface where netdev is not NULL. A field that is not set is as on a machine with
 * nothing wrong; GUID, LID and addresses then are of this device alone.
 */
struct machine_nic {
	const char *path;
	const char *name;
	const char *netdev;
	const char *bond; /* that the interface is in */
	const char *physfn; /* PCI address of a VF's PF */
	bool is_down;
	unsigned int gbps;
	const char *guid; /* "a088:c203:00ab:0001" */
	const char *firmware;
	unsigned int mtu_bytes; /* of the interface */
	bool is_netdev_down;
	const struct machine_gid *gids;
	unsigned int n_gids;
	bool has_no_gids; /* the table has free rows only */
	const char *pci_speed; /* now, where it is less than it could be: "8.0 GT/s PCIe" */
	unsigned int pci_width;
};
void machine_tree_nic(struct machine_tree *tree, const struct machine_nic *nic);
void machine_tree_unplug(struct machine_tree *tree, const char *path, const char *nic);

#endif
