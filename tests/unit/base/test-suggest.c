/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "proto/base/suggest.h"
#include "tests/lib/test.h"

static const char *const commands[] = {"status", "list", "stats", "monitor", "topology", "kill", NULL};
static const char *const nics[] = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_bond_0", NULL};

TEST(a_word_with_a_typing_error_is_found)
{
	ASSERT_STREQ(suggest_of("statsu", commands), "status");
	ASSERT_STREQ(suggest_of("topolgy", commands), "topology");
	ASSERT_STREQ(suggest_of("Monitor", commands), "monitor");
	ASSERT_STREQ(suggest_of("klil", commands), "kill");
}

TEST(the_beginning_of_a_word_is_enough)
{
	ASSERT_STREQ(suggest_of("stat", commands), "stats");
	ASSERT_STREQ(suggest_of("to", commands), "topology");
	ASSERT_STREQ(suggest_of("listing", commands), "list");
}

TEST(letters_that_look_alike_are_nearly_the_same)
{
	ASSERT_STREQ(suggest_of("mlx5_O", nics), "mlx5_0");
	ASSERT_STREQ(suggest_of("mlx5_l", nics), "mlx5_1");
	ASSERT_STREQ(suggest_of("mlx5-bond-0", nics), "mlx5_bond_0");
}

TEST(nothing_is_suggested_if_several_are_as_near_or_none_is)
{
	ASSERT(!suggest_of("mlx5_9", nics));
	ASSERT(!suggest_of("ib0", nics));
	ASSERT(!suggest_of("s", commands));
	ASSERT(!suggest_of("", commands));
	ASSERT(!suggest_of("frobnicate", commands));
}

TEST(words_of_any_length_do_no_harm)
{
	char word[4096];

	memset(word, 's', sizeof(word));
	word[sizeof(word) - 1] = 0;
	ASSERT(!suggest_of(word, commands));
	for (size_t n = 0; n <= SUGGEST_MAX_BYTES + 1; n++) {
		const char *words[] = {word, "status", NULL};

		word[n] = 0;
		suggest_of("stat", words);
		suggest_of(word, commands);
		word[n] = 's';
	}
}
