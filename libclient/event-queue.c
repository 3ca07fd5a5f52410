/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounded queue of events of a session.
 *
 * Beyond CLIENT_EVENTS_MAX the newest are dropped, since the first error explains the later ones, and every state they report can
 * be asked for. A monitor leaves them in the socket instead, so that the daemon counts the losses; events that a request read
 * meanwhile and had no room for are counted here. signal_fd is readable exactly while the queue is not empty or the client is
 * dead, so that shmd_client_fd() never misses an event that another thread's request read.
 *
 * The caller holds the client's lock.
 */
#include <unistd.h>

#include "libclient/from-msg.h"
#include "libclient/state.h"

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

/* Marks the gap for a monitor, behind the events that came before it. */
static void tell_lost(struct event_queue *queue)
{
	struct msg_event event = {.kind = MSG_EVENT_DROPPED, .number = queue->n_lost};

	if (!queue->is_monitor || !queue->n_lost || queue->n)
		return;
	text_copy(event.text, sizeof(event.text), "events were lost while a request was under way");
	queue->n_lost = 0;
	event_queue_push(queue, &event);
}

bool event_queue_pop(struct event_queue *queue, bool keep_signal, struct event_entry *ret_entry)
{
	uint64_t count;

	if (!queue->n)
		return false;
	*ret_entry = queue->entries[queue->first];
	queue->first = (queue->first + 1) % CLIENT_EVENTS_MAX;
	/* Reading an empty counter fails with EAGAIN, which does no harm. */
	if (!--queue->n && !keep_signal && read(queue->signal_fd, &count, sizeof(count)) < 0)
		return true;
	tell_lost(queue);
	return true;
}
