/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/heap/heap-agree.h"

#define N_PES 4u

static struct heap_record shared[N_PES], records[N_PES];

static const struct heap_call the_call = {
	.operation = HEAP_OP_MALLOC, .step = HEAP_STEP_ENTER, .number = 17, .heap = 1, .size = 8192, .align = 64, .hints = 5,
};

static void write_all(const struct heap_call *call)
{
	for (uint32_t pe = 0; pe < N_PES; pe++)
		heap_record_write(&shared[pe], call, NULL);
}

static int check_all(void)
{
	for (uint32_t pe = 0; pe < N_PES; pe++)
		ASSERT_OK(heap_record_read(&shared[pe], pe, &records[pe]));
	return heap_records_check(records, N_PES);
}

/* All PEs do the same but PE 3. */
static void expect(struct heap_call differs, int error, const char *text)
{
	write_all(&the_call);
	heap_record_write(&shared[3], &differs, NULL);
	ASSERT_EQ(check_all(), -error);
	ASSERT_STREQ(shmd_error_text(), text);
}

#define EXPECT(field, value, text)                                      \
	do {                                                            \
		struct heap_call differs = the_call;                    \
		differs.field = (value);                                \
		expect(differs, EINVAL, text);                          \
	} while (0)

TEST(equal_calls_agree)
{
	write_all(&the_call);
	ASSERT_OK(check_all());
	ASSERT_OK(heap_records_check(records, 1));
	ASSERT(!heap_records_left(records, N_PES));
}

TEST(each_argument_that_differs_fails_the_call_with_a_sentence_that_names_the_pe)
{
	EXPECT(size, 4096, "shmd_malloc: PE 3 asks for 4096 bytes, PE 0 for 8192 (call 17)");
	EXPECT(align, 128, "shmd_malloc: PE 3 asks for an alignment of 128, PE 0 of 64 (call 17)");
	EXPECT(hints, 4, "shmd_malloc: PE 3 passes the hints 0x4, PE 0 0x5 (call 17)");
	EXPECT(heap, 0, "shmd_malloc: PE 3 asks for memory of heap 0, PE 0 of heap 1 (call 17)");
	EXPECT(offset, HEAP_NONE, "shmd_malloc: PE 3 passes the memory at offset NULL, PE 0 at 0x0 (call 17)");
	EXPECT(step, HEAP_STEP_CHUNK, "shmd_malloc: PE 3 is in step 2, PE 0 in step 1 (call 17)");
	EXPECT(operation, HEAP_OP_CALLOC, "PE 3 calls shmd_calloc, PE 0 shmd_malloc (call 17)");
	EXPECT(operation, 99, "PE 3 calls an unknown call, PE 0 shmd_malloc (call 17)");
	EXPECT(number, 16, "PE 3 is in its collective call 16 (shmd_malloc), PE 0 in call 17 (shmd_malloc)");
}

TEST(the_place_in_the_program_is_compared_before_the_arguments)
{
	struct heap_call other = the_call;

	write_all(&the_call);
	other.size = 1;
	heap_record_write(&shared[1], &other, NULL);
	other = (struct heap_call){.operation = HEAP_OP_REALLOC, .step = HEAP_STEP_ENTER, .number = 17};
	heap_record_write(&shared[2], &other, NULL);
	ASSERT_ERR(check_all(), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "PE 2 calls shmd_realloc, PE 0 shmd_malloc (call 17)");
}

TEST(a_pe_that_cannot_go_on_fails_the_call_on_all_with_its_reason)
{
	struct heap_call fails = the_call;

	fails.step = HEAP_STEP_CHUNK;
	write_all(&fails);
	fails.status = -ENOMEM;
	fails.why = "cannot map 64 MiB\033[2J: out of memory";
	heap_record_write(&shared[0], &fails, NULL);
	fails.why = NULL;
	heap_record_write(&shared[2], &fails, NULL);
	ASSERT_ERR(check_all(), ENOMEM);
	ASSERT_STREQ(shmd_error_text(), "shmd_malloc: PE 0 cannot: cannot map 64 MiB?[2J: out of memory (call 17)");
	fails.status = 0;
	heap_record_write(&shared[0], &fails, NULL);
	ASSERT_ERR(check_all(), ENOMEM);
	ASSERT_STREQ(shmd_error_text(), "shmd_malloc: PE 2 cannot: Cannot allocate memory (call 17)");
}

TEST(a_long_reason_is_cut_and_a_reason_without_a_failure_is_not_carried)
{
	struct heap_call call = the_call;
	char why[300];

	memset(why, 'x', sizeof(why) - 1);
	why[sizeof(why) - 1] = 0;
	call.why = why;
	heap_record_write(&shared[0], &call, NULL);
	ASSERT_EQ(shared[0].why[0], 0);
	call.status = -EIO;
	heap_record_write(&shared[0], &call, NULL);
	ASSERT_EQ(strlen(shared[0].why), HEAP_RECORD_WHY - 1);
}

/* ---- what others wrote */

TEST(a_record_of_another_version_is_refused_with_both_versions)
{
	write_all(&the_call);
	shared[2].library = 7u << 16 | 8 << 8 | 9;
	ASSERT_ERR(heap_record_read(&shared[2], 2, &records[2]), EINVAL);
	ASSERT(strstr(shmd_error_text(), "PE 2 has libshmemclient 7.8.9"));
	write_all(&the_call);
	shared[1].version++;
	ASSERT_ERR(heap_record_read(&shared[1], 1, &records[1]), EINVAL);
}

TEST(a_record_with_values_beyond_its_bounds_is_refused)
{
	write_all(&the_call);
	shared[1].n_freed = HEAP_RECORD_FREED;
	ASSERT_OK(heap_record_read(&shared[1], 1, &records[1]));
	shared[1].n_freed = HEAP_RECORD_FREED + 1;
	ASSERT_ERR(heap_record_read(&shared[1], 1, &records[1]), EINVAL);
	shared[1].n_freed = UINT32_MAX;
	ASSERT_ERR(heap_record_read(&shared[1], 1, &records[1]), EINVAL);
	write_all(&the_call);
	shared[1].status = 1;
	ASSERT_ERR(heap_record_read(&shared[1], 1, &records[1]), EINVAL);
	shared[1].status = INT32_MIN;
	ASSERT_ERR(heap_record_read(&shared[1], 1, &records[1]), EINVAL);
}

TEST(a_reason_without_an_end_is_cut_and_a_copy_does_not_change_with_the_original)
{
	write_all(&the_call);
	memset(shared[1].why, 'y', sizeof(shared[1].why));
	shared[1].status = -EIO;
	ASSERT_OK(heap_record_read(&shared[1], 1, &records[1]));
	ASSERT_EQ(strlen(records[1].why), HEAP_RECORD_WHY - 1);
	shared[1].size = 1;
	ASSERT_EQ(records[1].size, 8192);
}

/* Any bytes: read refuses them, or check and apply work on what it let through. */
TEST(random_bytes_in_records_harm_nothing)
{
	struct heap *heap;
	uint64_t random = 99, offset;
	unsigned int n_read = 0;

	ASSERT_OK(heap_new(&(struct heap_attr){.n_pes = N_PES, .range_bytes = 1 << 20}, &heap));
	ASSERT_OK(heap_add_chunk(heap, 0, 1 << 20));
	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 64}, &offset));
	for (unsigned int round = 0; round < 20000; round++) {
		bool is_whole = true;

		write_all(&the_call);
		for (unsigned int i = 0; i < 1 + round % 8; i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			((uint8_t *)shared)[(random >> 32) % sizeof(shared)] = (uint8_t)(random >> 24);
			shared[random >> 60 & 3].n_freed = (uint32_t)(random >> 50 & 0x3ff);
		}
		for (uint32_t pe = 0; pe < N_PES; pe++)
			is_whole = heap_record_read(&shared[pe], pe, &records[pe]) == 0 && is_whole;
		if (!is_whole)
			continue;
		n_read++;
		heap_records_check(records, N_PES);
		heap_records_apply(records, N_PES, (struct heap *const[]){heap, heap}, 2);
	}
	ASSERT_GT(n_read, 100);
	heap_free(heap);
}

/* ---- freed slots */

TEST(records_carry_the_freed_slots_and_all_are_counted_in_batches)
{
	const uint32_t n = HEAP_RECORD_FREED + 100;
	struct heap *heaps[N_PES];
	struct heap_stats stats;
	uint64_t offset;

	for (uint32_t pe = 0; pe < N_PES; pe++) {
		ASSERT_OK(heap_new(&(struct heap_attr){.n_pes = N_PES, .range_bytes = 1 << 20}, &heaps[pe]));
		ASSERT_OK(heap_add_chunk(heaps[pe], 0, 1 << 20));
		for (uint32_t i = 0; i < n; i++) {
			ASSERT_OK(heap_reserve(heaps[pe]));
			ASSERT_OK(heap_malloc(heaps[pe], &(struct heap_request){.size = 64}, &offset));
			ASSERT_OK(heap_release(heaps[pe], offset));
		}
	}
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t pe = 0; pe < N_PES; pe++)
			heap_record_write(&shared[pe], &the_call, heaps[pe]);
		ASSERT_OK(check_all());
		ASSERT_EQ(heap_records_left(records, N_PES), round == 0);
		ASSERT_ERR(heap_records_apply(records, N_PES, (struct heap *const[]){NULL, NULL}, 2), EINVAL);
		for (uint32_t pe = 0; pe < N_PES; pe++)
			ASSERT_OK(heap_records_apply(records, N_PES, (struct heap *const[]){heaps[pe], heaps[pe]}, 2));
		heap_stats(heaps[2], &stats);
		ASSERT_EQ(stats.n_live, round ? 0 : 100);
	}
	for (uint32_t pe = 0; pe < N_PES; pe++)
		heap_free(heaps[pe]);
}

TEST(the_second_step_of_a_call_takes_no_slots)
{
	struct heap_call call = the_call;
	struct heap_stats stats;
	struct heap *heap;
	uint64_t offset;

	ASSERT_OK(heap_new(&(struct heap_attr){.n_pes = 1, .range_bytes = 1 << 20}, &heap));
	ASSERT_OK(heap_add_chunk(heap, 0, 1 << 20));
	ASSERT_OK(heap_malloc(heap, &(struct heap_request){.size = 64}, &offset));
	ASSERT_OK(heap_release(heap, offset));
	call.step = HEAP_STEP_CHUNK;
	heap_record_write(&shared[0], &call, heap);
	ASSERT_EQ(shared[0].n_freed, 0);
	heap_stats(heap, &stats);
	ASSERT_EQ(stats.n_pending, 1);
	heap_free(heap);
}
