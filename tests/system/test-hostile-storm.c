/* SPDX-License-Identifier: Apache-2.0 */
/* Too many connections, too many messages, or none: the daemon serves others, and neither memory nor log grows. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/test.h"
#include "tests/system/hostile-lab.h"

#define PLACES 12 /* connections, in the tests of those that say nothing */

/* A reply may take this long while others do their worst: ten times what was ever seen. */
static uint64_t patience_nsec(void)
{
	return (test_has_sanitizer() ? 10 : 2) * NSEC_PER_SEC;
}

/* ---- slow ones ------------------------------------------------------------------------------------------------ */

static void connect_silently(struct raw_client *raws, const struct fixture_daemon *daemon)
{
	for (int i = 0; i < PLACES; i++)
		raw_connect(&raws[i], daemon->socket);
}

static void expect_closed(struct raw_client *raws)
{
	for (int i = 0; i < PLACES; i++) {
		struct pollfd p = {.fd = raws[i].sock, .events = POLLIN};

		ASSERT_EQ(poll(&p, 1, 10000), 1);
		raw_close(&raws[i]);
	}
}

static bool try_hello(struct raw_client *raw, const struct fixture_daemon *daemon)
{
	struct msg req, rep;

	raw_connect(raw, daemon->socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	if (raw_try(raw, &req, &rep) == 0 && rep.kind == MSG_HELLO_REP)
		return true;
	raw_close(raw);
	return false;
}

/* All places are taken by connections that say nothing. The daemon frees them, and the next client gets one. */
TEST_WAITS(silent_connections_give_their_places_back, 60)
{
	struct raw_client raws[PLACES], late, early;
	struct fixture_daemon daemon;
	unsigned int n_fds;

	fixture_daemon_start(&daemon, "--max-connections=13", "--handshake-timeout=1000", NULL);
	while (!try_hello(&early, &daemon)) /* the fixture's own probe may still be there */
		usleep(10000);
	n_fds = hostile_settled_fds(&daemon);
	for (int round = 0; round < 2; round++) {
		connect_silently(raws, &daemon);
		ASSERT(!try_hello(&late, &daemon));
		ASSERT_LT(hostile_slowest_reply_nsec(&early, 20), patience_nsec());
		expect_closed(raws);
		hostile_expect_fds(&daemon, n_fds);
		ASSERT(try_hello(&late, &daemon));
		raw_close(&late);
		hostile_expect_fds(&daemon, n_fds);
	}
	raw_close(&early);
	fixture_daemon_stop(&daemon);
}

/* A packet now and then, and none of them Hello: each ends its connection at once, long before the time is over. */
TEST(a_trickle_of_packets_does_not_hold_a_place)
{
	static const char packets[][6] = {"\x08\x05", "\x08\x05\xa2\x38\x01x", "\x08\x05\x92\x03"};
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg msg;
	int r;

	fixture_daemon_start(&daemon, "--handshake-timeout=60000", NULL);
	for (unsigned int i = 0; i < 3; i++) {
		raw_connect(&raw, daemon.socket);
		usleep(100000);
		raw_send_bytes(&raw, packets[i], sizeof(packets[i]) - (i == 0 ? 4 : i == 2 ? 2 : 0), NULL, 0);
		do {
			r = raw_recv(&raw, &msg, NULL);
			if (r == 0)
				msg_deinit(&msg);
		} while (r == 0);
		ASSERT_ERR(r, ECONNRESET);
		raw_close(&raw);
	}
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

/* ---- fast ones ------------------------------------------------------------------------------------------------ */

struct flooder {
	const char *path;
	uint64_t n;
	bool stop;
};

static void *connect_and_close(void *arg)
{
	struct flooder *flooder = arg;

	while (!__atomic_load_n(&flooder->stop, __ATOMIC_ACQUIRE)) {
		int sock = framing_connect(flooder->path);

		if (sock >= 0)
			close(sock);
		flooder->n += sock >= 0;
	}
	return NULL;
}

/* Two threads connect and hang up as fast as they can, for a second. */
TEST_TIMEOUT(a_flood_of_connects_leaves_nothing_and_starves_no_client, 60)
{
	struct flooder flooders[2];
	struct fixture_daemon daemon;
	uint64_t begin, slowest = 0, rss, n = 0;
	struct raw_client raw;
	pthread_t threads[2];
	unsigned int n_fds;
	double seconds;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	hostile_slowest_reply_nsec(&raw, 100);
	n_fds = hostile_settled_fds(&daemon);
	rss = hostile_rss_bytes(daemon.pid);
	begin = nsec_now();
	for (int i = 0; i < 2; i++) {
		flooders[i] = (struct flooder){.path = daemon.socket};
		ASSERT_OK(pthread_create(&threads[i], NULL, connect_and_close, &flooders[i]));
	}
	while (nsec_now() - begin < NSEC_PER_SEC) {
		uint64_t took = hostile_slowest_reply_nsec(&raw, 1);

		slowest = took > slowest ? took : slowest;
	}
	seconds = (double)(nsec_now() - begin) / 1e9;
	for (int i = 0; i < 2; i++) {
		__atomic_store_n(&flooders[i].stop, true, __ATOMIC_RELEASE);
		pthread_join(threads[i], NULL);
		n += flooders[i].n;
	}
	hostile_expect_fds(&daemon, n_fds);
	printf("%.0f connects a second; slowest reply to another session meanwhile: %.2f ms; memory grew by %lld KiB\n",
	       (double)n / seconds, (double)slowest / 1e6,
	       (long long)(hostile_rss_bytes(daemon.pid) - rss) / 1024);
	/* 10,000 is the promise; a busy machine makes a tenth of that, and sanitizers less. */
	ASSERT_GT((double)n / seconds, test_has_sanitizer() ? 100 : 1000);
	ASSERT_LT(slowest, patience_nsec());
	/* A sanitizer keeps what was freed. */
	if (!test_has_sanitizer())
		ASSERT_LT((int64_t)(hostile_rss_bytes(daemon.pid) - rss), 4 << 20);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* ---- loud ones ------------------------------------------------------------------------------------------------ */

static unsigned int count_lines(const struct fixture_daemon *daemon)
{
	FILE *f = fopen(daemon->log, "re");
	unsigned int n = 0;
	int c;

	ASSERT(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* A burst of 20, two a second after that, and before each of them at most one that counts what was dropped. */
static unsigned int lines_allowed(uint64_t begin)
{
	return 2 * (20 + 2 * (unsigned int)((nsec_now() - begin) / NSEC_PER_SEC + 1));
}

/* Sessions that end with a line each, thousands of them. */
TEST_TIMEOUT(storms_of_bad_packets_do_not_fill_the_log, 60)
{
	unsigned int n = test_has_sanitizer() ? 500 : 3000, before, lines;
	struct fixture_daemon daemon;
	struct raw_client raw;
	uint64_t begin;
	struct stat st;
	int r;

	fixture_daemon_start(&daemon, NULL);
	before = count_lines(&daemon);
	begin = nsec_now();
	for (unsigned int i = 0; i < n; i++) {
		raw_connect(&raw, daemon.socket);
		framing_send(raw.sock, "\xff\xff\xff", 3, NULL, 0);
		/* The client saw the end of the session, so its line is in the log. */
		r = recv(raw.sock, (char[8]){0}, 8, 0) < 0 ? -errno : 0;
		ASSERT(r == 0 || r == -ECONNRESET);
		raw_close(&raw);
	}
	lines = count_lines(&daemon) - before;
	ASSERT_GE(lines, 20);
	ASSERT_LE(lines, lines_allowed(begin));
	ASSERT_OK(stat(daemon.log, &st));
	ASSERT_LT(st.st_size, 32768);
	printf("%u bad sessions in %.1f s: %u lines\n", n, (double)(nsec_now() - begin) / 1e9, lines);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

/* One session whose every request is refused: only the client hears of refusals. */
TEST(storms_of_refused_requests_write_no_line)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	unsigned int before;
	struct msg req;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	before = count_lines(&daemon);
	for (int i = 0; i < 5000; i++) {
		msg_init(&req, MSG_MEM_DEREG_REQ, 0);
		req.mem_dereg_req.handle = 77;
		raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	}
	ASSERT_EQ(count_lines(&daemon), before);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}
