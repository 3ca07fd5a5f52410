/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the launcher's sentences. */
#include <stdbool.h>
#include <string.h>

#include "libclient/runtime/run/words.h"
#include "tests/lib/test.h"

static bool is_listed(const void *arg, unsigned int rank)
{
	return ((const char *)arg)[rank] == 'x';
}

static const char *ranks(const char *which)
{
	static char buf[WORDS_BYTES];

	return words_ranks((unsigned int)strlen(which), is_listed, which, buf);
}

TEST(ranks_are_short)
{
	ASSERT_STREQ(ranks("x"), "PE 0");
	ASSERT_STREQ(ranks(".x.."), "PE 1");
	ASSERT_STREQ(ranks("xx"), "PEs 0-1");
	ASSERT_STREQ(ranks("x.xxx.x"), "PEs 0, 2-4, 6");
}

TEST(many_ranks_are_counted)
{
	char which[2001], buf[WORDS_BYTES];

	for (unsigned int i = 0; i < 2000; i++)
		which[i] = i % 2 ? 'x' : '.';
	which[2000] = 0;
	words_ranks(2000, is_listed, which, buf);
	ASSERT_LT(strlen(buf), (size_t)WORDS_BYTES - 1);
	ASSERT(strstr(buf, "PEs 1, 3, 5, "));
	ASSERT(strstr(buf, " others"));
}

TEST(ends_are_those_of_a_shell)
{
	char buf[WORDS_BYTES];

	ASSERT_STREQ(words_end(7 << 8, buf), "ended with status 7");
	ASSERT_EQ(words_exit_status(7 << 8), 7);
	ASSERT_STREQ(words_end(11, buf), "was killed by signal 11 (Segmentation fault)");
	ASSERT_STREQ(words_end(11 | 0x80, buf), "was killed by signal 11 (Segmentation fault), core dumped");
	ASSERT_EQ(words_exit_status(11 | 0x80), 139);
}
