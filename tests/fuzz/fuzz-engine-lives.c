/* SPDX-License-Identifier: Apache-2.0 */
/* Engines with a ledger that go between two calls, and are followed by others; see fuzz-engine.c. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "tests/fuzz/fuzz-engine.h"

static const struct engine_ledger_limits limits = {.max_qps = 80, .max_cqs = 2 * N_SIDES, .max_srqs = N_SIDES};

static size_t ledger_bytes(void)
{
	return (engine_ledger_bytes(&limits) + 4095) & ~(size_t)4095;
}

void lives_begin(struct lab *lab)
{
	lab->ledger_memory = aligned_alloc(4096, ledger_bytes());
	assert_bug(lab->ledger_memory);
	memset(lab->ledger_memory, 0, ledger_bytes());
}

void lives_open(struct lab *lab)
{
	int r = engine_ledger_new(lab->engine, lab->ledger_memory, ledger_bytes(), &limits, &lab->ledger);

	assert_bug(r == 0);
}

/* Packets on their way are lost. Operations on memory end first: an engine waits for them. */
static void end_engine(struct lab *lab)
{
	while (delay_queue_run(&lab->delays) > 0) {
	}
	while (!list_empty(&lab->inbox)) {
		struct list *link = lab->inbox.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	lab->engine = engine_free(lab->engine);
	assert_bug(!lab->n_routes);
	lab->ledger = engine_ledger_free(lab->ledger);
}

static void restore(struct lab *lab, struct side *side)
{
	int r;

	for (unsigned int m = 0; m < N_MRS; m++)
		if (side->registered[m])
			reg(lab, side, m);
	for (unsigned int c = 0; c < 2; c++) {
		side->cq_attrs[c].ledger = lab->ledger;
		r = engine_cq_restore(lab->engine, &side->cq_attrs[c]);
		assert_bug(r == 0);
	}
	if (side->has_srq) {
		side->srq_attr.ledger = lab->ledger;
		r = engine_srq_restore(lab->engine, &side->srq_attr);
		assert_bug(r == 0);
	}
	side->qp_attr.ledger = lab->ledger;
	if (side->has_qp) {
		r = engine_qp_restore(lab->engine, &side->qp_attr);
		assert_bug(r == 0);
	}
}

void lives_restart(struct lab *lab)
{
	end_engine(lab);
	new_engine(lab);
	for (unsigned int i = 0; i < N_SIDES; i++)
		restore(lab, &lab->sides[i]);
	engine_ledger_recover(lab->engine);
}

void lives_end(struct lab *lab)
{
	engine_ledger_free(lab->ledger);
	free(lab->ledger_memory);
}
