/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output queue of one client.
 *
 * Packets leave in the order they were given. A packet that would block is copied and its descriptors are
 * duplicated, so callers forget theirs at once. Bounded in packets, bytes and descriptors: a client that never
 * reads cannot make the daemon hold more. Has no loop; the owner watches the socket and calls connection_wants_write().
 * Control thread.
 */
#include "daemon/session/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/porter/held.h"
#include "daemon/porter/porter.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

struct connection_packet {
	struct list link;
	struct fdlist fds; /* owned */
	size_t bytes;
	uint8_t data[];
};

static struct connection_packet *packet_free(struct connection_packet *packet)
{
	if (!packet)
		return NULL;
	list_del(&packet->link);
	fdlist_deinit(&packet->fds);
	free(packet);
	return NULL;
}
DEFINE_CLEANUP(struct connection_packet *, packet_free);

static int packet_new(const void *buf, size_t bytes, const struct fdlist *fds, struct connection_packet **ret)
{
	/* bounded: an encoded packet. */
	_cleanup_(packet_freep) struct connection_packet *packet = malloc(sizeof(*packet) + bytes);
	int r;

	if (!packet)
		return -ENOMEM;
	list_init(&packet->link);
	fdlist_init(&packet->fds);
	packet->fds.close = held_close;
	packet->bytes = bytes;
	memcpy(packet->data, buf, bytes);
	for (unsigned int i = 0; fds && i < fds->n; i++) {
		int fd = held_dup(fds->fds[i]);

		r = fd < 0 ? fd : fdlist_add(&packet->fds, fd);
		if (r < 0) {
			held_close(fd);
			return r;
		}
	}
	*ret = take_ptr(packet);
	return 0;
}

void connection_init(struct connection *conn, int fd)
{
	*conn = (struct connection){.fd = fd};
	list_init(&conn->out);
}

static void drop_first(struct connection *conn, struct connection_packet *packet)
{
	conn->n_out--;
	conn->out_bytes -= packet->bytes;
	conn->n_out_fds -= packet->fds.n;
	packet_free(packet);
}

void connection_deinit(struct connection *conn, struct quota_charge *place)
{
	struct connection_packet *packet, *tmp;

	list_for_each_entry_safe(packet, tmp, &conn->out, link)
		drop_first(conn, packet);
	if (conn->inflight)
		inflight_end(conn->inflight, conn->slot, place);
	else if (conn->slot)
		porter_slot_end(conn->slot, conn->fd);
	else
		framing_close(conn->fd);
	conn->inflight = NULL;
	conn->slot = NULL;
	conn->fd = -1;
}

static bool is_held(struct connection *conn)
{
	bool held = conn->is_held && conn->is_held(conn->held_arg);

	conn->is_released &= held;
	return held && !conn->is_released;
}

/*
 * Unread descriptors of others fill the kernel's limit for one sender: this client cannot help it. Its own
 * user's share is less than that.
 */
static int send_now(struct connection *conn, const void *buf, size_t bytes, const struct fdlist *fds)
{
	unsigned int n_fds = fds ? fds->n : 0;
	int r = -ETOOMANYREFS;

	conn->stalled = is_held(conn);
	if (conn->stalled)
		return -EAGAIN;
	/* Descriptors that were read are known to be only as long as nothing else is unread. */
	if (conn->inflight)
		inflight_count(conn->inflight);
	if (n_fds == 0 || inflight_may_send(conn->inflight, n_fds))
		r = framing_send(conn->fd, buf, bytes, n_fds ? fds->fds : NULL, n_fds);
	if (r == 0 && n_fds > 0)
		inflight_sent(conn->inflight, n_fds);
	conn->stalled = r == -ETOOMANYREFS;
	return conn->stalled ? -EAGAIN : r;
}

static bool queue_full(const struct connection *conn, size_t bytes)
{
	return conn->n_out >= CONNECTION_MAX_PACKETS || conn->out_bytes + bytes > CONNECTION_MAX_BYTES;
}

/* Descriptors that wait, descriptors sent and not read, and n more. */
static bool too_many_fds(struct connection *conn, unsigned int n)
{
	return n > 0 && conn->n_out_fds + inflight_count(conn->inflight) + n > CONNECTION_MAX_FDS;
}

int connection_send(struct connection *conn, const void *buf, size_t bytes, const struct fdlist *fds)
{
	struct connection_packet *packet = NULL;
	int r;

	if (too_many_fds(conn, fds ? fds->n : 0))
		return -ENOBUFS;
	r = list_empty(&conn->out) ? send_now(conn, buf, bytes, fds) : -EAGAIN;
	if (r == -EAGAIN && queue_full(conn, bytes)) {
		connection_release(conn);
		r = list_empty(&conn->out) ? send_now(conn, buf, bytes, fds) : -EAGAIN;
	}
	if (r != -EAGAIN)
		return r;
	if (queue_full(conn, bytes))
		return -ENOBUFS;
	r = packet_new(buf, bytes, fds, &packet);
	if (r < 0)
		return r;
	list_add_tail(&conn->out, &packet->link);
	conn->n_out++;
	conn->n_out_fds += packet->fds.n;
	conn->out_bytes += bytes;
	return 0;
}

int connection_flush(struct connection *conn)
{
	struct connection_packet *packet, *tmp;

	list_for_each_entry_safe(packet, tmp, &conn->out, link) {
		int r = send_now(conn, packet->data, packet->bytes, &packet->fds);

		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			return r;
		drop_first(conn, packet);
	}
	return 0;
}

/* The next call that sends reports errors. */
void connection_release(struct connection *conn)
{
	if (!conn->is_held)
		return;
	conn->is_released = true;
	connection_flush(conn);
}

bool connection_wants_write(const struct connection *conn)
{
	return !list_empty(&conn->out) && !conn->stalled;
}

bool connection_stalled(const struct connection *conn)
{
	return !list_empty(&conn->out) && conn->stalled;
}

/*
 * With a slot this thread reads plain packets alone. Without one nobody can send any others where there are porters: then, too,
 * one more look costs less than a mistake.
 */
int connection_recv(struct connection *conn, bool has_porters, void *buf, size_t size, size_t *ret_bytes,
		    struct fdlist *fds)
{
	int r;

	if (!has_porters)
		return framing_recv(conn->fd, buf, size, ret_bytes, fds);
	r = framing_recv_plain(conn->fd, buf, size, ret_bytes);
	return r == FRAMING_HAS_FDS && !conn->slot ? -EPROTO : r;
}
