/* SPDX-License-Identifier: Apache-2.0 */
/* The packet pool: bounded, returned from other threads, outliving its engine; and two engines on two threads. */
#include <endian.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

static unsigned int take_all(struct engine *engine, struct list *packets)
{
	struct engine_packet *pkt;
	unsigned int n = 0;

	while ((pkt = packet_alloc(engine, 0))) {
		list_add_tail(packets, &pkt->link);
		n++;
	}
	return n;
}

static void *free_all(void *arg)
{
	struct list *packets = arg;

	while (!list_empty(packets)) {
		struct list *link = packets->next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	return NULL;
}

TEST(the_pool_is_bounded_and_refills)
{
	struct list packets;
	struct world w;
	unsigned int n;

	world_init(&w, MEM_POINTER);
	list_init(&packets);
	n = take_all(w.nodes[0].engine, &packets);
	ASSERT_GE(n, 256);
	for (unsigned int i = 0; i < 3; i++) {
		free_all(&packets);
		ASSERT_EQ(take_all(w.nodes[0].engine, &packets), n);
	}
	free_all(&packets);
	world_deinit(&w);
}

TEST(packets_return_from_several_threads)
{
	enum { N = 4 };
	pthread_t threads[N];
	struct list parts[N];
	struct list packets;
	struct world w;
	unsigned int n;

	world_init(&w, MEM_POINTER);
	list_init(&packets);
	for (unsigned int round = 0; round < 20; round++) {
		n = take_all(w.nodes[0].engine, &packets);
		for (unsigned int i = 0; i < N; i++)
			list_init(&parts[i]);
		for (unsigned int i = 0; i < n; i++) {
			struct list *link = packets.next;

			list_del(link);
			list_add_tail(&parts[i % N], link);
		}
		for (unsigned int i = 0; i < N; i++)
			ASSERT_EQ(pthread_create(&threads[i], NULL, free_all, &parts[i]), 0);
		for (unsigned int i = 0; i < N; i++)
			ASSERT_EQ(pthread_join(threads[i], NULL), 0);
		ASSERT_EQ(take_all(w.nodes[0].engine, &packets), n);
		free_all(&packets);
	}
	world_deinit(&w);
}

/* Packets that come back while the engine goes, and after it; the leak check of the sanitizer sees the pool. */
TEST(packets_outlive_their_engine)
{
	for (unsigned int round = 0; round < 50; round++) {
		struct list packets, rest, *late;
		pthread_t thread;
		struct world w;

		world_init(&w, MEM_POINTER);
		list_init(&packets);
		list_init(&rest);
		ASSERT_GT(take_all(w.nodes[0].engine, &packets), 0);
		late = packets.next;
		list_del(late);
		list_add_tail(&rest, late);
		ASSERT_EQ(pthread_create(&thread, NULL, free_all, &packets), 0);
		w.nodes[0].engine = engine_free(w.nodes[0].engine);
		ASSERT_EQ(pthread_join(thread, NULL), 0);
		free_all(&rest);
		world_deinit(&w);
	}
}

/* More QPs than packets: everyone gets there. */
TEST(a_dry_pool_delays_and_loses_nothing)
{
	enum { N = 40 };
	struct tqp_attr attr = TQP_ATTR;
	struct region *local, *remote;
	struct list hoard;
	struct pair p[N];
	struct world w;

	world_init_chunk(&w, MEM_POINTER, 256);
	local = region_new(&w, 0, 1 << 18);
	remote = region_new(&w, 1, 1 << 18);
	region_fill(local, 1);
	list_init(&hoard);
	take_all(w.nodes[0].engine, &hoard);
	for (unsigned int i = 0; i < N; i++) {
		pair_init(&p[i], &w, &attr);
		post_write(&p[i].a, SIGNALED, local, i * 4096, remote, i * 4096, 4000);
		post_read(&p[i].b, SIGNALED, remote, (N + (i % 20)) * 4096, local,
			  (N + (i % 20)) * 4096, 4000);
		tqp_ring(&p[i].a);
		tqp_ring(&p[i].b);
	}
	for (unsigned int i = 0; i < 100; i++)
		world_step(&w);
	for (unsigned int i = 0; i < N; i++)
		tcq_expect_none(&p[i].a.scq);
	/* Other threads return packets and wake no thread: the engine asks to be called soon. */
	ASSERT_LE(engine_next_deadline(w.nodes[0].engine), w.now_nsec + PACKET_WAIT_NSEC);
	for (unsigned int i = 0; i < 80; i++) {
		struct list *link = hoard.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	world_run_timers(&w, 10000000);
	for (unsigned int i = 0; i < N; i++) {
		expect_ok(&p[i].a, 0);
		expect_ok(&p[i].b, 0);
		ASSERT_EQ(tqp_info(&p[i].a).counters.retries, 0);
	}
	ASSERT_MEMEQ(remote->bytes, local->bytes, 4000);
	free_all(&hoard);
	for (unsigned int i = 0; i < N; i++)
		pair_deinit(&p[i]);
	world_deinit(&w);
}

/* A long READ finds the responder's pool dry again and again. */
TEST(a_dry_pool_delays_a_read)
{
	struct tqp_attr attr = TQP_ATTR;
	struct region *local, *remote;
	struct list hoard;
	struct pair p;
	struct world w;

	world_init_chunk(&w, MEM_POINTER, 256);
	local = region_new(&w, 0, 1 << 18);
	remote = region_new(&w, 1, 1 << 18);
	region_fill(remote, 1);
	list_init(&hoard);
	take_all(w.nodes[1].engine, &hoard);
	pair_init(&p, &w, &attr);
	post_read(&p.a, SIGNALED, local, 0, remote, 0, 100000);
	tqp_ring(&p.a);
	world_run_timers(&w, 100000);
	tcq_expect_none(&p.a.scq);
	for (unsigned int i = 0; i < PACKET_RESERVE + 8; i++) {
		struct list *link = hoard.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	world_run_timers(&w, 50000000);
	expect_ok(&p.a, 0);
	ASSERT_MEMEQ(local->bytes, remote->bytes, 100000);
	ASSERT_EQ(tqp_info(&p.a).counters.retries, 0);
	free_all(&hoard);
	pair_deinit(&p);
	world_deinit(&w);
}

/* More copies than bounce buffers. */
TEST(bounce_buffers_are_waited_for)
{
	enum { N = 40 };
	struct tqp_attr attr = TQP_ATTR;
	struct region *local, *remote;
	struct pair p[N];
	struct world w;

	world_init_chunk(&w, MEM_DELAY, 65536);
	w.delays.hold_turns = 5;
	local = region_new(&w, 0, N * 4096);
	remote = region_new(&w, 1, N * 4096);
	region_fill(local, 1);
	for (unsigned int i = 0; i < N; i++) {
		pair_init(&p[i], &w, &attr);
		post_write(&p[i].a, SIGNALED, local, i * 4096, remote, i * 4096, 4096);
		tqp_ring(&p[i].a);
	}
	world_run(&w);
	for (unsigned int i = 0; i < N; i++)
		expect_ok(&p[i].a, 0);
	ASSERT_MEMEQ(remote->bytes, local->bytes, N * 4096);
	ASSERT_EQ(w.delays.max_n, N_BOUNCE);
	/* One that waits for a buffer may go. */
	for (unsigned int i = 0; i < N; i++) {
		post_write(&p[i].a, SIGNALED, local, i * 4096, remote, i * 4096, 4096);
		tqp_ring(&p[i].a);
	}
	for (unsigned int i = 0; i < 4; i++)
		world_step(&w);
	for (unsigned int i = 0; i < N; i += 2)
		ASSERT_OK(tqp_to(&p[i].b, ENGINE_QP_RST));
	world_run(&w);
	for (unsigned int i = 1; i < N; i += 2)
		expect_ok(&p[i].a, 1);
	for (unsigned int i = 0; i < N; i++)
		pair_deinit(&p[i]);
	world_deinit(&w);
}

/* Its region may go in the meantime, and the memory with it. */
TEST(copy_that_waits_for_a_bounce_buffer_keeps_its_memory)
{
	enum { N = 20 };
	struct tqp_attr attr = TQP_ATTR;
	struct region *local, *remote;
	struct pair p[N];
	struct world w;

	world_init_chunk(&w, MEM_DELAY, 65536);
	w.delays.hold_turns = 50;
	local = region_new(&w, 0, N * 4096);
	remote = region_new(&w, 1, N * 4096);
	for (unsigned int i = 0; i < N; i++) {
		pair_init(&p[i], &w, &attr);
		post_write(&p[i].a, SIGNALED, local, i * 4096, remote, i * 4096, 4096);
		tqp_ring(&p[i].a);
	}
	for (unsigned int i = 0; i < 10; i++)
		world_step(&w);
	ASSERT_EQ(w.delays.n, N_BOUNCE);
	region_dereg(remote);
	ASSERT_EQ(remote->mem.mem.refs, 1 + N); /* ours, and each copy's */
	world_run(&w);
	ASSERT_EQ(remote->mem.mem.refs, 1);
	for (unsigned int i = 0; i < N; i++) {
		expect_ok(&p[i].a, 0);
		pair_deinit(&p[i]);
	}
	world_deinit(&w);
}

/* ---- two threads ---- */

struct side {
	struct world *w;
	unsigned int index;
	pthread_mutex_t lock;
	struct list inbox;
	struct side *other;
	bool *stop;
};

static uint64_t side_now(void *owner)
{
	return 1;
}

static int side_route_get(void *owner, const uint8_t gid[16], void **ret_route)
{
	*ret_route = ((struct side *)owner)->other;
	return 0;
}

static void side_route_put(void *owner, void *route)
{
}

static int side_send(void *owner, void *route, struct engine_packet *pkt)
{
	struct side *to = route;

	pthread_mutex_lock(&to->lock);
	list_add_tail(&to->inbox, engine_packet_link(pkt));
	pthread_mutex_unlock(&to->lock);
	return 0;
}

static void side_event(void *owner, const struct engine_event *ev)
{
	test_fail(TEST_WHERE, "unexpected event %d syndrome 0x%x", ev->kind, ev->syndrome);
}

static const struct engine_ops side_ops = {side_now, side_route_get, side_route_put, side_send,
					   side_event};

static void *side_run(void *arg)
{
	struct side *side = arg;
	struct engine *engine = side->w->nodes[side->index].engine;

	while (!__atomic_load_n(side->stop, __ATOMIC_ACQUIRE)) {
		struct list take;

		list_init(&take);
		pthread_mutex_lock(&side->lock);
		list_splice_tail(&take, &side->inbox);
		pthread_mutex_unlock(&side->lock);
		while (!list_empty(&take)) {
			struct list *link = take.next;

			list_del(link);
			engine_input(engine, engine_packet_from_link(link));
		}
		engine_scan_hot(engine);
		if (!engine_progress(engine, 64))
			sched_yield();
	}
	return NULL;
}

static void replace_engines(struct world *w, struct side *sides)
{
	struct engine_attr attr = {
		.max_qps = 16, .max_cqs = 16, .max_mrs = 16, .chunk_bytes = 4096};

	for (unsigned int i = 0; i < 2; i++) {
		engine_free(w->nodes[i].engine);
		attr.self_route = &sides[i];
		ASSERT_OK(engine_new(&attr, &side_ops, &sides[i], &w->nodes[i].engine));
	}
}

static void wait_for(struct tqp *qp, uint16_t index)
{
	struct shmd_cqe cqe;

	while (!tcq_poll(&qp->scq, &cqe))
		sched_yield();
	ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
	ASSERT_EQ(be16toh(cqe.wqe_counter), index);
}

static void traffic(struct pair *p, struct region *local, struct region *remote,
		    unsigned int rounds)
{
	for (unsigned int i = 0; i < rounds; i++) {
		uint32_t bytes = i * 37 % 9000;

		post_write(&p->a, 0, local, i % 100, remote, 0, bytes);
		post_fadd(&p->a, 0, local, 40000, remote, 40000, 1);
		wait_for(&p->a, post_read(&p->a, SIGNALED, local, 20000, remote, 0, bytes));
		ASSERT_MEMEQ(local->bytes + 20000, local->bytes + i % 100, bytes);
	}
	ASSERT_EQ(*(uint64_t *)(void *)(remote->bytes + 40000), rounds);
}

TEST(two_engines_on_two_threads)
{
	struct tqp_attr attr = TQP_ATTR;
	struct region *local, *remote;
	struct side sides[2];
	pthread_t threads[2];
	bool stop = false;
	struct pair p;
	struct world w;

	world_init(&w, MEM_POINTER);
	for (unsigned int i = 0; i < 2; i++) {
		sides[i] = (struct side){.w = &w, .index = i, .other = &sides[!i], .stop = &stop};
		pthread_mutex_init(&sides[i].lock, NULL);
		list_init(&sides[i].inbox);
	}
	replace_engines(&w, sides);
	local = region_new(&w, 0, 65536);
	remote = region_new(&w, 1, 65536);
	region_fill(local, 1);
	attr.timeout = 0;
	pair_init(&p, &w, &attr);
	/* On the hot list, so that posts need no call into the engine from here. */
	tqp_ring(&p.a);
	for (unsigned int i = 0; i < 2; i++)
		ASSERT_EQ(pthread_create(&threads[i], NULL, side_run, &sides[i]), 0);
	traffic(&p, local, remote, test_is_full() ? 20000 : 500);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < 2; i++)
		ASSERT_EQ(pthread_join(threads[i], NULL), 0);
	pair_deinit(&p);
	world_deinit(&w);
}
