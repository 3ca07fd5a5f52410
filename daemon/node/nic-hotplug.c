/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens NICs that were plugged in, bound to their driver or given to this machine after the daemon's start.
 *
 * watch.c reports them. A worker opens them, one attempt at a time, because opening sends commands. Only NICs of the mlx5 backend
 * are opened, never on a daemon with soft NICs: those stand for hardware that the machine lacks.
 *
 * A NIC's device node, permissions and addresses appear after its entry in sysfs, and then udev renames it. So the first attempt
 * is half a second after the NIC was seen. Further attempts come at growing intervals, up to about a minute, and start over when its
 * state or addresses change. A session gets the NIC only once the map has it under the name it was opened by, because settings
 * select NICs by name.
 *
 * After the third failure the reason is logged, once. A NIC with the name of a lost NIC but another GUID is not opened: live
 * sessions, saved states and counters go by names. An administrator restarts the daemon for that; sessions that outlive it find a renamed NIC by
 * GUID and port. The registry keeps a NIC until the daemon ends, so NICs beyond REGISTRY_MAX_NICS in its life stay unmanaged.
 *
 * Control thread, except open_run() and close_run().
 */
#include "daemon/node/nic-hotplug.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/node/ctx-pool.h"
#include "daemon/node/nics.h"
#include "daemon/node/node.h"
#include "daemon/node/watch.h"
#include "daemon/session/monitor.h"
#include "daemon/session/node-map.h"
#include "daemon/session/unmanaged.h"
#include "daemon/topo/topo.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define FIRST_WAIT_NSEC (500 * NSEC_PER_MSEC)
#define LAST_WAIT_NSEC (64 * NSEC_PER_SEC)
/* After this many attempts a NIC is used even if the map does not show it. */
#define PATIENT_TRIES 3u
#define MIX 0x9e3779b97f4a7c15u

struct nic_hotplug {
	struct nic_hotplug_attr attr;
	struct loop_timer *again;
	uint64_t wait_nsec; /* the pause after the next try */
	uint64_t seen; /* fingerprint of the NICs at the last look; 0: there were none */
	unsigned int n_tries; /* to open these */
	struct nic_mlx5_report told;
	bool is_busy, is_stopped;
	/* owned by the work while it is under way */
	struct work work;
	struct nic_probe_attr open;
	struct host_managed managed[REGISTRY_MAX_NICS];
	struct nic_mlx5_report report;
	struct list found; /* struct nic.link, owned */
	struct nic_info infos[REGISTRY_MAX_NICS]; /* in the order of `found` */
	struct topo *topo; /* owned: the machine with them; NULL: not needed, or unreadable */
	int result;
};

static void nic_hotplug_freep(struct nic_hotplug **hotplug)
{
	nic_hotplug_free(*hotplug);
}

static void close_all(struct list *nics)
{
	struct nic *nic, *tmp;

	list_for_each_entry_safe(nic, tmp, nics, link) {
		list_del(&nic->link);
		nic->ops->close(nic);
	}
}

/* ---- a worker ------------------------------------------------------------------------------------------------------ */

/* Closes NICs that do not answer yet, and those beyond the registry's room. */
static void ask_all(struct nic_hotplug *hotplug)
{
	struct nic *nic, *tmp;
	unsigned int n = 0;

	list_for_each_entry_safe(nic, tmp, &hotplug->found, link) {
		if (n < REGISTRY_MAX_NICS && nic_query(nic, &hotplug->infos[n]) == 0) {
			n++;
			continue;
		}
		list_del(&nic->link);
		nic->ops->close(nic);
	}
}

static void open_run(struct work *work)
{
	struct nic_hotplug *hotplug = container_of(work, struct nic_hotplug, work);

	hotplug->report.unusable[0] = 0;
	hotplug->result = nic_mlx5_backend.probe(&hotplug->open, &hotplug->found, &hotplug->report);
	ask_all(hotplug);
	hotplug->topo = NULL;
	if (hotplug->attr.node_map && !list_empty(&hotplug->found) && node_read(&hotplug->topo) < 0)
		hotplug->topo = NULL;
}

/* ---- what was opened ------------------------------------------------------------------------------------------------ */

/* False: udev has renamed the NIC since, or it is incomplete. A machine from a file has other names, so all are accepted. */
static bool is_in_map(const struct nic_hotplug *hotplug, const struct nic_info *info)
{
	const struct topo *topo = hotplug->topo;

	if (!hotplug->attr.node_map || node_named_file() || hotplug->n_tries >= PATIENT_TRIES)
		return true;
	for (unsigned int i = 0; topo && i < topo->n_nics; i++)
		if (topo->nics[i].seen.port == info->port && topo_is_of_device(info->name, topo->nics[i].seen.name))
			return true;
	return false;
}

/* A NIC that is not taken stays in the list. */
static void take(struct nic_hotplug *hotplug, struct nic *nic, const struct nic_info *info)
{
	struct registry *registry = hotplug->attr.nics->registry;

	if (!is_in_map(hotplug, info) || registry_find_nic(registry, info->name) ||
	    nics_add(hotplug->attr.nics, nic, info) < 0)
		return;
	nic->ops->resume(nic);
	node_watch_manage(hotplug->attr.watch, info);
	unmanaged_forget(registry, &registry->nics[registry->n_nics - 1]);
}

static void tell_came(struct nic_hotplug *hotplug, struct registry_nic *rnic)
{
	struct node_map *map = hotplug->attr.node_map;
	bool is_used = node_map_allows(map, rnic) && node_map_uses(map, rnic);
	const char *use = is_used ? "sessions may open it" : "it is set aside, shmemctl topology says why";
	char text[NIC_NAME_BYTES + 96];

	snprintf(text, sizeof(text), "NIC %s came, its port is %s: %s", rnic->info.name,
		 rnic->info.state == NIC_PORT_ACTIVE ? "up" : "down", use);
	registry_note(rnic->registry, &(struct note){.level = LOG_NOTICE,
						     .topic = NOTE_NIC,
						     .nic = rnic->info.name,
						     .event = CATALOG_NIC_CAME,
						     .text = text});
	snprintf(text, sizeof(text), "it came: %s", use);
	monitor_nic_came(rnic, text);
}

static void take_all(struct nic_hotplug *hotplug)
{
	struct registry *registry = hotplug->attr.nics->registry;
	unsigned int i = 0, before = registry->n_nics;
	struct nic *nic, *tmp;

	list_for_each_entry_safe(nic, tmp, &hotplug->found, link)
		take(hotplug, nic, &hotplug->infos[i++]);
	if (registry->n_nics == before)
		return;
	if (hotplug->topo)
		node_map_redraw(hotplug->attr.node_map, take_ptr(hotplug->topo));
	else
		node_map_take_nics(hotplug->attr.node_map);
	registry_save(registry);
	ctx_pool_take_nics(hotplug->attr.nics->ctx_pool, before);
	hotplug->attr.opened(hotplug->attr.arg);
	for (i = before; i < registry->n_nics; i++)
		tell_came(hotplug, &registry->nics[i]);
}

static void tell_failure(struct nic_hotplug *hotplug)
{
	const char *why = hotplug->result < 0 ? strerror(-hotplug->result) : hotplug->report.unusable;

	if (!why[0] || hotplug->n_tries < PATIENT_TRIES || strcmp(why, hotplug->told.unusable) == 0)
		return;
	snprintf(hotplug->told.unusable, sizeof(hotplug->told.unusable), "%s", why);
	log_line(LOG_WARNING, NULL, "cannot use these NICs: %s", why);
}

/* ---- when ------------------------------------------------------------------------------------------------------------ */

/* A fingerprint of the NICs that may be opened and their states, in any order; 0: there are none. */
static uint64_t who_is_there(const struct registry *registry)
{
	const struct host_list *list = registry->unmanaged;
	uint64_t sum = 0;

	for (unsigned int i = 0; list && i < list->n; i++) {
		const struct host_nic *seen = &list->nics[i];

		if (unmanaged_is_openable(registry, seen))
			sum += ((((seen->life * MIX + seen->port) * MIX + seen->state) * MIX + seen->n_gids) * MIX) | 1;
	}
	return sum;
}

static void wait_for_turn(struct nic_hotplug *hotplug)
{
	loop_timer_arm(hotplug->again, hotplug->wait_nsec);
	if (hotplug->wait_nsec < LAST_WAIT_NSEC)
		hotplug->wait_nsec *= 2;
}

/* Schedules an attempt when NICs are new or have changed, after a pause in which they may become complete. */
static bool begin(struct nic_hotplug *hotplug)
{
	uint64_t seen = who_is_there(hotplug->attr.nics->registry);

	if (seen == hotplug->seen)
		return false;
	hotplug->seen = seen;
	hotplug->n_tries = 0;
	hotplug->wait_nsec = FIRST_WAIT_NSEC;
	if (seen)
		wait_for_turn(hotplug);
	else
		hotplug->told.unusable[0] = 0;
	return seen;
}

static void close_done(struct work *work)
{
	struct nic_hotplug *hotplug = container_of(work, struct nic_hotplug, work);

	hotplug->is_busy = false;
	if (!hotplug->is_stopped && !begin(hotplug) && hotplug->seen)
		wait_for_turn(hotplug);
}

/* Closes the NICs that were not taken. This sends commands, as opening them did. */
static void close_run(struct work *work)
{
	struct nic_hotplug *hotplug = container_of(work, struct nic_hotplug, work);

	close_all(&hotplug->found);
}

static void open_done(struct work *work)
{
	struct nic_hotplug *hotplug = container_of(work, struct nic_hotplug, work);

	if (!hotplug->is_stopped) {
		tell_failure(hotplug);
		take_all(hotplug);
	}
	topo_free(take_ptr(hotplug->topo));
	hotplug->work = (struct work){.run = close_run, .done = close_done};
	registry_work(hotplug->attr.nics->registry, true, &hotplug->work);
}

static void on_turn(void *arg)
{
	struct nic_hotplug *hotplug = arg;
	const struct registry *registry = hotplug->attr.nics->registry;

	if (hotplug->is_busy || hotplug->is_stopped || !hotplug->seen)
		return;
	hotplug->open = nics_probe_attr(hotplug->attr.nics);
	hotplug->open.mlx5.n_managed = registry->n_nics;
	hotplug->open.mlx5.managed = hotplug->managed;
	for (unsigned int i = 0; i < registry->n_nics; i++)
		hotplug->managed[i] = nics_managed(&registry->nics[i].info);
	list_init(&hotplug->found);
	hotplug->n_tries++;
	hotplug->is_busy = true;
	hotplug->work = (struct work){.run = open_run, .done = open_done};
	registry_work(hotplug->attr.nics->registry, true, &hotplug->work);
}

void nic_hotplug_look(struct nic_hotplug *hotplug)
{
	if (hotplug && !hotplug->is_busy && !hotplug->is_stopped)
		begin(hotplug);
}

/* ---- birth and death -------------------------------------------------------------------------------------------------- */

void nic_hotplug_stop(struct nic_hotplug *hotplug)
{
	if (hotplug)
		hotplug->is_stopped = true;
}

struct nic_hotplug *nic_hotplug_free(struct nic_hotplug *hotplug)
{
	if (!hotplug)
		return NULL;
	loop_timer_free(hotplug->again);
	free(hotplug);
	return NULL;
}

int nic_hotplug_new(const struct nic_hotplug_attr *attr, struct nic_hotplug **ret_hotplug)
{
	_cleanup_(nic_hotplug_freep) struct nic_hotplug *hotplug = NULL;
	int r;

	if (!attr->nics->registry->attr.has_hotplug)
		return 0;
	hotplug = calloc(1, sizeof(*hotplug));
	if (!hotplug)
		return -ENOMEM;
	hotplug->attr = *attr;
	hotplug->told = attr->nics->report;
	r = loop_timer_new(attr->nics->loop, on_turn, hotplug, &hotplug->again);
	if (r < 0)
		return r;
	*ret_hotplug = take_ptr(hotplug);
	return 0;
}
