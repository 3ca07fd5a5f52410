/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/fixture-daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

#define FIXTURE_MAX_ARGS 32
#define FIXTURE_START_SEC 15
#define FIXTURE_PAUSE_NSEC 5000000
#define FIXTURE_LOG_NSEC (10 * NSEC_PER_SEC)

const char *fixture_daemon_binary(void)
{
	const char *path = getenv("SHMEMD_BINARY");

	return path && *path ? path : SHMD_TEST_SHMEMD;
}

void fixture_daemon_print_log(const struct fixture_daemon *daemon)
{
	_cleanup_close_ int fd = open(daemon->log, O_RDONLY | O_CLOEXEC);
	char text[8192];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			return;
}

bool fixture_daemon_has_logged(const struct fixture_daemon *daemon, const char *words)
{
	_cleanup_close_ int fd = open(daemon->log, O_RDONLY | O_CLOEXEC);
	static char text[1 << 18];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	return strstr(text, words);
}

void fixture_daemon_assert_logged(const struct fixture_daemon *daemon, const char *words)
{
	const struct timespec pause = {.tv_nsec = FIXTURE_PAUSE_NSEC};
	uint64_t end = nsec_now() + FIXTURE_LOG_NSEC;

	while (!fixture_daemon_has_logged(daemon, words)) {
		if (nsec_now() > end) {
			fixture_daemon_print_log(daemon);
			test_fail(TEST_WHERE, "\"%s\" is not in the log", words);
		}
		nanosleep(&pause, NULL);
	}
}

/* In the child: never returns. */
static void __attribute__((noreturn)) exec_daemon(const struct fixture_daemon *daemon, char **args)
{
	int log = open(daemon->log, O_CREAT | O_WRONLY | O_APPEND, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log >= 0 && dup2(log, STDERR_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0) {
		unsetenv(SHMD_SOCKET_ENV);
		execv(args[0], args);
	}
	fprintf(stderr, "cannot run %s: %s\n", args[0], strerror(errno));
	_exit(127);
}

static void remove_folder(struct fixture_daemon *daemon)
{
	unlink(daemon->socket);
	unlink(daemon->log);
	rmdir(daemon->folder);
	daemon->pid = 0;
}

static bool is_ready(const struct fixture_daemon *daemon)
{
	int sock = framing_connect(daemon->socket);

	if (sock < 0)
		return false;
	close(sock);
	return true;
}

static void wait_ready(struct fixture_daemon *daemon)
{
	const struct timespec pause = {.tv_nsec = FIXTURE_PAUSE_NSEC};
	time_t end = time(NULL) + FIXTURE_START_SEC;
	int status;

	while (!is_ready(daemon)) {
		if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid || time(NULL) > end) {
			fixture_daemon_print_log(daemon);
			fixture_daemon_kill(daemon);
			test_fail(TEST_WHERE, "%s did not come up", fixture_daemon_binary());
		}
		nanosleep(&pause, NULL);
	}
}

void fixture_daemon_make_folder(struct fixture_daemon *daemon)
{
	test_make_folder(daemon->folder, sizeof(daemon->folder), "shmemd-test");
	snprintf(daemon->socket, sizeof(daemon->socket), "%s/sock", daemon->folder);
	snprintf(daemon->log, sizeof(daemon->log), "%s/log", daemon->folder);
}

void fixture_daemon_start(struct fixture_daemon *daemon, ...)
{
	char *args[FIXTURE_MAX_ARGS] = {(char *)fixture_daemon_binary(), (char *)"--config=/dev/null",
					(char *)"--socket", daemon->socket};
	char *backend = getenv("SHMEMD_TEST_BACKEND");
	unsigned int n = 4;
	va_list ap;

	fixture_daemon_make_folder(daemon);
	va_start(ap, daemon);
	while (n < FIXTURE_MAX_ARGS - 3 && (args[n] = va_arg(ap, char *)))
		n++;
	va_end(ap);
	/* The last word on the command line counts. */
	if (backend) {
		args[n++] = (char *)"--backend";
		args[n++] = backend;
		args[n] = NULL;
	}
	daemon->pid = fork();
	ASSERT_GE(daemon->pid, 0);
	if (daemon->pid == 0)
		exec_daemon(daemon, args);
	wait_ready(daemon);
}

void fixture_daemon_stop(struct fixture_daemon *daemon)
{
	int status;

	ASSERT_GT(daemon->pid, 0);
	ASSERT_OK(kill(daemon->pid, SIGTERM));
	ASSERT_EQ(waitpid(daemon->pid, &status, 0), daemon->pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fixture_daemon_print_log(daemon);
		test_fail(TEST_WHERE, "the daemon ended with wait status 0x%x", status);
	}
	ASSERT_EQ(access(daemon->socket, F_OK), -1);
	remove_folder(daemon);
}

void fixture_daemon_kill(struct fixture_daemon *daemon)
{
	if (daemon->pid > 0) {
		kill(daemon->pid, SIGKILL);
		waitpid(daemon->pid, NULL, 0);
	}
	remove_folder(daemon);
}

void fixture_daemon_assert_alive(const struct fixture_daemon *daemon)
{
	struct msg_status_rep status;
	struct raw_client raw;
	int wait_status;

	if (waitpid(daemon->pid, &wait_status, WNOHANG) != 0) {
		fixture_daemon_print_log(daemon);
		test_fail(TEST_WHERE, "the daemon died with wait status 0x%x", wait_status);
	}
	raw_connect(&raw, daemon->socket);
	raw_hello(&raw, MSG_ROLE_CONTROL);
	raw_status(&raw, &status);
	ASSERT_EQ(status.pid, daemon->pid);
	raw_close(&raw);
}

int fixture_daemon_run(const char *const *args, char *out, size_t size)
{
	char *argv[FIXTURE_MAX_ARGS] = {(char *)fixture_daemon_binary()};
	int pipes[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	for (int i = 0; args[i] && i < FIXTURE_MAX_ARGS - 2; i++)
		argv[i + 1] = (char *)args[i];
	ASSERT_OK(pipe2(pipes, O_CLOEXEC));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipes[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		execv(argv[0], argv);
		_exit(127);
	}
	close(pipes[1]);
	while (used < size - 1 && (n = read(pipes[0], out + used, size - 1 - used)) > 0)
		used += (size_t)n;
	out[used] = 0;
	close(pipes[0]);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
