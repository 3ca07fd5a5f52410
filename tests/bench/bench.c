/* SPDX-License-Identifier: Apache-2.0 */
/* Medians, spread, the printed line, and a connected pair to measure on. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double bench_median_slice(double (*slice)(void *arg), void *arg)
{
	double values[BENCH_SLICES];
	unsigned int i;

	for (i = 0; i < BENCH_SLICES; i++) {
		values[i] = slice(arg);
		if (values[i] < 0)
			return -1;
	}
	qsort(values, BENCH_SLICES, sizeof(double), compare);
	return values[BENCH_SLICES / 2];
}

struct figure {
	double median, spread; /* spread: (max - min) / median */
};

static unsigned int runs_of(const struct bench_row *row)
{
	return row->n_runs ? row->n_runs : BENCH_RUNS;
}

static struct figure summarise(double *values, unsigned int n)
{
	struct figure f;

	qsort(values, n, sizeof(double), compare);
	f.median = values[n / 2];
	f.spread = f.median > 0 ? (values[n - 1] - values[0]) / f.median : 0;
	return f;
}

static bool measure(const struct bench_row *row, double *ours, double *reference)
{
	unsigned int i;

	for (i = 0; i < runs_of(row); i++) {
		ours[i] = row->ours(row->arg);
		reference[i] = row->reference ? row->reference(row->arg) : 0;
		if (ours[i] < 0 || reference[i] < 0) {
			printf("%-28s could not be measured\n", row->name);
			return false;
		}
	}
	return true;
}

static bool within(const struct bench_row *row, double ours, double ratio)
{
	if (row->fail_limit > 0 && ours > row->fail_limit)
		return false;
	if (row->ratio_limit <= 0)
		return true;
	return row->higher_is_better ? ratio >= row->ratio_limit : ratio <= row->ratio_limit;
}

bool bench_run(const struct bench_row *row)
{
	double ours[BENCH_MAX_RUNS], reference[BENCH_MAX_RUNS], ratio;
	struct figure a, b;
	bool good;

	if (!measure(row, ours, reference))
		return false;
	a = summarise(ours, runs_of(row));
	b = summarise(reference, runs_of(row));
	ratio = b.median > 0 ? a.median / b.median : 0;
	good = within(row, a.median, ratio);
	printf("%-28s %12.2f %-8s +-%3.0f%%", row->name, a.median, row->unit, 50 * a.spread);
	if (row->reference)
		printf("  %s %.2f +-%.0f%%  ratio %.2f", row->reference_name, b.median, 50 * b.spread, ratio);
	if (row->ratio_limit > 0)
		printf(" (%s %.2f)", row->higher_is_better ? "at least" : "at most", row->ratio_limit);
	if (row->n_runs)
		printf("  of %u runs", row->n_runs);
	if (row->goal > 0)
		printf("  goal %s %g", row->higher_is_better ? "at least" : "at most", row->goal);
	printf("  %s\n", good ? "ok" : "MISSED");
	fflush(stdout);
	return good;
}

void bench_header(const char *title)
{
	printf("%s: medians of %d alternating runs, +- half the spread\n", title, BENCH_RUNS);
}

bool bench_complain(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, shmd_error_text());
	return false;
}

int bench_end_open(struct bench_end *end, const char *nic, size_t heap_bytes,
		   const struct shmd_queues_attr *attr)
{
	struct shmd_nic_attr nic_attr = {.nic = nic};
	int r;

	memset(end, 0, sizeof(*end));
	r = shmd_client_open(NULL, &end->client);
	if (r >= 0)
		r = shmd_nic_open(end->client, &nic_attr, &end->nic);
	if (r >= 0)
		r = shmd_mem_alloc(end->client, heap_bytes, &end->mem);
	if (r >= 0)
		r = shmd_mr_reg_mem(end->nic, end->mem, SHMD_ACCESS_ALL, &end->mr);
	if (r >= 0)
		r = shmd_queues_create(end->nic, attr, &end->queues);
	if (r < 0)
		bench_complain("open a session");
	return r;
}

static int connect_half(struct bench_end *from, const struct bench_end *to, unsigned int n_qps)
{
	struct shmd_addr *addrs = calloc(n_qps, sizeof(*addrs));
	unsigned int i;
	int r = addrs ? 0 : -1;

	for (i = 0; r >= 0 && i < n_qps; i++)
		r = shmd_queues_addr(to->queues, i, &addrs[i]);
	if (r >= 0)
		r = shmd_queues_connect(from->queues, 0, n_qps, addrs, NULL, NULL);
	free(addrs);
	return r;
}

int bench_end_connect(struct bench_end *a, struct bench_end *b, unsigned int n_qps)
{
	int r = connect_half(a, b, n_qps);

	if (r >= 0 && a != b)
		r = connect_half(b, a, n_qps);
	if (r < 0)
		bench_complain("connect");
	return r;
}

void bench_end_close(struct bench_end *end)
{
	shmd_client_close(end->client);
	memset(end, 0, sizeof(*end));
}
