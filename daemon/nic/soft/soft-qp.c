/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect, modify and query QPs.
 *
 * A QP is found by its number among those of the calling context only: one session never reaches another's.
 * A connect that fails leaves the QP it failed at in RST, so that it can be tried again. A step that a former
 * process has done, and its client has not heard of, is done again without harm.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"

/* The engine keeps so many for replays; both ends of a soft connection have the same limit. */
#define QP_MAX_RD_ATOMIC 16u

struct qp_call {
	struct soft_call call; /* first: soft-call.c frees it */
	struct soft_ctx *ctx;
	uint32_t qpn;
	enum nic_qp_state state;
	struct engine_qp_info info;
};

struct connect_call {
	struct soft_call call;
	struct soft_ctx *ctx;
	const struct nic_peer *peers;
	const struct nic_qp_params *params;
	unsigned int n;
	unsigned int n_done;
};

struct soft_qp *soft_qp_find(struct soft_ctx *ctx, uint32_t qpn)
{
	struct soft_qp *qp = soft_names_find(&ctx->exec->qpns, qpn);

	return qp && qp->queues && qp->queues->ctx == ctx ? qp : NULL;
}

void soft_qp_count(struct soft_qp *qp, struct nic_counters *sum)
{
	struct engine_qp_info info;

	if (engine_qp_query(qp->queues->ctx->exec->engine, qp->desc->qpn, &info) == 0)
		soft_counters_add(sum, &info.counters);
}

void soft_qp_tell_error(struct soft_qp *qp, uint32_t syndrome)
{
	if (syndrome && qp->told)
		return;
	qp->told = syndrome;
	__atomic_store_n(qp->error, syndrome, __ATOMIC_RELEASE);
}

void soft_qp_learn_error(struct soft_qp *qp)
{
	struct soft_exec *exec = qp->queues->ctx->exec;
	struct engine_event ev = {.kind = ENGINE_EVENT_QP_ERROR, .number = qp->desc->qpn};
	struct engine_qp_info info;

	if (engine_qp_query(exec->engine, qp->desc->qpn, &info) < 0 || info.state != ENGINE_QP_ERR)
		return;
	ev.syndrome = (uint8_t)info.first_error;
	/* In ERR by request: the former process sent no event either. */
	if (ev.syndrome == 0 || ev.syndrome == SHMD_SYNDROME_WR_FLUSH_ERR)
		soft_qp_tell_error(qp, SHMD_SYNDROME_WR_FLUSH_ERR);
	else
		soft_event(exec, &ev);
}

/* ---- connect --------------------------------------------------------------------------------------------------- */

static uint8_t rd_atomic(const struct nic_qp_params *params)
{
	return params->max_rd_atomic < QP_MAX_RD_ATOMIC ? params->max_rd_atomic : QP_MAX_RD_ATOMIC;
}

static int to_init(struct engine *engine, const struct soft_qp *qp)
{
	const struct engine_qp_modify mod = {
		.state = ENGINE_QP_INIT,
		.set = qp->desc->type == NIC_QP_DCI ? 0 : ENGINE_QP_SET_ACCESS,
		.access = qp->desc->type == NIC_QP_DCI ? 0 : qp->desc->access,
	};

	return engine_qp_modify(engine, qp->desc->qpn, &mod);
}

static int to_rtr(struct engine *engine, const struct soft_qp *qp, const struct nic_addr *remote,
		  const struct nic_qp_params *params)
{
	uint32_t own = qp->desc->addr.mtu_log2, mtu_log2 = remote->mtu_log2 < own ? remote->mtu_log2 : own;
	const struct engine_qp_modify no_peer = {.state = ENGINE_QP_RTR};
	struct engine_qp_modify mod = {
		.state = ENGINE_QP_RTR,
		.set = ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RNR_TIMER |
		       ENGINE_QP_SET_RD_ATOMIC,
		.dest_qpn = remote->qpn,
		.path_mtu_bytes = 1u << mtu_log2,
		.rq_psn = remote->psn,
		.min_rnr_timer = params->min_rnr_timer,
		.max_rd_atomic = rd_atomic(params),
		.max_dest_rd_atomic = rd_atomic(params),
	};

	if (qp->desc->type == NIC_QP_DCI)
		return engine_qp_modify(engine, qp->desc->qpn, &no_peer);
	memcpy(mod.dest_gid, remote->gid, sizeof(mod.dest_gid));
	return engine_qp_modify(engine, qp->desc->qpn, &mod);
}

static int to_rts(struct engine *engine, const struct soft_qp *qp, const struct nic_qp_params *params)
{
	const struct engine_qp_modify mod = {
		.state = ENGINE_QP_RTS,
		.set = ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RETRY | ENGINE_QP_SET_RD_ATOMIC,
		.sq_psn = qp->desc->addr.psn,
		.timeout = params->timeout,
		.retry_count = params->retry_count,
		.rnr_retry = params->rnr_retry,
		.max_rd_atomic = rd_atomic(params),
		.max_dest_rd_atomic = rd_atomic(params),
	};

	return engine_qp_modify(engine, qp->desc->qpn, &mod);
}

/*
 * A former process may have been cut off within a connect: begun is begun anew, and done is done. Returns whether the QP is as
 * the peer says already.
 */
static bool was_connected(struct engine *engine, struct soft_qp *qp, const struct nic_peer *peer, struct engine_qp_info *info)
{
	const struct engine_qp_modify reset = {.state = ENGINE_QP_RST};
	bool is_restored = qp->is_restored;

	qp->is_restored = false;
	if (!is_restored || info->state == ENGINE_QP_RST || info->state == ENGINE_QP_INIT)
		return false;
	if (info->state != ENGINE_QP_RTR)
		return qp->desc->type == NIC_QP_DCI || info->dest_qpn == peer->remote.qpn;
	if (engine_qp_modify(engine, peer->qpn, &reset) == 0)
		info->state = ENGINE_QP_RST;
	return false;
}

static int connect_one(struct soft_ctx *ctx, const struct nic_peer *peer,
		       const struct nic_qp_params *params)
{
	const struct engine_qp_modify reset = {.state = ENGINE_QP_RST};
	struct engine *engine = ctx->exec->engine;
	struct soft_qp *qp = soft_qp_find(ctx, peer->qpn);
	struct engine_qp_info info;
	int r;

	if (!qp || !nic_remote_is_right(qp->desc, &peer->remote, NIC_LINK_ETHERNET))
		return -EINVAL;
	r = engine_qp_query(engine, peer->qpn, &info);
	if (r < 0)
		return r;
	if (was_connected(engine, qp, peer, &info))
		return 0;
	if (info.state != ENGINE_QP_RST && info.state != ENGINE_QP_INIT)
		return -EINVAL;
	/* A DCI has nothing to change in INIT. */
	r = qp->desc->type == NIC_QP_DCI && info.state == ENGINE_QP_INIT ? 0 : to_init(engine, qp);
	if (r == 0)
		r = to_rtr(engine, qp, &peer->remote, params);
	if (r == 0)
		r = to_rts(engine, qp, params);
	if (r < 0) {
		engine_qp_modify(engine, peer->qpn, &reset);
		qp->doorbell.seen_be = 0;
	} else if (qp->desc->type == NIC_QP_RC) {
		soft_foreign_prepare(ctx->exec, &peer->remote);
	}
	return r;
}

static bool run_connect(struct soft_exec *exec, struct soft_call *base)
{
	struct connect_call *call = container_of(base, struct connect_call, call);

	for (unsigned int n = 0; n < SOFT_CALL_SLICE && call->n_done < call->n; n++, call->n_done++) {
		base->result = connect_one(call->ctx, &call->peers[call->n_done], call->params);
		if (base->result < 0)
			return true;
	}
	return call->n_done == call->n;
}

static const struct nic_addr *peer_addr(const void *peers, unsigned int i)
{
	return &((const struct nic_peer *)peers)[i].remote;
}

int soft_connect(struct nic_ctx *base, unsigned int n, const struct nic_peer *peers,
		 const struct nic_qp_params *params, unsigned int *ret_n_done)
{
	struct connect_call call = {
		.call.run = run_connect,
		.ctx = soft_ctx(base),
		.peers = peers,
		.params = params,
		.n = n,
	};
	int r = nic_qp_params_are_right(params) ? 0 : -EINVAL;

	if (r == 0 && n > 0) {
		soft_foreign_expect(call.ctx->exec, n, peer_addr, peers);
		r = soft_call(call.ctx->exec, &call.call);
	}
	*ret_n_done = call.n_done;
	return r;
}

/* ---- modify and query -------------------------------------------------------------------------------------------- */

_Static_assert((int)NIC_QPS_RST == (int)ENGINE_QP_RST && (int)NIC_QPS_INIT == (int)ENGINE_QP_INIT &&
		       (int)NIC_QPS_RTR == (int)ENGINE_QP_RTR &&
		       (int)NIC_QPS_RTS == (int)ENGINE_QP_RTS &&
		       (int)NIC_QPS_ERR == (int)ENGINE_QP_ERR &&
		       (int)NIC_QPS_SQD == (int)ENGINE_QP_SQD,
	       "the same numbers");

/* By a former process, whose answer the client may not have. */
static bool was_modified(const struct soft_qp *qp, const struct qp_call *call)
{
	return qp->is_restored && (int)call->info.state == (int)call->state;
}

static bool run_modify(struct soft_exec *exec, struct soft_call *base)
{
	struct qp_call *call = container_of(base, struct qp_call, call);
	struct soft_qp *qp = soft_qp_find(call->ctx, call->qpn);
	const struct engine_qp_modify mod = {.state = (enum engine_qp_state)call->state};

	/* A DCT is ready for as long as it lives. */
	if (!qp || qp->desc->type == NIC_QP_DCT) {
		base->result = -EINVAL;
		return true;
	}
	base->result = engine_qp_query(exec->engine, call->qpn, &call->info);
	/* RTS by this way means "on again after SQD"; from RTR it would lack what connect sets. */
	if (base->result == 0 && call->state == NIC_QPS_RTS && call->info.state != ENGINE_QP_SQD && !was_modified(qp, call))
		base->result = -EINVAL;
	if (base->result == 0)
		base->result = call->state == NIC_QPS_INIT ?
				       to_init(exec->engine, qp) :
				       engine_qp_modify(exec->engine, call->qpn, &mod);
	qp->is_restored = false;
	if (base->result == 0 && call->state == NIC_QPS_ERR)
		soft_qp_tell_error(qp, SHMD_SYNDROME_WR_FLUSH_ERR);
	/* Indexes begin again at 0. */
	if (call->state == NIC_QPS_RST) {
		soft_qp_tell_error(qp, 0);
		qp->doorbell.seen_be = 0;
	}
	return true;
}

int soft_qp_modify(struct nic_ctx *base, uint32_t qpn, enum nic_qp_state state)
{
	struct qp_call call = {
		.call.run = run_modify,
		.ctx = soft_ctx(base),
		.qpn = qpn,
		.state = state,
	};

	switch (state) {
	case NIC_QPS_RST:
	case NIC_QPS_INIT:
	case NIC_QPS_RTS:
	case NIC_QPS_ERR:
	case NIC_QPS_SQD:
		return soft_call(call.ctx->exec, &call.call);
	default:
		return -EINVAL;
	}
}

static bool run_query(struct soft_exec *exec, struct soft_call *base)
{
	struct qp_call *call = container_of(base, struct qp_call, call);

	base->result = soft_qp_find(call->ctx, call->qpn) ?
			       engine_qp_query(exec->engine, call->qpn, &call->info) :
			       -EINVAL;
	return true;
}

static void fill_info(const struct engine_qp_info *from, struct nic_qp_info *info)
{
	*info = (struct nic_qp_info){
		.state = (enum nic_qp_state)from->state,
		.dest_qpn = from->dest_qpn,
		.sq_pi = from->sq_pi,
		.sq_ci = from->sq_ci,
		.rq_pi = from->rq_pi,
		.rq_ci = from->rq_ci,
		.first_error = from->first_error,
	};
	soft_counters_add(&info->counters, &from->counters);
}

int soft_qp_query(struct nic_ctx *base, uint32_t qpn, struct nic_qp_info *ret_info)
{
	struct qp_call *call = calloc(1, sizeof(*call));
	int r;

	if (!call)
		return -ENOMEM;
	call->call.run = run_query;
	call->ctx = soft_ctx(base);
	call->qpn = qpn;
	r = soft_ctx_ask(call->ctx, &call->call);
	if (r < 0)
		return r;
	r = call->call.result;
	if (r == 0)
		fill_info(&call->info, ret_info);
	free(call);
	return r;
}
