/* SPDX-License-Identifier: Apache-2.0 */
/* The news of the next daemon: late, repeated, or such as no daemon should send. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/client/restart-lab.h"

/* The thread that has the lock reads the news, and may do something else first. */
TEST(news_that_lie_in_the_socket_in_time_count_later)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = SOON_NSEC};
	struct shmd_client *client = open_client(&fake, 0);

	client_lock(client);
	fake.grace_nsec = FOR_EVER;
	fake_crash(&fake);
	fake_come_back(&fake);
	await_noticed(client);
	usleep(3 * SOON_NSEC / NSEC_PER_USEC);
	ASSERT_EQ(health_of(client), SHMD_HEALTH_OK);
	client_unlock(client);
	await_restarts(client, 1);
	assert_alive(client, 1);
	ASSERT_EQ(ask(client), 1);
	shmd_client_close(client);
	fake_join(&fake);
}

static void send_news(struct fake_daemon *fake, uint32_t index, const int *fds, unsigned int n_fds)
{
	struct msg msg;

	msg_init(&msg, MSG_RESUMED_EVENT, 0);
	msg.resumed_event.watch_fd = index;
	msg.resumed_event.restart_grace_nsec = FOR_EVER;
	fake_send(fake, &msg, fds, n_fds);
}

static void ignore(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
}

static void expect_news_refused(uint64_t grace_nsec, uint32_t index, const int *fds, unsigned int n_fds, const char *why)
{
	struct fake_daemon fake = {.handle = ignore, .grace_nsec = grace_nsec};
	struct shmd_client *client = open_client(&fake, 0);

	send_news(&fake, index, fds, n_fds);
	assert_dead(client, EPROTO, why);
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(news_without_a_proper_socket_end_the_client)
{
	const char *why = "without a socket to watch";
	int memfd = fake_memfd(4096), pair[2], pipefds[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	ASSERT_OK(pipe2(pipefds, O_CLOEXEC));
	expect_news_refused(FOR_EVER, 0, NULL, 0, why);
	expect_news_refused(FOR_EVER, 1, pair, 1, why);
	expect_news_refused(FOR_EVER, UINT32_MAX, pair, 1, why);
	expect_news_refused(FOR_EVER, 0, &memfd, 1, why);
	expect_news_refused(FOR_EVER, 0, pipefds, 1, why);
	expect_news_refused(0, 0, pair, 1, "to a client that watches for none");
	close(memfd);
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(pipefds[i]);
	}
}

/* It read nothing of its own death: the connection stays until the grace is over, then it is closed. */
TEST(bad_news_while_it_is_away_end_the_client_at_once)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	fake_crash(&fake);
	await_noticed(client);
	send_news(&fake, 0, NULL, 0);
	await_gone(client);
	assert_dead(client, EPROTO, "without a socket to watch");
	shmd_client_close(client);
	fake_stop(&fake);
}

TEST(news_of_no_death_change_little)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = FOR_EVER};
	struct shmd_client *client = open_client(&fake, 0);

	for (unsigned int i = 0; i < 2 * CLIENT_EVENTS_MAX; i++)
		fake_come_back(&fake);
	ASSERT_EQ(ask(client), 1);
	assert_alive(client, 2 * CLIENT_EVENTS_MAX);
	/* The last one is the one that counts. */
	fake_crash(&fake);
	await_noticed(client);
	fake_come_back(&fake);
	await_restarts(client, 2 * CLIENT_EVENTS_MAX + 1);
	shmd_client_close(client);
	fake_join(&fake);
}

/* It dies again and again before it has said anything: one grace for all. */
TEST(next_daemon_that_dies_silently_gives_no_new_time)
{
	struct saved saved = {};
	struct fake_daemon fake = {.handle = handle, .arg = &saved, .grace_nsec = SOON_NSEC};
	struct shmd_client *client = open_client(&fake, 0);
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	fake_crash(&fake);
	/* Earlier reports carry no news. */
	while (health_of(client) == SHMD_HEALTH_OK && nsec_now() < end) {
		fake_send_event(&fake, MSG_EVENT_PORT_STATE, 2, "of a daemon that dies");
		usleep(2000);
	}
	await_gone(client);
	shmd_client_close(client);
	fake_stop(&fake);
}
