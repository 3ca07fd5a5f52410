/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that give programs of NVSHMEM this project's library in place of NVIDIA's. */
#ifndef SHMEMD_CTL_PRELOAD_H
#define SHMEMD_CTL_PRELOAD_H

#include <limits.h>
#include <stdbool.h>

#define PRELOAD_BYTES (2 * PATH_MAX)

struct preload {
	char library[PRELOAD_BYTES]; /* "LD_PRELOAD=PATH", before what the variable has here */
	char folder[PRELOAD_BYTES]; /* "LD_LIBRARY_PATH=DIR", the same */
};

/* The library, or the place where it would be installed. Returns whether it is there. */
bool preload_find(char ret_path[PATH_MAX]);
/* 0; -1 after a sentence: the library is not installed, or its path cannot stand in such a variable. */
int preload_nvshmem(struct preload *ret_preload);

#endif
