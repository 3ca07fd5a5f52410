/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions of the protocol that do not exist yet. Here the library, and what the raw client sends, are of a version to
 * come; SHMEMD_NEXT is a daemon of it. Old and new with a version in common are covered by
 * the tests of the library and of shmemctl, run across versions (meson.build).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#include "proto/framing.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

static uint32_t versions_agree_on(const char *path, uint32_t min, uint32_t max)
{
	struct raw_client raw;
	struct msg req, rep;
	uint32_t version;

	raw_connect(&raw, path);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = min, .version_max = max, .role = MSG_ROLE_CONTROL};
	raw_ask(&raw, &req, NULL, 0, &rep);
	version = rep.kind == MSG_HELLO_REP ? rep.hello_rep.version : 0;
	if (!version) {
		ASSERT_EQ(rep.kind, MSG_ERROR_REP);
		ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_VERSION);
	}
	raw_close(&raw);
	return version;
}

/* Without this the other tests would show nothing. */
static unsigned int count_news(const uint8_t *buf, size_t bytes)
{
	const uint8_t *at = buf, *end = buf + bytes;
	unsigned int n = 0;

	while ((at = memmem(at, (size_t)(end - at), "newer", 5)) && ++n)
		at += 5;
	return n;
}

TEST(messages_of_the_next_version_have_unknown_fields)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct fdlist fds;
	size_t bytes;
	struct msg req;
	int r;

	/* Envelope and body. */
	msg_init(&req, MSG_HELLO_REQ, 1);
	req.hello_req = (struct msg_hello_req){.version_min = 2, .version_max = 2, .role = MSG_ROLE_CLIENT};
	r = msg_encode(&req, buf, sizeof(buf));
	ASSERT_GT(r, 0);
	ASSERT_EQ(count_news(buf, (size_t)r), 2);
	/* Envelope, body and the limits in it. */
	setenv("SHMEMD_BINARY", SHMEMD_NEXT, 1);
	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_send(&raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(framing_recv(raw.sock, buf, sizeof(buf), &bytes, &fds));
	ASSERT_EQ(count_news(buf, bytes), 3);
	fdlist_deinit(&fds);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(highest_common_version_is_taken)
{
	struct fixture_daemon now, next;

	fixture_daemon_start(&now, NULL);
	ASSERT_EQ(versions_agree_on(now.socket, 1, 1), 1);
	ASSERT_EQ(versions_agree_on(now.socket, 1, 7), 1);
	ASSERT_EQ(versions_agree_on(now.socket, 0, UINT32_MAX), 1);
	ASSERT_EQ(versions_agree_on(now.socket, 2, 3), 0);
	ASSERT_EQ(versions_agree_on(now.socket, 0, 0), 0);
	setenv("SHMEMD_BINARY", SHMEMD_NEXT, 1);
	fixture_daemon_start(&next, NULL);
	ASSERT_EQ(versions_agree_on(next.socket, 1, 1), 0);
	ASSERT_EQ(versions_agree_on(next.socket, 1, 2), 2);
	ASSERT_EQ(versions_agree_on(next.socket, 2, 9), 3);
	ASSERT_EQ(versions_agree_on(next.socket, 4, 9), 0);
	fixture_daemon_stop(&next);
	fixture_daemon_stop(&now);
}

TEST(range_that_is_none_is_refused)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 2, .version_max = 1, .role = MSG_ROLE_CLIENT};
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	raw_expect_end(&raw, SHMD_STATUS_INVALID);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

TEST(library_too_new_for_the_daemon_says_upgrade_shmemd)
{
	struct shmd_client *client = NULL;
	struct fixture_daemon daemon;
	struct shmd_client_attr attr = {.socket_path = daemon.socket};

	fixture_daemon_start(&daemon, NULL);
	ASSERT_ERR(shmd_client_open(&attr, &client), EPROTONOSUPPORT);
	ASSERT_STREQ(shmd_error_text(), "client and daemon speak no common protocol version: the daemon speaks protocol "
					"versions 1 to 1, the client 2 to 3; upgrade shmemd on this node");
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

/* shmemctl is linked with the library of this version. */
TEST(library_too_old_for_the_daemon_says_upgrade_the_library)
{
	struct fixture_daemon daemon;
	char command[512], text[1024];
	size_t n;
	FILE *f;

	setenv("SHMEMD_BINARY", SHMEMD_NEXT, 1);
	fixture_daemon_start(&daemon, NULL);
	snprintf(command, sizeof(command), "SHMEMD_SOCKET=%s %s status 2>&1", daemon.socket, SHMEMCTL);
	f = popen(command, "r");
	ASSERT(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	ASSERT_NE(pclose(f), 0);
	if (!strstr(text, "the daemon speaks protocol versions 2 to 3, the client 1 to 1; upgrade the client's library "
			  "(libshmemclient)"))
		test_fail(TEST_WHERE, "shmemctl said: %s", text);
	fixture_daemon_stop(&daemon);
}

TEST(libraries_and_daemons_of_the_next_version_work_together)
{
	struct shmd_client *client = NULL;
	struct fixture_daemon daemon;
	struct shmd_client_attr attr = {.socket_path = daemon.socket};
	struct shmd_nic *nic = NULL;

	setenv("SHMEMD_BINARY", SHMEMD_NEXT, 1);
	fixture_daemon_start(&daemon, NULL);
	ASSERT_OK(shmd_client_open(&attr, &client));
	ASSERT_OK(shmd_nic_open(client, NULL, &nic));
	shmd_client_close(client);
	fixture_daemon_stop(&daemon);
}

/* An envelope with the id, and a body of a number that is in no table. */
static size_t unknown_request(uint8_t *buf, uint8_t id, uint8_t n_fds, uint8_t body_bytes)
{
	size_t n = 0;

	buf[n++] = 0x08; /* id */
	buf[n++] = id;
	buf[n++] = 0x10; /* n_fds */
	buf[n++] = n_fds;
	buf[n++] = 0xe2; /* field 1500, length-delimited */
	buf[n++] = 0x5d;
	buf[n++] = body_bytes;
	memset(buf + n, 0x5a, body_bytes);
	return n + body_bytes;
}

TEST(unknown_request_is_refused_and_the_session_lives)
{
	struct fixture_daemon daemon;
	struct msg_status_rep status;
	struct raw_client raw;
	uint8_t buf[256];
	struct msg rep;
	int fd = raw_memfd(4096);

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	for (unsigned int i = 0; i < 100; i++) {
		bool with_fd = i % 2;
		size_t bytes = unknown_request(buf, (uint8_t)(i + 1), with_fd, (uint8_t)i);

		raw_send_bytes(&raw, buf, bytes, &fd, with_fd);
		ASSERT_OK(raw_recv(&raw, &rep, NULL));
		ASSERT_EQ(rep.kind, MSG_ERROR_REP);
		ASSERT_EQ(rep.id, i + 1);
		ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_UNKNOWN_REQUEST);
	}
	raw_create_queues(&raw, 1, &rep);
	msg_deinit(&rep);
	raw_status(&raw, &status);
	ASSERT_EQ(status.n_sessions, 1);
	ASSERT_EQ(status.n_qps, 1);
	raw_close(&raw);
	close(fd);
	fixture_daemon_stop(&daemon);
}

TEST(unknown_request_before_hello_ends_the_connection)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	uint8_t buf[256];
	size_t bytes;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	bytes = unknown_request(buf, 1, 0, 4);
	raw_send_bytes(&raw, buf, bytes, NULL, 0);
	raw_expect_end(&raw, SHMD_STATUS_PROTOCOL);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}
