/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When NICs are looked at, and by whom.
 *
 * The timer runs only while some session has a NIC open: an idle daemon sleeps. Where NICs have firmware the kernel asks it for
 * their counters, so a worker reads them, and the next look waits for that one; soft NICs count themselves, and are asked by the
 * control thread. A NIC whose counters nobody can read plays no part. Control thread, but read_run().
 */
#include "daemon/hot-watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/node.h"
#include "daemon/port-counters.h"
#include "daemon/session/hot-nics.h"
#include "proto/base/nsec.h"

_Static_assert(HOT_SPOT_MAX_NICS == REGISTRY_MAX_NICS, "a bit for each NIC");

/* A port whose counters the kernel has. */
struct hot_port {
	unsigned int nic; /* index in the registry */
	char name[NIC_NAME_BYTES];
	uint32_t port;
};

struct hot_watch {
	struct registry *registry;
	struct loop_timer *timer;
	const char *sysfs;
	uint64_t period_nsec; /* 0: off */
	struct hot_spot_rule rule;
	struct hot_spot spot;
	bool is_armed, is_busy; /* a look is to come; is under way */
	bool is_blind_told;
	struct work work;
	/* Of the look; the worker's while is_busy. */
	struct hot_spot_sample sample;
	struct hot_port asked[REGISTRY_MAX_NICS];
	unsigned int n_asked, n_read;
};

static void hot_watch_freep(struct hot_watch **watch)
{
	hot_watch_free(*watch);
}

/* ---- what is told ------------------------------------------------------------------------------------------------- */

static void tell_begun(struct hot_watch *watch)
{
	const struct hot_spot *spot = &watch->spot;
	const char *name = watch->registry->nics[spot->nic].info.name;
	char nics[256], processes[256], others[256];

	hot_nics_names(watch->registry, spot->among, nics, sizeof(nics));
	hot_nics_processes(watch->registry, (unsigned int)spot->nic, NULL, processes, sizeof(processes));
	hot_nics_names(watch->registry, spot->others, others, sizeof(others));
	log_line(LOG_WARNING, &(struct log_fields){.nic = name, .event = CATALOG_HOT_SPOT},
		 "%s has carried %u %% of the load of %s for more than %g s: %s%s%s", name, spot->share_percent, nics,
		 (double)watch->rule.time_nsec / NSEC_PER_SEC, processes, others[0] ? "; equally hot: " : "", others);
}

/* As in a service whose /sys is its own: nothing would ever be told, and nobody would know why. */
static void tell_blind(struct hot_watch *watch)
{
	if (watch->is_blind_told || !watch->n_asked || watch->n_read)
		return;
	watch->is_blind_told = true;
	log_line(LOG_NOTICE, NULL, "cannot read the counters of any port below %s/class/infiniband: shmemd does not see hot spots of these NICs",
		 watch->sysfs);
}

static void tell_ended(struct hot_watch *watch, int nic)
{
	const char *name = watch->registry->nics[nic].info.name;

	log_line(LOG_INFO, &(struct log_fields){.nic = name}, "%s carries only its share again", name);
}

/* Nobody is slowed any more. */
static void end_spot(struct hot_watch *watch)
{
	if (watch->spot.is_told)
		tell_ended(watch, watch->spot.nic);
	hot_spot_init(&watch->spot);
}

static void take_sample(struct hot_watch *watch)
{
	int nic = watch->spot.nic;

	switch (hot_spot_take(&watch->spot, &watch->rule, &watch->sample)) {
	case HOT_SPOT_BEGUN:
		tell_begun(watch);
		break;
	case HOT_SPOT_ENDED:
		tell_ended(watch, nic);
		break;
	case HOT_SPOT_NOTHING:
		break;
	}
}

/* ---- a look ------------------------------------------------------------------------------------------------------- */

static void read_run(struct work *work)
{
	struct hot_watch *watch = container_of(work, struct hot_watch, work);
	struct hot_spot_sample *sample = &watch->sample;

	for (unsigned int i = 0; i < watch->n_asked; i++) {
		const struct hot_port *port = &watch->asked[i];

		if (port_counters_read(watch->sysfs, port->name, port->port, &sample->bytes[port->nic]) < 0)
			sample->assigned &= ~(1ull << port->nic);
		else
			watch->n_read++;
	}
	sample->at_nsec = nsec_now();
}

static void ask_port(struct hot_watch *watch, const struct registry_nic *rnic)
{
	struct hot_port *port = &watch->asked[watch->n_asked++];

	port->nic = rnic->index;
	port->port = rnic->info.port;
	memcpy(port->name, rnic->nic->name, sizeof(port->name));
}

static void ask_nic(struct hot_watch *watch, unsigned int i)
{
	struct registry_nic *rnic = &watch->registry->nics[i];
	struct nic_counters counters;

	watch->sample.rate_mbps[i] = rnic->info.rate_mbps;
	if (rnic->nic->blocks)
		ask_port(watch, rnic);
	else if (rnic->nic->ops->counters(rnic->nic, &counters) == 0)
		watch->sample.bytes[i] = counters.bytes_sent + counters.bytes_read;
	else
		watch->sample.assigned &= ~(1ull << i);
}

static void arm(struct hot_watch *watch)
{
	if (watch->period_nsec)
		watch->is_armed = loop_timer_arm(watch->timer, watch->period_nsec) == 0;
}

static void read_done(struct work *work)
{
	struct hot_watch *watch = container_of(work, struct hot_watch, work);

	watch->is_busy = false;
	/* It may have been switched off meanwhile. */
	if (!watch->period_nsec)
		return;
	tell_blind(watch);
	take_sample(watch);
	arm(watch);
}

static bool has_sessions(const struct registry *registry)
{
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (registry->nics[i].n_sessions)
			return true;
	return false;
}

static void look(struct hot_watch *watch)
{
	struct registry *registry = watch->registry;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (!registry->nics[i].nic->blocks)
			registry_refresh_nic(&registry->nics[i]);
	watch->n_asked = watch->n_read = 0;
	watch->sample.assigned = hot_nics_assigned(registry, watch->sample.groups);
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (watch->sample.assigned >> i & 1)
			ask_nic(watch, i);
	watch->is_busy = true;
	watch->work = (struct work){.run = read_run, .done = read_done};
	registry_work(registry, watch->n_asked > 0, &watch->work);
}

static void on_timer(void *arg)
{
	struct hot_watch *watch = arg;

	watch->is_armed = false;
	if (!watch->period_nsec)
		return;
	if (has_sessions(watch->registry))
		look(watch);
	else
		end_spot(watch);
}

void hot_watch_look(struct hot_watch *watch)
{
	if (watch && watch->period_nsec && !watch->is_armed && !watch->is_busy && has_sessions(watch->registry))
		arm(watch);
}

/* ---- birth and death ---------------------------------------------------------------------------------------------- */

void hot_watch_set(struct hot_watch *watch, uint64_t period_nsec, const struct hot_spot_rule *rule)
{
	watch->period_nsec = period_nsec;
	watch->rule = *rule;
	if (!period_nsec)
		hot_spot_init(&watch->spot);
	/* A look that is to come may be far away. */
	watch->is_armed = false;
	hot_watch_look(watch);
}

int hot_watch_new(struct loop *loop, struct registry *registry, struct hot_watch **ret_watch)
{
	_cleanup_(hot_watch_freep) struct hot_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->registry = registry;
	watch->sysfs = node_sysfs();
	hot_spot_init(&watch->spot);
	r = loop_timer_new(loop, on_timer, watch, &watch->timer);
	if (r < 0)
		return r;
	registry->hot_spot = &watch->spot;
	*ret_watch = take_ptr(watch);
	return 0;
}

struct hot_watch *hot_watch_free(struct hot_watch *watch)
{
	if (!watch)
		return NULL;
	watch->registry->hot_spot = NULL;
	loop_timer_free(watch->timer);
	free(watch);
	return NULL;
}
