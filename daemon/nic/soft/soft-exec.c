/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executors: one for each user with contexts on a NIC, with an engine, a thread, a lane and a NIC page of its own.
 *
 * An executor starts with the first context of its user. When the last one has gone it is the spare, which sleeps and serves
 * whichever user comes next; there is at most one, so a NIC with one user at a time starts one thread in its life. Contexts of a
 * former process belong to the executor that has their NIC page, since one thread alone may say there that it sleeps.
 *
 * Refuses more users than a NIC has lanes. Whoever starts an executor holds `start_lock`, which the control thread never takes
 * while it serves clients; under `lock` nobody makes a system call. A thread that is joined has no context left, so no memory of a client to
 * sleep at. Any thread that serves requests; resume and rest: control thread.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

/* ---- start ----------------------------------------------------------------------------------------------------------- */

/* Frees everything that start has made. No thread uses it. */
static void exec_deinit(struct soft_exec *exec)
{
	soft_delay_drain(&exec->delay);
	soft_agents_drain(exec);
	exec->engine = engine_free(exec->engine);
	if (exec->lane) {
		soft_thread_drop_packets(exec);
		soft_foreign_deinit(exec);
		soft_calls_drop(exec);
	}
	soft_names_deinit(&exec->qpns);
	soft_names_deinit(&exec->cqns);
	soft_page_deinit(exec);
}

static struct soft_exec *exec_free(struct soft_exec *exec)
{
	if (exec)
		exec_deinit(exec);
	free(exec);
	return NULL;
}
DEFINE_CLEANUP(struct soft_exec *, exec_free);

static struct soft_exec *exec_alloc(struct soft_nic *nic, unsigned int index, uint32_t uid)
{
	struct soft_exec *exec = calloc(1, sizeof(*exec));

	if (!exec)
		return NULL;
	exec->nic = nic;
	exec->index = index;
	exec->uid = uid;
	exec->nic_page = NIC_PAGE_NONE;
	list_init(&exec->calls);
	list_init(&exec->packets);
	list_init(&exec->agents);
	soft_delay_init(&exec->delay, nic->fault.nth + nic->index + (uint64_t)index * SOFT_MAX_NICS);
	return exec;
}

/* To an executor of several users, each one's others are strangers. */
static void set_lane_uid(struct soft_exec *exec)
{
	/* Otherwise the daemon knows. */
	if (!soft_fabric_is_view(exec->nic->fabric))
		__atomic_store_n(&exec->lane->owner->uid, exec->is_shared ? SOFT_UID_SEVERAL : exec->uid, __ATOMIC_RELAXED);
}

/* page_fd: of a former process, or -1. */
static int exec_start(struct soft_exec *exec, int page_fd)
{
	int r = soft_port_lane(exec->nic->port, exec->index, &exec->lane);

	if (r == 0)
		r = soft_foreign_init(exec);
	if (r < 0)
		return r;
	soft_names_init(&exec->qpns, &exec->nic->port->shared->qpns, exec->index);
	soft_names_init(&exec->cqns, &exec->nic->port->shared->cqns, exec->index);
	exec->qpns.are_given = exec->cqns.are_given = soft_fabric_is_view(exec->nic->fabric);
	set_lane_uid(exec);
	exec->n_turns = exec->lane->shared->turns;
	exec->n_downs = __atomic_load_n(&exec->nic->port->shared->n_downs, __ATOMIC_RELAXED);
	exec->resting = page_fd >= 0;
	r = page_fd < 0 ? soft_page_make(exec) : soft_page_adopt(exec, page_fd);
	if (r == 0)
		r = soft_thread_start_engine(exec);
	if (r < 0)
		return r;
	nic_page_beat(&exec->nic_page);
	return soft_thread_start(exec);
}

static unsigned int free_index(struct soft_nic *nic)
{
	unsigned int index = 0;

	pthread_mutex_lock(&nic->lock);
	if (soft_fabric_is_view(nic->fabric))
		index = nic->execs[nic->fabric->own_exec] ? SOFT_MAX_EXECS : nic->fabric->own_exec;
	while (index < SOFT_MAX_EXECS && nic->execs[index])
		index++;
	pthread_mutex_unlock(&nic->lock);
	return index;
}

/* Under start_lock, so the index stays free. */
static int exec_new(struct soft_nic *nic, uint32_t uid, int page_fd, struct soft_exec **ret_exec)
{
	_cleanup_(exec_freep) struct soft_exec *exec = NULL;
	unsigned int index = free_index(nic);
	int r;

	if (index == SOFT_MAX_EXECS)
		return -EUSERS;
	exec = exec_alloc(nic, index, uid);
	if (!exec)
		return -ENOMEM;
	r = exec_start(exec, page_fd);
	if (r < 0)
		return r;
	pthread_mutex_lock(&nic->lock);
	exec->n_ctxs = 1;
	exec->is_shared = exec->page->is_shared;
	set_lane_uid(exec);
	/* The port may have changed while this executor was not in the table. */
	__atomic_store_n(&exec->page->port_is_down, soft_port_is_down(nic->port), __ATOMIC_RELAXED);
	nic->execs[index] = exec;
	pthread_mutex_unlock(&nic->lock);
	*ret_exec = take_ptr(exec);
	return 0;
}

/* ---- stop ------------------------------------------------------------------------------------------------------------ */

/* Under the lock: nobody finds it any more. Its place is free when its thread has ended. */
static struct soft_exec *retire(struct soft_exec *exec)
{
	struct soft_nic *nic = exec->nic;

	exec->is_ending = true;
	if (nic->spare == exec)
		nic->spare = NULL;
	nic_counters_add(&nic->past, &exec->last);
	return exec;
}

/* Adds the counts since the last question. */
static void count_rest(struct soft_exec *exec)
{
	uint64_t *past = (uint64_t *)&exec->nic->past;
	const uint64_t *last = (const uint64_t *)&exec->last;
	struct engine_qp_counters counters;
	struct nic_counters all = {0};

	engine_counters(exec->engine, &counters);
	soft_counters_add(&all, &counters);
	for (unsigned int i = 0; i < sizeof(all) / sizeof(uint64_t); i++)
		past[i] += ((const uint64_t *)&all)[i] - last[i];
}

static void exec_stop(struct soft_exec *exec)
{
	struct soft_nic *nic = exec->nic;

	doorbell_poll_stop(&exec->poll);
	assert_bug(list_empty(&exec->poll.pages));
	/* From here on packets go nowhere; what slips through is freed with the port. */
	__atomic_store_n(&exec->lane->shared->running, false, __ATOMIC_RELEASE);
	pthread_mutex_lock(&nic->lock);
	count_rest(exec);
	pthread_mutex_unlock(&nic->lock);
	/* The lane is empty before another executor gets it, and this one is found until then. */
	exec_deinit(exec);
	pthread_mutex_lock(&nic->lock);
	nic->execs[exec->index] = NULL;
	pthread_mutex_unlock(&nic->lock);
	free(exec);
}

void soft_execs_stop(struct soft_nic *nic)
{
	for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++)
		if (nic->execs[i])
			exec_stop(retire(nic->execs[i]));
}

/* ---- who has which ----------------------------------------------------------------------------------------------------- */

static bool is_there(const struct soft_nic *nic, unsigned int i)
{
	return nic->execs[i] && !nic->execs[i]->is_ending;
}

static struct soft_exec *find_by_uid(const struct soft_nic *nic, uint32_t uid)
{
	for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++)
		if (is_there(nic, i) && nic->execs[i] != nic->spare && nic->execs[i]->uid == uid && !nic->execs[i]->is_shared)
			return nic->execs[i];
	return NULL;
}

static struct soft_exec *find_by_page(const struct soft_nic *nic, int page_fd)
{
	for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++)
		if (is_there(nic, i) && nic_page_is(&nic->execs[i]->nic_page, page_fd))
			return nic->execs[i];
	return NULL;
}

/* Under the lock. */
static struct soft_exec *take(struct soft_exec *exec, uint32_t uid)
{
	if (!exec)
		return NULL;
	if (exec->nic->spare == exec) {
		exec->nic->spare = NULL;
		exec->uid = uid;
		set_lane_uid(exec);
	}
	if (exec->uid != uid) {
		exec->is_shared = true;
		exec->page->is_shared = true;
		set_lane_uid(exec);
	}
	exec->n_ctxs++;
	return exec;
}

static struct soft_exec *take_for(struct soft_nic *nic, uint32_t uid)
{
	struct soft_exec *exec;

	pthread_mutex_lock(&nic->lock);
	nic->open |= !nic->started;
	nic->started = true;
	exec = find_by_uid(nic, uid);
	exec = take(exec ? exec : nic->spare, uid);
	pthread_mutex_unlock(&nic->lock);
	return exec;
}

int soft_exec_get(struct soft_nic *nic, uint32_t uid, struct soft_exec **ret_exec)
{
	int r = 0;

	soft_fabric_settle(nic->fabric, nic->port);
	pthread_mutex_lock(&nic->start_lock);
	*ret_exec = take_for(nic, uid);
	if (!*ret_exec)
		r = exec_new(nic, uid, -1, ret_exec);
	pthread_mutex_unlock(&nic->start_lock);
	return r;
}

/* 0 and NULL: there is none yet. */
static int take_page(struct soft_nic *nic, uint32_t uid, int page_fd, struct soft_exec **ret_exec)
{
	int r = 0;

	*ret_exec = NULL;
	pthread_mutex_lock(&nic->lock);
	if (nic->open)
		r = -EBUSY;
	else
		*ret_exec = take(find_by_page(nic, page_fd), uid);
	/* Also when that one has no context left: then somebody took its page for another's. */
	if (r == 0 && !*ret_exec && (find_by_uid(nic, uid) || (nic->spare && nic->spare->uid == uid)))
		r = -EXDEV;
	nic->started |= r != -EBUSY;
	pthread_mutex_unlock(&nic->lock);
	return r;
}

int soft_exec_adopt(struct soft_nic *nic, uint32_t uid, int page_fd, struct soft_exec **ret_exec)
{
	int r;

	if (page_fd < 0)
		return -EBADF;
	pthread_mutex_lock(&nic->start_lock);
	r = take_page(nic, uid, page_fd, ret_exec);
	if (r == -EXDEV && soft_page_is_shared(page_fd))
		r = 0;
	if (r == 0 && !*ret_exec)
		r = exec_new(nic, uid, page_fd, ret_exec);
	pthread_mutex_unlock(&nic->start_lock);
	return r;
}

void soft_exec_put(struct soft_exec *exec)
{
	struct soft_nic *nic = exec->nic;
	struct soft_exec *over = NULL;

	pthread_mutex_lock(&nic->lock);
	if (--exec->n_ctxs == 0) {
		over = nic->spare || exec->is_shared ? retire(exec) : NULL;
		nic->spare = over ? nic->spare : exec;
	}
	pthread_mutex_unlock(&nic->lock);
	if (over)
		exec_stop(over);
}

static void each_locked(struct soft_nic *nic, void (*fn)(struct soft_exec *exec, void *arg), void *arg)
{
	for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++)
		if (is_there(nic, i))
			fn(nic->execs[i], arg);
}

void soft_execs_each(struct soft_nic *nic, void (*fn)(struct soft_exec *exec, void *arg), void *arg)
{
	pthread_mutex_lock(&nic->lock);
	each_locked(nic, fn, arg);
	pthread_mutex_unlock(&nic->lock);
}

void soft_execs_count(struct soft_nic *nic, void (*fn)(struct soft_exec *exec, void *sum), struct nic_counters *sum)
{
	pthread_mutex_lock(&nic->lock);
	each_locked(nic, fn, sum);
	nic_counters_add(sum, &nic->past);
	pthread_mutex_unlock(&nic->lock);
}

/* ---- all of a NIC -------------------------------------------------------------------------------------------------------- */

static void resume_one(struct soft_exec *exec, void *arg)
{
	__atomic_store_n(&exec->may_resume, true, __ATOMIC_SEQ_CST);
	soft_lane_wake(exec->lane);
}

void soft_resume(struct nic *base)
{
	struct soft_nic *nic = soft_nic(base);

	pthread_mutex_lock(&nic->lock);
	nic->open = true;
	pthread_mutex_unlock(&nic->lock);
	soft_execs_each(nic, resume_one, NULL);
}

static void ask_whether_left(struct soft_exec *exec, void *all)
{
	soft_lane_wake(exec->lane);
	*(bool *)all &= __atomic_load_n(&exec->has_left, __ATOMIC_ACQUIRE);
}

bool soft_rest(struct nic *base)
{
	struct soft_nic *nic = soft_nic(base);
	bool all = true;

	__atomic_store_n(&nic->is_leaving, true, __ATOMIC_SEQ_CST);
	soft_execs_each(nic, ask_whether_left, &all);
	return all;
}
