/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of reductions and scans: one operation on two arrays of one type.
 *
 * The C build works on vectors of 16 bytes, which may lie at any address; the result may be one of the operands. Sums and products of
 * signed integers are those of unsigned ones, which wrap.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_OPS_H
#define SHMDI_COLL_OPS_H

#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/impl/half.h>

struct shmdi_complex_float {
	float re, im;
};

struct shmdi_complex_double {
	double re, im;
};

#define SHMDI_OP_SUM(a, b) ((a) + (b))
#define SHMDI_OP_PROD(a, b) ((a) * (b))
#define SHMDI_OP_MIN(a, b) ((b) < (a) ? (b) : (a))
#define SHMDI_OP_MAX(a, b) ((b) > (a) ? (b) : (a))
#define SHMDI_OP_AND(a, b) ((a) & (b))
#define SHMDI_OP_OR(a, b) ((a) | (b))
#define SHMDI_OP_XOR(a, b) ((a) ^ (b))

/* The elements from `at` on: to = a op b. Operands narrower than int are computed as C, uint32_t or int, and cut. */
#if SHMDI_CUDA
#define SHMDI_OP_REST(T, C, OP)                                                                                                    \
	for (; at + sizeof(T) <= bytes; at += sizeof(T))                                                                           \
		*(T *)(to + at) = (T)OP((C) * (const T *)(a + at), (C) * (const T *)(b + at));
/* As vectors of 16 bytes, where all three lie so; two of each operand are under way. */
#define SHMDI_OP_MANY(T, C, OP)                                                                                                    \
	union {                                                                                                                    \
		ulonglong2 all;                                                                                                    \
		T each[16 / sizeof(T)];                                                                                            \
	} x[2], y[2];                                                                                                              \
	uint32_t k;                                                                                                                \
                                                                                                                                   \
	for (; at + 32 <= bytes && SHMDI_OP_LIE_WELL(to, a, b); at += 32) {                                                        \
		x[0].all = *(const ulonglong2 *)(a + at);                                                                          \
		y[0].all = *(const ulonglong2 *)(b + at);                                                                          \
		x[1].all = *(const ulonglong2 *)(a + at + 16);                                                                     \
		y[1].all = *(const ulonglong2 *)(b + at + 16);                                                                     \
		_Pragma("unroll") for (k = 0; k < 16 / sizeof(T); k++)                                                             \
		{                                                                                                                  \
			x[0].each[k] = (T)SHMDI_##OP((C)x[0].each[k], (C)y[0].each[k]);                                            \
			x[1].each[k] = (T)SHMDI_##OP((C)x[1].each[k], (C)y[1].each[k]);                                            \
		}                                                                                                                  \
		*(ulonglong2 *)(to + at) = x[0].all;                                                                               \
		*(ulonglong2 *)(to + at + 16) = x[1].all;                                                                          \
	}
#define SHMDI_OP_LIE_WELL(to, a, b) (!(((uint64_t)(uintptr_t)(to) | (uint64_t)(uintptr_t)(a) | (uint64_t)(uintptr_t)(b)) % 16))
#define SHMDI_OP_LINKAGE SHMDI_FN
#else
#define SHMDI_OP_REST(T, C, OP)                                                                                                    \
	for (; at + sizeof(T) <= bytes; at += sizeof(T)) {                                                                         \
		T u, v;                                                                                                            \
                                                                                                                                   \
		__builtin_memcpy(&u, a + at, sizeof(T));                                                                           \
		__builtin_memcpy(&v, b + at, sizeof(T));                                                                           \
		u = (T)OP((C)u, (C)v);                                                                                             \
		__builtin_memcpy(to + at, &u, sizeof(T));                                                                          \
	}
#define SHMDI_OP_LINKAGE SHMDI_APART

/* Vectors have no ?: in C: lanes of the comparison are all ones or all zeros. */
#define SHMDI_VOP_PICK(V, x, y, is_y)                                                                                              \
	(V)(((__typeof__(is_y))(y) & (is_y)) | ((__typeof__(is_y))(x) & ~(is_y)))
#define SHMDI_VOP_MIN(V, x, y) SHMDI_VOP_PICK(V, x, y, (y) < (x))
#define SHMDI_VOP_MAX(V, x, y) SHMDI_VOP_PICK(V, x, y, (y) > (x))
#define SHMDI_VOP_SUM(V, x, y) ((x) + (y))
#define SHMDI_VOP_PROD(V, x, y) ((x) * (y))
#define SHMDI_VOP_AND(V, x, y) ((x) & (y))
#define SHMDI_VOP_OR(V, x, y) ((x) | (y))
#define SHMDI_VOP_XOR(V, x, y) ((x) ^ (y))
#define SHMDI_OP_MANY(T, C, OP)                                                                                                    \
	typedef T V __attribute__((vector_size(16)));                                                                              \
	V x[2], y[2];                                                                                                              \
                                                                                                                                   \
	for (; at + 32 <= bytes; at += 32) {                                                                                       \
		__builtin_memcpy(&x[0], a + at, 16);                                                                               \
		__builtin_memcpy(&y[0], b + at, 16);                                                                               \
		__builtin_memcpy(&x[1], a + at + 16, 16);                                                                          \
		__builtin_memcpy(&y[1], b + at + 16, 16);                                                                          \
		x[0] = SHMDI_V##OP(V, x[0], y[0]);                                                                                 \
		x[1] = SHMDI_V##OP(V, x[1], y[1]);                                                                                 \
		__builtin_memcpy(to + at, &x[0], 16);                                                                              \
		__builtin_memcpy(to + at + 16, &x[1], 16);                                                                         \
	}
#endif

#define SHMDI_OP_FN(name, T, C, OP)                                                                                                \
	SHMDI_OP_LINKAGE void shmdi_op_##name(uint8_t *to, const uint8_t *a, const uint8_t *b, uint64_t bytes)                     \
	{                                                                                                                          \
		uint64_t at = 0;                                                                                                   \
                                                                                                                                   \
		SHMDI_OP_MANY(T, C, OP)                                                                                            \
		SHMDI_OP_REST(T, C, SHMDI_##OP)                                                                                    \
	}

/* Bits are bits, whatever the width. */
SHMDI_OP_FN(and, uint8_t, uint32_t, OP_AND)
SHMDI_OP_FN(or, uint8_t, uint32_t, OP_OR)
SHMDI_OP_FN(xor, uint8_t, uint32_t, OP_XOR)

#define SHMDI_OP_ARITHMETIC(name, T, C) SHMDI_OP_FN(sum_##name, T, C, OP_SUM) SHMDI_OP_FN(prod_##name, T, C, OP_PROD)
#define SHMDI_OP_ORDER(name, T) SHMDI_OP_FN(min_##name, T, T, OP_MIN) SHMDI_OP_FN(max_##name, T, T, OP_MAX)

SHMDI_OP_ARITHMETIC(u8, uint8_t, uint32_t)
SHMDI_OP_ARITHMETIC(u16, uint16_t, uint32_t)
SHMDI_OP_ARITHMETIC(u32, uint32_t, uint32_t)
SHMDI_OP_ARITHMETIC(u64, uint64_t, uint64_t)
SHMDI_OP_ARITHMETIC(f32, float, float)
SHMDI_OP_ARITHMETIC(f64, double, double)
SHMDI_OP_ORDER(i8, int8_t)
SHMDI_OP_ORDER(i16, int16_t)
SHMDI_OP_ORDER(i32, int32_t)
SHMDI_OP_ORDER(i64, int64_t)
SHMDI_OP_ORDER(u8, uint8_t)
SHMDI_OP_ORDER(u16, uint16_t)
SHMDI_OP_ORDER(u32, uint32_t)
SHMDI_OP_ORDER(u64, uint64_t)
SHMDI_OP_ORDER(f32, float)
SHMDI_OP_ORDER(f64, double)

/* Numbers of 16 bits, by floats. */
#define SHMDI_OP_SUM_f16(a, b) shmd_dev_half_of_float(shmd_dev_float_of_half(a) + shmd_dev_float_of_half(b))
#define SHMDI_OP_PROD_f16(a, b) shmd_dev_half_of_float(shmd_dev_float_of_half(a) * shmd_dev_float_of_half(b))
#define SHMDI_OP_MIN_f16(a, b) (shmd_dev_float_of_half(b) < shmd_dev_float_of_half(a) ? (b) : (a))
#define SHMDI_OP_MAX_f16(a, b) (shmd_dev_float_of_half(b) > shmd_dev_float_of_half(a) ? (b) : (a))
#define SHMDI_OP_SUM_b16(a, b) shmd_dev_bfloat16_of_float(shmd_dev_float_of_bfloat16(a) + shmd_dev_float_of_bfloat16(b))
#define SHMDI_OP_PROD_b16(a, b) shmd_dev_bfloat16_of_float(shmd_dev_float_of_bfloat16(a) * shmd_dev_float_of_bfloat16(b))
#define SHMDI_OP_MIN_b16(a, b) (shmd_dev_float_of_bfloat16(b) < shmd_dev_float_of_bfloat16(a) ? (b) : (a))
#define SHMDI_OP_MAX_b16(a, b) (shmd_dev_float_of_bfloat16(b) > shmd_dev_float_of_bfloat16(a) ? (b) : (a))
#define SHMDI_OP_16(name, OP)                                                                                                      \
	SHMDI_OP_LINKAGE void shmdi_op_##name(uint8_t *to, const uint8_t *a, const uint8_t *b, uint64_t bytes)                     \
	{                                                                                                                          \
		uint64_t at = 0;                                                                                                   \
                                                                                                                                   \
		SHMDI_OP_REST(uint16_t, uint16_t, OP)                                                                              \
	}

SHMDI_OP_16(sum_f16, SHMDI_OP_SUM_f16)
SHMDI_OP_16(prod_f16, SHMDI_OP_PROD_f16)
SHMDI_OP_16(min_f16, SHMDI_OP_MIN_f16)
SHMDI_OP_16(max_f16, SHMDI_OP_MAX_f16)
SHMDI_OP_16(sum_b16, SHMDI_OP_SUM_b16)
SHMDI_OP_16(prod_b16, SHMDI_OP_PROD_b16)
SHMDI_OP_16(min_b16, SHMDI_OP_MIN_b16)
SHMDI_OP_16(max_b16, SHMDI_OP_MAX_b16)

#if !SHMDI_CUDA
/* No vectors of these. */
#define SHMDI_OP_LONG_DOUBLE(name, OP)                                                                                             \
	SHMDI_APART void shmdi_op_##name(uint8_t *to, const uint8_t *a, const uint8_t *b, uint64_t bytes)                          \
	{                                                                                                                          \
		uint64_t at = 0;                                                                                                   \
                                                                                                                                   \
		SHMDI_OP_REST(long double, long double, OP)                                                                        \
	}

SHMDI_OP_LONG_DOUBLE(sum_f80, SHMDI_OP_SUM)
SHMDI_OP_LONG_DOUBLE(prod_f80, SHMDI_OP_PROD)
SHMDI_OP_LONG_DOUBLE(min_f80, SHMDI_OP_MIN)
SHMDI_OP_LONG_DOUBLE(max_f80, SHMDI_OP_MAX)

SHMDI_FN struct shmdi_complex_float shmdi_product_float(struct shmdi_complex_float a, struct shmdi_complex_float b)
{
	struct shmdi_complex_float product;

	product.re = a.re * b.re - a.im * b.im;
	product.im = a.re * b.im + a.im * b.re;
	return product;
}

SHMDI_FN struct shmdi_complex_double shmdi_product_double(struct shmdi_complex_double a, struct shmdi_complex_double b)
{
	struct shmdi_complex_double product;

	product.re = a.re * b.re - a.im * b.im;
	product.im = a.re * b.im + a.im * b.re;
	return product;
}

#define SHMDI_OP_COMPLEX_PROD(name, T, product)                                                                                    \
	SHMDI_APART void shmdi_op_prod_##name(uint8_t *to, const uint8_t *a, const uint8_t *b, uint64_t bytes)                     \
	{                                                                                                                          \
		uint64_t at;                                                                                                       \
		T x, y;                                                                                                            \
                                                                                                                                   \
		for (at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {                                                           \
			__builtin_memcpy(&x, a + at, sizeof(T));                                                                   \
			__builtin_memcpy(&y, b + at, sizeof(T));                                                                   \
			x = product(x, y);                                                                                         \
			__builtin_memcpy(to + at, &x, sizeof(T));                                                                  \
		}                                                                                                                  \
	}

SHMDI_OP_COMPLEX_PROD(c32, struct shmdi_complex_float, shmdi_product_float)
SHMDI_OP_COMPLEX_PROD(c64, struct shmdi_complex_double, shmdi_product_double)
#endif

/* ---- types ------------------------------------------------------------------------------------------------------------------------ */

SHMDI_FN uint32_t shmd_dev_type_bytes(uint32_t type)
{
	switch (type) {
	case SHMD_DEV_TYPE_INT8:
	case SHMD_DEV_TYPE_UINT8:
		return 1;
	case SHMD_DEV_TYPE_INT16:
	case SHMD_DEV_TYPE_UINT16:
	case SHMD_DEV_TYPE_HALF:
	case SHMD_DEV_TYPE_BFLOAT16:
		return 2;
	case SHMD_DEV_TYPE_INT32:
	case SHMD_DEV_TYPE_UINT32:
	case SHMD_DEV_TYPE_FLOAT:
		return 4;
	case SHMD_DEV_TYPE_INT64:
	case SHMD_DEV_TYPE_UINT64:
	case SHMD_DEV_TYPE_DOUBLE:
		return 8;
#if !SHMDI_CUDA
	case SHMD_DEV_TYPE_LONG_DOUBLE:
		return sizeof(long double);
	case SHMD_DEV_TYPE_COMPLEX_FLOAT:
		return 8;
	case SHMD_DEV_TYPE_COMPLEX_DOUBLE:
		return 16;
#endif
	default:
		return 0;
	}
}

/* Whether the type has the operation. */
SHMDI_FN int shmdi_op_is_valid(uint32_t type, uint32_t op)
{
	if (!shmd_dev_type_bytes(type) || op < SHMD_DEV_REDUCE_SUM || op > SHMD_DEV_REDUCE_XOR)
		return 0;
	if (op <= SHMD_DEV_REDUCE_PROD)
		return 1;
	if (op <= SHMD_DEV_REDUCE_MAX)
		return type <= SHMD_DEV_TYPE_LONG_DOUBLE || type >= SHMD_DEV_TYPE_HALF;
	return type <= SHMD_DEV_TYPE_UINT64;
}

/* ---- choice ----------------------------------------------------------------------------------------------------------------------- */

#define SHMDI_OP_KEY(type, op) ((type) * 8u + (op))
#define SHMDI_OP_CASE(TYPE, OP, name)                                                                                              \
	case SHMDI_OP_KEY(SHMD_DEV_TYPE_##TYPE, SHMD_DEV_REDUCE_##OP):                                                             \
		shmdi_op_##name(to, a, b, bytes);                                                                                  \
		return;
#define SHMDI_OP_CASES(TYPE, wrapping, ordered)                                                                                    \
	SHMDI_OP_CASE(TYPE, SUM, sum_##wrapping)                                                                                   \
	SHMDI_OP_CASE(TYPE, PROD, prod_##wrapping)                                                                                 \
	SHMDI_OP_CASE(TYPE, MIN, min_##ordered)                                                                                    \
	SHMDI_OP_CASE(TYPE, MAX, max_##ordered)

/* to = a op b; the operation is valid. `to` may be a or b. */
SHMDI_APART void shmdi_op(uint32_t type, uint32_t op, uint8_t *to, const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
	switch (op) {
	case SHMD_DEV_REDUCE_AND:
		shmdi_op_and(to, a, b, bytes);
		return;
	case SHMD_DEV_REDUCE_OR:
		shmdi_op_or(to, a, b, bytes);
		return;
	case SHMD_DEV_REDUCE_XOR:
		shmdi_op_xor(to, a, b, bytes);
		return;
	default:
		break;
	}
	switch (SHMDI_OP_KEY(type, op)) {
		SHMDI_OP_CASES(INT8, u8, i8)
		SHMDI_OP_CASES(INT16, u16, i16)
		SHMDI_OP_CASES(INT32, u32, i32)
		SHMDI_OP_CASES(INT64, u64, i64)
		SHMDI_OP_CASES(UINT8, u8, u8)
		SHMDI_OP_CASES(UINT16, u16, u16)
		SHMDI_OP_CASES(UINT32, u32, u32)
		SHMDI_OP_CASES(UINT64, u64, u64)
		SHMDI_OP_CASES(FLOAT, f32, f32)
		SHMDI_OP_CASES(DOUBLE, f64, f64)
		SHMDI_OP_CASES(HALF, f16, f16)
		SHMDI_OP_CASES(BFLOAT16, b16, b16)
#if !SHMDI_CUDA
		SHMDI_OP_CASES(LONG_DOUBLE, f80, f80)
		SHMDI_OP_CASE(COMPLEX_FLOAT, SUM, sum_f32)
		SHMDI_OP_CASE(COMPLEX_FLOAT, PROD, prod_c32)
		SHMDI_OP_CASE(COMPLEX_DOUBLE, SUM, sum_f64)
		SHMDI_OP_CASE(COMPLEX_DOUBLE, PROD, prod_c64)
#endif
	default:
		return;
	}
}

/* ---- neutral elements --------------------------------------------------------------------------------------------------------------- */

/* The greatest number of the type for MIN, the least for MAX, as bits: integers and floating point up to double. */
SHMDI_FN uint64_t shmdi_op_bound(uint32_t type, int is_greatest)
{
	uint32_t bits = shmd_dev_type_bytes(type) * 8;

	if (type == SHMD_DEV_TYPE_FLOAT)
		return is_greatest ? 0x7f800000u : 0xff800000u;
	if (type == SHMD_DEV_TYPE_DOUBLE)
		return is_greatest ? 0x7ff0000000000000ull : 0xfff0000000000000ull;
	if (type == SHMD_DEV_TYPE_HALF)
		return is_greatest ? 0x7c00 : 0xfc00;
	if (type == SHMD_DEV_TYPE_BFLOAT16)
		return is_greatest ? 0x7f80 : 0xff80;
	if (type >= SHMD_DEV_TYPE_UINT8)
		return is_greatest ? ~0ull : 0;
	return is_greatest ? (1ull << (bits - 1)) - 1 : 1ull << (bits - 1);
}

SHMDI_FN uint64_t shmdi_op_neutral_bits(uint32_t type, uint32_t op)
{
	if (op == SHMD_DEV_REDUCE_MIN || op == SHMD_DEV_REDUCE_MAX)
		return shmdi_op_bound(type, op == SHMD_DEV_REDUCE_MIN);
	if (op == SHMD_DEV_REDUCE_AND)
		return ~0ull;
	if (op != SHMD_DEV_REDUCE_PROD)
		return 0;
	if (type == SHMD_DEV_TYPE_FLOAT || type == SHMD_DEV_TYPE_COMPLEX_FLOAT)
		return 0x3f800000u;
	if (type == SHMD_DEV_TYPE_DOUBLE || type == SHMD_DEV_TYPE_COMPLEX_DOUBLE)
		return 0x3ff0000000000000ull;
	if (type == SHMD_DEV_TYPE_HALF || type == SHMD_DEV_TYPE_BFLOAT16)
		return type == SHMD_DEV_TYPE_HALF ? 0x3c00 : 0x3f80;
	return 1;
}

/* One neutral element; `element` has room for 16 bytes. Its bits stand in its first bytes, the rest of a complex number is 0. */
SHMDI_FN void shmdi_op_neutral(uint32_t type, uint32_t op, uint8_t *element)
{
	uint64_t bits = shmdi_op_neutral_bits(type, op);
	uint32_t i;

	for (i = 0; i < 16; i++)
		element[i] = i < 8 ? (uint8_t)(bits >> (8 * i)) : 0;
#if !SHMDI_CUDA
	if (type == SHMD_DEV_TYPE_LONG_DOUBLE) {
		long double v = op == SHMD_DEV_REDUCE_PROD ? 1.0L : 0.0L;

		if (op == SHMD_DEV_REDUCE_MIN)
			v = __builtin_infl();
		if (op == SHMD_DEV_REDUCE_MAX)
			v = -__builtin_infl();
		__builtin_memset(element, 0, 16);
		__builtin_memcpy(element, &v, sizeof(v));
	}
#endif
}

#endif
