/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/base/unicode.h"
#include "tests/lib/test.h"

static uint32_t code_of(const char *text)
{
	uint32_t code = UINT32_MAX;

	ASSERT_EQ(unicode_decode(text, strlen(text), &code), strlen(text));
	return code;
}

TEST(characters_are_decoded)
{
	ASSERT_EQ(code_of("a"), 'a');
	ASSERT_EQ(code_of("\xc3\xa9"), 0xe9);
	ASSERT_EQ(code_of("\xe2\x80\xae"), 0x202e);
	ASSERT_EQ(code_of("\xf0\x9f\x98\x80"), 0x1f600);
	ASSERT_EQ(code_of("\xf4\x8f\xbf\xbf"), 0x10ffff);
}

TEST(no_byte_is_read_beyond_the_text)
{
	uint32_t code;

	ASSERT_EQ(unicode_decode("a", 0, &code), 0);
	ASSERT_EQ(unicode_decode("\xc3\xa9", 1, &code), 0);
	ASSERT_EQ(unicode_decode("\xe2\x80\xae", 2, &code), 0);
	ASSERT_EQ(unicode_decode("\xf0\x9f\x98\x80", 3, &code), 0);
}

TEST(bytes_other_than_utf8_are_rejected)
{
	static const char *const texts[] = {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
					    "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x28\xa1", "\xff"};
	uint32_t code;

	for (unsigned int i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		ASSERT_EQ(unicode_decode(texts[i], strlen(texts[i]), &code), 0);
}

TEST(controls_are_c0_del_and_c1)
{
	unsigned int n = 0;

	for (uint32_t code = 0; code <= 0x10ffff; code++)
		n += unicode_is_control(code);
	ASSERT_EQ(n, 0x20 + 1 + 0x20);
	ASSERT(unicode_is_control(0x1b) && unicode_is_control(0x7f) && unicode_is_control(0x9b));
}

TEST(bidirectional_controls_separators_and_what_has_no_width_are_hidden)
{
	static const uint32_t hidden[] = {0xad, 0x61c, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b,
					  0x202c, 0x202d, 0x202e, 0x2060, 0x2066, 0x2067, 0x2068, 0x2069, 0x206f, 0xfe0f, 0xfeff,
					  0xfff9, 0xfffe, 0xffff, 0xfdd0, 0x1fffe, 0xe0001, 0xe0041, 0x10ffff};
	static const uint32_t shown[] = {' ', '~', 0xa0, 0xe9, 0x5d0, 0x627, 0x200a, 0x2010, 0x2027, 0x202f, 0x2065 + 0xb, 0x4e2d, 0xac00,
					 0xfffd, 0x1f600};

	for (unsigned int i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		ASSERT(unicode_is_hidden(hidden[i]));
	for (unsigned int i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		ASSERT(!unicode_is_hidden(shown[i]));
}
