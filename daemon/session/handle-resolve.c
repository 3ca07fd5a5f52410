/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of DCTs to what the WQEs of a session's DCIs carry.
 *
 * Nothing is made or kept but two numbers that the client says of itself, for lists: however many peers a session has, the
 * daemon holds nothing for them. The addresses come from
 * other clients, and the answer holds their keys, so they are looked at here and told to nobody else. Control thread, but
 * run_resolve().
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int resolve_fail(struct request *req, enum shmd_status status, unsigned int i, const char *text)
{
	struct msg_peer_resolve_rep *rep = &req->rep->peer_resolve_rep;

	rep->status = status;
	snprintf(rep->text, sizeof(rep->text), "address %u: %s", i, text);
	return 0;
}

/* Up to the first that is none of a DCT; its error is put into the reply. Returns their number. */
static unsigned int decode_addrs(struct request *req, struct nic_addr *addrs)
{
	const struct msg_peer_resolve_req *ask = &req->msg->peer_resolve_req;
	unsigned int i;

	for (i = 0; i < ask->n_addrs; i++) {
		const struct msg_peer_addr *from = &ask->addrs[i];

		if (nic_addr_decode(from->addr, from->addr_bytes, &addrs[i]) < 0) {
			resolve_fail(req, SHMD_STATUS_INVALID, i, "this is no endpoint address");
			break;
		}
		if (addrs[i].qp_type != NIC_QP_DCT) {
			resolve_fail(req, SHMD_STATUS_INVALID, i, "this is no address of a DCT");
			break;
		}
	}
	return i;
}

static void fill_entry(struct msg_peer_entry *to, const struct nic_dc_peer *from)
{
	_Static_assert(sizeof(to->av) == sizeof(from->av), "an address vector fits");
	*to = (struct msg_peer_entry){.dctn = from->dctn, .dc_key = from->dc_key};
	memcpy(to->av, &from->av, sizeof(to->av));
}

struct resolve {
	struct session_nic *nic;
	unsigned int n, n_done;
	int r;
	struct nic_addr *addrs; /* n of each, behind the struct */
	struct nic_dc_peer *peers;
};

/* bounded by MSG_MAX_PEERS. */
static struct resolve *resolve_new(struct request *req, unsigned int n)
{
	struct resolve *op = request_op(req, sizeof(*op) + n * (sizeof(*op->addrs) + sizeof(*op->peers)));

	if (!op)
		return NULL;
	op->peers = (struct nic_dc_peer *)(op + 1);
	op->addrs = (struct nic_addr *)(op->peers + n);
	return op;
}

static void run_resolve(struct request *req)
{
	uint8_t traffic_class = (uint8_t)req->msg->peer_resolve_req.traffic_class;
	struct resolve *op = req->op;
	struct nic_ctx *ctx = op->nic->ctx;

	if (op->n > 0)
		op->r = ctx->nic->ops->resolve(ctx, op->n, op->addrs, traffic_class, op->peers, &op->n_done);
}

static int finish_resolve(struct request *req)
{
	struct msg_peer_resolve_rep *rep = &req->rep->peer_resolve_rep;
	const struct resolve *op = req->op;
	enum shmd_status status;

	for (; rep->n_entries < op->n_done; rep->n_entries++)
		fill_entry(&rep->entries[rep->n_entries], &op->peers[rep->n_entries]);
	if (op->r == 0)
		return 0;
	status = request_status(MSG_PEER_RESOLVE_REQ, op->r);
	return status == SHMD_STATUS_INTERNAL ? op->r
					      : resolve_fail(req, status, op->n_done, status_text(status));
}

int handle_peer_resolve(struct request *req)
{
	const struct msg_peer_resolve_req *ask = &req->msg->peer_resolve_req;
	struct msg_peer_resolve_rep *rep = &req->rep->peer_resolve_rep;
	struct session_nic *nic = request_nic(req, ask->nic);
	struct resolve *op;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	if (ask->traffic_class > 255)
		return request_fail(req, SHMD_STATUS_INVALID, "traffic class %u is not 0 to 255", ask->traffic_class);
	if (nic->n_dc_peers != ask->n_dc_peers || nic->n_rc_peers != ask->n_rc_peers)
		req->session->saved.changed = true;
	nic->n_dc_peers = ask->n_dc_peers;
	nic->n_rc_peers = ask->n_rc_peers;
	req->rep->kind = MSG_PEER_RESOLVE_REP;
	if (ask->n_addrs == 0)
		return 0;
	op = resolve_new(req, ask->n_addrs);
	rep->entries = calloc(ask->n_addrs, sizeof(*rep->entries));
	if (!op || !rep->entries)
		return -ENOMEM;
	op->nic = nic;
	op->n = decode_addrs(req, op->addrs);
	return request_work(req, op->n > 0 && nic->rnic->nic->blocks, run_resolve, finish_resolve);
}
