/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/coder.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/overflow.h"

void coder_bytes(struct coder *c, void *data, size_t bytes)
{
	if (c->failed)
		return;
	if (c->direction != CODER_COUNTING && !range_fits(c->n, bytes, c->size)) {
		c->failed = true;
		return;
	}
	if (c->direction == CODER_WRITING)
		memcpy(c->at + c->n, data, bytes);
	else if (c->direction == CODER_READING)
		memcpy(data, c->at + c->n, bytes);
	c->n += bytes;
}

void coder_u8(struct coder *c, uint8_t *value)
{
	coder_bytes(c, value, 1);
}

void coder_bool(struct coder *c, bool *value)
{
	uint8_t byte = *value;

	coder_u8(c, &byte);
	c->failed |= byte > 1;
	if (coder_reads(c))
		*value = byte == 1;
}

void coder_u32(struct coder *c, uint32_t *value)
{
	uint32_t le = htole32(*value);

	coder_bytes(c, &le, sizeof(le));
	if (coder_reads(c))
		*value = le32toh(le);
}

void coder_u64(struct coder *c, uint64_t *value)
{
	uint64_t le = htole64(*value);

	coder_bytes(c, &le, sizeof(le));
	if (coder_reads(c))
		*value = le64toh(le);
}

void coder_count(struct coder *c, uint32_t *count, uint32_t most, size_t bytes_each)
{
	coder_u32(c, count);
	c->failed |= *count > most;
	if (!coder_reads(c))
		return;
	c->failed |= *count > (c->size - c->n) / bytes_each;
	*count = c->failed ? 0 : *count;
}

void *coder_room(struct coder *c, uint32_t n, size_t bytes_each)
{
	/* bounded: by coder_count(). */
	void *room = calloc((size_t)n + 1, bytes_each);

	c->no_memory |= !room;
	c->failed |= !room;
	return room;
}
