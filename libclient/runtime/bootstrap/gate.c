/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/own-fds.h"
#include "proto/base/nsec.h"

#define VISIT_NSEC (10 * NSEC_PER_SEC)
/* In one turn, so that a flood of connections does not keep the thread from its links. */
#define ACCEPTS_A_TURN 64
/* Without descriptors or memory for a connection the listener stays readable, and the thread would do nothing but look at it. */
#define REST_NSEC (50 * NSEC_PER_MSEC)

struct visitor {
	int fd; /* -1: free */
	uint64_t since;
	uint8_t nonce[WIRE_NONCE_BYTES];
	size_t have;
	uint8_t bytes[WIRE_HELLO_BYTES];
};

struct gate {
	int listener;
	uint64_t rests_until; /* 0, or no connection is accepted before then */
	uint8_t secret[UID_SECRET_BYTES];
	struct visitor visitors[GATE_MOST_VISITORS];
	/* Entry of gate_poll() for each visitor, 0: none. */
	unsigned int entries[GATE_MOST_VISITORS];
};

int gate_new(int listener, const uint8_t secret[UID_SECRET_BYTES], struct gate **ret)
{
	struct gate *gate = calloc(1, sizeof(*gate));

	listener = own_fd_adopt(listener);
	if (!gate || listener < 0) {
		own_fd_close(listener);
		free(gate);
		return -ENOMEM;
	}
	gate->listener = listener;
	memcpy(gate->secret, secret, UID_SECRET_BYTES);
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++)
		gate->visitors[i].fd = -1;
	*ret = gate;
	return 0;
}

void gate_forget(struct gate *gate)
{
	gate->listener = -1;
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++)
		gate->visitors[i].fd = -1;
}

void gate_free(struct gate *gate)
{
	if (!gate)
		return;
	own_fd_close(gate->listener);
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++)
		own_fd_close(gate->visitors[i].fd);
	free(gate);
}

static bool rests(const struct gate *gate, uint64_t now)
{
	return now < gate->rests_until;
}

unsigned int gate_poll(struct gate *gate, struct pollfd *fds)
{
	unsigned int n = 0;

	fds[n++] = (struct pollfd){.fd = rests(gate, nsec_now()) ? -1 : gate->listener, .events = POLLIN};
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++) {
		gate->entries[i] = 0;
		if (gate->visitors[i].fd < 0)
			continue;
		gate->entries[i] = n;
		fds[n++] = (struct pollfd){.fd = gate->visitors[i].fd, .events = POLLIN};
	}
	return n;
}

static int msec_until(uint64_t end, uint64_t now, int most)
{
	uint64_t msec = end <= now ? 0 : (end - now) / NSEC_PER_MSEC + 1;

	return msec < (uint64_t)most ? (int)msec : most;
}

int gate_wait_msec(const struct gate *gate, int most)
{
	uint64_t now = nsec_now();

	if (rests(gate, now))
		most = msec_until(gate->rests_until, now, most);
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++)
		if (gate->visitors[i].fd >= 0)
			most = msec_until(gate->visitors[i].since + VISIT_NSEC, now, most);
	return most;
}

static struct visitor *end_oldest(struct gate *gate)
{
	struct visitor *oldest = &gate->visitors[0];

	for (unsigned int i = 1; i < GATE_MOST_VISITORS; i++) {
		struct visitor *visitor = &gate->visitors[i];

		if (oldest->fd < 0 || (visitor->fd >= 0 && visitor->since < oldest->since))
			oldest = visitor;
	}
	oldest->fd = own_fd_close(oldest->fd);
	return oldest;
}

static struct visitor *room_for_visitor(struct gate *gate)
{
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++)
		if (gate->visitors[i].fd < 0)
			return &gate->visitors[i];
	return end_oldest(gate);
}

static void challenge(struct gate *gate, int fd)
{
	struct visitor *visitor = room_for_visitor(gate);
	uint8_t bytes[WIRE_CHALLENGE_BYTES];

	*visitor = (struct visitor){.fd = fd, .since = nsec_now()};
	if (getrandom(visitor->nonce, sizeof(visitor->nonce), 0) == sizeof(visitor->nonce)) {
		wire_challenge(visitor->nonce, bytes);
		/* These bytes fit in the buffer of a new connection. */
		if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes))
			return;
	}
	visitor->fd = own_fd_close(fd);
}

static void accept_visitors(struct gate *gate)
{
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = own_accept(gate->listener);

		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
			end_oldest(gate);
			gate->rests_until = nsec_now() + REST_NSEC;
		}
		if (fd < 0)
			return;
		socket_tune(fd);
		challenge(gate, fd);
	}
}

/* A rank that waited too long for its answer has closed the connection, and comes again. */
static bool has_left(int fd)
{
	uint8_t byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void answer(struct gate *gate, struct visitor *visitor, gate_judge_fn judge, gate_keep_fn keep, void *arg)
{
	_cleanup_own_fd_ int fd = take_fd(&visitor->fd);
	struct gate_visit visit;
	struct wire_reply reply = {.address = {.in = {.sin_family = AF_INET}}};
	uint8_t bytes[WIRE_REPLY_BYTES];
	union address local;
	bool stays;

	if (has_left(fd) || wire_hello_read(visitor->bytes, gate->secret, visitor->nonce, &visit.hello) ||
	    address_of_peer(fd, &visit.from) || address_of_socket(fd, &local))
		return;
	visit.is_here = address_is_here(&local, &visit.from);
	visit.from = address_with_port(&visit.from, visit.hello.port);
	stays = judge(arg, &visit, &reply);
	wire_reply(&reply, gate->secret, visitor->nonce, visit.hello.nonce, bytes);
	/* A connection that stays was judged so, and breaks at once if the reply did not fit. */
	if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes))
		shutdown(fd, SHUT_RDWR);
	if (stays)
		keep(arg, &visit, &reply, take_fd(&fd));
}

/* True: the whole hello is there. `have` is bounded by its size. */
static bool read_hello(struct visitor *visitor)
{
	ssize_t n = recv(visitor->fd, visitor->bytes + visitor->have, WIRE_HELLO_BYTES - visitor->have, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		visitor->fd = own_fd_close(visitor->fd);
		return false;
	}
	visitor->have += (size_t)n;
	return visitor->have == WIRE_HELLO_BYTES;
}

void gate_turn(struct gate *gate, const struct pollfd *fds, gate_judge_fn judge, gate_keep_fn keep, void *arg)
{
	uint64_t now = nsec_now();

	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++) {
		struct visitor *visitor = &gate->visitors[i];

		if (visitor->fd < 0 || !gate->entries[i])
			continue;
		if (fds[gate->entries[i]].revents && read_hello(visitor))
			answer(gate, visitor, judge, keep, arg);
		else if (visitor->fd >= 0 && now - visitor->since >= VISIT_NSEC)
			visitor->fd = own_fd_close(visitor->fd);
	}
	if (fds[0].revents)
		accept_visitors(gate);
}
