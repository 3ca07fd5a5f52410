/* SPDX-License-Identifier: Apache-2.0 */
/* The rows by whatever OpenSHMEM its compiler wrapper brings. Below version 1.5 by active sets, whose work arrays are used in turn. */
#include <shmem.h>

#include "tests/bench/coll-rows.h"

#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
#define BROADCAST(dest, source, n) shmem_double_broadcast(SHMEM_TEAM_WORLD, dest, source, n, 0)
#define FCOLLECT(dest, source, n) shmem_double_fcollect(SHMEM_TEAM_WORLD, dest, source, n)
#define ALLTOALL(dest, source, n) shmem_double_alltoall(SHMEM_TEAM_WORLD, dest, source, n)
#define SUM(dest, source, n) shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, n)

static void prepare(void)
{
}
#else
#define N_SYNCS 64
#define SYNC_LONGS (SHMEM_BCAST_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE + SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE)

static long syncs[N_SYNCS][SYNC_LONGS];
static double work[2][COLL_ROWS_MIB / sizeof(double) + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static unsigned int n_calls;

/* No array is in use when its turn comes: all PEs meet in between. */
static long *sync_of_call(void)
{
	if (++n_calls % N_SYNCS == 0)
		shmem_barrier_all();
	return syncs[n_calls % N_SYNCS];
}

static void prepare(void)
{
	for (int i = 0; i < N_SYNCS; i++)
		for (int j = 0; j < SYNC_LONGS; j++)
			syncs[i][j] = SHMEM_SYNC_VALUE;
}

#define BROADCAST(dest, source, n) shmem_broadcast64(dest, source, n, 0, 0, 0, shmem_n_pes(), sync_of_call())
#define FCOLLECT(dest, source, n) shmem_fcollect64(dest, source, n, 0, 0, shmem_n_pes(), sync_of_call())
#define ALLTOALL(dest, source, n) shmem_alltoall64(dest, source, n, 0, 0, shmem_n_pes(), sync_of_call())
#define SUM(dest, source, n) shmem_double_sum_to_all(dest, (double *)source, (int)(n), 0, 0, shmem_n_pes(), work[n_calls % 2], sync_of_call())
#endif

static void broadcast(double *dest, const double *source, size_t bytes)
{
	BROADCAST(dest, source, bytes / sizeof(double));
}

static void fcollect(double *dest, const double *source, size_t bytes)
{
	FCOLLECT(dest, source, bytes / sizeof(double));
}

static void alltoall(double *dest, const double *source, size_t bytes)
{
	ALLTOALL(dest, source, bytes / sizeof(double));
}

static void sum(double *dest, const double *source, size_t bytes)
{
	SUM(dest, source, bytes / sizeof(double));
}

static void tell(uint64_t *word, uint64_t value)
{
	for (int pe = 0; pe < shmem_n_pes(); pe++)
		shmem_uint64_p(word, value, pe);
}

int main(void)
{
	const struct coll_rows_calls calls = {shmem_barrier_all, broadcast, fcollect, alltoall, sum, tell};
	struct coll_rows rows = {.calls = &calls};
	size_t bytes;

	shmem_init();
	rows.me = shmem_my_pe();
	rows.n = shmem_n_pes();
	bytes = (size_t)rows.n * COLL_ROWS_MIB;
	rows.source = shmem_malloc(bytes);
	rows.dest = shmem_malloc(bytes);
	rows.n_rounds = shmem_calloc(1, sizeof(*rows.n_rounds));
	prepare();
	shmem_barrier_all();
	if (rows.source && rows.dest && rows.n_rounds)
		coll_rows_run(&rows);
	shmem_finalize();
	return 0;
}
