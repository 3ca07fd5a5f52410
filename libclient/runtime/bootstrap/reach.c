/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/reach.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/own-fds.h"
#include "proto/base/nsec.h"

int reach_begin(struct reach *reach, const union address *to, const char *interface, uint64_t nsec)
{
	int fd = connect_by(to, interface);

	if (fd < 0)
		return fd;
	reach->fd = fd;
	reach->step = REACH_CONNECTS;
	reach->have = 0;
	reach->deadline = nsec_now() + nsec;
	return 0;
}

void reach_end(struct reach *reach)
{
	reach->fd = own_fd_close(reach->fd);
}

struct pollfd reach_poll(const struct reach *reach)
{
	return (struct pollfd){.fd = reach->fd, .events = reach->step == REACH_CONNECTS ? POLLOUT : POLLIN};
}

/* Without a listener at one of its own ports the kernel may connect a socket to itself. */
static bool is_own_end(int fd)
{
	union address local, peer;

	return !address_of_socket(fd, &local) && !address_of_peer(fd, &peer) && !memcmp(&local, &peer, sizeof(local));
}

static int end_connect(struct reach *reach)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (getsockopt(reach->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) || error)
		return error ? -error : -errno;
	if (is_own_end(reach->fd))
		return -ECONNREFUSED;
	socket_tune(reach->fd);
	reach->step = REACH_CHALLENGE;
	return reach->connects_only;
}

/* 1: all `n` bytes are there, 0: not yet. `n` is at most WIRE_REPLY_BYTES. */
static int receive(struct reach *reach, size_t n)
{
	/* `have` is bounded by n */
	ssize_t got = recv(reach->fd, reach->bytes + reach->have, n - reach->have, 0);

	if (!got)
		return -ECONNRESET;
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	reach->have += (size_t)got;
	return reach->have == n;
}

static int answer_challenge(struct reach *reach, const uint8_t *secret)
{
	uint8_t hello[WIRE_HELLO_BYTES];
	int r = receive(reach, WIRE_CHALLENGE_BYTES);

	if (r > 0)
		r = wire_challenge_read(reach->bytes, reach->challenge) ? -EPROTO : 1;
	if (r <= 0)
		return r;
	if (getrandom(reach->hello.nonce, sizeof(reach->hello.nonce), 0) != sizeof(reach->hello.nonce))
		return -EIO;
	wire_hello(&reach->hello, secret, reach->challenge, hello);
	/* These bytes fit in the buffer of a new connection. */
	if (send(reach->fd, hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
		return -ECONNRESET;
	reach->step = REACH_REPLY;
	reach->have = 0;
	return 0;
}

static int read_reply(struct reach *reach, const uint8_t *secret, struct wire_reply *ret)
{
	int r = receive(reach, WIRE_REPLY_BYTES);

	if (r > 0 && wire_reply_read(reach->bytes, secret, reach->challenge, reach->hello.nonce, ret))
		return -EPROTO;
	return r;
}

int reach_turn(struct reach *reach, const uint8_t *secret, const struct pollfd *entry, struct wire_reply *ret)
{
	int r = 0;

	if (entry->revents && reach->step == REACH_CONNECTS)
		r = end_connect(reach);
	else if (entry->revents && reach->step == REACH_CHALLENGE)
		r = answer_challenge(reach, secret);
	else if (entry->revents)
		r = read_reply(reach, secret, ret);
	if (!r && nsec_now() >= reach->deadline)
		r = -ETIMEDOUT;
	if (r < 0)
		reach_end(reach);
	return r;
}
