/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion: how far the NIC has come, and its first error.
 *
 * cqe_ci counts WQEBBs like the producer's indexes: all before it have completed. The NIC completes a send queue in
 * order, so one CQE stands for every WQE before it. The CQE names the first WQEBB of its WQE by 16 bits; WQEs that
 * ask for a CQE cover one WQEBB, and at most 32768 WQEBBs are in flight, so the 64-bit index follows.
 *
 * Collapsed CQ: every CQE lands on entry 0; its last eight bytes are one atomic word, and any number of callers look
 * at it without a lock. Ordinary CQ: entries are consumed under cq_lock by whoever comes first; the others have
 * nothing to do. It cannot overrun, because no more WQEBBs are in flight than it has entries (shmd_dev_sq_window).
 *
 * The CQ carries requester CQEs of this QP only. An error CQE is recorded once and ends this and every later wait. A
 * flush is no error of its own: when the session or the NIC has ended, whose QPs are flushed then, the health word says
 * why, and that is what waits return; else the daemon's word in the QP's dbrec line names the first error.
 */
#ifndef SHMD_DEV_CQ_H
#define SHMD_DEV_CQ_H

#include <shmd/abi/cqe.h>
#include <shmd/abi/dev-state.h>
#include <shmd/abi/doorbell.h>
#include <shmd/dev/annotate.h>
#include <shmd/dev/order.h>

/* Recorded for an error CQE whose syndrome is 0. */
#define SHMD_DEV_SYNDROME_UNKNOWN 0xffu

/* The tail of a CQE: its last four bytes (wqe_counter, signature, op_own) as a little-endian word. */
SHMD_DEV uint32_t shmd_dev_cqe_opcode(uint32_t tail)
{
	return tail >> 28;
}

SHMD_DEV uint32_t shmd_dev_cqe_owner(uint32_t tail)
{
	return (tail >> 24) & SHMD_CQE_OWNER_MASK;
}

SHMD_DEV uint32_t shmd_dev_cqe_counter(uint32_t tail)
{
	return shmd_dev_swap16(tail);
}

SHMD_DEV int shmd_dev_cqe_is_error(uint32_t tail)
{
	uint32_t opcode = shmd_dev_cqe_opcode(tail);

	return opcode == SHMD_CQE_REQ_ERR || opcode == SHMD_CQE_RESP_ERR;
}

SHMD_DEV uint32_t shmd_dev_cqe_tail(uint64_t cqe_addr, int placement)
{
	const uint64_t *last = (const uint64_t *)(uintptr_t)(cqe_addr + 56);

	return (uint32_t)(shmd_dev_cqe_load(last, placement) >> 32);
}

/* How many WQEBBs may be in flight. */
SHMD_DEV uint64_t shmd_dev_sq_window(const struct shmd_dev_qp *qp)
{
	/* All loads before the first branch. */
	uint32_t flags = SHMD_DEV_FIXED(qp->flags);
	uint32_t entries = SHMD_DEV_FIXED(qp->cq_entries);
	uint32_t wqebbs = SHMD_DEV_FIXED(qp->sq_wqebbs);

	return (flags & SHMD_QP_CQ_COLLAPSED) != 0 || entries > wqebbs ? wqebbs : entries;
}

SHMD_DEV int shmd_dev_cq_has_error(const struct shmd_dev_qp *qp, int sharing)
{
	return shmd_dev_flag_load(&qp->error_syndrome, sharing) != 0;
}

/*
 * All before the result have completed, given that all before `done` have and that this CQE is not older than what
 * `done` was made from. A distance no window allows is an old CQE after all; it brings no news.
 */
SHMD_DEV uint64_t shmd_dev_cq_extend(const struct shmd_dev_qp *qp, uint64_t done, uint32_t tail)
{
	uint64_t distance = (shmd_dev_cqe_counter(tail) + 1 - done) & 0xffff;

	return distance <= SHMD_DEV_FIXED(qp->sq_wqebbs) ? done + distance : done;
}

/* The health word has a final value. In error paths only: a trip over PCIe. */
SHMD_DEV int shmd_dev_health_is_final(const struct shmd_dev_qp *qp)
{
	uint64_t addr = SHMD_DEV_FIXED(qp->health_addr);
	uint32_t health = addr ? shmd_dev_health_load(addr) : 0;

	return health != SHMD_HEALTH_OK && health != SHMD_HEALTH_PORT_DOWN;
}

/* The daemon's word on why the QP is in ERR, 8 bits; 0: it says nothing. In error paths and waits for memory only. */
SHMD_DEV uint32_t shmd_dev_cq_told(const struct shmd_dev_qp *qp)
{
	const uint64_t dbrec_addr = SHMD_DEV_FIXED(qp->sq_dbrec_addr) - 4;

	if (!(SHMD_DEV_FIXED(qp->flags) & SHMD_QP_TELLS_ERROR))
		return 0;
	return shmd_dev_nic_load32((const uint32_t *)(uintptr_t)(dbrec_addr + SHMD_QP_ERROR_OFFSET),
				   SHMD_DEV_FIXED(qp->placement)) &
	       0xff;
}

/* Why a QP was flushed: a syndrome, or SHMD_DEV_HEALTH. */
SHMD_DEV_SLOW int shmd_dev_cq_flush_reason(const struct shmd_dev_qp *qp)
{
	uint32_t told;

	if (shmd_dev_health_is_final(qp))
		return SHMD_DEV_HEALTH;
	told = shmd_dev_cq_told(qp);
	return told ? (int)told : (int)SHMD_SYNDROME_WR_FLUSH_ERR;
}

/*
 * With cq_lock held: keep the first error. The index is written before the syndrome that announces it.
 * SHMD_DEV_CQE_ERROR, or SHMD_DEV_HEALTH and nothing is kept.
 */
SHMD_DEV int shmd_dev_cq_keep(struct shmd_dev_qp *qp, uint32_t syndrome, uint32_t wqe_index, int sharing)
{
	if (SHMD_DEV_UNLIKELY(shmd_dev_cq_has_error(qp, sharing)))
		return SHMD_DEV_CQE_ERROR;
	if (syndrome == SHMD_SYNDROME_WR_FLUSH_ERR) {
		int reason = shmd_dev_cq_flush_reason(qp);

		if (reason < 0)
			return reason;
		syndrome = (uint32_t)reason;
	}
	shmd_dev_flag_store(&qp->error_wqe_index, wqe_index, sharing);
	shmd_dev_flag_store(&qp->error_syndrome, syndrome ? syndrome : SHMD_DEV_SYNDROME_UNKNOWN, sharing);
	return SHMD_DEV_CQE_ERROR;
}

/* The same for an error CQE. */
SHMD_DEV_SLOW int shmd_dev_cq_record(struct shmd_dev_qp *qp, uint64_t cqe_addr, uint32_t tail,
				     int sharing)
{
	/* Bytes 48 to 55 of an error CQE; the syndrome is the last. */
	uint64_t word =
		shmd_dev_nic_load64((const uint64_t *)(uintptr_t)(cqe_addr + 48), SHMD_DEV_FIXED(qp->placement));

	return shmd_dev_cq_keep(qp, (uint32_t)(word >> 56), shmd_dev_cqe_counter(tail), sharing);
}

/* `at` is what a loop of looks needs of the constant fields, read once. */
struct shmd_dev_cq_at {
	uint64_t cq_addr;
	int placement;
	int is_collapsed;
};

SHMD_DEV struct shmd_dev_cq_at shmd_dev_cq_at(const struct shmd_dev_qp *qp)
{
	struct shmd_dev_cq_at at;

	at.cq_addr = SHMD_DEV_FIXED(qp->cq_addr);
	at.placement = SHMD_DEV_FIXED(qp->placement);
	at.is_collapsed = (SHMD_DEV_FIXED(qp->flags) & SHMD_QP_CQ_COLLAPSED) != 0;
	return at;
}

SHMD_DEV int shmd_dev_cq_poll_collapsed(struct shmd_dev_qp *qp, const struct shmd_dev_cq_at *at,
					int sharing)
{
	/* The order of the last two loads is what shmd_dev_cq_extend relies on. */
	uint32_t failed = shmd_dev_flag_peek(&qp->error_syndrome, sharing);
	uint64_t done = shmd_dev_index_acquire(&qp->cqe_ci, sharing);
	uint32_t tail = shmd_dev_cqe_tail(at->cq_addr, at->placement);
	uint64_t now;
	int rc;

	/* Tested after all loads have started. */
	if (SHMD_DEV_UNLIKELY(failed))
		return SHMD_DEV_CQE_ERROR;
	if (shmd_dev_cqe_opcode(tail) == SHMD_CQE_INVALID)
		return SHMD_DEV_OK;
	if (SHMD_DEV_UNLIKELY(shmd_dev_cqe_is_error(tail))) {
		/* Someone else is recording it: the next look finds the record. */
		if (!shmd_dev_lock_try(&qp->cq_lock, sharing))
			return SHMD_DEV_OK;
		rc = shmd_dev_cq_record(qp, at->cq_addr, tail, sharing);
		shmd_dev_lock_drop(&qp->cq_lock, sharing);
		return rc;
	}
	now = shmd_dev_cq_extend(qp, done, tail);
	if (now != done)
		shmd_dev_index_raise(&qp->cqe_ci, now, sharing);
	return SHMD_DEV_OK;
}

/* With cq_lock held. */
SHMD_DEV int shmd_dev_cq_consume(struct shmd_dev_qp *qp, int sharing)
{
	uint64_t done = shmd_dev_index_peek(&qp->cqe_ci, sharing);
	uint64_t ci = qp->cq_ci;
	uint64_t end = ci + SHMD_DEV_FIXED(qp->cq_entries);
	int rc = SHMD_DEV_OK;

	for (; ci < end && !rc; ci++) {
		uint64_t slot = ci & (SHMD_DEV_FIXED(qp->cq_entries) - 1);
		uint64_t cqe_addr = SHMD_DEV_FIXED(qp->cq_addr) + slot * SHMD_CQE_BYTES;
		uint32_t tail = shmd_dev_cqe_tail(cqe_addr, SHMD_DEV_FIXED(qp->placement));

		if (shmd_dev_cqe_opcode(tail) == SHMD_CQE_INVALID ||
		    shmd_dev_cqe_owner(tail) != ((ci & SHMD_DEV_FIXED(qp->cq_entries)) != 0))
			break;
		if (shmd_dev_cqe_is_error(tail))
			rc = shmd_dev_cq_record(qp, cqe_addr, tail, sharing);
		else
			done = shmd_dev_cq_extend(qp, done, tail);
	}
	if (ci == qp->cq_ci)
		return rc;
	qp->cq_ci = ci;
	/* The NIC learns that entries are free before anyone may post for them. */
	shmd_dev_dbrec_store(SHMD_DEV_FIXED(qp->cq_dbrec_addr), shmd_dev_swap32((uint32_t)ci & 0xffffff),
			     SHMD_DEV_FIXED(qp->placement));
	shmd_dev_index_publish(&qp->cqe_ci, done, sharing);
	return rc;
}

SHMD_DEV int shmd_dev_cq_poll_ordinary(struct shmd_dev_qp *qp, int sharing)
{
	int rc;

	if (!shmd_dev_lock_try(&qp->cq_lock, sharing))
		return SHMD_DEV_OK;
	rc = shmd_dev_cq_consume(qp, sharing);
	shmd_dev_lock_drop(&qp->cq_lock, sharing);
	return rc;
}

/* Look once and bring cqe_ci up to date. SHMD_DEV_OK, SHMD_DEV_CQE_ERROR, or SHMD_DEV_HEALTH for a flush. */
SHMD_DEV int shmd_dev_cq_poll_at(struct shmd_dev_qp *qp, const struct shmd_dev_cq_at *at, int sharing)
{
	if (SHMD_DEV_LIKELY(at->is_collapsed))
		return shmd_dev_cq_poll_collapsed(qp, at, sharing);
	if (SHMD_DEV_UNLIKELY(shmd_dev_cq_has_error(qp, sharing)))
		return SHMD_DEV_CQE_ERROR;
	return shmd_dev_cq_poll_ordinary(qp, sharing);
}

SHMD_DEV int shmd_dev_cq_poll(struct shmd_dev_qp *qp, int sharing)
{
	struct shmd_dev_cq_at at = shmd_dev_cq_at(qp);

	return shmd_dev_cq_poll_at(qp, &at, sharing);
}

/*
 * Has a QP failed that has nothing on its way? Then no CQE says so, but the daemon's word may. After a look at the CQ,
 * and in waits for memory only: what is on its way ends in a CQE, which says more. SHMD_DEV_OK or what a wait returns.
 */
SHMD_DEV_SLOW int shmd_dev_cq_ask_idle(struct shmd_dev_qp *qp, int sharing)
{
	uint32_t syndrome;
	int rc;

	if (shmd_dev_index_acquire(&qp->cqe_ci, sharing) < shmd_dev_index_peek(&qp->sq_ready_index, sharing))
		return SHMD_DEV_OK;
	syndrome = shmd_dev_cq_told(qp);
	if (SHMD_DEV_LIKELY(!syndrome) || !shmd_dev_lock_try(&qp->cq_lock, sharing))
		return SHMD_DEV_OK;
	rc = shmd_dev_cq_keep(qp, syndrome, SHMD_DEV_NO_WQE, sharing);
	shmd_dev_lock_drop(&qp->cq_lock, sharing);
	return rc;
}

#endif
