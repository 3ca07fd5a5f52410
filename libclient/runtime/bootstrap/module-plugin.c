/* SPDX-License-Identifier: Apache-2.0 */
/* "plugin:PATH" and "plugin:PATH:ARGS": a shared object of the user's, whose operations the runtime calls as they are. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/module.h"

#define PATH_BYTES 4096

static int check_plugin(const char *path, const struct shmd_bootstrap *b)
{
	const struct shmd_bootstrap_ops *ops = b->ops;

	if (!ops)
		return shmd_error_set(-EINVAL, "the bootstrap plug-in %s left no operations", path);
	if (ops->version != SHMD_BOOTSTRAP_VERSION)
		return shmd_error_set(-EINVAL, "the bootstrap plug-in %s has version %u of the interface; this library has %u", path, ops->version,
				      SHMD_BOOTSTRAP_VERSION);
	if (!ops->name || !ops->allgather || !ops->alltoall || !ops->barrier || !ops->abort || !ops->close)
		return shmd_error_set(-EINVAL, "the bootstrap plug-in %s lacks an operation; watch alone may be NULL", path);
	if (b->size < 1 || b->rank < 0 || b->rank >= b->size)
		return shmd_error_set(-EINVAL, "the bootstrap plug-in %s says that this is rank %d of %d", path, b->rank, b->size);
	return 0;
}

static int run_plugin(const char *path, const char *args, uint64_t timeout_nsec, struct shmd_bootstrap *ret)
{
	struct shmd_bootstrap bootstrap = {.rank = -1, .node_rank = -1, .node_size = -1};
	/* Stays loaded: its functions are called until the bootstrap closes, and its threads may outlive that. */
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	shmd_bootstrap_plugin_fn init;
	int err;

	if (!library)
		return shmd_error_set(-ENOENT, "cannot load the bootstrap plug-in %s: %s", path, dlerror());
	init = (shmd_bootstrap_plugin_fn)dlsym(library, SHMD_BOOTSTRAP_PLUGIN_SYMBOL);
	if (!init)
		return shmd_error_set(-EINVAL, "the bootstrap plug-in %s has no function %s", path, SHMD_BOOTSTRAP_PLUGIN_SYMBOL);
	shmd_error_set(0, "the bootstrap plug-in %s failed and did not say why", path);
	err = init(args, timeout_nsec, &bootstrap);
	if (!err)
		err = check_plugin(path, &bootstrap);
	if (!err)
		*ret = bootstrap;
	return err < 0 ? err : err ? shmd_error_set(-EINVAL, "the bootstrap plug-in %s returned %d", path, err) : 0;
}

static int open_plugin(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	size_t n = strcspn(args, ":");
	char path[PATH_BYTES];

	if (!n || n >= sizeof(path))
		return shmd_error_set(-EINVAL, "plugin:PATH needs the path of a shared object, at most %d characters", PATH_BYTES - 1);
	memcpy(path, args, n);
	path[n] = 0;
	return run_plugin(path, args[n] ? args + n + 1 : "", attr->timeout_nsec, ret);
}

const struct module module_plugin = {"plugin", NULL, open_plugin};
