/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the parts of other keys that make up a memory key: the list of a UMR or of a command.
 *
 * There are three kinds, after mlx5dv.h of rdma-core: KLMs (mlx5_wqe_umr_klm_seg), KSMs, which share one length, and a repeated
 * pattern (mlx5_wqe_umr_repeat_block_seg), marked by the word where a KLM has its key. The parser refuses parts without a length,
 * which hardware reads as 2 GiB, empty lists and patterns, more parts than there is room for, and a pattern that does not fit into
 * its list. Lists of pages (MTT) name physical memory and are always refused.
 * No state, no allocation: any thread.
 */
#include <endian.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "tests/mlx5sim/engine-extra/wqe-layout.h"

#define ENTRY_BYTES 16u
#define PATTERN 0x400u

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t load64(const uint8_t *p)
{
	return (uint64_t)load32(p) << 32 | load32(p + 4);
}

static void add_part(struct wqe_layout *layout, struct wqe_part *part, uint32_t bytes, const uint8_t *entry)
{
	part->at = layout->block_bytes;
	part->bytes = bytes;
	part->key = load32(entry + 4);
	part->addr = load64(entry + 8);
	/* bounded: 2^32 parts of 2^32 bytes at most. */
	layout->block_bytes += bytes;
	layout->n_parts++;
}

/* Head and entries: stride and length of 16 bits each, key, address. */
static int parse_pattern(const uint8_t *head, size_t bytes, unsigned int max_parts, struct wqe_layout *layout,
			 struct wqe_part *parts)
{
	uint32_t n = load32(head + 12) & 0xffff;

	layout->n_blocks = load32(head + 8);
	if (!n || !layout->n_blocks || n > max_parts || n > bytes / ENTRY_BYTES - 1)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *entry = head + (size_t)(i + 1) * ENTRY_BYTES;
		uint32_t lengths = load32(entry);

		if (!(lengths & 0xffff))
			return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
		add_part(layout, &parts[i], lengths & 0xffff, entry);
		parts[i].stride = lengths >> 16;
	}
	return layout->block_bytes == load32(head) ? 0 : SHMD_SYNDROME_LOCAL_QP_OP_ERR;
}

int wqe_parse_layout(const void *list, size_t bytes, uint64_t part_bytes, unsigned int max_parts,
		     struct wqe_layout *ret_layout, struct wqe_part *ret_parts)
{
	const uint8_t *entry = list;

	*ret_layout = (struct wqe_layout){.n_blocks = 1};
	if (part_bytes > UINT32_MAX)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	if (!part_bytes && bytes >= ENTRY_BYTES && load32(entry + 4) == PATTERN)
		return parse_pattern(entry, bytes, max_parts, ret_layout, ret_parts);
	for (; bytes >= ENTRY_BYTES; entry += ENTRY_BYTES, bytes -= ENTRY_BYTES) {
		uint32_t length = load32(entry);

		if (!load32(entry + 4) && !length)
			break;
		if (part_bytes)
			length = (uint32_t)part_bytes;
		if (!length || ret_layout->n_parts == max_parts)
			return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
		ret_parts[ret_layout->n_parts].stride = 0;
		add_part(ret_layout, &ret_parts[ret_layout->n_parts], length, entry);
	}
	return ret_layout->n_parts ? 0 : SHMD_SYNDROME_LOCAL_QP_OP_ERR;
}
