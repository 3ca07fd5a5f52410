/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl over time: --watch, stats, monitor. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/framing.h"
#include "tests/lib/raw-client.h"
#include "tests/system/ctl-lab.h"
#include "tests/system/ctl-subject.h"

static void start(struct fixture_daemon *daemon)
{
	fixture_daemon_start(daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon->socket, 1);
}

static unsigned int count_lines(void)
{
	unsigned int n = 0;

	for (const char *c = ctl_text; *c; c++)
		n += *c == '\n';
	return n;
}

TEST(watch_repeats_until_the_daemon_is_gone)
{
	struct fixture_daemon daemon;
	pid_t ctl;
	int out;

	start(&daemon);
	ctl = ctl_start((const char *const[]){"--json", "--watch", "0.02", "status", NULL}, &out);
	while (count_lines() < 4)
		ctl_read_more(out);
	fixture_daemon_kill(&daemon);
	ASSERT_EQ(ctl_end(ctl, out), 2);
	ASSERT_HAS("{\"schema_version\":1,", "shmemctl: the connection to shmemd broke");
}

static void answer(struct raw_client *raw, enum msg_kind kind)
{
	struct msg req, rep;

	ASSERT_OK(raw_recv(raw, &req, NULL));
	msg_init(&rep, kind, 0);
	if (kind == MSG_HELLO_REP)
		rep.hello_rep.version = SHMD_PROTOCOL_VERSION_MAX;
	raw->last_id = req.id - 1;
	raw_send(raw, &rep, NULL, 0);
	msg_deinit(&req);
}

/* A daemon that dies between two requests of one answer. */
static void *answer_half(void *arg)
{
	struct raw_client raw = {.sock = accept(*(int *)arg, NULL, NULL)};
	struct msg req;

	ASSERT_GE(raw.sock, 0);
	answer(&raw, MSG_HELLO_REP);
	answer(&raw, MSG_STATUS_REP);
	ASSERT_OK(raw_recv(&raw, &req, NULL));
	msg_deinit(&req);
	raw_close(&raw);
	return NULL;
}

TEST(watch_shows_no_answer_that_broke_off)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "/tmp/shmemd-half-XXXXXX"};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pthread_t thread;

	close(mkstemp(addr.sun_path));
	unlink(addr.sun_path);
	ASSERT_OK(bind(listener, (struct sockaddr *)&addr, sizeof(addr)));
	ASSERT_OK(listen(listener, 1));
	ASSERT_OK(pthread_create(&thread, NULL, answer_half, &listener));
	ASSERT_EQ(CTL("--json", "--watch", "--socket", addr.sun_path, "status"), 2);
	ASSERT_HAS("shmemctl: the connection to shmemd broke");
	ctl_assert_lacks("{");
	ASSERT_OK(pthread_join(thread, NULL));
	close(listener);
	unlink(addr.sun_path);
}

/* The number behind a key, or -1. */
static double number_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? atof(at + strlen(key)) : -1;
}

/* Values of the complete lines, after checking that each one's rate is its work by its time, to one decimal. */
static double sum_of_lines(void)
{
	double sum = 0;

	for (const char *line = ctl_text, *end; (end = strchr(line, '\n')); line = end + 1) {
		double wqes = number_of(line, "\"wqes\":"), seconds = number_of(line, "\"interval_nsec\":") / 1e9;
		double rate = number_of(line, "\"wqes_per_sec\":");

		ASSERT_GT(seconds, 0.2);
		ASSERT_LE(rate, wqes / seconds + 0.06);
		ASSERT_GE(rate, wqes / seconds - 0.06);
		ASSERT_EQ(number_of(line, "\"bytes\":"), 1000 * wqes);
		sum += wqes;
	}
	return sum;
}

/* Looks follow each other without a gap, so that nothing is lost between them or counted twice. */
TEST(stats_shows_the_rates_of_work_between_two_looks)
{
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct fixture_daemon daemon;
	struct lab_side side;
	pid_t ctl;
	int out, status;

	start(&daemon);
	lab_side_open(&side, &daemon, &attr);
	lab_connect(&side, 0, &side, 1);
	ctl = ctl_start((const char *const[]){"--json", "stats", "qps", "--watch", "0.25", NULL}, &out);
	ctl_wait_for(out, "}\n");
	ASSERT_EQ(sum_of_lines(), 0);
	for (int i = 0; i < 500; i++)
		ASSERT_OK(shmd_dev_qp_put(shmd_queues_dev_qp(side.queues, 0), lab_remote(&side, 4096),
					  lab_local(&side, 0), 1000, 10000000000));
	while (sum_of_lines() < 500)
		ctl_read_more(out);
	ASSERT_EQ(sum_of_lines(), 500);
	ASSERT_OK(kill(ctl, SIGKILL));
	ASSERT_EQ(waitpid(ctl, &status, 0), ctl);
	close(out);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(stats_leaves_out_what_is_idle_and_says_so, 60)
{
	struct fixture_daemon daemon;
	pid_t busy, all, sessions;
	int out[3];

	start(&daemon);
	/* Each takes a second. */
	busy = ctl_start((const char *const[]){"stats", NULL}, &out[0]);
	all = ctl_start((const char *const[]){"stats", "--all", NULL}, &out[1]);
	sessions = ctl_start((const char *const[]){"stats", "sessions", NULL}, &out[2]);
	ASSERT_EQ(ctl_end(busy, out[0]), 0);
	ASSERT_HAS("nics, in ", "no activity\n2 idle, not shown (--all shows them)\n");
	ASSERT_GE(number_of(ctl_text, "nics, in "), 1);
	ctl_text[0] = 0;
	ASSERT_EQ(ctl_end(all, out[1]), 0);
	ASSERT_HAS("NIC    WQE/S", "soft0      0  0 B/s", "soft1", "total");
	ctl_assert_lacks("idle");
	ctl_text[0] = 0;
	ASSERT_EQ(ctl_end(sessions, out[2]), 0);
	ASSERT_HAS("no sessions");
	fixture_daemon_stop(&daemon);
}

/* Until the daemon counts one. */
static void wait_for_monitor(void)
{
	do {
		usleep(10000);
		ASSERT_EQ(CTL("status", "--json"), 0);
	} while (!strstr(ctl_text, "\"n_monitors\":1,"));
	ctl_text[0] = 0;
}

TEST(monitor_tells_events_as_they_happen)
{
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct fixture_daemon daemon;
	struct lab_side side;
	char words[64];
	int out, status;
	pid_t ctl;

	start(&daemon);
	ctl = ctl_start((const char *const[]){"monitor", NULL}, &out);
	wait_for_monitor();
	lab_side_open(&side, &daemon, &attr);
	ctl_wait_for(out, ": 2 QPs from 0x");
	snprintf(words, sizeof(words), "session-opened    session %llu (uid %u, pid %d): test-shmemctl-w",
		 (unsigned long long)shmd_client_session(side.client), (unsigned int)getuid(), (int)getpid());
	ASSERT_HAS(words, "queues-created");
	lab_side_close(&side);
	ctl_wait_for(out, "session-closed");
	ASSERT_HAS("queues-destroyed");
	fixture_daemon_stop(&daemon);
	ctl_wait_for(out, "shmemctl: ");
	ASSERT_EQ(waitpid(ctl, &status, 0), ctl);
	ASSERT_EQ(WEXITSTATUS(status), 2);
	close(out);
}

TEST(monitor_can_be_narrowed_and_ends_after_a_count)
{
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct fixture_daemon daemon;
	struct lab_side side;
	int out, status;
	pid_t ctl;

	start(&daemon);
	ctl = ctl_start((const char *const[]){"--json", "monitor", "--kind", "queues-created,session-closed", "--count",
					      "2", NULL}, &out);
	wait_for_monitor();
	lab_side_open(&side, &daemon, &attr);
	lab_side_close(&side);
	ctl_wait_for(out, "session-closed");
	ASSERT_EQ(waitpid(ctl, &status, 0), ctl);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(strstr(ctl_text, "{\"schema_version\":1,\"kind\":\"queues-created\",\"time\":\"2"), ctl_text);
	ASSERT_HAS("}\n{\"schema_version\":1,\"kind\":\"session-closed\"");
	ctl_assert_lacks("session-opened");
	ctl_assert_lacks("queues-destroyed");
	close(out);
	fixture_daemon_stop(&daemon);
}
