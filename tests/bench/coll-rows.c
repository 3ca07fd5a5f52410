/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row lasts as long for a slow library as for a fast one: a few rounds tell PE 0 how many to make. The time ends when all PEs have
 * their data, behind a barrier.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* oshcc has no flags of ours */
#endif
#include "tests/bench/coll-rows.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define N_FIRST 4u
#define N_MAX 50000u
#define ROW_NSEC 5e7

enum { BARRIER, BROADCAST, FCOLLECT, ALLTOALL, SUM };

struct row {
	const char *name;
	int kind;
	size_t bytes;
};

static const struct row all_rows[] = {
	{"barrier", BARRIER, 0},
	{"broadcast_8", BROADCAST, 8},
	{"fcollect_8", FCOLLECT, 8},
	{"alltoall_8", ALLTOALL, 8},
	{"sum_8", SUM, 8},
	{"broadcast_1_mib", BROADCAST, COLL_ROWS_MIB},
	{"fcollect_1_mib", FCOLLECT, COLL_ROWS_MIB},
	{"alltoall_1_mib", ALLTOALL, COLL_ROWS_MIB},
	{"sum_1_mib", SUM, COLL_ROWS_MIB},
};

static double now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void call(const struct coll_rows *rows, const struct row *row)
{
	const struct coll_rows_calls *calls = rows->calls;

	if (row->kind == BARRIER)
		calls->barrier();
	else if (row->kind == BROADCAST)
		calls->broadcast(rows->dest, rows->source, row->bytes);
	else if (row->kind == FCOLLECT)
		calls->fcollect(rows->dest, rows->source, row->bytes);
	else if (row->kind == ALLTOALL)
		calls->alltoall(rows->dest, rows->source, row->bytes);
	else
		calls->sum(rows->dest, rows->source, row->bytes);
}

static double time_of(const struct coll_rows *rows, const struct row *row, uint64_t n_rounds)
{
	double begin;

	rows->calls->barrier();
	begin = now_nsec();
	for (uint64_t i = 0; i < n_rounds; i++)
		call(rows, row);
	rows->calls->barrier();
	return (now_nsec() - begin) / (double)n_rounds;
}

/* The first and the last double of dest; every double of source is the number of its PE and one. */
static void check(const struct coll_rows *rows, const struct row *row)
{
	size_t n = row->bytes / sizeof(double) * (size_t)(row->kind == FCOLLECT || row->kind == ALLTOALL ? rows->n : 1);
	double first = row->kind == SUM ? rows->n * (rows->n + 1) / 2 : 1;
	double last = row->kind == FCOLLECT || row->kind == ALLTOALL ? rows->n : first;

	/* An active set's broadcast leaves dest of the root. */
	if (row->kind == BARRIER || (row->kind == BROADCAST && rows->me == 0) || (row->kind == SUM && rows->sum_is_copy))
		return;
	if (rows->dest[0] != first || rows->dest[n - 1] != last) {
		fprintf(stderr, "coll-rows: %s: PE %d has %g and %g, not %g and %g\n", row->name, rows->me, rows->dest[0], rows->dest[n - 1], first, last);
		exit(1);
	}
}

static void run_row(const struct coll_rows *rows, const struct row *row)
{
	double nsec;
	uint64_t n_rounds;

	(void)time_of(rows, row, N_FIRST);
	check(rows, row);
	nsec = time_of(rows, row, N_FIRST);
	if (rows->me == 0) {
		n_rounds = nsec * N_MAX < ROW_NSEC ? N_MAX : (uint64_t)(ROW_NSEC / nsec);
		rows->calls->tell(rows->n_rounds, n_rounds < N_FIRST ? N_FIRST : n_rounds);
	}
	rows->calls->barrier();
	nsec = time_of(rows, row, *rows->n_rounds);
	if (rows->me == 0)
		printf("%s %.1f\n", row->name, nsec);
}

/* As far apart as can be, and the same for all: launchers bind differently. */
static void bind_to_cpu(int me, int n)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)me * (size_t)sysconf(_SC_NPROCESSORS_ONLN) / (size_t)n, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		perror("coll-rows: sched_setaffinity");
}

void coll_rows_run(const struct coll_rows *rows)
{
	bind_to_cpu(rows->me, rows->n);
	for (size_t i = 0; i < (size_t)rows->n * COLL_ROWS_MIB / sizeof(double); i++) {
		rows->source[i] = rows->me + 1;
		rows->dest[i] = 0;
	}
	for (unsigned int i = 0; i < sizeof(all_rows) / sizeof(all_rows[0]); i++)
		run_row(rows, &all_rows[i]);
	rows->calls->barrier();
}
