/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that the program writes by the library, as far as the settings or the program itself want them. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libclient/compat/nvshmem/nvs.h"

#define LINE_BYTES 1024

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
	fprintf(stderr, "shmemd: NVSHMEM program: PE %d: %s:%d: %s\n", nvs_is_running() ? nvs.facts.mype : -1, where ? where : "", line, text);
}
