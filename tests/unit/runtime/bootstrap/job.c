/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/runtime/bootstrap/job.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>

#include "proto/base/nsec.h"
#include "proto/base/thread.h"
#include "tests/lib/test.h"

#define STACK_BYTES (512 << 10)

struct job_thread {
	struct job *job;
	int rank;
	pthread_t thread;
};

void job_init(struct job *job, int size, void (*rank)(struct job *job, int rank))
{
	struct bootstrap_attr attr = {.interface = "=lo"};

	*job = (struct job){.size = size, .rank = rank, .timeout_nsec = test_patience_nsec()};
	ASSERT_OK(bootstrap_uid_make(&attr, &job->uid));
}

static void *run_thread(void *arg)
{
	struct job_thread *thread = arg;

	thread->job->rank(thread->job, thread->rank);
	return NULL;
}

void job_run_threads(struct job *job, int first, int last)
{
	struct job_thread *threads = calloc((size_t)(last - first + 1), sizeof(*threads));

	ASSERT(threads);
	for (int rank = first; rank <= last; rank++) {
		threads[rank - first] = (struct job_thread){.job = job, .rank = rank};
		ASSERT_OK(thread_start(&threads[rank - first].thread, STACK_BYTES, "rank", run_thread, &threads[rank - first]));
	}
	for (int rank = first; rank <= last; rank++)
		pthread_join(threads[rank - first].thread, NULL);
	free(threads);
}

void job_fork(struct job *job, pid_t *pids, int first, int last)
{
	for (int rank = first; rank <= last; rank++) {
		pids[rank] = fork();
		ASSERT_GE(pids[rank], 0);
		if (pids[rank])
			continue;
		job->rank(job, rank);
		_exit(0);
	}
}

void job_wait(const pid_t *pids, int first, int last, int status)
{
	for (int rank = first; rank <= last; rank++) {
		int got;

		ASSERT_EQ(waitpid(pids[rank], &got, 0), pids[rank]);
		ASSERT(WIFEXITED(got));
		ASSERT_EQ(WEXITSTATUS(got), status);
	}
}

int job_open(const struct job *job, int rank, struct shmd_bootstrap *ret, char *text)
{
	struct bootstrap_attr attr = {.module = "uid", .uid = &job->uid, .rank = rank, .size = job->size, .number = job->number,
				      .timeout_nsec = job->timeout_nsec};
	int err = bootstrap_open(&attr, ret);

	if (text)
		snprintf(text, JOB_TEXT_BYTES, "%s", err ? shmd_error_text() : "");
	else if (err)
		printf("rank %d: %s\n", rank, shmd_error_text());
	return err;
}

void job_must_open(const struct job *job, int rank, struct shmd_bootstrap *ret)
{
	ASSERT_OK(job_open(job, rank, ret, NULL));
	ASSERT_EQ(ret->rank, rank);
	ASSERT_EQ(ret->size, job->size);
}
