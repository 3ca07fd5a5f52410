/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send queue: reserve, prepare, ready, submit; then wait.
 *
 * reserve	take n WQEBBs that are free; sq_rsvd_index
 * prepare	write WQEs there (wqe-prepare.h), in any order, concurrently with other callers
 * ready	publish them, in the order of reservation; sq_ready_index
 * submit	dbrec, then doorbell, for everything that is ready; sq_wqe_pi, db_index
 *
 * reserve claims a range only when there is room for it, so a caller that gives up waiting leaves nothing behind.
 * Between reserve and ready it waits for nobody but callers in the same stretch, which themselves wait for nobody
 * without room. Exactly one caller rings at a time (sq_lock); the others find that theirs was announced with it.
 *
 * The last WQE made ready by one call asks for a CQE; so every index that is ready gets its completion, and what
 * waits (for room or for completion) first announces what is ready but withheld.
 */
#ifndef SHMD_DEV_SQ_H
#define SHMD_DEV_SQ_H

#include <shmd/abi/dev-state.h>
#include <shmd/abi/doorbell.h>
#include <shmd/dev/annotate.h>
#include <shmd/dev/coop.h>
#include <shmd/dev/cq.h>
#include <shmd/dev/hooks.h>
#include <shmd/dev/order.h>
#include <shmd/dev/wait.h>
#include <shmd/dev/wqe-prepare.h>

/* ---- announcing ------------------------------------------------------------------------------------------ */

/* Everything before `end` is ready: tell the NIC. By the holder of sq_lock, which is dropped. */
SHMD_DEV void shmd_dev_sq_ring(struct shmd_dev_qp *qp, uint64_t end, int sharing)
{
	uint64_t db = (uint64_t)(end & 0xffff) << 40 | (uint64_t)SHMD_DEV_FIXED(qp->qpn) << 8;
	uint64_t doorbell = SHMD_DEV_FIXED(qp->doorbell_addr);
	int doorbell_mode = SHMD_DEV_FIXED(qp->doorbell_mode);

	shmd_dev_dbrec_store(SHMD_DEV_FIXED(qp->sq_dbrec_addr),
			     shmd_dev_swap32((uint32_t)end & 0xffff),
			     SHMD_DEV_FIXED(qp->placement));
	qp->sq_wqe_pi = end;
#if SHMD_DEV_CUDA
	/* Early by one store, which nobody can tell: the doorbell follows whatever others do. */
	shmd_dev_index_note(&qp->db_index, end, sharing);
	if (sharing != SHMD_SHARING_EXCLUSIVE && doorbell_mode != SHMD_DOORBELL_UAR_MMAP) {
		shmd_dev_doorbell_store_unlock(doorbell, shmd_dev_swap64(db), &qp->sq_lock,
					       sharing);
		return;
	}
#endif
	shmd_dev_doorbell_store(doorbell, shmd_dev_swap64(db), SHMD_DEV_FIXED(qp->placement),
				doorbell_mode);
#if !SHMD_DEV_CUDA
	shmd_dev_index_note(&qp->db_index, end, sharing);
	if (qp->flags & SHMD_QP_WAKE) {
		const struct shmd_nic_page *page =
			(const struct shmd_nic_page *)(uintptr_t)qp->nic_page_addr;

		if (shmd_dev_asleep_load(&page->asleep))
			shmd_dev_host_wake(qp->wake_handle);
	}
#endif
	shmd_dev_lock_drop(&qp->sq_lock, sharing);
}

/* Announce all that is ready, unless someone else is at it. 0 when someone was. */
SHMD_DEV int shmd_dev_sq_try_ring(struct shmd_dev_qp *qp, int sharing)
{
	uint64_t end;

	if (!shmd_dev_lock_try(&qp->sq_lock, sharing))
		return 0;
	end = shmd_dev_index_acquire(&qp->sq_ready_index, sharing);
	/* A lone caller comes here with news only, and is spared the look. */
	if (sharing == SHMD_SHARING_EXCLUSIVE || end != qp->sq_wqe_pi)
		shmd_dev_sq_ring(qp, end, sharing);
	else
		shmd_dev_lock_drop(&qp->sq_lock, sharing);
	return 1;
}

/* Before waiting: whatever is ready is announced. */
SHMD_DEV void shmd_dev_sq_kick(struct shmd_dev_qp *qp, int sharing)
{
	if (shmd_dev_index_peek(&qp->db_index, sharing) !=
	    shmd_dev_index_peek(&qp->sq_ready_index, sharing))
		(void)shmd_dev_sq_try_ring(qp, sharing);
}

/* Without the health word: the holder of the lock waits for nobody, and HEALTH shall mean that nothing was posted. */
SHMD_DEV_SLOW int shmd_dev_sq_wait_ring(struct shmd_dev_qp *qp, uint64_t end, int sharing)
{
	struct shmd_dev_wait wait;
	int rc;

	shmd_dev_wait_init(&wait, qp, shmd_dev_post_timeout(qp));
	wait.health_addr = 0;
	while (shmd_dev_index_peek(&qp->db_index, sharing) < end) {
		if (shmd_dev_sq_try_ring(qp, sharing))
			break;
		rc = shmd_dev_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

/* See that everything before `end`, which is ready, is announced. */
SHMD_DEV int shmd_dev_sq_submit(struct shmd_dev_qp *qp, uint64_t end, int sharing)
{
	if (SHMD_DEV_LIKELY(shmd_dev_sq_try_ring(qp, sharing)))
		return SHMD_DEV_OK;
	return shmd_dev_sq_wait_ring(qp, end, sharing);
}

/* ---- reserving ------------------------------------------------------------------------------------------- */

/* SHMD_DEV_AGAIN when there is no room now. */
SHMD_DEV int shmd_dev_sq_try_reserve(struct shmd_dev_qp *qp, uint32_t n_wqebbs, uint64_t window,
				     int sharing, uint64_t *ret_index)
{
	/* The error is tested after all loads have started: each takes a trip to the cache of the GPU. */
	uint32_t failed = shmd_dev_flag_peek(&qp->error_syndrome, sharing);
	uint64_t index = shmd_dev_index_peek(&qp->sq_rsvd_index, sharing);

	do {
		uint64_t done = shmd_dev_index_acquire(&qp->cqe_ci, sharing);

		/* Signed: a guess at the index may be older than `done`. The claim then fails. */
		if ((int64_t)(index + n_wqebbs - done) > (int64_t)window)
			return failed ? SHMD_DEV_CQE_ERROR : SHMD_DEV_AGAIN;
		if (SHMD_DEV_UNLIKELY(failed))
			return SHMD_DEV_CQE_ERROR;
	} while (!shmd_dev_index_claim(&qp->sq_rsvd_index, &index, index + n_wqebbs, sharing));
	*ret_index = index;
	return SHMD_DEV_OK;
}

/* By value: a pointer to a slow function would keep the fast path's index in memory. */
struct shmd_dev_room {
	uint64_t index;
	int status;
};

SHMD_DEV_SLOW struct shmd_dev_room shmd_dev_sq_wait_room(struct shmd_dev_qp *qp, uint32_t n_wqebbs,
							 int sharing)
{
	struct shmd_dev_room room;
	struct shmd_dev_wait wait;

	room.index = 0;
	shmd_dev_wait_init(&wait, qp, shmd_dev_post_timeout(qp));
	for (;;) {
		room.status = shmd_dev_cq_poll(qp, sharing);
		if (room.status)
			return room;
		room.status = shmd_dev_sq_try_reserve(qp, n_wqebbs, shmd_dev_sq_window(qp),
						      sharing, &room.index);
		if (room.status != SHMD_DEV_AGAIN)
			return room;
		shmd_dev_sq_kick(qp, sharing);
		room.status = shmd_dev_wait_round(&wait);
		if (room.status)
			return room;
	}
}

SHMD_DEV int shmd_dev_sq_reserve(struct shmd_dev_qp *qp, uint32_t n_wqebbs, int sharing,
				 uint64_t *ret_index)
{
	uint64_t window = shmd_dev_sq_window(qp);
	struct shmd_dev_room room;
	int rc;

	if (SHMD_DEV_UNLIKELY(n_wqebbs - 1 >= window))
		return SHMD_DEV_INVALID;
	rc = shmd_dev_sq_try_reserve(qp, n_wqebbs, window, sharing, ret_index);
	if (SHMD_DEV_LIKELY(rc != SHMD_DEV_AGAIN))
		return rc;
	room = shmd_dev_sq_wait_room(qp, n_wqebbs, sharing);
	if (!room.status)
		*ret_index = room.index;
	return room.status;
}

/* ---- publishing ------------------------------------------------------------------------------------------ */

/*
 * Without the health word: a caller that left here would leave a hole in the queue, which outlives a port that is down
 * for a moment. Those it waits for need nobody but each other, or wait for something that the health word ends.
 */
SHMD_DEV_SLOW int shmd_dev_sq_wait_turn(struct shmd_dev_qp *qp, uint64_t index, int sharing)
{
	struct shmd_dev_wait wait;
	int rc;

	shmd_dev_wait_init(&wait, qp, shmd_dev_post_timeout(qp));
	wait.health_addr = 0;
	while (shmd_dev_index_acquire(&qp->sq_ready_index, sharing) != index) {
		rc = shmd_dev_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

/* The WQEs of [index, index + n) are written. Waits for earlier reservations to be made ready. */
SHMD_DEV int shmd_dev_sq_ready(struct shmd_dev_qp *qp, uint64_t index, uint32_t n_wqebbs,
			       int sharing)
{
	int rc;

	if (sharing != SHMD_SHARING_EXCLUSIVE &&
	    SHMD_DEV_UNLIKELY(shmd_dev_index_acquire(&qp->sq_ready_index, sharing) != index)) {
		rc = shmd_dev_sq_wait_turn(qp, index, sharing);
		if (rc)
			return rc;
	}
	shmd_dev_index_publish(&qp->sq_ready_index, index + n_wqebbs, sharing);
	return SHMD_DEV_OK;
}

/* ---- waiting --------------------------------------------------------------------------------------------- */

SHMD_DEV_SLOW int shmd_dev_sq_wait_loop(struct shmd_dev_qp *qp, uint64_t end, int sharing,
					uint64_t timeout_nsec)
{
	struct shmd_dev_cq_at at = shmd_dev_cq_at(qp);
	struct shmd_dev_wait wait;
	uint32_t looks = 0;
	int rc;

	shmd_dev_wait_init(&wait, qp, timeout_nsec);
	shmd_dev_sq_kick(qp, sharing);
	for (;;) {
		rc = shmd_dev_cq_poll_at(qp, &at, sharing);
		if (rc)
			return rc;
		if (shmd_dev_index_acquire(&qp->cqe_ci, sharing) >= end)
			return SHMD_DEV_OK;
		if (++looks % SHMD_DEV_LOOKS_PER_ROUND && timeout_nsec)
			continue;
		rc = shmd_dev_wait_round(&wait);
		if (rc)
			return rc;
		/* Others may have made something ready meanwhile and withheld it. */
		if (sharing != SHMD_SHARING_EXCLUSIVE)
			shmd_dev_sq_kick(qp, sharing);
	}
}

/* Until all before `end` have completed. */
SHMD_DEV int shmd_dev_sq_wait(struct shmd_dev_qp *qp, uint64_t end, int sharing,
			      uint64_t timeout_nsec)
{
	if (SHMD_DEV_UNLIKELY(shmd_dev_cq_has_error(qp, sharing)))
		return SHMD_DEV_CQE_ERROR;
	if (shmd_dev_index_acquire(&qp->cqe_ci, sharing) >= end)
		return SHMD_DEV_OK;
	return shmd_dev_sq_wait_loop(qp, end, sharing, timeout_nsec);
}

/* ---- one post: what the operations of rma.h are made of -------------------------------------------------- */

/*
 * A post in progress: this caller's WQEBBs within the reservation of its group. The caller writes its WQEs from
 * `index` on, the first with first_flags, the last with last_flags.
 */
struct shmd_dev_post {
	struct shmd_dev_group group;
	uint64_t index;
	uint64_t base; /* of the group's reservation */
	uint64_t end;
	uint8_t first_flags; /* fence */
	uint8_t last_flags; /* completion */
};

/* SHMD_WQE_FM_FENCE while reads or atomics that were fenced may be outstanding. */
SHMD_DEV unsigned int shmd_dev_sq_fence_flags(const struct shmd_dev_qp *qp, int sharing)
{
	uint64_t fence = shmd_dev_index_peek(&qp->fence_index, sharing);

	return fence && fence > shmd_dev_index_peek(&qp->cqe_ci, sharing) ? SHMD_WQE_FM_FENCE : 0;
}

/*
 * The fence bit for a WQE that is about to be posted. One WQE that has it holds back all behind it, so a lone caller
 * needs it once. Among several, a WQE of a smaller index may yet be unwritten: all get it until the reads are done.
 */
SHMD_DEV unsigned int shmd_dev_sq_take_fence(struct shmd_dev_qp *qp, int sharing)
{
	unsigned int flags = shmd_dev_sq_fence_flags(qp, sharing);

	if (sharing == SHMD_SHARING_EXCLUSIVE && flags)
		qp->fence_index = 0;
	return flags;
}

/*
 * Reserve n WQEBBs for each caller of the group, and one more behind them when `tail` is 1: a NOP that asks for the
 * CQE when the last WQE cannot. n and tail depend on nothing but the kind of operation.
 */
SHMD_DEV int shmd_dev_post_begin(struct shmd_dev_qp *qp, const struct shmd_dev_mode *mode,
				 uint32_t n, uint32_t tail, struct shmd_dev_post *post)
{
	/* A lone caller has no group to limit. */
	uint32_t limit = mode->scope != SHMD_DEV_THREAD || mode->sharing == SHMD_SHARING_EXCLUSIVE
				 ? 1
				 : ((uint32_t)shmd_dev_sq_window(qp) - tail) / n;
	uint64_t base = 0;
	uint32_t total;
	int rc = SHMD_DEV_OK;

	shmd_dev_group_form(&post->group, qp, mode,
			    n << 2 | tail << 1 | (mode->flags & SHMD_DEV_NO_DOORBELL), limit);
	total = n * post->group.size + tail;
	if (shmd_dev_group_is_leader(&post->group))
		rc = shmd_dev_sq_reserve(qp, total, mode->sharing, &base);
	rc = (int)(int64_t)shmd_dev_group_share(&post->group, (uint64_t)(int64_t)rc);
	if (rc)
		return rc;
	base = shmd_dev_group_share(&post->group, base);
	post->base = base;
	post->index = base + (uint64_t)n * post->group.rank;
	post->end = base + total;
	post->first_flags = 0;
	post->last_flags = 0;
	if (shmd_dev_group_is_leader(&post->group))
		post->first_flags = (uint8_t)shmd_dev_sq_take_fence(qp, mode->sharing);
	if (shmd_dev_group_is_last(&post->group)) {
		if (tail)
			shmd_dev_prepare_nop(qp,
					     shmd_dev_wqe_at(post->end - 1, SHMD_WQE_CE_ALWAYS));
		else
			post->last_flags = SHMD_WQE_CE_ALWAYS;
	}
	return SHMD_DEV_OK;
}

/* Fill this caller's part with NOPs instead, when it cannot go on. */
SHMD_DEV void shmd_dev_post_cancel(struct shmd_dev_qp *qp, const struct shmd_dev_post *post,
				   uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		shmd_dev_prepare_nop(
			qp, shmd_dev_wqe_at(post->index + i, i == n - 1 ? post->last_flags : 0));
}

/* All of the group have written: publish and announce. `fetches`: the WQEs bring data back. */
SHMD_DEV int shmd_dev_post_end(struct shmd_dev_qp *qp, const struct shmd_dev_mode *mode,
			       const struct shmd_dev_post *post, int fetches)
{
	int rc = SHMD_DEV_OK;

	shmd_dev_group_sync(&post->group);
	if (shmd_dev_group_is_leader(&post->group)) {
		if (fetches)
			shmd_dev_index_raise(&qp->last_fetch_index, post->end, mode->sharing);
		rc = shmd_dev_sq_ready(qp, post->base, (uint32_t)(post->end - post->base),
				       mode->sharing);
		if (!rc && !(mode->flags & SHMD_DEV_NO_DOORBELL))
			rc = shmd_dev_sq_submit(qp, post->end, mode->sharing);
	}
	return (int)(int64_t)shmd_dev_group_share(&post->group, (uint64_t)(int64_t)rc);
}

#endif
