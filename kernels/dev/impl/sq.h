/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send queue: reserve, prepare, ready, submit; then wait.
 *
 * reserve	take n WQEBBs that are free; sq_rsvd_index
 * prepare	write WQEs there (wqe-prepare.h), in any order, concurrently with other callers
 * ready	publish them, in the order of reservation; sq_ready_index
 * submit	dbrec, then doorbell, for everything that is ready; sq_wqe_pi, db_index
 *
 * reserve claims a range only when there is room for it, so a caller that gives up waiting leaves no hole. Between
 * reserve and ready a caller waits only for earlier callers between these two steps, and they do not wait for room. One
 * caller rings at a time (sq_lock); it announces the WQEs of the others too.
 *
 * When no other caller is between reserve and ready, reserve takes sq_lock too, and ready and submit become one step with
 * one fence less (shmdi_sq_try_claim). A post on a GPU costs trips to the cache and fences, so loads start before tests.
 *
 * The last WQE that a call makes ready asks for a CQE, so every ready index gets its completion. A caller that waits (for
 * room or for completion) first announces WQEs that are ready but withheld.
 */
#ifndef SHMDI_SQ_H
#define SHMDI_SQ_H

#include <shmd/abi/dev-state.h>
#include <shmd/abi/doorbell.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/impl/coop.h>
#include <shmd/dev/impl/cq.h>
#include <shmd/dev/hooks.h>
#include <shmd/dev/impl/order.h>
#include <shmd/dev/impl/wait.h>
#include <shmd/dev/impl/wqe-ring.h>

/* ---- announcing ------------------------------------------------------------------------------------------ */

/*
 * The constant fields that announcing needs, read before the first fence. A fence empties the cache that they come from, and
 * each later read is another trip.
 */
struct shmdi_sq_at {
	uint64_t dbrec_addr, doorbell_addr;
	uint32_t qpn;
	uint8_t placement, doorbell_mode;
};

SHMDI_FN struct shmdi_sq_at shmdi_sq_at(const struct shmd_dev_qp *qp)
{
	struct shmdi_sq_at at;

	at.dbrec_addr = SHMDI_FIXED(qp->sq_dbrec_addr);
	at.doorbell_addr = SHMDI_FIXED(qp->doorbell_addr);
	at.qpn = SHMDI_FIXED(qp->qpn);
	at.placement = SHMDI_FIXED(qp->placement);
	at.doorbell_mode = SHMDI_FIXED(qp->doorbell_mode);
	return at;
}

/* Ring: everything before `end` is in the dbrec. The holder of sq_lock calls it; it drops the lock. */
SHMDI_FN void shmdi_sq_doorbell(struct shmd_dev_qp *qp, const struct shmdi_sq_at *at,
				uint64_t end, int sharing)
{
	uint64_t db = shmdi_swap64((uint64_t)(end & 0xffff) << 40 | (uint64_t)at->qpn << 8);

	qp->sq_wqe_pi = end;
#if SHMDI_CUDA
	/* Early by one store, which no caller can notice: the doorbell follows in any case. */
	shmdi_index_note(&qp->db_index, end, sharing);
	if (sharing != SHMD_SHARING_EXCLUSIVE) {
		if (at->doorbell_mode != SHMD_DOORBELL_UAR_MMAP) {
			shmdi_doorbell_store_unlock(at->doorbell_addr, db, &qp->sq_lock,
						    sharing);
		} else {
			shmdi_doorbell_store(at->doorbell_addr, db, at->placement,
					     SHMD_DOORBELL_UAR_MMAP);
			shmdi_lock_drop(&qp->sq_lock, sharing);
		}
		return;
	}
#endif
	shmdi_doorbell_store(at->doorbell_addr, db, at->placement, at->doorbell_mode);
#if !SHMDI_CUDA
	shmdi_index_note(&qp->db_index, end, sharing);
	if (qp->flags & SHMD_QP_WAKE) {
		const struct shmd_nic_page *page =
			(const struct shmd_nic_page *)(uintptr_t)qp->nic_page_addr;

		if (shmdi_asleep_load(&page->asleep))
			shmd_dev_host_wake(qp->wake_handle);
	}
#endif
	shmdi_lock_drop(&qp->sq_lock, sharing);
}

/* Announce everything before `end`, which is ready. The holder of sq_lock calls it; it drops the lock. */
SHMDI_FN void shmdi_sq_ring(struct shmd_dev_qp *qp, uint64_t end, int sharing)
{
	struct shmdi_sq_at at = shmdi_sq_at(qp);

	shmdi_dbrec_store(at.dbrec_addr, shmdi_swap32((uint32_t)end & 0xffff), at.placement);
	shmdi_sq_doorbell(qp, &at, end, sharing);
}

/* Announce all that is ready. Returns 0 when another caller holds the lock. */
SHMDI_FN int shmdi_sq_try_ring(struct shmd_dev_qp *qp, int sharing)
{
	uint64_t end;

	if (!shmdi_lock_try(&qp->sq_lock, sharing))
		return 0;
	end = shmdi_index_acquire(&qp->sq_ready_index, sharing);
	/* A lone caller always has something to announce. */
	if (sharing == SHMD_SHARING_EXCLUSIVE || end != qp->sq_wqe_pi)
		shmdi_sq_ring(qp, end, sharing);
	else
		shmdi_lock_drop(&qp->sq_lock, sharing);
	return 1;
}

/* Before a wait: announce all that is ready. Returns 0 when another caller holds the lock, who may announce less. */
SHMDI_FN int shmdi_sq_kick(struct shmd_dev_qp *qp, int sharing)
{
	return shmdi_index_peek(&qp->db_index, sharing) ==
		       shmdi_index_peek(&qp->sq_ready_index, sharing) ||
	       shmdi_sq_try_ring(qp, sharing);
}

/* Ignores the health word: the holder of the lock does not wait, and HEALTH has to mean that nothing was posted. */
SHMDI_SLOW int shmdi_sq_wait_ring(struct shmd_dev_qp *qp, uint64_t end, int sharing)
{
	struct shmdi_wait wait;
	int rc;

	shmdi_wait_init(&wait, qp, shmdi_post_timeout(qp));
	wait.health_addr = 0;
	while (shmdi_index_peek(&qp->db_index, sharing) < end) {
		if (shmdi_sq_try_ring(qp, sharing))
			break;
		rc = shmdi_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

/* Make sure that everything before `end`, which is ready, is announced. */
SHMDI_FN int shmdi_sq_submit(struct shmd_dev_qp *qp, uint64_t end, int sharing)
{
	if (SHMDI_LIKELY(shmdi_sq_try_ring(qp, sharing)))
		return SHMD_DEV_OK;
	return shmdi_sq_wait_ring(qp, end, sharing);
}

/* ---- reserving ------------------------------------------------------------------------------------------- */

/* A reservation: WQEBBs from `index` on, or a negative status in `index`. */
struct shmdi_claim {
	uint64_t index;
	uint64_t done; /* all before it had completed; 0: not known */
	int holds; /* we have sq_lock and the turn: shmdi_post_end makes ready and announces in one step */
};

SHMDI_FN int shmdi_claim_status(uint64_t index)
{
	int status = (int)(int64_t)index;

	if (SHMDI_LIKELY((int64_t)index >= 0))
		return SHMD_DEV_OK;
	SHMDI_ASSUME(status < 0);
	return status;
}

/*
 * Returns 1 with a range, 0 when there is no room now or an error. With `hold`, and no other caller between reserve and
 * ready, it takes sq_lock with the range: one trip to the GPU's cache gets both, and one fence publishes and announces. The
 * caller must not wait then before it ends the post. A lone caller always holds both.
 */
SHMDI_FN int shmdi_sq_try_claim(struct shmd_dev_qp *qp, uint32_t n_wqebbs, int sharing, int hold,
				struct shmdi_claim *claim)
{
	uint32_t window = (uint32_t)shmdi_sq_window(qp);
	/* All loads start before the first test, since each takes such a trip. */
	uint32_t failed = shmdi_flag_peek(&qp->error_syndrome, sharing);
	uint64_t index = shmdi_index_peek(&qp->sq_rsvd_index, sharing);
	uint64_t ready = hold ? shmdi_ready_peek(&qp->sq_ready_index, sharing) : 0;
	int won;

	claim->done = shmdi_index_acquire(&qp->cqe_ci, sharing);
	claim->holds = hold && sharing == SHMD_SHARING_EXCLUSIVE;
	/* Signed: a guess at the index may be older than `done`. The claim then fails. */
	while (SHMDI_LIKELY(!failed && (int32_t)((uint32_t)(index - claim->done) + n_wqebbs) <=
					       (int32_t)window)) {
		claim->index = index;
		won = shmdi_index_claim(&qp->sq_rsvd_index, &index, index + n_wqebbs, sharing);
		if (hold && sharing != SHMD_SHARING_EXCLUSIVE)
			claim->holds = shmdi_lock_try_ready(&qp->sq_lock, ready == claim->index, sharing);
		if (SHMDI_LIKELY(won)) {
			SHMDI_ASSUME((int64_t)claim->index >= 0);
			return 1;
		}
		if (claim->holds)
			shmdi_lock_drop_unused(&qp->sq_lock, sharing);
		claim->holds = 0;
		claim->done = shmdi_index_acquire(&qp->cqe_ci, sharing);
	}
	return 0;
}

/* Returns by value: an output pointer would keep the fast path's index in memory. */
SHMDI_SLOW uint64_t shmdi_sq_wait_room(struct shmd_dev_qp *qp, uint32_t n_wqebbs, int sharing)
{
	struct shmdi_claim claim;
	struct shmdi_wait wait;
	int rc;

	if (n_wqebbs - 1 >= shmdi_sq_window(qp))
		return (uint64_t)(int64_t)SHMD_DEV_INVALID;
	shmdi_wait_init(&wait, qp, shmdi_post_timeout(qp));
	for (;;) {
		rc = shmdi_cq_poll(qp, sharing);
		if (rc)
			return (uint64_t)(int64_t)rc;
		if (shmdi_sq_try_claim(qp, n_wqebbs, sharing, 0, &claim))
			return claim.index;
		(void)shmdi_sq_kick(qp, sharing);
		rc = shmdi_wait_round(&wait);
		if (rc)
			return (uint64_t)(int64_t)rc;
	}
}

/* Reads *ring before the claim, which empties the cache, and again after a wait. */
SHMDI_FN struct shmdi_claim shmdi_sq_reserve(struct shmd_dev_qp *qp, uint32_t n_wqebbs,
					     int sharing, int hold, struct shmdi_ring *ring)
{
	struct shmdi_claim claim;

	*ring = shmdi_ring_of(qp);
	if (SHMDI_LIKELY(n_wqebbs && shmdi_sq_try_claim(qp, n_wqebbs, sharing, hold, &claim)))
		return claim;
	claim.index = shmdi_sq_wait_room(qp, n_wqebbs, sharing);
	claim.done = 0;
	claim.holds = hold && sharing == SHMD_SHARING_EXCLUSIVE;
	*ring = shmdi_ring_of(qp);
	return claim;
}

/* ---- publishing ------------------------------------------------------------------------------------------ */

/*
 * Ignores the health word: a caller that gave up here would leave a hole in the queue, which would outlast a port that is
 * down for a moment. The earlier callers wait only for each other, or for something that the health word ends.
 */
SHMDI_SLOW int shmdi_sq_wait_turn(struct shmd_dev_qp *qp, uint64_t index, int sharing)
{
	struct shmdi_wait wait;
	int rc;

	shmdi_wait_init(&wait, qp, shmdi_post_timeout(qp));
	wait.health_addr = 0;
	while (shmdi_index_acquire(&qp->sq_ready_index, sharing) != index) {
		rc = shmdi_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

/* The WQEs of [index, index + n) are written. Waits for earlier reservations to be made ready. */
SHMDI_FN int shmdi_sq_ready(struct shmd_dev_qp *qp, uint64_t index, uint32_t n_wqebbs,
			    int sharing)
{
	int rc;

	if (sharing != SHMD_SHARING_EXCLUSIVE &&
	    SHMDI_UNLIKELY(shmdi_index_acquire(&qp->sq_ready_index, sharing) != index)) {
		rc = shmdi_sq_wait_turn(qp, index, sharing);
		if (rc)
			return rc;
	}
	shmdi_index_publish(&qp->sq_ready_index, index + n_wqebbs, sharing);
	return SHMD_DEV_OK;
}

/* ---- waiting --------------------------------------------------------------------------------------------- */

SHMDI_SLOW int shmdi_sq_wait_loop(struct shmd_dev_qp *qp, uint64_t end, int sharing,
				  uint64_t timeout_nsec)
{
	struct shmdi_cq_at at = shmdi_cq_at(qp);
	struct shmdi_wait wait;
	uint32_t looks = 0;
	int rc;

	shmdi_wait_init(&wait, qp, timeout_nsec);
	(void)shmdi_sq_kick(qp, sharing);
	for (;;) {
		rc = shmdi_cq_poll_at(qp, &at, sharing);
		if (rc)
			return rc;
		if (shmdi_index_acquire(&qp->cqe_ci, sharing) >= end)
			return SHMD_DEV_OK;
		if (++looks % SHMDI_LOOKS_PER_ROUND && timeout_nsec)
			continue;
		rc = shmdi_wait_round(&wait);
		if (rc)
			return rc;
		/* Other callers may have made WQEs ready meanwhile and withheld them. */
		if (sharing != SHMD_SHARING_EXCLUSIVE)
			(void)shmdi_sq_kick(qp, sharing);
	}
}

/*
 * The first polls, which end most waits, without clock, health word or a call. Returns 1 when all before `end` have
 * completed, and leaves everything else to the loop. For a collapsed CQ on a GPU only.
 */
SHMDI_FN int shmdi_sq_look(struct shmd_dev_qp *qp, uint64_t done, uint64_t end, int sharing)
{
#if SHMDI_CUDA
	struct shmdi_cq_at at = shmdi_cq_at(qp);
	uint32_t looks;

	if (!at.is_collapsed)
		return 0;
#pragma unroll 1
	for (looks = 0; looks < SHMDI_FIRST_LOOKS; looks++) {
		uint32_t tail = shmdi_cqe_tail(at.cq_addr, at.placement);
		uint64_t now = shmdi_cq_extend(qp, done, tail);

		if (shmdi_cqe_is_error(tail))
			return 0;
		/* The counter of an unwritten entry can look like progress. */
		if (shmdi_cqe_opcode(tail) == SHMD_CQE_INVALID || now < end)
			continue;
		shmdi_index_raise(&qp->cqe_ci, now, sharing);
		return 1;
	}
#else
	(void)qp;
	(void)done;
	(void)end;
	(void)sharing;
#endif
	return 0;
}

/* Wait until all before `end` have completed. */
SHMDI_FN int shmdi_sq_wait(struct shmd_dev_qp *qp, uint64_t end, int sharing,
			   uint64_t timeout_nsec)
{
	uint32_t failed = shmdi_flag_load(&qp->error_syndrome, sharing);
	uint64_t rung = shmdi_index_peek(&qp->db_index, sharing);
	uint64_t done = shmdi_index_acquire(&qp->cqe_ci, sharing);

	if (SHMDI_UNLIKELY(failed))
		return SHMD_DEV_CQE_ERROR;
	if (done >= end || (rung >= end && timeout_nsec && shmdi_sq_look(qp, done, end, sharing)))
		return SHMD_DEV_OK;
	return shmdi_sq_wait_loop(qp, end, sharing, timeout_nsec);
}

#endif
