/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retry and RNR timers.
 *
 * A QP has one deadline. Arming is a store and, the first time, a list insertion; the engine keeps only a lower
 * bound over all deadlines and walks the list when that has passed, so moving a deadline back costs nothing.
 */
#include "daemon/engine/engine-private.h"

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

void timer_arm(struct engine_qp *qp, uint64_t after_nsec)
{
	struct engine *engine = qp->engine;

	if (after_nsec == UINT64_MAX) {
		timer_cancel(qp);
		return;
	}
	qp->deadline_nsec = engine->now_nsec + after_nsec;
	if (list_empty(&qp->timer_link))
		list_add_tail(&engine->timers, &qp->timer_link);
	if (qp->deadline_nsec < engine->next_deadline_nsec)
		engine->next_deadline_nsec = qp->deadline_nsec;
}

void timer_cancel(struct engine_qp *qp)
{
	if (!list_empty(&qp->timer_link))
		list_del(&qp->timer_link);
}

void timers_run(struct engine *engine)
{
	struct engine_qp *qp, *tmp;

	if (engine->now_nsec < engine->next_deadline_nsec)
		return;
	engine->next_deadline_nsec = UINT64_MAX;
	list_for_each_entry_safe(qp, tmp, &engine->timers, timer_link)
	{
		if (qp->deadline_nsec <= engine->now_nsec) {
			list_del(&qp->timer_link);
			requester_timer(qp);
		} else if (qp->deadline_nsec < engine->next_deadline_nsec) {
			engine->next_deadline_nsec = qp->deadline_nsec;
		}
	}
}
