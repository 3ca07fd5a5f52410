/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_CHILD_H
#define SHMD_TESTS_LIB_CHILD_H

#include <sys/types.h>

/* The first child of parent with this name (/proc/PID/comm), or 0. */
pid_t child_called(pid_t parent, const char *name);

/* The process and all that it has started, and those they have: at most `max`. Returns how many. */
unsigned int child_tree(pid_t root, pid_t *ret_pids, unsigned int max);

#endif
