/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as shmemd.conf. An accepted text must lie within the table's ranges and be accepted again when it is written
 * out; a refusal must say why in a line that ends.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/settings/settings.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

#define VALUE_BYTES SETTINGS_VALUE_BYTES

static void check_row(const struct settings *settings, unsigned int i, struct settings *again)
{
	const struct settings_row *row = &settings_rows[i];
	struct settings_error error;
	char value[VALUE_BYTES], second[VALUE_BYTES];
	uint64_t number;

	if (row->type == SETTINGS_NUMBER || row->type == SETTINGS_MODE) {
		memcpy(&number, (const uint8_t *)settings + row->offset, sizeof(number));
		assert_bug(number >= row->min && number <= row->max);
	}
	settings_format(settings, i, value, sizeof(value));
	assert_bug(settings_set(again, row->key, value, "again", &error) == 0);
	settings_format(again, i, second, sizeof(second));
	assert_bug(!strcmp(value, second));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	_cleanup_free_ char *text = malloc(n + 1);
	struct settings settings, again;
	struct settings_error error;
	int r;

	assert_bug(text);
	if (n)
		memcpy(text, bytes, n);
	text[n] = '\0';
	memset(&error, 0xff, sizeof(error));
	settings_init(&settings);
	settings_init(&again);
	r = settings_parse(&settings, text, "fuzz.conf", &error);
	assert_bug(r == 0 || r == -EINVAL);
	if (r < 0)
		assert_bug(memchr(error.text, '\0', sizeof(error.text)) && error.text[0]);
	for (unsigned int i = 0; r == 0 && i < settings_n_rows; i++)
		check_row(&settings, i, &again);
	return 0;
}
