/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics, plain and masked, against a bit-by-bit reference. */
#include <endian.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define ROUNDS 300

/* Add bit by bit; a set bit in the boundary swallows the carry out of that bit. */
static uint64_t reference_add(uint64_t a, uint64_t b, uint64_t boundary, unsigned int bits)
{
	uint64_t sum = 0;
	unsigned int carry = 0;

	for (unsigned int i = 0; i < bits; i++) {
		unsigned int x = (a >> i) & 1, y = (b >> i) & 1;

		sum |= (uint64_t)(x ^ y ^ carry) << i;
		carry = x + y + carry > 1;
		if ((boundary >> i) & 1)
			carry = 0;
	}
	return sum;
}

static uint64_t reference_swap(uint64_t old, const uint64_t v[4])
{
	for (unsigned int i = 0; i < 64; i++) {
		uint64_t bit = 1ull << i;

		if ((v[3] & bit) && (old & bit) != (v[1] & bit))
			return old;
	}
	for (unsigned int i = 0; i < 64; i++) {
		uint64_t bit = 1ull << i;

		if (v[2] & bit)
			old = (old & ~bit) | (v[0] & bit);
	}
	return old;
}

static uint64_t random_mask(uint64_t *seed)
{
	switch (test_random(seed) % 4) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return 0x8000000080008080ull;
	default:
		return test_random(seed);
	}
}

/* v: swap, compare, swap mask, compare mask; or add, boundary. */
static void post(struct setup *s, unsigned int opcode, uint8_t opmod, const uint64_t v[4])
{
	bool narrow = opmod == SHMD_OPMOD_EXT_ATOMIC_4;
	uint32_t v32[4] = {(uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3]};
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_opmod(&wqe, opmod);
	wqe_raddr(&wqe, s->remote->iova + 40, s->remote->key);
	if (narrow)
		wqe_words32(&wqe, v32, opcode == SHMD_OPCODE_ATOMIC_MASKED_CS ? 4 : 2);
	else
		wqe_words64(&wqe, v, opcode == SHMD_OPCODE_ATOMIC_MASKED_CS ? 4 : 2);
	wqe_data(&wqe, s->local->iova + 24, s->local->key, narrow ? 4 : 8);
	tqp_post(&s->p.a, &wqe);
	tqp_ring(&s->p.a);
	world_run(&s->w);
}

static uint64_t remote_word(const struct setup *s)
{
	uint64_t v;

	memcpy(&v, s->remote->bytes + 40, 8);
	return v;
}

static uint64_t result64(const struct setup *s)
{
	uint64_t v;

	memcpy(&v, s->local->bytes + 24, 8);
	return v;
}

static uint32_t result32(const struct setup *s)
{
	uint32_t v;

	memcpy(&v, s->local->bytes + 24, 4);
	return be32toh(v);
}

static void expect_done(struct setup *s)
{
	struct shmd_cqe cqe;

	ASSERT(tcq_poll(&s->p.a.scq, &cqe));
	ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
}

TEST(fetch_add_of_8_bytes)
{
	FOR_EACH_MODE(mode)
	{
		uint64_t seed = 1, value = 0;
		struct setup s;

		setup_init(&s, mode, 4096, NULL);
		for (unsigned int i = 0; i < 40; i++) {
			uint64_t v[4] = {test_random(&seed)};

			post(&s, SHMD_OPCODE_ATOMIC_FA, 0, v);
			expect_done(&s);
			ASSERT_EQ(result64(&s), value);
			value += v[0];
			ASSERT_EQ(remote_word(&s), value);
		}
		setup_deinit(&s);
	}
}

TEST(compare_swap_of_8_bytes)
{
	FOR_EACH_MODE(mode)
	{
		uint64_t hit[4] = {5, 0}, miss[4] = {7, 4};
		struct setup s;

		setup_init(&s, mode, 4096, NULL);
		post(&s, SHMD_OPCODE_ATOMIC_CS, 0, hit);
		expect_done(&s);
		ASSERT_EQ(remote_word(&s), 5);
		ASSERT_EQ(result64(&s), 0);
		post(&s, SHMD_OPCODE_ATOMIC_CS, 0, miss);
		expect_done(&s);
		ASSERT_EQ(remote_word(&s), 5);
		ASSERT_EQ(result64(&s), 5);
		setup_deinit(&s);
	}
}

static void masked_add(enum mem_mode mode, bool narrow)
{
	uint64_t seed = 7, value = 0x0123456789abcdefull;
	struct setup s;

	setup_init(&s, mode, 4096, NULL);
	memcpy(s.remote->bytes + 40, &value, 8);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t v[4] = {test_random(&seed), random_mask(&seed)};
		uint64_t old = value;

		post(&s, SHMD_OPCODE_ATOMIC_MASKED_FA,
		     narrow ? SHMD_OPMOD_EXT_ATOMIC_4 : SHMD_OPMOD_EXT_ATOMIC_8, v);
		expect_done(&s);
		value = reference_add(old, v[0], v[1], narrow ? 32 : 64);
		if (narrow)
			value = (uint32_t)value | (old & 0xffffffff00000000ull);
		ASSERT_EQ(remote_word(&s), value);
		if (narrow)
			ASSERT_EQ(result32(&s), (uint32_t)old);
		else
			ASSERT_EQ(result64(&s), old);
	}
	setup_deinit(&s);
}

static void masked_swap(enum mem_mode mode, bool narrow)
{
	uint64_t seed = 8, value = 0x0123456789abcdefull;
	struct setup s;

	setup_init(&s, mode, 4096, NULL);
	memcpy(s.remote->bytes + 40, &value, 8);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t v[4] = {test_random(&seed), test_random(&seed), random_mask(&seed),
				 random_mask(&seed)};
		uint64_t old = value;

		/* Half of them match. */
		if (i % 2)
			v[1] = (old & v[3]) | (v[1] & ~v[3]);
		post(&s, SHMD_OPCODE_ATOMIC_MASKED_CS,
		     narrow ? SHMD_OPMOD_EXT_ATOMIC_4 : SHMD_OPMOD_EXT_ATOMIC_8, v);
		expect_done(&s);
		if (narrow) {
			v[3] &= UINT32_MAX;
			v[2] &= UINT32_MAX;
			ASSERT_EQ(result32(&s), (uint32_t)old);
		} else {
			ASSERT_EQ(result64(&s), old);
		}
		value = reference_swap(old, v);
		ASSERT_EQ(remote_word(&s), value);
	}
	setup_deinit(&s);
}

TEST(masked_fetch_add)
{
	FOR_EACH_MODE(mode)
	{
		masked_add(mode, false);
		masked_add(mode, true);
	}
}

TEST(masked_compare_swap)
{
	FOR_EACH_MODE(mode)
	{
		masked_swap(mode, false);
		masked_swap(mode, true);
	}
}

/* A boundary of all ones is exclusive or. */
TEST(boundary_of_all_ones_is_xor)
{
	uint64_t v[4] = {0xff00ff00ff00ff00ull, UINT64_MAX}, value = 0x0ff00ff00ff00ff0ull;
	struct setup s;

	setup_init(&s, MEM_POINTER, 4096, NULL);
	memcpy(s.remote->bytes + 40, &value, 8);
	post(&s, SHMD_OPCODE_ATOMIC_MASKED_FA, SHMD_OPMOD_EXT_ATOMIC_8, v);
	ASSERT_EQ(remote_word(&s), value ^ v[0]);
	setup_deinit(&s);
}

/* More atomics than may be outstanding, over one word: none is lost, and results come in order. */
TEST(many_atomics_add_up)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, 4096, NULL);
		for (unsigned int i = 0; i < 100; i++)
			post_fadd(&s.p.a, i == 99 ? SIGNALED : 0, s.local, 8 * i, s.remote, 0, 3);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_ok(&s.p.a, 99);
		ASSERT_EQ(*(uint64_t *)(void *)s.remote->bytes, 300);
		for (unsigned int i = 0; i < 100; i++)
			ASSERT_EQ(*(uint64_t *)(void *)(s.local->bytes + 8 * i), 3 * i);
		setup_deinit(&s);
	}
}
