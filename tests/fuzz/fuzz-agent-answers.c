/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC's side of an agent ring, against an agent that writes what the input says.
 *
 * The input is a program of the NIC and its agent: two bytes each, an order and an argument. The NIC writes its own buffers and nothing else, each request ends once, and a ring that is dead stays dead.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/soft/soft-agent-ring.h"
#include "proto/base/assert.h"
#include "tests/fuzz/fuzz.h"

#define DATA_BYTES AGENT_RING_MIN_DATA_BYTES
#define BYTES (SHMD_AGENT_DATA_OFFSET + DATA_BYTES)

enum order { POST_READ, POST_WRITE, POST_ATOMIC, ANSWER, ANSWER_STRANGE, STATE, SPOIL, COUNT, N_ORDERS };

/* The buffer of a request is a block of its own, so that a checker sees a byte too many. */
struct user {
	uint64_t old;
	bool is_done;
	uint8_t *bytes;
};

struct lab {
	struct agent_ring ring;
	uint8_t *map;
	struct shmd_agent_ring *head;
	struct shmd_agent_completion *completions;
	uint32_t n_posted, n_ended, n_answered;
	struct user users[2 * SHMD_AGENT_ENTRIES];
};

static void end(struct lab *l, struct user *user)
{
	assert_bug(!user->is_done);
	user->is_done = true;
	free(user->bytes);
	l->n_ended++;
}

static void post(struct lab *l, enum shmd_agent_op op, uint8_t arg)
{
	struct user *user = &l->users[l->n_posted];
	struct agent_request request = {.op = op, .addr = arg, .bytes = arg < 128 ? arg : (uint32_t)(arg - 127) * 512, .ret_old = &user->old,
					.atomic = {.bytes = arg & 15}};
	int r;

	if (l->n_posted == 2 * SHMD_AGENT_ENTRIES)
		return;
	user->bytes = calloc(1, (size_t)request.bytes + 1);
	assert_bug(user->bytes);
	request.dst = user->bytes;
	request.src = user->bytes;
	r = agent_ring_post(&l->ring, &request, user);
	l->n_posted += r == 0;
	if (r < 0)
		free(user->bytes);
}

static void answer(struct lab *l, uint8_t arg, bool strange)
{
	const struct shmd_agent_request *requests = (const void *)(l->map + SHMD_AGENT_REQUESTS_OFFSET);
	struct shmd_agent_completion *done = &l->completions[l->n_answered % SHMD_AGENT_ENTRIES];

	done->id = requests[arg].id ^ (strange ? 1u << arg % 32 : 0);
	done->status = arg % 16 == 15 ? -arg : 0;
	l->head->n_completions = ++l->n_answered;
}

/* Also of the parts that the library and the NIC wrote. */
static void spoil(struct lab *l, uint8_t arg)
{
	l->map[arg % 2 ? arg : SHMD_AGENT_COMPLETIONS_OFFSET + arg] ^= arg;
}

static void obey(struct lab *l, uint8_t order, uint8_t arg)
{
	switch ((enum order)(order % N_ORDERS)) {
	case POST_READ:
		return post(l, SHMD_AGENT_READ, arg);
	case POST_WRITE:
		return post(l, SHMD_AGENT_WRITE, arg);
	case POST_ATOMIC:
		return post(l, arg & 16 ? SHMD_AGENT_FETCH_ADD : SHMD_AGENT_COMPARE_SWAP, arg);
	case ANSWER:
	case ANSWER_STRANGE:
		return answer(l, arg, order % N_ORDERS == ANSWER_STRANGE);
	case STATE:
		l->head->agent_state = arg % 4;
		l->head->agent_generation = arg / 4;
		return;
	case SPOIL:
		return spoil(l, arg);
	case COUNT:
		l->head->n_completions = (uint32_t)arg * 0x01010101u;
		return;
	case N_ORDERS:
		return;
	}
}

static void take_all(struct lab *l)
{
	bool was_dead = l->ring.is_dead;
	struct agent_done done;
	int r;

	agent_ring_is_ready(&l->ring);
	agent_ring_has_news(&l->ring);
	while ((r = agent_ring_take(&l->ring, &done)) > 0) {
		assert_bug(!was_dead && done.status <= 0);
		end(l, done.user);
	}
	assert_bug(r == 0 || l->ring.is_dead);
}

static void forget_all(struct lab *l)
{
	void *user;

	while (agent_ring_forget(&l->ring, &user))
		end(l, user);
	assert_bug(l->n_ended == l->n_posted);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct lab *l = calloc(1, sizeof(*l));

	assert_bug(l);
	l->map = calloc(1, BYTES);
	assert_bug(l->map);
	l->head = (void *)l->map;
	l->completions = (void *)(l->map + SHMD_AGENT_COMPLETIONS_OFFSET);
	*l->head = (struct shmd_agent_ring){.version = SHMD_AGENT_RING_VERSION,
					    .size_bytes = sizeof(*l->head),
					    .data_offset = SHMD_AGENT_DATA_OFFSET,
					    .data_bytes = DATA_BYTES};
	if (n > 0 && bytes[0] % 4 == 0)
		spoil(l, bytes[0]);
	if (agent_ring_init(&l->ring, l->map, BYTES) == 0) {
		for (size_t i = 1; i + 1 < n; i += 2) {
			obey(l, bytes[i], bytes[i + 1]);
			take_all(l);
		}
		forget_all(l);
	}
	free(l->map);
	free(l);
	return 0;
}
