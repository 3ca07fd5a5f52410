/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that looks like sysfs to a program that looks for RDMA devices. */
#ifndef SHMD_TESTS_SYSFS_TREE_H
#define SHMD_TESTS_SYSFS_TREE_H

#include <stdbool.h>

struct sysfs_tree {
	char root[64];
};

void sysfs_tree_init(struct sysfs_tree *tree); /* has no RDMA */
void sysfs_tree_deinit(struct sysfs_tree *tree);
/* A file and the folders above it; `path` begins below the root. A reader finds the old text or the new one. */
void sysfs_tree_put(const struct sysfs_tree *tree, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void sysfs_tree_link(const struct sysfs_tree *tree, const char *path, const char *target);
void sysfs_tree_remove(const struct sysfs_tree *tree, const char *path); /* with all that is in it */

/* An rxe device as the kernel shows it, active and with two GIDs, all at once. `guid` makes node and GIDs its own. */
void sysfs_tree_add_rxe(const struct sysfs_tree *tree, const char *name, const char *netdev, unsigned int guid);
void sysfs_tree_delete(const struct sysfs_tree *tree, const char *name); /* a device, all at once */
void sysfs_tree_port(const struct sysfs_tree *tree, const char *name, unsigned int port, bool active);

#endif
