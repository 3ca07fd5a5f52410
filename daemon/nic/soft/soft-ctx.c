/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: one session on one soft NIC.
 *
 * ctx_open and friends run on the caller's thread; functions named run_* on the data thread.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define FLUSH_POLL_NSEC 20000u
#define FLUSH_POLL_MAX_NSEC 2000000u

struct ctx_call {
	struct soft_call call; /* first: soft-call.c frees it */
	struct soft_ctx *ctx;
	struct soft_qp *at; /* next QP of a walk over all of the context; NULL: not begun */
	uint32_t n_left;
	struct nic_counters counters;
};

/* ---- open and close -------------------------------------------------------------------------------------------- */

struct soft_ctx *soft_ctx_free(struct soft_ctx *ctx)
{
	if (!ctx)
		return NULL;
	doorbell_page_deinit(&ctx->page);
	soft_map_deinit(&ctx->ledger_map);
	safe_close(ctx->ledger_fd);
	soft_agent_unref(ctx->agent);
	pthread_mutex_destroy(&ctx->list_lock);
	soft_exec_put(ctx->exec);
	free(ctx);
	return NULL;
}
DEFINE_CLEANUP(struct soft_ctx *, soft_ctx_free);

static const struct engine_ledger_limits ledger_limits = {
	.max_qps = SOFT_MAX_QPS,
	.max_cqs = SOFT_MAX_CQS,
	.max_srqs = SOFT_MAX_QPS,
};

size_t soft_ledger_bytes(void)
{
	return engine_ledger_bytes(&ledger_limits);
}

/* One PD is one session's, whatever a record says. */
static bool is_taken(const struct soft_exec *exec, uint32_t pdn)
{
	const struct soft_ctx *ctx;

	list_for_each_entry(ctx, &exec->poll.pages, page.link)
		if (ctx->pdn == pdn)
			return true;
	return false;
}

static int attach(struct soft_exec *exec, struct soft_ctx *ctx)
{
	int r = 0;

	if (is_taken(exec, ctx->pdn))
		return -EINVAL;
	if (ctx->ledger_map.base)
		r = engine_ledger_new(exec->engine, ctx->ledger_map.base, ctx->ledger_map.bytes, &ledger_limits,
				      &ctx->ledger);
	if (r < 0)
		return r;
	r = doorbell_page_attach(&ctx->page);
	if (r < 0)
		ctx->ledger = engine_ledger_free(ctx->ledger);
	return r;
}

static bool run_attach(struct soft_exec *exec, struct soft_call *call)
{
	call->result = attach(exec, container_of(call, struct ctx_call, call)->ctx);
	return true;
}

int soft_ctx_attach(struct soft_ctx *ctx)
{
	struct ctx_call call = {.call.run = run_attach, .ctx = ctx};

	return soft_call(ctx->exec, &call.call);
}

static bool run_detach(struct soft_exec *exec, struct soft_call *call)
{
	struct soft_ctx *ctx = container_of(call, struct ctx_call, call)->ctx;

	assert_bug(ctx->page.n_queues == 0);
	soft_agent_end(ctx);
	doorbell_page_detach(&ctx->page);
	ctx->ledger = engine_ledger_free(ctx->ledger);
	return true;
}

/* New ones come behind those of a former process, too. */
static uint32_t take_pdn(struct soft_nic *nic, uint32_t pdn)
{
	pthread_mutex_lock(&nic->lock);
	if (!pdn)
		pdn = nic->last_pdn + 1;
	if (pdn > nic->last_pdn)
		nic->last_pdn = pdn;
	pthread_mutex_unlock(&nic->lock);
	return pdn;
}

struct soft_ctx *soft_ctx_alloc(struct soft_exec *exec, const struct nic_ctx_attr *attr, uint32_t pdn)
{
	struct soft_ctx *ctx = calloc(1, sizeof(*ctx));
	struct soft_nic *nic = exec->nic;

	if (!ctx) {
		soft_exec_put(exec);
		return NULL;
	}
	ctx->exec = exec;
	ctx->base.nic = &nic->base;
	ctx->base.session_id = attr->session_id;
	ctx->nic = nic;
	ctx->pdn = take_pdn(nic, pdn);
	ctx->ledger_fd = -1;
	pthread_mutex_init(&ctx->list_lock, NULL);
	list_init(&ctx->base.mrs);
	list_init(&ctx->base.queues);
	doorbell_page_init(&ctx->page, &exec->poll);
	return ctx;
}

int soft_ctx_open(struct nic *base, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx)
{
	_cleanup_(soft_ctx_freep) struct soft_ctx *ctx = NULL;
	struct soft_exec *exec;
	int r;

	if (attr->doorbell == NIC_DOORBELL_UAR_MMAP)
		return -EOPNOTSUPP;
	if (attr->doorbell != NIC_DOORBELL_AUTO && attr->doorbell != NIC_DOORBELL_CPU)
		return -EINVAL;
	r = soft_exec_get(soft_nic(base), attr->uid, &exec);
	if (r < 0)
		return r;
	ctx = soft_ctx_alloc(exec, attr, 0);
	if (!ctx)
		return -ENOMEM;
	r = doorbell_page_create(&ctx->page, &ctx->base.doorbell);
	if (r == 0 && attr->is_saved)
		r = soft_map_create("shmemd-ledger", soft_ledger_bytes(), &ctx->ledger_map, &ctx->ledger_fd);
	if (r == 0)
		r = soft_ctx_attach(ctx);
	if (r < 0)
		return r;
	*ret_ctx = &take_ptr(ctx)->base;
	return 0;
}

struct nic_ctx *soft_ctx_close(struct nic_ctx *base)
{
	struct ctx_call call = {.call.run = run_detach};

	if (!base)
		return NULL;
	call.ctx = soft_ctx(base);
	assert_bug(list_empty(&call.ctx->base.mrs) && list_empty(&call.ctx->base.queues));
	soft_call(call.ctx->exec, &call.call);
	soft_ctx_free(call.ctx);
	return NULL;
}

/* ---- walks over all QPs, some in each turn ---------------------------------------------------------------------- */

/* Nothing else changes the list between turns: a context has one caller at a time, and scans only rotate it. */
static bool walk(struct ctx_call *walk, void (*visit)(struct ctx_call *walk, struct soft_qp *qp))
{
	struct soft_ctx *ctx = walk->ctx;
	uint32_t n;

	if (!walk->at) {
		if (ctx->page.n_queues == 0)
			return true;
		walk->at = list_first_entry(&ctx->page.queues, struct soft_qp, doorbell.link);
		walk->n_left = ctx->page.n_queues;
	}
	for (n = 0; n < SOFT_CALL_SLICE && walk->n_left > 0; n++) {
		struct list *next = walk->at->doorbell.link.next;

		visit(walk, walk->at);
		walk->n_left--;
		/* The head stands between the last and the first. */
		if (next == &ctx->page.queues)
			next = next->next;
		walk->at = container_of(next, struct soft_qp, doorbell.link);
	}
	return walk->n_left == 0;
}

static void visit_count(struct ctx_call *walk, struct soft_qp *qp)
{
	soft_qp_count(qp, &walk->counters);
}

static bool run_counters(struct soft_exec *exec, struct soft_call *base)
{
	struct ctx_call *call = container_of(base, struct ctx_call, call);

	if (!call->at)
		call->counters = call->ctx->past;
	return walk(call, visit_count);
}

/* When the executor does not get to it: what it had. */
int soft_ctx_counters(struct nic_ctx *base, struct nic_counters *ret_counters)
{
	struct ctx_call *call = calloc(1, sizeof(*call));
	struct soft_ctx *ctx = soft_ctx(base);

	if (!call)
		return -ENOMEM;
	call->call.run = run_counters;
	call->ctx = ctx;
	if (soft_ctx_ask(ctx, &call->call) == 0) {
		ctx->last = call->counters;
		free(call);
	}
	*ret_counters = ctx->last;
	return 0;
}

/* ---- quiesce ---------------------------------------------------------------------------------------------------------- */

static void visit_to_error(struct ctx_call *walk, struct soft_qp *qp)
{
	const struct engine_qp_modify mod = {.state = ENGINE_QP_ERR};
	struct engine *engine = walk->ctx->exec->engine;

	engine_qp_modify(engine, qp->desc->qpn, &mod);
	/* The engine sees and flushes the last posts. It does not see later ones, so the flush ends. */
	engine_qp_freeze(engine, qp->desc->qpn);
}

static bool run_to_error(struct soft_exec *exec, struct soft_call *base)
{
	struct ctx_call *call = container_of(base, struct ctx_call, call);

	doorbell_page_silence(&call->ctx->page);
	return walk(call, visit_to_error);
}

static void visit_flushed(struct ctx_call *walk, struct soft_qp *qp)
{
	struct engine_qp_info info;

	if (engine_qp_query(walk->ctx->exec->engine, qp->desc->qpn, &info) < 0)
		return;
	if (info.pending || info.sq_pi != info.sq_ci || info.rq_pi != info.rq_ci)
		walk->call.result = -EAGAIN;
}

static bool run_flushed(struct soft_exec *exec, struct soft_call *base)
{
	return walk(container_of(base, struct ctx_call, call), visit_flushed) || base->result < 0;
}

static bool ctx_is_flushed(struct soft_ctx *ctx)
{
	struct ctx_call call = {.call.run = run_flushed, .ctx = ctx};

	return soft_call(ctx->exec, &call.call) == 0;
}

void soft_ctx_quiesce(struct nic_ctx *base, uint64_t timeout_nsec)
{
	struct ctx_call call = {.call.run = run_to_error, .ctx = soft_ctx(base)};
	uint64_t begin_nsec = nsec_now();
	struct timespec pause = {.tv_nsec = FLUSH_POLL_NSEC};

	soft_call(call.ctx->exec, &call.call);
	while (nsec_now() - begin_nsec < timeout_nsec && !ctx_is_flushed(call.ctx)) {
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < (long)FLUSH_POLL_MAX_NSEC)
			pause.tv_nsec *= 2;
	}
}
