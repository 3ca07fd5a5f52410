/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry: find, iterate, limits.
 *
 * Owns no session and no NIC; it is what they have in common. Knows no loop and has no globals. Control
 * thread, but query_run() and registry_quiesce_left() and _spent().
 */
#include "daemon/session/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/session/save.h"
#include "daemon/session/session.h"
#include "proto/base/assert.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define N_COUNTERS (sizeof(struct nic_counters) / sizeof(uint64_t))

#define QUERY_NSEC (100 * NSEC_PER_MSEC)

/* At most one part in this many of the control thread's time goes into waiting for queues to flush. */
#define QUIESCE_SHARE 10u

_Static_assert(REGISTRY_PACKET_BYTES >= FRAMING_MAX_PACKET_BYTES, "a whole packet fits");

int registry_init(struct registry *registry, const struct registry_attr *attr)
{
	int r;

	memset(registry, 0, sizeof(*registry));
	registry->attr = *attr;
	quota_init(&registry->quota, &attr->limits);
	registry->quota.pools = attr->pools;
	if (attr->max_inflight_fds)
		registry->quota.max_inflight_fds = attr->max_inflight_fds;
	inflight_table_init(&registry->inflight);
	list_init(&registry->sessions);
	list_init(&registry->monitors);
	registry->started_nsec = nsec_now();
	registry->saves_sessions = attr->save;
	pthread_mutex_init(&registry->quiesce_lock, NULL);
	registry->quiesce_left_nsec = attr->quiesce_nsec;
	registry->quiesce_seen_nsec = registry->started_nsec;
	registry->owner_uid = registry->quota.owner_uid = geteuid();
	registry->packet = malloc(REGISTRY_PACKET_BYTES);
	registry->in_packet = malloc(REGISTRY_PACKET_BYTES);
	r = publish_table_init(&registry->published);
	if (r == 0 && registry->packet && registry->in_packet)
		return 0;
	registry_deinit(registry);
	return r < 0 ? r : -ENOMEM;
}

void registry_deinit(struct registry *registry)
{
	assert_bug(list_empty(&registry->sessions));
	publish_table_deinit(&registry->published);
	inflight_table_deinit(&registry->inflight);
	if (registry->state)
		registry->attr.save->registry_end(registry);
	quota_deinit(&registry->quota);
	free(registry->unmanaged);
	free(registry->packet);
	free(registry->in_packet);
	registry->packet = registry->in_packet = NULL;
	pthread_mutex_destroy(&registry->quiesce_lock);
}

static void count_added(struct registry_nic *rnic);

int registry_add_nic(struct registry *registry, struct nic *nic, const struct nic_info *info)
{
	struct registry_nic *rnic;

	if (registry->n_nics == REGISTRY_MAX_NICS)
		return -ENOSPC;
	rnic = &registry->nics[registry->n_nics];
	*rnic = (struct registry_nic){
		.registry = registry, .nic = nic, .info = *info, .index = registry->n_nics};
	registry->n_nics++;
	registry->blocks |= nic->blocks && registry->attr.hooks.work;
	registry->stalls |= nic->stalls && registry->attr.hooks.run;
	count_added(rnic);
	return 0;
}

void registry_work(struct registry *registry, bool blocks, struct work *work)
{
	const struct registry_hooks *hooks = &registry->attr.hooks;

	if (blocks && hooks->work) {
		hooks->work(hooks->arg, work);
		return;
	}
	work->run(work);
	work->done(work);
}

bool registry_run(struct registry *registry, struct work *work)
{
	const struct registry_hooks *hooks = &registry->attr.hooks;

	work->may_stall = registry->stalls;
	if (registry->stalls)
		return hooks->run(hooks->arg, work);
	hooks->work(hooks->arg, work);
	return false;
}

bool registry_run_at_memory(struct registry *registry, struct work *work)
{
	const struct registry_hooks *hooks = &registry->attr.hooks;

	work->may_stall = true;
	if (hooks->run)
		return hooks->run(hooks->arg, work);
	hooks->work(hooks->arg, work);
	return false;
}

void registry_offer(struct registry *registry, struct work *work)
{
	const struct registry_hooks *hooks = &registry->attr.hooks;

	if (hooks->offer)
		hooks->offer(hooks->arg, work);
	else
		hooks->work(hooks->arg, work);
}

/* ---- the state of NICs ------------------------------------------------------------------------------------------- */

static void query_run(struct work *work)
{
	struct registry_nic *rnic = container_of(work, struct registry_nic, query);

	rnic->result = nic_query(rnic->nic, &rnic->fresh);
}

static void query_done(struct work *work)
{
	struct registry_nic *rnic = container_of(work, struct registry_nic, query);

	rnic->is_asked = false;
	if (rnic->is_stale)
		registry_ask_nic(rnic);
	else if (rnic->result == 0)
		rnic->info = rnic->fresh;
}

void registry_ask_nic(struct registry_nic *rnic)
{
	rnic->is_stale = rnic->is_asked;
	if (rnic->is_asked)
		return;
	rnic->is_asked = true;
	rnic->asked_nsec = nsec_now();
	rnic->query = (struct work){.run = query_run, .done = query_done};
	registry_work(rnic->registry, rnic->nic->blocks, &rnic->query);
}

void registry_refresh_nic(struct registry_nic *rnic)
{
	bool in_background = rnic->nic->blocks && rnic->registry->blocks;

	if (!in_background || (!rnic->is_asked && nsec_now() - rnic->asked_nsec >= QUERY_NSEC))
		registry_ask_nic(rnic);
}

struct registry_nic *registry_find_nic(struct registry *registry, const char *name)
{
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (strcmp(registry->nics[i].info.name, name) == 0)
			return &registry->nics[i];
	return NULL;
}

void registry_set_limits(struct registry *registry, const struct quota_amount *limits)
{
	registry->attr.limits = *limits;
	registry->quota.limits = *limits;
}

struct session *registry_find_session(struct registry *registry, uint64_t id)
{
	struct session *session = registry_next_session(registry, id);

	return session && session->id == id ? session : NULL;
}

struct session *registry_next_session(struct registry *registry, uint64_t id)
{
	struct session *session;

	list_for_each_entry(session, &registry->sessions, link)
		if (session->id >= id && session_is_listed(session))
			return session;
	return NULL;
}

struct session *registry_session_after(struct registry *registry, const struct session *session)
{
	const struct list *at = session->link.next;

	for (; at != &registry->sessions; at = at->next) {
		struct session *next = container_of(at, struct session, link);

		if (session_is_listed(next))
			return next;
	}
	return NULL;
}

uint64_t registry_quiesce_left(struct registry *registry, uint64_t most)
{
	uint64_t now, left;

	pthread_mutex_lock(&registry->quiesce_lock);
	now = nsec_now();
	left = nsec_add(registry->quiesce_left_nsec, (now - registry->quiesce_seen_nsec) / QUIESCE_SHARE);
	registry->quiesce_seen_nsec = now;
	registry->quiesce_left_nsec = left = left < most ? left : most;
	pthread_mutex_unlock(&registry->quiesce_lock);
	return left;
}

void registry_quiesce_spent(struct registry *registry, uint64_t nsec)
{
	pthread_mutex_lock(&registry->quiesce_lock);
	registry->quiesce_left_nsec -= nsec < registry->quiesce_left_nsec ? nsec : registry->quiesce_left_nsec;
	pthread_mutex_unlock(&registry->quiesce_lock);
}

void registry_save(struct registry *registry)
{
	if (registry->attr.save)
		registry->attr.save->registry(registry);
}

/*
 * ---- counters of NICs, which never fall: readers take that for a start from 0 ------------------------------------------
 *
 * A NIC counts what its contexts do, imported ones with all that they had done. Saved beside them are the counts of ended contexts,
 * added with the end of their session; and the figures reported last, for contexts that are saved nowhere else when a daemon is
 * killed: contexts of sessions that end with it.
 */

static int nic_counters(struct registry_nic *rnic, struct nic_counters *ret_counters)
{
	struct nic_counters sum;
	int r = rnic->nic->ops->counters(rnic->nic, &sum);

	if (r < 0)
		return r;
	nic_counters_add(&sum, &rnic->before);
	*ret_counters = sum;
	return 0;
}

int registry_counters_for_reader(struct registry_nic *rnic, struct nic_counters *ret_counters)
{
	uint64_t *now = (uint64_t *)ret_counters, *told = (uint64_t *)&rnic->told;
	int r = nic_counters(rnic, ret_counters);

	for (unsigned int i = 0; r == 0 && i < N_COUNTERS; i++) {
		/* Firmware's have 32 bits, and whoever has a context's command descriptor can clear them. */
		if (now[i] < told[i])
			now[i] = told[i];
		if (now[i] > told[i])
			rnic->registry->has_told = true;
		told[i] = now[i];
	}
	return r;
}

void registry_save_told(struct registry *registry)
{
	if (registry->has_told)
		registry_save(registry);
	registry->has_told = false;
}

void registry_count_ended(struct session *session)
{
	struct registry *registry = session->registry;

	if (!registry->attr.save || session->n_nics == 0)
		return;
	for (unsigned int i = 0; i < session->n_nics; i++)
		nic_counters_add(&session->nics[i]->rnic->ended, &session->nics[i]->last);
	registry->counted = session->id;
	registry_save(registry);
}

/* Contexts that are gone were counted all the same. */
static void raise_to_told(struct registry_nic *rnic)
{
	uint64_t *ended = (uint64_t *)&rnic->ended;
	const uint64_t *told = (const uint64_t *)&rnic->told;
	struct nic_counters sum;

	if (rnic->nic->ops->counters(rnic->nic, &sum) < 0)
		return;
	for (unsigned int i = 0; i < N_COUNTERS; i++) {
		uint64_t now = ended[i] + ((const uint64_t *)&sum)[i];

		ended[i] += told[i] > now ? told[i] - now : 0;
	}
}

void registry_count_on(struct registry *registry)
{
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		raise_to_told(&registry->nics[i]);
		registry->nics[i].before = registry->nics[i].ended;
	}
}

void registry_take_down(struct registry_nic *rnic)
{
	rnic->is_taken_down = rnic->nic->ops->port_set(rnic->nic, NIC_PORT_DOWN) == 0;
	if (rnic->is_taken_down)
		registry_refresh_nic(rnic);
}

/* A NIC that was absent when state was imported, and whose port may have been taken down before. */
static void count_added(struct registry_nic *rnic)
{
	struct registry *registry = rnic->registry;

	for (unsigned int i = 0; i < registry->n_absent; i++) {
		struct registry_absent *absent = &registry->absent[i];

		if (strcmp(absent->name, rnic->info.name) != 0)
			continue;
		rnic->ended = absent->ended;
		rnic->told = absent->told;
		if (absent->is_taken_down)
			registry_take_down(rnic);
		*absent = registry->absent[--registry->n_absent];
		raise_to_told(rnic);
		rnic->before = rnic->ended;
		return;
	}
}
