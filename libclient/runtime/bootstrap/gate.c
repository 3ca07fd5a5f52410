/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "libclient/runtime/bootstrap/address.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define VISIT_NSEC (10 * NSEC_PER_SEC)
/* In one turn, so that a flood of connections does not keep the thread from its links. */
#define ACCEPTS_A_TURN 64

struct visitor {
	int fd; /* -1: free */
	uint64_t since;
	uint8_t nonce[WIRE_NONCE_BYTES];
	size_t have;
	uint8_t bytes[WIRE_HELLO_BYTES];
};

struct gate {
	int listener;
	uint8_t secret[UID_SECRET_BYTES];
	struct visitor visitors[GATE_MOST_VISITORS];
	/* Entry of gate_poll() for each visitor, 0: none. */
	unsigned int entries[GATE_MOST_VISITORS];
};

int gate_new(int listener, const uint8_t secret[UID_SECRET_BYTES], struct gate **ret)
{
	struct gate *gate = calloc(1, sizeof(*gate));

	if (!gate) {
		safe_close(listener);
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
	gate->listener = safe_close(gate->listener);
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++)
		gate->visitors[i].fd = safe_close(gate->visitors[i].fd);
}

void gate_free(struct gate *gate)
{
	if (!gate)
		return;
	gate_forget(gate);
	free(gate);
}

unsigned int gate_poll(struct gate *gate, struct pollfd *fds)
{
	unsigned int n = 0;

	fds[n++] = (struct pollfd){.fd = gate->listener, .events = POLLIN};
	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++) {
		gate->entries[i] = 0;
		if (gate->visitors[i].fd < 0)
			continue;
		gate->entries[i] = n;
		fds[n++] = (struct pollfd){.fd = gate->visitors[i].fd, .events = POLLIN};
	}
	return n;
}

int gate_wait_msec(const struct gate *gate, int most)
{
	uint64_t now = nsec_now();

	for (unsigned int i = 0; i < GATE_MOST_VISITORS; i++) {
		uint64_t end = gate->visitors[i].since + VISIT_NSEC;
		int msec = end <= now ? 0 : (int)((end - now) / NSEC_PER_MSEC) + 1;

		if (gate->visitors[i].fd >= 0 && msec < most)
			most = msec;
	}
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
	oldest->fd = safe_close(oldest->fd);
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
	visitor->fd = safe_close(fd);
}

static void accept_visitors(struct gate *gate)
{
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept4(gate->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
			end_oldest(gate);
			/* The listener stays readable: without this pause the thread would do nothing else. */
			poll(NULL, 0, 10);
			return;
		}
		if (fd < 0)
			return;
		socket_tune(fd);
		challenge(gate, fd);
	}
}

static void answer(struct gate *gate, struct visitor *visitor, gate_judge_fn judge, gate_keep_fn keep, void *arg)
{
	_cleanup_close_ int fd = take_fd(&visitor->fd);
	struct gate_visit visit;
	struct wire_reply reply = {.address = {.in = {.sin_family = AF_INET}}};
	uint8_t bytes[WIRE_REPLY_BYTES];
	bool stays;

	if (wire_hello_read(visitor->bytes, gate->secret, visitor->nonce, &visit.hello) || address_of_peer(fd, &visit.from))
		return;
	if (visit.from.any.sa_family == AF_INET6)
		visit.from.in6.sin6_port = htons(visit.hello.port);
	else
		visit.from.in.sin_port = htons(visit.hello.port);
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
		visitor->fd = safe_close(visitor->fd);
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
			visitor->fd = safe_close(visitor->fd);
	}
	if (fds[0].revents)
		accept_visitors(gate);
}
