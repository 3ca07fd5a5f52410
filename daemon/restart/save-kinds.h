/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The saved fields of a session, for the writer and the reader. A field more, less or of
 * another meaning is another STATE_VERSION. Everything else is made anew: descriptors, queued output, the work of
 * workers.
 */
#ifndef SHMEMD_RESTART_SAVE_KINDS_H
#define SHMEMD_RESTART_SAVE_KINDS_H

#include "daemon/restart/save-codec.h"
#include "daemon/session/session.h"

/* Numbers that are never used again for something else. */
enum save_tag {
	TAG_ENDED = 1, TAG_INFLIGHT, TAG_HAS_PIDFD,
	TAG_NIC_GUID = 4, TAG_NIC_NAME, TAG_NIC_RECORD,
	TAG_N_SLOTS, TAG_GENERATION, TAG_SLOT,
	TAG_MR_NUMBER, TAG_MR_NIC, TAG_QUEUES_NUMBER, TAG_QUEUES_NIC, TAG_QPS,
	TAG_ENTRY_NUMBER, TAG_PUBLISHED_DATA, TAG_REPLY,
	TAG_AMOUNT, TAG_HANDLE, TAG_IS_SAVED,
	TAG_N_GPUS, TAG_GPU, TAG_GPU_NIC,
	TAG_N_DOWN, TAG_DOWN_NIC,
	TAG_N_COUNTED, TAG_COUNTED_NIC,
	TAG_LAST_NUMBER, TAG_FREED, TAG_PART, TAG_QPS_NUMBER, TAG_NIC_PORT,
	TAG_N_NICS, TAG_N_FREED, TAG_N_MRS, TAG_N_QUEUES, TAG_N_PUBLISHED, TAG_N_REPORTED,
	TAG_N_WAYS, TAG_N_RUNS,
	TAG_FIELDS = 64, /* of the tables: each has 32 */
};
#define TAG_SESSION TAG_FIELDS
#define TAG_COUNTERS (TAG_FIELDS + 32)
#define TAG_NIC (TAG_FIELDS + 64)
#define TAG_MR (TAG_FIELDS + 96)
#define TAG_ENTRY (TAG_FIELDS + 128)
#define TAG_REGISTRY (TAG_FIELDS + 160)
#define TAG_PE (TAG_FIELDS + 192)
#define TAG_WAY (TAG_FIELDS + 224)
#define TAG_RUN (TAG_FIELDS + 256)

FIELD_TABLE(session_fields,
	FIELD_N(TAG_SESSION, session, id),
	FIELD_N(TAG_SESSION + 1, session, started_nsec),
	FIELD_N(TAG_SESSION + 2, session, identity.uid),
	FIELD_N(TAG_SESSION + 3, session, identity.gid),
	FIELD_N(TAG_SESSION + 4, session, identity.pid),
	FIELD_T(TAG_SESSION + 5, session, identity.command),
	FIELD_T(TAG_SESSION + 6, session, identity.cgroup),
	FIELD_N(TAG_SESSION + 7, session, version),
	FIELD_T(TAG_SESSION + 8, session, library),
	FIELD_N(TAG_SESSION + 9, session, saved.last_published),
	FIELD_N(TAG_SESSION + 10, session, saved.request),
	FIELD_ENUM(TAG_SESSION + 11, session, saved.kind, MSG_KIND_MAX),
	FIELD_BOOL(TAG_SESSION + 12, session, is_watched),
);

FIELD_TABLE(counters_fields,
	FIELD_N(TAG_COUNTERS, nic_counters, wqes),
	FIELD_B(TAG_COUNTERS + 1, nic_counters, wqes_by_kind),
	FIELD_N(TAG_COUNTERS + 2, nic_counters, bytes_sent),
	FIELD_N(TAG_COUNTERS + 3, nic_counters, bytes_read),
	FIELD_N(TAG_COUNTERS + 4, nic_counters, recv_wqes),
	FIELD_N(TAG_COUNTERS + 5, nic_counters, error_cqes),
	FIELD_N(TAG_COUNTERS + 6, nic_counters, rnr_naks),
	FIELD_N(TAG_COUNTERS + 7, nic_counters, retries),
);

FIELD_TABLE(nic_fields,
	FIELD_ENUM(TAG_NIC, session_nic, doorbell, NIC_DOORBELL_UAR_MMAP),
	FIELD_BOOL(TAG_NIC + 1, session_nic, fell_back),
	FIELD_N(TAG_NIC + 2, session_nic, n_dc_peers),
	FIELD_N(TAG_NIC + 3, session_nic, n_rc_peers),
	FIELD_T(TAG_NIC + 4, session_nic, doorbell_reason),
	FIELD(TAG_NIC + 5, FIELD_NUMBER, session_nic, n_saved, NIC_SAVED_FDS),
	FIELD_BOOL(TAG_NIC + 6, session_nic, told_memory),
	FIELD_T(TAG_NIC + 7, session_nic, gpu),
);

FIELD_TABLE(mr_fields,
	FIELD_ENUM(TAG_MR, session_mr, kind, NIC_MEM_PEERMEM),
	FIELD_N(TAG_MR + 1, session_mr, iova),
	FIELD_N(TAG_MR + 2, session_mr, length_bytes),
	FIELD_N(TAG_MR + 3, session_mr, access),
	FIELD_T(TAG_MR + 4, session_mr, reason),
	FIELD_N(TAG_MR + 5, session_mr, memory),
);

FIELD_TABLE(entry_fields,
	FIELD_N(TAG_ENTRY, publish_entry, key.uid),
	FIELD_N(TAG_ENTRY + 1, publish_entry, key.pe),
	FIELD_N(TAG_ENTRY + 2, publish_entry, key.slot),
	FIELD_B(TAG_ENTRY + 3, publish_entry, key.world),
	FIELD(TAG_ENTRY + 4, FIELD_NUMBER, publish_entry, data_bytes, PUBLISH_DATA_BYTES),
	FIELD_N(TAG_ENTRY + 5, publish_entry, saved),
);

FIELD_TABLE(pe_fields,
	FIELD(TAG_PE, FIELD_NUMBER, session_pe, slot, SESSION_MAX_PES - 1),
	FIELD_N(TAG_PE + 1, session_pe, world),
	FIELD_N(TAG_PE + 2, session_pe, pe),
	FIELD_N(TAG_PE + 3, session_pe, n_pes),
	FIELD_N(TAG_PE + 4, session_pe, node),
	FIELD_N(TAG_PE + 5, session_pe, node_pe),
	FIELD_N(TAG_PE + 6, session_pe, heap_bytes),
	FIELD_N(TAG_PE + 7, session_pe, n_mapped),
	FIELD_N(TAG_PE + 8, session_pe, n_rc),
	FIELD_N(TAG_PE + 9, session_pe, n_dc),
	FIELD_T(TAG_PE + 10, session_pe, reason),
	FIELD_T(TAG_PE + 11, session_pe, gpu.gpu),
	FIELD_N(TAG_PE + 12, session_pe, gpu.heap_bytes),
	FIELD_N(TAG_PE + 13, session_pe, gpu.used_bytes),
	FIELD_N(TAG_PE + 14, session_pe, gpu.n_chunks),
	FIELD_N(TAG_PE + 15, session_pe, gpu.n_mapped),
	FIELD_N(TAG_PE + 16, session_pe, gpu.mem_kind),
	FIELD_N(TAG_PE + 17, session_pe, gpu.bytes_put),
	FIELD_N(TAG_PE + 18, session_pe, gpu.bytes_got),
);

FIELD_TABLE(way_fields,
	FIELD_ENUM(TAG_WAY, msg_pe_way, path, MSG_PE_PATH_MORE),
	FIELD_T(TAG_WAY + 1, msg_pe_way, nic),
	FIELD_T(TAG_WAY + 2, msg_pe_way, reason),
);

FIELD_TABLE(run_fields,
	FIELD_N(TAG_RUN, msg_pe_run, first),
	FIELD_N(TAG_RUN + 1, msg_pe_run, last),
	FIELD_N(TAG_RUN + 2, msg_pe_run, way),
);

FIELD_TABLE(registry_fields,
	FIELD_N(TAG_REGISTRY, registry, last_id),
	FIELD_N(TAG_REGISTRY + 1, registry, sessions_total),
	FIELD_N(TAG_REGISTRY + 2, registry, refused_total),
	FIELD(TAG_REGISTRY + 3, FIELD_NUMBER, registry, next_gpu, REGISTRY_MAX_GPUS - 1),
	FIELD_N(TAG_REGISTRY + 4, registry, counted),
);

/* The format of older daemons, without mappings: import.c adds them. */
FIELD_TABLE(amount_fields,
	{.tag = TAG_AMOUNT, .type = FIELD_BYTES, .offset = offsetof(struct quota_amount, n),
	 .size = QUOTA_SAVED_N * sizeof(uint64_t)},
);
_Static_assert(QUOTA_SAVED_N == 8, "states of older daemons have as many");

/* One QP of a batch, as it is known. */
struct saved_qp {
	uint32_t state, dest_qpn, first_error;
};

/*
 * Each object of a session is a record of its own in the session's state, and they are read in the order of their keys: session,
 * NICs, free slots as they are used again, regions and batches as they were made, what was published, PEs. The QPs of a batch
 * change alone, and follow it.
 */
#define SAVE_NUMBER_MAX ((UINT64_C(1) << 48) - 1)
static inline uint64_t save_key(enum save_kind kind, uint64_t number)
{
	enum save_kind record = kind == SAVE_QPS ? SAVE_QUEUES : kind;

	return (uint64_t)record << 56 | (number & SAVE_NUMBER_MAX) << 8 | (kind == SAVE_QPS);
}

struct import;

struct save_kind_ops {
	uint16_t tag; /* of its first item */
	/* `object` as enum save_kind says; `part` of its NIC's record, for regions and batches. */
	void (*put)(struct save_writer *writer, const struct session *session, const void *object, const struct nic_record_part *part);
	int (*read)(struct save_reader *reader, struct import *a);
};

extern const struct save_kind_ops save_kinds[SAVE_N];

/* All of a session into *a. -EBADMSG: no daemon wrote this; -ENODEV: a NIC that is not here; -ENOMEM. */
int save_read(struct save_reader *reader, struct import *a);

#endif
