/* SPDX-License-Identifier: Apache-2.0 */
/* The new value of a word by a masked atomic (mlx5 PRM, masked fetch-add and masked compare-swap). Pure; any thread. */
#ifndef SHMEMD_BASE_FIELDS_H
#define SHMEMD_BASE_FIELDS_H

#include <stdint.h>

/*
 * Adds field by field: a set bit in the boundary is the top bit of a field, and its carry is lost. Without the top bits no carry can leave
 * a field; they are then added without carry.
 */
static inline uint64_t fields_add(uint64_t a, uint64_t b, uint64_t boundary)
{
	return ((a & ~boundary) + (b & ~boundary)) ^ ((a ^ b) & boundary);
}

/* `old` where it differs from `compare` under its mask. */
static inline uint64_t fields_compare_swap(uint64_t old, uint64_t compare, uint64_t compare_mask, uint64_t swap, uint64_t swap_mask)
{
	if ((old ^ compare) & compare_mask)
		return old;
	return (old & ~swap_mask) | (swap & swap_mask);
}

#endif
