/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and stopping: settings, the socket's path, socket activation, readiness. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

static void expect_run(const char *const *args, int status, const char *words)
{
	char out[16384];
	int r = fixture_daemon_run(args, out, sizeof(out));

	if (r != status || !strstr(out, words))
		test_fail(TEST_WHERE, "exit status %d, wanted %d with \"%s\"; it said: %s", r, status, words,
			  out);
}

/* In a child. */
static void log_to(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);

	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(127);
}

TEST(check_config_accepts_and_refuses)
{
	char path[] = "/tmp/shmemd-conf-XXXXXX", expected[128];
	const char *args[] = {"--check-config", "--config", path, NULL};
	int fd = mkstemp(path);

	dprintf(fd, "# comment\n\n  max-qps = 17\nmax-registered-bytes=2G\n");
	expect_run(args, 0, "max-qps = 17\n");
	expect_run(args, 0, "max-registered-bytes = 2147483648\n");
	dprintf(fd, "soft-nics = 65\n");
	snprintf(expected, sizeof(expected), "%s:5: soft-nics is \"65\"; set it to a number of NICs from 1 to 64",
		 path);
	expect_run(args, 2, expected);
	close(fd);
	unlink(path);
	expect_run(args, 2, "cannot read /tmp/shmemd-conf-");
}

TEST(wrong_options_say_what_to_do)
{
	expect_run((const char *[]){"--sofa-nics=1", NULL}, 2, "unknown option --sofa-nics (did you mean --soft-nics?); \"shmemd --help\"");
	expect_run((const char *[]){"--check-nics", NULL}, 2, "there is no option --check-nics any more; run \"shmemctl doctor\"");
	expect_run((const char *[]){"--soft-nics", NULL}, 2, "--soft-nics needs a value");
	expect_run((const char *[]){"--log-level=loud", NULL}, 2,
		   "set it to one of error, warning, notice, info, debug");
	expect_run((const char *[]){"start", NULL}, 2, "\"start\" is not an option");
	expect_run((const char *[]){"--help", NULL}, 0, "--max-registered-bytes");
	expect_run((const char *[]){"--version", NULL}, 0, "shmemd " SHMD_VERSION_STRING);
	expect_run((const char *[]){"--print-man", "shmemd.conf", NULL}, 0, ".TH shmemd.conf 5");
}

static void expect_one_line(const char *const *args, int status, const char *words)
{
	char out[16384];
	int r = fixture_daemon_run(args, out, sizeof(out));

	if (r != status || !strstr(out, words) || strcspn(out, "\n") + 1 != strlen(out))
		test_fail(TEST_WHERE, "exit status %d, wanted %d with \"%s\" on one line; it said: %s", r, status, words, out);
}

/* Each failure is one line, so the reason is clear. */
TEST(a_start_that_fails_says_why_in_one_line)
{
	char path[] = "/tmp/shmemd-file-XXXXXX", socket[128];
	int fd = mkstemp(path);

	close(fd);
	snprintf(socket, sizeof(socket), "--socket=%s", path);
	expect_one_line((const char *[]){socket, NULL}, 1, "shmemd: error: cannot start: /tmp/shmemd-file-");
	unlink(path);
	expect_one_line((const char *[]){"--socket=/nonexistent/sock", NULL}, 1, "shmemd: error: cannot start: cannot open the folder /nonexistent");
	expect_one_line((const char *[]){"--soft-nic=1", NULL}, 2, "unknown option --soft-nic (did you mean --soft-nics?)");
	expect_one_line((const char *[]){"--config=/tmp", NULL}, 2, "/tmp is a directory; name a file");
	expect_one_line((const char *[]){"-x", NULL}, 2, "unknown option -x; \"shmemd --help\" lists all options");
	expect_one_line((const char *[]){"--help=yes", NULL}, 2, "--help takes no value");
	if (HAVE_MLX5 && access("/sys/class/infiniband", F_OK) < 0)
		expect_one_line((const char *[]){socket, "--backend=mlx5", NULL}, 1,
				"cannot start: --backend mlx5 found no ConnectX NIC; \"shmemctl doctor\" says what is missing");
}

TEST(help_and_version_have_short_names)
{
	char expected[16384], out[16384];

	ASSERT_EQ(fixture_daemon_run((const char *[]){"--help", NULL}, expected, sizeof(expected)), 0);
	ASSERT_EQ(fixture_daemon_run((const char *[]){"-h", NULL}, out, sizeof(out)), 0);
	ASSERT_STREQ(out, expected);
	expect_run((const char *[]){"-V", NULL}, 0, "shmemd " SHMD_VERSION_STRING "\n");
}

TEST(simulated_nics_are_called_so)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=1", "--nics-include=sotf0", NULL);
	fixture_daemon_assert_logged(&daemon, "with 1 simulated NIC\n");
	fixture_daemon_assert_logged(&daemon, "warning: no session can open a NIC: nics-include names sotf0, a NIC that this machine does not have "
				     "(did you mean soft0?)\n");
	fixture_daemon_stop(&daemon);
}

#define LANDLOCK_FIRST 444u /* three calls */
#define LANDLOCK_LAST 446u

/* For this process and its children: as a kernel without seccomp filters and Landlock answers. */
static void take_sandboxes_away(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LANDLOCK_FIRST, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LANDLOCK_LAST, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		test_skip("this kernel has no filters of system calls");
}

/* As in some containers: a line in the log, and everybody is served. */
TEST(daemon_whose_kernel_has_no_sandbox_serves_and_says_so)
{
	struct fixture_daemon daemon;
	struct raw_client raw;

	take_sandboxes_away();
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=1", NULL);
	fixture_daemon_assert_logged(&daemon, "porters, executors and mappers are not confined as they should be: this ");
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "soft0");
	raw_reg(&raw, 4096);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(second_daemon_on_one_socket_is_refused)
{
	struct fixture_daemon daemon;
	const char *args[] = {"--socket", daemon.socket, NULL};

	fixture_daemon_start(&daemon, NULL);
	expect_run(args, 1, "another shmemd already listens on");
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

TEST(stale_socket_is_replaced)
{
	struct fixture_daemon daemon, dead;
	char option[128];

	fixture_daemon_start(&dead, NULL);
	kill(dead.pid, SIGKILL);
	ASSERT_EQ(waitpid(dead.pid, NULL, 0), dead.pid);
	dead.pid = 0;
	ASSERT_OK(access(dead.socket, F_OK));
	snprintf(option, sizeof(option), "--socket=%s", dead.socket);
	/* The later --socket wins, so the fixture waits in vain: run by hand. */
	daemon = dead;
	daemon.pid = fork();
	if (daemon.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		log_to(daemon.log);
		execl(fixture_daemon_binary(), "shmemd", option, NULL);
		_exit(127);
	}
	for (int i = 0; i < 1000; i++) {
		struct sockaddr_un addr = {.sun_family = AF_UNIX};
		int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

		memcpy(addr.sun_path, daemon.socket, strlen(daemon.socket));
		r = connect(sock, (struct sockaddr *)&addr, sizeof(addr));
		close(sock);
		if (r == 0)
			break;
		usleep(10000);
	}
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

static void stop_with_a_hail_of_signals(void)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	struct fixture_daemon daemon;
	unsigned int n = 0;
	uint64_t end;
	int status;
	pid_t r;

	fixture_daemon_start(&daemon, NULL);
	/* Not for ever: a leak check stops at each, ignored or not. */
	end = nsec_now() + NSEC_PER_SEC / 2;
	while ((r = waitpid(daemon.pid, &status, WNOHANG)) == 0 && nsec_now() < end)
		ASSERT_OK(kill(daemon.pid, signals[n++ % 3]));
	if (r == 0)
		r = waitpid(daemon.pid, &status, 0);
	ASSERT_EQ(r, daemon.pid);
	daemon.pid = 0;
	ASSERT_EQ(status, 0);
	ASSERT_EQ(access(daemon.socket, F_OK), -1);
	fixture_daemon_kill(&daemon);
}

/* A second SIGTERM used to kill it in the middle of its last steps, which are soon over: one try sees little. */
TEST(signals_while_it_stops_change_nothing)
{
	for (int i = 0; i < 5; i++)
		stop_with_a_hail_of_signals();
}

TEST(file_that_is_not_a_socket_is_left_alone)
{
	char path[] = "/tmp/shmemd-file-XXXXXX";
	const char *args[] = {"--socket", path, NULL};
	int fd = mkstemp(path);

	close(fd);
	expect_run(args, 1, "is not a socket");
	ASSERT_OK(unlink(path));
	expect_run((const char *[]){"--socket", "/nonexistent/folder/sock", NULL}, 1, "choose another place with --socket PATH");
}

TEST(socket_has_the_mode_asked_for)
{
	const struct group *group = getgrgid(getegid());
	struct fixture_daemon daemon;
	char option[96];
	struct stat st;

	if (!group)
		test_skip("the group of this process has no name");
	snprintf(option, sizeof(option), "--socket-group=%s", group->gr_name);
	fixture_daemon_start(&daemon, "--socket-mode=0666", option, NULL);
	ASSERT_OK(stat(daemon.socket, &st));
	ASSERT_EQ(st.st_mode & 0777, 0666);
	ASSERT_EQ(st.st_gid, getegid());
	fixture_daemon_stop(&daemon);
	expect_run((const char *[]){"--socket-group=no-such-group", "--socket", "/tmp/shmemd-never.sock", NULL},
		   1, "this machine has no group \"no-such-group\"");
	ASSERT_EQ(access("/tmp/shmemd-never.sock", F_OK), -1);
}

/* A group that no setting names gets no access. */
TEST(private_daemon_is_private)
{
	struct fixture_daemon daemon;
	struct stat st;

	if (geteuid() == 0 && getgrnam("shmemd"))
		test_skip("root gives the socket to group shmemd");
	fixture_daemon_start(&daemon, NULL);
	ASSERT_OK(stat(daemon.socket, &st));
	ASSERT_EQ(st.st_mode & 0777, 0600);
	fixture_daemon_stop(&daemon);
}

TEST(environment_names_the_socket_and_options_override_it)
{
	setenv("SHMEMD_SOCKET", "/tmp/from-environment", 1);
	expect_run((const char *[]){"--check-config", NULL}, 0, "socket = /tmp/from-environment\n");
	expect_run((const char *[]){"--check-config", "--socket", "/tmp/from-option", NULL}, 0,
		   "socket = /tmp/from-option\n");
}

/* ---- the service manager's part, played by the test -------------------------------------------------------------- */

static int make_listener(const char *path, int type)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	memcpy(addr.sun_path, path, strlen(path));
	ASSERT_OK(bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	ASSERT_OK(listen(fd, 16));
	return fd;
}

static pid_t run_with(int listener, const char *notify, const char *log, const char *option)
{
	pid_t pid = fork();
	char self[16];

	ASSERT_GE(pid, 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_to(log);
	if (listener != 3)
		dup2(listener, 3);
	snprintf(self, sizeof(self), "%d", getpid());
	setenv("LISTEN_PID", self, 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("NOTIFY_SOCKET", notify, 1);
	execl(fixture_daemon_binary(), "shmemd", option, NULL);
	_exit(127);
}

static pid_t run_activated(int listener, const char *notify, const char *log)
{
	return run_with(listener, notify, log, NULL);
}

TEST(socket_activation_and_readiness)
{
	char folder[] = "/tmp/shmemd-act-XXXXXX", path[64], notify[64], log[64], text[512];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct msg_status_rep status;
	struct raw_client raw;
	int listener, told, wait_status;
	ssize_t n;
	pid_t pid;

	ASSERT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/sock", folder);
	snprintf(notify, sizeof(notify), "%s/notify", folder);
	snprintf(log, sizeof(log), "%s/log", folder);
	told = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(addr.sun_path, notify, strlen(notify));
	ASSERT_OK(bind(told, (struct sockaddr *)&addr, sizeof(addr)));
	listener = make_listener(path, SOCK_SEQPACKET);
	pid = run_activated(listener, notify, log);
	n = recv(told, text, sizeof(text) - 1, 0);
	ASSERT_GT(n, 0);
	text[n] = 0;
	ASSERT(strstr(text, "READY=1"));
	raw_connect(&raw, path);
	raw_hello(&raw, MSG_ROLE_CONTROL);
	raw_status(&raw, &status);
	ASSERT_EQ(status.pid, pid);
	kill(pid, SIGTERM);
	ASSERT_EQ(waitpid(pid, &wait_status, 0), pid);
	ASSERT_EQ(wait_status, 0);
	/* Among what else it may have had to say. */
	do {
		n = recv(told, text, sizeof(text) - 1, MSG_DONTWAIT);
		ASSERT_GT(n, 0);
		text[n] = 0;
	} while (!strstr(text, "STOPPING=1"));
	raw_close(&raw);
	/* The socket is the service manager's, and an older daemon may come next: it takes descriptors as before. */
	raw_connect(&raw, path);
	raw_send_bytes(&raw, "x", 1, &told, 1);
	raw_close(&raw);
	close(listener);
	ASSERT_OK(unlink(path));
	close(told);
	unlink(notify);
	unlink(log);
	rmdir(folder);
}

static bool is_passing(int sock)
{
	socklen_t bytes = sizeof(int);
	int value = -1;

	ASSERT_OK(getsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &value, &bytes));
	return value;
}

/* As its unit says it (AcceptFileDescriptors=). */
TEST(activated_socket_that_takes_no_descriptors_stays_so)
{
	char folder[] = "/tmp/shmemd-act-XXXXXX", path[64], log[64];
	struct raw_client raw;
	int listener, status;
	pid_t pid;

	ASSERT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/sock", folder);
	snprintf(log, sizeof(log), "%s/log", folder);
	listener = make_listener(path, SOCK_SEQPACKET);
	if (framing_set_passing(listener, false) < 0)
		test_skip("no SO_PASSRIGHTS here");
	pid = run_activated(listener, "", log);
	raw_connect(&raw, path);
	raw_hello(&raw, MSG_ROLE_CONTROL);
	kill(pid, SIGTERM);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(!is_passing(listener));
	raw_close(&raw);
	close(listener);
	unlink(path);
	unlink(log);
	rmdir(folder);
}

/* A client that waits is not what has it started again and again. */
TEST(clients_of_a_daemon_with_wrong_settings_get_the_reason)
{
	char folder[] = "/tmp/shmemd-act-XXXXXX", path[64], log[64];
	struct raw_client first, second;
	int listener, status;
	struct msg msg;
	pid_t pid;

	ASSERT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/sock", folder);
	snprintf(log, sizeof(log), "%s/log", folder);
	listener = make_listener(path, SOCK_SEQPACKET);
	raw_connect(&first, path);
	raw_connect(&second, path);
	raw_send_bytes(&first, "x", 1, NULL, 0);
	pid = run_with(listener, "", log, "--sofa-nics=1");
	for (int i = 0; i < 2; i++) {
		ASSERT_OK(raw_recv(i ? &second : &first, &msg, NULL));
		ASSERT_EQ(msg.kind, MSG_ERROR_REP);
		ASSERT(strstr(msg.error_rep.text, "its settings are wrong") && strstr(msg.error_rep.text, "systemctl restart shmemd"));
		ASSERT(strstr(msg.error_rep.text, "sofa-nics"));
		msg_deinit(&msg);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(WEXITSTATUS(status), 2);
	raw_close(&first);
	raw_close(&second);
	close(listener);
	unlink(path);
	unlink(log);
	rmdir(folder);
}

TEST(activation_with_another_kind_of_socket_is_refused)
{
	char folder[] = "/tmp/shmemd-act-XXXXXX", path[64], log[64];
	int listener, status;
	pid_t pid;

	ASSERT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/sock", folder);
	snprintf(log, sizeof(log), "%s/log", folder);
	listener = make_listener(path, SOCK_STREAM);
	pid = run_activated(listener, "", log);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(WEXITSTATUS(status), 1);
	close(listener);
	unlink(path);
	unlink(log);
	rmdir(folder);
}

TEST(messages_are_traced_on_request)
{
	struct fixture_daemon daemon;
	struct msg_status_rep status;
	struct raw_client raw;

	setenv("SHMEMD_DEBUG", "proto", 1);
	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_status(&raw, &status);
	raw_close(&raw);
	fixture_daemon_assert_logged(&daemon, "<- hello-req");
	fixture_daemon_assert_logged(&daemon, "-> hello-rep");
	fixture_daemon_assert_logged(&daemon, "<- status-req");
	fixture_daemon_stop(&daemon);
}

TEST(unknown_fault_point_is_refused)
{
	setenv("SHMEMD_FAULT", "soft.set-fire:1", 1);
	expect_run((const char *[]){"--socket", "/tmp/shmemd-never.sock", NULL}, 1,
		   "there is no fault point \"soft.set-fire:1\"");
}
