/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_DEV_WQE_CASES_H
#define SHMD_TESTS_DEV_WQE_CASES_H

#include <stddef.h>
#include <stdint.h>

#define WQE_CASE_MAX_BYTES 128u
#define WQE_CASE_QPN 0x9a8b7cu

/* The target of a WQE of a DCI. */
struct wqe_case_av {
	uint64_t dc_key;
	uint32_t dctn;
	uint16_t rlid;
	uint8_t sl, fl_mlid, tclass, hop_limit;
	uint8_t rmac[6], rgid[16];
	uint32_t grh_gid_fl;
};

/* One call of a shmd_dev_prepare_ function, as values of the test's own; numbers are in host byte order. */
enum wqe_kind {
	KIND_NOP,
	KIND_WRITE,
	KIND_WRITE_IMM,
	KIND_WRITE_IMM_EMPTY,
	KIND_WRITE_VALUE,
	KIND_WRITE_INLINE,
	KIND_READ,
	KIND_SEND,
	KIND_SEND_IMM,
	KIND_SEND_EMPTY,
	KIND_ATOMIC_FA,
	KIND_ATOMIC_CS,
	KIND_MASKED_FA32,
	KIND_MASKED_FA64,
	KIND_MASKED_CS32,
	KIND_MASKED_CS64,
	N_KINDS,
};

struct wqe_case {
	enum wqe_kind kind;
	uint64_t index;
	uint8_t flags;
	uint32_t imm;
	uint64_t raddr, laddr;
	uint32_t rkey, lkey;
	uint32_t bytes; /* of the data segment, or inline */
	uint8_t data[32]; /* inline payload */
	uint64_t swap_or_add, compare_or_boundary, swap_mask, compare_mask;
	int has_av; /* of a DCI */
	struct wqe_case_av av;
};

/* The expected WQE, of a connected QP or a DCI; returns its bytes, a multiple of 16. */
typedef size_t wqe_encode_fn(const struct wqe_case *c, uint8_t out[WQE_CASE_MAX_BYTES]);

/* Runs every prepare over many arguments and places of the ring, and compares with `encode`, byte for byte. */
void wqe_cases_run(wqe_encode_fn *encode);

#endif
