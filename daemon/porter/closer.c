/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread for each kind of job, which the first job starts, so that a porter whose clients send plain memory has none. A second one
 * for the same kind would not help: a client that gets one thread stuck can do the same to the other, and both belong to its uid. Any
 * thread; one lock.
 */
#include "daemon/porter/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/base/thread.h"

#define CLOSER_STACK_BYTES 65536u

struct line {
	struct closer_job *first, *last;
	bool is_running, is_busy;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct line lines[CLOSER_N];

/* Under the lock. */
static struct closer_job *take_first(struct line *line)
{
	struct closer_job *job = line->first;

	line->first = job->next;
	return job;
}

static void *closer(void *arg)
{
	struct line *line = arg;

	pthread_mutex_lock(&lock);
	for (;;) {
		struct closer_job *job;

		while (!line->first)
			pthread_cond_wait(&changed, &lock);
		job = take_first(line);
		line->is_busy = true;
		pthread_mutex_unlock(&lock);
		job->run(job);
		pthread_mutex_lock(&lock);
		line->is_busy = false;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

/* Under the lock. */
static bool start(struct line *line)
{
	pthread_t thread;

	if (line->is_running)
		return true;
	if (thread_start(&thread, CLOSER_STACK_BYTES, "closer", closer, line) < 0)
		return false;
	pthread_detach(thread);
	line->is_running = true;
	return true;
}

/* Under the lock. */
static void append(struct line *line, struct closer_job *job)
{
	job->next = NULL;
	if (line->first)
		line->last->next = job;
	else
		line->first = job;
	line->last = job;
}

void closer_run(enum closer which, struct closer_job *job)
{
	bool started;

	pthread_mutex_lock(&lock);
	started = start(&lines[which]);
	if (started) {
		append(&lines[which], job);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	if (!started)
		job->run(job);
}

void closer_wait(void)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < CLOSER_N; i++)
		while (lines[i].first || lines[i].is_busy)
			pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}
