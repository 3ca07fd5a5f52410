/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where results of fetching operations land: scratch slots.
 *
 * A WQE's slot follows from its index, as its place in the ring does; so a slot is the NIC's no longer when its index
 * comes round again. It may still be the last reader's, whose thread is slow: among several callers a slot is taken
 * (slot_busy) before the request is posted and dropped after the result was read. A request whose result nobody wants
 * waits for the slot only, since its result would overwrite one that is wanted.
 */
#ifndef SHMD_DEV_SCRATCH_H
#define SHMD_DEV_SCRATCH_H

#include <shmd/abi/dev-state.h>
#include <shmd/abi/wqe.h>
#include <shmd/dev/annotate.h>
#include <shmd/dev/args.h>
#include <shmd/dev/order.h>
#include <shmd/dev/wait.h>

SHMD_DEV uint64_t shmd_dev_slot_of(const struct shmd_dev_qp *qp, uint64_t index)
{
	return index & (SHMD_DEV_FIXED(qp->sq_wqebbs) - 1);
}

SHMD_DEV struct shmd_dev_addr shmd_dev_slot_addr(const struct shmd_dev_qp *qp, uint64_t index)
{
	return shmd_dev_addr_of(SHMD_DEV_FIXED(qp->scratch_iova) +
					shmd_dev_slot_of(qp, index) * SHMD_SCRATCH_SLOT_BYTES,
				SHMD_DEV_FIXED(qp->scratch_lkey_be));
}

SHMD_DEV uint32_t *shmd_dev_slot_busy(const struct shmd_dev_qp *qp, uint64_t index)
{
	return (uint32_t *)(uintptr_t)SHMD_DEV_FIXED(qp->slot_busy_addr) + shmd_dev_slot_of(qp, index);
}

/* Take the slot, or (for a result nobody wants) only find it free. */
SHMD_DEV int shmd_dev_slot_try(struct shmd_dev_qp *qp, uint64_t index, int sharing, int wanted)
{
	uint32_t *busy = shmd_dev_slot_busy(qp, index);

	return wanted ? shmd_dev_lock_try(busy, sharing) : !shmd_dev_flag_load(busy, sharing);
}

SHMD_DEV_SLOW int shmd_dev_slot_wait(struct shmd_dev_qp *qp, uint64_t index, int sharing,
				     int wanted)
{
	struct shmd_dev_wait wait;
	int rc;

	shmd_dev_wait_init(&wait, qp, shmd_dev_post_timeout(qp));
	while (!shmd_dev_slot_try(qp, index, sharing, wanted)) {
		rc = shmd_dev_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

SHMD_DEV int shmd_dev_slot_take(struct shmd_dev_qp *qp, uint64_t index, int sharing, int wanted)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE ||
	    SHMD_DEV_LIKELY(shmd_dev_slot_try(qp, index, sharing, wanted)))
		return SHMD_DEV_OK;
	return shmd_dev_slot_wait(qp, index, sharing, wanted);
}

SHMD_DEV void shmd_dev_slot_drop(struct shmd_dev_qp *qp, uint64_t index, int sharing)
{
	shmd_dev_lock_drop(shmd_dev_slot_busy(qp, index), sharing);
}

/* After the request's completion. `bytes` as the NIC wrote them, 1 to 8, zero-extended. */
SHMD_DEV uint64_t shmd_dev_slot_read(const struct shmd_dev_qp *qp, uint64_t index, uint32_t bytes)
{
	uint64_t addr =
		SHMD_DEV_FIXED(qp->scratch_addr) + shmd_dev_slot_of(qp, index) * SHMD_SCRATCH_SLOT_BYTES;
	uint64_t v = shmd_dev_nic_load64((const uint64_t *)(uintptr_t)addr, SHMD_DEV_FIXED(qp->placement));

	return bytes < 8 ? v & ((1ull << (8 * bytes)) - 1) : v;
}

/* The same for the result of an atomic. */
SHMD_DEV uint64_t shmd_dev_slot_read_atomic(const struct shmd_dev_qp *qp, uint64_t index,
					    uint32_t bytes)
{
	uint64_t v = shmd_dev_slot_read(qp, index, bytes);

	if (bytes == 4)
		return SHMD_ATOMIC_RESULT_4_IS_BE ? shmd_dev_swap32((uint32_t)v) : v;
	return SHMD_DEV_UNLIKELY(SHMD_DEV_FIXED(qp->flags) & SHMD_QP_ATOMIC_8_BE) ? shmd_dev_swap64(v) : v;
}

#endif
