/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_RUNNING_H
#define SHMD_TESTS_LIB_RUNNING_H

/* For runner.c: tests in processes of their own, one after another or beside each other. One thread, and no other children. */

#include "tests/lib/test.h"

enum outcome { PASSED, FAILED, SKIPPED };

/* Four times the limits where everything is slow. */
unsigned int running_slow_factor(void);

/* The runner has these two. They are called when a test begins, in its process, and when it has ended. */
void runner_begin(const struct test_case *test);
void runner_end(const struct test_case *test, enum outcome outcome);

/* To its end, while others go on. */
void running_run(const struct test_case *test);

/* Returns when it has begun, after others have ended if too many run. */
void running_start(const struct test_case *test);

/* Until all that were started have ended. */
void running_finish(void);

/* In a handler of signals, too: what is under way ends with its process group. */
void running_kill(void);

/* The handler of SIGALRM. */
void running_on_alarm(int signo);

#endif
