/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 without overlong forms, surrogates, or control characters (C0, DEL, C1). Pure functions.
 */
#include <stdint.h>

#include "proto/text.h"

static bool is_continuation(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* Bytes of the sequence that c starts; 0 when it can start none. */
static size_t sequence_bytes(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	if (c >= 0xf0 && c <= 0xf4)
		return 4;
	return 0;
}

static bool is_allowed(uint32_t code, size_t bytes)
{
	static const uint32_t lowest[] = {0, 0x20, 0xa0, 0x800, 0x10000};

	return code >= lowest[bytes] && code != 0x7f && (code < 0xd800 || code > 0xdfff) &&
	       code <= 0x10ffff;
}

/* Bytes of the allowed character at p, or 0. */
static size_t character_bytes(const char *p, size_t left)
{
	static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	size_t bytes = sequence_bytes((unsigned char)*p);
	uint32_t code;

	if (!bytes || bytes > left)
		return 0;
	code = (unsigned char)*p & masks[bytes];
	for (size_t i = 1; i < bytes; i++) {
		if (!is_continuation((unsigned char)p[i]))
			return 0;
		code = code << 6 | ((unsigned char)p[i] & 0x3f);
	}
	return is_allowed(code, bytes) ? bytes : 0;
}

bool text_is_clean(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes;) {
		size_t n = character_bytes(text + i, bytes - i);

		if (!n)
			return false;
		i += n;
	}
	return true;
}

void text_clean(char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes;) {
		size_t n = character_bytes(text + i, bytes - i);

		if (!n) {
			text[i] = '?';
			n = 1;
		}
		i += n;
	}
}
