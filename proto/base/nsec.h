/* SPDX-License-Identifier: Apache-2.0 */
/* Time in nanoseconds of the monotonic clock; 64 bits last 584 years. */
#ifndef SHMEMD_BASE_NSEC_H
#define SHMEMD_BASE_NSEC_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC UINT64_C(1000000000)

static inline uint64_t nsec_from_timespec(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NSEC_PER_SEC + (uint64_t)ts->tv_nsec;
}

static inline struct timespec nsec_to_timespec(uint64_t nsec)
{
	return (struct timespec){
		.tv_sec = (time_t)(nsec / NSEC_PER_SEC),
		.tv_nsec = (long)(nsec % NSEC_PER_SEC),
	};
}

/* CLOCK_MONOTONIC with a valid pointer cannot fail. */
static inline uint64_t nsec_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return nsec_from_timespec(&ts);
}

/* a + b, at most UINT64_MAX: a deadline "for ever" stays one. */
static inline uint64_t nsec_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
