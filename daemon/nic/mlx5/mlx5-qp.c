/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect, modify and query QPs.
 *
 * A QP is found by its number among those of the calling context only. Its state is remembered, so that connecting costs
 * three commands; the firmware answers "wrong state" to a client that used the command descriptor to change it behind our
 * back. A connect that fails leaves the QP it failed at in RST, so that it can be tried again.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <string.h>

#include <shmd/abi/cqe.h>

int mlx5_qp_to_state(struct mlx5_ctx *ctx, struct mlx5_qp *qp, enum prm_opcode opcode,
		     enum nic_qp_state state)
{
	struct mlx5_cmd cmd;
	int r;

	mlx5_cmd_qp(&cmd, opcode, qp->desc->qpn);
	r = mlx5_exec_modify(ctx, qp->obj, &cmd);
	if (r < 0)
		return r;
	qp->state = state;
	qp->cut = false;
	if (state == NIC_QPS_RST)
		mlx5_page_qp(ctx->page, MAPPER_QP_RESET, qp->desc->qpn);
	/* A requested ERR is not an event; after RST there may be one again. */
	qp->event_told = state == NIC_QPS_ERR;
	return 0;
}

/* ---- connect --------------------------------------------------------------------------------------------------- */

static int step(struct mlx5_ctx *ctx, struct mlx5_qp *qp, const struct mlx5_connect_args *args,
		void (*encode)(struct mlx5_cmd *cmd, const struct mlx5_connect_args *args),
		enum nic_qp_state state)
{
	struct mlx5_cmd cmd;
	int r;

	encode(&cmd, args);
	r = mlx5_exec_modify(ctx, qp->obj, &cmd);
	if (r == 0)
		qp->state = state;
	return r;
}

static int to_rts(struct mlx5_ctx *ctx, struct mlx5_qp *qp, const struct mlx5_connect_args *args)
{
	int r = 0;

	if (qp->state == NIC_QPS_RST)
		r = step(ctx, qp, args, mlx5_cmd_rst2init, NIC_QPS_INIT);
	if (r == 0 && qp->state == NIC_QPS_INIT)
		r = step(ctx, qp, args, mlx5_cmd_init2rtr, NIC_QPS_RTR);
	if (r == 0 && qp->state == NIC_QPS_RTR)
		r = step(ctx, qp, args, mlx5_cmd_rtr2rts, NIC_QPS_RTS);
	return r;
}

/* A connect that a former process began is finished, for the same peer: the QP may have received from it since. */
static bool may_connect(struct mlx5_ctx *ctx, struct mlx5_qp *qp, const struct nic_addr *remote)
{
	struct nic_qp_info info;

	if (qp->state == NIC_QPS_RST || qp->state == NIC_QPS_INIT)
		return true;
	if (!qp->cut || mlx5_qp_ask(ctx, qp, &info) < 0)
		return false;
	return (info.state == NIC_QPS_RTR || info.state == NIC_QPS_RTS) &&
	       (qp->desc->type == NIC_QP_DCI || info.dest_qpn == remote->qpn);
}

static int connect_one(struct mlx5_ctx *ctx, const struct nic_peer *peer,
		       const struct nic_qp_params *params, struct mlx5_next_hop *hop)
{
	struct mlx5_qp *qp = hash_get(&ctx->qps, peer->qpn);
	const struct mlx5_port port = mlx5_port_now(ctx->nic);
	struct mlx5_connect_args args = {.remote = &peer->remote,
					 .params = params,
					 .port = &port,
					 .caps = &ctx->caps,
					 .counter_set_id = ctx->counter_set_id};
	int r;

	if (!qp || !nic_remote_is_right(qp->desc, &peer->remote, port.link))
		return -EINVAL;
	if (!may_connect(ctx, qp, &peer->remote))
		return -EINVAL;
	args.qp = qp->desc;
	if (peer->remote.link == NIC_LINK_ETHERNET) {
		r = mlx5_ask_next_hop(ctx, hop, &peer->remote);
		if (r < 0)
			return r;
		memcpy(args.next_hop_mac, hop->mac, sizeof(args.next_hop_mac));
	}
	r = to_rts(ctx, qp, &args);
	qp->cut = false;
	if (r < 0)
		mlx5_qp_to_state(ctx, qp, PRM_OP_2RST_QP, NIC_QPS_RST);
	return r;
}

int mlx5_connect(struct nic_ctx *base, unsigned int n, const struct nic_peer *peers,
		 const struct nic_qp_params *params, unsigned int *ret_n_done)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	struct mlx5_next_hop hop = {.known = false};
	unsigned int n_done = 0;
	int r = nic_qp_params_are_right(params) ? 0 : -EINVAL;

	for (; r == 0 && n_done < n; n_done += r == 0)
		r = connect_one(ctx, &peers[n_done], params, &hop);
	*ret_n_done = n_done;
	return r;
}

/* ---- modify and query -------------------------------------------------------------------------------------------- */

static int to_init(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	const struct mlx5_port port = mlx5_port_now(ctx->nic);
	const struct mlx5_connect_args args = {
		.qp = qp->desc, .port = &port, .caps = &ctx->caps, .counter_set_id = ctx->counter_set_id};

	if (qp->cut && qp->state == NIC_QPS_INIT) {
		qp->cut = false;
		return 0;
	}
	return qp->state == NIC_QPS_RST ? step(ctx, qp, &args, mlx5_cmd_rst2init, NIC_QPS_INIT)
					: -EINVAL;
}

static int modify(struct mlx5_ctx *ctx, struct mlx5_qp *qp, enum nic_qp_state state)
{
	switch (state) {
	case NIC_QPS_RST:
		return mlx5_qp_to_state(ctx, qp, PRM_OP_2RST_QP, state);
	case NIC_QPS_INIT:
		return to_init(ctx, qp);
	case NIC_QPS_ERR:
		return mlx5_qp_to_state(ctx, qp, PRM_OP_2ERR_QP, state);
	case NIC_QPS_RTS:
	case NIC_QPS_SQD:
		/* No published command leads to SQD. */
		return -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
}

int mlx5_qp_modify(struct nic_ctx *base, uint32_t qpn, enum nic_qp_state state)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	struct mlx5_qp *qp = hash_get(&ctx->qps, qpn);
	int r;

	/* A DCT is ready for as long as it lives. */
	if (!qp || qp->desc->type == NIC_QP_DCT)
		return -EINVAL;
	r = modify(ctx, qp, state);
	if (r == 0 && state == NIC_QPS_ERR)
		mlx5_qp_tell_error(qp, SHMD_SYNDROME_WR_FLUSH_ERR);
	if (r == 0 && state == NIC_QPS_RST)
		mlx5_events_settle(ctx, qp);
	return r;
}

/* ---- why a QP is in ERR ------------------------------------------------------------------------------------------ */

/* The oldest error among unread entries; a flush counts only if there is no other error. */
static uint32_t syndrome_in(struct mlx5_ctx *ctx, const struct mlx5_cq *cq, uint32_t qpn)
{
	uint32_t syndrome = 0, one, whose = 0;
	uint64_t end, n_all = mlx5_cq_look(ctx, cq, cq->seen_ci, &end);
	struct mlx5_cqes cqes;

	cqes.n = 0;

	for (uint64_t n = 1; n <= n_all; n++) {
		one = mlx5_cq_error_at(cq, &cqes, end - n, &whose);
		if (one && whose == qpn && (one != SHMD_SYNDROME_WR_FLUSH_ERR || !syndrome))
			syndrome = one;
	}
	return syndrome;
}

static void find_error(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	uint32_t syndrome = syndrome_in(ctx, qp->send_cq, qp->desc->qpn);

	if ((!syndrome || syndrome == SHMD_SYNDROME_WR_FLUSH_ERR) && qp->recv_cq != qp->send_cq) {
		uint32_t other = syndrome_in(ctx, qp->recv_cq, qp->desc->qpn);

		syndrome = other ? other : syndrome;
	}
	mlx5_qp_tell_error(qp, syndrome);
}

/* A ring's whole length is looked at; returns what undoes it. */
static uint32_t rewind_cq(struct mlx5_cq *cq)
{
	const struct nic_cq *desc = mlx5_cq_desc(cq);
	uint32_t seen_ci = cq->seen_ci;

	/* bounded: nic_layout_init() or a record's decoder made the layout. */
	cq->seen_ci -= desc->flags & NIC_CQ_COLLAPSED ? 1 : 1u << desc->log2_entries;
	return seen_ci;
}

static int ask_qp(struct mlx5_ctx *ctx, struct mlx5_qp *qp, struct nic_qp_info *ret_info)
{
	uint8_t out[PRM_QUERY_QP_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r;

	mlx5_cmd_query_qp(&cmd, qp->desc->qpn);
	r = mlx5_exec_query(ctx, qp->obj, &cmd, out);
	if (r < 0)
		return r;
	mlx5_qp_info_init(ret_info, out);
	qp->state = ret_info->state;
	return 0;
}

int mlx5_qp_learn_state(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	uint32_t send_ci, recv_ci = 0;
	struct nic_qp_info info;
	int r;

	if (qp->desc->type == NIC_QP_DCT)
		return mlx5_dct_query(ctx, qp, &info);
	send_ci = rewind_cq(qp->send_cq);
	if (qp->recv_cq != qp->send_cq)
		recv_ci = rewind_cq(qp->recv_cq);
	r = ask_qp(ctx, qp, &info);
	if (qp->state == NIC_QPS_ERR && !qp->first_error)
		find_error(ctx, qp);
	if (qp->recv_cq != qp->send_cq)
		qp->recv_cq->seen_ci = recv_ci;
	qp->send_cq->seen_ci = send_ci;
	return r;
}

int mlx5_qp_ask(struct mlx5_ctx *ctx, struct mlx5_qp *qp, struct nic_qp_info *ret_info)
{
	int r;

	if (qp->desc->type == NIC_QP_DCT)
		return mlx5_dct_query(ctx, qp, ret_info);
	r = ask_qp(ctx, qp, ret_info);
	if (r < 0)
		return r;
	if (qp->state == NIC_QPS_ERR && !qp->first_error)
		mlx5_events_read(ctx);
	if (qp->state == NIC_QPS_ERR && !qp->first_error)
		find_error(ctx, qp);
	ret_info->first_error = qp->first_error;
	return 0;
}

int mlx5_qp_query(struct nic_ctx *base, uint32_t qpn, struct nic_qp_info *ret_info)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	struct mlx5_qp *qp = hash_get(&ctx->qps, qpn);
	int r = qp ? mlx5_qp_ask(ctx, qp, ret_info) : -EINVAL;

	if (r < 0)
		return r;
	if (qp->state == NIC_QPS_ERR)
		mlx5_count_errors(ctx, qp);
	ret_info->counters.error_cqes = qp->error_cqes;
	return 0;
}
