/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed number of threads over two lists: what is to be run, and what is to be done on the control thread.
 *
 * No session, no NIC and no watch of the daemon's own (node-watch, nic-hotplug, ctx-pool) has more than one work here, so
 * the first list is never longer than all of them together. A uid or tenant with many sessions gets no more than others: next is
 * the work of whoever has the fewest under way, and one thread is left to those who have none. Users with equally many take
 * turns, and the works of one user stay in their order. Works stay their
 * owners'; nothing is allocated for them. Signals are the control thread's.
 */
#include "daemon/workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define DONE_PER_TURN 64
#define STACK_BYTES (1u << 20)

struct worker {
	struct workers *workers;
	pthread_t thread;
	bool is_busy; /* under the lock, as the next */
	const void *users[WORK_USERS]; /* of what it is at */
};

struct workers {
	pthread_mutex_t lock; /* of the next three, and what workers are at */
	struct list todo; /* struct work.link */
	struct list ready; /* have run */
	bool stop;
	pthread_cond_t wake; /* something is to be done, or may be now */
	unsigned int n_under_way; /* control thread: submitted and not done */
	int ready_fd; /* owned eventfd: readable while something is ready */
	struct loop_watch *watch;
	void (*activity)(void *arg);
	void *activity_arg;
	unsigned int n_threads;
	unsigned int most_of_user; /* at a time */
	struct worker threads[];
};

DEFINE_CLEANUP(struct workers *, workers_free);

static void ring(const struct workers *workers)
{
	uint64_t one = 1;

	if (write(workers->ready_fd, &one, sizeof(one)) < 0)
		assert_bug(errno == EAGAIN);
}

static struct work *take_first(struct list *list)
{
	struct work *work = list_empty(list) ? NULL : list_first_entry(list, struct work, link);

	if (work)
		list_del(&work->link);
	return work;
}

/* The first one counts even if it is NULL: it is the daemon. */
static bool is_same_user(const void *const a[WORK_USERS], const void *const b[WORK_USERS], unsigned int which)
{
	return a[which] == b[which] && (which == 0 || a[which]);
}

/* Of its uid or of its tenant, whichever has more. */
static unsigned int count_of_users(const struct workers *workers, const struct work *work)
{
	unsigned int most = 0;

	for (unsigned int which = 0; which < WORK_USERS; which++) {
		unsigned int n = 0;

		for (unsigned int i = 0; i < workers->n_threads; i++)
			n += workers->threads[i].is_busy &&
			     is_same_user(workers->threads[i].users, work->users, which);
		most = n > most ? n : most;
	}
	return most;
}

static bool is_of_a_user_of(const struct work *work, const struct work *other)
{
	for (unsigned int which = 0; which < WORK_USERS; which++)
		if (is_same_user(work->users, other->users, which))
			return true;
	return false;
}

/* Works of the same users come after those of all others. */
static void put_behind(struct workers *workers, const struct work *taken)
{
	struct work *work, *tmp;
	struct list same;

	list_init(&same);
	list_for_each_entry_safe(work, tmp, &workers->todo, link)
		if (is_of_a_user_of(work, taken)) {
			list_del(&work->link);
			list_add_tail(&same, &work->link);
		}
	list_splice_tail(&workers->todo, &same);
}

/* NULL: there is none, or only of users who have enough under way. */
static struct work *take_fairest(struct workers *workers)
{
	unsigned int fewest = workers->most_of_user;
	struct work *work, *best = NULL;

	list_for_each_entry(work, &workers->todo, link) {
		unsigned int n = count_of_users(workers, work);

		if (n >= fewest)
			continue;
		best = work;
		fewest = n;
		if (n == 0)
			break;
	}
	if (!best)
		return NULL;
	list_del(&best->link);
	put_behind(workers, best);
	return best;
}

static void carry_out(struct worker *self, struct work *work)
{
	struct workers *workers = self->workers;

	self->is_busy = true;
	memcpy(self->users, work->users, sizeof(self->users));
	pthread_mutex_unlock(&workers->lock);
	work->run(work);
	pthread_mutex_lock(&workers->lock);
	self->is_busy = false;
	list_add_tail(&workers->ready, &work->link);
	ring(workers);
	/* One work may have waited for its uid and one for its tenant: this thread takes one of them. */
	if (!list_empty(&workers->todo))
		pthread_cond_signal(&workers->wake);
}

static void *run_thread(void *arg)
{
	struct worker *self = arg;
	struct workers *workers = self->workers;
	struct work *work;

	prctl(PR_SET_NAME, "shmd-worker");
	pthread_mutex_lock(&workers->lock);
	while (!workers->stop) {
		work = take_fairest(workers);
		if (work)
			carry_out(self, work);
		else
			pthread_cond_wait(&workers->wake, &workers->lock);
	}
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

/* ---- control thread ---------------------------------------------------------------------------------------------- */

void workers_submit(struct workers *workers, struct work *work)
{
	workers->n_under_way++;
	pthread_mutex_lock(&workers->lock);
	list_add_tail(&workers->todo, &work->link);
	pthread_cond_signal(&workers->wake);
	pthread_mutex_unlock(&workers->lock);
}

static struct work *take_ready(struct workers *workers)
{
	struct work *work;

	pthread_mutex_lock(&workers->lock);
	work = take_first(&workers->ready);
	pthread_mutex_unlock(&workers->lock);
	return work;
}

static void on_ready(void *arg, unsigned int events)
{
	struct workers *workers = arg;
	struct work *work = NULL;
	uint64_t count;
	int i;

	if (read(workers->ready_fd, &count, sizeof(count)) < 0)
		return;
	for (i = 0; i < DONE_PER_TURN && (work = take_ready(workers)); i++) {
		workers->n_under_way--;
		work->done(work);
	}
	if (work)
		ring(workers);
	workers->activity(workers->activity_arg);
}

int workers_finish(struct workers *workers, uint64_t patience_nsec, uint64_t most_nsec)
{
	struct pollfd pfd = {.fd = workers->ready_fd, .events = POLLIN};
	uint64_t now = nsec_now(), last = nsec_add(now, most_nsec), until = nsec_add(now, patience_nsec);

	while (workers->n_under_way > 0) {
		uint64_t end = until < last ? until : last;

		/* Rounded up: not a busy loop at the end. What is ready by then counts, however late it is seen. */
		if (poll(&pfd, 1, end > now ? (int)((end - now) / NSEC_PER_MSEC) + 1 : 0) == 1) {
			on_ready(workers, LOOP_READ);
			until = nsec_add(nsec_now(), patience_nsec);
		} else if (now >= end) {
			return now >= last ? -ETIME : -ETIMEDOUT;
		}
		now = nsec_now();
		if (workers->n_under_way > 0 && now >= last)
			return -ETIME;
	}
	return 0;
}

/* ---- birth and death ---------------------------------------------------------------------------------------------- */

static int start_thread(struct workers *workers)
{
	struct worker *worker = &workers->threads[workers->n_threads];
	int r;

	worker->workers = workers;
	/* Counted first: it may look at all of them at once. */
	pthread_mutex_lock(&workers->lock);
	workers->n_threads++;
	r = thread_start(&worker->thread, STACK_BYTES, NULL, run_thread, worker);
	workers->n_threads -= r < 0;
	pthread_mutex_unlock(&workers->lock);
	return r;
}

static int start_threads(struct workers *workers, unsigned int n)
{
	int r = 0;

	while (r == 0 && workers->n_threads < n)
		r = start_thread(workers);
	return r;
}

int workers_new(const struct workers_attr *attr, struct workers **ret_workers)
{
	/* bounded: a setting. */
	_cleanup_(workers_freep) struct workers *workers =
		calloc(1, sizeof(*workers) + attr->n_threads * sizeof(workers->threads[0]));
	int r;

	if (!workers)
		return -ENOMEM;
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->wake, NULL);
	list_init(&workers->todo);
	list_init(&workers->ready);
	workers->most_of_user = attr->n_threads > 1 ? attr->n_threads - 1 : 1;
	workers->activity = attr->activity;
	workers->activity_arg = attr->activity_arg;
	workers->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (workers->ready_fd < 0)
		return -errno;
	r = loop_watch_new(attr->loop, workers->ready_fd, LOOP_READ, on_ready, workers, &workers->watch);
	if (r == 0)
		r = start_threads(workers, attr->n_threads);
	if (r < 0)
		return r;
	*ret_workers = take_ptr(workers);
	return 0;
}

struct workers *workers_free(struct workers *workers)
{
	if (!workers)
		return NULL;
	assert_bug(workers->n_under_way == 0);
	pthread_mutex_lock(&workers->lock);
	workers->stop = true;
	pthread_cond_broadcast(&workers->wake);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned int i = 0; i < workers->n_threads; i++)
		pthread_join(workers->threads[i].thread, NULL);
	loop_watch_free(workers->watch);
	safe_close(workers->ready_fd);
	pthread_cond_destroy(&workers->wake);
	pthread_mutex_destroy(&workers->lock);
	free(workers);
	return NULL;
}
