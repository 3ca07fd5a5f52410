/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that consists of parts of other memory: what an indirect key leads to.
 *
 * It never changes and has references of its parts, so packets take it to other engines and threads as they take any memory.
 * A range within one part is that part's own operation; a longer one goes part by part, and where one of them is not
 * done at once, the rest follows when it is. gather_allows() knows the addresses without a part and those that may not be written;
 * operations rely on having been asked.
 */
#include <stdlib.h>

#include "tests/mlx5sim/engine-extra/extra-private.h"

struct gather {
	struct engine_mem mem;
	uint64_t block_bytes;
	unsigned int n_parts;
	struct gather_part parts[];
};

/* One operation on several parts. */
struct gather_move {
	struct engine_memop op; /* of the present part */
	struct engine_memop *whole;
	struct engine_mem *mem;
	uint64_t offset;
	uint8_t *bytes;
	size_t left_bytes, step;
	bool is_write;
	bool issuing, pending;
	int status;
};

static struct gather *gather_of(struct engine_mem *mem)
{
	return container_of(mem, struct gather, mem);
}

/* The part that has this byte, which lies in the memory. */
static const struct gather_part *part_at(const struct gather *gather, uint64_t in_block)
{
	unsigned int from = 0, to = gather->n_parts;

	while (to - from > 1) {
		unsigned int middle = from + (to - from) / 2;

		if (gather->parts[middle].at <= in_block)
			from = middle;
		else
			to = middle;
	}
	return &gather->parts[from];
}

/* The longest span that begins at `offset`, at most `bytes`. */
static struct mem_span span_at(const struct gather *gather, uint64_t offset, size_t bytes)
{
	uint64_t block = offset / gather->block_bytes, in_block = offset % gather->block_bytes;
	const struct gather_part *part = part_at(gather, in_block);
	uint64_t skip = in_block - part->at, left = part->bytes - skip;

	return (struct mem_span){
		.mem = part->mem,
		/* bounded: what was allowed lies in the part's memory, in each of its blocks. */
		.offset = part->offset + block * part->stride + skip,
		.bytes = (uint32_t)(left < bytes ? left : bytes),
	};
}

static void *gather_pointer(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	struct mem_span span = span_at(gather_of(mem), offset, bytes);

	return span.bytes == bytes ? span_pointer(&span) : NULL;
}

/* ---- several parts --------------------------------------------------------------------------------------------- */

/* The next part: 0 done, -EINPROGRESS, or an error. */
static int step(struct gather_move *move)
{
	struct mem_span span = span_at(gather_of(move->mem), move->offset, move->left_bytes);
	void *p = span_pointer(&span);
	int r;

	move->step = span.bytes;
	if (p) {
		copy_bytes(move->is_write ? p : move->bytes, move->is_write ? move->bytes : p, span.bytes);
		return 0;
	}
	move->issuing = true;
	move->pending = true;
	if (move->is_write)
		r = span.mem->ops->write(span.mem, span.offset, move->bytes, span.bytes, &move->op);
	else
		r = span.mem->ops->read(span.mem, span.offset, move->bytes, span.bytes, &move->op);
	move->issuing = false;
	if (r == -EINPROGRESS && !move->pending)
		r = move->status;
	return r;
}

static int run(struct gather_move *move)
{
	while (move->left_bytes) {
		int r = step(move);

		if (r < 0)
			return r;
		move->offset += move->step;
		move->bytes += move->step;
		move->left_bytes -= move->step;
	}
	return 0;
}

static struct gather_move *move_free(struct gather_move *move)
{
	engine_mem_unref(move->mem);
	free(move);
	return NULL;
}

static void part_done(struct engine_memop *op, int status)
{
	struct gather_move *move = container_of(op, struct gather_move, op);
	struct engine_memop *whole = move->whole;

	move->pending = false;
	move->status = status;
	if (move->issuing)
		return;
	if (status == 0) {
		move->offset += move->step;
		move->bytes += move->step;
		move->left_bytes -= move->step;
		status = run(move);
	}
	if (status == -EINPROGRESS)
		return;
	move_free(move);
	engine_memop_done(whole, status);
}

static int move_all(struct engine_mem *mem, uint64_t offset, void *bytes, size_t n, bool is_write, struct engine_memop *op)
{
	struct gather_move *move = calloc(1, sizeof(*move));
	int r;

	if (!move)
		return -ENOMEM;
	move->op.done = part_done;
	move->op.owner = op->owner;
	move->whole = op;
	move->mem = engine_mem_ref(mem);
	move->offset = offset;
	move->bytes = bytes;
	move->left_bytes = n;
	move->is_write = is_write;
	r = run(move);
	if (r != -EINPROGRESS)
		move_free(move);
	return r;
}

static int gather_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes, struct engine_memop *op)
{
	struct mem_span span = span_at(gather_of(mem), offset, bytes);

	if (span.bytes == bytes)
		return span.mem->ops->read(span.mem, span.offset, dst, bytes, op);
	return move_all(mem, offset, dst, bytes, false, op);
}

static int gather_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes, struct engine_memop *op)
{
	struct mem_span span = span_at(gather_of(mem), offset, bytes);

	if (span.bytes == bytes)
		return span.mem->ops->write(span.mem, span.offset, src, bytes, op);
	return move_all(mem, offset, (void *)(uintptr_t)src, bytes, true, op);
}

/* A word is never in two parts, and stands where its part's memory has words. */
static int gather_atomic(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what, uint64_t *ret_old,
			 struct engine_memop *op)
{
	struct mem_span span = span_at(gather_of(mem), offset, what->bytes);

	if (span.bytes != what->bytes || (span.offset & (what->bytes - 1)))
		return -EINVAL;
	return span.mem->ops->atomic(span.mem, span.offset, what, ret_old, op);
}

static void gather_free(struct engine_mem *mem)
{
	struct gather *gather = gather_of(mem);

	for (unsigned int i = 0; i < gather->n_parts; i++)
		engine_mem_unref(gather->parts[i].mem);
	free(gather);
}

static const struct engine_mem_ops ops = {
	.pointer = gather_pointer,
	.read = gather_read,
	.write = gather_write,
	.atomic = gather_atomic,
	.free = gather_free,
};

/* ---- for indirect keys ----------------------------------------------------------------------------------------- */

int gather_new(const struct wqe_layout *layout, struct engine_mem **ret_mem, struct gather_part **ret_parts)
{
	struct gather *gather = calloc(1, sizeof(*gather) + layout->n_parts * sizeof(gather->parts[0]));

	if (!gather)
		return -ENOMEM;
	/* bounded: wqe_parse_layout() says so. */
	engine_mem_init(&gather->mem, &ops, layout->n_blocks * layout->block_bytes);
	gather->block_bytes = layout->block_bytes;
	gather->n_parts = layout->n_parts;
	*ret_mem = &gather->mem;
	*ret_parts = gather->parts;
	return 0;
}

/* Bytes from..to of one block. Recursion: a level for each call. */
static bool part_allows(const struct gather_part *part, uint64_t from, uint64_t to, bool is_write)
{
	from = from > part->at ? from - part->at : 0;
	to = to - part->at < part->bytes ? to - part->at : part->bytes;
	if (!part->mem || from < part->from || to > part->to || (is_write && !part->may_write))
		return false;
	/* bounded: the part leads somewhere from `from` on, so the sum has wrapped back where its offset had wrapped. */
	return !part->is_gather || gather_allows(part->mem, part->offset + from, to - from, is_write);
}

bool gather_allows(struct engine_mem *mem, uint64_t offset, uint64_t bytes, bool is_write)
{
	const struct gather *gather = gather_of(mem);
	uint64_t from, to;

	if (!range_fits(offset, bytes, mem->size_bytes))
		return false;
	if (!bytes)
		return true;
	from = offset % gather->block_bytes;
	/* bounded: within the memory. */
	to = from + bytes;
	if (to > gather->block_bytes) {
		from = 0;
		to = gather->block_bytes;
	}
	for (const struct gather_part *part = part_at(gather, from);
	     part < gather->parts + gather->n_parts && part->at < to; part++) {
		if (!part_allows(part, from, to, is_write))
			return false;
	}
	return true;
}
