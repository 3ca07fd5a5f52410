/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC that was plugged in, bound to its driver or given to this machine after the daemon's start. seek.c finds it; what it
 * takes to open it is a work, since that is commands, and one at a time. Its node may come after its entry in sysfs, and the
 * right to open it later still: so it is tried again, ever more rarely for some minutes, and anew when another one comes.
 *
 * Why one cannot be used is logged once. One that has the name of a lost NIC is left alone: sessions, states and
 * counters go by names. Control thread, but open_run().
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
#include "daemon/seek.h"
#include "daemon/session/keep.h"
#include "daemon/session/monitor.h"
#include "daemon/session/node-map.h"
#include "daemon/session/undriven.h"
#include "daemon/warm.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define FIRST_WAIT_NSEC (250 * NSEC_PER_MSEC)
#define LAST_WAIT_NSEC (64 * NSEC_PER_SEC)
#define MIX 0x9e3779b97f4a7c15u

struct newcomers {
	struct newcomers_attr attr;
	struct loop_timer *again;
	uint64_t wait_nsec; /* before the next try */
	uint64_t seen; /* who was there at the last look */
	struct nic_mlx5_report told;
	bool is_busy, is_stopped;
	/* of the work, while it is under way */
	struct work work;
	struct nic_mlx5_attr open;
	struct nic_driven driven[REGISTRY_MAX_NICS];
	struct nic_mlx5_report report;
	struct list found; /* struct nic.link, owned */
	struct nic_info infos[REGISTRY_MAX_NICS]; /* of those in their order */
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
}

/* ---- what was opened ------------------------------------------------------------------------------------------------ */

static void tell_opened(const struct registry_nic *rnic)
{
	char text[NIC_NAME_BYTES + 96];

	snprintf(text, sizeof(text), "NIC %s came, its port is %s: sessions may open it", rnic->info.name,
		 rnic->info.state == NIC_PORT_ACTIVE ? "up" : "down");
	registry_note(rnic->registry, &(struct note){.level = LOG_NOTICE,
						     .topic = NOTE_NIC,
						     .nic = rnic->info.name,
						     .event = CATALOG_NIC_CAME,
						     .text = text});
	monitor_nic_came(rnic, "it came, and sessions may open it");
}

/* False: no place for it. */
static bool take(struct newcomers *newcomers, struct nic *nic, const struct nic_info *info)
{
	struct registry *registry = newcomers->attr.nics->registry;
	const struct registry_nic *rnic = &registry->nics[registry->n_nics];

	list_del(&nic->link);
	if (registry_find_nic(registry, info->name) ||
	    nics_add(newcomers->attr.nics, nic, info) < 0) {
		nic->ops->close(nic);
		return false;
	}
	nic->ops->resume(nic);
	seek_drive(newcomers->attr.seek, info);
	undriven_forget(registry, rnic);
	tell_opened(rnic);
	return true;
}

static bool take_all(struct newcomers *newcomers)
{
	struct nic *nic, *tmp;
	bool is_any = false;
	unsigned int i = 0;

	list_for_each_entry_safe(nic, tmp, &newcomers->found, link)
		is_any |= take(newcomers, nic, &newcomers->infos[i++]);
	return is_any;
}

static void tell_failure(struct newcomers *newcomers)
{
	const char *why = newcomers->result < 0 ? strerror(-newcomers->result)
						: newcomers->report.unusable;

	if (!why[0] || strcmp(why, newcomers->told.unusable) == 0)
		return;
	snprintf(newcomers->told.unusable, sizeof(newcomers->told.unusable), "%s", why);
	log_line(LOG_WARNING, NULL, "NICs that cannot be used: %s", why);
}

static void use(struct newcomers *newcomers)
{
	registry_keep(newcomers->attr.nics->registry);
	node_map_take_nics(newcomers->attr.node_map);
	warm_take_nics(newcomers->attr.nics->warm);
	newcomers->attr.opened(newcomers->attr.arg);
}

/* ---- when ------------------------------------------------------------------------------------------------------------ */

static void try_now(struct newcomers *newcomers);

/* Who may be opened, in any order; 0: nobody. */
static uint64_t who_is_there(const struct registry *registry)
{
	const struct nic_seen_list *list = registry->undriven;
	uint64_t sum = 0;

	for (unsigned int i = 0; list && i < list->n; i++)
		if (undriven_is_newcomer(registry, &list->nics[i]))
			sum += (list->nics[i].life * MIX + list->nics[i].port) | 1;
	return sum;
}

static bool is_new(struct newcomers *newcomers)
{
	uint64_t seen = who_is_there(newcomers->attr.nics->registry);

	if (seen == newcomers->seen)
		return false;
	newcomers->seen = seen;
	newcomers->wait_nsec = FIRST_WAIT_NSEC;
	return seen;
}

static void open_done(struct work *work)
{
	struct newcomers *newcomers = container_of(work, struct newcomers, work);

	newcomers->is_busy = false;
	if (newcomers->is_stopped) {
		close_all(&newcomers->found);
		return;
	}
	tell_failure(newcomers);
	if (take_all(newcomers))
		use(newcomers);
	if (is_new(newcomers)) {
		try_now(newcomers);
	} else if (newcomers->seen && newcomers->wait_nsec <= LAST_WAIT_NSEC) {
		loop_timer_arm(newcomers->again, newcomers->wait_nsec);
		newcomers->wait_nsec *= 2;
	}
}

static void try_now(struct newcomers *newcomers)
{
	const struct registry *registry = newcomers->attr.nics->registry;

	newcomers->open = nics_mlx5_attr(newcomers->attr.nics);
	newcomers->open.n_driven = registry->n_nics;
	newcomers->open.driven = newcomers->driven;
	for (unsigned int i = 0; i < registry->n_nics; i++)
		newcomers->driven[i] = nic_driven_of(&registry->nics[i].info);
	list_init(&newcomers->found);
	newcomers->is_busy = true;
	newcomers->work = (struct work){.run = open_run, .done = open_done};
	registry_work(newcomers->attr.nics->registry, true, &newcomers->work);
}

static void on_again(void *arg)
{
	struct newcomers *newcomers = arg;

	if (!newcomers->is_busy && !newcomers->is_stopped && newcomers->seen)
		try_now(newcomers);
}

void newcomers_look(struct newcomers *newcomers)
{
	if (newcomers && !newcomers->is_busy && !newcomers->is_stopped && is_new(newcomers))
		try_now(newcomers);
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
	r = loop_timer_new(attr->nics->loop, on_again, newcomers, &newcomers->again);
	if (r < 0)
		return r;
	*ret_newcomers = take_ptr(newcomers);
	return 0;
}
