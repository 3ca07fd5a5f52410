/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the session: queued while requests wait for their replies, handed out one at a time.
 *
 * The queue is bounded: beyond CLIENT_EVENTS_MAX the newest are dropped, since the first error explains the
 * later ones, and every state they tell of can be asked for. signal_fd is readable exactly while the queue is
 * not empty or the client is dead, so that shmd_client_fd() never misses what another thread's request read.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "libclient/client-private.h"

static const enum shmd_event_kind event_kinds[] = {
	[MSG_EVENT_QP_ERROR] = SHMD_EVENT_QP_ERROR,
	[MSG_EVENT_CQ_ERROR] = SHMD_EVENT_CQ_ERROR,
	[MSG_EVENT_PORT_STATE] = SHMD_EVENT_PORT_STATE,
	[MSG_EVENT_NIC_LOST] = SHMD_EVENT_NIC_LOST,
	[MSG_EVENT_SESSION_END] = SHMD_EVENT_SESSION_END,
};

void event_queue_signal(struct event_queue *queue)
{
	const uint64_t one = 1;

	/* Non-blocking; a full counter is readable all the same. */
	if (write(queue->signal_fd, &one, sizeof(one)) < 0)
		return;
}

void event_queue_push(struct event_queue *queue, const struct msg_event *event)
{
	struct shmd_event *e;

	/* A kind of a later protocol version: nothing this library could say about it. */
	if ((size_t)event->kind >= sizeof(event_kinds) / sizeof(event_kinds[0]) || !event_kinds[event->kind])
		return;
	if (queue->n == CLIENT_EVENTS_MAX)
		return;
	e = &queue->events[(queue->first + queue->n) % CLIENT_EVENTS_MAX];
	e->kind = event_kinds[event->kind];
	e->nic = event->nic;
	e->number = event->number;
	e->detail = event->detail;
	text_copy(e->text, sizeof(e->text), event->text);
	if (!queue->n++)
		event_queue_signal(queue);
}

static bool event_queue_pop(struct event_queue *queue, bool keep_signal, struct shmd_event *ret_event)
{
	uint64_t count;

	if (!queue->n)
		return false;
	*ret_event = queue->events[queue->first];
	queue->first = (queue->first + 1) % CLIENT_EVENTS_MAX;
	/* Emptying a counter that is empty already fails with EAGAIN, which is as good. */
	if (!--queue->n && !keep_signal && read(queue->signal_fd, &count, sizeof(count)) < 0)
		return true;
	return true;
}

/*
 * 0; -EAGAIN when there is none now, or another thread's request had the lock until the deadline; or the dead error,
 * after the last event was taken.
 */
static int event_try_next(struct shmd_client *client, uint64_t deadline, struct shmd_event *ret_event)
{
	int r = client_lock_until(client, deadline);

	if (r < 0)
		return r;
	r = request_drain(client);
	if (event_queue_pop(&client->events, client->dead != 0, ret_event))
		r = 0;
	else if (!r)
		r = -EAGAIN;
	client_unlock(client);
	return r;
}

int shmd_event_next(struct shmd_client *client, uint64_t timeout_nsec, struct shmd_event *ret_event)
{
	uint64_t deadline;
	int r;

	r = client_check(client);
	if (r < 0)
		return r;
	if (!ret_event)
		return text_fail(-EINVAL, "ret_event is NULL");
	deadline = nsec_add(nsec_now(), timeout_nsec);
	for (;;) {
		r = event_try_next(client, deadline, ret_event);
		if (r != -EAGAIN)
			return r;
		r = wait_fd(client->epoll_fd, POLLIN, deadline);
		if (r == -EAGAIN)
			return text_fail(-EAGAIN, "no event came in time");
		if (r < 0)
			return text_fail(r, "cannot wait for events: %s", strerror(-r));
	}
}

int shmd_client_fd(const struct shmd_client *client)
{
	return client ? client->epoll_fd : -1;
}
