/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of every test program. Runs the registered tests in the order of their source, each in a
 * forked child that leads a process group of its own: a test cannot disturb the next one, and what
 * it leaves running is killed after it. Tests that mostly wait (TEST_WAITS) are started first and
 * run beside each other and the rest. A named test runs in this process instead, for a debugger;
 * so does everything when a debugger is attached. With SHMEMD_TEST_TIMES=1 each test says how long
 * it took, and how much of a CPU.
 *
 * The parent is single-threaded. Children may have threads; an assert ends the whole child from any
 * of them.
 */
#include "tests/lib/running.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/nsec.h"

#define EXIT_TEST_FAILED 1
#define SLOW_TIMEOUT_FACTOR 4u

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

struct counts {
	unsigned int n_passed, n_failed, n_skipped;
};

static struct counts counts;
static const struct test_case *current;
static bool in_process;
static jmp_buf skip_env;

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

unsigned int running_slow_factor(void)
{
	return HAS_SANITIZER || test_emulator() ? SLOW_TIMEOUT_FACTOR : 1;
}

uint64_t test_patience_nsec(void)
{
	return running_slow_factor() * 60 * NSEC_PER_SEC;
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

/* In one piece: tests that run beside this one write to the same file. */
static void print_failure(const char *where, const char *fmt, va_list args)
{
	char text[8192];
	size_t n = (size_t)snprintf(text, sizeof(text) / 2, "%s: in test %s: ", where, current ? current->name : "?");

	n = n < sizeof(text) / 2 ? n : sizeof(text) / 2 - 1;
	vsnprintf(text + n, sizeof(text) - n - 1, fmt, args);
	strcat(text, "\n");
	fputs(text, stderr);
}

/* An assert may fail in any thread or fork of the test: nothing but _exit() is safe there. */
void test_fail(const char *where, const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	va_start(args, fmt);
	print_failure(where, fmt, args);
	va_end(args);

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

void runner_begin(const struct test_case *test)
{
	current = test;
}

void runner_end(const struct test_case *test, enum outcome outcome)
{
	static const char *const words[] = {[PASSED] = "ok  ", [FAILED] = "FAIL"};

	count_outcome(outcome);
	if (outcome != SKIPPED)
		printf("%s %s\n", words[outcome], test->name);
	fflush(stdout);
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
	if (!in_process) {
		running_run(test);
		return;
	}
	runner_begin(test);
	runner_end(test, run_in_process());
}

/* An interrupted run takes the running tests with it: their groups are not the terminal's. */
static void on_interrupt(int signo)
{
	running_kill();
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

/* Simulated NICs and a daemon that a whole program has are one for all its tests. */
static bool shares_machine(void)
{
	return getenv("SHMEMD_TEST_BACKEND") || getenv("MLX5SIM_ROOT") || getenv("SHMEMD_SOCKET");
}

static int run_all(const struct test_case **tests, size_t n)
{
	bool in_order = in_process || shares_machine();

	for (size_t i = 0; i < n && !in_order; i++)
		if (tests[i]->waits)
			running_start(tests[i]);
	for (size_t i = 0; i < n; i++)
		if (in_order || !tests[i]->waits)
			run_one(tests[i]);
	running_finish();
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
		signal(SIGALRM, running_on_alarm);
		in_process = has_debugger();
		r = run_all(tests, n);
	}
	free(tests);
	return r;
}
