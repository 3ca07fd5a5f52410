/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the daemon's that somebody has taken over: in place of a porter, an executor or a mapper the zygote runs code that
 * enters the sandbox as those do, and then attacks the daemon, which is this test, or a process of another user.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/porter/zygote.h"
#include "proto/base/sandbox.h"
#include "proto/base/thread.h"
#include "tests/lib/test.h"

#define SECRET UINT64_C(0x5ec7e75ec7e7)
#define CALL_PIDFD_GETFD 438 /* Linux 5.6; the same number on all machines */
#define CALL_IO_URING_ENTER 426
#define CALL_IO_URING_REGISTER 427

/* Shared with all processes that are forked from here. */
static struct target {
	pid_t pid;
	bool is_free; /* the attacker does not enter the sandbox */
	int fd; /* a pipe's */
	char file[64], socket[64];
} *target;

/* At the same place in all of them. */
static uint64_t secret = SECRET;

/* ---- attempts: 0, or the error that stopped them ------------------------------------------------------------------------------ */

static int try_trace(void)
{
	if (ptrace(PTRACE_SEIZE, target->pid, NULL, NULL) < 0)
		return errno;
	return 0;
}

static int try_read(void)
{
	uint64_t word = 0;
	struct iovec local = {&word, sizeof(word)}, remote = {&secret, sizeof(word)};

	if (process_vm_readv(target->pid, &local, 1, &remote, 1, 0) < 0)
		return errno;
	return word == SECRET ? 0 : EIO;
}

static int try_write(void)
{
	uint64_t word = SECRET;
	struct iovec local = {&word, sizeof(word)}, remote = {&secret, sizeof(word)};

	return process_vm_writev(target->pid, &local, 1, &remote, 1, 0) < 0 ? errno : 0;
}

static int try_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_memory_file(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)target->pid);
	return try_open(path, O_RDWR);
}

static int try_descriptor_file(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)target->pid, target->fd);
	return try_open(path, O_RDONLY | O_NONBLOCK);
}

static int try_file(void)
{
	return try_open(target->file, O_RDWR);
}

static int try_descriptor(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0), r = errno, fd;

	if (pidfd < 0)
		return r;
	fd = (int)syscall(CALL_PIDFD_GETFD, pidfd, target->fd, 0);
	r = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	close(pidfd);
	return r;
}

static int try_signal(void)
{
	return kill(target->pid, 0) < 0 ? errno : 0;
}

static int try_thread_signal(void)
{
	return syscall(SYS_tgkill, target->pid, target->pid, 0) < 0 ? errno : 0;
}

/* The kernel sends the signal, when bytes arrive in a pipe of the attacker's. */
static int try_owner(void)
{
	struct f_owner_ex owner = {.type = F_OWNER_PID, .pid = target->pid};
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	r = fcntl(ends[0], F_SETOWN_EX, &owner) < 0 ? errno : 0;
	if (!r && fcntl(ends[0], F_SETOWN, target->pid) < 0)
		r = errno;
	if (!r && fcntl(ends[0], F_SETSIG, SIGKILL) < 0)
		r = errno;
	close(ends[0]);
	close(ends[1]);
	return r;
}

static int try_owner_by_ioctl(void)
{
	int ends[2], pid = target->pid, r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return errno;
	r = ioctl(ends[0], FIOSETOWN, &pid) < 0 ? errno : 0;
	if (!r && ioctl(ends[0], SIOCSPGRP, &pid) < 0)
		r = errno;
	close(ends[0]);
	close(ends[1]);
	return r;
}

static int try_limits(void)
{
	struct rlimit now;

	return prlimit(target->pid, RLIMIT_NOFILE, NULL, &now) < 0 ? errno : 0;
}

/* The daemon's own socket, where this uid is an administrator's. */
static int try_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r = errno;

	if (sock < 0)
		return r;
	memcpy(address.sun_path, target->socket, sizeof(target->socket));
	r = connect(sock, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	close(sock);
	return r;
}

static int try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	waitpid(pid, NULL, 0);
	return 0;
}

/* Without a connection. That the socket is of another type says that the kernel has found it. */
static int try_datagram(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0)
		return errno;
	memcpy(address.sun_path, target->socket, sizeof(target->socket));
	r = sendto(ends[0], "", 1, MSG_NOSIGNAL, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	close(ends[0]);
	close(ends[1]);
	return r == EPROTOTYPE ? 0 : r;
}

/* A ring of a client's, which older kernels pass on. Any other error says that the kernel looked at the descriptor. */
static int try_ring(void)
{
	if (syscall(CALL_IO_URING_ENTER, -1, 0, 0, 0, NULL, 0) < 0 && errno == EPERM)
		return EPERM;
	return syscall(CALL_IO_URING_REGISTER, -1, 0, NULL, 0) < 0 && errno == EPERM ? EPERM : 0;
}

static int try_mode(void)
{
	return chmod(target->file, 0666) < 0 ? errno : 0;
}

static int try_owner_of_file(void)
{
	return chown(target->file, (uid_t)-1, getegid()) < 0 ? errno : 0;
}

static int try_times(void)
{
	return utimensat(AT_FDCWD, target->file, NULL, 0) < 0 ? errno : 0;
}

static int try_truncate(void)
{
	return truncate(target->file, 0) < 0 ? errno : 0;
}

/* Last: it does not come back when it works. */
static int try_program(void)
{
	execl("/bin/true", "true", NULL);
	return errno;
}

/* ---- what such a process needs ----------------------------------------------------------------------------------------------- */

static int try_own_memory(void)
{
	int fd = memfd_create("own", MFD_CLOEXEC), r;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = try_open(path, O_RDWR);
	close(fd);
	return r;
}

static int try_own_folder(void)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	r = try_open(path, O_RDONLY);
	return r ? r : try_open("/proc/self/fdinfo/0", O_RDONLY);
}

static void *do_nothing(void *arg)
{
	return arg;
}

static int try_thread(void)
{
	pthread_t thread;
	int r = pthread_create(&thread, NULL, do_nothing, NULL);

	return r ? r : pthread_join(thread, NULL);
}

static void *look_at_name(void *arg)
{
	pthread_getname_np(pthread_self(), arg, 16);
	return arg;
}

static int try_thread_name(void)
{
	pthread_t thread;
	char name[16] = "";
	int r = thread_start(&thread, 0, "named", look_at_name, name);

	if (r < 0)
		return -r;
	pthread_join(thread, NULL);
	return strcmp(name, "named") == 0 ? 0 : EIO;
}

static int try_own_signal(void)
{
	return kill(getpid(), 0) < 0 ? errno : 0;
}

static const struct attempt {
	const char *what;
	int (*run)(void);
	bool is_needed;
	bool needs_landlock; /* the filter lets it pass */
	bool is_bound; /* perhaps by the machine itself */
} attempts[] = {
	{.what = "ptrace", .run = try_trace, .is_bound = true},
	{.what = "process_vm_readv", .run = try_read, .is_bound = true},
	{.what = "process_vm_writev", .run = try_write, .is_bound = true},
	{.what = "/proc/PID/mem", .run = try_memory_file, .needs_landlock = true, .is_bound = true},
	{.what = "/proc/PID/fd", .run = try_descriptor_file, .needs_landlock = true, .is_bound = true},
	{.what = "pidfd_getfd", .run = try_descriptor, .is_bound = true},
	{.what = "a file", .run = try_file, .needs_landlock = true},
	{.what = "kill", .run = try_signal},
	{.what = "tgkill", .run = try_thread_signal},
	{.what = "fcntl with F_SETOWN", .run = try_owner},
	{.what = "ioctl with FIOSETOWN", .run = try_owner_by_ioctl},
	{.what = "prlimit", .run = try_limits},
	{.what = "connect", .run = try_connect},
	{.what = "a datagram", .run = try_datagram},
	{.what = "a ring", .run = try_ring, .is_bound = true},
	{.what = "chmod", .run = try_mode},
	{.what = "chown", .run = try_owner_of_file},
	{.what = "utimensat", .run = try_times},
	{.what = "truncate", .run = try_truncate},
	{.what = "fork", .run = try_fork},
	{.what = "its own memory", .run = try_own_memory, .is_needed = true},
	{.what = "its own folder of /proc", .run = try_own_folder, .is_needed = true},
	{.what = "a thread", .run = try_thread, .is_needed = true},
	{.what = "the name of a thread", .run = try_thread_name, .is_needed = true},
	{.what = "a signal to itself", .run = try_own_signal, .is_needed = true},
	{.what = "execve", .run = try_program},
};

#define N_ATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

struct report {
	struct sandbox sandbox;
	int results[N_ATTEMPTS];
};

/* In place of a porter. */
static void __attribute__((noreturn)) attack(int channel, int daemon_pidfd)
{
	struct report report = {.sandbox = {0}};

	(void)daemon_pidfd;
	if (!target->is_free)
		report.sandbox = sandbox_enter(false);
	/* The last one does not come back when it works. */
	for (size_t i = 0; i < N_ATTEMPTS - !report.sandbox.has_filter; i++)
		report.results[i] = attempts[i].run();
	if (send(channel, &report, sizeof(report), MSG_NOSIGNAL) < 0)
		_exit(1);
	_exit(0);
}

/* A process of another user: it sleeps until its channel ends. */
static void __attribute__((noreturn)) sleep_long(int channel, int daemon_pidfd)
{
	pid_t self = getpid();
	char byte;

	(void)daemon_pidfd;
	sandbox_enter(false);
	send(channel, &self, sizeof(self), MSG_NOSIGNAL);
	while (recv(channel, &byte, 1, 0) > 0)
		;
	_exit(0);
}

/* ---- the tests --------------------------------------------------------------------------------------------------------------- */

static int listen_somewhere(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, target->socket, sizeof(target->socket));
	ASSERT_OK(bind(sock, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0);
	ASSERT_OK(listen(sock, 8));
	return sock;
}

struct lab {
	int zygote, listener, file;
	int ends[2];
};

static void lab_start(struct lab *lab)
{
	const struct zygote_runs runs = {.run = {[ZYGOTE_EXECUTOR] = attack, [ZYGOTE_MAPPER] = sleep_long}};

	if (test_has_sanitizer())
		test_skip("builds with sanitizers have no sandbox, and their processes are traced by a process of their own");
	target = mmap(NULL, sizeof(*target), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(target != MAP_FAILED);
	ASSERT_OK(pipe2(lab->ends, O_CLOEXEC | O_NONBLOCK));
	target->pid = getpid();
	target->fd = lab->ends[0];
	snprintf(target->file, sizeof(target->file), "/tmp/test-sandbox-%d", (int)getpid());
	snprintf(target->socket, sizeof(target->socket), "/tmp/test-sandbox-%d.sock", (int)getpid());
	lab->file = open(target->file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT_GE(lab->file, 0);
	lab->listener = listen_somewhere();
	ASSERT_OK(zygote_start(&runs, &lab->zygote));
}

static void lab_end(struct lab *lab)
{
	close(lab->zygote);
	close(lab->listener);
	close(lab->file);
	unlink(target->file);
	unlink(target->socket);
	close(lab->ends[0]);
	close(lab->ends[1]);
	munmap(target, sizeof(*target));
}

static int start_process(const struct lab *lab, enum zygote_kind kind, void *report, size_t bytes)
{
	const struct zygote_order order = {.kind = kind, .uid = 1};
	int channel;

	ASSERT_OK(zygote_fork(lab->zygote, &order, -1, &channel));
	ASSERT_GE(fcntl(channel, F_SETFL, 0), 0);
	ASSERT_EQ(recv(channel, report, bytes, 0), (ssize_t)bytes);
	return channel;
}

static void attack_target(const struct lab *lab, struct report *ret_report)
{
	close(start_process(lab, ZYGOTE_EXECUTOR, ret_report, sizeof(*ret_report)));
}

static void expect_no_success(const struct report *report)
{
	if (!report->sandbox.has_filter && !report->sandbox.has_landlock)
		test_skip("this kernel or this build has neither filters nor Landlock");
	for (size_t i = 0; i < N_ATTEMPTS; i++) {
		int r = report->results[i];
		bool is_refused = attempts[i].needs_landlock ? report->sandbox.has_landlock : report->sandbox.has_filter;

		if (attempts[i].is_needed ? r != 0 : is_refused && r != EPERM && r != EACCES)
			test_fail(TEST_WHERE, "%s: %s", attempts[i].what, r ? strerror(r) : "works");
	}
}

TEST(porter_that_is_taken_over_reaches_neither_the_daemon_nor_its_socket)
{
	struct report report;
	struct lab lab;

	lab_start(&lab);
	attack_target(&lab, &report);
	expect_no_success(&report);
	lab_end(&lab);
}

TEST(porter_that_is_taken_over_does_not_reach_that_of_another_user)
{
	struct report report;
	struct lab lab;
	int channel;
	pid_t pid;

	lab_start(&lab);
	channel = start_process(&lab, ZYGOTE_MAPPER, &pid, sizeof(pid));
	target->pid = pid;
	target->fd = STDIN_FILENO;
	attack_target(&lab, &report);
	expect_no_success(&report);
	close(channel);
	lab_end(&lab);
}

TEST(trial_tells_what_there_is)
{
	struct sandbox tried;
	struct report report;
	struct lab lab;

	lab_start(&lab);
	attack_target(&lab, &report);
	ASSERT_OK(sandbox_try(&tried));
	ASSERT_EQ(tried.has_filter, report.sandbox.has_filter);
	ASSERT_EQ(tried.has_landlock, report.sandbox.has_landlock);
	ASSERT_EQ(!sandbox_lack(&tried), tried.has_filter && tried.has_landlock);
	/* It was a child that gave everything up. */
	ASSERT_EQ(try_open(target->file, O_RDWR), 0);
	lab_end(&lab);
}

/* Otherwise the attempts would prove nothing. Tracing (kernel.yama.ptrace_scope) and rings may be bound by the machine itself. */
TEST(attempts_work_without_the_sandbox)
{
	struct report report;
	struct lab lab;

	if (test_emulator())
		test_skip("an emulator does not carry out calls on other processes");
	lab_start(&lab);
	target->is_free = true;
	attack_target(&lab, &report);
	for (size_t i = 0; i < N_ATTEMPTS - 1; i++) {
		int r = report.results[i];

		if (r != 0 && !(attempts[i].is_bound && (r == EPERM || r == EACCES)))
			test_fail(TEST_WHERE, "%s: %s", attempts[i].what, strerror(r));
	}
	lab_end(&lab);
}
