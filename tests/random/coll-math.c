/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of the model's reductions and scans: one element of any type, as a loop over the PEs combines it. */
#include <math.h>
#include <shmd.h>
#include <string.h>

#include "tests/random/coll.h"

static bool is_signed(const struct step *step)
{
	return step->mask <= SHMD_TYPE_INT64;
}

/* ---- integers of 1 to 8 bytes */

static uint64_t load(const struct step *step, const uint8_t *from)
{
	uint32_t shift = 64 - 8 * step->bytes;
	uint64_t v = 0;

	memcpy(&v, from, step->bytes);
	return is_signed(step) ? (uint64_t)((int64_t)(v << shift) >> shift) : v;
}

static bool is_less(const struct step *step, uint64_t a, uint64_t b)
{
	return is_signed(step) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t combine_integers(const struct step *step, uint64_t a, uint64_t b)
{
	switch (step->cmp) {
	case SHMD_REDUCE_SUM:
		return a + b;
	case SHMD_REDUCE_PROD:
		return a * b;
	case SHMD_REDUCE_MIN:
		return is_less(step, b, a) ? b : a;
	case SHMD_REDUCE_MAX:
		return is_less(step, a, b) ? b : a;
	case SHMD_REDUCE_AND:
		return a & b;
	case SHMD_REDUCE_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* The least and the greatest number of the type: the top bit is that of the sign. */
static uint64_t neutral_integer(const struct step *step)
{
	uint64_t top = UINT64_C(1) << (8 * step->bytes - 1);

	switch (step->cmp) {
	case SHMD_REDUCE_PROD:
		return 1;
	case SHMD_REDUCE_MIN:
		return is_signed(step) ? top - 1 : UINT64_MAX;
	case SHMD_REDUCE_MAX:
		return is_signed(step) ? top : 0;
	case SHMD_REDUCE_AND:
		return UINT64_MAX;
	default:
		return 0;
	}
}

/* ---- floating point: all in long double, since the numbers of coll_fill() and what becomes of them are exact in each type */

/* The parts of a complex number; the second one of a real number is 0. */
struct number {
	long double re, im;
};

static bool is_complex(const struct step *step)
{
	return step->mask >= SHMD_TYPE_COMPLEX_FLOAT;
}

static struct number load_number(const struct step *step, const uint8_t *from)
{
	float f[2] = {0, 0};
	double d[2] = {0, 0};
	long double l;

	if (step->mask == SHMD_TYPE_LONG_DOUBLE) {
		memcpy(&l, from, sizeof(l));
		return (struct number){.re = l};
	}
	if (step->mask == SHMD_TYPE_FLOAT || step->mask == SHMD_TYPE_COMPLEX_FLOAT) {
		memcpy(f, from, step->bytes);
		return (struct number){.re = f[0], .im = f[1]};
	}
	memcpy(d, from, step->bytes);
	return (struct number){.re = d[0], .im = d[1]};
}

/* Padding of a long double is 0. */
static void store_number(const struct step *step, struct number v, uint8_t *to)
{
	float f[2] = {(float)v.re, (float)v.im};
	double d[2] = {(double)v.re, (double)v.im};

	memset(to, 0, step->bytes);
	if (step->mask == SHMD_TYPE_LONG_DOUBLE)
		memcpy(to, &v.re, coll_number_bytes(step));
	else if (step->mask == SHMD_TYPE_FLOAT || step->mask == SHMD_TYPE_COMPLEX_FLOAT)
		memcpy(to, f, step->bytes);
	else
		memcpy(to, d, step->bytes);
}

static struct number combine_numbers(const struct step *step, struct number a, struct number b)
{
	switch (step->cmp) {
	case SHMD_REDUCE_SUM:
		return (struct number){.re = a.re + b.re, .im = a.im + b.im};
	case SHMD_REDUCE_PROD:
		if (!is_complex(step))
			return (struct number){.re = a.re * b.re};
		return (struct number){.re = a.re * b.re - a.im * b.im, .im = a.re * b.im + a.im * b.re};
	case SHMD_REDUCE_MIN:
		return b.re < a.re ? b : a;
	default:
		return b.re > a.re ? b : a;
	}
}

static struct number neutral_number(const struct step *step)
{
	switch (step->cmp) {
	case SHMD_REDUCE_SUM:
		return (struct number){.re = 0};
	case SHMD_REDUCE_PROD:
		return (struct number){.re = 1};
	case SHMD_REDUCE_MIN:
		return (struct number){.re = INFINITY};
	default:
		return (struct number){.re = -INFINITY};
	}
}

/* Sums: whole numbers. Products: halves, ones and twos, which stay exact, and small, over any number of PEs. */
static long double small_number(const struct step *step, uint32_t random)
{
	static const double factors[] = {1, -1, 2, -2, 0.5, -0.5, 1, 1};

	return step->cmp == SHMD_REDUCE_PROD ? factors[random % 8] : (double)(random % 201) - 100;
}

/* ---- any type */

bool coll_is_float(const struct step *step)
{
	return coll_computes(step->word) && step->mask >= SHMD_TYPE_FLOAT;
}

uint32_t coll_number_bytes(const struct step *step)
{
	return step->mask == SHMD_TYPE_LONG_DOUBLE && __LDBL_MANT_DIG__ == 64 ? 10 : step->bytes;
}

void coll_fill(const struct step *step, int pe, uint32_t n, uint8_t *to)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t seed = step->value * 0x9e3779b97f4a7c15u + (uint64_t)pe * 1000003 + i;
		struct number v = {.re = small_number(step, mix32(seed)), .im = small_number(step, mix32(~seed))};

		/* Factors of a complex product have one part: their product has one, too, and its zeros have signs. */
		if (step->cmp == SHMD_REDUCE_PROD && (mix32(seed + 77) & 1))
			v = (struct number){.im = v.im};
		else if (step->cmp == SHMD_REDUCE_PROD)
			v.im = 0;
		if (!is_complex(step))
			v.re = small_number(step, mix32(seed));
		store_number(step, v, to + (size_t)i * step->bytes);
	}
}

void coll_neutral(const struct step *step, uint8_t *to)
{
	uint64_t v;

	if (coll_is_float(step)) {
		store_number(step, neutral_number(step), to);
		return;
	}
	v = neutral_integer(step);
	memcpy(to, &v, step->bytes);
}

void coll_combine(const struct step *step, uint8_t *sum, const uint8_t *with)
{
	uint64_t v;

	if (coll_is_float(step)) {
		store_number(step, combine_numbers(step, load_number(step, sum), load_number(step, with)), sum);
		return;
	}
	v = combine_integers(step, load(step, sum), load(step, with));
	memcpy(sum, &v, step->bytes);
}
