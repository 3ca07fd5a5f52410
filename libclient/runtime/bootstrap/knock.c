/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/knock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/own-fds.h"
#include "proto/base/nsec.h"

/* A try. The listener may be a busy process on a busy machine, or a stranger that never answers. */
#define CONNECT_NSEC (2 * NSEC_PER_SEC)
#define CHALLENGE_NSEC (3 * NSEC_PER_SEC)
#define REPLY_NSEC (20 * NSEC_PER_SEC)
#define FIRST_PAUSE_NSEC (2 * NSEC_PER_MSEC)
#define LAST_PAUSE_NSEC (200 * NSEC_PER_MSEC)

static int wait_for(int fd, short events, uint64_t deadline)
{
	for (;;) {
		struct pollfd entry = {.fd = fd, .events = events};
		uint64_t now = nsec_now();
		struct timespec left = nsec_to_timespec(now < deadline ? deadline - now : 0);
		int n = ppoll(&entry, 1, &left, NULL);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -ETIMEDOUT;
	}
}

static int receive(int fd, uint8_t *bytes, size_t n, uint64_t deadline)
{
	for (size_t have = 0; have < n;) {
		ssize_t got = recv(fd, bytes + have, n - have, 0);
		int err;

		if (got > 0) {
			have += (size_t)got;
			continue;
		}
		if (!got)
			return -ECONNRESET;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		err = wait_for(fd, POLLIN, deadline);
		if (err)
			return err;
	}
	return 0;
}

static uint64_t sooner(uint64_t deadline, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;

	return end < deadline ? end : deadline;
}

static int connect_to(const struct knock *knock, const union address *to)
{
	_cleanup_own_fd_ int fd = connect_by(to, knock->interface);
	int err, error = 0;
	socklen_t bytes = sizeof(error);

	if (fd < 0)
		return fd;
	err = wait_for(fd, POLLOUT, sooner(knock->deadline, CONNECT_NSEC));
	if (err)
		return err;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) || error)
		return error ? -error : -errno;
	socket_tune(fd);
	return take_fd(&fd);
}

/* An error is one of this try: the listener may be another process than the one meant. */
static int talk(const struct knock *knock, const union address *to, int fd, struct wire_reply *ret)
{
	uint8_t nonce[WIRE_NONCE_BYTES], bytes[WIRE_REPLY_BYTES];
	struct wire_hello hello = knock->hello;
	union address local;
	int err = receive(fd, bytes, WIRE_CHALLENGE_BYTES, sooner(knock->deadline, CHALLENGE_NSEC));

	if (!err)
		err = wire_challenge_read(bytes, nonce);
	if (!err)
		err = address_of_socket(fd, &local);
	if (!err && knock->port)
		err = knock->port(knock->arg, &local, to, &hello.port);
	if (err)
		return err;
	if (getrandom(hello.nonce, sizeof(hello.nonce), 0) != sizeof(hello.nonce))
		return -EIO;
	wire_hello(&hello, knock->secret, nonce, bytes);
	if (send(fd, bytes, WIRE_HELLO_BYTES, MSG_NOSIGNAL) != WIRE_HELLO_BYTES)
		return -ECONNRESET;
	err = receive(fd, bytes, WIRE_REPLY_BYTES, sooner(knock->deadline, REPLY_NSEC));
	return err ? err : wire_reply_read(bytes, knock->secret, nonce, hello.nonce, ret);
}

static int try_address(const struct knock *knock, const union address *to, struct wire_reply *ret)
{
	_cleanup_own_fd_ int fd = connect_to(knock, to);
	int err;

	if (fd < 0)
		return fd;
	err = talk(knock, to, fd, ret);
	if (!err && ret->address.any.sa_family == AF_INET && !ret->address.in.sin_addr.s_addr)
		ret->address = address_with_port(to, address_port(&ret->address));
	return err ? err : take_fd(&fd);
}

static int give_up(const struct knock *knock, const union address *to, int err)
{
	char text[ADDRESS_TEXT_BYTES];

	address_text(to, text);
	if (err == -ECONNREFUSED)
		return shmd_error_set(-ETIMEDOUT, "no process listens for %s at %s: it has not started, it has ended, or the job is complete",
				      knock->who, text);
	if (err == -ECONNRESET)
		return shmd_error_set(-ETIMEDOUT, "the process that listens at %s closes connections: it has another secret than this rank's id "
				      "for %s, or it is not of this job", text, knock->who);
	if (err == -EPROTO || err == -EACCES || err == -EINVAL)
		return shmd_error_set(-ETIMEDOUT, "the process that listens at %s is not %s of this job", text, knock->who);
	errno = -err;
	return shmd_error_set(-ETIMEDOUT, "cannot reach %s at %s: %m", knock->who, text);
}

static void pause_until(uint64_t end)
{
	struct timespec at = nsec_to_timespec(end);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

int knock(const struct knock *knock, struct wire_reply *ret)
{
	unsigned int n = knock->n_addresses * knock->n_ports;
	union address to = knock->addresses[0];
	uint64_t pause = FIRST_PAUSE_NSEC;
	int err = 0;

	for (unsigned int i = 0;; i++) {
		int fd;

		to = knock->addresses[i / knock->n_ports % knock->n_addresses];
		to = address_with_port(&to, address_port(&to) + i % knock->n_ports);
		fd = try_address(knock, &to, ret);
		if (fd >= 0)
			return fd;
		/* The time limit may end a try; the reason of the tries before it says more. */
		if (fd != -ETIMEDOUT || !err)
			err = fd;
		if (nsec_now() >= knock->deadline)
			return give_up(knock, &to, err);
		if (i % n == n - 1) {
			pause_until(sooner(knock->deadline, pause));
			pause = pause < LAST_PAUSE_NSEC / 2 ? pause * 2 : LAST_PAUSE_NSEC;
		}
	}
}
