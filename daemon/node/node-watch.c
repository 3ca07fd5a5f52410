/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches for GPUs, NICs and bonds that come and go, and redraws the map of the node.
 *
 * The unit has no netlink access, so a worker compares fingerprints of the machine every 2 s, which calls no driver. If they
 * differ it reads the machine again, and once more 2 s later, because a device appears in steps. A worker does both, since
 * sysfs may wait for a driver. Fingerprints exclude states and rates of ports, which the registry has, and MTUs, which the map
 * does not use.
 *
 * If the machine cannot be read, the map stays as it is. Control thread, except look_run().
 */
#include "daemon/node/node-watch.h"

#include <errno.h>
#include <stdlib.h>
#include <syslog.h>

#include "daemon/host/host.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/node/node.h"
#include "daemon/session/node-map.h"
#include "daemon/session/registry.h"
#include "daemon/session/work.h"
#include "daemon/topo/topo.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#define MACHINE_LOOK_NSEC (2 * NSEC_PER_SEC)
#define NAMED_NSEC (50 * NSEC_PER_MSEC) /* for a developer's file or tree */

struct node_watch {
	struct registry *registry;
	struct node_map *map;
	struct loop_timer *timer;
	struct work work;
	uint64_t look_nsec;
	bool is_busy, is_stopped;
	/* owned by the work while it is under way */
	uint64_t seen; /* fingerprint at the last look */
	bool is_settling; /* it was new then */
	struct topo *topo; /* the machine as read; NULL: not needed, or failed */
};

static void node_watch_freep(struct node_watch **watch)
{
	node_watch_free(*watch);
}

/* ---- a look -------------------------------------------------------------------------------------------------------- */

static uint64_t look(void)
{
	const char *file = node_named_file();

	return file ? host_file_fingerprint(file) : host_fingerprint(node_sysfs(), node_procfs());
}

/* The daemon lacked memory or descriptors, so it reads the machine again and misses no change. */
static bool is_want(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

static void look_run(struct work *work)
{
	struct node_watch *watch = container_of(work, struct node_watch, work);
	uint64_t seen = look();
	bool is_new = seen != watch->seen;
	int r = 0;

	watch->topo = NULL;
	if (is_new || watch->is_settling)
		r = node_read(&watch->topo);
	if (r < 0)
		watch->topo = NULL;
	if (r < 0 && !is_want(r))
		log_line(LOG_WARNING, NULL, "cannot read this machine again; GPUs get NICs as before");
	watch->seen = seen;
	watch->is_settling = is_new || is_want(r);
}

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

static void look_done(struct work *work)
{
	struct node_watch *watch = container_of(work, struct node_watch, work);

	watch->is_busy = false;
	if (watch->topo && watch->is_settling)
		log_line(LOG_INFO, NULL,
			 "the GPUs, NICs or bonds of this machine have changed: it has %u GPU%s and %u NIC port%s", watch->topo->n_gpus,
			 plural_s(watch->topo->n_gpus), watch->topo->n_nics, plural_s(watch->topo->n_nics));
	if (watch->topo)
		node_map_redraw(watch->map, take_ptr(watch->topo));
	if (!watch->is_stopped)
		loop_timer_arm(watch->timer, watch->look_nsec);
}

static void on_timer(void *arg)
{
	struct node_watch *watch = arg;

	if (watch->is_stopped || watch->is_busy)
		return;
	watch->is_busy = true;
	watch->work = (struct work){.run = look_run, .done = look_done};
	registry_work(watch->registry, watch->registry->blocks, &watch->work);
}

void node_watch_stop(struct node_watch *watch)
{
	if (watch)
		watch->is_stopped = true;
}

struct node_watch *node_watch_free(struct node_watch *watch)
{
	if (!watch)
		return NULL;
	loop_timer_free(watch->timer);
	free(watch);
	return NULL;
}

int node_watch_new(struct loop *loop, struct registry *registry, struct node_map *map, struct node_watch **ret_watch)
{
	_cleanup_(node_watch_freep) struct node_watch *watch = NULL;
	int r;

	/* Soft NICs belong to a machine only if a file describes it. */
	if (!map || (!registry->blocks && !node_named_file()))
		return 0;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->registry = registry;
	watch->map = map;
	watch->look_nsec = node_named_file() || node_named_tree() ? NAMED_NSEC : MACHINE_LOOK_NSEC;
	watch->seen = look();
	/* The machine may have changed since the first reading. */
	watch->is_settling = true;
	r = loop_timer_new(loop, on_timer, watch, &watch->timer);
	if (r < 0)
		return r;
	loop_timer_arm(watch->timer, watch->look_nsec);
	*ret_watch = take_ptr(watch);
	return 0;
}
