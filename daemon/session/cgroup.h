/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cgroup counts for a client: that of its tenant, so that whatever is nested below it shares one quota.
 */
#ifndef SHMEMD_SESSION_CGROUP_H
#define SHMEMD_SESSION_CGROUP_H

#include <stddef.h>

/* Who may make cgroups below one. */
enum cgroup_owner {
	CGROUP_OWNER_UNKNOWN, /* it cannot be looked at */
	CGROUP_OWNER_ROOT,
	CGROUP_OWNER_OTHER, /* it is delegated */
};

typedef enum cgroup_owner (*cgroup_owner_fn)(const void *arg, const char *path);

/*
 * The tenant's part of `path`, which the kernel gave: one of its ancestors, or itself. It is cut to `size` bytes. `owner` is asked for
 * few of the ancestors; NULL: this machine is. Any thread; looks at cgroupfs, which does not block.
 */
void cgroup_tenant(const char *path, cgroup_owner_fn owner, const void *arg, char *buf, size_t size);

#endif
