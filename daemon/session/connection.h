/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of one client: packets out in order, also when the client is slow to read them. */
#ifndef SHMEMD_SESSION_CONNECTION_H
#define SHMEMD_SESSION_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/session/inflight-fds.h"
#include "proto/base/fdlist.h"
#include "proto/base/list.h"

/*
 * Limits of output that waits for a client that does not read; beyond them its session ends. Descriptors count until they are read,
 * also those in the socket: the kernel bounds how many one sender may have on their way, and that is shared by all.
 */
#define CONNECTION_MAX_PACKETS 64u
#define CONNECTION_MAX_BYTES (1u << 20)
#define CONNECTION_MAX_FDS 64u

struct porter_slot;

struct connection {
	int fd; /* owned */
	struct porter_slot *slot; /* owned; NULL: the client cannot send descriptors, or, without porters, this thread reads them */
	struct list out; /* struct connection_packet, oldest first */
	unsigned int n_out;
	struct inflight_fds *inflight; /* owned: the descriptors that were sent; NULL: none can be */
	unsigned int n_out_fds; /* of those that wait */
	size_t out_bytes;
	bool (*is_held)(void *arg); /* nothing may be sent yet; or NULL */
	void *held_arg;
	bool is_released; /* whatever that says, until it says no */
	bool stalled; /* so it is, or too many descriptors of this user or, the kernel says, of this daemon are on their way: try again soon */
};

void connection_init(struct connection *conn, int fd); /* takes fd */
/* Drops what waits; may be called twice. *place is taken where descriptors are unread: inflight_end. */
void connection_deinit(struct connection *conn, struct quota_charge *place);

/* Send now or later. The descriptors stay the caller's. -ENOBUFS: too much waits; or the socket's error. */
int connection_send(struct connection *conn, const void *buf, size_t bytes, const struct fdlist *fds);
/* Packets that are held go out now, and those behind them. Beyond its limits a connection releases itself. */
void connection_release(struct connection *conn);
int connection_flush(struct connection *conn); /* 0, also when some still waits; or the socket's error */
bool connection_wants_write(const struct connection *conn); /* when the socket has room */
/* Something waits that the socket has room for, but descriptors cannot be sent now: flush after a while. */
bool connection_stalled(const struct connection *conn);
/* As framing_recv; with porters as framing_recv_plain. */
int connection_recv(struct connection *conn, bool has_porters, void *buf, size_t size, size_t *ret_bytes,
		    struct fdlist *fds);

#endif
