/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/settings/announce.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#define TEXT_BYTES 16384 /* more than all rows with ordinary values; what does not fit is left out */

struct text {
	size_t used;
	char letters[TEXT_BYTES];
};

static bool is_announced;

static void put(struct text *text, const char *line, size_t n)
{
	if (text->used + n > sizeof(text->letters))
		return;
	memcpy(text->letters + text->used, line, n);
	text->used += n;
}

static int put_setting(void *arg, const struct runtime_setting_info *info)
{
	char line[RUNTIME_VALUE_BYTES + 128];
	int n = snprintf(line, sizeof(line), "%s=%s (%s)\n", info->name, info->value, info->source);

	for (int i = 0; i < n - 1; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	put(arg, line, (size_t)n);
	return 0;
}

void runtime_settings_announce(const struct runtime_settings *settings, int rank)
{
	struct text text = {0};
	char line[64];

	if (rank || !(settings->info || settings->version) || __atomic_exchange_n(&is_announced, true, __ATOMIC_RELAXED))
		return;
	put(&text, line, (size_t)snprintf(line, sizeof(line), "libshmemclient %s\n", shmd_version()));
	if (settings->info)
		runtime_settings_each(settings, put_setting, &text);
	/* A program whose stderr is closed runs on. */
	if (write(STDERR_FILENO, text.letters, text.used) < 0)
		return;
}
