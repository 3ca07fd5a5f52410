/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of libibverbs and libmlx5 for tests under mlx5sim with two devices on RoCE. Everything asserts. */
#ifndef SHMEMD_TESTS_MLX5SIM_FIXTURE_H
#define SHMEMD_TESTS_MLX5SIM_FIXTURE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#define BYTES 65536u
#define GID_IPV4 3
#define GID_IPV6 1
#define GRH_BYTES 40u
#define UD_MTU 1024u
#define QKEY 0x1234567u
#define DC_KEY 0xfeedfacecafebeefu
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define PORT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define PEER_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RETRY_MASK (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define DCT_RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER)

/* One device with memory and one CQ. */
struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint8_t *memory;
};

void side_init(struct side *side, unsigned int nic);
void side_deinit(struct side *side);
void sides_init(struct side sides[2]);
void sides_deinit(struct side sides[2]);

struct ibv_qp *make_qp(const struct side *side, enum ibv_qp_type type, struct ibv_srq *srq);
struct ibv_srq *make_srq(const struct side *side);
struct ibv_ah_attr address(const struct side *of, uint8_t gid_index);
void connect_to(struct ibv_qp *qp, const struct side *peer, uint32_t qpn); /* RC or UC, to RTS */
void start_ud(struct ibv_qp *qp, uint32_t qkey);
enum ibv_qp_state state_of(struct ibv_qp *qp);

struct ibv_wc wait_wc(struct ibv_cq *cq);
void expect_no_wc(struct ibv_cq *cq);
struct ibv_async_event wait_event(struct ibv_context *context);

struct ibv_sge sge_of(const struct side *side, uint32_t offset, uint32_t bytes);
/* number n lands at n * 2048 */
void post_recv(const struct side *side, struct ibv_qp *qp, struct ibv_srq *srq, unsigned int n);
/* from the start of memory */
void post_send(const struct side *side, struct ibv_qp *qp, struct ibv_send_wr wr, uint32_t bytes);
enum ibv_wc_status send_bytes(const struct side *side, struct ibv_qp *qp, uint32_t bytes);

/* Two UD QPs, and the address of the second. */
struct datagrams {
	struct side sides[2];
	struct ibv_qp *qps[2];
	struct ibv_ah *ah;
};

void datagrams_init(struct datagrams *d, uint8_t gid_index);
void datagrams_deinit(struct datagrams *d);
enum ibv_wc_status datagram(const struct datagrams *d, uint32_t qpn, uint32_t qkey, uint32_t bytes);

/* Two RC connections whose receivers share a queue. */
struct shared {
	struct side sides[2];
	struct ibv_srq *srq; /* of sides[1] */
	struct ibv_qp *from[2], *to[2];
};

void shared_init(struct shared *s);
void shared_deinit(struct shared *s);

/* A DCI on the first device, a DCT on the second. */
struct dc {
	struct side sides[2];
	struct ibv_srq *srq;
	struct ibv_qp *dci, *dct;
	struct ibv_qp_ex *dci_ex;
	struct mlx5dv_qp_ex *dci_dv;
	struct ibv_ah *ah;
};

void dc_init(struct dc *dc, unsigned int access);
void dc_deinit(struct dc *dc);
struct ibv_qp *make_dct(const struct dc *dc, struct ibv_srq *srq);
void start_dci(const struct dc *dc);
/* 64 bytes of memory 0 to offset 128 of memory 1, or the other way round */
enum ibv_wc_status dc_request(const struct dc *dc, enum ibv_wr_opcode opcode, uint64_t key);

#endif
