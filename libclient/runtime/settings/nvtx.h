/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX: named ranges around calls, which NVIDIA's profilers draw. No library of NVIDIA's is needed to build or to run.
 *
 * A profiler names its library in NVTX_INJECTION64_PATH, and that gets our table of functions to fill. Without it, the first NVTX
 * library that loads serves: SHMD_NVTX_LIBRARY, else libnvToolsExt.so.1 or libnvtx3interop.so.1. Without any, or with the
 * setting off, a range costs one load. One for a process; what was loaded stays.
 */
#ifndef SHMD_RUNTIME_NVTX_H
#define SHMD_RUNTIME_NVTX_H

#include <stddef.h>

#include "libclient/runtime/settings/settings.h"

struct runtime_nvtx {
	int (*push)(const char *name);
	int (*pop)(void);
};
/* NULL: off. */
extern const struct runtime_nvtx *runtime_nvtx_active;

/* Begins a range of this thread; the end belongs to the same thread. The name is copied. */
static inline void runtime_nvtx_push(const char *name)
{
	const struct runtime_nvtx *nvtx = __atomic_load_n(&runtime_nvtx_active, __ATOMIC_ACQUIRE);

	if (__builtin_expect(nvtx != NULL, 0))
		nvtx->push(name);
}

static inline void runtime_nvtx_pop(void)
{
	const struct runtime_nvtx *nvtx = __atomic_load_n(&runtime_nvtx_active, __ATOMIC_ACQUIRE);

	if (__builtin_expect(nvtx != NULL, 0))
		nvtx->pop();
}

/*
 * Switches ranges on if the settings say so, at the first call that does; later calls do nothing. Reports to the log, with info, what
 * serves, and with warn that nothing does. Calls come one at a time. env NULL: that of the process.
 */
void runtime_nvtx_open(const struct runtime_settings *settings, const struct runtime_env *env);

#endif
