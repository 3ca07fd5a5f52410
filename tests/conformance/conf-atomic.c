/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics at 8 bytes, and their masked forms at 4 and 8 bytes with masks and field boundaries, against a
 * reference that adds bit by bit.
 */
#include "tests/conformance/conf.h"

#include <stdatomic.h>
#include <string.h>

#define LOC 4096u
#define REM 8192u

/* ---- reference --------------------------------------------------------------------------------------------- */

/* Adds like the adder of the PRM: a set bit of `boundary` stops the carry out of that bit. */
static uint64_t reference_fetch_add(uint64_t old, uint64_t add, uint64_t boundary,
				    unsigned int bits)
{
	uint64_t sum = 0, carry = 0;

	for (unsigned int i = 0; i < bits; i++) {
		uint64_t a = old >> i & 1, b = add >> i & 1;

		sum |= (a ^ b ^ carry) << i;
		carry = (a & b) | (a & carry) | (b & carry);
		if (boundary >> i & 1)
			carry = 0;
	}
	return sum;
}

struct compare_swap {
	uint64_t swap, compare, swap_mask, compare_mask;
};

static uint64_t reference_compare_swap(uint64_t old, const struct compare_swap *cs)
{
	if ((old ^ cs->compare) & cs->compare_mask)
		return old;
	return (old & ~cs->swap_mask) | (cs->swap & cs->swap_mask);
}

/* ---- plain forms ------------------------------------------------------------------------------------------------ */

static void set_remote(struct conf *c, size_t off, const void *value, size_t bytes)
{
	memcpy(c->tgt.mem.addr + off, value, bytes);
	conf_want_bytes(&c->tgt.mem, off, value, bytes);
}

static void want_8(struct conf *c, size_t loc, uint64_t result, size_t rem, uint64_t value)
{
	conf_want_bytes(&c->ini.mem, loc, &result, 8);
	conf_want_bytes(&c->tgt.mem, rem, &value, 8);
}

static void fetch_add(struct conf *c, uint64_t old, uint64_t add)
{
	struct conf_wqe w;

	set_remote(c, REM, &old, 8);
	conf_fetch_add(&w, c->a, LOC, REM, add);
	want_8(c, LOC, old, REM, old + add);
	conf_do(c->a, &w);
	conf_check(c);
}

static void fetch_adds(struct conf *c, size_t arg)
{
	conf_need(c, CONF_F_ATOMIC);
	fetch_add(c, 0, 1);
	fetch_add(c, 0x0123456789abcdefull, 0x1111111111111111ull);
	fetch_add(c, 5, (uint64_t)-7);
	fetch_add(c, 0x00000000ffffffffull, 1);
}

TEST(conf_fetch_add_adds_and_returns_the_old_value)
{
	conf_each_variant(fetch_adds, 0, NULL);
}

static void fetch_add_wraps(struct conf *c, size_t arg)
{
	conf_need(c, CONF_F_ATOMIC);
	fetch_add(c, UINT64_MAX, 1);
	fetch_add(c, 1ull << 63, 1ull << 63);
}

TEST(conf_fetch_add_wraps_at_64_bits)
{
	conf_each_variant(fetch_add_wraps, 0, NULL);
}

static void compare_swap(struct conf *c, uint64_t old, uint64_t compare, uint64_t swap)
{
	struct conf_wqe w;

	set_remote(c, REM, &old, 8);
	conf_compare_swap(&w, c->a, LOC, REM, compare, swap);
	want_8(c, LOC, old, REM, old == compare ? swap : old);
	conf_do(c->a, &w);
	conf_check(c);
}

static void compare_swap_equal(struct conf *c, size_t arg)
{
	conf_need(c, CONF_F_ATOMIC);
	compare_swap(c, 0x0123456789abcdefull, 0x0123456789abcdefull, 0xfedcba9876543210ull);
	compare_swap(c, 0, 0, UINT64_MAX);
	compare_swap(c, 7, 7, 7);
}

TEST(conf_compare_swap_of_an_equal_value_swaps)
{
	conf_each_variant(compare_swap_equal, 0, NULL);
}

static void compare_swap_different(struct conf *c, size_t arg)
{
	conf_need(c, CONF_F_ATOMIC);
	compare_swap(c, 0x0123456789abcdefull, 0x0123456789abcdeeull, 1);
	compare_swap(c, 0x0123456789abcdefull, 0x8123456789abcdefull, 1);
	compare_swap(c, 0x00000000ffffffffull, 0xffffffff00000000ull, 1);
}

TEST(conf_compare_swap_of_another_value_only_returns_it)
{
	conf_each_variant(compare_swap_different, 0, NULL);
}

static void atomic_edges(struct conf *c, size_t arg)
{
	const size_t offs[] = {0, 8, 4088, 4096, 65528};
	struct conf_wqe w;

	conf_need(c, CONF_F_ATOMIC);
	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		uint64_t old;

		memcpy(&old, c->tgt.mem.want + offs[i], 8);
		conf_fetch_add(&w, c->a, 3 + 16 * i, offs[i], 1);
		want_8(c, 3 + 16 * i, old, offs[i], old + 1);
		conf_do(c->a, &w);
	}
	conf_check(c);
}

TEST(conf_atomic_on_the_first_and_the_last_word_with_unaligned_results)
{
	conf_each_variant(atomic_edges, 0, NULL);
}

static void atomic_result_two_segments(struct conf *c, size_t arg)
{
	struct shmd_wqe_atomic_seg seg = {.swap_add = htobe64(3)};
	uint64_t base = (uintptr_t)c->ini.mem.addr, old;
	struct conf_wqe w;

	conf_need(c, CONF_F_ATOMIC);
	conf_need_sges(c, 2);
	memcpy(&old, c->tgt.mem.want + REM, 8);
	conf_wqe_init(&w, SHMD_OPCODE_ATOMIC_FA);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr + REM, c->tgt.mem.rkey_be);
	conf_wqe_segment(&w, &seg, sizeof(seg));
	conf_wqe_data(&w, base + 100, 3, c->ini.mem.lkey_be);
	conf_wqe_data(&w, base + 200, 5, c->ini.mem.lkey_be);
	conf_want_bytes(&c->ini.mem, 100, &old, 3);
	conf_want_bytes(&c->ini.mem, 200, (uint8_t *)&old + 3, 5);
	old += 3;
	conf_want_bytes(&c->tgt.mem, REM, &old, 8);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_atomic_result_is_scattered_over_two_segments)
{
	conf_each_variant(atomic_result_two_segments, 0, NULL);
}

/* ---- masked forms ----------------------------------------------------------------------------------------------------- */

static void masked_head(struct conf_wqe *w, const struct conf_qp *qp, uint8_t opcode, size_t bytes)
{
	const struct conf_mem *mem = &qp->peer->side->mem;

	conf_wqe_init(w, opcode);
	w->opmod = bytes == 4 ? SHMD_OPMOD_EXT_ATOMIC_4 : SHMD_OPMOD_EXT_ATOMIC_8;
	conf_wqe_raddr(w, (uintptr_t)mem->addr + REM, mem->rkey_be);
}

static void want_result(struct conf *c, uint64_t old, uint64_t value, size_t bytes)
{
	uint32_t old_32 = SHMD_ATOMIC_RESULT_4_IS_BE ? htobe32((uint32_t)old) : (uint32_t)old;
	uint64_t old_64 = SHMD_ATOMIC_RESULT_8_IS_BE ? htobe64(old) : old;

	conf_want_bytes(&c->ini.mem, LOC, bytes == 4 ? (void *)&old_32 : (void *)&old_64, bytes);
	conf_want_bytes(&c->tgt.mem, REM, &value, bytes);
}

static void run_masked(struct conf *c, struct conf_wqe *w, size_t bytes)
{
	conf_wqe_data(w, (uintptr_t)c->ini.mem.addr + LOC, (uint32_t)bytes, c->ini.mem.lkey_be);
	conf_do(c->a, w);
	conf_check(c);
}

static void masked_fetch_add(struct conf *c, size_t bytes, uint64_t old, uint64_t add,
			     uint64_t boundary)
{
	struct shmd_wqe_masked_fa32_seg fa_32 = {htobe32((uint32_t)add),
						 htobe32((uint32_t)boundary)};
	struct shmd_wqe_masked_fa64_seg fa_64 = {htobe64(add), htobe64(boundary)};
	struct conf_wqe w;

	masked_head(&w, c->a, SHMD_OPCODE_ATOMIC_MASKED_FA, bytes);
	conf_wqe_segment(&w, bytes == 4 ? (void *)&fa_32 : (void *)&fa_64, 16);
	set_remote(c, REM, &old, bytes);
	want_result(c, old, reference_fetch_add(old, add, boundary, 8 * (unsigned int)bytes),
		    bytes);
	run_masked(c, &w, bytes);
}

static void masked_compare_swap(struct conf *c, size_t bytes, uint64_t old,
				const struct compare_swap *cs)
{
	struct shmd_wqe_masked_cs32_seg cs_32 = {
		htobe32((uint32_t)cs->swap), htobe32((uint32_t)cs->compare),
		htobe32((uint32_t)cs->swap_mask), htobe32((uint32_t)cs->compare_mask)};
	struct shmd_wqe_masked_cs64_seg cs_64 = {htobe64(cs->swap), htobe64(cs->compare),
						 htobe64(cs->swap_mask), htobe64(cs->compare_mask)};
	struct conf_wqe w;

	masked_head(&w, c->a, SHMD_OPCODE_ATOMIC_MASKED_CS, bytes);
	if (bytes == 4)
		conf_wqe_segment(&w, &cs_32, sizeof(cs_32));
	else
		conf_wqe_segment(&w, &cs_64, sizeof(cs_64));
	set_remote(c, REM, &old, bytes);
	want_result(c, old, reference_compare_swap(old, cs), bytes);
	run_masked(c, &w, bytes);
}

static uint64_t ones(size_t bytes)
{
	return bytes == 4 ? UINT32_MAX : UINT64_MAX;
}

static void masked_fa_plain(struct conf *c, size_t bytes)
{
	conf_need(c, CONF_F_MASKED_ATOMIC);
	masked_fetch_add(c, bytes, 0x0123456789abcdefull & ones(bytes), 0x1111, 0);
	masked_fetch_add(c, bytes, ones(bytes), 1, 0);
	masked_fetch_add(c, bytes, 1, ones(bytes), 0);
}

TEST(conf_masked_fetch_add_4_bytes_without_boundary)
{
	conf_each_variant(masked_fa_plain, 4, NULL);
}

TEST(conf_masked_fetch_add_8_bytes_without_boundary)
{
	conf_each_variant(masked_fa_plain, 8, NULL);
}

static void masked_fa_xor(struct conf *c, size_t bytes)
{
	conf_need(c, CONF_F_MASKED_ATOMIC);
	masked_fetch_add(c, bytes, 0xfedcba9876543210ull & ones(bytes),
			 0xff00ff00ff00ff00ull & ones(bytes), ones(bytes));
	masked_fetch_add(c, bytes, ones(bytes), ones(bytes), ones(bytes));
}

TEST(conf_masked_fetch_add_4_bytes_with_all_boundaries_is_xor)
{
	conf_each_variant(masked_fa_xor, 4, NULL);
}

TEST(conf_masked_fetch_add_8_bytes_with_all_boundaries_is_xor)
{
	conf_each_variant(masked_fa_xor, 8, NULL);
}

/* Boundaries at the top bit of every byte, then of every 16 bits: fields add on their own. */
static void masked_fa_fields(struct conf *c, size_t bytes)
{
	conf_need(c, CONF_F_MASKED_ATOMIC);
	masked_fetch_add(c, bytes, 0xff01ff7fff80ff00ull & ones(bytes),
			 0x0101010101010101ull & ones(bytes), 0x8080808080808080ull & ones(bytes));
	masked_fetch_add(c, bytes, 0xffffffffffffffffull & ones(bytes),
			 0x0001000100010001ull & ones(bytes), 0x8000800080008000ull & ones(bytes));
	masked_fetch_add(c, bytes, ones(bytes), 1, 1);
}

TEST(conf_masked_fetch_add_4_bytes_keeps_carries_in_their_fields)
{
	conf_each_variant(masked_fa_fields, 4, NULL);
}

TEST(conf_masked_fetch_add_8_bytes_keeps_carries_in_their_fields)
{
	conf_each_variant(masked_fa_fields, 8, NULL);
}

static void masked_fa_random(struct conf *c, size_t bytes)
{
	uint64_t random = 11;

	conf_need(c, CONF_F_MASKED_ATOMIC);
	for (int i = 0; i < 100; i++) {
		uint64_t old = conf_random(&random), add = conf_random(&random);

		masked_fetch_add(c, bytes, old & ones(bytes), add & ones(bytes),
				 conf_random(&random) & conf_random(&random) & ones(bytes));
	}
}

TEST(conf_masked_fetch_add_4_bytes_100_random_boundaries)
{
	conf_each_variant(masked_fa_random, 4, NULL);
}

TEST(conf_masked_fetch_add_8_bytes_100_random_boundaries)
{
	conf_each_variant(masked_fa_random, 8, NULL);
}

static void masked_cs_full(struct conf *c, size_t bytes)
{
	uint64_t old = 0x0123456789abcdefull & ones(bytes);

	conf_need(c, CONF_F_MASKED_ATOMIC);
	masked_compare_swap(c, bytes, old,
			    &(struct compare_swap){9, old, ones(bytes), ones(bytes)});
	masked_compare_swap(c, bytes, old,
			    &(struct compare_swap){9, old ^ 1, ones(bytes), ones(bytes)});
}

TEST(conf_masked_compare_swap_4_bytes_with_full_masks)
{
	conf_each_variant(masked_cs_full, 4, NULL);
}

TEST(conf_masked_compare_swap_8_bytes_with_full_masks)
{
	conf_each_variant(masked_cs_full, 8, NULL);
}

/* Without a compare mask everything matches: the swap mask then sets (swap all ones) or clears (swap 0) bits. */
static void masked_cs_and_or(struct conf *c, size_t bytes)
{
	uint64_t old = 0xa5a5a5a5a5a5a5a5ull & ones(bytes),
		 bits = 0x00ff0ff000ff0ff0ull & ones(bytes);

	conf_need(c, CONF_F_MASKED_ATOMIC);
	masked_compare_swap(c, bytes, old, &(struct compare_swap){0, 0, bits, 0});
	masked_compare_swap(c, bytes, old, &(struct compare_swap){ones(bytes), 0, bits, 0});
	masked_compare_swap(c, bytes, old, &(struct compare_swap){7, 0, ones(bytes), 0});
	masked_compare_swap(c, bytes, old, &(struct compare_swap){7, 0, 0, 0});
}

TEST(conf_masked_compare_swap_4_bytes_as_and_or_and_swap)
{
	conf_each_variant(masked_cs_and_or, 4, NULL);
}

TEST(conf_masked_compare_swap_8_bytes_as_and_or_and_swap)
{
	conf_each_variant(masked_cs_and_or, 8, NULL);
}

static void masked_cs_random(struct conf *c, size_t bytes)
{
	uint64_t random = 12;

	conf_need(c, CONF_F_MASKED_ATOMIC);
	for (int i = 0; i < 100; i++) {
		uint64_t old = conf_random(&random) & ones(bytes);
		struct compare_swap cs = {
			conf_random(&random) & ones(bytes), old, conf_random(&random) & ones(bytes),
			conf_random(&random) & conf_random(&random) & ones(bytes)};

		cs.compare ^= 1ull << conf_random(&random) % (8 * bytes);
		masked_compare_swap(c, bytes, old, &cs);
	}
}

TEST(conf_masked_compare_swap_4_bytes_100_random_masks)
{
	conf_each_variant(masked_cs_random, 4, NULL);
}

TEST(conf_masked_compare_swap_8_bytes_100_random_masks)
{
	conf_each_variant(masked_cs_random, 8, NULL);
}
