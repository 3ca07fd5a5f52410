/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a NIC writes to the ring of a memory agent. An input is a byte for the counts and the generation, then requests of
 * REQUEST_BYTES each.
 *
 * As many are taken as were posted, none if the count cannot be. One that is carried out lies in one region, and its payload in the
 * ring, behind the header; its operation is a known one, of a size that it has. Each gets one completion with its id.
 */
#include <errno.h>
#include <string.h>

#include "libclient/agent-ring.h"
#include "proto/base/assert.h"
#include "tests/fuzz/fuzz.h"

#define REQUEST_BYTES 72u /* to the end of an atomic */
#define N_REGIONS 3u

static bool lies_in(uint64_t at, uint64_t bytes, uint64_t start, uint64_t size)
{
	return at >= start && bytes <= size && at - start <= size - bytes;
}

static void check_op(const struct agent_ring *ring, const struct agent_region *regions, const struct agent_op *op)
{
	bool is_known = false;

	if (op->status) {
		assert_bug(op->status == -EINVAL || op->status == -EFAULT);
		return;
	}
	for (unsigned int i = 0; i < N_REGIONS; i++)
		is_known |= lies_in(op->addr, op->bytes, regions[i].addr, regions[i].bytes);
	assert_bug(is_known && op->bytes);
	if (agent_op_is_atomic(op))
		assert_bug((op->bytes == 4 || op->bytes == 8) && op->addr % op->bytes == 0);
	else
		assert_bug(op->op == SHMD_AGENT_READ || op->op == SHMD_AGENT_WRITE);
	assert_bug(lies_in((uintptr_t)op->payload, op->bytes, (uintptr_t)ring->map + SHMD_AGENT_REQUESTS_OFFSET,
			   agent_ring_bytes() - SHMD_AGENT_REQUESTS_OFFSET));
}

static void check_completions(const struct agent_ring *ring, const struct agent_op *ops, unsigned int n)
{
	const struct shmd_agent_completion *completions =
		(const struct shmd_agent_completion *)(const void *)(ring->map + SHMD_AGENT_COMPLETIONS_OFFSET);

	for (unsigned int i = 0; i < n; i++)
		assert_bug(completions[i].id == ops[i].id && completions[i].status == ops[i].status);
}

static unsigned int post(struct agent_ring *ring, const uint8_t *bytes, size_t n)
{
	unsigned int posted = 0;

	for (; n >= REQUEST_BYTES && posted < SHMD_AGENT_ENTRIES; n -= REQUEST_BYTES, bytes += REQUEST_BYTES)
		memcpy(ring->map + SHMD_AGENT_REQUESTS_OFFSET + posted++ * sizeof(struct shmd_agent_request), bytes, REQUEST_BYTES);
	return posted;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static struct agent_ring ring;
	static struct agent_op ops[SHMD_AGENT_ENTRIES];
	struct agent_region regions[N_REGIONS] = {
		{.addr = 0x10000, .bytes = 4096}, {.addr = 0x20000, .bytes = 3}, {.addr = UINT64_MAX - 4095, .bytes = 4095}};
	struct list list = {.prev = &list, .next = &list};
	struct shmd_agent_ring *head;
	unsigned int n_posted, n_taken;

	if (!n)
		return 0;
	if (!ring.map)
		assert_bug(!agent_ring_make(&ring));
	for (unsigned int i = 0; i < N_REGIONS; i++)
		list_add_tail(&list, &regions[i].link);
	head = (struct shmd_agent_ring *)(void *)ring.map;
	n_posted = post(&ring, bytes + 1, n - 1);
	/* Another generation with each input, so indexes begin at 0; or none at all. */
	head->generation = bytes[0] & 1 ? 0 : ring.generation + 1;
	head->n_requests = n_posted + (bytes[0] & 2 ? SHMD_AGENT_ENTRIES + 1 : 0);
	n_taken = agent_ring_take(&ring, &list, ops, SHMD_AGENT_ENTRIES);
	assert_bug(n_taken == (bytes[0] & 3 ? 0 : n_posted));
	for (unsigned int i = 0; i < n_taken; i++) {
		check_op(&ring, regions, &ops[i]);
		if (!ops[i].status && agent_op_is_atomic(&ops[i]))
			assert_bug(ops[i].bytes == 8 || agent_atomic_apply(&ops[i], 7) <= UINT32_MAX);
	}
	agent_ring_complete(&ring, ops, n_taken);
	check_completions(&ring, ops, n_taken);
	assert_bug(head->n_completions == n_taken);
	return 0;
}
