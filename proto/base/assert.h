/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions on our own invariants: always compiled in, never used on input. */
#ifndef SHMEMD_BASE_ASSERT_H
#define SHMEMD_BASE_ASSERT_H

#include <stdio.h>
#include <stdlib.h>

#define assert_bug(cond)                                                                     \
	do {                                                                                 \
		if (__builtin_expect(!(cond), 0)) {                                          \
			fprintf(stderr, "bug at %s:%d: %s\n", __FILE__, __LINE__, #cond);    \
			abort();                                                             \
		}                                                                            \
	} while (0)

#endif
