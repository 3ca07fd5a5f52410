/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds as their PEs see them: processes that find each other by a unique id open and start a world, allocate, and close it. A time is
 * that from the first PE's begin to the last PE's end.
 *
 *	bench-world [PES...]	worlds of these sizes; without it 2, 8 and 256
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd.h>

#include "proto/base/nsec.h"
#include "tests/bench/bench.h"

#define MAX_PES 1024
#define MIB ((size_t)1 << 20)
#define N_ALLOCATIONS 20

struct span {
	uint64_t start, end;
};

/* Shared by the processes of a world. */
struct meeting {
	pthread_barrier_t barrier;
	struct shmd_uid uid;
	atomic_bool has_uid, has_failed;
	struct span open[MAX_PES], allocate[MAX_PES], close[MAX_PES];
};

/* A row measures one of its spans. */
struct scene {
	struct meeting *meeting;
	int n_pes;
	uint32_t paths;
	size_t span; /* offset of the spans in the meeting */
	double divisor; /* nsec of its unit, times what a span counts */
};

/* ---- one PE ------------------------------------------------------------------------------------------------------------------ */

static bool open_world(struct meeting *m, const struct scene *scene, int rank, struct shmd_world **ret_world)
{
	struct shmd_world_attr attr = {.uid = &m->uid, .rank = rank, .size = scene->n_pes, .paths = scene->paths};

	if (rank == 0) {
		if (shmd_uid_make(&m->uid) < 0)
			return false;
		atomic_store(&m->has_uid, true);
	}
	while (!atomic_load(&m->has_uid))
		usleep(50);
	return shmd_world_open(&attr, ret_world) == 0 && shmd_world_start(*ret_world) == 0;
}

static bool allocate(struct shmd_world *world)
{
	void *memory[N_ALLOCATIONS];

	for (int i = 0; i < N_ALLOCATIONS; i++)
		if (shmd_malloc(world, MIB, 0, &memory[i]) < 0)
			return false;
	return true;
}

static bool run_pe(struct meeting *m, const struct scene *scene, int rank)
{
	struct shmd_world *world = NULL;
	bool good;

	pthread_barrier_wait(&m->barrier);
	m->open[rank].start = nsec_now();
	good = open_world(m, scene, rank, &world);
	m->open[rank].end = nsec_now();
	/* Not timed: a failure that others would wait for shows by their time limit. */
	good = good && shmd_barrier_all(world) == 0;
	m->allocate[rank].start = nsec_now();
	good = good && allocate(world);
	m->allocate[rank].end = nsec_now();
	pthread_barrier_wait(&m->barrier);
	m->close[rank].start = nsec_now();
	good = good && shmd_world_close(world) == 0;
	m->close[rank].end = nsec_now();
	return good;
}

static _Noreturn void pe_main(struct meeting *m, const struct scene *scene, int rank)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!run_pe(m, scene, rank)) {
		if (!atomic_exchange(&m->has_failed, true))
			fprintf(stderr, "bench-world: PE %d: %s\n", rank, shmd_error_text());
		_exit(1);
	}
	_exit(0);
}

/* ---- a world ----------------------------------------------------------------------------------------------------------------- */

static double longest(const struct span *spans, int n)
{
	struct span all = spans[0];

	for (int i = 1; i < n; i++) {
		all.start = spans[i].start < all.start ? spans[i].start : all.start;
		all.end = spans[i].end > all.end ? spans[i].end : all.end;
	}
	return (double)(all.end - all.start);
}

static void prepare(struct meeting *m, int n_pes)
{
	pthread_barrierattr_t attr;

	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&m->barrier, &attr, (unsigned int)n_pes);
	pthread_barrierattr_destroy(&attr);
	atomic_store(&m->has_uid, false);
	atomic_store(&m->has_failed, false);
}

static double world_run(void *arg)
{
	struct scene *scene = arg;
	struct meeting *m = scene->meeting;
	bool good = true;
	int status;

	prepare(m, scene->n_pes);
	fflush(NULL);
	for (int i = 0; i < scene->n_pes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			abort(); /* the others die with this process */
		if (pid == 0)
			pe_main(m, scene, i);
	}
	for (int i = 0; i < scene->n_pes; i++)
		good = wait(&status) >= 0 && status == 0 && good;
	pthread_barrier_destroy(&m->barrier);
	return good ? longest((const struct span *)((const char *)m + scene->span), scene->n_pes) / scene->divisor : -1;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static bool row(const char *name, const char *unit, struct scene *scene, double goal)
{
	return bench_run(&(struct bench_row){.name = name, .unit = unit, .ours = world_run, .arg = scene, .goal = goal,
					     .fail_limit = 10 * goal});
}

static bool rows_of(struct meeting *m, int n_pes, uint32_t paths)
{
	struct scene open = {.meeting = m, .n_pes = n_pes, .paths = paths, .span = offsetof(struct meeting, open), .divisor = 1e6};
	struct scene close = open, allocate = open;
	const char *by = paths ? ", by queues" : "";
	char name[64];
	bool good;

	close.span = offsetof(struct meeting, close);
	allocate.span = offsetof(struct meeting, allocate);
	allocate.divisor = 1e3 * N_ALLOCATIONS;
	snprintf(name, sizeof(name), "open, %d PEs%s", n_pes, by);
	good = row(name, "ms", &open, paths ? 0 : n_pes <= 16 ? 50 : 2000);
	snprintf(name, sizeof(name), "malloc 1 MiB, %d PEs%s", n_pes, by);
	good = row(name, "us", &allocate, n_pes == 2 && !paths ? 20 : 0) && good;
	snprintf(name, sizeof(name), "close, %d PEs%s", n_pes, by);
	return row(name, "ms", &close, paths || n_pes > 16 ? 0 : 20) && good;
}

int main(int argc, char **argv)
{
	struct meeting *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool good = true;

	if (m == MAP_FAILED)
		abort();
	bench_header("worlds");
	for (int i = 1; i < argc; i++) {
		int n = atoi(argv[i]);

		if (n < 1 || n > MAX_PES) {
			fprintf(stderr, "bench-world: a world has 1 to %d PEs, not %s\n", MAX_PES, argv[i]);
			return 2;
		}
		good = rows_of(m, n, 0) && good;
	}
	if (argc > 1)
		return good ? 0 : 1;
	good = rows_of(m, 2, 0) && good;
	good = rows_of(m, 8, 0) && good;
	good = rows_of(m, 8, SHMD_ALLOW_QUEUE) && good;
	good = rows_of(m, 256, 0) && good;
	return good ? 0 : 1;
}
