/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics of 4 and 8 bytes, fetching and not, against the same operation done here. */
#include <string.h>

#include "tests/dev/each-mode.h"

struct words {
	uint8_t before[8];
	uint64_t word;
	uint8_t after[8];
};

static struct words mem __attribute__((aligned(64)));

static uint64_t truncate_to(uint64_t v, uint32_t bytes)
{
	return bytes == 4 ? (uint32_t)v : v;
}

static uint64_t expected_value(int op, uint64_t old, uint64_t value, uint64_t compare)
{
	switch (op) {
	case SHMD_DEV_AMO_ADD:
		return old + value;
	case SHMD_DEV_AMO_AND:
		return old & value;
	case SHMD_DEV_AMO_OR:
		return old | value;
	case SHMD_DEV_AMO_XOR:
		return old ^ value;
	case SHMD_DEV_AMO_SWAP:
		return value;
	case SHMD_DEV_AMO_COMPARE_SWAP:
		return old == compare ? value : old;
	default:
		return old;
	}
}

static void set_word(uint64_t v, uint32_t bytes)
{
	memset(&mem, 0xee, sizeof(mem));
	memcpy(&mem.word, &v, bytes);
}

/* The word holds `v`, and nothing beside it was touched. */
static void check_word(uint64_t v, uint32_t bytes)
{
	struct words expected;

	memset(&expected, 0xee, sizeof(expected));
	memcpy(&expected.word, &v, bytes);
	ASSERT_MEMEQ(&mem, &expected, sizeof(mem));
}

static void one(struct mini_nic *nic, struct shmd_dev_amo amo, uint64_t old)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	uint64_t expected = truncate_to(
		expected_value(amo.op, old, truncate_to(amo.value, amo.bytes), amo.compare),
		amo.bytes);
	uint64_t got = 0;

	set_word(old, amo.bytes);
	ASSERT_EQ(
		shmd_dev_qp_atomic_fetch_as(&nic->qp, mini_nic_remote(&mem.word), amo, mode, &got),
		SHMD_DEV_OK);
	ASSERT_EQ(got, old);
	check_word(expected, amo.bytes);

	set_word(old, amo.bytes);
	ASSERT_EQ(shmd_dev_qp_atomic_as(&nic->qp, mini_nic_remote(&mem.word), amo, mode),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	check_word(expected, amo.bytes);
}

static void every_op(struct mini_nic *nic)
{
	static const uint64_t values[] = {0, 1, 0x80000001, 0xfedcba9876543210ull, ~0ull};
	uint32_t bytes;
	unsigned int i, j;
	int op;

	for (bytes = 4; bytes <= 8; bytes += 4) {
		for (op = SHMD_DEV_AMO_FETCH; op <= SHMD_DEV_AMO_COMPARE_SWAP; op++) {
			for (i = 0; i < 25; i++) {
				struct shmd_dev_amo amo = shmd_dev_amo_of(op, bytes, values[i % 5]);
				uint64_t old = truncate_to(values[i / 5], bytes);

				/* Compare-swap both ways. */
				for (j = 0; j < (op == SHMD_DEV_AMO_COMPARE_SWAP ? 2 : 1); j++) {
					amo.compare = old ^ j << 3;
					one(nic, amo, old);
				}
			}
		}
	}
}

TEST(every_atomic_does_what_it_says)
{
	each_mode(every_op);
}

static void check_step(int rc, uint64_t before, uint64_t *word, uint64_t after, uint64_t got)
{
	ASSERT_EQ(rc, SHMD_DEV_OK);
	ASSERT_EQ(got, before);
	ASSERT_EQ(*word, after);
}

static void fetching_names(struct mini_nic *nic)
{
	struct shmd_dev_addr at = mini_nic_remote(&mem.word);
	struct shmd_dev_qp *qp = &nic->qp;
	struct shmd_dev_amo cs = shmd_dev_amo_of(0, 8, 99);
	uint64_t *w = &mem.word, got = 0;
	int rc;

	*w = 12;
	rc = shmd_dev_qp_atomic_fetch(qp, at, 8, PATIENCE, &got);
	check_step(rc, 12, w, 12, got);
	rc = shmd_dev_qp_atomic_fetch_add(qp, at, 8, 3, PATIENCE, &got);
	check_step(rc, 12, w, 15, got);
	rc = shmd_dev_qp_atomic_fetch_inc(qp, at, 8, PATIENCE, &got);
	check_step(rc, 15, w, 16, got);
	rc = shmd_dev_qp_atomic_fetch_or(qp, at, 8, 7, PATIENCE, &got);
	check_step(rc, 16, w, 23, got);
	rc = shmd_dev_qp_atomic_fetch_and(qp, at, 8, 0x16, PATIENCE, &got);
	check_step(rc, 23, w, 22, got);
	rc = shmd_dev_qp_atomic_fetch_xor(qp, at, 8, 3, PATIENCE, &got);
	check_step(rc, 22, w, 21, got);
	rc = shmd_dev_qp_atomic_swap(qp, at, 8, 77, PATIENCE, &got);
	check_step(rc, 21, w, 77, got);
	cs.compare = 76;
	rc = shmd_dev_qp_atomic_compare_swap(qp, at, cs, PATIENCE, &got);
	check_step(rc, 77, w, 77, got);
	cs.compare = 77;
	rc = shmd_dev_qp_atomic_compare_swap(qp, at, cs, PATIENCE, &got);
	check_step(rc, 77, w, 99, got);
}

static void other_names(struct mini_nic *nic)
{
	struct shmd_dev_addr at = mini_nic_remote(&mem.word);
	struct shmd_dev_qp *qp = &nic->qp;

	mem.word = 0;
	ASSERT_EQ(shmd_dev_qp_atomic_set(qp, at, 4, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_add(qp, at, 4, 3), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_inc(qp, at, 4), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_or(qp, at, 4, 0xf0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_and(qp, at, 4, 0x3c), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_xor(qp, at, 4, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(mem.word, 0x3du);
}

TEST(atomics_have_names)
{
	each_mode(fetching_names);
	each_mode(other_names);
}

static void bad_ones(struct mini_nic *nic)
{
	struct shmd_dev_addr at = mini_nic_remote(&mem.word);
	uint64_t got = 5;

	ASSERT_EQ(shmd_dev_qp_atomic_add(&nic->qp, at, 2, 1), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch(&nic->qp, at, 16, PATIENCE, &got), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_atomic_as(&nic->qp, at, shmd_dev_amo_of(7, 8, 0),
					shmd_dev_mode_of(&nic->qp, 0)),
		  SHMD_DEV_INVALID);
	ASSERT_EQ(got, 5u);
	ASSERT_EQ(nic->qp.sq_rsvd_index, nic->attr.start_index);
}

TEST(atomics_of_other_sizes_are_invalid)
{
	each_mode(bad_ones);
}

/* ---- NICs that have not all ---- */

/* The flag that forbids an operation, as amo-ops.h says which request carries it. */
static uint32_t forbidden_by(int op, uint32_t bytes)
{
	if (bytes == 4)
		return SHMD_QP_NO_MASKED_4;
	return op == SHMD_DEV_AMO_FETCH || op == SHMD_DEV_AMO_ADD || op == SHMD_DEV_AMO_COMPARE_SWAP ? SHMD_QP_NO_ATOMIC_8
												   : SHMD_QP_NO_MASKED_8;
}

static void refused(struct mini_nic *nic, struct shmd_dev_amo amo)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	uint64_t got = 5, index = nic->qp.sq_rsvd_index;

	if (nic->attr.n_peers)
		mode = shmd_dev_mode_to(mode, &nic->peers[0]);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_as(&nic->qp, mini_nic_remote(&mem.word), amo, mode, &got), SHMD_DEV_UNSUPPORTED);
	ASSERT_EQ(shmd_dev_qp_atomic_as(&nic->qp, mini_nic_remote(&mem.word), amo, mode), SHMD_DEV_UNSUPPORTED);
	ASSERT_EQ(got, 5u);
	ASSERT_EQ(nic->qp.sq_rsvd_index, index);
}

static void with_lacks(uint32_t lacks, bool dci)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU, .lacks = lacks, .n_peers = dci};
	struct mini_nic *nic = mini_nic_new(&attr);

	for (uint32_t bytes = 4; bytes <= 8; bytes += 4) {
		for (int op = SHMD_DEV_AMO_FETCH; op <= SHMD_DEV_AMO_COMPARE_SWAP; op++) {
			struct shmd_dev_amo amo = shmd_dev_amo_of(op, bytes, 3);

			if (forbidden_by(op, bytes) & lacks)
				refused(nic, amo);
			else if (!dci)
				one(nic, amo, 6);
		}
	}
	mini_nic_free(nic);
}

TEST(atomics_that_the_nic_lacks_are_not_posted)
{
	const uint32_t all = SHMD_QP_NO_ATOMIC_8 | SHMD_QP_NO_MASKED_4 | SHMD_QP_NO_MASKED_8;

	for (uint32_t lacks = 0; lacks <= all; lacks += SHMD_QP_NO_ATOMIC_8) {
		with_lacks(lacks & all, false);
		with_lacks(lacks & all, true);
	}
}

/* Nothing of a put_signal is posted when its signal cannot be, however many parts the data has. */
TEST(signals_that_the_nic_lacks_take_their_data_with_them)
{
	for (int op = SHMD_DEV_SIGNAL_SET; op <= SHMD_DEV_SIGNAL_ADD; op++) {
		struct mini_nic_attr attr = {
			.discards = true, .lacks = op == SHMD_DEV_SIGNAL_SET ? SHMD_QP_NO_MASKED_8 : SHMD_QP_NO_ATOMIC_8};
		struct mini_nic *nic = mini_nic_new(&attr);
		struct shmd_dev_addr at = mini_nic_remote(&mem.word), data = mini_nic_local(&mem.before);
		struct shmd_dev_signal signal = shmd_dev_signal_of(at, op, 1);
		struct shmd_dev_signal other = shmd_dev_signal_of(at, !op, 1);

		ASSERT_EQ(shmd_dev_qp_put_signal(&nic->qp, at, data, 8, signal, PATIENCE), SHMD_DEV_UNSUPPORTED);
		ASSERT_EQ(shmd_dev_qp_put_signal_nbi(&nic->qp, at, data, 3ull << 30, signal), SHMD_DEV_UNSUPPORTED);
		ASSERT_EQ(op == SHMD_DEV_SIGNAL_SET ? shmd_dev_qp_signal_set(&nic->qp, at, 1)
						    : shmd_dev_qp_signal_add(&nic->qp, at, 1),
			  SHMD_DEV_UNSUPPORTED);
		ASSERT_EQ(nic->qp.sq_rsvd_index, 0u);
		ASSERT_EQ(shmd_dev_qp_put_signal(&nic->qp, at, data, 8, other, PATIENCE), SHMD_DEV_OK);
		mini_nic_free(nic);
	}
}

TEST(results_of_8_bytes_that_arrive_big_endian_are_swapped)
{
	struct mini_nic_attr attr = {.results_8_be = true};
	struct mini_nic *nic = mini_nic_new(&attr);

	every_op(nic);
	mini_nic_free(nic);
}
