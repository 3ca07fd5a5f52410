/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of the program: init, finalize, exit, threads.
 *
 * Calls of init are counted; the last finalize closes the world, and a later init opens another one. A program that returns from main or
 * calls exit(0) without finalize is finalized then, as programs of before 1.2 expect; one that ends with another status leaves at once,
 * and the launcher ends the job.
 *
 * shmem_global_exit() is exit() on its PE, with a time limit, and then ends the other PEs. These flush their output and run no exit handlers: their
 * threads are elsewhere in the program.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmd/dev/args.h>

#include "libclient/compat/openshmem/openshmem.h"

/* ---- init */

/* Deprecated names of variables count if the newer ones are not set (section 8). */
static void take_old_variables(void)
{
	static const char *const names[][2] = {
		{"SMA_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_SIZE"},
		{"SMA_VERSION", "SHMEM_VERSION"},
		{"SMA_INFO", "SHMEM_INFO"},
		{"SMA_DEBUG", "SHMEM_DEBUG"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i][0]))
			setenv(names[i][1], getenv(names[i][0]), 0);
}

static int exit_status;

static void note_status(int status, void *unused)
{
	(void)unused;
	exit_status = status;
}

/* A call of shmem_global_exit(), which takes its thread through the exit handlers. */
#define HANDLERS_MSEC 1000

static bool is_ending;
static int end_status;
static pthread_t end_thread;

static void end_all(void)
{
	shmd_world_abort(osh.world, end_status & 0xff ? end_status & 0xff : SHMD_ABORT_SUCCESS, "shmem_global_exit()");
}

static void *end_in_time(void *unused)
{
	(void)unused;
	poll(NULL, 0, HANDLERS_MSEC);
	end_all();
	return NULL;
}

/* Behind all exit handlers and destructors of the program, which may use OpenSHMEM. */
static void __attribute__((destructor)) at_end(void)
{
	if (__atomic_load_n(&is_ending, __ATOMIC_ACQUIRE) && osh.pid == getpid())
		end_all();
	if (!osh.world || osh.pid != getpid() || exit_status)
		return;
	osh.n_inits = 1;
	pshmem_finalize();
}

static int open_world(int threads)
{
	/* A PE may compute for hours while others wait for it, so nothing but the user's own setting limits waits. */
	struct shmd_world_attr attr = {.threads = (enum shmd_thread_level)(threads + 1),
				       .timeout_nsec = getenv("SHMD_TIMEOUT") ? 0 : SHMD_DEV_NO_TIMEOUT};
	struct shmd_world *world = NULL;
	bool is_alone = osh_is_alone();
	int r;

	take_old_variables();
	r = shmd_world_open(&attr, &world);
	if (r)
		return r;
	r = shmd_world_start(world);
	if (r) {
		shmd_world_close(world);
		return r;
	}
	osh.world = world;
	osh.ctx = shmd_world_ctx(world);
	osh.threads = threads;
	osh.pid = getpid();
	osh.world_team = (struct osh_team){.team = shmd_team_world(world)};
	osh.shared_team = (struct osh_team){.team = shmd_team_shared(world)};
	osh_globals_move(is_alone);
	return 0;
}

static int init(int threads)
{
	static bool has_hook;
	int r;

	if (!osh.world) {
		r = open_world(threads);
		if (r)
			return r;
		if (!has_hook)
			has_hook = !on_exit(note_status, NULL);
	}
	osh.n_inits++;
	return 0;
}

static void init_or_end(const char *name, int threads)
{
	if (init(threads)) {
		fprintf(stderr, "%s: %s\n", name, shmd_error_text());
		exit(1);
	}
}

void pshmem_init(void)
{
	init_or_end("shmem_init", SHMEM_THREAD_SINGLE);
}
OSH_WEAK(shmem_init, pshmem_init)

int pshmem_init_thread(int requested, int *provided)
{
	bool is_known = requested >= SHMEM_THREAD_SINGLE && requested <= SHMEM_THREAD_MULTIPLE;

	if (!is_known || init(requested)) {
		fprintf(stderr, "shmem_init_thread: %s\n", is_known ? shmd_error_text() : "an unknown thread level");
		return 1;
	}
	*provided = osh.threads;
	return 0;
}
OSH_WEAK(shmem_init_thread, pshmem_init_thread)

void pstart_pes(int npes)
{
	(void)npes;
	if (osh.has_started_pes)
		return;
	init_or_end("start_pes", SHMEM_THREAD_SINGLE);
	osh.has_started_pes = true;
}
OSH_WEAK(start_pes, pstart_pes)

void pshmem_query_thread(int *provided)
{
	*provided = osh.threads;
}
OSH_WEAK(shmem_query_thread, pshmem_query_thread)

void pshmem_query_initialized(int *initialized)
{
	*initialized = osh.world != NULL;
}
OSH_WEAK(shmem_query_initialized, pshmem_query_initialized)

/* ---- the end */

void pshmem_finalize(void)
{
	int r;

	if (!osh.world || osh.pid != getpid())
		return;
	if (--osh.n_inits > 0) {
		pshmem_barrier_all();
		return;
	}
	osh_check("shmem_finalize", shmd_barrier_all(osh.world));
	osh_sets_drop();
	osh_contexts_drop();
	osh_teams_drop();
	r = shmd_world_close(osh.world);
	osh_globals_return(osh.data_begin, osh.data_end, osh.data_again);
	osh = (struct osh){0};
	if (r)
		fprintf(stderr, "shmem_finalize: %s\n", shmd_error_text());
}
OSH_WEAK(shmem_finalize, pshmem_finalize)

/* The first of several threads ends the process; an exit handler that calls this has no handlers left to wait for. */
static void end_once_more(void)
{
	if (pthread_equal(end_thread, pthread_self()))
		end_all();
	for (;;)
		pause();
}

void pshmem_global_exit(int status)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t watch;

	if (!osh.world)
		exit(status);
	pthread_mutex_lock(&lock);
	if (is_ending) {
		pthread_mutex_unlock(&lock);
		end_once_more();
	}
	end_thread = pthread_self();
	end_status = status;
	__atomic_store_n(&is_ending, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	if (pthread_create(&watch, NULL, end_in_time, NULL))
		end_all();
	exit(status);
}
OSH_WEAK(shmem_global_exit, pshmem_global_exit)

/* ---- PEs */

int pshmem_my_pe(void)
{
	if (!osh.world)
		osh_fail("shmem_my_pe", -1);
	return shmd_my_pe(osh.world);
}
OSH_WEAK(shmem_my_pe, pshmem_my_pe)

int pshmem_n_pes(void)
{
	if (!osh.world)
		osh_fail("shmem_n_pes", -1);
	return shmd_n_pes(osh.world);
}
OSH_WEAK(shmem_n_pes, pshmem_n_pes)
