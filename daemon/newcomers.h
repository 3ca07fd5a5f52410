/* SPDX-License-Identifier: Apache-2.0 */
/* ConnectX NICs that come while the daemon runs: opened, and there for sessions from then on. Control thread. */
#ifndef SHMEMD_NEWCOMERS_H
#define SHMEMD_NEWCOMERS_H

struct newcomers;
struct nic_watch;
struct nics;
struct node_map;
struct seek;

struct newcomers_attr {
	struct nics *nics; /* open; borrowed, as all here */
	struct seek *seek; /* who finds them */
	struct node_map *node_map; /* or NULL */
	void (*opened)(void *arg); /* there are more NICs than before */
	void *arg;
};

/* With a daemon whose NICs are of another backend *ret_newcomers is NULL, and that is 0. -ENOMEM. */
int newcomers_new(const struct newcomers_attr *attr, struct newcomers **ret_newcomers);
/* NICs that no backend drives have come or changed. NULL allowed, here and below. */
void newcomers_look(struct newcomers *newcomers);
/* None is opened any more. */
void newcomers_stop(struct newcomers *newcomers);
/* No work is under way. Before the NICs are closed. */
struct newcomers *newcomers_free(struct newcomers *newcomers);

#endif
