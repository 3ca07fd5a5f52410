/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one parser of client-written WQEs.
 *
 * Input: a private copy of the bytes (the caller reads client memory exactly once). Output: a checked request.
 * It knows the format, not the QP: keys, ranges, PDs and access are looked up by the engine. No allocation, no
 * globals; safe on any bytes.
 */
#ifndef SHMD_HOST_WQE_PARSE_H
#define SHMD_HOST_WQE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd/abi/wqe.h>

#define WQE_MAX_SGES 62u
#define WQE_MAX_MESSAGE_BYTES 0x80000000ull /* 2 GiB: IBTA message limit */
#define WQE_MAX_INLINE_BYTES 988u

struct wqe_sge {
	uint64_t addr;
	uint32_t lkey;
	uint32_t bytes; /* 1..2^31 */
};

struct wqe_atomic {
	bool is_compare_swap;
	uint8_t bytes; /* 4 or 8 */
	uint64_t swap_or_add, compare, swap_mask, compare_mask, boundary;
};

struct wqe_request {
	uint8_t opcode; /* enum shmd_wqe_opcode, one of the supported ones */
	uint8_t n_wqebbs; /* 1..16 */
	uint8_t fence; /* SHMD_WQE_FM_* */
	uint8_t completion; /* SHMD_WQE_CE_* */
	bool solicited;
	bool has_imm;
	bool has_inval;
	uint16_t wqe_index;
	uint32_t imm; /* host order; or the key to invalidate, or the key that a UMR changes */
	uint32_t qpn;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t total_bytes; /* payload, 0..2 GiB */
	struct wqe_atomic atomic;
	uint32_t inline_bytes; /* payload in the WQE itself ... */
	const uint8_t *inline_data; /* ... pointing into the caller's copy */
	unsigned int n_sges; /* data by reference; inline and references are not mixed */
	struct wqe_sge sges[WQE_MAX_SGES];
	/* Set by wqe_parse_av() only, for other opcodes than NOP. */
	uint64_t av_key; /* DC access key, or Q_Key in the upper half */
	uint32_t av_qpn;
	struct shmd_wqe_av_seg av; /* as it stands in the WQE; zeros behind the short form */
	uint32_t xrc_srqn; /* of XRC, whose parser sets it; 24 bits */
};

/*
 * Bytes of the WQE that starts with this first WQEBB: 0 when ds is 0 or above the limit. Lets the caller copy
 * exactly the WQEBBs that belong to it, unwrapping the ring.
 */
size_t wqe_size_bytes(const void *first_wqebb);

/*
 * Parse `bytes` (a multiple of 16, at least wqe_size_bytes). Returns 0, or the mlx5 syndrome
 * (enum shmd_cqe_syndrome) as a positive number: SHMD_SYNDROME_LOCAL_QP_OP_ERR for anything malformed or
 * unsupported, SHMD_SYNDROME_LOCAL_LENGTH_ERR for a payload above 2 GiB. On error *ret_req has opcode, qpn and
 * wqe_index as far as they were readable. Every field of *ret_req but sges[n_sges..] is set.
 */
int wqe_parse(const void *wqe, size_t bytes, struct wqe_request *ret_req);

/* The same of a UD QP or a DCI, whose WQEs have an address vector behind the control segment. */
int wqe_parse_av(const void *wqe, size_t bytes, struct wqe_request *ret_req);

/* The same where other opcodes than NOP have `skip` bytes behind the control segment, which the caller parses. */
int wqe_parse_behind(const void *wqe, size_t bytes, size_t skip, struct wqe_request *ret_req);

/* Receive WQE: data segments up to the stride or the terminator. Same error convention. */
int wqe_parse_recv(const void *wqe, size_t bytes, unsigned int *ret_n_sges, struct wqe_sge *ret_sges,
		   uint64_t *ret_total_bytes);

#endif
