/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of shmemctl that need no daemon: colours, rates, progress, drawing, the command line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/ctl/args.h"
#include "libclient/ctl/commands.h"
#include "libclient/ctl/progress.h"
#include "libclient/ctl/screen.h"
#include "libclient/ctl/stats.h"
#include "tests/lib/test.h"

#define SEC 1000000000ull

static char *text;
static size_t text_bytes;

TEST(colours_are_wanted_if_they_can_be_seen)
{
	ASSERT(color_wanted(NULL, true, NULL, "xterm"));
	ASSERT(color_wanted("auto", true, "", "xterm"));
	ASSERT(!color_wanted(NULL, false, NULL, "xterm"));
	ASSERT(!color_wanted(NULL, true, "1", "xterm"));
	ASSERT(!color_wanted(NULL, true, NULL, "dumb"));
	ASSERT(!color_wanted(NULL, true, NULL, NULL));
	ASSERT(color_wanted("always", false, "1", "dumb"));
	ASSERT(!color_wanted("never", true, NULL, "xterm"));
	ASSERT_STREQ(color_on(false, COLOR_RED), "");
	ASSERT_STREQ(color_off(true, COLOR_NONE), "");
}

/* In the same order, for "help COMMAND", completion and suggestions. */
TEST(every_command_is_among_the_names_of_commands)
{
	unsigned int n = 0;

	for (; ctl_commands[n].name && ctl_command_names[n]; n++)
		ASSERT_STREQ(ctl_command_names[n], ctl_commands[n].name);
	ASSERT(!ctl_commands[n].name && !ctl_command_names[n]);
}

TEST(rates_get_units)
{
	char buf[UNITS_BYTES];

	ASSERT_STREQ(units_rate(0, buf), "0");
	ASSERT_STREQ(units_rate(0.04, buf), "0");
	ASSERT_STREQ(units_rate(0.25, buf), "0.2");
	ASSERT_STREQ(units_rate(999.94, buf), "999.9");
	ASSERT_STREQ(units_rate(999.95, buf), "1.0 k");
	ASSERT_STREQ(units_rate(12345678, buf), "12.3 M");
}

/* ---- stats */

static struct stats_row row_of(uint64_t session, uint32_t qpn, uint64_t wqes)
{
	return (struct stats_row){.session = session, .nic = "soft0", .qpn = qpn, .counters = {.wqes = wqes}};
}

TEST(rates_are_of_the_same_thing_in_both_looks)
{
	/* 1/5 goes on, 1/6 went away, 1/7 is idle, 2/5 came; 3/1 is another one with the number of an old one. */
	struct stats_row old[] = {row_of(1, 5, 100), row_of(1, 6, 900), row_of(1, 7, 3), row_of(3, 1, 50)};
	struct stats_row new[] = {row_of(1, 5, 110), row_of(1, 7, 3), row_of(2, 5, 40), row_of(3, 1, 20)};
	struct stats_look before = {.at_nsec = SEC, .n_rows = 4, .rows = old};
	struct stats_look now = {.at_nsec = 3 * SEC, .n_rows = 4, .rows = new};

	stats_between(&before, &now);
	ASSERT_EQ(now.interval_nsec, 2 * SEC);
	ASSERT_EQ(new[0].session, 2);
	ASSERT_EQ(new[0].counters.wqes, 40);
	ASSERT_EQ(new[1].session, 3);
	ASSERT_EQ(new[1].counters.wqes, 20);
	ASSERT_EQ(new[2].qpn, 5);
	ASSERT_EQ(new[2].counters.wqes, 10);
	ASSERT_EQ(new[3].qpn, 7);
	ASSERT(stats_is_idle(&new[3]));
	ASSERT(!stats_is_idle(&new[2]));
}

TEST(rates_of_pes_are_by_world_and_number)
{
	struct stats_row old[] = {{.world = 1, .pe = 0, .counters.bytes_sent = 10}, {.world = 1, .pe = 1, .counters.bytes_sent = 5}};
	struct stats_row new[] = {{.world = 1, .pe = 0, .counters.bytes_sent = 13}, {.world = 1, .pe = 1, .counters.bytes_sent = 12}};
	struct stats_look before = {.at_nsec = SEC, .n_rows = 2, .rows = old}, now = {.at_nsec = 2 * SEC, .n_rows = 2, .rows = new};

	stats_between(&before, &now);
	ASSERT_EQ(new[0].pe, 1);
	ASSERT_EQ(new[0].counters.bytes_sent, 7);
	ASSERT_EQ(new[1].counters.bytes_sent, 3);
}

/* ---- progress */

static const char *progress_of(bool is_terminal)
{
	FILE *out = open_memstream(&text, &text_bytes);
	struct progress progress;

	progress_begin(&progress, out, is_terminal, 100 * SEC);
	progress_show(&progress, 101 * SEC, "3 left");
	progress_show(&progress, 102 * SEC, "2 left");
	progress_show(&progress, 103 * SEC, "1 left");
	progress_show(&progress, 112 * SEC, "1 left");
	progress_show(&progress, 123 * SEC, "0 left");
	progress_end(&progress);
	fclose(out);
	return text;
}

TEST(progress_begins_after_two_seconds)
{
	ASSERT_STREQ(progress_of(true), "\r\033[K| 2 left\r\033[K/ 1 left\r\033[K- 1 left\r\033[K\\ 0 left\r\033[K");
	free(text);
	ASSERT_STREQ(progress_of(false), "2 left\n1 left\n0 left\n");
	free(text);
}

/* ---- drawing */

static void assert_drawn(const char *what, unsigned int n_rows, const char *expected)
{
	FILE *out = open_memstream(&text, &text_bytes);

	screen_draw(what, strlen(what), n_rows, out);
	fclose(out);
	ASSERT_STREQ(text, expected);
	free(text);
}

TEST(a_screen_holds_as_much_as_it_has_rows)
{
	assert_drawn("a\nb\n", 0, "a\033[K\nb\033[K\n\033[J");
	assert_drawn("a\nb\n", 3, "a\033[K\nb\033[K\n\033[J");
	assert_drawn("a\nb\n", 2, "a\033[K\nb\033[K\033[J");
	assert_drawn("a\nb\nc\n", 2, "a\033[K\n...\033[K");
	assert_drawn("", 2, "\033[J");
}

/* ---- the command line */

#define READ(args_, ...) args_read(ctl_commands, (char *[]){__VA_ARGS__, NULL}, args_)

TEST(options_may_stand_anywhere)
{
	struct args args;

	ASSERT_OK(READ(&args, (char *)"--json", (char *)"list", (char *)"--watch", (char *)"qps"));
	ASSERT_STREQ(args.command->name, "list");
	ASSERT_STREQ(args.words[0], "qps");
	ASSERT(args_has(&args, OPTION_JSON));
	ASSERT_EQ(args.watch_seconds, 2.0);
	ASSERT_OK(READ(&args, (char *)"list", (char *)"--watch", (char *)"0.5", (char *)"qps"));
	ASSERT_EQ(args.watch_seconds, 0.5);
	ASSERT_OK(READ(&args, (char *)"kill", (char *)"--", (char *)"7"));
	ASSERT_STREQ(args.words[0], "7");
	ASSERT_OK(READ(&args, (char *)"drain", (char *)"--grace=1.5"));
	ASSERT_EQ(args_seconds(&args, OPTION_GRACE, 30), 1.5);
	ASSERT_OK(READ(&args, (char *)"monitor", (char *)"--kind", (char *)"drain,qp-error", (char *)"--count=0x10"));
	ASSERT_EQ(args_count(&args, OPTION_COUNT, 0), 16);
	ASSERT(args_lists(&args, OPTION_KIND, "qp-error"));
	ASSERT(!args_lists(&args, OPTION_KIND, "refused"));
	ASSERT_OK(READ(&args, (char *)"monitor"));
	ASSERT(args_lists(&args, OPTION_KIND, "refused"));
}

TEST(numbers_are_read_whole)
{
	uint64_t number;
	double seconds;

	ASSERT(args_parse_number("0x1fF", &number) && number == 0x1ff);
	ASSERT(args_parse_number("18446744073709551615", &number) && number == UINT64_MAX);
	ASSERT(!args_parse_number("18446744073709551616", &number));
	ASSERT(!args_parse_number("", &number));
	ASSERT(!args_parse_number("0x", &number));
	ASSERT(!args_parse_number("-1", &number));
	ASSERT(!args_parse_number("7 ", &number));
	ASSERT(args_parse_seconds("0.25", &seconds) && seconds == 0.25);
	ASSERT(!args_parse_seconds("inf", &seconds));
	ASSERT(!args_parse_seconds("86401", &seconds));
	ASSERT(!args_parse_seconds("1.2.3", &seconds));
	ASSERT(!args_parse_seconds(NULL, &seconds));
}
