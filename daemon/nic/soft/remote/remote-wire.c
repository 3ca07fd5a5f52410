/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets on a SOCK_SEQPACKET pair: one arrives whole or not at all, so a reader that stops waiting is never in the middle of one.
 *
 * Any thread; one writer and one reader at a time.
 */
#include "daemon/nic/soft/remote/remote-wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * (REMOTE_MAX_FDS + 1))];
};

int remote_pair(int ret_fds[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0 ? -errno : 0;
}

int remote_want_read(int fd, uint64_t *ret_word)
{
	struct iovec iov = {.iov_base = ret_word, .iov_len = sizeof(*ret_word)};
	ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

	/* An emulator of programs may not have the call, for which the C library says EOPNOTSUPP. */
	if (n < 0 && errno == EOPNOTSUPP)
		n = read(fd, ret_word, sizeof(*ret_word));
	return n == sizeof(*ret_word) ? 0 : -EAGAIN;
}

/* ---- sending -------------------------------------------------------------------------------------------------------------- */

static int write_file(const uint8_t *body, uint64_t bytes, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("shmemd-request", MFD_CLOEXEC);
	uint64_t done = 0;

	if (fd < 0)
		return -errno;
	while (done < bytes) {
		ssize_t n = pwrite(fd, body + done, bytes - done, (off_t)done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static void put_fds(struct msghdr *header, union control *control, unsigned int n_fds, const int *fds)
{
	struct cmsghdr *c = &control->align;

	if (n_fds == 0)
		return;
	memset(control, 0, sizeof(*control));
	header->msg_control = control;
	header->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
}

static int send_packet(int sock, const struct remote_head *head, const void *body, unsigned int n_fds, const int *fds, int flags)
{
	struct iovec iov[2] = {
		{.iov_base = (void *)head, .iov_len = sizeof(*head)},
		{.iov_base = (void *)body, .iov_len = head->is_in_file ? 0 : head->bytes},
	};
	struct msghdr header = {.msg_iov = iov, .msg_iovlen = 2};
	union control control;
	ssize_t n;

	put_fds(&header, &control, n_fds, fds);
	do
		n = sendmsg(sock, &header, MSG_NOSIGNAL | flags);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int remote_send(int sock, const struct remote_head *head, const void *body, unsigned int n_fds, const int *fds, bool is_urgent)
{
	int flags = is_urgent ? MSG_DONTWAIT : 0, all[REMOTE_MAX_FDS + 1];
	_cleanup_close_ int file = -1;
	struct remote_head large = *head;
	int r;

	if (n_fds > REMOTE_MAX_FDS || head->bytes > REMOTE_MAX_BYTES)
		return -EMSGSIZE;
	if (head->bytes <= REMOTE_INLINE_BYTES)
		return send_packet(sock, head, body, n_fds, fds, flags);
	r = write_file(body, head->bytes, &file);
	if (r < 0)
		return r;
	if (n_fds)
		memcpy(all, fds, n_fds * sizeof(int));
	all[n_fds] = file;
	large.is_in_file = 1;
	return send_packet(sock, &large, body, n_fds + 1, all, flags);
}

bool remote_is_gone(int r)
{
	return r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN || r == -EBADMSG;
}

/* ---- receiving ------------------------------------------------------------------------------------------------------------ */

static void drop_fds(struct remote_packet *packet)
{
	for (unsigned int i = 0; i < packet->n_fds; i++)
		safe_close(packet->fds[i]);
	packet->n_fds = 0;
}

void remote_packet_deinit(struct remote_packet *packet)
{
	free(packet->body);
	drop_fds(packet);
	*packet = REMOTE_PACKET_NONE;
}

int remote_packet_take_fd(struct remote_packet *packet, unsigned int i)
{
	return i < packet->n_fds ? take_fd(&packet->fds[i]) : -1;
}

static void take_fds(struct msghdr *header, struct remote_packet *packet)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(header);

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	packet->n_fds = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(packet->fds, CMSG_DATA(c), packet->n_fds * sizeof(int));
}

/* The packet is as good as any other, but for what its body says. */
static int lose_body(struct remote_packet *packet, int why)
{
	packet->lost = why;
	packet->head.bytes = 0;
	return 0;
}

static int read_file(struct remote_packet *packet)
{
	uint64_t done = 0, bytes = packet->head.bytes;
	int fd;

	if (packet->n_fds == 0 || bytes > REMOTE_MAX_BYTES)
		return -EBADMSG;
	/* bounded: the line before. */
	packet->body = malloc(bytes + 1);
	if (!packet->body)
		return lose_body(packet, -ENOMEM);
	fd = packet->fds[--packet->n_fds];
	while (done < bytes) {
		ssize_t n = pread(fd, packet->body + done, bytes - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	safe_close(fd);
	return done == bytes ? 0 : -EBADMSG;
}

static int take_body(struct remote_packet *packet, const uint8_t *inline_body, size_t n, bool fds_are_lost)
{
	if (packet->head.is_in_file && n == 0)
		return fds_are_lost ? lose_body(packet, -EMFILE) : read_file(packet);
	if (packet->head.is_in_file)
		return -EBADMSG;
	if (n != packet->head.bytes)
		return -EBADMSG;
	if (n == 0)
		return 0;
	packet->body = malloc(n);
	if (!packet->body)
		return lose_body(packet, -ENOMEM);
	memcpy(packet->body, inline_body, n);
	return 0;
}

static int recv_packet(int sock, int flags, struct remote_packet *packet)
{
	uint8_t body[REMOTE_INLINE_BYTES];
	struct iovec iov[2] = {
		{.iov_base = &packet->head, .iov_len = sizeof(packet->head)},
		{.iov_base = body, .iov_len = sizeof(body)},
	};
	union control control;
	/* Without the padding, in which one more would find room. */
	struct msghdr header = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control,
				.msg_controllen = CMSG_LEN(sizeof(int) * (REMOTE_MAX_FDS + 1))};
	ssize_t n;

	do
		n = recvmsg(sock, &header, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	take_fds(&header, packet);
	if (n == 0)
		return -EPIPE;
	if ((size_t)n < sizeof(packet->head) || (header.msg_flags & MSG_TRUNC))
		return -EBADMSG;
	/* This process has no room for descriptors: which of them came does not matter. */
	if (header.msg_flags & MSG_CTRUNC)
		drop_fds(packet);
	return take_body(packet, body, (size_t)n - sizeof(packet->head), header.msg_flags & MSG_CTRUNC);
}

/* Whether something is there. */
static bool await(int sock, uint64_t nsec)
{
	struct pollfd pfd = {.fd = sock, .events = POLLIN};
	uint64_t end = nsec_add(nsec_now(), nsec), now;
	struct timespec ts;
	int r;

	do {
		now = nsec_now();
		ts = nsec_to_timespec(end > now ? end - now : 0);
		r = ppoll(&pfd, 1, &ts, NULL);
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

int remote_recv(int sock, uint64_t nsec, struct remote_packet *ret_packet)
{
	struct remote_packet packet;
	int r;

	memset(&packet, 0, offsetof(struct remote_packet, fds));
	if (nsec != REMOTE_FOR_EVER && !await(sock, nsec))
		return -EAGAIN;
	r = recv_packet(sock, nsec == REMOTE_FOR_EVER ? 0 : MSG_DONTWAIT, &packet);
	if (r < 0)
		remote_packet_deinit(&packet);
	else
		*ret_packet = packet;
	return r;
}

/* ---- undoing --------------------------------------------------------------------------------------------------------------- */

struct remote_head remote_undoing(const struct remote_head *request, const struct remote_head *answer)
{
	struct remote_head head = {.nic = request->nic};

	if (request->op == REMOTE_QUEUES_CREATE) {
		head.op = REMOTE_QUEUES_DESTROY;
		head.ctx = request->ctx;
		head.object = answer->object;
	} else if (request->op == REMOTE_CTX_OPEN || request->op == REMOTE_CTX_IMPORT) {
		head.op = REMOTE_CTX_UNIMPORT;
		head.ctx = answer->ctx;
	}
	return head;
}

/* ---- bodies --------------------------------------------------------------------------------------------------------------- */

void remote_put(struct remote_writer *writer, const void *data, size_t bytes)
{
	if (bytes > writer->size - writer->n) {
		size_t size = 2 * writer->size + bytes;
		uint8_t *buf = size > REMOTE_MAX_BYTES ? NULL : realloc(writer->buf, size);

		if (!buf) {
			writer->is_short = true;
			return;
		}
		writer->buf = buf;
		writer->size = size;
	}
	if (bytes)
		memcpy(writer->buf + writer->n, data, bytes);
	writer->n += bytes;
}

void remote_writer_deinit(struct remote_writer *writer)
{
	free(writer->buf);
}

bool remote_get(struct remote_reader *reader, void *data, size_t bytes)
{
	if ((size_t)(reader->end - reader->at) < bytes)
		return false;
	if (bytes)
		memcpy(data, reader->at, bytes);
	reader->at += bytes;
	return true;
}

void remote_put_layout(struct remote_writer *writer, const struct nic_layout *layout, uint64_t object,
		       const struct nic_queue_mem *mem)
{
	struct remote_queues_told told = {
		.object = object, .total_bytes = layout->total_bytes, .n_cqs = layout->n_cqs, .n_qps = layout->n_qps, .mem = *mem};

	told.mem.fd = -1;
	remote_put(writer, &told, sizeof(told));
	/* bounded: nic_layout_init() made the layout. */
	remote_put(writer, layout->cqs, (size_t)layout->n_cqs * sizeof(struct nic_cq));
	remote_put(writer, layout->qps, (size_t)layout->n_qps * sizeof(struct nic_qp));
}

int remote_get_layout(struct remote_reader *reader, struct remote_queues_told *ret_told, struct nic_layout *layout)
{
	struct remote_queues_told told;

	*layout = (struct nic_layout){0};
	if (!remote_get(reader, &told, sizeof(told)) || told.n_cqs > NIC_MAX_BATCH_CQS || told.n_qps > NIC_MAX_BATCH_QPS)
		return -EBADMSG;
	/* bounded: the line before. */
	layout->cqs = calloc((size_t)told.n_cqs + 1, sizeof(struct nic_cq));
	layout->qps = calloc((size_t)told.n_qps + 1, sizeof(struct nic_qp));
	if (!layout->cqs || !layout->qps)
		return -ENOMEM;
	layout->total_bytes = told.total_bytes;
	layout->n_cqs = told.n_cqs;
	layout->n_qps = told.n_qps;
	*ret_told = told;
	return remote_get(reader, layout->cqs, (size_t)told.n_cqs * sizeof(struct nic_cq)) &&
	       remote_get(reader, layout->qps, (size_t)told.n_qps * sizeof(struct nic_qp)) ? 0 : -EBADMSG;
}
