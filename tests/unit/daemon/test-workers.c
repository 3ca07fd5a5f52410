/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads and their works; test-workers-sessions has the sessions. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "daemon/workers.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"
#include "tests/lib/test.h"

#define LIMIT_NSEC (10 * NSEC_PER_SEC)

struct scene {
	struct loop *loop;
	struct workers *workers;
	unsigned int n_activities;
};

static void on_activity(void *arg)
{
	struct scene *s = arg;

	s->n_activities++;
}

static void scene_init(struct scene *s, unsigned int n_threads)
{
	const struct workers_attr attr = {.n_threads = n_threads, .activity = on_activity, .activity_arg = s};
	struct workers_attr with_loop = attr;

	s->n_activities = 0;
	ASSERT_OK(loop_new(&s->loop));
	with_loop.loop = s->loop;
	ASSERT_OK(workers_new(&with_loop, &s->workers));
}

static void scene_deinit(struct scene *s)
{
	ASSERT(!workers_free(s->workers));
	loop_free(s->loop);
}

/* ---- works alone --------------------------------------------------------------------------------------------------- */

struct job {
	struct work work;
	struct scene *s;
	pthread_barrier_t *barrier;
	int wait_fd; /* read from by run; -1: nothing */
	unsigned int *n_begun; /* any thread; or NULL */
	unsigned int *n_done, order; /* which one it was */
	pthread_t ran_by, done_by;
	bool masked;
	struct job *next; /* submitted when this one is done */
	bool stops_loop;
};

static void job_run(struct work *work)
{
	struct job *job = container_of(work, struct job, work);
	uint64_t count;
	sigset_t set;

	job->ran_by = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	job->masked = sigismember(&set, SIGTERM) && sigismember(&set, SIGHUP);
	if (job->n_begun)
		__atomic_add_fetch(job->n_begun, 1, __ATOMIC_RELEASE);
	if (job->barrier)
		pthread_barrier_wait(job->barrier);
	if (job->wait_fd >= 0)
		ASSERT_EQ(read(job->wait_fd, &count, sizeof(count)), (ssize_t)sizeof(count));
}

static void job_done(struct work *work)
{
	struct job *job = container_of(work, struct job, work);

	job->done_by = pthread_self();
	job->order = (*job->n_done)++;
	if (job->next)
		workers_submit(job->s->workers, &job->next->work);
	if (job->stops_loop)
		loop_stop(job->s->loop);
}

static struct job job_of(struct scene *s, unsigned int *n_done)
{
	return (struct job){
		.work = {.run = job_run, .done = job_done}, .s = s, .wait_fd = -1, .n_done = n_done};
}

TEST(works_run_beside_each_other_and_are_done_by_the_control_thread)
{
	pthread_barrier_t barrier;
	unsigned int n_done = 0;
	struct job jobs[4];
	struct scene s;

	scene_init(&s, 4);
	/* No thread passes before all four are there. */
	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 4; i++) {
		jobs[i] = job_of(&s, &n_done);
		jobs[i].work.users[0] = &jobs[i];
		jobs[i].barrier = &barrier;
		workers_submit(s.workers, &jobs[i].work);
	}
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, 4u);
	for (int i = 0; i < 4; i++) {
		ASSERT(!pthread_equal(jobs[i].ran_by, pthread_self()));
		ASSERT(pthread_equal(jobs[i].done_by, pthread_self()));
		ASSERT(jobs[i].masked);
		for (int k = 0; k < i; k++)
			ASSERT(!pthread_equal(jobs[i].ran_by, jobs[k].ran_by));
	}
	pthread_barrier_destroy(&barrier);
	scene_deinit(&s);
}

TEST(works_of_one_thread_are_done_by_the_loop_in_their_order)
{
	static struct job jobs[200];
	unsigned int n_done = 0;
	struct scene s;

	scene_init(&s, 1);
	for (unsigned int i = 0; i < 200; i++) {
		jobs[i] = job_of(&s, &n_done);
		jobs[i].stops_loop = i == 199;
		workers_submit(s.workers, &jobs[i].work);
	}
	ASSERT_EQ(n_done, 0u);
	ASSERT_OK(loop_run(s.loop));
	ASSERT_EQ(n_done, 200u);
	for (unsigned int i = 0; i < 200; i++)
		ASSERT_EQ(jobs[i].order, i);
	ASSERT_GT(s.n_activities, 0u);
	scene_deinit(&s);
}

#define N_MANY 40

/* Works of n_users that end when `hold` says so; returns when n_begun of them are under way. */
static void submit_many(struct scene *s, struct job *jobs, int n_users, unsigned int n_begun, unsigned int *n_done)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	static unsigned int begun;
	uint64_t end = nsec_now() + LIMIT_NSEC;
	int hold = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	ASSERT_GE(hold, 0);
	__atomic_store_n(&begun, 0, __ATOMIC_RELEASE);
	for (int i = 0; i < N_MANY; i++) {
		jobs[i] = job_of(s, n_done);
		jobs[i].work.users[0] = &jobs[i % n_users];
		jobs[i].wait_fd = hold;
		jobs[i].n_begun = &begun;
		workers_submit(s->workers, &jobs[i].work);
	}
	while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < n_begun) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
	}
}

static void submit_other(struct scene *s, struct job *other, unsigned int *n_done)
{
	*other = job_of(s, n_done);
	other->work.users[0] = other;
	other->stops_loop = true;
	workers_submit(s->workers, &other->work);
}

/* However many of one user wait before it, and however long what is under way takes. */
TEST(a_user_with_many_works_leaves_a_thread_to_others)
{
	struct job jobs[N_MANY], others[2];
	unsigned int n_done = 0;
	uint64_t many = N_MANY;
	struct scene s;
	int hold;

	scene_init(&s, 4);
	submit_many(&s, jobs, 1, 3, &n_done);
	hold = jobs[0].wait_fd;
	/* When the first is done, its thread has looked for the next, and takes none of the many. */
	for (int i = 0; i < 2; i++) {
		submit_other(&s, &others[i], &n_done);
		ASSERT_OK(loop_run(s.loop));
		ASSERT_EQ(n_done, i + 1);
	}
	ASSERT_EQ(write(hold, &many, sizeof(many)), (ssize_t)sizeof(many));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, N_MANY + 2);
	close(hold);
	scene_deinit(&s);
}

/* Two users hold all threads, and each has many waiting: a third one's is next when any of theirs ends. */
TEST(a_user_with_nothing_under_way_is_next)
{
	struct job jobs[N_MANY], other;
	uint64_t one = 1, many = N_MANY;
	unsigned int n_done = 0;
	struct scene s;
	int hold;

	scene_init(&s, 4);
	submit_many(&s, jobs, 2, 4, &n_done);
	hold = jobs[0].wait_fd;
	submit_other(&s, &other, &n_done);
	ASSERT_EQ(write(hold, &one, sizeof(one)), (ssize_t)sizeof(one));
	ASSERT_OK(loop_run(s.loop));
	ASSERT_LE(other.order, 1u);
	ASSERT_EQ(write(hold, &many, sizeof(many)), (ssize_t)sizeof(many));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, N_MANY + 1);
	close(hold);
	scene_deinit(&s);
}

TEST(finish_waits_also_for_what_comes_up_meanwhile)
{
	unsigned int n_done = 0;
	struct job jobs[3];
	struct scene s;

	scene_init(&s, 2);
	for (int i = 2; i >= 0; i--) {
		jobs[i] = job_of(&s, &n_done);
		jobs[i].next = i < 2 ? &jobs[i + 1] : NULL;
	}
	workers_submit(s.workers, &jobs[0].work);
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, 3u);
	ASSERT_EQ(jobs[2].order, 2u);
	scene_deinit(&s);
}

TEST(finish_ends_at_its_time_whatever_hangs)
{
	uint64_t one = 1, begin = nsec_now();
	unsigned int n_done = 0;
	struct scene s;
	struct job job;

	scene_init(&s, 1);
	job = job_of(&s, &n_done);
	job.wait_fd = eventfd(0, EFD_CLOEXEC);
	workers_submit(s.workers, &job.work);
	ASSERT_ERR(workers_finish(s.workers, 20 * NSEC_PER_MSEC, LIMIT_NSEC), ETIMEDOUT);
	ASSERT_GE(nsec_now() - begin, 20 * NSEC_PER_MSEC);
	ASSERT_EQ(n_done, 0u);
	ASSERT_EQ(write(job.wait_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, 1u);
	close(job.wait_fd);
	scene_deinit(&s);
}

static void pass_on(struct work *work)
{
	const struct timespec pause = {.tv_nsec = 20 * NSEC_PER_MSEC};

	nanosleep(&pause, NULL);
}

/* Done again and again. */
struct relay {
	struct work work;
	struct scene *s;
	uint64_t left, at_nsec;
};

static void relay_done(struct work *work)
{
	struct relay *relay = container_of(work, struct relay, work);

	relay->at_nsec = nsec_now();
	if (--relay->left > 0)
		workers_submit(relay->s->workers, work);
}

TEST(finish_waits_on_while_works_are_done_and_not_for_ever)
{
	const uint64_t patience = 200 * NSEC_PER_MSEC;
	struct relay relay = {.work = {.run = pass_on, .done = relay_done}};
	struct scene s;
	int r;

	scene_init(&s, 1);
	relay.s = &s;
	relay.left = 20; /* twice the patience in all */
	relay.at_nsec = nsec_now();
	workers_submit(s.workers, &relay.work);
	r = workers_finish(s.workers, patience, LIMIT_NSEC);
	/* It gives up when a machine stands still for so long, and for nothing else. */
	if (r < 0)
		ASSERT_GE(nsec_now() - relay.at_nsec, patience);
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(relay.left, 0u);
	relay.left = UINT64_MAX;
	workers_submit(s.workers, &relay.work);
	ASSERT_ERR(workers_finish(s.workers, LIMIT_NSEC, 50 * NSEC_PER_MSEC), ETIME);
	relay.left = 1;
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	scene_deinit(&s);
}

/* ---- works that may stall ------------------------------------------------------------------------------------------ */

#define N_STALLED 20u
#define PATIENCE_NSEC (20 * NSEC_PER_MSEC)

static struct job stalling_job(struct scene *s, const void *user, int hold, unsigned int *n_begun, unsigned int *n_done)
{
	struct job job = job_of(s, n_done);

	job.work.users[0] = user;
	job.work.may_stall = true;
	job.wait_fd = hold;
	job.n_begun = n_begun;
	return job;
}

static void await_count(const unsigned int *n, unsigned int wanted)
{
	const struct timespec pause = {.tv_nsec = NSEC_PER_MSEC};
	uint64_t end = nsec_now() + LIMIT_NSEC;

	while (__atomic_load_n(n, __ATOMIC_ACQUIRE) < wanted) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
	}
}

/* Many more users than threads, two works each: the first of each is under way, and neither others nor firmware wait. */
TEST(users_who_stall_take_no_threads_from_others)
{
	static struct job jobs[2 * N_STALLED];
	unsigned int n_begun = 0, n_done = 0;
	int hold = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	uint64_t all = 2 * N_STALLED;
	struct job other, firmware;
	struct scene s;

	ASSERT_GE(hold, 0);
	scene_init(&s, 2);
	for (unsigned int i = 0; i < 2 * N_STALLED; i++) {
		jobs[i] = stalling_job(&s, &jobs[i / 2], hold, &n_begun, &n_done);
		workers_submit(s.workers, &jobs[i].work);
	}
	await_count(&n_begun, N_STALLED);
	other = stalling_job(&s, &other, -1, NULL, &n_done);
	other.stops_loop = true;
	workers_submit(s.workers, &other.work);
	ASSERT_OK(loop_run(s.loop));
	submit_other(&s, &firmware, &n_done);
	ASSERT_OK(loop_run(s.loop));
	ASSERT_EQ(n_done, 2u);
	ASSERT_EQ(__atomic_load_n(&n_begun, __ATOMIC_ACQUIRE), N_STALLED);
	ASSERT_EQ(write(hold, &all, sizeof(all)), (ssize_t)sizeof(all));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, 2 * N_STALLED + 2);
	close(hold);
	scene_deinit(&s);
}

/* Two users are enough to be busy with all threads; each still has the threads that it may have and no more. */
TEST(users_whose_firmware_work_is_slow_take_no_threads_from_others)
{
	unsigned int n_begun = 0, n_done = 0;
	int hold = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	struct job first, slow[4], other;
	uint64_t all = 4;
	struct scene s;

	ASSERT_GE(hold, 0);
	scene_init(&s, 2);
	first = stalling_job(&s, &first, -1, NULL, &n_done);
	first.stops_loop = true;
	workers_submit(s.workers, &first.work);
	ASSERT_OK(loop_run(s.loop));
	for (int i = 0; i < 4; i++) {
		slow[i] = stalling_job(&s, &slow[i / 2], hold, &n_begun, &n_done);
		slow[i].work.may_stall = false;
		workers_submit(s.workers, &slow[i].work);
	}
	await_count(&n_begun, 2);
	for (unsigned int i = 0; i < 2; i++) {
		submit_other(&s, &other, &n_done);
		ASSERT_OK(loop_run(s.loop));
	}
	ASSERT_EQ(n_done, 3u);
	ASSERT_EQ(__atomic_load_n(&n_begun, __ATOMIC_ACQUIRE), 2u);
	ASSERT_EQ(write(hold, &all, sizeof(all)), (ssize_t)sizeof(all));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, 7u);
	close(hold);
	scene_deinit(&s);
}

TEST(quick_works_are_waited_for_and_stalling_ones_not_for_long)
{
	static struct job jobs[N_STALLED];
	int hold = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	unsigned int n_begun = 0, n_done = 0, n_run = 0;
	uint64_t all = N_STALLED + 1, begin;
	struct job quick, second;
	struct scene s;

	ASSERT_GE(hold, 0);
	scene_init(&s, 2);
	/* On a busy machine a thread may not get to it in time. */
	for (unsigned int i = 0; i < 50; i++) {
		quick = stalling_job(&s, &quick, -1, NULL, &n_done);
		n_run += workers_run(s.workers, &quick.work, PATIENCE_NSEC);
		ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	}
	ASSERT_GT(n_run, 0u);
	ASSERT_EQ(n_run + n_done, 50u);
	n_done = 0;
	begin = nsec_now();
	for (unsigned int i = 0; i < N_STALLED; i++) {
		jobs[i] = stalling_job(&s, &jobs[i], hold, &n_begun, &n_done);
		ASSERT(!workers_run(s.workers, &jobs[i].work, PATIENCE_NSEC));
	}
	/* One patience in all, and a tenth of the time. */
	ASSERT_LT(nsec_now() - begin, N_STALLED * PATIENCE_NSEC / 2);
	await_count(&n_begun, N_STALLED);
	second = stalling_job(&s, &jobs[0], hold, NULL, &n_done);
	ASSERT(!workers_run(s.workers, &second.work, LIMIT_NSEC));
	ASSERT_EQ(write(hold, &all, sizeof(all)), (ssize_t)sizeof(all));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, N_STALLED + 1);
	close(hold);
	scene_deinit(&s);
}

/* Each takes a quarter of what the control thread waits at once. */
static void nap_run(struct work *work)
{
	const struct timespec ts = nsec_to_timespec(PATIENCE_NSEC / 4);

	nanosleep(&ts, NULL);
}

/* One who stalls for a short time, again and again, has no more of the control thread's time than one who stalls for long. */
TEST(works_that_are_waited_for_use_up_the_control_threads_patience)
{
	uint64_t begin = nsec_now(), waited = 0;
	unsigned int n_done = 0;
	struct scene s;
	struct job job;

	scene_init(&s, 2);
	for (unsigned int i = 0; i < 4 * N_STALLED; i++) {
		job = stalling_job(&s, &job, -1, NULL, &n_done);
		job.work.run = nap_run;
		waited += workers_run(s.workers, &job.work, PATIENCE_NSEC) ? PATIENCE_NSEC / 4 : 0;
		ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	}
	/* Twice: the last wait before the patience is used up may be seen late. */
	ASSERT_LE(waited, 2 * (PATIENCE_NSEC + (nsec_now() - begin) / 10));
	scene_deinit(&s);
}

static struct {
	bool fails; /* atomic */
	unsigned int n_failed; /* atomic */
	pthread_barrier_t *barrier; /* both sides of the first one that fails; or NULL */
} starts;

int __real_thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*fn)(void *arg), void *arg);
int __wrap_thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*fn)(void *arg), void *arg);

int __wrap_thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*fn)(void *arg), void *arg)
{
	if (!__atomic_load_n(&starts.fails, __ATOMIC_ACQUIRE))
		return __real_thread_start(ret_thread, stack_bytes, name, fn, arg);
	if (__atomic_fetch_add(&starts.n_failed, 1, __ATOMIC_RELAXED) == 0) {
		pthread_barrier_wait(starts.barrier);
		pthread_barrier_wait(starts.barrier);
	}
	return -EAGAIN;
}

/* The only idle thread is about to start another one, so no thread learns of the work, and then none can be started. */
TEST(a_work_that_comes_while_no_thread_can_be_started_does_not_wait)
{
	int hold = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	unsigned int n_begun = 0, n_done = 0;
	pthread_barrier_t barrier;
	struct job stalls, other;
	uint64_t one = 1;
	struct scene s;

	ASSERT_GE(hold, 0);
	ASSERT_OK(pthread_barrier_init(&barrier, NULL, 2));
	scene_init(&s, 2);
	starts.barrier = &barrier;
	__atomic_store_n(&starts.n_failed, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&starts.fails, true, __ATOMIC_RELEASE);
	stalls = stalling_job(&s, &stalls, hold, &n_begun, &n_done);
	workers_submit(s.workers, &stalls.work);
	pthread_barrier_wait(&barrier);
	await_count(&n_begun, 1);
	other = stalling_job(&s, &other, -1, &n_begun, &n_done);
	workers_submit(s.workers, &other.work);
	pthread_barrier_wait(&barrier);
	await_count(&n_begun, 2);
	ASSERT_EQ(write(hold, &one, sizeof(one)), (ssize_t)sizeof(one));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	__atomic_store_n(&starts.fails, false, __ATOMIC_RELEASE);
	scene_deinit(&s);
	pthread_barrier_destroy(&barrier);
	close(hold);
}

static void submit_of(struct scene *s, struct job *job, const void *uid, const void *tenant, unsigned int *n_done)
{
	*job = job_of(s, n_done);
	job->work.users[0] = uid;
	job->work.users[1] = tenant;
	workers_submit(s->workers, &job->work);
}

/* Two users hold the two threads and have many works in the queue; a third one has one, behind them all. */
TEST(users_with_equally_many_under_way_take_turns)
{
	struct job jobs[N_MANY], other;
	uint64_t few = 6, rest = N_MANY - 6;
	unsigned int n_done = 0;
	struct scene s;
	int hold;

	scene_init(&s, 2);
	submit_many(&s, jobs, 2, 2, &n_done);
	hold = jobs[0].wait_fd;
	submit_other(&s, &other, &n_done);
	/* Each of the two may have two more before it, besides those under way: the others end when it is done. */
	ASSERT_EQ(write(hold, &few, sizeof(few)), (ssize_t)sizeof(few));
	ASSERT_OK(loop_run(s.loop));
	ASSERT_EQ(write(hold, &rest, sizeof(rest)), (ssize_t)sizeof(rest));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT_EQ(n_done, N_MANY + 1);
	close(hold);
	scene_deinit(&s);
}

/* A uid with cgroups of several tenants, such as jobs of a batch system, is still one uid; and a tenant with many uids one tenant. */
TEST(uid_of_several_tenants_and_tenant_of_several_uids_leave_a_thread_to_others)
{
	static const char uids[3], tenants[3];
	struct job first, more[2], other;
	unsigned int n_done = 0, n_held = 0;
	const uint64_t one = 1;
	struct scene s;

	scene_init(&s, 2);
	for (int by_uid = 0; by_uid < 2; by_uid++) {
		unsigned int begun = 0;

		first = job_of(&s, &n_held);
		first.work.users[0] = &uids[0];
		first.work.users[1] = &tenants[0];
		first.wait_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
		first.n_begun = &begun;
		ASSERT_GE(first.wait_fd, 0);
		workers_submit(s.workers, &first.work);
		while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < 1)
			sched_yield();
		n_done = 0;
		for (int i = 0; i < 2; i++)
			submit_of(&s, &more[i], &uids[by_uid ? 0 : i + 1], &tenants[by_uid ? i + 1 : 0], &n_done);
		submit_of(&s, &other, &s, NULL, &n_done);
		other.stops_loop = true;
		ASSERT_OK(loop_run(s.loop));
		ASSERT_EQ(n_done, 1u);
		ASSERT_EQ(other.order, 0u);
		ASSERT_EQ(write(first.wait_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
		ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
		ASSERT_EQ(n_done, 3u);
		close(first.wait_fd);
	}
	scene_deinit(&s);
}

/* One work waits for the uid and one for the tenant of what is under way: both begin at its end, on both threads. */
TEST(end_of_a_work_lets_another_thread_begin_what_waited_for_it)
{
	static const char uids[2], tenants[2];
	unsigned int n_done = 0, n_held = 0, begun = 0;
	struct job first, held, other;
	const uint64_t one = 1;
	struct scene s;

	scene_init(&s, 2);
	first = job_of(&s, &n_held);
	first.work.users[0] = &uids[0];
	first.work.users[1] = &tenants[0];
	first.wait_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	first.n_begun = &begun;
	ASSERT_GE(first.wait_fd, 0);
	held = first;
	held.work.users[1] = &tenants[1];
	held.wait_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	ASSERT_GE(held.wait_fd, 0);
	workers_submit(s.workers, &first.work);
	while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < 1)
		sched_yield();
	workers_submit(s.workers, &held.work);
	submit_of(&s, &other, &uids[1], &tenants[0], &n_done);
	other.stops_loop = true;
	/* So that the other thread has looked, and sleeps. */
	nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	ASSERT_EQ(write(first.wait_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	ASSERT_OK(loop_run(s.loop));
	ASSERT_EQ(n_done, 1u);
	ASSERT_EQ(write(held.wait_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	close(first.wait_fd);
	close(held.wait_fd);
	scene_deinit(&s);
}

/* ---- works that are offered ----------------------------------------------------------------------------------------- */

#define OFFER_NSEC (50 * NSEC_PER_MSEC)

TEST(a_work_that_is_offered_is_done_without_having_run_when_no_thread_takes_it)
{
	static const char uids[3];
	unsigned int n_held = 0, n_done = 0, begun = 0, offer_begun = 0;
	uint64_t one = 1, begin;
	struct job held, first, second;
	struct scene s;

	scene_init(&s, 1);
	held = job_of(&s, &n_held);
	held.work.users[0] = &uids[0];
	held.wait_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	held.n_begun = &begun;
	ASSERT_GE(held.wait_fd, 0);
	workers_submit(s.workers, &held.work);
	while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < 1)
		sched_yield();
	first = second = job_of(&s, &n_done);
	first.work.users[0] = &uids[1];
	second.work.users[0] = &uids[2];
	first.n_begun = second.n_begun = &offer_begun;
	second.stops_loop = true;
	begin = nsec_now();
	workers_offer(s.workers, &first.work, OFFER_NSEC);
	workers_offer(s.workers, &second.work, 2 * OFFER_NSEC);
	ASSERT_OK(loop_run(s.loop));
	ASSERT_GE(nsec_now() - begin, 2 * OFFER_NSEC);
	ASSERT(n_done == 2 && first.order == 0);
	ASSERT_EQ(write(held.wait_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
	ASSERT_OK(workers_finish(s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT(n_held == 1 && offer_begun == 0);
	close(held.wait_fd);
	scene_deinit(&s);
}

TEST(a_work_that_is_offered_runs_when_a_thread_has_nothing_else_to_do)
{
	unsigned int n_done = 0, begun = 0;
	struct job job;
	struct scene s;

	scene_init(&s, 1);
	job = job_of(&s, &n_done);
	job.n_begun = &begun;
	job.stops_loop = true;
	workers_offer(s.workers, &job.work, LIMIT_NSEC);
	ASSERT_OK(loop_run(s.loop));
	ASSERT(n_done == 1 && begun == 1);
	scene_deinit(&s);
}
