/* SPDX-License-Identifier: Apache-2.0 */
/* Model of the collectives: loops over the members, written from the contract. It uses the numbers of the device headers and no code. */
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tests/dev/coll-program.h"
#include "tests/lib/test.h"

/* ---- sources */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
	return x ^ (x >> 32);
}

/* Bytes of a long double that are the number; the rest is padding. */
#define LONG_DOUBLE_BYTES (__LDBL_MANT_DIG__ == 64 ? 10 : sizeof(long double))

/* Numbers whose products stay numbers. */
static double small_number(uint64_t random)
{
	return (double)((int64_t)(random % 17) - 8) / 8;
}

/* Digits of a number of 16 bits, and the smallest one. */
static int digits_of(uint32_t type)
{
	return type == SHMD_DEV_TYPE_HALF ? 11 : 8;
}

static double least_of(uint32_t type)
{
	return type == SHMD_DEV_TYPE_HALF ? 0x1p-24 : 0x1p-133;
}

static double value_of_16(uint32_t type, uint16_t bits)
{
	int digits = digits_of(type), exponent = (bits & 0x7fff) >> (digits - 1);
	double v = (double)(bits & ((1 << (digits - 1)) - 1)) * least_of(type), one = 1 << (digits - 1);

	if (exponent)
		v = ldexp(v + one * least_of(type), exponent - 1);
	return bits & 0x8000 ? -v : v;
}

/* The nearest one, the even one of two. */
static uint16_t bits_of_16(uint32_t type, double v)
{
	int digits = digits_of(type), exponent = 0, top = type == SHMD_DEV_TYPE_HALF ? 0x7c00 : 0x7f80;
	double parts = __builtin_fabs(v) / least_of(type), rest;
	int sign = __builtin_signbit(v) ? 0x8000 : 0, whole;

	if (__builtin_isinf(v))
		return (uint16_t)(sign | top);
	(void)frexp(parts, &exponent);
	exponent = exponent > digits ? exponent - digits : 0;
	parts = ldexp(parts, -exponent);
	whole = (int)parts;
	rest = parts - whole;
	whole += rest > 0.5 || (rest == 0.5 && whole % 2);
	return (uint16_t)(sign | ((exponent << (digits - 1)) + whole));
}

static void element_of(uint32_t type, uint64_t random, uint8_t *ret_element)
{
	double v = small_number(random), w = small_number(random >> 8);
	float f[2] = {(float)v, (float)w};
	double d[2] = {v, w};
	long double l = v;

	memset(ret_element, 0, 16);
	if (type == SHMD_DEV_TYPE_FLOAT || type == SHMD_DEV_TYPE_COMPLEX_FLOAT)
		memcpy(ret_element, f, sizeof(f));
	else if (type == SHMD_DEV_TYPE_DOUBLE || type == SHMD_DEV_TYPE_COMPLEX_DOUBLE)
		memcpy(ret_element, d, sizeof(d));
	else if (type == SHMD_DEV_TYPE_LONG_DOUBLE)
		memcpy(ret_element, &l, LONG_DOUBLE_BYTES);
	else if (type >= SHMD_DEV_TYPE_HALF)
		memcpy(ret_element, &(uint16_t){bits_of_16(type, v)}, 2);
	else
		memcpy(ret_element, &random, sizeof(random));
}

static size_t bytes_of(uint32_t type)
{
	static const size_t bytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, sizeof(float), sizeof(double), sizeof(long double), 8, 16, 2, 2};

	return bytes[type];
}

void coll_source(const struct coll_step *step, uint32_t member, uint64_t at, uint64_t bytes, uint8_t *ret_source)
{
	size_t size = bytes_of(step->args.type), n;
	uint8_t element[16];

	for (; bytes; bytes -= n, at += n, ret_source += n) {
		element_of(step->args.type, mix(step->number * 1000003 + member * 7919 + at / size * 104729), element);
		n = size - at % size < bytes ? size - at % size : bytes;
		memcpy(ret_source, element + at % size, n);
	}
}

/* ---- sizes */

uint64_t coll_collect_bytes(const struct coll_step *step, uint32_t member)
{
	uint64_t random = mix(step->number * 31 + member);

	/* args.n is the most of one. */
	return random % 3 ? random / 3 % (step->args.n + 1) : 0;
}

static uint64_t span(const struct shmd_dev_stride *stride, uint64_t stride_bytes, uint32_t n)
{
	return stride->n && stride->block_bytes ? (stride->n * n - 1) * stride_bytes + stride->block_bytes : 0;
}

uint64_t coll_source_bytes(const struct coll_step *step, uint32_t member)
{
	uint64_t bytes = step->args.n * bytes_of(step->args.type);

	switch (step->call) {
	case COLL_COLLECT:
		return coll_collect_bytes(step, member);
	case COLL_ALLTOALL:
	case COLL_REDUCE_SCATTER:
		return bytes * step->team->n;
	case COLL_ALLTOALLS:
		return span(&step->args.stride, step->args.stride.source_stride_bytes, step->team->n);
	default:
		return bytes;
	}
}

uint64_t coll_dest_bytes(const struct coll_step *step, uint32_t member)
{
	uint64_t bytes = step->args.n * bytes_of(step->args.type), sum = 0;

	switch (step->call) {
	case COLL_COLLECT:
		for (uint32_t i = 0; i < step->team->n; i++)
			sum += coll_collect_bytes(step, i);
		return sum;
	case COLL_FCOLLECT:
	case COLL_ALLTOALL:
		return bytes * step->team->n;
	case COLL_ALLTOALLS:
		return span(&step->args.stride, step->args.stride.dest_stride_bytes, step->team->n);
	default:
		/* In place the whole of source may change. */
		return step->in_place ? coll_source_bytes(step, member) : bytes;
	}
}

/* ---- moving */

static void model_collect(const struct coll_step *step, uint8_t *dest)
{
	for (uint32_t i = 0; i < step->team->n; i++) {
		coll_source(step, i, 0, coll_collect_bytes(step, i), dest);
		dest += coll_collect_bytes(step, i);
	}
}

static void model_alltoalls(const struct coll_step *step, uint32_t me, uint8_t *dest, uint8_t *defined)
{
	const struct shmd_dev_stride *stride = &step->args.stride;

	memset(defined, 0, coll_dest_bytes(step, me));
	for (uint32_t i = 0; i < step->team->n; i++) {
		for (uint64_t k = 0; k < stride->n; k++) {
			uint64_t to = (i * stride->n + k) * stride->dest_stride_bytes;

			coll_source(step, i, (me * stride->n + k) * stride->source_stride_bytes, stride->block_bytes, dest + to);
			memset(defined + to, 1, stride->block_bytes);
		}
	}
}

/* ---- computing: a = a op b */

#define OP_CASES(T, a, b)                                                                                                          \
	case SHMD_DEV_REDUCE_SUM:                                                                                                  \
		a = (T)(a + b);                                                                                                    \
		break;                                                                                                             \
	case SHMD_DEV_REDUCE_PROD:                                                                                                 \
		a = (T)(a * b);                                                                                                    \
		break;
#define ORDER_CASES(T, a, b)                                                                                                       \
	case SHMD_DEV_REDUCE_MIN:                                                                                                  \
		a = a < b ? a : b;                                                                                                 \
		break;                                                                                                             \
	case SHMD_DEV_REDUCE_MAX:                                                                                                  \
		a = a > b ? a : b;                                                                                                 \
		break;
#define BIT_CASES(T, a, b)                                                                                                         \
	case SHMD_DEV_REDUCE_AND:                                                                                                  \
		a = (T)(a & b);                                                                                                    \
		break;                                                                                                             \
	case SHMD_DEV_REDUCE_OR:                                                                                                   \
		a = (T)(a | b);                                                                                                    \
		break;                                                                                                             \
	case SHMD_DEV_REDUCE_XOR:                                                                                                  \
		a = (T)(a ^ b);                                                                                                    \
		break;
#define COMBINE(name, T, CASES)                                                                                                    \
	static void combine_##name(uint32_t op, uint8_t *to, const uint8_t *with)                                                  \
	{                                                                                                                          \
		T a, b;                                                                                                            \
                                                                                                                                   \
		memcpy(&a, to, sizeof(a));                                                                                         \
		memcpy(&b, with, sizeof(b));                                                                                       \
		switch (op) {                                                                                                      \
			CASES                                                                                                      \
		default:                                                                                                           \
			test_fail(TEST_WHERE, "unknown operation %u", op);                                                                     \
		}                                                                                                                  \
		memcpy(to, &a, sizeof(a));                                                                                         \
	}
#define COMBINE_INTEGER(name, T) COMBINE(name, T, OP_CASES(T, a, b) ORDER_CASES(T, a, b) BIT_CASES(T, a, b))
/* Signed sums wrap, which C leaves to unsigned numbers. */
#define COMBINE_SIGNED(name, T, U)                                                                                                 \
	COMBINE(name##_order, T, ORDER_CASES(T, a, b) BIT_CASES(T, a, b))                                                          \
	static void combine_##name(uint32_t op, uint8_t *to, const uint8_t *with)                                                  \
	{                                                                                                                          \
		if (op == SHMD_DEV_REDUCE_SUM || op == SHMD_DEV_REDUCE_PROD)                                                       \
			combine_##U(op, to, with);                                                                                 \
		else                                                                                                               \
			combine_##name##_order(op, to, with);                                                                      \
	}

COMBINE(u8, uint8_t, OP_CASES(uint8_t, a, b) ORDER_CASES(uint8_t, a, b) BIT_CASES(uint8_t, a, b))
/* Two factors of 16 bits overflow int. */
static void combine_u16(uint32_t op, uint8_t *to, const uint8_t *with)
{
	uint16_t a, b;

	memcpy(&a, to, 2);
	memcpy(&b, with, 2);
	switch (op) {
	case SHMD_DEV_REDUCE_SUM:
		a = (uint16_t)(a + b);
		break;
	case SHMD_DEV_REDUCE_PROD:
		a = (uint16_t)((uint32_t)a * b);
		break;
		ORDER_CASES(uint16_t, a, b)
		BIT_CASES(uint16_t, a, b)
	default:
		test_fail(TEST_WHERE, "unknown operation %u", op);
	}
	memcpy(to, &a, 2);
}
COMBINE_INTEGER(u32, uint32_t)
COMBINE_INTEGER(u64, uint64_t)
COMBINE_SIGNED(i8, int8_t, u8)
COMBINE_SIGNED(i16, int16_t, u16)
COMBINE_SIGNED(i32, int32_t, u32)
COMBINE_SIGNED(i64, int64_t, u64)
COMBINE(float, float, OP_CASES(float, a, b) ORDER_CASES(float, a, b))
COMBINE(double, double, OP_CASES(double, a, b) ORDER_CASES(double, a, b))
COMBINE(long_double, long double, OP_CASES(long double, a, b) ORDER_CASES(long double, a, b))
COMBINE(complex_float, float complex, OP_CASES(float complex, a, b))
COMBINE(complex_double, double complex, OP_CASES(double complex, a, b))

static void combine_16(uint32_t type, uint32_t op, uint8_t *to, const uint8_t *with)
{
	uint16_t bits[2];
	double a, b;

	memcpy(&bits[0], to, 2);
	memcpy(&bits[1], with, 2);
	a = value_of_16(type, bits[0]);
	b = value_of_16(type, bits[1]);
	switch (op) {
		OP_CASES(double, a, b)
		ORDER_CASES(double, a, b)
	default:
		test_fail(TEST_WHERE, "unknown operation %u", op);
	}
	bits[0] = bits_of_16(type, a);
	memcpy(to, bits, 2);
}

static void combine(uint32_t type, uint32_t op, uint8_t *to, const uint8_t *with)
{
	static void (*const combines[])(uint32_t, uint8_t *, const uint8_t *) = {
		NULL, combine_i8, combine_i16, combine_i32, combine_i64, combine_u8, combine_u16, combine_u32, combine_u64,
		combine_float, combine_double, combine_long_double, combine_complex_float, combine_complex_double,
	};

	if (type >= SHMD_DEV_TYPE_HALF)
		combine_16(type, op, to, with);
	else
		combines[type](op, to, with);
}

static void neutral(uint32_t type, uint32_t op, uint8_t *ret_element)
{
	static const uint64_t most[] = {0, 0x7f, 0x7fff, 0x7fffffff, INT64_MAX, 0xff, 0xffff, 0xffffffff, UINT64_MAX};
	bool is_most = op == SHMD_DEV_REDUCE_MIN, is_one = op == SHMD_DEV_REDUCE_PROD, is_bound = is_most || op == SHMD_DEV_REDUCE_MAX;
	double v = is_one ? 1 : is_most ? __builtin_inf() : is_bound ? -__builtin_inf() : 0;
	uint64_t bits = is_one ? 1 : op == SHMD_DEV_REDUCE_AND ? UINT64_MAX : 0;
	float f[2] = {(float)v, 0};
	double d[2] = {v, 0};
	long double l = v;

	memset(ret_element, 0, 16);
	if (type == SHMD_DEV_TYPE_FLOAT || type == SHMD_DEV_TYPE_COMPLEX_FLOAT) {
		memcpy(ret_element, f, sizeof(f));
	} else if (type == SHMD_DEV_TYPE_DOUBLE || type == SHMD_DEV_TYPE_COMPLEX_DOUBLE) {
		memcpy(ret_element, d, sizeof(d));
	} else if (type == SHMD_DEV_TYPE_LONG_DOUBLE) {
		memcpy(ret_element, &l, sizeof(l));
	} else if (type >= SHMD_DEV_TYPE_HALF) {
		memcpy(ret_element, &(uint16_t){bits_of_16(type, v)}, 2);
	} else {
		if (is_bound)
			bits = is_most ? most[type] : type < SHMD_DEV_TYPE_UINT8 ? ~most[type] : 0;
		memcpy(ret_element, &bits, sizeof(bits));
	}
}

/* Bytes of a long double that are not part of the number. */
static void mark_padding(uint32_t type, uint64_t bytes, uint8_t *defined)
{
	for (uint64_t i = 0; type == SHMD_DEV_TYPE_LONG_DOUBLE && i < bytes; i++)
		defined[i] = i % sizeof(long double) < LONG_DOUBLE_BYTES;
}

/* Elements from `at` of members first..last - 1. */
static void model_elements(const struct coll_step *step, uint64_t at, uint64_t bytes, uint32_t last, uint8_t *dest)
{
	size_t size = bytes_of(step->args.type);
	uint8_t element[16];

	for (uint64_t i = 0; i < bytes; i += size) {
		neutral(step->args.type, step->args.op, element);
		memcpy(dest + i, element, size);
		for (uint32_t j = 0; j < last; j++) {
			coll_source(step, j, at + i, size, element);
			if (j)
				combine(step->args.type, step->args.op, dest + i, element);
			else
				memcpy(dest + i, element, size);
		}
	}
}

void coll_model(const struct coll_step *step, uint32_t me, uint8_t *ret_dest, uint8_t *ret_defined)
{
	uint64_t bytes = step->args.n * bytes_of(step->args.type);
	bool scatters = step->call == COLL_REDUCE_SCATTER;

	memset(ret_defined, 1, coll_dest_bytes(step, me));
	switch (step->call) {
	case COLL_BROADCAST:
		coll_source(step, step->args.root, 0, bytes, ret_dest);
		return;
	case COLL_FCOLLECT:
	case COLL_ALLTOALL:
		for (uint32_t i = 0; i < step->team->n; i++)
			coll_source(step, i, step->call == COLL_ALLTOALL ? me * bytes : 0, bytes, ret_dest + i * bytes);
		return;
	case COLL_COLLECT:
		model_collect(step, ret_dest);
		return;
	case COLL_ALLTOALLS:
		model_alltoalls(step, me, ret_dest, ret_defined);
		return;
	case COLL_REDUCE:
	case COLL_REDUCE_SCATTER:
	case COLL_SCAN_INCLUSIVE:
	case COLL_SCAN_EXCLUSIVE:
		memset(ret_defined, 0, coll_dest_bytes(step, me));
		memset(ret_defined, 1, bytes);
		mark_padding(step->args.type, bytes, ret_defined);
		model_elements(step, scatters ? me * bytes : 0, bytes,
			       step->call == COLL_SCAN_INCLUSIVE ? me + 1 : step->call == COLL_SCAN_EXCLUSIVE ? me : step->team->n, ret_dest);
		return;
	default:
		return;
	}
}
