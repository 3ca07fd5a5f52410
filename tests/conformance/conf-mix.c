/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of every opcode on several QPs in both directions, against a model in memory.
 *
 * Each QP has slices of both memories to itself: what it sends from (constant), where its reads and results land,
 * and what it writes at the peer. Within a QP the model executes in the order of posting, which is what the QP
 * promises once requests behind an unfenced read or atomic carry a fence.
 */
#include "tests/conformance/conf.h"

#include <string.h>

#define N_QPS 4u
#define SLICE 16384u
#define SOURCE 0u /* within a slice; 4 KiB */
#define LANDING 4096u /* 4 KiB */
#define TARGET 8192u /* 8 KiB: written by the peer's QP of the same index */
#define LANDING_BYTES 4096u
#define TARGET_BYTES 8192u
#define MAX_SGES 6u

struct actor {
	struct conf_qp *qp;
	uint64_t random;
	size_t slice; /* of both memories; a[i] and b[i] have different ones */
	size_t landed; /* bytes of the landing area in use */
	bool unfenced; /* a read or atomic since the last fence */
	uint16_t last;
	unsigned int n_sent, n_received; /* messages that use receives */
};

static size_t below(struct actor *actor, size_t limit)
{
	return (size_t)(conf_random(&actor->random) % limit);
}

static struct conf_mem *local(struct actor *actor)
{
	return &actor->qp->side->mem;
}

static struct conf_mem *remote(struct actor *actor)
{
	return &actor->qp->peer->side->mem;
}

static void add_data(struct conf_wqe *w, struct conf_mem *mem, size_t at, size_t bytes)
{
	conf_wqe_data(w, (uintptr_t)mem->addr + at, (uint32_t)bytes, mem->lkey_be);
}

/* Payload from 1 to MAX_SGES places of the source area, or inline; it is expected at `to` of the peer. */
static size_t add_payload(struct actor *actor, struct conf_wqe *w, size_t to, size_t limit)
{
	struct conf_mem *mem = local(actor);
	size_t n = 1 + below(actor, MAX_SGES), at = 0;

	if (below(actor, 3) == 0) {
		size_t bytes = 1 + below(actor, 100);

		conf_wqe_inline(w, mem->want + actor->slice + SOURCE, bytes);
		conf_want_copy(remote(actor), to, mem, actor->slice + SOURCE, bytes);
		return bytes;
	}
	while (n--) {
		size_t bytes = 1 + below(actor, limit / MAX_SGES);
		size_t from = actor->slice + SOURCE + below(actor, 4096 - bytes);

		add_data(w, mem, from, bytes);
		conf_want_copy(remote(actor), to + at, mem, from, bytes);
		at += bytes;
	}
	return at;
}

static void make_write(struct actor *actor, struct conf_wqe *w)
{
	struct conf_mem *mem = remote(actor);
	size_t to = actor->slice + TARGET + below(actor, TARGET_BYTES - 3000);

	conf_wqe_init(w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(w, (uintptr_t)mem->addr + to, mem->rkey_be);
	add_payload(actor, w, to, 3000);
}

/* A message: the peer's receive is posted first, into the target area. */
static void make_send(struct actor *actor, struct conf_wqe *w)
{
	size_t to = actor->slice + TARGET + below(actor, TARGET_BYTES - 3000);

	conf_post_recv(actor->qp->peer, to, 3000);
	conf_wqe_init(w, SHMD_OPCODE_SEND_IMM);
	w->imm = actor->n_sent++;
	add_payload(actor, w, to, 3000);
}

static void make_read(struct actor *actor, struct conf_wqe *w)
{
	struct conf_mem *mem = remote(actor);
	size_t bytes = 1 + below(actor, 500);
	size_t from = actor->slice + TARGET + below(actor, TARGET_BYTES - bytes);
	size_t to = actor->slice + LANDING + actor->landed;

	conf_wqe_init(w, SHMD_OPCODE_RDMA_READ);
	conf_wqe_raddr(w, (uintptr_t)mem->addr + from, mem->rkey_be);
	add_data(w, local(actor), to, bytes);
	conf_want_copy(local(actor), to, mem, from, bytes);
	actor->landed += bytes;
	actor->unfenced = true;
}

static void make_atomic(struct actor *actor, struct conf_wqe *w)
{
	struct conf_mem *mem = remote(actor);
	size_t at = actor->slice + TARGET + 8 * below(actor, TARGET_BYTES / 8);
	size_t to = actor->slice + LANDING + actor->landed;
	uint64_t add = conf_random(&actor->random), old;

	memcpy(&old, mem->want + at, 8);
	conf_fetch_add(w, actor->qp, to, at, add);
	conf_want_bytes(local(actor), to, &old, 8);
	old += add;
	conf_want_bytes(mem, at, &old, 8);
	actor->landed += 8;
	actor->unfenced = true;
}

static void act(struct actor *actor)
{
	static void (*const makers[])(struct actor *, struct conf_wqe *) = {make_write, make_send,
									    make_read, make_atomic};
	bool behind_fetch = actor->unfenced;
	struct conf_wqe w;

	actor->unfenced = false;
	makers[below(actor, 4)](actor, &w);
	if (behind_fetch)
		w.fm_ce_se |= SHMD_WQE_FM_FENCE;
	if (below(actor, 2))
		w.fm_ce_se &= (uint8_t)~SHMD_WQE_CE_MASK;
	actor->last = conf_post(actor->qp, &w);
	if (below(actor, 4) == 0)
		conf_ring(actor->qp);
}

static void expect_receives(struct actor *actor)
{
	for (; actor->n_received < actor->n_sent; actor->n_received++)
		ASSERT_EQ(conf_wait_recv(actor->qp->peer).imm, actor->n_received);
}

/* A NOP that asks for a CQE ends the round. */
static void finish(struct actor *actor)
{
	struct conf_wqe w;

	conf_nop(&w);
	conf_expect_ok(actor->qp, conf_run(actor->qp, &w));
	expect_receives(actor);
	actor->landed = 0;
}

static bool has_room(const struct actor *actor)
{
	return conf_room(actor->qp) > 8 && actor->landed < LANDING_BYTES - 500 &&
	       actor->n_sent - actor->n_received < actor->qp->peer->dev->rq_wqes;
}

static void mix(struct conf *c, size_t seed)
{
	struct actor actors[2 * N_QPS] = {0};

	conf_need(c, CONF_F_RECV | CONF_F_ATOMIC);
	conf_need_sges(c, MAX_SGES);
	for (unsigned int i = 0; i < 2 * N_QPS; i++)
		actors[i] = (struct actor){
			.qp = i < N_QPS ? &c->a[i] : &c->b[i - N_QPS],
			.slice = (size_t)SLICE * i,
			.random = seed * 1000 + i,
		};
	for (int round = 0; round < 12; round++) {
		for (int step = 0; step < 200; step++) {
			struct actor *actor = &actors[conf_random(&actors[0].random) % (2 * N_QPS)];

			if (has_room(actor))
				act(actor);
		}
		for (unsigned int i = 0; i < 2 * N_QPS; i++)
			finish(&actors[i]);
		conf_check(c);
	}
}

static const struct conf_attr mix_attr = {
	.n_qps = N_QPS, .sq_wqebbs = 64, .rq_wqes = 16, .mem_bytes = (size_t)SLICE * 2 * N_QPS};

#define MIX_CASE(seed_)                                                                            \
	TEST(conf_mix_of_every_opcode_seed_##seed_)                                                \
	{                                                                                          \
		conf_each_variant(mix, seed_, &mix_attr);                                          \
	}
MIX_CASE(1)
MIX_CASE(2)
MIX_CASE(3)
MIX_CASE(4)

TEST_TIMEOUT(conf_mix_of_every_opcode_200_seeds, 120)
{
	if (!test_is_full())
		test_skip("the long form (tools/test --full) has 200 seeds");
	for (size_t seed = 100; seed < 300; seed++)
		conf_each_variant(mix, seed, &mix_attr);
}
