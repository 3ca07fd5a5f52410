/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 without overlong forms and surrogates, and the characters that deceive a reader. The ranges are
 * Unicode's default ignorable code points, bidirectional controls, and line and paragraph separators. Characters with a visible
 * shape are not among them.
 */
#include "proto/base/unicode.h"

static const struct {
	uint32_t first, last;
} hidden[] = {
	{0x00ad, 0x00ad}, /* soft hyphen */
	{0x034f, 0x034f}, /* combining grapheme joiner */
	{0x061c, 0x061c}, /* Arabic letter mark */
	{0x115f, 0x1160}, /* Hangul fillers */
	{0x17b4, 0x17b5}, /* Khmer inherent vowels */
	{0x180b, 0x180f}, /* Mongolian selectors, vowel separator */
	{0x200b, 0x200f}, /* no width; left-to-right and right-to-left marks */
	{0x2028, 0x202e}, /* separators; embeddings and overrides */
	{0x2060, 0x206f}, /* word joiner, isolates, invisible operators */
	{0x3164, 0x3164}, /* Hangul filler */
	{0xfdd0, 0xfdef}, /* noncharacters */
	{0xfe00, 0xfe0f}, /* variation selectors */
	{0xfeff, 0xfeff}, /* no-break space of no width */
	{0xffa0, 0xffa0}, /* halfwidth Hangul filler */
	{0xfff0, 0xfffb}, /* interlinear annotation */
	{0x13430, 0x1343f}, /* Egyptian joiners */
	{0x1bca0, 0x1bca3}, /* shorthand controls */
	{0x1d173, 0x1d17a}, /* musical controls */
	{0xe0000, 0xe0fff}, /* tags, more selectors */
};

static bool is_continuation(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* Bytes of the sequence that c starts; 0 if no sequence starts with c. */
static unsigned int sequence_bytes(unsigned char c)
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

static bool is_character(uint32_t code, unsigned int bytes)
{
	static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};

	return code >= lowest[bytes] && (code < 0xd800 || code > 0xdfff) && code <= 0x10ffff;
}

unsigned int unicode_decode(const char *text, size_t left, uint32_t *ret_code)
{
	static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	unsigned int bytes = left ? sequence_bytes((unsigned char)*text) : 0;
	uint32_t code;

	if (!bytes || bytes > left)
		return 0;
	code = (unsigned char)*text & masks[bytes];
	for (unsigned int i = 1; i < bytes; i++) {
		if (!is_continuation((unsigned char)text[i]))
			return 0;
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	}
	*ret_code = code;
	return is_character(code, bytes) ? bytes : 0;
}

bool unicode_is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

bool unicode_is_hidden(uint32_t code)
{
	/* The last two of each plane are noncharacters. */
	if ((code & 0xfffe) == 0xfffe)
		return true;
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]) && code >= hidden[i].first; i++)
		if (code <= hidden[i].last)
			return true;
	return false;
}
