/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmarks compare a figure of ours with a reference taken in the same run. Runs alternate (ours, reference,
 * ours, ...), medians are compared, and only ratios can fail: absolute goals are printed beside the figures.
 */
#ifndef SHMEMD_BENCH_H
#define SHMEMD_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <shmemclient.h>

#define BENCH_RUNS 7
#define BENCH_MAX_RUNS 41
#define BENCH_WAIT_NSEC 10000000000ull

struct bench_row {
	const char *name;
	const char *unit;
	double (*ours)(void *arg); /* negative: could not be measured */
	double (*reference)(void *arg); /* NULL: an absolute figure, for a goal only */
	const char *reference_name;
	void *arg;
	bool higher_is_better;
	double ratio_limit; /* ours / reference: at most, or at least when higher is better; 0: none */
	double goal; /* absolute, shown only; 0: none */
	double fail_limit; /* absolute time-out, ten times the goal or more; 0: none */
	unsigned int n_runs; /* of each side, odd, at most BENCH_MAX_RUNS; 0: BENCH_RUNS */
};

/*
 * One run of a latency is many short slices, of which the median counts: a slice in which another process had the CPU says
 * nothing about ours. `slice` returns nsec for each operation, or a negative number.
 */
#define BENCH_SLICES 101
double bench_median_slice(double (*slice)(void *arg), void *arg);

/* Measure and print one line. False when the ratio missed its limit or a side could not be measured. */
bool bench_run(const struct bench_row *row);
void bench_header(const char *title);

/* Two connected ends in one process: QP i of a talks to QP i of b. For self-loops a and b are one session. */
struct bench_end {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
};

int bench_end_open(struct bench_end *end, const char *nic, size_t heap_bytes,
		   const struct shmd_queues_attr *attr);
int bench_end_connect(struct bench_end *a, struct bench_end *b, unsigned int n_qps);
void bench_end_close(struct bench_end *end);
/* Print the library's last error and what was tried; returns false. */
bool bench_complain(const char *what);

#endif
