/* SPDX-License-Identifier: Apache-2.0 */
/* ConnectX NICs that come while the daemon runs: opened, and there for sessions from then on. Control thread. */
#ifndef SHMEMD_NIC_HOTPLUG_H
#define SHMEMD_NIC_HOTPLUG_H

struct nic_hotplug;
struct nics;
struct node_map;
struct node_watch;

struct nic_hotplug_attr {
	struct nics *nics; /* open; borrowed, as all here */
	struct node_watch *watch; /* finds them */
	struct node_map *node_map; /* or NULL */
	void (*opened)(void *arg); /* there are more NICs than before */
	void *arg;
};

/* With a daemon whose NICs are of another backend *ret_hotplug is NULL, and that is 0. -ENOMEM. */
int nic_hotplug_new(const struct nic_hotplug_attr *attr, struct nic_hotplug **ret_hotplug);
/* NICs that no backend drives have come or changed. NULL allowed, here and below. */
void nic_hotplug_look(struct nic_hotplug *hotplug);
/* None is opened any more. */
void nic_hotplug_stop(struct nic_hotplug *hotplug);
/* No work is under way. Before the NICs are closed. */
struct nic_hotplug *nic_hotplug_free(struct nic_hotplug *hotplug);

#endif
