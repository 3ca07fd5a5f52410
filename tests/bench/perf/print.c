/* SPDX-License-Identifier: Apache-2.0 */
/* The table as Markdown and as JSON. */
#include "tests/bench/perf/table.h"

#include <string.h>

static void print_figure(FILE *out, const struct perf_figures *figures)
{
	if (figures->n)
		fprintf(out, " %.4g +-%.0f%% |", perf_median(figures), 100 * perf_spread(figures));
	else
		fprintf(out, " - |");
}

static void print_ratio(FILE *out, const struct perf_row *row, double ratio, double goal)
{
	if (ratio > 0)
		fprintf(out, " %.2f", ratio);
	else
		fprintf(out, " -");
	if (goal > 0)
		fprintf(out, " (%s %.2f)", row->more_is_better ? "at least" : "at most", goal);
	fprintf(out, " |");
}

static unsigned int most_runs(const struct perf_table *table)
{
	unsigned int row, side, n = 0;

	for (row = 0; row < perf_n_rows; row++) {
		for (side = 0; side < PERF_SIDES; side++)
			n = table->figures[row][side].n > n ? table->figures[row][side].n : n;
	}
	return n;
}

static const char *verdict(const struct perf_table *table, unsigned int row)
{
	if (!table->figures[row][PERF_OURS].n)
		return "NOT MEASURED";
	if (perf_is_met(table, row))
		return "ok";
	return table->is_judged ? "MISSED" : "behind";
}

void perf_print_table(FILE *out, const struct perf_table *table)
{
	unsigned int row, side;

	fprintf(out, "%s, %s; medians of %u alternating runs, +- half of the spread\n", table->gpu, table->mode, most_runs(table));
	if (!table->is_judged)
		fprintf(out, "Goals are for two GPUs joined by NVLink, and shown only.\n");
	fprintf(out, "\n| | | ours | NVSHMEM | floor | of NVSHMEM | of the floor | |\n|---|---|---|---|---|---|---|---|\n");
	for (row = 0; row < perf_n_rows; row++) {
		fprintf(out, "| %s | %s |", perf_rows[row].title, perf_rows[row].unit);
		for (side = 0; side < PERF_SIDES; side++)
			print_figure(out, &table->figures[row][side]);
		print_ratio(out, &perf_rows[row], perf_ratio(table, row, PERF_NVSHMEM), perf_rows[row].nvshmem_goal);
		print_ratio(out, &perf_rows[row], perf_ratio(table, row, PERF_FLOOR), perf_rows[row].floor_goal);
		fprintf(out, " %s |\n", verdict(table, row));
	}
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------------ */

static void json_text(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', out);
		if ((unsigned char)*text < 0x20)
			fprintf(out, "\\u%04x", (unsigned char)*text);
		else
			putc(*text, out);
	}
	putc('"', out);
}

static void json_figures(FILE *out, enum perf_side side, const struct perf_figures *figures)
{
	unsigned int i;

	fprintf(out, ", \"%s\": {\"median\": %.6g, \"spread\": %.4g, \"runs\": [", perf_side_name(side), perf_median(figures), perf_spread(figures));
	for (i = 0; i < figures->n; i++)
		fprintf(out, "%s%.6g", i ? ", " : "", figures->values[i]);
	fprintf(out, "]}");
}

static void json_ratio(FILE *out, const char *name, double ratio, double goal)
{
	if (ratio > 0)
		fprintf(out, ", \"of_%s\": %.4g", name, ratio);
	if (goal > 0)
		fprintf(out, ", \"%s_goal\": %.4g", name, goal);
}

static void json_row(FILE *out, const struct perf_table *table, unsigned int row)
{
	const struct perf_row *info = &perf_rows[row];
	unsigned int side;

	fprintf(out, "    {\"name\": \"%s\", \"title\": ", info->name);
	json_text(out, info->title);
	fprintf(out, ", \"unit\": \"%s\", \"more_is_better\": %s", info->unit, info->more_is_better ? "true" : "false");
	for (side = 0; side < PERF_SIDES; side++) {
		if (table->figures[row][side].n)
			json_figures(out, side, &table->figures[row][side]);
	}
	json_ratio(out, "nvshmem", perf_ratio(table, row, PERF_NVSHMEM), info->nvshmem_goal);
	json_ratio(out, "floor", perf_ratio(table, row, PERF_FLOOR), info->floor_goal);
	fprintf(out, ", \"met\": %s}%s\n", perf_is_met(table, row) ? "true" : "false", row + 1 < perf_n_rows ? "," : "");
}

void perf_print_json(FILE *out, const struct perf_table *table)
{
	unsigned int row;

	fprintf(out, "{\n  \"gpu\": ");
	json_text(out, table->gpu);
	fprintf(out, ",\n  \"mode\": ");
	json_text(out, table->mode);
	fprintf(out, ",\n  \"judged\": %s,\n  \"rows\": [\n", table->is_judged ? "true" : "false");
	for (row = 0; row < perf_n_rows; row++)
		json_row(out, table, row);
	fprintf(out, "  ]\n}\n");
}
