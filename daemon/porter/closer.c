/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, which the first job starts, so that a porter whose clients send plain memory has none. A second one would not help:
 * a client that gets one thread stuck can do the same to the other, and both belong to its uid. Any thread; one lock.
 */
#include "daemon/porter/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/base/thread.h"

#define CLOSER_STACK_BYTES 65536u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct closer_job *first, **last = &first;
static bool is_running, is_busy;

/* Under the lock. */
static struct closer_job *take_first(void)
{
	struct closer_job *job = first;

	first = job->next;
	if (!first)
		last = &first;
	return job;
}

static void *closer(void *arg)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		struct closer_job *job;

		while (!first)
			pthread_cond_wait(&changed, &lock);
		job = take_first();
		is_busy = true;
		pthread_mutex_unlock(&lock);
		job->run(job);
		pthread_mutex_lock(&lock);
		is_busy = false;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

/* Under the lock. */
static bool start(void)
{
	pthread_t thread;

	if (is_running)
		return true;
	if (thread_start(&thread, CLOSER_STACK_BYTES, "closer", closer, NULL) < 0)
		return false;
	pthread_detach(thread);
	is_running = true;
	return true;
}

void closer_run(struct closer_job *job)
{
	bool started;

	pthread_mutex_lock(&lock);
	started = start();
	if (started) {
		job->next = NULL;
		*last = job;
		last = &job->next;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	if (!started)
		job->run(job);
}

void closer_wait(void)
{
	pthread_mutex_lock(&lock);
	while (first || is_busy)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}
