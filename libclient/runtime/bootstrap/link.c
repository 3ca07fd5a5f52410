/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/link.h"

#include <endian.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "libclient/runtime/bootstrap/little-endian.h"
#include "libclient/runtime/bootstrap/own-fds.h"

void frame_write_head(const struct frame *frame, uint8_t head[FRAME_HEAD_BYTES])
{
	uint64_t seq = htole64(frame->seq);

	memset(head, 0, FRAME_HEAD_BYTES);
	head[0] = frame->type;
	head[1] = frame->kind;
	put32(head + 4, frame->rank);
	memcpy(head + 8, &seq, sizeof(seq));
	put32(head + 16, frame->value);
	put32(head + 20, frame->bytes);
}

int frame_read_head(const uint8_t head[FRAME_HEAD_BYTES], unsigned int size, struct frame *ret)
{
	struct frame frame = {.type = head[0], .kind = head[1], .rank = get32(head + 4), .value = get32(head + 16),
			      .bytes = get32(head + 20)};
	uint64_t seq;

	memcpy(&seq, head + 8, sizeof(seq));
	frame.seq = le64toh(seq);
	if (frame.type < FRAME_SHARE || frame.type > FRAME_LAST || head[2] || head[3] || frame.rank >= size ||
	    frame.bytes > LINK_MOST_BYTES)
		return -EPROTO;
	*ret = frame;
	return 0;
}

struct link *link_new(int fd, int rank, unsigned int size)
{
	struct link *link = calloc(1, sizeof(*link));

	fd = own_fd_adopt(fd);
	if (!link || fd < 0) {
		own_fd_close(fd);
		free(link);
		return NULL;
	}
	link->fd = fd;
	link->rank = rank;
	link->size = size;
	return link;
}

void link_free(struct link *link)
{
	if (!link)
		return;
	while (link->first) {
		struct link_out *out = link->first;

		link->first = out->next;
		free(out);
	}
	free(link->in.body);
	own_fd_close(link->fd);
	free(link);
}

/* Sizes are bounded by LINK_MOST_BYTES. */
int link_send(struct link *link, const struct frame *frame)
{
	struct link_out *out = malloc(sizeof(*out) + FRAME_HEAD_BYTES + frame->bytes);

	if (!out)
		return -ENOMEM;
	out->next = NULL;
	out->n = FRAME_HEAD_BYTES + frame->bytes;
	out->sent = 0;
	frame_write_head(frame, out->bytes);
	if (frame->bytes)
		memcpy(out->bytes + FRAME_HEAD_BYTES, frame->body, frame->bytes);
	if (link->first)
		link->last->next = out;
	else
		link->first = out;
	link->last = out;
	return 0;
}

bool link_has_output(const struct link *link)
{
	return link->first;
}

size_t link_bytes_left(const struct link *link)
{
	size_t left = 0;
	int kernels = 0;

	for (const struct link_out *out = link->first; out; out = out->next)
		left += out->n - out->sent;
	if (!ioctl(link->fd, SIOCOUTQ, &kernels) && kernels > 0)
		left += (size_t)kernels;
	return left;
}

/* `sent` is bounded by n. */
int link_flush(struct link *link)
{
	while (link->first) {
		struct link_out *out = link->first;
		ssize_t n = send(link->fd, out->bytes + out->sent, out->n - out->sent, MSG_NOSIGNAL | (out->next ? MSG_MORE : 0));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		out->sent += (size_t)n;
		if (out->sent < out->n)
			continue;
		link->first = out->next;
		free(out);
	}
	return 0;
}

static int receive_some(struct link *link, uint8_t *at, size_t bytes)
{
	ssize_t n = recv(link->fd, at, bytes, 0);

	if (!n)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	link->have += (size_t)n;
	return (int)n;
}

static int begin_body(struct link *link)
{
	int err = frame_read_head(link->head, link->size, &link->in);

	if (err || !link->in.bytes)
		return err;
	link->in.body = malloc(link->in.bytes);
	link->skips = !link->in.body;
	return link->skips ? -ENOMEM : 0;
}

static int receive_body(struct link *link)
{
	uint8_t dropped[4096];
	size_t done = link->have - FRAME_HEAD_BYTES, left = link->in.bytes - done;

	if (link->skips)
		return receive_some(link, dropped, left < sizeof(dropped) ? left : sizeof(dropped));
	return receive_some(link, link->in.body + done, left);
}

static bool end_frame(struct link *link, struct frame *ret)
{
	bool is_whole = !link->skips;

	link->is_new = false;
	if (is_whole)
		*ret = link->in;
	link->in = (struct frame){0};
	link->have = 0;
	link->skips = false;
	return is_whole;
}

static int receive_frame(struct link *link)
{
	while (link->have < FRAME_HEAD_BYTES) {
		int n = receive_some(link, link->head + link->have, FRAME_HEAD_BYTES - link->have);

		if (n <= 0)
			return n;
		n = link->have == FRAME_HEAD_BYTES ? begin_body(link) : 0;
		if (n)
			return n;
	}
	while (link->have < FRAME_HEAD_BYTES + (size_t)link->in.bytes) {
		int n = receive_body(link);

		if (n <= 0)
			return n;
	}
	return 1;
}

int link_receive(struct link *link, struct frame *ret)
{
	int n;

	do
		n = receive_frame(link);
	while (n > 0 && !end_frame(link, ret));
	return n;
}
