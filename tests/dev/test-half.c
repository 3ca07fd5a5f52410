/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of 16 bits: all of them, and what lies between each two. */
#include <shmd/dev/coll.h>

#include "tests/lib/test.h"

struct format {
	float (*widen)(uint16_t bits);
	uint16_t (*cut)(float v);
	uint16_t infinity;
};

static float widen_half(uint16_t bits)
{
	return shmd_dev_float_of_half(bits);
}

static uint16_t cut_half(float v)
{
	return shmd_dev_half_of_float(v);
}

static float widen_bfloat16(uint16_t bits)
{
	return shmd_dev_float_of_bfloat16(bits);
}

static uint16_t cut_bfloat16(float v)
{
	return shmd_dev_bfloat16_of_float(v);
}

static const struct format half = {widen_half, cut_half, 0x7c00}, bfloat16 = {widen_bfloat16, cut_bfloat16, 0x7f80};

/* As floats, whose bits follow each other as the numbers do. */
static float beside(float v, int step)
{
	return shmdi_float_of_bits(shmdi_bits_of_float(v) + (uint32_t)step);
}

static void between(const struct format *format, uint16_t bits)
{
	float low = format->widen(bits), high = format->widen((uint16_t)(bits + 1)), middle = low + (high - low) / 2;

	ASSERT(low < high);
	ASSERT_EQ(format->cut(low), bits);
	ASSERT_EQ(format->cut(-low), bits | 0x8000);
	ASSERT_EQ(format->cut(middle), bits % 2 ? bits + 1 : bits);
	ASSERT_EQ(format->cut(beside(middle, -1)), bits);
	ASSERT_EQ(format->cut(beside(middle, 1)), bits + 1);
}

static void all(const struct format *format)
{
	float most = format->widen((uint16_t)(format->infinity - 1));

	for (unsigned int bits = 0; bits + 1 < format->infinity; bits++)
		between(format, (uint16_t)bits);
	ASSERT_EQ(format->cut(most), format->infinity - 1);
	ASSERT_EQ(format->cut(__builtin_inff()), format->infinity);
	ASSERT_EQ(format->cut(-__builtin_inff()), format->infinity | 0x8000);
	ASSERT_EQ(format->cut(__builtin_nanf("")) & format->infinity, format->infinity);
	ASSERT((format->cut(__builtin_nanf("")) & 0x7fff) > format->infinity);
	for (unsigned int bits = format->infinity + 1u; bits < 0x8000; bits++)
		ASSERT(format->widen((uint16_t)bits) != format->widen((uint16_t)bits));
}

TEST(halves_are_rounded_to_the_nearest_and_the_even_one)
{
	all(&half);
	ASSERT_EQ(shmd_dev_float_of_half(0x3c00), 1.0f);
	ASSERT_EQ(shmd_dev_float_of_half(0x0001) * 16777216.0f, 1.0f);
	/* From the middle behind the greatest one on there is infinity. */
	ASSERT_EQ(shmd_dev_half_of_float(65519.996f), 0x7bff);
	ASSERT_EQ(shmd_dev_half_of_float(65520.0f), 0x7c00);
}

TEST(bfloat16_are_rounded_to_the_nearest_and_the_even_one)
{
	all(&bfloat16);
	ASSERT_EQ(shmd_dev_float_of_bfloat16(0x3f80), 1.0f);
}
