/* SPDX-License-Identifier: Apache-2.0 */
/* PDs share an engine by the work that they cause: one engine, whose QPs are pairs within it. No clock: by estimate. */
#include <stdio.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define REGION_BYTES (1u << 20)
#define MAX_PAIRS 40
#define RING 64

struct tenancy {
	struct world *w;
	struct region *region;
	struct pair pairs[MAX_PAIRS];
	unsigned int n_pairs;
	uint32_t bytes; /* of each write */
};

static void tenancy_init(struct tenancy *t, struct world *w, uint32_t pdn, unsigned int n_pairs, uint32_t bytes)
{
	struct tqp_attr attr = TQP_ATTR;

	attr.pdn = pdn;
	attr.log2_sq = 6;
	*t = (struct tenancy){.w = w, .n_pairs = n_pairs, .bytes = bytes};
	t->region = region_new_attr(w, 0, REGION_BYTES, 0xf, pdn);
	for (unsigned int i = 0; i < n_pairs; i++)
		pair_init_nodes(&t->pairs[i], w, 0, 0, &attr);
}

static void tenancy_deinit(struct tenancy *t)
{
	for (unsigned int i = 0; i < t->n_pairs; i++)
		pair_deinit(&t->pairs[i]);
}

/* n writes on every pair. Each asks for a CQE, so that what is done is counted at once. */
static void post_all(struct tenancy *t, unsigned int n)
{
	for (unsigned int i = 0; i < t->n_pairs; i++) {
		for (unsigned int k = 0; k < n; k++)
			post_write(&t->pairs[i].a, SIGNALED, t->region, 0, t->region, REGION_BYTES / 2,
				   t->bytes);
		tqp_ring(&t->pairs[i].a);
	}
}

static uint64_t n_done(const struct tenancy *t)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < t->n_pairs; i++)
		n += tqp_info(&t->pairs[i].a).counters.wqes;
	return n;
}

/* How many of the other's writes are done when all of the first one's pair are. */
static uint64_t race(struct tenancy *one, struct tenancy *many)
{
	uint64_t before;

	post_all(many, RING);
	for (int i = 0; i < 20; i++)
		world_step(one->w);
	before = n_done(many);
	post_all(one, RING);
	while (n_done(one) < RING * one->n_pairs)
		ASSERT(world_step(one->w));
	return n_done(many) - before;
}

TEST(many_qps_make_no_larger_share)
{
	static struct tenancy one, many;
	struct world w;
	uint64_t n;

	world_init_chunk(&w, 0, 65536);
	tenancy_init(&one, &w, 1, 1, 16384);
	tenancy_init(&many, &w, 2, 32, 16384);
	n = race(&one, &many);
	printf("# 64 writes of one QP beside %llu of 32\n", (unsigned long long)n);
	ASSERT_LE(n, 2 * RING);
	world_run(&w);
	tenancy_deinit(&one);
	tenancy_deinit(&many);
	world_deinit(&w);
}

TEST(large_wqes_make_no_larger_share)
{
	static struct tenancy small, large;
	struct world w;
	uint64_t n;

	world_init_chunk(&w, 0, 65536);
	tenancy_init(&small, &w, 1, 1, 8);
	tenancy_init(&large, &w, 2, 4, 262144);
	n = race(&small, &large);
	/* 64 small ones are work of some 200 KiB. */
	printf("# 64 writes of 8 bytes beside %llu of 256 KiB\n", (unsigned long long)n);
	ASSERT_LE(n, 4);
	world_run(&w);
	tenancy_deinit(&small);
	tenancy_deinit(&large);
	world_deinit(&w);
}

TEST(small_wqes_make_no_larger_share)
{
	static struct tenancy large, small;
	struct world w;
	uint64_t n;

	world_init_chunk(&w, 0, 65536);
	tenancy_init(&large, &w, 1, 1, 32768);
	tenancy_init(&small, &w, 2, 40, 8);
	n = race(&large, &small);
	/* 64 large ones are work of 2 MiB: that of a thousand small ones, more or less. */
	printf("# 64 writes of 32 KiB beside %llu of 8 bytes\n", (unsigned long long)n);
	ASSERT_LE(n, 2000);
	ASSERT_GE(n, 500);
	world_run(&w);
	tenancy_deinit(&large);
	tenancy_deinit(&small);
	world_deinit(&w);
}

/* One write of a PD that asks little, beside a backlog: it goes first at each of its steps. */
TEST(tenant_that_asks_little_is_served_first)
{
	static struct tenancy little, much;
	unsigned int n_steps = 0;
	struct world w;

	world_init_chunk(&w, 0, 65536);
	tenancy_init(&little, &w, 1, 1, 8);
	tenancy_init(&much, &w, 2, 32, 262144);
	post_all(&much, RING);
	for (int i = 0; i < 50; i++)
		world_step(&w);
	for (uint64_t k = 1; k <= 3; k++) {
		post_all(&little, 1);
		for (n_steps = 0; n_done(&little) < k; n_steps++)
			world_step(&w);
		ASSERT_LE(n_steps, 8);
	}
	world_run(&w);
	tenancy_deinit(&little);
	tenancy_deinit(&much);
	world_deinit(&w);
}

static unsigned int take_all(struct engine_qp *qp, enum packet_use use, struct engine_packet **packets)
{
	unsigned int n = 0;

	while ((packets[n] = tenant_packet(qp, use)))
		n++;
	return n;
}

static void put_all(struct engine_qp *qp, struct engine_packet **packets, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		packet_put(qp->engine, packets[i]);
}

static struct engine_qp *first_qp(const struct tenancy *t)
{
	return hash_get(&t->pairs[0].a.node->engine->qps, t->pairs[0].a.qpn);
}

TEST(no_tenant_holds_all_packets)
{
	static struct engine_packet *of_greedy[2048], *of_other[2048], *responses[2048];
	unsigned int n_greedy, n_other, n_responses;
	static struct tenancy greedy, other;
	struct world w;

	world_init_chunk(&w, 0, 65536);
	tenancy_init(&greedy, &w, 1, 1, 8);
	tenancy_init(&other, &w, 2, 1, 8);
	world_run(&w);
	n_greedy = take_all(first_qp(&greedy), PACKET_USE_REQUEST, of_greedy);
	n_other = take_all(first_qp(&other), PACKET_USE_REQUEST, of_other);
	n_responses = take_all(first_qp(&other), PACKET_USE_RESPONSE, responses);
	printf("# requests of one %u, of another %u, responses %u\n", n_greedy, n_other, n_responses);
	ASSERT_GE(n_greedy, 500);
	ASSERT_GE(n_other, 200);
	ASSERT_GE(n_responses, 64);
	/* Both wait; the one that gets packets back goes on. */
	ASSERT(!list_empty(&first_qp(&other)->packet_link[PACKET_USE_REQUEST]));
	put_all(first_qp(&other), of_other, n_other);
	put_all(first_qp(&other), responses, n_responses);
	post_all(&other, 1);
	world_run(&w);
	ASSERT_EQ(n_done(&other), 1);
	ASSERT(list_empty(&first_qp(&other)->packet_link[PACKET_USE_REQUEST]));
	put_all(first_qp(&greedy), of_greedy, n_greedy);
	world_run(&w);
	tenancy_deinit(&greedy);
	tenancy_deinit(&other);
	world_deinit(&w);
}

/* One engine goes on while the thread of the other does not run. */
static void run_alone(struct node *node, bool hears)
{
	do {
		while (hears && !list_empty(&node->inbox)) {
			struct list *link = node->inbox.next;

			list_del(link);
			engine_input(node->engine, engine_packet_from_link(link));
		}
		engine_progress(node->engine, 64);
	} while (engine_next_deadline(node->engine) == 0);
}

static void post_reads(struct tqp *qp, struct region *to, struct region *from, unsigned int n)
{
	while (n--)
		post_read(qp, SIGNALED, to, REGION_BYTES / 2, from, 0, 128 * 1024);
	tqp_ring(qp);
}

/*
 * Two sides read from each other, by QPs of their own, until neither may send another request, and the answers use up
 * what packets are left: these come back, and no request needs to for the rest to go on.
 */
TEST(answers_do_not_wait_for_requests)
{
	enum { N_READS = 16 };
	struct tqp_attr attr = TQP_ATTR;
	static struct pair p[2][MAX_PAIRS];
	struct region *r[2];
	struct world w;

	world_init_chunk(&w, 0, 256);
	attr.log2_sq = 6;
	attr.timeout = 0;
	for (unsigned int side = 0; side < 2; side++)
		r[side] = region_new(&w, side, REGION_BYTES);
	for (unsigned int i = 0; i < 2 * MAX_PAIRS; i++) {
		unsigned int side = i % 2;

		pair_init_nodes(&p[side][i / 2], &w, side, !side, &attr);
		post_reads(&p[side][i / 2].a, r[side], r[!side], N_READS);
	}
	for (unsigned int i = 0; i < 4000; i++)
		run_alone(&w.nodes[i % 2], i >= 2);
	for (unsigned int i = 0; i < 2 * MAX_PAIRS; i++) {
		ASSERT_EQ(tqp_info(&p[i % 2][i / 2].a).counters.wqes, N_READS);
		pair_deinit(&p[i % 2][i / 2]);
	}
	world_deinit(&w);
}

/* With a clock, what a turn really took is charged: here each turn of one PD takes as long as ten of the other. */
static uint64_t slow_clock(void *owner)
{
	struct node *node = owner;
	static uint64_t now;
	const struct tenant *tenant = tenant_first(node->engine);

	now += tenant && tenant->pdn == 2 ? 10000 : 1000;
	return now;
}

TEST(time_counts_if_there_is_a_clock)
{
	static struct tenancy quick, slow;
	struct world w;
	uint64_t n;

	world_init_chunk(&w, 0, 65536);
	w.nodes[0].engine->ops.clock_nsec = slow_clock;
	tenancy_init(&quick, &w, 1, 4, 65536);
	tenancy_init(&slow, &w, 2, 4, 65536);
	n = race(&quick, &slow);
	printf("# 256 quick ones beside %llu slow ones\n", (unsigned long long)n);
	ASSERT_LE(n, 100);
	world_run(&w);
	tenancy_deinit(&quick);
	tenancy_deinit(&slow);
	world_deinit(&w);
}

/* Timers that expire in vain are paid for by those who set them, up to a limit: no tenant is shut out for long. */
TEST(timers_make_no_endless_debt)
{
	static struct tenancy one;
	struct tenant *tenant;
	struct engine_qp *qp;
	struct world w;

	world_init_chunk(&w, 0, 65536);
	tenancy_init(&one, &w, 1, 1, 8);
	world_run(&w);
	qp = first_qp(&one);
	tenant = qp->tenant;
	for (unsigned int i = 0; i < 100000; i++) {
		timer_arm(qp, 0);
		timers_run(qp->engine);
		ASSERT_GE(tenant->credit_nsec, -TENANT_MOST_DEBT_NSEC);
	}
	ASSERT_EQ(tenant->credit_nsec, -TENANT_MOST_DEBT_NSEC);
	/* It is served again, at once if no other tenant waits. */
	post_all(&one, 1);
	world_run(&w);
	ASSERT_EQ(n_done(&one), 1);
	tenancy_deinit(&one);
	world_deinit(&w);
}
