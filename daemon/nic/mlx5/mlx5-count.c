/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error CQEs of each QP.
 *
 * And the counters of a session. The NIC counts error CQEs for a session's set of counters, not for each QP. An ordinary CQ
 * still holds each of its error CQEs with the QP's number, so those are read. A collapsed CQ holds only the last CQE. After a QP
 * has shown an error there, all its CQEs are errors; for the first error the set gives the number, if no other QP of the session
 * is in error. Otherwise the count is a lower bound.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#define CQ_COUNTER_MASK 0xffffffu

/* A set counts failures; only the client's queues know successes. */
int mlx5_ctx_counters(struct nic_ctx *base, struct nic_counters *ret_counters)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	uint8_t out[PRM_QUERY_Q_COUNTER_OUT_BYTES];
	struct nic_counters sum = {0};
	struct mlx5_cmd cmd;
	int r;

	if (ctx->counter_set) {
		mlx5_cmd_query_q_counter(&cmd, ctx->counter_set_id);
		r = mlx5_exec_query(ctx, ctx->counter_set, &cmd, out);
		if (r < 0)
			return r;
		sum.error_cqes = prm_get(out, PRM_QUERY_Q_COUNTER_OUT_RESP_CQE_ERROR) +
				 prm_get(out, PRM_QUERY_Q_COUNTER_OUT_REQ_CQE_ERROR);
		sum.rnr_naks = prm_get(out, PRM_QUERY_Q_COUNTER_OUT_OUT_OF_BUFFER);
		sum.retries = prm_get(out, PRM_QUERY_Q_COUNTER_OUT_LOCAL_ACK_TIMEOUT_ERR) +
			      prm_get(out, PRM_QUERY_Q_COUNTER_OUT_PACKET_SEQ_ERR) +
			      prm_get(out, PRM_QUERY_Q_COUNTER_OUT_IMPLIED_NAK_SEQ_ERR);
	}
	pthread_mutex_lock(&ctx->nic->lock);
	ctx->counters = sum;
	pthread_mutex_unlock(&ctx->nic->lock);
	*ret_counters = sum;
	return 0;
}

/* ---- of one QP ------------------------------------------------------------------------------------------------------ */

static void add(struct mlx5_ctx *ctx, struct mlx5_qp *qp, uint64_t n)
{
	qp->error_cqes += n;
	ctx->error_cqes_counted += n;
}

/* The last `n` CQEs, of any QPs. */
static void count_ring(struct mlx5_ctx *ctx, const struct mlx5_cq *cq, uint64_t end, uint64_t n)
{
	struct mlx5_cqes cqes;
	struct mlx5_qp *qp;
	uint32_t qpn;

	cqes.n = 0;
	for (; n > 0; n--) {
		qp = mlx5_cq_error_at(cq, &cqes, end - n, &qpn) ? hash_get(&ctx->qps, qpn) : NULL;
		if (qp)
			add(ctx, qp, 1);
	}
}

static void count_collapsed(struct mlx5_ctx *ctx, struct mlx5_qp *qp, const struct mlx5_cq *cq, uint64_t n)
{
	struct mlx5_cqes cqes;
	uint32_t qpn;

	cqes.n = 0;
	if (n == 0 || !mlx5_cq_error_at(cq, &cqes, 0, &qpn) || qpn != qp->desc->qpn)
		return;
	add(ctx, qp, qp->shows_errors ? n : 1);
	qp->shows_errors = true;
}

static void count_cq(struct mlx5_ctx *ctx, struct mlx5_qp *qp, struct mlx5_cq *cq)
{
	uint64_t end = cq->counted_ci, n = mlx5_cq_look(ctx, cq, cq->counted_ci, &end);

	if (mlx5_cq_desc(cq)->flags & NIC_CQ_COLLAPSED)
		count_collapsed(ctx, qp, cq, (end - cq->counted_ci) & CQ_COUNTER_MASK);
	else
		count_ring(ctx, cq, end, n);
	cq->counted_ci = (uint32_t)end;
}

static bool fails_alone(const struct mlx5_ctx *ctx, const struct mlx5_qp *qp)
{
	const struct mlx5_qp *other;
	size_t pos = 0;
	uint64_t qpn;

	while ((other = hash_next(&ctx->qps, &pos, &qpn)))
		if (other != qp && other->event_told)
			return false;
	return true;
}

/* Errors in the session's set that are not assigned to a QP yet. */
static void count_rest(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	struct nic_counters all;

	if (!ctx->counter_set || !fails_alone(ctx, qp) || mlx5_ctx_counters(&ctx->base, &all) < 0)
		return;
	if (!ctx->counted_is_stale && qp->error_cqes && all.error_cqes > ctx->error_cqes_counted)
		add(ctx, qp, all.error_cqes - ctx->error_cqes_counted);
	ctx->error_cqes_counted = all.error_cqes;
	ctx->counted_is_stale = false;
}

void mlx5_count_errors(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	count_cq(ctx, qp, qp->send_cq);
	if (qp->recv_cq != qp->send_cq)
		count_cq(ctx, qp, qp->recv_cq);
	count_rest(ctx, qp);
}
