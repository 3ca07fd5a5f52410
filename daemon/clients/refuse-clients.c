/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers one client after the other. It reads each Hello first, because closing a socket with unread data drops the answer, and
 * closes descriptors that come with it. Control thread, before any other.
 */
#include "daemon/clients/refuse-clients.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/socket.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "proto/status.h"

/* Wait after the last client. systemd allows 50 starts in 10 s (our unit) and 20 in 2 s (the default of sockets). */
#define QUIET_NSEC (500 * NSEC_PER_MSEC)
#define MOST_NSEC (10 * NSEC_PER_SEC)
#define HELLO_NSEC (100 * NSEC_PER_MSEC)

static bool is_readable(int fd, uint64_t nsec)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	return poll(&wait, 1, (int)(nsec / NSEC_PER_MSEC)) > 0;
}

static void answer(int sock, char *packet, const char *text)
{
	struct fdlist fds;
	struct msg msg;
	size_t bytes;
	int n;

	fdlist_init(&fds);
	if (is_readable(sock, HELLO_NSEC))
		framing_recv(sock, packet, FRAMING_MAX_PACKET_BYTES, &bytes, &fds);
	fdlist_deinit(&fds);
	msg_init(&msg, MSG_ERROR_REP, 0);
	msg.error_rep.status = SHMD_STATUS_INTERNAL;
	snprintf(msg.error_rep.text, sizeof(msg.error_rep.text), "%s", text);
	n = msg_encode(&msg, packet, FRAMING_MAX_PACKET_BYTES);
	if (n > 0)
		framing_send(sock, packet, (size_t)n, NULL, 0);
}

void refuse_clients(int listener, const char *text)
{
	_cleanup_free_ char *packet = malloc(FRAMING_MAX_PACKET_BYTES);
	uint64_t end = nsec_add(nsec_now(), MOST_NSEC);

	if (!packet || listener < 0 || fcntl(listener, F_SETFL, O_NONBLOCK) < 0)
		return;
	while (nsec_now() < end && is_readable(listener, QUIET_NSEC)) {
		int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (sock < 0)
			continue;
		answer(sock, packet, text);
		framing_close(sock);
	}
}
