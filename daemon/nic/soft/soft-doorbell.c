/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells: which queues a data thread looks at.
 *
 * A context's doorbell page belongs to it alone, and a doorbell wakes only the context's own queues: the number of another
 * context is ignored, as NICs ignore a doorbell in a foreign UAR page. One word serves all queues of the context, so a second
 * doorbell may overwrite the first before it is seen: any doorbell makes the thread look at all of them, a few in each turn,
 * the named one first.
 *
 * Data thread.
 */
#include "daemon/nic/soft/soft.h"

#include <endian.h>

/* QPs looked at in one turn after a doorbell. */
#define SCAN_SLICE 32u

/* Both dialects have the QP's number in bits 31:8 of the second big-endian dword, and nothing else in common. */
static uint32_t doorbell_qpn(uint64_t word)
{
	return (uint32_t)be64toh(word) >> 8;
}

/* Only what moved goes to the engine, which keeps a short list of the QPs that were active last. */
static void look_at(struct soft_ctx *ctx, struct soft_qp *qp)
{
	uint32_t snd_be = __atomic_load_n(&qp->dbrec->snd, __ATOMIC_RELAXED);

	if (snd_be == qp->seen_snd_be)
		return;
	qp->seen_snd_be = snd_be;
	engine_doorbell(ctx->exec->engine, qp->desc->qpn);
}

static void scan_some(struct soft_ctx *ctx)
{
	uint32_t n = ctx->n_scan < SCAN_SLICE ? ctx->n_scan : SCAN_SLICE;

	ctx->n_scan -= n;
	while (n-- > 0) {
		struct soft_qp *qp = list_first_entry(&ctx->qps, struct soft_qp, link);

		list_del(&qp->link);
		list_add_tail(&ctx->qps, &qp->link);
		look_at(ctx, qp);
	}
}

bool soft_ctx_poll(struct soft_ctx *ctx)
{
	struct soft_qp *qp;
	uint64_t word;

	if (ctx->quiesced)
		return false;
	if (__atomic_load_n(ctx->doorbell, __ATOMIC_RELAXED)) {
		word = __atomic_exchange_n(ctx->doorbell, 0, __ATOMIC_ACQ_REL);
		qp = soft_qp_find(ctx, doorbell_qpn(word));
		if (qp)
			engine_doorbell(ctx->exec->engine, qp->desc->qpn);
		ctx->n_scan = qp && ctx->n_qps == 1 ? 0 : ctx->n_qps;
		scan_some(ctx);
		return true;
	}
	if (ctx->n_scan == 0)
		return false;
	scan_some(ctx);
	return true;
}
