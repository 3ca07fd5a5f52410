/* SPDX-License-Identifier: Apache-2.0 */
/* Runs shmemctl and returns its output and exit status. */
#ifndef SHMEMD_TESTS_CTL_LAB_H
#define SHMEMD_TESTS_CTL_LAB_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/lib/test.h"

extern char ctl_text[1 << 18]; /* stdout and stderr of the last run */

const char *ctl_binary(void);

/* Runs shmemctl with up to nine words; returns its exit status. */
int ctl_run(const char *const *words);
#define CTL(...) ctl_run((const char *const[]){__VA_ARGS__, NULL})

/* The same on a terminal of its own, or with only stderr on one. */
int ctl_run_on_terminal(const char *const *words, bool only_stderr);

/* In the background; its output can be read from *ret_out, which the caller closes, or ctl_end. */
pid_t ctl_start(const char *const *words, int *ret_out);
/* The same on a terminal of its own. */
pid_t ctl_start_on_terminal(const char *const *words, int *ret_out);
/* Reads the rest of its output and closes that; returns its exit status. */
int ctl_end(pid_t pid, int out);
/* Reads from a running shmemctl into ctl_text until it has the words; fails the test when they do not come. */
void ctl_wait_for(int out, const char *words);
/* Reads once; fails the test at the end. */
void ctl_read_more(int out);

/* A copy with a "#" for the value behind each of the keys of JSON. To be freed. */
char *ctl_masked(const char *json, const char *const *keys);
/* All that "list" shows of sessions, qps, mrs and nics, as JSON, so masked. To be freed. */
char *ctl_lists(const char *const *keys);

/* ctl_text has all of them. */
void ctl_assert_has(const char *const *words);
#define ASSERT_HAS(...) ctl_assert_has((const char *const[]){__VA_ARGS__, NULL})
void ctl_assert_lacks(const char *words);

#endif
