/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the first cgroup of a path, from the root down, that belongs to one tenant. It has the tenant's quota.
 *
 * Every cgroup below it shares that count, so the count bounds them all, at any depth. A cgroup belongs to one tenant if
 * - its name says so: a user's slice (`user-UID.slice`), a pod, a unit (service or scope);
 * - or a user other than root may create cgroups below it, by owner and mode of its folder in cgroupfs (delegation);
 * - or its name is unknown and its owner cannot be read (cgroup v1).
 * Tenants share the root, slices, and the cgroups that container engines and batch systems put above containers and jobs, such as
 * `kubepods`, `docker`, `slurmstepd.scope` or `containerd.service`. These have no count, so no tenant gets a node-wide quota by
 * accident. If all cgroups of a path are root's and no name decides, only root creates cgroups there, and the leaf counts. The
 * kernel shows no path of 4096 bytes or more: clients with such paths share one count.
 *
 * Uses names and owners only. Any thread.
 */
#include "daemon/session/cgroup.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CGROUP_PATH_BYTES 4096
#define CGROUP_MOUNT "/sys/fs/cgroup"

enum kind {
	KIND_UNKNOWN,
	KIND_SHARED,
	KIND_TENANT,
};

struct name {
	const char *at;
	size_t bytes;
};

/* A cgroup of one of these names has those of many tenants below it. */
static const char *const shared_names[] = {
	"..", "system", "user", "machine", "kubepods", "burstable", "besteffort", "docker", "podman", "libpod_parent",
	"lxc", "garden", "k8s.io", "slurm", "slurmstepd.scope", "docker.service", "containerd.service", "crio.service",
	"kubelet.service", "k3s.service", "rke2-agent.service", "rke2-server.service", "podman.service", "slurmd.service",
	"condor.service", "htcondor", "pbspro.service", "pbs_jobs.service", "libvirtd.service",
};

static bool starts(struct name name, const char *with)
{
	return name.bytes >= strlen(with) && memcmp(name.at, with, strlen(with)) == 0;
}

static bool ends(struct name name, const char *with)
{
	size_t n = strlen(with);

	/* bounded: the name is that long. */
	return name.bytes >= n && memcmp(name.at + name.bytes - n, with, n) == 0;
}

static bool is(struct name name, const char *what)
{
	return name.bytes == strlen(what) && memcmp(name.at, what, name.bytes) == 0;
}

/* "user-1000.slice" has all of a user's logins. */
static bool is_user_slice(struct name name)
{
	size_t n = strlen("user-"), digits;

	if (!starts(name, "user-") || !ends(name, ".slice"))
		return false;
	digits = strspn(name.at + n, "0123456789");
	return digits > 0 && n + digits + strlen(".slice") == name.bytes;
}

/* "kubepods-burstable-pod1b4e28ba.slice", or "pod1b4e28ba" below "kubepods". */
static bool is_pod(struct name name, bool below_kubepods)
{
	if (!ends(name, ".slice"))
		return below_kubepods && starts(name, "pod");
	/* The number of a pod follows: "system-podman.slice" is none. */
	for (size_t i = 0; i + 4 < name.bytes; i++)
		if (memcmp(name.at + i, "-pod", 4) == 0 && isxdigit((unsigned char)name.at[i + 4]))
			return true;
	return false;
}

static enum kind judge(struct name name, bool below_kubepods)
{
	if (is_user_slice(name) || is_pod(name, below_kubepods))
		return KIND_TENANT;
	for (size_t i = 0; i < sizeof(shared_names) / sizeof(shared_names[0]); i++)
		if (is(name, shared_names[i]))
			return KIND_SHARED;
	if (ends(name, ".slice"))
		return KIND_SHARED;
	return ends(name, ".service") || ends(name, ".scope") ? KIND_TENANT : KIND_UNKNOWN;
}

/* In a user namespace root may have another number: it is whose the mount is. Paths outside of our cgroup namespace begin with "/..". */
static enum cgroup_owner owner_here(const void *arg, const char *path)
{
	char full[CGROUP_PATH_BYTES + sizeof(CGROUP_MOUNT)];
	struct stat mount, st;

	snprintf(full, sizeof(full), CGROUP_MOUNT "%s", path);
	if (strncmp(path, "/..", 3) == 0 || stat(CGROUP_MOUNT, &mount) < 0 || stat(full, &st) < 0)
		return CGROUP_OWNER_UNKNOWN;
	return st.st_uid == mount.st_uid && !(st.st_mode & (S_IWGRP | S_IWOTH)) ? CGROUP_OWNER_ROOT : CGROUP_OWNER_OTHER;
}

static bool is_tenant(enum kind kind, enum cgroup_owner owner)
{
	return owner == CGROUP_OWNER_OTHER || (kind == KIND_UNKNOWN && owner == CGROUP_OWNER_UNKNOWN);
}

void cgroup_tenant(const char *path, cgroup_owner_fn owner, const void *arg, char *buf, size_t size)
{
	char part[CGROUP_PATH_BYTES] = "";
	bool below_kubepods = false;
	size_t end = 0;

	while (path[end] && end < sizeof(part) - 1) {
		size_t slashes = strspn(path + end, "/");
		struct name name = {.at = path + end + slashes, .bytes = strcspn(path + end + slashes, "/")};
		enum kind kind = judge(name, below_kubepods);

		end += slashes + name.bytes; /* bounded: within the path */
		snprintf(part, sizeof(part), "%.*s", (int)end, path);
		if (kind == KIND_TENANT || is_tenant(kind, owner ? owner(arg, part) : owner_here(arg, part)))
			break;
		below_kubepods |= is(name, "kubepods");
	}
	snprintf(buf, size, "%s", part);
}
