/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the launcher's sentences. Pure. */
#ifndef SHMD_RUN_WORDS_H
#define SHMD_RUN_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define WORDS_BYTES 128

/* A status of waitpid: "was killed by signal 11 (Segmentation fault), core dumped", "ended with status 7". Returns buf. */
const char *words_end(int status, char buf[WORDS_BYTES]);
/* The exit status that a shell would show. */
int words_exit_status(int status);
/* "PE 2", "PEs 0, 2-5 and 9 others": those of n for which `has` is true. Returns buf. */
const char *words_ranks(unsigned int n, bool (*has)(const void *arg, unsigned int rank), const void *arg, char buf[WORDS_BYTES]);

#endif
