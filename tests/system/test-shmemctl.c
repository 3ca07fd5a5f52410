/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl as a person or a script runs it: what it prints, and its exit status. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

static char text[65536]; /* stdout and stderr of the last run */

/* Runs shmemctl with up to five words; returns its exit status. */
static int ctl(const char *const *words)
{
	const char *argv[8] = {"shmemctl"};
	int ends[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	for (int i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	ASSERT_OK(pipe(ends));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		execv(SHMEMCTL_BUILD_BINARY, (char **)(uintptr_t)argv);
		_exit(127);
	}
	close(ends[1]);
	while ((got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	close(ends[0]);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#define CTL(...) ctl((const char *const[]){__VA_ARGS__, NULL})

TEST(without_a_daemon_it_says_what_to_do)
{
	ASSERT_EQ(CTL("--socket", "/nonexistent/sock", "status"), 2);
	ASSERT_STREQ(text, "shmemctl: shmemd is not running: no socket at /nonexistent/sock; "
			   "start it with systemctl start shmemd\n");
	setenv("SHMEMD_SOCKET", "/nonexistent/other", 1);
	ASSERT_EQ(CTL("list", "qps"), 2);
	ASSERT(strstr(text, "no socket at /nonexistent/other;"));
}

TEST(wrong_usage_is_told_apart)
{
	ASSERT_EQ(CTL("stat"), 2);
	ASSERT_STREQ(text, "shmemctl: unknown command stat; see shmemctl --help\n");
	ASSERT_EQ(CTL("list"), 2);
	ASSERT_STREQ(text, "shmemctl: list what: sessions, qps, mrs or nics; see shmemctl --help\n");
	ASSERT_EQ(CTL("list", "cqs"), 2);
	ASSERT_EQ(CTL("status", "now"), 2);
	ASSERT_EQ(CTL("--color", "status"), 2);
	ASSERT_EQ(CTL("status", "--socket"), 2);
	ASSERT_EQ(CTL("--watch=never", "status"), 2);
	ASSERT_EQ(ctl((const char *const[]){NULL}), 2);
	ASSERT_EQ(CTL("--help"), 0);
	ASSERT_EQ(strncmp(text, "Usage: shmemctl ", 16), 0);
	ASSERT_EQ(CTL("--version"), 0);
	ASSERT_STREQ(text, "shmemctl 0.1.0\n");
}

static void assert_has(const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strstr(text, words[i]))
			test_fail(TEST_WHERE, "no %s in: %s", words[i], text);
}

#define ASSERT_HAS(...) assert_has((const char *const[]){__VA_ARGS__, NULL})

TEST(lists_are_empty_then_show_what_is_there)
{
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct fixture_daemon daemon;
	struct lab_side side;
	char pid[64];

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	ASSERT_EQ(CTL("list", "sessions"), 0);
	ASSERT_STREQ(text, "no sessions\n");
	ASSERT_EQ(CTL("list", "qps"), 0);
	ASSERT_STREQ(text, "no QPs\n");
	ASSERT_EQ(CTL("list", "mrs"), 0);
	ASSERT_STREQ(text, "no memory regions\n");
	ASSERT_EQ(CTL("--json", "list", "sessions"), 0);
	ASSERT_STREQ(text, "{\"schema_version\":1,\"sessions\":[]}\n");

	lab_side_open(&side, &daemon, &attr);
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("shmemd 0.1.0, pid ", "sessions        1 now, 1 since start, 0 refused", "2 QPs", "soft0", "soft1",
		   "cpu");
	ASSERT_EQ(CTL("list", "sessions"), 0);
	ASSERT_HAS("SESSION", "DOORBELL", "soft0", "cpu");
	ASSERT_EQ(CTL("list", "qps"), 0);
	ASSERT_HAS("RC", "RST", "soft0");
	ASSERT_EQ(CTL("list", "mrs"), 0);
	ASSERT_HAS("memfd", "lw,rw,rr,ra", "64.0 KiB");
	ASSERT_EQ(CTL("list", "nics"), 0);
	ASSERT_HAS("soft0", "soft1", "active");
	ASSERT_EQ(CTL("list", "sessions", "--json"), 0);
	snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)getpid());
	ASSERT_HAS("{\"schema_version\":1,\"sessions\":[{\"session\":", pid, "\"doorbell\":\"cpu\"", "\"n_qps\":2",
		   "\"library\":\"libshmemclient 0.1.0\"");
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(watch_repeats_until_the_daemon_is_gone)
{
	struct fixture_daemon daemon;
	unsigned int n_lines = 0;
	pid_t killer;
	int status;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	killer = fork();
	ASSERT_GE(killer, 0);
	if (!killer) {
		usleep(400000);
		_exit(kill(daemon.pid, SIGKILL) ? 1 : 0);
	}
	ASSERT_EQ(CTL("--json", "--watch", "0.02", "status"), 2);
	for (const char *c = text; *c; c++)
		n_lines += *c == '\n';
	ASSERT_GE(n_lines, 4);
	ASSERT_HAS("{\"schema_version\":1,", "shmemctl: the connection to shmemd broke");
	ASSERT_EQ(waitpid(killer, &status, 0), killer);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(waitpid(daemon.pid, &status, 0), daemon.pid);
	unlink(daemon.socket);
	rmdir(daemon.folder);
}
