/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DC, CQs that change, memory windows, device memory, the clock, and what is not there: asked through libibverbs and libmlx5. Runs under mlx5sim with two devices
 * on RoCE.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/mlx5sim/fixture.h"

/* ---- DC ---- */

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

/* One DCI's mistake does not end the DCT. */
TEST(dc_access_of_the_dct_is_enforced)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct dc dc;

	dc_init(&dc, IBV_ACCESS_REMOTE_READ);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_WRITE, DC_KEY), IBV_WC_REM_INV_REQ_ERR);
	ASSERT_EQ(dc.sides[1].memory[128], 2);
	ASSERT_EQ(ibv_modify_qp(dc.dci, &attr, IBV_QP_STATE), 0);
	start_dci(&dc);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_READ, DC_KEY), IBV_WC_SUCCESS);
	ASSERT_EQ(dc.sides[0].memory[0], 2);
	dc_deinit(&dc);
}

TEST(dct_goes_to_rtr_and_no_further_and_needs_an_srq)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .port_num = 1, .path_mtu = IBV_MTU_1024};
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

/* ---- memory windows ---- */

static enum ibv_wc_status write_by_key(const struct side *side, struct ibv_qp *qp, uint32_t rkey,
				       uint64_t addr)
{
	post_send(side, qp,
		  (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {addr, rkey}}, 64);
	return wait_wc(side->cq).status;
}

TEST(memory_window_opens_its_part_of_a_region_until_it_goes)
{
	struct ibv_mw_bind bind = {
		.bind_info = {.length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp *a, *b;
	struct side sides[2];
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t first, last;

	sides_init(sides);
	a = make_qp(&sides[0], IBV_QPT_RC, NULL);
	b = make_qp(&sides[1], IBV_QPT_RC, NULL);
	mr = ibv_reg_mr(sides[1].pd, sides[1].memory, BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(sides[1].pd, IBV_MW_TYPE_1);
	ASSERT(a && b && mr && mw);
	ASSERT_EQ(ibv_dealloc_pd(sides[1].pd), EBUSY);
	connect_to(a, &sides[1], b->qp_num);
	connect_to(b, &sides[0], a->qp_num);
	first = mw->rkey;
	bind.bind_info.mr = mr;
	bind.bind_info.addr = (uintptr_t)sides[1].memory + 4096;
	ASSERT_EQ(ibv_bind_mw(b, mw, &bind), 0);
	ASSERT_EQ(wait_wc(sides[1].cq).opcode, IBV_WC_BIND_MW);
	ASSERT_NE(mw->rkey, first);
	ASSERT_EQ(write_by_key(&sides[0], a, mw->rkey, bind.bind_info.addr), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(sides[1].memory + 4096, sides[0].memory, 64);
	last = mw->rkey;
	ASSERT_EQ(ibv_dealloc_mw(mw), 0);
	ASSERT_EQ(write_by_key(&sides[0], a, last, bind.bind_info.addr), IBV_WC_REM_ACCESS_ERR);
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	ASSERT_EQ(ibv_destroy_qp(b), 0);
	ASSERT_EQ(ibv_dereg_mr(mr), 0);
	sides_deinit(sides);
}

TEST(memory_window_to_a_region_that_may_not_be_bound_to_is_refused)
{
	struct ibv_mw_bind bind = {
		.bind_info = {.length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
		.send_flags = IBV_SEND_SIGNALED};
	struct side sides[2];
	struct ibv_mw *mw;
	struct ibv_qp *b;

	sides_init(sides);
	b = make_qp(&sides[1], IBV_QPT_RC, NULL);
	mw = ibv_alloc_mw(sides[1].pd, IBV_MW_TYPE_1);
	ASSERT(b && mw);
	connect_to(b, &sides[0], 0xabcd);
	bind.bind_info.mr = sides[1].mr;
	bind.bind_info.addr = (uintptr_t)sides[1].memory;
	ASSERT_EQ(ibv_bind_mw(b, mw, &bind), 0);
	ASSERT_EQ(wait_wc(sides[1].cq).status, IBV_WC_MW_BIND_ERR);
	ASSERT_EQ(state_of(b), IBV_QPS_ERR);
	ASSERT_EQ(ibv_destroy_qp(b), 0);
	ASSERT_EQ(ibv_dealloc_mw(mw), 0);
	sides_deinit(sides);
}

/* ---- device memory and clock ---- */

static struct ibv_dm *make_dm(const struct side *side, size_t bytes)
{
	struct ibv_alloc_dm_attr attr = {.length = bytes};

	return ibv_alloc_dm(side->context, &attr);
}

#define DM_ACCESS (IBV_ACCESS_ZERO_BASED | ALL_ACCESS)

/* The offset in the region is the address, whatever the region's own offset is. */
TEST(device_memory_is_read_and_written_from_both_sides)
{
	uint8_t bytes[64], back[64];
	struct side sides[2];
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b;

	sides_init(sides);
	a = make_qp(&sides[0], IBV_QPT_RC, NULL);
	b = make_qp(&sides[1], IBV_QPT_RC, NULL);
	ASSERT(a && b);
	connect_to(a, &sides[1], b->qp_num);
	connect_to(b, &sides[0], a->qp_num);
	dm = make_dm(&sides[1], 10000);
	ASSERT(dm);
	mr = ibv_reg_dm_mr(sides[1].pd, dm, 8192, 1000, DM_ACCESS);
	ASSERT(mr);
	memset(bytes, 0x3c, sizeof(bytes));
	ASSERT_EQ(ibv_memcpy_to_dm(dm, 8192 + 128, bytes, sizeof(bytes)), 0);
	post_send(&sides[0], a,
		  (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ, .wr.rdma = {128, mr->rkey}}, 64);
	ASSERT_EQ(wait_wc(sides[0].cq).status, IBV_WC_SUCCESS);
	ASSERT_MEMEQ(sides[0].memory, bytes, 64);
	memset(sides[0].memory, 0x4d, 64);
	post_send(&sides[0], a,
		  (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {936, mr->rkey}},
		  64);
	ASSERT_EQ(wait_wc(sides[0].cq).status, IBV_WC_SUCCESS);
	ASSERT_EQ(ibv_memcpy_from_dm(back, dm, 8192 + 936, sizeof(back)), 0);
	ASSERT_MEMEQ(back, sides[0].memory, 64);
	post_send(&sides[0], a,
		  (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {940, mr->rkey}},
		  64);
	ASSERT_EQ(wait_wc(sides[0].cq).status, IBV_WC_REM_ACCESS_ERR);
	ASSERT_EQ(ibv_free_dm(dm), EBUSY);
	ASSERT_EQ(ibv_dereg_mr(mr), 0);
	ASSERT_EQ(ibv_free_dm(dm), 0);
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	ASSERT_EQ(ibv_destroy_qp(b), 0);
	sides_deinit(sides);
}

TEST(device_memory_is_as_much_as_there_is_and_no_more)
{
	struct ibv_device_attr_ex limits;
	struct ibv_dm *dms[5];
	struct side side;

	side_init(&side, 0);
	ASSERT_EQ(ibv_query_device_ex(side.context, NULL, &limits), 0);
	for (unsigned int i = 0; i < 4; i++) {
		dms[i] = make_dm(&side, limits.max_dm_size / 4);
		ASSERT(dms[i]);
	}
	ASSERT(!make_dm(&side, 4));
	ASSERT_EQ(ibv_free_dm(dms[2]), 0);
	dms[2] = make_dm(&side, 4);
	ASSERT(dms[2]);
	ASSERT(!ibv_reg_dm_mr(side.pd, dms[2], 0, 5, DM_ACCESS));
	ASSERT(!ibv_reg_dm_mr(side.pd, dms[2], 5, 0, DM_ACCESS));
	ASSERT(!ibv_reg_dm_mr(side.pd, dms[2], 0, 4, ALL_ACCESS));
	ASSERT(!ibv_reg_dm_mr(side.pd, dms[2], 0, 4,
			      IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE));
	for (unsigned int i = 0; i < 4; i++)
		ASSERT_EQ(ibv_free_dm(dms[i]), 0);
	side_deinit(&side);
}

static uint64_t wall_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

TEST(timestamp_of_a_completion_is_a_wall_clock_time)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 15,
					   .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct mlx5dv_clock_info clock;
	uint64_t before, stamp;
	struct ibv_cq_ex *cq;
	struct side sides[2];
	struct ibv_qp *a;

	sides_init(sides);
	ASSERT_EQ(ibv_destroy_cq(sides[0].cq), 0);
	cq = ibv_create_cq_ex(sides[0].context, &attr);
	ASSERT(cq);
	sides[0].cq = ibv_cq_ex_to_cq(cq);
	a = make_qp(&sides[0], IBV_QPT_UC, NULL);
	ASSERT(a);
	connect_to(a, &sides[1], 0xabcd);
	before = wall_nsec();
	post_send(&sides[0], a, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, 8);
	while (ibv_start_poll(cq, &poll_attr) == ENOENT)
		nanosleep(&(struct timespec){0, 50000}, NULL);
	ASSERT_EQ(mlx5dv_get_clock_info(sides[0].context, &clock), 0);
	stamp = mlx5dv_ts_to_ns(&clock, ibv_wc_read_completion_ts(cq));
	ibv_end_poll(cq);
	/* The two clocks are read one after the other when the device starts, and may drift apart since. */
	ASSERT_LE(before, stamp + 1000000000);
	ASSERT_LE(stamp, wall_nsec() + 1000000000);
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	sides_deinit(sides);
}

/* ---- queues that are not there ---- */

TEST(qp_without_a_send_queue_receives)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_recv_wr = 4, .max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
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

static void *alloc_garbage(struct ibv_pd *pd, void *context, size_t bytes, size_t alignment,
			   uint64_t type)
{
	void *p = NULL;

	ASSERT_EQ(posix_memalign(&p, alignment < 8 ? 8 : alignment, bytes), 0);
	memset(p, 0xa5, bytes);
	return p;
}

static void free_garbage(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	free(p);
}

/* One message of another QP shows that the device has had its turn since. */
TEST(queues_in_memory_of_the_application_may_begin_with_anything)
{
	struct ibv_parent_domain_init_attr attr = {.alloc = alloc_garbage,
						   .free = free_garbage,
						   .comp_mask =
							   IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS};
	struct ibv_qp *a, *other;
	struct side sides[2];
	struct ibv_pd *own;

	sides_init(sides);
	own = sides[0].pd;
	other = make_qp(&sides[0], IBV_QPT_UC, NULL);
	attr.pd = own;
	sides[0].pd = ibv_alloc_parent_domain(sides[0].context, &attr);
	ASSERT(sides[0].pd && other);
	a = make_qp(&sides[0], IBV_QPT_UC, NULL);
	ASSERT(a);
	connect_to(a, &sides[1], 0xabcd);
	connect_to(other, &sides[1], 0xabcd);
	ASSERT_EQ(send_bytes(&sides[0], other, 8), IBV_WC_SUCCESS);
	ASSERT_EQ(send_bytes(&sides[0], a, 8), IBV_WC_SUCCESS);
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	ASSERT_EQ(ibv_destroy_qp(other), 0);
	ASSERT_EQ(ibv_dealloc_pd(sides[0].pd), 0);
	sides[0].pd = own;
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

/* The test does not wait for the completions before the command that they refuse. */
TEST(cq_is_not_resized_below_what_was_posted_before)
{
	struct side sides[2];
	struct ibv_qp *a;

	sides_init(sides);
	a = make_qp(&sides[0], IBV_QPT_UC, NULL);
	ASSERT(a);
	connect_to(a, &sides[1], 0xabcd);
	for (unsigned int round = 0; round < 100; round++) {
		for (unsigned int i = 0; i < 6; i++)
			post_send(&sides[0], a, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, 8);
		ASSERT_EQ(ibv_resize_cq(sides[0].cq, 1), EINVAL);
		for (unsigned int i = 0; i < 6; i++)
			ASSERT_EQ(wait_wc(sides[0].cq).status, IBV_WC_SUCCESS);
	}
	ASSERT_EQ(ibv_destroy_qp(a), 0);
	sides_deinit(sides);
}

static struct ibv_cq *make_large_cq(const struct side *side)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 15, .channel = side->channel};
	struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
					 .cqe_size = 128};

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
