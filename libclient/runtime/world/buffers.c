/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering buffers. A NIC reaches memfds, and private memory becomes one for as long as it is registered (adopt.h), in whole pages:
 * the bytes of a buffer beside its whole pages may share a page with memory of others, so they are not registered and travel as any other
 * memory does.
 *
 * The lock is around all of a call; device functions read the table without it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/settings/nvtx.h"
#include "libclient/runtime/world/adopt.h"
#include "libclient/runtime/world/buffers.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/heaps.h"
#include "libclient/runtime/world/queues.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"

struct buffer {
	uint64_t addr, end; /* as the program passed it */
	uint64_t first_page, pages_end; /* registered; equal: nothing is */
	struct adopted *memory;
	struct shmd_mr *mrs[SHMD_DEV_RAILS]; /* of rail 0 NULL: none */
};

struct table {
	struct table *former;
	uint64_t reserved; /* entries begin at a multiple of 16 */
	struct shmd_dev_buffers head;
	struct shmd_dev_buffer entries[];
};
_Static_assert(offsetof(struct table, entries) == offsetof(struct table, head) + sizeof(struct shmd_dev_buffers), "entries follow the head");

struct world_buffers {
	pthread_mutex_t lock;
	struct buffer *buffers; /* ascending, without overlap */
	size_t n;
	struct table *newest;
};

/* ---- tables */

static struct table *table_new(const struct world_buffers *all)
{
	struct table *table = calloc(1, sizeof(*table) + all->n * sizeof(table->entries[0])); /* bounded: as many as there are in memory */

	for (size_t i = 0; table && i < all->n; i++) {
		const struct buffer *buffer = &all->buffers[i];
		struct shmd_dev_buffer *entry = &table->entries[table->head.n];

		if (!buffer->mrs[0])
			continue;
		*entry = (struct shmd_dev_buffer){.addr = buffer->first_page, .end_addr = buffer->pages_end};
		for (uint32_t rail = 0; rail < SHMD_DEV_RAILS && buffer->mrs[rail]; rail++)
			entry->lkey_be[rail] = shmd_mr_lkey_be(buffer->mrs[rail]);
		table->head.n++;
	}
	return table;
}

static void show(const struct shmd_world *world, uint64_t head_addr)
{
	__atomic_store_n(&world->dev->buffers_addr, head_addr, __ATOMIC_RELEASE);
}

/* The table of what is in the list now. */
static int renew(struct shmd_world *world)
{
	struct world_buffers *all = world->buffers;
	struct table *table = table_new(all);

	if (!table)
		return shmd_error_set(-ENOMEM, "no memory for a table of %zu buffers", all->n);
	table->former = all->newest;
	all->newest = table;
	show(world, (uintptr_t)&table->head);
	return 0;
}

/* ---- the list */

/* Where a buffer with this address stands or would stand. */
static size_t place_of(const struct world_buffers *all, uint64_t addr)
{
	size_t i = 0;

	while (i < all->n && all->buffers[i].addr < addr)
		i++;
	return i;
}

static void take_out(struct world_buffers *all, size_t at)
{
	all->n--;
	memmove(&all->buffers[at], &all->buffers[at + 1], (all->n - at) * sizeof(all->buffers[0]));
}

/* There is room. */
static void put_in(struct world_buffers *all, size_t at, const struct buffer *buffer)
{
	memmove(&all->buffers[at + 1], &all->buffers[at], (all->n - at) * sizeof(all->buffers[0]));
	all->buffers[at] = *buffer;
	all->n++;
}

static int make_room(struct world_buffers *all)
{
	void *grown = reallocarray(all->buffers, all->n + 1, sizeof(all->buffers[0]));

	if (!grown)
		return shmd_error_set(-ENOMEM, "no memory for %zu buffers", all->n + 1);
	all->buffers = grown;
	return 0;
}

/* ---- checks */

static bool overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end)
{
	return a < b_end && b < a_end;
}

static int check_others(const struct world_buffers *all, const struct buffer *buffer)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct buffer *other = &all->buffers[i];

		if (overlap(buffer->addr, buffer->end, other->addr, other->end))
			return shmd_error_set(-EEXIST, "the buffer at 0x%" PRIx64 " overlaps with the one of %" PRIu64
					      " bytes that is registered at 0x%" PRIx64, buffer->addr, other->end - other->addr, other->addr);
	}
	return 0;
}

static int check_heaps(const struct shmd_world *world, const struct buffer *buffer)
{
	uint64_t bytes = world->dev->heap[SHMD_DEV_HEAP_HOST].range_bytes;

	for (int pe = 0; pe < world->size; pe++) {
		uint64_t base = world->pes[pe].heap_addr[SHMD_DEV_HEAP_HOST];

		/* bounded: the range lies in the address space */
		if (base && overlap(buffer->addr, buffer->end, base, base + bytes))
			return shmd_error_set(-EINVAL, "the buffer at 0x%" PRIx64 " is in the symmetric heap, which is registered already",
					      buffer->addr);
	}
	if (world_is_on_gpu(world, buffer->addr, buffer->end))
		return shmd_error_set(-EINVAL, "the buffer at 0x%" PRIx64 " is in the GPU heap", buffer->addr);
	return 0;
}

/* ---- registering */

static int reach(struct shmd_world *world, struct buffer *buffer)
{
	struct shmd_mr_attr attr = {
		.length_bytes = buffer->pages_end - buffer->first_page,
		.iova = buffer->first_page,
		.access = SHMD_ACCESS_LOCAL_WRITE,
	};
	int r = adopt(session_client(world->session), (void *)(uintptr_t)buffer->first_page, attr.length_bytes, &buffer->memory, &attr.fd,
		      &attr.offset);

	if (r < 0)
		return r;
	r = world_queues_reg_buffer(world, &attr, buffer->mrs);
	if (r < 0)
		(void)adopted_return(buffer->memory);
	return r;
}

static int end_buffer(struct buffer *buffer)
{
	world_queues_dereg_buffer(buffer->mrs);
	return adopted_return(buffer->memory);
}

/* The range of its whole pages. */
static void find_pages(struct buffer *buffer)
{
	uint64_t page = page_bytes(), first;

	buffer->pages_end = buffer->end & ~(page - 1);
	if (align_up_overflows(buffer->addr, page, &first) || first > buffer->pages_end)
		first = buffer->pages_end;
	buffer->first_page = first;
}

static int add(struct shmd_world *world, struct buffer *buffer)
{
	WORLD_REQUESTS(world);
	struct world_buffers *all = world->buffers;
	size_t at = place_of(all, buffer->addr);
	int r = check_others(all, buffer);

	if (!r)
		r = check_heaps(world, buffer);
	if (!r)
		r = make_room(all);
	if (!r && world->queues && buffer->first_page < buffer->pages_end)
		r = reach(world, buffer);
	if (r < 0)
		return r;
	put_in(all, at, buffer);
	r = renew(world);
	if (r < 0) {
		take_out(all, at);
		(void)end_buffer(buffer);
	}
	return r;
}

int shmd_buffer_register(struct shmd_world *world, void *addr, size_t bytes)
{
	struct buffer buffer = {.addr = (uintptr_t)addr};
	int r = world_check_started(world);

	if (r < 0)
		return r;
	if (!addr || !bytes || add_overflows(buffer.addr, bytes, &buffer.end))
		return shmd_error_set(-EINVAL, "%zu bytes at %p are not a buffer", bytes, addr);
	find_pages(&buffer);
	pthread_mutex_lock(&world->buffers->lock);
	runtime_nvtx_push("shmd_buffer_register");
	r = add(world, &buffer);
	runtime_nvtx_pop();
	pthread_mutex_unlock(&world->buffers->lock);
	return world_fail(world, r);
}

/* ---- unregistering */

/*
 * Requests that use the buffer are done, or their QP has failed and flushed them. Operations that begin from now on do not find it any
 * more.
 */
static int let_go(struct shmd_world *world)
{
	int status;

	if (!world->queues)
		return 0;
	status = world_ctx_settle(world);
	return status == SHMD_DEV_TIMEOUT ? world_status_error(world, status, "completing the operations on a buffer", -1) : 0;
}

static int take_away(struct shmd_world *world, uint64_t addr)
{
	WORLD_REQUESTS(world);
	struct world_buffers *all = world->buffers;
	size_t at = place_of(all, addr);
	uint64_t former = world->dev->buffers_addr;
	struct buffer buffer;
	int r;

	if (at == all->n || all->buffers[at].addr != addr)
		return shmd_error_set(-EINVAL, "no buffer is registered at 0x%" PRIx64, addr);
	buffer = all->buffers[at];
	take_out(all, at);
	r = renew(world);
	if (!r) {
		r = let_go(world);
		if (r < 0)
			show(world, former);
	}
	if (r < 0) {
		put_in(all, at, &buffer);
		return r;
	}
	return end_buffer(&buffer);
}

int shmd_buffer_unregister(struct shmd_world *world, void *addr)
{
	int r = world_check_started(world);

	if (r < 0)
		return r;
	pthread_mutex_lock(&world->buffers->lock);
	runtime_nvtx_push("shmd_buffer_unregister");
	r = take_away(world, (uintptr_t)addr);
	runtime_nvtx_pop();
	pthread_mutex_unlock(&world->buffers->lock);
	return world_fail(world, r);
}

/* ---- begin and end */

int world_buffers_make(struct shmd_world *world)
{
	world->buffers = calloc(1, sizeof(*world->buffers));
	if (!world->buffers)
		return shmd_error_set(-ENOMEM, "no memory for the list of buffers");
	pthread_mutex_init(&world->buffers->lock, NULL);
	return 0;
}

void world_buffers_drop(struct shmd_world *world, bool is_ours)
{
	struct world_buffers *all = world->buffers;

	if (!all)
		return;
	show(world, 0);
	for (size_t i = 0; is_ours && i < all->n; i++) {
		world_queues_dereg_buffer(all->buffers[i].mrs);
		/* The program may have unmapped it. */
		adopted_leave(all->buffers[i].memory);
	}
	while (all->newest) {
		struct table *former = all->newest->former;

		free(all->newest);
		all->newest = former;
	}
	pthread_mutex_destroy(&all->lock);
	free(all->buffers);
	free(all);
	world->buffers = NULL;
}
