/* SPDX-License-Identifier: Apache-2.0 */
/* Order: of memory effects, of completions, and what a fence and the read/atomic limit hold back. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 65536u

/* Writes to one place: the last one stays. */
TEST(writes_take_effect_in_order)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		for (unsigned int round = 0; round < 10; round++) {
			uint64_t from = 0;

			for (unsigned int i = 0; i < 20; i++) {
				uint32_t bytes = 1 + (uint32_t)(test_random(&s.w.seed) % 6000);

				from = test_random(&s.w.seed) % 50000;
				post_write(&s.p.a, 0, s.local, from, s.remote, 100, bytes);
			}
			post_write(&s.p.a, SIGNALED, s.local, from, s.remote, 100, 6000);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, (uint16_t)(s.p.a.pi - 1));
			ASSERT_MEMEQ(s.remote->bytes + 100, s.local->bytes + from, 6000);
		}
		setup_deinit(&s);
	}
}

static unsigned int most_at_once(enum mem_mode mode)
{
	struct setup s;
	unsigned int most;

	setup_init(&s, mode, SIZE, NULL);
	s.w.delays.hold_turns = 100;
	for (unsigned int i = 0; i < 40; i++)
		post_write(&s.p.a, i == 39 ? SIGNALED : 0, s.local, 8 * i, s.remote, 8 * (i % 5), 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, 39);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes + 8 * 35, 40);
	most = s.w.delays.max_n;
	setup_deinit(&s);
	return most;
}

/* Many small ones are under way together where the memory itself keeps their order, and nowhere else. */
TEST(writes_are_early_where_memory_keeps_their_order)
{
	ASSERT_EQ(most_at_once(MEM_QUEUE), 40);
	ASSERT_EQ(most_at_once(MEM_DELAY), 1);
}

/* More than may be under way together, and than end in one turn, though a call has units left. timeout 0: nothing is sent again. */
TEST(many_more_writes_than_are_early_are_drained)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.log2_sq = 9;
	attr.timeout = 0;
	setup_init(&s, MEM_QUEUE, SIZE, &attr);
	s.w.budget = 1000;
	s.w.delays.hold_turns = 100000;
	for (unsigned int i = 0; i < 100; i++)
		post_write(&s.p.a, i == 99 ? SIGNALED : 0, s.local, 8 * i, s.remote, 8 * i, 8);
	tqp_ring(&s.p.a);
	for (unsigned int step = 0; step < 2000; step++)
		world_step(&s.w);
	ASSERT_EQ(s.w.delays.n, 64);
	/* All of them end at once, when nothing more is on its way. */
	s.w.delays.hold_turns = 0;
	for (unsigned int i = 0; i < s.w.delays.n; i++)
		s.w.delays.ops[i].wait = 0;
	while (s.w.delays.n)
		delay_queue_run(&s.w.delays);
	world_run(&s.w);
	expect_ok(&s.p.a, 99);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 800);
	setup_deinit(&s);
}

/* One that fails takes those behind it along; those in front of it have succeeded. */
TEST(an_early_write_that_fails_is_the_one_that_is_told)
{
	struct region *bad;
	struct setup s;

	setup_init(&s, MEM_QUEUE, SIZE, NULL);
	s.w.delays.hold_turns = 20;
	bad = region_new(&s.w, 1, 4096);
	bad->mem.fail_with = -EIO;
	bad->mem.fail_later = true;
	for (unsigned int i = 0; i < 20; i++)
		post_write(&s.p.a, SIGNALED, s.local, 0, i == 11 ? bad : s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	for (uint16_t i = 0; i < 11; i++)
		expect_ok(&s.p.a, i);
	expect_error(&s.p.a.scq, false, 11, SHMD_SYNDROME_REMOTE_OP_ERR);
	expect_error(&s.p.a.scq, false, 12, SHMD_SYNDROME_WR_FLUSH_ERR);
	setup_deinit(&s);
}

/* Early writes of a former life end in it. */
TEST(a_qp_that_is_reset_goes_on_when_its_early_writes_have_ended)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	setup_init(&s, MEM_QUEUE, SIZE, &attr);
	for (unsigned int round = 1; round <= 30; round++) {
		s.w.delays.hold_turns = 30;
		for (unsigned int i = 0; i < 30; i++)
			post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		for (unsigned int step = 0; step < 2 * round; step++)
			world_step(&s.w);
		ASSERT_OK(tqp_to(&s.p.b, round % 2 ? ENGINE_QP_ERR : ENGINE_QP_RST));
		ASSERT_OK(tqp_to(&s.p.b, ENGINE_QP_RST));
		ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RST));
		s.p.a.pi = 0;
		s.p.a.dbrec->snd = 0;
		attr.psn = round * 1000;
		tqp_connect(&s.p.a, &s.p.b, &attr);
		tqp_connect(&s.p.b, &s.p.a, &attr);
		post_write(&s.p.a, SIGNALED, s.local, 8, s.remote, 8, 8);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_ok(&s.p.a, 0);
		ASSERT_MEMEQ(s.remote->bytes + 8, s.local->bytes + 8, 8);
		ASSERT_EQ(s.w.delays.n, 0);
	}
	setup_deinit(&s);
}

/* At no moment is the flag there before the data. */
TEST(a_flag_written_behind_data_is_never_early)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		s.local->bytes[60000] = 1;
		for (unsigned int round = 0; round < 30; round++) {
			bool running = true;

			memset(s.remote->bytes, 0, SIZE);
			post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 10000);
			post_write(&s.p.a, SIGNALED, s.local, 60000, s.remote, 20000, 1);
			tqp_ring(&s.p.a);
			while (running) {
				running = world_step(&s.w);
				if (s.remote->bytes[20000])
					ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 10000);
			}
			ASSERT_EQ(s.remote->bytes[20000], 1);
			expect_ok(&s.p.a, (uint16_t)(s.p.a.pi - 1));
		}
		setup_deinit(&s);
	}
}

/* A CQE is never there before the bytes of its READ. */
TEST(a_read_completes_behind_its_bytes)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		region_fill(s.remote, 5);
		for (unsigned int i = 0; i < 16; i++)
			post_read(&s.p.a, SIGNALED, s.local, 4000 * i, s.remote, 100 * i, 4000);
		tqp_ring(&s.p.a);
		for (uint16_t done = 0; done < 16;) {
			struct shmd_cqe cqe;

			ASSERT(world_step(&s.w) || done == 15);
			while (tcq_poll(&s.p.a.scq, &cqe)) {
				ASSERT_EQ(be16toh(cqe.wqe_counter), done);
				ASSERT_MEMEQ(s.local->bytes + 4000u * done,
					     s.remote->bytes + 100u * done, 4000);
				done++;
			}
		}
		setup_deinit(&s);
	}
}

/* CQEs come in the order of posting, whatever was faster. */
TEST(completions_are_in_order)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		for (unsigned int i = 0; i < 100; i++) {
			switch (test_random(&s.w.seed) % 4) {
			case 0:
				post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 10000);
				break;
			case 1:
				post_fadd(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 1);
				break;
			case 2:
				post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
				break;
			default: {
				struct wqe wqe;

				wqe_begin(&wqe, SHMD_OPCODE_NOP, SIGNALED);
				tqp_post(&s.p.a, &wqe);
			}
			}
		}
		tqp_ring(&s.p.a);
		world_run(&s.w);
		for (uint16_t i = 0; i < 100; i++)
			expect_ok(&s.p.a, i);
		setup_deinit(&s);
	}
}

/* Read a word, then overwrite it behind a fence: the read has the old value. */
TEST(fence_keeps_a_write_behind_a_read)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		for (unsigned int i = 0; i < 20; i++) {
			uint8_t old[3000];

			region_fill(s.remote, i);
			memcpy(old, s.remote->bytes, 3000);
			post_read(&s.p.a, 0, s.local, 20000, s.remote, 0, 3000);
			post_write(&s.p.a, SIGNALED | FENCE, s.local, 100 + i, s.remote, 0, 3000);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, (uint16_t)(s.p.a.pi - 1));
			ASSERT_MEMEQ(s.local->bytes + 20000, old, 3000);
			ASSERT_MEMEQ(s.remote->bytes, s.local->bytes + 100 + i, 3000);
		}
		setup_deinit(&s);
	}
}

/* The result of an atomic is the source of a fenced write behind it. */
TEST(fence_makes_a_result_usable)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		*(uint64_t *)(void *)s.remote->bytes = 1000;
		for (unsigned int i = 0; i < 20; i++) {
			post_fadd(&s.p.a, 0, s.local, 0, s.remote, 0, 1);
			post_write(&s.p.a, SIGNALED | FENCE, s.local, 0, s.remote, 80, 8);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, (uint16_t)(s.p.a.pi - 1));
			ASSERT_EQ(*(uint64_t *)(void *)(s.remote->bytes + 80), 1000 + i);
		}
		setup_deinit(&s);
	}
}

/* IBTA orders an atomic behind a READ without a fence. */
TEST(an_atomic_behind_a_read_does_not_show_in_it)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		for (uint64_t i = 0; i < 20; i++) {
			post_read(&s.p.a, 0, s.local, 0, s.remote, 0, 2000);
			post_fadd(&s.p.a, SIGNALED, s.local, 8000, s.remote, 0, 1);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, (uint16_t)(s.p.a.pi - 1));
			ASSERT_EQ(*(uint64_t *)(void *)s.local->bytes, i);
			ASSERT_EQ(*(uint64_t *)(void *)(s.local->bytes + 8000), i);
		}
		setup_deinit(&s);
	}
}

struct outstanding {
	unsigned int now, most;
};

static bool count_reads(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	struct outstanding *o = w->data;

	if (pkt->kind == PACKET_READ || pkt->kind == PACKET_ATOMIC)
		o->now++;
	if (pkt->kind == PACKET_READ_RESPONSE || pkt->kind == PACKET_ATOMIC_RESPONSE)
		o->now--;
	if (o->now > o->most)
		o->most = o->now;
	return false;
}

TEST(max_rd_atomic_limits_what_is_outstanding)
{
	static const uint8_t limits[] = {1, 4, 16};

	for (unsigned int i = 0; i < 3; i++) {
		struct tqp_attr attr = TQP_ATTR;
		struct outstanding o = {0, 0};
		struct setup s;

		attr.max_rd_atomic = limits[i];
		setup_init(&s, MEM_POINTER, SIZE, &attr);
		s.w.lose = count_reads;
		s.w.data = &o;
		for (unsigned int k = 0; k < 60; k++)
			post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		for (uint16_t k = 0; k < 60; k++)
			expect_ok(&s.p.a, k);
		ASSERT_EQ(o.most, limits[i]);
		setup_deinit(&s);
	}
}

static bool count_acks(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	*(unsigned int *)w->data += pkt->kind == PACKET_ACK;
	return false;
}

/* A batch with one signaled request costs one acknowledgement. */
TEST(acknowledgements_are_shared)
{
	unsigned int n_acks = 0;
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	s.w.lose = count_acks;
	s.w.data = &n_acks;
	for (unsigned int i = 0; i < 16; i++)
		post_write(&s.p.a, i == 15 ? SIGNALED : 0, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, 15);
	ASSERT_EQ(n_acks, 1);
	setup_deinit(&s);
}

/* Unsignaled requests are acknowledged nevertheless, and cost no CQE. */
TEST(unsignaled_requests_complete_silently)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	for (unsigned int i = 0; i < 1000; i++) {
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
		if (i % 200 == 199) {
			tqp_ring(&s.p.a);
			world_run(&s.w);
			ASSERT_EQ(tqp_info(&s.p.a).pending, 0);
		}
	}
	tcq_expect_none(&s.p.a.scq);
	ASSERT_EQ(tqp_info(&s.p.a).counters.wqes, 1000);
	setup_deinit(&s);
}

/* No QP starves: with one unit a call, all of many progress alike. */
TEST(turns_are_fair)
{
	enum { N = 8, EACH = 200 };
	struct tqp_attr attr = TQP_ATTR;
	struct region *local, *remote;
	struct pair p[N];
	struct world w;

	world_init(&w, MEM_POINTER);
	local = region_new(&w, 0, 4096);
	remote = region_new(&w, 1, 4096);
	for (unsigned int i = 0; i < N; i++) {
		pair_init(&p[i], &w, &attr);
		for (unsigned int k = 0; k < EACH; k++)
			post_write(&p[i].a, 0, local, 0, remote, 0, 8);
		tqp_ring(&p[i].a);
	}
	w.budget = 1;
	for (;;) {
		uint16_t least = EACH, most = 0;

		for (unsigned int i = 0; i < N; i++) {
			uint16_t ci = (uint16_t)tqp_info(&p[i].a).sq_ci;

			least = ci < least ? ci : least;
			most = ci > most ? ci : most;
		}
		ASSERT_LE(most - least, TURN_UNITS + 1);
		if (!world_step(&w))
			break;
	}
	for (unsigned int i = 0; i < N; i++) {
		ASSERT_EQ(tqp_info(&p[i].a).counters.wqes, EACH);
		pair_deinit(&p[i]);
	}
	world_deinit(&w);
}

/* A budget is a limit: one call does not do more. */
TEST(a_call_stays_within_its_budget)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	for (unsigned int i = 0; i < 100; i++)
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	ASSERT_EQ(engine_progress(s.w.nodes[0].engine, 0), 0);
	for (unsigned int budget = 1; budget < 40; budget += 13) {
		uint32_t before = tqp_info(&s.p.a).sq_ci;

		ASSERT_LE(engine_progress(s.w.nodes[0].engine, budget), budget);
		ASSERT_LE(tqp_info(&s.p.a).sq_ci - before, budget);
	}
	world_run(&s.w);
	setup_deinit(&s);
}

/* The doorbell only wakes: posts are found by a scan too, and a doorbell without a post does nothing. */
TEST(the_index_comes_from_the_dbrec)
{
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	world_run(&s.w);
	tqp_ring(&s.p.a);
	engine_doorbell(s.w.nodes[0].engine, 0xabcdef);
	world_run(&s.w);
	ASSERT_EQ(engine_scan(s.w.nodes[0].engine), 0);
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	world_run(&s.w);
	tcq_expect_none(&s.p.a.scq);
	ASSERT_EQ(engine_scan_hot(s.w.nodes[0].engine), 1);
	ASSERT_EQ(engine_scan(s.w.nodes[0].engine), 0);
	world_run(&s.w);
	expect_ok(&s.p.a, 0);
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	ASSERT_EQ(engine_scan(s.w.nodes[0].engine), 1);
	world_run(&s.w);
	expect_ok(&s.p.a, 1);
	setup_deinit(&s);
}

TEST(the_hot_list_holds_the_most_recent)
{
	enum { N = 12 };
	struct tqp_attr attr = TQP_ATTR;
	struct region *local, *remote;
	struct pair p[N];
	struct world w;

	world_init(&w, MEM_POINTER);
	local = region_new(&w, 0, 4096);
	remote = region_new(&w, 1, 4096);
	for (unsigned int i = 0; i < N; i++)
		pair_init(&p[i], &w, &attr);
	for (unsigned int i = 0; i < N; i++)
		tqp_ring(&p[i].a);
	world_run(&w);
	for (unsigned int i = 0; i < N; i++)
		post_write(&p[i].a, 0, local, 0, remote, 0, 8);
	ASSERT_EQ(engine_scan_hot(w.nodes[0].engine), 8);
	world_run(&w);
	for (unsigned int i = 0; i < N; i++)
		ASSERT_EQ(tqp_info(&p[i].a).counters.wqes, i < 4 ? 0 : 1);
	/* Destroyed QPs are not looked at. */
	for (unsigned int i = 0; i < N; i++)
		pair_deinit(&p[i]);
	ASSERT_EQ(engine_scan_hot(w.nodes[0].engine), 0);
	world_deinit(&w);
}

static void post_any(struct setup *s, unsigned int flags)
{
	uint64_t at = test_random(&s->w.seed) % 100 * 64;
	uint32_t bytes = (uint32_t)(test_random(&s->w.seed) % 9000);
	struct wqe wqe;

	flags |= test_random(&s->w.seed) % 8 ? 0 : FENCE;
	switch (test_random(&s->w.seed) % 6) {
	case 0:
		post_write(&s->p.a, flags, s->local, at, s->remote, at, bytes);
		break;
	case 1:
		post_read(&s->p.a, flags, s->local, at, s->remote, at, bytes);
		break;
	case 2:
		post_fadd(&s->p.a, flags, s->local, at, s->remote, at, 1);
		break;
	case 3:
		post_send(&s->p.a, flags, s->local, at, bytes);
		post_recv(&s->p.b, s->remote, at, 9000);
		break;
	default:
		wqe_begin(&wqe, SHMD_OPCODE_NOP, flags);
		wqe.ds = 1 + (unsigned int)(test_random(&s->w.seed) % 12);
		tqp_post(&s->p.a, &wqe);
	}
}

/* Nothing is lost here, so nothing may need a retry timer: there is none, and all complete. */
TEST(no_mixture_of_requests_waits_for_a_timer)
{
	FOR_EACH_MODE(mode)
	{
		for (unsigned int round = 0; round < 60; round++) {
			struct tqp_attr attr = TQP_ATTR;
			struct shmd_cqe cqe;
			struct setup s;

			attr.timeout = 0;
			attr.log2_sq = 4 + round % 3;
			attr.max_rd_atomic = (uint8_t)(1 + round % 5);
			setup_init(&s, mode, SIZE, &attr);
			s.w.seed = round;
			s.w.budget = 1 + round % 20;
			for (unsigned int batch = 0; batch < 30; batch++) {
				uint16_t start = s.p.a.pi;

				/* As much as fits; some of it announced while earlier ones are on their way. */
				while ((uint16_t)(s.p.a.pi - start) + 3u <= 1u << attr.log2_sq) {
					post_any(&s, test_random(&s.w.seed) % 6 ? 0 : SIGNALED);
					if (test_random(&s.w.seed) % 4)
						continue;
					tqp_ring(&s.p.a);
					world_step(&s.w);
				}
				if (batch % 7 == 3)
					ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_SQD));
				tqp_ring(&s.p.a);
				world_run(&s.w);
				ASSERT_EQ(tqp_info(&s.p.a).pending, 0);
				if (batch % 7 == 3)
					ASSERT_OK(tqp_to(&s.p.a, ENGINE_QP_RTS));
				world_run(&s.w);
				ASSERT_EQ(tqp_info(&s.p.a).sq_ci, s.p.a.pi);
				ASSERT_EQ(tqp_info(&s.p.a).pending, 0);
				while (tcq_poll(&s.p.a.scq, &cqe))
					ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
				while (tcq_poll(&s.p.b.rcq, &cqe))
					ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_RESP_SEND);
			}
			ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 0);
			setup_deinit(&s);
		}
	}
}

/* The daemon keeps no copy of a whole long ring: what waits for room there goes on without a timer's help. */
TEST(a_long_ring_of_the_longest_requests_is_drained)
{
	struct tqp_attr attr = TQP_ATTR;
	struct region *src, *dst;
	struct world w;
	struct pair p;
	uint16_t last;

	attr.log2_sq = 14;
	attr.timeout = 0;
	world_init(&w, MEM_POINTER);
	src = region_new(&w, 0, 4096);
	dst = region_new(&w, 1, 4096);
	pair_init(&p, &w, &attr);
	for (unsigned int i = 0; i < 1000; i++) {
		struct wqe wqe;

		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, i == 999 ? SIGNALED : 0);
		wqe_raddr(&wqe, dst->iova, dst->key);
		for (unsigned int j = 0; j < 61; j++)
			wqe_data(&wqe, src->iova + j, src->key, 1);
		last = tqp_post(&p.a, &wqe);
	}
	tqp_ring(&p.a);
	world_run(&w);
	expect_ok(&p.a, last);
	ASSERT_EQ(tqp_info(&p.a).counters.wqes, 1000);
	pair_deinit(&p);
	world_deinit(&w);
}

/* An unsignaled write, and behind it more NOPs than the engine keeps track of. */
TEST(many_nops_behind_an_unsignaled_write)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;
	struct wqe wqe;

	attr.timeout = 0;
	attr.log2_sq = 10;
	setup_init(&s, MEM_POINTER, SIZE, &attr);
	post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
	for (unsigned int i = 0; i < 900; i++) {
		wqe_begin(&wqe, SHMD_OPCODE_NOP, i == 899 ? SIGNALED : 0);
		tqp_post(&s.p.a, &wqe);
	}
	tqp_ring(&s.p.a);
	world_run(&s.w);
	expect_ok(&s.p.a, 900);
	setup_deinit(&s);
}

/* Earlier requests that asked for nothing complete before the one that fails. */
TEST(an_error_behind_unsignaled_requests_waits_for_no_timer)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		struct setup s;
		struct wqe wqe;

		attr.timeout = 0;
		setup_init(&s, mode, SIZE, &attr);
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
		wqe_begin(&wqe, 0x55, 0);
		tqp_post(&s.p.a, &wqe);
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_error(&s.p.a.scq, false, 2, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		expect_error(&s.p.a.scq, false, 3, SHMD_SYNDROME_WR_FLUSH_ERR);
		ASSERT_EQ(tqp_info(&s.p.a).counters.wqes, 2);
		setup_deinit(&s);
	}
}
