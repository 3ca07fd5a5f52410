/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's table for one collective call: who has brought its share, and the shares. No sockets; one thread at a time. */
#ifndef SHMD_RUNTIME_COLLECT_H
#define SHMD_RUNTIME_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum collect_kind { COLLECT_GATHER = 1, COLLECT_ALLTOALL, COLLECT_BARRIER, COLLECT_OPEN };

struct collect {
	unsigned int size;
	uint64_t seq; /* of the call that is gathered */
	unsigned int n;
	uint8_t kind;
	uint32_t value; /* bytes each */
	uint32_t bytes; /* of a share */
	uint8_t *shares; /* size * bytes */
	bool *came;
};

int collect_init(struct collect *collect, unsigned int size); /* -ENOMEM */
void collect_deinit(struct collect *collect);		      /* of zeros, too */

/*
 * One share. 1: all are there; 0: not yet. -EPROTO with a sentence: this call is not the one that the other ranks make. -ENOMEM.
 */
int collect_add(struct collect *collect, unsigned int rank, uint64_t seq, uint8_t kind, uint32_t value, const void *share,
		uint32_t bytes, char *text, size_t text_bytes);
/* The shares for `rank` in an alltoall: size * value bytes. */
void collect_row(const struct collect *collect, unsigned int rank, uint8_t *row);
void collect_next(struct collect *collect);
const char *collect_name(uint8_t kind);

#endif
