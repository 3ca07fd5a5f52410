/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets between the daemon and the process that executes the queues of one user. Both are the same program, so structs travel as
 * they are, and there are no versions. A packet is a head, a body, and descriptors. A body that is too large for a packet lies in a
 * memfd, which is read and never mapped.
 */
#ifndef SHMEMD_NIC_SOFT_REMOTE_WIRE_H
#define SHMEMD_NIC_SOFT_REMOTE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/nic/nic.h"

#define REMOTE_INLINE_BYTES 16384u
#define REMOTE_MAX_BYTES (96u << 20) /* more than any request or record */
#define REMOTE_MAX_FDS 200u /* the kernel allows 253 */
#define REMOTE_FAULT_BYTES 64u
#define REMOTE_MAX_NICS 64u
#define REMOTE_FOR_EVER UINT64_MAX

enum remote_op {
	/* works: one after the other, however long each takes */
	REMOTE_INIT = 1,
	REMOTE_CTX_OPEN,
	REMOTE_CTX_IMPORT,
	REMOTE_CTX_CLOSE,
	REMOTE_CTX_UNIMPORT,
	REMOTE_CTX_QUIESCE,
	REMOTE_AGENT_ATTACH, /* with the ring and the agent's eventfd */
	REMOTE_MR_REG,
	REMOTE_MR_DEREG,
	REMOTE_QUEUES_CREATE,
	REMOTE_QUEUES_DESTROY,
	REMOTE_CONNECT,
	REMOTE_RESOLVE,
	REMOTE_QP_MODIFY,
	REMOTE_FDS, /* descriptors for the next REMOTE_CTX_IMPORT */
	/* questions: answered meanwhile, by another thread */
	REMOTE_QP_QUERY,
	REMOTE_QUEUES_READ,
	REMOTE_CTX_COUNTERS,
	REMOTE_NIC_COUNTERS,
	REMOTE_PORT_SET,
	REMOTE_RESUME,
	REMOTE_REST,
	REMOTE_EVENTS, /* with the socket for the events of a NIC */
	/* news from the daemon's exchange, without answers (remote-exchange.c) */
	REMOTE_CHANNEL,
	REMOTE_PEER_GONE,
};

/* Head of a request and of its answer. Members that an operation does not need are 0. */
struct remote_head {
	uint32_t op;
	uint32_t seq;
	int32_t result; /* of an answer */
	uint32_t is_in_file; /* the body is the last descriptor's */
	uint64_t bytes; /* of the body */
	uint64_t ctx, object; /* what the process calls them */
	uint64_t offset;
	uint64_t nsec;
	uint32_t nic;
	uint32_t number;
	uint32_t n;
	uint32_t value;
};

/*
 * The work that ends what this one has made. The head of the answer has the names of contexts and batches, so that they are there
 * although the body was lost. `op` 0: it has made neither.
 */
struct remote_head remote_undoing(const struct remote_head *request, const struct remote_head *answer);

/* Body of REMOTE_INIT, and the order of its descriptors. The answer has the pidfd of the process, where the kernel has pidfds. */
struct remote_init {
	struct nic_soft_attr attr; /* without pointers */
	uint32_t uid;
	uint32_t seat; /* its executor on each NIC */
	int32_t daemon_pid;
	char fault[REMOTE_FAULT_BYTES]; /* empty: none */
};

enum { REMOTE_INIT_ASKS, REMOTE_INIT_PEERS, REMOTE_INIT_WANT, REMOTE_INIT_TABLE, REMOTE_INIT_PART, REMOTE_N_INIT };

/*
 * One of the host's executors wants a channel to one of another host: written to an eventfd, which carries no descriptors and holds one
 * wish at a time. The answer is a REMOTE_CHANNEL.
 */
struct remote_want {
	uint32_t nic, peer_nic, peer_seat;
};

static inline uint64_t remote_want_encode(const struct remote_want *want)
{
	return 1 + (want->nic | want->peer_nic << 8 | want->peer_seat << 16);
}

static inline struct remote_want remote_want_decode(uint64_t word)
{
	uint32_t bits = (uint32_t)(word - 1);

	return (struct remote_want){bits & 0xff, bits >> 8 & 0xff, bits >> 16};
}

/* Takes the wish: 0, or -EAGAIN at once. Both sides have one description, so the other could make it one on which read() waits. */
int remote_want_read(int fd, uint64_t *ret_word);

/*
 * REMOTE_CHANNEL: nic is the host's, n the peer's, number the peer's seat, value the peer's epoch, object whether this host opens it. A
 * negative result: there is none.
 */
enum { REMOTE_CHANNEL_MEM, REMOTE_CHANNEL_WAKE_OPENER, REMOTE_CHANNEL_WAKE_OTHER, REMOTE_CHANNEL_PART, REMOTE_N_CHANNEL };

/* Begins the body of an answer to REMOTE_CTX_OPEN and REMOTE_CTX_IMPORT, which come with descriptors. */
struct remote_opened {
	uint64_t ctx;
	uint32_t pdn;
	uint32_t register_offset;
	bool is_down; /* the port, as the page of a former process says */
	uint32_t n_ports, n_mrs, n_queues; /* of an import */
	struct nic_counters past;
	uint8_t gids[REMOTE_MAX_NICS][16];
};

/* Their descriptors, in this order. The last two come if the context is saved. */
enum { REMOTE_FD_DOORBELL, REMOTE_FD_WAKE, REMOTE_FD_CLIENT_PAGE, REMOTE_FD_NIC_PAGE, REMOTE_FD_LEDGER, REMOTE_N_FDS };

/* An import has n_mrs of them, then n_queues times the next struct, each with its arrays. */
struct remote_mr_told {
	uint64_t object;
	uint32_t key;
	struct nic_mr_attr attr;
};

/* A layout, with n_cqs and n_qps descriptions behind it. */
struct remote_queues_told {
	uint64_t object;
	uint64_t total_bytes;
	uint32_t n_cqs, n_qps;
	struct nic_queue_mem mem; /* without its descriptor */
};

/* ---- packets ------------------------------------------------------------------------------------------------------------ */

struct remote_packet {
	struct remote_head head;
	uint8_t *body; /* owned */
	int lost; /* -EMFILE, -ENOMEM: there was no room for the body, which has gone; head.bytes is 0. Otherwise 0 */
	unsigned int n_fds;
	int fds[REMOTE_MAX_FDS + 1]; /* owned */
};

#define REMOTE_PACKET_NONE ((struct remote_packet){0})

int remote_pair(int ret_fds[2]);
/* Descriptors are borrowed. is_urgent: -EAGAIN rather than to wait for room. */
int remote_send(int sock, const struct remote_head *head, const void *body, unsigned int n_fds, const int *fds, bool is_urgent);
/* At most nsec, or REMOTE_FOR_EVER. -EAGAIN: nothing came; -EPIPE: the other side has gone; -EBADMSG: it is broken. */
int remote_recv(int sock, uint64_t nsec, struct remote_packet *ret_packet);
/* An error of the other side. Others are of this packet alone: its size, memory or descriptors. */
bool remote_is_gone(int r);
void remote_packet_deinit(struct remote_packet *packet);
int remote_packet_take_fd(struct remote_packet *packet, unsigned int i);

/* ---- bodies of several parts ---------------------------------------------------------------------------------------------- */

struct remote_writer {
	uint8_t *buf; /* owned */
	size_t n, size;
	bool is_short; /* of memory */
};

void remote_put(struct remote_writer *writer, const void *data, size_t bytes);
void remote_writer_deinit(struct remote_writer *writer);

struct remote_reader {
	const uint8_t *at, *end;
};

/* False: there is not so much. */
bool remote_get(struct remote_reader *reader, void *data, size_t bytes);
static inline struct remote_reader remote_reader(const struct remote_packet *packet)
{
	/* bounded: the body is as long. */
	return (struct remote_reader){packet->body, packet->body ? packet->body + packet->head.bytes : NULL};
}

void remote_put_layout(struct remote_writer *writer, const struct nic_layout *layout, uint64_t object,
		       const struct nic_queue_mem *mem);
/* -EBADMSG, -ENOMEM. The caller deinitializes *layout in any case. */
int remote_get_layout(struct remote_reader *reader, struct remote_queues_told *ret_told, struct nic_layout *layout);

#endif
