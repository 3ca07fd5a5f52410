/* SPDX-License-Identifier: Apache-2.0 */
/* Reference: memcpy between two shared memory mappings, the same blocks over and over. Bytes per second. */
#include "ref.h"

#include <string.h>

double ref_memcpy_bytes_per_sec(void *dst, const void *src, size_t bytes, uint64_t rounds)
{
	uint64_t start = ref_now_nsec(), i;

	for (i = 0; i < rounds; i++) {
		memcpy(dst, src, bytes);
		__asm__ volatile("" ::: "memory");
	}
	return (double)bytes * (double)rounds * 1e9 / (double)(ref_now_nsec() - start);
}
