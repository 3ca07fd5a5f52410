/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that are lost, repeated or overtaken; receivers that are not ready; peers that never answer. */
#include <endian.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define MSEC 1000000ull
#define SEC 1000000000ull

static bool lose_nth(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	return n == *(const uint64_t *)w->data;
}

/* One of everything, three packets each. */
static void post_all(struct setup *s)
{
	post_recv(&s->p.b, s->remote, 0, 12000);
	post_write(&s->p.a, SIGNALED, s->local, 0, s->remote, 20000, 12000);
	post_fadd(&s->p.a, SIGNALED, s->local, 50000, s->remote, 48000, 5);
	post_read(&s->p.a, SIGNALED | FENCE, s->local, 20000, s->remote, 20000, 12000);
	post_send(&s->p.a, SIGNALED, s->local, 5, 11000);
	post_write(&s->p.a, SIGNALED, s->local, 0, s->remote, 40000, 8);
	tqp_ring(&s->p.a);
}

static void expect_all(struct setup *s)
{
	for (uint16_t i = 0; i < 5; i++)
		expect_ok(&s->p.a, i);
	expect_cqe(&s->p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
	tcq_expect_none(&s->p.b.rcq);
	ASSERT_MEMEQ(s->remote->bytes + 20000, s->local->bytes, 12000);
	ASSERT_MEMEQ(s->local->bytes + 20000, s->local->bytes, 12000);
	ASSERT_MEMEQ(s->remote->bytes, s->local->bytes + 5, 11000);
	ASSERT_MEMEQ(s->remote->bytes + 40000, s->local->bytes, 8);
	/* The atomic acted once, whatever was repeated. */
	ASSERT_EQ(*(uint64_t *)(void *)(s->remote->bytes + 48000), 5);
	ASSERT_EQ(*(uint64_t *)(void *)(s->local->bytes + 50000), 0);
}

TEST(any_single_lost_packet_is_recovered)
{
	FOR_EACH_MODE(mode)
	{
		for (uint64_t n = 1;; n++) {
			struct setup s;

			setup_init(&s, mode, SIZE, NULL);
			s.w.lose = lose_nth;
			s.w.data = &n;
			post_all(&s);
			world_run_timers(&s.w, 2 * SEC);
			expect_all(&s);
			if (!s.w.n_lost) {
				ASSERT_GE(n, 10);
				ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 0);
				setup_deinit(&s);
				break;
			}
			setup_deinit(&s);
		}
	}
}

static bool lose_two(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	const uint64_t *which = w->data;

	return n == which[0] || n == which[1];
}

TEST(any_two_lost_packets_are_recovered)
{
	for (uint64_t a = 1; a < 16; a++) {
		for (uint64_t b = a + 1; b < 24; b++) {
			uint64_t which[2] = {a, b};
			struct setup s;

			setup_init(&s, MEM_POINTER, SIZE, NULL);
			s.w.lose = lose_two;
			s.w.data = which;
			post_all(&s);
			world_run_timers(&s.w, 2 * SEC);
			expect_all(&s);
			setup_deinit(&s);
		}
	}
}

TEST(every_packet_twice_changes_nothing)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		s.w.repeat_percent = 100;
		post_all(&s);
		world_run_timers(&s.w, SEC);
		expect_all(&s);
		setup_deinit(&s);
	}
}

static void storm(enum mem_mode mode, uint64_t seed)
{
	struct tqp_attr attr = TQP_ATTR;
	uint64_t expected_word = 0;
	struct setup s;

	attr.timeout = 8; /* about 1 ms */
	setup_init(&s, mode, SIZE, &attr);
	s.w.seed = seed;
	s.w.lose_percent = 5;
	s.w.repeat_percent = 10;
	s.w.swap_percent = 10;
	for (unsigned int round = 0; round < 20; round++) {
		uint32_t bytes = (uint32_t)(test_random(&s.w.seed) % 9000);

		for (unsigned int i = 0; i < 8; i++) {
			uint64_t at = (uint64_t)i * 8;

			post_fadd(&s.p.a, 0, s.local, 60000 + at, s.remote, 64000, i);
			expected_word += i;
		}
		post_write(&s.p.a, 0, s.local, 100, s.remote, 0, bytes);
		post_read(&s.p.a, SIGNALED, s.local, 20000, s.remote, 0, bytes);
		tqp_ring(&s.p.a);
		world_run_timers(&s.w, SEC);
		expect_ok(&s.p.a, (uint16_t)(s.p.a.pi - 1));
		ASSERT_MEMEQ(s.local->bytes + 20000, s.local->bytes + 100, bytes);
		ASSERT_EQ(*(uint64_t *)(void *)(s.remote->bytes + 64000), expected_word);
	}
	ASSERT_GT(tqp_info(&s.p.a).counters.retries, 0);
	setup_deinit(&s);
}

TEST(a_storm_of_losses_keeps_order_and_atomics_exact)
{
	FOR_EACH_MODE(mode)
	{
		for (uint64_t seed = 1; seed <= (test_is_full() ? 200 : 5); seed++)
			storm(mode, seed);
	}
}

/* Losses in the middle of a scattered message are mended in the middle. */
TEST(a_loss_between_several_segments)
{
	for (uint64_t n = 1; n < 12; n++) {
		struct setup s;
		struct wqe wqe;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		s.w.lose = lose_nth;
		s.w.data = &n;
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
		wqe_raddr(&wqe, s.remote->iova, s.remote->key);
		wqe_data(&wqe, s.local->iova, s.local->key, 3000);
		wqe_data(&wqe, s.local->iova + 3000, s.local->key, 9000);
		wqe_data(&wqe, s.local->iova + 12000, s.local->key, 100);
		wqe_data(&wqe, s.local->iova + 12100, s.local->key, 20000);
		tqp_post(&s.p.a, &wqe);
		tqp_ring(&s.p.a);
		world_run_timers(&s.w, SEC);
		expect_ok(&s.p.a, 0);
		ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 32100);
		setup_deinit(&s);
	}
}

/* ---- time-outs ---- */

static bool lose_all(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	return true;
}

TEST(a_silent_peer_fails_with_15_after_its_retries)
{
	static const uint8_t counts[] = {0, 1, 7};

	for (unsigned int i = 0; i < 3; i++) {
		uint64_t timeout_nsec = 4096ull << 14;
		struct tqp_attr attr = TQP_ATTR;
		struct setup s;

		attr.retry_count = counts[i];
		setup_init(&s, MEM_POINTER, SIZE, &attr);
		s.w.lose = lose_all;
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
		post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run_timers(&s.w, timeout_nsec * (counts[i] + 1u) - 2);
		tcq_expect_none(&s.p.a.scq);
		world_run_timers(&s.w, 10);
		expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		expect_error(&s.p.a.scq, false, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
		ASSERT_EQ(tqp_info(&s.p.a).counters.retries, counts[i]);
		ASSERT_EQ(engine_next_deadline(s.w.nodes[0].engine), UINT64_MAX);
		setup_deinit(&s);
	}
}

static bool lose_first(struct world *w, const struct engine_packet *pkt, uint64_t n)
{
	return n == 1;
}

/* However long the peer does not run: its one retry is spent when it does. */
TEST(no_retry_is_spent_while_the_peer_is_behind)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.retry_count = 1;
	setup_init(&s, MEM_POINTER, SIZE, &attr);
	s.w.lose = lose_first;
	s.w.behind_until_nsec = s.w.now_nsec + 30 * SEC;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run_timers(&s.w, 29 * SEC);
	tcq_expect_none(&s.p.a.scq);
	ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 0);
	world_run_timers(&s.w, 2 * SEC);
	expect_ok(&s.p.a, 0);
	ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 1);
	setup_deinit(&s);
}

TEST(a_peer_that_stays_behind_is_given_up_after_a_minute)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.retry_count = 0;
	setup_init(&s, MEM_POINTER, SIZE, &attr);
	s.w.lose = lose_all;
	s.w.behind_until_nsec = UINT64_MAX;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run_timers(&s.w, 60 * SEC);
	tcq_expect_none(&s.p.a.scq);
	world_run_timers(&s.w, SEC);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	setup_deinit(&s);
}

/* The minute is one for all retries together. */
TEST(retries_are_spent_as_usual_once_a_peer_was_behind_for_a_minute)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.retry_count = 7;
	setup_init(&s, MEM_POINTER, SIZE, &attr);
	s.w.lose = lose_all;
	s.w.behind_until_nsec = UINT64_MAX;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run_timers(&s.w, 60 * SEC);
	tcq_expect_none(&s.p.a.scq);
	world_run_timers(&s.w, 2 * SEC);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	setup_deinit(&s);
}

TEST(packets_that_travel_as_bytes_do_all_that_others_do)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		s.w.as_bytes = true;
		s.w.lose_percent = 5;
		post_all(&s);
		world_run_timers(&s.w, 100 * SEC);
		expect_all(&s);
		setup_deinit(&s);
	}
}

TEST(timeout_0_waits_for_ever)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.timeout = 0;
	setup_init(&s, MEM_POINTER, SIZE, &attr);
	s.w.lose = lose_all;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	ASSERT_EQ(engine_next_deadline(s.w.nodes[0].engine), UINT64_MAX);
	world_run_timers(&s.w, 100 * SEC);
	tcq_expect_none(&s.p.a.scq);
	setup_deinit(&s);
}

/* Progress refills the retries: each loss is one, however many there are in all. */
TEST(progress_refills_the_retries)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	attr.retry_count = 1;
	setup_init(&s, MEM_POINTER, SIZE, &attr);
	for (unsigned int i = 0; i < 20; i++) {
		uint64_t n = s.w.n_packets + 1;

		s.w.lose = lose_nth;
		s.w.data = &n;
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run_timers(&s.w, SEC);
		expect_ok(&s.p.a, (uint16_t)i);
	}
	ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 20);
	setup_deinit(&s);
}

TEST(a_peer_that_is_not_connected_is_silent)
{
	struct tqp_attr attr = TQP_ATTR;
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, &attr);
	ASSERT_OK(tqp_to(&s.p.b, ENGINE_QP_RST));
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run_timers(&s.w, 10 * MSEC);
	tcq_expect_none(&s.p.a.scq);
	/* It comes up in time. */
	tqp_connect(&s.p.b, &s.p.a, &attr);
	world_run_timers(&s.w, SEC);
	expect_ok(&s.p.a, 0);
	setup_deinit(&s);
}

/* A pending memory operation does not count as silence: no retry while the own side is busy. */
TEST(slow_memory_is_not_a_lost_packet)
{
	struct setup s;

	setup_init(&s, MEM_DELAY, SIZE, NULL);
	s.w.delays.hold_turns = 30;
	post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8000);
	tqp_ring(&s.p.a);
	while (tqp_info(&s.p.a).pending != 2)
		ASSERT(world_step(&s.w));
	for (unsigned int i = 0; i < 20; i++) {
		s.w.now_nsec += SEC;
		world_step(&s.w);
	}
	ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 0);
	world_run(&s.w);
	expect_ok(&s.p.a, 0);
	setup_deinit(&s);
}

/* ---- receiver not ready ---- */

TEST(rnr_waits_for_the_receive)
{
	FOR_EACH_MODE(mode)
	{
		struct setup s;

		setup_init(&s, mode, SIZE, NULL);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 8000, 5000);
		post_send(&s.p.a, SIGNALED, s.local, 0, 5000);
		post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 16000, 5000);
		tqp_ring(&s.p.a);
		world_run_timers(&s.w, 10 * MSEC);
		expect_ok(&s.p.a, 0);
		tcq_expect_none(&s.p.a.scq);
		ASSERT_EQ(s.remote->bytes[16000], 0);
		ASSERT_GT(tqp_info(&s.p.a).counters.rnr_naks, 5);
		post_recv(&s.p.b, s.remote, 0, 5000);
		world_run_timers(&s.w, 10 * MSEC);
		expect_ok(&s.p.a, 1);
		expect_ok(&s.p.a, 2);
		expect_cqe(&s.p.b.rcq, SHMD_CQE_RESP_SEND, 0, NULL);
		ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, 5000);
		ASSERT_MEMEQ(s.remote->bytes + 16000, s.local->bytes, 5000);
		ASSERT_EQ(tqp_info(&s.p.a).counters.retries, 0);
		setup_deinit(&s);
	}
}

TEST(rnr_timer_is_the_one_of_the_table)
{
	/* Encoding, microseconds. */
	static const unsigned int table[][2] = {{0, 655360}, {1, 10},	  {4, 40},
						{5, 60},     {8, 160},	  {12, 640},
						{20, 10240}, {24, 40960}, {31, 491520}};

	for (unsigned int i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct tqp_attr attr = TQP_ATTR;
		uint64_t nsec = table[i][1] * 1000ull;
		struct setup s;

		attr.rnr_timer = (uint8_t)table[i][0];
		setup_init(&s, MEM_POINTER, SIZE, &attr);
		post_send(&s.p.a, SIGNALED, s.local, 0, 8);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		post_recv(&s.p.b, s.remote, 0, 8);
		world_run_timers(&s.w, nsec - 1);
		tcq_expect_none(&s.p.a.scq);
		world_run_timers(&s.w, 1);
		expect_ok(&s.p.a, 0);
		setup_deinit(&s);
	}
}

TEST(rnr_retries_exceeded_fail_with_16)
{
	for (uint8_t count = 0; count < 7; count += 3) {
		struct tqp_attr attr = TQP_ATTR;
		struct setup s;
		struct wqe wqe;

		attr.rnr_retry = count;
		setup_init(&s, MEM_POINTER, SIZE, &attr);
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE_IMM, SIGNALED);
		wqe_raddr(&wqe, s.remote->iova, s.remote->key);
		wqe_data(&wqe, s.local->iova, s.local->key, 9000);
		tqp_post(&s.p.a, &wqe);
		post_write(&s.p.a, 0, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run_timers(&s.w, SEC);
		expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_RNR_RETRY_EXC_ERR);
		expect_error(&s.p.a.scq, false, 1, SHMD_SYNDROME_WR_FLUSH_ERR);
		ASSERT_EQ(tqp_info(&s.p.a).counters.rnr_naks, count + 1u);
		ASSERT_EQ(tqp_info(&s.p.b).state, ENGINE_QP_RTS);
		setup_deinit(&s);
	}
}

/* ---- many timers ---- */

#define N_TIMERS 60

static uint8_t timeout_of(unsigned int i)
{
	return (uint8_t)(6 + i * 7 % 9);
}

/* QPs with all kinds of timeouts, some of which are reset or destroyed: each retries when its own has passed. */
TEST(each_of_many_timers_expires_in_its_time)
{
	static struct pair pairs[N_TIMERS];
	struct tqp_attr attr = TQP_ATTR;
	struct region *r;
	uint64_t passed = 0;
	struct world w;

	world_init(&w, MEM_POINTER);
	r = region_new(&w, 0, 4096);
	w.lose = lose_all;
	for (unsigned int i = 0; i < N_TIMERS; i++) {
		attr.timeout = timeout_of(i);
		pair_init_nodes(&pairs[i], &w, 0, 0, &attr);
		post_write(&pairs[i].a, SIGNALED, r, 0, r, 2048, 8);
		tqp_ring(&pairs[i].a);
	}
	world_run(&w);
	for (unsigned int i = 0; i < N_TIMERS; i += 4)
		ASSERT_OK(tqp_to(&pairs[i].a, ENGINE_QP_RST));
	for (unsigned int timeout = 6; timeout <= 14; timeout++) {
		uint64_t at = 4096ull << timeout;

		world_run_timers(&w, at - 1 - passed);
		for (unsigned int i = 0; i < N_TIMERS; i++)
			if (timeout_of(i) >= timeout || i % 4 == 0)
				ASSERT_EQ(tqp_info(&pairs[i].a).counters.retries, 0);
		world_run_timers(&w, 1);
		passed = at;
		for (unsigned int i = 0; i < N_TIMERS; i++)
			if (timeout_of(i) == timeout && i % 4 != 0)
				ASSERT_EQ(tqp_info(&pairs[i].a).counters.retries, 1);
	}
	for (unsigned int i = 0; i < N_TIMERS; i++)
		pair_deinit(&pairs[i]);
	world_deinit(&w);
}

/* ---- what does not belong ---- */

static struct engine_packet *forge(struct setup *s, enum packet_kind kind, uint32_t psn)
{
	struct engine_packet *pkt = packet_alloc(s->w.nodes[0].engine, 0);

	ASSERT(pkt);
	pkt->kind = (uint8_t)kind;
	pkt->flags = 0;
	pkt->src_qpn = s->p.b.qpn;
	pkt->source = &s->w.nodes[1];
	pkt->service = ENGINE_QP_RC;
	pkt->dest_qpn = s->p.a.qpn;
	pkt->psn = psn & 0xffffff;
	pkt->payload_bytes = 0;
	return pkt;
}

TEST(acknowledgements_of_what_was_never_sent_are_ignored)
{
	struct tqp_attr attr = TQP_ATTR;

	for (int32_t off = -3; off < 6; off++) {
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		s.w.lose = lose_all;
		for (unsigned int i = 0; i < 3; i++)
			post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		engine_input(s.w.nodes[0].engine, forge(&s, PACKET_ACK, attr.psn + (uint32_t)off));
		engine_input(s.w.nodes[0].engine,
			     forge(&s, PACKET_READ_RESPONSE, attr.psn + (uint32_t)off));
		world_run(&s.w);
		ASSERT_EQ(tqp_info(&s.p.a).counters.wqes, off < 0 || off > 2 ? 0 : off + 1);
		setup_deinit(&s);
	}
}

TEST(packets_of_strangers_are_dropped)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_packet *pkt;
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	s.w.lose = lose_all;
	post_write(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	pkt = forge(&s, PACKET_ACK, attr.psn);
	pkt->src_qpn ^= 1;
	engine_input(s.w.nodes[0].engine, pkt);
	pkt = forge(&s, PACKET_ACK, attr.psn);
	pkt->dest_qpn = 0xffffff;
	engine_input(s.w.nodes[0].engine, pkt);
	pkt = forge(&s, PACKET_ACK, attr.psn);
	pkt->source = &s.w.nodes[0];
	engine_input(s.w.nodes[0].engine, pkt);
	world_run(&s.w);
	tcq_expect_none(&s.p.a.scq);
	setup_deinit(&s);
}

/* QP numbers are unique in one engine only: a stranger beside the victim bears the number of its peer elsewhere. */
TEST(a_stranger_with_the_peers_number_is_not_heard)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_qp_attr twin;
	struct tqp stranger;
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	tqp_init(&stranger, &s.w, 0, &attr);
	ASSERT_OK(engine_qp_destroy(s.w.nodes[0].engine, stranger.qpn));
	stranger.qpn = s.p.b.qpn;
	twin = (struct engine_qp_attr){.qpn = stranger.qpn, .pdn = 1, .sq_ring = stranger.sq,
				       .log2_sq_wqebbs = stranger.log2_sq, .dbrec = stranger.dbrec,
				       .send_cqn = stranger.scq.cqn, .recv_cqn = stranger.rcq.cqn};
	ASSERT_OK(engine_qp_create(s.w.nodes[0].engine, &twin));
	tqp_connect(&stranger, &s.p.a, &attr);
	post_recv(&s.p.a, s.local, 0, 64);
	post_send(&stranger, SIGNALED, s.local, 100, 8);
	tqp_ring(&stranger);
	world_run(&s.w);
	tcq_expect_none(&s.p.a.rcq);
	ASSERT_EQ(tqp_info(&s.p.a).counters.recv_wqes, 0);
	/* The peer is. */
	post_send(&s.p.b, SIGNALED, s.remote, 0, 8);
	tqp_ring(&s.p.b);
	world_run(&s.w);
	ASSERT_EQ(tqp_info(&s.p.a).counters.recv_wqes, 1);
	tqp_deinit(&stranger);
	setup_deinit(&s);
}

/* A response of another length than asked for. */
TEST(a_bad_response_fails_with_10)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_packet *pkt;
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	s.w.lose = lose_all;
	post_read(&s.p.a, SIGNALED, s.local, 0, s.remote, 0, 8);
	tqp_ring(&s.p.a);
	world_run(&s.w);
	pkt = forge(&s, PACKET_READ_RESPONSE, attr.psn);
	pkt->payload_bytes = 9;
	engine_input(s.w.nodes[0].engine, pkt);
	world_run(&s.w);
	expect_error(&s.p.a.scq, false, 0, SHMD_SYNDROME_BAD_RESP_ERR);
	setup_deinit(&s);
}

/* Old requests whose answer is not known any more, or not allowed any more, are dropped. */
TEST(duplicates_that_cannot_be_answered_are_dropped)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_packet *pkt;
	struct setup s;

	setup_init(&s, MEM_POINTER, SIZE, NULL);
	post_write(&s.p.b, SIGNALED, s.remote, 0, s.local, 0, 8);
	tqp_ring(&s.p.b);
	world_run(&s.w);
	s.w.n_packets = 0;
	pkt = forge(&s, PACKET_ATOMIC, attr.psn);
	pkt->atomic = (struct engine_atomic){.bytes = 8};
	engine_input(s.w.nodes[0].engine, pkt);
	for (unsigned int i = 0; i < 3; i++) {
		pkt = forge(&s, PACKET_READ, attr.psn);
		pkt->raddr = s.local->iova;
		pkt->rkey = i == 0 ? 0x123 : s.local->key;
		pkt->length_bytes = i == 1 ? 8192 : 8;
		pkt->mtu_bytes = i == 2 ? 0 : 4096;
		engine_input(s.w.nodes[0].engine, pkt);
	}
	world_run(&s.w);
	ASSERT_EQ(s.w.n_packets, 0);
	ASSERT_EQ(tqp_info(&s.p.a).state, ENGINE_QP_RTS);
	setup_deinit(&s);
}

/* Requests that no requester of ours would send. */
TEST(requests_out_of_form_are_refused)
{
	struct tqp_attr attr = TQP_ATTR;
	struct form {
		enum packet_kind kind;
		uint8_t flags;
		uint32_t payload_bytes;
		uint64_t length_bytes;
		uint32_t mtu_bytes;
	} forms[] = {
		{PACKET_WRITE, 0, 8, 8, 0},			      /* a middle without a first */
		{PACKET_WRITE, PACKET_FIRST | PACKET_LAST, 8, 16, 0}, /* shorter than announced */
		{PACKET_WRITE, PACKET_FIRST | PACKET_LAST, 16, 8, 0}, /* longer */
		{PACKET_WRITE, PACKET_FIRST, 8, 8, 0}, /* nothing left for the last */
		{PACKET_WRITE, PACKET_FIRST, 0, 8, 0}, /* an empty first */
		{PACKET_SEND, PACKET_LAST, 8, 8, 0},
		{PACKET_READ, PACKET_FIRST | PACKET_LAST, 0, 8, 0}, /* no packet size */
		{PACKET_READ, PACKET_FIRST | PACKET_LAST, 0, 0x80000001ull, 4096},
	};

	for (unsigned int i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct engine_packet *pkt;
		struct setup s;

		setup_init(&s, MEM_POINTER, SIZE, NULL);
		pkt = forge(&s, forms[i].kind, attr.psn);
		pkt->flags = forms[i].flags;
		pkt->payload_bytes = forms[i].payload_bytes;
		pkt->length_bytes = forms[i].length_bytes;
		pkt->mtu_bytes = forms[i].mtu_bytes;
		pkt->raddr = s.local->iova;
		pkt->rkey = s.local->key;
		engine_input(s.w.nodes[0].engine, pkt);
		world_run(&s.w);
		ASSERT_EQ(tqp_info(&s.p.a).state, ENGINE_QP_ERR);
		ASSERT(s.w.nodes[0].events[0].responder);
		ASSERT_EQ(s.w.nodes[0].events[0].syndrome, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
		setup_deinit(&s);
	}
}
