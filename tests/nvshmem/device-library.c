/* SPDX-License-Identifier: Apache-2.0 */
/* See device-library.h. */
#include "tests/nvshmem/device-library.h"

#include <dlfcn.h>
#include <string.h>

#include "tests/lib/fake-cuda.h"

#define OTHERS 0xee
#define SYMBOLS_BYTES 16384

extern int cuInit(unsigned int flags);
extern int cuMemAlloc_v2(uint64_t *addr, size_t bytes);

struct host host;
struct device_library device_library;

static void find(void *library, const char *name, void *ret_function)
{
	void *function = dlvsym(library, name, "NVSHMEM");

	if (!function) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	memcpy(ret_function, &function, sizeof(function));
}

void host_load(void)
{
	void *library = dlopen("libnvshmem_host.so.3", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
#define HOST_FIND(type, name, parameters) find(library, #name, &host.name);
	HOST_FUNCTIONS(HOST_FIND)
#undef HOST_FIND
	find(library, "nvshmem_selected_device_transport", &host.transport);
	find(library, "nvshmem_debug_level", &host.debug_level);
	find(library, "nvshmem_debug_mask", &host.debug_mask);
}

void device_library_make(int minor)
{
	uint64_t at = 0;

	CHECK(!cuMemAlloc_v2(&at, SYMBOLS_BYTES));
	memset((void *)(uintptr_t)at, OTHERS, SYMBOLS_BYTES);
	device_library = (struct device_library){.version = {3, minor, 5}, .state = (unsigned char *)(uintptr_t)at,
						 .transport = (unsigned char *)(uintptr_t)at + 4096};
}

int device_library_main(char **argv, const struct way *ways, size_t n_ways, void (*prepare)(void))
{
	CHECK(argv[0] && argv[1] && argv[2] && !argv[3]);
	host_load();
	CHECK(!cuInit(0));
	if (prepare)
		prepare();
	fake_cuda_set_current(0);
	device_library_make(atoi(argv[1]));
	for (size_t i = 0; i < n_ways; i++)
		if (!strcmp(ways[i].name, argv[2])) {
			ways[i].run();
			return 0;
		}
	return 2;
}

/* Up to 3.4 it returns nothing, so there is anything; from 3.6 on it looks which transport there is. */
static int tell_symbols(void **state, void **transport)
{
	CHECK(!*state && !*transport);
	device_library.selected = *host.transport;
	*state = device_library.is_lost ? NULL : device_library.state;
	if (device_library.version.minor < 6 || device_library.selected == 1)
		*transport = device_library.transport;
	device_library.n_asked++;
	return device_library.version.minor < 5 ? 10 : 0;
}

int device_library_init(unsigned int flags, struct nvs_init_attr *attr)
{
	int provided = -1, r;

	r = host.nvshmemid_hostlib_init_attr(2, &provided, flags, attr, device_library.version, tell_symbols);
	CHECK(r || provided == 2);
	return r;
}

void device_library_finalize(void)
{
	host.nvshmemid_hostlib_finalize(device_library.state, device_library.transport);
}

struct nvs_state device_library_state(void)
{
	uint32_t bytes = device_library.version.minor <= 6 ? 776 : device_library.version.minor == 7 ? 816 : 848;
	struct nvs_state state = {.version = 0};

	memcpy(&state, device_library.state, bytes);
	for (uint32_t i = bytes; i < 4096; i++)
		CHECK(device_library.state[i] == OTHERS);
	return state;
}
