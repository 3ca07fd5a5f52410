/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics: each operation alone, against a model, with its neighbour beside it; then all lanes at once on the same words, where nothing
 * may be lost, whatever the path of each; then locks.
 */
#include <sched.h>
#include <string.h>

#include "tests/dev/pe-program.h"
#include "tests/lib/test.h"

/*
 * A word or a lock that all lanes want costs the square of their number: lanes that wait let others run. The longer form has all rounds
 * with many lanes too. The number of rounds is even, so that bits that lanes flip are 0 at the end.
 */
#define MANY_LANES 8u
#define N_MANY 12u /* atomics under way */

static uint32_t of_rounds(const struct pe_home *home, uint32_t few, uint32_t all)
{
	return pe_n_lanes(home) >= MANY_LANES && !test_is_full() ? few : all;
}

static uint32_t n_rounds(const struct pe_home *home)
{
	return of_rounds(home, 2, 6);
}

static uint32_t n_lock_rounds(const struct pe_home *home)
{
	return of_rounds(home, 1, 4);
}

/* ---- one operation */

static uint64_t add_float(uint32_t bytes, uint64_t a, uint64_t b)
{
	uint32_t x = (uint32_t)a, y = (uint32_t)b;
	float f, g;
	double d, e;

	if (bytes == 4) {
		memcpy(&f, &x, 4);
		memcpy(&g, &y, 4);
		f += g;
		memcpy(&x, &f, 4);
		return x;
	}
	memcpy(&d, &a, 8);
	memcpy(&e, &b, 8);
	d += e;
	memcpy(&a, &d, 8);
	return a;
}

static uint64_t model(const struct shmd_dev_amo *amo, uint64_t old)
{
	uint64_t mask = amo->bytes == 4 ? UINT32_MAX : UINT64_MAX, v = amo->value & mask;

	switch (amo->op) {
	case SHMD_DEV_AMO_ADD:
		return (old + v) & mask;
	case SHMD_DEV_AMO_AND:
		return old & v;
	case SHMD_DEV_AMO_OR:
		return old | v;
	case SHMD_DEV_AMO_XOR:
		return old ^ v;
	case SHMD_DEV_AMO_SWAP:
		return v;
	case SHMD_DEV_AMO_COMPARE_SWAP:
		return old == (amo->compare & mask) ? v : old;
	case SHMD_DEV_AMO_ADD_FLOAT:
		return add_float(amo->bytes, old, v);
	}
	return old;
}

enum fetches { FETCHES_NOTHING, FETCHES, FETCHES_NBI };

/* The former value comes to registered memory or to the stack, and what lies behind it stays. */
static uint64_t fetch_nbi(struct pe_home *home, void *word, struct shmd_dev_amo amo, uint32_t pe, int on_stack)
{
	uint64_t here = UINT64_MAX, *old = on_stack ? &here : &pe_room(home)->lanes[pe_my_lane(home)].old;

	*old = UINT64_MAX;
	PE_CALL(home, atomic_fetch_nbi, word, amo, pe, old);
	PE_CALL(home, quiet_pe, pe);
	if (amo.bytes == 8)
		return *old;
	ASSERT_EQ(*old >> 32, UINT32_MAX);
	return (uint32_t)*old;
}

/* The word is in this half of the 8 bytes; the other half must stay. */
static void try_one(struct pe_home *home, struct shmd_dev_amo amo, uint64_t before, enum fetches fetches, uint32_t pe)
{
	struct pe_lane *lane = &pe_room(home)->lanes[pe_my_lane(home)];
	uint32_t half = amo.bytes == 4 && (amo.op + (int)fetches) % 2;
	uint64_t mask = amo.bytes == 4 ? UINT32_MAX : UINT64_MAX, other = 0x5a5aa5a5, all, got = 77, old = 77;
	uint8_t *word = (uint8_t *)&lane->word + 4 * half;

	before &= mask;
	all = amo.bytes == 8 ? before : half ? before << 32 | other : other << 32 | before;
	PE_CALL(home, p, &lane->word, all, 8, pe);
	PE_CALL(home, quiet_pe, pe);
	if (fetches == FETCHES_NBI)
		old = fetch_nbi(home, word, amo, pe, amo.op % 3 == 2);
	else if (fetches == FETCHES)
		PE_CALL(home, atomic_fetch, word, amo, pe, &old);
	else
		PE_CALL(home, atomic, word, amo, pe);
	PE_CALL(home, quiet_pe, pe);
	PE_CALL(home, g, &lane->word, 8, pe, &got);
	if (fetches)
		ASSERT_EQ(old, before);
	all = model(&amo, before);
	ASSERT_EQ(got, amo.bytes == 8 ? all : half ? all << 32 | other : other << 32 | all);
	PE_CALL(home, g, &lane->before, 8, pe, &got);
	ASSERT_EQ(got, 0u);
	PE_CALL(home, g, &lane->behind, 8, pe, &got);
	ASSERT_EQ(got, 0u);
}

/* 3.0 and 0.25 as floats and as doubles, and words whose carries leave a half. */
static void try_all(struct pe_home *home, uint32_t pe)
{
	static const uint64_t before[] = {0xffffffffffffffffull, 0x4008000040400000ull, 5};
	uint32_t i;

	for (i = 0; i < 8 * 3 * 2; i++) {
		enum fetches fetches = (enum fetches)(i / 2 % 3);
		uint32_t bytes = i & 1 ? 8 : 4;
		struct shmd_dev_amo amo = shmd_dev_amo_of((int)(i / 6), bytes, 0x00000001800000f1ull);
		uint64_t old = before[i % 3];

		if (amo.op == SHMD_DEV_AMO_ADD_FLOAT) {
			amo.value = bytes == 4 ? 0x3e800000 : 0x3fd0000000000000ull;
			old = bytes == 4 ? 0x40400000 : 0x4008000000000000ull;
		}
		/* Equal with a fetch, not equal without, and the other way round with 4 bytes. */
		amo.compare = ((uint32_t)fetches ^ i) & 1 ? old : old + 1;
		try_one(home, amo, old, fetches, pe);
	}
}

/* Many under way, of one and of two blocks of the queue; those to one PE are carried out in order. */
static void try_many(struct pe_home *home, uint32_t pe)
{
	uint64_t *word = &pe_room(home)->lanes[pe_my_lane(home)].word, *olds = (uint64_t *)(void *)pe_inbox(home), got = 0;
	uint32_t i;

	PE_CALL(home, p, word, 0, 8, pe);
	PE_CALL(home, quiet_pe, pe);
	for (i = 0; i < N_MANY; i++)
		PE_CALL(home, atomic_fetch_nbi, word, shmd_dev_amo_of(i % 3 ? SHMD_DEV_AMO_ADD : SHMD_DEV_AMO_OR, 8, 1ull << (2 * i)), pe,
			&olds[i]);
	PE_CALL(home, quiet_pe, pe);
	for (i = 0; i < N_MANY; i++)
		ASSERT_EQ(olds[i], ((1ull << (2 * i)) - 1) / 3);
	PE_CALL(home, g, word, 8, pe, &got);
	ASSERT_EQ(got, ((1ull << (2 * N_MANY)) - 1) / 3);
}

/* ---- all lanes at once */

static uint64_t fetch(struct pe_home *home, void *word, int op, uint32_t bytes, uint64_t value, uint32_t pe)
{
	uint64_t old = 0;

	PE_CALL(home, atomic_fetch, word, shmd_dev_amo_of(op, bytes, value), pe, &old);
	return old;
}

/* A signal alone, and one that comes with a put. */
static void signal_with_put(struct pe_home *home, struct pe_shared *shared, uint32_t round, uint32_t pe)
{
	uint64_t *flag = &pe_room(home)->lanes[pe_my_lane(home)].flag;
	struct shmd_dev_put_item put = {.dest = flag, .source = pe_outbox(home), .bytes = 8, .pe = pe};
	struct shmd_dev_pe_signal one = shmd_dev_pe_signal_of(&shared->signalled, SHMD_DEV_SIGNAL_ADD, 1);

	if (round % 2)
		PE_CALL(home, put_signal, &put, one);
	else
		PE_CALL(home, put_signal_nbi, &put, one);
	PE_CALL(home, signal, one, pe);
}

static void count_up(struct pe_home *home, struct pe_shared *shared, uint32_t round, uint32_t pe)
{
	if (round % 2) {
		(void)fetch(home, &shared->sum, SHMD_DEV_AMO_ADD, 8, pe_my_lane(home) + 1, pe);
		(void)fetch(home, &shared->half_sum, SHMD_DEV_AMO_ADD_FLOAT, 8, 0x3fe0000000000000ull, pe);
	} else {
		PE_CALL(home, atomic, &shared->sum, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, pe_my_lane(home) + 1), pe);
		PE_CALL(home, atomic, &shared->half_sum, shmd_dev_amo_of(SHMD_DEV_AMO_ADD_FLOAT, 8, 0x3fe0000000000000ull), pe);
	}
	PE_CALL(home, atomic, &shared->halves[0], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, UINT32_MAX), pe);
	PE_CALL(home, atomic, &shared->halves[1], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, 3), pe);
	PE_CALL(home, atomic, &shared->float_and_flips[0], shmd_dev_amo_of(SHMD_DEV_AMO_ADD_FLOAT, 4, 0x3f800000), pe);
	PE_CALL(home, atomic, &shared->float_and_flips[1], shmd_dev_amo_of(SHMD_DEV_AMO_XOR, 4, 1ull << pe_my_lane(home) % 32), pe);
	signal_with_put(home, shared, round, pe);
}

/* The bit of a lane is its own, in a word that all change. */
static void change_bits(struct pe_home *home, struct pe_shared *shared, uint32_t pe)
{
	uint64_t bit = 1ull << pe_my_lane(home);

	ASSERT_EQ(fetch(home, &shared->bits, SHMD_DEV_AMO_OR, 8, bit, pe) & bit, 0u);
	ASSERT_EQ(fetch(home, &shared->bits, SHMD_DEV_AMO_FETCH, 8, 0, pe) & bit, bit);
	ASSERT_EQ(fetch(home, &shared->bits, SHMD_DEV_AMO_AND, 8, ~bit, pe) & bit, bit);
	PE_CALL(home, atomic, &shared->flips, shmd_dev_amo_of(SHMD_DEV_AMO_XOR, 8, bit), pe);
}

static void count_by_compare_swap(struct pe_home *home, struct pe_shared *shared, uint32_t pe)
{
	uint64_t guess = fetch(home, &shared->tries, SHMD_DEV_AMO_FETCH, 8, 0, pe), found;

	for (;;) {
		struct shmd_dev_amo amo = shmd_dev_amo_of(SHMD_DEV_AMO_COMPARE_SWAP, 8, guess + 1);

		amo.compare = guess;
		PE_CALL(home, atomic_fetch, &shared->tries, amo, pe, &found);
		if (found == guess)
			return;
		guess = found;
	}
}

/* Each token is put in once and taken out once, or stays at the end; their sum says whether one was lost. */
static void swap_tokens(struct pe_home *home, struct pe_shared *shared, uint32_t round, uint32_t pe, uint64_t *seen, uint32_t *small_seen)
{
	uint64_t token = (uint64_t)(pe_my_lane(home) + 1) << 32 | (round + 1);

	if (round % 2)
		*seen += token - fetch_nbi(home, &shared->token, shmd_dev_amo_of(SHMD_DEV_AMO_SWAP, 8, token), pe, 0);
	else
		*seen += token - fetch(home, &shared->token, SHMD_DEV_AMO_SWAP, 8, token, pe);
	token = (pe_my_lane(home) + 1) << 16 | (round + 1);
	*small_seen += (uint32_t)(token - fetch(home, &shared->small_token[0], SHMD_DEV_AMO_SWAP, 4, token, pe));
}

static void act_together(struct pe_home *home, uint32_t pe)
{
	struct pe_shared *shared = &pe_room(home)->shared;
	uint32_t round, n = n_rounds(home), small_seen = 0;
	uint64_t seen = 0;

	for (round = 0; round < n; round++) {
		count_up(home, shared, round, pe);
		change_bits(home, shared, pe);
		count_by_compare_swap(home, shared, pe);
		swap_tokens(home, shared, round, pe, &seen, &small_seen);
	}
	PE_CALL(home, atomic, &shared->token_seen, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, seen), pe);
	PE_CALL(home, atomic, &shared->small_token[1], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, small_seen), pe);
}

static void check_together(const struct pe_home *home)
{
	const struct pe_shared *shared = &pe_room(home)->shared;
	uint64_t n_lanes = pe_n_lanes(home), n = n_rounds(home) * n_lanes;
	float f;

	memcpy(&f, &shared->float_and_flips[0], 4);
	ASSERT_EQ(shared->sum, n * (n_lanes + 1) / 2);
	ASSERT_EQ(shared->half_sum, 0.5 * (double)n);
	ASSERT_EQ(shared->halves[0], (uint32_t)(0 - n));
	ASSERT_EQ(shared->halves[1], 3 * n);
	ASSERT_EQ((double)f, (double)n);
	ASSERT_EQ(shared->float_and_flips[1], 0u);
	ASSERT_EQ(shared->signalled, 2 * n);
	ASSERT_EQ(shared->bits, 0u);
	ASSERT_EQ(shared->flips, 0u);
	ASSERT_EQ(shared->tries, n);
	ASSERT_EQ(shared->token_seen, shared->token);
	ASSERT_EQ(shared->small_token[1], shared->small_token[0]);
}

/* ---- locks */

/* The guarded word is at the last PE, read and written without atomics. */
static void count_under_lock(struct pe_home *home, uint64_t *lock, uint64_t *word, int asks)
{
	uint32_t pe = home->n_pes - 1;
	uint64_t v = 0;

	if (asks) {
		while (!PE_CALL(home, lock_test, lock))
			sched_yield();
	} else {
		PE_CALL(home, lock, lock);
	}
	PE_CALL(home, g, word, 8, pe, &v);
	PE_CALL(home, p, word, v + 1, 8, pe);
	PE_CALL(home, unlock, lock);
}

static void lock_often(struct pe_home *home)
{
	struct pe_shared *shared = &pe_room(home)->shared;
	uint32_t round, n = n_lock_rounds(home);
	uint64_t wanted = (uint64_t)n * pe_n_lanes(home);

	for (round = 0; round < n; round++) {
		count_under_lock(home, &shared->lock, &shared->guarded, 0);
		count_under_lock(home, &shared->tried_lock, &shared->tried, 1);
	}
	home->meet(home, 1);
	if (home->pe != home->n_pes - 1 || home->thread)
		return;
	ASSERT_EQ(shared->guarded, wanted);
	ASSERT_EQ(shared->tried, wanted);
}

void pe_program_atomics(struct pe_home *home)
{
	uint32_t last = home->n_pes - 1, next = (home->pe + 1) % home->n_pes;

	try_all(home, home->pe);
	try_many(home, home->pe);
	if (next != home->pe) {
		try_all(home, next);
		try_many(home, next);
	}
	act_together(home, 0);
	if (last)
		act_together(home, last);
	home->meet(home, 1);
	if (!home->thread && (!home->pe || home->pe == last))
		check_together(home);
	lock_often(home);
}
