/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QPs other than RC, shared receive queues, address handles, CQs that change: what a simulated device gives and what it
 * enforces, asked through libibverbs and libmlx5. Runs under mlx5sim with two devices on RoCE.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint8_t *memory;
};

static void side_init(struct side *side, unsigned int nic)
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

static void side_deinit(struct side *side)
{
	ASSERT_EQ(ibv_dereg_mr(side->mr), 0);
	ASSERT_EQ(ibv_destroy_cq(side->cq), 0);
	ASSERT_EQ(ibv_destroy_comp_channel(side->channel), 0);
	ASSERT_EQ(ibv_dealloc_pd(side->pd), 0);
	ASSERT_EQ(ibv_close_device(side->context), 0);
	free(side->memory);
}

static void sides_init(struct side sides[2])
{
	side_init(&sides[0], 0);
	side_init(&sides[1], 1);
}

static void sides_deinit(struct side sides[2])
{
	side_deinit(&sides[0]);
	side_deinit(&sides[1]);
}

static struct ibv_qp *make_qp(const struct side *side, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.srq = srq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
		.qp_type = type,
	};

	return ibv_create_qp(side->pd, &attr);
}

static struct ibv_srq *make_srq(const struct side *side)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 10, .max_sge = 2}};

	return ibv_create_srq(side->pd, &attr);
}

static struct ibv_ah_attr address(const struct side *of, uint8_t gid_index)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}};

	ASSERT_EQ(ibv_query_gid(of->context, 1, gid_index, &attr.grh.dgid), 0);
	return attr;
}

#define PORT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define PEER_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RETRY_MASK (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

/* RC or UC. */
static void connect_to(struct ibv_qp *qp, const struct side *peer, uint32_t qpn)
{
	bool is_rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS};

	ASSERT_EQ(ibv_modify_qp(qp, &attr, PORT_MASK | IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = qpn,
				    .max_dest_rd_atomic = 16,
				    .min_rnr_timer = 1,
				    .ah_attr = address(peer, GID_IPV4)};
	ASSERT_EQ(ibv_modify_qp(qp, &attr,
				PEER_MASK | (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
		  0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 7, .max_rd_atomic = 16};
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (is_rc ? RETRY_MASK : 0)), 0);
}

static void start_ud(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

	ASSERT_EQ(ibv_modify_qp(qp, &attr, PORT_MASK | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static struct ibv_wc wait_wc(struct ibv_cq *cq)
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

static void expect_no_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

static struct ibv_sge sge_of(const struct side *side, uint32_t offset, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)side->memory + offset, bytes, side->mr->lkey};
}

/* Number n lands at n * 2048. */
static void post_recv(const struct side *side, struct ibv_qp *qp, struct ibv_srq *srq, unsigned int n)
{
	struct ibv_sge sge = sge_of(side, n * 2048, 2048);
	struct ibv_recv_wr wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1}, *bad;

	ASSERT_EQ(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad), 0);
}

static void post_send(const struct side *side, struct ibv_qp *qp, struct ibv_send_wr wr, uint32_t bytes)
{
	struct ibv_sge sge = sge_of(side, 0, bytes);
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_SIGNALED;
	ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

static enum ibv_wc_status send_bytes(const struct side *side, struct ibv_qp *qp, uint32_t bytes)
{
	post_send(side, qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, bytes);
	return wait_wc(side->cq).status;
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static struct ibv_async_event wait_event(struct ibv_context *context)
{
	struct ibv_async_event event;

	ASSERT_EQ(ibv_get_async_event(context, &event), 0);
	ibv_ack_async_event(&event);
	return event;
}

/* ---- UC ---- */

TEST(uc_writes_and_sends_and_drops_what_has_no_receive)
{
	struct ibv_qp *a, *b;
	struct side sides[2];
	struct ibv_wc wc;

	sides_init(sides);
	a = make_qp(&sides[0], IBV_QPT_UC, NULL);
	b = make_qp(&sides[1], IBV_QPT_UC, NULL);
	ASSERT(a && b);
	connect_to(a, &sides[1], b->qp_num);
	connect_to(b, &sides[0], a->qp_num);
	/* Nobody waits for it; the sender cannot tell. */
	ASSERT_EQ(send_bytes(&sides[0], a, 3000), IBV_WC_SUCCESS);
	post_recv(&sides[1], b, NULL, 4);
	memset(sides[0].memory, 0x5a, 1500);
	ASSERT_EQ(send_bytes(&sides[0], a, 1500), IBV_WC_SUCCESS);
	wc = wait_wc(sides[1].cq);
	ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	ASSERT_EQ(wc.byte_len, 1500);
	ASSERT_MEMEQ(sides[1].memory + 8192, sides[0].memory, 1500);
	post_send(&sides[0], a,
		  (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
				       .wr.rdma = {(uintptr_t)sides[1].memory + 30000, sides[1].mr->rkey}},
		  1500);
	ASSERT_EQ(wait_wc(sides[0].cq).status, IBV_WC_SUCCESS);
	post_recv(&sides[1], b, NULL, 5);
	ASSERT_EQ(send_bytes(&sides[0], a, 1), IBV_WC_SUCCESS);
	ASSERT_EQ(wait_wc(sides[1].cq).byte_len, 1);
	ASSERT_MEMEQ(sides[1].memory + 30000, sides[0].memory, 1500);
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	ASSERT_EQ(ibv_destroy_qp(b), 0);
	sides_deinit(sides);
}

/* The send queue alone fails, and lives on. */
TEST(uc_error_of_the_sender_is_sqe_and_left_for_rts)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct side sides[2];
	struct ibv_qp *a;

	sides_init(sides);
	a = make_qp(&sides[0], IBV_QPT_UC, NULL);
	ASSERT(a);
	connect_to(a, &sides[1], 0xabcd);
	sge = sge_of(&sides[0], 0, 64);
	sge.lkey ^= 0x5500;
	ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
	ASSERT_EQ(wait_wc(sides[0].cq).status, IBV_WC_LOC_PROT_ERR);
	ASSERT_EQ(state_of(a), IBV_QPS_SQE);
	ASSERT_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE), 0);
	ASSERT_EQ(send_bytes(&sides[0], a, 64), IBV_WC_SUCCESS);
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	sides_deinit(sides);
}

/* ---- UD ---- */

struct datagrams {
	struct side sides[2];
	struct ibv_qp *qps[2];
	struct ibv_ah *ah;
};

static void datagrams_init(struct datagrams *d, uint8_t gid_index)
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

static void datagrams_deinit(struct datagrams *d)
{
	ASSERT_EQ(ibv_destroy_ah(d->ah), 0);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(ibv_destroy_qp(d->qps[i]), 0);
	sides_deinit(d->sides);
}

static enum ibv_wc_status datagram(const struct datagrams *d, uint32_t qpn, uint32_t qkey, uint32_t bytes)
{
	post_send(&d->sides[0], d->qps[0],
		  (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_IMM,
				       .imm_data = 77,
				       .wr.ud = {.ah = d->ah, .remote_qpn = qpn, .remote_qkey = qkey}},
		  bytes);
	return wait_wc(d->sides[0].cq).status;
}

static unsigned int be16(const uint8_t *at)
{
	return (unsigned int)at[0] << 8 | at[1];
}

TEST(ud_message_comes_behind_the_header_of_ipv6)
{
	struct datagrams d;
	const uint8_t *grh;
	struct ibv_wc wc;
	union ibv_gid gid;

	datagrams_init(&d, GID_IPV6);
	post_recv(&d.sides[1], d.qps[1], NULL, 0);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, 101), IBV_WC_SUCCESS);
	wc = wait_wc(d.sides[1].cq);
	ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	ASSERT_EQ(wc.byte_len, GRH_BYTES + 101);
	ASSERT_EQ(wc.src_qp, d.qps[0]->qp_num);
	ASSERT_EQ(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	ASSERT_EQ(wc.imm_data, 77);
	grh = d.sides[1].memory;
	ASSERT_EQ(be16(grh), 0x6685);
	ASSERT_EQ(be16(grh + 2), 0x4321);
	ASSERT_EQ(be16(grh + 4), 8 + 12 + 8 + 104 + 4); /* UDP, BTH, DETH, payload, ICRC */
	ASSERT_EQ(grh[6], 17);
	ASSERT_EQ(grh[7], 64);
	ASSERT_EQ(ibv_query_gid(d.sides[0].context, 1, GID_IPV6, &gid), 0);
	ASSERT_MEMEQ(grh + 8, gid.raw, 16);
	ASSERT_EQ(ibv_query_gid(d.sides[1].context, 1, GID_IPV6, &gid), 0);
	ASSERT_MEMEQ(grh + 24, gid.raw, 16);
	for (unsigned int i = 0; i < 101; i++)
		ASSERT_EQ(grh[GRH_BYTES + i], 1);
	ASSERT_EQ(grh[GRH_BYTES + 101], 2);
	datagrams_deinit(&d);
}

TEST(ud_message_over_ipv4_has_a_header_whose_checksum_is_right)
{
	struct datagrams d;
	unsigned int sum = 0;
	const uint8_t *ip;

	datagrams_init(&d, GID_IPV4);
	post_recv(&d.sides[1], d.qps[1], NULL, 0);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, 100), IBV_WC_SUCCESS);
	ASSERT_EQ(wait_wc(d.sides[1].cq).byte_len, GRH_BYTES + 100);
	ip = d.sides[1].memory + 20;
	ASSERT_EQ(ip[0], 0x45);
	ASSERT_EQ(ip[1], 0x68);
	ASSERT_EQ(be16(ip + 2), 20 + 8 + 12 + 8 + 100 + 4);
	ASSERT_EQ(ip[9], 17);
	ASSERT_MEMEQ(ip + 12, ((uint8_t[]){192, 0, 2, 1, 192, 0, 2, 2}), 8);
	for (unsigned int i = 0; i < 20; i += 2)
		sum += be16(ip + i);
	ASSERT_EQ((sum & 0xffff) + (sum >> 16), 0xffff);
	datagrams_deinit(&d);
}

/* A good one behind them shows that they are gone and not late. */
TEST(ud_message_to_nobody_or_with_a_wrong_key_or_without_a_receive_is_dropped)
{
	struct ibv_wc wc;
	struct datagrams d;

	datagrams_init(&d, GID_IPV4);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, 8), IBV_WC_SUCCESS);
	post_recv(&d.sides[1], d.qps[1], NULL, 0);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY, 16), IBV_WC_SUCCESS);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num + 1000, QKEY + 1, 24), IBV_WC_SUCCESS);
	/* The top bit says: the key of the sending QP. */
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, 0x80000000u, 32), IBV_WC_SUCCESS);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, 40), IBV_WC_SUCCESS);
	wc = wait_wc(d.sides[1].cq);
	ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	ASSERT_EQ(wc.byte_len, GRH_BYTES + 40);
	expect_no_wc(d.sides[1].cq);
	datagrams_deinit(&d);
}

TEST(ud_message_longer_than_the_mtu_is_an_error_of_the_sender)
{
	struct datagrams d;

	datagrams_init(&d, GID_IPV4);
	post_recv(&d.sides[1], d.qps[1], NULL, 0);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, UD_MTU), IBV_WC_SUCCESS);
	ASSERT_EQ(wait_wc(d.sides[1].cq).byte_len, GRH_BYTES + UD_MTU);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, UD_MTU + 1), IBV_WC_LOC_LEN_ERR);
	ASSERT_EQ(state_of(d.qps[0]), IBV_QPS_SQE);
	datagrams_deinit(&d);
}

TEST(ud_address_handles_are_checked_and_keep_their_pd)
{
	struct ibv_ah_attr good, bad;
	struct datagrams d;
	struct ibv_pd *pd;
	struct ibv_ah *ah;

	datagrams_init(&d, GID_IPV4);
	good = address(&d.sides[1], GID_IPV4);
	bad = good;
	bad.grh.dgid.raw[15] ^= 0x80;
	ASSERT(!ibv_create_ah(d.sides[0].pd, &bad));
	ASSERT_EQ(errno, EHOSTUNREACH);
	bad = good;
	bad.grh.dgid.raw[0] = 0xff;
	ASSERT(!ibv_create_ah(d.sides[0].pd, &bad));
	ASSERT_EQ(errno, EOPNOTSUPP);
	bad = good;
	bad.is_global = 0;
	ASSERT(!ibv_create_ah(d.sides[0].pd, &bad));
	ASSERT_EQ(errno, EINVAL);
	pd = ibv_alloc_pd(d.sides[0].context);
	ASSERT(pd);
	ah = ibv_create_ah(pd, &good);
	ASSERT(ah);
	ASSERT_EQ(ibv_dealloc_pd(pd), EBUSY);
	/* mlx5 has no PD in an address vector: it serves QPs of others. */
	ASSERT_EQ(ibv_destroy_ah(d.ah), 0);
	d.ah = ah;
	post_recv(&d.sides[1], d.qps[1], NULL, 0);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, 40), IBV_WC_SUCCESS);
	ASSERT_EQ(wait_wc(d.sides[1].cq).status, IBV_WC_SUCCESS);
	ASSERT_EQ(ibv_destroy_ah(ah), 0);
	ASSERT_EQ(ibv_dealloc_pd(pd), 0);
	d.ah = ibv_create_ah(d.sides[0].pd, &good);
	ASSERT(d.ah);
	datagrams_deinit(&d);
}

/* ---- shared receive queues ---- */

struct shared {
	struct side sides[2];
	struct ibv_srq *srq; /* of sides[1] */
	struct ibv_qp *from[2], *to[2];
};

static void shared_init(struct shared *s)
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

static void shared_deinit(struct shared *s)
{
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(ibv_destroy_qp(s->from[i]), 0);
		ASSERT_EQ(ibv_destroy_qp(s->to[i]), 0);
	}
	ASSERT_EQ(ibv_destroy_srq(s->srq), 0);
	sides_deinit(s->sides);
}

TEST(srq_gives_receives_to_qps_in_the_order_of_messages)
{
	struct shared s;

	shared_init(&s);
	for (unsigned int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < 4; i++)
			post_recv(&s.sides[1], NULL, s.srq, i);
		for (unsigned int i = 0; i < 4; i++) {
			struct ibv_wc wc;

			memset(s.sides[0].memory, (int)(round * 4 + i), 100);
			ASSERT_EQ(send_bytes(&s.sides[0], s.from[i % 2], 100), IBV_WC_SUCCESS);
			wc = wait_wc(s.sides[1].cq);
			ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
			ASSERT_EQ(wc.wr_id, i);
			ASSERT_EQ(wc.qp_num, s.to[i % 2]->qp_num);
			ASSERT_MEMEQ(s.sides[1].memory + i * 2048, s.sides[0].memory, 100);
		}
	}
	shared_deinit(&s);
}

/* rnr_retry is 0: one refusal is the end. */
TEST(srq_without_a_receive_is_rnr)
{
	struct shared s;

	shared_init(&s);
	ASSERT_EQ(send_bytes(&s.sides[0], s.from[0], 8), IBV_WC_RNR_RETRY_EXC_ERR);
	shared_deinit(&s);
}

TEST(srq_limit_is_one_event_for_each_arming)
{
	struct ibv_srq_attr attr = {.srq_limit = 3};
	struct ibv_async_event event;
	struct pollfd pfd;
	struct shared s;

	shared_init(&s);
	pfd = (struct pollfd){.fd = s.sides[1].context->async_fd, .events = POLLIN};
	for (unsigned int i = 0; i < 5; i++)
		post_recv(&s.sides[1], NULL, s.srq, i);
	ASSERT_EQ(ibv_modify_srq(s.srq, &attr, IBV_SRQ_LIMIT), 0);
	ASSERT_EQ(ibv_query_srq(s.srq, &attr), 0);
	ASSERT_EQ(attr.srq_limit, 3);
	ASSERT_LE(10, attr.max_wr);
	for (unsigned int i = 0; i < 5; i++) {
		ASSERT_EQ(poll(&pfd, 1, 0), i > 2);
		ASSERT_EQ(send_bytes(&s.sides[0], s.from[i % 2], 8), IBV_WC_SUCCESS);
		wait_wc(s.sides[1].cq);
	}
	event = wait_event(s.sides[1].context);
	ASSERT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	ASSERT(event.element.srq == s.srq);
	ASSERT_EQ(poll(&pfd, 1, 0), 0);
	ASSERT_EQ(ibv_query_srq(s.srq, &attr), 0);
	ASSERT_EQ(attr.srq_limit, 0);
	/* One that nobody reads does not keep the SRQ. */
	attr.srq_limit = 3;
	ASSERT_EQ(ibv_modify_srq(s.srq, &attr, IBV_SRQ_LIMIT), 0);
	ASSERT_EQ(poll(&pfd, 1, 5000), 1);
	shared_deinit(&s);
}

TEST(srq_tells_when_a_qp_in_error_takes_no_more_of_it)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event event;
	struct shared s;

	shared_init(&s);
	post_recv(&s.sides[1], NULL, s.srq, 0);
	ASSERT_EQ(ibv_modify_qp(s.to[1], &attr, IBV_QP_STATE), 0);
	event = wait_event(s.sides[1].context);
	ASSERT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	ASSERT(event.element.qp == s.to[1]);
	ASSERT_EQ(send_bytes(&s.sides[0], s.from[0], 8), IBV_WC_SUCCESS);
	ASSERT_EQ(wait_wc(s.sides[1].cq).status, IBV_WC_SUCCESS);
	shared_deinit(&s);
}

TEST(srq_in_use_is_not_destroyed_and_is_not_resized)
{
	struct ibv_srq_attr attr = {.max_wr = 20};
	struct ibv_srq_init_attr huge = {.attr = {.max_wr = 1u << 20, .max_sge = 1}};
	struct shared s;

	shared_init(&s);
	ASSERT_EQ(ibv_destroy_srq(s.srq), EBUSY);
	ASSERT_EQ(ibv_dealloc_pd(s.sides[1].pd), EBUSY);
	ASSERT_EQ(ibv_modify_srq(s.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.srq_limit = 1000;
	ASSERT_EQ(ibv_modify_srq(s.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	ASSERT(!ibv_create_srq(s.sides[1].pd, &huge));
	ASSERT_EQ(errno, EINVAL);
	shared_deinit(&s);
}

TEST(srq_serves_uc_and_ud)
{
	struct ibv_ah_attr attr;
	struct ibv_qp *uc[2];
	struct ibv_srq *srq;
	struct datagrams d;
	struct ibv_wc wc;

	datagrams_init(&d, GID_IPV4);
	srq = make_srq(&d.sides[1]);
	ASSERT(srq);
	ASSERT_EQ(ibv_destroy_qp(d.qps[1]), 0);
	d.qps[1] = make_qp(&d.sides[1], IBV_QPT_UD, srq);
	uc[0] = make_qp(&d.sides[0], IBV_QPT_UC, NULL);
	uc[1] = make_qp(&d.sides[1], IBV_QPT_UC, srq);
	ASSERT(d.qps[1] && uc[0] && uc[1]);
	start_ud(d.qps[1], QKEY + 1);
	connect_to(uc[0], &d.sides[1], uc[1]->qp_num);
	connect_to(uc[1], &d.sides[0], uc[0]->qp_num);
	for (unsigned int i = 0; i < 2; i++)
		post_recv(&d.sides[1], NULL, srq, i);
	ASSERT_EQ(datagram(&d, d.qps[1]->qp_num, QKEY + 1, 10), IBV_WC_SUCCESS);
	wc = wait_wc(d.sides[1].cq);
	ASSERT_EQ(wc.wr_id, 0);
	ASSERT_EQ(wc.byte_len, GRH_BYTES + 10);
	attr = address(&d.sides[0], GID_IPV4);
	ASSERT_EQ(ibv_init_ah_from_wc(d.sides[1].context, 1, &wc, (struct ibv_grh *)(void *)d.sides[1].memory, &attr), 0);
	ASSERT_EQ(attr.grh.sgid_index, GID_IPV4);
	ASSERT_EQ(send_bytes(&d.sides[0], uc[0], 20), IBV_WC_SUCCESS);
	wc = wait_wc(d.sides[1].cq);
	ASSERT_EQ(wc.wr_id, 1);
	ASSERT_EQ(wc.byte_len, 20);
	ASSERT_EQ(ibv_destroy_qp(uc[0]), 0);
	ASSERT_EQ(ibv_destroy_qp(uc[1]), 0);
	ASSERT_EQ(ibv_destroy_qp(d.qps[1]), 0);
	d.qps[1] = make_qp(&d.sides[1], IBV_QPT_UD, NULL);
	ASSERT_EQ(ibv_destroy_srq(srq), 0);
	datagrams_deinit(&d);
}

/* ---- DC ---- */

struct dc {
	struct side sides[2];
	struct ibv_srq *srq;
	struct ibv_qp *dci, *dct;
	struct ibv_qp_ex *dci_ex;
	struct mlx5dv_qp_ex *dci_dv;
	struct ibv_ah *ah;
};

static struct ibv_qp *make_dct(const struct dc *dc, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_DRIVER,
					   .send_cq = dc->sides[1].cq,
					   .recv_cq = dc->sides[1].cq,
					   .srq = srq,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = dc->sides[1].pd};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					 .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = DC_KEY}};

	return mlx5dv_create_qp(dc->sides[1].context, &attr, &dv);
}

static struct ibv_qp *make_dci(const struct dc *dc)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_DRIVER,
					   .send_cq = dc->sides[0].cq,
					   .recv_cq = dc->sides[0].cq,
					   .cap = {.max_send_wr = 16, .max_send_sge = 1},
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = dc->sides[0].pd,
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
							     IBV_QP_EX_WITH_SEND};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					 .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};

	return mlx5dv_create_qp(dc->sides[0].context, &attr, &dv);
}

#define DCT_RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER)

static void start_dct(const struct dc *dc, unsigned int access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	ASSERT_EQ(ibv_modify_qp(dc->dct, &attr, PORT_MASK | IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .min_rnr_timer = 1,
				    .ah_attr = address(&dc->sides[0], GID_IPV4)};
	ASSERT_EQ(ibv_modify_qp(dc->dct, &attr, DCT_RTR_MASK), 0);
}

static void start_dci(const struct dc *dc)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	ASSERT_EQ(ibv_modify_qp(dc->dci, &attr, PORT_MASK), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
	ASSERT_EQ(ibv_modify_qp(dc->dci, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 2, .max_rd_atomic = 16};
	ASSERT_EQ(ibv_modify_qp(dc->dci, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | RETRY_MASK), 0);
}

static void dc_init(struct dc *dc, unsigned int access)
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

static void dc_deinit(struct dc *dc)
{
	ASSERT_EQ(ibv_destroy_ah(dc->ah), 0);
	ASSERT_EQ(ibv_destroy_qp(dc->dci), 0);
	ASSERT_EQ(ibv_destroy_qp(dc->dct), 0);
	ASSERT_EQ(ibv_destroy_srq(dc->srq), 0);
	sides_deinit(dc->sides);
}

/* 64 bytes of memory 0 to offset 128 of memory 1, or the other way round. */
static enum ibv_wc_status dc_request(const struct dc *dc, enum ibv_wr_opcode opcode, uint64_t key)
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

TEST(dc_writes_reads_and_sends)
{
	struct ibv_wc wc;
	struct dc dc;

	dc_init(&dc, ALL_ACCESS);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_WRITE, DC_KEY), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(dc.sides[1].memory + 128, dc.sides[0].memory, 64);
	memset(dc.sides[1].memory + 128, 0x77, 64);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_READ, DC_KEY), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(dc.sides[0].memory, dc.sides[1].memory + 128, 64);
	post_recv(&dc.sides[1], NULL, dc.srq, 3);
	ASSERT_EQ(dc_request(&dc, IBV_WR_SEND, DC_KEY), IBV_WC_SUCCESS);
	wc = wait_wc(dc.sides[1].cq);
	ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	ASSERT_EQ(wc.wr_id, 3);
	ASSERT_EQ(wc.byte_len, 64);
	ASSERT_EQ(wc.qp_num, dc.dct->qp_num);
	dc_deinit(&dc);
}

TEST(dc_wrong_key_is_not_answered)
{
	struct dc dc;

	dc_init(&dc, ALL_ACCESS);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_WRITE, DC_KEY ^ 1), IBV_WC_RETRY_EXC_ERR);
	ASSERT_EQ(dc.sides[1].memory[128], 2);
	ASSERT_EQ(state_of(dc.dci), IBV_QPS_ERR);
	dc_deinit(&dc);
}

/* What one DCI does wrong does not end the DCT. */
TEST(dc_access_of_the_dct_is_enforced)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct dc dc;

	dc_init(&dc, IBV_ACCESS_REMOTE_READ);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_WRITE, DC_KEY), IBV_WC_REM_ACCESS_ERR);
	ASSERT_EQ(dc.sides[1].memory[128], 2);
	ASSERT_EQ(ibv_modify_qp(dc.dci, &attr, IBV_QP_STATE), 0);
	start_dci(&dc);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_READ, DC_KEY), IBV_WC_SUCCESS);
	ASSERT_EQ(dc.sides[0].memory[0], 2);
	dc_deinit(&dc);
}

TEST(dct_goes_to_rtr_and_no_further_and_needs_an_srq)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .port_num = 1, .path_mtu = IBV_MTU_1024};
	struct dc dc;

	dc_init(&dc, ALL_ACCESS);
	ASSERT_NE(dc.dct->qp_num, 0);
	ASSERT_EQ(ibv_modify_qp(dc.dct, &attr, DCT_RTR_MASK), EINVAL);
	attr.qp_state = IBV_QPS_RTS;
	ASSERT_EQ(ibv_modify_qp(dc.dct, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_RESET;
	ASSERT_EQ(ibv_modify_qp(dc.dct, &attr, IBV_QP_STATE), EINVAL);
	ASSERT(!make_dct(&dc, NULL));
	ASSERT_EQ(ibv_destroy_qp(dc.dct), 0);
	/* One that never had a number goes as well. */
	dc.dct = make_dct(&dc, dc.srq);
	ASSERT(dc.dct);
	attr.qp_state = IBV_QPS_RTR;
	ASSERT_EQ(ibv_modify_qp(dc.dct, &attr, DCT_RTR_MASK), EINVAL);
	dc_deinit(&dc);
}

/* ---- types and queues that are not there ---- */

TEST(raw_packets_and_xrc_are_refused)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}, .qp_type = IBV_QPT_RAW_PACKET};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct side side;

	side_init(&side, 0);
	attr.send_cq = side.cq;
	attr.recv_cq = side.cq;
	ASSERT(!ibv_create_qp(side.pd, &attr));
	ASSERT_EQ(errno, EOPNOTSUPP);
	ASSERT(!ibv_open_xrcd(side.context, &xrcd));
	ASSERT_EQ(errno, EOPNOTSUPP);
	side_deinit(&side);
}

TEST(qp_without_a_send_queue_receives)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_recv_wr = 4, .max_recv_sge = 1}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *from, *to;
	struct side sides[2];

	sides_init(sides);
	attr.send_cq = sides[1].cq;
	attr.recv_cq = sides[1].cq;
	to = ibv_create_qp(sides[1].pd, &attr);
	from = make_qp(&sides[0], IBV_QPT_RC, NULL);
	ASSERT(to && from);
	connect_to(to, &sides[0], from->qp_num);
	connect_to(from, &sides[1], to->qp_num);
	post_recv(&sides[1], to, NULL, 1);
	ASSERT_EQ(send_bytes(&sides[0], from, 99), IBV_WC_SUCCESS);
	ASSERT_EQ(wait_wc(sides[1].cq).byte_len, 99);
	ASSERT_EQ(ibv_destroy_qp(from), 0);
	ASSERT_EQ(ibv_destroy_qp(to), 0);
	sides_deinit(sides);
}

/* ---- CQs that change ---- */

TEST(cq_is_resized_with_completions_in_it)
{
	struct ibv_qp *a, *b;
	struct side sides[2];
	struct ibv_cq *cq;
	void *context;

	sides_init(sides);
	a = make_qp(&sides[0], IBV_QPT_RC, NULL);
	b = make_qp(&sides[1], IBV_QPT_RC, NULL);
	ASSERT(a && b);
	connect_to(a, &sides[1], b->qp_num);
	connect_to(b, &sides[0], a->qp_num);
	for (unsigned int round = 0; round < 12; round++) {
		for (unsigned int i = 0; i < 5; i++)
			post_recv(&sides[1], b, NULL, i);
		for (unsigned int i = 0; i < 5; i++)
			ASSERT_EQ(send_bytes(&sides[0], a, round * 10 + i), IBV_WC_SUCCESS);
		ASSERT_EQ(wait_wc(sides[1].cq).byte_len, round * 10);
		ASSERT_EQ(ibv_resize_cq(sides[1].cq, 1), EINVAL);
		ASSERT_EQ(ibv_resize_cq(sides[1].cq, round % 2 ? 7 : 200), 0);
		for (unsigned int i = 1; i < 5; i++)
			ASSERT_EQ(wait_wc(sides[1].cq).byte_len, round * 10 + i);
		expect_no_wc(sides[1].cq);
		ASSERT_EQ(ibv_req_notify_cq(sides[1].cq, 0), 0);
		post_recv(&sides[1], b, NULL, 5);
		ASSERT_EQ(send_bytes(&sides[0], a, 1000), IBV_WC_SUCCESS);
		ASSERT_EQ(ibv_get_cq_event(sides[1].channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		ASSERT_EQ(wait_wc(sides[1].cq).byte_len, 1000);
	}
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	ASSERT_EQ(ibv_destroy_qp(b), 0);
	sides_deinit(sides);
}

static struct ibv_cq *make_large_cq(const struct side *side)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 15, .channel = side->channel};
	struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE, .cqe_size = 128};

	return ibv_cq_ex_to_cq(mlx5dv_create_cq(side->context, &attr, &dv));
}

TEST(cq_of_large_entries_works_and_gives_events)
{
	struct side sides[2];
	struct ibv_cq *cq;
	struct ibv_qp *a;
	void *context;

	sides_init(sides);
	ASSERT_EQ(ibv_destroy_cq(sides[0].cq), 0);
	sides[0].cq = make_large_cq(&sides[0]);
	ASSERT(sides[0].cq);
	a = make_qp(&sides[0], IBV_QPT_UC, NULL);
	ASSERT(a);
	connect_to(a, &sides[1], 0xabcd);
	for (unsigned int i = 0; i < 40; i++) {
		ASSERT_EQ(ibv_req_notify_cq(sides[0].cq, 0), 0);
		post_send(&sides[0], a, (struct ibv_send_wr){.wr_id = i, .opcode = IBV_WR_SEND}, 8);
		ASSERT_EQ(ibv_get_cq_event(sides[0].channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		ASSERT_EQ(wait_wc(sides[0].cq).wr_id, i);
	}
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	sides_deinit(sides);
}

/* Fewer than four wait for the period, which is as long as can be. */
TEST(cq_moderation_delays_the_event_of_few_completions)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 4, .cq_period = 0xfff}};
	struct timespec start, end;
	struct side sides[2];
	struct pollfd pfd;
	struct ibv_qp *a;

	sides_init(sides);
	pfd = (struct pollfd){.fd = sides[0].channel->fd, .events = POLLIN};
	a = make_qp(&sides[0], IBV_QPT_UC, NULL);
	ASSERT(a);
	connect_to(a, &sides[1], 0xabcd);
	ASSERT_EQ(ibv_modify_cq(sides[0].cq, &attr), 0);
	ASSERT_EQ(ibv_req_notify_cq(sides[0].cq, 0), 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	ASSERT_EQ(send_bytes(&sides[0], a, 8), IBV_WC_SUCCESS);
	ASSERT_EQ(poll(&pfd, 1, 10000), 1);
	clock_gettime(CLOCK_MONOTONIC, &end);
	ASSERT_LE(4095000, (end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec);
	attr.moderate.cq_period = 0x1000;
	ASSERT_EQ(ibv_modify_cq(sides[0].cq, &attr), EINVAL);
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	sides_deinit(sides);
}

/* ---- what a killed client leaves ---- */

TEST(killed_client_leaves_nothing_of_any_type)
{
	struct ibv_device_attr limits;
	struct side side;
	int pair[2], status;
	char byte;
	pid_t pid;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ? -errno : 0);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct datagrams d;
		struct shared s;
		struct dc dc;

		datagrams_init(&d, GID_IPV4);
		shared_init(&s);
		dc_init(&dc, ALL_ACCESS);
		ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_WRITE, DC_KEY), IBV_WC_SUCCESS);
		ASSERT_EQ(write(pair[1], "x", 1), 1);
		pause();
		_exit(0);
	}
	ASSERT_EQ(read(pair[0], &byte, 1), 1);
	ASSERT_EQ(kill(pid, SIGKILL), 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	close(pair[0]);
	close(pair[1]);
	/* The simulator counts what is left when it ends, and this test fails by its status. */
	side_init(&side, 0);
	ASSERT_EQ(ibv_query_device(side.context, &limits), 0);
	ASSERT_LE(1, limits.max_srq);
	ASSERT_LE(1, limits.max_ah);
	side_deinit(&side);
}
