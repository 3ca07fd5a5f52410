/* SPDX-License-Identifier: Apache-2.0 */
/* The payload, and the pairs that exchange it, as the CPU code and the kernels of the demos compute them. */
#ifndef SHMEMD_DEMO_PATTERN_H
#define SHMEMD_DEMO_PATTERN_H

#include <shmd/dev/rma.h>

/* For the host and for the GPU. */
#ifdef __CUDACC__
#define DEMO_FN static __device__ __forceinline__
#else
#define DEMO_FN static inline __attribute__((unused))
#endif

#define DEMO_FETCH_ADDS 100 /* by every PE on every PE */

DEMO_FN uint8_t demo_pattern(uint32_t pe, uint32_t salt, uint32_t i)
{
	uint32_t x = i * 2654435761u + salt * 40503u + pe * 97u + 1u;

	return (uint8_t)(x >> 24 ^ x >> 13 ^ x);
}

/* PEs 2k and 2k+1 play with each other; the last of an odd number plays with itself. */
DEMO_FN uint32_t demo_partner(uint32_t me, uint32_t n_pes)
{
	return (me ^ 1u) < n_pes ? me ^ 1u : me;
}

#endif
