/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads over two lists: what is to be run, and what is to be done on the control thread.
 *
 * No session, no NIC and no watch of the daemon's own (node-watch, nic-hotplug, ctx-pool) has more than one work here, so
 * the first list is never longer than all of them together. Works stay their owners'; nothing is allocated for them. Signals are
 * the control thread's.
 *
 * Work for firmware has a fixed number of threads. A uid or tenant with many sessions gets no more than others: next is the work
 * of whoever has the fewest under way, and one thread is left to those who have none. Users with equally many take turns, and
 * the works of one user stay in their order.
 *
 * Work that may stall takes as long as its uid likes, so it takes a thread from nobody: each uid has one such work under way,
 * and idle threads start others before they run out. There are as many threads as uids that stall, and those beyond the fixed
 * number end when they find nothing to do. Only a thread without work starts another one, because starting maps memory and may
 * wait as long as the kernel maps memory of a uid that stalls.
 */
#include "daemon/workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
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
#define ROOM_BYTES (256u << 10)

/* As many users can stall at once, and each costs a thread. */
#define MOST_STALLED 1024u
#define RESERVE 4u /* idle threads */
/* Waiting of the control thread: a tenth of the time that passes. */
#define PATIENCE_SHARE 10u
/*
 * To wake a thread takes longer than a short work. A client's requests come one soon after the other, so a worker looks for the
 * next one for a while before it sleeps, and the control thread looks for the end of a work before it sleeps.
 */
#define WORKER_SPIN_NSEC 50000u
#define CONTROL_SPIN_NSEC 50000u
#define TAKEN_NSEC 10000u /* a worker that looks has taken the work by then, or has no CPU */

/* On the stack of its thread. */
struct worker {
	struct list link; /* of the busy ones */
	const void *users[WORK_USERS]; /* of its work */
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
	bool has_stalling; /* there was a work that may stall */
	bool is_starting; /* one of them, another one */
	bool is_looking; /* one of them looks for works without the lock */
	uint32_t n_came; /* atomic: works so far, which that one sees */
	unsigned int n_firmware; /* busy with work that does not stall */
	struct work *awaited; /* atomic: by the control thread; NULL: it has run, or nobody waits */
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

/* The first one counts even if it is NULL: it is the daemon. */
static bool is_same_user(const void *const a[WORK_USERS], const void *const b[WORK_USERS], unsigned int which)
{
	return a[which] == b[which] && (which == 0 || a[which]);
}

/* Works for firmware of its uid or of its tenant, whichever has more. */
static unsigned int count_of_users(const struct workers *workers, const struct work *work)
{
	const struct worker *worker;
	unsigned int most = 0;

	for (unsigned int which = 0; which < WORK_USERS; which++) {
		unsigned int n = 0;

		list_for_each_entry(worker, &workers->busy, link)
			n += !worker->may_stall && is_same_user(worker->users, work->users, which);
		most = n > most ? n : most;
	}
	return most;
}

/* Is a work of this uid under way that may stall? */
static bool is_stalling(const struct workers *workers, const void *uid)
{
	const struct worker *worker;

	list_for_each_entry(worker, &workers->busy, link)
		if (worker->may_stall && worker->users[0] == uid)
			return true;
	return false;
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
static struct work *find_fairest(struct workers *workers)
{
	unsigned int fewest = workers->most_of_user;
	struct work *work, *best = NULL;

	if (workers->n_firmware >= workers->n_fixed)
		return NULL;
	list_for_each_entry(work, &workers->todo, link) {
		unsigned int n = work->may_stall ? fewest : count_of_users(workers, work);

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
		if (work->may_stall && !is_stalling(workers, work->users[0]))
			return work;
	return NULL;
}

static struct work *take_next(struct workers *workers)
{
	struct work *work = find_stalling(workers);

	if (!work)
		work = find_fairest(workers);
	if (!work)
		return NULL;
	list_del(&work->link);
	if (!work->may_stall)
		put_behind(workers, work);
	return work;
}

static bool wants_more(const struct workers *workers)
{
	return workers->has_stalling && !workers->is_starting && workers->n_idle < workers->n_reserve &&
	       workers->n_threads < workers->n_fixed + MOST_STALLED;
}

static void begin(struct workers *workers, struct worker *self, const struct work *work)
{
	memcpy(self->users, work->users, sizeof(self->users));
	self->may_stall = work->may_stall;
	list_add_tail(&workers->busy, &self->link);
	workers->n_firmware += !self->may_stall;
	workers->n_idle--;
	if (wants_more(workers) || !list_empty(&workers->todo))
		pthread_cond_signal(&workers->wake);
}

static void end(struct workers *workers, struct worker *self, struct work *work)
{
	list_del(&self->link);
	workers->n_firmware -= !self->may_stall;
	workers->n_idle++;
	if (workers->awaited == work) {
		__atomic_store_n(&workers->awaited, NULL, __ATOMIC_RELEASE);
		pthread_cond_broadcast(&workers->came);
		return;
	}
	list_add_tail(&workers->ready, &work->link);
	ring(workers);
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

/*
 * The heap of this thread is extended now, if at all, and not while the next work runs: the kernel may wait for another user's
 * memory then (main.c).
 */
static void keep_room(void)
{
	void *volatile mem = malloc(ROOM_BYTES);

	free(mem);
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
	keep_room();
	pthread_mutex_lock(&workers->lock);
	end(workers, &self, work);
}

/* One thread at a time, once after each of its works that the control thread may have waited for. */
static bool look_for_more(struct workers *workers, bool *may_look)
{
	uint64_t begin = nsec_now();
	uint32_t n_came = workers->n_came;

	if (!*may_look || workers->is_looking)
		return false;
	*may_look = false;
	workers->is_looking = true;
	pthread_mutex_unlock(&workers->lock);
	while (__atomic_load_n(&workers->n_came, __ATOMIC_RELAXED) == n_came && nsec_now() - begin < WORKER_SPIN_NSEC)
		sched_yield();
	pthread_mutex_lock(&workers->lock);
	workers->is_looking = false;
	return true;
}

static void *run_thread(void *arg)
{
	struct workers *workers = arg;
	bool may_look = false;
	struct work *work;

	prctl(PR_SET_NAME, "shmd-worker");
	keep_room();
	pthread_mutex_lock(&workers->lock);
	while (!workers->stop) {
		work = take_next(workers);
		if (work) {
			may_look = work->may_stall;
			carry_out(workers, work);
		} else if (look_for_more(workers, &may_look)) {
			continue;
		} else if (wants_more(workers) && start_another(workers) == 0) {
			continue;
		} else if (workers->n_threads > workers->n_fixed && workers->n_idle > workers->n_fixed) {
			break;
		} else {
			pthread_cond_wait(&workers->wake, &workers->lock);
		}
	}
	workers->n_threads--;
	workers->n_idle--;
	/* From here on nothing of this is touched any more. */
	pthread_cond_broadcast(&workers->came);
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

/* ---- control thread ---------------------------------------------------------------------------------------------- */

/* Under the lock. */
static void put(struct workers *workers, struct work *work)
{
	workers->has_stalling |= work->may_stall;
	list_add_tail(&workers->todo, &work->link);
	__atomic_store_n(&workers->n_came, workers->n_came + 1, __ATOMIC_RELAXED);
}

void workers_submit(struct workers *workers, struct work *work)
{
	workers->n_under_way++;
	pthread_mutex_lock(&workers->lock);
	put(workers, work);
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

static bool look_for_end(const struct workers *workers, uint64_t begin, uint64_t nsec)
{
	while (__atomic_load_n(&workers->awaited, __ATOMIC_ACQUIRE))
		if (nsec_now() - begin >= nsec)
			return false;
	return true;
}

static bool sleep_for_end(struct workers *workers, uint64_t end_nsec)
{
	struct timespec end = nsec_to_timespec(end_nsec);
	bool has_run;
	int r = 0;

	pthread_mutex_lock(&workers->lock);
	/* The worker that was to take it has no CPU. */
	if (workers->is_looking)
		pthread_cond_signal(&workers->wake);
	while (workers->awaited && r == 0)
		r = pthread_cond_timedwait(&workers->came, &workers->lock, &end);
	has_run = !workers->awaited;
	workers->awaited = NULL;
	pthread_mutex_unlock(&workers->lock);
	return has_run;
}

static bool await(struct workers *workers, bool is_looking, uint64_t begin, uint64_t nsec)
{
	uint64_t spin_nsec = is_looking ? TAKEN_NSEC : CONTROL_SPIN_NSEC;

	if (look_for_end(workers, begin, spin_nsec < nsec ? spin_nsec : nsec))
		return true;
	return sleep_for_end(workers, nsec_add(begin, nsec));
}

bool workers_run(struct workers *workers, struct work *work, uint64_t most_nsec)
{
	uint64_t nsec = patience(workers, most_nsec), begin = nsec_now(), spent;
	bool is_looking;

	pthread_mutex_lock(&workers->lock);
	/* A user that stalls already is not waited for. */
	if (work->may_stall && is_stalling(workers, work->users[0]))
		nsec = 0;
	put(workers, work);
	is_looking = workers->is_looking && nsec > 0;
	if (!is_looking)
		pthread_cond_signal(&workers->wake);
	workers->awaited = nsec > 0 ? work : NULL;
	pthread_mutex_unlock(&workers->lock);
	if (nsec > 0 && await(workers, is_looking, begin, nsec))
		return true;
	workers->n_under_way++;
	spent = nsec_now() - begin;
	workers->patience_nsec -= spent < nsec ? spent : nsec;
	return false;
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
