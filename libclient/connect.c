/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoint addresses, connecting QPs in bulk, and their states.
 *
 * A connect call of any size is split into requests that the daemon takes; the first pair that fails ends it.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/from-msg.h"
#include "libclient/objects.h"
#include "proto/base/show.h"
#include "proto/status.h"

int shmd_queues_addr(const struct shmd_queues *queues, unsigned int i, struct shmd_addr *ret_addr)
{
	const struct msg_qp_info *qp;
	int r = queues_check(queues, i);

	if (r < 0)
		return r;
	if (!ret_addr)
		return text_fail(-EINVAL, "ret_addr is NULL");
	if (queues->attr.qp_type == SHMD_QP_TYPE_DCI)
		return text_fail(-EINVAL, "a DCI has no address for peers; a DCT has one");
	qp = queues_qp(queues, i);
	memset(ret_addr, 0, sizeof(*ret_addr));
	ret_addr->bytes = qp->addr_bytes;
	memcpy(ret_addr->data, qp->addr, qp->addr_bytes);
	return 0;
}

/* ---- connecting */

struct connect_job {
	struct shmd_queues *queues;
	unsigned int first;
	const struct shmd_addr *addrs;
	const struct shmd_qp_params *params;
};

static int fill_peers(struct msg_connect_req *req, const struct connect_job *job, unsigned int from,
		      unsigned int n)
{
	req->peers = calloc(n, sizeof(*req->peers));
	if (!req->peers)
		return text_fail(-ENOMEM, "no memory for %u peer%s", n, plural_s(n));
	req->n_peers = n;
	for (unsigned int i = 0; i < n; i++) {
		const struct shmd_addr *addr = job->addrs ? &job->addrs[from + i] : NULL;
		struct msg_peer *peer = &req->peers[i];

		peer->qpn = queues_qp(job->queues, job->first + from + i)->qpn;
		if (!addr)
			continue;
		if (!addr->bytes || addr->bytes > sizeof(peer->addr))
			return text_fail(-EINVAL, "address %u has %u bytes", from + i, addr->bytes);
		peer->addr_bytes = addr->bytes;
		memcpy(peer->addr, addr->data, addr->bytes);
	}
	return 0;
}

static void fill_params(struct msg_connect_req *req, const struct shmd_qp_params *params)
{
	if (!params)
		return;
	req->has_params = true;
	req->params = (struct msg_qp_params){
		.timeout = params->timeout,
		.retry_count = params->retry_count,
		.rnr_retry = params->rnr_retry,
		.min_rnr_timer = params->min_rnr_timer,
		.max_rd_atomic = params->max_rd_atomic,
		.traffic_class = params->traffic_class,
	};
}

/* Peers from..from+n-1 in one request; *n_done grows by what the daemon connected. */
static int connect_some(const struct connect_job *job, unsigned int from, unsigned int n, unsigned int *n_done)
{
	_cleanup_request_ struct request call;
	const struct msg_connect_rep *rep = &call.rep.connect_rep;
	int r;

	request_init(&call, MSG_CONNECT_REQ, MSG_CONNECT_REP);
	call.req.connect_req.nic = job->queues->nic->info.index;
	fill_params(&call.req.connect_req, job->params);
	r = fill_peers(&call.req.connect_req, job, from, n);
	if (!r)
		r = request_call(job->queues->nic->client, &call);
	if (r < 0)
		return r;
	*n_done += rep->n_done < n ? rep->n_done : n;
	if (rep->status != SHMD_STATUS_OK) {
		r = text_fail_status(rep->status, rep->text);
		return text_fail(r, "QP %u of the batch: %s", job->first + *n_done, shmd_error_text());
	}
	if (rep->n_done != n)
		return text_fail(-EPROTO, "shmemd connected %u of %u QPs without an error", rep->n_done, n);
	return 0;
}

unsigned int client_peers_per_request(const struct shmd_client *client)
{
	unsigned int n = client->limits.max_peers_per_request;

	if (n > MSG_MAX_PEERS)
		n = MSG_MAX_PEERS;
	return n ? n : 1;
}

int shmd_queues_connect(struct shmd_queues *queues, unsigned int first, unsigned int n,
			const struct shmd_addr *addrs, const struct shmd_qp_params *params,
			unsigned int *ret_n_done)
{
	struct connect_job job = {.queues = queues, .first = first, .addrs = addrs, .params = params};
	unsigned int n_done = 0, max;
	int r = queues_check(queues, 0);

	if (!r && (first > queues->attr.n_qps || n > queues->attr.n_qps - first))
		r = text_fail(-EINVAL, "QPs %u to %u are not all in a batch of %u", first, first + n,
			      queues->attr.n_qps);
	if (!r && n && !addrs != (queues->attr.qp_type == SHMD_QP_TYPE_DCI))
		r = text_fail(-EINVAL, "%s", addrs ? "DCIs are connected without addresses" : "addrs is NULL");
	max = r ? 0 : client_peers_per_request(queues->nic->client);
	while (!r && n_done < n)
		r = connect_some(&job, n_done, n - n_done < max ? n - n_done : max, &n_done);
	if (ret_n_done)
		*ret_n_done = n_done;
	return r;
}

/* ---- states */

/* The caller's view and those on GPUs. */
static int reset_dev_qp(struct shmd_queues *queues, unsigned int i)
{
	int r;

	client_lock(queues->nic->client);
	r = gpu_before_reset(queues, i);
	if (!r) {
		dev_state_reset_qp(queues, i);
		r = gpu_after_reset(queues, i);
	}
	client_unlock(queues->nic->client);
	return r;
}

int shmd_queues_modify(struct shmd_queues *queues, unsigned int i, enum shmd_qp_state state)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_QP_MODIFY_REQ, MSG_OK_REP);
	r = queues_check(queues, i);
	if (r < 0)
		return r;
	call.req.qp_modify_req.nic = queues->nic->info.index;
	call.req.qp_modify_req.qpn = queues_qp(queues, i)->qpn;
	call.req.qp_modify_req.state = (uint32_t)state;
	r = request_call(queues->nic->client, &call);
	if (r < 0)
		return r;
	return state == SHMD_QP_RST ? reset_dev_qp(queues, i) : 0;
}

int shmd_queues_query(struct shmd_queues *queues, unsigned int i, struct shmd_qp_info *ret_info)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_QP_QUERY_REQ, MSG_QP_QUERY_REP);
	r = queues_check(queues, i);
	if (r < 0)
		return r;
	if (!ret_info)
		return text_fail(-EINVAL, "ret_info is NULL");
	call.req.qp_query_req.nic = queues->nic->info.index;
	call.req.qp_query_req.qpn = queues_qp(queues, i)->qpn;
	r = request_call(queues->nic->client, &call);
	if (r < 0)
		return r;
	qp_info_from_msg(call.req.qp_query_req.qpn, &call.rep.qp_query_rep, ret_info);
	return 0;
}
