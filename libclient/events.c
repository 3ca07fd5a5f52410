/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the session: queued while requests wait for their replies, handed out one at a time.
 *
 * The queue is bounded: beyond CLIENT_EVENTS_MAX the newest are dropped, since the first error explains the
 * later ones, and every state they tell of can be asked for. A monitor leaves them in the socket instead, so that
 * the daemon counts what it loses; what a request read meanwhile and had no room for is counted here. signal_fd
 * is readable exactly while the queue is not empty or the client is dead, so that shmd_client_fd() never misses
 * what another thread's request read.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "libclient/client-private.h"
#include "libclient/from-msg.h"

void event_queue_signal(struct event_queue *queue)
{
	const uint64_t one = 1;

	/* Non-blocking; a full counter is readable all the same. */
	if (write(queue->signal_fd, &one, sizeof(one)) < 0)
		return;
}

bool event_queue_is_full(const struct event_queue *queue)
{
	return queue->is_monitor && queue->n == CLIENT_EVENTS_MAX;
}

static void push(struct event_queue *queue, const struct event_entry *entry)
{
	if (queue->n == CLIENT_EVENTS_MAX) {
		queue->n_lost += queue->n_lost < UINT32_MAX;
		return;
	}
	queue->entries[(queue->first + queue->n) % CLIENT_EVENTS_MAX] = *entry;
	if (!queue->n++)
		event_queue_signal(queue);
}

void event_queue_push(struct event_queue *queue, const struct msg_event *event)
{
	struct event_entry entry = {.nic = event->nic};

	if (event_from_msg(event, &entry.event))
		push(queue, &entry);
}

void event_queue_push_resumed(struct event_queue *queue, uint32_t n_restarts, const char *text)
{
	struct event_entry entry = {.event = {.kind = SHMD_EVENT_DAEMON_RESUMED, .number = n_restarts}};

	text_copy(entry.event.text, sizeof(entry.event.text), text);
	push(queue, &entry);
}

/* A monitor is told where events are missing: behind those that came before. */
static void tell_lost(struct event_queue *queue)
{
	struct msg_event event = {.kind = MSG_EVENT_DROPPED, .number = queue->n_lost};

	if (!queue->is_monitor || !queue->n_lost || queue->n)
		return;
	text_copy(event.text, sizeof(event.text), "events were lost while a request was under way");
	queue->n_lost = 0;
	event_queue_push(queue, &event);
}

static bool event_queue_pop(struct event_queue *queue, bool keep_signal, struct event_entry *ret_entry)
{
	uint64_t count;

	if (!queue->n)
		return false;
	*ret_entry = queue->entries[queue->first];
	queue->first = (queue->first + 1) % CLIENT_EVENTS_MAX;
	/* Emptying a counter that is empty already fails with EAGAIN, which is as good. */
	if (!--queue->n && !keep_signal && read(queue->signal_fd, &count, sizeof(count)) < 0)
		return true;
	tell_lost(queue);
	return true;
}

/*
 * 0; -EAGAIN when there is none now, or another thread's request had the lock until the deadline; or the dead error,
 * after the last event was taken.
 */
static int event_try_next(struct shmd_client *client, uint64_t deadline, struct event_entry *ret_entry)
{
	int r = client_lock_until(client, deadline);

	if (r < 0)
		return r;
	r = request_drain(client);
	if (event_queue_pop(&client->events, client->dead != 0, ret_entry))
		r = 0;
	else if (!r)
		r = -EAGAIN;
	client_unlock(client);
	return r;
}

int event_next(struct shmd_client *client, uint64_t timeout_nsec, struct event_entry *ret_entry)
{
	uint64_t deadline = nsec_add(nsec_now(), timeout_nsec);
	int r;

	for (;;) {
		r = event_try_next(client, deadline, ret_entry);
		if (r != -EAGAIN)
			return r;
		r = wait_fd(client->epoll_fd, POLLIN, deadline);
		if (r == -EAGAIN)
			return text_fail(-EAGAIN, "no event came in time");
		if (r < 0)
			return text_fail(r, "cannot wait for events: %s", strerror(-r));
	}
}

int shmd_event_next(struct shmd_client *client, uint64_t timeout_nsec, struct shmd_event *ret_event)
{
	struct event_entry entry;
	int r;

	r = client_check(client);
	if (r < 0)
		return r;
	if (!ret_event)
		return text_fail(-EINVAL, "ret_event is NULL");
	r = event_next(client, timeout_nsec, &entry);
	if (r < 0)
		return r;
	*ret_event = (struct shmd_event){
		.kind = entry.event.kind,
		.nic = entry.nic,
		.number = entry.event.number,
		.detail = entry.event.detail,
	};
	text_copy(ret_event->text, sizeof(ret_event->text), entry.event.text);
	return 0;
}

int shmd_client_fd(const struct shmd_client *client)
{
	return client ? client->epoll_fd : -1;
}
