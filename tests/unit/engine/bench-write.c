/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nanoseconds per 8-byte write on one engine, printed: 32 posted for each doorbell, the last one signaled; or each of them. With and
 * without a ledger by turns.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/ledger.h"
#include "fixture.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define BATCH 32

struct bench {
	struct world w;
	struct pair p;
	struct region *local, *remote;
	uint16_t last;
	void *memory;
	struct engine_ledger *ledger;
};

static const struct engine_ledger_limits limits = {.max_qps = 4, .max_cqs = 8};

static void direct_run(struct bench *b)
{
	struct node *node = &b->w.nodes[0];
	struct shmd_cqe cqe = {.wqe_counter = htobe16((uint16_t)~b->last)};

	do {
		if (tcq_poll(&b->p.a.scq, &cqe))
			continue;
		while (!list_empty(&node->inbox)) {
			struct list *link = node->inbox.next;

			list_del(link);
			engine_input(node->engine, engine_packet_from_link(link));
		}
		engine_progress(node->engine, 256);
	} while (be16toh(cqe.wqe_counter) != b->last);
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

static void fill_ring(struct bench *b, bool by_inline, uint32_t bytes, unsigned int every)
{
	uint64_t value = 0x1122334455667788ull;

	for (unsigned int i = 0; i < 1u << b->p.a.log2_sq; i++) {
		unsigned int flags = i % every == every - 1 ? SIGNALED : 0;
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

static void begin(struct bench *b, bool has_ledger)
{
	struct tqp_attr attr = TQP_ATTR;
	size_t bytes = (engine_ledger_bytes(&limits) + 4095) & ~(size_t)4095;

	memset(b, 0, sizeof(*b));
	world_init_chunk(&b->w, MEM_POINTER, 65536);
	if (has_ledger) {
		b->memory = aligned_alloc(4096, bytes);
		ASSERT(b->memory);
		memset(b->memory, 0, bytes);
		ASSERT_OK(engine_ledger_new(b->w.nodes[0].engine, b->memory, bytes, &limits, &b->ledger));
		b->w.nodes[0].ledger = b->ledger;
	}
	b->local = region_new(&b->w, 0, 1 << 20);
	b->remote = region_new(&b->w, 0, 1 << 20);
	pair_init_nodes(&b->p, &b->w, 0, 0, &attr);
}

static void end(struct bench *b)
{
	pair_deinit(&b->p);
	engine_ledger_free(b->ledger);
	world_deinit(&b->w);
	free(b->memory);
}

/* Many short turns of both: what else the machine does hits the two alike, and the best of each is compared. */
static void bench(const char *name, bool by_inline, uint32_t bytes, unsigned int every)
{
	double best[2] = {1e9, 1e9};
	struct bench b[2];

	for (unsigned int i = 0; i < 2; i++) {
		begin(&b[i], i);
		fill_ring(&b[i], by_inline, bytes, every);
	}
	for (unsigned int i = 0; i < (test_is_full() ? 2000 : 100); i++) {
		double nsec = measure(&b[i % 2], 50);

		best[i % 2] = nsec < best[i % 2] ? nsec : best[i % 2];
	}
	printf("%s: %.1f ns each, %.1f with a ledger (%+.1f %%)\n", name, best[0], best[1], 100 * (best[1] / best[0] - 1));
	for (unsigned int i = 0; i < 2; i++)
		end(&b[i]);
}

TEST_TIMEOUT(writes_of_8_bytes, 120)
{
	bench("8-byte write, inline", true, 8, BATCH);
	bench("8-byte write, by reference", false, 8, BATCH);
	bench("8-byte write, inline, each signaled", true, 8, 1);
	bench("4096-byte write", false, 4096, BATCH);
}
