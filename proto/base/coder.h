/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state as bytes: one function for each thing walks its fields, and counts, writes or reads them by the direction of its coder.
 *
 * Numbers are little-endian, without gaps. A value that does not fit sets `failed`, which stays set: a walk is checked once, at its end. Bytes to
 * read are hostile: a count without bytes for it is refused before memory is allocated for it. Pure; any thread.
 */
#ifndef SHMD_BASE_CODER_H
#define SHMD_BASE_CODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coder_direction { CODER_COUNTING, CODER_WRITING, CODER_READING };

struct coder {
	enum coder_direction direction;
	uint8_t *at;
	size_t n; /* so far */
	size_t size;
	bool failed;
	bool no_memory; /* and failed */
};

static inline bool coder_reads(const struct coder *c)
{
	return c->direction == CODER_READING;
}

void coder_bytes(struct coder *c, void *data, size_t bytes);
void coder_u8(struct coder *c, uint8_t *value);
void coder_bool(struct coder *c, bool *value); /* 0 or 1 */
void coder_u32(struct coder *c, uint32_t *value);
void coder_u64(struct coder *c, uint64_t *value);
/* At most `most`, and when reading not more than there are bytes for, at bytes_each or more; 0 once it failed. */
void coder_count(struct coder *c, uint32_t *count, uint32_t most, size_t bytes_each);
/* Zeroed room for n elements that coder_count() let pass, also for none; NULL with no_memory. The caller's, to free. */
void *coder_room(struct coder *c, uint32_t n, size_t bytes_each);

#endif
