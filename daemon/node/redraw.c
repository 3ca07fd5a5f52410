/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the machine again when watch.c reports that GPUs, NICs or bonds have come or gone, and redraws the map of the node.
 *
 * A worker reads, since sysfs may wait for a driver. It reads once more 2 s later, because a device appears in steps; and once
 * after the start, as the machine may have changed since the first reading. If the machine cannot be read, the map stays as
 * it is. Control thread, except read_run().
 */
#include "daemon/node/redraw.h"

#include <errno.h>
#include <stdlib.h>
#include <syslog.h>

#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/node/node.h"
#include "daemon/session/node-map.h"
#include "daemon/session/registry.h"
#include "daemon/session/work.h"
#include "daemon/topo/topo.h"
#include "proto/base/cleanup.h"
#include "proto/base/show.h"

struct redraw {
	struct registry *registry;
	struct node_map *map;
	struct loop_timer *again;
	bool is_new; /* changed, and not read since */
	bool is_busy, is_stopped;
	bool reads_new; /* the reading under way is the first one after a change */
	/* owned by the work while it is under way */
	struct work work;
	struct topo *topo; /* NULL: it could not be read */
	int result;
};

static void redraw_freep(struct redraw **redraw)
{
	redraw_free(*redraw);
}

/* The daemon lacked memory or descriptors, so it reads the machine again and misses no change. */
static bool is_want(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

static void read_run(struct work *work)
{
	struct redraw *redraw = container_of(work, struct redraw, work);

	redraw->result = node_read(&redraw->topo);
	if (redraw->result < 0)
		redraw->topo = NULL;
	if (redraw->result < 0 && !is_want(redraw->result))
		log_line(LOG_WARNING, NULL, "cannot read this machine again; GPUs get NICs as before");
}

static void read_done(struct work *work)
{
	struct redraw *redraw = container_of(work, struct redraw, work);
	struct topo *topo = take_ptr(redraw->topo);

	redraw->is_busy = false;
	if (topo && redraw->reads_new)
		log_line(LOG_INFO, NULL,
			 "the GPUs, NICs or bonds of this machine have changed: it has %u GPU%s and %u NIC port%s", topo->n_gpus,
			 plural_s(topo->n_gpus), topo->n_nics, plural_s(topo->n_nics));
	if (topo)
		node_map_redraw(redraw->map, topo);
	if (!redraw->is_stopped && (redraw->is_new || redraw->reads_new || is_want(redraw->result)))
		loop_timer_arm(redraw->again, redraw->is_new ? 0 : node_look_nsec());
}

static void read_again(void *arg)
{
	struct redraw *redraw = arg;

	if (redraw->is_busy || redraw->is_stopped)
		return;
	redraw->is_busy = true;
	redraw->reads_new = redraw->is_new;
	redraw->is_new = false;
	redraw->work = (struct work){.run = read_run, .done = read_done};
	registry_work(redraw->registry, redraw->registry->blocks, &redraw->work);
}

void redraw_begin(struct redraw *redraw)
{
	redraw->is_new = true;
	read_again(redraw);
}

void redraw_stop(struct redraw *redraw)
{
	if (redraw)
		redraw->is_stopped = true;
}

struct redraw *redraw_free(struct redraw *redraw)
{
	if (!redraw)
		return NULL;
	loop_timer_free(redraw->again);
	free(redraw);
	return NULL;
}

int redraw_new(struct loop *loop, struct registry *registry, struct node_map *map, struct redraw **ret_redraw)
{
	_cleanup_(redraw_freep) struct redraw *redraw = NULL;
	int r;

	/* Soft NICs belong to a machine only if a file describes it. */
	if (!map || (!registry->blocks && !node_named_file()))
		return 0;
	redraw = calloc(1, sizeof(*redraw));
	if (!redraw)
		return -ENOMEM;
	redraw->registry = registry;
	redraw->map = map;
	r = loop_timer_new(loop, read_again, redraw, &redraw->again);
	if (r < 0)
		return r;
	loop_timer_arm(redraw->again, node_look_nsec());
	*ret_redraw = take_ptr(redraw);
	return 0;
}
