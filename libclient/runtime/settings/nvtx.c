/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See nvtx.h. The interface of an injected library is NVTX's, version 3: InitializeInjectionNvtx2() gets a function that returns
 * tables by number; table 1 has a function that returns the slots of a module. The library writes its functions into the slots.
 *
 * Module 1 has the functions without domains, of which two serve here. A profiler fills slots of other modules as well and may
 * refuse to go on without them, so each has room of its own that nobody reads.
 */
#include "libclient/runtime/settings/nvtx.h"

#include <dlfcn.h>

#include "libclient/runtime/settings/log.h"

enum {
	TABLE_CALLBACKS = 1,
	TABLE_VERSION = 3,
	MODULE_CORE = 1,
	N_MODULES = 7,
	SLOT_RANGE_PUSH_A = 9,
	SLOT_RANGE_POP = 11,
	N_SLOTS = 16, /* of modules 1 and 5; the others have fewer */
	NVTX_VERSION = 3,
};

typedef void (*nvtx_fn)(void);
typedef int (*nvtx_init_fn)(const void *(*get_table)(uint32_t table));

struct nvtx_callbacks {
	size_t struct_size;
	int (*get_module)(int module, nvtx_fn ***ret_slots, unsigned int *ret_n);
};

struct nvtx_version {
	size_t struct_size;
	uint32_t version, reserved;
	void (*set_injection_version)(uint32_t version);
};

static nvtx_fn functions[N_MODULES][N_SLOTS];
static nvtx_fn *slots[N_MODULES][N_SLOTS + 1]; /* the last is NULL */
static struct runtime_nvtx nvtx;
const struct runtime_nvtx *runtime_nvtx_active;

/* ---- the side that an injected library sees ------------------------------------------------------------------------ */

static int get_module(int module, nvtx_fn ***ret_slots, unsigned int *ret_n)
{
	if (module < MODULE_CORE || module >= N_MODULES)
		return 0;
	/* The first slot of a module is none. */
	for (unsigned int i = 1; i < N_SLOTS; i++)
		slots[module][i] = &functions[module][i];
	if (ret_slots)
		*ret_slots = slots[module];
	if (ret_n)
		*ret_n = N_SLOTS;
	return 1;
}

static void set_injection_version(uint32_t version)
{
	runtime_log(SETTINGS, DEBUG, "the NVTX library has version %u", version);
}

static const void *get_table(uint32_t table)
{
	static const struct nvtx_callbacks callbacks = {sizeof(callbacks), get_module};
	static const struct nvtx_version version = {sizeof(version), NVTX_VERSION, 0, set_injection_version};

	if (table == TABLE_CALLBACKS)
		return &callbacks;
	return table == TABLE_VERSION ? &version : NULL;
}

/* ---- loading ------------------------------------------------------------------------------------------------------- */

static bool take(const char *path, nvtx_fn push, nvtx_fn pop)
{
	if (!push || !pop)
		return false;
	nvtx.push = (int (*)(const char *))push;
	nvtx.pop = (int (*)(void))pop;
	runtime_log(SETTINGS, INFO, "NVTX ranges go to %s", path);
	return true;
}

/* The library of a profiler stays loaded, also after a failure: it may have begun threads. */
static bool inject(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	nvtx_init_fn init = library ? (nvtx_init_fn)dlsym(library, "InitializeInjectionNvtx2") : NULL;

	if (!init) {
		runtime_log(SETTINGS, WARN, "NVTX_INJECTION64_PATH=%s serves no NVTX ranges: %s", path,
			    library ? "it has no InitializeInjectionNvtx2" : dlerror());
		return false;
	}
	if (init(get_table) && take(path, functions[MODULE_CORE][SLOT_RANGE_PUSH_A], functions[MODULE_CORE][SLOT_RANGE_POP]))
		return true;
	runtime_log(SETTINGS, WARN, "NVTX_INJECTION64_PATH=%s serves no NVTX ranges: it did not take them", path);
	return false;
}

static bool link_to(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	if (!library)
		return false;
	if (take(path, (nvtx_fn)dlsym(library, "nvtxRangePushA"), (nvtx_fn)dlsym(library, "nvtxRangePop")))
		return true;
	dlclose(library);
	return false;
}

static bool load(const struct runtime_settings *settings, const struct runtime_env *env)
{
	static const char *const names[] = {"libnvToolsExt.so.1", "libnvtx3interop.so.1", NULL};
	const char *injection = runtime_env_get(env, "NVTX_INJECTION64_PATH");

	if (injection && *injection)
		return inject(injection);
	if (*settings->nvtx_library) {
		if (link_to(settings->nvtx_library))
			return true;
		runtime_log(SETTINGS, WARN, "SHMD_NVTX_LIBRARY=%s serves no NVTX ranges", settings->nvtx_library);
		return false;
	}
	for (unsigned int i = 0; names[i]; i++)
		if (link_to(names[i]))
			return true;
	runtime_log(SETTINGS, WARN, "SHMD_NVTX is on, but no NVTX library was found; run the program in a profiler, or set SHMD_NVTX_LIBRARY");
	return false;
}

void runtime_nvtx_open(const struct runtime_settings *settings, const struct runtime_env *env)
{
	static bool has_tried;
	struct runtime_env process = runtime_env_process();

	if (!settings->nvtx || has_tried)
		return;
	has_tried = true;
	if (load(settings, env ? env : &process))
		__atomic_store_n(&runtime_nvtx_active, &nvtx, __ATOMIC_RELEASE);
}
