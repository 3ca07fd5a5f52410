/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner tested by itself: with SHMD_RUNNER_VICTIM set this program is the patient, whose tests
 * fail, leak, hang and skip on purpose; without it, it runs itself as that patient and checks what
 * was reported.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VICTIM "SHMD_RUNNER_VICTIM"

static bool is_victim(const char *name)
{
	const char *value = getenv(VICTIM);

	return value && (strcmp(value, "all") == 0 || strcmp(value, name) == 0);
}

/* A patient is one TEST() that does its deed only when asked for, and passes otherwise. */
#define PATIENT_CASE(name_, sec_, waits_)                                                          \
	static void patient_##name_(void);                                                         \
	TEST_CASE(name_, sec_, waits_)                                                             \
	{                                                                                          \
		if (is_victim(#name_))                                                             \
			patient_##name_();                                                         \
	}                                                                                          \
	static void patient_##name_(void)
#define PATIENT_TIMEOUT(name_, sec_) PATIENT_CASE(name_, sec_, false)
#define PATIENT(name_) PATIENT_TIMEOUT(name_, TEST_DEFAULT_TIMEOUT_SEC)

PATIENT(victim_fails_compare)
{
	unsigned int two = 2;

	ASSERT_EQ(two, 1 + 2);
}

PATIENT(victim_fails_sign)
{
	ASSERT_LT(1u, -1);
}

PATIENT(victim_fails_bytes)
{
	ASSERT_MEMEQ("abcdef", "abcxef", 6);
}

PATIENT(victim_fails_errno)
{
	ASSERT_ERR(-EPERM, EINVAL);
}

PATIENT(victim_fails_string)
{
	ASSERT_STREQ("left", "right");
}

PATIENT(victim_fails_ok)
{
	ASSERT_OK(-ENOENT);
}

PATIENT(victim_leaks_fd)
{
	ASSERT_GE(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
}

PATIENT(victim_closes_stdin)
{
	ASSERT_OK(close(0));
}

PATIENT_TIMEOUT(victim_hangs, 1)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (;;)
		pause();
}

PATIENT(victim_skips)
{
	test_skip("there is no moon");
}

PATIENT(victim_dies_of_signal)
{
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
}

static void *fail_in_thread(void *arg)
{
	ASSERT(arg == NULL && "in a thread");
	return NULL;
}

PATIENT(victim_fails_in_thread)
{
	pthread_t thread;

	ASSERT_OK(pthread_create(&thread, NULL, fail_in_thread, (void *)1));
	pthread_join(thread, NULL);
}

/* Leaves a child behind that would hold the pipe to our reader open for ever. */
PATIENT(victim_leaves_process)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	while (pid == 0)
		pause();
}

/* Between two patients that wait, from before the first test. */
static int meeting[2];

static void __attribute__((constructor)) make_meeting(void)
{
	if (getenv(VICTIM))
		ASSERT_OK(pipe2(meeting, O_CLOEXEC));
}

PATIENT_CASE(victim_waits_for_the_last_one, 10, true)
{
	char byte;

	ASSERT_EQ(read(meeting[0], &byte, 1), 1);
}

PATIENT_CASE(victim_waits_and_fails, 10, true)
{
	usleep(10000);
	ASSERT_OK(-EPROTO);
}

PATIENT_CASE(victim_waits_too_long, 1, true)
{
	for (;;)
		pause();
}

PATIENT_CASE(victim_wakes_the_first_one, 10, true)
{
	ASSERT_EQ(write(meeting[1], "x", 1), 1);
}

struct report {
	char text[16384];
	int status;
};

/* The program of a cross build is run by its wrapper, the shell is not. */
static void run_self(const char *victim, const char *argument, struct report *ret)
{
	const char *wrapper = getenv("MESON_EXE_WRAPPER");
	char command[4096], self[1024];
	size_t n = 0, got;
	FILE *f;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	ASSERT_GT(length, 0);
	self[length] = '\0';
	snprintf(command, sizeof(command), "%s=%s %s '%s' %s 2>&1", VICTIM, victim,
		 wrapper ? wrapper : "", self, argument);
	f = popen(command, "re");
	ASSERT(f);
	while (n < sizeof(ret->text) - 1 &&
	       (got = fread(ret->text + n, 1, sizeof(ret->text) - 1 - n, f)) > 0)
		n += got;
	ret->text[n] = '\0';
	ret->status = WEXITSTATUS(pclose(f));
}

static void assert_says(const struct report *report, const char *words)
{
	if (!strstr(report->text, words))
		test_fail(TEST_WHERE, "the report lacks \"%s\":\n%s", words, report->text);
}

/* The patient must not examine itself. */
#define EXAMINE(name_)                                                                             \
	static void examine_##name_(struct report *report);                                        \
	TEST_WAITS(name_, 60)                                                                      \
	{                                                                                          \
		static struct report report;                                                       \
                                                                                                   \
		if (getenv(VICTIM))                                                                \
			return;                                                                    \
		unsetenv("SHMEMD_TEST_BACKEND");                                                   \
		unsetenv("MLX5SIM_ROOT");                                                          \
		unsetenv("SHMEMD_SOCKET");                                                         \
		unsetenv("SHMEMD_TEST_TIMES");                                                     \
		examine_##name_(&report);                                                          \
	}                                                                                          \
	static void examine_##name_(struct report *report)

EXAMINE(every_fault_is_reported)
{
	run_self("all", "", report);
	ASSERT_EQ(report->status, 1);
	assert_says(report, "two == 1 + 2: left is 2, right is 3\n");
	assert_says(report, "1u < -1: left is 1, right is -1\n");
	assert_says(report, "of 6 bytes the first difference is at 3:\n");
	assert_says(report, "  left  64 65 66\n  right 78 65 66\n");
	assert_says(report, "-EPERM gives -EINVAL: is -1 (Operation not permitted), not -22\n");
	assert_says(report, "\n  left  \"left\"\n  right \"right\"\n");
	assert_says(report, "-ENOENT: is -2 (No such file or directory), not 0\n");
	assert_says(report, "in test victim_leaks_fd: fd ");
	assert_says(report, "was left open: /dev/null\n");
	assert_says(report, "in test victim_closes_stdin: fd 0 was closed");
	assert_says(report, "in test victim_hangs: timed out after ");
	assert_says(report, "in test victim_dies_of_signal: killed by signal 15");
	assert_says(report, "in test victim_fails_in_thread: arg == NULL");
	assert_says(report, "SKIP victim_skips: there is no moon\n");
	assert_says(report, "in test victim_waits_and_fails: -EPROTO: is ");
	assert_says(report, "FAIL victim_waits_and_fails\n");
	assert_says(report, "in test victim_waits_too_long: timed out after ");
	assert_says(report, "FAIL victim_waits_too_long\n");
	assert_says(report, "FAIL victim_hangs\n");
	assert_says(report, "ok   victim_leaves_process\n");
}

EXAMINE(summary_counts_each_outcome)
{
	run_self("all", "", report);
	assert_says(report, " passed, 13 failed, 1 skipped\n");
}

EXAMINE(tests_that_wait_run_beside_each_other)
{
	run_self("all", "", report);
	assert_says(report, "ok   victim_waits_for_the_last_one\n");
}

EXAMINE(tests_that_share_a_machine_run_one_after_the_other)
{
	setenv("SHMEMD_TEST_BACKEND", "mlx5", 1);
	run_self("nobody", "", report);
	assert_says(report, "ok   victim_leaves_process\nok   victim_waits_for_the_last_one\nok   victim_waits_and_fails\nok   victim_waits_too_long\n");
}

EXAMINE(times_are_printed_on_request)
{
	setenv("SHMEMD_TEST_TIMES", "1", 1);
	run_self("nobody", "", report);
	assert_says(report, "# victim_skips: ");
	assert_says(report, " s of a CPU\nok   victim_skips\n");
}

EXAMINE(a_healthy_program_passes)
{
	run_self("nobody", "", report);
	ASSERT_EQ(report->status, 0);
	assert_says(report, " passed, 0 failed, 0 skipped\n");
}

EXAMINE(one_skip_among_passes_is_a_pass)
{
	run_self("victim_skips", "", report);
	ASSERT_EQ(report->status, 0);
	assert_says(report, " passed, 0 failed, 1 skipped\n");
}

EXAMINE(only_skips_exit_77)
{
	run_self("victim_skips", "victim_skips", report);
	ASSERT_EQ(report->status, 77);
	assert_says(report, "SKIP victim_skips: there is no moon\n0 passed, 0 failed, 1 skipped\n");
}

EXAMINE(a_named_test_runs_alone)
{
	run_self("victim_fails_compare", "victim_fails_compare", report);
	ASSERT_EQ(report->status, 1);
	assert_says(report, "0 passed, 1 failed, 0 skipped\n");
}

EXAMINE(an_unknown_name_is_a_usage_error)
{
	run_self("nobody", "no_such_test", report);
	ASSERT_EQ(report->status, 2);
	assert_says(report, "no test named no_such_test");
}

EXAMINE(list_shows_the_tests_in_source_order)
{
	run_self("nobody", "--list", report);
	ASSERT_EQ(report->status, 0);
	ASSERT_EQ(strncmp(report->text, "victim_fails_compare\nvictim_fails_sign\n", 39), 0);
}

TEST(the_long_form_is_asked_for_by_the_environment)
{
	ASSERT_OK(setenv("SHMEMD_TEST_FULL", "1", 1));
	ASSERT(test_is_full());
	ASSERT_OK(setenv("SHMEMD_TEST_FULL", "0", 1));
	ASSERT(!test_is_full());
	ASSERT_OK(unsetenv("SHMEMD_TEST_FULL"));
	ASSERT(!test_is_full());
}

TEST(comparisons_are_mathematical)
{
	int8_t minus = -1;
	uint64_t huge = UINT64_MAX;
	const char *none = NULL;

	ASSERT_LT(minus, huge);
	ASSERT_NE(minus, huge);
	ASSERT_GT(huge, INT64_MAX);
	ASSERT_LE(minus, -1);
	ASSERT_GE(0.5, 0);
	ASSERT_EQ(none, NULL);
	ASSERT_EQ(true, 1);
	ASSERT_STREQ(none, NULL);
}
