/* SPDX-License-Identifier: Apache-2.0 */
/* The public view of the settings and of the build: <shmd-info.h>. */
#include <errno.h>
#include <stdio.h>

#include <shmd-info.h>
#include <shmd/abi/dev-state.h>
#include <shmd/abi/world.h>

#include "config.h"
#include "libclient/runtime/settings/settings.h"

#define YES_NO(x) ((x) ? "yes" : "no")

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define SANITIZER "thread"
#else
#define SANITIZER "none"
#endif

static const struct {
	const char *name, *value;
	unsigned int number; /* without a value */
} builds[] = {
	{"version", SHMD_VERSION_STRING},
	{"dev-state", NULL, SHMD_DEV_STATE_VERSION},
	{"world", NULL, SHMD_DEV_WORLD_VERSION},
	{"compiler", COMPILER},
	{"machine", SHMD_BUILD_MACHINE},
	{"buildtype", SHMD_BUILD_TYPE},
	{"sanitizer", SANITIZER},
	{"cuda", YES_NO(HAVE_CUDA)},
	{"rdma-core", YES_NO(HAVE_RDMA_CORE)},
	{"mlx5", YES_NO(HAVE_MLX5)},
	{"systemd", YES_NO(HAVE_SYSTEMD)},
};

int shmd_info_build(unsigned int index, struct shmd_build_info *ret_info)
{
	if (index >= sizeof(builds) / sizeof(builds[0]))
		return shmd_error_set(-ENOENT, "there is no build option %u", index);
	ret_info->name = builds[index].name;
	if (builds[index].value)
		snprintf(ret_info->value, sizeof(ret_info->value), "%s", builds[index].value);
	else
		snprintf(ret_info->value, sizeof(ret_info->value), "%u", builds[index].number);
	return 0;
}

int shmd_info_setting(unsigned int index, struct shmd_setting_info *ret_info)
{
	struct runtime_env env = runtime_env_process();
	struct runtime_settings settings;
	struct runtime_setting_info info;
	int r;

	if (index >= runtime_n_rows)
		return shmd_error_set(-ENOENT, "there is no setting %u", index);
	runtime_settings_init(&settings);
	r = runtime_settings_load_row(&settings, index, &env);
	runtime_settings_info(&settings, index, &info);
	*ret_info = (struct shmd_setting_info){
		.name = info.name, .source = info.source, .def = info.def, .text = info.text, .is_default = info.is_default && !r};
	snprintf(ret_info->value, sizeof(ret_info->value), "%s", r < 0 ? runtime_env_get(&env, info.source) : info.value);
	if (r < 0)
		snprintf(ret_info->error, sizeof(ret_info->error), "%s", shmd_error_text());
	runtime_value_allowed(&runtime_rows[index], ret_info->allowed, sizeof(ret_info->allowed));
	return 0;
}

struct search {
	unsigned int index;
	char *text;
};

static void keep(void *arg, enum runtime_log_level level, const char *sentence)
{
	struct search *search = arg;

	if (level == RUNTIME_LOG_WARN && search->index-- == 0)
		snprintf(search->text, SHMD_INFO_TEXT_BYTES, "%s", sentence);
}

int shmd_info_warning(unsigned int index, char ret_text[SHMD_INFO_TEXT_BYTES])
{
	struct search search = {index, ret_text};

	if (index >= runtime_settings_unknown(NULL, keep, &search))
		return shmd_error_set(-ENOENT, "there is no warning %u", index);
	return 0;
}
