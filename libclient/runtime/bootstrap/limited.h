/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls into a library that has no time limits of its own.
 *
 * Such a call runs on a thread of its own. If it has not returned in time, the caller goes on without it: the thread and what it uses stay until
 * the process ends, because there is no way to end a call of a library from outside. Any thread; each call is made by one thread at a time as long as
 * callers of one library take turns.
 */
#ifndef SHMD_RUNTIME_LIMITED_H
#define SHMD_RUNTIME_LIMITED_H

#include <stdint.h>

/* For calls while a process ends. */
#define LIMITED_END_NSEC (UINT64_C(5) * 1000000000)

/*
 * fn(arg) until `deadline` of the monotonic clock. `what` names module and call. -ETIMEDOUT with a sentence: fn goes on, and arg is its own for ever.
 * -ENOMEM, -EAGAIN with a sentence: fn was not called. fn leaves its results in arg; the text of an error belongs to its thread.
 */
int limited_call(const char *what, void (*fn)(void *arg), void *arg, uint64_t deadline);

#endif
