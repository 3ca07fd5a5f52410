/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture.h. */
#include "tests/mlx5sim/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/test.h"

void side_init(struct side *side, unsigned int nic)
{
	struct ibv_device **list;
	int n;

	list = ibv_get_device_list(&n);
	ASSERT(list);
	ASSERT_EQ(n, 2);
	side->context = ibv_open_device(list[nic]);
	ASSERT(side->context);
	ibv_free_device_list(list);
	side->pd = ibv_alloc_pd(side->context);
	side->channel = ibv_create_comp_channel(side->context);
	ASSERT(side->pd && side->channel);
	side->cq = ibv_create_cq(side->context, 63, NULL, side->channel, 0);
	side->memory = aligned_alloc(4096, BYTES);
	ASSERT(side->cq && side->memory);
	memset(side->memory, (int)nic + 1, BYTES);
	side->mr = ibv_reg_mr(side->pd, side->memory, BYTES, ALL_ACCESS);
	ASSERT(side->mr);
}

void side_deinit(struct side *side)
{
	ASSERT_EQ(ibv_dereg_mr(side->mr), 0);
	ASSERT_EQ(ibv_destroy_cq(side->cq), 0);
	ASSERT_EQ(ibv_destroy_comp_channel(side->channel), 0);
	ASSERT_EQ(ibv_dealloc_pd(side->pd), 0);
	ASSERT_EQ(ibv_close_device(side->context), 0);
	free(side->memory);
}

void sides_init(struct side sides[2])
{
	side_init(&sides[0], 0);
	side_init(&sides[1], 1);
}

void sides_deinit(struct side sides[2])
{
	side_deinit(&sides[0]);
	side_deinit(&sides[1]);
}

struct ibv_qp *make_qp(const struct side *side, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.srq = srq,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = type,
	};

	return ibv_create_qp(side->pd, &attr);
}

struct ibv_srq *make_srq(const struct side *side)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 10, .max_sge = 2}};

	return ibv_create_srq(side->pd, &attr);
}

struct ibv_ah_attr address(const struct side *of, uint8_t gid_index)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}};

	ASSERT_EQ(ibv_query_gid(of->context, 1, gid_index, &attr.grh.dgid), 0);
	return attr;
}

void connect_to(struct ibv_qp *qp, const struct side *peer, uint32_t qpn)
{
	bool is_rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS};

	ASSERT_EQ(ibv_modify_qp(qp, &attr, PORT_MASK | IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = qpn,
				    .max_dest_rd_atomic = 16,
				    .min_rnr_timer = 1,
				    .ah_attr = address(peer, GID_IPV4)};
	ASSERT_EQ(
		ibv_modify_qp(
			qp, &attr,
			PEER_MASK | (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
		0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 7, .max_rd_atomic = 16};
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (is_rc ? RETRY_MASK : 0)),
		  0);
}

void start_ud(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	ASSERT_EQ(ibv_modify_qp(qp, &attr, PORT_MASK | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

struct ibv_wc wait_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
		ASSERT_LE(0, n);
		if (!n)
			nanosleep(&(struct timespec){0, 50000}, NULL);
	} while (!n);
	return wc;
}

void expect_no_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

struct ibv_sge sge_of(const struct side *side, uint32_t offset, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)side->memory + offset, bytes, side->mr->lkey};
}

void post_recv(const struct side *side, struct ibv_qp *qp, struct ibv_srq *srq, unsigned int n)
{
	struct ibv_sge sge = sge_of(side, n * 2048, 2048);
	struct ibv_recv_wr wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1}, *bad;

	ASSERT_EQ(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad), 0);
}

void post_send(const struct side *side, struct ibv_qp *qp, struct ibv_send_wr wr, uint32_t bytes)
{
	struct ibv_sge sge = sge_of(side, 0, bytes);
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_SIGNALED;
	ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

enum ibv_wc_status send_bytes(const struct side *side, struct ibv_qp *qp, uint32_t bytes)
{
	post_send(side, qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, bytes);
	return wait_wc(side->cq).status;
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

struct ibv_async_event wait_event(struct ibv_context *context)
{
	struct ibv_async_event event;

	ASSERT_EQ(ibv_get_async_event(context, &event), 0);
	ibv_ack_async_event(&event);
	return event;
}

/* ---- sets of objects ---- */

void datagrams_init(struct datagrams *d, uint8_t gid_index)
{
	struct ibv_ah_attr attr;

	sides_init(d->sides);
	for (int i = 0; i < 2; i++) {
		d->qps[i] = make_qp(&d->sides[i], IBV_QPT_UD, NULL);
		ASSERT(d->qps[i]);
		start_ud(d->qps[i], QKEY + (unsigned int)i);
	}
	attr = address(&d->sides[1], gid_index);
	attr.grh.traffic_class = 0x68;
	attr.grh.flow_label = 0x54321;
	d->ah = ibv_create_ah(d->sides[0].pd, &attr);
	ASSERT(d->ah);
}

void datagrams_deinit(struct datagrams *d)
{
	ASSERT_EQ(ibv_destroy_ah(d->ah), 0);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(ibv_destroy_qp(d->qps[i]), 0);
	sides_deinit(d->sides);
}

enum ibv_wc_status datagram(const struct datagrams *d, uint32_t qpn, uint32_t qkey, uint32_t bytes)
{
	post_send(&d->sides[0], d->qps[0],
		  (struct ibv_send_wr){
			  .opcode = IBV_WR_SEND_WITH_IMM,
			  .imm_data = 77,
			  .wr.ud = {.ah = d->ah, .remote_qpn = qpn, .remote_qkey = qkey}},
		  bytes);
	return wait_wc(d->sides[0].cq).status;
}

void shared_init(struct shared *s)
{
	sides_init(s->sides);
	s->srq = make_srq(&s->sides[1]);
	ASSERT(s->srq);
	for (int i = 0; i < 2; i++) {
		s->from[i] = make_qp(&s->sides[0], IBV_QPT_RC, NULL);
		s->to[i] = make_qp(&s->sides[1], IBV_QPT_RC, s->srq);
		ASSERT(s->from[i] && s->to[i]);
		connect_to(s->from[i], &s->sides[1], s->to[i]->qp_num);
		connect_to(s->to[i], &s->sides[0], s->from[i]->qp_num);
	}
}

void shared_deinit(struct shared *s)
{
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(ibv_destroy_qp(s->from[i]), 0);
		ASSERT_EQ(ibv_destroy_qp(s->to[i]), 0);
	}
	ASSERT_EQ(ibv_destroy_srq(s->srq), 0);
	sides_deinit(s->sides);
}

struct ibv_qp *make_dct(const struct dc *dc, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_DRIVER,
					   .send_cq = dc->sides[1].cq,
					   .recv_cq = dc->sides[1].cq,
					   .srq = srq,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = dc->sides[1].pd};
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
		.dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = DC_KEY}};

	return mlx5dv_create_qp(dc->sides[1].context, &attr, &dv);
}

static struct ibv_qp *make_dci(const struct dc *dc)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_DRIVER,
		.send_cq = dc->sides[0].cq,
		.recv_cq = dc->sides[0].cq,
		.cap = {.max_send_wr = 16, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = dc->sides[0].pd,
		.send_ops_flags =
			IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					 .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};

	return mlx5dv_create_qp(dc->sides[0].context, &attr, &dv);
}

static void start_dct(const struct dc *dc, unsigned int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	ASSERT_EQ(ibv_modify_qp(dc->dct, &attr, PORT_MASK | IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .min_rnr_timer = 1,
				    .ah_attr = address(&dc->sides[0], GID_IPV4)};
	ASSERT_EQ(ibv_modify_qp(dc->dct, &attr, DCT_RTR_MASK), 0);
}

void start_dci(const struct dc *dc)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	ASSERT_EQ(ibv_modify_qp(dc->dci, &attr, PORT_MASK), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
	ASSERT_EQ(ibv_modify_qp(dc->dci, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 2, .max_rd_atomic = 16};
	ASSERT_EQ(ibv_modify_qp(dc->dci, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | RETRY_MASK), 0);
}

void dc_init(struct dc *dc, unsigned int access)
{
	struct ibv_ah_attr attr;

	sides_init(dc->sides);
	dc->srq = make_srq(&dc->sides[1]);
	ASSERT(dc->srq);
	dc->dct = make_dct(dc, dc->srq);
	dc->dci = make_dci(dc);
	ASSERT(dc->dct && dc->dci);
	dc->dci_ex = ibv_qp_to_qp_ex(dc->dci);
	dc->dci_dv = mlx5dv_qp_ex_from_ibv_qp_ex(dc->dci_ex);
	start_dct(dc, access);
	start_dci(dc);
	attr = address(&dc->sides[1], GID_IPV4);
	dc->ah = ibv_create_ah(dc->sides[0].pd, &attr);
	ASSERT(dc->ah);
}

void dc_deinit(struct dc *dc)
{
	ASSERT_EQ(ibv_destroy_ah(dc->ah), 0);
	ASSERT_EQ(ibv_destroy_qp(dc->dci), 0);
	ASSERT_EQ(ibv_destroy_qp(dc->dct), 0);
	ASSERT_EQ(ibv_destroy_srq(dc->srq), 0);
	sides_deinit(dc->sides);
}

enum ibv_wc_status dc_request(const struct dc *dc, enum ibv_wr_opcode opcode, uint64_t key)
{
	uint64_t addr = (uintptr_t)dc->sides[1].memory + 128;

	ibv_wr_start(dc->dci_ex);
	dc->dci_ex->wr_id = 5;
	dc->dci_ex->wr_flags = IBV_SEND_SIGNALED;
	if (opcode == IBV_WR_RDMA_WRITE)
		ibv_wr_rdma_write(dc->dci_ex, dc->sides[1].mr->rkey, addr);
	else if (opcode == IBV_WR_RDMA_READ)
		ibv_wr_rdma_read(dc->dci_ex, dc->sides[1].mr->rkey, addr);
	else
		ibv_wr_send(dc->dci_ex);
	mlx5dv_wr_set_dc_addr(dc->dci_dv, dc->ah, dc->dct->qp_num, key);
	ibv_wr_set_sge(dc->dci_ex, dc->sides[0].mr->lkey, (uintptr_t)dc->sides[0].memory, 64);
	ASSERT_EQ(ibv_wr_complete(dc->dci_ex), 0);
	return wait_wc(dc->sides[0].cq).status;
}
