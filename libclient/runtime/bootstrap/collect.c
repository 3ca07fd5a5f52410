/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/collect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int collect_init(struct collect *collect, unsigned int size)
{
	*collect = (struct collect){.size = size, .came = calloc(size, sizeof(bool))};
	return collect->came ? 0 : -ENOMEM;
}

void collect_deinit(struct collect *collect)
{
	free(collect->came);
	free(collect->shares);
}

const char *collect_name(uint8_t kind)
{
	switch (kind) {
	case COLLECT_GATHER:
		return "allgather";
	case COLLECT_ALLTOALL:
		return "alltoall";
	case COLLECT_BARRIER:
		return "barrier";
	default:
		return "opening";
	}
}

static int begin(struct collect *collect, uint8_t kind, uint32_t value, uint32_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow((size_t)collect->size, bytes, &all))
		return -ENOMEM;
	collect->kind = kind;
	collect->value = value;
	collect->bytes = bytes;
	collect->shares = all ? malloc(all) : NULL;
	return all && !collect->shares ? -ENOMEM : 0;
}

static bool fits(const struct collect *collect, unsigned int rank, uint64_t seq, uint8_t kind, uint32_t value, uint32_t bytes)
{
	uint64_t want = kind == COLLECT_ALLTOALL ? (uint64_t)value * collect->size : value;

	return seq == collect->seq && !collect->came[rank] && bytes == want && kind >= COLLECT_GATHER && kind <= COLLECT_OPEN;
}

int collect_add(struct collect *collect, unsigned int rank, uint64_t seq, uint8_t kind, uint32_t value, const void *share,
		uint32_t bytes, char *text, size_t text_bytes)
{
	if (!fits(collect, rank, seq, kind, value, bytes)) {
		snprintf(text, text_bytes, "rank %u sent a share of a collective call that is not under way", rank);
		return -EPROTO;
	}
	if (!collect->n && begin(collect, kind, value, bytes)) {
		snprintf(text, text_bytes, "no memory for %u shares of %u bytes", collect->size, bytes);
		return -ENOMEM;
	}
	if (kind != collect->kind || value != collect->value) {
		snprintf(text, text_bytes, "rank %u calls %s with %u bytes while others call %s with %u bytes", rank, collect_name(kind),
			 value, collect_name(collect->kind), collect->value);
		return -EPROTO;
	}
	if (bytes)
		memcpy(collect->shares + (size_t)rank * bytes, share, bytes);
	collect->came[rank] = true;
	collect->n++;
	return collect->n == collect->size;
}

/* bounded by begin(), which allocated size * bytes. */
void collect_row(const struct collect *collect, unsigned int rank, uint8_t *row)
{
	size_t each = collect->value;

	for (unsigned int from = 0; from < collect->size && each; from++)
		memcpy(row + from * each, collect->shares + (size_t)from * collect->bytes + rank * each, each);
}

void collect_next(struct collect *collect)
{
	free(collect->shares);
	collect->shares = NULL;
	collect->n = 0;
	collect->seq++;
	memset(collect->came, 0, collect->size * sizeof(bool));
}
