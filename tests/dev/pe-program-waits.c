/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits: each lane tells each thread of each PE by a word of 2, 4 and 8 bytes. Before that, no look finds any; then each form of wait finds
 * all, once.
 */
#include <string.h>

#include "tests/dev/pe-program.h"
#include "tests/lib/test.h"

#define VALUE(lane) (5 + (lane))

static struct shmd_dev_wait wait_of(const struct pe_home *home, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	struct pe_waits *waits = &pe_room(home)->waits[home->thread];
	struct shmd_dev_wait wait = {.n = pe_n_lanes(home), .bytes = bytes, .cmp = cmp, .value = value};

	wait.words = bytes == 2 ? (void *)waits->w2 : bytes == 4 ? (void *)waits->w4 : (void *)waits->w8;
	return wait;
}

static void expect_none(struct pe_home *home)
{
	uint64_t indexes[PE_PROGRAM_LANES], n = 0, index = 0;
	uint32_t bytes;

	for (bytes = 2; bytes <= 8; bytes *= 2) {
		struct shmd_dev_wait wait = wait_of(home, bytes, SHMD_DEV_CMP_NE, 0);

		ASSERT_EQ(PE_CALL(home, test_all, &wait), 0);
		ASSERT_EQ(PE_CALL(home, test_any, &wait, &index), 0);
		ASSERT_EQ(PE_CALL(home, test_some, &wait, indexes, &n), 0);
		ASSERT_EQ(PE_CALL(home, test, wait.words, bytes, SHMD_DEV_CMP_NE, 0), 0);
	}
}

static void tell(struct pe_home *home)
{
	uint32_t lane = pe_my_lane(home), pe, t;

	for (pe = 0; pe < home->n_pes; pe++) {
		for (t = 0; t < home->n_threads; t++) {
			struct pe_waits *waits = &pe_room(home)->waits[t];

			PE_CALL(home, p, &waits->w2[lane], VALUE(lane), 2, pe);
			PE_CALL(home, p, &waits->w4[lane], VALUE(lane), 4, pe);
			PE_CALL(home, p, &waits->w8[lane], 0 - (uint64_t)VALUE(lane), 8, pe);
		}
	}
}

/* Words are left out once they were found; then none is left. */
static void find_by_any(struct pe_home *home)
{
	struct shmd_dev_wait wait = wait_of(home, 2, SHMD_DEV_CMP_GT, 4);
	int status[PE_PROGRAM_LANES] = {0};
	uint64_t index = 0;
	uint32_t i;

	wait.status = status;
	for (i = 0; i < wait.n; i++) {
		PE_CALL(home, wait_until_any, &wait, &index);
		ASSERT_LT(index, wait.n);
		ASSERT_EQ(status[index], 0);
		status[index] = 1;
	}
	PE_CALL(home, wait_until_any, &wait, &index);
	ASSERT_EQ(index, SHMD_DEV_NO_INDEX);
}

static void find_by_some(struct pe_home *home)
{
	struct shmd_dev_wait wait = wait_of(home, 4, SHMD_DEV_CMP_GE, 5);
	uint64_t indexes[PE_PROGRAM_LANES], n = 0, n_found = 0, i;
	int status[PE_PROGRAM_LANES] = {0};

	wait.status = status;
	while (n_found < wait.n) {
		PE_CALL(home, wait_until_some, &wait, indexes, &n);
		ASSERT_GE(n, 1u);
		for (i = 0; i < n; i++) {
			ASSERT_EQ(status[indexes[i]], 0);
			status[indexes[i]] = 1;
		}
		n_found += n;
	}
	ASSERT_EQ(n_found, wait.n);
}

static void find_by_all(struct pe_home *home)
{
	struct shmd_dev_wait wait = wait_of(home, 8, SHMD_DEV_CMP_EQ, 0);
	uint64_t values[PE_PROGRAM_LANES], i;

	for (i = 0; i < wait.n; i++)
		values[i] = 0 - (uint64_t)VALUE(i);
	wait.values = values;
	PE_CALL(home, wait_until_all, &wait);
	ASSERT_EQ(PE_CALL(home, test_all, &wait), 1);
}

/* The words of the last lane: 5 + lane, and below 0. */
static void compare(struct pe_home *home)
{
	const struct pe_waits *waits = &pe_room(home)->waits[home->thread];
	uint32_t lane = pe_n_lanes(home) - 1, is = SHMD_DEV_CMP_SIGNED;
	uint64_t v = VALUE(lane);

	PE_CALL(home, wait_until, &waits->w2[lane], 2, SHMD_DEV_CMP_EQ, v);
	PE_CALL(home, wait_until, &waits->w2[lane], 2, SHMD_DEV_CMP_NE, v + 1);
	PE_CALL(home, wait_until, &waits->w4[lane], 4, SHMD_DEV_CMP_GT, v - 1);
	PE_CALL(home, wait_until, &waits->w4[lane], 4, SHMD_DEV_CMP_LE, v);
	PE_CALL(home, wait_until, &waits->w8[lane], 8, SHMD_DEV_CMP_LT | is, 0);
	PE_CALL(home, wait_until, &waits->w8[lane], 8, SHMD_DEV_CMP_GT, 0);
	PE_CALL(home, wait_until, &waits->w8[lane], 8, SHMD_DEV_CMP_GE | is, 0 - v);
	ASSERT_EQ(PE_CALL(home, test, &waits->w8[lane], 8, SHMD_DEV_CMP_GT | is, 0), 0);
	ASSERT_EQ(PE_CALL(home, test, &waits->w4[lane], 4, SHMD_DEV_CMP_LT, v), 0);
	ASSERT_EQ(PE_CALL(home, test, &waits->w2[lane], 2, SHMD_DEV_CMP_LE | is, v), 1);
}

static void look_again(struct pe_home *home)
{
	struct shmd_dev_wait wait = wait_of(home, 8, SHMD_DEV_CMP_LT | SHMD_DEV_CMP_SIGNED, 0);
	uint64_t indexes[PE_PROGRAM_LANES], n = 0, index = 99;

	ASSERT_EQ(PE_CALL(home, test_any, &wait, &index), 1);
	ASSERT_LT(index, wait.n);
	ASSERT_EQ(PE_CALL(home, test_some, &wait, indexes, &n), 1);
	ASSERT_EQ(n, wait.n);
}

void pe_program_waits(struct pe_home *home)
{
	expect_none(home);
	home->meet(home, 0);
	tell(home);
	/* p returns when it is on its way, and the waits below send it off where it is not. */
	find_by_any(home);
	find_by_some(home);
	find_by_all(home);
	compare(home);
	look_again(home);
	home->meet(home, 1);
}
