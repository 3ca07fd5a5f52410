/* SPDX-License-Identifier: Apache-2.0 */
/* NICs of the host that no backend drives, on the loop: kept up to date in the registry. */
#ifndef SHMEMD_SEEK_H
#define SHMEMD_SEEK_H

#include <stdint.h>

struct loop;
struct loop_timer;
struct loop_watch;
struct nic_info;
struct host_watch;
struct registry;

struct seek {
	struct loop *loop;
	struct registry *registry;
	const char *sysfs;
	uint64_t look_nsec, wanted_nsec; /* how often */
	struct loop_timer *timer; /* until there is a watch */
	struct host_watch *watch; /* NULL: the kernel has no RDMA */
	struct loop_watch *news;
	void (*found)(void *arg); /* the registry's list of them is a new one; or NULL */
	void *found_arg;
};

/* From the registry's NICs on, which are left alone. Zeroed before; seek_deinit() also where this fails. */
int seek_init(struct seek *seek, struct loop *loop, struct registry *registry);
void seek_deinit(struct seek *seek);
/* This one has a backend now. */
void seek_manage(struct seek *seek, const struct nic_info *info);

#endif
