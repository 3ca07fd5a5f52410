/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "proto/base/show.h"
#include "tests/lib/test.h"

TEST(printable_text_is_shown_as_it_is)
{
	char buf[SHOW_BUF_BYTES];

	ASSERT_STREQ(show_text("max-qps = 12 \"x\"", buf), "max-qps = 12 \"x\"");
	ASSERT_STREQ(show_text("", buf), "");
}

TEST(other_bytes_are_escaped)
{
	char buf[SHOW_BUF_BYTES];

	ASSERT_STREQ(show_text("\x7f" "ELF\x1b[2J\xc3\xa4", buf), "\\x7fELF\\x1b[2J\\xc3\\xa4");
	ASSERT_STREQ(show_bytes("a\0b", 3, buf), "a\\x00b");
}

TEST(shown_text_is_bounded_and_ends_with_dots)
{
	char buf[SHOW_BUF_BYTES + 1], text[4096];

	for (int byte = 1; byte < 256; byte++) {
		memset(text, byte, sizeof(text));
		buf[SHOW_BUF_BYTES] = 'x';
		show_bytes(text, sizeof(text), buf);
		ASSERT_EQ(buf[SHOW_BUF_BYTES], 'x');
		ASSERT(strlen(buf) <= SHOW_MAX_BYTES + 3 && !strcmp(buf + strlen(buf) - 3, "..."));
		for (char *at = buf; *at; at++)
			ASSERT(isprint((unsigned char)*at));
	}
	memset(text, 'a', SHOW_MAX_BYTES);
	text[SHOW_MAX_BYTES] = 0;
	ASSERT_STREQ(show_text(text, buf), text);
}

TEST(one_thing_is_singular)
{
	ASSERT_STREQ(plural_s(1), "");
	ASSERT_STREQ(plural_s(0), "s");
	ASSERT_STREQ(plural_s(2), "s");
}
