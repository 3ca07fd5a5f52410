/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that punch holes into a memfd for as long as they can: a thread that touches a page of it meanwhile
 * sleeps in the kernel.
 *
 * One of them has the least of all priorities and shares its CPU with others that never sleep, so a hole that takes it
 * milliseconds takes seconds; another one fills the memory again. No privileges are needed.
 */
#ifndef SHMD_TESTS_LIB_PUNCHER_H
#define SHMD_TESTS_LIB_PUNCHER_H

#include <stdint.h>
#include <sys/types.h>

#define PUNCHER_MOST 4u

struct puncher {
	unsigned int n;
	pid_t pids[PUNCHER_MOST];
};

/* They end with the process that calls this. `bytes` from the start of the memfd. */
void puncher_start(struct puncher *p, int memfd, uint64_t bytes);
/* Returns when all have ended; those that sleep in the kernel do so first, at normal speed. */
void puncher_stop(struct puncher *p);

#endif
