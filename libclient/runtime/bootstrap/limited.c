/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/limited.h"

#include <errno.h>
#include <stdlib.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/ending.h"
#include "proto/base/thread.h"

struct call {
	void (*fn)(void *arg);
	void *arg;
	struct ending ending;
};

static void free_call(struct call *call)
{
	ending_deinit(&call->ending);
	free(call);
}

static void *run(void *arg)
{
	struct call *call = arg;

	call->fn(call->arg);
	if (ending_end(&call->ending))
		free_call(call);
	return NULL;
}

static struct call *new_call(void (*fn)(void *arg), void *arg)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->fn = fn;
	call->arg = arg;
	ending_init(&call->ending);
	return call;
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
	if (ending_wait(&call->ending, deadline)) {
		pthread_join(thread, NULL);
		free_call(call);
		return 0;
	}
	pthread_detach(thread);
	return shmd_error_set(-ETIMEDOUT, "%s did not return within the time limit; the thread that called it stays until this process ends", what);
}
