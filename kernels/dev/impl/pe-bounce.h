/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of the caller's that is not registered: it goes through registered memory of the context, one piece at a time.
 *
 * A caller whose request does not complete within its time limit leaves the memory in doubt, since the NIC may still read or
 * write it. The next caller first waits until the queues of the context are empty.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_BOUNCE_H
#define SHMDI_PE_BOUNCE_H

#include <shmd/dev/impl/pe-copy.h>
#include <shmd/dev/impl/pe-wait.h>
#include <shmd/dev/impl/pe-way.h>

/* struct shmd_dev_ctx.bounce_lock */
#define SHMDI_BOUNCE_FREE 0u
#define SHMDI_BOUNCE_HELD 1u
#define SHMDI_BOUNCE_DOUBT 2u

/* A put or get under way. */
struct shmdi_move {
	struct shmd_dev_ctx *ctx;
	struct shmd_dev_mode mode; /* the caller's; once the way is known, the queue's */
	struct shmdi_pe_way way;
	uint64_t end; /* index behind the newest request that uses the caller's memory; 0: none does */
	int is_get, waits;
};

/* Whether requests of the past are done with the memory. A QP that failed has flushed them. */
SHMDI_SLOW int shmdi_bounce_settle(struct shmd_dev_ctx *ctx, uint64_t timeout_nsec)
{
	struct shmdi_ctx_qps at = {0, 0, 0};
	struct shmd_dev_qp *qp;
	int rc = SHMD_DEV_OK;

	while (!rc && (qp = shmdi_ctx_next_qp(ctx, &at)) != 0) {
		rc = shmd_dev_qp_quiet_as(qp, shmd_dev_mode_of(qp, timeout_nsec));
		if (rc == SHMD_DEV_CQE_ERROR)
			rc = SHMD_DEV_OK;
	}
	return rc;
}

SHMDI_FN void shmdi_bounce_drop(struct shmd_dev_ctx *ctx, int rc)
{
	shmdi_pes_fence();
	shmdi_pes_store(&shmdi_ctx_self(ctx)->bounce_lock, rc ? SHMDI_BOUNCE_DOUBT : SHMDI_BOUNCE_FREE, 4);
}

SHMDI_FN int shmdi_bounce_take(struct shmd_dev_ctx *ctx, uint64_t timeout_nsec)
{
	uint32_t *lock = &shmdi_ctx_self(ctx)->bounce_lock;
	struct shmdi_pe_wait wait;
	uint64_t was;
	int rc;

	shmdi_pe_wait_init(&wait, ctx, timeout_nsec);
	for (;;) {
		was = shmdi_pes_load(lock, 4);
		if (was != SHMDI_BOUNCE_HELD && shmdi_pes_compare_swap(lock, 4, was, SHMDI_BOUNCE_HELD) == was)
			break;
		/* Another thread of this PE has it, so the end of any PE is no reason to give up. */
		rc = shmdi_wait_round(&wait.wait);
		if (rc)
			return rc;
	}
	rc = was == SHMDI_BOUNCE_DOUBT ? shmdi_bounce_settle(ctx, timeout_nsec) : (int)SHMD_DEV_OK;
	if (rc)
		shmdi_bounce_drop(ctx, rc);
	return rc;
}

/* With the memory taken: one request and its copy. */
SHMDI_FN int shmdi_bounce_move(const struct shmdi_move *move, struct shmd_dev_addr remote, uint8_t *local, uint64_t bytes)
{
	struct shmd_dev_ctx *ctx = move->ctx;
	struct shmd_dev_addr near = shmd_dev_addr_of(SHMDI_CTX(ctx->bounce_iova), SHMDI_CTX(ctx->bounce_lkey_be[move->way.rail]));
	void *bounce = (void *)(uintptr_t)SHMDI_CTX(ctx->bounce_addr);
	int rc;

	if (!move->is_get) {
		shmdi_copy(bounce, local, bytes, SHMD_DEV_THREAD);
		return shmd_dev_qp_put_as(move->way.qp, remote, near, bytes, move->mode);
	}
	rc = shmd_dev_qp_get_as(move->way.qp, remote, near, bytes, move->mode);
	if (!rc)
		shmdi_copy(local, bounce, bytes, SHMD_DEV_THREAD);
	return rc;
}

/* At most *bytes, which becomes how many it was. Complete when it returns. */
SHMDI_SLOW int shmdi_bounce_one(const struct shmdi_move *move, struct shmd_dev_addr remote, uint8_t *local, uint64_t *bytes)
{
	uint64_t room = SHMDI_CTX(move->ctx->bounce_bytes);
	int rc;

	if (!room)
		return SHMD_DEV_INVALID;
	if (*bytes > room)
		*bytes = room;
	rc = shmdi_bounce_take(move->ctx, move->mode.timeout_nsec);
	if (rc)
		return rc;
	rc = shmdi_bounce_move(move, remote, local, *bytes);
	shmdi_bounce_drop(move->ctx, rc);
	return rc;
}

#endif
