/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the tree: frames in both directions over a socket that does not block. The other side has proved that it is of the
 * job; lengths are checked all the same. One thread at a time.
 */
#ifndef SHMD_RUNTIME_LINK_H
#define SHMD_RUNTIME_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 2 GiB less a page in a frame: what a rank's result may have. */
#define LINK_MOST_BYTES 0x7ffff000u

enum frame_type {
	FRAME_SHARE = 1, /* towards rank 0: what `rank` brings to collective call `seq` */
	FRAME_RESULT,	 /* from rank 0: to all ranks */
	FRAME_ROW,	 /* from rank 0: to `rank` alone */
	FRAME_LATE,	 /* towards rank 0: the time limit of `rank` is over */
	FRAME_FAIL,	 /* to all: every call fails with `value`, a negative errno, for `seq` ranks from `rank`; the body is a sentence */
	FRAME_GONE,	 /* to all: `rank` has died */
	FRAME_BYE,	 /* to all: `rank` has closed, after it completed calls 0 to seq - 1 */
	FRAME_ABORT,	 /* to all: end with status `value`; the body is a sentence of `rank` */
	FRAME_BOOK,	 /* from rank 0: to all ranks, all have come; the body is the book (members.h) */
	FRAME_MOVED,	 /* to all: `rank` hangs below rank `value` since its move `seq` */
	FRAME_LAST = FRAME_MOVED,
};

struct frame {
	uint8_t type;
	uint8_t kind; /* of collective call: enum collect_kind */
	uint32_t rank;
	uint64_t seq;
	uint32_t value; /* SHARE: bytes for each rank */
	uint32_t bytes;
	uint8_t *body; /* of malloc(), NULL without bytes */
};

#define FRAME_HEAD_BYTES 24
void frame_write_head(const struct frame *frame, uint8_t head[FRAME_HEAD_BYTES]);
/* All fields but body. -EPROTO */
int frame_read_head(const uint8_t head[FRAME_HEAD_BYTES], unsigned int size, struct frame *ret);

struct link_out {
	struct link_out *next;
	size_t n, sent;
	uint8_t bytes[];
};

struct link {
	int fd;
	int rank; /* of the other side */
	unsigned int size;
	bool has_closed; /* its BYE came: the end of the connection is no death */
	bool is_new;	 /* of a tree that is mended, and no frame came yet: the end is none either, the other side may have given up the try */
	bool is_shut;	 /* this side sends no more */
	struct link_out *first, *last;
	/* The frame that is coming in. */
	uint8_t head[FRAME_HEAD_BYTES];
	size_t have;
	struct frame in;
	bool skips; /* its body: no memory */
};

struct link *link_new(int fd, int rank, unsigned int size); /* owns fd; NULL without memory */
void link_free(struct link *link);			    /* NULL is fine */

int link_send(struct link *link, const struct frame *frame); /* copies; -ENOMEM */
/* As much as the socket takes. 0: all is sent, -EAGAIN, or the connection's error. */
int link_flush(struct link *link);
bool link_has_output(const struct link *link);
/* Bytes that the other side has not acknowledged, here and in the kernel. */
size_t link_bytes_left(const struct link *link);
/*
 * 1: a frame, whose body is the caller's; 0: not yet; -ECONNRESET at the end, -EPROTO, ... -ENOMEM: no memory for a frame, which is then read
 * and dropped; the connection goes on.
 */
int link_receive(struct link *link, struct frame *ret);

#endif
