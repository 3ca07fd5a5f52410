/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two engines, a transport that can lose, repeat and delay packets, a clock that stands still, and a client's side
 * of queues: a small WQE writer and CQE poller of their own.
 */
#ifndef TESTS_ENGINE_FIXTURE_H
#define TESTS_ENGINE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test-mem.h"
#include "tests/mlx5sim/engine-extra/extra.h"

#define N_NODES 2
#define MAX_EVENTS 64
#define MAX_REGIONS 16

struct world;

struct node {
	struct world *world;
	unsigned int index;
	struct engine *engine;
	struct engine_ledger *ledger; /* of what is made there; NULL: none */
	struct list inbox;
	struct packet_pool *packets; /* of those that came as bytes */
	struct engine_event events[MAX_EVENTS];
	unsigned int n_events;
};

struct region {
	struct node *node;
	struct test_mem mem;
	uint8_t *bytes;
	uint64_t iova;
	uint64_t size_bytes;
	uint32_t key;
	bool registered;
};

struct world {
	struct node nodes[N_NODES];
	uint64_t now_nsec;
	enum mem_mode mode;
	uint32_t chunk_bytes;
	struct delay_queue delays;
	struct region regions[MAX_REGIONS];
	unsigned int n_regions;
	unsigned int n_routes; /* taken and not put back */
	uint64_t n_packets;
	uint64_t seed;
	unsigned int budget;
	/* Faults of the transport. `lose` sees each packet with its number from 1; true: lost. */
	bool (*lose)(struct world *w, const struct engine_packet *pkt, uint64_t n);
	unsigned int lose_percent, repeat_percent, swap_percent;
	uint64_t n_lost;
	bool as_bytes; /* packets travel as bytes, as far as they can */
	uint64_t behind_until_nsec; /* until then a peer may answer yet */
	void *data;
	uint64_t n_ud_paths; /* asked for */
	uint8_t *arena; /* where queues and regions lie, when it is not NULL */
	size_t arena_left;
};

struct tcq {
	struct node *node;
	uint32_t cqn;
	uint32_t log2_entries;
	uint32_t flags;
	uint32_t ci;
	uint8_t *ring;
	struct shmd_dbrec *dbrec;
	struct engine_cq_attr attr; /* as it was made */
};

/* A client's side of an SRQ: it takes WQEs from the head of the free list and gives them back behind its tail. */
struct tsrq {
	struct node *node;
	uint32_t srqn;
	uint32_t log2_wqes, log2_stride;
	uint8_t *ring;
	uint32_t *dbrec;
	uint16_t head, tail, n_posted;
	struct engine_srq_attr attr;
};

struct tqp {
	struct node *node;
	uint32_t qpn;
	uint32_t log2_sq, log2_rq, log2_stride;
	uint8_t *sq, *rq;
	struct shmd_dbrec *dbrec;
	uint16_t pi, rq_pi;
	enum engine_qp_type type;
	struct tcq scq, rcq;
	uint32_t pdn;
	struct engine_qp_attr attr;
};

/* ---- the world ---- */
void world_init(struct world *w, enum mem_mode mode);
void world_init_chunk(struct world *w, enum mem_mode mode, uint32_t chunk_bytes);
void world_init_windows(struct world *w, enum mem_mode mode, uint32_t max_mws); /* and as many indirect keys; the others have none */
void world_deinit(struct world *w); /* asserts that nothing is left over */
bool world_step(struct world *w); /* false: nothing was ready */
void world_run(struct world *w); /* until nothing is ready; the clock stands */
void world_run_timers(struct world *w, uint64_t nsec); /* the same, letting time pass */
unsigned int world_count_events(const struct node *node, enum engine_event_kind kind);

void world_new_engine(struct world *w, unsigned int node, uint32_t max_mws, void (*fault)(void *owner, enum engine_step step));
void *world_alloc(struct world *w, size_t bytes); /* a client's memory, zeroed */
void world_free(struct world *w, void *p);
void region_register(struct region *r, uint32_t access, uint32_t pdn); /* its memory is there */
struct region *region_new(struct world *w, unsigned int node, uint64_t size_bytes);
struct region *region_new_attr(struct world *w, unsigned int node, uint64_t size_bytes, uint32_t access,
			       uint32_t pdn);
void region_fill(struct region *r, uint64_t seed);
void region_dereg(struct region *r);

/* ---- queues ---- */
struct tqp_attr {
	uint32_t log2_sq, log2_rq;
	uint32_t cq_flags; /* of the send CQ */
	uint32_t log2_cq;
	uint32_t pdn;
	uint32_t access; /* of the QP; 0: all */
	uint8_t timeout, retry_count, rnr_retry, rnr_timer, max_rd_atomic;
	uint32_t psn;
	enum engine_qp_type type;
	uint32_t qkey; /* UD */
	uint64_t dc_key; /* DCT */
	const struct tsrq *srq; /* NULL: a ring of its own */
	bool srqn_in_cqes;
	bool has_streams; /* DCI */
	uint32_t log2_errored_streams;
	uint32_t xrcdn; /* XRC_TGT */
};

#define TQP_ATTR \
	{.log2_sq = 8, .log2_rq = 6, .log2_cq = 10, .pdn = 1, .timeout = 14, .retry_count = 7, \
	 .rnr_retry = 7, .rnr_timer = 12, .max_rd_atomic = 16, .psn = 0xfffff0}

void tcq_init(struct tcq *cq, struct node *node, uint32_t cqn, uint32_t log2_entries, uint32_t flags);
void tcq_deinit(struct tcq *cq);
bool tcq_poll(struct tcq *cq, struct shmd_cqe *ret_cqe); /* ordinary CQ */
void tcq_expect_none(struct tcq *cq);

void tqp_init(struct tqp *qp, struct world *w, unsigned int node, const struct tqp_attr *attr);
void tqp_deinit(struct tqp *qp);
void tqp_start_dc(struct tqp *qp, const struct tqp_attr *attr); /* a DCI to RTS, a DCT to RTR */
void tqp_connect(struct tqp *a, struct tqp *b, const struct tqp_attr *attr);
int tqp_to_init(struct tqp *qp, const struct tqp_attr *attr);
int tqp_to_rtr(struct tqp *qp, const struct tqp *peer, const struct tqp_attr *attr);
int tqp_to_rts(struct tqp *qp, const struct tqp_attr *attr);
int tqp_to(struct tqp *qp, enum engine_qp_state state);
struct engine_qp_info tqp_info(const struct tqp *qp);

void tsrq_init(struct tsrq *srq, struct world *w, unsigned int node, uint32_t pdn, uint32_t log2_wqes);
/* For the XRC_TGTs of this domain; its user index is its number + 0x20000. */
void tsrq_init_xrc(struct tsrq *srq, struct world *w, unsigned int node, uint32_t pdn, uint32_t log2_wqes, uint32_t xrcdn,
		   const struct tcq *cq);
void tsrq_deinit(struct tsrq *srq);
uint16_t tsrq_post(struct tsrq *srq, const struct region *dst, uint64_t offset, uint32_t bytes); /* its index */
void tsrq_give_back(struct tsrq *srq, uint16_t index);

/* A connected pair on two engines, or on one. */
struct pair {
	struct world *w;
	struct tqp a, b;
};
void pair_init(struct pair *p, struct world *w, const struct tqp_attr *attr);
void pair_init_nodes(struct pair *p, struct world *w, unsigned int a, unsigned int b,
		     const struct tqp_attr *attr);
void pair_deinit(struct pair *p);

/* The start of most tests: two engines, a region on each, the local one filled, and a connected pair. */
struct setup {
	struct world w;
	struct pair p;
	struct region *local, *remote;
};
/* attr NULL: TQP_ATTR. */
void setup_init(struct setup *s, enum mem_mode mode, uint64_t region_bytes, const struct tqp_attr *attr);
void setup_fill(struct setup *s, uint64_t region_bytes, const struct tqp_attr *attr); /* of a world that is there */
void setup_deinit(struct setup *s);

/* ---- WQEs ---- */
#define SIGNALED 0x1u
#define FENCE 0x2u
#define SOLICITED 0x4u

struct wqe {
	uint8_t bytes[1024];
	unsigned int ds;
	unsigned int flags;
};

void wqe_begin(struct wqe *wqe, unsigned int opcode, unsigned int flags);
void wqe_imm(struct wqe *wqe, uint32_t imm);
void wqe_opmod(struct wqe *wqe, uint8_t opmod);
void wqe_av(struct wqe *wqe, const struct tqp *to, uint32_t qkey); /* the long form */
void wqe_dc_av(struct wqe *wqe, const struct tqp *to, uint64_t dc_key);
void wqe_xrc(struct wqe *wqe, uint32_t srqn);
void wqe_raddr(struct wqe *wqe, uint64_t raddr, uint32_t rkey);
void wqe_data(struct wqe *wqe, uint64_t addr, uint32_t lkey, uint32_t bytes);
void wqe_inline(struct wqe *wqe, const void *data, uint32_t bytes);
void wqe_words64(struct wqe *wqe, const uint64_t *words, unsigned int n);
void wqe_words32(struct wqe *wqe, const uint32_t *words, unsigned int n);
uint16_t tqp_post(struct tqp *qp, struct wqe *wqe); /* its index; no doorbell */
void tqp_ring(struct tqp *qp);

/* Whole requests; local and remote offsets in regions. Return the WQE's index. */
uint16_t post_write(struct tqp *qp, unsigned int flags, struct region *src, uint64_t src_offset,
		    struct region *dst, uint64_t dst_offset, uint32_t bytes);
uint16_t post_read(struct tqp *qp, unsigned int flags, struct region *dst, uint64_t dst_offset,
		   struct region *src, uint64_t src_offset, uint32_t bytes);
uint16_t post_send(struct tqp *qp, unsigned int flags, struct region *src, uint64_t offset, uint32_t bytes);
uint16_t post_fadd(struct tqp *qp, unsigned int flags, struct region *result, uint64_t result_offset,
		   struct region *word, uint64_t word_offset, uint64_t add);
void post_recv(struct tqp *qp, struct region *dst, uint64_t offset, uint32_t bytes);
void post_recv_raw(struct tqp *qp, const void *wqe, size_t bytes);

/* ---- expectations ---- */
void expect_cqe(struct tcq *cq, uint8_t opcode, uint16_t wqe_counter, struct shmd_cqe *ret_cqe);
void expect_ok(struct tqp *qp, uint16_t index); /* requester, ordinary CQ */
void expect_error(struct tcq *cq, bool responder, uint16_t index, uint8_t syndrome);

#define FOR_EACH_MODE(mode) for (enum mem_mode mode = 0; mode < N_MEM_MODES; mode++)

#endif
