/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating-point numbers of 16 bits, which C has no types for: a half (IEEE 754) and a bfloat16 (the upper half of a float). Rounded to the
 * nearest number, to the even one of two. A float has more than twice the digits of both, so what one addition or multiplication of floats
 * makes of them is rounded as if it had been made of them at once. coll.h, which includes this by coll-ops.h, has the contracts.
 */
#ifndef SHMDI_HALF_H
#define SHMDI_HALF_H

#include <shmd/dev/impl/annotate.h>

SHMDI_FN float shmdi_float_of_bits(uint32_t bits)
{
	float v;

	__builtin_memcpy(&v, &bits, sizeof(v));
	return v;
}

SHMDI_FN uint32_t shmdi_bits_of_float(float v)
{
	uint32_t bits;

	__builtin_memcpy(&bits, &v, sizeof(bits));
	return bits;
}

SHMDI_FN float shmd_dev_float_of_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, bits = (uint32_t)(half & 0x7fff) << 13;

	if ((half & 0x7c00) == 0x7c00)
		bits += 0x70000000u;
	else if (half & 0x7c00)
		bits += 0x38000000u;
	else
		bits = shmdi_bits_of_float((float)(half & 0x3ff) / 16777216.0f);
	return shmdi_float_of_bits(sign | bits);
}

SHMDI_FN uint16_t shmd_dev_half_of_float(float v)
{
	uint32_t bits = shmdi_bits_of_float(v), sign = bits >> 16 & 0x8000;

	bits &= 0x7fffffff;
	if (bits > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00);
	if (bits >= 0x477ff000u)
		return (uint16_t)(sign | 0x7c00);
	/* No normal half. The last digit of a float from a half to one counts as much as the last one of these. */
	if (bits < 0x38800000u)
		return (uint16_t)(sign | (shmdi_bits_of_float(shmdi_float_of_bits(bits) + 0.5f) - 0x3f000000u));
	bits += 0xfff + (bits >> 13 & 1);
	return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

SHMDI_FN float shmd_dev_float_of_bfloat16(uint16_t bfloat16)
{
	return shmdi_float_of_bits((uint32_t)bfloat16 << 16);
}

SHMDI_FN uint16_t shmd_dev_bfloat16_of_float(float v)
{
	uint32_t bits = shmdi_bits_of_float(v);

	if ((bits & 0x7fffffff) > 0x7f800000u)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
