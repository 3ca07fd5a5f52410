/* SPDX-License-Identifier: Apache-2.0 */
/* Which strings may stand on the wire. */
#include <string.h>

#include "proto/text.h"
#include "tests/lib/test.h"

#define IS_CLEAN(literal) text_is_clean(literal, sizeof(literal) - 1)

TEST(printable_utf8_is_clean)
{
	ASSERT(IS_CLEAN(""));
	ASSERT(IS_CLEAN(" mlx5_0:1/~"));
	ASSERT(IS_CLEAN("\xc2\xa0\xc3\xa9\xdf\xbf"));
	ASSERT(IS_CLEAN("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd"));
	ASSERT(IS_CLEAN("\xf0\x90\x80\x80\xf4\x8f\xbf\xbd"));
}

TEST(control_characters_are_not)
{
	for (char c = 0; c < 0x20; c++)
		ASSERT(!text_is_clean(&c, 1));
	ASSERT(!IS_CLEAN("\x7f"));
	ASSERT(!IS_CLEAN("\xc2\x80"));
	ASSERT(!IS_CLEAN("\xc2\x9b")); /* CSI of the C1 set */
	ASSERT(!IS_CLEAN("\xc2\x9f"));
}

/* The attack: a name that reads backwards, ends a line, or has invisible characters in it. It may come, and is not shown. */
TEST(deceptive_text_is_legal_and_not_clean)
{
	static const char *const texts[] = {
		"a\xe2\x80\xae" "0_xlm", "a\xe2\x80\xa8" "b", "mlx\xe2\x80\x8b" "5", "\xef\xbb\xbf" "a", "\xd8\x9c", "\xf3\xa0\x81\x81"};

	for (unsigned int i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char copy[32];

		strcpy(copy, texts[i]);
		ASSERT(text_is_legal(copy, strlen(copy)));
		ASSERT(!text_is_clean(copy, strlen(copy)));
		text_clean(copy, strlen(copy));
		ASSERT(text_is_clean(copy, strlen(copy)));
		ASSERT_EQ(strlen(copy), strlen(texts[i]));
		ASSERT(strchr(copy, '?'));
	}
}

TEST(malformed_utf8_is_not)
{
	ASSERT(!IS_CLEAN("\x80"));
	ASSERT(!IS_CLEAN("\xc0\x80"));         /* overlong */
	ASSERT(!IS_CLEAN("\xc1\xbf"));
	ASSERT(!IS_CLEAN("\xe0\x9f\xbf"));
	ASSERT(!IS_CLEAN("\xf0\x8f\xbf\xbf"));
	ASSERT(!IS_CLEAN("\xed\xa0\x80"));     /* surrogate */
	ASSERT(!IS_CLEAN("\xf4\x90\x80\x80")); /* above U+10FFFF */
	ASSERT(!IS_CLEAN("\xf5\x80\x80\x80"));
	ASSERT(!IS_CLEAN("\xe2\x82"));         /* cut */
	ASSERT(!IS_CLEAN("\xe2\x28\xa1"));
	ASSERT(!IS_CLEAN("ok\xff"));
}

TEST(cleaning_replaces_bad_bytes_only)
{
	char text[] = "a\nb\x80\xc3\xa9\xe2\x82\xc2\x9b.";

	text_clean(text, sizeof(text) - 1);
	ASSERT_STREQ(text, "a?b?\xc3\xa9????.");
	ASSERT(text_is_clean(text, strlen(text)));
}
