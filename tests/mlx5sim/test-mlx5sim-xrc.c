/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XRC and raw packet QPs: what a simulated device gives and what it enforces, asked through libibverbs, also by several
 * processes of one domain. Runs under mlx5sim with two devices on RoCE.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mlx5sim/fixture.h"

static int scratch_file(void)
{
	int fd = memfd_create("domain", MFD_CLOEXEC);

	ASSERT_LE(0, fd);
	return fd;
}

static struct ibv_xrcd *open_domain(const struct side *side, int fd, int flags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = fd,
					  .oflags = flags};

	return ibv_open_xrcd(side->context, &attr);
}

static struct ibv_srq *make_xrc_srq(const struct side *side, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 10, .max_sge = 2},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_XRCD,
		.srq_type = IBV_SRQT_XRC,
		.pd = side->pd,
		.cq = side->cq,
		.xrcd = xrcd,
	};

	return ibv_create_srq_ex(side->context, &attr);
}

static uint32_t number_of(struct ibv_srq *srq)
{
	uint32_t number;

	ASSERT_EQ(ibv_get_srq_num(srq, &number), 0);
	return number;
}

static struct ibv_qp *make_tgt(const struct side *side, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(side->context, &attr);
}

static struct ibv_qp *make_ini(const struct side *side)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_SEND,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = side->pd,
					   .send_cq = side->cq,
					   .cap = {.max_send_wr = 16, .max_send_sge = 2}};

	return ibv_create_qp_ex(side->context, &attr);
}

static struct ibv_qp *open_tgt(const struct side *side, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(side->context, &attr);
}

/* IBTA annex A14: what each transition needs is what it does for its half. */
static void connect_xrc(struct ibv_qp *qp, const struct side *peer, uint32_t qpn, uint8_t retries)
{
	bool is_tgt = qp->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = is_tgt ? ALL_ACCESS : 0};
	int mask = PEER_MASK | (is_tgt ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);

	ASSERT_EQ(ibv_modify_qp(qp, &attr, PORT_MASK | IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = qpn,
				    .max_dest_rd_atomic = 16,
				    .min_rnr_timer = 1,
				    .ah_attr = address(peer, GID_IPV4)};
	if (is_tgt)
		ASSERT_EQ(ibv_modify_qp(qp, &attr, mask & ~IBV_QP_MIN_RNR_TIMER), EINVAL);
	ASSERT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 8,
				    .retry_cnt = retries,
				    .rnr_retry = 7,
				    .max_rd_atomic = 16};
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (is_tgt ? IBV_QP_TIMEOUT : RETRY_MASK)), 0);
}

static enum ibv_wc_status request(const struct side *side, struct ibv_qp *ini, struct ibv_send_wr wr, uint32_t srqn,
				  uint32_t bytes)
{
	wr.qp_type.xrc.remote_srqn = srqn;
	post_send(side, ini, wr, bytes);
	return wait_wc(side->cq).status;
}

static enum ibv_wc_status send_to(const struct side *side, struct ibv_qp *ini, uint32_t srqn, uint32_t bytes)
{
	return request(side, ini, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, srqn, bytes);
}

/* A sender on the first device; domain, receiver and SRQ on the second. */
struct lab {
	struct side sides[2];
	int fd;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *ini, *tgt;
};

static void setup(struct lab *l, uint8_t retries)
{
	sides_init(l->sides);
	l->fd = scratch_file();
	l->xrcd = open_domain(&l->sides[1], l->fd, O_CREAT);
	ASSERT(l->xrcd);
	l->srq = make_xrc_srq(&l->sides[1], l->xrcd);
	l->tgt = make_tgt(&l->sides[1], l->xrcd);
	l->ini = make_ini(&l->sides[0]);
	ASSERT(l->srq && l->tgt && l->ini);
	connect_xrc(l->ini, &l->sides[1], l->tgt->qp_num, retries);
	connect_xrc(l->tgt, &l->sides[0], l->ini->qp_num, retries);
}

static void teardown(struct lab *l)
{
	ASSERT_EQ(ibv_destroy_qp(l->ini), 0);
	if (l->tgt)
		ASSERT_EQ(ibv_destroy_qp(l->tgt), 0);
	ASSERT_EQ(ibv_destroy_srq(l->srq), 0);
	ASSERT_EQ(ibv_close_xrcd(l->xrcd), 0);
	close(l->fd);
	sides_deinit(l->sides);
}

TEST(xrc_sends_writes_reads_and_atomics_name_an_srq)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = 77};
	struct ibv_wc wc;
	struct lab l;

	setup(&l, 7);
	post_recv(&l.sides[1], NULL, l.srq, 4);
	post_recv(&l.sides[1], NULL, l.srq, 5);
	memset(l.sides[0].memory, 0x5a, 1500);
	ASSERT_EQ(send_to(&l.sides[0], l.ini, number_of(l.srq), 1500), IBV_WC_SUCCESS);
	wc = wait_wc(l.sides[1].cq);
	ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	ASSERT_EQ(wc.byte_len, 1500);
	ASSERT_EQ(wc.wr_id, 4);
	ASSERT_EQ(wc.qp_num, l.tgt->qp_num);
	ASSERT_EQ(wc.src_qp, l.ini->qp_num);
	ASSERT_MEMEQ(l.sides[1].memory + 8192, l.sides[0].memory, 1500);
	wr.wr.rdma.remote_addr = (uintptr_t)l.sides[1].memory + 30000;
	wr.wr.rdma.rkey = l.sides[1].mr->rkey;
	ASSERT_EQ(request(&l.sides[0], l.ini, wr, number_of(l.srq), 700), IBV_WC_SUCCESS);
	wc = wait_wc(l.sides[1].cq);
	ASSERT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	ASSERT_EQ(wc.imm_data, 77);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic = {.remote_addr = (uintptr_t)l.sides[1].memory,
						.rkey = l.sides[1].mr->rkey,
						.compare_add = 1}};
	ASSERT_EQ(request(&l.sides[0], l.ini, wr, number_of(l.srq), 8), IBV_WC_SUCCESS);
	ASSERT_EQ(l.sides[1].memory[0], 3);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ,
				  .wr.rdma = {(uintptr_t)l.sides[1].memory, l.sides[1].mr->rkey}};
	ASSERT_EQ(request(&l.sides[0], l.ini, wr, number_of(l.srq), 4000), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(l.sides[0].memory, l.sides[1].memory, 4000);
	teardown(&l);
}

/* A domain is known by its file, on one device, and goes with its last open. */
TEST(xrc_domain_is_shared_by_all_that_open_its_file)
{
	struct side sides[2], again;
	struct ibv_xrcd *first, *second, *private;
	int fd = scratch_file();

	sides_init(sides);
	side_init(&again, 1);
	ASSERT(!open_domain(&sides[1], fd, 0));
	ASSERT_EQ(errno, EAGAIN);
	ASSERT(!open_domain(&sides[1], 1000000, O_CREAT));
	ASSERT_EQ(errno, EBADF);
	ASSERT(!open_domain(&sides[1], fd, O_CREAT | O_APPEND));
	ASSERT_EQ(errno, EINVAL);
	first = open_domain(&sides[1], fd, O_CREAT | O_EXCL);
	ASSERT(first);
	ASSERT(!open_domain(&again, fd, O_CREAT | O_EXCL));
	ASSERT_EQ(errno, EINVAL);
	ASSERT(!open_domain(&sides[0], fd, 0)); /* of another device */
	second = open_domain(&again, fd, 0);
	private = open_domain(&again, -1, O_CREAT);
	ASSERT(second && private);
	ASSERT_EQ(ibv_close_xrcd(first), 0);
	first = open_domain(&sides[1], fd, 0);
	ASSERT(first);
	ASSERT_EQ(ibv_close_xrcd(first), 0);
	ASSERT_EQ(ibv_close_xrcd(second), 0);
	ASSERT(!open_domain(&sides[1], fd, 0));
	ASSERT_EQ(ibv_close_xrcd(private), 0);
	close(fd);
	side_deinit(&again);
	sides_deinit(sides);
}

TEST(xrc_domain_that_is_in_use_is_not_closed)
{
	struct lab l;

	setup(&l, 7);
	ASSERT_EQ(ibv_close_xrcd(l.xrcd), EBUSY);
	ASSERT_EQ(ibv_destroy_qp(l.tgt), 0);
	l.tgt = NULL;
	ASSERT_EQ(ibv_close_xrcd(l.xrcd), EBUSY);
	ASSERT_EQ(ibv_destroy_cq(l.sides[1].cq), EBUSY);
	teardown(&l);
}

/* Its number alone opens nothing, and no SRQ of another domain either. */
TEST(xrc_request_for_an_srq_of_another_domain_ends_the_connection)
{
	struct ibv_async_event event;
	struct ibv_xrcd *other;
	struct ibv_srq *srq;
	struct lab l;

	setup(&l, 7);
	other = open_domain(&l.sides[1], -1, O_CREAT);
	ASSERT(other);
	srq = make_xrc_srq(&l.sides[1], other);
	ASSERT(srq);
	post_recv(&l.sides[1], NULL, srq, 0);
	ASSERT_EQ(send_to(&l.sides[0], l.ini, number_of(srq), 64), IBV_WC_REM_INV_REQ_ERR);
	event = wait_event(l.sides[1].context);
	ASSERT_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
	ASSERT(event.element.qp == l.tgt);
	ASSERT_EQ(state_of(l.tgt), IBV_QPS_ERR);
	expect_no_wc(l.sides[1].cq);
	ASSERT_EQ(ibv_destroy_srq(srq), 0);
	ASSERT_EQ(ibv_close_xrcd(other), 0);
	teardown(&l);
}

/*
 * Another process opens the receiver by its number, and keeps it. libmlx5 takes a doorbell record from an opened QP that it has
 * none for, and crashes: such a handle ends with its process.
 */
static void hold_receiver(int sock, int fd, uint32_t qpn)
{
	struct ibv_xrcd *xrcd, *other;
	struct ibv_async_event event;
	struct ibv_qp *tgt;
	struct side side;
	char go;

	side_init(&side, 1);
	xrcd = open_domain(&side, fd, 0);
	other = open_domain(&side, -1, O_CREAT);
	ASSERT(xrcd && other);
	ASSERT(!open_tgt(&side, other, qpn));
	ASSERT(!open_tgt(&side, xrcd, qpn + 1));
	tgt = open_tgt(&side, xrcd, qpn);
	ASSERT(tgt);
	ASSERT_EQ(tgt->qp_num, qpn);
	ASSERT_EQ(state_of(tgt), IBV_QPS_RTS);
	ASSERT_EQ(ibv_close_xrcd(xrcd), EBUSY);
	ASSERT_EQ(write(sock, "o", 1), 1);
	event = wait_event(side.context);
	ASSERT_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
	ASSERT(event.element.qp == tgt);
	ASSERT_EQ(state_of(tgt), IBV_QPS_ERR);
	ASSERT_EQ(write(sock, "e", 1), 1);
	ASSERT_EQ(read(sock, &go, 1), 1);
	_exit(0);
}

static void expect_word(int sock, char expected)
{
	char word;

	ASSERT_EQ(read(sock, &word, 1), 1);
	ASSERT_EQ(word, expected);
}

/* The simulator asserts at its end that the last one took it along. */
TEST(xrc_receiver_outlives_its_maker_as_long_as_a_process_has_it_open)
{
	int socks[2], status;
	struct lab l;
	pid_t child;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks), 0);
	setup(&l, 2);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		hold_receiver(socks[1], l.fd, l.tgt->qp_num);
	close(socks[1]); /* a child that fails is an end */
	expect_word(socks[0], 'o');
	ASSERT_EQ(ibv_destroy_qp(l.tgt), 0);
	l.tgt = NULL;
	post_recv(&l.sides[1], NULL, l.srq, 4);
	ASSERT_EQ(send_to(&l.sides[0], l.ini, number_of(l.srq), 64), IBV_WC_SUCCESS);
	ASSERT_EQ(wait_wc(l.sides[1].cq).byte_len, 64);
	ASSERT_EQ(send_to(&l.sides[0], l.ini, 0xabcdef, 64), IBV_WC_REM_INV_REQ_ERR);
	expect_word(socks[0], 'e');
	ASSERT_EQ(write(socks[0], "g", 1), 1);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(socks[0]);
	teardown(&l);
}

/* Another process of the domain: it has an SRQ, and no connection. */
static void receive_elsewhere(int sock, int fd)
{
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct side side;
	uint32_t number;
	struct ibv_wc wc;

	side_init(&side, 1);
	xrcd = open_domain(&side, fd, 0);
	ASSERT(xrcd);
	srq = make_xrc_srq(&side, xrcd);
	ASSERT(srq);
	post_recv(&side, NULL, srq, 4);
	number = number_of(srq);
	ASSERT_EQ(write(sock, &number, sizeof(number)), (ssize_t)sizeof(number));
	wc = wait_wc(side.cq);
	ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
	ASSERT_EQ(wc.byte_len, 1000);
	ASSERT_EQ(side.memory[8192 + 999], 1);
	_exit(0); /* with all that it has */
}

TEST(xrc_srq_of_another_process_receives_through_the_connection_of_the_first)
{
	int socks[2], status;
	uint32_t number;
	struct lab l;
	pid_t child;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks), 0);
	setup(&l, 7);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		receive_elsewhere(socks[1], l.fd);
	close(socks[1]);
	ASSERT_EQ(read(socks[0], &number, sizeof(number)), (ssize_t)sizeof(number));
	ASSERT_EQ(send_to(&l.sides[0], l.ini, number, 1000), IBV_WC_SUCCESS);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* Its SRQ goes with it. The connection stays, as no message for that one is under way. */
	post_recv(&l.sides[1], NULL, l.srq, 4);
	ASSERT_EQ(send_to(&l.sides[0], l.ini, number_of(l.srq), 64), IBV_WC_SUCCESS);
	close(socks[0]);
	teardown(&l);
}

TEST(xrc_qp_or_srq_with_what_it_has_no_use_for_is_refused)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_send_sge = 1}, .qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr_ex tgt = {.qp_type = IBV_QPT_XRC_RECV,
					  .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					  .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct ibv_qp_attr mod = {.qp_state = IBV_QPS_SQD};
	struct lab l;

	setup(&l, 7);
	attr.send_cq = attr.recv_cq = l.sides[1].cq;
	attr.srq = l.srq;
	ASSERT(!ibv_create_qp(l.sides[1].pd, &attr));
	tgt.xrcd = l.xrcd;
	tgt.srq = l.srq;
	ASSERT(!ibv_create_qp_ex(l.sides[1].context, &tgt));
	/* There is nothing to drain. */
	ASSERT_EQ(ibv_modify_qp(l.tgt, &mod, IBV_QP_STATE), EINVAL);
	teardown(&l);
}

/* ---- raw packets ---- */

static struct ibv_qp *make_raw(const struct side *side)
{
	struct ibv_qp_init_attr attr = {.send_cq = side->cq,
					.recv_cq = side->cq,
					.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
					.qp_type = IBV_QPT_RAW_PACKET};

	return ibv_create_qp(side->pd, &attr);
}

TEST(raw_packet_qp_sends_frames_without_a_receiver)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct side sides[2];
	struct ibv_qp *qps[2];

	sides_init(sides);
	for (unsigned int i = 0; i < 2; i++) {
		qps[i] = make_raw(&sides[i]);
		ASSERT(qps[i]);
		attr.qp_state = IBV_QPS_INIT;
		ASSERT_EQ(ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), EINVAL);
		ASSERT_EQ(ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
		for (attr.qp_state = IBV_QPS_RTR; attr.qp_state <= IBV_QPS_RTS; attr.qp_state++)
			ASSERT_EQ(ibv_modify_qp(qps[i], &attr, IBV_QP_STATE), 0);
		ASSERT_EQ(state_of(qps[i]), IBV_QPS_RTS);
	}
	post_recv(&sides[1], qps[1], NULL, 0);
	/* To the other port's address, as far as it goes. */
	memset(sides[0].memory, 0xff, 12);
	ASSERT_EQ(send_bytes(&sides[0], qps[0], 1500), IBV_WC_SUCCESS);
	expect_no_wc(sides[1].cq);
	attr.qp_state = IBV_QPS_ERR;
	ASSERT_EQ(ibv_modify_qp(qps[1], &attr, IBV_QP_STATE), 0);
	ASSERT_EQ(wait_wc(sides[1].cq).status, IBV_WC_WR_FLUSH_ERR);
	for (unsigned int i = 0; i < 2; i++)
		ASSERT_EQ(ibv_destroy_qp(qps[i]), 0);
	sides_deinit(sides);
}
