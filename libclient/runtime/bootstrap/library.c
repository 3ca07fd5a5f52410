/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include <shmemclient.h>

static const char *take_all(void *library, const struct library_symbol *symbols)
{
	for (; symbols->name; symbols++) {
		*symbols->place = dlsym(library, symbols->name);
		if (!*symbols->place)
			return symbols->name;
	}
	return NULL;
}

int library_find(const char *what, const char *const *files, int may_load, const struct library_symbol *symbols)
{
	const char *missing = take_all(RTLD_DEFAULT, symbols);
	bool is_loaded = false;

	for (; missing && *files; files++) {
		/* Stays: its functions are in use until the process ends. */
		void *library = dlopen(*files, RTLD_NOW | (may_load ? RTLD_GLOBAL : RTLD_NOLOAD));

		if (!library)
			continue;
		is_loaded = true;
		missing = take_all(library, symbols);
	}
	if (!missing)
		return 0;
	if (is_loaded)
		return shmd_error_set(-ENOENT, "%s lacks the function %s", what, missing);
	return shmd_error_set(-ENOENT, may_load ? "%s is not installed" : "%s is not loaded in this process", what);
}
