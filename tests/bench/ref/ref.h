/* SPDX-License-Identifier: Apache-2.0 */
/* Bare loops that benchmarks are compared with: at most 60 lines each, same flags, nothing of ours linked. */
#ifndef SHMEMD_BENCH_REF_H
#define SHMEMD_BENCH_REF_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t ref_now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void ref_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Round trip of one cache line between two threads; negative when no thread could be made. */
double ref_pingpong_nsec(uint64_t rounds);
/* Two threads that wait for each other, over and over; negative when no thread could be made. */
double ref_barrier_nsec(uint64_t rounds);
/* An atomic add with its result. */
double ref_fetch_add_nsec(uint64_t *word, uint64_t rounds);
double ref_memcpy_bytes_per_sec(void *dst, const void *src, size_t bytes, uint64_t rounds);

#endif
