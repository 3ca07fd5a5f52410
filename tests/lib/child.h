/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_CHILD_H
#define SHMD_TESTS_LIB_CHILD_H

#include <sys/types.h>

/* The first child of parent with this name (/proc/PID/comm), or 0. */
pid_t child_called(pid_t parent, const char *name);

#endif
