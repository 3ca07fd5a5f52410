/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for events of the session: they are queued while requests wait for their replies, and handed out one at a time. */
#include <poll.h>
#include <string.h>

#include "libclient/request.h"

/*
 * 0; -EAGAIN if there is none now, or another thread's request holds the lock until the deadline; or the dead error,
 * after the last event is taken.
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

	r = client_check_out(client, ret_event, "ret_event");
	if (r < 0)
		return r;
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
