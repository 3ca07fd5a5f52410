/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retry and RNR timers.
 *
 * A QP has one deadline, and a place in a heap whose key is that deadline or an earlier one: arming again and cancelling
 * are stores, and the heap is put right when the key comes up. So thousands of QPs with timers cost the others nothing
 * until they expire, and then a bounded number in each call, paid by their tenants.
 */

#include "daemon/engine/engine-private.h"

#define EXPIRIES_PER_CALL 32u
#define EXPIRY_NSEC 128 /* what the tenant is charged */

/* IBTA "encoding for RNR NAK timer field", in units of 10 us. */
static const uint16_t rnr_10usec[32] = {
	/* 0 is 655.36 ms: handled below */
	0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	 32,
	48,   64,   96,	  128,	192,  256,   384,   512,   768,	  1024,	 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t timer_rnr_nsec(uint8_t encoded)
{
	uint64_t units = encoded ? rnr_10usec[encoded & 31] : 65536;

	return units * 10000;
}

uint64_t timer_retry_nsec(uint8_t timeout)
{
	return timeout ? 4096ull << timeout : UINT64_MAX;
}

/* ---- the heap: places are counted from 1, the earliest key is at 1 ------------------------------------------- */

static void put(struct engine *engine, unsigned int place, struct engine_qp *qp)
{
	engine->timers[place] = qp;
	qp->timer_place = place;
}

static void sift_up(struct engine *engine, struct engine_qp *qp)
{
	unsigned int place = qp->timer_place;

	for (; place > 1; place /= 2) {
		struct engine_qp *above = engine->timers[place / 2];

		if (above->timer_key_nsec <= qp->timer_key_nsec)
			break;
		put(engine, place, above);
	}
	put(engine, place, qp);
}

static void sift_down(struct engine *engine, struct engine_qp *qp)
{
	unsigned int place = qp->timer_place, below;

	while ((below = 2 * place) <= engine->n_timers) {
		struct engine_qp **timers = engine->timers;

		if (below < engine->n_timers && timers[below + 1]->timer_key_nsec < timers[below]->timer_key_nsec)
			below++;
		if (qp->timer_key_nsec <= timers[below]->timer_key_nsec)
			break;
		put(engine, place, timers[below]);
		place = below;
	}
	put(engine, place, qp);
}

/* A place in the heap for each QP there is. */
int timers_reserve(struct engine *engine, unsigned int n_qps)
{
	unsigned int n = engine->timer_places ? engine->timer_places : 16;
	struct engine_qp **timers;

	if (n_qps < engine->timer_places)
		return 0;
	while (n <= n_qps)
		n *= 2;
	timers = reallocarray(engine->timers, n, sizeof(*timers));
	if (!timers)
		return -ENOMEM;
	engine->timers = timers;
	engine->timer_places = n;
	return 0;
}

/* The QP goes: leave the heap. */
void timer_forget(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;
	struct engine_qp *last;

	qp->timer_armed = false;
	if (!qp->timer_place)
		return;
	last = engine->timers[engine->n_timers--];
	if (last != qp) {
		put(engine, qp->timer_place, last);
		sift_up(engine, last);
		sift_down(engine, last);
	}
	qp->timer_place = 0;
}

/* ---- arming and expiry ------------------------------------------------------------------------------------------- */

void timer_arm(struct engine_qp *qp, uint64_t after_nsec)
{
	struct engine *engine = qp->engine;

	if (after_nsec == UINT64_MAX) {
		timer_cancel(qp);
		return;
	}
	qp->deadline_nsec = engine->now_nsec + after_nsec;
	qp->timer_armed = true;
	if (likely(qp->timer_place && qp->timer_key_nsec <= qp->deadline_nsec))
		return;
	if (!qp->timer_place)
		put(engine, ++engine->n_timers, qp);
	qp->timer_key_nsec = qp->deadline_nsec;
	sift_up(engine, qp);
}

void timer_cancel(struct engine_qp *qp)
{
	qp->timer_armed = false;
}

/* The earliest key, which may be earlier than the deadline it stands for. */
uint64_t timers_next(struct engine *engine)
{
	while (engine->n_timers > 0 && !engine->timers[1]->timer_armed)
		timer_forget(engine->timers[1]);
	return engine->n_timers > 0 ? engine->timers[1]->timer_key_nsec : UINT64_MAX;
}

static void expire(struct engine_qp *qp)
{
	timer_forget(qp);
	tenant_pay(qp->tenant, EXPIRY_NSEC);
	requester_timer(qp);
}

void timers_run(struct engine *engine)
{
	for (unsigned int n = 0; n < EXPIRIES_PER_CALL && engine->n_timers > 0; n++) {
		struct engine_qp *qp = engine->timers[1];

		if (likely(qp->timer_key_nsec > engine->now_nsec))
			return;
		if (!qp->timer_armed) {
			timer_forget(qp);
		} else if (qp->deadline_nsec <= engine->now_nsec) {
			expire(qp);
		} else {
			qp->timer_key_nsec = qp->deadline_nsec;
			sift_down(engine, qp);
		}
	}
}
