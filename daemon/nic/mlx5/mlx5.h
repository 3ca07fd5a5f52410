/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to daemon/nic/mlx5: the backend's objects.
 *
 * Threads: those of nic.h. A context is used by one thread at a time and shares nothing that changes with other
 * contexts, but the list of them, which the control thread alone walks.
 */
#ifndef SHMEMD_NIC_MLX5_H
#define SHMEMD_NIC_MLX5_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "daemon/nic/mlx5/mlx5-cmd.h"
#include "daemon/nic/nic.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"

struct mlx5_nic {
	struct nic base; /* event_fd is an epoll set: the NIC's own events, those of each context, and more_fd */
	int more_fd; /* owned eventfd: contexts have news that were read and not yet told */
	struct ibv_context *ibv; /* owned; for questions only, no session's objects */
	struct mlx5_caps caps;
	struct mlx5_port port;
	char pci[16];
	struct list ctxs;
	FILE *trace; /* owned, or NULL */
	bool lost;
};

struct mlx5_cq {
	struct mlx5dv_devx_obj *obj; /* owned */
	struct mlx5_queues *queues;
	uint32_t cqn;
	uint32_t n_foreign_qps; /* of other batches */
	uint32_t arm_sn; /* of the last arming */
	uint32_t seen_ci; /* CQEs before this one were looked at */
	uint32_t n_idle_events; /* events that told nothing new */
	bool failed; /* overrun, not yet told */
	struct list news_link; /* mlx5_ctx.failed_cqs */
};

struct mlx5_qp {
	struct mlx5dv_devx_obj *obj; /* owned */
	struct mlx5_queues *queues;
	struct nic_qp *desc;
	struct mlx5_cq *send_cq;
	struct mlx5_cq *recv_cq;
	enum nic_qp_state state; /* as far as our own commands tell */
	uint32_t first_error;
	bool event_told; /* or ERR was asked for: nothing more to tell until the next RST */
	struct list news_link; /* mlx5_ctx.failed_qps: not yet told */
};

struct mlx5_queues {
	struct nic_queues base;
	struct mlx5_ctx *ctx;
	uint8_t *map; /* owned; NULL for a dmabuf, which the CPU does not reach */
	struct mlx5dv_devx_umem *umem; /* owned */
	struct mlx5_cq *cqs;
	struct mlx5_qp *qps;
};

/* What DCTs receive from: mlx5-dc.c. */
struct mlx5_pool {
	void *page; /* owned, as all */
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_obj *obj; /* NULL: not made */
	uint32_t rmpn;
};

struct mlx5_ctx {
	struct nic_ctx base;
	struct mlx5_nic *nic;
	struct ibv_context *ibv; /* owned, as all below */
	struct ibv_pd *pd;
	struct mlx5dv_devx_uar *uar; /* a page of its own: nobody else's doorbell rings these queues */
	struct mlx5dv_devx_obj *counter_set;
	struct mlx5_pool pool;
	struct mlx5dv_devx_event_channel *events;
	uint32_t pdn;
	uint32_t eqn;
	uint32_t counter_set_id;
	struct hash qps; /* by number */
	struct hash cqs;
	struct list failed_qps; /* news that were read and not yet told */
	struct list failed_cqs;
	unsigned int n_mrs;
	unsigned int n_queues;
	bool meddled; /* what libmlx5 keeps of an object is lost: there is nothing more for this one */
	struct list link; /* mlx5_nic.ctxs */
};

static inline struct mlx5_nic *mlx5_nic(struct nic *nic)
{
	return container_of(nic, struct mlx5_nic, base);
}

static inline struct mlx5_ctx *mlx5_ctx(struct nic_ctx *ctx)
{
	return container_of(ctx, struct mlx5_ctx, base);
}

/* ---- mlx5-exec.c: one firmware command -------------------------------------------------------------------------- */

/* `out` has cmd->out_bytes. All return a negative errno of nic.h. */
int mlx5_exec_create(struct mlx5_ctx *ctx, const struct mlx5_cmd *cmd, void *out,
		     struct mlx5dv_devx_obj **ret_obj);
int mlx5_exec_modify(struct mlx5_ctx *ctx, struct mlx5dv_devx_obj *obj, const struct mlx5_cmd *cmd);
int mlx5_exec_query(struct mlx5_ctx *ctx, struct mlx5dv_devx_obj *obj, const struct mlx5_cmd *cmd, void *out);
int mlx5_exec_general(struct mlx5_nic *nic, const struct mlx5_cmd *cmd, void *out);
/* errno of a call that is no firmware command. */
int mlx5_errno(int err);
/*
 * What destroying an object gave. It fails where the NIC is gone, and where the client was there first by the command
 * descriptor, or made something that uses it. libmlx5 then keeps its part for ever, so this client gets nothing new.
 */
void mlx5_note_destroyed(struct mlx5_ctx *ctx, int err);

/* ---- mlx5-open.c -------------------------------------------------------------------------------------------------- */

/*
 * A device context with DEVX. The capabilities that would stick to it, and so come with its command descriptor, are
 * laid down meanwhile by the calling thread.
 */
int mlx5_open(struct ibv_device *device, struct ibv_context **ret_ibv);

/* ---- mlx5-port.c ---------------------------------------------------------------------------------------------------- */

int mlx5_caps_query(struct mlx5_nic *nic);
/* What of the port stays: link, GID, MAC. */
int mlx5_port_init(struct mlx5_nic *nic, uint8_t number);
int mlx5_query(struct nic *nic, struct nic_info *ret_info);
/* Index of the entry that peers reach best; -ENOENT when a RoCE port has none of version 2. */
int mlx5_gid_choose(const struct ibv_gid_entry *entries, size_t n, uint8_t port, bool roce);
/* Where packets to this peer go next: asks the kernel, which asks the network. */
int mlx5_next_hop(struct mlx5_ctx *ctx, const struct nic_addr *remote, uint8_t ret_mac[6]);

/* ---- mlx5-events.c --------------------------------------------------------------------------------------------------- */

int mlx5_events_watch(struct mlx5_nic *nic, int fd, void *what);
void mlx5_events_unwatch(struct mlx5_nic *nic, int fd);
int mlx5_events_subscribe_qp(struct mlx5_ctx *ctx, struct mlx5_qp *qp);
/* Also arms it for error CQEs, where the CPU reaches it. */
int mlx5_events_subscribe_cq(struct mlx5_ctx *ctx, struct mlx5_cq *cq);
/* Reads what has happened: words beside dbrecs are set, events wait for mlx5_next_event(). */
void mlx5_events_read(struct mlx5_ctx *ctx);
/* After a QP's reset: errors of its former life are read and forgotten. */
void mlx5_events_settle(struct mlx5_ctx *ctx, struct mlx5_qp *qp);
int mlx5_next_event(struct nic *nic, struct nic_event *ret_event);

/* ---- the operations of nic.h ------------------------------------------------------------------------------------------- */

int mlx5_ctx_open(struct nic *nic, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx);
struct nic_ctx *mlx5_ctx_close(struct nic_ctx *ctx);
int mlx5_ctx_counters(struct nic_ctx *ctx, struct nic_counters *ret_counters);
void mlx5_ctx_quiesce(struct nic_ctx *ctx, uint64_t timeout_nsec);

int mlx5_mr_reg(struct nic_ctx *ctx, const struct nic_mr_attr *attr, struct nic_mr **ret_mr);
struct nic_mr *mlx5_mr_dereg(struct nic_mr *mr);
/* A sealed memfd, shared; `data` is the byte at `offset`. Undone by unmap_shared(). */
int mlx5_map_memfd(int fd, uint64_t offset, uint64_t bytes, bool writable, uint8_t **ret_data);

int mlx5_queues_create(struct nic_ctx *ctx, const struct nic_queue_mem *mem, struct nic_layout *layout,
		       struct nic_queues **ret_queues);
int mlx5_queues_destroy(struct nic_queues *queues);
int mlx5_queues_read(struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes);

/* The last answer of the kernel: in one request many peers are on one NIC. */
struct mlx5_next_hop {
	bool known;
	uint8_t gid[16];
	uint8_t mac[6];
};

int mlx5_ask_next_hop(struct mlx5_ctx *ctx, struct mlx5_next_hop *hop, const struct nic_addr *remote);

/* ---- mlx5-dc.c */

/* Makes the context's pool too, when there is none yet. */
int mlx5_dct_create(struct mlx5_ctx *ctx, struct mlx5_qp *qp, uint32_t user_index);
int mlx5_dct_query(struct mlx5_ctx *ctx, const struct mlx5_qp *qp, struct nic_qp_info *ret_info);
/* After all DCTs. Right when there is none. */
void mlx5_pool_deinit(struct mlx5_ctx *ctx);
int mlx5_resolve(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		 struct nic_dc_peer *ret_peers, unsigned int *ret_n_done);

int mlx5_connect(struct nic_ctx *ctx, unsigned int n, const struct nic_peer *peers,
		 const struct nic_qp_params *params, unsigned int *ret_n_done);
int mlx5_qp_modify(struct nic_ctx *ctx, uint32_t qpn, enum nic_qp_state state);
int mlx5_qp_query(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info);
int mlx5_qp_to_state(struct mlx5_ctx *ctx, struct mlx5_qp *qp, enum prm_opcode opcode, enum nic_qp_state state);
/* Syndrome of the error CQE at this index and whose it is; 0: it is none. */
uint32_t mlx5_cq_error_at(const struct mlx5_cq *cq, uint64_t index, uint32_t *ret_qpn);
/* Up to which CQE the NIC has written, and how many before that nobody has looked at; 0 too where the CPU cannot. */
uint64_t mlx5_cq_look(struct mlx5_ctx *ctx, const struct mlx5_cq *cq, uint64_t *ret_end);
/* The word beside the QP's dbrec; 0 takes it back. The first one stays. */
void mlx5_qp_tell_error(struct mlx5_qp *qp, uint32_t syndrome);

#endif
