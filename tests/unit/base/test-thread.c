/* SPDX-License-Identifier: Apache-2.0 */
/* A thread blocks all signals and has the requested stack and name; its maker keeps its own mask. Others see whether it can be woken. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/thread.h"
#include "tests/lib/test.h"

#define STACK_BYTES ((size_t)1 << 20)

struct seen {
	sigset_t mask;
	size_t stack_bytes;
	char name[16];
};

static void *look(void *arg)
{
	struct seen *seen = arg;
	pthread_attr_t attr;

	pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
	ASSERT_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	ASSERT_EQ(pthread_attr_getstacksize(&attr, &seen->stack_bytes), 0);
	pthread_attr_destroy(&attr);
	ASSERT_EQ(pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name)), 0);
	return arg;
}

static void start(struct seen *seen, size_t stack_bytes, const char *name)
{
	pthread_t thread;
	void *result;

	memset(seen, 0, sizeof(*seen));
	ASSERT_OK(thread_start(&thread, stack_bytes, name, look, seen));
	ASSERT_EQ(pthread_join(thread, &result), 0);
	ASSERT(result == seen);
}

TEST(no_signal_reaches_it_and_its_maker_keeps_its_own)
{
	sigset_t mine, after;
	struct seen seen;

	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR2);
	ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
	start(&seen, 0, NULL);
	ASSERT(sigismember(&seen.mask, SIGTERM) && sigismember(&seen.mask, SIGUSR1) && sigismember(&seen.mask, SIGUSR2));
	ASSERT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
	ASSERT(sigismember(&after, SIGUSR2) && !sigismember(&after, SIGTERM));
}

TEST(its_stack_is_what_was_asked_for_or_the_default)
{
	struct seen seen;

	start(&seen, STACK_BYTES, NULL);
	ASSERT_EQ(seen.stack_bytes, STACK_BYTES);
	start(&seen, 1, NULL);
	ASSERT_GT(seen.stack_bytes, 4096u);
}

TEST(its_name_is_cut_to_what_the_kernel_keeps)
{
	char mine[16];
	struct seen seen;

	start(&seen, 0, "shmd-soft0");
	ASSERT_STREQ(seen.name, "shmd-soft0");
	start(&seen, 0, "shmd-a-name-of-many-words");
	ASSERT_STREQ(seen.name, "shmd-a-name-of-");
	ASSERT_EQ(pthread_getname_np(pthread_self(), mine, sizeof(mine)), 0);
	start(&seen, 0, NULL);
	ASSERT_STREQ(seen.name, mine);
}

static pid_t maker_tid, child_pid, forked_pid; /* atomic */

/* The kernel does not wake who waits like this, but for its child and SIGKILL. */
static void *wait_for_child(void *arg)
{
	pid_t pid;

	__atomic_store_n(&maker_tid, gettid(), __ATOMIC_RELEASE);
	pid = vfork();
	if (pid == 0) {
		__atomic_store_n(&child_pid, getpid(), __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	__atomic_store_n(&forked_pid, pid, __ATOMIC_RELEASE);
	while (waitpid(pid, NULL, 0) < 0)
		;
	return NULL;
}

TEST(a_thread_that_no_signal_wakes_is_seen_and_others_are_not_taken_for_one)
{
	pthread_t thread;
	pid_t pid;

	ASSERT(!thread_is_uninterruptible(gettid()));
	ASSERT(!thread_is_uninterruptible(0));
	ASSERT_OK(thread_start(&thread, 0, "a) D (b", wait_for_child, NULL));
	while (!(pid = __atomic_load_n(&child_pid, __ATOMIC_ACQUIRE)) && !__atomic_load_n(&forked_pid, __ATOMIC_ACQUIRE))
		usleep(1000);
	if (!pid) {
		ASSERT_OK(kill(forked_pid, SIGKILL));
		ASSERT_EQ(pthread_join(thread, NULL), 0);
		test_skip("vfork is a fork here, and nothing waits for the child");
	}
	ASSERT(thread_is_uninterruptible(maker_tid));
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	ASSERT(!thread_is_uninterruptible(maker_tid));
}

/* How long a thread runs at a time, as the kernel has it. 0: the kernel does not say. */
static uint64_t turn_nsec(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags, nice_and_priority, runtime_nsec, deadline_nsec, period_nsec;
	} words = {.size = sizeof(words)};

	ASSERT_OK(syscall(SYS_sched_getattr, 0, &words, sizeof(words), 0));
	return words.runtime_nsec;
}

static void *look_at_turn(void *arg)
{
	*(uint64_t *)arg = turn_nsec();
	return NULL;
}

TEST(short_turns_are_those_of_threads_that_it_starts_too)
{
	pthread_t thread;
	uint64_t nsec = 0;

	if (turn_nsec() == 0)
		test_skip("this kernel has no turns of a thread's own");
	thread_take_short_turns();
	ASSERT_EQ(turn_nsec(), 100000u);
	ASSERT_OK(thread_start(&thread, 0, NULL, look_at_turn, &nsec));
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	ASSERT_EQ(nsec, 100000u);
}
