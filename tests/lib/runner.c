/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of every test program. Runs the registered tests in the order of their source, each in a
 * forked child that leads a process group of its own: a test cannot disturb the next one, and what
 * it leaves running is killed after it. A named test runs in this process instead, for a debugger;
 * so does everything when a debugger is attached.
 *
 * The parent is single-threaded. Children may have threads; an assert ends the whole child from any
 * of them.
 */
#include "tests/lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"

#define EXIT_TEST_FAILED 1
#define SLOW_TIMEOUT_FACTOR 4u
#define FDS_MAX 1024

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#ifndef HAS_SANITIZER
#define HAS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif

#ifdef HAS_TSAN
/* Tests and the code under them fork while they have threads, and TSan ends such children by default. TSAN_OPTIONS outranks this. */
const char *__tsan_default_options(void) __attribute__((visibility("default")));

const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
#endif

/* Weak: a program without a single test has no section, and says so instead of failing to link. */
extern const struct test_case *const __start_test_cases[] __attribute__((weak));
extern const struct test_case *const __stop_test_cases[] __attribute__((weak));

enum outcome { PASSED, FAILED, SKIPPED };

struct counts {
	unsigned int n_passed, n_failed, n_skipped;
};

static struct counts counts;
static const struct test_case *current;
static bool in_process;
static jmp_buf skip_env;
static volatile sig_atomic_t child_group;
static volatile sig_atomic_t timed_out;

bool test_has_sanitizer(void)
{
	return HAS_SANITIZER;
}

bool test_is_full(void)
{
	const char *value = getenv("SHMEMD_TEST_FULL");

	return value && strcmp(value, "1") == 0;
}

const char *test_emulator(void)
{
	return getenv("SHMEMD_TEST_EMULATOR");
}

static unsigned int slow_factor(void)
{
	return HAS_SANITIZER || test_emulator() ? SLOW_TIMEOUT_FACTOR : 1;
}

uint64_t test_patience_nsec(void)
{
	return slow_factor() * 60 * NSEC_PER_SEC;
}

static void count_outcome(enum outcome outcome)
{
	counts.n_passed += outcome == PASSED;
	counts.n_failed += outcome == FAILED;
	counts.n_skipped += outcome == SKIPPED;
}

static int print_summary(void)
{
	printf("%u passed, %u failed, %u skipped\n", counts.n_passed, counts.n_failed,
	       counts.n_skipped);
	fflush(stdout);
	if (counts.n_failed)
		return EXIT_TEST_FAILED;
	return counts.n_skipped && !counts.n_passed ? TEST_EXIT_SKIP : 0;
}

static bool has_debugger(void)
{
	char line[128];
	int tracer = 0;
	FILE *f = fopen("/proc/self/status", "re");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	fclose(f);
	return tracer != 0;
}

/* An assert may fail in any thread or fork of the test: nothing but _exit() is safe there. */
void test_fail(const char *where, const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	flockfile(stderr);
	fprintf(stderr, "%s: in test %s: ", where, current ? current->name : "?");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	funlockfile(stderr);

	if (in_process) {
		if (has_debugger())
			raise(SIGTRAP);
		printf("FAIL %s\n", current->name);
		count_outcome(FAILED);
		print_summary();
	}
	_exit(EXIT_TEST_FAILED);
}

void test_skip(const char *reason)
{
	printf("SKIP %s: %s\n", current->name, reason);
	fflush(stdout);
	if (in_process)
		longjmp(skip_env, 1);
	_exit(TEST_EXIT_SKIP);
}

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

static unsigned int limit_sec(void)
{
	return current->timeout_sec * slow_factor();
}

static void run_in_child(void) __attribute__((noreturn));
static void run_in_child(void)
{
	static bool before[FDS_MAX], after[FDS_MAX];

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

static enum outcome outcome_of_status(int status)
{
	if (timed_out) {
		fprintf(stderr, "in test %s: timed out after %u s\n", current->name, limit_sec());
		return FAILED;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return PASSED;
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIP)
		return SKIPPED;
	if (WIFSIGNALED(status))
		fprintf(stderr, "in test %s: killed by signal %d (%s)\n", current->name,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != EXIT_TEST_FAILED)
		fprintf(stderr, "in test %s: exit status %d\n", current->name, WEXITSTATUS(status));
	return FAILED;
}

static enum outcome run_forked(void)
{
	siginfo_t info;
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "in test %s: fork: %m\n", current->name);
		return FAILED;
	}
	if (pid == 0)
		run_in_child();
	setpgid(pid, pid);
	child_group = pid;
	timed_out = 0;
	alarm(limit_sec());
	/* The zombie keeps the group's number ours until what the test left running is gone. */
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	alarm(0);
	kill(-pid, SIGKILL);
	child_group = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return outcome_of_status(status);
}

static enum outcome run_in_process(void)
{
	if (setjmp(skip_env))
		return SKIPPED;
	current->run();
	return PASSED;
}

static void run_one(const struct test_case *test)
{
	static const char *const words[] = {[PASSED] = "ok  ", [FAILED] = "FAIL"};
	enum outcome outcome;

	current = test;
	outcome = in_process ? run_in_process() : run_forked();
	count_outcome(outcome);
	if (outcome != SKIPPED)
		printf("%s %s\n", words[outcome], test->name);
	fflush(stdout);
}

/* The alarm is the parent's: a child may block signals, or be stuck in one of its forks. */
static void on_alarm(int signo)
{
	timed_out = 1;
	if (child_group > 0)
		kill(-child_group, SIGKILL);
}

/* An interrupted run takes the running test with it: its group is not the terminal's. */
static void on_interrupt(int signo)
{
	if (child_group > 0)
		kill(-child_group, SIGKILL);
	_exit(128 + signo);
}

/* Order of the source, whatever the compiler emitted; programs of several files interleave. */
static int compare_lines(const void *a, const void *b)
{
	const struct test_case *const *x = a, *const *y = b;

	return ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

static const struct test_case **sorted_tests(size_t *ret_n)
{
	size_t n = (size_t)(__stop_test_cases - __start_test_cases);
	const struct test_case **tests = calloc(n + 1, sizeof(tests[0]));

	if (!tests)
		abort();
	for (size_t i = 0; i < n; i++)
		tests[i] = __start_test_cases[i];
	qsort(tests, n, sizeof(tests[0]), compare_lines);
	*ret_n = n;
	return tests;
}

static int run_all(const struct test_case **tests, size_t n)
{
	for (size_t i = 0; i < n; i++)
		run_one(tests[i]);
	return print_summary();
}

static int run_named(const struct test_case **tests, size_t n, int n_names, char **names)
{
	in_process = true;
	for (int i = 0; i < n_names; i++) {
		size_t k = 0;

		while (k < n && strcmp(tests[k]->name, names[i]) != 0)
			k++;
		if (k == n) {
			fprintf(stderr, "no test named %s; --list shows them\n", names[i]);
			return 2;
		}
		run_one(tests[k]);
	}
	return print_summary();
}

static int list_tests(const struct test_case **tests, size_t n)
{
	for (size_t i = 0; i < n; i++)
		puts(tests[i]->name);
	return 0;
}

int main(int argc, char **argv)
{
	const struct test_case **tests;
	size_t n;
	int r;

	tests = sorted_tests(&n);
	if (n == 0) {
		fprintf(stderr, "%s has no tests\n", argv[0]);
		return EXIT_TEST_FAILED;
	}
	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("usage: %s [--list | TEST...]\n", argv[0]);
		r = 0;
	} else if (argc > 1 && strcmp(argv[1], "--list") == 0) {
		r = list_tests(tests, n);
	} else if (argc > 1) {
		r = run_named(tests, n, argc - 1, argv + 1);
	} else {
		signal(SIGINT, on_interrupt);
		signal(SIGTERM, on_interrupt);
		signal(SIGALRM, on_alarm);
		in_process = has_debugger();
		r = run_all(tests, n);
	}
	free(tests);
	return r;
}
