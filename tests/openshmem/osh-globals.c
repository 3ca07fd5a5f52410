/* SPDX-License-Identifier: Apache-2.0 */
/* Section 3: global and static data of the program is symmetric, initialised or not, wherever the executable lies. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/openshmem/osh.h"

long initialised = 41;
static long zero;
static int array[5000] = {1, 2, 3};
static char large[3 << 20];
static char huge[256 << 20]; /* never touched */
static char large_initialised[1 << 20] = {7}; /* in a segment of its own with -mcmodel=medium */
long lock;
uint64_t signal_word;
const long constant = 5;
static _Thread_local long of_thread;

static void try_puts(void)
{
	static long in_function = 7;

	CHECK(initialised == 41 && zero == 0 && in_function == 7 && array[2] == 3 && array[4999] == 0 && large[sizeof(large) - 1] == 0);
	shmem_barrier_all();
	shmem_long_p(&initialised, shmem_my_pe(), next_pe());
	shmem_long_put(&zero, &constant, 1, next_pe());
	shmem_long_atomic_add(&in_function, 3, next_pe());
	array[0] = 100 + shmem_my_pe();
	shmem_int_put(&array[4990], array, 3, next_pe());
	shmem_putmem(&large[sizeof(large) - 6], "hello", 6, next_pe());
	shmem_char_p(&large_initialised[1 << 19], 9, next_pe());
	shmem_barrier_all();
	CHECK(initialised == previous_pe() && zero == 5 && in_function == 10);
	CHECK(array[4990] == 100 + previous_pe() && array[4992] == 3 && !strcmp(&large[sizeof(large) - 6], "hello"));
	CHECK(large_initialised[0] == 7 && large_initialised[1 << 19] == 9);
	CHECK(shmem_long_g(&initialised, next_pe()) == shmem_my_pe());
	shmem_barrier_all();
	initialised = 41;
	zero = 0;
	in_function = 7;
	memset(&array[4990], 0, 3 * sizeof(array[0]));
	memset(&large[sizeof(large) - 6], 0, 6);
	shmem_barrier_all();
}

static void try_signals_and_locks(void)
{
	static long counter;

	shmem_long_put_signal(&zero, &constant, 1, &signal_word, 9, SHMEM_SIGNAL_SET, next_pe());
	CHECK(shmem_signal_wait_until(&signal_word, SHMEM_CMP_EQ, 9) == 9 && zero == 5);
	for (int i = 0; i < 50; i++) {
		shmem_set_lock(&lock);
		shmem_long_p(&counter, shmem_long_g(&counter, 0) + 1, 0);
		shmem_clear_lock(&lock);
	}
	shmem_barrier_all();
	CHECK(shmem_long_g(&counter, 0) == 50L * shmem_n_pes());
	shmem_barrier_all();
	counter = zero = 0;
	signal_word = 0;
	shmem_barrier_all();
}

/* 9.1.8, 9.1.9 */
static void try_addresses(void)
{
	long on_stack = 0, *seen = shmem_ptr(&zero, next_pe());

	CHECK(shmem_addr_accessible(&zero, next_pe()) == 1 && shmem_addr_accessible(&large[sizeof(large) - 1], 0) == 1);
	CHECK(shmem_addr_accessible(&on_stack, 0) == 0 && shmem_addr_accessible(&of_thread, 0) == 0);
	CHECK(shmem_ptr(&zero, shmem_my_pe()) == &zero);
	shmem_barrier_all();
	if (seen)
		*seen = 77;
	shmem_barrier_all();
	CHECK(zero == (seen ? 77 : 0));
	zero = 0;
}

/* The program's own handlers, which are there before init, as a library has them that holds its lock over a fork. */
static int is_held;

static void hold(void)
{
	is_held = 1;
}

static void let_go(void)
{
	is_held = 0;
}

/* A child that is forked has data of its own: what it was at the fork, whatever the parent writes while the child starts. */
static void try_fork(void)
{
	int status = -1;
	pid_t child;

	memset(large, 1, sizeof(large));
	zero = 1;
	child = fork();
	if (!child)
		_exit(zero == 1 && !is_held && large[sizeof(large) - 1] == 1 ? (zero = 2, 0) : 1);
	zero = 3;
	large[sizeof(large) - 1] = 3;
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0 && zero == 3 && is_held);
	zero = 0;
	memset(large, 0, sizeof(large));
}

static long resident_mib(void)
{
	long pages = 0, resident = -1;
	FILE *file = fopen("/proc/self/statm", "re");

	CHECK(file && fscanf(file, "%ld %ld", &pages, &resident) == 2);
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) >> 10) >> 10;
}

/* The copy for a child, too, leaves pages of zeros without memory. */
static void try_untouched_data(void)
{
	CHECK(shmem_addr_accessible(&huge[sizeof(huge) - 1], next_pe()) == 1);
#ifndef __SANITIZE_THREAD__
	CHECK(resident_mib() < 128);
#endif
}

/* ---- threads that are there before init, or still there in finalize, and that use data meanwhile */

#define N_WRITERS 4

struct writer {
	pthread_t thread;
	uint64_t n_made; /* on the stack of main, which does not move */
	bool blocks_signals;
};
static uint64_t counters[N_WRITERS][512]; /* in pages of their own */
static uint64_t n_locked;
static pthread_mutex_t counters_lock = PTHREAD_MUTEX_INITIALIZER;
static int is_over;

static void write_once(int i, uint64_t n)
{
	for (int j = 0; j < 512; j++)
		__atomic_store_n(&counters[i][j], n, __ATOMIC_RELAXED);
	if (pthread_mutex_lock(&counters_lock))
		abort();
	n_locked++;
	pthread_mutex_unlock(&counters_lock);
	if (n % 64 == 0)
		usleep(1);
}

static void *write_data(void *arg)
{
	struct writer *writer = arg;
	int i = (int)(intptr_t)writer->n_made;
	sigset_t all;

	sigfillset(&all);
	if (writer->blocks_signals)
		pthread_sigmask(SIG_SETMASK, &all, NULL);
	writer->n_made = 0;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		write_once(i, ++writer->n_made);
	return NULL;
}

static int start_writers(struct writer *writers)
{
	is_over = 0;
	n_locked = 0;
	for (int i = 0; i < N_WRITERS; i++) {
		writers[i] = (struct writer){.n_made = (uint64_t)i, .blocks_signals = i % 2};
		if (pthread_create(&writers[i].thread, NULL, write_data, &writers[i]))
			return 1;
	}
	/* All are at it. */
	usleep(2000);
	return 0;
}

/* Not one write was lost. */
static int end_writers(struct writer *writers)
{
	uint64_t n = 0, n_lost = 0;

	usleep(2000);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < N_WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		n += writers[i].n_made;
		for (int j = 0; j < 512; j++)
			n_lost += counters[i][j] != writers[i].n_made;
	}
	if (n_lost || n_locked != n)
		fprintf(stderr, "%lu words have an older value, %ld of %lu counts are lost\n", (unsigned long)n_lost, (long)(n - n_locked),
			(unsigned long)n);
	return n_lost || n_locked != n;
}

static int begin_with_writers(void)
{
	struct writer writers[N_WRITERS];

	if (start_writers(writers))
		return 1;
	shmem_init();
	return end_writers(writers);
}

static int end_with_writers(void)
{
	struct writer writers[N_WRITERS];

	if (start_writers(writers))
		return 1;
	shmem_finalize();
	return end_writers(writers);
}

int main(void)
{
	if (pthread_atfork(hold, NULL, let_go))
		return 1;
	for (int round = 0; round < 3; round++) {
		if (round != 1)
			shmem_init();
		else if (begin_with_writers())
			return 2;
#ifdef __SANITIZE_ADDRESS__
		CHECK(shmem_addr_accessible(&zero, 0) == 0);
		return 77;
#endif
		try_puts();
		try_signals_and_locks();
		try_addresses();
		try_fork();
		try_untouched_data();
		if (round != 1)
			shmem_finalize();
		else if (end_with_writers())
			return 3;
	}
	return 0;
}
