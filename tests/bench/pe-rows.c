/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* oshcc has no flags of ours */
#endif
#include "tests/bench/pe-rows.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_ROUND_TRIPS 20000u
#define N_ADDS 50000u
#define N_COPIES 300u
#define N_BARRIERS 20000u

static double now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void row(int me, const char *name, double nsec)
{
	if (me == 0)
		printf("%s %.1f\n", name, nsec);
}

static void send_p(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, uint64_t i, int to)
{
	calls->p(&memory->word, i, to);
}

static void send_signal(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, uint64_t i, int to)
{
	calls->put_signal(&memory->data, &i, sizeof(i), &memory->signal, i, to);
}

/* Half of a round trip. */
static double one_way(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, int me, uint64_t *word,
		      void (*send)(const struct pe_rows_calls *, struct pe_rows_memory *, uint64_t, int))
{
	double begin;

	calls->barrier();
	begin = now_nsec();
	for (uint64_t i = 1; i <= N_ROUND_TRIPS; i++) {
		if (me)
			calls->wait_equal(word, i);
		send(calls, memory, i, 1 - me);
		if (!me)
			calls->wait_equal(word, i);
	}
	return (now_nsec() - begin) / N_ROUND_TRIPS / 2;
}

static double adds(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, int me)
{
	double begin = now_nsec();

	for (uint32_t i = 0; i < N_ADDS && me == 0; i++)
		calls->fetch_add(&memory->counter, 1, 1);
	return (now_nsec() - begin) / N_ADDS;
}

static double copies(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, int me)
{
	double begin = now_nsec();

	for (uint32_t i = 0; i < N_COPIES && me == 0; i++) {
		calls->put(memory->dest, memory->source, PE_ROWS_BYTES, 1);
		calls->quiet();
	}
	return (now_nsec() - begin) / N_COPIES;
}

static double words(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, int me)
{
	double begin = now_nsec();

	for (uint64_t i = 0; i < N_ADDS && me == 0; i++) {
		calls->put(&memory->data, &i, sizeof(i), 1);
		calls->quiet();
	}
	return (now_nsec() - begin) / N_ADDS;
}

static double barriers(const struct pe_rows_calls *calls)
{
	double begin = now_nsec();

	for (uint32_t i = 0; i < N_BARRIERS; i++)
		calls->barrier();
	return (now_nsec() - begin) / N_BARRIERS;
}

/* Half of the CPUs apart. Launchers bind differently, and two threads of one core exchange words ten times as fast as two cores. */
static void bind_to_cpu(int me)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)me * (size_t)sysconf(_SC_NPROCESSORS_ONLN) / 2, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		perror("pe-rows: sched_setaffinity");
}

void pe_rows_run(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, int me)
{
	bind_to_cpu(me);
	memset(memory->source, 1 + me, sizeof(memory->source));
	row(me, "p", one_way(calls, memory, me, &memory->word, send_p));
	row(me, "put_signal", one_way(calls, memory, me, &memory->signal, send_signal));
	calls->barrier();
	row(me, "fetch_add", adds(calls, memory, me));
	calls->barrier();
	row(me, "put_8", words(calls, memory, me));
	calls->barrier();
	/* Once before, so that the pages are there. */
	copies(calls, memory, me);
	row(me, "put_1_mib", copies(calls, memory, me));
	calls->barrier();
	row(me, "barrier", barriers(calls));
	calls->barrier();
}
