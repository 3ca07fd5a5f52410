/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory operations that take their time, for tests of everything above them.
 *
 * An operation is recorded, and carried out and completed at a random time: mostly within 4 us, now and then within
 * 50 us, so that later ones often overtake. The list belongs to the NIC whose engine waits, and is touched by that
 * NIC's data thread only; the memory may be registered with another NIC.
 */
#include "daemon/nic/soft/soft-delay.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/nic/soft/soft.h"
#include "proto/base/nsec.h"

#define DELAY_SHORT_NSEC 4000u
#define DELAY_LONG_NSEC 50000u
#define LONG_ONE_IN 8u

enum delayed_kind { DELAYED_READ, DELAYED_WRITE, DELAYED_ATOMIC };

struct delayed {
	struct list link;
	enum delayed_kind kind;
	uint64_t due_nsec;
	struct engine_mem *mem; /* owned reference */
	uint64_t offset;
	size_t bytes;
	void *dst; /* READ */
	const void *src; /* WRITE */
	struct engine_atomic what; /* ATOMIC */
	uint64_t *ret_old;
	struct engine_memop *op;
};

void soft_delay_init(struct soft_delay *delay, uint64_t seed)
{
	list_init(&delay->ops);
	delay->random = seed;
}

static uint64_t next_random(struct soft_delay *delay)
{
	uint64_t z = (delay->random += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t random_delay_nsec(struct soft_delay *delay)
{
	uint64_t random = next_random(delay);

	return (random >> 8) % (random % LONG_ONE_IN ? DELAY_SHORT_NSEC : DELAY_LONG_NSEC);
}

static void insert(struct soft_delay *delay, struct delayed *item)
{
	struct list *at = delay->ops.prev;

	while (at != &delay->ops && container_of(at, struct delayed, link)->due_nsec > item->due_nsec)
		at = at->prev;
	list_insert_after(at, &item->link);
}

static int record(const struct delayed *what)
{
	struct soft_exec *exec = what->op->owner;
	struct delayed *item = malloc(sizeof(*item));

	if (!item)
		return -ENOMEM;
	*item = *what;
	item->due_nsec = nsec_now() + random_delay_nsec(&exec->delay);
	engine_mem_ref(item->mem);
	insert(&exec->delay, item);
	return -EINPROGRESS;
}

static int delay_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes,
		      struct engine_memop *op)
{
	return record(&(struct delayed){.kind = DELAYED_READ,
					.mem = mem,
					.offset = offset,
					.bytes = bytes,
					.dst = dst,
					.op = op});
}

static int delay_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes,
		       struct engine_memop *op)
{
	return record(&(struct delayed){.kind = DELAYED_WRITE,
					.mem = mem,
					.offset = offset,
					.bytes = bytes,
					.src = src,
					.op = op});
}

static int delay_atomic(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what,
			uint64_t *ret_old, struct engine_memop *op)
{
	return record(&(struct delayed){.kind = DELAYED_ATOMIC,
					.mem = mem,
					.offset = offset,
					.what = *what,
					.ret_old = ret_old,
					.op = op});
}

static void delay_free(struct engine_mem *mem)
{
	soft_mem_ops.free(mem);
}

const struct engine_mem_ops soft_delay_mem_ops = {
	.read = delay_read,
	.write = delay_write,
	.atomic = delay_atomic,
	.free = delay_free,
};

static int carry_out(const struct delayed *item)
{
	switch (item->kind) {
	case DELAYED_READ:
		return soft_mem_ops.read(item->mem, item->offset, item->dst, item->bytes, NULL);
	case DELAYED_WRITE:
		return soft_mem_ops.write(item->mem, item->offset, item->src, item->bytes, NULL);
	case DELAYED_ATOMIC:
		return soft_mem_ops.atomic(item->mem, item->offset, &item->what, item->ret_old, NULL);
	}
	return -EINVAL;
}

static void complete_first(struct soft_delay *delay)
{
	struct delayed *item = list_first_entry(&delay->ops, struct delayed, link);
	int r = carry_out(item);

	list_del(&item->link);
	engine_memop_done(item->op, r);
	engine_mem_unref(item->mem);
	free(item);
}

void soft_delay_drain(struct soft_delay *delay)
{
	while (!list_empty(&delay->ops))
		complete_first(delay);
}

unsigned int soft_delay_run(struct soft_delay *delay)
{
	unsigned int n = 0;
	uint64_t now;

	if (list_empty(&delay->ops))
		return 0;
	now = nsec_now();
	for (; soft_delay_deadline(delay) <= now; n++)
		complete_first(delay);
	return n;
}

uint64_t soft_delay_deadline(const struct soft_delay *delay)
{
	if (list_empty(&delay->ops))
		return UINT64_MAX;
	return container_of(delay->ops.next, struct delayed, link)->due_nsec;
}
