/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the node: its GPUs and NICs, before the first session and whenever they come and go (watch.h). */
#ifndef SHMEMD_NODE_H
#define SHMEMD_NODE_H

#include <stdbool.h>
#include <stdint.h>

struct node_map;
struct registry;
struct topo;

/*
 * The map of this machine for the NICs that the registry has; or, with SHMEMD_TOPOLOGY, of the one in that file, whose NICs the registry's
 * stand for in their order. *ret_map is NULL, and that is 0, where the machine is beyond the limits of a map. May block: not on
 * the loop. -ENOMEM; what is wrong with the file, logged.
 */
int node_map_make(struct registry *registry, struct node_map **ret_map);
/* The machine as it is now. May block; any thread. Logs errors. */
int node_read(struct topo **ret_topo);

/* For registry_attr: both look at names and at what the kernel knows by itself, and ask no driver. */
bool node_sees_gpu(const char *pci);
bool node_knows_uuids(unsigned int n_gpus);

const char *node_named_file(void); /* of SHMEMD_TOPOLOGY, or NULL */
const char *node_named_tree(void); /* of SHMEMD_SYSFS, or NULL */
const char *node_sysfs(void);
const char *node_procfs(void); /* SHMEMD_PROCFS, or "/proc" */
uint64_t node_look_nsec(void); /* between two looks for changes of the machine */
uint64_t node_scan_nsec(void); /* between two scans for unmanaged NICs */

#endif
