/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads over two lists: what is to be run, and what is to be done on the control thread.
 *
 * No session, no NIC and no watch of the daemon's own (node-watch, hot-watch, newcomers, warm) has more than one work here, so
 * the first list is never longer than all of them together. Works stay their owners'; nothing is allocated for them. Signals are
 * the control thread's.
 *
 * Work for firmware has a fixed number of threads. A user with many sessions gets no more than others: next is the oldest work
 * of whoever has the fewest under way, and one thread is left to those who have none.
 *
 * Work that may stall takes as long as its user likes, so it takes a thread from nobody: each user has one such work under way,
 * and idle threads start others before they run out. There are as many threads as users who stall, and those beyond the fixed
 * number end when they find nothing to do. A thread is started by one that has nothing else to do, as that waits, too, while some
 * user makes the kernel wait that maps its memory.
 */
#include "daemon/workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define DONE_PER_TURN 64
#define STACK_BYTES (1u << 20)

/* As many users can stall at once, and each costs a thread. */
#define MOST_STALLED 1024u
#define RESERVE 4u /* idle threads */
/* Waiting of the control thread: a tenth of the time that passes. */
#define PATIENCE_SHARE 10u

/* On the stack of its thread. */
struct worker {
	struct list link; /* of the busy ones */
	const void *user; /* of what it is at */
	bool may_stall;
};

struct workers {
	pthread_mutex_t lock; /* of all that follows, but what is the control thread's */
	struct list todo; /* struct work.link */
	struct list ready; /* have run */
	struct list busy; /* struct worker.link */
	bool stop;
	pthread_cond_t wake; /* something is to be done, or may be now */
	unsigned int n_threads, n_idle;
	bool is_starting; /* one of them, another one */
	unsigned int n_firmware; /* busy with work that does not stall */
	struct work *awaited; /* by the control thread; NULL: it has run, or nobody waits */
	pthread_cond_t came; /* it has, or a thread has ended */
	unsigned int n_fixed, n_reserve;
	unsigned int most_of_user; /* at a time */

	/* control thread */
	unsigned int n_under_way; /* submitted and not done */
	uint64_t patience_nsec, patience_at_nsec;
	int ready_fd; /* owned eventfd: readable while something is ready */
	struct loop_watch *watch;
	void (*activity)(void *arg);
	void *activity_arg;
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

static unsigned int count_of_user(const struct workers *workers, const void *user, bool may_stall)
{
	const struct worker *worker;
	unsigned int n = 0;

	list_for_each_entry(worker, &workers->busy, link)
		n += worker->user == user && worker->may_stall == may_stall;
	return n;
}

/* NULL: there is none, or only of users who have enough under way. */
static struct work *find_fairest(struct workers *workers)
{
	unsigned int fewest = workers->most_of_user;
	struct work *work, *best = NULL;

	if (workers->n_firmware >= workers->n_fixed)
		return NULL;
	list_for_each_entry(work, &workers->todo, link) {
		unsigned int n = work->may_stall ? fewest : count_of_user(workers, work->user, false);

		if (n >= fewest)
			continue;
		best = work;
		fewest = n;
		if (n == 0)
			break;
	}
	return best;
}

static struct work *find_stalling(struct workers *workers)
{
	struct work *work;

	list_for_each_entry(work, &workers->todo, link)
		if (work->may_stall && count_of_user(workers, work->user, true) == 0)
			return work;
	return NULL;
}

static struct work *take_next(struct workers *workers)
{
	struct work *work = find_stalling(workers);

	if (!work)
		work = find_fairest(workers);
	if (work)
		list_del(&work->link);
	return work;
}

static void begin(struct workers *workers, struct worker *self, const struct work *work)
{
	self->user = work->user;
	self->may_stall = work->may_stall;
	list_add_tail(&workers->busy, &self->link);
	workers->n_firmware += !self->may_stall;
	workers->n_idle--;
	/* Somebody who is idle looks whether others are. */
	pthread_cond_signal(&workers->wake);
}

static void end(struct workers *workers, struct worker *self, struct work *work)
{
	list_del(&self->link);
	workers->n_firmware -= !self->may_stall;
	workers->n_idle++;
	if (workers->awaited == work) {
		workers->awaited = NULL;
		pthread_cond_broadcast(&workers->came);
		return;
	}
	list_add_tail(&workers->ready, &work->link);
	ring(workers);
}

static bool wants_more(const struct workers *workers)
{
	return !workers->is_starting && workers->n_idle < workers->n_reserve &&
	       workers->n_threads < workers->n_fixed + MOST_STALLED;
}

static int start_thread(struct workers *workers);

/* Where none can be started, the next look tries again. */
static int start_another(struct workers *workers)
{
	int r;

	workers->is_starting = true;
	pthread_mutex_unlock(&workers->lock);
	r = start_thread(workers);
	pthread_mutex_lock(&workers->lock);
	workers->is_starting = false;
	return r;
}

static void carry_out(struct workers *workers, struct work *work)
{
	struct worker self;

	begin(workers, &self, work);
	/* The last one that was idle: nobody else would look. One that came meanwhile may have left that to this one. */
	while (workers->n_idle == 0 && wants_more(workers) && start_another(workers) == 0)
		;
	pthread_mutex_unlock(&workers->lock);
	work->run(work);
	pthread_mutex_lock(&workers->lock);
	end(workers, &self, work);
}

/* So that its share of memory is there before it is needed in a hurry. */
static void warm_up(void)
{
	void *volatile mem = malloc(1);

	free(mem);
}

static void *run_thread(void *arg)
{
	struct workers *workers = arg;
	struct work *work;

	prctl(PR_SET_NAME, "shmd-worker");
	warm_up();
	pthread_mutex_lock(&workers->lock);
	while (!workers->stop) {
		work = take_next(workers);
		if (work)
			carry_out(workers, work);
		else if (wants_more(workers) && start_another(workers) == 0)
			continue;
		else if (workers->n_threads > workers->n_fixed && workers->n_idle > workers->n_fixed)
			break;
		else
			pthread_cond_wait(&workers->wake, &workers->lock);
	}
	workers->n_threads--;
	workers->n_idle--;
	/* From here on nothing of this is touched any more. */
	pthread_cond_broadcast(&workers->came);
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

/* In what is left of the control thread's share. */
static uint64_t patience(struct workers *workers, uint64_t most_nsec)
{
	uint64_t now = nsec_now();

	workers->patience_nsec = nsec_add(workers->patience_nsec, (now - workers->patience_at_nsec) / PATIENCE_SHARE);
	workers->patience_at_nsec = now;
	if (workers->patience_nsec > most_nsec)
		workers->patience_nsec = most_nsec;
	return workers->patience_nsec;
}

/* Under the lock. */
static bool await(struct workers *workers, struct work *work, uint64_t nsec)
{
	struct timespec end = nsec_to_timespec(nsec_add(nsec_now(), nsec));
	int r = 0;

	workers->awaited = work;
	while (workers->awaited && r == 0)
		r = pthread_cond_timedwait(&workers->came, &workers->lock, &end);
	if (!workers->awaited)
		return true;
	workers->awaited = NULL;
	return false;
}

bool workers_run(struct workers *workers, struct work *work, uint64_t most_nsec)
{
	uint64_t nsec = patience(workers, most_nsec), began = nsec_now();
	bool has_run;

	pthread_mutex_lock(&workers->lock);
	/* Who stalls already is not waited for. */
	if (work->may_stall && count_of_user(workers, work->user, true) > 0)
		nsec = 0;
	list_add_tail(&workers->todo, &work->link);
	pthread_cond_signal(&workers->wake);
	has_run = nsec > 0 && await(workers, work, nsec);
	pthread_mutex_unlock(&workers->lock);
	workers->n_under_way += !has_run;
	if (!has_run && nsec > 0) {
		uint64_t spent = nsec_now() - began;

		workers->patience_nsec -= spent < nsec ? spent : nsec;
	}
	return has_run;
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

/* Counted first: it may look at all of them at once. */
static int start_thread(struct workers *workers)
{
	pthread_t thread;
	int r;

	pthread_mutex_lock(&workers->lock);
	workers->n_threads++;
	workers->n_idle++;
	pthread_mutex_unlock(&workers->lock);
	r = thread_start(&thread, STACK_BYTES, NULL, run_thread, workers);
	if (r == 0) {
		pthread_detach(thread);
		return 0;
	}
	pthread_mutex_lock(&workers->lock);
	workers->n_threads--;
	workers->n_idle--;
	pthread_mutex_unlock(&workers->lock);
	return r;
}

static int start_threads(struct workers *workers)
{
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < workers->n_fixed; i++)
		r = start_thread(workers);
	return r;
}

static void init_conds(struct workers *workers)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&workers->wake, NULL);
	pthread_cond_init(&workers->came, &attr);
	pthread_condattr_destroy(&attr);
}

int workers_new(const struct workers_attr *attr, struct workers **ret_workers)
{
	_cleanup_(workers_freep) struct workers *workers = calloc(1, sizeof(*workers));
	int r;

	if (!workers)
		return -ENOMEM;
	pthread_mutex_init(&workers->lock, NULL);
	init_conds(workers);
	list_init(&workers->todo);
	list_init(&workers->ready);
	list_init(&workers->busy);
	workers->n_fixed = attr->n_threads;
	workers->n_reserve = attr->n_threads < RESERVE ? attr->n_threads : RESERVE;
	workers->most_of_user = attr->n_threads > 1 ? attr->n_threads - 1 : 1;
	workers->activity = attr->activity;
	workers->activity_arg = attr->activity_arg;
	workers->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (workers->ready_fd < 0)
		return -errno;
	r = loop_watch_new(attr->loop, workers->ready_fd, LOOP_READ, on_ready, workers, &workers->watch);
	if (r == 0)
		r = start_threads(workers);
	if (r < 0)
		return r;
	*ret_workers = take_ptr(workers);
	return 0;
}

static void await_threads(struct workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->stop = true;
	pthread_cond_broadcast(&workers->wake);
	while (workers->n_threads > 0)
		pthread_cond_wait(&workers->came, &workers->lock);
	pthread_mutex_unlock(&workers->lock);
}

struct workers *workers_free(struct workers *workers)
{
	if (!workers)
		return NULL;
	assert_bug(workers->n_under_way == 0);
	await_threads(workers);
	loop_watch_free(workers->watch);
	safe_close(workers->ready_fd);
	pthread_cond_destroy(&workers->came);
	pthread_cond_destroy(&workers->wake);
	pthread_mutex_destroy(&workers->lock);
	free(workers);
	return NULL;
}
