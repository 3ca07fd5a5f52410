/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lives of a world: engines with ledgers that end at a step of the executor, and others that go on with what is left,
 * which is the client's memory and the ledgers.
 *
 * The end is a jump out of the engine, whose memory is left as it is; or what the test's own `die` does.
 */
#ifndef TESTS_ENGINE_FIXTURE_LEDGER_H
#define TESTS_ENGINE_FIXTURE_LEDGER_H

#include <setjmp.h>

#include "daemon/engine/ledger.h"
#include "fixture.h"

#define MAX_LIFE_QPS 8
#define ARENA_BYTES (8u << 20)

struct lives {
	struct world w;
	void *arena; /* mapped, shared with children */
	int ledger_fds[N_NODES];
	void *ledgers[N_NODES]; /* mapped elsewhere in each life */
	size_t ledger_bytes;
	struct tqp *qps[MAX_LIFE_QPS]; /* in the order in which they are restored */
	unsigned int n_qps;
	struct tsrq *srqs[N_NODES]; /* NULL: none */
	/* The engines die at the left-th passing of step `at`, or of any when it is ENGINE_N_STEPS; 0: never. */
	enum engine_step at;
	uint64_t left;
	bool spare_atomics; /* ... but not where an atomic is cut off */
	bool dead;
	enum engine_step died_at;
	uint64_t passed[ENGINE_N_STEPS]; /* in all lives */
	jmp_buf end;
	void (*die)(void); /* NULL: the jump */
};

/* Two engines with empty ledgers and nothing else. */
void lives_init(struct lives *l, enum mem_mode mode, uint32_t chunk_bytes);
void lives_deinit(struct lives *l); /* of those that live */
void lives_add(struct lives *l, struct tqp *qp); /* it was made in l->w */

/* Until nothing is ready, and for `nsec` of timers. False: they died. */
bool lives_run(struct lives *l, uint64_t nsec);
int lives_modify(struct lives *l, struct tqp *qp, const struct engine_qp_modify *mod); /* -ECONNRESET: they died */

/* New engines, with all that was in the former ones. */
void lives_restore(struct lives *l);
void lives_begin_restore(struct lives *l); /* all but its end: these two */
void lives_open(struct lives *l); /* their ledgers and regions */
void lives_restore_objects(struct lives *l);
void lives_end_restore(struct lives *l, unsigned int node);

/* Is the outcome of an atomic unknown when they die there? */
bool step_cuts_atomic(enum engine_step step);

#endif
