/* SPDX-License-Identifier: Apache-2.0 */
/* The few functions of PMIx that the bootstrap uses, for a job of one rank. One of them never returns: FAKE_PMIX_HANGS names it. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct proc {
	char nspace[256];
	uint32_t rank;
};

struct value {
	uint16_t type;
	union {
		char *string;
		uint32_t uint32;
		uint64_t room[3];
	} data;
};

enum { TYPE_STRING = 3, TYPE_UINT32 = 14 };

static char stored[1024];

EXPORT int PMIx_Init(struct proc *me, void *info, size_t n_info);
EXPORT int PMIx_Finalize(const void *info, size_t n_info);
EXPORT int PMIx_Put(uint8_t scope, const char *key, struct value *value);
EXPORT int PMIx_Commit(void);
EXPORT int PMIx_Get_nb(const struct proc *proc, const char *key, const void *info, size_t n_info,
		       void (*done)(int status, struct value *value, void *arg), void *arg);
EXPORT int PMIx_Fence_nb(const struct proc *procs, size_t n_procs, const void *info, size_t n_info, void (*done)(int status, void *arg), void *arg);
EXPORT int PMIx_Abort(int status, const char *why, struct proc *procs, size_t n_procs);
EXPORT const char *PMIx_Error_string(int status);

static void may_hang(const char *name)
{
	const char *which = getenv("FAKE_PMIX_HANGS");

	while (which && !strcmp(which, name))
		pause();
}

int PMIx_Init(struct proc *me, void *info, size_t n_info)
{
	may_hang("PMIx_Init");
	memset(me, 0, sizeof(*me));
	return 0;
}

int PMIx_Finalize(const void *info, size_t n_info)
{
	may_hang("PMIx_Finalize");
	return 0;
}

int PMIx_Put(uint8_t scope, const char *key, struct value *value)
{
	snprintf(stored, sizeof(stored), "%s", value->data.string);
	return 0;
}

int PMIx_Commit(void)
{
	may_hang("PMIx_Commit");
	return 0;
}

int PMIx_Get_nb(const struct proc *proc, const char *key, const void *info, size_t n_info,
		void (*done)(int status, struct value *value, void *arg), void *arg)
{
	struct value value = {.type = TYPE_STRING, .data = {.string = stored}};

	if (!strcmp(key, "pmix.job.size"))
		value = (struct value){.type = TYPE_UINT32, .data = {.uint32 = 1}};
	done(0, &value, arg);
	return 0;
}

int PMIx_Fence_nb(const struct proc *procs, size_t n_procs, const void *info, size_t n_info, void (*done)(int status, void *arg), void *arg)
{
	done(0, arg);
	return 0;
}

int PMIx_Abort(int status, const char *why, struct proc *procs, size_t n_procs)
{
	may_hang("PMIx_Abort");
	return 0;
}

const char *PMIx_Error_string(int status)
{
	return "an error";
}
