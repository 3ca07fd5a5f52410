/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the library, failures, and the log of programs. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libclient/compat/nvshmem/nvs.h"

#define LINE_BYTES 1024

struct nvs nvs = {.lock = PTHREAD_MUTEX_INITIALIZER, .frees = PTHREAD_MUTEX_INITIALIZER};

static int result_of(int error)
{
	switch (error) {
	case -EINVAL:
		return NVS_INVALID_VALUE;
	case -ENOMEM:
	case -ENOSPC:
		return NVS_OUT_OF_MEMORY;
	case -EOPNOTSUPP:
	case -EPROTONOSUPPORT:
		return NVS_NOT_SUPPORTED;
	case -ENODEV:
		return NVS_GPU_NOT_SELECTED;
	default:
		return NVS_INTERNAL;
	}
}

int nvs_fail(const char *name, int error)
{
	if (nvs.world)
		fprintf(stderr, "shmemd: %s: PE %d: %s\n", name, shmd_my_pe(nvs.world), shmd_error_text());
	else
		fprintf(stderr, "shmemd: %s: %s\n", name, shmd_error_text());
	return result_of(error);
}

int nvs_result(const char *name, int error)
{
	return error < 0 ? nvs_fail(name, error) : NVS_SUCCESS;
}

int nvs_lacks(const char *what)
{
	return shmd_error_set(-EOPNOTSUPP, "this CUDA driver lacks %s", what);
}

/* ---- the program's lines */

/* As NVSHMEM numbers them; larger is more. */
enum level {
	LEVEL_NONE = 0,
	LEVEL_WARN = 2,
	LEVEL_INFO = 3,
	LEVEL_TRACE = 5,
};

static enum level level_of_settings(void)
{
	static const struct {
		const char *word;
		enum level level;
	} levels[] = {{"warn", LEVEL_WARN}, {"info", LEVEL_INFO}, {"debug", LEVEL_INFO}, {"trace", LEVEL_TRACE}};
	char value[SHMD_INFO_TEXT_BYTES];

	nvs_log_setting(value);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (!strcmp(value, levels[i].word))
			return levels[i].level;
	return LEVEL_NONE;
}

/* The settings know no parts of a program. It may set the exported words itself, which do. */
static bool is_wanted(int level, unsigned long parts)
{
	if (level < LEVEL_WARN || level > LEVEL_TRACE)
		return false;
	return level <= (int)level_of_settings() || (level <= nvshmem_debug_level && (level == LEVEL_WARN || parts & nvshmem_debug_mask));
}

NVS_API void nvshmem_debug_log(int level, unsigned long parts, const char *where, int line, const char *format, ...) __attribute__((format(printf, 5, 6)));
void nvshmem_debug_log(int level, unsigned long parts, const char *where, int line, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list arguments;

	if (!is_wanted(level, parts))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	for (char *at = text; *at; at++)
		if (iscntrl((unsigned char)*at))
			*at = ' ';
	fprintf(stderr, "shmemd: NVSHMEM program: PE %d: %s:%d: %s\n", nvs.world ? shmd_my_pe(nvs.world) : -1, where ? where : "", line, text);
}
