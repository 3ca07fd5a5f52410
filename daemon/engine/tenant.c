/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: how the QPs of different PDs share one engine.
 *
 * By work: deficit round robin in nanoseconds. A turn costs its tenant the time it took while others were waiting, or an
 * estimate from units and bytes when nobody was, or the owner has no clock for it; so neither many QPs, nor many WQEs,
 * nor large or cache-cold ones make a share larger. A tenant that comes with news and has not used up its credit is
 * served first; that keeps latency low for who asks little beside who asks much. Credit comes back only at the end of
 * the line, so coming often gains nothing.
 *
 * By packets: a tenant may hold twice as many requests as are left for everybody, so there are always some left for one
 * who comes. Responses are counted and waited for apart, because requests wait for them.
 *
 * A tenant lives while QPs or packets name it. Owner's thread.
 */
#include <stdlib.h>

#include "daemon/engine/engine-private.h"

/* A thread that lost its CPU within a turn: not the tenant's doing. */
#define TURN_MOST_NSEC 50000u
#define SHARE 2u /* packets a tenant may hold for each that is left */
#define JAM_WAKES 16u /* QPs that try again at once when a way is free: each of them may fill it */

static struct tenant *tenant_new(struct engine *engine, uint32_t pdn)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant)
		return NULL;
	if (hash_add(&engine->tenants, pdn, tenant) < 0) {
		free(tenant);
		return NULL;
	}
	tenant->pdn = pdn;
	tenant->credit_nsec = TENANT_QUANTUM_NSEC;
	list_init(&tenant->link);
	list_init(&tenant->waiting_link);
	list_init(&tenant->ready);
	for (unsigned int use = 0; use < N_PACKET_USES; use++)
		list_init(&tenant->waiters[use]);
	return tenant;
}

int tenant_join(struct engine *engine, struct engine_qp *qp)
{
	struct tenant *tenant = hash_get(&engine->tenants, qp->attr.pdn);

	if (!tenant)
		tenant = tenant_new(engine, qp->attr.pdn);
	if (!tenant)
		return -ENOMEM;
	tenant->refs++;
	qp->tenant = tenant;
	return 0;
}

static void tenant_free(struct tenant *tenant)
{
	list_del(&tenant->link);
	list_del(&tenant->waiting_link);
	free(tenant);
}

/* Frees it when neither QPs nor packets name it. */
void tenant_release(struct engine *engine, struct tenant *tenant)
{
	if (likely(tenant->refs) || tenant->n_packets[0] || tenant->n_packets[1])
		return;
	hash_remove(&engine->tenants, tenant->pdn);
	tenant_free(tenant);
}

/* The remaining ones belong to packets that other threads still have, and nobody will count them. */
void tenants_free(struct engine *engine)
{
	struct tenant *tenant;
	size_t pos = 0;

	while ((tenant = hash_next(&engine->tenants, &pos, NULL)))
		tenant_free(tenant);
	hash_deinit(&engine->tenants);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

static void go_to_the_end(struct engine *engine, struct tenant *tenant)
{
	tenant->credit_nsec += TENANT_QUANTUM_NSEC;
	list_add_tail(&engine->active, &tenant->link);
}

/* The first in line has used up its credit: who is next. */
struct tenant *tenant_rotate(struct engine *engine)
{
	for (;;) {
		struct tenant *tenant = tenant_first(engine);

		if (!tenant || tenant->credit_nsec > 0)
			return tenant;
		list_del(&tenant->link);
		go_to_the_end(engine, tenant);
	}
}

void tenant_activate(struct engine *engine, struct tenant *tenant)
{
	if (likely(tenant->credit_nsec > 0))
		list_add_tail(&engine->fresh, &tenant->link);
	else
		go_to_the_end(engine, tenant);
}

/* Time that the turn took, when others were waiting and the owner has a clock for it. */
uint32_t tenant_turn_nsec(struct engine *engine)
{
	uint64_t began = engine->turn_clock_nsec, nsec;

	engine->turn_clock_nsec = engine->ops.clock_nsec(engine->owner);
	nsec = engine->turn_clock_nsec - began;
	return nsec < TURN_MOST_NSEC ? (uint32_t)nsec : TURN_MOST_NSEC;
}

/* ---- packets ------------------------------------------------------------------------------------------------------ */

static unsigned int reserve_of(enum packet_use use)
{
	return use == PACKET_USE_REQUEST ? PACKET_RESERVE : 0;
}

/* How many more it may take now. */
static unsigned int allowance(const struct engine *engine, const struct tenant *tenant, enum packet_use use)
{
	unsigned int reserve = reserve_of(use), left, share;

	if (engine->n_free_packets <= reserve)
		return 0;
	left = engine->n_free_packets - reserve;
	share = SHARE * left;
	if (share <= tenant->n_packets[use])
		return 0;
	share -= tenant->n_packets[use];
	return share < left ? share : left;
}

static void await_packet(struct engine_qp *qp, enum packet_use use)
{
	struct tenant *tenant = qp->tenant;

	if (!list_empty(&qp->packet_link[use]))
		return;
	list_add_tail(&tenant->waiters[use], &qp->packet_link[use]);
	if (list_empty(&tenant->waiting_link))
		list_add_tail(&qp->engine->packet_waiters, &tenant->waiting_link);
}

/* The way to its peer takes nothing now: then the QP waits there. */
static bool is_jammed(struct engine_qp *qp, enum packet_use use)
{
	struct engine *engine = qp->engine;
	struct engine_jam *jam =
		engine->ops.jam(engine->owner, qp->route, qp->path.dest_qpn, use == PACKET_USE_RESPONSE);

	if (!jam)
		return false;
	if (list_empty(&qp->packet_link[use]))
		list_add_tail(&jam->waiters, &qp->packet_link[use]);
	return true;
}

void engine_jam_init(struct engine_jam *jam, bool has_answers)
{
	jam->has_answers = has_answers;
	list_init(&jam->waiters);
}

void engine_set_jams(struct engine *engine, unsigned int n)
{
	engine->n_jams = n;
}

bool engine_jam_wake(struct engine_jam *jam)
{
	enum packet_use use = jam->has_answers ? PACKET_USE_RESPONSE : PACKET_USE_REQUEST;

	for (unsigned int n = 0; n < JAM_WAKES && !list_empty(&jam->waiters); n++) {
		struct engine_qp *qp = list_first_entry(&jam->waiters, struct engine_qp, packet_link[use]);

		list_del(&qp->packet_link[use]);
		qp_ready(qp);
	}
	return !list_empty(&jam->waiters);
}

/* NULL when the tenant has its share, or none are left for this use, or its way is jammed; then the QP waits in line. */
struct engine_packet *tenant_packet(struct engine_qp *qp, enum packet_use use)
{
	struct engine *engine = qp->engine;
	struct tenant *tenant = qp->tenant;
	struct engine_packet *pkt;

	if (unlikely(engine->n_jams) && is_jammed(qp, use))
		return NULL;
	if (unlikely(!allowance(engine, tenant, use))) {
		packet_pool_collect(engine);
		if (!allowance(engine, tenant, use)) {
			await_packet(qp, use);
			return NULL;
		}
	}
	pkt = packet_alloc(engine, reserve_of(use));
	pkt->tenant = tenant;
	pkt->use = (uint8_t)use;
	tenant->n_packets[use]++;
	return pkt;
}

/* As many of its QPs as can hope for packets, first come first served. */
static void tenant_wake(struct engine *engine, struct tenant *tenant, enum packet_use use)
{
	struct list *waiters = &tenant->waiters[use];
	unsigned int n = allowance(engine, tenant, use);

	n = (n + TURN_UNITS - 1) / TURN_UNITS;
	for (; n > 0 && !list_empty(waiters); n--) {
		struct engine_qp *qp = list_first_entry(waiters, struct engine_qp, packet_link[use]);

		list_del(&qp->packet_link[use]);
		qp_ready(qp);
	}
}

void tenants_wake(struct engine *engine)
{
	struct tenant *tenant, *tmp;

	if (likely(list_empty(&engine->packet_waiters)))
		return;
	packet_pool_collect(engine);
	list_for_each_entry_safe(tenant, tmp, &engine->packet_waiters, waiting_link) {
		tenant_wake(engine, tenant, PACKET_USE_RESPONSE);
		tenant_wake(engine, tenant, PACKET_USE_REQUEST);
		if (list_empty(&tenant->waiters[PACKET_USE_RESPONSE]) &&
		    list_empty(&tenant->waiters[PACKET_USE_REQUEST]))
			list_del(&tenant->waiting_link);
	}
}
