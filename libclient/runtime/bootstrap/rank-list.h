/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of ranks in words: "rank 3", "ranks 3, 7-9", and "..." for what does not fit. Pure; any thread. */
#ifndef SHMD_RUNTIME_RANK_LIST_H
#define SHMD_RUNTIME_RANK_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The ranks below `size` for which is_in says so. Returns how many there are. */
int rank_list(char *text, size_t bytes, int size, bool (*is_in)(const void *arg, int rank), const void *arg);

#endif
