/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of shmemperf: rows, what each run of a side gave, medians and ratios, and the ways to show them. Pure: no clock, no file but the
 * one that a caller gives, no globals that change.
 */
#ifndef SHMEMD_BENCH_PERF_TABLE_H
#define SHMEMD_BENCH_PERF_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#define PERF_MAX_RUNS 41u
#define PERF_MAX_ROWS 32u

enum perf_side {
	PERF_OURS,
	PERF_NVSHMEM,
	PERF_FLOOR,
	PERF_SIDES,
};

/* Ratios are ours to the other side: at most the goal, or at least it where more is better. */
struct perf_row {
	const char *name; /* as the PEs print it */
	const char *title, *unit;
	bool more_is_better;
	double nvshmem_goal, floor_goal; /* 0: none */
};

extern const struct perf_row perf_rows[];
extern const unsigned int perf_n_rows;

struct perf_figures {
	double values[PERF_MAX_RUNS];
	unsigned int n;
};

struct perf_table {
	char gpu[80], mode[80]; /* the card's name, and how the PEs share GPUs */
	bool is_judged; /* the goals are for this mode */
	struct perf_figures figures[PERF_MAX_ROWS][PERF_SIDES];
};

const char *perf_side_name(enum perf_side side);

/*
 * Adds the output of PE 0 of a run: lines "ROW FIGURE" and "# gpu NAME"; it skips empty lines. -EPROTO: another line, a row twice, or a figure that is not
 * positive; -ENOSPC: more than PERF_MAX_RUNS. The table may hold part of a text that is refused.
 */
int perf_table_read(struct perf_table *table, enum perf_side side, const char *text);

/* 0 where there is no figure. */
double perf_median(const struct perf_figures *figures);
/* Half of the distance between the least and the greatest, as part of the median. */
double perf_spread(const struct perf_figures *figures);
/* Ours to the other side's, of medians; 0 where one is missing. */
double perf_ratio(const struct perf_table *table, unsigned int row, enum perf_side side);
/* Ours was measured, and no goal was missed by a ratio that there is. */
bool perf_is_met(const struct perf_table *table, unsigned int row);

/* Markdown. Rows that nobody measured are shown, too. */
void perf_print_table(FILE *out, const struct perf_table *table);
void perf_print_json(FILE *out, const struct perf_table *table);
/* Bars of ours and of the floor as times, NVSHMEM's being 1; without it the floor's is 1. Longer than PERF_SVG_MOST is cut, and says its length. */
#define PERF_SVG_MOST 2.0
void perf_print_svg(FILE *out, const struct perf_table *table);

#endif
