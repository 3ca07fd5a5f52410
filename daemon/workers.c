/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run works for the control thread. Works wait in one list to run, and in a second one for their done().
 *
 * Each session, NIC and watch of the daemon (redraw, nic-hotplug, ctx-pool) has at most one work here, which bounds the
 * first list. Owners keep their works; this module allocates nothing for them. Signals go to the control thread.
 *
 * Work that waits for firmware has a fixed number of threads (`worker-threads`). A uid or tenant with many sessions gets no more
 * than others: the user with the fewest works under way is next, and one thread stays free for users without any. Users with
 * equally many take turns, and the works of one user stay in their order. Such work touches its user's memory as well, so it may
 * be slow; a thread that is busy with it for 100 ms no longer counts, and an idle one takes the next work.
 *
 * Work that may stall (`may_stall`: every operation on a context of a soft NIC) takes as long as its uid likes, so it must not
 * occupy a thread that others need. Each uid has one such work under way, and idle threads start more before they run
 * out: one for each uid that stalls. Threads beyond the fixed number end when they find no work. Only a thread without work
 * starts another, because starting maps memory and may wait as long as the kernel maps memory of a uid that stalls.
 *
 * The control thread waits up to 20 ms (daemon.c) for a work that may stall, and for at most a tenth of its time over all;
 * then it goes on without it.
 *
 * A work that is offered (workers_offer) ends without having run if no thread takes it in time, so nobody waits for it behind users
 * who stall. The thread that takes it runs it at once, also if it should start another one first.
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
/* A sanitizer's allocator maps larger pieces singly, and keeps each of them for a while after its end. */
#define ROOM_BYTES (96u << 10)

/* At most this many users stall at once; each costs a thread. */
#define MOST_STALLED 1024u
#define RESERVE 4u /* idle threads */
/*
 * Firmware work also touches its user's memory: the kernel pins it, and queues are filled. One that takes so long has another
 * thread in its place.
 */
#define SLOW_NSEC (100u * NSEC_PER_MSEC)
/* The control thread waits for at most a tenth of the time that passes. */
#define PATIENCE_SHARE 10u
/*
 * Waking a thread takes longer than a short work. A client's requests follow each other closely, so a worker polls for the next
 * work before it sleeps, and the control thread polls for the end of a work before it sleeps. Between two requests with a descriptor
 * each pass up to 100 us where CPUs are idle, since a porter wakes up meanwhile.
 */
#define WORKER_SPIN_NSEC 100000u
#define CONTROL_SPIN_NSEC 50000u
#define TAKEN_NSEC 10000u /* a polling worker takes a work within this time unless it has no CPU */
/* On a busy CPU a sleep of any length ends milliseconds later, so shorter ones are not begun, and what they really took counts. */
#define LEAST_SLEEP_NSEC (1 * NSEC_PER_MSEC)
#define MOST_DEBT_NSEC ((int64_t)NSEC_PER_SEC)

/* On the stack of its thread. */
struct worker {
	struct list link; /* of the busy ones */
	const void *users[WORK_USERS]; /* of its work */
	uint64_t begin_nsec;
	bool may_stall;
};

struct workers {
	pthread_mutex_t lock; /* guards all members up to "control thread" */
	struct list todo; /* struct work.link */
	struct list ready; /* struct work.link: works that have run */
	struct list busy; /* struct worker.link */
	bool stop;
	pthread_cond_t wake; /* a work came or may run now */
	unsigned int n_threads, n_idle;
	bool has_stalling; /* a work that may stall has come */
	bool is_starting; /* a thread is starting another one */
	bool is_looking; /* a thread polls for works without the lock */
	uint32_t n_came; /* atomic: works so far, for the thread that polls */
	struct work *awaited; /* atomic: the control thread waits for it; NULL: it has run, or there is none */
	pthread_cond_t came; /* `awaited` has run, or a thread has ended */
	unsigned int n_fixed, n_reserve;
	unsigned int most_of_user; /* at a time */

	/* control thread */
	unsigned int n_under_way; /* submitted and not done */
	int64_t patience_nsec; /* negative: it has waited longer than it wanted to, on a busy CPU */
	uint64_t patience_at_nsec;
	int ready_fd; /* owned eventfd: readable while something is ready */
	struct loop_watch *watch;
	struct loop_timer *offers; /* armed while a work that was offered may wait */
	bool is_armed;
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

/* A NULL uid is a user, the daemon; a NULL tenant is none. */
static bool is_same_user(const void *const a[WORK_USERS], const void *const b[WORK_USERS], unsigned int which)
{
	return a[which] == b[which] && (which == 0 || a[which]);
}

/* Works for firmware under way, of the uid or of the tenant of `work`: the larger number. */
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

/* Does this uid have a work under way that may stall? */
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

/* Moves works of the same users behind those of all others. */
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

/* Threads that are busy with firmware work and have nobody in their place. */
static unsigned int count_firmware(const struct workers *workers)
{
	const struct worker *worker;
	uint64_t now = nsec_now();
	unsigned int n = 0;

	list_for_each_entry(worker, &workers->busy, link)
		n += !worker->may_stall && now - worker->begin_nsec < SLOW_NSEC;
	return n;
}

/* NULL: there is no such work, or its users have enough under way. */
static struct work *find_fairest(struct workers *workers)
{
	unsigned int fewest = workers->most_of_user;
	struct work *work, *best = NULL;

	if (list_empty(&workers->todo) || count_firmware(workers) >= workers->n_fixed)
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
	self->begin_nsec = nsec_now();
	list_add_tail(&workers->busy, &self->link);
	workers->n_idle--;
	if (wants_more(workers) || !list_empty(&workers->todo))
		pthread_cond_signal(&workers->wake);
}

static void end(struct workers *workers, struct worker *self, struct work *work)
{
	list_del(&self->link);
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

/* After a failure, the next poll tries again. */
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
 * Makes or extends the heap of this thread now rather than while the next work runs: the kernel may wait for another user's
 * memory then (main.c).
 */
static void keep_room(size_t bytes)
{
	void *volatile mem = malloc(bytes);

	free(mem);
}

static void carry_out(struct workers *workers, struct work *work)
{
	bool may_stall = work->may_stall;
	struct worker self;

	begin(workers, &self, work);
	/* This was the last idle thread, so no other would start one. A thread that came meanwhile may have left it to this one. */
	while (!work->until_nsec && workers->n_idle == 0 && wants_more(workers) && start_another(workers) == 0)
		;
	pthread_mutex_unlock(&workers->lock);
	work->run(work);
	if (may_stall)
		keep_room(ROOM_BYTES);
	pthread_mutex_lock(&workers->lock);
	end(workers, &self, work);
}

/* One thread at a time polls, once after each of its works that the control thread may have waited for. */
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

/* While works wait, one under way may become slow, of which no thread is woken. */
static void wait_for_work(struct workers *workers)
{
	struct timespec end;

	if (list_empty(&workers->todo)) {
		pthread_cond_wait(&workers->wake, &workers->lock);
		return;
	}
	end = nsec_to_timespec(nsec_add(nsec_now(), SLOW_NSEC));
	pthread_cond_timedwait(&workers->wake, &workers->lock, &end);
}

static void *run_thread(void *arg)
{
	struct workers *workers = arg;
	bool may_look = false, may_start = true;
	struct work *work;

	prctl(PR_SET_NAME, "shmd-worker");
	keep_room(1);
	pthread_mutex_lock(&workers->lock);
	while (!workers->stop) {
		work = take_next(workers);
		if (work) {
			may_look = work->may_stall;
			carry_out(workers, work);
		} else if (look_for_more(workers, &may_look)) {
			continue;
		} else if (may_start && wants_more(workers)) {
			/* A work that came meanwhile has woken nobody, so look for it, also where no thread was started. */
			may_start = start_another(workers) == 0;
		} else if (workers->n_threads > workers->n_fixed && workers->n_idle > workers->n_fixed) {
			break;
		} else {
			wait_for_work(workers);
			may_start = true;
		}
	}
	workers->n_threads--;
	workers->n_idle--;
	/* After the unlock this thread touches no member of workers. */
	pthread_cond_broadcast(&workers->came);
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

/* ---- control thread ---------------------------------------------------------------------------------------------- */

/* Call it with the lock held. */
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

/* How long the control thread may wait now, within its share. */
static uint64_t patience(struct workers *workers, uint64_t most_nsec)
{
	uint64_t now = nsec_now(), more = (now - workers->patience_at_nsec) / PATIENCE_SHARE;
	int64_t most = (int64_t)most_nsec;

	workers->patience_at_nsec = now;
	/* The first time is long after 0. */
	workers->patience_nsec = more > most_nsec + MOST_DEBT_NSEC ? most : workers->patience_nsec + (int64_t)more;
	if (workers->patience_nsec > most)
		workers->patience_nsec = most;
	return workers->patience_nsec > 0 ? (uint64_t)workers->patience_nsec : 0;
}

static void spend(struct workers *workers, uint64_t nsec)
{
	workers->patience_nsec -= nsec < (uint64_t)MOST_DEBT_NSEC ? (int64_t)nsec : MOST_DEBT_NSEC;
	if (workers->patience_nsec < -MOST_DEBT_NSEC)
		workers->patience_nsec = -MOST_DEBT_NSEC;
}

static bool look_for_end(const struct workers *workers, uint64_t begin, uint64_t nsec)
{
	while (__atomic_load_n(&workers->awaited, __ATOMIC_ACQUIRE))
		if (nsec_now() - begin >= nsec)
			return false;
	return true;
}

static bool sleep_for_end(struct workers *workers, uint64_t end_nsec, bool may_sleep)
{
	struct timespec end = nsec_to_timespec(end_nsec);
	int r = may_sleep ? 0 : ETIMEDOUT;
	bool has_run;

	pthread_mutex_lock(&workers->lock);
	/* The polling worker has no CPU, so wake another. */
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
	return sleep_for_end(workers, nsec_add(begin, nsec), nsec >= LEAST_SLEEP_NSEC);
}

bool workers_run(struct workers *workers, struct work *work, uint64_t most_nsec)
{
	uint64_t nsec = patience(workers, most_nsec), begin = nsec_now(), spent;
	bool is_looking, has_run;

	pthread_mutex_lock(&workers->lock);
	/* Do not wait for a user who stalls already. */
	if (work->may_stall && is_stalling(workers, work->users[0]))
		nsec = 0;
	put(workers, work);
	is_looking = workers->is_looking && nsec > 0;
	if (!is_looking)
		pthread_cond_signal(&workers->wake);
	workers->awaited = nsec > 0 ? work : NULL;
	pthread_mutex_unlock(&workers->lock);
	has_run = nsec > 0 && await(workers, is_looking, begin, nsec);
	workers->n_under_way += !has_run;
	spent = nsec_now() - begin;
	/* A work that ends before the control thread would sleep costs others nothing. */
	if (!has_run || spent > CONTROL_SPIN_NSEC)
		spend(workers, spent);
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

/* ---- works that are offered ---------------------------------------------------------------------------------------- */

static void arm(struct workers *workers, uint64_t nsec)
{
	workers->is_armed = workers->is_armed || loop_timer_arm(workers->offers, nsec) == 0;
}

/* Returns when the next one is late; 0: none waits. */
static uint64_t take_late(struct workers *workers, uint64_t now, struct list *late)
{
	struct work *work, *tmp;
	uint64_t next = 0;

	pthread_mutex_lock(&workers->lock);
	list_for_each_entry_safe(work, tmp, &workers->todo, link)
		if (work->until_nsec && work->until_nsec <= now) {
			list_del(&work->link);
			list_add_tail(late, &work->link);
		} else if (work->until_nsec && (!next || work->until_nsec < next)) {
			next = work->until_nsec;
		}
	pthread_mutex_unlock(&workers->lock);
	return next;
}

static void on_offers(void *arg)
{
	struct workers *workers = arg;
	uint64_t now = nsec_now(), next;
	struct work *work;
	struct list late;

	list_init(&late);
	workers->is_armed = false;
	next = take_late(workers, now, &late);
	if (next)
		arm(workers, next - now);
	while ((work = take_first(&late))) {
		workers->n_under_way--;
		work->done(work);
	}
	workers->activity(workers->activity_arg);
}

void workers_offer(struct workers *workers, struct work *work, uint64_t nsec)
{
	work->until_nsec = nsec_add(nsec_now(), nsec);
	workers_submit(workers, work);
	arm(workers, nsec);
}

int workers_finish(struct workers *workers, uint64_t patience_nsec, uint64_t most_nsec)
{
	struct pollfd pfd = {.fd = workers->ready_fd, .events = POLLIN};
	uint64_t now = nsec_now(), last = nsec_add(now, most_nsec), until = nsec_add(now, patience_nsec);

	while (workers->n_under_way > 0) {
		uint64_t end = until < last ? until : last;

		/* Rounds up, to avoid a busy loop at the end. A work that is ready in time counts, however late poll() returns. */
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

/* Counts the thread first, because it may read the counters at once. */
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
	pthread_cond_init(&workers->wake, &attr);
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
		r = loop_timer_new(attr->loop, on_offers, workers, &workers->offers);
	if (r == 0)
		r = start_threads(workers);
	if (r < 0)
		return r;
	*ret_workers = take_ptr(workers);
	return 0;
}

int workers_stop(struct workers *workers, uint64_t most_nsec)
{
	struct timespec end = nsec_to_timespec(nsec_add(nsec_now(), most_nsec));
	int r = 0;

	pthread_mutex_lock(&workers->lock);
	workers->stop = true;
	pthread_cond_broadcast(&workers->wake);
	while (workers->n_threads > 0 && r == 0)
		r = pthread_cond_timedwait(&workers->came, &workers->lock, &end);
	pthread_mutex_unlock(&workers->lock);
	return -r;
}

static void await_threads(struct workers *workers)
{
	while (workers_stop(workers, NSEC_PER_SEC) < 0)
		;
}

struct workers *workers_free(struct workers *workers)
{
	if (!workers)
		return NULL;
	assert_bug(workers->n_under_way == 0);
	await_threads(workers);
	loop_watch_free(workers->watch);
	loop_timer_free(workers->offers);
	safe_close(workers->ready_fd);
	pthread_cond_destroy(&workers->came);
	pthread_cond_destroy(&workers->wake);
	pthread_mutex_destroy(&workers->lock);
	free(workers);
	return NULL;
}
