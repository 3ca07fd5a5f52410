/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of lists that make up a memory key. No allocation, no globals; safe on any bytes. */
#ifndef SHMEMD_ENGINE_EXTRA_WQE_LAYOUT_H
#define SHMEMD_ENGINE_EXTRA_WQE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* A part of a key: some bytes of another one. Part i begins `at` bytes behind the beginning of its block. */
struct wqe_part {
	uint64_t addr;
	uint64_t at;
	uint32_t key;
	uint32_t bytes; /* 1.. */
	uint32_t stride; /* from one block to the next */
};

/* A key is its parts one behind the other, in order; and that block several times when the list has a pattern. */
struct wqe_layout {
	uint32_t n_blocks; /* 1.. */
	uint32_t n_parts;
	uint64_t block_bytes; /* n_blocks * block_bytes does not overflow */
};

/*
 * A list of KLMs (part_bytes 0), of KSMs (all parts but the last have that length), or the pattern that is repeated. An
 * entry of key 0 and length 0 ends it. 0, or SHMD_SYNDROME_LOCAL_QP_OP_ERR also for more than `max_parts`.
 */
int wqe_parse_layout(const void *list, size_t bytes, uint64_t part_bytes, unsigned int max_parts,
		     struct wqe_layout *ret_layout, struct wqe_part *ret_parts);

#endif
