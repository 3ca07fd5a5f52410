/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One post, the building block of the operations of rma.h.
 *
 * begin reserves for all lanes that call together, each lane writes its WQEs, and end publishes and announces them. An
 * operation that does not wait in between may hold the queue meanwhile: see shmdi_sq_try_claim.
 */
#ifndef SHMDI_POST_H
#define SHMDI_POST_H

#include <shmd/dev/impl/coop.h>
#include <shmd/dev/impl/sq.h>
#include <shmd/dev/wqe-prepare.h>

/*
 * A post in progress: this caller's WQEBBs within the reservation of its group. The caller writes its WQEs from
 * `index` on, the first with first_flags, the last with last_flags.
 */
struct shmdi_post {
	struct shmdi_group group;
	uint64_t index;
	uint64_t base; /* of the group's reservation */
	uint64_t end;
	int holds; /* the leader holds sq_lock and the turn */
	struct shmdi_ring ring;
	uint8_t first_flags; /* fence */
	uint8_t last_flags; /* completion */
};

/*
 * The fence bit of the next WQE. Reads or atomics before `fence` (a fence_index) may be outstanding; all before `done` have
 * completed. A WQE with the bit holds back all behind it, so a lone caller needs it once. Among several callers a WQE with
 * a smaller index may still be unwritten: all WQEs get the bit until the reads are done.
 */
SHMDI_FN unsigned int shmdi_sq_take_fence(struct shmd_dev_qp *qp, uint64_t fence, uint64_t done,
					  int sharing)
{
	if (SHMDI_LIKELY(fence <= done))
		return 0;
	if (sharing == SHMD_SHARING_EXCLUSIVE)
		qp->fence_index = 0;
	return SHMD_WQE_FM_FENCE;
}

/* WQEBBs of the requests, the last of which may be `wide` (shmd_dev_prepare_masked_cs64). On a DCI each covers two. */
SHMDI_FN uint32_t shmdi_post_wqebbs(const struct shmd_dev_mode *mode, uint32_t requests, uint32_t wide)
{
	return mode->peer ? requests * SHMD_DEV_DC_WQEBBS : requests + wide;
}

/* Load the address vector of the caller's peer, if any. Before a post begins, since loads start before the first branch. */
SHMDI_FN void shmdi_post_address(const struct shmd_dev_mode *mode, struct shmd_dev_av *ret_av)
{
	if (mode->peer)
		*ret_av = shmd_dev_av_of(mode->peer);
}

/* A WQE to the caller's peer, whose address vector was loaded before the post began. */
SHMDI_FN struct shmd_dev_wqe shmdi_post_wqe(const struct shmd_dev_mode *mode, const struct shmd_dev_av *av,
					    uint64_t index, unsigned int flags)
{
	struct shmd_dev_wqe wqe = shmd_dev_wqe_at(index, flags);

	if (mode->peer)
		wqe.av = av;
	return wqe;
}

/*
 * Reserve shmdi_post_wqebbs() for each caller of the group, and one more WQEBB behind all of them when the last WQE covers
 * two: a NOP that asks for the CQE. requests, wide and hold depend only on the kind of operation; hold is 1 for
 * operations that do not wait before they end the post.
 */
SHMDI_FN int shmdi_post_begin(struct shmd_dev_qp *qp, const struct shmd_dev_mode *mode, uint32_t requests,
			      uint32_t wide, int hold, struct shmdi_post *post)
{
	uint32_t n = shmdi_post_wqebbs(mode, requests, wide);
	uint32_t tail = mode->peer ? 1 : wide;
	/* A lone caller has no group to limit. */
	uint32_t limit = mode->scope != SHMD_DEV_THREAD || mode->sharing == SHMD_SHARING_EXCLUSIVE
				 ? 1
				 : ((uint32_t)shmdi_sq_window(qp) - tail) / n;
	struct shmdi_claim claim;
	uint64_t fence = 0;
	uint32_t total;

	claim.index = 0;
	claim.done = 0;
	claim.holds = 0;
	hold = hold && !(mode->flags & SHMD_DEV_NO_DOORBELL);
	shmdi_group_form(&post->group, qp, mode,
			 n << 2 | tail << 1 | (mode->flags & SHMD_DEV_NO_DOORBELL), limit);
	total = n * post->group.size + tail;
	if (shmdi_group_is_leader(&post->group)) {
		fence = shmdi_index_peek(&qp->fence_index, mode->sharing);
		claim = shmdi_sq_reserve(qp, total, mode->sharing, hold, &post->ring);
	}
	post->base = shmdi_group_share(&post->group, claim.index);
	post->holds = claim.holds;
	post->index = post->base + (uint64_t)n * post->group.rank;
	post->end = post->base + total;
	post->first_flags = 0;
	post->last_flags = 0;
	if (SHMDI_UNLIKELY(shmdi_claim_status(post->base)))
		return shmdi_claim_status(post->base);
	if (!shmdi_mode_is_lone(mode))
		post->ring = shmdi_ring_of(qp);
	if (shmdi_group_is_leader(&post->group))
		post->first_flags =
			(uint8_t)shmdi_sq_take_fence(qp, fence, claim.done, mode->sharing);
	/* On a DCI it is written at the end of the post. */
	if (shmdi_group_is_last(&post->group) && !mode->peer) {
		if (tail)
			shmd_dev_prepare_nop(qp,
					     shmd_dev_wqe_at(post->end - 1, SHMD_WQE_CE_ALWAYS));
		else
			post->last_flags = SHMD_WQE_CE_ALWAYS;
	}
	return SHMD_DEV_OK;
}

/* Fill this caller's part with NOPs instead, when it cannot go on. */
SHMDI_FN void shmdi_post_cancel(struct shmd_dev_qp *qp, const struct shmdi_post *post,
				uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		shmd_dev_prepare_nop(
			qp, shmd_dev_wqe_at(post->index + i, i == n - 1 ? post->last_flags : 0));
}

SHMDI_FN int shmdi_sq_publish(struct shmd_dev_qp *qp, const struct shmd_dev_mode *mode,
			      uint64_t base, uint64_t end)
{
	int rc = shmdi_sq_ready(qp, base, (uint32_t)(end - base), mode->sharing);

	if (!rc && !(mode->flags & SHMD_DEV_NO_DOORBELL))
		rc = shmdi_sq_submit(qp, end, mode->sharing);
	return rc;
}

/* All of the group have written: publish and announce. `fetches`: the WQEs bring data back. */
SHMDI_FN int shmdi_post_end(struct shmd_dev_qp *qp, const struct shmd_dev_mode *mode,
			    const struct shmdi_post *post, int fetches)
{
	int rc = SHMD_DEV_OK;

	if (mode->peer && shmdi_group_is_last(&post->group))
		(void)shmdi_ring_ctrl(&post->ring, shmd_dev_wqe_at(post->end - 1, SHMD_WQE_CE_ALWAYS),
				      SHMD_OPCODE_NOP, 1);
	shmdi_group_sync(&post->group);
	if (shmdi_group_is_leader(&post->group)) {
		if (fetches)
			shmdi_index_raise(&qp->last_fetch_index, post->end, mode->sharing);
		if (post->holds) {
			struct shmdi_sq_at at = shmdi_sq_at(qp);

			/* It is our turn and our lock: one step makes the WQEs ready and announces them. */
			shmdi_dbrec_store_ready(at.dbrec_addr,
						shmdi_swap32((uint32_t)post->end & 0xffff),
						at.placement, &qp->sq_ready_index,
						post->end, mode->sharing);
			shmdi_sq_doorbell(qp, &at, post->end, mode->sharing);
		} else {
			rc = shmdi_sq_publish(qp, mode, post->base, post->end);
		}
	}
	return (int)(int64_t)shmdi_group_share(&post->group, (uint64_t)(int64_t)rc);
}

#endif
