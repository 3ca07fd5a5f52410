/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: how control operations reach the data thread, which alone touches queues.
 *
 * A call whose caller waits to the end lies on its stack; the data thread posts `done` last and never looks at it again. A call
 * that its caller may leave has two owners, and the one that is done with it last frees it. A call that was left is not
 * begun, or not gone on with, so nothing of a context is touched when its caller goes on to close it.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "proto/base/assert.h"
#include "proto/base/nsec.h"

#define YIELDS 64u
#define LOOK_NSEC 20000u
#define LOOK_MOST_NSEC 1000000u
/* The control thread waits at most so long at once, and for a tenth of the time that passes. */
#define PATIENCE_MOST_NSEC 30000000u
#define PATIENCE_SHARE 10u

static void hand_over(struct soft_exec *exec, struct soft_call *call, uint32_t refs)
{
	assert_bug(__atomic_load_n(&exec->lane->shared->running, __ATOMIC_ACQUIRE));
	sem_init(&call->done, 0, 0);
	call->result = 0;
	call->refs = refs;
	soft_lane_push(exec->lane, &exec->lane->calls, &call->link);
}

int soft_call(struct soft_exec *exec, struct soft_call *call)
{
	hand_over(exec, call, 0);
	while (sem_wait(&call->done) < 0)
		assert_bug(errno == EINTR);
	sem_destroy(&call->done);
	return call->result;
}

/* Returns whether the other owner has gone already; then it is freed. */
static bool call_unref(struct soft_call *call)
{
	if (__atomic_sub_fetch(&call->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return false;
	sem_destroy(&call->done);
	free(call);
	return true;
}

/* ---- callers that do not wait for ever ------------------------------------------------------------------------------------ */

static uint32_t turns_of(const struct soft_exec *exec)
{
	return __atomic_load_n(&exec->lane->shared->turns, __ATOMIC_ACQUIRE) + 1;
}

/* Somebody has waited so long in vain, and it has not moved since. */
static bool is_late(const struct soft_exec *exec, uint64_t nsec)
{
	uint32_t late = __atomic_load_n(&exec->late_turns, __ATOMIC_ACQUIRE);

	return late && late == turns_of(exec) && nsec <= __atomic_load_n(&exec->late_nsec, __ATOMIC_RELAXED);
}

static void set_late(struct soft_exec *exec, uint32_t turns, uint64_t nsec)
{
	__atomic_store_n(&exec->late_nsec, nsec, __ATOMIC_RELAXED);
	__atomic_store_n(&exec->late_turns, turns, __ATOMIC_RELEASE);
}

static bool wait_for(struct soft_call *call, uint64_t nsec)
{
	struct timespec pause = {.tv_nsec = LOOK_NSEC};
	uint64_t begin = nsec_now();

	/* A thread that is awake has it done sooner than a sleep ends. On a busy CPU each yield lets others run for milliseconds. */
	for (unsigned int i = 0; i < YIELDS && (i == 0 || nsec_now() - begin < LOOK_MOST_NSEC); i++) {
		if (sem_trywait(&call->done) == 0)
			return true;
		sched_yield();
	}
	while (sem_trywait(&call->done) < 0) {
		if (nsec_now() - begin >= nsec)
			return false;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < (long)LOOK_MOST_NSEC)
			pause.tv_nsec *= 2;
	}
	return true;
}

static int ask(struct soft_exec *exec, struct soft_call *call, uint64_t nsec)
{
	uint32_t turns;
	bool is_done;

	if (is_late(exec, nsec)) {
		free(call);
		return -EBUSY;
	}
	hand_over(exec, call, 2);
	is_done = wait_for(call, nsec);
	/* Behind the turn that finishes or drops the call another one begins: a count read before the last look does not stay. */
	turns = turns_of(exec);
	if (!is_done && sem_trywait(&call->done) < 0) {
		set_late(exec, turns, nsec);
		call_unref(call);
		return -EBUSY;
	}
	/* The executor may be at its own end of it still. */
	while (__atomic_load_n(&call->refs, __ATOMIC_ACQUIRE) > 1)
		sched_yield();
	sem_destroy(&call->done);
	return 0;
}

uint64_t soft_patience_left(struct soft_fabric *fabric)
{
	uint64_t now = nsec_now(), more = (now - fabric->patience_at_nsec) / PATIENCE_SHARE;

	fabric->patience_at_nsec = now;
	fabric->patience_nsec = more > PATIENCE_MOST_NSEC ? PATIENCE_MOST_NSEC : fabric->patience_nsec + more;
	if (fabric->patience_nsec > PATIENCE_MOST_NSEC)
		fabric->patience_nsec = PATIENCE_MOST_NSEC;
	return fabric->patience_nsec;
}

void soft_patience_spend(struct soft_fabric *fabric, uint64_t nsec)
{
	fabric->patience_nsec -= nsec < fabric->patience_nsec ? nsec : fabric->patience_nsec;
}

static int ask_briefly(struct soft_exec *exec, struct soft_call *call, uint64_t most_nsec)
{
	struct soft_fabric *fabric = exec->nic->fabric;
	uint64_t left = soft_patience_left(fabric), begin = nsec_now();
	int r = ask(exec, call, left < most_nsec ? left : most_nsec);

	/* Quick answers are no waiting. */
	if (r < 0)
		soft_patience_spend(fabric, nsec_now() - begin);
	return r;
}

int soft_call_brief(struct soft_exec *exec, struct soft_call *call)
{
	return ask_briefly(exec, call, PATIENCE_MOST_NSEC);
}

int soft_ctx_ask(struct soft_ctx *ctx, struct soft_call *call)
{
	uint64_t nsec = ctx->base.patience_nsec ? ctx->base.patience_nsec : SOFT_ASK_NSEC;

	return ctx->base.on_control ? ask_briefly(ctx->exec, call, nsec) : ask(ctx->exec, call, nsec);
}

/* ---- the data thread ---------------------------------------------------------------------------------------------------------- */

static bool was_left(const struct soft_call *call)
{
	return __atomic_load_n(&call->refs, __ATOMIC_ACQUIRE) == 1;
}

static void finish(struct soft_call *call)
{
	bool may_be_left = __atomic_load_n(&call->refs, __ATOMIC_RELAXED) != 0;

	sem_post(&call->done);
	if (may_be_left)
		call_unref(call);
}

unsigned int soft_calls_run(struct soft_exec *exec)
{
	struct soft_call *call, *next;
	unsigned int n = 0;

	soft_lane_take(&exec->lane->calls, &exec->calls);
	list_for_each_entry_safe(call, next, &exec->calls, link) {
		n++;
		if (!was_left(call) && !call->run(exec, call))
			continue;
		list_del(&call->link);
		finish(call);
	}
	return n;
}

void soft_calls_drop(struct soft_exec *exec)
{
	struct soft_call *call, *next;

	soft_lane_take(&exec->lane->calls, &exec->calls);
	list_for_each_entry_safe(call, next, &exec->calls, link) {
		assert_bug(was_left(call));
		list_del(&call->link);
		call_unref(call);
	}
}
