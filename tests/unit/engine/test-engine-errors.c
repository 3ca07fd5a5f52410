/* SPDX-License-Identifier: Apache-2.0 */
/* Every error: its syndrome at both ends, the event, then the flush. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 16384u
#define ALL_ACCESS                                                                                 \
	(ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ |      \
	 ENGINE_ACCESS_REMOTE_ATOMIC)

/* A write before, the request under test, two behind it, and two receives posted at this end. */
static uint16_t post_between(struct setup *s, struct wqe *wqe)
{
	uint16_t index;

	post_recv(&s->p.a, s->local, 8192, 8);
	post_recv(&s->p.a, s->local, 8192, 8);
	post_write(&s->p.a, 0, s->local, 0, s->remote, 8192, 64);
	post_write(&s->p.a, SIGNALED, s->local, 0, s->remote, 8192, 5000);
	post_write(&s->p.a, 0, s->local, 0, s->remote, 8192, 64);
	index = tqp_post(&s->p.a, wqe);
	post_write(&s->p.a, 0, s->local, 0, s->remote, 0, 8);
	post_write(&s->p.a, SIGNALED, s->local, 0, s->remote, 0, 8);
	tqp_ring(&s->p.a);
	world_run(&s->w);
	return index;
}

/* The requester's end: earlier ones completed, this one failed, later ones and receives were flushed. */
static void expect_failed_at(struct setup *s, uint16_t index, uint16_t n_wqebbs, uint8_t syndrome)
{
	struct engine_qp_info info = tqp_info(&s->p.a);
	uint16_t behind = (uint16_t)(index + n_wqebbs);

	expect_ok(&s->p.a, 1);
	expect_error(&s->p.a.scq, false, index, syndrome);
	expect_error(&s->p.a.scq, false, behind, SHMD_SYNDROME_WR_FLUSH_ERR);
	expect_error(&s->p.a.scq, false, (uint16_t)(behind + 1), SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&s->p.a.scq);
	expect_error(&s->p.a.rcq, true, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	expect_error(&s->p.a.rcq, true, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&s->p.a.rcq);
	ASSERT_EQ(info.state, ENGINE_QP_ERR);
	ASSERT_EQ(info.first_error, syndrome);
	ASSERT_EQ(info.pending, 0);
	ASSERT_EQ(info.counters.error_cqes, 5);
	ASSERT_EQ(info.counters.wqes, 3);
	ASSERT_EQ(s->w.nodes[0].n_events, 1);
	ASSERT_EQ(s->w.nodes[0].events[0].kind, ENGINE_EVENT_QP_ERROR);
	ASSERT_EQ(s->w.nodes[0].events[0].number, s->p.a.qpn);
	ASSERT_EQ(s->w.nodes[0].events[0].syndrome, syndrome);
	ASSERT(!s->w.nodes[0].events[0].responder);
	/* Requests behind the failed one had no effect. */
	for (unsigned int i = 0; i < 8; i++)
		ASSERT_EQ(s->remote->bytes[i], 0);
	ASSERT_MEMEQ(s->remote->bytes + 8192, s->local->bytes, 5000);
}

static void expect_peer_unharmed(struct setup *s)
{
	ASSERT_EQ(tqp_info(&s->p.b).state, ENGINE_QP_RTS);
	ASSERT_EQ(s->w.nodes[1].n_events, 0);
}

static void expect_peer_failed(struct setup *s, uint8_t syndrome)
{
	ASSERT_EQ(tqp_info(&s->p.b).state, ENGINE_QP_ERR);
	ASSERT_EQ(tqp_info(&s->p.b).first_error, syndrome);
	ASSERT_EQ(s->w.nodes[1].n_events, 1);
	ASSERT_EQ(s->w.nodes[1].events[0].kind, ENGINE_EVENT_QP_ERROR);
	ASSERT(s->w.nodes[1].events[0].responder);
}

/* ---- the requester's own ---- */

static void local_error(struct setup *s, struct wqe *wqe, uint8_t syndrome)
{
	uint16_t index = post_between(s, wqe);

	expect_failed_at(s, index, (uint16_t)((wqe->ds + 3) / 4), syndrome);
	expect_peer_unharmed(s);
	setup_deinit(s);
}

static void write_from(struct wqe *wqe, const struct setup *s, uint64_t addr, uint32_t lkey,
		       uint32_t bytes)
{
	wqe_begin(wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
	wqe_raddr(wqe, s->remote->iova, s->remote->key);
	wqe_data(wqe, addr, lkey, bytes);
}

TEST(unknown_opcodes_fail_with_02)
{
	static const unsigned int opcodes[] = {0x01, 0x02, 0x07, 0x0e, 0x13,
					       0x1b, 0x23, 0x25, 0x2f, 0xff};

	for (unsigned int i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct setup s;
		struct wqe wqe;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		wqe_begin(&wqe, opcodes[i], SIGNALED);
		local_error(&s, &wqe, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	}
}

TEST(wrong_qpn_fails_with_02)
{
	struct setup s;
	struct wqe wqe;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	write_from(&wqe, &s, s.local->iova, s.local->key, 8);
	s.p.a.qpn ^= 1;
	tqp_post(&s.p.a, &wqe);
	s.p.a.qpn ^= 1;
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	setup_deinit(&s);
}

TEST(wqe_beyond_the_producer_index_fails_with_02)
{
	struct setup s;
	struct wqe wqe;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	write_from(&wqe, &s, s.local->iova, s.local->key, 8);
	wqe_data(&wqe, s.local->iova, s.local->key, 8);
	wqe_data(&wqe, s.local->iova, s.local->key, 8);
	tqp_post(&s.p.a, &wqe);
	s.p.a.pi = 1;
	s.p.a.dbrec->snd = htobe32(1);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	tcq_expect_none(&s.p.a.scq);
	ASSERT_EQ(tqp_info(&s.p.a).sq_ci, 1);
	setup_deinit(&s);
}

TEST(wqe_longer_than_the_ring_fails_with_02)
{
	for (uint32_t log2 = 0; log2 < 4; log2++) {
		struct tqp_attr attr = TQP_ATTR;
		struct setup s;
		struct wqe wqe;

		attr.log2_sq = log2;
		setup_init(&s, MEM_POINTER, SIZE, &attr);
		for (uint16_t i = 0; i < 40; i++) {
			post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, i);
		}
		write_from(&wqe, &s, s.local->iova, s.local->key, 8);
		while (wqe.ds < 60)
			wqe_data(&wqe, s.local->iova, s.local->key, 8);
		/* Its first part alone fits the ring, and that is all that is posted. */
		wqe.ds = 4;
		tqp_post(&s.p.a, &wqe);
		s.p.a.sq[(40u & ((1u << log2) - 1)) * 64 + 7] = 60;
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_error(&s.p.a.scq, false, 40, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		setup_deinit(&s);
	}
}

TEST(producer_index_that_jumps_fails_with_02)
{
	static const uint16_t jumps[] = {257, 300, 0x7fff, 0x8000, 0xffff};

	for (unsigned int i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_ok(&s.p.a, 0);
		s.p.a.dbrec->snd = htobe32((uint16_t)(1 + jumps[i]));
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_error(&s.p.a.scq, false, 1, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		tcq_expect_none(&s.p.a.scq);
		setup_deinit(&s);
	}
}

TEST(bad_lkey_fails_with_04)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;
		struct wqe wqe;

		setup_init(&s, mode, SIZE, NULL);
		write_from(&wqe, &s, s.local->iova, s.local->key + 1, 8);
		local_error(&s, &wqe, SHMD_SYNDROME_LOCAL_PROT_ERR);
	}
}

TEST(bad_lkey_in_the_last_of_many_segments_sends_nothing)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;
		struct wqe wqe;

		setup_init(&s, mode, SIZE, NULL);
		write_from(&wqe, &s, s.local->iova, s.local->key, 4096);
		wqe_data(&wqe, s.local->iova, s.local->key, 4096);
		wqe_data(&wqe, s.local->iova, 0x77777, 1);
		local_error(&s, &wqe, SHMD_SYNDROME_LOCAL_PROT_ERR);
	}
}

TEST(local_range_fails_with_04)
{
	struct range {
		uint64_t start;
		uint32_t bytes;
	} ranges[] = {{(uint64_t)-1, 2}, {SIZE - 1, 2},	    {SIZE, 1},
		      {0, SIZE + 1},	 {(uint64_t)-8, 8}, {0x8000000000000000ull, 8},
		      {0, 0x7fffffff}};

	for (unsigned int i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct setup s;
		struct wqe wqe;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		write_from(&wqe, &s, s.local->iova + ranges[i].start, s.local->key,
			   ranges[i].bytes);
		local_error(&s, &wqe, SHMD_SYNDROME_LOCAL_PROT_ERR);
	}
}

TEST(foreign_pd_fails_with_04)
{
	struct region *foreign;
	struct setup s;
	struct wqe wqe;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	foreign = region_new_attr(&s.w, 0, 64, ALL_ACCESS, 2);
	write_from(&wqe, &s, foreign->iova, foreign->key, 8);
	local_error(&s, &wqe, SHMD_SYNDROME_LOCAL_PROT_ERR);
}

TEST(read_into_memory_without_local_write_fails_with_04)
{
	FOR_EACH_MODE(mode)
	{
		struct region *readonly;
		struct setup s;
		struct wqe wqe;

		setup_init(&s, mode, SIZE, NULL);
		readonly = region_new_attr(&s.w, 0, 64, ENGINE_ACCESS_REMOTE_READ, 1);
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_READ, SIGNALED);
		wqe_raddr(&wqe, s.remote->iova, s.remote->key);
		wqe_data(&wqe, readonly->iova, readonly->key, 8);
		local_error(&s, &wqe, SHMD_SYNDROME_LOCAL_PROT_ERR);
	}
}

TEST(payload_above_2_gib_fails_with_01)
{
	struct setup s;
	struct wqe wqe;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	write_from(&wqe, &s, s.local->iova, s.local->key, 0x7fffffff);
	wqe_data(&wqe, s.local->iova, s.local->key, 0x7fffffff);
	local_error(&s, &wqe, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
}

TEST(read_without_rd_atomic_credit_fails_with_02)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.max_rd_atomic = 0;
	setup_init(&s, MEM_POINTER, SIZE, &attr);
	post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	setup_deinit(&s);
}

TEST(failed_local_memory_operation_fails_with_04)
{
	for (unsigned int later = 0; later < 2; later++) {
		struct setup s;

		setup_init(&s, later ? MEM_DELAY : MEM_SYNC, SIZE, NULL);
		s.local->mem.fail_with = -EIO;
		s.local->mem.fail_later = later;
		post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 9000);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_LOCAL_PROT_ERR);
		expect_error(&s.p.a.scq, false, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
		setup_deinit(&s);
	}
}

/* ---- the responder's ---- */

static void remote_error(struct setup *s, struct wqe *wqe, uint8_t syndrome, uint8_t peer_syndrome)
{
	uint16_t index = post_between(s, wqe);

	expect_failed_at(s, index, (uint16_t)((wqe->ds + 3) / 4), syndrome);
	expect_peer_failed(s, peer_syndrome);
	setup_deinit(s);
}

static void refused(struct setup *s, unsigned int opcode, uint64_t raddr, uint32_t rkey, uint32_t bytes, uint8_t syndrome,
		    uint8_t peer_syndrome)
{
	uint64_t words[2] = {1, 0};
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_raddr(&wqe, raddr, rkey);
	if (opcode == SHMD_OPCODE_ATOMIC_FA)
		wqe_words64(&wqe, words, 2);
	wqe_data(&wqe, s->local->iova, s->local->key, opcode == SHMD_OPCODE_ATOMIC_FA ? 8 : bytes);
	remote_error(s, &wqe, syndrome, peer_syndrome);
}

static void access_error(struct setup *s, unsigned int opcode, uint64_t raddr, uint32_t rkey,
			 uint32_t bytes)
{
	refused(s, opcode, raddr, rkey, bytes, SHMD_SYNDROME_REMOTE_ACCESS_ERR, SHMD_SYNDROME_LOCAL_ACCESS_ERR);
}

static const unsigned int rdma_opcodes[] = {SHMD_OPCODE_RDMA_WRITE, SHMD_OPCODE_RDMA_READ,
					    SHMD_OPCODE_ATOMIC_FA};

TEST(bad_rkey_fails_with_13)
{
	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < 3; i++) {
			struct setup s;

			setup_init(&s, mode, SIZE, NULL);
			access_error(&s, rdma_opcodes[i], s.remote->iova, s.remote->key ^ 1, 8);
		}
	}
}

TEST(remote_range_fails_with_13_and_writes_nothing)
{
	for (unsigned int i = 0; i < 3; i++) {
		uint32_t bytes = 9000;
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		access_error(&s, rdma_opcodes[i],
			     s.remote->iova + SIZE - 8000 + (i == 2 ? 8000 : 0), s.remote->key,
			     bytes);
		setup_init(&s, MEM_POINTER, SIZE, NULL);
		access_error(&s, rdma_opcodes[i], s.remote->iova - 8, s.remote->key, bytes);
		setup_init(&s, MEM_POINTER, SIZE, NULL);
		access_error(&s, rdma_opcodes[i], UINT64_MAX - 7, s.remote->key, bytes);
	}
}

TEST(region_without_the_access_fails_with_13)
{
	static const uint32_t missing[] = {ENGINE_ACCESS_REMOTE_WRITE, ENGINE_ACCESS_REMOTE_READ,
					   ENGINE_ACCESS_REMOTE_ATOMIC};

	for (unsigned int i = 0; i < 3; i++) {
		struct region *r;
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		r = region_new_attr(&s.w, 1, 4096, ALL_ACCESS & ~missing[i], 1);
		access_error(&s, rdma_opcodes[i], r->iova, r->key, 8);
	}
}

TEST(qp_without_the_access_fails_with_12)
{
	static const uint32_t missing[] = {ENGINE_ACCESS_REMOTE_WRITE, ENGINE_ACCESS_REMOTE_READ,
					   ENGINE_ACCESS_REMOTE_ATOMIC};

	for (unsigned int i = 0; i < 3; i++) {
		struct engine_qp_modify mod = {.state = ENGINE_QP_RTS, .set = ENGINE_QP_SET_ACCESS};
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		mod.access = ALL_ACCESS & ~(missing[i] | ENGINE_ACCESS_LOCAL_WRITE);
		/* The writes around it are part of the test: let them pass where they may. */
		if (i == 0) {
			post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
			ASSERT_OK(engine_qp_modify(s.w.nodes[1].engine, s.p.b.qpn, &mod));
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
			setup_deinit(&s);
			continue;
		}
		ASSERT_OK(engine_qp_modify(s.w.nodes[1].engine, s.p.b.qpn, &mod));
		refused(&s, rdma_opcodes[i], s.remote->iova, s.remote->key, 8, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR,
			SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	}
}

TEST(region_of_another_pd_fails_with_13)
{
	for (unsigned int i = 0; i < 3; i++) {
		struct region *r;
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		r = region_new_attr(&s.w, 1, 4096, ALL_ACCESS, 2);
		access_error(&s, rdma_opcodes[i], r->iova, r->key, 8);
	}
}

TEST(deregistered_region_fails_with_13)
{
	for (unsigned int i = 0; i < 3; i++) {
		struct region *r;
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		r = region_new_attr(&s.w, 1, 4096, ALL_ACCESS, 1);
		/* Used once, so that it is the one remembered. */
		post_write(&s.p.b, SIGNALED, s.remote, 0, s.local, 0, 8);
		tqp_ring(&s.p.b);
		region_dereg(r);
		access_error(&s, rdma_opcodes[i], r->iova, r->key, 8);
	}
}

TEST(misaligned_atomic_fails_with_12)
{
	static const unsigned int at[] = {1, 2, 4, 7};

	for (unsigned int i = 0; i < 4; i++) {
		uint64_t words[2] = {1, 0};
		struct setup s;
		struct wqe wqe;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		wqe_begin(&wqe, SHMD_OPCODE_ATOMIC_FA, SIGNALED);
		wqe_raddr(&wqe, s.remote->iova + 16 + at[i], s.remote->key);
		wqe_words64(&wqe, words, 2);
		wqe_data(&wqe, s.local->iova, s.local->key, 8);
		remote_error(&s, &wqe, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR,
			     SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	}
}

TEST(failed_remote_memory_operation_fails_with_14)
{
	for (unsigned int later = 0; later < 2; later++) {
		for (unsigned int i = 0; i < 2; i++) {
			struct region *r;
			struct setup s;

			setup_init(&s, later ? MEM_DELAY : MEM_SYNC, SIZE, NULL);
			r = region_new(&s.w, 1, 4096);
			r->mem.fail_with = -EIO;
			r->mem.fail_later = later;
			if (i)
				post_fadd(&s.p.a, SIGNALED, s.local, 0, r, 0, 1);
			else
				post_write(&s.p.a, SIGNALED, s.local, 0, r, 0, 100);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_OP_ERR);
			expect_peer_failed(&s, SHMD_SYNDROME_LOCAL_PROT_ERR);
			setup_deinit(&s);
		}
	}
}

TEST(message_too_long_for_the_receive)
{
	static const uint32_t sizes[] = {101, 4096, 9000};

	FOR_EACH_MODE(mode)
	{
		for (unsigned int i = 0; i < 3; i++) {
			struct setup s;

			setup_init(&s, mode, SIZE, NULL);
			post_recv(&s.p.b, s.remote, 0, 100);
			post_recv(&s.p.b, s.remote, 0, 100);
			post_send(&s.p.a, SIGNALED, s.local, 0, sizes[i]);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
			expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
			expect_error(&s.p.b.rcq, true, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
			expect_peer_failed(&s, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
			setup_deinit(&s);
		}
	}
}

TEST(receive_with_a_bad_key)
{
	uint32_t seg[4] = {htobe32(64), htobe32(0x5555), 0, 0};
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	post_recv_raw(&s.p.b, seg, sizeof(seg));
	post_recv(&s.p.b, s.remote, 0, 100);
	post_send(&s.p.a, SIGNALED, s.local, 0, 10);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_OP_ERR);
	expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_PROT_ERR);
	expect_error(&s.p.b.rcq, true, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
	setup_deinit(&s);
}

TEST(malformed_receive)
{
	uint32_t seg[4] = {htobe32(0x80000004), htobe32(0x5555), 0, 0};
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	post_recv_raw(&s.p.b, seg, sizeof(seg));
	post_send(&s.p.a, SIGNALED, s.local, 0, 10);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_OP_ERR);
	expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	setup_deinit(&s);
}

TEST(receive_index_that_jumps)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	post_recv(&s.p.b, s.remote, 0, 100);
	s.p.b.dbrec->rcv = htobe32(65 + 7);
	post_send(&s.p.a, SIGNALED, s.local, 0, 10);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_OP_ERR);
	expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	tcq_expect_none(&s.p.b.rcq);
	setup_deinit(&s);
}

/* A WRITE with immediate data that may not write has taken a receive, which fails with it. */
TEST(write_imm_without_access_fails_its_receive)
{
	struct setup s;
	struct wqe wqe;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	post_recv(&s.p.b, s.remote, 0, 100);
	post_recv(&s.p.b, s.remote, 0, 100);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE_IMM, SIGNALED);
	wqe_raddr(&wqe, s.remote->iova, s.remote->key + 1);
	wqe_data(&wqe, s.local->iova, s.local->key, 8);
	tqp_post(&s.p.a, &wqe);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	expect_error(&s.p.b.rcq, true, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&s.p.b.rcq);
	setup_deinit(&s);
}

/* A right that the QP lacks is found before a receive is taken, or missed. */
TEST(write_imm_through_a_qp_without_the_access_takes_no_receive)
{
	for (unsigned int posted = 0; posted < 2; posted++) {
		struct engine_qp_modify mod = {.state = ENGINE_QP_RTS, .set = ENGINE_QP_SET_ACCESS};
		struct setup s;
		struct wqe wqe;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		ASSERT_OK(engine_qp_modify(s.w.nodes[1].engine, s.p.b.qpn, &mod));
		if (posted)
			post_recv(&s.p.b, s.remote, 0, 100);
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE_IMM, SIGNALED);
		wqe_raddr(&wqe, s.remote->iova, s.remote->key);
		wqe_data(&wqe, s.local->iova, s.local->key, 8);
		tqp_post(&s.p.a, &wqe);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
		if (posted)
			expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
		tcq_expect_none(&s.p.b.rcq);
		setup_deinit(&s);
	}
}

TEST(send_to_a_qp_without_receive_queue)
{
	struct engine_qp_attr create;
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;
	struct tqp c;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	tqp_init(&c, &s.w, 1, &attr);
	ASSERT_OK(engine_qp_destroy(c.node->engine, c.qpn));
	create = (struct engine_qp_attr){.qpn = c.qpn,
					 .pdn = 1,
					 .sq_ring = c.sq,
					 .log2_sq_wqebbs = c.log2_sq,
					 .dbrec = c.dbrec,
					 .send_cqn = c.scq.cqn,
					 .recv_cqn = c.rcq.cqn};
	ASSERT_OK(engine_qp_create(c.node->engine, &create));
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RST));
	tqp_connect(&s.p.a, &c, &attr);
	tqp_connect(&c, &s.p.a, &attr);
	post_send(&s.p.a, SIGNALED, s.local, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	tqp_deinit(&c);
	setup_deinit(&s);
}

/* A word that is aligned by its address and not in its memory. */
TEST(atomic_on_memory_that_is_not_aligned)
{
	for (unsigned int direct = 0; direct < 2; direct++) {
		struct engine_mr_attr mr = {.key = 0x7777,
					    .pdn = 1,
					    .access = ALL_ACCESS,
					    .iova = 0x1000,
					    .length_bytes = 64,
					    .mem_offset = 4};
		uint64_t words[2] = {1, 0};
		struct setup s;
		struct wqe wqe;

		setup_init(&s, direct ? MEM_POINTER : MEM_SYNC, SIZE, NULL);
		mr.mem = &s.remote->mem.mem;
		ASSERT_OK(engine_mr_create(s.w.nodes[1].engine, &mr));
		wqe_begin(&wqe, SHMD_OPCODE_ATOMIC_FA, SIGNALED);
		wqe_raddr(&wqe, 0x1000, 0x7777);
		wqe_words64(&wqe, words, 2);
		wqe_data(&wqe, s.local->iova, s.local->key, 8);
		tqp_post(&s.p.a, &wqe);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
		setup_deinit(&s);
	}
}

/* ---- after the error ---- */

TEST(requests_posted_in_error_are_flushed)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_ERR));
	world_run(&s.w);
	tcq_expect_none(&s.p.a.scq);
	post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
	post_recv(&s.p.a, s.local, 0, 8);
	ASSERT_EQ(engine_scan(s.w.nodes[0].engine), 1);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	expect_error(&s.p.a.rcq, true, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	ASSERT_EQ(engine_scan(s.w.nodes[0].engine), 0);
	/* Moving to ERR by request raises no event. */
	ASSERT_EQ(s.w.nodes[0].n_events, 0);
	setup_deinit(&s);
}

/* A buffer that the NIC still writes is not given back: flush CQEs wait for the operation. */
TEST(flush_waits_for_pending_memory_operations)
{
	struct setup s;

	setup_init(&s, MEM_DELAY, SIZE, NULL);
	s.w.delays.hold_turns = 50;
	post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8000);
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	/* Two requests and the copy of the first response. */
	while (tqp_info(&s.p.a).pending != 3)
		ASSERT(world_step(&s.w));
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_ERR));
	for (unsigned int i = 0; i < 10; i++)
		world_step(&s.w);
	tcq_expect_none(&s.p.a.scq);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	expect_error(&s.p.a.scq, false, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
	ASSERT_EQ(tqp_info(&s.p.a).pending, 0);
	setup_deinit(&s);
}

/* A receive that a message has begun to fill is flushed with the others. */
TEST(a_receive_in_use_is_flushed)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	s.w.budget = 2;
	post_recv(&s.p.b, s.remote, 0, SIZE);
	post_recv(&s.p.b, s.remote, 0, SIZE);
	post_send(&s.p.a, SIGNALED, s.local, 0, SIZE);
	tqp_ring(&s.p.a);
	while (tqp_info(&s.p.b).rq_ci == 0)
		ASSERT(world_step(&s.w));
	ASSERT_OK(tqp_to(&s.p.b, ENGINE_QP_ERR));
	world_run(&s.w);
	expect_error(&s.p.b.rcq, true, 0, SHMD_SYNDROME_WR_FLUSH_ERR);
	expect_error(&s.p.b.rcq, true, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&s.p.b.rcq);
	setup_deinit(&s);
}

/* Indexes that cannot be true flush nothing, and the QP can be used again. */
TEST(nonsense_indexes_in_error_flush_nothing)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_ERR));
	s.p.a.dbrec->snd = htobe32(0x4000);
	s.p.a.dbrec->rcv = htobe32(0x4000);
	engine_scan(s.w.nodes[0].engine);
	world_run(&s.w);
	tcq_expect_none(&s.p.a.scq);
	tcq_expect_none(&s.p.a.rcq);
	s.p.a.dbrec->snd = s.p.a.dbrec->rcv = 0;
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RST));
	tqp_connect(&s.p.a, &s.p.b, &attr);
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, 0);
	setup_deinit(&s);
}

/* A full ring is flushed to the last, over several progress calls. */
TEST(a_full_ring_is_flushed)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	for (unsigned int i = 0; i < 256; i++)
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
	ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_ERR));
	world_run(&s.w);
	for (uint16_t i = 0; i < 256; i++)
		expect_error(&s.p.a.scq, false, i, SHMD_SYNDROME_WR_FLUSH_ERR);
	tcq_expect_none(&s.p.a.scq);
	setup_deinit(&s);
}

/* Bytes no client would write: errors and flushes, and the neighbours live on. */
TEST(random_rings_hurt_no_other_qp)
{
	uint64_t seed = 77;

	for (unsigned int round = 0; round < 200; round++) {
		struct tqp_attr attr = TQP_ATTR;
		struct setup s;
		struct pair good;

		setup_init(&s, round % 2 ? MEM_POINTER : MEM_DELAY, SIZE, NULL);
		pair_init(&good, &s.w, &attr);
		for (size_t i = 0; i < (size_t)64 << s.p.a.log2_sq; i++)
			s.p.a.sq[i] = (uint8_t)test_random(&seed);
		for (unsigned int i = 0; i < 256; i++) {
			uint8_t *wqe = s.p.a.sq + i * 64;
			uint32_t qpn_ds =
				htobe32(s.p.a.qpn << 8 | (uint32_t)(test_random(&seed) % 64));

			wqe[3] = (uint8_t)(8 + test_random(&seed) % 16);
			memcpy(wqe + 4, &qpn_ds, 4);
		}
		for (size_t i = 0; i < (size_t)64 << s.p.b.log2_rq; i++)
			s.p.b.rq[i] = (uint8_t)test_random(&seed);
		s.p.b.dbrec->rcv = htobe32(20);
		s.p.a.dbrec->snd = htobe32((uint32_t)(test_random(&seed) % 300));
		tqp_ring(&s.p.a);
		post_write(&good.a, SIGNALED, s.local, 0, s.remote, 0, 4000);
		tqp_ring(&good.a);
		world_run_timers(&s.w, 1000000000);
		expect_ok(&good.a, 0);
		pair_deinit(&good);
		setup_deinit(&s);
	}
}
