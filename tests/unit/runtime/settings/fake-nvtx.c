/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for a profiler's library and for an NVTX library: it writes down what it is called with.
 *
 * As profilers do, it fills every slot of modules 1 and 5 and refuses a program whose tables lack one. FAKE_NVTX_REFUSE makes it refuse
 * anyhow. The declarations are NVIDIA's where its headers are, so that they judge ours.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(HAVE_NVTX_HEADERS)
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#else
enum {
	NVTX_ETID_CALLBACKS = 1,
	NVTX_ETID_VERSIONINFO = 3,
	NVTX_CB_MODULE_CORE = 1,
	NVTX_CB_MODULE_CORE2 = 5,
	NVTX_CB_MODULE_SIZE = 7,
	NVTX_CBID_CORE_RangePushA = 9,
	NVTX_CBID_CORE_RangePop = 11,
	NVTX_CBID_CORE_SIZE = 16,
};
typedef int NvtxCallbackModule;
typedef void (*NvtxFunctionPointer)(void);
typedef NvtxFunctionPointer **NvtxFunctionTable;
typedef const void *(*NvtxGetExportTableFunc_t)(uint32_t table);
typedef struct {
	size_t struct_size;
	int (*GetModuleFunctionTable)(NvtxCallbackModule module, NvtxFunctionTable *ret_table, unsigned int *ret_size);
} NvtxExportTableCallbacks;
typedef struct {
	size_t struct_size;
	uint32_t version, reserved0;
	void (*SetInjectionNvtxVersion)(uint32_t version);
} NvtxExportTableVersionInfo;
#endif

#define EXPORT __attribute__((visibility("default")))

extern EXPORT char fake_nvtx_record[1024];
char fake_nvtx_record[1024];
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
EXPORT int nvtxRangePushA(const char *name);
EXPORT int nvtxRangePop(void);

static void record(const char *what, const char *name)
{
	size_t used = strlen(fake_nvtx_record);

	snprintf(fake_nvtx_record + used, sizeof(fake_nvtx_record) - used, "%s%s;", what, name);
}

static int injected_push(const char *name)
{
	record("+", name);
	return 0;
}

static int injected_pop(void)
{
	record("-", "");
	return 0;
}

int nvtxRangePushA(const char *name)
{
	record("library +", name);
	return 0;
}

int nvtxRangePop(void)
{
	record("library -", "");
	return 0;
}

static void never(void)
{
	abort();
}

/* A slot that was not asked for is written too; a program must have room for it. */
static int fill(const NvtxExportTableCallbacks *callbacks, NvtxCallbackModule module)
{
	NvtxFunctionTable table = NULL;
	unsigned int n = 0;

	if (!callbacks->GetModuleFunctionTable(module, &table, &n) || !table)
		return 0;
	if ((module == NVTX_CB_MODULE_CORE || module == NVTX_CB_MODULE_CORE2) && n < NVTX_CBID_CORE_SIZE)
		return 0;
	for (unsigned int i = 1; i < n; i++) {
		if (!table[i])
			return 0;
		*table[i] = never;
	}
	return 1;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
	const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
	const NvtxExportTableVersionInfo *version = get_table(NVTX_ETID_VERSIONINFO);
	NvtxFunctionTable core;

	if (getenv("FAKE_NVTX_REFUSE") || !callbacks || callbacks->struct_size < sizeof(*callbacks) || !version ||
	    version->struct_size < sizeof(*version) || version->version < 2 || get_table(77))
		return 0;
	version->SetInjectionNvtxVersion(3);
	for (int module = NVTX_CB_MODULE_CORE; module < NVTX_CB_MODULE_SIZE; module++)
		if (!fill(callbacks, (NvtxCallbackModule)module))
			return 0;
	if (callbacks->GetModuleFunctionTable((NvtxCallbackModule)0, &core, NULL) ||
	    callbacks->GetModuleFunctionTable((NvtxCallbackModule)NVTX_CB_MODULE_SIZE, &core, NULL))
		return 0;
	callbacks->GetModuleFunctionTable((NvtxCallbackModule)NVTX_CB_MODULE_CORE, &core, NULL);
	*core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)injected_push;
	*core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)injected_pop;
	return 1;
}
