/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges strings of messages: which may stand there, and which may be shown. Pure functions.
 */
#include <stdint.h>

#include "proto/base/unicode.h"
#include "proto/text.h"

/* Bytes of the character at text, or 0 when it may not stand there. */
static size_t character_bytes(const char *text, size_t left, bool may_hide)
{
	uint32_t code;
	size_t bytes = unicode_decode(text, left, &code);

	return bytes && !unicode_is_control(code) && (may_hide || !unicode_is_hidden(code)) ? bytes : 0;
}

static bool is_made_of(const char *text, size_t bytes, bool may_hide)
{
	for (size_t i = 0; i < bytes;) {
		size_t n = character_bytes(text + i, bytes - i, may_hide);

		if (!n)
			return false;
		i += n;
	}
	return true;
}

bool text_is_legal(const char *text, size_t bytes)
{
	return is_made_of(text, bytes, true);
}

bool text_is_clean(const char *text, size_t bytes)
{
	return is_made_of(text, bytes, false);
}

void text_clean(char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes;) {
		size_t n = character_bytes(text + i, bytes - i, false);

		if (!n) {
			text[i] = '?';
			n = 1;
		}
		i += n;
	}
}
