/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the saved state of a session, and makes the session again from it. */
#ifndef SHMEMD_RESTART_IMPORT_H
#define SHMEMD_RESTART_IMPORT_H

#include "daemon/session/session.h"

struct import_nic;

/* A session's record as read. */
struct import {
	struct session *session; /* owned, until the import ends */
	int r; /* of import_run() */
	bool ended, has_pidfd;
	uint32_t n_inflight;
	struct quota_amount connection_amount, session_amount;
	unsigned int n_nics;
	struct session_nic *nics[SESSION_MAX_NICS]; /* owned, until the session has them */
	struct quota_amount nic_amounts[SESSION_MAX_NICS];
	const void *records[SESSION_MAX_NICS];
	size_t record_bytes[SESSION_MAX_NICS];
	struct import_nic *contexts; /* owned; what their NICs have to know */
	unsigned int n_contexts, n_imported;
	struct nic_imported imported[SESSION_MAX_NICS]; /* arrays are owned, what they name is the context's */
	uint32_t n_slots, n_freed, n_mrs, n_queues;
	struct {
		uint32_t n_nics, n_freed, n_mrs, n_queues, n_published, n_reported;
	} wanted; /* as the session says */
	uint64_t last_number;
	struct import_slot *freed; /* owned; slots that were used and are free, in the order in which they are used again */
	struct import_mr *mrs; /* owned */
	struct import_queues *queues; /* owned */
	uint32_t n_entries;
	struct import_entry *entries; /* owned */
};

struct import_slot {
	uint32_t slot;
	uint16_t generation;
	uint64_t freed;
};

struct import_head {
	uint64_t number;
	uint32_t handle;
	struct nic_record_part part; /* in the state's bytes */
	bool is_saved;
	struct quota_amount amount;
	uint32_t nic;
	int fd; /* owned; -1: none is at hand */
};

struct import_mr {
	struct import_head head;
	struct session_mr *mr; /* owned, until the session has it */
};

struct import_queues {
	struct import_head head;
	const void *qps; /* in the state's bytes, which need not lie at multiples of anything */
	uint32_t n_qps;
	struct session_queues *queues; /* owned likewise */
};

struct import_entry {
	struct publish_entry like; /* key, number, saved and data_bytes alone */
	struct quota_amount amount;
	const void *data; /* in the state's bytes */
};

/*
 * A session of a former daemon: what its state says, with the descriptors that the store has. Takes `state` in any case. Negative
 * errno, of this and of import_end(): it cannot be, nothing is left of it here but what workers let go of, and its client got the
 * reason where that was possible.
 */
int import_begin(struct registry *registry, uint64_t id, struct state *state, const void *bytes, size_t n, struct import **ret_import);
/* NICs import the contexts, which rest until every NIC may go on. Any thread; it may take as long as the session's user likes. */
void import_run(struct import *import);
/* Takes the import. 0 and *ret_session, which has no owner yet; it may have ended, and is then to be freed. */
int import_end(struct import *import, struct session **ret_session);
/* All three. */
int session_import(struct registry *registry, uint64_t id, struct state *state, const void *bytes, size_t n,
		   struct session **ret_session);

/*
 * Tells the client of a session of a former daemon, on its socket and in its health words, that no daemon goes on with it. For a
 * session whose state cannot be read. Its saved descriptors are the caller's to remove.
 */
void session_refuse(struct registry *registry, uint64_t id, const char *why);

#endif
