/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of queues: the caller's wishes, split into requests that the daemon takes, and mapping the memory.
 *
 * Every QP has a send CQ of its own, collapsed or ordinary, and an ordinary receive CQ of its own where it has
 * a receive queue. In each request the send CQs come first, then the receive CQs, in the order of the QPs. All
 * requests of one batch but the last have the same number of QPs. The daemon's answer is checked against
 * the mapping before any address is made of it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "libclient/objects.h"
#include "proto/base/overflow.h"

#define CQ_FLAG_COLLAPSED 1u
#define CQ_FLAG_OVERRUN_IGNORE 2u
#define QP_FLAG_GPU_DRIVEN 1u

/* ---- the request */

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static uint32_t log2_of(uint32_t n)
{
	return (uint32_t)__builtin_ctz(n);
}

static void fill_defaults(struct shmd_queues_attr *attr)
{
	if (!attr->sq_wqebbs)
		attr->sq_wqebbs = 256;
	if (!attr->rq_stride_bytes)
		attr->rq_stride_bytes = SHMD_DS_BYTES;
	/* The send ring starts on a WQEBB behind the receive ring, which has 64 bytes at least. */
	if (is_power_of_two(attr->rq_wqes) && (uint64_t)attr->rq_wqes * attr->rq_stride_bytes < SHMD_WQEBB_BYTES)
		attr->rq_wqes = SHMD_WQEBB_BYTES / attr->rq_stride_bytes;
	if (!attr->recv_cq_entries)
		attr->recv_cq_entries = attr->rq_wqes;
	if (!attr->qp_type)
		attr->qp_type = SHMD_QP_TYPE_RC;
	/* A DCI has no peers that could access anything. */
	if (!attr->access && attr->qp_type == SHMD_QP_TYPE_RC)
		attr->access = ACCESS_REMOTE;
	if (!attr->mem_kind)
		attr->mem_fd = -1;
}

static int check_receive_side(const struct shmd_queues_attr *attr)
{
	if (!attr->rq_wqes)
		return 0;
	if (!is_power_of_two(attr->rq_wqes) || attr->rq_wqes > 32768)
		return text_fail(-EINVAL, "rq_wqes is %u: a power of two up to 32768, or 0", attr->rq_wqes);
	if (!is_power_of_two(attr->rq_stride_bytes) || attr->rq_stride_bytes < SHMD_DS_BYTES ||
	    attr->rq_stride_bytes > 512)
		return text_fail(-EINVAL, "rq_stride_bytes is %u: a power of two from 16 to 512",
				 attr->rq_stride_bytes);
	if (!is_power_of_two(attr->recv_cq_entries))
		return text_fail(-EINVAL, "recv_cq_entries is %u: a power of two", attr->recv_cq_entries);
	return 0;
}

static int check_attr(const struct shmd_nic *nic, const struct shmd_queues_attr *attr)
{
	uint32_t max_log2 = nic->info.max_log2_sq_wqebbs;

	if (!attr->n_qps)
		return text_fail(-EINVAL, "n_qps is 0");
	if (!is_power_of_two(attr->sq_wqebbs) || attr->sq_wqebbs < 16 || log2_of(attr->sq_wqebbs) > max_log2)
		return text_fail(-EINVAL, "sq_wqebbs is %u: a power of two from 16 to %u on this NIC",
				 attr->sq_wqebbs, max_log2 < 32 ? 1u << max_log2 : 0);
	if (attr->sharing > SHMD_SHARING_GPU || attr->cq_mode > SHMD_CQ_MODE_ORDINARY)
		return text_fail(-EINVAL, "sharing or cq_mode is unknown");
	if (attr->qp_type != SHMD_QP_TYPE_RC && attr->qp_type != SHMD_QP_TYPE_DCI)
		return text_fail(-EINVAL, "qp_type is neither RC nor DCI; shmd_dct_create() makes a DCT");
	if (attr->qp_type == SHMD_QP_TYPE_DCI && (attr->rq_wqes || attr->access))
		return text_fail(-EINVAL, "a DCI receives nothing: rq_wqes and access must be 0");
	if (attr->access & ~ACCESS_REMOTE)
		return text_fail(-EINVAL, "access 0x%x has bits other than SHMD_ACCESS_REMOTE_*", attr->access);
	if (attr->mem_kind && attr->mem_kind != SHMD_MEM_MEMFD && attr->mem_kind != SHMD_MEM_DMABUF)
		return text_fail(-EINVAL, "queue memory is a memfd or a dmabuf");
	if (attr->mem_kind && attr->mem_offset % PAGE_BYTES)
		return text_fail(-EINVAL, "mem_offset is not a multiple of %u", PAGE_BYTES);
	return check_receive_side(attr);
}

static void fill_specs(const struct shmd_queues_attr *attr, unsigned int n, struct msg_queue_specs *specs)
{
	struct msg_qp_spec *qp = &specs->qps[0];
	bool has_rq = attr->rq_wqes;

	specs->cqs[0].count = n;
	specs->cqs[0].log2_entries = log2_of(attr->sq_wqebbs);
	if (attr->cq_mode == SHMD_CQ_MODE_COLLAPSED)
		specs->cqs[0].flags = CQ_FLAG_COLLAPSED | CQ_FLAG_OVERRUN_IGNORE;
	specs->n_cqs = 1;
	if (has_rq) {
		specs->cqs[1].count = n;
		specs->cqs[1].log2_entries = log2_of(attr->recv_cq_entries);
		specs->n_cqs = 2;
	}
	qp->count = n;
	qp->type = attr->qp_type;
	qp->log2_sq_wqebbs = log2_of(attr->sq_wqebbs);
	qp->n_rq_wqes = attr->rq_wqes;
	qp->log2_rq_stride = log2_of(attr->rq_stride_bytes);
	qp->send_cq_step = 1;
	/* A QP that receives nothing still names a receive CQ; its send CQ will never see one. */
	qp->recv_cq_first = has_rq ? n : 0;
	qp->recv_cq_step = 1;
	qp->flags = attr->gpu_driven ? QP_FLAG_GPU_DRIVEN : 0;
	qp->access = attr->access;
	specs->n_qps = 1;
}

/* QPs in one request: as many as the daemon and a packet allow. */
static unsigned int qps_per_request(const struct shmd_nic *nic)
{
	unsigned int n = nic->client->limits.max_qps_per_request;

	if (n > MSG_MAX_QPS)
		n = MSG_MAX_QPS;
	return n ? n : 1;
}

static int request_layout(struct shmd_nic *nic, const struct shmd_queues_attr *attr, unsigned int n,
			  uint64_t *ret_bytes)
{
	_cleanup_request_ struct request call;
	int r;

	request_init(&call, MSG_QUEUE_LAYOUT_REQ, MSG_QUEUE_LAYOUT_REP);
	fill_specs(attr, n, &call.req.queue_layout_req);
	r = request_call(nic->client, &call);
	if (r < 0)
		return r;
	*ret_bytes = call.rep.queue_layout_rep.total_bytes;
	return 0;
}

/* ---- one request's worth */

static void batch_deinit(struct queue_batch *batch)
{
	if (batch->mem)
		unmap_shared(batch->mem, batch->mem_bytes);
	free(batch->qps);
	free(batch->cqs);
	memset(batch, 0, sizeof(*batch));
}

static int batch_map(struct queue_batch *batch, int fd, uint64_t offset, uint64_t bytes)
{
	void *mem = map_shared(fd, offset, bytes, PROT_READ | PROT_WRITE);

	if (mem == MAP_FAILED)
		return text_fail(-errno, "cannot map %" PRIu64 " bytes of queue memory: %s", bytes,
				 strerror(errno));
	batch->mem = mem;
	batch->mem_bytes = bytes;
	return 0;
}

static bool qp_fits(const struct queue_batch *batch, const struct msg_qp_info *qp)
{
	uint64_t bytes = batch->mem_bytes;

	/* bounded, left to right. */
	return qp->log2_sq_wqebbs <= 15 && qp->log2_rq_stride <= 9 && qp->n_rq_wqes <= 32768 &&
	       range_fits(qp->sq_offset, (uint64_t)SHMD_WQEBB_BYTES << qp->log2_sq_wqebbs, bytes) &&
	       range_fits(qp->rq_offset, (uint64_t)qp->n_rq_wqes << qp->log2_rq_stride, bytes) &&
	       range_fits(qp->dbrec_offset, SHMD_DBREC_STRIDE, bytes);
}

static bool cq_fits(const struct queue_batch *batch, const struct msg_cq_info *cq)
{
	uint64_t entries;

	if (cq->log2_entries > 22)
		return false;
	/* bounded above. */
	entries = cq->flags & CQ_FLAG_COLLAPSED ? 1 : 1ull << cq->log2_entries;
	return range_fits(cq->ring_offset, entries * SHMD_CQE_BYTES, batch->mem_bytes) &&
	       range_fits(cq->dbrec_offset, sizeof(struct shmd_dbrec), batch->mem_bytes);
}

/* The answer has the requested queues, in their order, inside the memory. */
static bool batch_is_sound(const struct queue_batch *batch, const struct shmd_queues_attr *attr,
			   const struct msg_queue_create_rep *rep)
{
	unsigned int n = batch->n;

	if (rep->n_qps != n || rep->n_cqs != (attr->rq_wqes ? 2 * n : n) || !rep->queues)
		return false;
	for (unsigned int i = 0; i < rep->n_cqs; i++)
		if (!cq_fits(batch, &rep->cqs[i]))
			return false;
	for (unsigned int i = 0; i < n; i++) {
		const struct msg_qp_info *qp = &rep->qps[i];

		/* bounded by qp_fits(). */
		if (!qp_fits(batch, qp) || qp->send_cqn != rep->cqs[i].cqn ||
		    1u << qp->log2_sq_wqebbs != attr->sq_wqebbs || qp->n_rq_wqes != attr->rq_wqes ||
		    (attr->rq_wqes && qp->recv_cqn != rep->cqs[n + i].cqn))
			return false;
	}
	return true;
}

static int batch_take_reply(struct shmd_queues *queues, struct queue_batch *batch, struct request *call)
{
	struct msg_queue_create_rep *rep = &call->rep.queue_create_rep;
	_cleanup_close_ int fd = -1;
	int r;

	batch->handle = rep->queues;
	if (!batch->mem) {
		fd = request_take_fd(call, rep->mem_fd - 1);
		if (fd < 0)
			return fd;
		r = batch_map(batch, fd, 0, rep->mem_bytes);
		if (r < 0)
			return r;
	}
	if (!batch_is_sound(batch, &queues->attr, rep))
		return text_fail(-EPROTO, "shmemd's description of the queues makes no sense");
	batch->qps = take_ptr(rep->qps);
	batch->cqs = take_ptr(rep->cqs);
	return 0;
}

/* The caller's memory is mapped first: memory the CPU cannot reach is refused before any queue exists. */
static int batch_map_own(struct shmd_queues *queues, struct queue_batch *batch, uint64_t *used,
			 uint64_t *ret_offset)
{
	const struct shmd_queues_attr *attr = &queues->attr;
	uint64_t bytes, offset;
	int r = request_layout(queues->nic, attr, batch->n, &bytes);

	if (r < 0)
		return r;
	if (add_overflows(attr->mem_offset, *used, &offset) || !range_fits(*used, bytes, attr->mem_bytes))
		return text_fail(-ENOSPC, "the queues need more than the %" PRIu64 " bytes of queue memory; "
				 "shmd_queues_layout() tells how many", attr->mem_bytes);
	r = batch_map(batch, attr->mem_fd, offset, bytes);
	if (r < 0)
		return r;
	*used += bytes;
	*ret_offset = offset;
	return 0;
}

static int batch_create(struct shmd_queues *queues, struct queue_batch *batch, uint64_t *used)
{
	const struct shmd_queues_attr *attr = &queues->attr;
	_cleanup_request_ struct request call;
	struct msg_queue_create_req *req = &call.req.queue_create_req;
	int r;

	request_init(&call, MSG_QUEUE_CREATE_REQ, MSG_QUEUE_CREATE_REP);
	req->nic = queues->nic->info.index;
	fill_specs(attr, batch->n, &req->specs);
	if (attr->mem_kind) {
		r = batch_map_own(queues, batch, used, &req->mem_offset);
		if (r < 0)
			return r;
		req->mem_kind = (enum msg_mem_kind)attr->mem_kind;
		req->mem_bytes = batch->mem_bytes;
		call.fd = attr->mem_fd;
	}
	r = request_call(queues->nic->client, &call);
	return r < 0 ? r : batch_take_reply(queues, batch, &call);
}

static int batch_destroy(struct shmd_queues *queues, struct queue_batch *batch)
{
	int r = batch->handle ? request_destroy(queues->nic->client, MSG_QUEUE_DESTROY_REQ, batch->handle) : 0;

	if (!r)
		batch->handle = 0;
	return r;
}

/* ---- the whole */

void hot_free(struct shmd_hot *hot)
{
	if (!hot)
		return;
	free(hot->routes);
	free(hot->slots);
	free(hot->qps);
	free(hot);
}
void queues_free(struct shmd_queues *queues)
{
	gpu_forget_queues(queues);
	dev_state_deinit(queues);
	if (queues->scratch_mr)
		mr_free(queues->scratch_mr);
	if (queues->scratch)
		mem_free(queues->scratch);
	for (unsigned int i = 0; i < queues->n_batches; i++)
		batch_deinit(&queues->batches[i]);
	free(queues->batches);
	free(queues->peers);
	hot_free(queues->hot);
	queues->nic->n_users--;
	list_del(&queues->link);
	free(queues);
}

static int queues_destroy_remote(struct shmd_queues *queues)
{
	int r = 0;

	for (unsigned int i = 0; i < queues->n_batches && !r; i++)
		r = batch_destroy(queues, &queues->batches[i]);
	return r ? r : dev_state_release_scratch(queues);
}

/* Undoes a half-made object. The text of the error that led here stays. */
static void queues_discard(struct shmd_queues *queues)
{
	struct shmd_client *client = queues->nic->client;
	char text[CLIENT_TEXT_BYTES];

	text_copy(text, sizeof(text), shmd_error_text());
	(void)queues_destroy_remote(queues);
	client_lock(client);
	queues_free(queues);
	client_unlock(client);
	text_fail(0, "%s", text);
}
DEFINE_CLEANUP(struct shmd_queues *, queues_discard);

static struct shmd_queues *queues_new(struct shmd_nic *nic, const struct shmd_queues_attr *attr)
{
	unsigned int per_request = qps_per_request(nic);
	_cleanup_free_ struct shmd_queues *queues = calloc(1, sizeof(*queues));
	unsigned int n_batches = attr->n_qps / per_request + (attr->n_qps % per_request != 0);

	if (!queues)
		return NULL;
	queues->batches = calloc(n_batches, sizeof(*queues->batches));
	if (!queues->batches)
		return NULL;
	list_init(&queues->gpu_views);
	queues->nic = nic;
	queues->attr = *attr;
	queues->n_batches = n_batches;
	for (unsigned int i = 0, first = 0; i < n_batches; i++, first += per_request) {
		unsigned int left = attr->n_qps - first;

		queues->batches[i].first = first;
		queues->batches[i].n = left < per_request ? left : per_request;
	}
	client_lock(nic->client);
	list_add_tail(&nic->client->queues, &queues->link);
	nic->n_users++;
	client_unlock(nic->client);
	return take_ptr(queues);
}

static int prepare(struct shmd_nic *nic, const struct shmd_queues_attr *attr, struct shmd_queues_attr *ret_attr)
{
	int r = client_check(nic ? nic->client : NULL);

	if (r < 0)
		return r;
	if (!attr)
		return text_fail(-EINVAL, "attr is NULL");
	*ret_attr = *attr;
	fill_defaults(ret_attr);
	return check_attr(nic, ret_attr);
}

int shmd_queues_layout(struct shmd_nic *nic, const struct shmd_queues_attr *attr, uint64_t *ret_bytes)
{
	struct shmd_queues_attr full;
	uint64_t each = 0, last = 0;
	unsigned int per_request;
	int r = prepare(nic, attr, &full);

	if (r < 0)
		return r;
	if (!ret_bytes)
		return text_fail(-EINVAL, "ret_bytes is NULL");
	per_request = qps_per_request(nic);
	if (full.n_qps >= per_request)
		r = request_layout(nic, &full, per_request, &each);
	if (!r && full.n_qps % per_request)
		r = request_layout(nic, &full, full.n_qps % per_request, &last);
	if (r < 0)
		return r;
	*ret_bytes = full.n_qps / per_request * each + last;
	return 0;
}

int shmd_queues_create(struct shmd_nic *nic, const struct shmd_queues_attr *attr,
		       struct shmd_queues **ret_queues)
{
	_cleanup_(queues_discardp) struct shmd_queues *queues = NULL;
	struct shmd_queues_attr full;
	uint64_t used = 0;
	int r = prepare(nic, attr, &full);

	if (r < 0)
		return r;
	if (!ret_queues)
		return text_fail(-EINVAL, "ret_queues is NULL");
	if (full.n_qps > nic->client->limits.max_qps)
		return text_fail(-EDQUOT, "%u QPs are above the limit of %u for one user", full.n_qps,
				 nic->client->limits.max_qps);
	queues = queues_new(nic, &full);
	if (!queues)
		return text_fail(-ENOMEM, "no memory for a batch of queues");
	for (unsigned int i = 0; i < queues->n_batches && !r; i++)
		r = batch_create(queues, &queues->batches[i], &used);
	if (!r)
		r = dev_state_init(queues);
	if (r < 0)
		return r;
	*ret_queues = take_ptr(queues);
	return 0;
}

int shmd_queues_destroy(struct shmd_queues *queues)
{
	struct shmd_client *client = queues ? queues->nic->client : NULL;
	struct shmd_nic *nic = queues ? queues->nic : NULL;
	int r = client_check(client);
	bool had_peers;

	if (!r && queues->hot)
		r = text_fail(-EBUSY, "peers of these DCIs may have QPs of their own: shmd_hot_close() comes first");
	if (!r)
		r = queues_destroy_remote(queues);
	if (r < 0)
		return r;
	had_peers = queues->peers;
	client_lock(client);
	queues_free(queues);
	client_unlock(client);
	if (had_peers)
		peers_report_quietly(nic);
	return 0;
}

/* ---- asking */

int queues_check(const struct shmd_queues *queues, unsigned int i)
{
	int r = client_check(queues ? queues->nic->client : NULL);

	if (r < 0)
		return r;
	if (i >= queues->attr.n_qps)
		return text_fail(-EINVAL, "there is no QP %u in a batch of %u", i, queues->attr.n_qps);
	return 0;
}

unsigned int shmd_queues_count(const struct shmd_queues *queues)
{
	return queues ? queues->attr.n_qps : 0;
}

int shmd_queues_recv_cq(struct shmd_queues *queues, unsigned int i, struct shmd_recv_cq *ret_cq)
{
	const struct queue_batch *batch;
	const struct msg_cq_info *cq;
	int r = queues_check(queues, i);

	if (r < 0)
		return r;
	if (!ret_cq)
		return text_fail(-EINVAL, "ret_cq is NULL");
	memset(ret_cq, 0, sizeof(*ret_cq));
	if (!queues->attr.rq_wqes)
		return 0;
	batch = queues_batch_of(queues, i);
	cq = &batch->cqs[batch->n + i - batch->first];
	ret_cq->ring = (char *)batch->mem + cq->ring_offset;
	/* bounded by cq_fits(), when the answer came. */
	ret_cq->entries = 1u << cq->log2_entries;
	ret_cq->cqn = cq->cqn;
	ret_cq->dbrec = (char *)batch->mem + cq->dbrec_offset;
	return 0;
}
