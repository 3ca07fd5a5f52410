/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/limited.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <shmemclient.h>

#include "proto/base/nsec.h"
#include "proto/base/thread.h"

struct call {
	void (*fn)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool has_ended, is_left;
};

static void free_call(struct call *call)
{
	pthread_mutex_destroy(&call->lock);
	pthread_cond_destroy(&call->ended);
	free(call);
}

static void *run(void *arg)
{
	struct call *call = arg;
	bool is_left;

	call->fn(call->arg);
	pthread_mutex_lock(&call->lock);
	call->has_ended = true;
	is_left = call->is_left;
	pthread_cond_signal(&call->ended);
	pthread_mutex_unlock(&call->lock);
	if (is_left)
		free_call(call);
	return NULL;
}

static struct call *new_call(void (*fn)(void *arg), void *arg)
{
	struct call *call = calloc(1, sizeof(*call));
	pthread_condattr_t attr;

	if (!call)
		return NULL;
	call->fn = fn;
	call->arg = arg;
	pthread_mutex_init(&call->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&call->ended, &attr);
	pthread_condattr_destroy(&attr);
	return call;
}

/* True: the call has ended. Else it frees itself when it does. */
static bool wait_for(struct call *call, uint64_t deadline)
{
	struct timespec at = nsec_to_timespec(deadline);
	bool ended;

	pthread_mutex_lock(&call->lock);
	while (!call->has_ended && nsec_now() < deadline)
		pthread_cond_timedwait(&call->ended, &call->lock, &at);
	ended = call->has_ended;
	call->is_left = !ended;
	pthread_mutex_unlock(&call->lock);
	return ended;
}

int limited_call(const char *what, void (*fn)(void *arg), void *arg, uint64_t deadline)
{
	struct call *call = new_call(fn, arg);
	pthread_t thread;
	int err;

	if (!call)
		return shmd_error_set(-ENOMEM, "no memory to call %s", what);
	err = thread_start(&thread, 0, "shmd-limited", run, call);
	if (err) {
		free_call(call);
		errno = -err;
		return shmd_error_set(err, "cannot start a thread for %s: %m", what);
	}
	if (wait_for(call, deadline)) {
		pthread_join(thread, NULL);
		free_call(call);
		return 0;
	}
	pthread_detach(thread);
	return shmd_error_set(-ETIMEDOUT, "%s did not return within the time limit; the thread that called it stays until this process ends", what);
}
