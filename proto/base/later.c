/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of work for one thread, which comes with the first item and goes with the last.
 *
 * For giving memory back: the kernel takes half a second for each GiB, in which a caller with clients would serve none.
 * Nothing in it may block. In the order given. Any thread; one lock.
 */
#include "proto/base/later.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/base/thread.h"

#define LATER_STACK_BYTES 65536u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* those below */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /* the thread has gone */
static struct later *first, **end = &first;
static unsigned int n_waiting;
static bool is_running;

static struct later *take_first(void)
{
	struct later *item = first;

	if (!item)
		return NULL;
	first = item->next;
	if (!first)
		end = &first;
	n_waiting--;
	return item;
}

static void *worker(void *arg)
{
	struct later *item;

	pthread_mutex_lock(&lock);
	while ((item = take_first())) {
		pthread_mutex_unlock(&lock);
		item->fn(item);
		pthread_mutex_lock(&lock);
	}
	is_running = false;
	pthread_cond_broadcast(&idle);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Under the lock. */
static int start_worker(void)
{
	pthread_t thread;
	int r;

	if (is_running)
		return 0;
	r = thread_start(&thread, LATER_STACK_BYTES, NULL, worker, NULL);
	if (r < 0)
		return r;
	is_running = true;
	pthread_detach(thread);
	return 0;
}

int later_run(struct later *item)
{
	int r;

	pthread_mutex_lock(&lock);
	r = n_waiting < LATER_MAX ? start_worker() : -ENOBUFS;
	if (r == 0) {
		item->next = NULL;
		*end = item;
		end = &item->next;
		n_waiting++;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void later_wait(void)
{
	pthread_mutex_lock(&lock);
	while (is_running)
		pthread_cond_wait(&idle, &lock);
	pthread_mutex_unlock(&lock);
}
