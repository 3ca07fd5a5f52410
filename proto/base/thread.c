/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define TURN_NSEC 100000u /* the least that the kernel takes */
#define NAME_BYTES 16 /* with its end, as the kernel keeps it */

struct birth {
	void *(*fn)(void *arg);
	void *arg;
	char name[NAME_BYTES]; /* or "": its maker's */
};

/* It names itself: that of another thread is a file, which a process in a sandbox does not write. */
static void *run(void *arg)
{
	struct birth birth = *(struct birth *)arg;

	free(arg);
	if (birth.name[0])
		pthread_setname_np(pthread_self(), birth.name);
	return birth.fn(birth.arg);
}

int thread_start(pthread_t *ret_thread, size_t stack_bytes, const char *name, void *(*fn)(void *arg), void *arg)
{
	_cleanup_free_ struct birth *birth = malloc(sizeof(*birth));
	sigset_t all, before;
	pthread_attr_t attr;
	int err = birth ? pthread_attr_init(&attr) : ENOMEM;

	if (err)
		return -err;
	*birth = (struct birth){.fn = fn, .arg = arg};
	snprintf(birth->name, sizeof(birth->name), "%.*s", NAME_BYTES - 1, name ? name : "");
	if (stack_bytes)
		pthread_attr_setstacksize(&attr, stack_bytes);
	/* It inherits the mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(ret_thread, &attr, run, birth);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (!err)
		take_ptr(birth);
	return -err;
}

bool thread_is_uninterruptible(pid_t tid)
{
	char path[48], text[64]; /* "tid (name) state ..." */
	_cleanup_close_ int fd = -1;
	const char *behind_name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = 0;
	behind_name = strrchr(text, ')');
	return behind_name && strncmp(behind_name, ") D", 3) == 0;
}

/* As the kernel has it; the C library has none before 2.41. */
struct sched_words {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_nsec, deadline_nsec, period_nsec;
};

void thread_take_short_turns(void)
{
	struct sched_words words = {.size = sizeof(words)};

	if (syscall(SYS_sched_getattr, 0, &words, sizeof(words), 0) < 0 || words.policy != SCHED_OTHER)
		return;
	words.runtime_nsec = TURN_NSEC;
	syscall(SYS_sched_setattr, 0, &words, 0);
}
