/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the fake's engine. See fake-cuda.h.
 *
 * A GPU's memory is a world apart for ThreadSanitizer: the request for a copy may come from another process, and what orders it with accesses
 * of this one goes by way of that. So accesses to GPU memory here are not instrumented; those to host memory are.
 */
#include "tests/lib/fake-cuda-private.h"

#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#define UNTRACKED __attribute__((no_sanitize("thread")))
#else
#define UNTRACKED __attribute__((no_sanitize_thread))
#endif

#define PART 4096u

/* Words at once, as a GPU does: whoever waits for one sees what was written before. */
static UNTRACKED void store(char *to, const char *from, size_t bytes)
{
	uint64_t wide;
	uint32_t narrow;

	if (bytes == 8 && !((uintptr_t)to & 7)) {
		memcpy(&wide, from, 8);
		__atomic_store_n((uint64_t *)(void *)to, wide, __ATOMIC_RELEASE);
	} else if (bytes == 4 && !((uintptr_t)to & 3)) {
		memcpy(&narrow, from, 4);
		__atomic_store_n((uint32_t *)(void *)to, narrow, __ATOMIC_RELEASE);
	} else {
		for (size_t i = 0; i < bytes; i++)
			((volatile char *)to)[i] = from[i];
	}
}

static UNTRACKED void load(char *to, const char *from, size_t bytes)
{
	uint64_t wide;
	uint32_t narrow;

	if (bytes == 8 && !((uintptr_t)from & 7)) {
		wide = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
		memcpy(to, &wide, 8);
	} else if (bytes == 4 && !((uintptr_t)from & 3)) {
		narrow = __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
		memcpy(to, &narrow, 4);
	} else {
		for (size_t i = 0; i < bytes; i++)
			to[i] = ((const volatile char *)from)[i];
	}
}

void fake_cuda_copy_in(char *to, const char *from, size_t bytes)
{
	char part[PART];

	for (size_t at = 0, n; at < bytes; at += n) {
		n = bytes - at < PART ? bytes - at : PART;
		memcpy(part, from + at, n);
		store(to + at, part, n);
	}
}

void fake_cuda_copy_out(char *to, const char *from, size_t bytes)
{
	char part[PART];

	for (size_t at = 0, n; at < bytes; at += n) {
		n = bytes - at < PART ? bytes - at : PART;
		load(part, from + at, n);
		memcpy(to + at, part, n);
	}
}
