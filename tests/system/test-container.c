/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients in containers. Each has nothing of this system but the socket and the files of the demo; the container is an
 * ordinary user's, also where the tests and the daemon are root's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmemclient.h>
#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/container.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/raw-traffic.h"

/* A test's requests to the process in its container, one letter each, and the answers. */
struct answer {
	int r;
	char text[MSG_TEXT_BYTES];
};

struct remote {
	struct container container;
	int sock; /* ours; theirs is `theirs` */
	int theirs;
};

#define MAX_SESSIONS 8

/* ---- inside --------------------------------------------------------------------------------------------------- */

static struct answer open_session(struct raw_client *raw)
{
	struct answer answer = {0};
	struct msg req, rep;

	raw_connect(raw, CONTAINER_SOCKET);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	raw_ask(raw, &req, NULL, 0, &rep);
	if (rep.kind == MSG_ERROR_REP) {
		answer.r = (int)rep.error_rep.status;
		memcpy(answer.text, rep.error_rep.text, sizeof(answer.text));
		return answer;
	}
	raw_open_nic(raw, "");
	raw_reg(raw, 65536);
	raw_create_queues(raw, 3, &rep);
	msg_deinit(&rep);
	return answer;
}

/* How many sessions this user is shown. */
static struct answer count_listed(void)
{
	struct answer answer = {0};
	struct raw_client raw;
	struct msg req, rep;

	raw_connect(&raw, CONTAINER_SOCKET);
	raw_hello(&raw, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	answer.r = (int)rep.list_rep.n_sessions;
	msg_deinit(&rep);
	raw_close(&raw);
	return answer;
}

static struct answer start_traffic(void)
{
	struct raw_traffic traffic;
	int ready[2];
	char c;

	ASSERT_OK(pipe(ready));
	if (fork() != 0) {
		ASSERT_EQ(read(ready[0], &c, 1), 1);
		return (struct answer){0};
	}
	raw_traffic_init(&traffic, CONTAINER_SOCKET);
	for (uint64_t n = 0;; n++) {
		raw_traffic_write(&traffic, 524288, 0, 262144);
		if (raw_traffic_poll(&traffic) != SHMD_CQE_REQ || (n == 0 && write(ready[1], "x", 1) != 1))
			_exit(1);
	}
}

static struct answer run_demo(void)
{
	struct answer answer = {0};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		unsetenv("SHMEMD_SOCKET");
		/* A path from the program's own place is of no use without /proc. */
		setenv("LD_LIBRARY_PATH", SHMEMD_LIBRARIES, 1);
		execl(SHMEMD_DEMO, "shmemd-demo", NULL);
		_exit(127);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	answer.r = status;
	return answer;
}

static bool has_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2];

	ASSERT_OK(syscall(SYS_capget, &header, sets));
	for (int i = 0; i < 2; i++)
		if (sets[i].effective | sets[i].permitted | sets[i].inheritable)
			return true;
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0)
			return true;
	return false;
}

static bool has_network(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(0x08080808)}};
	struct ifreq lo = {.ifr_name = "lo"};
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up;

	ASSERT_GE(sock, 0);
	ASSERT_OK(ioctl(sock, SIOCGIFFLAGS, &lo));
	up = lo.ifr_flags & IFF_UP || connect(sock, (struct sockaddr *)&addr, sizeof(addr)) == 0;
	close(sock);
	return up;
}

/* Empty when the container is as promised. */
static struct answer inspect(void)
{
	static const char *const absent[] = {"/dev", "/proc", "/sys", "/etc", "/tmp", "/bin", "/dev/infiniband"};
	struct answer answer = {0};

	for (unsigned int i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		if (access(absent[i], F_OK) == 0 && !strstr(SHMEMD_DEMO, absent[i]))
			snprintf(answer.text, sizeof(answer.text), "%s is there", absent[i]);
	if (getpid() != 1 || getppid() != 0)
		snprintf(answer.text, sizeof(answer.text), "it is process %d", getpid());
	if (getuid() != 0 || geteuid() != 0 || getgid() != 0)
		snprintf(answer.text, sizeof(answer.text), "it is user %u", getuid());
	if (has_capabilities())
		snprintf(answer.text, sizeof(answer.text), "it has capabilities");
	if (has_network())
		snprintf(answer.text, sizeof(answer.text), "it has a network");
	if (mount("x", "/run", "tmpfs", 0, NULL) == 0 || errno != EPERM)
		snprintf(answer.text, sizeof(answer.text), "it can mount");
	if (open("/run/x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0)
		snprintf(answer.text, sizeof(answer.text), "its root can be written");
	return answer;
}

static int serve(void *arg)
{
	struct remote *remote = arg;
	struct raw_client sessions[MAX_SESSIONS];
	unsigned int n = 0;
	char letter;

	close(remote->sock);
	while (recv(remote->theirs, &letter, 1, 0) == 1 && letter != 'q') {
		struct answer answer = {.r = -1};

		if (letter == 'i')
			answer = inspect();
		else if (letter == 'o' && n < MAX_SESSIONS)
			answer = open_session(&sessions[n++]);
		else if (letter == 'l')
			answer = count_listed();
		else if (letter == 't')
			answer = start_traffic();
		else if (letter == 'd')
			answer = run_demo();
		ASSERT_EQ(send(remote->theirs, &answer, sizeof(answer), 0), sizeof(answer));
	}
	return 0;
}

/* ---- outside -------------------------------------------------------------------------------------------------- */

static void remote_start(struct remote *remote, const struct fixture_daemon *daemon)
{
	struct container_attr attr = {.socket = daemon->socket, .main = serve, .arg = remote};
	int socks[2];

	/* The demo's library is one of this program's because it is used here. */
	ASSERT(shmd_version());
	attr.files[0] = SHMEMD_DEMO;
	container_libraries(attr.files + 1, CONTAINER_FILES - 1);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	remote->sock = socks[0];
	remote->theirs = socks[1];
	/* As an administrator does by the socket's group: this user may connect. */
	ASSERT_OK(chmod(daemon->folder, 0711));
	ASSERT_OK(chown(daemon->socket, (uid_t)-1, container_gid()));
	ASSERT_OK(chmod(daemon->socket, 0660));
	container_start(&remote->container, &attr);
	close(remote->theirs);
}

static struct answer ask(struct remote *remote, char letter)
{
	struct answer answer;

	ASSERT_EQ(send(remote->sock, &letter, 1, MSG_NOSIGNAL), 1);
	if (recv(remote->sock, &answer, sizeof(answer), 0) != sizeof(answer))
		test_fail(TEST_WHERE, "the container is gone");
	return answer;
}

static void expect_good(struct answer answer)
{
	if (answer.r != 0 || answer.text[0])
		test_fail(TEST_WHERE, "the container answered %d: %s", answer.r, answer.text);
}

static void remote_stop(struct remote *remote)
{
	ASSERT_EQ(send(remote->sock, "q", 1, MSG_NOSIGNAL), 1);
	close(remote->sock);
	ASSERT_EQ(container_wait(&remote->container), 0);
}

/* The entry of /proc for the process with this number here. */
static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
	char path[48];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	n = read(fd, text, size - 1);
	text[n > 0 ? n : 0] = 0;
	close(fd);
}

TEST(container_has_nothing_but_the_socket)
{
	struct fixture_daemon daemon;
	struct remote remote;

	fixture_daemon_start(&daemon, NULL);
	remote_start(&remote, &daemon);
	expect_good(ask(&remote, 'i'));
	remote_stop(&remote);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(demo_passes_in_a_container, 60)
{
	struct fixture_daemon daemon;
	struct remote remote;

	if (test_has_sanitizer())
		test_skip("a sanitizer needs /proc in the container");
	fixture_daemon_start(&daemon, NULL);
	remote_start(&remote, &daemon);
	expect_good(ask(&remote, 'd'));
	remote_stop(&remote);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

/* Which user, process and cgroup it is on the host, whatever it takes itself for. */
TEST(identity_of_a_contained_client_is_the_hosts)
{
	const struct msg_session_item *item;
	struct fixture_daemon daemon;
	struct raw_client ctl;
	struct remote remote;
	struct msg req, rep;
	char text[4096];

	fixture_daemon_start(&daemon, NULL);
	remote_start(&remote, &daemon);
	expect_good(ask(&remote, 'o'));
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	item = &rep.list_rep.sessions[0];
	ASSERT_EQ(item->uid, container_uid());
	ASSERT_EQ(item->gid, container_gid());
	ASSERT_NE(item->uid, 0);
	ASSERT_EQ(item->pid, remote.container.init);
	ASSERT_STREQ(item->command, "test-container");
	ASSERT_EQ(item->n_qps, 3);
	ASSERT_EQ(item->n_mrs, 1);
	read_proc((pid_t)item->pid, "status", text, sizeof(text));
	ASSERT(strstr(text, "NSpid:"));
	ASSERT(strstr(strstr(text, "NSpid:"), "\t1\n"));
	read_proc((pid_t)item->pid, "cgroup", text, sizeof(text));
	ASSERT(strstr(text, item->cgroup));
	msg_deinit(&rep);
	raw_close(&ctl);
	remote_stop(&remote);
	fixture_daemon_stop(&daemon);
}

/* The end of a container reaches the daemon a moment later. */
static void wait_for_sessions(const struct fixture_daemon *daemon, uint32_t n)
{
	const struct timespec tick = {.tv_nsec = 5000000};
	uint64_t end = nsec_now() + 10 * NSEC_PER_SEC;
	struct msg_status_rep status;
	struct raw_client ctl;

	raw_connect(&ctl, daemon->socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	for (raw_status(&ctl, &status); status.n_sessions != n; raw_status(&ctl, &status)) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&tick, NULL);
	}
	raw_close(&ctl);
}

/* Two containers are two places of one user: together they get no more than that user does. */
TEST(containers_are_charged_to_the_user_whose_they_are)
{
	struct fixture_daemon daemon;
	struct remote a, b;
	struct answer refused;
	char holder[64];

	fixture_daemon_start(&daemon, "--max-sessions=3", NULL);
	remote_start(&a, &daemon);
	remote_start(&b, &daemon);
	expect_good(ask(&a, 'o'));
	expect_good(ask(&b, 'o'));
	expect_good(ask(&a, 'o'));
	refused = ask(&b, 'o');
	ASSERT_EQ(refused.r, SHMD_STATUS_QUOTA_SESSIONS);
	snprintf(holder, sizeof(holder), "max-sessions is 3, uid %u holds 3", container_uid());
	if (!strstr(refused.text, holder))
		test_fail(TEST_WHERE, "\"%s\" is not in: %s", holder, refused.text);
	/* Each sees the other's, as the same user does without containers. */
	ASSERT_EQ(ask(&a, 'l').r, 3);
	remote_stop(&b);
	wait_for_sessions(&daemon, 2);
	expect_good(ask(&a, 'o'));
	remote_stop(&a);
	fixture_daemon_stop(&daemon);
}

TEST(others_sessions_are_not_shown_in_a_container)
{
	struct fixture_daemon daemon;
	struct remote remote;
	struct raw_client raw;

	if (geteuid() != 0)
		test_skip("needs a second user, and so root");
	fixture_daemon_start(&daemon, NULL);
	remote_start(&remote, &daemon);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	ASSERT_EQ(ask(&remote, 'l').r, 0);
	expect_good(ask(&remote, 'o'));
	ASSERT_EQ(ask(&remote, 'l').r, 1);
	raw_close(&raw);
	remote_stop(&remote);
	fixture_daemon_stop(&daemon);
}

/* Three sessions, two of them with traffic of processes that init forked; SIGKILL. Nothing is left after a second. */
static void kill_in_mid_traffic(const struct fixture_daemon *daemon, struct raw_client *ctl)
{
	struct msg_status_rep status;
	struct remote remote;

	remote_start(&remote, daemon);
	expect_good(ask(&remote, 'o'));
	expect_good(ask(&remote, 't'));
	expect_good(ask(&remote, 't'));
	raw_status(ctl, &status);
	ASSERT_EQ(status.n_sessions, 3);
	container_kill(&remote.container);
	daemon_expect_empty(ctl, NSEC_PER_SEC);
	close(remote.sock);
}

TEST(killed_container_leaves_nothing_within_a_second)
{
	struct daemon_usage before, after;
	struct fixture_daemon daemon;
	struct raw_client ctl;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	/* A NIC keeps some descriptors from its first use on. */
	kill_in_mid_traffic(&daemon, &ctl);
	daemon_usage(daemon.pid, &before);
	for (int i = 0; i < 3; i++)
		kill_in_mid_traffic(&daemon, &ctl);
	daemon_expect_usage(daemon.pid, &before, &after);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

/* ---- the daemon in a container, its client outside ------------------------------------------------------------ */

/* In a child: a daemon in new user and pid namespaces, until `until` is closed. Tells the path of its socket. */
static void __attribute__((noreturn)) contained_daemon(int tell, int until)
{
	struct fixture_daemon daemon;
	char map[32], c;
	int fd, status;
	pid_t init;

	snprintf(map, sizeof(map), "0 %u 1", geteuid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
		_exit(77);
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	ASSERT_EQ(write(fd, map, strlen(map)), strlen(map));
	close(fd);
	/* The new identity made the kernel forget it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	init = fork();
	if (init == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fixture_daemon_start(&daemon, NULL);
		ASSERT_EQ(write(tell, daemon.socket, sizeof(daemon.socket)), sizeof(daemon.socket));
		ASSERT_EQ(read(until, &c, 1), 0);
		fixture_daemon_stop(&daemon);
		_exit(0);
	}
	close(tell);
	ASSERT_EQ(waitpid(init, &status, 0), init);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* A process of another pid namespace has no number for the daemon. It is served, and its death is seen all the same. */
TEST(client_without_a_number_for_the_daemon_is_served_and_its_death_is_seen)
{
	const struct timespec tick = {.tv_nsec = 5000000};
	int tell[2], until[2], status;
	struct raw_client ctl, raw;
	struct msg req, rep;
	char path[96], c;
	pid_t holder, client;

	ASSERT_OK(pipe2(tell, O_CLOEXEC));
	ASSERT_OK(pipe2(until, O_CLOEXEC));
	holder = fork();
	if (holder == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(until[1]);
		contained_daemon(tell[1], until[0]);
	}
	close(tell[1]);
	close(until[0]);
	if (read(tell[0], path, sizeof(path)) != sizeof(path)) {
		ASSERT_EQ(waitpid(holder, &status, 0), holder);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			test_skip("no user namespaces may be made here");
		test_fail(TEST_WHERE, "the daemon did not start");
	}
	client = fork();
	if (client == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raw_connect(&raw, path);
		raw_hello(&raw, MSG_ROLE_CLIENT);
		raw_open_nic(&raw, "");
		pause();
	}
	raw_connect(&ctl, path);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	for (;;) {
		raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
		if (rep.list_rep.n_sessions == 1 && rep.list_rep.sessions[0].nics[0])
			break;
		msg_deinit(&rep);
		nanosleep(&tick, NULL);
	}
	ASSERT_EQ(rep.list_rep.sessions[0].pid, 0);
	ASSERT_EQ(rep.list_rep.sessions[0].uid, 0);
	msg_deinit(&rep);
	ASSERT_OK(kill(client, SIGKILL));
	ASSERT_EQ(waitpid(client, &status, 0), client);
	while (!daemon_is_empty(&ctl))
		nanosleep(&tick, NULL);
	raw_close(&ctl);
	close(until[1]);
	ASSERT_EQ(read(tell[0], &c, 1), 0);
	ASSERT_EQ(waitpid(holder, &status, 0), holder);
	ASSERT_EQ(status, 0);
	close(tell[0]);
}
