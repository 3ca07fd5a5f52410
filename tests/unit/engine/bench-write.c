/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds per 8-byte write on one engine, printed: 32 posted for each doorbell, the last one signaled. */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define BATCH 32

struct bench {
	struct world w;
	struct pair p;
	struct region *local, *remote;
	uint16_t last;
};

static void direct_run(struct bench *b)
{
	struct node *node = &b->w.nodes[0];
	struct shmd_cqe cqe;

	while (!tcq_poll(&b->p.a.scq, &cqe)) {
		while (!list_empty(&node->inbox)) {
			struct list *link = node->inbox.next;

			list_del(link);
			engine_input(node->engine, engine_packet_from_link(link));
		}
		engine_progress(node->engine, 256);
	}
	ASSERT_EQ(be16toh(cqe.wqe_counter), b->last);
}

/* The client's part is made once: the ring is filled, then only the dbrec moves. */
static double measure(struct bench *b, unsigned int rounds)
{
	struct tqp *qp = &b->p.a;
	uint64_t start, spent;

	start = nsec_now();
	for (unsigned int i = 0; i < rounds; i++) {
		qp->pi = (uint16_t)(qp->pi + BATCH);
		b->last = (uint16_t)(qp->pi - 1);
		__atomic_store_n(&qp->dbrec->snd, htobe32(qp->pi), __ATOMIC_RELEASE);
		tqp_ring(qp);
		direct_run(b);
	}
	spent = nsec_now() - start;
	return (double)spent / ((double)rounds * BATCH);
}

static void fill_ring(struct bench *b, bool by_inline, uint32_t bytes)
{
	uint64_t value = 0x1122334455667788ull;

	for (unsigned int i = 0; i < 1u << b->p.a.log2_sq; i++) {
		unsigned int flags = i % BATCH == BATCH - 1 ? SIGNALED : 0;
		struct wqe wqe;

		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, flags);
		wqe_raddr(&wqe, b->remote->iova + 8 * i, b->remote->key);
		if (by_inline)
			wqe_inline(&wqe, &value, bytes);
		else
			wqe_data(&wqe, b->local->iova, b->local->key, bytes);
		tqp_post(&b->p.a, &wqe);
	}
	b->p.a.pi = 0;
	__atomic_store_n(&b->p.a.dbrec->snd, 0, __ATOMIC_RELEASE);
}

static void bench(const char *name, bool by_inline, uint32_t bytes)
{
	struct tqp_attr attr = TQP_ATTR;
	double best = 1e9;
	struct bench b;

	world_init_chunk(&b.w, MEM_POINTER, 65536);
	b.local = region_new(&b.w, 0, 1 << 20);
	b.remote = region_new(&b.w, 0, 1 << 20);
	pair_init_nodes(&b.p, &b.w, 0, 0, &attr);
	fill_ring(&b, by_inline, bytes);
	for (unsigned int i = 0; i < 7; i++) {
		double nsec = measure(&b, test_is_full() ? 20000 : 1000);

		best = nsec < best ? nsec : best;
	}
	printf("%s: %.1f ns each\n", name, best);
	pair_deinit(&b.p);
	world_deinit(&b.w);
}

TEST(writes_of_8_bytes)
{
	bench("8-byte write, inline", true, 8);
	bench("8-byte write, by reference", false, 8);
	bench("4096-byte write", false, 4096);
}
