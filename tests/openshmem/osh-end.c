/* SPDX-License-Identifier: Apache-2.0 */
/*
 * osh-end WAY: init and the ends of a program, section 9.1; osh-end-threads.c has programs with threads. run-programs.py has the status and
 * words of each way.
 */
#include <pshmem.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/openshmem/osh-end.h"
#include "tests/openshmem/osh.h"

static int is_initialized(void)
{
	int answer = -1;

	shmem_query_initialized(&answer);
	return answer;
}

/* 10: a program or a library of its own defines functions anew, and calls those of OpenSHMEM by their other names. */
static int n_puts;

void shmem_long_p(long *dest, long value, int pe)
{
	n_puts++;
	pshmem_long_p(dest, value, pe);
}

/* 9.1.1, 9.1.4, 9.1.5: init and finalize are counted; after the last finalize init begins anew. */
static int twice(void)
{
	CHECK(!is_initialized());
	for (int round = 0; round < 3; round++) {
		long *word;

		shmem_init();
		shmem_init();
		CHECK(is_initialized());
		word = shmem_calloc(1, sizeof(*word));
		shmem_long_p(word, round + 1, next_pe());
		/* Not the last one: a barrier, and nothing is released. */
		shmem_finalize();
		CHECK(is_initialized() && *word == round + 1);
		shmem_finalize();
		if (is_initialized() || n_puts != round + 1)
			return 1;
	}
	return 0;
}

/* 9.1.11, 9.1.12 */
static int info(void)
{
	char name[SHMEM_MAX_NAME_LEN];
	int major = 0, minor = 0;

	shmem_init();
	shmem_info_get_version(&major, &minor);
	shmem_info_get_name(name);
	CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION && major == 1 && minor == 6);
	CHECK(!strcmp(name, SHMEM_VENDOR_STRING) && strlen(name) < SHMEM_MAX_NAME_LEN);
	shmem_pcontrol(1, "ignored");
	shmem_finalize();
	return 0;
}

/* The data of the last PE arrives although nobody waits for it, so exit has waited. */
static void put_last(void)
{
	static long value = 7;
	long *word = shmem_calloc(1, sizeof(*word));

	shmem_long_put_nbi(word, &value, 1, next_pe());
	printf("PE %d of %d\n", shmem_my_pe(), shmem_n_pes());
}

/* 9.1.13: a second call has no effect, and no finalize follows. */
static int old_start(void)
{
	start_pes(0);
	start_pes(0);
	CHECK(is_initialized());
	put_last();
	return 0;
}

/* Annex: implicit finalization. */
static int no_finalize(void)
{
	shmem_init();
	put_last();
	exit(0);
}

/* 9.1.1, 9.1.4: a call of init too many, so that finalize was not the last one. */
static int half_finalize(void)
{
	int provided;

	shmem_init();
	CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
	shmem_finalize();
	put_last();
	return 0;
}

/* 9.1.4: the last finalize waits for all PEs to have entered it, and the program goes on; 9.1.5: then it is not initialised. */
static int after_finalize(void)
{
	long *word;

	shmem_init();
	word = shmem_calloc(1, sizeof(*word));
	if (!shmem_my_pe()) {
		usleep(100000);
		for (int pe = 1; pe < shmem_n_pes(); pe++)
			shmem_long_p(word, 9, pe);
	}
	shmem_finalize();
	if (is_initialized())
		return 1;
	printf("finalized\n");
	return 0;
}

static void use_at_exit(void)
{
	CHECK(is_initialized());
	put_last();
	shmem_barrier_all();
}

/* A handler that was there before init, as destructors of global objects are, still has its PEs. */
static int exit_handler(void)
{
	if (atexit(use_at_exit))
		return 1;
	shmem_init();
	return 0;
}

/* 9.1.6: one PE ends all, whatever they do: here they wait in the library, or never call it. The status is that of the call. */
static int global_exit(int status)
{
	shmem_init();
	if (shmem_my_pe() == shmem_n_pes() - 1) {
		printf("last words");
		shmem_global_exit(status);
	}
	while (shmem_my_pe() == 1)
		pause();
	shmem_barrier_all();
	return 99;
}

/* 9.1.6: output that stdio still has is flushed on all PEs: in a wait of the library, outside of it, with a stream in use. */
static void *read_for_ever(void *unused)
{
	int ends[2];
	FILE *file = pipe(ends) ? NULL : fdopen(ends[0], "r");

	(void)unused;
	if (file)
		(void)fgetc(file);
	return NULL;
}

static int flush_all(void)
{
	pthread_t thread;

	shmem_init();
	if (shmem_my_pe() == 2)
		CHECK(!pthread_create(&thread, NULL, read_for_ever, NULL));
	printf("words of %d", shmem_my_pe());
	shmem_barrier_all();
	if (!shmem_my_pe())
		shmem_global_exit(4);
	while (shmem_my_pe() == 1)
		pause();
	shmem_barrier_all();
	return 99;
}

/* 9.1.6: while a thread of the caller waits for input with its stream locked. */
static int exit_of_reader(void)
{
	pthread_t thread;

	shmem_init();
	CHECK(!pthread_create(&thread, NULL, read_for_ever, NULL));
	printf("words of %d", shmem_my_pe());
	shmem_barrier_all();
	usleep(100000);
	shmem_global_exit(8);
}

/* 9.1.6: several calls, of which one gives the status. */
static int many_exits(void)
{
	shmem_init();
	shmem_barrier_all();
	shmem_global_exit(11 + shmem_my_pe());
}

/* A PE that leaves with a failure does not wait for others. */
static int failure(void)
{
	shmem_init();
	if (!shmem_my_pe())
		exit(5);
	shmem_barrier_all();
	return 0;
}

static int put_to(int pe)
{
	long *word;

	shmem_init();
	word = shmem_calloc(1, sizeof(*word));
	if (!shmem_my_pe())
		shmem_long_p(word, 1, pe);
	shmem_barrier_all();
	return 0;
}

static int bad_pe(void)
{
	return put_to(1000);
}

/* As shmem_team_translate_pe() answers for a PE that is not there. */
static int negative_pe(void)
{
	return put_to(-1);
}

/* 3: data of a thread or of a shared library is not symmetric, nor that of the program if others run another one. */
static long of_program;
static _Thread_local long of_thread;

static int put_into(long *dest)
{
	shmem_init();
	if (!shmem_my_pe())
		shmem_long_p(dest, 1, next_pe());
	shmem_barrier_all();
	return 0;
}

static int into_program(void)
{
	return put_into(&of_program);
}

static int into_thread(void)
{
	return put_into(&of_thread);
}

/* stdout points to data of the C library. */
static int into_library(void)
{
	return put_into((long *)stdout);
}

/* One call of each kind on a set; `word` is used for it alone. */
static void use_set(int start, int size, long *word, long *found)
{
	long sync[SHMEM_BARRIER_SYNC_SIZE] = {SHMEM_SYNC_VALUE};
	int me = shmem_my_pe();

	shmem_long_p(word, 100 + size, start + (me - start + 1) % size);
	shmem_barrier(start, 0, size, sync);
	CHECK(*word == 100 + size);
	shmem_fcollect64(found, word, 1, start, 0, size, sync);
	for (int i = 0; i < size; i++)
		CHECK(found[i] == 100 + size);
	(shmem_sync)(start, 0, size, sync);
}

/* 9.10.2: more active sets than there is room for teams, each of them several times; PEs outside of a set are elsewhere. */
#define ROUNDS 4
static int many_sets(void)
{
	long *words, *found;
	int me, n;

	shmem_init();
	me = shmem_my_pe();
	n = shmem_n_pes();
	words = shmem_calloc((size_t)(ROUNDS * n * n), sizeof(*words));
	found = shmem_calloc((size_t)n, sizeof(*found));
	for (int i = 0; i < ROUNDS * n * n; i++) {
		int start = i / n % n, size = i % n + 1;

		if (start + size <= n && me >= start && me < start + size)
			use_set(start, size, &words[i], found);
	}
	shmem_finalize();
	return 0;
}

static int no_init(void)
{
	return shmem_my_pe();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} ways[] = {{"twice", twice}, {"threads", way_threads}, {"info", info}, {"start-pes", old_start}, {"no-finalize", no_finalize},
		    {"exit-handler", exit_handler}, {"failure", failure}, {"bad-pe", bad_pe}, {"negative-pe", negative_pe}, {"no-init", no_init},
		    {"half-finalize", half_finalize}, {"after-finalize", after_finalize}, {"many-exits", many_exits}, {"flush-all", flush_all},
		    {"exit-of-thread", way_exit_of_thread}, {"exit-of-reader", exit_of_reader}, {"many-sets", many_sets},
		    {"into-program", into_program}, {"into-thread", into_thread}, {"into-library", into_library}, {"no-ptrace", way_no_ptrace}, {"sets-of-threads", way_sets_of_threads}};

	for (size_t i = 0; argc == 2 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, argv[1]))
			return ways[i].run();
	return argc == 3 ? global_exit(atoi(argv[2])) : 98;
}
