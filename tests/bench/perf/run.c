/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/perf/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define OUTPUT_MOST (1u << 20)
#define MPS_TIMEOUT_SEC 20u
#define LOOK_NSEC 1000000l /* how often it looks for the end of a program that has closed its output */
#define LOOK_MSEC 50 /* and for signals while a program prints nothing */
#define MPS_CONTROL "nvidia-cuda-mps-control"

static sigset_t held_signals(void)
{
	sigset_t held;

	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	return held;
}

void perf_hold_signals(void)
{
	const sigset_t held = held_signals();

	sigprocmask(SIG_BLOCK, &held, NULL);
}

int perf_take_signal(void)
{
	const sigset_t held = held_signals();
	const struct timespec now = {0};
	int signo = sigtimedwait(&held, NULL, &now);

	return signo > 0 ? signo : 0;
}

static bool is_interrupted(void)
{
	const sigset_t held = held_signals();
	sigset_t pending;

	return !sigpending(&pending) && !sigandset(&pending, &pending, &held) && !sigisemptyset(&pending);
}

static void become(const char *const argv[], int input, int output)
{
	const sigset_t held = held_signals();

	setpgid(0, 0);
	sigprocmask(SIG_UNBLOCK, &held, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0)
		_exit(127);
	execvp(argv[0], (char *const *)argv);
	fprintf(stderr, "shmemperf: %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static long long now_msec(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (long long)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

/* 1: the end, 0: go on. */
static int read_some(int fd, long long until_msec, char *text, size_t *length)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	long long left = until_msec - now_msec();
	ssize_t n;

	if (left <= 0)
		return -ETIMEDOUT;
	if (is_interrupted())
		return -EINTR;
	if (poll(&ready, 1, left < LOOK_MSEC ? (int)left : LOOK_MSEC) < 0)
		return errno == EINTR ? 0 : -errno;
	if (!ready.revents)
		return 0;
	/* One byte more than there may be. */
	n = read(fd, text + *length, OUTPUT_MOST + 1 - *length);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	*length += (size_t)n;
	if (*length > OUTPUT_MOST) {
		*length = OUTPUT_MOST;
		return -E2BIG;
	}
	return n == 0;
}

static int read_all(int fd, long long until_msec, char *text)
{
	size_t length = 0;
	int r = 0;

	while (r == 0)
		r = read_some(fd, until_msec, text, &length);
	text[length] = '\0';
	return r < 0 ? r : 0;
}

/* Most programs end when they close their output, or a moment later. */
static int wait_for_end(pid_t child, long long until_msec)
{
	const struct timespec pause = {.tv_nsec = LOOK_NSEC};
	siginfo_t ended;

	for (;;) {
		ended.si_pid = 0;
		if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 && errno != EINTR)
			return -errno;
		if (ended.si_pid)
			return 0;
		if (now_msec() >= until_msec)
			return -ETIMEDOUT;
		if (is_interrupted())
			return -EINTR;
		nanosleep(&pause, NULL);
	}
}

static int status_of(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A few bytes fit into a pipe whether the program reads them or not. */
static int start(const char *const argv[], const char *input, pid_t *ret_child, int *ret_output)
{
	_cleanup_close_ int in_0 = -1, in_1 = -1, out_0 = -1, out_1 = -1;
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	in_0 = in[0];
	in_1 = in[1];
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	out_0 = out[0];
	out_1 = out[1];
	if (input && write(in_1, input, strlen(input)) < 0)
		return -errno;
	*ret_child = fork();
	if (*ret_child < 0)
		return -errno;
	if (*ret_child == 0)
		become(argv, in_0, out_1);
	setpgid(*ret_child, *ret_child);
	*ret_output = take_fd(&out_0);
	return 0;
}

int perf_run(const char *const argv[], unsigned int timeout_sec, const char *input, char **ret_text)
{
	_cleanup_free_ char *text = malloc(OUTPUT_MOST + 1);
	_cleanup_close_ int output = -1;
	long long until = now_msec() + 1000ll * timeout_sec;
	int r, status;
	pid_t child = -1;

	*ret_text = NULL;
	if (!text)
		return -ENOMEM;
	if (is_interrupted())
		return -EINTR;
	r = start(argv, input, &child, &output);
	if (r < 0)
		return r;
	r = read_all(output, until, text);
	if (r >= 0)
		r = wait_for_end(child, until);
	if (r < 0)
		kill(-child, SIGKILL);
	status = status_of(child);
	*ret_text = take_ptr(text);
	return r < 0 ? r : status;
}

/* ---- MPS ------------------------------------------------------------------------------------------------------------------------- */

static int folder_of_mps(const char *variable, const char *folder, const char *name)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	/* The variable first: after a failure perf_mps_stop() must not reach the host's own server. */
	if (setenv(variable, path, 1) < 0 || mkdir(path, 0700) < 0)
		return -errno;
	return 0;
}

int perf_mps_start(const char *folder)
{
	static const char *const command[] = {MPS_CONTROL, "-d", NULL};
	_cleanup_free_ char *text = NULL;
	int r;

	r = folder_of_mps("CUDA_MPS_PIPE_DIRECTORY", folder, "mps");
	if (r >= 0)
		r = folder_of_mps("CUDA_MPS_LOG_DIRECTORY", folder, "mps-log");
	if (r < 0)
		return r;
	r = perf_run(command, MPS_TIMEOUT_SEC, NULL, &text);
	if (r)
		return r == 127 ? -ENOENT : -EIO;
	/* NVSHMEM refuses waits between PEs whose shares are more than the GPU; both sides get the same. */
	return setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1) < 0 ? -errno : 0;
}

void perf_mps_stop(void)
{
	static const char *const command[] = {MPS_CONTROL, NULL};
	_cleanup_free_ char *text = NULL;

	if (perf_run(command, MPS_TIMEOUT_SEC, "quit\n", &text))
		fprintf(stderr, "shmemperf: the MPS server was not stopped\n");
}
