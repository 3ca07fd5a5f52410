/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch slots: the NIC writes the results of fetching operations there.
 *
 * A WQE's slot follows from its index, like its place in the ring, so the NIC is done with a slot when the index comes
 * round again. A slow thread may still have to read it: among several callers, a caller takes the slot (slot_busy)
 * before it posts and drops it after it has read the result. A caller that wants no result only waits for the slot to be
 * free, because its result would overwrite one that is wanted.
 */
#ifndef SHMDI_SCRATCH_H
#define SHMDI_SCRATCH_H

#include <shmd/abi/dev-state.h>
#include <shmd/abi/wqe.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/args.h>
#include <shmd/dev/impl/order.h>
#include <shmd/dev/impl/wait.h>

SHMDI_FN uint64_t shmdi_slot_of(const struct shmd_dev_qp *qp, uint64_t index)
{
	return index & (SHMDI_FIXED(qp->sq_wqebbs) - 1);
}

SHMDI_FN struct shmd_dev_addr shmdi_slot_addr(const struct shmd_dev_qp *qp, uint64_t index)
{
	return shmd_dev_addr_of(SHMDI_FIXED(qp->scratch_iova) +
					shmdi_slot_of(qp, index) * SHMD_SCRATCH_SLOT_BYTES,
				SHMDI_FIXED(qp->scratch_lkey_be));
}

SHMDI_FN uint32_t *shmdi_slot_busy(const struct shmd_dev_qp *qp, uint64_t index)
{
	return (uint32_t *)(uintptr_t)SHMDI_FIXED(qp->slot_busy_addr) + shmdi_slot_of(qp, index);
}

/* Take the slot, or check that it is free when the result is not wanted. */
SHMDI_FN int shmdi_slot_try(struct shmd_dev_qp *qp, uint64_t index, int sharing, int wanted)
{
	uint32_t *busy = shmdi_slot_busy(qp, index);

	return wanted ? shmdi_lock_try(busy, sharing) : !shmdi_flag_load(busy, sharing);
}

SHMDI_SLOW int shmdi_slot_wait(struct shmd_dev_qp *qp, uint64_t index, int sharing,
			       int wanted)
{
	struct shmdi_wait wait;
	int rc;

	shmdi_wait_init(&wait, qp, shmdi_post_timeout(qp));
	while (!shmdi_slot_try(qp, index, sharing, wanted)) {
		rc = shmdi_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_slot_take(struct shmd_dev_qp *qp, uint64_t index, int sharing, int wanted)
{
	if (sharing == SHMD_SHARING_EXCLUSIVE ||
	    SHMDI_LIKELY(shmdi_slot_try(qp, index, sharing, wanted)))
		return SHMD_DEV_OK;
	return shmdi_slot_wait(qp, index, sharing, wanted);
}

SHMDI_FN void shmdi_slot_drop(struct shmd_dev_qp *qp, uint64_t index, int sharing)
{
	shmdi_lock_drop(shmdi_slot_busy(qp, index), sharing);
}

/* After the request's completion: the `bytes` (1 to 8) that the NIC wrote, zero-extended. */
SHMDI_FN uint64_t shmdi_slot_read(const struct shmd_dev_qp *qp, uint64_t index, uint32_t bytes)
{
	uint64_t addr =
		SHMDI_FIXED(qp->scratch_addr) + shmdi_slot_of(qp, index) * SHMD_SCRATCH_SLOT_BYTES;
	uint64_t v = shmdi_nic_load64((const uint64_t *)(uintptr_t)addr, SHMDI_FIXED(qp->placement));

	return bytes < 8 ? v & ((1ull << (8 * bytes)) - 1) : v;
}

/* The same for the result of an atomic. */
SHMDI_FN uint64_t shmdi_slot_read_atomic(const struct shmd_dev_qp *qp, uint64_t index,
					 uint32_t bytes)
{
	uint64_t v = shmdi_slot_read(qp, index, bytes);

	if (bytes == 4)
		return SHMD_ATOMIC_RESULT_4_IS_BE ? shmdi_swap32((uint32_t)v) : v;
	return SHMDI_UNLIKELY(SHMDI_FIXED(qp->flags) & SHMD_QP_ATOMIC_8_BE) ? shmdi_swap64(v) : v;
}

#endif
