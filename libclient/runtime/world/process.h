/* SPDX-License-Identifier: Apache-2.0 */
/* The number of this process without a system call, so that every call can see that its world is the parent's. Any thread. */
#ifndef SHMD_PROCESS_H
#define SHMD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The process as it last asked for its number. It lies in a page that a forked child finds zeroed. */
extern const int32_t *process_number;

/* Asks for the number; the page is made by the first call. */
bool process_is_slow(pid_t pid) __attribute__((cold, noinline));

static inline bool process_is(pid_t pid)
{
	return __builtin_expect(__atomic_load_n(__atomic_load_n(&process_number, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED) == pid, 1) ||
	       process_is_slow(pid);
}

#endif
