/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work while all other threads of the process are stopped, for the move of the program's data.
 *
 * A helper, which shares the memory of the process but is none of its threads, stops them as a debugger does (PTRACE_SEIZE), works, and lets
 * them go. Unlike a signal with a handler this also stops threads that block all signals, and no system call of theirs ends with EINTR; unlike
 * memory that is write-protected it lets the kernel write there for them, and hides no fault from the program's own handlers. A thread that
 * waits in the kernel for a word (futex) waits anew afterwards, for the word as it is then.
 *
 * Stopped threads may hold any lock, that of malloc too: the work and the helper make system calls and touch memory, and nothing else.
 *
 * ThreadSanitizer takes the helper for the caller, whose thread-local state it has, and believes afterwards that the caller's locks order nothing.
 * So in its build the caller works itself, beside threads that run on: a program that writes global data meanwhile shows as the race that it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/compat/openshmem/openshmem.h"

#define STACK_BYTES ((size_t)256 << 10)
#define MAX_THREADS 65536u
#define STOP_TURNS 20000 /* looks, 100 us apart: a thread that waits in the kernel for a child of vfork() cannot stop */

struct thread {
	pid_t tid;
	int signal; /* on the way to it when it stopped */
	bool is_stopped;
};

struct helper {
	int (*work)(void *arg);
	void *arg;
	pid_t caller; /* waits, and is not stopped */
	uint32_t may_begin;
	char path[32]; /* of the folder of threads */
	struct thread *threads;
	uint32_t n_threads;
	int result, error;
};

bool osh_is_alone(void)
{
	struct stat st;

	/* Two links, and one for each thread. */
	return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

/* ---- the helper */

static void pause_a_while(void)
{
	struct timespec pause = {.tv_nsec = 100000};

	nanosleep(&pause, NULL);
}

static bool is_known(const struct helper *helper, pid_t tid)
{
	for (uint32_t i = 0; i < helper->n_threads; i++)
		if (helper->threads[i].tid == tid)
			return true;
	return tid == helper->caller;
}

static void await_stop(struct thread *thread)
{
	int status = 0;

	for (int turn = 0; turn < STOP_TURNS; turn++) {
		pid_t pid = waitpid(thread->tid, &status, __WALL | WNOHANG);

		if (pid == thread->tid) {
			thread->is_stopped = WIFSTOPPED(status);
			/* A signal that it was about to take is its own again later. */
			thread->signal = thread->is_stopped && status >> 16 != PTRACE_EVENT_STOP ? WSTOPSIG(status) : 0;
			return;
		}
		if (pid < 0 && errno != EINTR)
			return;
		pause_a_while();
	}
}

/* Whether it is new. */
static bool stop(struct helper *helper, pid_t tid)
{
	struct thread *thread = &helper->threads[helper->n_threads];

	if (is_known(helper, tid) || helper->n_threads == MAX_THREADS)
		return false;
	*thread = (struct thread){.tid = tid};
	helper->n_threads++;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
		if (errno != ESRCH && !helper->error)
			helper->error = -errno;
		return true;
	}
	await_stop(thread);
	return true;
}

/* As the kernel fills it in. */
struct entry {
	uint64_t ino;
	int64_t offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* Whether some were new. */
static bool stop_those_in(struct helper *helper, int folder)
{
	uint64_t buffer[512];
	bool is_any = false;
	long bytes, at;

	lseek(folder, 0, SEEK_SET);
	while ((bytes = syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0) {
		for (at = 0; at < bytes; at += ((struct entry *)((char *)buffer + at))->bytes) {
			pid_t tid = (pid_t)strtol(((struct entry *)((char *)buffer + at))->name, NULL, 10);

			is_any |= tid > 0 && stop(helper, tid);
		}
	}
	return is_any;
}

/* A thread that still ran may have made another one. */
static void stop_all(struct helper *helper)
{
	int folder = open(helper->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		helper->error = -errno;
	while (folder >= 0 && !helper->error && stop_those_in(helper, folder))
		;
	if (folder >= 0)
		close(folder);
}

/* The end of the helper lets go of those that have not stopped. */
static void release_all(struct helper *helper)
{
	for (uint32_t i = 0; i < helper->n_threads; i++)
		if (helper->threads[i].is_stopped)
			(void)ptrace(PTRACE_DETACH, helper->threads[i].tid, NULL, (void *)(intptr_t)helper->threads[i].signal);
}

static int help(void *arg)
{
	struct helper *helper = arg;

	while (!__atomic_load_n(&helper->may_begin, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &helper->may_begin, FUTEX_WAIT, 0, NULL, NULL, 0);
	stop_all(helper);
	helper->result = helper->work(helper->arg);
	release_all(helper);
	syscall(SYS_exit, 0);
	return 0;
}

/* ---- the caller */

static int start(struct helper *helper, void *memory)
{
	/* No signal says that it has ended, so the program's own waits for children do not meet it. */
	int pid = clone(help, (uint8_t *)memory + STACK_BYTES, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, helper);

	if (pid < 0)
		return -errno;
	/* Where the Yama module asks for it. */
	prctl(PR_SET_PTRACER, pid, 0, 0, 0);
	__atomic_store_n(&helper->may_begin, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &helper->may_begin, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	return 0;
}

/* The signals of a terminal reach the helper, too, and are not for it. */
static int start_without_signals(struct helper *helper, void *memory)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	r = -pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r)
		return r;
	r = start(helper, memory);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static int with_helper(int (*work)(void *arg), void *arg, int *ret_error)
{
	size_t bytes = STACK_BYTES + MAX_THREADS * sizeof(struct thread);
	uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct helper helper = {.work = work, .arg = arg, .caller = (pid_t)syscall(SYS_gettid), .result = -EIO};
	int r = memory == MAP_FAILED ? -errno : 0;

	snprintf(helper.path, sizeof(helper.path), "/proc/%d/task", (int)getpid());
	if (!r) {
		helper.threads = (struct thread *)(memory + STACK_BYTES);
		r = start_without_signals(&helper, memory);
		munmap(memory, bytes);
	}
	*ret_error = r ? r : helper.error;
	return r ? work(arg) : helper.result;
}

#ifdef __SANITIZE_THREAD__
#define IS_TSAN true
#else
#define IS_TSAN false
#endif

int osh_while_stopped(int (*work)(void *arg), void *arg, int *ret_error)
{
	*ret_error = 0;
	return IS_TSAN ? work(arg) : with_helper(work, arg, ret_error);
}
