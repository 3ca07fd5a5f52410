/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/ctl-lab.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 10

char ctl_text[1 << 18];

const char *ctl_binary(void)
{
	return SHMEMCTL_BUILD_BINARY;
}

static void run_child(const char *const *words, int out, int err)
{
	const char *argv[MAX_WORDS + 1] = {"shmemctl"};

	for (int i = 0; words[i] && i + 2 < MAX_WORDS + 1; i++)
		argv[i + 1] = words[i];
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	execv(ctl_binary(), (char **)(uintptr_t)argv);
	_exit(127);
}

/* Until the end, or until the other side of a terminal is closed. */
static size_t read_text(int from, size_t n)
{
	ssize_t got;

	while ((got = read(from, ctl_text + n, sizeof(ctl_text) - 1 - n)) > 0)
		n += (size_t)got;
	ctl_text[n] = 0;
	return n;
}

static int wait_status(pid_t pid)
{
	int status;

	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status));
	return WEXITSTATUS(status);
}

pid_t ctl_start(const char *const *words, int *ret_out)
{
	int ends[2];
	pid_t pid;

	ASSERT_OK(pipe2(ends, O_CLOEXEC));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		run_child(words, ends[1], ends[1]);
	close(ends[1]);
	*ret_out = ends[0];
	ctl_text[0] = 0;
	return pid;
}

int ctl_end(pid_t pid, int out)
{
	read_text(out, strlen(ctl_text));
	close(out);
	return wait_status(pid);
}

int ctl_run(const char *const *words)
{
	int out;
	pid_t pid = ctl_start(words, &out);

	return ctl_end(pid, out);
}

void ctl_read_more(int out)
{
	size_t n = strlen(ctl_text);
	ssize_t got = read(out, ctl_text + n, sizeof(ctl_text) - 1 - n);

	if (got <= 0)
		test_fail(TEST_WHERE, "nothing more came after: %s", ctl_text);
	ctl_text[n + (size_t)got] = 0;
}

void ctl_wait_for(int out, const char *words)
{
	while (!strstr(ctl_text, words))
		ctl_read_more(out);
}

static int open_terminal(int *ret_other)
{
	struct winsize size = {.ws_row = 24, .ws_col = 200};
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	ASSERT_OK(grantpt(fd));
	ASSERT_OK(unlockpt(fd));
	*ret_other = open(ptsname(fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ASSERT_GE(*ret_other, 0);
	ASSERT_OK(ioctl(fd, TIOCSWINSZ, &size));
	return fd;
}

pid_t ctl_start_on_terminal(const char *const *words, int *ret_out)
{
	int other, fd = open_terminal(&other);
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (!pid)
		run_child(words, other, other);
	close(other);
	*ret_out = fd;
	ctl_text[0] = 0;
	return pid;
}

int ctl_run_on_terminal(const char *const *words, bool only_stderr)
{
	int other, fd = open_terminal(&other), ends[2];
	pid_t pid;

	ASSERT_OK(pipe2(ends, O_CLOEXEC));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		run_child(words, only_stderr ? ends[1] : other, other);
	close(ends[1]);
	close(other);
	read_text(ends[0], read_text(fd, 0));
	close(ends[0]);
	close(fd);
	return wait_status(pid);
}

/* ---- lists that can be compared ---------------------------------------------------------------------------------------- */

/* How much of the text is one of the keys, with its quotes and its colon. */
static size_t key_at(const char *text, const char *const *keys)
{
	for (unsigned int i = 0; keys[i] && *text == '"'; i++) {
		size_t n = strlen(keys[i]);

		if (strncmp(text + 1, keys[i], n) == 0 && strncmp(text + 1 + n, "\":", 2) == 0)
			return n + 3;
	}
	return 0;
}

char *ctl_masked(const char *json, const char *const *keys)
{
	char *copy = malloc(2 * strlen(json) + 1), *to = copy;

	ASSERT(copy);
	while (*json) {
		size_t n = key_at(json, keys);

		if (n == 0) {
			*to++ = *json++;
			continue;
		}
		memcpy(to, json, n);
		to += n;
		*to++ = '#';
		json += n + strcspn(json + n, ",}]");
	}
	*to = 0;
	return copy;
}

char *ctl_lists(const char *const *keys)
{
	static const char *const whats[] = {"sessions", "qps", "mrs", "pes", "paths", "nics"};
	char *all = calloc(sizeof(whats) / sizeof(whats[0]), sizeof(ctl_text)), *masked;

	ASSERT(all);
	for (unsigned int i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		ASSERT_EQ(CTL("--json", "list", whats[i]), 0);
		strcat(all, ctl_text);
	}
	masked = ctl_masked(all, keys);
	free(all);
	return masked;
}

/* ---- words --------------------------------------------------------------------------------------------------------------- */

void ctl_assert_has(const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strstr(ctl_text, words[i]))
			test_fail(TEST_WHERE, "no %s in: %s", words[i], ctl_text);
}

void ctl_assert_lacks(const char *words)
{
	if (strstr(ctl_text, words))
		test_fail(TEST_WHERE, "%s in: %s", words, ctl_text);
}
