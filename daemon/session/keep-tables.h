/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The saved fields of a session, for the writer and the reader. A field more, less or of
 * another meaning is another STATE_VERSION. Everything else is made anew: descriptors, queued output, the work of
 * workers.
 */
#ifndef SHMEMD_SESSION_KEEP_TABLES_H
#define SHMEMD_SESSION_KEEP_TABLES_H

#include "daemon/session/keep-codec.h"
#include "daemon/session/session.h"

/* Numbers that are never used again for something else. */
enum keep_tag {
	TAG_ENDED = 1, TAG_INFLIGHT, TAG_HAS_PIDFD,
	TAG_NIC_GUID = 4, TAG_NIC_NAME, TAG_NIC_RECORD,
	TAG_N_SLOTS, TAG_GENERATION, TAG_SLOT,
	TAG_MR_NUMBER, TAG_MR_NIC, TAG_QUEUES_NUMBER, TAG_QUEUES_NIC, TAG_QPS,
	TAG_ENTRY_NUMBER, TAG_PUBLISHED_DATA, TAG_REPLY,
	TAG_AMOUNT, TAG_HANDLE, TAG_IS_KEPT,
	TAG_N_GPUS, TAG_GPU, TAG_GPU_NIC,
	TAG_N_DOWN, TAG_DOWN_NIC,
	TAG_N_COUNTED, TAG_COUNTED_NIC,
	TAG_LAST_NUMBER, TAG_FREED, TAG_PART, TAG_QPS_NUMBER, TAG_NIC_PORT,
	TAG_N_NICS, TAG_N_FREED, TAG_N_MRS, TAG_N_QUEUES, TAG_N_PUBLISHED,
	TAG_FIELDS = 64, /* of the tables: each has 32 */
};
#define TAG_SESSION TAG_FIELDS
#define TAG_COUNTERS (TAG_FIELDS + 32)
#define TAG_NIC (TAG_FIELDS + 64)
#define TAG_MR (TAG_FIELDS + 96)
#define TAG_ENTRY (TAG_FIELDS + 128)
#define TAG_REGISTRY (TAG_FIELDS + 160)

KEEP_TABLE(keep_session,
	KEEP_N(TAG_SESSION, session, id),
	KEEP_N(TAG_SESSION + 1, session, started_nsec),
	KEEP_N(TAG_SESSION + 2, session, identity.uid),
	KEEP_N(TAG_SESSION + 3, session, identity.gid),
	KEEP_N(TAG_SESSION + 4, session, identity.pid),
	KEEP_T(TAG_SESSION + 5, session, identity.command),
	KEEP_T(TAG_SESSION + 6, session, identity.cgroup),
	KEEP_N(TAG_SESSION + 7, session, version),
	KEEP_T(TAG_SESSION + 8, session, library),
	KEEP_N(TAG_SESSION + 9, session, keep.last_published),
	KEEP_N(TAG_SESSION + 10, session, keep.request),
	KEEP_ENUM(TAG_SESSION + 11, session, keep.kind, MSG_KIND_MAX),
	KEEP_BOOL(TAG_SESSION + 12, session, is_watched),
);

KEEP_TABLE(keep_counters,
	KEEP_N(TAG_COUNTERS, nic_counters, wqes),
	KEEP_B(TAG_COUNTERS + 1, nic_counters, wqes_by_kind),
	KEEP_N(TAG_COUNTERS + 2, nic_counters, bytes_sent),
	KEEP_N(TAG_COUNTERS + 3, nic_counters, bytes_read),
	KEEP_N(TAG_COUNTERS + 4, nic_counters, recv_wqes),
	KEEP_N(TAG_COUNTERS + 5, nic_counters, error_cqes),
	KEEP_N(TAG_COUNTERS + 6, nic_counters, rnr_naks),
	KEEP_N(TAG_COUNTERS + 7, nic_counters, retries),
);

KEEP_TABLE(keep_nic,
	KEEP_ENUM(TAG_NIC, session_nic, doorbell, NIC_DOORBELL_UAR_MMAP),
	KEEP_BOOL(TAG_NIC + 1, session_nic, fell_back),
	KEEP_N(TAG_NIC + 2, session_nic, n_dc_peers),
	KEEP_N(TAG_NIC + 3, session_nic, n_rc_peers),
	KEEP_T(TAG_NIC + 4, session_nic, doorbell_reason),
	KEEP_FIELD(TAG_NIC + 5, KEEP_NUMBER, session_nic, n_kept, NIC_KEEP_FDS),
	KEEP_BOOL(TAG_NIC + 6, session_nic, told_memory),
	KEEP_T(TAG_NIC + 7, session_nic, gpu),
);

KEEP_TABLE(keep_mr,
	KEEP_ENUM(TAG_MR, session_mr, kind, NIC_MEM_PEERMEM),
	KEEP_N(TAG_MR + 1, session_mr, iova),
	KEEP_N(TAG_MR + 2, session_mr, length_bytes),
	KEEP_N(TAG_MR + 3, session_mr, access),
	KEEP_T(TAG_MR + 4, session_mr, reason),
	KEEP_N(TAG_MR + 5, session_mr, memory),
);

KEEP_TABLE(keep_entry,
	KEEP_N(TAG_ENTRY, publish_entry, key.uid),
	KEEP_N(TAG_ENTRY + 1, publish_entry, key.pe),
	KEEP_N(TAG_ENTRY + 2, publish_entry, key.slot),
	KEEP_B(TAG_ENTRY + 3, publish_entry, key.world),
	KEEP_FIELD(TAG_ENTRY + 4, KEEP_NUMBER, publish_entry, data_bytes, PUBLISH_DATA_BYTES),
	KEEP_N(TAG_ENTRY + 5, publish_entry, kept),
);

KEEP_TABLE(keep_registry,
	KEEP_N(TAG_REGISTRY, registry, last_id),
	KEEP_N(TAG_REGISTRY + 1, registry, sessions_total),
	KEEP_N(TAG_REGISTRY + 2, registry, refused_total),
	KEEP_FIELD(TAG_REGISTRY + 3, KEEP_NUMBER, registry, next_gpu, REGISTRY_MAX_GPUS - 1),
	KEEP_N(TAG_REGISTRY + 4, registry, counted),
);

/* The format of older daemons, without mappings: session-adopt.c adds them. */
KEEP_TABLE(keep_amount,
	{.tag = TAG_AMOUNT, .type = KEEP_BYTES, .offset = offsetof(struct quota_amount, n),
	 .size = QUOTA_KEPT_N * sizeof(uint64_t)},
);
_Static_assert(QUOTA_KEPT_N == 8, "states of older daemons have as many");

/* One QP of a batch, as it is known. */
struct keep_qp {
	uint32_t state, dest_qpn, first_error;
};

/*
 * Each object of a session is a record of its own in the session's state, and they are read in the order of their keys: session,
 * NICs, free slots as they are used again, regions and batches as they were made, what was published. The QPs of a batch
 * change alone, and follow it.
 */
enum keep_kind {
	KEEP_SESSION = 1,
	KEEP_NIC,
	KEEP_SLOT,
	KEEP_MR,
	KEEP_QUEUES,
	KEEP_ENTRY,
};
#define KEEP_NUMBER_MAX ((UINT64_C(1) << 48) - 1)
#define KEEP_PART_QPS 1u
static inline uint64_t keep_key(enum keep_kind kind, uint64_t number, unsigned int part)
{
	return (uint64_t)kind << 56 | (number & KEEP_NUMBER_MAX) << 8 | part;
}

/* One object each, as bytes. The parts of NICs' records are the caller's. */
void keep_put_session(struct keep_writer *writer, const struct session *session);
void keep_put_nic(struct keep_writer *writer, const struct session_nic *nic);
void keep_put_slot(struct keep_writer *writer, const struct resource_table *table, uint32_t slot);
void keep_put_mr(struct keep_writer *writer, const struct session_mr *mr, const struct nic_record_part *part);
void keep_put_queues(struct keep_writer *writer, const struct session_queues *queues, const struct nic_record_part *part);
void keep_put_qps(struct keep_writer *writer, const struct session_queues *queues);
void keep_put_entry(struct keep_writer *writer, const struct publish_entry *entry);

/* "s1f-m3" and the like: see session-keep.c. */
void keep_name(char name[KEEP_NAME_BYTES], uint64_t session, char kind, uint32_t number);
void keep_name_nic(char name[KEEP_NAME_BYTES], uint64_t session, unsigned int nic, unsigned int k);
void keep_name_of(char name[KEEP_NAME_BYTES], uint64_t session, const char *what);

#endif
