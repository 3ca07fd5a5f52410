/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same loops of collectives for several libraries and for the floor, so that they can be compared: each program fills the calls and
 * runs the rows; PE 0 prints "NAME NSEC" for each. compare-collectives reads that.
 */
#ifndef SHMEMD_BENCH_COLL_ROWS_H
#define SHMEMD_BENCH_COLL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#define COLL_ROWS_MIB (UINT64_C(1) << 20)

/* Calls end the program when they fail. `bytes` are those of each block, of whole doubles; the root of a broadcast is PE 0. */
struct coll_rows_calls {
	void (*barrier)(void);
	void (*broadcast)(double *dest, const double *source, size_t bytes);
	void (*fcollect)(double *dest, const double *source, size_t bytes);
	void (*alltoall)(double *dest, const double *source, size_t bytes);
	void (*sum)(double *dest, const double *source, size_t bytes);
	/* PE 0 only: the value into the word of each PE. A barrier follows. */
	void (*tell)(uint64_t *word, uint64_t value);
};

/* Symmetric: source and dest have n MiB each, all pages touched. */
struct coll_rows {
	const struct coll_rows_calls *calls;
	double *source, *dest;
	uint64_t *n_rounds;
	int me, n;
	int sum_is_copy; /* its results are none */
};

void coll_rows_run(const struct coll_rows *rows);

#endif
