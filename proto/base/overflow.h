/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on numbers that came from a client. True when the result does not fit; *ret is then unset. */
#ifndef SHMEMD_BASE_OVERFLOW_H
#define SHMEMD_BASE_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>

#define add_overflows(a, b, ret) __builtin_add_overflow((a), (b), (ret))
#define mul_overflows(a, b, ret) __builtin_mul_overflow((a), (b), (ret))

/* Is [start, start + bytes) inside [0, size)? bytes may be 0. */
static inline bool range_fits(uint64_t start, uint64_t bytes, uint64_t size)
{
	return bytes <= size && start <= size - bytes;
}

/* Round up to a power-of-two multiple. */
static inline bool align_up_overflows(uint64_t value, uint64_t align, uint64_t *ret)
{
	uint64_t sum;

	if (add_overflows(value, align - 1, &sum))
		return true;
	*ret = sum & ~(align - 1);
	return false;
}

#endif
