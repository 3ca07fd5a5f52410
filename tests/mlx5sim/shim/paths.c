/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths are the simulator's: the two RDMA classes of sysfs, its devices, and /dev/infiniband. */
#include "tests/mlx5sim/shim/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const prefixes[] = {
	"/sys/class/infiniband",     "/sys/class/infiniband_verbs",
	"/sys/class/infiniband_mad", "/sys/devices/mlx5sim",
	"/dev/infiniband",
};

const char *shim_root(void)
{
	const char *root = getenv(SIM_ENV_ROOT);

	return root && root[0] == '/' ? root : NULL;
}

static bool is_ours(const char *path)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t n = strlen(prefixes[i]);

		if (strncmp(path, prefixes[i], n) == 0 && (path[n] == '/' || path[n] == 0))
			return true;
	}
	return false;
}

const char *shim_path(const char *path, char *buf, size_t bytes)
{
	const char *root;
	int n;

	if (!path || path[0] != '/' || !is_ours(path))
		return path;
	root = shim_root();
	if (!root)
		return path;
	n = snprintf(buf, bytes, "%s%s", root, path);
	return n > 0 && (size_t)n < bytes ? buf : path;
}

int shim_nic_of(const char *path)
{
	const char *root = shim_root();
	int nic, n = 0;

	if (!root || !path)
		return -1;
	if (strncmp(path, root, strlen(root)) == 0)
		path += strlen(root);
	if (sscanf(path, "/dev/infiniband/uverbs%d%n", &nic, &n) != 1 || path[n] || nic < 0)
		return -1;
	return nic;
}
