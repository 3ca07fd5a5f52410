/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: records between two executors, as bytes in memory that both map.
 *
 * A channel belongs to the executor that opened it. Its requests go one way, the answers to them the other; the peer's own requests
 * take a channel of the peer's. So answers never wait behind requests, and each way has one writer and one reader: there is no
 * lock, and a side that is killed at any instruction has written a whole record or none. The memory holds offsets only. A side
 * believes nothing that the other one writes: a position that cannot be true ends the channel.
 *
 * A record is there when `head` is behind it. The reader may leave its bytes where they are and use them for a while; `tail` moves
 * on when the oldest one is no longer needed.
 */
#ifndef SHMEMD_NIC_SOFT_RING_H
#define SHMEMD_NIC_SOFT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

#define SOFT_WAY_BYTES (256u << 10) /* power of two; more than a packet with its chunk */
#define SOFT_RECORD_ALIGN 64u
#define SOFT_MAX_RECORDS 64u /* that a reader has at a time */

/* Positions are bytes since the beginning and go round; records begin at multiples of SOFT_RECORD_ALIGN. */
struct soft_shared_way {
	uint32_t head; /* by the writer: behind the last whole record */
	uint32_t wants_room; /* by the writer: it keeps packets back. The reader clears it, and tells the writer */
	uint32_t is_jammed; /* by the writer: some of those who would write wait for that */
	uint32_t tail __attribute__((aligned(64))); /* by the reader: before it nothing is needed any more */
} __attribute__((aligned(64)));

enum soft_way {
	SOFT_WAY_REQUESTS, /* of the opener */
	SOFT_WAY_ANSWERS, /* to the opener */
};
#define SOFT_N_WAYS 2u

/* Rung by one side for the other, which clears it before it looks. */
struct soft_shared_bell {
	uint32_t rings;
} __attribute__((aligned(64)));

struct soft_shared_channel {
	struct soft_shared_way ways[SOFT_N_WAYS];
	struct soft_shared_bell bells[SOFT_N_WAYS]; /* of who reads that way; unused within one process */
	uint32_t is_over; /* one side has left */
	uint8_t data[SOFT_N_WAYS][SOFT_WAY_BYTES] __attribute__((aligned(4096)));
};

/* A new one, and its memfd where somebody else is to map it; ret_fd may be NULL. */
int soft_channel_new(struct soft_shared_channel **ret_channel, int *ret_fd);
/* One for two others. */
int soft_channel_memfd(int *ret_fd);
/* That of another process. -EBADF it is none. */
int soft_channel_map(int fd, struct soft_shared_channel **ret_channel);
struct soft_shared_channel *soft_channel_unmap(struct soft_shared_channel *channel);

/* ---- one way, written: one thread ------------------------------------------------------------------------------------- */

struct soft_writer {
	struct soft_shared_way *way;
	uint8_t *data;
	uint32_t head; /* never read from the other side */
	uint32_t tail; /* as last seen */
};

void soft_writer_init(struct soft_writer *writer, struct soft_shared_channel *channel, enum soft_way way);
/* Room for a record of so many bytes. -EAGAIN: there is none; -EMSGSIZE: there never is; -EBADMSG: the reader has written nonsense. */
int soft_writer_begin(struct soft_writer *writer, uint32_t bytes, struct engine_piece ret_pieces[2]);
/* It is written: the reader may see it. */
void soft_writer_commit(struct soft_writer *writer, uint32_t bytes);
/* After -EAGAIN: the reader shall tell when there is room. True: there is some meanwhile. */
bool soft_writer_wants_room(struct soft_writer *writer);
/* So much of the way a record takes. */
uint32_t soft_record_bytes(uint32_t bytes);
/* Does the reader need nothing any more of what was written? */
bool soft_writer_is_done(const struct soft_writer *writer);

/* ---- the same way, read: one thread --------------------------------------------------------------------------------------- */

struct soft_reader;

/* Bytes that are in use: `mem` leads to them, from 0 on, while anybody has a reference to it. */
struct soft_ring_record {
	struct engine_mem mem;
	struct soft_reader *reader;
	uint32_t begin, end;
	bool is_used;
};

struct soft_reader {
	struct soft_shared_way *way;
	uint8_t *data;
	uint32_t next; /* to be read */
	uint32_t tail; /* as told to the writer */
	uint32_t first, behind; /* of `records`, counted and never reset */
	uint32_t n_used;
	struct soft_ring_record records[SOFT_MAX_RECORDS];
	bool *has_news; /* set when one of them is not used any more; NULL: nobody asks */
	/* The last of them is not used any more: where the reader is to go then. NULL: it stays. */
	void (*unused)(struct soft_reader *reader);
};

void soft_reader_init(struct soft_reader *reader, struct soft_shared_channel *channel, enum soft_way way);
/* 1: the next record; 0: there is none; -EAGAIN: too many are in use; -EBADMSG: the writer has written nonsense. */
int soft_reader_next(struct soft_reader *reader, struct engine_piece ret_pieces[2], struct soft_ring_record **ret_record);
/* That one was read; it stays in use while `mem` is. */
void soft_reader_pass(struct soft_reader *reader, struct soft_ring_record *record);
/* Everything that was written is passed over. -EBADMSG: the writer has written nonsense. */
int soft_reader_skip(struct soft_reader *reader);
/* Tells the writer what is not needed any more. True: the writer waits for that. */
bool soft_reader_release(struct soft_reader *reader);
bool soft_reader_can_release(const struct soft_reader *reader);
bool soft_reader_has_more(const struct soft_reader *reader);

#endif
