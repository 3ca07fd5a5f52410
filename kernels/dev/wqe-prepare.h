/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building WQEs in the send ring.
 *
 * Each prepare function writes one WQE at an index that the caller has reserved and not yet made ready. It reads only the
 * constant fields of the QP and changes no index.
 *
 * Flags are the bits of fm_ce_se (SHMD_WQE_*). A WQE that asks for a CQE (SHMD_WQE_CE_ALWAYS) covers exactly one
 * WQEBB: the CQE names the first WQEBB only, and pollers take it for the last. shmd_dev_prepare_masked_cs64 covers
 * two and therefore drops the bit; a NOP behind it carries it.
 *
 * A WQE of a DCI (shmd_dev_wqe_to) has the peer's address vector, 48 bytes, behind its control segment. The two fill
 * its first WQEBB, and the other segments are in the second: every request covers two WQEBBs (SHMD_DEV_DC_WQEBBS) and
 * drops the bit.
 */
#ifndef SHMD_DEV_WQE_PREPARE_H
#define SHMD_DEV_WQE_PREPARE_H

#include <shmd/abi/dev-state.h>
#include <shmd/abi/wqe.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/args.h>
#include <shmd/dev/impl/wqe-ring.h>

/* ---- requests -------------------------------------------------------------------------------------------- */

/* The NIC ignores everything behind the control segment of a NOP, so a DCI's NOP has no address vector. */
SHMDI_FN void shmd_dev_prepare_nop(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe)
{
	wqe.av = 0;
	(void)shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_NOP, 1);
}

/* bytes 1..SHMD_DEV_MAX_REQUEST_BYTES, here and in write_imm and read; write_imm also takes 0. */
SHMDI_FN void shmd_dev_prepare_write(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				     struct shmd_dev_addr remote, struct shmd_dev_addr local,
				     uint64_t bytes)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_RDMA_WRITE, 3);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_data(wqebb, 2, local, bytes);
}

SHMDI_FN void shmd_dev_prepare_write_imm(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					 struct shmd_dev_addr remote, struct shmd_dev_addr local,
					 uint64_t bytes)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_RDMA_WRITE_IMM, bytes ? 3 : 2);
	shmdi_put_raddr(wqebb, remote);
	/* A zero count means 2^31 bytes to the hardware. */
	if (bytes)
		shmdi_put_data(wqebb, 2, local, bytes);
}

/* bytes 1, 2, 4 or 8, in the lowest bytes of value. */
SHMDI_FN void shmd_dev_prepare_write_value(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					   struct shmd_dev_addr remote, uint64_t value,
					   uint32_t bytes)
{
	struct shmdi_ring ring = shmdi_ring_of(qp);

	shmdi_ring_write_value(&ring, wqe, remote, value, bytes);
}

/* Copies the payload from the caller's memory now: bytes 1..max_inline_bytes of the QP. */
SHMDI_FN void shmd_dev_prepare_write_inline(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					    struct shmd_dev_addr remote, const void *data,
					    uint32_t bytes)
{
	uint64_t wqebb;
	uint64_t word[4] = {0, 0, 0, 0};
	uint32_t i;

	word[0] = shmdi_swap32(SHMD_INLINE_SEG | bytes);
	for (i = 0; i < bytes; i++)
		word[(i + 4) / 8] |= (uint64_t)((const uint8_t *)data)[i] << (i + 4) % 8 * 8;
	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_RDMA_WRITE, bytes > 12 ? 4 : 3);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, word[0], word[1]);
	if (bytes > 12)
		shmdi_put_ds(wqebb, 3, word[2], word[3]);
}

SHMDI_FN void shmd_dev_prepare_read(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				    struct shmd_dev_addr remote, struct shmd_dev_addr local,
				    uint64_t bytes)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_RDMA_READ, 3);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_data(wqebb, 2, local, bytes);
}

/* bytes 0..SHMD_DEV_MAX_REQUEST_BYTES. */
SHMDI_FN void shmd_dev_prepare_send(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
				    struct shmd_dev_addr local, uint64_t bytes)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_SEND, bytes ? 2 : 1);
	if (bytes)
		shmdi_put_data(wqebb, 1, local, bytes);
}

SHMDI_FN void shmd_dev_prepare_send_imm(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					struct shmd_dev_addr local, uint64_t bytes)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_SEND_IMM, bytes ? 2 : 1);
	if (bytes)
		shmdi_put_data(wqebb, 1, local, bytes);
}

/* ---- atomics: the old contents of the remote word go to `result` (byte order: SHMD_ATOMIC_RESULT_*) ------- */

SHMDI_FN void shmd_dev_prepare_atomic_fa(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					 struct shmd_dev_addr remote, struct shmd_dev_addr result,
					 uint64_t add)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_ATOMIC_FA, 4);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, shmdi_swap64(add), 0);
	shmdi_put_data(wqebb, 3, result, 8);
}

SHMDI_FN void shmd_dev_prepare_atomic_cs(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					 struct shmd_dev_addr remote, struct shmd_dev_addr result,
					 uint64_t swap, uint64_t compare)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe, SHMD_OPCODE_ATOMIC_CS, 4);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, shmdi_swap64(swap), shmdi_swap64(compare));
	shmdi_put_data(wqebb, 3, result, 8);
}

/* Set bits of the boundary stop the carry out of that bit; all ones makes it an exclusive or. */
SHMDI_FN void shmd_dev_prepare_masked_fa32(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					   struct shmd_dev_addr remote, struct shmd_dev_addr result,
					   uint32_t add, uint32_t boundary)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe,
			       SHMD_OPMOD_EXT_ATOMIC_4 << 24 | SHMD_OPCODE_ATOMIC_MASKED_FA, 4);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, shmdi_pair32(add, boundary), 0);
	shmdi_put_data(wqebb, 3, result, 4);
}

SHMDI_FN void shmd_dev_prepare_masked_fa64(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					   struct shmd_dev_addr remote, struct shmd_dev_addr result,
					   uint64_t add, uint64_t boundary)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe,
			       SHMD_OPMOD_EXT_ATOMIC_8 << 24 | SHMD_OPCODE_ATOMIC_MASKED_FA, 4);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, shmdi_swap64(add), shmdi_swap64(boundary));
	shmdi_put_data(wqebb, 3, result, 8);
}

SHMDI_FN void shmd_dev_prepare_masked_cs32(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					   struct shmd_dev_addr remote, struct shmd_dev_addr result,
					   struct shmd_dev_masked_cs cs)
{
	uint64_t wqebb;

	wqebb = shmdi_put_ctrl(qp, wqe,
			       SHMD_OPMOD_EXT_ATOMIC_4 << 24 | SHMD_OPCODE_ATOMIC_MASKED_CS, 4);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, shmdi_pair32(cs.swap, cs.compare),
		     shmdi_pair32(cs.swap_mask, cs.compare_mask));
	shmdi_put_data(wqebb, 3, result, 4);
}

/* Two WQEBBs; the second holds the data segment at least. Never asks for a CQE: see the head of this file. */
SHMDI_FN void shmd_dev_prepare_masked_cs64(const struct shmd_dev_qp *qp, struct shmd_dev_wqe wqe,
					   struct shmd_dev_addr remote, struct shmd_dev_addr result,
					   struct shmd_dev_masked_cs cs)
{
	struct shmdi_ring ring = shmdi_ring_of(qp);
	uint64_t next = shmdi_wqebb_addr(&ring, wqe.index + 1);
	uint64_t wqebb;

	wqe.flags = (uint8_t)(wqe.flags & ~SHMD_WQE_CE_MASK);
	wqebb = shmdi_put_ctrl(qp, wqe,
			       SHMD_OPMOD_EXT_ATOMIC_8 << 24 | SHMD_OPCODE_ATOMIC_MASKED_CS, 5);
	shmdi_put_raddr(wqebb, remote);
	shmdi_put_ds(wqebb, 2, shmdi_swap64(cs.swap), shmdi_swap64(cs.compare));
	shmdi_put_ds(wqebb, 3, shmdi_swap64(cs.swap_mask), shmdi_swap64(cs.compare_mask));
	if (wqe.av)
		shmdi_put_data(wqebb, 4, result, 8);
	else
		shmdi_put_data(next, 0, result, 8);
}

#endif
