/* SPDX-License-Identifier: Apache-2.0 */
/* Cores that this process may use: hardware threads of one core belong together. */
#ifndef SHMD_RUN_BIND_H
#define SHMD_RUN_BIND_H

#include <sched.h>

/* Returns how many there are, by the numbers of their first CPUs, or a negative errno; the caller frees *ret_sets. */
int bind_find_cores(const char *sys, cpu_set_t **ret_sets);

#endif
