/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of all backends' records: head, length, sum, and the backend that reads them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/nic-record.h"
#include "record-seal.h"
#include "tests/lib/test.h"

#define MOST 8u

/* A list of numbers, none of them 0, in which the first is the smallest. */
struct numbers {
	uint32_t n;
	uint32_t *list; /* owned */
	size_t n_unused; /* bytes of nothing */
};

static unsigned int n_deinits;

static void code(struct coder *c, void *arg)
{
	struct numbers *numbers = arg;

	coder_count(c, &numbers->n, MOST, sizeof(uint32_t));
	nic_record_room(c, numbers->n, sizeof(*numbers->list), &numbers->list);
	for (uint32_t i = 0; !c->failed && i < numbers->n; i++) {
		coder_u32(c, &numbers->list[i]);
		c->failed |= numbers->list[i] == 0;
	}
	if (c->direction == CODER_COUNTING)
		c->n += numbers->n_unused;
}

static int check(const void *arg)
{
	const struct numbers *numbers = arg;

	for (uint32_t i = 1; i < numbers->n; i++)
		if (numbers->list[i] < numbers->list[0])
			return -EINVAL;
	return 0;
}

static void deinit(void *arg)
{
	struct numbers *numbers = arg;

	free(numbers->list);
	*numbers = (struct numbers){0};
	n_deinits++;
}

static const struct nic_record_form form = {
	.magic = 0x64636261, .version = 7, .code = code, .check = check, .deinit = deinit};

static uint8_t *encode(uint32_t *list, uint32_t n, size_t *ret_bytes)
{
	const struct numbers numbers = {.n = n, .list = list};
	void *data = NULL;

	ASSERT_OK(nic_record_encode(&form, &numbers, &data, ret_bytes));
	return data;
}

/* Exactly as large as the record, so that a sanitizer sees a read beyond it. */
static int decode(const uint8_t *data, size_t bytes)
{
	struct numbers numbers = {0};
	uint8_t *copy = malloc(bytes ? bytes : 1);
	int r;

	ASSERT(copy);
	memcpy(copy, data, bytes);
	n_deinits = 0;
	r = nic_record_decode(&form, copy, bytes, &numbers);
	free(copy);
	ASSERT_EQ(n_deinits, r < 0 ? 1u : 0u);
	ASSERT(r == 0 || (!numbers.list && !numbers.n));
	free(numbers.list);
	return r;
}

TEST(a_record_is_head_fields_and_sum)
{
	const uint8_t wanted[] = {'a', 'b', 'c', 'd', 7, 0, 0, 0, 32, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6, 1, 0, 0};
	uint8_t *data, sealed[32];
	size_t bytes;

	data = encode((uint32_t[]){5, 0x106}, 2, &bytes);
	ASSERT_EQ(bytes, sizeof(wanted) + RECORD_SUM_BYTES);
	ASSERT_MEMEQ(data, wanted, sizeof(wanted));
	memcpy(sealed, data, bytes);
	record_seal(sealed, bytes);
	ASSERT_MEMEQ(data, sealed, bytes);
	ASSERT_OK(decode(data, bytes));
	free(data);
	data = encode(NULL, 0, &bytes);
	ASSERT_OK(decode(data, bytes));
	free(data);
}

TEST(cut_or_flipped_records_are_refused)
{
	uint8_t *data;
	size_t bytes;

	data = encode((uint32_t[]){1, 2, 3}, 3, &bytes);
	for (size_t n = 0; n < bytes; n++)
		ASSERT_ERR(decode(data, n), EINVAL);
	for (size_t bit = 0; bit < bytes * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ASSERT_ERR(decode(data, bytes), bit / 32 == 1 ? EPROTONOSUPPORT : EINVAL);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ASSERT_OK(decode(data, bytes));
	free(data);
}

/* Its maker knew how to seal it. */
TEST(contradictory_record_with_a_right_sum_is_refused)
{
	uint8_t *data;
	size_t bytes;

	/* A field, a count beyond the bytes that are there, bytes that no field takes. */
	data = encode((uint32_t[]){1, 2, 3}, 3, &bytes);
	data[20] = 0;
	record_seal(data, bytes);
	ASSERT_ERR(decode(data, bytes), EINVAL);
	data[20] = 2;
	for (uint32_t n = 0; n <= MOST + 1; n++) {
		data[12] = (uint8_t)n;
		record_seal(data, bytes);
		if (n == 3)
			ASSERT_OK(decode(data, bytes));
		else
			ASSERT_ERR(decode(data, bytes), EINVAL);
	}
	free(data);
	/* And what only the whole shows. */
	data = encode((uint32_t[]){3, 2}, 2, &bytes);
	ASSERT_ERR(decode(data, bytes), EINVAL);
	free(data);
}

TEST(values_that_decoding_would_refuse_are_not_written)
{
	struct numbers numbers = {.n = 1, .list = (uint32_t[]){0}};
	void *data = NULL;
	size_t bytes;

	ASSERT_ERR(nic_record_encode(&form, &numbers, &data, &bytes), EINVAL);
	numbers = (struct numbers){.n_unused = NIC_RECORD_MAX_BYTES};
	ASSERT_ERR(nic_record_encode(&form, &numbers, &data, &bytes), ENOSPC);
	ASSERT(!data);
}

TEST(a_record_that_is_too_large_is_not_looked_at)
{
	struct numbers numbers = {0};

	ASSERT_ERR(nic_record_decode(&form, "", (size_t)NIC_RECORD_MAX_BYTES + 1, &numbers), EINVAL);
}
