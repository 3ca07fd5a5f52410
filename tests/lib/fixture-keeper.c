/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/fixture-keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/test.h"

#define MAX_ARGS 32
#define PAUSE_NSEC 2000000
#define REPLY_BYTES (1 << 18)

static void fail(struct fixture_keeper *keeper, const char *command, const char *why)
{
	fixture_daemon_print_log(&keeper->daemon);
	test_fail(TEST_WHERE, "fd-keeper, %s: %s", command, why);
}

/* The keeper makes its socket after its start. */
static int connect_control(struct fixture_keeper *keeper)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NSEC};
	uint64_t end = nsec_now() + test_patience_nsec();
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ASSERT_GE(sock, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/control", keeper->daemon.folder);
	while (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (nsec_now() > end || waitpid(keeper->pid, NULL, WNOHANG) != 0)
			fail(keeper, "connect", strerror(errno));
		nanosleep(&pause, NULL);
	}
	return sock;
}

static void ask(struct fixture_keeper *keeper, const char *command, char *reply, size_t size)
{
	const struct timeval patience = {.tv_sec = (time_t)(test_patience_nsec() / NSEC_PER_SEC)};
	int sock = connect_control(keeper);
	ssize_t n;

	ASSERT_OK(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
	ASSERT_EQ(send(sock, command, strlen(command), MSG_NOSIGNAL), strlen(command));
	n = recv(sock, reply, size - 1, 0);
	if (n <= 0)
		fail(keeper, command, n < 0 ? "no answer" : "the keeper died");
	reply[n] = 0;
	close(sock);
}

static void ask_pid(struct fixture_keeper *keeper, const char *command)
{
	char reply[64];

	ask(keeper, command, reply, sizeof(reply));
	if (strcmp(reply, "failed") == 0)
		fail(keeper, command, "the daemon did not start");
	keeper->daemon.pid = (pid_t)strtol(reply, NULL, 10);
	ASSERT_GT(keeper->daemon.pid, 0);
}

/* In the child: never returns. */
static void __attribute__((noreturn)) exec_keeper(struct fixture_keeper *keeper, char **args)
{
	char max[16];
	const char *other = getenv("SHMEMD_TEST_FD_KEEPER");
	char *head[] = {(char *)(other ? other : SHMD_TEST_FD_KEEPER), keeper->daemon.folder, max,
			keeper->activated ? keeper->daemon.socket : (char *)""};

	snprintf(max, sizeof(max), "%u", keeper->max ? keeper->max : FIXTURE_KEEPER_MAX);
	memcpy(args, head, sizeof(head));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	unsetenv(SHMD_SOCKET_ENV);
	execv(args[0], args);
	fprintf(stderr, "cannot run %s: %s\n", args[0], strerror(errno));
	_exit(127);
}

void fixture_keeper_start(struct fixture_keeper *keeper, ...)
{
	char *args[MAX_ARGS] = {NULL, NULL, NULL, NULL};
	char *backend = getenv("SHMEMD_TEST_BACKEND");
	unsigned int n = 4;
	va_list ap;

	fixture_daemon_make_folder(&keeper->daemon);
	args[n++] = (char *)(keeper->program ? keeper->program : fixture_daemon_binary());
	if (!keeper->program) {
		args[n++] = (char *)"--config=/dev/null";
		args[n++] = (char *)"--socket";
		args[n++] = keeper->daemon.socket;
		if (backend && *backend) {
			args[n++] = (char *)"--backend";
			args[n++] = backend;
		}
	}
	va_start(ap, keeper);
	while (n < MAX_ARGS - 1 && (args[n] = va_arg(ap, char *)) != NULL)
		n++;
	va_end(ap);
	keeper->pid = fork();
	ASSERT_GE(keeper->pid, 0);
	if (keeper->pid == 0)
		exec_keeper(keeper, args);
	ask_pid(keeper, "wait 1");
}

static void remove_file(const struct fixture_keeper *keeper, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", keeper->daemon.folder, name);
	unlink(path);
}

void fixture_keeper_stop_daemon(struct fixture_keeper *keeper)
{
	char reply[64];

	ask(keeper, "stop", reply, sizeof(reply));
	if (strcmp(reply, "0") != 0)
		fail(keeper, "stop: the daemon ended with wait status", reply);
	keeper->daemon.pid = 0;
}

void fixture_keeper_stop(struct fixture_keeper *keeper)
{
	static const char *const names[] = {"sock", "log", "notify", "control"};

	fixture_keeper_stop_daemon(keeper);
	ASSERT_OK(kill(keeper->pid, SIGKILL));
	ASSERT_EQ(waitpid(keeper->pid, NULL, 0), keeper->pid);
	keeper->pid = 0;
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove_file(keeper, names[i]);
	rmdir(keeper->daemon.folder);
}

void fixture_keeper_kill_daemon(struct fixture_keeper *keeper)
{
	ask_pid(keeper, "kill");
}

void fixture_keeper_restart(struct fixture_keeper *keeper)
{
	ask_pid(keeper, "restart");
}

void fixture_keeper_hold(struct fixture_keeper *keeper)
{
	char reply[64];

	ask(keeper, "hold", reply, sizeof(reply));
	keeper->daemon.pid = 0;
}

void fixture_keeper_go(struct fixture_keeper *keeper)
{
	ask_pid(keeper, "go");
}

void fixture_keeper_wait_start(struct fixture_keeper *keeper, unsigned int number)
{
	char command[32];

	snprintf(command, sizeof(command), "wait %u", number);
	ask_pid(keeper, command);
}

unsigned int fixture_keeper_n_starts(struct fixture_keeper *keeper)
{
	char reply[64];

	ask(keeper, "starts", reply, sizeof(reply));
	return (unsigned int)strtoul(reply, NULL, 10);
}

void fixture_keeper_set_env(struct fixture_keeper *keeper, const char *text)
{
	char command[256], reply[64];

	snprintf(command, sizeof(command), "env %s", text);
	ask(keeper, command, reply, sizeof(reply));
	ASSERT_STREQ(reply, "ok");
}

unsigned int fixture_keeper_list(struct fixture_keeper *keeper, char *names, size_t size)
{
	static char reply[REPLY_BYTES];
	unsigned int n = 0;

	ask(keeper, "list", reply, sizeof(reply));
	for (const char *at = reply; (at = strchr(at, '\n')) != NULL; at++)
		n++;
	snprintf(names, size, "%s", reply);
	return n;
}
