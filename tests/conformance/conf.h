/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite's fixture: two sessions with one QP or more between them, driven by raw bytes.
 *
 * A test opens a world, posts WQEs that it wrote itself from the layouts of <shmd/abi/...>, and says what the
 * memory of both sides must be afterwards. Nothing here knows a backend: the daemon under test is a private one
 * on a temporary socket, or the one that SHMEMD_SOCKET names; what its NICs can do is in a descriptor of
 * backends/. No device function is used, so a fault in those cannot hide one of the queues.
 *
 * Every helper ends the test when something is not as it must be.
 */
#ifndef TESTS_CONFORMANCE_CONF_H
#define TESTS_CONFORMANCE_CONF_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmemclient.h>
#include <shmd/abi/cqe.h>
#include <shmd/abi/dev-state.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "tests/lib/test.h"

/* How long a completion may take before the test fails; four times as long under a sanitizer. */
#define CONF_WAIT_NSEC 24000000000ull
extern uint64_t conf_wait_nsec; /* CONF_WAIT_NSEC unless a test asks for more */

/* ---- backends ------------------------------------------------------------------------------------------------ */

#define CONF_F_ATOMIC 0x1u /* 8-byte fetch-add and compare-swap */
#define CONF_F_MASKED_ATOMIC 0x2u /* masked forms at 4 and 8 bytes */
#define CONF_F_RECV 0x4u /* receive queues: sends and immediates */
#define CONF_F_SQD 0x8u /* the send queue can be drained and resumed */
#define CONF_F_EVENTS 0x10u /* QP errors are reported as events */
#define CONF_F_PLACEMENT_ORDER 0x20u /* a CPU at the target sees writes of one QP in their order */
#define CONF_F_KEEPS_CAUSE 0x40u /* in a collapsed CQ no flush covers the error CQE that is its cause */
#define CONF_F_LOSSLESS 0x80u /* nothing is lost or retried between QPs that are both ready */
#define CONF_F_PORT 0x100u /* an administrator can take the port down and up */
#define CONF_F_TELLS_ERROR 0x200u /* the word beside a QP's dbrec says why it is in ERR */
#define CONF_F_COUNTS 0x400u /* executed work requests and bytes are counted */
#define CONF_F_CPU_ATOMIC 0x800u /* atomics are exact against a CPU's on the same word */
#define CONF_F_ZERO_BASED 0x1000u /* regions may begin at address 0 */
#define CONF_F_END 0x2000u

struct conf_backend {
	const char *name; /* as in shmd_nic_info.backend */
	bool is_gpu; /* with memory of a GPU, behind the memory agent */
	uint32_t features; /* CONF_F_* */
	uint64_t max_message_bytes;
	unsigned int max_sges; /* data segments of one send WQE */
	unsigned int max_inline_bytes; /* of one send WQE */
	uint8_t no_rq_syndrome; /* of a send to a QP without receive queue */
};

extern const struct conf_backend conf_backend_soft, conf_backend_soft_gpu, conf_backend_mlx5;

/* Ends the test as skipped when the backend under test lacks one of the features. */
struct conf;
void conf_need(const struct conf *c, uint32_t features);
void conf_need_bytes(const struct conf *c, uint64_t message_bytes);
void conf_need_sges(const struct conf *c, unsigned int n_sges);
void conf_need_inline(const struct conf *c, unsigned int bytes);

/* ---- the world ----------------------------------------------------------------------------------------------- */

/* One registered range of a side. `want` is what it must contain; conf_check() compares all of it. */
struct conf_mem {
	struct shmd_mem *mem; /* NULL: GPU memory */
	struct shmd_gpu *gpu; /* or NULL */
	struct shmd_mr *mr;
	uint8_t *addr;
	uint8_t *want; /* owned */
	size_t bytes;
	shmd_be32 lkey_be, rkey_be;
};

struct conf_side {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_queues *queues;
	struct conf_qp *qps; /* owned */
	unsigned int n_qps;
	struct conf_mem mem;
	struct shmd_mem *queue_mem; /* NULL: the daemon's */
	bool is_guest; /* client is the other side's */
	bool shares_nic; /* nic too */
};

/* One end of a connection, and this program's view of its rings. */
struct conf_qp {
	struct conf_side *side;
	struct conf_qp *peer;
	unsigned int index; /* in the batch */
	struct shmd_dev_qp *dev; /* only its constant fields are used */
	struct shmd_recv_cq rcq;
	bool collapsed;
	uint64_t sq_pi, sq_ci; /* WQEBBs */
	uint8_t *slot_wqebbs; /* owned; by ring slot: size of the WQE that begins there */
	uint64_t cq_ci; /* CQEs taken from an ordinary CQ */
	uint64_t rq_pi, rq_ci; /* receive WQEs posted and used */
	uint64_t rcq_ci; /* CQEs taken from the receive CQ */
	uint64_t doorbell; /* first 8 bytes of the last WQE posted */
};

struct conf_attr {
	unsigned int n_qps; /* on each side; 0: 1 */
	bool two_nics; /* the sides use different NICs, where there are two */
	bool ordinary_cq; /* else collapsed */
	bool unconnected; /* leave all QPs in RST */
	bool one_session; /* both sides are the same session */
	bool gpu_driven; /* doorbells wake no thread */
	bool own_queue_mem; /* rings lie in memory of the client's */
	uint32_t sq_wqebbs; /* 0: 64 */
	uint32_t rq_wqes; /* 0: none */
	uint32_t rq_stride_bytes; /* 0: 64, four data segments */
	size_t mem_bytes; /* of each side; 0: 64 KiB */
	uint32_t mr_access; /* of the target's MR; 0: all */
	uint32_t qp_access; /* of the target's QPs; 0: all */
	const struct shmd_qp_params *params; /* NULL: time-outs so long that none passes by chance */
};

/* a[] and b[] are the QPs of the two sides; a[i] is connected to b[i]. Tests mostly post on a[0]. */
struct conf {
	const struct conf_backend *backend;
	struct conf_side ini, tgt;
	struct conf_qp *a, *b;
	const struct shmd_qp_params *params;
	bool lossy; /* packets were lost, so retries are no fault */
};

/* attr may be NULL. Both memories are filled with different patterns. */
void conf_open(struct conf *c, const struct conf_attr *attr);
/*
 * Closes everything; fails the test when a part refuses, when a QP in RTS had to retry although nothing can have been
 * lost, or when the private daemon does not end well.
 */
void conf_close(struct conf *c);

/* Retry quickly, give up soon: for tests of exceeded retries. */
extern const struct shmd_qp_params conf_impatient;
extern const struct shmd_qp_params conf_few_rnr_retries;

/*
 * Runs fn in two worlds: collapsed CQs and both sides on one NIC; ordinary CQs and a NIC for each side. attr may be
 * NULL; its two_nics is ignored, its ordinary_cq asks for ordinary CQs in both.
 */
void conf_each_variant(void (*fn)(struct conf *c, size_t arg), size_t arg, const struct conf_attr *attr);

/* A further session on the daemon under test; the caller closes it. */
struct shmd_client *conf_client_open(void);
/* Opens NIC number `nic` of the backend (modulo how many there are). */
struct shmd_nic *conf_nic_open(struct shmd_client *client, unsigned int nic);
void conf_connect(struct conf *c);
/* As an administrator: the port of this side's NIC. */
void conf_port_set(struct conf *c, const struct conf_side *side, bool up);
/* End one side with everything it has, as if its process had gone. */
void conf_side_close(struct conf_side *side);
/* To `state`, and in RST also forget this program's ring indexes. */
void conf_modify(struct conf_qp *qp, enum shmd_qp_state state);
struct shmd_qp_info conf_query(struct conf_qp *qp);

/* ---- memory --------------------------------------------------------------------------------------------------- */

void conf_mem_open(struct conf_side *side, struct conf_mem *mem, size_t bytes, uint32_t access);
void conf_mem_close(struct conf_mem *mem);
/* A second region, of a part of it that begins at `offset`, with addresses of its own. */
struct shmd_mr *conf_mr_of_part(struct conf_side *side, const struct conf_mem *mem, const struct shmd_mr_attr *part);
/* Position-dependent bytes: no two seeds or offsets look alike. */
void conf_pattern(void *buf, size_t bytes, uint64_t seed);
uint64_t conf_random(uint64_t *state);
/* `to` must contain at to_off what `from` is to contain at from_off. */
void conf_want_copy(struct conf_mem *to, size_t to_off, const struct conf_mem *from, size_t from_off,
		    size_t bytes);
void conf_want_bytes(struct conf_mem *to, size_t off, const void *data, size_t bytes);
void conf_check_mem_at(const char *where, const struct conf_mem *mem, const char *name);
/* Every byte of both sides is what it must be. */
#define conf_check(c_)                                                          \
	do {                                                                    \
		conf_check_mem_at(TEST_WHERE, &(c_)->ini.mem, "initiator");     \
		conf_check_mem_at(TEST_WHERE, &(c_)->tgt.mem, "target");        \
	} while (0)

/* ---- WQEs -------------------------------------------------------------------------------------------------------- */

/* A WQE being written: segments are appended in order. Fields named here land in the control segment. */
struct conf_wqe {
	uint8_t opcode, opmod, fm_ce_se, ds;
	uint32_t imm;
	uint32_t qpn_xor; /* hostile: makes the qpn wrong */
	int ds_written; /* hostile: ds as written, -1: the true one */
	uint8_t bytes[SHMD_WQE_MAX_WQEBBS * SHMD_WQEBB_BYTES];
};

void conf_wqe_init(struct conf_wqe *wqe, uint8_t opcode); /* a CQE always */
void conf_wqe_raddr(struct conf_wqe *wqe, uint64_t raddr, shmd_be32 rkey_be);
void conf_wqe_data(struct conf_wqe *wqe, uint64_t addr, uint32_t bytes, shmd_be32 lkey_be);
void conf_wqe_inline(struct conf_wqe *wqe, const void *data, size_t bytes);
void conf_wqe_segment(struct conf_wqe *wqe, const void *segment, size_t bytes);
unsigned int conf_wqe_wqebbs(const struct conf_wqe *wqe);

/* Whole requests of `qp` between its side's memory (loc) and its peer's (rem); offsets in bytes. */
void conf_nop(struct conf_wqe *wqe);
void conf_write(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem, size_t bytes);
void conf_write_inline(struct conf_wqe *wqe, const struct conf_qp *qp, const void *data, size_t bytes,
		       size_t rem);
void conf_read(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem, size_t bytes);
void conf_send(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t bytes);
void conf_fetch_add(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem, uint64_t add);
void conf_compare_swap(struct conf_wqe *wqe, const struct conf_qp *qp, size_t loc, size_t rem,
		       uint64_t compare, uint64_t swap);

/* ---- queues ---------------------------------------------------------------------------------------------------------- */

/* Copy into the ring and return the WQE's index. No dbrec, no doorbell. */
uint16_t conf_post(struct conf_qp *qp, const struct conf_wqe *wqe);
/* dbrec for everything posted, then doorbell, then wake a sleeping NIC thread. */
void conf_ring(struct conf_qp *qp);
void conf_dbrec(struct conf_qp *qp);
void conf_doorbell(struct conf_qp *qp, uint64_t value);
void conf_wake(struct conf_qp *qp);
/* conf_post, conf_ring. */
uint16_t conf_run(struct conf_qp *qp, const struct conf_wqe *wqe);
/* How many WQEBBs may be posted before completions must be awaited. */
unsigned int conf_room(const struct conf_qp *qp);

struct conf_sge {
	uint64_t addr;
	uint32_t bytes;
	shmd_be32 lkey_be;
};
/* One receive WQE; the dbrec is updated. Returns its index. */
uint16_t conf_post_recv_sges(struct conf_qp *qp, const struct conf_sge *sges, unsigned int n_sges);
/* Receive into the side's own memory. */
uint16_t conf_post_recv(struct conf_qp *qp, size_t loc, uint32_t bytes);

/* A CQE in host order. */
struct conf_cqe {
	uint8_t opcode; /* enum shmd_cqe_opcode */
	uint8_t syndrome; /* of an error */
	uint8_t wqe_opcode;
	uint16_t wqe_counter;
	uint32_t qpn;
	uint32_t byte_cnt;
	uint32_t imm;
};

/* The next CQE of an ordinary send CQ, or the newest of a collapsed one if it is still unread. */
bool conf_poll(struct conf_qp *qp, struct conf_cqe *ret_cqe);
/* Until WQE `index` has completed or an error CQE has come; returns that CQE. */
struct conf_cqe conf_wait_at(const char *where, struct conf_qp *qp, uint16_t index);
#define conf_wait(qp_, index_) conf_wait_at(TEST_WHERE, qp_, index_)
bool conf_poll_recv(struct conf_qp *qp, struct conf_cqe *ret_cqe);
struct conf_cqe conf_wait_recv_at(const char *where, struct conf_qp *qp);
#define conf_wait_recv(qp_) conf_wait_recv_at(TEST_WHERE, qp_)

void conf_expect_ok_at(const char *where, struct conf_qp *qp, uint16_t index);
void conf_expect_error_at(const char *where, struct conf_qp *qp, uint16_t index, uint8_t syndrome);
void conf_expect_recv_at(const char *where, struct conf_qp *qp, uint16_t index, uint8_t opcode,
			 uint32_t byte_cnt);
void conf_expect_recv_error_at(const char *where, struct conf_qp *qp, uint16_t index, uint8_t syndrome);
void conf_expect_no_cqe_at(const char *where, struct conf_qp *qp, unsigned int msec);
#define conf_expect_ok(qp_, index_) conf_expect_ok_at(TEST_WHERE, qp_, index_)
#define conf_expect_error(qp_, index_, syndrome_) conf_expect_error_at(TEST_WHERE, qp_, index_, syndrome_)
#define conf_expect_flush(qp_, index_) conf_expect_error_at(TEST_WHERE, qp_, index_, SHMD_SYNDROME_WR_FLUSH_ERR)
#define conf_expect_recv(qp_, index_, opcode_, byte_cnt_) \
	conf_expect_recv_at(TEST_WHERE, qp_, index_, opcode_, byte_cnt_)
#define conf_expect_recv_error(qp_, index_, syndrome_) \
	conf_expect_recv_error_at(TEST_WHERE, qp_, index_, syndrome_)
/* Nothing completes for so long; for requests that must wait for something. */
#define conf_expect_no_cqe(qp_, msec_) conf_expect_no_cqe_at(TEST_WHERE, qp_, msec_)
/* Post, ring and expect success. */
#define conf_do(qp_, wqe_) conf_expect_ok_at(TEST_WHERE, qp_, conf_run(qp_, wqe_))

/* Rounds of waiting with an end: while (!done) conf_pause(&t), which fails the test when it takes too long. */
struct conf_timer {
	const char *where;
	uint64_t end_nsec;
	uint32_t round;
};
void conf_pause(struct conf_timer *timer);
#define CONF_TIMER {.where = TEST_WHERE}
void conf_sleep_msec(unsigned int msec);

#endif
