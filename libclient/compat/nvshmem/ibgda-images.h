/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images by which device code drives queues: its state, keys of the heap, and QPs. Pure: no GPU, no world.
 *
 * There is one NIC. RC QPs lead to other PEs, so many to each; one more leads to the PE itself and stands where device code looks for senders by
 * DC, which it uses for the PE itself alone. It may skip its flush of the NIC behind a get, which it has for senders by DC alone; soft NICs need none.
 *
 * Where a QP stands in its array differs by version if there are several to a PE, and a QP is counted in at one place alone, so versions of
 * different order have QPs of their own.
 *
 * Keys are found by pieces of the heap. DeepEP has code of its own for queues, which takes local keys from those in the state alone and does not
 * check the number of the piece. So pieces are so large that the state has the local keys of all of them.
 */
#ifndef SHMD_NVSHMEM_IBGDA_IMAGES_H
#define SHMD_NVSHMEM_IBGDA_IMAGES_H

#include "libclient/compat/nvshmem/ibgda-layout.h"
#include "libclient/compat/nvshmem/versions.h"

#define NVS_IBGDA_LOG2_LEAST_PIECE 29u /* of the heap: that of NVIDIA's library */
#define NVS_IBGDA_SLOTS 256u /* of results, of each QP */
#define NVS_IBGDA_RESULTS_BYTES ((uint64_t)NVS_IBGDA_SLOT_BYTES * (1 + NVS_IBGDA_SLOTS)) /* of a QP */

/* Versions that differ in what they count by in qp_group_switches. */
enum nvs_ibgda_group {
	NVS_IBGDA_GROUP_A, /* up to 3.4 */
	NVS_IBGDA_GROUP_B, /* 3.5 to 3.7 */
	NVS_IBGDA_GROUP_C, /* 3.8 */
	NVS_IBGDA_GROUPS,
};
enum nvs_ibgda_group nvs_ibgda_group_of(struct nvs_version version);

/* How many arrays of QPs serve all versions: one of each order. */
static inline uint32_t nvs_ibgda_orders(uint32_t n_rc)
{
	return n_rc > 1 ? 2 : 1;
}
/* Which of them. */
uint32_t nvs_ibgda_order_of(struct nvs_version version, uint32_t n_rc);
/* Where the QP number `rc` to `pe` stands. */
uint32_t nvs_ibgda_place(uint32_t order, uint32_t rc, uint32_t pe, uint32_t n_rc, uint32_t npes);

struct nvs_ibgda_facts {
	uint32_t npes, n_rc, log2_piece;
	uint32_t n_created; /* more to each PE, which device code from 3.5 on has by handles */
	uint64_t switches, cqs, dcis, rcs, buffers; /* addresses of what struct nvs_ibgda_state names */
	uint64_t rkeys; /* of all entries; those that the state has itself are there, too */
	const struct nvs_ibgda_key *first_lkeys, *first_rkeys; /* NVS_IBGDA_CONST_KEYS each */
};
/* Bytes of qp_group_switches, zeroed, for any version. */
uint32_t nvs_ibgda_switches_bytes(uint32_t n_rc);
void nvs_ibgda_state_fill(const struct nvs_ibgda_facts *facts, struct nvs_version version, struct nvs_ibgda_state *ret_state);

/* ---- keys of a range of the heap that is registered as one, from the beginning of a piece on */

struct nvs_ibgda_range {
	uint64_t begin, end; /* offsets in the heap */
	uint32_t log2_piece;
};
/* For a heap that grows to so many bytes. */
uint32_t nvs_ibgda_log2_piece(uint64_t heap_bytes);
/* Pieces of a heap of so many bytes; the last one may be a part. */
uint64_t nvs_ibgda_pieces(uint64_t heap_bytes, uint32_t log2_piece);
/* The range to register when the heap grows from `begin` to `end`: the new chunk, and the part of its first piece before it. */
struct nvs_ibgda_range nvs_ibgda_range_of(uint64_t begin, uint64_t end, uint32_t log2_piece);
/* lkeys: those of all pieces. rkeys: those of all PEs of the first piece, then of the second. */
void nvs_ibgda_lkeys_fill(struct nvs_ibgda_range range, uint64_t heap_base, uint32_t key_be, struct nvs_ibgda_key *lkeys);
void nvs_ibgda_rkeys_fill(struct nvs_ibgda_range range, uint32_t pe, uint32_t npes, uint32_t key_be, struct nvs_ibgda_key *rkeys);

/* ---- a QP and its CQ, as they lie at `at` and `cq_at` */

struct nvs_ibgda_queue {
	uint32_t qpn, wqebbs;
	uint64_t ring, dbrec, doorbell, cqes; /* as the GPU sees them; dbrec is the send word */
	uint64_t results; /* 1 + NVS_IBGDA_SLOTS slots; the NIC knows them by the same address */
	uint32_t results_lkey_be, results_rkey_be;
};
void nvs_ibgda_qp_fill(const struct nvs_ibgda_queue *queue, uint64_t at, uint64_t cq_at, struct nvs_ibgda_qp *ret_qp, struct nvs_ibgda_cq *ret_cq);

#endif
