/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the context pools of the NICs (`warm-contexts`) make and destroy contexts.
 *
 * One worker takes one step at a time, for all NICs, so that sessions have the other workers. The daemon calls ctx_pool_look()
 * after each work, each event of a NIC and each turn of a client, since any of these may have taken a context. A draining daemon
 * keeps no context ready. A failure is logged once and retried later: no session waits for it or fails because of it.
 *
 * Control thread, except step_run().
 */
#include "daemon/node/ctx-pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"
#include "proto/base/nsec.h"

#define RETRY_SEC 5u

/* The state of one NIC. */
struct ctx_pool_nic {
	bool waits; /* for the next retry */
	bool told; /* its failure was logged; cleared when its pool is full */
};

struct ctx_pool {
	struct registry *registry;
	struct loop_timer *retry;
	struct nic_ctx_pool_attr attr;
	bool stopped, drained; /* NICs keep no context ready */
	struct work work;
	bool is_busy;
	struct registry_nic *at; /* the NIC of the work */
	int result;
	unsigned int next; /* NIC whose turn it is */
	struct ctx_pool_nic nics[REGISTRY_MAX_NICS];
};

static void ctx_pool_freep(struct ctx_pool **pool)
{
	ctx_pool_free(*pool);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static void step_run(struct work *work)
{
	struct ctx_pool *pool = container_of(work, struct ctx_pool, work);

	pool->result = pool->at->nic->ops->ctx_pool_step(pool->at->nic);
}

/* A lost NIC is logged elsewhere. */
static void tell(struct ctx_pool_nic *of, const char *name, int r)
{
	if (of->told || r == -ENODEV)
		return;
	of->told = true;
	log_line(LOG_WARNING, &(struct log_fields){.nic = name},
		 "cannot create a context of %s for the context pool: %s; sessions create their own, and shmemd tries again every %u s",
		 name, strerror(-r), RETRY_SEC);
}

static void step_done(struct work *work)
{
	struct ctx_pool *pool = container_of(work, struct ctx_pool, work);
	struct ctx_pool_nic *of = &pool->nics[pool->at->index];

	pool->is_busy = false;
	if (pool->result < 0 && pool->result != -EAGAIN) {
		tell(of, pool->at->info.name, pool->result);
		of->waits = true;
		loop_timer_arm(pool->retry, RETRY_SEC * NSEC_PER_SEC);
	}
	ctx_pool_look(pool);
}

static void on_retry(void *arg)
{
	struct ctx_pool *pool = arg;

	for (unsigned int i = 0; i < REGISTRY_MAX_NICS; i++)
		pool->nics[i].waits = false;
	ctx_pool_look(pool);
}

/* ---- what is to be done ------------------------------------------------------------------------------------------ */

static bool has_step(struct ctx_pool *pool, struct registry_nic *rnic)
{
	struct ctx_pool_nic *of = &pool->nics[rnic->index];
	struct nic_ctx_pool_info info;

	if (!rnic->nic->blocks || rnic->nic->ops->ctx_pool_query(rnic->nic, &info) < 0)
		return false;
	of->told &= info.n_ready < info.n_wanted;
	return info.todo == NIC_CTX_POOL_DESTROY || (info.todo == NIC_CTX_POOL_MAKE && !of->waits);
}

/* NICs take turns. */
static struct registry_nic *next_step(struct ctx_pool *pool)
{
	for (unsigned int i = 0; i < pool->registry->n_nics; i++) {
		unsigned int at = (pool->next + i) % pool->registry->n_nics;

		if (!has_step(pool, &pool->registry->nics[at]))
			continue;
		pool->next = at + 1;
		return &pool->registry->nics[at];
	}
	return NULL;
}

static void tell_nics(struct ctx_pool *pool, unsigned int from)
{
	struct nic_ctx_pool_attr attr = pool->attr;

	if (pool->stopped || pool->drained)
		attr.n_ctxs = 0;
	for (unsigned int i = from; i < pool->registry->n_nics; i++) {
		struct registry_nic *rnic = &pool->registry->nics[i];
		int r = rnic->nic->blocks ? rnic->nic->ops->ctx_pool_set(rnic->nic, &attr) : 0;

		pool->nics[i] = (struct ctx_pool_nic){0};
		if (r < 0 && r != -EOPNOTSUPP)
			tell(&pool->nics[i], rnic->info.name, r);
	}
}

void ctx_pool_look(struct ctx_pool *pool)
{
	if (!pool)
		return;
	if (pool->drained != pool->registry->draining) {
		pool->drained = pool->registry->draining;
		tell_nics(pool, 0);
	}
	if (pool->is_busy)
		return;
	pool->at = next_step(pool);
	if (!pool->at)
		return;
	pool->is_busy = true;
	pool->work = (struct work){.run = step_run, .done = step_done};
	registry_work(pool->registry, true, &pool->work);
}

void ctx_pool_set(struct ctx_pool *pool, const struct nic_ctx_pool_attr *attr)
{
	if (!pool)
		return;
	pool->attr = *attr;
	tell_nics(pool, 0);
	ctx_pool_look(pool);
}

void ctx_pool_take_nics(struct ctx_pool *pool, unsigned int from)
{
	if (!pool)
		return;
	tell_nics(pool, from);
	ctx_pool_look(pool);
}

void ctx_pool_stop(struct ctx_pool *pool)
{
	if (!pool)
		return;
	pool->stopped = true;
	tell_nics(pool, 0);
	ctx_pool_look(pool);
}

int ctx_pool_new(struct loop *loop, struct registry *registry, struct ctx_pool **ret_pool)
{
	_cleanup_(ctx_pool_freep) struct ctx_pool *pool = calloc(1, sizeof(*pool));
	int r;

	if (!pool)
		return -ENOMEM;
	pool->registry = registry;
	r = loop_timer_new(loop, on_retry, pool, &pool->retry);
	if (r < 0)
		return r;
	*ret_pool = take_ptr(pool);
	return 0;
}

struct ctx_pool *ctx_pool_free(struct ctx_pool *pool)
{
	if (!pool)
		return NULL;
	loop_timer_free(pool->retry);
	free(pool);
	return NULL;
}
