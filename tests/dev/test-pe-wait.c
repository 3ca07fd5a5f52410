/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for words that peers write: comparisons, many words, time limits, PEs that end, a session that ends. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/dev/pe-lab.h"

#define N_WORDS 6u

static const uint64_t values[] = {0, 1, 2, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, 1ull << 63,
				  UINT64_MAX};
#define N_VALUES (sizeof(values) / sizeof(values[0]))

/* ---- one word ------------------------------------------------------------------------------------------------------------------ */

static bool holds_signed(int64_t a, uint32_t cmp, int64_t b)
{
	const bool outcomes[] = {a == b, a != b, a > b, a >= b, a < b, a <= b};

	return outcomes[cmp];
}

static bool holds_unsigned(uint64_t a, uint32_t cmp, uint64_t b)
{
	const bool outcomes[] = {a == b, a != b, a > b, a >= b, a < b, a <= b};

	return outcomes[cmp];
}

static bool holds(uint64_t a, uint32_t bytes, uint32_t cmp, bool is_signed, uint64_t b)
{
	if (bytes == 2)
		return is_signed ? holds_signed((int16_t)a, cmp, (int16_t)b) : holds_unsigned((uint16_t)a, cmp, (uint16_t)b);
	if (bytes == 4)
		return is_signed ? holds_signed((int32_t)a, cmp, (int32_t)b) : holds_unsigned((uint32_t)a, cmp, (uint32_t)b);
	return is_signed ? holds_signed((int64_t)a, cmp, (int64_t)b) : holds_unsigned(a, cmp, b);
}

static void compare_all(struct pe_lab *lab, uint32_t bytes, uint32_t cmp, bool is_signed)
{
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	uint64_t *word = (uint64_t *)pe_lab_memory(lab, 0);
	uint32_t how = cmp | (is_signed ? SHMD_DEV_CMP_SIGNED : 0);

	for (uint32_t i = 0; i < N_VALUES * N_VALUES; i++) {
		uint64_t a = values[i / N_VALUES], b = values[i % N_VALUES];
		bool want = holds(a, bytes, cmp, is_signed, b);

		/* The bytes behind the word do not matter. */
		*word = ~a;
		memcpy(word, &a, bytes);
		ASSERT_EQ(shmd_dev_test(ctx, word, bytes, how, b), want ? SHMD_DEV_OK : SHMD_DEV_AGAIN);
		if (want)
			ASSERT_EQ(shmd_dev_wait_until(ctx, word, bytes, how, b), SHMD_DEV_OK);
	}
}

TEST(comparisons_are_those_of_c_for_each_size_and_sign)
{
	struct pe_lab *lab = pe_lab_new(1);

	for (uint32_t bytes = 2; bytes <= 8; bytes *= 2) {
		for (uint32_t cmp = SHMD_DEV_CMP_EQ; cmp <= SHMD_DEV_CMP_LE; cmp++) {
			compare_all(lab, bytes, cmp, false);
			compare_all(lab, bytes, cmp, true);
		}
	}
	pe_lab_free(lab);
}

/* ---- many words ------------------------------------------------------------------------------------------------------------------ */

/* The words of a wait are those of PE 0. */
static struct shmd_dev_wait many_of(struct pe_lab *lab, const int *status)
{
	return (struct shmd_dev_wait){.words = pe_lab_memory(lab, 0),
				      .n = N_WORDS,
				      .bytes = 8,
				      .cmp = SHMD_DEV_CMP_EQ,
				      .status = status,
				      .value = 1};
}

TEST(many_words_are_found_without_those_that_are_left_out)
{
	static const int status[N_WORDS] = {1, 0, 0, 1, 0, 0};
	struct pe_lab *lab = pe_lab_new(1);
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	uint64_t *words = (uint64_t *)pe_lab_memory(lab, 0), index = 99, indexes[N_WORDS], n = 99;
	struct shmd_dev_wait wait = many_of(lab, status);

	words[0] = words[3] = 1;
	ASSERT_EQ(shmd_dev_test_any(ctx, &wait, &index), SHMD_DEV_AGAIN);
	ASSERT_EQ(shmd_dev_test_some(ctx, &wait, indexes, &n), SHMD_DEV_AGAIN);
	ASSERT_EQ(shmd_dev_test_all(ctx, &wait), SHMD_DEV_AGAIN);
	ASSERT_EQ(index + n, 198u);
	words[2] = words[5] = 1;
	ASSERT_EQ(shmd_dev_test_any(ctx, &wait, &index), SHMD_DEV_OK);
	ASSERT_EQ(index, 2u);
	ASSERT_EQ(shmd_dev_wait_until_any(ctx, &wait, &index), SHMD_DEV_OK);
	ASSERT_EQ(index, 2u);
	ASSERT_EQ(shmd_dev_wait_until_some(ctx, &wait, indexes, &n), SHMD_DEV_OK);
	ASSERT_EQ(n, 2u);
	ASSERT_EQ(indexes[0], 2u);
	ASSERT_EQ(indexes[1], 5u);
	ASSERT_EQ(shmd_dev_test_all(ctx, &wait), SHMD_DEV_AGAIN);
	words[1] = words[4] = 1;
	ASSERT_EQ(shmd_dev_test_all(ctx, &wait), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_wait_until_all(ctx, &wait), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_test_some(ctx, &wait, indexes, &n), SHMD_DEV_OK);
	ASSERT_EQ(n, 4u);
	pe_lab_free(lab);
}

TEST(words_are_compared_with_a_vector_of_values)
{
	struct pe_lab *lab = pe_lab_new(1);
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	struct shmd_dev_wait wait = many_of(lab, NULL);
	uint64_t want64[N_WORDS], index, *words64 = (uint64_t *)pe_lab_memory(lab, 0);
	uint32_t want32[N_WORDS], *words32 = (uint32_t *)words64;
	uint16_t want16[N_WORDS], *words16 = (uint16_t *)words64;

	wait.cmp = SHMD_DEV_CMP_GE | SHMD_DEV_CMP_SIGNED;
	for (uint32_t bytes = 2; bytes <= 8; bytes *= 2) {
		wait.bytes = bytes;
		wait.values = bytes == 8 ? (void *)want64 : bytes == 4 ? (void *)want32 : (void *)want16;
		for (uint32_t i = 0; i < N_WORDS; i++) {
			want64[i] = 10 + i;
			want32[i] = 10 + i;
			want16[i] = (uint16_t)(10 + i);
		}
		memset(words64, 0xff, 8 * N_WORDS);
		ASSERT_EQ(shmd_dev_test_any(ctx, &wait, &index), SHMD_DEV_AGAIN);
		for (uint32_t i = 0; i < N_WORDS; i++) {
			ASSERT_EQ(shmd_dev_test_all(ctx, &wait), SHMD_DEV_AGAIN);
			if (bytes == 8)
				words64[i] = 10 + i;
			else if (bytes == 4)
				words32[i] = 10 + i;
			else
				words16[i] = (uint16_t)(10 + i);
		}
		ASSERT_EQ(shmd_dev_wait_until_all(ctx, &wait), SHMD_DEV_OK);
	}
	pe_lab_free(lab);
}

TEST(waits_for_no_word_end_at_once)
{
	static const int status[N_WORDS] = {1, 1, 1, 1, 1, 1};
	struct pe_lab *lab = pe_lab_new(1);
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	uint64_t index, indexes[1], n;

	for (int all_out = 0; all_out < 2; all_out++) {
		struct shmd_dev_wait wait = many_of(lab, all_out ? status : NULL);

		wait.n = all_out ? N_WORDS : 0;
		index = 0;
		n = 9;
		ASSERT_EQ(shmd_dev_wait_until_any(ctx, &wait, &index), SHMD_DEV_OK);
		ASSERT_EQ(index, SHMD_DEV_NO_INDEX);
		ASSERT_EQ(shmd_dev_wait_until_some(ctx, &wait, indexes, &n), SHMD_DEV_OK);
		ASSERT_EQ(n, 0u);
		ASSERT_EQ(shmd_dev_wait_until_all(ctx, &wait), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_test_all(ctx, &wait), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_test_any(ctx, &wait, &index), SHMD_DEV_AGAIN);
		ASSERT_EQ(shmd_dev_test_some(ctx, &wait, indexes, &n), SHMD_DEV_AGAIN);
	}
	pe_lab_free(lab);
}

/* PE 1 sets the words one by one, and after each waits until PE 0 has seen it. */
static void set_or_see(const struct lab_thread *me)
{
	uint64_t *words = (uint64_t *)pe_lab_memory(me->lab, me->pe), *seen = words + N_WORDS, index = 0;
	int status[N_WORDS] = {0};

	for (uint64_t i = 0; i < N_WORDS; i++) {
		struct shmd_dev_wait wait = many_of(me->lab, status);
		uint64_t word = i * 5 % N_WORDS;

		if (me->pe == 1) {
			ASSERT_EQ(shmd_dev_p(me->ctx, &words[word], 1, 8, 0), SHMD_DEV_OK);
			ASSERT_EQ(shmd_dev_wait_until(me->ctx, seen, 8, SHMD_DEV_CMP_EQ, i + 1), SHMD_DEV_OK);
		} else {
			ASSERT_EQ(shmd_dev_wait_until_any(me->ctx, &wait, &index), SHMD_DEV_OK);
			ASSERT_EQ(index, word);
			status[index] = 1;
			ASSERT_EQ(shmd_dev_p(me->ctx, seen, i + 1, 8, 1), SHMD_DEV_OK);
		}
	}
}

TEST(words_that_peers_set_are_seen_one_by_one)
{
	struct pe_lab *lab = pe_lab_new(2);

	pe_lab_run(lab, 1, set_or_see, NULL);
	pe_lab_free(lab);
}

/* ---- what ends a wait -------------------------------------------------------------------------------------------------------------- */

/* The status of every kind of wait that nothing satisfies. */
static void expect_waits(struct pe_lab *lab, uint64_t timeout_nsec, int status)
{
	struct shmd_dev_ctx *ctx = &lab->pes[0].ctx;
	struct shmd_dev_wait wait = many_of(lab, NULL);
	uint64_t *word = (uint64_t *)pe_lab_memory(lab, 0), index = 7, n = 7, indexes[N_WORDS];

	ctx->timeout_nsec = timeout_nsec;
	ASSERT_EQ(shmd_dev_wait_until(ctx, word, 8, SHMD_DEV_CMP_NE, 0), status);
	ASSERT_EQ(shmd_dev_wait_until_all(ctx, &wait), status);
	ASSERT_EQ(shmd_dev_wait_until_any(ctx, &wait, &index), status);
	ASSERT_EQ(shmd_dev_wait_until_some(ctx, &wait, indexes, &n), status);
	ASSERT_EQ(index + n, 14u);
	ASSERT_EQ(shmd_dev_team_sync(ctx, &lab->pes[0].team), status);
	ASSERT_EQ(shmd_dev_team_barrier(ctx, &lab->pes[0].team), status);
	/* A condition that holds is reported all the same. */
	ASSERT_EQ(shmd_dev_wait_until(ctx, word, 8, SHMD_DEV_CMP_EQ, 0), SHMD_DEV_OK);
}

TEST(a_wait_ends_by_its_time_limit)
{
	struct pe_lab *lab = pe_lab_new(2);

	expect_waits(lab, 0, SHMD_DEV_TIMEOUT);
	expect_waits(lab, 2 * MSEC, SHMD_DEV_TIMEOUT);
	pe_lab_free(lab);
}

TEST(a_wait_ends_when_a_pe_ends_until_the_program_forgives)
{
	struct pe_lab *lab = pe_lab_new(3);

	pe_lab_end_pe(lab, 2);
	expect_waits(lab, SHMD_DEV_NO_TIMEOUT, SHMD_DEV_PE_GONE);
	pe_lab_forgive(lab);
	lab->pes[0].team.n_pes = 2;
	expect_waits(lab, 2 * MSEC, SHMD_DEV_TIMEOUT);
	/* A sync with it fails for ever. */
	lab->pes[0].team.n_pes = 3;
	lab->pes[0].team.my_pe = 1;
	ASSERT_EQ(shmd_dev_team_sync(&lab->pes[0].ctx, &lab->pes[0].team), SHMD_DEV_PE_GONE);
	pe_lab_free(lab);
}

TEST(a_wait_ends_when_the_world_is_aborted)
{
	struct pe_lab *lab = pe_lab_new(2);

	lab->pes[0].world.ended = 1;
	expect_waits(lab, SHMD_DEV_NO_TIMEOUT, SHMD_DEV_PE_GONE);
	pe_lab_free(lab);
}

TEST(a_wait_ends_when_the_session_ends)
{
	struct pe_lab *lab = pe_lab_new(2);

	lab->pes[0].health.session = SHMD_HEALTH_SESSION_ENDED;
	expect_waits(lab, SHMD_DEV_NO_TIMEOUT, SHMD_DEV_HEALTH);
	/* A world without a session has nothing that could end. */
	lab->pes[0].world.health_addr = 0;
	expect_waits(lab, 2 * MSEC, SHMD_DEV_TIMEOUT);
	pe_lab_free(lab);
}

static void *end_later(void *arg)
{
	usleep(50000);
	pe_lab_end_pe((struct pe_lab *)arg, 1);
	return NULL;
}

TEST(a_wait_under_way_ends_when_a_pe_ends)
{
	struct pe_lab *lab = pe_lab_new(2);
	pthread_t thread;

	lab->pes[0].ctx.timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	ASSERT_OK(pthread_create(&thread, NULL, end_later, lab));
	ASSERT_EQ(shmd_dev_wait_until(&lab->pes[0].ctx, pe_lab_memory(lab, 0), 8, SHMD_DEV_CMP_NE, 0), SHMD_DEV_PE_GONE);
	pthread_join(thread, NULL);
	pe_lab_free(lab);
}
