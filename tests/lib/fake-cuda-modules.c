/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and libraries of kernels: their symbols alone. See fake-cuda.h. */
#include "tests/lib/fake-cuda-private.h"

#include <stdint.h>
#include <string.h>

#define NOT_FOUND 500

static int find(uint64_t *addr, size_t *bytes, const struct fake_cuda_symbol *symbols, const char *name)
{
	for (; symbols->name; symbols++)
		if (!strcmp(symbols->name, name)) {
			*addr = symbols->addr;
			*bytes = symbols->bytes;
			return OK;
		}
	return NOT_FOUND;
}

EXPORT int cuModuleGetGlobal_v2(uint64_t *addr, size_t *bytes, const void *module, const char *name);
int cuModuleGetGlobal_v2(uint64_t *addr, size_t *bytes, const void *module, const char *name)
{
	ENTER(1);
	return find(addr, bytes, module, name);
}

EXPORT int cuLibraryGetGlobal(uint64_t *addr, size_t *bytes, const void *library, const char *name);
int cuLibraryGetGlobal(uint64_t *addr, size_t *bytes, const void *library, const char *name)
{
	ENTER(1);
	return find(addr, bytes, library, name);
}
