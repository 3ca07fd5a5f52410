/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic connections: DC targets, and the peers that DCIs send to.
 *
 * A DCT is created as queues without rings, so nothing of it is mapped. The daemon turns addresses of peers into address vectors, a
 * request's worth at a time; the library keeps the table of a batch, and a GPU gets it with the dev-state.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/objects.h"
#include "proto/base/overflow.h"
#include "proto/base/show.h"
#include "proto/status.h"

#define CQ_FLAG_OVERRUN_IGNORE 2u
/* 4096 entries, as UCX has them for a DCT (UCX_DC_MLX5_RX_QUEUE_LEN). NVSHMEM has 16384 (NVSHMEM_SRQ_DEPTH) for all of a NIC. */
#define DCT_LOG2_CQ_ENTRIES 12u

/* ---- targets */

void dct_free(struct shmd_dct *dct)
{
	list_del(&dct->link);
	dct->nic->n_users--;
	free(dct);
}

/*
 * A DCT must have a CQ, though it receives nothing and no one polls it. It is an ordinary one of the size that firmware is used
 * to.
 */
static void fill_create(struct msg_queue_create_req *req, const struct shmd_nic *nic, uint32_t access)
{
	uint32_t max_log2 = nic->info.max_log2_cq_entries;

	req->nic = nic->info.index;
	req->specs.n_cqs = 1;
	req->specs.cqs[0] = (struct msg_cq_spec){
		.count = 1,
		.log2_entries = max_log2 < DCT_LOG2_CQ_ENTRIES ? max_log2 : DCT_LOG2_CQ_ENTRIES,
		.flags = CQ_FLAG_OVERRUN_IGNORE,
	};
	req->specs.n_qps = 1;
	req->specs.qps[0] = (struct msg_qp_spec){.count = 1, .type = SHMD_QP_TYPE_DCT, .access = access};
}

static int take_reply(struct shmd_dct *dct, const struct msg_queue_create_rep *rep)
{
	if (rep->n_qps != 1 || !rep->queues || !rep->qps[0].addr_bytes)
		return text_fail(-EPROTO, "shmemd's description of the DCT makes no sense");
	dct->handle = rep->queues;
	dct->addr.bytes = rep->qps[0].addr_bytes;
	memcpy(dct->addr.data, rep->qps[0].addr, rep->qps[0].addr_bytes);
	return 0;
}

int shmd_dct_create(struct shmd_nic *nic, uint32_t access, struct shmd_dct **ret_dct)
{
	_cleanup_request_ struct request call;
	_cleanup_free_ struct shmd_dct *dct = NULL;
	int r;

	request_init(&call, MSG_QUEUE_CREATE_REQ, MSG_QUEUE_CREATE_REP);
	r = client_check(nic ? nic->client : NULL);
	if (r < 0)
		return r;
	if (!ret_dct || (access & ~ACCESS_REMOTE))
		return text_fail(-EINVAL, "ret_dct is NULL, or access has bits other than SHMD_ACCESS_REMOTE_*");
	dct = calloc(1, sizeof(*dct));
	if (!dct)
		return text_fail(-ENOMEM, "no memory for a DCT");
	fill_create(&call.req.queue_create_req, nic, access ? access : ACCESS_REMOTE);
	r = request_call(nic->client, &call);
	if (!r)
		r = take_reply(dct, &call.rep.queue_create_rep);
	if (r < 0)
		return r;
	dct->nic = nic;
	client_lock(nic->client);
	list_add_tail(&nic->client->dcts, &dct->link);
	nic->n_users++;
	client_unlock(nic->client);
	*ret_dct = take_ptr(dct);
	return 0;
}

int shmd_dct_addr(const struct shmd_dct *dct, struct shmd_addr *ret_addr)
{
	int r = client_check_out(dct ? dct->nic->client : NULL, ret_addr, "ret_addr");

	if (!r)
		*ret_addr = dct->addr;
	return r;
}

int shmd_dct_destroy(struct shmd_dct *dct)
{
	struct shmd_client *client = dct ? dct->nic->client : NULL;
	int r = client_check(client);

	if (!r)
		r = request_destroy(client, MSG_QUEUE_DESTROY_REQ, dct->handle);
	if (r < 0)
		return r;
	client_lock(client);
	dct_free(dct);
	client_unlock(client);
	return 0;
}

/* ---- peers */

struct resolve_job {
	struct shmd_nic *nic;
	const struct shmd_addr *addrs;
	uint8_t traffic_class;
	struct shmd_dev_peer *peers;
};

static int fill_addrs(struct msg_peer_resolve_req *req, const struct resolve_job *job, unsigned int from,
		      unsigned int n)
{
	req->nic = job->nic->info.index;
	req->traffic_class = job->traffic_class;
	peers_count(job->nic, req);
	req->addrs = calloc(n, sizeof(*req->addrs));
	if (!req->addrs)
		return text_fail(-ENOMEM, "no memory for %u address%s", n, n == 1 ? "" : "es");
	req->n_addrs = n;
	for (unsigned int i = 0; i < n; i++) {
		const struct shmd_addr *addr = &job->addrs[from + i];

		if (!addr->bytes || addr->bytes > sizeof(req->addrs[i].addr))
			return text_fail(-EINVAL, "address %u has %u bytes", from + i, addr->bytes);
		req->addrs[i].addr_bytes = addr->bytes;
		memcpy(req->addrs[i].addr, addr->data, addr->bytes);
	}
	return 0;
}

static void take_entry(const struct resolve_job *job, struct shmd_dev_peer *peer, const struct msg_peer_entry *entry)
{
	*peer = (struct shmd_dev_peer){
		.dc_key = entry->dc_key, .dctn = entry->dctn, .nic = job->nic->info.index};
	memcpy(peer->av, entry->av, sizeof(peer->av));
}

/* Addresses from..from+n-1 in one request; *n_done grows by what the daemon resolved. */
static int resolve_some(const struct resolve_job *job, unsigned int from, unsigned int n, unsigned int *n_done)
{
	_cleanup_request_ struct request call;
	const struct msg_peer_resolve_rep *rep = &call.rep.peer_resolve_rep;
	int r;

	request_init(&call, MSG_PEER_RESOLVE_REQ, MSG_PEER_RESOLVE_REP);
	r = fill_addrs(&call.req.peer_resolve_req, job, from, n);
	if (!r)
		r = request_call(job->nic->client, &call);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < rep->n_entries && i < n; i++, (*n_done)++)
		take_entry(job, &job->peers[from + i], &rep->entries[i]);
	if (rep->status != SHMD_STATUS_OK) {
		r = text_fail_status(rep->status, rep->text);
		return text_fail(r, "address %u of the call: %s", *n_done, shmd_error_text());
	}
	if (rep->n_entries != n)
		return text_fail(-EPROTO, "shmemd resolved %u of %u addresses without an error", rep->n_entries, n);
	return 0;
}

int shmd_peers_resolve(struct shmd_nic *nic, unsigned int n, const struct shmd_addr *addrs, uint8_t traffic_class,
		       struct shmd_dev_peer *ret_peers, unsigned int *ret_n_done)
{
	const struct resolve_job job = {nic, addrs, traffic_class, ret_peers};
	unsigned int n_done = 0, max;
	int r = client_check(nic ? nic->client : NULL);

	if (!r && n && (!addrs || !ret_peers))
		r = text_fail(-EINVAL, "addrs or ret_peers is NULL");
	max = r ? 0 : client_peers_per_request(nic->client);
	while (!r && n_done < n)
		r = resolve_some(&job, n_done, n - n_done < max ? n - n_done : max, &n_done);
	if (ret_n_done)
		*ret_n_done = n_done;
	return r;
}

/* ---- the table of a batch */

static int check_peers(const struct shmd_queues *queues, unsigned int n, const struct shmd_dev_peer *peers)
{
	if (queues->attr.qp_type != SHMD_QP_TYPE_DCI)
		return text_fail(-EINVAL, "only DCIs have peers");
	if (n && !peers)
		return text_fail(-EINVAL, "peers is NULL");
	for (unsigned int i = 0; i < n; i++)
		if (peers[i].nic != queues->nic->info.index)
			return text_fail(-EINVAL, "peer %u was resolved for NIC %u, these DCIs are of NIC %u", i,
					 peers[i].nic, queues->nic->info.index);
	return 0;
}

/* Lock held. */
static int set_table(struct shmd_queues *queues, unsigned int n, struct shmd_dev_peer **table)
{
	if (!list_empty(&queues->gpu_views))
		return text_fail(-EBUSY, "a GPU has a view of these queues with the peers that there were");
	if (queues->hot)
		return text_fail(-EBUSY, "peers of this table may have QPs of their own: shmd_hot_close() comes first");
	free(queues->peers);
	queues->peers = take_ptr(*table);
	queues->dev_state->n_peers = n;
	queues->dev_state->peers_addr = (uintptr_t)queues->peers;
	return 0;
}

int shmd_queues_set_peers(struct shmd_queues *queues, unsigned int n, const struct shmd_dev_peer *peers)
{
	_cleanup_free_ struct shmd_dev_peer *table = NULL;
	int r = queues_check(queues, 0);
	uint64_t bytes;

	if (!r)
		r = check_peers(queues, n, peers);
	if (r < 0)
		return r;
	if (mul_overflows(n, sizeof(*table), &bytes))
		return text_fail(-ENOMEM, "no memory for %u peer%s", n, plural_s(n));
	if (n) {
		table = malloc(bytes);
		if (!table)
			return text_fail(-ENOMEM, "no memory for %u peer%s", n, plural_s(n));
		memcpy(table, peers, bytes);
	}
	client_lock(queues->nic->client);
	r = set_table(queues, n, &table);
	client_unlock(queues->nic->client);
	return r ? r : peers_report(queues->nic);
}
