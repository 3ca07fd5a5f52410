/* SPDX-License-Identifier: Apache-2.0 */
/* The event queue: order, bound, and the descriptor that signals it. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "libclient/objects.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

static unsigned int n_events;

/* Sends n_events before the answer. */
static void answer_after_events(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	for (unsigned int i = 0; i < n_events; i++)
		fake_send_event(fake, MSG_EVENT_QP_ERROR, i, "the QP failed");
	msg_init(&rep, MSG_COUNTERS_REP, req->id);
	fake_send(fake, &rep, NULL, 0);
}

static bool is_readable(struct shmd_client *client)
{
	struct pollfd pfd = {.fd = shmd_client_fd(client), .events = POLLIN};

	return poll(&pfd, 1, 0) == 1;
}

static void open_with(struct fake_daemon *fake, struct shmd_client **ret_client)
{
	fake->handle = answer_after_events;
	ASSERT_OK(fake_open(fake, NULL, ret_client));
}

TEST(events_come_in_order_and_end_with_eagain)
{
	struct fake_daemon fake = {0};
	struct shmd_counters counters;
	struct shmd_client *client;
	struct shmd_event event;

	n_events = 3;
	open_with(&fake, &client);
	ASSERT(!is_readable(client));
	ASSERT_ERR(shmd_event_next(client, 0, &event), EAGAIN);
	ASSERT_OK(shmd_client_counters(client, &counters));
	ASSERT(is_readable(client));
	for (unsigned int i = 0; i < 3; i++) {
		ASSERT_OK(shmd_event_next(client, 0, &event));
		ASSERT_EQ(event.kind, SHMD_EVENT_QP_ERROR);
		ASSERT_EQ(event.number, i);
		ASSERT_STREQ(event.text, "the QP failed");
	}
	ASSERT_ERR(shmd_event_next(client, 0, &event), EAGAIN);
	ASSERT(!is_readable(client));
	shmd_client_close(client);
	fake_join(&fake);
}

TEST(queue_is_bounded_and_keeps_the_first)
{
	struct fake_daemon fake = {0};
	struct shmd_counters counters;
	struct shmd_client *client;
	struct shmd_event event;

	n_events = CLIENT_EVENTS_MAX + 20;
	open_with(&fake, &client);
	ASSERT_OK(shmd_client_counters(client, &counters));
	for (unsigned int i = 0; i < CLIENT_EVENTS_MAX; i++) {
		ASSERT_OK(shmd_event_next(client, 0, &event));
		ASSERT_EQ(event.number, i);
	}
	ASSERT_ERR(shmd_event_next(client, 0, &event), EAGAIN);
	/* The ring goes on behind its end. */
	n_events = 5;
	ASSERT_OK(shmd_client_counters(client, &counters));
	ASSERT_OK(shmd_event_next(client, 0, &event));
	ASSERT_EQ(event.number, 0);
	shmd_client_close(client);
	fake_join(&fake);
}

static void *send_later(void *arg)
{
	usleep(50000);
	fake_send_event(arg, MSG_EVENT_PORT_STATE, 2, "up");
	return NULL;
}

TEST(waiting_ends_with_the_event_or_the_time_limit)
{
	struct fake_daemon fake = {0};
	struct shmd_client *client;
	struct shmd_event event;
	pthread_t thread;
	uint64_t start;

	open_with(&fake, &client);
	start = nsec_now();
	ASSERT_ERR(shmd_event_next(client, 30 * NSEC_PER_MSEC, &event), EAGAIN);
	ASSERT_GE(nsec_now() - start, 30 * NSEC_PER_MSEC);
	ASSERT_OK(pthread_create(&thread, NULL, send_later, &fake));
	ASSERT_OK(shmd_event_next(client, 10 * NSEC_PER_SEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_PORT_STATE);
	ASSERT_OK(pthread_join(thread, NULL));
	shmd_client_close(client);
	fake_join(&fake);
}
