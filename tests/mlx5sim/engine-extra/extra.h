/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services beyond RC and DC, for engine_attr.extension: UC, UD, XRC and raw packet QPs, memory windows, indirect keys,
 * streams of DCIs; and the calls on their objects.
 */
#ifndef SHMEMD_ENGINE_EXTRA_H
#define SHMEMD_ENGINE_EXTRA_H

#include "daemon/engine/engine.h"

extern const struct engine_extension engine_extra;

/*
 * A memory window: a part of a region under a key of its own, bound and freed by WQEs of RC and UC QPs in its PD. The low
 * byte of the key is the client's to choose at each binding. Type 2 serves the QP alone that bound it, and can be freed by a
 * SEND of its peer. When its region goes, it is free.
 */
struct engine_mw_attr {
	uint32_t key; /* the upper 24 bits stay; no region and no other window has them */
	uint32_t pdn;
	bool is_type_2;
};

int engine_mw_create(struct engine *engine, const struct engine_mw_attr *attr); /* free */
int engine_mw_destroy(struct engine *engine, uint32_t key); /* whatever its low byte is; -ENOENT */

/*
 * An indirect key: a region that consists of parts of other regions, and of other indirect keys, of its PD, which it names by
 * key and address. If the flags say that the client may, UMRs change everything but `pdn` and the limits, and the peer of a QP in its
 * PD makes it free by a SEND. A part that leads nowhere is a protection error of those who use it.
 */
#define ENGINE_MAX_PARTS 4096u

struct engine_indirect_attr {
	uint32_t key; /* the upper 24 bits stay; no region, window or other indirect key has them */
	uint32_t pdn;
	uint32_t access;
	uint64_t iova, length_bytes; /* length 0: it opens nothing */
	uint32_t max_parts; /* 1..ENGINE_MAX_PARTS */
	uint64_t part_bytes; /* of each part; 0: each says its own length (KLMs) */
	bool is_free; /* opens nothing until a UMR says otherwise */
	bool may_change, may_invalidate;
	const void *list; /* parts, as wqe_parse_layout() reads them */
	size_t list_bytes; /* 0: none yet */
};

int engine_indirect_create(struct engine *engine, const struct engine_indirect_attr *attr); /* -EINVAL, -ENOSPC, -EEXIST */
int engine_indirect_destroy(struct engine *engine, uint32_t key); /* whatever its low byte is; -ENOENT */

/* How many CQEs were written, ever; the index of the next one. -ENOENT. */
int engine_cq_producer(struct engine *engine, uint32_t cqn, uint32_t *ret_pi);

struct engine_srq_info {
	uint32_t limit; /* 0: not armed, or its event has been */
	uint32_t pi; /* last value read from the dbrec, 16 bits */
	uint32_t ci; /* WQEs taken ever, 16 bits */
	uint32_t next_index; /* where the next WQE lies */
	bool error; /* ENGINE_EVENT_SRQ_ERROR */
};

int engine_srq_query(struct engine *engine, uint32_t srqn, struct engine_srq_info *ret_info);

/*
 * Go on in another ring, which is filled with 0xff here. The old one ends with a CQE of opcode SHMD_CQE_RESIZE; what lies
 * before it the client moves itself. -ENOENT; -EINVAL also for a collapsed CQ and for more CQEs than the new ring holds;
 * -ENOSPC when the old ring is full; -EOPNOTSUPP for a CQ with a ledger.
 */
int engine_cq_resize(struct engine *engine, uint32_t cqn, void *ring, uint32_t log2_entries);

/*
 * A stream of a DCI in RTS that is in error takes WQEs again. Older WQEs that the engine has fetched still end in flushes.
 * -ENOENT; -EINVAL also for a stream that is not in error.
 */
int engine_qp_reset_stream(struct engine *engine, uint32_t qpn, uint16_t stream);

#endif
