/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QPs after their creation: connect in bulk, change state, ask, count.
 *
 * A QP is looked up among those of the session before a backend hears of it: what a backend calls invalid is then
 * the QP's state. Control thread, but what is called run_...().
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/list-items.h"
#include "daemon/session/qp-cache.h"

/* On the wire 0 keeps the default, and this asks for 0 itself. */
#define PARAM_ZERO 255u

/* False: above max. */
static bool take_param(uint8_t *param, uint32_t from, uint32_t max)
{
	if (from == PARAM_ZERO)
		*param = 0;
	else if (from > max)
		return false;
	else if (from)
		*param = (uint8_t)from;
	return true;
}

static int fill_params(struct request *req, struct nic_qp_params *params)
{
	const struct msg_qp_params *from = &req->msg->connect_req.params;

	*params = req->session->registry->attr.qp_params;
	if (!req->msg->connect_req.has_params)
		return 0;
	if (!take_param(&params->timeout, from->timeout, 31) || !take_param(&params->retry_count, from->retry_count, 7) ||
	    !take_param(&params->rnr_retry, from->rnr_retry, 7) ||
	    !take_param(&params->min_rnr_timer, from->min_rnr_timer, 31) || from->max_rd_atomic > 16 ||
	    from->traffic_class > 255)
		return request_fail(req, SHMD_STATUS_INVALID,
				    "a QP parameter is outside its range: timeout 1-31, retries 1-7, RNR timer 1-31, "
				    "0 for the default and 255 for none; reads and atomics 0-16, traffic class 0-255");
	if (from->max_rd_atomic)
		params->max_rd_atomic = (uint8_t)from->max_rd_atomic;
	params->traffic_class = (uint8_t)from->traffic_class;
	return 0;
}

static int connect_fail(struct request *req, enum shmd_status status, const char *text)
{
	req->rep->connect_rep.status = status;
	snprintf(req->rep->connect_rep.text, sizeof(req->rep->connect_rep.text), "%s", text);
	return 0;
}

/* A DCI has none, a DCT is not connected, an RC QP has one of its kind. NULL, or what is wrong. */
static const char *decode_remote(const struct session_nic *nic, const struct msg_peer *from, struct nic_peer *peer)
{
	enum nic_qp_type type = session_nic_qp(nic, from->qpn)->type;

	if (type == NIC_QP_DCT)
		return "a DCT is ready and has no peer to be connected with";
	if (type == NIC_QP_DCI)
		return from->addr_bytes ? "a DCI is connected without an address" : NULL;
	if (nic_addr_decode(from->addr, from->addr_bytes, &peer->remote) < 0)
		return "these bytes are no endpoint address";
	return peer->remote.qp_type == NIC_QP_RC ? NULL : "this is no address of an RC QP";
}

/* Pairs up to the first that makes no sense; its error is put into the reply. Returns their number. */
static unsigned int decode_peers(struct request *req, const struct session_nic *nic,
				 struct nic_peer *peers)
{
	const struct msg_connect_req *conn = &req->msg->connect_req;
	char text[MSG_TEXT_BYTES];
	unsigned int i;

	for (i = 0; i < conn->n_peers; i++) {
		const struct msg_peer *from = &conn->peers[i];
		const char *wrong;

		if (!session_nic_has_qpn(nic, from->qpn)) {
			snprintf(text, sizeof(text), "peer %u: this session has no QP 0x%x on NIC %u", i,
				 from->qpn, conn->nic);
			connect_fail(req, SHMD_STATUS_NOT_FOUND, text);
			break;
		}
		wrong = decode_remote(nic, from, &peers[i]);
		if (wrong) {
			snprintf(text, sizeof(text), "peer %u, QP 0x%x: %s", i, from->qpn, wrong);
			connect_fail(req, SHMD_STATUS_INVALID, text);
			break;
		}
		peers[i].qpn = from->qpn;
	}
	return i;
}

struct connect {
	struct session_nic *nic;
	struct nic_qp_params params;
	unsigned int n, n_done;
	int r;
	struct nic_peer peers[];
};

static void run_connect(struct request *req)
{
	struct connect *op = req->op;
	struct nic_ctx *ctx = op->nic->ctx;

	if (op->n > 0)
		op->r = ctx->nic->ops->connect(ctx, op->n, op->peers, &op->params, &op->n_done);
	if (op->r == 0)
		op->n_done = op->n;
}

static int finish_connect(struct request *req)
{
	struct connect *op = req->op;
	char text[MSG_TEXT_BYTES];
	enum shmd_status status;

	req->rep->connect_rep.n_done = op->n_done;
	for (unsigned int i = 0; i < op->n_done; i++)
		qp_cache_set(op->nic, op->peers[i].qpn, &(struct session_qp){
			.state = NIC_QPS_RTS, .dest_qpn = op->peers[i].remote.qpn});
	if (op->r == 0)
		return 0;
	/* It may have come half of the way. */
	if (op->n_done < op->n && session_nic_has_qpn(op->nic, op->peers[op->n_done].qpn))
		session_save(req->session, SAVE_QPS, hash_get(&op->nic->qps, op->peers[op->n_done].qpn), -1);
	status = request_status(MSG_CONNECT_REQ, op->r);
	if (status == SHMD_STATUS_INTERNAL)
		return op->r;
	snprintf(text, sizeof(text), "peer %u, QP 0x%x: %s", op->n_done, op->peers[op->n_done].qpn,
		 status_text(status));
	return connect_fail(req, status, text);
}

int handle_connect(struct request *req)
{
	const struct msg_connect_req *conn = &req->msg->connect_req;
	struct session_nic *nic = request_nic(req, conn->nic);
	struct connect *op;
	int r;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	/* bounded by MSG_MAX_PEERS. */
	op = request_op(req, sizeof(*op) + conn->n_peers * sizeof(op->peers[0]));
	if (!op)
		return -ENOMEM;
	r = fill_params(req, &op->params);
	if (r != 0)
		return r;
	req->rep->kind = MSG_CONNECT_REP;
	op->nic = nic;
	op->n = decode_peers(req, nic, op->peers);
	return op->n > 0 ? request_change(req, nic, run_connect, finish_connect)
			 : request_work(req, false, run_connect, finish_connect);
}

/* The NIC of a QP of this session, or NULL after request_fail(NOT_FOUND). */
static struct session_nic *nic_of_qp(struct request *req, uint32_t index, uint32_t qpn)
{
	struct session_nic *nic = request_nic(req, index);

	if (!nic)
		return NULL;
	if (session_nic_has_qpn(nic, qpn))
		return nic;
	request_fail(req, SHMD_STATUS_NOT_FOUND, "this session has no QP 0x%x on NIC %u", qpn, index);
	return NULL;
}

/* One QP, asked or changed. */
struct one_qp {
	struct session_nic *nic;
	uint32_t qpn;
	enum nic_qp_state state; /* wanted */
	struct nic_qp_info info;
	int r;
};

static void run_modify(struct request *req)
{
	struct one_qp *op = req->op;
	struct nic_ctx *ctx = op->nic->ctx;

	op->r = ctx->nic->ops->qp_modify(ctx, op->qpn, op->state);
}

static int finish_modify(struct request *req)
{
	const struct one_qp *op = req->op;

	if (op->r == 0)
		qp_cache_set_state(op->nic, op->qpn, op->state);
	if (op->r == -EINVAL)
		return request_fail(req, SHMD_STATUS_QP_STATE,
				    "QP 0x%x cannot go to state %u from the one it is in", op->qpn, op->state);
	return op->r;
}

int handle_qp_modify(struct request *req)
{
	const struct msg_qp_modify_req *modify = &req->msg->qp_modify_req;
	struct session_nic *nic = nic_of_qp(req, modify->nic, modify->qpn);
	struct one_qp *op;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	switch (modify->state) {
	case NIC_QPS_RST:
	case NIC_QPS_INIT:
	case NIC_QPS_RTS:
	case NIC_QPS_ERR:
	case NIC_QPS_SQD:
		break;
	default:
		return request_fail(req, SHMD_STATUS_INVALID,
				    "state %u is none of RST 0, INIT 1, RTS 3, ERR 6, SQD 7", modify->state);
	}
	op = request_op(req, sizeof(*op));
	if (!op)
		return -ENOMEM;
	*op = (struct one_qp){.nic = nic, .qpn = modify->qpn, .state = (enum nic_qp_state)modify->state};
	return request_change(req, nic, run_modify, finish_modify);
}

static void run_query(struct request *req)
{
	struct one_qp *op = req->op;
	struct nic_ctx *ctx = op->nic->ctx;

	op->r = ctx->nic->ops->qp_query(ctx, op->qpn, &op->info);
}

static int finish_query(struct request *req)
{
	const struct one_qp *op = req->op;
	const struct nic_qp_info *info = &op->info;
	struct msg_qp_query_rep *rep = &req->rep->qp_query_rep;

	if (op->r == -EBUSY)
		return request_fail(req, SHMD_STATUS_BUSY,
				    "%s waits for memory of yours, or gets no CPU: ask again, and leave memory alone that it uses",
				    op->nic->rnic->info.name);
	if (op->r < 0)
		return op->r;
	qp_cache_set_info(op->nic, op->qpn, info);
	req->rep->kind = MSG_QP_QUERY_REP;
	*rep = (struct msg_qp_query_rep){
		.state = info->state,
		.dest_qpn = info->dest_qpn,
		.sq_pi = info->sq_pi,
		.sq_ci = info->sq_ci,
		.rq_pi = info->rq_pi,
		.rq_ci = info->rq_ci,
		.first_error = info->first_error,
	};
	fill_counters(&rep->counters, &info->counters);
	return 0;
}

int handle_qp_query(struct request *req)
{
	const struct msg_qp_query_req *query = &req->msg->qp_query_req;
	struct session_nic *nic = nic_of_qp(req, query->nic, query->qpn);
	struct one_qp *op;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	op = request_op(req, sizeof(*op));
	if (!op)
		return -ENOMEM;
	*op = (struct one_qp){.nic = nic, .qpn = query->qpn};
	return request_work(req, nic_takes_time(nic->rnic->nic), run_query, finish_query);
}

/* ---- counters of the session ------------------------------------------------------------------------------------- */

struct count {
	struct nic_counters sum;
	int r;
};

static void run_counters(struct request *req)
{
	struct count *op = req->op;

	op->r = session_counters(req->session, &op->sum);
}

static int finish_counters(struct request *req)
{
	const struct count *op = req->op;

	if (op->r < 0)
		return op->r;
	req->session->counters = op->sum;
	req->rep->kind = MSG_COUNTERS_REP;
	fill_counters(&req->rep->counters_rep.counters, &op->sum);
	return 0;
}

int handle_counters(struct request *req)
{
	struct count *op = request_op(req, sizeof(*op));

	if (!op)
		return -ENOMEM;
	return request_work(req, true, run_counters, finish_counters);
}
