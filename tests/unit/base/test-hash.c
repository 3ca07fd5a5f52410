/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "tests/lib/test.h"

#define N 2048u

static char values[N];

TEST(an_empty_map_has_nothing)
{
	struct hash hash;
	size_t pos = 0;

	hash_init(&hash);
	ASSERT_EQ(hash_get(&hash, 0), NULL);
	ASSERT_EQ(hash_remove(&hash, 0), NULL);
	ASSERT_EQ(hash_next(&hash, &pos, NULL), NULL);
	hash_deinit(&hash);
	hash_deinit(&hash);
	hash_deinit(NULL);
}

TEST(entries_are_found_from_add_to_remove)
{
	struct hash hash;

	hash_init(&hash);
	ASSERT_OK(hash_add(&hash, 0, &values[0]));
	ASSERT_OK(hash_add(&hash, UINT64_MAX, &values[1]));
	ASSERT_EQ(hash_get(&hash, 0), &values[0]);
	ASSERT_EQ(hash_get(&hash, UINT64_MAX), &values[1]);
	ASSERT_EQ(hash_get(&hash, 1), NULL);
	ASSERT_EQ(hash_remove(&hash, 0), &values[0]);
	ASSERT_EQ(hash_remove(&hash, 0), NULL);
	ASSERT_EQ(hash_get(&hash, 0), NULL);
	ASSERT_EQ(hash.n, 1);
	hash_deinit(&hash);
}

TEST(a_key_is_there_once)
{
	struct hash hash;

	hash_init(&hash);
	ASSERT_OK(hash_add(&hash, 7, &values[0]));
	ASSERT_ERR(hash_add(&hash, 7, &values[1]), EEXIST);
	ASSERT_EQ(hash_get(&hash, 7), &values[0]);
	ASSERT_EQ(hash.n, 1);
	hash_deinit(&hash);
}

/* Against a plain array, with keys close together and far apart, so that runs of slots form, wrap and break. */
static void churn(uint64_t stride, unsigned int seed)
{
	bool present[N] = {false};
	struct hash hash;
	size_t n = 0;

	hash_init(&hash);
	srand(seed);
	for (unsigned int round = 0; round < 20000; round++) {
		unsigned int i = (unsigned int)rand() % (round < 10000 ? N : 64);
		uint64_t key = i * stride;

		if (present[i]) {
			ASSERT_EQ(hash_remove(&hash, key), &values[i]);
			n--;
		} else {
			ASSERT_OK(hash_add(&hash, key, &values[i]));
			n++;
		}
		present[i] = !present[i];
		ASSERT_EQ(hash.n, n);
	}
	for (unsigned int i = 0; i < N; i++)
		ASSERT_EQ(hash_get(&hash, i * stride), present[i] ? &values[i] : NULL);
	hash_deinit(&hash);
}

TEST(any_order_of_adds_and_removes_keeps_the_rest)
{
	churn(1, 1);
	churn(UINT64_C(1) << 32, 2);
	churn(UINT64_C(0x100000000001), 3);
}

TEST(a_walk_sees_each_entry_once)
{
	unsigned int seen[N] = {0};
	struct hash hash;
	uint64_t key;
	size_t pos = 0;
	char *value;

	hash_init(&hash);
	for (unsigned int i = 0; i < N; i++)
		ASSERT_OK(hash_add(&hash, i + 5, &values[i]));
	while ((value = hash_next(&hash, &pos, &key))) {
		ASSERT_EQ(value, &values[key - 5]);
		seen[key - 5]++;
	}
	for (unsigned int i = 0; i < N; i++)
		ASSERT_EQ(seen[i], 1);
	ASSERT_EQ(hash_next(&hash, &pos, &key), NULL);
	hash_deinit(&hash);
}

TEST(a_trimmed_table_is_smaller_and_keeps_what_is_left)
{
	struct hash hash;
	size_t most;

	hash_init(&hash);
	hash_trim(&hash);
	for (unsigned int i = 0; i < N; i++)
		ASSERT_OK(hash_add(&hash, i, &values[i]));
	most = hash.n_slots;
	hash_trim(&hash);
	ASSERT_EQ(hash.n_slots, most);
	for (unsigned int i = 8; i < N; i++)
		hash_remove(&hash, i);
	hash_trim(&hash);
	ASSERT_LT(hash.n_slots, most);
	for (unsigned int i = 0; i < N; i++)
		ASSERT_EQ(hash_get(&hash, i), i < 8 ? &values[i] : NULL);
	hash_deinit(&hash);
}
