/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a library that the process has loaded already, or may load: nothing here is linked. Any thread. */
#ifndef SHMD_RUNTIME_LIBRARY_H
#define SHMD_RUNTIME_LIBRARY_H

#include <stddef.h>

struct library_symbol {
	const char *name;
	void **place;
};

/*
 * All of `symbols` (the last has no name) from what the program and its libraries export, else from the first of `files` (NULL at the end) that is
 * loaded; with `may_load` it may be loaded for that. -ENOENT with a sentence that begins with `what`.
 */
int library_find(const char *what, const char *const *files, int may_load, const struct library_symbol *symbols);

#endif
