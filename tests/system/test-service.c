/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon under a service manager, which is a datagram socket here: readiness, status, watchdog, SIGHUP. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"

#define PATIENCE_NSEC (15 * NSEC_PER_SEC)
#define QUIET_NSEC (test_is_full() ? 1500 * NSEC_PER_MSEC : 500 * NSEC_PER_MSEC)

struct manager {
	char folder[64];
	char notify[80];
	char conf[80]; /* of the daemon */
	int fd;
};

static void manager_init(struct manager *manager)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(manager->folder, sizeof(manager->folder), "/tmp/shmemd-mgr-XXXXXX");
	ASSERT(mkdtemp(manager->folder));
	snprintf(manager->notify, sizeof(manager->notify), "%s/notify", manager->folder);
	snprintf(manager->conf, sizeof(manager->conf), "%s/conf", manager->folder);
	manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(addr.sun_path, manager->notify, strlen(manager->notify));
	ASSERT_OK(bind(manager->fd, (struct sockaddr *)&addr, sizeof(addr)));
	setenv("NOTIFY_SOCKET", manager->notify, 1);
}

static void manager_deinit(struct manager *manager)
{
	close(manager->fd);
	unlink(manager->notify);
	unlink(manager->conf);
	rmdir(manager->folder);
}

/* The next message within the time, false when there is none. */
static bool manager_hear(struct manager *manager, uint64_t nsec, char *text, size_t size)
{
	struct timeval tv = {.tv_sec = (time_t)(nsec / NSEC_PER_SEC),
			     .tv_usec = (suseconds_t)(nsec % NSEC_PER_SEC / NSEC_PER_USEC)};
	ssize_t n;

	ASSERT_OK(setsockopt(manager->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	n = recv(manager->fd, text, size - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Others send to it as well, until it takes no more. */
static void manager_fill(const struct manager *manager)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path, manager->notify, strlen(manager->notify));
	ASSERT_OK(connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	while (send(fd, "x", 1, MSG_DONTWAIT) == 1)
		;
	ASSERT_EQ(errno, EAGAIN);
	close(fd);
}

/* The next message with these words. */
static void manager_wait(struct manager *manager, const char *words, char *text, size_t size)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (manager_hear(manager, NSEC_PER_SEC, text, size) || nsec_now() < end)
		if (strstr(text, words))
			return;
	test_fail(TEST_WHERE, "the manager was not told \"%s\"", words);
}

static void write_conf(const struct manager *manager, const char *text)
{
	int fd = open(manager->conf, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT_EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void start(struct manager *manager, struct fixture_daemon *daemon, const char *conf)
{
	char option[96], text[1024];

	write_conf(manager, conf);
	snprintf(option, sizeof(option), "--config=%s", manager->conf);
	fixture_daemon_start(daemon, option, NULL);
	manager_wait(manager, "READY=1", text, sizeof(text));
}

/* A reload from SIGHUP to READY=1, whose text is given back. */
static void reload(struct manager *manager, struct fixture_daemon *daemon, const char *conf, char *text, size_t size)
{
	uint64_t before = nsec_now() / NSEC_PER_USEC, told;
	const char *field;

	write_conf(manager, conf);
	ASSERT_OK(kill(daemon->pid, SIGHUP));
	manager_wait(manager, "RELOADING=1", text, size);
	field = strstr(text, "MONOTONIC_USEC=");
	ASSERT(field);
	told = strtoull(field + strlen("MONOTONIC_USEC="), NULL, 10);
	ASSERT_GE(told, before);
	ASSERT_LE(told, nsec_now() / NSEC_PER_USEC);
	manager_wait(manager, "READY=1", text, size);
}

/* ---- status --------------------------------------------------------------------------------------------------- */

TEST_WAITS(status_line_counts_sessions_and_qps, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct fixture_daemon daemon;
	struct manager manager;
	struct raw_client raw;
	struct msg rep;
	char text[1024];

	manager_init(&manager);
	start(&manager, &daemon, "");
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	raw_create_queues(&raw, 7, &rep);
	msg_deinit(&rep);
	manager_wait(&manager, "STATUS=1 session, 7 QPs on 2 simulated NICs; listening on ", text, sizeof(text));
	ASSERT(strstr(text, daemon.socket));
	raw_close(&raw);
	manager_wait(&manager, "STATUS=0 sessions, 0 QPs", text, sizeof(text));
	fixture_daemon_stop(&daemon);
	manager_wait(&manager, "STOPPING=1", text, sizeof(text));
	manager_deinit(&manager);
}

/* ---- watchdog ------------------------------------------------------------------------------------------------- */

TEST_WAITS(watchdog_is_pinged_at_less_than_half_its_time, 60)
{
	const uint64_t watchdog = 1500 * NSEC_PER_MSEC;
	struct fixture_daemon daemon;
	struct manager manager;
	unsigned int n_soon = 0;
	char text[1024];
	uint64_t last;

	manager_init(&manager);
	setenv("WATCHDOG_USEC", "1500000", 1);
	start(&manager, &daemon, "");
	last = nsec_now();
	for (int i = 0; i < 5 && n_soon < 3; i++) {
		manager_wait(&manager, "WATCHDOG=1", text, sizeof(text));
		n_soon += nsec_now() - last < watchdog / 2;
		last = nsec_now();
	}
	/* The machine may delay one or the other, and the listener. */
	ASSERT_GE(n_soon, 3);
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

TEST_WAITS(no_watchdog_asked_for_none_pinged, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct fixture_daemon daemon;
	struct manager manager;
	char text[1024];

	manager_init(&manager);
	unsetenv("WATCHDOG_USEC");
	start(&manager, &daemon, "");
	while (manager_hear(&manager, QUIET_NSEC, text, sizeof(text)))
		ASSERT(!strstr(text, "WATCHDOG=1"));
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

/* The fault stops the loop inside a callback; signals, NIC threads and the process go on. */
TEST_WAITS(hung_loop_is_pinged_for_no_more_and_can_be_aborted, TEST_DEFAULT_TIMEOUT_SEC)
{
	const struct rlimit no_core = {0};
	struct fixture_daemon daemon;
	struct manager manager;
	struct raw_client raw[20];
	char text[1024];
	uint64_t hung;
	int status;

	manager_init(&manager);
	setenv("WATCHDOG_USEC", "600000", 1);
	setenv("SHMEMD_FAULT", "loop.hang:15", 1);
	setrlimit(RLIMIT_CORE, &no_core);
	start(&manager, &daemon, "");
	manager_wait(&manager, "WATCHDOG=1", text, sizeof(text));
	for (unsigned int i = 0; i < 20; i++)
		raw_connect(&raw[i], daemon.socket);
	/* A loop that goes on is never silent for so long; it hangs once it has come to the connection that hangs it. */
	for (hung = nsec_now(); manager_hear(&manager, 1200 * NSEC_PER_MSEC, text, sizeof(text));)
		ASSERT_LT(nsec_now() - hung, PATIENCE_NSEC);
	ASSERT_EQ(waitpid(daemon.pid, &status, WNOHANG), 0);
	/* The manager's reaction. */
	ASSERT_OK(kill(daemon.pid, SIGABRT));
	ASSERT_EQ(waitpid(daemon.pid, &status, 0), daemon.pid);
	ASSERT(WIFSIGNALED(status));
	ASSERT_EQ(WTERMSIG(status), SIGABRT);
	daemon.pid = 0;
	for (unsigned int i = 0; i < 20; i++)
		raw_close(&raw[i]);
	fixture_daemon_kill(&daemon);
	manager_deinit(&manager);
}

/* A manager that is busy for a while (its socket takes ten messages or so) delays no client. */
TEST_WAITS(manager_that_does_not_read_does_not_stop_the_loop, 60)
{
	struct fixture_daemon daemon;
	struct msg_status_rep status;
	struct manager manager;
	struct raw_client raw;
	char text[1024];

	manager_init(&manager);
	setenv("WATCHDOG_USEC", "30000", 1);
	start(&manager, &daemon, "quiesce-timeout = 0\n");
	manager_fill(&manager);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	usleep(1200000);
	raw_status(&raw, &status);
	ASSERT_EQ(status.n_sessions, 1);
	while (manager_hear(&manager, NSEC_PER_USEC, text, sizeof(text)) && !strstr(text, "STATUS=1 session,"))
		;
	if (!strstr(text, "STATUS=1 session,"))
		manager_wait(&manager, "STATUS=1 session,", text, sizeof(text));
	manager_wait(&manager, "WATCHDOG=1", text, sizeof(text));
	raw_close(&raw);
	/* Messages that must arrive are waited for: the manager reads again. */
	ASSERT_OK(kill(daemon.pid, SIGTERM));
	manager_wait(&manager, "STOPPING=1", text, sizeof(text));
	ASSERT_EQ(waitpid(daemon.pid, NULL, 0), daemon.pid);
	daemon.pid = 0;
	fixture_daemon_kill(&daemon);
	manager_deinit(&manager);
}

/* A loop that hangs for a while and goes on is reported afterwards. */
TEST(the_status_line_warns_of_names_that_nothing_has)
{
	struct fixture_daemon daemon;
	struct manager manager;
	char text[1024];

	manager_init(&manager);
	start(&manager, &daemon, "nics-include = soft0, sotf1\n");
	fixture_daemon_assert_logged(&daemon, "nics-include names sotf1");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	manager_wait(&manager, "STATUS=nics-include names sotf1, a NIC that this machine does not have (did you mean soft1?); 0 sessions, 0 QPs on ",
		     text, sizeof(text));
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

TEST_WAITS(late_loop_is_logged, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct fixture_daemon daemon;
	struct manager manager;
	char text[1024];

	manager_init(&manager);
	setenv("WATCHDOG_USEC", "300000", 1);
	start(&manager, &daemon, "quiesce-timeout = 200\n");
	fixture_daemon_assert_logged(&daemon, "quiesce-timeout is 200 ms, too close to the 300 ms of the watchdog");
	manager_wait(&manager, "WATCHDOG=1", text, sizeof(text));
	ASSERT_OK(kill(daemon.pid, SIGSTOP));
	usleep(400000);
	ASSERT_OK(kill(daemon.pid, SIGCONT));
	manager_wait(&manager, "WATCHDOG=1", text, sizeof(text));
	manager_wait(&manager, "WATCHDOG=1", text, sizeof(text));
	fixture_daemon_assert_logged(&daemon, "the control loop was blocked for ");
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

/* ---- reload --------------------------------------------------------------------------------------------------- */

TEST(reload_leaves_live_sessions_and_binds_new_charges)
{
	struct fixture_daemon daemon;
	struct manager manager;
	struct raw_traffic traffic;
	struct raw_client raw;
	struct msg req, rep;
	char text[1024];

	manager_init(&manager);
	start(&manager, &daemon, "max-qps = 10\n");
	raw_traffic_init(&traffic, daemon.socket);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	raw_create_queues(&raw, 5, &rep);
	msg_deinit(&rep);
	/* Six are held: the lower limit takes none of them away. */
	reload(&manager, &daemon, "max-qps = 3\n", text, sizeof(text));
	ASSERT(strstr(text, "2 sessions, 6 QPs"));
	fixture_daemon_assert_logged(&daemon, "reloaded the settings; changed: max-qps");
	raw_fill_create(&req, 1);
	raw_expect(&raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_QUOTA_QPS);
	ASSERT(strstr(rep.error_rep.text, "max-qps is 3"));
	ASSERT(strstr(rep.error_rep.text, "holds 6"));
	for (int i = 0; i < 100; i++) {
		memset(traffic.heap, i, 4096);
		raw_traffic_write(&traffic, 8192, 0, 4096);
		ASSERT_EQ(raw_traffic_poll(&traffic), SHMD_CQE_REQ);
	}
	reload(&manager, &daemon, "max-qps = 8\n", text, sizeof(text));
	raw_create_queues(&raw, 2, &rep);
	msg_deinit(&rep);
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_QUOTA_QPS);
	raw_close(&raw);
	raw_traffic_deinit(&traffic);
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

TEST(new_sessions_get_the_limits_of_the_reload)
{
	struct fixture_daemon daemon;
	struct manager manager;
	struct raw_client raw;
	struct msg req, rep;
	char text[1024];

	manager_init(&manager);
	start(&manager, &daemon, "max-mrs = 10\n");
	reload(&manager, &daemon, "max-mrs = 4\n", text, sizeof(text));
	raw_connect(&raw, daemon.socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CONTROL};
	raw_expect(&raw, &req, NULL, 0, MSG_HELLO_REP, &rep);
	ASSERT_EQ(rep.hello_rep.limits.max_mrs, 4);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

TEST(reload_of_a_wrong_file_keeps_everything_and_says_line_and_reason)
{
	struct fixture_daemon daemon;
	char text[1024], reason[160];
	struct manager manager;
	struct raw_client raw;
	struct msg req, rep;

	manager_init(&manager);
	start(&manager, &daemon, "max-qps = 2\n");
	reload(&manager, &daemon, "max-qps = 100\nmax-cqs = many\n", text, sizeof(text));
	snprintf(reason, sizeof(reason), "%s:2: max-cqs is \"many\"; set it to a number of CQs", manager.conf);
	ASSERT(strstr(text, "STATUS=settings kept, "));
	ASSERT(strstr(text, reason));
	fixture_daemon_assert_logged(&daemon, "error: settings stay as they were: ");
	fixture_daemon_assert_logged(&daemon, reason);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	raw_fill_create(&req, 3);
	raw_expect(&raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT(strstr(rep.error_rep.text, "max-qps is 2"));
	/* A good file ends the trouble. */
	reload(&manager, &daemon, "max-qps = 3\n", text, sizeof(text));
	ASSERT(!strstr(text, "settings kept"));
	raw_create_queues(&raw, 3, &rep);
	msg_deinit(&rep);
	/* A file that is gone is not an empty one: it was named. */
	unlink(manager.conf);
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	manager_wait(&manager, "READY=1", text, sizeof(text));
	ASSERT(strstr(text, "cannot read "));
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

/* No client comes meanwhile, whose request would move on what waits. */
TEST_WAITS(reload_ends_for_a_manager_that_was_busy, 60)
{
	struct fixture_daemon daemon;
	struct manager manager;
	char text[1024];

	manager_init(&manager);
	start(&manager, &daemon, "");
	/* Until the daemon has nothing more to say of its start. */
	while (manager_hear(&manager, 3 * NSEC_PER_SEC, text, sizeof(text)))
		;
	manager_fill(&manager);
	write_conf(&manager, "max-qps = 9\n");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	while (!fixture_daemon_has_logged(&daemon, "changed: max-qps\n"))
		usleep(1000);
	manager_wait(&manager, "RELOADING=1", text, sizeof(text));
	manager_wait(&manager, "READY=1", text, sizeof(text));
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

TEST(reload_names_what_needs_a_restart)
{
	struct fixture_daemon daemon;
	struct manager manager;
	struct raw_client raw;
	struct msg req, rep;
	char text[1024];

	manager_init(&manager);
	start(&manager, &daemon, "soft-nics = 2\n");
	reload(&manager, &daemon, "soft-nics = 5\nspin-usec = 7\nmax-qps = 9\n", text, sizeof(text));
	fixture_daemon_assert_logged(&daemon, "changed: max-qps\n");
	fixture_daemon_assert_logged(&daemon, "take effect at the next start: soft-nics, spin-usec\n");
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_NIC_LIST_REQ, 0);
	raw_expect(&raw, &req, NULL, 0, MSG_NIC_LIST_REP, &rep);
	ASSERT_EQ(rep.nic_list_rep.n_nics, 2);
	msg_deinit(&rep);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

TEST(reload_changes_mode_of_the_socket_and_level_of_the_log)
{
	struct fixture_daemon daemon;
	struct manager manager;
	struct raw_client raw;
	char text[1024];
	struct stat st;

	manager_init(&manager);
	unsetenv("SHMEMD_DEBUG");
	start(&manager, &daemon, "socket-mode = 0600\n");
	ASSERT_OK(stat(daemon.socket, &st));
	ASSERT_EQ(st.st_mode & 0777, 0600);
	reload(&manager, &daemon, "socket-mode = 0606\nlog-level = debug\n", text, sizeof(text));
	ASSERT_OK(stat(daemon.socket, &st));
	ASSERT_EQ(st.st_mode & 0777, 0606);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	fixture_daemon_assert_logged(&daemon, "hello from test-service");
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

TEST(reload_with_a_group_that_is_not_there_changes_nothing)
{
	struct fixture_daemon daemon;
	struct manager manager;
	char text[1024];
	struct stat st;

	manager_init(&manager);
	start(&manager, &daemon, "socket-mode = 0600\nmax-qps = 5\n");
	reload(&manager, &daemon, "socket-mode = 0666\nmax-qps = 6\nsocket-group = no-such-group\n", text, sizeof(text));
	ASSERT(strstr(text, "settings kept, the socket cannot have mode 0666 and group \"no-such-group\""));
	ASSERT_OK(stat(daemon.socket, &st));
	ASSERT_EQ(st.st_mode & 0777, 0600);
	/* Nothing was taken: the next reload still sees max-qps as new. */
	reload(&manager, &daemon, "socket-mode = 0600\nmax-qps = 6\n", text, sizeof(text));
	fixture_daemon_assert_logged(&daemon, "changed: max-qps\n");
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}

/* Signals that come together are one reload or several; none is left undone. */
TEST(many_reloads_at_once_end_with_the_last_file)
{
	struct fixture_daemon daemon;
	struct manager manager;
	struct raw_traffic traffic;
	char text[1024];

	manager_init(&manager);
	start(&manager, &daemon, "max-qps = 100\n");
	raw_traffic_init(&traffic, daemon.socket);
	for (int i = 0; i < 200; i++)
		ASSERT_OK(kill(daemon.pid, SIGHUP));
	while (manager_hear(&manager, 300 * NSEC_PER_MSEC, text, sizeof(text)))
		;
	/* Not as reload() has it: one of those before may still be under way. */
	write_conf(&manager, "max-qps = 77\n");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	fixture_daemon_assert_logged(&daemon, "changed: max-qps\n");
	memset(traffic.heap, 1, 64);
	raw_traffic_write(&traffic, 8192, 0, 64);
	ASSERT_EQ(raw_traffic_poll(&traffic), SHMD_CQE_REQ);
	raw_traffic_deinit(&traffic);
	fixture_daemon_stop(&daemon);
	manager_deinit(&manager);
}
