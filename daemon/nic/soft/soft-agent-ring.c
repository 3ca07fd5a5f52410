/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC's side of an agent ring, without threads and clocks.
 *
 * The map is hostile: the agent, or whoever has its descriptor, changes any byte at any time. So sizes are taken once, at the
 * beginning; the NIC reads each field of a completion once; and what it must know of a request is in its own table of slots. An id
 * names a slot and how often slots were used, so that a late answer hits no newer request. A completion that names no request
 * under way, or counts that cannot be, make the ring dead, and nothing of it is used again. Bytes that the agent answers are the
 * client's own data, and wrong ones its own loss.
 *
 * Requests of few bytes have their payload inside; others get units of the data area, first fit from where the last one ended.
 * One thread at a time.
 */
#include "daemon/nic/soft/soft-agent-ring.h"

#include <errno.h>
#include <string.h>

#include "proto/base/fence.h"
#include "proto/base/overflow.h"

#define SLOT_MASK (SHMD_AGENT_ENTRIES - 1)

_Static_assert((SHMD_AGENT_ENTRIES & SLOT_MASK) == 0, "indexes wrap");

static struct shmd_agent_ring *head_of(const struct agent_ring *ring)
{
	return (struct shmd_agent_ring *)(void *)ring->map;
}

static struct shmd_agent_request *request_at(const struct agent_ring *ring, uint32_t index)
{
	return (struct shmd_agent_request *)(void *)(ring->map + SHMD_AGENT_REQUESTS_OFFSET) + (index & SLOT_MASK);
}

static struct shmd_agent_completion *completion_at(const struct agent_ring *ring, uint32_t index)
{
	return (struct shmd_agent_completion *)(void *)(ring->map + SHMD_AGENT_COMPLETIONS_OFFSET) + (index & SLOT_MASK);
}

static bool sizes_are_right(const struct agent_ring *ring, uint64_t bytes)
{
	return ring->data_offset >= SHMD_AGENT_DATA_OFFSET && ring->data_offset % AGENT_RING_UNIT_BYTES == 0 &&
	       ring->data_bytes >= AGENT_RING_MIN_DATA_BYTES && ring->data_bytes <= AGENT_RING_MAX_DATA_BYTES &&
	       ring->data_bytes % AGENT_RING_PART_BYTES == 0 && range_fits(ring->data_offset, ring->data_bytes, bytes);
}

int agent_ring_init(struct agent_ring *ring, void *map, uint64_t bytes)
{
	volatile const struct shmd_agent_ring *head = map;

	if (bytes < SHMD_AGENT_DATA_OFFSET)
		return -EINVAL;
	memset(ring, 0, sizeof(*ring));
	ring->map = map;
	ring->data_offset = head->data_offset;
	ring->data_bytes = head->data_bytes;
	if (head->version != SHMD_AGENT_RING_VERSION || head->size_bytes != sizeof(*head) || !sizes_are_right(ring, bytes))
		return -EINVAL;
	ring->n_free_units = (uint32_t)(ring->data_bytes / AGENT_RING_UNIT_BYTES);
	ring->generation = 1;
	__atomic_store_n(&head_of(ring)->n_requests, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&head_of(ring)->generation, ring->generation, __ATOMIC_SEQ_CST);
	return 0;
}

bool agent_ring_is_ready(const struct agent_ring *ring)
{
	return !ring->is_dead && __atomic_load_n(&head_of(ring)->agent_generation, __ATOMIC_ACQUIRE) == ring->generation &&
	       __atomic_load_n(&head_of(ring)->agent_state, __ATOMIC_ACQUIRE) == SHMD_AGENT_RUNNING;
}

bool agent_ring_has_ended(const struct agent_ring *ring)
{
	return ring->is_dead || __atomic_load_n(&head_of(ring)->agent_state, __ATOMIC_ACQUIRE) > SHMD_AGENT_RUNNING;
}

/* ---- the data area ---------------------------------------------------------------------------------------------------- */

static bool is_free_run(const struct agent_ring *ring, uint32_t first, uint32_t n, uint32_t *ret_past)
{
	for (uint32_t i = n; i-- > 0;) {
		if (ring->unit_is_used[first + i]) {
			*ret_past = first + i + 1;
			return false;
		}
	}
	return true;
}

static bool find_run(const struct agent_ring *ring, uint32_t from, uint32_t end, uint32_t n, uint32_t *ret_first)
{
	for (uint32_t at = from; at + n <= end;) {
		if (is_free_run(ring, at, n, &at)) {
			*ret_first = at;
			return true;
		}
	}
	return false;
}

static bool units_get(struct agent_ring *ring, uint32_t n, uint32_t *ret_first)
{
	uint32_t total = (uint32_t)(ring->data_bytes / AGENT_RING_UNIT_BYTES);

	if (ring->n_free_units < n)
		return false;
	if (!find_run(ring, ring->next_unit, total, n, ret_first) && !find_run(ring, 0, total, n, ret_first))
		return false;
	memset(ring->unit_is_used + *ret_first, 1, n);
	ring->n_free_units -= n;
	ring->next_unit = *ret_first + n;
	return true;
}

static void units_put(struct agent_ring *ring, const struct agent_ring_slot *slot)
{
	memset(ring->unit_is_used + slot->first_unit, 0, slot->n_units);
	ring->n_free_units += slot->n_units;
}

static uint64_t offset_of(const struct agent_ring *ring, const struct agent_ring_slot *slot)
{
	return slot->n_units ? ring->data_offset + (uint64_t)slot->first_unit * AGENT_RING_UNIT_BYTES : 0;
}

/* ---- posting ------------------------------------------------------------------------------------------------------------ */

static uint32_t units_for(const struct agent_request *request)
{
	if (request->op > SHMD_AGENT_WRITE ||
	    request->bytes <= (request->op == SHMD_AGENT_WRITE ? SHMD_AGENT_INLINE_BYTES : SHMD_AGENT_INLINE_READ_BYTES))
		return 0;
	/* bounded: AGENT_RING_PART_BYTES. */
	return (request->bytes + AGENT_RING_UNIT_BYTES - 1) / AGENT_RING_UNIT_BYTES;
}

static bool request_is_right(const struct agent_request *request)
{
	if (request->op == SHMD_AGENT_FETCH_ADD || request->op == SHMD_AGENT_COMPARE_SWAP)
		return request->atomic.bytes == 4 || request->atomic.bytes == 8;
	return (request->op == SHMD_AGENT_READ || request->op == SHMD_AGENT_WRITE) && request->bytes > 0 &&
	       request->bytes <= AGENT_RING_PART_BYTES;
}

static int slot_get(struct agent_ring *ring, const struct agent_request *request, struct agent_ring_slot **ret_slot)
{
	uint32_t n_units = units_for(request), first = 0, at = ring->next_slot;

	if (ring->n_used == SHMD_AGENT_ENTRIES || (n_units && !units_get(ring, n_units, &first)))
		return -EAGAIN;
	while (ring->slots[at & SLOT_MASK].is_used)
		at++;
	ring->next_slot = (at + 1) & SLOT_MASK;
	ring->next_id += SHMD_AGENT_ENTRIES;
	ring->n_used++;
	*ret_slot = &ring->slots[at & SLOT_MASK];
	**ret_slot = (struct agent_ring_slot){
		.is_used = true, .id = ring->next_id | (at & SLOT_MASK), .first_unit = first, .n_units = n_units, .request = *request};
	return 0;
}

static void write_payload(struct agent_ring *ring, const struct agent_ring_slot *slot, struct shmd_agent_request *to)
{
	const struct agent_request *request = &slot->request;

	if (request->op == SHMD_AGENT_WRITE)
		memcpy(slot->n_units ? ring->map + offset_of(ring, slot) : to->inline_data, request->src, request->bytes);
	else if (request->op != SHMD_AGENT_READ)
		to->atomic = (struct shmd_agent_atomic){
			.swap_or_add = request->atomic.swap_or_add,
			.compare = request->atomic.compare,
			.swap_mask = request->atomic.swap_mask,
			.compare_mask = request->atomic.compare_mask,
			.boundary = request->atomic.boundary,
		};
}

int agent_ring_post(struct agent_ring *ring, const struct agent_request *request, void *user)
{
	struct shmd_agent_request *to;
	struct agent_ring_slot *slot;
	int r;

	if (ring->is_dead)
		return -EPIPE;
	if (!request_is_right(request))
		return -EINVAL;
	r = slot_get(ring, request, &slot);
	if (r < 0)
		return r;
	slot->user = user;
	to = request_at(ring, ring->n_requests);
	to->id = slot->id;
	to->op = (uint8_t)request->op;
	to->addr = request->addr;
	to->bytes = request->op > SHMD_AGENT_WRITE ? request->atomic.bytes : request->bytes;
	to->data_offset = offset_of(ring, slot);
	write_payload(ring, slot, to);
	__atomic_store_n(&head_of(ring)->n_requests, ++ring->n_requests, __ATOMIC_RELEASE);
	return 0;
}

bool agent_ring_must_wake(const struct agent_ring *ring)
{
	full_fence();
	return __atomic_load_n(&head_of(ring)->agent_asleep, __ATOMIC_RELAXED);
}

/* ---- completions -------------------------------------------------------------------------------------------------------- */

/* Before the agent serves this generation, its count is of another one. */
bool agent_ring_has_news(const struct agent_ring *ring)
{
	return !ring->is_dead && ring->n_used > 0 &&
	       __atomic_load_n(&head_of(ring)->n_completions, __ATOMIC_ACQUIRE) != ring->n_completions;
}

static int die(struct agent_ring *ring)
{
	ring->is_dead = true;
	return -EPROTO;
}

/* The slot of a request under way; NULL: the id names none. */
static struct agent_ring_slot *find_slot(struct agent_ring *ring, uint32_t id)
{
	struct agent_ring_slot *slot = &ring->slots[id & SLOT_MASK];

#ifdef FUZZ_PLANT
	if (PLANTED("agent-answers") && slot->id == id && slot->user)
		return slot;
#endif
	return slot->is_used && slot->id == id ? slot : NULL;
}

static void take_result(const struct agent_ring *ring, const struct agent_ring_slot *slot, const struct shmd_agent_completion *from)
{
	const struct agent_request *request = &slot->request;

	if (request->op == SHMD_AGENT_READ)
		memcpy(request->dst, slot->n_units ? ring->map + offset_of(ring, slot) : from->inline_data, request->bytes);
	else if (request->op != SHMD_AGENT_WRITE)
		*request->ret_old = __atomic_load_n(&from->old_value, __ATOMIC_RELAXED);
}

static void slot_put(struct agent_ring *ring, struct agent_ring_slot *slot)
{
	units_put(ring, slot);
	slot->is_used = false;
	ring->n_used--;
}

static bool is_status(int32_t status)
{
	return status <= 0 && status >= -4095 && status != -EINPROGRESS;
}

int agent_ring_take(struct agent_ring *ring, struct agent_done *ret_done)
{
	uint32_t n_news;
	struct shmd_agent_completion *from;
	struct agent_ring_slot *slot;
	int32_t status;

	if (ring->is_dead || ring->n_used == 0)
		return 0;
	n_news = __atomic_load_n(&head_of(ring)->n_completions, __ATOMIC_ACQUIRE) - ring->n_completions;
	if (n_news == 0)
		return 0;
	if (n_news > ring->n_used)
		return die(ring);
	from = completion_at(ring, ring->n_completions);
	slot = find_slot(ring, __atomic_load_n(&from->id, __ATOMIC_RELAXED));
	status = __atomic_load_n(&from->status, __ATOMIC_RELAXED);
	if (!slot || !is_status(status))
		return die(ring);
	ring->n_completions++;
	if (status == 0)
		take_result(ring, slot, from);
	*ret_done = (struct agent_done){.user = slot->user, .status = status};
	slot_put(ring, slot);
	return 1;
}

/* Its units stay taken: the agent may still write there. */
bool agent_ring_forget(struct agent_ring *ring, void **ret_user)
{
	ring->is_dead = true;
	for (uint32_t i = 0; i < SHMD_AGENT_ENTRIES && ring->n_used > 0; i++) {
		if (!ring->slots[i].is_used)
			continue;
		*ret_user = ring->slots[i].user;
		ring->slots[i].is_used = false;
		ring->n_used--;
		return true;
	}
	return false;
}
