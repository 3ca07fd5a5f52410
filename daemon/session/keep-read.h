/* SPDX-License-Identifier: Apache-2.0 */
/* What the state of a session says, before anything of it is made: between keep-read.c and session-adopt.c. */
#ifndef SHMEMD_SESSION_KEEP_READ_H
#define SHMEMD_SESSION_KEEP_READ_H

#include "daemon/session/keep-codec.h"
#include "daemon/session/session.h"

/* A session's record as read, before its NICs have imported anything. */
struct adopt {
	struct session *session; /* borrowed */
	bool ended, has_pidfd;
	uint32_t n_inflight;
	struct quota_amount connection_amount, session_amount;
	unsigned int n_nics;
	struct session_nic *nics[SESSION_MAX_NICS]; /* owned, until the session has them */
	struct quota_amount nic_amounts[SESSION_MAX_NICS];
	const void *records[SESSION_MAX_NICS];
	size_t record_bytes[SESSION_MAX_NICS];
	struct nic_imported imported[SESSION_MAX_NICS]; /* arrays are owned, what they name is the context's */
	uint32_t n_slots, n_freed, n_mrs, n_queues;
	struct {
		uint32_t n_nics, n_freed, n_mrs, n_queues, n_published;
	} wanted; /* as the session says */
	uint64_t last_number;
	struct adopt_slot *freed; /* owned; slots that were used and are free, in the order in which they are used again */
	struct adopt_mr *mrs; /* owned */
	struct adopt_queues *queues; /* owned */
};

struct adopt_slot {
	uint32_t slot;
	uint16_t generation;
	uint64_t freed;
};

struct adopt_head {
	uint64_t number;
	uint32_t handle;
	struct nic_record_part part; /* in the state's bytes */
	bool is_kept;
	struct quota_amount amount;
	uint32_t nic;
	int fd; /* owned; -1: none is at hand */
};

struct adopt_mr {
	struct adopt_head head;
	struct session_mr *mr; /* owned, until the session has it */
};

struct adopt_queues {
	struct adopt_head head;
	const void *qps; /* in the state's bytes, which need not lie at multiples of anything */
	uint32_t n_qps;
	struct session_queues *queues; /* owned likewise */
};

void adopt_deinit(struct adopt *a);

/* A descriptor of this session, the caller's; -ENOENT. */
int adopt_take(struct session *session, const char *name);
int adopt_take_number(struct session *session, char kind, uint32_t number);
/* The memory of one more region: a duplicate, the caller's. Negative errno: the store does not have it, or no descriptor is free. */
int adopt_take_memory(struct session *session, uint32_t number);
void adopt_memories_taken(struct session_keep *keep); /* after the last region: closes the descriptors behind the duplicates */

/*
 * Into a->session and *a, up to what was published, which is read last. -EBADMSG no daemon wrote this, -ENODEV a
 * NIC that is not here, -ENOMEM.
 */
int adopt_read(struct keep_reader *reader, struct adopt *a);

#endif
