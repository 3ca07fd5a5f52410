/* SPDX-License-Identifier: Apache-2.0 */
/* The log: levels, lines, files, threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/settings/log-file.h"
#include "libclient/runtime/settings/log.h"
#include "proto/base/cleanup.h"
#include "tests/lib/test.h"

#define MAX_TEXT (4u << 20)
#define N_THREADS 4
#define N_LINES 500

static char folder[256];
static const char *const no_env[] = {NULL};

/* ---- help */

static const char *in_folder(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void begin(struct runtime_settings *settings, const char *level, const char *file)
{
	test_make_folder(folder, sizeof(folder), "log");
	runtime_settings_init(settings);
	ASSERT_OK(runtime_settings_set(settings, "SHMD_LOG", level));
	if (file)
		ASSERT_OK(runtime_settings_set(settings, "SHMD_LOG_FILE", in_folder(file)));
}

static int open_log(const struct runtime_settings *settings, const char *const *list)
{
	struct runtime_env env = {list};

	return runtime_log_open(settings, &env);
}

/* The contents of a file, which is then removed. */
static char *take(const char *name)
{
	static char text[MAX_TEXT];
	FILE *file = fopen(in_folder(name), "r");
	size_t n;

	if (!file)
		test_fail(TEST_WHERE, "no file %s: %s", name, strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = 0;
	fclose(file);
	ASSERT_OK(unlink(in_folder(name)));
	return text;
}

static void end(void)
{
	runtime_log_close();
	ASSERT_OK(rmdir(folder));
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		test_fail(TEST_WHERE, "\"%s\" is not in \"%.2000s\"", part, text);
}

static unsigned int count(const char *text, const char *part)
{
	unsigned int n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

/* stderr into a file of the folder; returns the former one. */
static int divert_stderr(void)
{
	int saved = dup(STDERR_FILENO), fd = open(in_folder("stderr"), O_WRONLY | O_CREAT | O_APPEND, 0600);

	ASSERT(saved >= 0 && fd >= 0);
	ASSERT_EQ(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	close(fd);
	return saved;
}

static void restore_stderr(int saved)
{
	ASSERT_EQ(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
}

/* ---- levels and lines */

TEST(a_line_has_time_host_rank_part_and_level)
{
	struct runtime_settings settings;
	char host[64] = "", want[128];
	unsigned int h, m, s, us;
	const char *text;

	begin(&settings, "info", "log");
	ASSERT_OK(open_log(&settings, no_env));
	runtime_log(HEAP, WARN, "%u chunks", 3u);
	ASSERT_OK(runtime_log_identify(7));
	runtime_log(RMA, INFO, "ready");
	text = take("log");
	ASSERT_EQ(sscanf(text, "%2u:%2u:%2u.%6u ", &h, &m, &s, &us), 4);
	ASSERT(h < 24 && m < 60 && s < 60);
	ASSERT_OK(gethostname(host, sizeof(host) - 1));
	snprintf(want, sizeof(want), " %s - heap warn: 3 chunks\n", host);
	expect(text, want);
	snprintf(want, sizeof(want), " %s 7 rma info: ready\n", host);
	expect(text, want);
	ASSERT_EQ(count(text, "\n"), 2);
	end();
}

static int evaluated;

static int evaluate(void)
{
	return ++evaluated;
}

TEST(lines_above_the_level_are_not_written_and_their_arguments_not_evaluated)
{
	struct runtime_settings settings;
	const char *text;

	begin(&settings, "warn,heap=debug,rma=none", "log");
	ASSERT_OK(open_log(&settings, no_env));
	runtime_log(WORLD, INFO, "no %d", evaluate());
	runtime_log(HEAP, TRACE, "no %d", evaluate());
	runtime_log(RMA, ERROR, "no %d", evaluate());
	ASSERT_EQ(evaluated, 0);
	runtime_log(WORLD, WARN, "yes %d", evaluate());
	runtime_log(HEAP, DEBUG, "yes %d", evaluate());
	text = take("log");
	expect(text, "world warn: yes 1\n");
	expect(text, "heap debug: yes 2\n");
	ASSERT_EQ(count(text, "\n"), 2);
	end();
}

TEST(without_a_file_lines_go_to_stderr_and_warnings_come_before_it_is_open)
{
	struct runtime_settings settings;
	const char *text;
	int saved;

	begin(&settings, "error", NULL);
	saved = divert_stderr();
	runtime_log(WORLD, WARN, "early");
	runtime_log(WORLD, INFO, "never");
	ASSERT_OK(open_log(&settings, no_env));
	runtime_log(WORLD, WARN, "never");
	runtime_log(WORLD, ERROR, "late");
	restore_stderr(saved);
	text = take("stderr");
	expect(text, "world warn: early\n");
	expect(text, "world error: late\n");
	ASSERT_EQ(count(text, "\n"), 2);
	end();
}

TEST(a_long_line_is_cut_and_control_characters_do_not_pass)
{
	struct runtime_settings settings;
	char longest[4000];
	char *text, *second;

	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	begin(&settings, "info", "log");
	ASSERT_OK(open_log(&settings, no_env));
	runtime_log(TEAM, INFO, "%s", longest);
	runtime_log(TEAM, INFO, "a\nb\x1b[2J\x7f");
	text = take("log");
	ASSERT_EQ(count(text, "\n"), 2);
	second = strchr(text, '\n') + 1;
	ASSERT(!strncmp(second - 5, "x...", 4));
	ASSERT_EQ(second - text, 1024 - 1);
	expect(second, "team info: a?b?[2J?\n");
	end();
}

/* The message that is as long as the line, one byte shorter and one longer. */
TEST(lines_around_the_limit_end_properly)
{
	struct runtime_settings settings;
	char message[1100];

	begin(&settings, "info", "log");
	ASSERT_OK(open_log(&settings, no_env));
	for (size_t n = 900; n < sizeof(message) - 1; n++) {
		char *text;

		memset(message, 'y', n);
		message[n] = 0;
		runtime_log(TEAM, INFO, "%s", message);
		text = take("log");
		ASSERT_EQ(count(text, "\n"), 1);
		ASSERT(text[strlen(text) - 1] == '\n' && strlen(text) <= 1024);
		ASSERT(strstr(text, "...\n") || strstr(text, message));
		ASSERT_OK(open_log(&settings, no_env));
	}
	take("log");
	end();
}

TEST(a_line_keeps_errno)
{
	struct runtime_settings settings;

	begin(&settings, "info", "log");
	ASSERT_OK(open_log(&settings, no_env));
	errno = ENOSPC;
	runtime_log(WORLD, INFO, "%m");
	ASSERT_EQ(errno, ENOSPC);
	expect(take("log"), strerror(ENOSPC));
	end();
}

/* ---- files */

TEST(a_file_name_has_host_pid_rank_and_job)
{
	static const struct {
		const char *pattern, *name;
		int r;
	} rows[] = {
		{"/x/%h.%p.%r.%j", "/x/node_a.42.7.job_1", 0}, {"plain", "plain", 0}, {"%%h", "%h", 0}, {"", "", 0}, {"%h%h", "node_anode_a", 0},
		{"a%", "", -EINVAL}, {"%d", "", -EINVAL}, {"%", "", -EINVAL},
	};
	struct log_names names = {"node/a", "job/1", 42, 7};
	char buf[64], small[4];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ASSERT_EQ(log_file_name(rows[i].pattern, &names, buf, sizeof(buf)), rows[i].r);
		if (!rows[i].r)
			ASSERT_STREQ(buf, rows[i].name);
	}
	ASSERT_OK(log_file_name("abc", &names, small, sizeof(small)));
	ASSERT_ERR(log_file_name("abcd", &names, small, sizeof(small)), ENAMETOOLONG);
	ASSERT_ERR(log_file_name("%h", &names, small, sizeof(small)), ENAMETOOLONG);
	ASSERT(log_file_needs_rank("%h%r") && !log_file_needs_rank("%%r") && !log_file_needs_rank("%h%") && !log_file_needs_rank("r"));
}

TEST(a_file_with_the_rank_opens_when_it_is_known)
{
	struct runtime_settings settings;
	int saved;

	begin(&settings, "info", "log.%r");
	saved = divert_stderr();
	ASSERT_OK(open_log(&settings, no_env));
	runtime_log(WORLD, INFO, "early");
	ASSERT_OK(runtime_log_identify(3));
	runtime_log(WORLD, INFO, "late");
	/* A second world has another rank; the log keeps the first. */
	ASSERT_OK(runtime_log_identify(5));
	runtime_log(WORLD, INFO, "later");
	ASSERT_OK(open_log(&settings, no_env));
	runtime_log(WORLD, INFO, "second");
	restore_stderr(saved);
	expect(take("stderr"), " - world info: early\n");
	ASSERT_EQ(count(take("log.3"), " 3 world info: "), 3);
	end();
}

TEST(the_job_is_that_of_the_launcher_or_of_the_batch_system)
{
	static const char *const slurm[] = {"SLURM_JOB_ID=77", NULL}, *const ours[] = {"SLURM_JOB_ID=77", "SHMD_JOB=a/b", NULL};
	struct runtime_settings settings;

	begin(&settings, "info", "log.%j");
	ASSERT_OK(open_log(&settings, no_env));
	take("log.0");
	ASSERT_OK(open_log(&settings, slurm));
	take("log.77");
	ASSERT_OK(open_log(&settings, ours));
	take("log.a_b");
	end();
}

static void expect_not_inherited(const char *name)
{
	struct stat st, other;
	unsigned int n = 0;

	ASSERT_OK(stat(in_folder(name), &st));
	for (int fd = 0; fd < 64; fd++) {
		if (fstat(fd, &other) || other.st_ino != st.st_ino || other.st_dev != st.st_dev)
			continue;
		ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		n++;
	}
	ASSERT_EQ(n, 1);
}

TEST(a_file_is_appended_to_and_not_inherited)
{
	struct runtime_settings settings;
	const char *text;

	begin(&settings, "info", "log");
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_OK(open_log(&settings, no_env));
		expect_not_inherited("log");
	}
	runtime_log(WORLD, INFO, "one");
	runtime_log_close();
	ASSERT_OK(open_log(&settings, no_env));
	runtime_log(WORLD, INFO, "two");
	text = take("log");
	expect(text, "one\n");
	expect(text, "two\n");
	end();
}

TEST(a_file_that_cannot_be_opened_is_an_error_and_lines_go_to_stderr)
{
	struct runtime_settings settings;
	int saved;

	begin(&settings, "info", "missing/log");
	saved = divert_stderr();
	ASSERT_ERR(open_log(&settings, no_env), ENOENT);
	expect(shmd_error_text(), "missing/log: No such file or directory");
	ASSERT_OK(runtime_settings_set(&settings, "SHMD_LOG_FILE", "/x/%q"));
	ASSERT_ERR(open_log(&settings, no_env), EINVAL);
	expect(shmd_error_text(), "SHMD_LOG_FILE=/x/%q: ");
	runtime_log(WORLD, INFO, "still there");
	restore_stderr(saved);
	expect(take("stderr"), "still there");
	end();
}

TEST(numbers_of_closed_standard_descriptors_stay_free)
{
	struct runtime_settings settings;
	int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO);

	begin(&settings, "info", "log");
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	ASSERT_OK(open_log(&settings, no_env));
	ASSERT_EQ(open("/dev/null", O_RDONLY), STDIN_FILENO);
	ASSERT_EQ(open("/dev/null", O_WRONLY), STDOUT_FILENO);
	ASSERT_EQ(dup2(in, STDIN_FILENO), STDIN_FILENO);
	ASSERT_EQ(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	close(in);
	close(out);
	take("log");
	end();
}

/* ---- threads and processes */

static void *write_lines(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg;

	for (unsigned int i = 0; i < N_LINES; i++)
		runtime_log(RMA, INFO, "thread %u line %u of an event that takes some letters to tell", me, i);
	return NULL;
}

static void run_writers(pthread_t threads[N_THREADS])
{
	for (uintptr_t i = 0; i < N_THREADS; i++)
		ASSERT_OK(-pthread_create(&threads[i], NULL, write_lines, (void *)i));
}

static void join(pthread_t threads[N_THREADS])
{
	for (unsigned int i = 0; i < N_THREADS; i++)
		ASSERT_OK(-pthread_join(threads[i], NULL));
}

/* Every line whole: as many lines as written, each with one beginning and one end. */
TEST(lines_of_threads_and_processes_stay_whole)
{
	struct runtime_settings settings;
	pthread_t threads[N_THREADS];
	const char *text;
	int status;
	pid_t pid;

	begin(&settings, "info", "log");
	ASSERT_OK(open_log(&settings, no_env));
	pid = fork();
	ASSERT(pid >= 0);
	if (!pid) {
		write_lines((void *)(uintptr_t)N_THREADS);
		_exit(0);
	}
	run_writers(threads);
	join(threads);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	text = take("log");
	ASSERT_EQ(count(text, "\n"), (N_THREADS + 1) * N_LINES);
	ASSERT_EQ(count(text, " rma info: thread "), (N_THREADS + 1) * N_LINES);
	ASSERT_EQ(count(text, " letters to tell\n"), (N_THREADS + 1) * N_LINES);
	end();
}

/* No line is lost, and none reaches a descriptor that something else got meanwhile. */
TEST(the_log_changes_its_file_while_threads_write)
{
	struct runtime_settings settings;
	pthread_t threads[N_THREADS];
	unsigned int n = 0;
	const char *text;

	begin(&settings, "info", "log.%j");
	ASSERT_OK(open_log(&settings, no_env));
	run_writers(threads);
	for (unsigned int round = 0; round < 50; round++) {
		char job[32];
		const char *const list[] = {job, NULL};

		snprintf(job, sizeof(job), "SHMD_JOB=%u", round % 2);
		ASSERT_OK(open_log(&settings, list));
		ASSERT_OK(runtime_log_identify(1));
	}
	join(threads);
	for (unsigned int i = 0; i < 2; i++) {
		text = take(i ? "log.1" : "log.0");
		ASSERT_EQ(count(text, "\n"), count(text, " letters to tell\n"));
		n += count(text, "\n");
	}
	ASSERT_EQ(n, N_THREADS * N_LINES);
	end();
}

/* ---- unknown names */

TEST(unknown_names_are_warned_about_once)
{
	static const char *const list[] = {"SHMD_TIMOUT=3", "SHMD_TIMEOUT=3", NULL};
	struct runtime_env env = {list};
	struct runtime_settings settings;
	const char *text;

	begin(&settings, "warn", "log");
	ASSERT_OK(open_log(&settings, list));
	runtime_log_unknown(&env);
	runtime_log_unknown(&env);
	text = take("log");
	expect(text, "settings warn: SHMD_TIMOUT is set, but there is no such setting; did you mean SHMD_TIMEOUT?\n");
	ASSERT_EQ(count(text, "\n"), 1);
	end();
}
