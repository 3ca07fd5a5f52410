/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private daemon with two soft NICs for one test, on a socket in a folder of its own.
 *
 * It is a child of the test's process and dies with it. The folder of a test that fails stays.
 */
#include "tests/conformance/fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	pid_t pid; /* 0: none */
	char folder[128];
	char socket[160];
} private_daemon;

static const char *daemon_binary(void)
{
	const char *path = getenv("SHMEMD_BINARY");

	return path && *path ? path : SHMEMD_BUILD_BINARY;
}

static void run_daemon(void) __attribute__((noreturn));
static void run_daemon(void)
{
	const char *path = daemon_binary();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(path, "shmemd", "--config", "/dev/null", "--socket", private_daemon.socket,
	      "--backend", "soft", "--soft-nics", "2", "--log-level", "warning", (char *)NULL);
	fprintf(stderr, "cannot run %s: %m\n", path);
	_exit(127);
}

static void make_folder(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(private_daemon.folder, sizeof(private_daemon.folder), "%s/shmemd-conf-XXXXXX",
		 tmp ? tmp : "/tmp");
	if (!mkdtemp(private_daemon.folder))
		test_fail(TEST_WHERE, "mkdtemp %s: %s", private_daemon.folder, strerror(errno));
	snprintf(private_daemon.socket, sizeof(private_daemon.socket), "%s/shmemd.sock",
		 private_daemon.folder);
}

bool conf_daemon_running(void)
{
	return private_daemon.pid && waitpid(private_daemon.pid, NULL, WNOHANG) == 0;
}

void conf_daemon_start(void)
{
	const char *given = getenv("SHMEMD_SOCKET");

	if (private_daemon.pid || (given && *given))
		return;
	make_folder();
	private_daemon.pid = fork();
	ASSERT_GE(private_daemon.pid, 0);
	if (private_daemon.pid == 0)
		run_daemon();
}

const char *conf_daemon_socket(void)
{
	return private_daemon.pid ? private_daemon.socket : NULL;
}

void conf_daemon_stop(void)
{
	int status;

	if (!private_daemon.pid)
		return;
	ASSERT_OK(kill(private_daemon.pid, SIGTERM));
	ASSERT_EQ(waitpid(private_daemon.pid, &status, 0), private_daemon.pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		test_fail(TEST_WHERE, "the daemon ended with wait status 0x%x", status);
	private_daemon.pid = 0;
	unlink(private_daemon.socket);
	rmdir(private_daemon.folder);
}
