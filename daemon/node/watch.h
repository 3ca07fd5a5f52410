/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of daemon/host on the loop: NICs that no backend drives are kept up to date in the registry, and the map of the
 * node is redrawn when the machine changes. Control thread.
 */
#ifndef SHMEMD_NODE_WATCH_H
#define SHMEMD_NODE_WATCH_H

struct host_watch;
struct loop;
struct loop_timer;
struct loop_watch;
struct nic_info;
struct redraw;
struct registry;

struct node_watch {
	struct loop *loop;
	struct registry *registry;
	struct redraw *redraw; /* NULL: the daemon has no map of this machine */
	struct loop_timer *timer; /* until there is a watch */
	struct host_watch *watch; /* NULL: nothing to watch yet */
	struct loop_watch *news;
	void (*found)(void *arg); /* the registry's list of unmanaged NICs is a new one; or NULL */
	void *found_arg;
};

/* From the registry's NICs on, which the watch leaves alone. Zeroed before; call node_watch_deinit() also if this fails. */
int node_watch_init(struct node_watch *watch, struct loop *loop, struct registry *registry, struct redraw *redraw);
void node_watch_deinit(struct node_watch *watch);
/* This one has a backend now. */
void node_watch_manage(struct node_watch *watch, const struct nic_info *info);

#endif
