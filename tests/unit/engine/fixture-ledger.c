/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture-ledger.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/engine/engine-private.h"
#include "fixture-ledger.h"
#include "tests/lib/test.h"

#define ACCESS \
	(ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC)

static const struct engine_ledger_limits limits = {.max_qps = 16, .max_cqs = 16, .max_srqs = 2};

/* Engines that died: no thread touches them any more, and what they had is reachable from here. */
static struct {
	struct engine **engines;
	size_t n, room;
} dead;

static void bury(struct engine *engine)
{
	if (dead.n == dead.room) {
		dead.room = dead.room ? 2 * dead.room : 64;
		dead.engines = realloc(dead.engines, dead.room * sizeof(*dead.engines));
		ASSERT(dead.engines);
	}
	dead.engines[dead.n++] = engine;
	free(engine->bounce_memory);
	engine->bounce_memory = NULL;
}

bool step_cuts_atomic(enum engine_step step)
{
	return step == ENGINE_STEP_INTENT || step == ENGINE_STEP_ATOMIC || step == ENGINE_STEP_REPLAY;
}

static void fault(void *owner, enum engine_step step)
{
	struct lives *l = container_of(((struct node *)owner)->world, struct lives, w);

	l->passed[step]++;
	if (!l->left || (l->at != step && l->at != ENGINE_N_STEPS))
		return;
	if (l->spare_atomics && step_cuts_atomic(step))
		return;
	if (--l->left)
		return;
	if (l->die)
		l->die();
	l->dead = true;
	l->died_at = step;
	longjmp(l->end, 1);
}

static void *map(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	ASSERT_NE(p, MAP_FAILED);
	return p;
}

static void begin(struct lives *l)
{
	struct world *w = &l->w;

	for (unsigned int i = 0; i < N_NODES; i++) {
		struct node *node = &w->nodes[i];

		world_new_engine(w, i, 0, fault);
		ASSERT_OK(engine_ledger_new(node->engine, l->ledgers[i], l->ledger_bytes, &limits, &node->ledger));
	}
}

void lives_init(struct lives *l, enum mem_mode mode, uint32_t chunk_bytes)
{
	memset(l, 0, sizeof(*l));
	world_init_chunk(&l->w, mode, chunk_bytes);
	l->arena = map(-1, ARENA_BYTES);
	l->w.arena = l->arena;
	l->w.arena_left = ARENA_BYTES;
	l->ledger_bytes = engine_ledger_bytes(&limits);
	for (unsigned int i = 0; i < N_NODES; i++) {
		l->ledger_fds[i] = memfd_create("ledger", MFD_CLOEXEC);
		ASSERT_GE(l->ledger_fds[i], 0);
		ASSERT_OK(ftruncate(l->ledger_fds[i], (off_t)l->ledger_bytes));
		l->ledgers[i] = map(l->ledger_fds[i], l->ledger_bytes);
		l->w.nodes[i].engine = engine_free(l->w.nodes[i].engine);
	}
	begin(l);
}

void lives_add(struct lives *l, struct tqp *qp)
{
	ASSERT_LT(l->n_qps, MAX_LIFE_QPS);
	l->qps[l->n_qps++] = qp;
}

void lives_deinit(struct lives *l)
{
	struct engine_ledger *views[N_NODES];

	l->left = 0;
	for (unsigned int i = 0; i < N_NODES; i++)
		views[i] = l->w.nodes[i].ledger;
	world_deinit(&l->w);
	for (unsigned int i = 0; i < N_NODES; i++) {
		engine_ledger_free(views[i]);
		munmap(l->ledgers[i], l->ledger_bytes);
		close(l->ledger_fds[i]);
	}
	munmap(l->arena, ARENA_BYTES);
}

bool lives_run(struct lives *l, uint64_t nsec)
{
	if (setjmp(l->end))
		return false;
	world_run_timers(&l->w, nsec);
	return true;
}

int lives_modify(struct lives *l, struct tqp *qp, const struct engine_qp_modify *mod)
{
	if (setjmp(l->end))
		return -ECONNRESET;
	return engine_qp_modify(qp->node->engine, qp->qpn, mod);
}

/* Packets on their way are lost, and so is the state that the engines held. */
static void forget_life(struct lives *l)
{
	struct world *w = &l->w;

	for (unsigned int i = 0; i < N_NODES; i++) {
		void *former = l->ledgers[i];

		bury(w->nodes[i].engine);
		free(w->nodes[i].ledger);
		l->ledgers[i] = map(l->ledger_fds[i], l->ledger_bytes);
		munmap(former, l->ledger_bytes);
		list_init(&w->nodes[i].inbox);
		w->nodes[i].n_events = 0;
	}
	w->delays.n = 0;
	w->n_routes = 0;
	l->dead = false;
}

static void restore_regions(struct world *w)
{
	for (unsigned int i = 0; i < w->n_regions; i++) {
		struct region *r = &w->regions[i];

		test_mem_init(&r->mem, w->mode, r->size_bytes + 128, &w->delays, r->mem.bytes);
		region_register(r, ACCESS, 1);
	}
}

static void restore_cq(struct tcq *cq)
{
	cq->attr.ledger = cq->node->ledger;
	ASSERT_OK(engine_cq_restore(cq->node->engine, &cq->attr));
}

static void restore_qp(struct tqp *qp)
{
	restore_cq(&qp->scq);
	restore_cq(&qp->rcq);
	qp->attr.ledger = qp->node->ledger;
	ASSERT_OK(engine_qp_restore(qp->node->engine, &qp->attr));
}

void lives_open(struct lives *l)
{
	forget_life(l);
	begin(l);
	restore_regions(&l->w);
}

void lives_restore_objects(struct lives *l)
{
	for (unsigned int i = 0; i < N_NODES; i++) {
		if (!l->srqs[i])
			continue;
		l->srqs[i]->attr.ledger = l->w.nodes[i].ledger;
		ASSERT_OK(engine_srq_restore(l->w.nodes[i].engine, &l->srqs[i]->attr));
	}
	for (unsigned int i = 0; i < l->n_qps; i++)
		restore_qp(l->qps[i]);
}

void lives_begin_restore(struct lives *l)
{
	lives_open(l);
	lives_restore_objects(l);
}

void lives_end_restore(struct lives *l, unsigned int node)
{
	engine_ledger_recover(l->w.nodes[node].engine);
}

void lives_restore(struct lives *l)
{
	uint64_t left = l->left;

	/* Done again after an end in its midst it is the same; its own steps are no places to die at. */
	l->left = 0;
	lives_begin_restore(l);
	for (unsigned int i = 0; i < N_NODES; i++)
		lives_end_restore(l, i);
	l->left = left;
}
