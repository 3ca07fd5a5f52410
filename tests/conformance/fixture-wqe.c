/* SPDX-License-Identifier: Apache-2.0 */
/* Writes WQEs from the layouts of <shmd/abi/wqe.h>, independently of the device functions. */
#include "tests/conformance/conf.h"

#include <string.h>

void conf_wqe_init(struct conf_wqe *wqe, uint8_t opcode)
{
	memset(wqe, 0, sizeof(*wqe));
	wqe->opcode = opcode;
	wqe->fm_ce_se = SHMD_WQE_CE_ALWAYS;
	wqe->ds_written = -1;
	wqe->ds = 1;
}

void conf_wqe_segment(struct conf_wqe *wqe, const void *segment, size_t bytes)
{
	ASSERT_LE(wqe->ds * SHMD_DS_BYTES + bytes, sizeof(wqe->bytes));
	memcpy(wqe->bytes + wqe->ds * SHMD_DS_BYTES, segment, bytes);
	wqe->ds += (bytes + SHMD_DS_BYTES - 1) / SHMD_DS_BYTES;
	ASSERT_LE(wqe->ds, SHMD_WQE_MAX_DS);
}

void conf_wqe_raddr(struct conf_wqe *wqe, uint64_t raddr, shmd_be32 rkey_be)
{
	struct shmd_wqe_raddr_seg seg = {.raddr = htobe64(raddr), .rkey = rkey_be};

	conf_wqe_segment(wqe, &seg, sizeof(seg));
}

void conf_wqe_data(struct conf_wqe *wqe, uint64_t addr, uint32_t bytes, shmd_be32 lkey_be)
{
	struct shmd_wqe_data_seg seg = {
		.byte_count = htobe32(bytes), .lkey = lkey_be, .addr = htobe64(addr)};

	conf_wqe_segment(wqe, &seg, sizeof(seg));
}

void conf_wqe_inline(struct conf_wqe *wqe, const void *data, size_t bytes)
{
	uint8_t seg[SHMD_WQE_MAX_WQEBBS * SHMD_WQEBB_BYTES] = {0};
	struct shmd_wqe_inline_seg head = {.byte_count =
						   htobe32(SHMD_INLINE_SEG | (uint32_t)bytes)};

	ASSERT_LE(sizeof(head) + bytes, sizeof(seg));
	memcpy(seg, &head, sizeof(head));
	memcpy(seg + sizeof(head), data, bytes);
	conf_wqe_segment(wqe, seg, sizeof(head) + bytes);
}

unsigned int conf_wqe_wqebbs(const struct conf_wqe *wqe)
{
	return (wqe->ds + 3u) / 4u;
}

static uint64_t addr_of(const struct conf_mem *mem, size_t off)
{
	return (uintptr_t)mem->addr + off;
}

static void local_data(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t bytes)
{
	const struct conf_mem *mem = &qp->side->mem;

	if (bytes)
		conf_wqe_data(wqe, addr_of(mem, loc), (uint32_t)bytes, mem->lkey_be);
}

static void remote_data(struct conf_wqe *wqe, const struct conf_qp *qp, size_t rem)
{
	const struct conf_mem *mem = &qp->peer->side->mem;

	conf_wqe_raddr(wqe, addr_of(mem, rem), mem->rkey_be);
}

void conf_nop(struct conf_wqe *wqe)
{
	conf_wqe_init(wqe, SHMD_OPCODE_NOP);
}

void conf_write(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem,
		size_t bytes)
{
	conf_wqe_init(wqe, SHMD_OPCODE_RDMA_WRITE);
	remote_data(wqe, qp, rem);
	local_data(wqe, qp, loc, bytes);
}

void conf_write_inline(struct conf_wqe *wqe, const struct conf_qp *qp, const void *data,
		       size_t bytes, size_t rem)
{
	conf_wqe_init(wqe, SHMD_OPCODE_RDMA_WRITE);
	remote_data(wqe, qp, rem);
	conf_wqe_inline(wqe, data, bytes);
}

void conf_read(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem, size_t bytes)
{
	conf_wqe_init(wqe, SHMD_OPCODE_RDMA_READ);
	remote_data(wqe, qp, rem);
	local_data(wqe, qp, loc, bytes);
}

void conf_send(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t bytes)
{
	conf_wqe_init(wqe, SHMD_OPCODE_SEND);
	local_data(wqe, qp, loc, bytes);
}

static void atomic(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem,
		   const struct shmd_wqe_atomic_seg *seg)
{
	remote_data(wqe, qp, rem);
	conf_wqe_segment(wqe, seg, sizeof(*seg));
	local_data(wqe, qp, loc, 8);
}

void conf_fetch_add(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem,
		    uint64_t add)
{
	struct shmd_wqe_atomic_seg seg = {.swap_add = htobe64(add)};

	conf_wqe_init(wqe, SHMD_OPCODE_ATOMIC_FA);
	atomic(wqe, qp, loc, rem, &seg);
}

void conf_compare_swap(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem,
		       uint64_t compare, uint64_t swap)
{
	struct shmd_wqe_atomic_seg seg = {.swap_add = htobe64(swap), .compare = htobe64(compare)};

	conf_wqe_init(wqe, SHMD_OPCODE_ATOMIC_CS);
	atomic(wqe, qp, loc, rem, &seg);
}
