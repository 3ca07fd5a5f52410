/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC that was plugged in, bound to its driver or given to this machine after the daemon's start. seek.c finds it; what it
 * takes to open it is a work, since that is commands, and one at a time. Its node, the right to open it and its addresses
 * come after its entry in sysfs, and then udev gives it another name. So it is left alone for a moment, tried again ever more rarely as
 * long as it cannot be used, and anew when something about it changes; and no session gets it before the map has it by the name
 * under which it was opened: what settings say of it is to be known.
 *
 * Why one cannot be used is logged when it is so for the third time, once. One that has the name of a lost NIC is left
 * alone: sessions, states and counters go by names. Control thread, but open_run().
 */
#include "daemon/newcomers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "config.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/nics.h"
#include "daemon/node.h"
#include "daemon/seek.h"
#include "daemon/session/monitor.h"
#include "daemon/session/node-map.h"
#include "daemon/session/undriven.h"
#include "daemon/topo/topo.h"
#include "daemon/warm.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define FIRST_WAIT_NSEC (500 * NSEC_PER_MSEC)
#define LAST_WAIT_NSEC (64 * NSEC_PER_SEC)
/* A machine that the map does not show as it is has NICs all the same. */
#define PATIENT_TRIES 3u
#define MIX 0x9e3779b97f4a7c15u

struct newcomers {
	struct newcomers_attr attr;
	struct loop_timer *again;
	uint64_t wait_nsec; /* the pause after the next try */
	uint64_t seen; /* who was there at the last look, and how; 0: nobody */
	unsigned int n_tries; /* of those */
	struct nic_mlx5_report told;
	bool is_busy, is_stopped;
	/* of the work, while it is under way */
	struct work work;
	struct nic_mlx5_attr open;
	struct nic_driven driven[REGISTRY_MAX_NICS];
	struct nic_mlx5_report report;
	struct list found; /* struct nic.link, owned */
	struct nic_info infos[REGISTRY_MAX_NICS]; /* of those in their order */
	struct topo *topo; /* owned: the machine with them; NULL: there is none, or it cannot be read */
	int result;
};

static void newcomers_freep(struct newcomers **newcomers)
{
	newcomers_free(*newcomers);
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

/* One that does not answer is of no use yet; nor are more than a registry has. */
static void ask_all(struct newcomers *newcomers)
{
	struct nic *nic, *tmp;
	unsigned int n = 0;

	list_for_each_entry_safe(nic, tmp, &newcomers->found, link) {
		if (n < REGISTRY_MAX_NICS && nic_query(nic, &newcomers->infos[n]) == 0) {
			n++;
			continue;
		}
		list_del(&nic->link);
		nic->ops->close(nic);
	}
}

static void open_run(struct work *work)
{
	struct newcomers *newcomers = container_of(work, struct newcomers, work);

	newcomers->report.unusable[0] = 0;
#if HAVE_MLX5
	newcomers->result = nic_mlx5_probe(&newcomers->open, &newcomers->found, &newcomers->report);
#else
	newcomers->result = -EOPNOTSUPP;
#endif
	ask_all(newcomers);
	newcomers->topo = NULL;
	if (newcomers->attr.node_map && !list_empty(&newcomers->found) && node_read(&newcomers->topo) < 0)
		newcomers->topo = NULL;
}

/* ---- what was opened ------------------------------------------------------------------------------------------------ */

/* False: udev has given it another name since, or it is not whole yet. Files have machines whose NICs are called otherwise. */
static bool is_in_map(const struct newcomers *newcomers, const struct nic_info *info)
{
	const struct topo *topo = newcomers->topo;

	if (!newcomers->attr.node_map || node_named_file() || newcomers->n_tries >= PATIENT_TRIES)
		return true;
	for (unsigned int i = 0; topo && i < topo->n_nics; i++)
		if (topo->nics[i].port == info->port && topo_is_of_device(info->name, topo->nics[i].name))
			return true;
	return false;
}

/* What is not taken stays in the list. */
static void take(struct newcomers *newcomers, struct nic *nic, const struct nic_info *info)
{
	struct registry *registry = newcomers->attr.nics->registry;

	if (!is_in_map(newcomers, info) || registry_find_nic(registry, info->name) ||
	    nics_add(newcomers->attr.nics, nic, info) < 0)
		return;
	nic->ops->resume(nic);
	seek_drive(newcomers->attr.seek, info);
	undriven_forget(registry, &registry->nics[registry->n_nics - 1]);
}

static void tell_came(struct newcomers *newcomers, struct registry_nic *rnic)
{
	struct node_map *map = newcomers->attr.node_map;
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

static void take_all(struct newcomers *newcomers)
{
	struct registry *registry = newcomers->attr.nics->registry;
	unsigned int i = 0, before = registry->n_nics;
	struct nic *nic, *tmp;

	list_for_each_entry_safe(nic, tmp, &newcomers->found, link)
		take(newcomers, nic, &newcomers->infos[i++]);
	if (registry->n_nics == before)
		return;
	if (newcomers->topo)
		node_map_redraw(newcomers->attr.node_map, take_ptr(newcomers->topo));
	else
		node_map_take_nics(newcomers->attr.node_map);
	registry_save(registry);
	warm_take_nics(newcomers->attr.nics->warm, before);
	newcomers->attr.opened(newcomers->attr.arg);
	for (i = before; i < registry->n_nics; i++)
		tell_came(newcomers, &registry->nics[i]);
}

static void tell_failure(struct newcomers *newcomers)
{
	const char *why = newcomers->result < 0 ? strerror(-newcomers->result) : newcomers->report.unusable;

	if (!why[0] || newcomers->n_tries < PATIENT_TRIES || strcmp(why, newcomers->told.unusable) == 0)
		return;
	snprintf(newcomers->told.unusable, sizeof(newcomers->told.unusable), "%s", why);
	log_line(LOG_WARNING, NULL, "cannot use these NICs: %s", why);
}

/* ---- when ------------------------------------------------------------------------------------------------------------ */

/* Who may be opened and how they are, in any order; 0: nobody. */
static uint64_t who_is_there(const struct registry *registry)
{
	const struct nic_seen_list *list = registry->undriven;
	uint64_t sum = 0;

	for (unsigned int i = 0; list && i < list->n; i++) {
		const struct nic_seen *seen = &list->nics[i];

		if (undriven_is_newcomer(registry, seen))
			sum += ((((seen->life * MIX + seen->port) * MIX + seen->state) * MIX + seen->n_gids) * MIX) | 1;
	}
	return sum;
}

static void wait_for_turn(struct newcomers *newcomers)
{
	loop_timer_arm(newcomers->again, newcomers->wait_nsec);
	if (newcomers->wait_nsec < LAST_WAIT_NSEC)
		newcomers->wait_nsec *= 2;
}

/* Of those who are new, or changed: after a moment, in which they may become whole. */
static bool begin(struct newcomers *newcomers)
{
	uint64_t seen = who_is_there(newcomers->attr.nics->registry);

	if (seen == newcomers->seen)
		return false;
	newcomers->seen = seen;
	newcomers->n_tries = 0;
	newcomers->wait_nsec = FIRST_WAIT_NSEC;
	if (seen)
		wait_for_turn(newcomers);
	else
		newcomers->told.unusable[0] = 0;
	return seen;
}

static void close_done(struct work *work)
{
	struct newcomers *newcomers = container_of(work, struct newcomers, work);

	newcomers->is_busy = false;
	if (!newcomers->is_stopped && !begin(newcomers) && newcomers->seen)
		wait_for_turn(newcomers);
}

/* Those that were not taken: it takes commands as to open them did. */
static void close_run(struct work *work)
{
	struct newcomers *newcomers = container_of(work, struct newcomers, work);

	close_all(&newcomers->found);
}

static void open_done(struct work *work)
{
	struct newcomers *newcomers = container_of(work, struct newcomers, work);

	if (!newcomers->is_stopped) {
		tell_failure(newcomers);
		take_all(newcomers);
	}
	topo_free(take_ptr(newcomers->topo));
	newcomers->work = (struct work){.run = close_run, .done = close_done};
	registry_work(newcomers->attr.nics->registry, true, &newcomers->work);
}

static void on_turn(void *arg)
{
	struct newcomers *newcomers = arg;
	const struct registry *registry = newcomers->attr.nics->registry;

	if (newcomers->is_busy || newcomers->is_stopped || !newcomers->seen)
		return;
	newcomers->open = nics_mlx5_attr(newcomers->attr.nics);
	newcomers->open.n_driven = registry->n_nics;
	newcomers->open.driven = newcomers->driven;
	for (unsigned int i = 0; i < registry->n_nics; i++)
		newcomers->driven[i] = nic_driven_of(&registry->nics[i].info);
	list_init(&newcomers->found);
	newcomers->n_tries++;
	newcomers->is_busy = true;
	newcomers->work = (struct work){.run = open_run, .done = open_done};
	registry_work(newcomers->attr.nics->registry, true, &newcomers->work);
}

void newcomers_look(struct newcomers *newcomers)
{
	if (newcomers && !newcomers->is_busy && !newcomers->is_stopped)
		begin(newcomers);
}

/* ---- birth and death -------------------------------------------------------------------------------------------------- */

void newcomers_stop(struct newcomers *newcomers)
{
	if (newcomers)
		newcomers->is_stopped = true;
}

struct newcomers *newcomers_free(struct newcomers *newcomers)
{
	if (!newcomers)
		return NULL;
	loop_timer_free(newcomers->again);
	free(newcomers);
	return NULL;
}

int newcomers_new(const struct newcomers_attr *attr, struct newcomers **ret_newcomers)
{
	_cleanup_(newcomers_freep) struct newcomers *newcomers = NULL;
	int r;

	if (!attr->nics->registry->attr.takes_newcomers)
		return 0;
	newcomers = calloc(1, sizeof(*newcomers));
	if (!newcomers)
		return -ENOMEM;
	newcomers->attr = *attr;
	newcomers->told = attr->nics->report;
	r = loop_timer_new(attr->nics->loop, on_turn, newcomers, &newcomers->again);
	if (r < 0)
		return r;
	*ret_newcomers = take_ptr(newcomers);
	return 0;
}
