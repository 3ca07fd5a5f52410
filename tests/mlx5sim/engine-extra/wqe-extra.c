/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WQEs of XRC and raw packet QPs, and UMRs that change what a key leads to, nothing of signatures or encryption.
 * No state, no allocation: any thread.
 */
#include <endian.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "tests/mlx5sim/engine-extra/wqe-extra.h"

/* The rest of the WQE. */
struct cursor {
	const uint8_t *at;
	size_t bytes;
};

static const void *take(struct cursor *cur, size_t bytes)
{
	const void *seg = cur->at;

	if (bytes > cur->bytes)
		return NULL;
	cur->at += bytes;
	cur->bytes -= bytes;
	return seg;
}

static uint32_t load32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t load64(const void *p)
{
	return (uint64_t)load32(p) << 32 | load32((const uint8_t *)p + 4);
}

static unsigned int opcode_of(const void *wqe, size_t bytes)
{
	return bytes < SHMD_DS_BYTES ? SHMD_OPCODE_NOP : load32(wqe) & 0xff;
}

/* libmlx5 puts no XRC segment into a UMR. */
int wqe_parse_xrc(const void *wqe, size_t bytes, struct wqe_request *ret_req)
{
	const uint8_t *seg = (const uint8_t *)wqe + sizeof(struct shmd_wqe_ctrl_seg);
	bool has_seg = opcode_of(wqe, bytes) != SHMD_OPCODE_UMR;
	int r = wqe_parse_behind(wqe, bytes, has_seg ? sizeof(struct shmd_wqe_xrc_seg) : 0, ret_req);

	if (!r && has_seg && ret_req->opcode != SHMD_OPCODE_NOP)
		ret_req->xrc_srqn = load32(seg) & 0xffffff;
	return r;
}

int wqe_parse_eth(const void *wqe, size_t bytes, struct wqe_request *ret_req)
{
	size_t at = sizeof(struct shmd_wqe_ctrl_seg), skip = sizeof(struct shmd_wqe_eth_seg);
	struct shmd_wqe_eth_seg seg;
	uint16_t header_bytes;

	if (opcode_of(wqe, bytes) != SHMD_OPCODE_NOP && bytes >= at + skip) {
		memcpy(&seg, (const uint8_t *)wqe + at, sizeof(seg));
		memcpy(&header_bytes, &seg.inline_hdr_bytes, sizeof(header_bytes));
		header_bytes = be16toh(header_bytes);
		/* bounded: 16 bits. */
		if (header_bytes > sizeof(seg.inline_hdr))
			skip += (header_bytes - sizeof(seg.inline_hdr) + 15) & ~(size_t)15;
	}
	if (opcode_of(wqe, bytes) == SHMD_OPCODE_UMR)
		skip = SIZE_MAX;
	return wqe_parse_behind(wqe, bytes, skip, ret_req);
}

/* Segments of a UMR, after mlx5dv.h of rdma-core: mlx5_wqe_umr_ctrl_seg, mlx5_wqe_mkey_context_seg, a list or a data segment. */
#define UMR_CTRL_BYTES 48
#define UMR_MKEY_BYTES 64
#define UMR_INLINE 0x80u
#define UMR_CHECK_FREE 0x20u
#define UMR_TRANSLATION_OFFSET 0x10u
#define UMR_CHECK_QPN 0x08u
#define UMR_FLAGS (UMR_INLINE | UMR_CHECK_FREE | UMR_TRANSLATION_OFFSET | UMR_CHECK_QPN)
#define UMR_MASK_LENGTH 1u
#define UMR_MASK_START (1u << 6)
#define UMR_MASK_TAG (1u << 13)
#define UMR_MASK_QPN (1u << 14)
#define UMR_MASK_ACCESS 18 /* four bits: local write, remote read, remote write, atomic */
#define UMR_MASK_FREE (1u << 29)
#define UMR_MASK                                                                                       \
	(UMR_MASK_LENGTH | UMR_MASK_START | UMR_MASK_TAG | UMR_MASK_QPN | 0xfu << UMR_MASK_ACCESS | \
	 UMR_MASK_FREE)
#define UMR_OCTOWORD_BYTES 16u
#define MKEY_FREE 0x40u

/* From local write, remote read, remote write, atomic. */
static uint32_t umr_access(uint32_t bits)
{
	return (bits & 1) | (bits >> 2 & 1) << 1 | (bits >> 1 & 1) << 2 | (bits >> 3 & 1) << 3;
}

static int parse_umr_list(struct cursor *cur, const uint8_t *ctrl, struct wqe_umr *umr)
{
	const uint8_t *seg;

	umr->list_bytes = (load32(ctrl + 4) >> 16) * UMR_OCTOWORD_BYTES;
	if (ctrl[0] & UMR_INLINE) {
		umr->list = take(cur, umr->list_bytes);
		return umr->list ? 0 : SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	}
	if (!umr->list_bytes)
		return 0;
	seg = take(cur, sizeof(struct shmd_wqe_data_seg));
	if (!seg)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	umr->list_at = (struct wqe_sge){.addr = load64(seg + 8), .lkey = load32(seg + 4), .bytes = load32(seg)};
	return umr->list_at.bytes < umr->list_bytes ? SHMD_SYNDROME_LOCAL_QP_OP_ERR : 0;
}

int wqe_parse_umr(const void *wqe, size_t bytes, struct wqe_umr *ret_umr)
{
	size_t size = wqe_size_bytes(wqe);
	struct cursor cur = {wqe, size < bytes ? size : bytes};
	const uint8_t *ctrl, *mkey;
	uint64_t mask;
	int r;

	take(&cur, sizeof(struct shmd_wqe_ctrl_seg));
	ctrl = take(&cur, UMR_CTRL_BYTES);
	mkey = take(&cur, UMR_MKEY_BYTES);
	if (!ctrl || !mkey || (ctrl[0] & ~UMR_FLAGS) || ctrl[6] || ctrl[7] || (mkey[0] & ~MKEY_FREE))
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	mask = load64(ctrl + 8);
	if (mask & ~(uint64_t)UMR_MASK)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	*ret_umr = (struct wqe_umr){
		.must_be_free = ctrl[0] & UMR_CHECK_FREE,
		.sets_free = mask & UMR_MASK_FREE,
		.sets_tag = mask & UMR_MASK_TAG,
		.sets_start = mask & UMR_MASK_START,
		.sets_length = mask & UMR_MASK_LENGTH,
		.names_qp = mask & UMR_MASK_QPN,
		.set_access = umr_access(mask >> UMR_MASK_ACCESS & 0xf),
		.is_free = mkey[0] & MKEY_FREE,
		.key_tag = mkey[7],
		.qpn = load32(mkey + 4) >> 8,
		.access = umr_access(mkey[2] >> 3),
		.start = load64(mkey + 16),
		.length_bytes = load64(mkey + 24),
	};
	r = parse_umr_list(&cur, ctrl, ret_umr);
	return r || cur.bytes ? SHMD_SYNDROME_LOCAL_QP_OP_ERR : 0;
}
