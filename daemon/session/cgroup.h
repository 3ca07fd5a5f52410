/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup that counts for a client: its tenant's, so all cgroups nested in that share one quota. */
#ifndef SHMEMD_SESSION_CGROUP_H
#define SHMEMD_SESSION_CGROUP_H

#include <stddef.h>

/* The user that may create cgroups below one. */
enum cgroup_owner {
	CGROUP_OWNER_UNKNOWN, /* it cannot be looked at */
	CGROUP_OWNER_ROOT,
	CGROUP_OWNER_OTHER, /* it is delegated */
};

typedef enum cgroup_owner (*cgroup_owner_fn)(const void *arg, const char *path);

/*
 * The tenant's cgroup of `path`, as the kernel tells it: an ancestor, or `path` itself, cut to `size` bytes. Asks `owner` about
 * some of the ancestors; NULL asks this machine's cgroupfs. Any thread.
 */
void cgroup_tenant(const char *path, cgroup_owner_fn owner, const void *arg, char *buf, size_t size);

#endif
