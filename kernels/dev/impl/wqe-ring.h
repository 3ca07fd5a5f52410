/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WQEs as units in the send ring: the building blocks of the prepare functions in wqe-prepare.h.
 *
 * A WQE is written in units of 16 bytes ("ds"); the WQEBBs of one that has several are addressed one by one, because
 * the ring may end between them.
 */
#ifndef SHMDI_WQE_RING_H
#define SHMDI_WQE_RING_H

#include <shmd/abi/dev-state.h>
#include <shmd/abi/wqe.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/args.h>
#include <shmd/dev/impl/order.h>

#define SHMDI_AV_DS 3u

/* ---- segments -------------------------------------------------------------------------------------------- */

/* The constant fields that writing a WQE needs. */
struct shmdi_ring {
	uint64_t sq_addr;
	uint32_t wqebbs;
	uint32_t qpn;
};

SHMDI_FN struct shmdi_ring shmdi_ring_of(const struct shmd_dev_qp *qp)
{
	struct shmdi_ring ring;

	ring.sq_addr = SHMDI_FIXED(qp->sq_addr);
	ring.wqebbs = SHMDI_FIXED(qp->sq_wqebbs);
	ring.qpn = SHMDI_FIXED(qp->qpn);
	return ring;
}

/* The address of an index's WQEBB. Computed once per WQE, since stores to the ring make the compiler reload the QP. */
SHMDI_FN uint64_t shmdi_wqebb_addr(const struct shmdi_ring *ring, uint64_t index)
{
	return ring->sq_addr + ((index & (ring->wqebbs - 1)) << SHMD_WQEBB_SHIFT);
}

/* Unit `ds`, 0 to 3, of a WQEBB. */
SHMDI_FN void shmdi_put_ds(uint64_t wqebb, uint32_t ds, uint64_t lo, uint64_t hi)
{
	shmdi_ring_store((void *)(uintptr_t)(wqebb + ds * SHMD_DS_BYTES), lo, hi);
}

/* The control segment and the address vector of a DCI's WQE, which fill its first WQEBB. */
SHMDI_FN uint64_t shmdi_ring_ctrl_av(const struct shmdi_ring *ring, const struct shmd_dev_wqe *wqe,
				     uint32_t what, uint32_t n_ds)
{
	uint64_t wqebb = shmdi_wqebb_addr(ring, wqe->index);
	uint32_t dword0 = what | (uint32_t)(wqe->index & 0xffff) << 8;
	uint32_t dword1 = ring->qpn << 8 | (n_ds + SHMDI_AV_DS);
	uint64_t imm_be = shmdi_swap32(wqe->imm);
	uint64_t flags = wqe->flags & ~SHMD_WQE_CE_MASK;

	shmdi_put_ds(wqebb, 0, shmdi_swap64((uint64_t)dword0 << 32 | dword1), flags << 24 | imm_be << 32);
	shmdi_put_ds(wqebb, 1, wqe->av->word[0], wqe->av->word[1]);
	shmdi_put_ds(wqebb, 2, wqe->av->word[2], wqe->av->word[3]);
	shmdi_put_ds(wqebb, 3, wqe->av->word[4], wqe->av->word[5]);
	/* Unit 1 of the rest is the first of the next WQEBB. */
	return shmdi_wqebb_addr(ring, wqe->index + 1) - SHMD_DS_BYTES;
}

/*
 * Write struct shmd_wqe_ctrl_seg and return the address from which the units behind it count, beginning with 1. `what` is
 * opmod << 24 | opcode. n_ds counts the units of a connected QP; this adds those of an address vector.
 */
SHMDI_FN uint64_t shmdi_ring_ctrl(const struct shmdi_ring *ring, struct shmd_dev_wqe wqe,
				  uint32_t what, uint32_t n_ds)
{
	uint64_t wqebb = shmdi_wqebb_addr(ring, wqe.index);
	uint32_t dword0 = what | (uint32_t)(wqe.index & 0xffff) << 8;
	uint32_t dword1 = ring->qpn << 8 | n_ds;
	uint64_t imm_be = shmdi_swap32(wqe.imm);

	if (wqe.av)
		return shmdi_ring_ctrl_av(ring, &wqe, what, n_ds);
	shmdi_put_ds(wqebb, 0, shmdi_swap64((uint64_t)dword0 << 32 | dword1),
		     (uint64_t)wqe.flags << 24 | imm_be << 32);
	return wqebb;
}

SHMDI_FN uint64_t shmdi_put_ctrl(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				 uint32_t what, uint32_t n_ds)
{
	struct shmdi_ring ring = shmdi_ring_of(qp);

	return shmdi_ring_ctrl(&ring, wqe, what, n_ds);
}

/* struct shmd_wqe_raddr_seg, always unit 1. */
SHMDI_FN void shmdi_put_raddr(uint64_t wqebb, struct shmd_dev_addr remote)
{
	shmdi_put_ds(wqebb, 1, shmdi_swap64(remote.iova),
		     (SHMDI_FORCE uint32_t)remote.key_be);
}

/* struct shmd_wqe_data_seg. */
SHMDI_FN void shmdi_put_data(uint64_t wqebb, uint32_t ds, struct shmd_dev_addr local,
			     uint64_t bytes)
{
	uint64_t key_be = (SHMDI_FORCE uint32_t)local.key_be;

	shmdi_put_ds(wqebb, ds, shmdi_swap32((uint32_t)bytes) | key_be << 32,
		     shmdi_swap64(local.iova));
}

/* Two 32-bit operands, big-endian. */
SHMDI_FN uint64_t shmdi_pair32(uint64_t first, uint64_t second)
{
	return shmdi_swap64(first << 32 | (second & 0xffffffffu));
}

/* bytes 1, 2, 4 or 8, in the lowest bytes of value. */
SHMDI_FN void shmdi_ring_write_value(const struct shmdi_ring *ring, struct shmd_dev_wqe wqe,
				     struct shmd_dev_addr remote, uint64_t value, uint32_t bytes)
{
	uint64_t wqebb;
	uint64_t head_be = shmdi_swap32(SHMD_INLINE_SEG | bytes);

	if (bytes < 8)
		value &= (1ull << (8 * bytes)) - 1;
	wqebb = shmdi_ring_ctrl(ring, wqe, SHMD_OPCODE_RDMA_WRITE, 3);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, head_be | value << 32, value >> 32);
}

#endif
