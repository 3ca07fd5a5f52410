/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_UNIT_NIC_CLIENT_H
#define SHMD_TESTS_UNIT_NIC_CLIENT_H

/*
 * A client's side of a NIC, by hand: it maps what a session would hand out, builds WQEs byte by byte, and rings.
 * Nothing of the library is used, so a mistake there does not hide one in the backend.
 */

#include <stdbool.h>
#include <stdint.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "daemon/nic/nic.h"

#define RIG_MAX_NICS 8u
#define CLIENT_MEM_BYTES (1u << 20)
#define CLIENT_IOVA 0x7000000000ull
#define CLIENT_LOG2_SQ 6u
#define CLIENT_LOG2_CQ 7u
#define CLIENT_RQ_WQES 16u
#define CLIENT_LOG2_RQ_STRIDE 4u
#define CLIENT_QUIESCE_NSEC 1000000000ull

struct rig {
	struct list nics;
	struct nic *nic[RIG_MAX_NICS];
	unsigned int n_nics;
	int zygote; /* 0: no executor is in another process */
};

void rig_open(struct rig *rig, unsigned int n_nics, const char *fault);
/* SHMEMD_TEST_EXECUTORS=process: rig_open() is rig_open_remote(). */
bool rig_is_remote(void);
/* Each user's executors are in a process of their own. */
void rig_open_remote(struct rig *rig, unsigned int n_nics, const char *fault);
void rig_open_unsaved(struct rig *rig, unsigned int n_nics); /* as of a daemon without a store */
/* ConnectX NICs, real or simulated, where the build has that backend; the first n_nics are used. */
void rig_open_mlx5(struct rig *rig, unsigned int n_nics, const char *trace);
void rig_add_nic(struct rig *rig, struct nic *nic); /* for the functions above */
void rig_close(struct rig *rig);

struct client_qp {
	uint32_t sq_pi; /* WQEBBs posted */
	uint32_t rq_pi;
	uint32_t cq_ci;
};

struct client {
	struct nic_ctx *ctx;
	uint8_t *doorbell_page;
	const struct shmd_nic_page *nic_page; /* NULL: doorbells are the hardware's own */
	int mem_fd;
	uint8_t *mem;
	struct nic_mr *mr;
	int queue_fd;
	uint8_t *queue_mem;
	struct nic_queues *queues;
	struct client_qp *qps;
	unsigned int n_qps;
};

/* A memfd as the library makes it: sealed against shrinking, mapped at *ret_map. */
int client_memfd(uint64_t bytes, uint8_t **ret_map);

/* Looks at contexts of clients where the NIC wants that; never NIC_EVENT_LOOK. */
int client_next_event(struct nic *nic, struct nic_event *ret_event);
extern unsigned int client_n_looks; /* so far, in this process */
/* Another context that is looked at then, from NULL; or no more. */
void client_swap_ctx(struct nic_ctx *is, struct nic_ctx *becomes);
void client_open_ctx(struct client *c, struct nic *nic, uint64_t session_id);
void client_open_ctx_as(struct client *c, struct nic *nic, uint64_t session_id, enum nic_doorbell_mode doorbell);
/* For this user; the other functions open contexts of user 0. */
void client_open_ctx_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid);
/* One that is to outlive its NIC. */
void client_open_ctx_saved(struct client *c, struct nic *nic, uint64_t session_id);
void client_open_ctx_saved_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid);
void client_reg(struct client *c);
/* n_qps QPs, each with a CQ for both directions. */
void client_create(struct client *c, unsigned int n_qps, uint32_t qp_flags);
void client_create_as(struct client *c, const struct nic_queues_attr *attr);
/* The batch that was made with the context: what queues_take says, negative or 0. */
int client_take(struct client *c, const struct nic_queues_attr *attr);
/* The first three. */
void client_open(struct client *c, struct nic *nic, uint64_t session_id, unsigned int n_qps);
/* The same of this user's. */
void client_open_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid, unsigned int n_qps);
/* In the daemon's order; right at every half-built point. */
void client_close(struct client *c);

void client_attr(struct nic_queues_attr *attr, unsigned int n_qps, uint32_t qp_flags);
extern const struct nic_qp_params client_params;
/* Both directions. */
void client_connect(struct client *a, unsigned int i, struct client *b, unsigned int j);
void client_connect_as(struct client *a, unsigned int i, struct client *b, unsigned int j,
		       const struct nic_qp_params *params);

uint32_t client_qpn(const struct client *c, unsigned int i);

/* All parts of a context's record, joined; regions and batches that are NULL are not there. *ret_record is to be freed. */
int client_export_all(struct nic_ctx *ctx, struct nic_mr *const *mrs, unsigned int n_mrs, struct nic_queues *const *queues,
		      unsigned int n_queues, void **ret_record, size_t *ret_bytes);
int client_export(const struct client *c, void **ret_record, size_t *ret_bytes); /* of what this client has */

/* Post without a doorbell: the WQE and the dbrec. */
void client_post_write(struct client *c, unsigned int i, uint64_t local, const struct client *to,
		       uint64_t remote, uint32_t bytes);
void client_post_inline(struct client *c, unsigned int i, uint64_t value, const struct client *to,
			uint64_t remote);
void client_post_read(struct client *c, unsigned int i, uint64_t local, const struct client *to,
		      uint64_t remote, uint32_t bytes);
void client_post_fetch_add(struct client *c, unsigned int i, uint64_t local, const struct client *to,
			   uint64_t remote, uint64_t add);
/* Into a receive WQE of the peer; takes one WQEBB. */
void client_post_write_imm(struct client *c, unsigned int i, uint64_t local, const struct client *to, uint64_t remote,
			   uint32_t bytes, uint32_t imm);
void client_post_send(struct client *c, unsigned int i, uint64_t local, uint32_t bytes);
void client_post_recv(struct client *c, unsigned int i, uint64_t local, uint32_t bytes);
void client_publish(struct client *c, unsigned int i);

/* Store this QP's doorbell; wake the NIC when it sleeps. `word` variants for foreign numbers. */
void client_ring(struct client *c, unsigned int i);
void client_ring_word(struct client *c, uint32_t qpn);
void client_wake(struct client *c);

/* Next CQE of QP i's CQ, or false after the time limit. */
bool client_poll(struct client *c, unsigned int i, struct shmd_cqe *ret_cqe, uint64_t limit_nsec);
/* Must come, with success. */
void client_complete(struct client *c, unsigned int i);
uint8_t client_cqe_opcode(const struct shmd_cqe *cqe);
uint8_t client_cqe_syndrome(const struct shmd_cqe *cqe);

/* Waits until the NIC says that it sleeps. */
void client_wait_asleep(const struct client *c);

uint64_t client_word(const struct client *c, uint64_t offset);
void client_fill(struct client *c, uint64_t offset, uint32_t bytes, uint8_t seed);
/* All operations that move data, from QP 0 of a to QP 0 of b, verified. */
void client_exercise(struct client *a, struct client *b);
/* A message from QP 0 of a into a receive WQE of QP 0 of b. */
void client_send_and_receive(struct client *a, struct client *b);

#define CLIENT_LIMIT_NSEC 10000000000ull

#endif
