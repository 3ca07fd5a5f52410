/* SPDX-License-Identifier: Apache-2.0 */
/* Memory objects for engine tests; see test-mem.h. Not thread safe. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "test-mem.h"

#define MIXED_PAGE 512u

uint64_t test_random(uint64_t *seed)
{
	*seed += 0x9e3779b97f4a7c15ull;
	uint64_t z = *seed;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static struct test_mem *from_mem(struct engine_mem *mem)
{
	return container_of(mem, struct test_mem, mem);
}

static void *mem_pointer(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	struct test_mem *m = from_mem(mem);

	if (m->mode == MEM_MIXED &&
	    ((offset / MIXED_PAGE) % 2 || offset / MIXED_PAGE != (offset + bytes - 1) / MIXED_PAGE))
		return NULL;
	return m->bytes + offset;
}

static int start(struct test_mem *m, const struct delayed *what)
{
	struct delay_queue *queue = m->queue;

	m->n_ops++;
	if (m->fail_with && !m->fail_later)
		return m->fail_with;
	assert_bug(queue->n < MAX_DELAYED);
	queue->ops[queue->n] = *what;
	queue->ops[queue->n].wait =
		queue->hold_turns + (unsigned int)(test_random(&queue->seed) % 4);
	queue->n++;
	queue->total++;
	if (queue->n > queue->max_n)
		queue->max_n = queue->n;
	return -EINPROGRESS;
}

static uint64_t carry_out(const struct delayed *d)
{
	switch (d->kind) {
	case DELAYED_READ:
		memmove(d->dst, d->mem->bytes + d->offset, d->bytes);
		break;
	case DELAYED_WRITE:
		memmove(d->mem->bytes + d->offset, d->src, d->bytes);
		break;
	case DELAYED_ATOMIC:
		*(uint64_t *)d->dst = engine_atomic_apply(d->mem->bytes + d->offset, d->what);
		break;
	}
	return 0;
}

static int run_or_delay(struct test_mem *m, const struct delayed *what)
{
	if (m->done_inside) {
		carry_out(what);
		engine_memop_done(what->op, m->fail_with);
		return -EINPROGRESS;
	}
	if (m->mode == MEM_DELAY || m->mode == MEM_QUEUE)
		return start(m, what);
	m->n_ops++;
	if (m->fail_with)
		return m->fail_with;
	carry_out(what);
	return 0;
}

static int mem_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes,
		    struct engine_memop *op)
{
	struct delayed what = {.kind = DELAYED_READ,
			       .mem = from_mem(mem),
			       .offset = offset,
			       .dst = dst,
			       .bytes = bytes,
			       .op = op};

	return run_or_delay(from_mem(mem), &what);
}

static int mem_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes,
		     struct engine_memop *op)
{
	struct delayed what = {.kind = DELAYED_WRITE,
			       .mem = from_mem(mem),
			       .offset = offset,
			       .src = src,
			       .bytes = bytes,
			       .op = op};

	return run_or_delay(from_mem(mem), &what);
}

static int mem_atomic(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *atomic,
		      uint64_t *ret_old, struct engine_memop *op)
{
	struct delayed what = {.kind = DELAYED_ATOMIC,
			       .mem = from_mem(mem),
			       .offset = offset,
			       .dst = ret_old,
			       .what = atomic,
			       .op = op};

	return run_or_delay(from_mem(mem), &what);
}

static void mem_free(struct engine_mem *mem)
{
	from_mem(mem)->freed = true;
}

static const void *mem_order(struct engine_mem *mem)
{
	return from_mem(mem)->queue;
}

static const struct engine_mem_ops addressable_ops = {
	.pointer = mem_pointer,
	.read = mem_read,
	.write = mem_write,
	.atomic = mem_atomic,
	.free = mem_free,
};

static const struct engine_mem_ops remote_ops = {
	.read = mem_read,
	.write = mem_write,
	.atomic = mem_atomic,
	.free = mem_free,
};

static const struct engine_mem_ops queue_ops = {
	.read = mem_read,
	.write = mem_write,
	.atomic = mem_atomic,
	.order = mem_order,
	.free = mem_free,
};

static const struct engine_mem_ops *ops_of(enum mem_mode mode)
{
	if (mode == MEM_QUEUE)
		return &queue_ops;
	return mode == MEM_POINTER || mode == MEM_MIXED ? &addressable_ops : &remote_ops;
}

void test_mem_init(struct test_mem *mem, enum mem_mode mode, uint64_t size_bytes,
		   struct delay_queue *queue, void *bytes)
{
	*mem = (struct test_mem){.mode = mode, .queue = queue, .borrowed = bytes};
	mem->bytes = bytes ? bytes : calloc(1, size_bytes);
	assert_bug(mem->bytes);
	engine_mem_init(&mem->mem, ops_of(mode), size_bytes);
}

void test_mem_deinit(struct test_mem *mem)
{
	engine_mem_unref(&mem->mem);
	assert_bug(mem->freed);
	if (!mem->borrowed)
		free(mem->bytes);
	mem->bytes = NULL;
}

static void finish(struct delay_queue *queue, unsigned int i)
{
	struct delayed d = queue->ops[i];
	int status = d.mem->fail_with;

	queue->n--;
	memmove(&queue->ops[i], &queue->ops[i + 1], (queue->n - i) * sizeof(d));
	if (!status)
		carry_out(&d);
	engine_memop_done(d.op, status);
}

unsigned int delay_queue_run(struct delay_queue *queue)
{
	unsigned int before = queue->n;

	for (unsigned int i = 0; i < queue->n; i++) {
		if (queue->ops[i].wait)
			queue->ops[i].wait--;
	}
	/* At most one a turn, any of the ripe ones; those of MEM_QUEUE from the first on. */
	if (queue->n) {
		unsigned int i = (unsigned int)(test_random(&queue->seed) % queue->n);

		if (queue->ops[i].mem->mode == MEM_QUEUE)
			i = 0;

		if (!queue->ops[i].wait)
			finish(queue, i);
	}
	return before;
}
