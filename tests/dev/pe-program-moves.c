/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data: every form of put and get, sizes from 0 up to more than bounce memory has, from and to memory that is registered or is not,
 * to every PE; then p and g. Bytes between the places of a slot stay as they were.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/dev/pe-program.h"
#include "tests/lib/test.h"

#define GUARD 0xa5
#define SMALL_BYTES PE_PROGRAM_SLOT_BYTES
#define GAP 5u
#define BLOCKS_AT 2048u
#define LARGE_AT (SMALL_BYTES + 11u)
#define LARGE_BYTES 66001u

static const uint32_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 255, 1000};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* As they lie in a slot, and in local memory. */
static const struct shmd_dev_stride put_blocks = {
	.n = 30, .block_bytes = 7, .dest_stride_bytes = 12, .source_stride_bytes = 9};
static const struct shmd_dev_stride get_blocks = {
	.n = 30, .block_bytes = 7, .dest_stride_bytes = 9, .source_stride_bytes = 12};

enum kind { ONE, NBI, BATCH, N_KINDS };

static uint32_t place(uint32_t i)
{
	uint32_t at = 3, j;

	for (j = 0; j < i; j++)
		at += sizes[j] + GAP;
	return at;
}

static uint8_t byte_of(uint32_t seed, uint64_t i)
{
	return (uint8_t)(seed * 131 + i * 7 + (i >> 8));
}

/* Every byte differs from its neighbours, also where nothing is sent from. */
static void fill_source(uint8_t *source, uint32_t bytes, uint32_t seed)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		source[i] = byte_of(seed, i);
}

/* The bytes that move: the places of all sizes, and blocks with this stride. */
static void fill_wanted(uint8_t wanted[SMALL_BYTES], uint32_t seed, uint64_t stride, uint64_t source_stride)
{
	uint64_t i, j;

	memset(wanted, GUARD, SMALL_BYTES);
	for (i = 0; i < N_SIZES; i++) {
		for (j = 0; j < sizes[i]; j++)
			wanted[place((uint32_t)i) + j] = byte_of(seed, place((uint32_t)i) + j);
	}
	for (i = 0; i < put_blocks.n; i++) {
		for (j = 0; j < put_blocks.block_bytes; j++)
			wanted[BLOCKS_AT + i * stride + j] = byte_of(seed, BLOCKS_AT + i * source_stride + j);
	}
}

static int has_large(const struct pe_home *home)
{
	return home->slot_bytes > SMALL_BYTES;
}

static void check_large(const uint8_t *slot, uint32_t seed)
{
	uint8_t wanted[LARGE_BYTES];
	uint32_t i;

	for (i = 0; i < LARGE_BYTES; i++)
		wanted[i] = byte_of(seed, LARGE_AT + i);
	ASSERT_MEMEQ(slot + LARGE_AT, wanted, LARGE_BYTES);
}

/* A large one goes to one PE only. */
static uint32_t next_pe(const struct pe_home *home)
{
	return (home->pe + 1) % home->n_pes;
}

/* ---- put */

static void put_batch(struct pe_home *home, const uint8_t *source)
{
	struct shmd_dev_put_item items[N_SIZES * PE_PROGRAM_LANES];
	uint8_t *slot = pe_slot(home, pe_my_lane(home));
	uint32_t i, n = 0, pe;

	for (pe = 0; pe < home->n_pes; pe++) {
		for (i = 0; i < N_SIZES; i++, n++) {
			items[n].dest = slot + place(i);
			items[n].source = source + place(i);
			items[n].bytes = sizes[i];
			items[n].pe = pe;
		}
	}
	PE_CALL(home, put_batch_nbi, items, n);
}

static void put_each(struct pe_home *home, const uint8_t *source, enum kind kind)
{
	uint8_t *slot = pe_slot(home, pe_my_lane(home));
	uint32_t i, pe;

	for (pe = 0; pe < home->n_pes; pe++) {
		for (i = 0; i < N_SIZES; i++) {
			if (kind == ONE)
				PE_CALL(home, put, slot + place(i), source + place(i), sizes[i], pe);
			else
				PE_CALL(home, put_nbi, slot + place(i), source + place(i), sizes[i], pe);
		}
	}
}

static void put_all(struct pe_home *home, const uint8_t *source, enum kind kind)
{
	uint8_t *slot = pe_slot(home, pe_my_lane(home));
	uint32_t pe;

	if (kind == BATCH)
		put_batch(home, source);
	else
		put_each(home, source, kind);
	for (pe = 0; pe < home->n_pes; pe++) {
		if (kind == ONE)
			PE_CALL(home, put_strided, slot + BLOCKS_AT, source + BLOCKS_AT, &put_blocks, pe);
		else
			PE_CALL(home, put_strided_nbi, slot + BLOCKS_AT, source + BLOCKS_AT, &put_blocks, pe);
	}
	if (!has_large(home))
		return;
	if (kind == ONE)
		PE_CALL(home, put, slot + LARGE_AT, source + LARGE_AT, LARGE_BYTES, next_pe(home));
	else
		PE_CALL(home, put_nbi, slot + LARGE_AT, source + LARGE_AT, LARGE_BYTES, next_pe(home));
}

/* By quiet or by quiet of each PE; a sync afterwards completes nothing. */
static void complete(struct pe_home *home, uint32_t round)
{
	uint32_t pe;

	if (round % 2)
		PE_CALL(home, quiet);
	for (pe = 0; round % 2 == 0 && pe < home->n_pes; pe++)
		PE_CALL(home, quiet_pe, pe);
	home->meet(home, round % 3 == 2);
}

static uint32_t seed_of(uint32_t lane, uint32_t round)
{
	return lane * 1009 + round * 17 + 1;
}

/* Slots of this PE's copy that belong to this thread: of the lanes with its number. */
static void check_slots(struct pe_home *home, uint32_t round)
{
	uint32_t before = (home->pe + home->n_pes - 1) % home->n_pes, lane;
	uint8_t wanted[SMALL_BYTES];

	for (lane = home->thread; lane < pe_n_lanes(home); lane += home->n_threads) {
		uint8_t *slot = pe_slot(home, lane);

		fill_wanted(wanted, seed_of(lane, round), put_blocks.dest_stride_bytes, put_blocks.source_stride_bytes);
		ASSERT_MEMEQ(slot, wanted, SMALL_BYTES);
		if (!has_large(home) || lane / home->n_threads != before)
			continue;
		check_large(slot, seed_of(lane, round));
		ASSERT_EQ(slot[LARGE_AT - 1], GUARD);
		ASSERT_EQ(slot[LARGE_AT + LARGE_BYTES], GUARD);
	}
}

/* ---- get */

static void get_batch(struct pe_home *home, uint8_t *dest, uint32_t pe)
{
	const uint8_t *slot = pe_slot(home, pe_my_lane(home));
	struct shmd_dev_get_item items[N_SIZES];
	uint32_t i;

	for (i = 0; i < N_SIZES; i++) {
		items[i].dest = dest + place(i);
		items[i].source = slot + place(i);
		items[i].bytes = sizes[i];
		items[i].pe = pe;
	}
	PE_CALL(home, get_batch_nbi, items, N_SIZES);
}

static void get_each(struct pe_home *home, uint8_t *dest, enum kind kind, uint32_t pe)
{
	const uint8_t *slot = pe_slot(home, pe_my_lane(home));
	uint32_t i;

	for (i = 0; i < N_SIZES; i++) {
		if (kind == ONE)
			PE_CALL(home, get, dest + place(i), slot + place(i), sizes[i], pe);
		else
			PE_CALL(home, get_nbi, dest + place(i), slot + place(i), sizes[i], pe);
	}
}

static void get_from(struct pe_home *home, uint8_t *dest, enum kind kind, uint32_t pe)
{
	const uint8_t *slot = pe_slot(home, pe_my_lane(home));

	if (kind == BATCH)
		get_batch(home, dest, pe);
	else
		get_each(home, dest, kind, pe);
	if (kind == ONE) {
		PE_CALL(home, get_strided, dest + BLOCKS_AT, slot + BLOCKS_AT, &get_blocks, pe);
		return;
	}
	PE_CALL(home, get_strided_nbi, dest + BLOCKS_AT, slot + BLOCKS_AT, &get_blocks, pe);
	PE_CALL(home, quiet);
}

/* The data that this lane has put to each PE comes back. */
static void check_gets(struct pe_home *home, uint8_t *dest, enum kind kind, uint32_t round)
{
	const uint8_t *slot = pe_slot(home, pe_my_lane(home));
	uint32_t seed = seed_of(pe_my_lane(home), round), pe;
	uint8_t wanted[SMALL_BYTES];

	fill_wanted(wanted, seed, get_blocks.dest_stride_bytes, put_blocks.source_stride_bytes);
	for (pe = 0; pe < home->n_pes; pe++) {
		memset(dest, GUARD, SMALL_BYTES);
		get_from(home, dest, kind, pe);
		ASSERT_MEMEQ(dest, wanted, SMALL_BYTES);
	}
	if (!has_large(home))
		return;
	PE_CALL(home, get, dest + LARGE_AT, slot + LARGE_AT, LARGE_BYTES, next_pe(home));
	check_large(dest, seed);
}

static void clear_slots(struct pe_home *home)
{
	uint32_t lane;

	for (lane = home->thread; lane < pe_n_lanes(home); lane += home->n_threads)
		memset(pe_slot(home, lane), GUARD, home->slot_bytes);
	home->meet(home, 0);
}

static void move(struct pe_home *home, uint8_t *source, uint8_t *dest, enum kind kind, uint32_t round)
{
	clear_slots(home);
	fill_source(source, home->slot_bytes, seed_of(pe_my_lane(home), round));
	put_all(home, source, kind);
	complete(home, round);
	check_slots(home, round);
	check_gets(home, dest, kind, round);
	home->meet(home, 0);
}

/* ---- words */

static void put_word(struct pe_home *home, uint32_t bytes, uint32_t pe)
{
	struct pe_lane *lane = &pe_room(home)->lanes[pe_my_lane(home)];
	uint8_t *at = (uint8_t *)&lane->word + 8 - bytes;
	uint64_t wanted = 0xeeeeeeeeeeeeeeeeull, value = 0x8182838485868788ull ^ pe_my_lane(home), got = 0, part = 0;

	PE_CALL(home, p, &lane->word, wanted, 8, pe);
	PE_CALL(home, fence_pe, pe);
	PE_CALL(home, p, at, value, bytes, pe);
	PE_CALL(home, quiet_pe, pe);
	memcpy((uint8_t *)&wanted + 8 - bytes, &value, bytes);
	PE_CALL(home, g, &lane->word, 8, pe, &got);
	ASSERT_EQ(got, wanted);
	PE_CALL(home, g, at, bytes, pe, &got);
	memcpy(&part, &value, bytes);
	ASSERT_EQ(got, part);
	PE_CALL(home, g, &lane->before, 8, pe, &got);
	ASSERT_EQ(got, 0u);
	PE_CALL(home, g, &lane->behind, 8, pe, &got);
	ASSERT_EQ(got, 0u);
}

void pe_program_moves(struct pe_home *home)
{
	uint8_t *plain = malloc(2ull * home->slot_bytes);
	uint32_t round, pe, bytes;

	ASSERT(plain);
	for (round = 0; round < 2 * N_KINDS; round++) {
		uint8_t *source = round < N_KINDS ? pe_outbox(home) : plain;
		uint8_t *dest = round < N_KINDS ? pe_inbox(home) : plain + home->slot_bytes;

		move(home, source, dest, (enum kind)(round % N_KINDS), round);
	}
	for (pe = 0; pe < home->n_pes; pe++) {
		for (bytes = 1; bytes <= 8; bytes *= 2)
			put_word(home, bytes, pe);
	}
	free(plain);
}
