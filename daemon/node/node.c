/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the node for the daemon: this machine, or the file in SHMEMD_TOPOLOGY.
 *
 * The map ignores links between GPUs, so this does not load NVML. It does not load libibverbs either, since the registry's
 * NICs have their capabilities already.
 */
#include "daemon/node/node.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/host/host.h"
#include "daemon/log.h"
#include "daemon/session/node-map.h"
#include "daemon/session/registry.h"
#include "daemon/topo/topo.h"
#include "proto/base/nsec.h"

#define LOOK_NSEC (2 * NSEC_PER_SEC)
#define SCAN_NSEC (1 * NSEC_PER_SEC)
#define NAMED_NSEC (50 * NSEC_PER_MSEC) /* for a developer's file or tree: reading it sends no firmware command */

const char *node_named_file(void)
{
	const char *path = getenv("SHMEMD_TOPOLOGY");

	return path && *path ? path : NULL;
}

const char *node_named_tree(void)
{
	const char *root = getenv("SHMEMD_SYSFS");

	return root && root[0] == '/' ? root : NULL;
}

const char *node_sysfs(void)
{
	const char *tree = node_named_tree();

	return tree ? tree : "/sys";
}

const char *node_procfs(void)
{
	const char *tree = getenv("SHMEMD_PROCFS");

	return tree && tree[0] == '/' ? tree : "/proc";
}

uint64_t node_look_nsec(void)
{
	return node_named_file() || node_named_tree() ? NAMED_NSEC : LOOK_NSEC;
}

uint64_t node_scan_nsec(void)
{
	return node_named_tree() ? NAMED_NSEC : SCAN_NSEC;
}

/* Any thread may read the machine again after a change. A defect is logged if it differs from the last one. */
static struct {
	pthread_mutex_t lock;
	char text[TOPO_WHY_BYTES];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void tell_lack(const char *why)
{
	bool is_new;

	pthread_mutex_lock(&told.lock);
	is_new = strcmp(told.text, why) != 0;
	snprintf(told.text, sizeof(told.text), "%s", why);
	pthread_mutex_unlock(&told.lock);
	if (is_new && *why)
		log_line(LOG_WARNING, NULL, "the map of this machine is incomplete: %s", why);
}

static int read_machine(struct topo **ret_topo)
{
	char why[TOPO_WHY_BYTES] = "";
	const struct topo_host_attr attr = {.sys = node_sysfs(), .proc = node_procfs(), .why = why};
	int r = topo_read_host(&attr, ret_topo);

	if (r == 0)
		tell_lack(why);
	if (r == -E2BIG)
		log_line(LOG_WARNING, NULL,
			 "this machine has more GPUs, NICs or bridges than shmemd can map");
	if (r == -EBADMSG)
		log_line(LOG_WARNING, NULL, "sysfs shows a GPU of this machine twice");
	return r;
}

static int read_named(const char *path, struct topo **ret_topo)
{
	char why[TOPO_WHY_BYTES];
	int r = topo_read_file(path, ret_topo, why);

	if (r < 0)
		log_line(LOG_ERR, NULL, "SHMEMD_TOPOLOGY: %s: %s", path, why);
	return r;
}

int node_read(struct topo **ret_topo)
{
	return node_named_file() ? read_named(node_named_file(), ret_topo) : read_machine(ret_topo);
}

/* ---- GPUs that the map does not have -------------------------------------------------------------------------------- */

bool node_sees_gpu(const char *pci)
{
	return host_sees_gpu(node_sysfs(), pci);
}

bool node_knows_uuids(unsigned int n_gpus)
{
	return host_has_whole_gpus(node_procfs(), n_gpus);
}

int node_map_make(struct registry *registry, struct node_map **ret_map)
{
	struct topo *topo = NULL;
	int r = node_read(&topo);

	/* An administrator cannot repair this, so the daemon serves the machine without a map. */
	if ((r == -E2BIG || r == -EBADMSG) && !node_named_file()) {
		log_line(LOG_WARNING, NULL,
			 "shmemd has no map of this machine, so it gives NICs to GPUs in turn");
		return 0;
	}
	return r < 0 ? r : node_map_new(topo, registry, node_named_file(), ret_map);
}
