/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/perf/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* Goals are those for two GPUs joined by NVLink; the last five rows are those of queues.cu, by a soft NIC. */
const struct perf_row perf_rows[] = {
	{"p_ping_pong", "p ping-pong, half round trip", "us", false, 0.6, 1.1},
	{"put_signal_8", "put_signal, 8 bytes, half round trip", "us", false, 1, 1.03},
	{"put_signal_1k", "put_signal, 1 KiB, half round trip", "us", false, 1, 1.03},
	{"put_signal_16k", "put_signal, 16 KiB, half round trip", "us", false, 1, 1.03},
	{"put_signal_64k", "put_signal, 64 KiB, half round trip", "us", false, 1, 1.03},
	{"barrier", "barrier, block", "us", false, 0.5, 1.05},
	{"sync", "sync, block", "us", false, 0.35, 0},
	{"sum_8", "sum of 8 floats, block", "us", false, 0.25, 0},
	{"sum_1024", "sum of 1,024 floats, block", "us", false, 0.2, 0},
	{"fetch_add", "fetch-add, one thread", "M/s", true, 1, 0},
	{"put_1k", "put of 1 KiB back to back, 1,024 threads", "GB/s", true, 3, 0},
	{"put_1k_64_threads", "put of 1 KiB back to back, 64 threads", "GB/s", true, 3, 0},
	{"put_64k_1_block", "put of 64 KiB, 1 block", "GB/s", true, 1.2, 0},
	{"put_64k_16_blocks", "put of 64 KiB, 16 blocks", "GB/s", true, 1.8, 0},
	{"put_256m_1_block", "put of 256 MiB, 1 block", "GB/s", true, 1.15, 0},
	{"put_256m_4_blocks", "put of 256 MiB, 4 blocks", "GB/s", true, 1.15, 0},
	{"put_256m_16_blocks", "put of 256 MiB, 16 blocks", "GB/s", true, 1.03, 0},
	{"put_256m_32_blocks", "put of 256 MiB, 32 blocks", "GB/s", true, 1, 0},
	{"alltoall_64k", "alltoall of 64 KiB, block", "us", false, 1 / 1.2, 0},
	{"fcollect_64k", "fcollect of 64 KiB, block", "us", false, 1 / 1.2, 0},
	{"sum_16m", "sum of 16 MiB, block", "us", false, 1 / 1.2, 0},
	{"world_open", "host: open a world", "ms", false, 0.15, 0},
	{"host_barrier", "host: barrier", "us", false, 0.2, 0},
	{"malloc_1m", "host: malloc of 1 MiB", "us", false, 0.3, 0},
	{"queue_issue", "queue: issue of a p, one thread", "us", false, 0, 1.15},
	{"queue_issue_shared", "queue: issue of a p, context of the whole GPU", "us", false, 0, 2},
	{"queue_trip", "queue: p, post to completion", "us", false, 0, 1.2},
	{"queue_rate", "queue: p of 32 lanes, until complete", "M/s", true, 0, 0.85},
	{"agent_put", "queue: p, against a bare agent's round trip", "us", false, 0, 1.5},
};
const unsigned int perf_n_rows = N_ELEMENTS(perf_rows);
_Static_assert(N_ELEMENTS(perf_rows) <= PERF_MAX_ROWS, "a table has room for all rows");

const char *perf_side_name(enum perf_side side)
{
	static const char *const names[] = {"ours", "nvshmem", "floor"};

	return names[side];
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

static int find_row(const char *name, size_t length)
{
	unsigned int i;

	for (i = 0; i < perf_n_rows; i++) {
		if (strlen(perf_rows[i].name) == length && !memcmp(perf_rows[i].name, name, length))
			return (int)i;
	}
	return -EPROTO;
}

static int read_line(struct perf_table *table, enum perf_side side, const char *line, bool *seen)
{
	const char *space = strchr(line, ' ');
	struct perf_figures *figures;
	double value;
	char *end;
	int row;

	if (!strncmp(line, "# gpu ", 6)) {
		snprintf(table->gpu, sizeof(table->gpu), "%.79s", line + 6);
		return 0;
	}
	row = space ? find_row(line, (size_t)(space - line)) : -EPROTO;
	if (row < 0 || seen[row])
		return -EPROTO;
	value = strtod(space + 1, &end);
	if (end == space + 1 || *end || !(value > 0) || value > 1e15)
		return -EPROTO;
	figures = &table->figures[row][side];
	if (figures->n == PERF_MAX_RUNS)
		return -ENOSPC;
	seen[row] = true;
	figures->values[figures->n++] = value;
	return 0;
}

int perf_table_read(struct perf_table *table, enum perf_side side, const char *text)
{
	bool seen[PERF_MAX_ROWS] = {false};
	char line[128];
	size_t length;
	int r = 0;

	while (*text && r >= 0) {
		length = strcspn(text, "\n");
		if (length >= sizeof(line))
			return -EPROTO;
		memcpy(line, text, length);
		line[length] = '\0';
		if (length)
			r = read_line(table, side, line, seen);
		text += length + (text[length] == '\n');
	}
	return r;
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct perf_figures sorted(const struct perf_figures *figures)
{
	struct perf_figures all = *figures;

	qsort(all.values, all.n, sizeof(double), compare);
	return all;
}

double perf_median(const struct perf_figures *figures)
{
	struct perf_figures all = sorted(figures);

	if (!all.n)
		return 0;
	return all.n % 2 ? all.values[all.n / 2] : (all.values[all.n / 2 - 1] + all.values[all.n / 2]) / 2;
}

double perf_spread(const struct perf_figures *figures)
{
	struct perf_figures all = sorted(figures);

	return all.n ? (all.values[all.n - 1] - all.values[0]) / 2 / perf_median(figures) : 0;
}

double perf_ratio(const struct perf_table *table, unsigned int row, enum perf_side side)
{
	double ours = perf_median(&table->figures[row][PERF_OURS]), other = perf_median(&table->figures[row][side]);

	return ours > 0 && other > 0 ? ours / other : 0;
}

static bool holds(const struct perf_row *row, double ratio, double goal)
{
	if (!(ratio > 0) || !(goal > 0))
		return true;
	return row->more_is_better ? ratio >= goal : ratio <= goal;
}

bool perf_is_met(const struct perf_table *table, unsigned int row)
{
	const struct perf_row *info = &perf_rows[row];

	return table->figures[row][PERF_OURS].n && holds(info, perf_ratio(table, row, PERF_NVSHMEM), info->nvshmem_goal) &&
	       holds(info, perf_ratio(table, row, PERF_FLOOR), info->floor_goal);
}
