/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on PEs whose memory is mapped: against a model, by many threads, with wrong arguments, and on PEs that have ended. */
#include <string.h>

#include "tests/dev/pe-lab.h"

static const uint32_t sizes[] = {1, 2, 3, LAB_PES};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* ---- against a model ---------------------------------------------------------------------------------------------------------- */

#define MODEL_BYTES LAB_MEMORY_BYTES

struct model {
	uint8_t bytes[LAB_PES][MODEL_BYTES];
};

static struct model model;
static uint8_t buffer[MODEL_BYTES];

/* A place, and a length that is a word, short, or long. */
static void choose(uint64_t *random, uint64_t *ret_at, uint64_t *ret_bytes)
{
	static const uint32_t limits[] = {9, 200, 70000};

	*ret_bytes = lab_random(random) % limits[lab_random(random) % 3];
	*ret_at = lab_random(random) % (MODEL_BYTES - *ret_bytes + 1);
	if (lab_random(random) % 2)
		*ret_at &= ~7ull;
}

static void put_one(struct pe_lab *lab, uint32_t me, uint32_t pe, uint64_t *random)
{
	struct shmd_dev_ctx *ctx = &lab->pes[me].ctx;
	uint64_t at, bytes;
	uint8_t *dest;

	choose(random, &at, &bytes);
	fill(buffer, bytes, (unsigned int)lab_random(random));
	dest = pe_lab_memory(lab, me) + at;
	memcpy(&model.bytes[pe][at], buffer, bytes);
	if (lab_random(random) % 2)
		ASSERT_EQ(shmd_dev_put(ctx, dest, buffer, bytes, pe), SHMD_DEV_OK);
	else
		ASSERT_EQ(shmd_dev_put_nbi(ctx, dest, buffer, bytes, pe), SHMD_DEV_OK);
}

static void get_one(struct pe_lab *lab, uint32_t me, uint32_t pe, uint64_t *random)
{
	struct shmd_dev_ctx *ctx = &lab->pes[me].ctx;
	uint64_t at, bytes;
	uint8_t *source;

	choose(random, &at, &bytes);
	source = pe_lab_memory(lab, me) + at;
	memset(buffer, 0xee, bytes);
	if (lab_random(random) % 2)
		ASSERT_EQ(shmd_dev_get(ctx, buffer, source, bytes, pe), SHMD_DEV_OK);
	else
		ASSERT_EQ(shmd_dev_get_nbi(ctx, buffer, source, bytes, pe), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_quiet(ctx), SHMD_DEV_OK);
	ASSERT_MEMEQ(buffer, &model.bytes[pe][at], bytes);
}

static void word_one(struct pe_lab *lab, uint32_t me, uint32_t pe, uint64_t *random)
{
	uint32_t bytes = 1u << lab_random(random) % 4;
	uint64_t at = lab_random(random) % (MODEL_BYTES / bytes) * bytes, value = lab_random(random), found = 1, want = 0;
	uint8_t *word = pe_lab_memory(lab, me) + at;

	ASSERT_EQ(shmd_dev_p(&lab->pes[me].ctx, word, value, bytes, pe), SHMD_DEV_OK);
	memcpy(&model.bytes[pe][at], &value, bytes);
	memcpy(&want, &value, bytes);
	ASSERT_EQ(shmd_dev_g(&lab->pes[me].ctx, word, bytes, pe, &found), SHMD_DEV_OK);
	ASSERT_EQ(found, want);
}

TEST(puts_and_gets_are_those_of_a_model)
{
	uint64_t random = 88172645463325252ull;

	for (uint32_t i = 0; i < N_SIZES; i++) {
		struct pe_lab *lab = pe_lab_new(sizes[i]);

		memset(&model, 0, sizeof(model));
		for (uint32_t round = 0; round < 2000; round++) {
			uint32_t me = lab_random(&random) % sizes[i], pe = lab_random(&random) % sizes[i];

			put_one(lab, me, pe, &random);
			word_one(lab, me, pe, &random);
			get_one(lab, lab_random(&random) % sizes[i], pe, &random);
		}
		for (uint32_t pe = 0; pe < sizes[i]; pe++)
			ASSERT_MEMEQ(pe_lab_memory(lab, pe), model.bytes[pe], MODEL_BYTES);
		pe_lab_free(lab);
	}
}

/* ---- atomics -------------------------------------------------------------------------------------------------------------------- */

static uint64_t outcome(const struct shmd_dev_amo *amo, uint64_t word)
{
	double a, b;
	float c, d;

	switch (amo->op) {
	case SHMD_DEV_AMO_ADD:
		return word + amo->value;
	case SHMD_DEV_AMO_AND:
		return word & amo->value;
	case SHMD_DEV_AMO_OR:
		return word | amo->value;
	case SHMD_DEV_AMO_XOR:
		return word ^ amo->value;
	case SHMD_DEV_AMO_SWAP:
		return amo->value;
	case SHMD_DEV_AMO_COMPARE_SWAP:
		return word == amo->compare ? amo->value : word;
	case SHMD_DEV_AMO_ADD_FLOAT:
		if (amo->bytes == 8) {
			memcpy(&a, &word, 8);
			memcpy(&b, &amo->value, 8);
			a += b;
			memcpy(&word, &a, 8);
			return word;
		}
		memcpy(&c, &word, 4);
		memcpy(&d, &amo->value, 4);
		c += d;
		memcpy(&word, &c, 4);
		return word;
	default:
		return word;
	}
}

static void amo_one(struct pe_lab *lab, uint32_t me, uint32_t pe, const struct shmd_dev_amo *amo, uint64_t before)
{
	uint64_t mask = amo->bytes == 8 ? UINT64_MAX : UINT32_MAX, after = outcome(amo, before & mask) & mask, old = 1, found = 1;
	/* The second half of 8 bytes, so that a neighbour would show. */
	uint8_t *word = pe_lab_memory(lab, me) + (amo->bytes == 8 ? 8 : 20);
	struct shmd_dev_ctx *ctx = &lab->pes[me].ctx;

	for (int fetches = 0; fetches < 2; fetches++) {
		ASSERT_EQ(shmd_dev_p(ctx, word, before, amo->bytes, pe), SHMD_DEV_OK);
		if (fetches) {
			ASSERT_EQ(shmd_dev_atomic_fetch(ctx, word, *amo, pe, &old), SHMD_DEV_OK);
			ASSERT_EQ(old, before & mask);
		} else {
			ASSERT_EQ(shmd_dev_atomic(ctx, word, *amo, pe), SHMD_DEV_OK);
		}
		ASSERT_EQ(shmd_dev_g(ctx, word, amo->bytes, pe, &found), SHMD_DEV_OK);
		ASSERT_EQ(found, after);
	}
}

TEST(atomics_do_what_they_say_and_leave_neighbours_alone)
{
	static const uint64_t words[] = {0, 1, UINT64_MAX, 0x0123456789abcdefull, 0x3ff8000040200000ull, 0x80000000ull};
	struct pe_lab *lab = pe_lab_new(2);
	uint64_t *memory = (uint64_t *)pe_lab_memory(lab, 1);

	memory[0] = memory[2] = memory[3] = 77;
	for (int op = SHMD_DEV_AMO_FETCH; op <= SHMD_DEV_AMO_ADD_FLOAT; op++) {
		for (uint32_t i = 0; i < 2 * 6 * 6; i++) {
			struct shmd_dev_amo amo = shmd_dev_amo_of(op, i % 2 ? 8 : 4, words[i / 2 % 6]);
			uint64_t before = words[i / 12];

			/* A NaN has many bits. */
			if (op == SHMD_DEV_AMO_ADD_FLOAT && (before == UINT64_MAX || amo.value == UINT64_MAX))
				continue;
			amo.compare = i % 4 < 2 ? before & (amo.bytes == 8 ? UINT64_MAX : UINT32_MAX) : before + 1;
			amo_one(lab, 0, 1, &amo, before);
			amo_one(lab, 1, 1, &amo, before);
		}
	}
	ASSERT_EQ(memory[0], 77u);
	ASSERT_EQ((uint32_t)memory[2], 77u);
	ASSERT_EQ(memory[3], 77u);
	pe_lab_free(lab);
}

#define N_ADDS 2000u

static void add_many(const struct lab_thread *me)
{
	uint64_t *words = (uint64_t *)pe_lab_memory(me->lab, me->pe);
	double one = 1.0;
	uint64_t bits;

	memcpy(&bits, &one, 8);
	for (uint32_t i = 0; i < N_ADDS; i++) {
		uint32_t pe = (me->pe + i) % me->lab->n_pes;

		ASSERT_EQ(shmd_dev_atomic(me->ctx, &words[0], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 3), pe), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_atomic_fetch(me->ctx, &words[1], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, 1), pe, NULL), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_atomic(me->ctx, &words[2], shmd_dev_amo_of(SHMD_DEV_AMO_ADD_FLOAT, 8, bits), pe), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_signal(me->ctx, shmd_dev_pe_signal_of(&words[3], SHMD_DEV_SIGNAL_ADD, 1), pe), SHMD_DEV_OK);
	}
}

TEST(atomics_of_many_threads_lose_nothing)
{
	struct pe_lab *lab = pe_lab_new(4);
	uint64_t sums[4] = {0};

	pe_lab_run(lab, 8, add_many, NULL);
	for (uint32_t pe = 0; pe < 4; pe++) {
		uint64_t *words = (uint64_t *)pe_lab_memory(lab, pe);
		double v;

		memcpy(&v, &words[2], 8);
		sums[0] += words[0];
		sums[1] += words[1];
		sums[2] += (uint64_t)v;
		sums[3] += words[3];
	}
	ASSERT_EQ(sums[0], 3u * 4 * 8 * N_ADDS);
	ASSERT_EQ(sums[1], 4u * 8 * N_ADDS);
	ASSERT_EQ(sums[2], 4u * 8 * N_ADDS);
	ASSERT_EQ(sums[3], 4u * 8 * N_ADDS);
	pe_lab_free(lab);
}

/* ---- signals -------------------------------------------------------------------------------------------------------------------- */

#define N_MESSAGES 300u
#define MESSAGE_BYTES 1000u

/* Each thread sends to the same thread of the next PE, in turns of one message and its answer. */
static void send_and_answer(const struct lab_thread *me)
{
	uint8_t *memory = pe_lab_memory(me->lab, me->pe) + me->thread * 4096, mine[MESSAGE_BYTES], want[MESSAGE_BYTES];
	uint32_t next = (me->pe + 1) % me->lab->n_pes, before = (me->pe + me->lab->n_pes - 1) % me->lab->n_pes;
	uint64_t *arrived = (uint64_t *)(memory + 2048), *answered = (uint64_t *)(memory + 2056);

	for (uint32_t i = 1; i <= N_MESSAGES; i++) {
		fill(mine, MESSAGE_BYTES, me->pe * 1000 + i);
		ASSERT_EQ(shmd_dev_put_signal(me->ctx, memory, mine, MESSAGE_BYTES,
					      shmd_dev_pe_signal_of(arrived, i % 2 ? SHMD_DEV_SIGNAL_SET : SHMD_DEV_SIGNAL_ADD,
								    i % 2 ? i : 1),
					      next),
			  SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_wait_until(me->ctx, arrived, 8, SHMD_DEV_CMP_GE, i), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_signal_fetch(arrived), i);
		fill(want, MESSAGE_BYTES, before * 1000 + i);
		ASSERT_MEMEQ(memory, want, MESSAGE_BYTES);
		/* p after a fence is as good as a signal. */
		ASSERT_EQ(shmd_dev_fence_pe(me->ctx, before), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_p(me->ctx, answered, i, 8, before), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_wait_until(me->ctx, answered, 8, SHMD_DEV_CMP_EQ, i), SHMD_DEV_OK);
	}
}

TEST(a_pe_that_sees_the_signal_sees_the_data)
{
	static const uint32_t threads[] = {8, 8, 4, 2};

	for (uint32_t i = 0; i < N_SIZES; i++) {
		struct pe_lab *lab = pe_lab_new(sizes[i]);

		pe_lab_run(lab, threads[i], send_and_answer, NULL);
		pe_lab_free(lab);
	}
}

/* ---- arguments, ends -------------------------------------------------------------------------------------------------------------- */

/* The status of every kind of operation on this memory and PE. */
static void expect_all(struct pe_lab *lab, void *at, uint32_t pe, int status)
{
	struct shmd_dev_amo add = shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1);
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	uint64_t *word = (uint64_t *)at, *good = (uint64_t *)pe_lab_memory(lab, 0), v = 5;
	struct shmd_dev_pe_signal signal = shmd_dev_pe_signal_of(word, SHMD_DEV_SIGNAL_ADD, 1);

	ASSERT_EQ(shmd_dev_put(ctx, at, &v, 8, pe), status);
	ASSERT_EQ(shmd_dev_put_nbi(ctx, at, &v, 8, pe), status);
	ASSERT_EQ(shmd_dev_get(ctx, &v, at, 8, pe), status);
	ASSERT_EQ(shmd_dev_get_nbi(ctx, &v, at, 8, pe), status);
	ASSERT_EQ(shmd_dev_p(ctx, at, 1, 8, pe), status);
	ASSERT_EQ(shmd_dev_g(ctx, at, 8, pe, &v), status);
	ASSERT_EQ(shmd_dev_put_signal(ctx, at, &v, 8, shmd_dev_pe_signal_of(good, SHMD_DEV_SIGNAL_SET, 1), pe), status);
	ASSERT_EQ(shmd_dev_put_signal(ctx, good, &v, 8, signal, pe), status);
	ASSERT_EQ(shmd_dev_put_signal_nbi(ctx, at, &v, 8, signal, pe), status);
	ASSERT_EQ(shmd_dev_signal(ctx, signal, pe), status);
	ASSERT_EQ(shmd_dev_atomic(ctx, at, add, pe), status);
	ASSERT_EQ(shmd_dev_atomic_fetch(ctx, at, add, pe, &v), status);
	ASSERT_EQ(v, 5u);
}

TEST(memory_outside_the_heap_and_pes_out_of_range_are_refused)
{
	struct pe_lab *lab = pe_lab_new(2);
	uint8_t *end = lab->pes[0].heap + LAB_USED_BYTES;
	uint64_t outside[2] = {0};
	/* The compiler knows that no memory is so large. */
	volatile uint64_t most = UINT64_MAX;

	expect_all(lab, outside, 1, SHMD_DEV_INVALID);
	expect_all(lab, lab->pes[0].heap - 8, 1, SHMD_DEV_INVALID);
	expect_all(lab, end, 1, SHMD_DEV_INVALID);
	expect_all(lab, pe_lab_memory(lab, 0), 2, SHMD_DEV_INVALID);
	expect_all(lab, pe_lab_memory(lab, 0), (uint32_t)-1, SHMD_DEV_INVALID);
	/* The last byte. */
	ASSERT_EQ(shmd_dev_put(&lab->pes[0].ctx, end - 8, outside, 8, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_put(&lab->pes[0].ctx, end - 8, outside, 9, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_put(&lab->pes[0].ctx, end, outside, 0, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_put(&lab->pes[0].ctx, end - 8, outside, most, 1), SHMD_DEV_INVALID);
	/* A heap that grows. */
	__atomic_store_n(&lab->pes[0].world.heap[0].used_bytes, LAB_USED_BYTES + 8, __ATOMIC_RELEASE);
	ASSERT_EQ(shmd_dev_put(&lab->pes[0].ctx, end, outside, 8, 1), SHMD_DEV_OK);
	pe_lab_free(lab);
}

TEST(words_must_be_aligned_and_of_a_known_size)
{
	struct pe_lab *lab = pe_lab_new(2);
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	uint8_t *memory = pe_lab_memory(lab, 0);
	uint64_t v;

	ASSERT_EQ(shmd_dev_p(ctx, memory + 1, 1, 2, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_p(ctx, memory, 1, 3, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_p(ctx, memory, 1, 0, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_g(ctx, memory, 16, 1, &v), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_atomic(ctx, memory + 4, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_atomic(ctx, memory, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 2, 1), 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_atomic(ctx, memory, shmd_dev_amo_of(SHMD_DEV_AMO_ADD_FLOAT + 1, 8, 1), 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_atomic(ctx, memory, shmd_dev_amo_of(-1, 8, 1), 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_signal(ctx, shmd_dev_pe_signal_of((uint64_t *)(memory + 4), SHMD_DEV_SIGNAL_SET, 1), 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_signal(ctx, shmd_dev_pe_signal_of((uint64_t *)memory, 2, 1), 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_wait_until(ctx, memory, 1, SHMD_DEV_CMP_EQ, 0), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_wait_until(ctx, memory, 0, SHMD_DEV_CMP_EQ, 0), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_wait_until(ctx, memory + 4, 8, SHMD_DEV_CMP_EQ, 0), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_wait_until(ctx, memory, 8, 6, 0), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_test(ctx, memory, 8, 0x20, 0), SHMD_DEV_INVALID);
	for (uint32_t i = 0; i < 64; i++)
		ASSERT_EQ(pe_lab_memory(lab, 1)[i], 0);
	pe_lab_free(lab);
}

TEST(a_pe_without_a_path_and_one_that_has_ended_are_told_apart)
{
	struct pe_lab *lab = pe_lab_new(3);
	uint8_t *memory = pe_lab_memory(lab, 0);

	pe_lab_path(lab, 0, 1, SHMD_PATH_NONE);
	expect_all(lab, memory, 1, SHMD_DEV_NO_PATH);
	pe_lab_path(lab, 0, 1, SHMD_PATH_QUEUE);
	/* There is no queue. */
	expect_all(lab, memory, 1, SHMD_DEV_NO_PATH);
	pe_lab_end_pe(lab, 2);
	expect_all(lab, memory, 2, SHMD_DEV_PE_GONE);
	pe_lab_forgive(lab);
	expect_all(lab, memory, 2, SHMD_DEV_PE_GONE);
	ASSERT(shmd_dev_ptr(&lab->pes[0].ctx, memory, 2) == NULL);
	ASSERT(shmd_dev_ptr(&lab->pes[0].ctx, memory, 3) == NULL);
	ASSERT(shmd_dev_ptr(&lab->pes[0].ctx, memory, 0) == memory);
	pe_lab_free(lab);
}

#define N_TAKEN 20000u

/* PE 1 takes each message away. */
static void take_messages(const struct lab_thread *me)
{
	uint64_t *word = (uint64_t *)pe_lab_memory(me->lab, me->pe), *taken = word + 1, *source = word + 2;

	for (uint64_t i = 1; me->pe < 2 && i <= N_TAKEN; i++) {
		*source = i;
		if (me->pe) {
			ASSERT_EQ(shmd_dev_wait_until(me->ctx, word, 8, SHMD_DEV_CMP_NE, 0), SHMD_DEV_OK);
			ASSERT_EQ(*word, i);
			__atomic_store_n(word, 0, __ATOMIC_RELEASE);
			ASSERT_EQ(shmd_dev_p(me->ctx, taken, i, 8, 0), SHMD_DEV_OK);
		} else {
			ASSERT_EQ(shmd_dev_put(me->ctx, word, source, 8, 1), SHMD_DEV_OK);
			ASSERT_EQ(shmd_dev_wait_until(me->ctx, taken, 8, SHMD_DEV_CMP_EQ, i), SHMD_DEV_OK);
		}
	}
}

TEST(a_put_is_one_store_also_where_another_pe_has_ended)
{
	struct pe_lab *lab = pe_lab_new(3);

	pe_lab_end_pe(lab, 2);
	pe_lab_forgive(lab);
	pe_lab_run(lab, 1, take_messages, NULL);
	pe_lab_free(lab);
}

TEST(a_context_numbers_pes_as_its_team_does)
{
	static const uint32_t members[] = {3, 1};
	struct pe_lab *lab = pe_lab_new(4);
	struct shmd_dev_ctx ctx = lab->pes[0].ctx;
	struct shmd_dev_team team, strided = {.n_pes = 2, .start = 1, .stride = 2};
	uint64_t *word = (uint64_t *)pe_lab_memory(lab, 0);

	pe_lab_team(lab, 1, members, 2, 0, &team);
	pe_lab_team_ctx(lab, 0, &team, &ctx);
	ASSERT_EQ(shmd_dev_p(&ctx, word, 33, 8, 0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_p(&ctx, word, 11, 8, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_p(&ctx, word, 99, 8, 2), SHMD_DEV_INVALID);
	ASSERT_EQ(*(uint64_t *)pe_lab_memory(lab, 3), 33u);
	ASSERT_EQ(*(uint64_t *)pe_lab_memory(lab, 1), 11u);
	ASSERT_EQ(shmd_dev_team_translate(&team, 0, NULL), 3);
	ASSERT_EQ(shmd_dev_team_translate(&team, 2, NULL), -1);
	ASSERT_EQ(shmd_dev_team_translate(&team, 0, &strided), 1);
	ASSERT_EQ(shmd_dev_team_translate(&strided, 0, &team), 1);
	ASSERT_EQ(shmd_dev_team_translate(&lab->pes[0].team, 2, &strided), -1);
	pe_lab_free(lab);
}
