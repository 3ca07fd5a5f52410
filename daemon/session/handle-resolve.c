/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of DCTs to what the WQEs of a session's DCIs carry.
 *
 * Nothing is made or kept: however many peers a session has, the daemon holds nothing for them. The addresses come from
 * other clients, and the answer holds their keys, so they are looked at here and told to nobody else. Control thread.
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"

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

static int resolve(struct request *req, struct session_nic *nic)
{
	const struct msg_peer_resolve_req *ask = &req->msg->peer_resolve_req;
	struct msg_peer_resolve_rep *rep = &req->rep->peer_resolve_rep;
	_cleanup_free_ struct nic_addr *addrs = calloc(ask->n_addrs, sizeof(*addrs));
	_cleanup_free_ struct nic_dc_peer *peers = calloc(ask->n_addrs, sizeof(*peers));
	unsigned int n, n_done = 0;
	enum shmd_status status;
	int r = 0;

	rep->entries = calloc(ask->n_addrs, sizeof(*rep->entries));
	if (!addrs || !peers || !rep->entries)
		return -ENOMEM;
	n = decode_addrs(req, addrs);
	if (n > 0)
		r = nic->ctx->nic->ops->resolve(nic->ctx, n, addrs, (uint8_t)ask->traffic_class, peers, &n_done);
	for (; rep->n_entries < n_done; rep->n_entries++)
		fill_entry(&rep->entries[rep->n_entries], &peers[rep->n_entries]);
	if (r == 0)
		return 0;
	status = dispatch_status(MSG_PEER_RESOLVE_REQ, r);
	return status == SHMD_STATUS_INTERNAL ? r : resolve_fail(req, status, n_done, status_text(status));
}

int handle_peer_resolve(struct request *req)
{
	const struct msg_peer_resolve_req *ask = &req->msg->peer_resolve_req;
	struct session_nic *nic = request_nic(req, ask->nic);

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	if (ask->traffic_class > 255)
		return request_fail(req, SHMD_STATUS_INVALID, "traffic class %u is not 0 to 255", ask->traffic_class);
	req->rep->kind = MSG_PEER_RESOLVE_REP;
	return ask->n_addrs > 0 ? resolve(req, nic) : 0;
}
