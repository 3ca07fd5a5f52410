/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of fuzz-engine: the laboratory, and what its client writes. */
#ifndef TESTS_FUZZ_ENGINE_H
#define TESTS_FUZZ_ENGINE_H

#include "daemon/engine/ledger.h"
#include "tests/unit/engine/test-mem.h"

#define N_SIDES 2
#define N_INDIRECTS 2u
#define GUARD_BYTES 64u
#define GUARD 0xa5u
#define LOG2_SQ 4u
#define LOG2_RQ 3u
#define LOG2_STRIDE 6u
#define LOG2_CQ 3u
#define DATA_BYTES 4096u
#define QKEY 0x1234u

/* A side's queue memory. */
struct queue_memory {
	uint8_t guard_before[GUARD_BYTES];
	uint8_t sq[64u << LOG2_SQ];
	uint8_t rq[1u << (LOG2_RQ + LOG2_STRIDE)]; /* of the QP, or of the SRQ */
	uint8_t cqs[2][64u << LOG2_CQ];
	struct shmd_dbrec cq_dbrecs[2];
	struct shmd_dbrec dbrec;
	uint8_t guard_after[GUARD_BYTES];
};

#define QUEUE_MR_BYTES (sizeof(struct queue_memory) - 2 * GUARD_BYTES)

enum { DATA, QUEUES, N_MRS };

struct side {
	struct test_mem mems[N_MRS];
	struct queue_memory *q;
	uint64_t iova[N_MRS];
	uint32_t key[N_MRS];
	bool registered[N_MRS];
	uint32_t qpn;
	bool has_qp;
	bool has_srq;
	uint16_t pi, rq_pi;
	/* As they were made. */
	struct engine_qp_attr qp_attr;
	struct engine_cq_attr cq_attrs[2];
	struct engine_srq_attr srq_attr;
};

struct lab {
	const uint8_t *bytes;
	size_t left;
	struct engine *engine;
	void *ledger_memory; /* NULL: no ledger, but windows and indirect keys */
	struct engine_ledger *ledger;
	uint32_t chunk_bytes;
	struct side sides[N_SIDES];
	struct list inbox;
	struct delay_queue delays;
	uint64_t now_nsec;
	unsigned int n_routes;
	unsigned int n_lose; /* packets still to be lost */
	uint32_t next_qpn;
	uint8_t cq_flags, timeout, retries;
	enum engine_qp_type type; /* DCI, XRC_INI: of the first side, and the other one has a DCT or XRC_TGT */
	bool has_srq;
	bool has_streams; /* of the DCI; two in error are the end */
};

/* A byte of the program: zero behind its end. */
uint32_t take(struct lab *lab, unsigned int bytes);
bool is_xrc(const struct lab *lab);
uint32_t window_key(const struct lab *lab, const struct side *side);
uint32_t indirect_key(const struct lab *lab, const struct side *side, unsigned int which);
void new_engine(struct lab *lab);
void reg(struct lab *lab, struct side *side, unsigned int which);

/* fuzz-engine-client.c: bytes into a ring; WQEs, and their doorbell records. */
void write_ring(struct lab *lab, uint8_t *ring, size_t ring_bytes);
void post(struct lab *lab, struct side *side);
void post_umr(struct lab *lab, struct side *side);
void post_layout(struct lab *lab, struct side *side);
void post_through_window(struct lab *lab, struct side *side);
void post_recv(struct lab *lab, struct side *side);

/* fuzz-engine-lives.c: an engine goes between two calls, and another one goes on with its ledger. */
void lives_begin(struct lab *lab);
void lives_open(struct lab *lab); /* with each engine */
void lives_restart(struct lab *lab);
void lives_end(struct lab *lab); /* the last engine is gone */

#endif
