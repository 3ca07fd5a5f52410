/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"
#include "tests/bench/perf/table.h"
#include "tests/lib/test.h"

static unsigned int row_of(const char *name)
{
	unsigned int row;

	for (row = 0; row < perf_n_rows; row++) {
		if (!strcmp(perf_rows[row].name, name))
			return row;
	}
	ASSERT(!"a row of that name");
	return 0;
}

static double median_of(const struct perf_table *table, const char *row, enum perf_side side)
{
	return perf_median(&table->figures[row_of(row)][side]);
}

static char *shown(const struct perf_table *table, void (*print)(FILE *, const struct perf_table *))
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	ASSERT(out);
	print(out, table);
	fclose(out);
	return text;
}

TEST(what_a_run_prints_is_read)
{
	struct perf_table table = {0};

	ASSERT_OK(perf_table_read(&table, PERF_OURS, "# gpu A Card 9\nbarrier 2.5\n\nsync 1e-1\n"));
	ASSERT_OK(perf_table_read(&table, PERF_OURS, "barrier 3.5"));
	ASSERT_STREQ(table.gpu, "A Card 9");
	ASSERT(median_of(&table, "barrier", PERF_OURS) == 3.0);
	ASSERT(median_of(&table, "sync", PERF_OURS) == 0.1);
	ASSERT(median_of(&table, "barrier", PERF_FLOOR) == 0);
	ASSERT_OK(perf_table_read(&table, PERF_FLOOR, ""));
}

TEST(what_is_no_row_is_refused)
{
	static const char *const bad[] = {
		"hello\n", "barrier\n", "barrier \n", "barrier 1 2\n", "barrier x\n", "barrier 0\n", "barrier -1\n", "barrier nan\n",
		"barrier inf\n", "barriers 1\n", "barrie 1\n", " 1\n", "barrier 1\nbarrier 2\n", "# other\n",
	};
	char longer[4096];
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct perf_table table = {0};

		ASSERT_ERR(perf_table_read(&table, PERF_OURS, bad[i]), EPROTO);
	}
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	ASSERT_ERR(perf_table_read(&(struct perf_table){0}, PERF_OURS, longer), EPROTO);
}

TEST(more_runs_than_a_table_holds_are_refused)
{
	struct perf_table table = {0};
	unsigned int i;

	for (i = 0; i < PERF_MAX_RUNS; i++)
		ASSERT_OK(perf_table_read(&table, PERF_OURS, "barrier 1\n"));
	ASSERT_ERR(perf_table_read(&table, PERF_OURS, "barrier 1\n"), ENOSPC);
}

TEST(a_median_is_of_the_middle_and_the_spread_of_the_ends)
{
	struct perf_figures five = {{9, 1, 4, 2, 100}, 5}, four = {{8, 2, 4, 6}, 4}, none = {{0}, 0};

	ASSERT(perf_median(&five) == 4);
	ASSERT(perf_spread(&five) == 99.0 / 8);
	ASSERT(five.values[0] == 9);
	ASSERT(perf_median(&four) == 5);
	ASSERT(perf_median(&none) == 0);
	ASSERT(perf_spread(&none) == 0);
}

TEST(a_goal_is_missed_by_times_above_and_by_rates_below_it)
{
	struct perf_table table = {0};
	unsigned int time = row_of("barrier"), rate = row_of("put_1k");

	ASSERT(!perf_is_met(&table, time));
	ASSERT_OK(perf_table_read(&table, PERF_OURS, "barrier 4\nput_1k 30\n"));
	ASSERT(perf_is_met(&table, time));
	ASSERT(perf_ratio(&table, time, PERF_NVSHMEM) == 0);
	ASSERT_OK(perf_table_read(&table, PERF_NVSHMEM, "barrier 8\nput_1k 10\n"));
	ASSERT(perf_ratio(&table, time, PERF_NVSHMEM) == 0.5);
	ASSERT(perf_is_met(&table, time));
	ASSERT(perf_is_met(&table, rate));
	ASSERT_OK(perf_table_read(&table, PERF_FLOOR, "barrier 2\n"));
	ASSERT(!perf_is_met(&table, time));
	ASSERT_OK(perf_table_read(&table, PERF_NVSHMEM, "put_1k 12\n"));
	ASSERT(!perf_is_met(&table, rate));
}

TEST(a_table_shows_all_rows_and_judges_its_own_mode_only)
{
	struct perf_table table = {.mode = "two GPUs", .is_judged = true};
	_cleanup_free_ char *judged = NULL, *other = NULL;
	unsigned int row;

	ASSERT_OK(perf_table_read(&table, PERF_OURS, "# gpu Card\nbarrier 4\nsync 1\n"));
	ASSERT_OK(perf_table_read(&table, PERF_NVSHMEM, "barrier 4\n"));
	judged = shown(&table, perf_print_table);
	for (row = 0; row < perf_n_rows; row++)
		ASSERT(strstr(judged, perf_rows[row].title));
	ASSERT(strstr(judged, "Card, two GPUs; medians of 1 alternating runs"));
	ASSERT(strstr(judged, "| barrier, block | us | 4 +-0% | 4 +-0% | - | 1.00 (at most 0.50) | - (at most 1.05) | MISSED |"));
	ASSERT(strstr(judged, "| sync, block | us | 1 +-0% | - | - | - (at most 0.35) | - | ok |"));
	ASSERT(strstr(judged, "NOT MEASURED"));
	table.is_judged = false;
	other = shown(&table, perf_print_table);
	ASSERT(strstr(other, "| behind |") && !strstr(other, "MISSED"));
	ASSERT(strstr(other, "shown only"));
}

TEST(json_has_every_figure_and_escapes_text)
{
	struct perf_table table = {.gpu = "A \"card\" \\ 1", .mode = "two GPUs"};
	_cleanup_free_ char *text = NULL;

	ASSERT_OK(perf_table_read(&table, PERF_OURS, "barrier 4\n"));
	ASSERT_OK(perf_table_read(&table, PERF_OURS, "barrier 6\n"));
	ASSERT_OK(perf_table_read(&table, PERF_FLOOR, "barrier 10\n"));
	text = shown(&table, perf_print_json);
	ASSERT(strstr(text, "\"gpu\": \"A \\\"card\\\" \\\\ 1\""));
	ASSERT(strstr(text, "\"ours\": {\"median\": 5, \"spread\": 0.2, \"runs\": [4, 6]}, \"floor\": {\"median\": 10"));
	ASSERT(strstr(text, "\"nvshmem_goal\": 0.5, \"of_floor\": 0.5, \"floor_goal\": 1.05, \"met\": true}"));
	ASSERT(!strstr(text, "},\n  ]"));
}

TEST(a_plot_shows_rates_as_times_and_cuts_long_bars)
{
	struct perf_table table = {.gpu = "A & B <C>", .mode = "two GPUs"};
	_cleanup_free_ char *text = NULL;

	ASSERT_OK(perf_table_read(&table, PERF_OURS, "put_1k 20\nbarrier 30\n"));
	ASSERT_OK(perf_table_read(&table, PERF_NVSHMEM, "put_1k 10\nbarrier 10\n"));
	text = shown(&table, perf_print_svg);
	ASSERT(strstr(text, "A &amp; B &lt;C>"));
	ASSERT(strstr(text, "width=\"125.0\" height=\"11\""));
	ASSERT(strstr(text, ">0.50</text>"));
	ASSERT(strstr(text, "width=\"500.0\" height=\"11\""));
	ASSERT(strstr(text, ">3.00</text>"));
	ASSERT(!strcmp(text + strlen(text) - 7, "</svg>\n"));
}
