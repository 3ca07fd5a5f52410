/* SPDX-License-Identifier: Apache-2.0 */
/* See agent-ring.h. */
#include "libclient/agent-ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libclient/objects.h"
#include "proto/base/fence.h"
#include "proto/base/fields.h"
#include "proto/base/overflow.h"

static struct shmd_agent_ring *head_of(const struct agent_ring *ring)
{
	return (struct shmd_agent_ring *)(void *)ring->map;
}

static struct shmd_agent_completion *completion_of(const struct agent_ring *ring, uint32_t index)
{
	return (struct shmd_agent_completion *)(void *)(ring->map + SHMD_AGENT_COMPLETIONS_OFFSET) + index % SHMD_AGENT_ENTRIES;
}

static struct shmd_agent_request *request_of(const struct agent_ring *ring, uint32_t index)
{
	return (struct shmd_agent_request *)(void *)(ring->map + SHMD_AGENT_REQUESTS_OFFSET) + index % SHMD_AGENT_ENTRIES;
}

int agent_ring_make(struct agent_ring *ret_ring)
{
	_cleanup_close_ int fd = mem_fd_new(agent_ring_bytes());
	void *map;

	if (fd < 0)
		return fd;
	map = mmap(NULL, agent_ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return text_fail(-errno, "cannot map the ring of a memory agent: %s", strerror(errno));
	*ret_ring = (struct agent_ring){.fd = take_fd(&fd), .map = map};
	*head_of(ret_ring) = (struct shmd_agent_ring){
		.version = SHMD_AGENT_RING_VERSION,
		.size_bytes = sizeof(struct shmd_agent_ring),
		.data_offset = SHMD_AGENT_DATA_OFFSET,
		.data_bytes = SHMD_AGENT_DATA_BYTES,
	};
	return 0;
}

void agent_ring_free(struct agent_ring *ring)
{
	if (ring->map)
		munmap(ring->map, agent_ring_bytes());
	ring->map = NULL;
	ring->fd = safe_close(ring->fd);
}

/* ---- requests ------------------------------------------------------------------------------------------------------- */

/* A count that cannot be is that of a NIC which is about to begin a generation, or that makes no sense: either way nothing is there. */
static uint32_t count_new(const struct agent_ring *ring)
{
	uint32_t n = __atomic_load_n(&head_of(ring)->n_requests, __ATOMIC_ACQUIRE) - ring->n_taken;

	return n <= SHMD_AGENT_ENTRIES ? n : 0;
}

static uint32_t generation_of(const struct agent_ring *ring)
{
	return __atomic_load_n(&head_of(ring)->generation, __ATOMIC_ACQUIRE);
}

bool agent_ring_has_news(const struct agent_ring *ring)
{
	return generation_of(ring) != ring->generation || (ring->generation && count_new(ring));
}

static void begin_generation(struct agent_ring *ring, uint32_t generation)
{
	struct shmd_agent_ring *head = head_of(ring);

	ring->generation = generation;
	ring->n_taken = ring->n_completed = 0;
	__atomic_store_n(&head->n_completions, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&head->agent_generation, generation, __ATOMIC_RELEASE);
}

static int find_payload(const struct agent_ring *ring, const struct shmd_agent_request *in_ring, uint64_t data_offset, uint32_t index,
			struct agent_op *op)
{
	bool is_write = op->op == SHMD_AGENT_WRITE;
	uint64_t end;

	if (!op->bytes)
		return -EINVAL;
	if (data_offset) {
		if (data_offset < SHMD_AGENT_DATA_OFFSET || add_overflows(data_offset, op->bytes, &end) || end > agent_ring_bytes())
			return -EINVAL;
		op->payload = ring->map + data_offset;
		return 0;
	}
	if (op->bytes > (is_write ? SHMD_AGENT_INLINE_BYTES : SHMD_AGENT_INLINE_READ_BYTES))
		return -EINVAL;
	op->payload = is_write ? (uint8_t *)in_ring->inline_data : completion_of(ring, index)->inline_data;
	return 0;
}

static int check_atomic(const struct agent_op *op)
{
	return (op->bytes == 4 || op->bytes == 8) && op->addr % op->bytes == 0 ? 0 : -EINVAL;
}

static int find_region(const struct list *regions, struct agent_op *op)
{
	const struct agent_region *region;
	uint64_t offset, most;

	list_for_each_entry(region, regions, link) {
		/* Beginning with the distance, nothing wraps around. */
		offset = op->addr - region->addr;
		most = region->bytes - offset;
#ifdef FUZZ_PLANT
		most += PLANTED("agent-requests");
#endif
		if (offset < region->bytes && op->bytes <= most) {
			op->gpu = region->gpu;
			return 0;
		}
	}
	return -EFAULT;
}

/* `index`: of the completion that it will have. */
static int read_request(const struct agent_ring *ring, const struct shmd_agent_request *in_ring, uint32_t index, struct agent_op *op)
{
	uint64_t data_offset = __atomic_load_n(&in_ring->data_offset, __ATOMIC_RELAXED);

	*op = (struct agent_op){
		.id = __atomic_load_n(&in_ring->id, __ATOMIC_RELAXED),
		.op = __atomic_load_n(&in_ring->op, __ATOMIC_RELAXED),
		.addr = __atomic_load_n(&in_ring->addr, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&in_ring->bytes, __ATOMIC_RELAXED),
	};
	switch (op->op) {
	case SHMD_AGENT_READ:
	case SHMD_AGENT_WRITE:
		return find_payload(ring, in_ring, data_offset, index, op);
	case SHMD_AGENT_FETCH_ADD:
	case SHMD_AGENT_COMPARE_SWAP:
		op->atomic = in_ring->atomic;
		op->payload = (uint8_t *)&completion_of(ring, index)->old_value;
		return check_atomic(op);
	default:
		return -EINVAL;
	}
}

unsigned int agent_ring_take(struct agent_ring *ring, const struct list *regions, struct agent_op *ops, unsigned int max)
{
	uint32_t generation = generation_of(ring), n;

	if (generation != ring->generation)
		begin_generation(ring, generation);
	n = generation ? count_new(ring) : 0;
	n = n < max ? n : max;
	for (uint32_t i = 0; i < n; i++) {
		ops[i].status = read_request(ring, request_of(ring, ring->n_taken + i), ring->n_completed + i, &ops[i]);
		if (!ops[i].status)
			ops[i].status = find_region(regions, &ops[i]);
	}
	/* It forgets those of a generation that has ended meanwhile. */
	if (generation_of(ring) != generation)
		return 0;
	ring->n_taken += n;
	return n;
}

/* ---- completions ----------------------------------------------------------------------------------------------------- */

void agent_ring_complete(struct agent_ring *ring, const struct agent_op *ops, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct shmd_agent_completion *completion = completion_of(ring, ring->n_completed + i);

		completion->id = ops[i].id;
		completion->status = ops[i].status;
		completion->old_value = ops[i].old_value;
	}
	ring->n_completed += n;
	/* The fence stands between it and the look whether the NIC sleeps. */
	__atomic_store_n(&head_of(ring)->n_completions, ring->n_completed, __ATOMIC_RELEASE);
	full_fence();
}

void agent_ring_set_asleep(struct agent_ring *ring, bool is_asleep)
{
	__atomic_store_n(&head_of(ring)->agent_asleep, is_asleep, __ATOMIC_RELAXED);
	full_fence();
}

void agent_ring_set_state(struct agent_ring *ring, enum shmd_agent_state state)
{
	__atomic_store_n(&head_of(ring)->agent_state, (uint32_t)state, __ATOMIC_RELEASE);
	full_fence();
}

/* ---- atomics --------------------------------------------------------------------------------------------------------- */

uint64_t agent_atomic_apply(const struct agent_op *op, uint64_t old)
{
	const struct shmd_agent_atomic *atomic = &op->atomic;
	uint64_t all = op->bytes == 4 ? UINT32_MAX : UINT64_MAX;

	if (op->op == SHMD_AGENT_FETCH_ADD)
		return fields_add(old, atomic->swap_or_add, atomic->boundary) & all;
	return fields_compare_swap(old, atomic->compare, atomic->compare_mask & all, atomic->swap_or_add, atomic->swap_mask) & all;
}
