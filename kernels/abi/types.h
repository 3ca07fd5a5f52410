/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar types of the queue ABI.
 *
 * Layouts here are read by NICs, CPUs and GPUs, so every field has a fixed width, big-endian fields have
 * types of their own, and every offset is pinned. This folder includes nothing of ours and no libc beyond
 * <stdint.h>; it compiles as C11, C++17 and CUDA.
 */
#ifndef SHMD_ABI_TYPES_H
#define SHMD_ABI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CHECKER__
#define SHMD_BITWISE __attribute__((bitwise))
#else
#define SHMD_BITWISE
#endif

/* Values in big-endian byte order: swap before use. Sparse tells them apart. */
typedef uint16_t SHMD_BITWISE shmd_be16;
typedef uint32_t SHMD_BITWISE shmd_be32;
typedef uint64_t SHMD_BITWISE shmd_be64;

#ifdef __cplusplus
#define SHMD_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define SHMD_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

#define SHMD_PIN_SIZE(type, bytes) \
	SHMD_STATIC_ASSERT(sizeof(type) == (bytes), "size of " #type " is ABI")
#define SHMD_PIN_OFFSET(type, field, bytes) \
	SHMD_STATIC_ASSERT(offsetof(type, field) == (bytes), "offset of " #type "." #field " is ABI")

#endif
