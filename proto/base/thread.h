/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that no signal handler runs on: signals are the business of a program's first thread, and of an application's own.
 * Any thread.
 */
#ifndef SHMEMD_BASE_THREAD_H
#define SHMEMD_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * To be joined or detached. `stack_bytes` 0 or less than this machine allows: the default. A name has 15 characters at most and
 * is cut behind them; NULL: its maker's. -EAGAIN, -ENOMEM.
 */
int thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*fn)(void *arg), void *arg);

/* Does this thread of ours sleep in the kernel so that no signal wakes it? Waits for nobody. False: unknown, too. */
bool thread_is_uninterruptible(pid_t tid);

/*
 * The calling thread, and threads and processes that it starts, run for a tenth of a millisecond at a time, and sooner for that where
 * others want the CPU: Linux 6.12 and later. Their share of the CPU stays as it is. Where the kernel cannot, nothing changes.
 */
void thread_take_short_turns(void);

#endif
