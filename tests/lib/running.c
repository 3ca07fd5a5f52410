/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of tests: how they begin and end, their time limits, and the fds that they must end with. */
#include "tests/lib/running.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"

#define EXIT_TEST_FAILED 1
#define FDS_MAX 1024
#define RUNNING_MAX 9 /* the test whose turn it is, and those that wait beside it */

/* A test that has been forked, and leads the process group of its pid. */
struct running {
	const struct test_case *test;
	volatile pid_t pid;
	uint64_t start_nsec, end_nsec;
	volatile sig_atomic_t timed_out;
};

static const struct test_case *current;
static struct running running[RUNNING_MAX];

/* Open fds of this process, without the one that reads the list. Returns the highest plus one. */
static int list_open_fds(bool open_fds[FDS_MAX])
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	memset(open_fds, 0, FDS_MAX * sizeof(open_fds[0]));
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir) || fd >= FDS_MAX)
			continue;
		open_fds[fd] = true;
		n = fd >= n ? fd + 1 : n;
	}
	closedir(dir);
	return n;
}

static void print_fd_difference(int fd, const char *what)
{
	char path[32], target[256];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	fprintf(stderr, "in test %s: fd %d %s %s\n", current->name, fd, what, target);
}

/* True when the same fds are open as before. An fd above FDS_MAX is out of sight. */
static bool same_fds(const bool before[FDS_MAX], const bool after[FDS_MAX])
{
	bool same = true;

	for (int fd = 0; fd < FDS_MAX; fd++) {
		if (before[fd] == after[fd])
			continue;
		print_fd_difference(fd, after[fd] ? "was left open:"
						  : "was closed, and is not the test's");
		same = false;
	}
	return same;
}

static unsigned int limit_sec(const struct test_case *test)
{
	return test->timeout_sec * running_slow_factor();
}

static void run_in_child(const struct test_case *test) __attribute__((noreturn));
static void run_in_child(const struct test_case *test)
{
	static bool before[FDS_MAX], after[FDS_MAX];

	current = test;
	runner_begin(test);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	list_open_fds(before);
	current->run();
	list_open_fds(after);
	if (!same_fds(before, after))
		_exit(EXIT_TEST_FAILED);
	/* Not _exit(): leak and race reports of the sanitizers come at exit. */
	exit(0);
}

static enum outcome outcome_of_status(const struct running *r, int status)
{
	const char *name = r->test->name;

	if (r->timed_out) {
		fprintf(stderr, "in test %s: timed out after %u s\n", name, limit_sec(r->test));
		return FAILED;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return PASSED;
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIP)
		return SKIPPED;
	if (WIFSIGNALED(status))
		fprintf(stderr, "in test %s: killed by signal %d (%s)\n", name, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != EXIT_TEST_FAILED)
		fprintf(stderr, "in test %s: exit status %d\n", name, WEXITSTATUS(status));
	return FAILED;
}

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void print_times(const struct running *r, const struct rusage *usage)
{
	const char *value = getenv("SHMEMD_TEST_TIMES");

	if (value && strcmp(value, "1") == 0)
		printf("# %s: %.2f s, %.2f s of a CPU\n", r->test->name,
		       (double)(nsec_now() - r->start_nsec) / NSEC_PER_SEC,
		       seconds(usage->ru_utime) + seconds(usage->ru_stime));
}

static struct running *find_running(pid_t pid)
{
	for (unsigned int i = 0; i < RUNNING_MAX; i++)
		if (running[i].pid == pid)
			return &running[i];
	return NULL;
}

static struct running *start(const struct test_case *test)
{
	struct running *r = find_running(0);
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "in test %s: fork: %m\n", test->name);
		runner_end(test, FAILED);
		return NULL;
	}
	if (pid == 0)
		run_in_child(test);
	setpgid(pid, pid);
	*r = (struct running){.test = test, .start_nsec = nsec_now()};
	r->end_nsec = r->start_nsec + limit_sec(test) * NSEC_PER_SEC;
	r->pid = pid;
	return r;
}

/* The handler looks which tests are too late. */
static void set_alarm(void)
{
	uint64_t now = nsec_now(), next = UINT64_MAX;

	for (unsigned int i = 0; i < RUNNING_MAX; i++)
		if (running[i].pid && !running[i].timed_out && running[i].end_nsec < next)
			next = running[i].end_nsec;
	alarm(next == UINT64_MAX ? 0 : next <= now ? 1 : (unsigned int)((next - now) / NSEC_PER_SEC) + 1);
}

/* Waits for the end of one of the tests, or a signal. */
static void wait_for_one(void)
{
	struct rusage usage;
	struct running *r;
	siginfo_t info;
	int status;
	pid_t pid;

	set_alarm();
	if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0)
		return;
	r = find_running(info.si_pid);
	/* The zombie keeps the group's number ours until what the test left running is gone. */
	if (r) {
		kill(-info.si_pid, SIGKILL);
		r->pid = 0;
	}
	do
		pid = wait4(info.si_pid, &status, 0, &usage);
	while (pid < 0 && errno == EINTR);
	if (!r)
		return;
	print_times(r, &usage);
	runner_end(r->test, outcome_of_status(r, status));
}

void running_run(const struct test_case *test)
{
	struct running *r = start(test);

	while (r && r->pid)
		wait_for_one();
}

static unsigned int count_running(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < RUNNING_MAX; i++)
		n += running[i].pid != 0;
	return n;
}

/* One place is left for the test whose turn it is. */
void running_start(const struct test_case *test)
{
	/* Where everything is slow, tests that wait compute, too. */
	while (count_running() >= (running_slow_factor() > 1 ? 3 : RUNNING_MAX - 1))
		wait_for_one();
	start(test);
}

void running_finish(void)
{
	while (count_running())
		wait_for_one();
}

void running_kill(void)
{
	for (unsigned int i = 0; i < RUNNING_MAX; i++)
		if (running[i].pid)
			kill(-running[i].pid, SIGKILL);
}

/* The alarm is the parent's: a child may block signals, or be stuck in one of its forks. */
void running_on_alarm(int signo)
{
	uint64_t now = nsec_now();

	for (unsigned int i = 0; i < RUNNING_MAX; i++) {
		if (running[i].pid == 0 || now < running[i].end_nsec)
			continue;
		running[i].timed_out = 1;
		kill(-running[i].pid, SIGKILL);
	}
}
