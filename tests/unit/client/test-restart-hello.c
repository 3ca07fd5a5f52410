/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that dies, or goes wrong, while a client opens a session. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/unit/client/restart-lab.h"

static void open_through_deaths(unsigned int n)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER, .n_hello_deaths = n};
	struct shmd_client *client = open_client(&fake, 0);
	struct shmd_event event;

	ASSERT_EQ(fake.n_hellos, n + 1);
	/* There was no session yet that could have been taken over. */
	ASSERT_ERR(shmd_event_next(client, 0, &event), EAGAIN);
	assert_alive(client, 0);
	ASSERT_EQ(ask(client), 1);
	fake_crash(&fake);
	fake_come_back(&fake);
	await_restarts(client, 1);
	assert_alive(client, 1);
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(hello_is_said_again_to_the_next_daemon)
{
	open_through_deaths(1);
	open_through_deaths(3);
}

/* A socket that clients find, and daemons behind it of which the first so many die without a word. */
struct listener {
	char folder[64], path[96];
	int sock;
	unsigned int n_deaths;
	bool leaves; /* the first takes the socket with it */
	struct fake_daemon fake;
	pthread_t thread;
};

/* Before it reads Hello, and after. */
static void die_silently(const struct listener *listener, int sock, bool reads)
{
	char byte;

	if (reads)
		ASSERT_EQ(recv(sock, &byte, 1, 0), 1);
	if (listener->leaves)
		ASSERT_OK(unlink(listener->path));
	close(sock);
}

static void *listen_and_die(void *arg)
{
	struct listener *listener = arg;

	for (unsigned int i = 0;; i++) {
		int sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC);

		if (sock < 0)
			return NULL;
		if (i >= listener->n_deaths) {
			fake_serve(&listener->fake, sock);
			return NULL;
		}
		die_silently(listener, sock, i % 2);
	}
}

static void listener_start(struct listener *listener)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *tmp = getenv("TMPDIR");

	snprintf(listener->folder, sizeof(listener->folder), "%s/shmemd-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	ASSERT(mkdtemp(listener->folder));
	snprintf(listener->path, sizeof(listener->path), "%s/sock", listener->folder);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", listener->path);
	listener->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ASSERT_GE(listener->sock, 0);
	ASSERT_OK(bind(listener->sock, (struct sockaddr *)&addr, sizeof(addr)));
	ASSERT_OK(listen(listener->sock, 8));
	ASSERT_OK(pthread_create(&listener->thread, NULL, listen_and_die, listener));
}

static void listener_stop(struct listener *listener)
{
	ASSERT_OK(shutdown(listener->sock, SHUT_RDWR));
	ASSERT_OK(pthread_join(listener->thread, NULL));
	close(listener->sock);
	if (!listener->leaves)
		ASSERT_OK(unlink(listener->path));
	ASSERT_OK(rmdir(listener->folder));
}

TEST(client_without_a_session_connects_anew_to_the_next_daemon)
{
	struct saved saved = {};
	struct listener listener = {.n_deaths = 4, .fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER}};
	const struct shmd_client_attr attr = {.socket_path = listener.path, .timeout_nsec = FOR_EVER};
	struct shmd_client *client;

	listener_start(&listener);
	ASSERT_OK(shmd_client_open(&attr, &client));
	ASSERT_EQ(client->timeout_nsec, FOR_EVER);
	ASSERT_EQ(ask(client), 1);
	assert_alive(client, 0);
	shmd_client_close(client);
	fake_join(&listener.fake);
	listener_stop(&listener);
}

static void stop_at_hello(struct fake_daemon *fake)
{
	struct msg msg;

	msg_init(&msg, MSG_EVENT, 0);
	msg.event.kind = MSG_EVENT_SESSION_END;
	msg.event.detail = SHMD_STATUS_SHUTDOWN;
	fake_send(fake, &msg, NULL, 0);
}

/* A client that opens a session by a path connects anew then. */
TEST(daemon_that_stops_before_it_has_answered_hello_has_hung_up)
{
	struct fake_daemon fake = {.in_hello = stop_at_hello, .n_hello_deaths = 1};
	struct shmd_client *client;

	ASSERT_ERR(fake_open(&fake, NULL, &client), ECONNRESET);
	ASSERT_STREQ(shmd_error_text(), "shmemd stopped before it had opened the session");
	fake_stop(&fake);
}

/* The socket is gone. */
TEST(client_that_cannot_connect_anew_says_so)
{
	struct listener listener = {.n_deaths = 1, .leaves = true};
	const struct shmd_client_attr attr = {.socket_path = listener.path, .timeout_nsec = FOR_EVER};
	struct shmd_client *client;

	listener_start(&listener);
	ASSERT_ERR(shmd_client_open(&attr, &client), ENOENT);
	listener_stop(&listener);
}

TEST(client_connects_anew_no_longer_than_a_request_may_take)
{
	struct listener listener = {.n_deaths = 1000};
	const struct shmd_client_attr attr = {.socket_path = listener.path, .timeout_nsec = 2 * SOON_NSEC};
	uint64_t begin = nsec_now();
	struct shmd_client *client;
	int r;

	listener_start(&listener);
	r = shmd_client_open(&attr, &client);
	ASSERT(r == -ECONNRESET || r == -ETIMEDOUT);
	ASSERT_LT(nsec_now() - begin, PATIENCE_NSEC);
	listener_stop(&listener);
}

static void expect_hello_refused(int watch_fd, uint32_t index, const char *why)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER, .hello_watch_fd = watch_fd,
				   .hello_watch_index = index};
	struct shmd_client *client;

	ASSERT_ERR(fake_open(&fake, NULL, &client), EPROTO);
	if (!strstr(shmd_error_text(), why))
		ASSERT_STREQ(shmd_error_text(), why);
	fake_stop(&fake);
}

TEST(hello_with_something_else_to_watch_is_refused)
{
	int memfd = fake_memfd(4096), pair[2], pipefds[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	ASSERT_OK(pipe2(pipefds, O_CLOEXEC));
	expect_hello_refused(memfd, 0, "not a socket");
	expect_hello_refused(pipefds[0], 0, "not a socket");
	expect_hello_refused(pair[0], 1, "lacks descriptor 0");
	expect_hello_refused(pair[0], 9, "lacks descriptor 8");
	close(memfd);
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(pipefds[i]);
	}
}
