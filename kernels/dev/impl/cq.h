/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion: the index up to which the NIC has completed, and its first error.
 *
 * cqe_ci counts WQEBBs like the producer's indexes: all before it have completed. The NIC completes a send queue in
 * order, so one CQE stands for every WQE before it. The CQE names the first WQEBB of its WQE by 16 bits; WQEs that
 * ask for a CQE cover one WQEBB, and at most 32768 WQEBBs are in flight, so the 64-bit index follows.
 *
 * Collapsed CQ: every CQE lands on entry 0; its last eight bytes are one atomic word, and any number of callers look
 * at it without a lock. Ordinary CQ: the first caller consumes entries under cq_lock; the others have nothing to do.
 * It cannot overrun, because no more WQEBBs are in flight than it has entries (shmdi_sq_window).
 *
 * The CQ carries requester CQEs of this QP only. An error CQE is recorded once and ends this and every later wait. A
 * flush follows another error. When the session or the NIC has ended, the health word says so and waits return HEALTH;
 * otherwise the daemon's word in the QP's dbrec line names the first error.
 */
#ifndef SHMDI_CQ_H
#define SHMDI_CQ_H

#include <shmd/abi/cqe.h>
#include <shmd/abi/dev-state.h>
#include <shmd/abi/doorbell.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/impl/order.h>

/* Recorded for an error CQE whose syndrome is 0. */
#define SHMDI_SYNDROME_UNKNOWN 0xffu

/* The tail of a CQE: its last four bytes (wqe_counter, signature, op_own) as a little-endian word. */
SHMDI_FN uint32_t shmdi_cqe_opcode(uint32_t tail)
{
	return tail >> 28;
}

SHMDI_FN uint32_t shmdi_cqe_owner(uint32_t tail)
{
	return (tail >> 24) & SHMD_CQE_OWNER_MASK;
}

SHMDI_FN uint32_t shmdi_cqe_counter(uint32_t tail)
{
	return shmdi_swap16(tail);
}

SHMDI_FN int shmdi_cqe_is_error(uint32_t tail)
{
	uint32_t opcode = shmdi_cqe_opcode(tail);

	return opcode == SHMD_CQE_REQ_ERR || opcode == SHMD_CQE_RESP_ERR;
}

SHMDI_FN uint32_t shmdi_cqe_tail(uint64_t cqe_addr, int placement)
{
	const uint64_t *last = (const uint64_t *)(uintptr_t)(cqe_addr + 56);

	return (uint32_t)(shmdi_cqe_load(last, placement) >> 32);
}

/* The number of WQEBBs that may be in flight. */
SHMDI_FN uint64_t shmdi_sq_window(const struct shmd_dev_qp *qp)
{
	/* All loads before the first branch. */
	uint32_t flags = SHMDI_FIXED(qp->flags);
	uint32_t entries = SHMDI_FIXED(qp->cq_entries);
	uint32_t wqebbs = SHMDI_FIXED(qp->sq_wqebbs);

	return (flags & SHMD_QP_CQ_COLLAPSED) != 0 || entries > wqebbs ? wqebbs : entries;
}

SHMDI_FN int shmdi_cq_has_error(const struct shmd_dev_qp *qp, int sharing)
{
	return shmdi_flag_load(&qp->error_syndrome, sharing) != 0;
}

/*
 * Return the index before which all have completed, given that all before `done` have and that this CQE is not older
 * than the one behind `done`. A distance larger than the ring means an old CQE: the index stays.
 */
SHMDI_FN uint64_t shmdi_cq_extend(const struct shmd_dev_qp *qp, uint64_t done, uint32_t tail)
{
	uint64_t distance = (shmdi_cqe_counter(tail) + 1 - done) & 0xffff;

	return distance <= SHMDI_FIXED(qp->sq_wqebbs) ? done + distance : done;
}

/* Whether the health word has a final value. In error paths only, since the load is a trip over PCIe. */
SHMDI_FN int shmdi_health_is_final(const struct shmd_dev_qp *qp)
{
	uint64_t addr = SHMDI_FIXED(qp->health_addr);
	uint32_t health = addr ? shmdi_health_load(addr) : 0;

	return health != SHMD_HEALTH_OK && health != SHMD_HEALTH_PORT_DOWN;
}

/* The daemon's reason for state ERR, 8 bits; 0: none given. In error paths and waits for memory only. */
SHMDI_FN uint32_t shmdi_cq_told(const struct shmd_dev_qp *qp)
{
	const uint64_t dbrec_addr = SHMDI_FIXED(qp->sq_dbrec_addr) - 4;

	if (!(SHMDI_FIXED(qp->flags) & SHMD_QP_TELLS_ERROR))
		return 0;
	return shmdi_nic_load32((const uint32_t *)(uintptr_t)(dbrec_addr + SHMD_QP_ERROR_OFFSET),
				SHMDI_FIXED(qp->placement)) &
	       0xff;
}

/* The reason of a flush: a syndrome, or SHMD_DEV_HEALTH. */
SHMDI_SLOW int shmdi_cq_flush_reason(const struct shmd_dev_qp *qp)
{
	uint32_t told;

	if (shmdi_health_is_final(qp))
		return SHMD_DEV_HEALTH;
	told = shmdi_cq_told(qp);
	return told ? (int)told : (int)SHMD_SYNDROME_WR_FLUSH_ERR;
}

/*
 * With cq_lock held: keep the first error. The index is written before the syndrome that announces it.
 * Returns SHMD_DEV_CQE_ERROR, or SHMD_DEV_HEALTH without keeping anything.
 */
SHMDI_FN int shmdi_cq_keep(struct shmd_dev_qp *qp, uint32_t syndrome, uint32_t wqe_index, int sharing)
{
	if (SHMDI_UNLIKELY(shmdi_cq_has_error(qp, sharing)))
		return SHMD_DEV_CQE_ERROR;
	if (syndrome == SHMD_SYNDROME_WR_FLUSH_ERR) {
		int reason = shmdi_cq_flush_reason(qp);

		if (reason < 0)
			return reason;
		syndrome = (uint32_t)reason;
	}
	shmdi_flag_store(&qp->error_wqe_index, wqe_index, sharing);
	shmdi_flag_store(&qp->error_syndrome, syndrome ? syndrome : SHMDI_SYNDROME_UNKNOWN, sharing);
	return SHMD_DEV_CQE_ERROR;
}

/* The same for an error CQE. */
SHMDI_SLOW int shmdi_cq_record(struct shmd_dev_qp *qp, uint64_t cqe_addr, uint32_t tail,
			       int sharing)
{
	/* Bytes 48 to 55 of an error CQE; the syndrome is the last. */
	uint64_t word =
		shmdi_nic_load64((const uint64_t *)(uintptr_t)(cqe_addr + 48), SHMDI_FIXED(qp->placement));

	return shmdi_cq_keep(qp, (uint32_t)(word >> 56), shmdi_cqe_counter(tail), sharing);
}

/* The constant fields that a polling loop needs, read once. */
struct shmdi_cq_at {
	uint64_t cq_addr;
	int placement;
	int is_collapsed;
};

SHMDI_FN struct shmdi_cq_at shmdi_cq_at(const struct shmd_dev_qp *qp)
{
	struct shmdi_cq_at at;

	at.cq_addr = SHMDI_FIXED(qp->cq_addr);
	at.placement = SHMDI_FIXED(qp->placement);
	at.is_collapsed = (SHMDI_FIXED(qp->flags) & SHMD_QP_CQ_COLLAPSED) != 0;
	return at;
}

SHMDI_FN int shmdi_cq_poll_collapsed(struct shmd_dev_qp *qp, const struct shmdi_cq_at *at,
				     int sharing)
{
	/* shmdi_cq_extend relies on the order of the last two loads. */
	uint32_t failed = shmdi_flag_peek(&qp->error_syndrome, sharing);
	uint64_t done = shmdi_index_acquire(&qp->cqe_ci, sharing);
	uint32_t tail = shmdi_cqe_tail(at->cq_addr, at->placement);
	uint64_t now;
	int rc;

	/* Tested after all loads have started. */
	if (SHMDI_UNLIKELY(failed))
		return SHMD_DEV_CQE_ERROR;
	if (shmdi_cqe_opcode(tail) == SHMD_CQE_INVALID)
		return SHMD_DEV_OK;
	if (SHMDI_UNLIKELY(shmdi_cqe_is_error(tail))) {
		/* Another caller is recording it: the next poll finds the record. */
		if (!shmdi_lock_try(&qp->cq_lock, sharing))
			return SHMD_DEV_OK;
		rc = shmdi_cq_record(qp, at->cq_addr, tail, sharing);
		shmdi_lock_drop(&qp->cq_lock, sharing);
		return rc;
	}
	now = shmdi_cq_extend(qp, done, tail);
	if (now != done)
		shmdi_index_raise(&qp->cqe_ci, now, sharing);
	return SHMD_DEV_OK;
}

/* With cq_lock held. */
SHMDI_FN int shmdi_cq_consume(struct shmd_dev_qp *qp, int sharing)
{
	uint64_t done = shmdi_index_peek(&qp->cqe_ci, sharing);
	uint64_t ci = qp->cq_ci;
	uint64_t end = ci + SHMDI_FIXED(qp->cq_entries);
	int rc = SHMD_DEV_OK;

	for (; ci < end && !rc; ci++) {
		uint64_t slot = ci & (SHMDI_FIXED(qp->cq_entries) - 1);
		uint64_t cqe_addr = SHMDI_FIXED(qp->cq_addr) + slot * SHMD_CQE_BYTES;
		uint32_t tail = shmdi_cqe_tail(cqe_addr, SHMDI_FIXED(qp->placement));

		if (shmdi_cqe_opcode(tail) == SHMD_CQE_INVALID ||
		    shmdi_cqe_owner(tail) != ((ci & SHMDI_FIXED(qp->cq_entries)) != 0))
			break;
		if (shmdi_cqe_is_error(tail))
			rc = shmdi_cq_record(qp, cqe_addr, tail, sharing);
		else
			done = shmdi_cq_extend(qp, done, tail);
	}
	if (ci == qp->cq_ci)
		return rc;
	qp->cq_ci = ci;
	/* The NIC sees free entries before any caller may post for them. */
	shmdi_dbrec_store(SHMDI_FIXED(qp->cq_dbrec_addr), shmdi_swap32((uint32_t)ci & 0xffffff),
			  SHMDI_FIXED(qp->placement));
	shmdi_index_publish(&qp->cqe_ci, done, sharing);
	return rc;
}

SHMDI_FN int shmdi_cq_poll_ordinary(struct shmd_dev_qp *qp, int sharing)
{
	int rc;

	if (!shmdi_lock_try(&qp->cq_lock, sharing))
		return SHMD_DEV_OK;
	rc = shmdi_cq_consume(qp, sharing);
	shmdi_lock_drop(&qp->cq_lock, sharing);
	return rc;
}

/* Poll once and update cqe_ci. Returns SHMD_DEV_OK, SHMD_DEV_CQE_ERROR, or SHMD_DEV_HEALTH for a flush. */
SHMDI_FN int shmdi_cq_poll_at(struct shmd_dev_qp *qp, const struct shmdi_cq_at *at, int sharing)
{
	if (SHMDI_LIKELY(at->is_collapsed))
		return shmdi_cq_poll_collapsed(qp, at, sharing);
	if (SHMDI_UNLIKELY(shmdi_cq_has_error(qp, sharing)))
		return SHMD_DEV_CQE_ERROR;
	return shmdi_cq_poll_ordinary(qp, sharing);
}

SHMDI_FN int shmdi_cq_poll(struct shmd_dev_qp *qp, int sharing)
{
	struct shmdi_cq_at at = shmdi_cq_at(qp);

	return shmdi_cq_poll_at(qp, &at, sharing);
}

/*
 * A QP with nothing in flight that fails gets no CQE, but the daemon's word may say so. Called after a poll of the CQ, in
 * waits for memory only: requests in flight end in a CQE, which says more. Returns the status of the wait.
 */
SHMDI_SLOW int shmdi_cq_ask_idle(struct shmd_dev_qp *qp, int sharing)
{
	uint32_t syndrome;
	int rc;

	if (shmdi_index_acquire(&qp->cqe_ci, sharing) < shmdi_index_peek(&qp->sq_ready_index, sharing))
		return SHMD_DEV_OK;
	syndrome = shmdi_cq_told(qp);
	if (SHMDI_LIKELY(!syndrome) || !shmdi_lock_try(&qp->cq_lock, sharing))
		return SHMD_DEV_OK;
	rc = shmdi_cq_keep(qp, syndrome, SHMD_DEV_NO_WQE, sharing);
	shmdi_lock_drop(&qp->cq_lock, sharing);
	return rc;
}

#endif
