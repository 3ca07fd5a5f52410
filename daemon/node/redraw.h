/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the machine again when its devices have changed, and redraws the map of the node. Control thread. */
#ifndef SHMEMD_NODE_REDRAW_H
#define SHMEMD_NODE_REDRAW_H

struct loop;
struct node_map;
struct redraw;
struct registry;

/*
 * For the machine that `map` was made of; map NULL, or no NIC that could be one of it: *ret_redraw is NULL, and that is 0. The
 * map and the registry are borrowed. -ENOMEM.
 */
int redraw_new(struct loop *loop, struct registry *registry, struct node_map *map, struct redraw **ret_redraw);
/* The devices of the machine have changed. */
void redraw_begin(struct redraw *redraw);
/* No further readings. NULL allowed. */
void redraw_stop(struct redraw *redraw);
/* No reading is under way: workers have finished. NULL allowed. */
struct redraw *redraw_free(struct redraw *redraw);

#endif
