/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: how control operations reach the data thread, which alone touches queues.
 *
 * The data thread posts `done` last and never looks at a call again. A call whose caller waits to the end lies on its stack. One that
 * its caller may leave is the caller's if the executor is done with it before, and else the executor's: one word decides. A call that
 * was left is not begun, or not gone on with, so nothing of a context is touched when its caller goes on to close it.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "proto/base/assert.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define SPIN_NSEC 10000u
#define LOOK_NSEC 1000000u /* until the control thread looks what the executor's thread does, at first */
#define LEAST_NSEC 100000u /* for a thread that sleeps and has a CPU */
/* The control thread waits at most so long at once, and for a tenth of the time that passes. */
#define PATIENCE_MOST_NSEC 30000000u
#define PATIENCE_SHARE 10u

static void hand_over(struct soft_exec *exec, struct soft_call *call, enum soft_call_state state)
{
	assert_bug(__atomic_load_n(&exec->lane->shared->running, __ATOMIC_ACQUIRE));
	sem_init(&call->done, 0, 0);
	call->result = 0;
	call->state = state;
	soft_lane_push(exec->lane, &exec->lane->calls, &call->link);
}

static void wait_to_end(struct soft_call *call)
{
	while (sem_wait(&call->done) < 0)
		assert_bug(errno == EINTR);
}

int soft_call(struct soft_exec *exec, struct soft_call *call)
{
	hand_over(exec, call, SOFT_CALL_STAYS);
	wait_to_end(call);
	sem_destroy(&call->done);
	return call->result;
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

static bool sleep_until(struct soft_call *call, uint64_t end_nsec)
{
	const struct timespec end = nsec_to_timespec(end_nsec);
	int r;

	do
		r = sem_clockwait(&call->done, CLOCK_MONOTONIC, &end);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

/*
 * A thread that is awake and has a CPU is done sooner than a sleep ends. Otherwise the caller sleeps until it is woken: where CPUs are
 * busy a yield, or a sleep of a fixed time, costs milliseconds for each question.
 */
static bool wait_for(struct soft_call *call, uint64_t begin, uint64_t nsec)
{
	do {
		if (sem_trywait(&call->done) == 0)
			return true;
	} while (nsec_now() - begin < SPIN_NSEC);
	return sleep_until(call, nsec_add(begin, nsec < LEAST_NSEC ? LEAST_NSEC : nsec));
}

/* The same for who has others to serve: it does not wait for a thread that sleeps at its user's memory, only for one without a CPU. */
static bool wait_briefly(struct soft_exec *exec, struct soft_call *call, uint64_t begin, uint64_t nsec)
{
	uint64_t now = LOOK_NSEC;

	while (!wait_for(call, begin, now < nsec ? now : nsec)) {
		if (now >= nsec || thread_is_uninterruptible(__atomic_load_n(&exec->poll.tid, __ATOMIC_RELAXED)))
			return false;
		now *= 2;
	}
	return true;
}

/* Whether the caller has left it before the executor was done with it. */
static bool try_leave(struct soft_call *call)
{
	uint32_t state = SOFT_CALL_MAY_BE_LEFT;

	return __atomic_compare_exchange_n(&call->state, &state, SOFT_CALL_LEFT, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static int ask(struct soft_exec *exec, struct soft_call *call, uint64_t nsec, bool is_brief)
{
	uint64_t begin = nsec_now();
	uint32_t turns;
	bool is_done;

	if (is_late(exec, nsec)) {
		free(call);
		return -EBUSY;
	}
	hand_over(exec, call, SOFT_CALL_MAY_BE_LEFT);
	is_done = is_brief ? wait_briefly(exec, call, begin, nsec) : wait_for(call, begin, nsec);
	/* Behind the turn that finishes or drops the call another one begins: a count read before the last look does not stay. */
	turns = turns_of(exec);
	if (!is_done && try_leave(call)) {
		set_late(exec, turns, nsec);
		return -EBUSY;
	}
	if (!is_done)
		wait_to_end(call);
	/* The executor's last word: a checker of races learns from it, as not from `done`, that all that the executor wrote is here. */
	assert_bug(__atomic_load_n(&call->state, __ATOMIC_ACQUIRE) == SOFT_CALL_DONE);
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
	int r = ask(exec, call, left < most_nsec ? left : most_nsec, true);

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

	return ctx->base.on_control ? ask_briefly(ctx->exec, call, nsec) : ask(ctx->exec, call, nsec, false);
}

/* ---- the data thread ---------------------------------------------------------------------------------------------------------- */

static bool was_left(const struct soft_call *call)
{
	return __atomic_load_n(&call->state, __ATOMIC_ACQUIRE) == SOFT_CALL_LEFT;
}

static void free_left(struct soft_call *call)
{
	sem_destroy(&call->done);
	free(call);
}

static void finish(struct soft_call *call)
{
	uint32_t state = SOFT_CALL_MAY_BE_LEFT;

	if (__atomic_load_n(&call->state, __ATOMIC_RELAXED) == SOFT_CALL_STAYS ||
	    __atomic_compare_exchange_n(&call->state, &state, SOFT_CALL_DONE, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sem_post(&call->done);
	else
		free_left(call);
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
		free_left(call);
	}
}
