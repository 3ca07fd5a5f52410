/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and NICs that come and go while the daemon runs: the map of the node is kept up to date. Control thread. */
#ifndef SHMEMD_NODE_WATCH_H
#define SHMEMD_NODE_WATCH_H

struct loop;
struct node_map;
struct node_watch;
struct registry;

/*
 * Looks at the machine that `map` was made of; map NULL, or no NIC that could be one of it: *ret_watch is NULL, and that is 0. The map
 * and the registry are borrowed. -ENOMEM.
 */
int node_watch_new(struct loop *loop, struct registry *registry, struct node_map *map, struct node_watch **ret_watch);
/* No look is under way: workers have finished. NULL allowed. */
struct node_watch *node_watch_free(struct node_watch *watch);
/* No further looks. NULL allowed. */
void node_watch_stop(struct node_watch *watch);

#endif
