/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/thread.h"

#include <signal.h>
#include <stdio.h>

#define NAME_BYTES 16 /* with its end, as the kernel keeps it */

static void set_name(pthread_t thread, const char *name)
{
	char cut[NAME_BYTES];

	snprintf(cut, sizeof(cut), "%.*s", NAME_BYTES - 1, name);
	pthread_setname_np(thread, cut);
}

int thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*fn)(void *arg), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err)
		return -err;
	if (stack_bytes)
		pthread_attr_setstacksize(&attr, stack_bytes);
	/* It inherits the mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(ret_thread, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (!err && name)
		set_name(*ret_thread, name);
	return -err;
}
