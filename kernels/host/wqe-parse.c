/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a WQE to a checked request.
 *
 * Accepted: NOP, SEND, SEND_IMM, SEND_INVAL, RDMA_WRITE, RDMA_WRITE_IMM, RDMA_READ, ATOMIC_CS, ATOMIC_FA, and the masked
 * forms of both at 4 and 8 bytes; UMR, whose segments are left to its executor. Data are either references or one inline
 * segment that ends the WQE.
 * Refused: everything else, zero-length references (hardware reads them as 2 GiB), segments that cross the end
 * of the WQE, inline data where the NIC would have to write, atomics whose result does not fit.
 * No state, no allocation: any thread.
 */
#include <endian.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "wqe-parse.h"

/* The rest of the WQE; 16-byte units are taken from the front. */
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
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

size_t wqe_size_bytes(const void *first_wqebb)
{
	return (size_t)(load32((const uint8_t *)first_wqebb + 4) & 0x3f) * SHMD_DS_BYTES;
}

static int parse_raddr(struct cursor *cur, struct wqe_request *req)
{
	const uint8_t *seg = take(cur, sizeof(struct shmd_wqe_raddr_seg));

	if (!seg)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	req->raddr = load64(seg);
	req->rkey = load32(seg + 8);
	return 0;
}

static int parse_av(struct cursor *cur, struct wqe_request *req)
{
	const uint8_t *seg = cur->at;
	size_t bytes;

	if (cur->bytes < SHMD_AV_SHORT_BYTES)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	bytes = load32(seg + 8) & SHMD_AV_EXTENDED ? sizeof(req->av) : SHMD_AV_SHORT_BYTES;
	if (!take(cur, bytes))
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	memset(&req->av, 0, sizeof(req->av));
	memcpy(&req->av, seg, bytes);
	req->av_key = load64(seg);
	req->av_qpn = load32(seg + 8) & 0xffffff;
	return 0;
}

static int parse_inline(struct cursor *cur, uint32_t count, struct wqe_request *req)
{
	uint32_t bytes = count & ~SHMD_INLINE_SEG;
	/* bounded: 32 bits, checked next. */
	size_t padded_bytes = ((size_t)bytes + 4 + 15) & ~(size_t)15;

	if (req->n_sges || bytes > WQE_MAX_INLINE_BYTES)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
#ifdef FUZZ_PLANT
	if (PLANTED("wqe") && padded_bytes > cur->bytes && padded_bytes <= cur->bytes + 128)
		padded_bytes = cur->bytes;
#endif
	/* The segment must be the last: its length, padded to 16, is what is left. */
	if (padded_bytes != cur->bytes)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	req->inline_bytes = bytes;
	req->inline_data = cur->at + 4;
	req->total_bytes = bytes;
	cur->bytes = 0;
	return 0;
}

/* One reference; the caller has checked that it is neither inline nor a terminator. */
static int add_sge(const uint8_t *seg, struct wqe_sge *sge, uint64_t *total_bytes)
{
	uint32_t bytes = load32(seg);

	if (!bytes)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	sge->bytes = bytes;
	sge->lkey = load32(seg + 4);
	sge->addr = load64(seg + 8);
	*total_bytes += bytes;
	return 0;
}

static int parse_data(struct cursor *cur, bool may_inline, struct wqe_request *req)
{
	const uint8_t *seg;
	int r;

	while (cur->bytes) {
		uint32_t count = load32(cur->at);

		if (count & SHMD_INLINE_SEG) {
			r = may_inline ? parse_inline(cur, count, req)
				       : SHMD_SYNDROME_LOCAL_QP_OP_ERR;
		} else {
			seg = take(cur, sizeof(struct shmd_wqe_data_seg));
			if (!seg || req->n_sges == WQE_MAX_SGES)
				return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
			r = add_sge(seg, &req->sges[req->n_sges], &req->total_bytes);
			req->n_sges++;
		}
		if (r)
			return r;
	}
	return req->total_bytes > WQE_MAX_MESSAGE_BYTES ? SHMD_SYNDROME_LOCAL_LENGTH_ERR : 0;
}

static int parse_plain_atomic(struct cursor *cur, struct wqe_request *req)
{
	const uint8_t *seg = take(cur, sizeof(struct shmd_wqe_atomic_seg));

	if (!seg)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	req->atomic.is_compare_swap = req->opcode == SHMD_OPCODE_ATOMIC_CS;
	req->atomic.bytes = 8;
	req->atomic.swap_or_add = load64(seg);
	req->atomic.compare = load64(seg + 8);
	req->atomic.swap_mask = UINT64_MAX;
	req->atomic.compare_mask = UINT64_MAX;
	return 0;
}

static int parse_masked4(struct cursor *cur, struct wqe_request *req)
{
	const uint8_t *seg = take(cur, 16);
	struct wqe_atomic *a = &req->atomic;

	if (!seg)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	a->bytes = 4;
	a->swap_or_add = load32(seg);
	if (a->is_compare_swap) {
		a->compare = load32(seg + 4);
		a->swap_mask = load32(seg + 8);
		a->compare_mask = load32(seg + 12);
	} else {
		a->boundary = load32(seg + 4);
	}
	return 0;
}

static int parse_masked8(struct cursor *cur, struct wqe_request *req)
{
	struct wqe_atomic *a = &req->atomic;
	const uint8_t *seg = take(cur, a->is_compare_swap ? 32 : 16);

	if (!seg)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	a->bytes = 8;
	a->swap_or_add = load64(seg);
	if (a->is_compare_swap) {
		a->compare = load64(seg + 8);
		a->swap_mask = load64(seg + 16);
		a->compare_mask = load64(seg + 24);
	} else {
		a->boundary = load64(seg + 8);
	}
	return 0;
}

static int parse_masked_atomic(struct cursor *cur, unsigned int opmod, struct wqe_request *req)
{
	req->atomic.is_compare_swap = req->opcode == SHMD_OPCODE_ATOMIC_MASKED_CS;
	switch (opmod) {
	case SHMD_OPMOD_EXT_ATOMIC_4:
		return parse_masked4(cur, req);
	case SHMD_OPMOD_EXT_ATOMIC_8:
		return parse_masked8(cur, req);
	}
	return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
}

static int parse_atomic(struct cursor *cur, unsigned int opmod, struct wqe_request *req)
{
	bool masked = req->opcode == SHMD_OPCODE_ATOMIC_MASKED_CS ||
		      req->opcode == SHMD_OPCODE_ATOMIC_MASKED_FA;
	int r;

	r = parse_raddr(cur, req);
	if (r)
		return r;
	r = masked ? parse_masked_atomic(cur, opmod, req) : parse_plain_atomic(cur, req);
	if (r)
		return r;
	r = parse_data(cur, false, req);
	if (r)
		return r;
	/* The old value must fit exactly into the scatter list. */
	return req->total_bytes == req->atomic.bytes ? 0 : SHMD_SYNDROME_LOCAL_QP_OP_ERR;
}

static int parse_segments(struct cursor *cur, unsigned int opmod, struct wqe_request *req)
{
	int r;

	switch (req->opcode) {
	case SHMD_OPCODE_SEND_IMM:
		req->has_imm = true;
		return parse_data(cur, true, req);
	case SHMD_OPCODE_SEND_INVAL:
		req->has_inval = true;
		__attribute__((fallthrough));
	case SHMD_OPCODE_SEND:
		return parse_data(cur, true, req);
	case SHMD_OPCODE_UMR:
		return 0;
	case SHMD_OPCODE_RDMA_WRITE_IMM:
		req->has_imm = true;
		__attribute__((fallthrough));
	case SHMD_OPCODE_RDMA_WRITE:
	case SHMD_OPCODE_RDMA_READ:
		r = parse_raddr(cur, req);
		return r ? r : parse_data(cur, req->opcode != SHMD_OPCODE_RDMA_READ, req);
	case SHMD_OPCODE_ATOMIC_CS:
	case SHMD_OPCODE_ATOMIC_FA:
	case SHMD_OPCODE_ATOMIC_MASKED_CS:
	case SHMD_OPCODE_ATOMIC_MASKED_FA:
		return parse_atomic(cur, opmod, req);
	}
	return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
}

/* With or without an address vector behind the control segment, or `skip` bytes. NOPs have neither. */
static inline int parse(const void *wqe, size_t bytes, bool has_av, size_t skip, struct wqe_request *req)
{
	const uint8_t *ctrl = wqe;
	struct cursor cur = {ctrl, 0};
	uint32_t head;
	int r;

	/* Everything but the scatter list, which is long and filled as needed. */
	memset(req, 0, offsetof(struct wqe_request, sges));
	if (bytes < SHMD_DS_BYTES)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	head = load32(ctrl);
	req->opcode = head & 0xff;
	req->wqe_index = (head >> 8) & 0xffff;
	req->qpn = load32(ctrl + 4) >> 8;
	req->fence = ctrl[11] & SHMD_WQE_FM_MASK;
	req->completion = ctrl[11] & SHMD_WQE_CE_MASK;
	req->solicited = ctrl[11] & SHMD_WQE_SOLICITED;
	req->imm = load32(ctrl + 12);
	cur.bytes = wqe_size_bytes(wqe);
	if (!cur.bytes || cur.bytes > bytes)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	/* bounded: 63 units of 16 bytes. */
	req->n_wqebbs = (cur.bytes + SHMD_WQEBB_BYTES - 1) >> SHMD_WQEBB_SHIFT;
	take(&cur, sizeof(struct shmd_wqe_ctrl_seg));
	if (req->opcode == SHMD_OPCODE_NOP)
		return 0;
	if (!take(&cur, skip) || (has_av && req->opcode == SHMD_OPCODE_UMR))
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	if (has_av) {
		r = parse_av(&cur, req);
		if (r)
			return r;
	}
	return parse_segments(&cur, head >> 24, req);
}

int wqe_parse(const void *wqe, size_t bytes, struct wqe_request *ret_req)
{
	return parse(wqe, bytes, false, 0, ret_req);
}

int wqe_parse_av(const void *wqe, size_t bytes, struct wqe_request *ret_req)
{
	return parse(wqe, bytes, true, 0, ret_req);
}

int wqe_parse_behind(const void *wqe, size_t bytes, size_t skip, struct wqe_request *ret_req)
{
	return parse(wqe, bytes, false, skip, ret_req);
}

int wqe_parse_recv(const void *wqe, size_t bytes, unsigned int *ret_n_sges,
		   struct wqe_sge *ret_sges, uint64_t *ret_total_bytes)
{
	struct cursor cur = {wqe, bytes & ~(size_t)15};
	uint64_t total_bytes = 0;
	unsigned int n = 0;

	while (cur.bytes) {
		const uint8_t *seg = take(&cur, sizeof(struct shmd_wqe_data_seg));
		uint32_t count = load32(seg);

		if (!count && load32(seg + 4) == SHMD_LKEY_TERMINATE)
			break;
		if ((count & SHMD_INLINE_SEG) || n == WQE_MAX_SGES ||
		    add_sge(seg, &ret_sges[n], &total_bytes))
			return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
		n++;
	}
	*ret_n_sges = n;
	*ret_total_bytes = total_bytes;
	return 0;
}
