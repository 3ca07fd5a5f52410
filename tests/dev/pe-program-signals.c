/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data and what announces it, in each way that promises an order: a signal with the put, and words behind a fence, also behind an atomic.
 * Each lane tells each PE; the thread of the same number there waits, and compares the data at once.
 */
#include <string.h>

#include "tests/dev/pe-program.h"
#include "tests/lib/test.h"

#define N_TURNS 2u
#define DATA_BYTES 2000u

enum way {
	PUT_SIGNAL_SET,
	PUT_SIGNAL_ADD,
	PUT_SIGNAL_NBI_SET,
	PUT_SIGNAL_NBI_ADD,
	FENCE_SIGNAL_SET,
	FENCE_SIGNAL_ADD,
	FENCE_P,
	FENCE_PUT,
	FENCE_ATOMIC,
	COUNT_FENCE_P,
	COUNT_FENCE_PE_P,
	N_WAYS,
};

/* Grows from one message to the next; an add of 1 leads there as well. */
static uint64_t number_of(uint32_t turn, enum way way)
{
	return (uint64_t)turn * N_WAYS + (uint64_t)way + 1;
}

static uint32_t bytes_of(uint32_t turn, enum way way)
{
	return turn ? DATA_BYTES - 3 * (uint32_t)way : 1 + (uint32_t)way * 5;
}

static void fill_message(uint8_t *data, uint32_t bytes, uint32_t lane, uint64_t number)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		data[i] = (uint8_t)(lane * 37 + number * 101 + i * 3);
}

static void tell_with_put(struct pe_home *home, const struct shmd_dev_put_item *put, enum way way, uint64_t number)
{
	uint64_t *word = &pe_room(home)->lanes[pe_my_lane(home)].signal;
	int adds = way == PUT_SIGNAL_ADD || way == PUT_SIGNAL_NBI_ADD;
	struct shmd_dev_pe_signal signal =
		shmd_dev_pe_signal_of(word, adds ? SHMD_DEV_SIGNAL_ADD : SHMD_DEV_SIGNAL_SET, adds ? 1 : number);

	if (way == PUT_SIGNAL_SET || way == PUT_SIGNAL_ADD)
		PE_CALL(home, put_signal, put, signal);
	else
		PE_CALL(home, put_signal_nbi, put, signal);
}

/* The word is in both cases the signal: what a put or p stores is atomic as well, and nothing else is under way on it. */
static void tell_behind_fence(struct pe_home *home, const struct shmd_dev_put_item *put, enum way way, const uint64_t *number)
{
	uint64_t *word = &pe_room(home)->lanes[pe_my_lane(home)].signal;

	PE_CALL(home, put_nbi, put->dest, put->source, put->bytes, put->pe);
	if (way % 2)
		PE_CALL(home, fence);
	else
		PE_CALL(home, fence_pe, put->pe);
	if (way == FENCE_SIGNAL_SET)
		PE_CALL(home, signal, shmd_dev_pe_signal_of(word, SHMD_DEV_SIGNAL_SET, *number), put->pe);
	else if (way == FENCE_SIGNAL_ADD)
		PE_CALL(home, signal, shmd_dev_pe_signal_of(word, SHMD_DEV_SIGNAL_ADD, 1), put->pe);
	else if (way == FENCE_P)
		PE_CALL(home, p, word, *number, 8, put->pe);
	else if (way == FENCE_PUT)
		PE_CALL(home, put, word, number, 8, put->pe);
	else
		PE_CALL(home, atomic, word, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), put->pe);
}

/* An atomic, which may go by a queue where p is a store. */
static void tell_behind_count(struct pe_home *home, uint32_t pe, enum way way, uint64_t number)
{
	struct pe_lane *lane = &pe_room(home)->lanes[pe_my_lane(home)];

	PE_CALL(home, atomic, &lane->flag, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), pe);
	if (way == COUNT_FENCE_P)
		PE_CALL(home, fence);
	else
		PE_CALL(home, fence_pe, pe);
	PE_CALL(home, p, &lane->signal, number, 8, pe);
}

static void tell_all(struct pe_home *home, uint32_t turn, enum way way)
{
	uint64_t number = number_of(turn, way);
	struct shmd_dev_put_item put = {
		.dest = pe_slot(home, pe_my_lane(home)), .source = pe_outbox(home), .bytes = bytes_of(turn, way)};

	fill_message(pe_outbox(home), (uint32_t)put.bytes, pe_my_lane(home), number);
	for (put.pe = 0; put.pe < home->n_pes; put.pe++) {
		if (way < FENCE_SIGNAL_SET)
			tell_with_put(home, &put, way, number);
		else if (way >= COUNT_FENCE_P)
			tell_behind_count(home, put.pe, way, number);
		else
			tell_behind_fence(home, &put, way, &number);
	}
}

static void hear_all(struct pe_home *home, uint32_t turn, enum way way)
{
	uint32_t lane, bytes = bytes_of(turn, way);
	uint8_t wanted[DATA_BYTES];

	for (lane = home->thread; lane < pe_n_lanes(home); lane += home->n_threads) {
		const uint64_t *word = &pe_room(home)->lanes[lane].signal;

		PE_CALL(home, wait_until, word, 8, SHMD_DEV_CMP_GE, number_of(turn, way));
		ASSERT_EQ(home->calls->signal_fetch(word), number_of(turn, way));
		if (way >= COUNT_FENCE_P) {
			ASSERT_EQ(home->calls->signal_fetch(&pe_room(home)->lanes[lane].flag), 2 * turn + (way - COUNT_FENCE_P) + 1);
			continue;
		}
		fill_message(wanted, bytes, lane, number_of(turn, way));
		ASSERT_MEMEQ(pe_slot(home, lane), wanted, bytes);
	}
}

void pe_program_signals(struct pe_home *home)
{
	uint32_t turn, way;

	for (turn = 0; turn < N_TURNS; turn++) {
		for (way = 0; way < N_WAYS; way++) {
			tell_all(home, turn, (enum way)way);
			hear_all(home, turn, (enum way)way);
			/* The outbox and the word are the next message's. */
			home->meet(home, 1);
		}
	}
}
