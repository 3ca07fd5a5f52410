/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls of a bootstrap, in jobs of many sizes. */
#include "tests/lib/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#include "proto/base/nsec.h"
#include "tests/unit/runtime/bootstrap/job.h"

static uint32_t number_of(int from, int to, int round)
{
	return (uint32_t)(from * 65537 + to * 257 + round);
}

static void gather_once(struct shmd_bootstrap *b, int round, size_t n)
{
	uint32_t *mine = malloc(n * sizeof(*mine)), *all = malloc(n * sizeof(*all) * (size_t)b->size);

	for (size_t i = 0; i < n; i++)
		mine[i] = number_of(b->rank, (int)i, round);
	ASSERT_OK(b->ops->allgather(b, mine, all, n * sizeof(*mine)));
	for (int rank = 0; rank < b->size; rank++)
		for (size_t i = 0; i < n; i++)
			ASSERT_EQ(all[(size_t)rank * n + i], number_of(rank, (int)i, round));
	free(mine);
	free(all);
}

static void exchange_once(struct shmd_bootstrap *b, int round)
{
	uint32_t *to = calloc((unsigned int)b->size, sizeof(*to)), *from = calloc((unsigned int)b->size, sizeof(*from));

	for (int rank = 0; rank < b->size; rank++)
		to[rank] = number_of(b->rank, rank, round);
	ASSERT_OK(b->ops->alltoall(b, to, from, sizeof(*to)));
	for (int rank = 0; rank < b->size; rank++)
		ASSERT_EQ(from[rank], number_of(rank, b->rank, round));
	free(to);
	free(from);
}

static void call_all(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	ASSERT_STREQ(b.ops->name, "uid");
	ASSERT_EQ(b.node_rank, rank);
	ASSERT_EQ(b.node_size, job->size);
	for (int round = 0; round < 5; round++) {
		gather_once(&b, round, 1 + (size_t)round * 7);
		exchange_once(&b, round);
		ASSERT_OK(b.ops->barrier(&b));
		ASSERT_OK(b.ops->allgather(&b, NULL, NULL, 0));
		ASSERT_OK(b.ops->alltoall(&b, NULL, NULL, 0));
	}
	b.ops->close(&b);
}

TEST_TIMEOUT(calls_bring_the_right_bytes_in_jobs_of_1_to_100_ranks, 120)
{
	static const int sizes[] = {1, 2, 3, 8, 9, 10, 16, 33, 74, 100};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct job job;

		job_init(&job, sizes[i], call_all);
		job_run_threads(&job, 0, sizes[i] - 1);
	}
}

static void gather_much(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	gather_once(&b, 1, 300000);
	gather_once(&b, 2, 10);
	b.ops->close(&b);
}

TEST_TIMEOUT(megabytes_go_through_while_each_socket_takes_less, 60)
{
	struct job job;

	job_init(&job, 12, gather_much);
	job_run_threads(&job, 0, 11);
}

static int arrived;

static void wait_at_barrier(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	for (int round = 1; round <= 20; round++) {
		__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
		ASSERT_OK(b.ops->barrier(&b));
		ASSERT_GE(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST), round * job->size);
	}
	b.ops->close(&b);
}

TEST_TIMEOUT(a_barrier_ends_after_all_have_called_it, 60)
{
	struct job job;

	job_init(&job, 11, wait_at_barrier);
	job_run_threads(&job, 0, 10);
}

static void open_two(struct job *job, int rank)
{
	struct job other = *job;
	struct shmd_bootstrap first, second;

	job_must_open(job, rank, &first);
	other.uid = *(const struct shmd_uid *)job->arg;
	other.number = 1;
	job_must_open(&other, rank, &second);
	gather_once(&second, 1, 3);
	gather_once(&first, 2, 3);
	first.ops->close(&first);
	gather_once(&second, 3, 3);
	second.ops->close(&second);
}

TEST_TIMEOUT(two_worlds_of_the_same_ranks_do_not_mix, 60)
{
	struct job job, other;

	job_init(&other, 6, NULL);
	job_init(&job, 6, open_two);
	job.arg = &other.uid;
	job_run_threads(&job, 0, 5);
}

static void run_job(struct job *jobs, int which)
{
	struct job *job = &((struct job *)jobs->arg)[which];

	job_run_threads(job, 0, job->size - 1);
}

TEST_TIMEOUT(two_jobs_at_once_do_not_mix, 60)
{
	struct job jobs[2], both = {.size = 2, .rank = run_job, .arg = jobs};

	job_init(&jobs[0], 9, call_all);
	job_init(&jobs[1], 7, call_all);
	job_run_threads(&both, 0, 1);
}

static void call_differently(struct job *job, int rank)
{
	uint32_t mine = 1, all[4];
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	ASSERT_ERR(rank == 2 ? b.ops->barrier(&b) : b.ops->allgather(&b, &mine, all, sizeof(mine)), EPROTO);
	ASSERT(strstr(shmd_error_text(), "barrier"));
	ASSERT(strstr(shmd_error_text(), "allgather with 4 bytes"));
	ASSERT_ERR(b.ops->barrier(&b), EPROTO);
	b.ops->close(&b);
}

TEST_TIMEOUT(ranks_that_make_different_calls_learn_so, 60)
{
	struct job job;

	job_init(&job, 4, call_differently);
	job_run_threads(&job, 0, 3);
}

static void call_too_much(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	ASSERT_ERR(b.ops->allgather(&b, NULL, NULL, (size_t)1 << 40), EMSGSIZE);
	ASSERT_ERR(b.ops->alltoall(&b, NULL, NULL, SIZE_MAX), EMSGSIZE);
	/* Rank 0 holds the shares of both ranks. */
	ASSERT_ERR(b.ops->alltoall(&b, NULL, NULL, (size_t)1 << 29), EMSGSIZE);
	ASSERT_OK(b.ops->barrier(&b));
	b.ops->close(&b);
}

TEST(sizes_that_no_message_can_have_are_refused_and_harm_nothing)
{
	struct job job;

	job_init(&job, 2, call_too_much);
	job_run_threads(&job, 0, 1);
}

static void leave_at_once(struct job *job, int rank)
{
	struct shmd_bootstrap b;
	int to[40], from[40];

	for (int i = 0; i < job->size; i++)
		to[i] = rank * 100 + i;
	job_must_open(job, rank, &b);
	ASSERT_OK(b.ops->alltoall(&b, to, from, sizeof(*to)));
	b.ops->close(&b);
	for (int i = 0; i < job->size; i++)
		ASSERT_EQ(from[i], i * 100 + rank);
}

TEST_TIMEOUT(a_rank_may_close_as_soon_as_its_call_has_completed, 120)
{
	for (int round = 0; round < 30; round++) {
		struct job job;

		job_init(&job, 40, leave_at_once);
		job_run_threads(&job, 0, 39);
	}
}

#define MIB ((size_t)1 << 20)

static void gather_and_leave(struct job *job, int rank)
{
	char *mine = calloc(1, 16 * MIB), *all = malloc(32 * MIB);
	struct shmd_bootstrap b;

	ASSERT(mine && all);
	memset(mine, 'a' + rank, 16 * MIB);
	job_must_open(job, rank, &b);
	if (!rank) {
		/* Rank 1 has sent its share, and takes nothing for longer than a goodbye lasts. */
		usleep(500000);
		kill(*(pid_t *)job->arg, SIGSTOP);
	}
	ASSERT_OK(b.ops->allgather(&b, mine, all, 16 * MIB));
	b.ops->close(&b);
	for (size_t i = 0; i < 32; i++)
		ASSERT_EQ(all[i * MIB], i < 16 ? 'a' : 'b');
	free(mine);
	free(all);
}

static void *continue_later(void *arg)
{
	usleep(3000000);
	kill(*(pid_t *)arg, SIGCONT);
	return NULL;
}

TEST_WAITS(a_close_does_not_cut_a_result_that_a_neighbour_takes_slowly, 60)
{
	pid_t pids[2];
	pthread_t thread;
	struct job job;

	job_init(&job, 2, gather_and_leave);
	job_fork(&job, pids, 1, 1);
	job.arg = &pids[1];
	ASSERT_EQ(pthread_create(&thread, NULL, continue_later, &pids[1]), 0);
	gather_and_leave(&job, 0);
	pthread_join(thread, NULL);
	job_wait(pids, 1, 1, 0);
}

static void leave_one(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	ASSERT_OK(b.ops->barrier(&b));
	if (rank == 1) {
		b.ops->close(&b);
		return;
	}
	ASSERT_ERR(b.ops->barrier(&b), ESHUTDOWN);
	ASSERT(strstr(shmd_error_text(), "rank 1 has closed"));
	b.ops->close(&b);
}

TEST_TIMEOUT(calls_after_a_rank_has_closed_fail_and_name_it, 60)
{
	for (int round = 0; round < 5; round++) {
		struct job job;

		job_init(&job, 13, leave_one);
		job_run_threads(&job, 0, 12);
	}
}

static void barrier_when_told(struct job *job, int rank)
{
	const int *go = job->arg;
	struct shmd_bootstrap b;
	char byte;

	job_must_open(job, rank, &b);
	ASSERT_EQ(read(go[0], &byte, 1), 1);
	ASSERT_OK(b.ops->barrier(&b));
	b.ops->close(&b);
}

TEST(a_forked_child_has_no_bootstrap)
{
	struct shmd_bootstrap b;
	pid_t pids[2], child;
	struct job job;

	job_init(&job, 2, call_too_much);
	job_fork(&job, pids, 1, 1);
	job_must_open(&job, 0, &b);
	child = fork();
	if (!child) {
		ASSERT_ERR(b.ops->barrier(&b), ECHILD);
		b.ops->close(&b);
		_exit(0);
	}
	ASSERT_OK(b.ops->barrier(&b));
	job_wait(&child, 0, 0, 0);
	b.ops->close(&b);
	job_wait(pids, 1, 1, 0);
}

static void *wait_in_barrier(void *arg)
{
	struct shmd_bootstrap *b = arg;

	ASSERT_OK(b->ops->barrier(b));
	return NULL;
}

TEST_TIMEOUT(a_child_that_is_forked_during_a_call_closes_its_copy, 60)
{
	struct shmd_bootstrap b;
	pid_t pids[2], child;
	pthread_t thread;
	struct job job;
	int go[2];

	ASSERT_OK(pipe(go));
	job_init(&job, 2, barrier_when_told);
	job.arg = go;
	job_fork(&job, pids, 1, 1);
	job_must_open(&job, 0, &b);
	ASSERT_EQ(pthread_create(&thread, NULL, wait_in_barrier, &b), 0);
	usleep(100000);
	child = fork();
	if (!child) {
		b.ops->close(&b);
		_exit(0);
	}
	job_wait(&child, 0, 0, 0);
	ASSERT_EQ(write(go[1], "x", 1), 1);
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	b.ops->close(&b);
	job_wait(pids, 1, 1, 0);
	close(go[0]);
	close(go[1]);
}
