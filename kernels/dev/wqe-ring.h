/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WQEs as units in the send ring: what the prepare functions of wqe-prepare.h are made of.
 *
 * A WQE is written in units of 16 bytes ("ds"); the WQEBBs of one that has several are addressed one by one, because
 * the ring may end between them.
 */
#ifndef SHMD_DEV_WQE_RING_H
#define SHMD_DEV_WQE_RING_H

#include <shmd/abi/dev-state.h>
#include <shmd/abi/wqe.h>
#include <shmd/dev/annotate.h>
#include <shmd/dev/args.h>
#include <shmd/dev/order.h>

#define SHMD_DEV_AV_DS 3u

/* ---- segments -------------------------------------------------------------------------------------------- */

/* The constant fields that writing a WQE needs. */
struct shmd_dev_ring {
	uint64_t sq_addr;
	uint32_t wqebbs;
	uint32_t qpn;
};

SHMD_DEV struct shmd_dev_ring shmd_dev_ring_of(const struct shmd_dev_qp *qp)
{
	struct shmd_dev_ring ring;

	ring.sq_addr = SHMD_DEV_FIXED(qp->sq_addr);
	ring.wqebbs = SHMD_DEV_FIXED(qp->sq_wqebbs);
	ring.qpn = SHMD_DEV_FIXED(qp->qpn);
	return ring;
}

/* Where the WQEBB of an index is. Computed once for a WQE: stores to the ring make the compiler forget the QP. */
SHMD_DEV uint64_t shmd_dev_wqebb_addr(const struct shmd_dev_ring *ring, uint64_t index)
{
	return ring->sq_addr + ((index & (ring->wqebbs - 1)) << SHMD_WQEBB_SHIFT);
}

/* Unit `ds`, 0 to 3, of a WQEBB. */
SHMD_DEV void shmd_dev_put_ds(uint64_t wqebb, uint32_t ds, uint64_t lo, uint64_t hi)
{
	shmd_dev_ring_store((void *)(uintptr_t)(wqebb + ds * SHMD_DS_BYTES), lo, hi);
}

/* The same with an address vector, of a DCI: control segment and vector are the first WQEBB. */
SHMD_DEV uint64_t shmd_dev_ring_ctrl_av(const struct shmd_dev_ring *ring, const struct shmd_dev_wqe *wqe,
					uint32_t what, uint32_t n_ds)
{
	uint64_t wqebb = shmd_dev_wqebb_addr(ring, wqe->index);
	uint32_t dword0 = what | (uint32_t)(wqe->index & 0xffff) << 8;
	uint32_t dword1 = ring->qpn << 8 | (n_ds + SHMD_DEV_AV_DS);
	uint64_t imm_be = shmd_dev_swap32(wqe->imm);
	uint64_t flags = wqe->flags & ~SHMD_WQE_CE_MASK;

	shmd_dev_put_ds(wqebb, 0, shmd_dev_swap64((uint64_t)dword0 << 32 | dword1), flags << 24 | imm_be << 32);
	shmd_dev_put_ds(wqebb, 1, wqe->av->word[0], wqe->av->word[1]);
	shmd_dev_put_ds(wqebb, 2, wqe->av->word[2], wqe->av->word[3]);
	shmd_dev_put_ds(wqebb, 3, wqe->av->word[4], wqe->av->word[5]);
	/* Unit 1 of the rest is the first of the next WQEBB. */
	return shmd_dev_wqebb_addr(ring, wqe->index + 1) - SHMD_DS_BYTES;
}

/*
 * struct shmd_wqe_ctrl_seg, and the address that the units behind it are counted from, the first of which is 1; `what`
 * is opmod << 24 | opcode. Units are those of a connected QP: an address vector is added here.
 */
SHMD_DEV uint64_t shmd_dev_ring_ctrl(const struct shmd_dev_ring *ring, struct shmd_dev_wqe wqe,
				     uint32_t what, uint32_t n_ds)
{
	uint64_t wqebb = shmd_dev_wqebb_addr(ring, wqe.index);
	uint32_t dword0 = what | (uint32_t)(wqe.index & 0xffff) << 8;
	uint32_t dword1 = ring->qpn << 8 | n_ds;
	uint64_t imm_be = shmd_dev_swap32(wqe.imm);

	if (wqe.av)
		return shmd_dev_ring_ctrl_av(ring, &wqe, what, n_ds);
	shmd_dev_put_ds(wqebb, 0, shmd_dev_swap64((uint64_t)dword0 << 32 | dword1),
			(uint64_t)wqe.flags << 24 | imm_be << 32);
	return wqebb;
}

SHMD_DEV uint64_t shmd_dev_put_ctrl(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				    uint32_t what, uint32_t n_ds)
{
	struct shmd_dev_ring ring = shmd_dev_ring_of(qp);

	return shmd_dev_ring_ctrl(&ring, wqe, what, n_ds);
}

/* struct shmd_wqe_raddr_seg, always unit 1. */
SHMD_DEV void shmd_dev_put_raddr(uint64_t wqebb, struct shmd_dev_addr remote)
{
	shmd_dev_put_ds(wqebb, 1, shmd_dev_swap64(remote.iova),
			(SHMD_DEV_FORCE uint32_t)remote.key_be);
}

/* struct shmd_wqe_data_seg. */
SHMD_DEV void shmd_dev_put_data(uint64_t wqebb, uint32_t ds, struct shmd_dev_addr local,
				uint64_t bytes)
{
	uint64_t key_be = (SHMD_DEV_FORCE uint32_t)local.key_be;

	shmd_dev_put_ds(wqebb, ds, shmd_dev_swap32((uint32_t)bytes) | key_be << 32,
			shmd_dev_swap64(local.iova));
}

/* Two 32-bit operands, big-endian. */
SHMD_DEV uint64_t shmd_dev_pair32(uint64_t first, uint64_t second)
{
	return shmd_dev_swap64(first << 32 | (second & 0xffffffffu));
}

/* bytes 1, 2, 4 or 8, in the lowest bytes of value. */
SHMD_DEV void shmd_dev_ring_write_value(const struct shmd_dev_ring *ring, struct shmd_dev_wqe wqe,
					struct shmd_dev_addr remote, uint64_t value, uint32_t bytes)
{
	uint64_t wqebb;
	uint64_t head_be = shmd_dev_swap32(SHMD_INLINE_SEG | bytes);

	if (bytes < 8)
		value &= (1ull << (8 * bytes)) - 1;
	wqebb = shmd_dev_ring_ctrl(ring, wqe, SHMD_OPCODE_RDMA_WRITE, 3);
	shmd_dev_put_raddr(wqebb, remote);
	shmd_dev_put_ds(wqebb, 2, head_be | value << 32, value >> 32);
}

#endif
