/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One packet, one sendmsg or recvmsg.
 *
 * Refuses what is above the limits and keeps nothing between calls. Descriptors of a packet that is refused are closed
 * here; credentials and other ancillary data are ignored. An empty packet counts as the end of the stream if nothing
 * follows it yet, which is how the kernel reports both. Any thread; one reader and one writer per socket.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

/* A packet must fit the sender's buffer whole, with the kernel's own overhead; room for a few keeps replies moving. */
#define FRAMING_SNDBUF_BYTES (4 * (int)FRAMING_MAX_PACKET_BYTES)

_Static_assert(FDLIST_MAX == FRAMING_MAX_FDS, "an fdlist holds what a packet may carry");

/* The kernel lets no packet carry more (SCM_MAX_FD). */
#define KERNEL_MAX_FDS 253u

/*
 * Room for all that a packet can carry: the kernel closes what finds none, on this thread, and that may block. Credentials
 * too, so that a socket option does not cut descriptors off.
 */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(KERNEL_MAX_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

int framing_setup(int sock)
{
	int bytes = FRAMING_SNDBUF_BYTES;

	return setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) < 0 ? -errno : 0;
}

int framing_set_passing(int sock, bool on)
{
	int value = on;

	return setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof(value)) < 0 ? -errno : 0;
}

bool framing_is_passing(int sock)
{
	int value = 1;
	socklen_t bytes = sizeof(value);

	return getsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &value, &bytes) < 0 || value;
}

static void add_fds(struct msghdr *header, union control *control, const int *fds,
		    unsigned int n_fds)
{
	struct cmsghdr *c = &control->align;

	memset(control, 0, sizeof(*control));
	header->msg_control = control->bytes;
	header->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
}

int framing_send(int sock, const void *buf, size_t bytes, const int *fds, unsigned int n_fds)
{
	struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control;
	ssize_t n;

	if (!bytes || bytes > FRAMING_MAX_PACKET_BYTES || n_fds > FRAMING_MAX_FDS)
		return -EMSGSIZE;
	if (n_fds)
		add_fds(&header, &control, fds, n_fds);
	do
		n = sendmsg(sock, &header, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Takes every descriptor in the control data, *ret_n of them: into *fds while there is room, closed otherwise. */
static int collect_fds(struct msghdr *header, struct fdlist *fds, size_t *ret_n)
{
	int r = 0;

	*ret_n = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*ret_n += n;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (fdlist_add(fds, fd) < 0) {
				fdlist_close(fds, fd);
				r = -EMSGSIZE;
			}
		}
	}
	return r;
}

static void close_from(struct fdlist *fds, unsigned int first)
{
	for (unsigned int i = first; i < fds->n; i++) {
		fdlist_close(fds, fds->fds[i]);
		fds->fds[i] = -1;
	}
	fds->n = first;
}

static int check_packet(const struct msghdr *header, ssize_t bytes, size_t n_fds)
{
	if (!bytes)
		return -ECONNRESET;
	if (header->msg_flags & MSG_TRUNC)
		return -EMSGSIZE;
	/* With room for more in the control data, it was the table of this process that had none. */
	if (header->msg_flags & MSG_CTRUNC)
		return n_fds < FRAMING_MAX_FDS ? -EMFILE : -EMSGSIZE;
	return (size_t)bytes > FRAMING_MAX_PACKET_BYTES ? -EMSGSIZE : 0;
}

static ssize_t receive(int sock, struct msghdr *header, union control *control, int flags)
{
	ssize_t bytes;

	header->msg_control = control->bytes;
	header->msg_controllen = sizeof(control->bytes);
	do
		bytes = recvmsg(sock, header, MSG_CMSG_CLOEXEC | flags);
	while (bytes < 0 && errno == EINTR);
	return bytes;
}

/*
 * Linux looks at the queue first and at the end second: a peer that sends and closes in between has the end told before
 * its last packet. So an end is looked at twice.
 */
static ssize_t receive_to_the_last(int sock, struct msghdr *header, union control *control)
{
	ssize_t bytes = receive(sock, header, control, 0);

	if (bytes != 0 || header->msg_controllen)
		return bytes;
	bytes = receive(sock, header, control, MSG_DONTWAIT);
	if (bytes < 0)
		header->msg_controllen = 0;
	return bytes < 0 ? 0 : bytes;
}

int framing_recv(int sock, void *buf, size_t size, size_t *ret_bytes, struct fdlist *fds)
{
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	union control control;
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	unsigned int n_before = fds->n;
	size_t n_fds;
	ssize_t bytes;
	int r, r_fds;

	assert_bug(size >= FRAMING_MAX_PACKET_BYTES);
	bytes = receive_to_the_last(sock, &header, &control);
	if (bytes < 0)
		return -errno;

	r_fds = collect_fds(&header, fds, &n_fds);
	r = check_packet(&header, bytes, n_fds);
	if (r == 0)
		r = r_fds;
	if (r < 0)
		close_from(fds, n_before);
	if (r == 0 || r == -EMFILE)
		*ret_bytes = (size_t)bytes;
	return r;
}

/* ---- without descriptors ------------------------------------------------------------------------------------------ */

/*
 * Looks at the next packet and leaves it where it is. The kernel marks descriptors for which there is no room (MSG_CTRUNC). The
 * reference that it takes for the look is never the last one: the packet has its own.
 */
static ssize_t peek(int sock, bool *ret_has_fds)
{
	struct iovec iov = {.iov_base = &(char){0}, .iov_len = 1};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t bytes;

	do
		bytes = recvmsg(sock, &header, MSG_PEEK | MSG_DONTWAIT);
	while (bytes < 0 && errno == EINTR);
	*ret_has_fds = bytes >= 0 && header.msg_flags & MSG_CTRUNC;
	return bytes;
}

bool framing_next_has_fds(int sock)
{
	bool has_fds;

	return peek(sock, &has_fds) >= 0 && has_fds;
}

/*
 * The first look may find the end while the last packet is being sent; behind the end nothing comes, so that the second one is
 * right. An empty packet counts as the end.
 */
static int look_at_next(int sock)
{
	bool has_fds = false;
	ssize_t bytes = 0;

	for (int i = 0; i < 2 && bytes == 0 && !has_fds; i++)
		bytes = peek(sock, &has_fds);
	if (bytes < 0)
		return -errno;
	if (has_fds)
		return FRAMING_HAS_FDS;
	return bytes == 0 ? -ECONNRESET : 0;
}

int framing_recv_plain(int sock, void *buf, size_t size, size_t *ret_bytes)
{
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t bytes;
	int r = look_at_next(sock);

	assert_bug(size >= FRAMING_MAX_PACKET_BYTES);
	if (r != 0)
		return r;
	do
		bytes = recvmsg(sock, &header, MSG_DONTWAIT);
	while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return -errno;
	if (header.msg_flags & MSG_TRUNC || (size_t)bytes > FRAMING_MAX_PACKET_BYTES)
		return -EMSGSIZE;
	*ret_bytes = (size_t)bytes;
	return 0;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* With credentials, which only a packet has, an empty one does not look like the end. */
static bool drop_one(int sock)
{
	struct iovec iov = {.iov_base = &(char){0}, .iov_len = 1};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t bytes;

	do
		bytes = recvmsg(sock, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (bytes < 0 && (errno == EINTR || errno == ECONNRESET || errno == EPIPE));
	return bytes > 0 || (bytes == 0 && (header.msg_controllen > 0 || header.msg_flags & MSG_CTRUNC));
}

/* Nothing more comes in once it is shut down, so that there is an end. */
void framing_drain(int sock)
{
	int on = 1;

	shutdown(sock, SHUT_RDWR);
	setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	while (drop_one(sock))
		;
}

/* Packets that were left would be an error to the peer, not the end. */
int framing_close(int sock)
{
	int saved = errno;

	if (sock < 0)
		return -1;
	framing_drain(sock);
	close(sock);
	errno = saved;
	return -1;
}

int framing_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int sock = -1;
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	r = framing_setup(sock);
	if (r < 0)
		return r;
	do
		r = connect(sock, (struct sockaddr *)&address, sizeof(address));
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return take_fd(&sock);
}
