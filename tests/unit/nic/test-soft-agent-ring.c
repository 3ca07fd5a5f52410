/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's side of an agent ring, against an agent that is some lines of each test. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/soft/soft-agent-ring.h"
#include "tests/lib/test.h"

#define DATA_BYTES AGENT_RING_MIN_DATA_BYTES
#define BYTES (SHMD_AGENT_DATA_OFFSET + DATA_BYTES)

struct lab {
	struct agent_ring ring;
	struct shmd_agent_ring *head;
	struct shmd_agent_request *requests;
	struct shmd_agent_completion *completions;
	uint8_t *map;
	uint32_t n_done;
};

static void lab_init(struct lab *l)
{
	memset(l, 0, sizeof(*l));
	l->map = calloc(1, BYTES);
	ASSERT(l->map);
	l->head = (void *)l->map;
	l->requests = (void *)(l->map + SHMD_AGENT_REQUESTS_OFFSET);
	l->completions = (void *)(l->map + SHMD_AGENT_COMPLETIONS_OFFSET);
	*l->head = (struct shmd_agent_ring){
		.version = SHMD_AGENT_RING_VERSION, .size_bytes = sizeof(*l->head), .data_offset = SHMD_AGENT_DATA_OFFSET, .data_bytes = DATA_BYTES};
	ASSERT_OK(agent_ring_init(&l->ring, l->map, BYTES));
}

static void lab_deinit(struct lab *l)
{
	free(l->map);
}

static const struct shmd_agent_request *last(const struct lab *l)
{
	return &l->requests[(l->head->n_requests - 1) % SHMD_AGENT_ENTRIES];
}

static void answer(struct lab *l, uint32_t id, int status)
{
	struct shmd_agent_completion *done = &l->completions[l->n_done++ % SHMD_AGENT_ENTRIES];

	done->id = id;
	done->status = status;
	l->head->n_completions = l->n_done;
}

static int post_write(struct lab *l, const void *src, uint32_t bytes, void *user)
{
	return agent_ring_post(&l->ring, &(struct agent_request){.op = SHMD_AGENT_WRITE, .addr = 77, .src = src, .bytes = bytes}, user);
}

TEST(nothing_is_ready_before_the_agent_serves_this_generation)
{
	struct lab l;

	lab_init(&l);
	ASSERT_EQ(l.head->generation, 1u);
	ASSERT(!agent_ring_is_ready(&l.ring));
	l.head->agent_generation = 1;
	ASSERT(!agent_ring_is_ready(&l.ring));
	l.head->agent_state = SHMD_AGENT_RUNNING;
	ASSERT(agent_ring_is_ready(&l.ring));
	l.head->agent_state = SHMD_AGENT_ENDED;
	ASSERT(!agent_ring_is_ready(&l.ring));
	ASSERT(agent_ring_has_ended(&l.ring));
	lab_deinit(&l);
}

TEST(small_payloads_travel_inside_and_large_ones_in_the_data_area)
{
	static uint8_t bytes[AGENT_RING_PART_BYTES] = {1, 2, 3};
	struct lab l;

	lab_init(&l);
	ASSERT_OK(post_write(&l, bytes, SHMD_AGENT_INLINE_BYTES, NULL));
	ASSERT_EQ(last(&l)->data_offset, 0u);
	ASSERT_MEMEQ(last(&l)->inline_data, bytes, SHMD_AGENT_INLINE_BYTES);
	ASSERT_OK(post_write(&l, bytes, AGENT_RING_PART_BYTES, NULL));
	ASSERT_GE(last(&l)->data_offset, SHMD_AGENT_DATA_OFFSET);
	ASSERT_MEMEQ(l.map + last(&l)->data_offset, bytes, sizeof(bytes));
	ASSERT_ERR(post_write(&l, bytes, AGENT_RING_PART_BYTES + 1, NULL), EINVAL);
	ASSERT_ERR(post_write(&l, bytes, 0, NULL), EINVAL);
	lab_deinit(&l);
}

TEST(results_come_back_in_any_order)
{
	uint64_t old[2] = {0, 0}, word = 0;
	struct agent_done done;
	uint32_t ids[2];
	struct lab l;

	lab_init(&l);
	for (unsigned int i = 0; i < 2; i++) {
		const struct agent_request add = {.op = SHMD_AGENT_FETCH_ADD, .ret_old = &old[i], .atomic = {.bytes = 8, .swap_or_add = i}};

		ASSERT_OK(agent_ring_post(&l.ring, &add, &old[i]));
		ids[i] = last(&l)->id;
		ASSERT_EQ(last(&l)->atomic.swap_or_add, i);
	}
	ASSERT_OK(agent_ring_post(&l.ring, &(struct agent_request){.op = SHMD_AGENT_READ, .dst = &word, .bytes = 8}, &word));
	for (unsigned int i = 0; i < 2; i++) {
		l.completions[l.n_done].old_value = 10 + i;
		answer(&l, ids[1 - i], 0);
	}
	memcpy(l.completions[l.n_done].inline_data, "12345678", 8);
	answer(&l, last(&l)->id, 0);
	ASSERT(agent_ring_has_news(&l.ring));
	ASSERT_EQ(agent_ring_take(&l.ring, &done), 1);
	ASSERT(done.user == &old[1]);
	ASSERT_EQ(agent_ring_take(&l.ring, &done), 1);
	ASSERT_EQ(agent_ring_take(&l.ring, &done), 1);
	ASSERT_EQ(agent_ring_take(&l.ring, &done), 0);
	ASSERT_EQ(old[1], 10u);
	ASSERT_EQ(old[0], 11u);
	ASSERT_MEMEQ(&word, "12345678", 8);
	lab_deinit(&l);
}

TEST(a_ring_that_is_full_takes_more_when_requests_are_done)
{
	struct agent_done done;
	uint8_t byte = 1;
	struct lab l;

	lab_init(&l);
	for (unsigned int i = 0; i < SHMD_AGENT_ENTRIES; i++)
		ASSERT_OK(post_write(&l, &byte, 1, NULL));
	ASSERT_ERR(post_write(&l, &byte, 1, NULL), EAGAIN);
	for (unsigned int i = 0; i < 3 * SHMD_AGENT_ENTRIES; i++) {
		answer(&l, l.requests[i % SHMD_AGENT_ENTRIES].id, 0);
		ASSERT_EQ(agent_ring_take(&l.ring, &done), 1);
		ASSERT_OK(post_write(&l, &byte, 1, NULL));
	}
	lab_deinit(&l);
}

TEST(counts_and_ids_go_on_when_they_wrap_around)
{
	const uint32_t at = UINT32_MAX - SHMD_AGENT_ENTRIES / 2;
	struct agent_done done;
	uint8_t byte = 1;
	struct lab l;

	lab_init(&l);
	l.head->n_requests = l.head->n_completions = at;
	l.ring.n_requests = l.ring.n_completions = l.n_done = at;
	l.ring.next_id = at & ~(SHMD_AGENT_ENTRIES - 1);
	for (unsigned int i = 0; i < SHMD_AGENT_ENTRIES; i++)
		ASSERT_OK(post_write(&l, &byte, 1, &l));
	for (unsigned int i = 0; i < 2 * SHMD_AGENT_ENTRIES; i++) {
		answer(&l, l.requests[(at + i) % SHMD_AGENT_ENTRIES].id, 0);
		ASSERT_EQ(agent_ring_take(&l.ring, &done), 1);
		ASSERT_EQ(agent_ring_take(&l.ring, &done), 0);
		ASSERT_OK(post_write(&l, &byte, 1, &l));
	}
	lab_deinit(&l);
}

TEST(a_data_area_that_is_full_takes_more_when_requests_are_done)
{
	static uint8_t bytes[AGENT_RING_PART_BYTES];
	const unsigned int n = DATA_BYTES / AGENT_RING_PART_BYTES;
	struct agent_done done;
	struct lab l;

	lab_init(&l);
	for (unsigned int i = 0; i < n; i++)
		ASSERT_OK(post_write(&l, bytes, sizeof(bytes), NULL));
	ASSERT_ERR(post_write(&l, bytes, 65, NULL), EAGAIN);
	ASSERT_OK(post_write(&l, bytes, 64, NULL));
	answer(&l, l.requests[5].id, 0);
	ASSERT_EQ(agent_ring_take(&l.ring, &done), 1);
	ASSERT_OK(post_write(&l, bytes, sizeof(bytes), NULL));
	ASSERT_EQ(last(&l)->data_offset, l.requests[5].data_offset);
	lab_deinit(&l);
}

static void is_dead(struct lab *l, unsigned int n_under_way)
{
	struct agent_done done;
	void *user;

	ASSERT_ERR(agent_ring_take(&l->ring, &done), EPROTO);
	ASSERT_EQ(agent_ring_take(&l->ring, &done), 0);
	ASSERT(agent_ring_has_ended(&l->ring));
	ASSERT_ERR(post_write(l, "x", 1, NULL), EPIPE);
	while (agent_ring_forget(&l->ring, &user))
		n_under_way--;
	ASSERT_EQ(n_under_way, 0u);
	lab_deinit(l);
}

TEST(an_answer_that_names_no_request_under_way_ends_the_ring)
{
	struct agent_done done;
	uint32_t id;
	struct lab l;

	lab_init(&l);
	ASSERT_OK(post_write(&l, "x", 1, NULL));
	ASSERT_OK(post_write(&l, "y", 1, NULL));
	id = l.requests[0].id;
	answer(&l, id, 0);
	ASSERT_EQ(agent_ring_take(&l.ring, &done), 1);
	answer(&l, id, 0);
	is_dead(&l, 1);
}

TEST(an_answer_with_a_status_that_is_none_ends_the_ring)
{
	struct lab l;

	lab_init(&l);
	ASSERT_OK(post_write(&l, "x", 1, NULL));
	answer(&l, l.requests[0].id, -EINPROGRESS);
	is_dead(&l, 1);
	lab_init(&l);
	ASSERT_OK(post_write(&l, "x", 1, NULL));
	answer(&l, l.requests[0].id, 1);
	is_dead(&l, 1);
}

TEST(more_answers_than_requests_end_the_ring)
{
	struct lab l;

	lab_init(&l);
	ASSERT_OK(post_write(&l, "x", 1, NULL));
	l.head->n_completions = 2;
	is_dead(&l, 1);
}
