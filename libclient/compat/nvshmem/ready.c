/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a job, which the runtime reads; and the heap, when a call needs it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/compat/nvshmem/nvs.h"

#define DEFAULT_TEAMS 32

static bool find_setting(const char *name, struct shmd_setting_info *ret_info)
{
	for (unsigned int i = 0; !shmd_info_setting(i, ret_info); i++)
		if (!strcmp(ret_info->name, name))
			return true;
	return false;
}

bool nvs_newer_is_allowed(void)
{
	struct shmd_setting_info info;

	return find_setting("SHMD_NVSHMEM_NEWER", &info) && !strcmp(info.value, "on");
}

void nvs_log_setting(char ret_level[SHMD_INFO_TEXT_BYTES])
{
	struct shmd_setting_info info;

	if (!find_setting("SHMD_LOG", &info) || !strcmp(info.source, "default"))
		info.value[0] = 0;
	snprintf(ret_level, SHMD_INFO_TEXT_BYTES, "%.*s", (int)strcspn(info.value, ","), info.value);
}

bool nvs_is_verbose(void)
{
	char level[SHMD_INFO_TEXT_BYTES];

	nvs_log_setting(level);
	return !strcmp(level, "debug") || !strcmp(level, "trace");
}

int nvs_max_teams(void)
{
	struct shmd_setting_info info;
	int n = DEFAULT_TEAMS;

	if (find_setting("SHMD_MAX_TEAMS", &info) && strcmp(info.source, "default") != 0)
		n = atoi(info.value);
	if (n <= NVS_TEAM_FIRST)
		n = NVS_TEAM_FIRST + 1;
	return n > (int)NVS_POOL_TEAMS ? (int)NVS_POOL_TEAMS : n;
}

uint32_t nvs_queue_depth(uint32_t otherwise)
{
	struct shmd_setting_info info;

	if (find_setting("SHMD_QUEUE_DEPTH", &info) && strcmp(info.source, "default") != 0)
		return (uint32_t)strtoul(info.value, NULL, 10);
	return otherwise;
}

void nvs_choose_gpu(char ret_which[SHMD_INFO_TEXT_BYTES])
{
	struct shmd_setting_info info;

	if (find_setting("SHMD_GPU", &info) && info.value[0])
		snprintf(ret_which, SHMD_INFO_TEXT_BYTES, "%s", info.value);
	else
		snprintf(ret_which, SHMD_INFO_TEXT_BYTES, "current");
}

bool nvs_is_forked(void)
{
	return nvs.world && shmd_world_status(nvs.world) == SHMD_WORLD_NONE;
}

bool nvs_is_running(void)
{
	return __atomic_load_n(&nvs.status, __ATOMIC_ACQUIRE) == NVS_STATUS_INITIALIZED && !nvs_is_forked();
}

int nvs_ready(void)
{
	int r = 0;

	if (nvs_is_running())
		return 0;
	if (nvs_is_forked())
		return shmd_error_set(-ENOTCONN, "this process was forked from a PE, whose job it does not have");
	pthread_mutex_lock(&nvs.lock);
	if (!nvs.world)
		r = shmd_error_set(-ENOTCONN, "NVSHMEM is not initialised; call nvshmem_init() first");
	else if (nvs.status == NVS_STATUS_BOOTSTRAPPED)
		r = nvs.start();
	pthread_mutex_unlock(&nvs.lock);
	return r;
}

int nvs_need_kernels(void)
{
	if (nvs.has_kernels)
		return 0;
	return shmd_error_set(-EOPNOTSUPP, "this call is a kernel, which not all PEs could load (a library that was built without nvcc has none)");
}
