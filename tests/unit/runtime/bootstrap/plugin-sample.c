/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in as a user might write it, for one rank: it answers by itself. Its arguments choose what it does wrong. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd-bootstrap.h>

static int gather(struct shmd_bootstrap *bootstrap, const void *mine, void *all, size_t bytes)
{
	memcpy(all, mine, bytes);
	return 0;
}

static int barrier(struct shmd_bootstrap *bootstrap)
{
	return 0;
}

static void end(struct shmd_bootstrap *bootstrap, int status, const char *why)
{
	exit(status);
}

static void leave(struct shmd_bootstrap *bootstrap)
{
	*(int *)bootstrap->state += 1;
}

static struct shmd_bootstrap_ops ops = {SHMD_BOOTSTRAP_VERSION, "sample", gather, gather, barrier, NULL, end, leave};
static int closed;

__attribute__((visibility("default"))) int shmd_bootstrap_plugin_init(const char *args, uint64_t timeout_nsec,
								       struct shmd_bootstrap *bootstrap);

int shmd_bootstrap_plugin_init(const char *args, uint64_t timeout_nsec, struct shmd_bootstrap *bootstrap)
{
	if (!strcmp(args, "fail"))
		return -EPIPE;
	ops.version = !strcmp(args, "version") ? 99 : SHMD_BOOTSTRAP_VERSION;
	ops.barrier = !strcmp(args, "barrier") ? NULL : barrier;
	bootstrap->ops = &ops;
	bootstrap->state = &closed;
	bootstrap->rank = !strcmp(args, "rank") ? 1 : 0;
	bootstrap->size = 1;
	return timeout_nsec ? 0 : -EINVAL;
}
