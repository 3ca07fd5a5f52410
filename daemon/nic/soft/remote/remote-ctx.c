/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: their heads here, and what outlives them. Descriptors that clients and the service manager get are here too; the memory
 * behind them is mapped in the host alone. A context whose host has died can still be closed, with all that is in it.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/soft/soft-record.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

/* ---- the head --------------------------------------------------------------------------------------------------------------- */

struct remote_ctx *remote_ctx_free(struct remote_ctx *ctx)
{
	if (!ctx)
		return NULL;
	assert_bug(list_empty(&ctx->base.mrs) && list_empty(&ctx->base.queues));
	pthread_mutex_lock(&ctx->nic->all->lock);
	if (!list_empty(&ctx->link))
		remote_link_of(ctx->host, ctx->nic)->n_ctxs--;
	list_del(&ctx->link);
	pthread_mutex_unlock(&ctx->nic->all->lock);
	for (unsigned int i = 0; i < REMOTE_N_FDS; i++)
		safe_close(ctx->fds[i]);
	remote_host_put(ctx->host);
	free(ctx);
	return NULL;
}
DEFINE_CLEANUP(struct remote_ctx *, remote_ctx_free);

static struct remote_ctx *ctx_alloc(struct remote_nic *nic, struct remote_host *host, const struct nic_ctx_attr *attr)
{
	struct remote_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->base.nic = &nic->base;
	ctx->base.session_id = attr->session_id;
	ctx->nic = nic;
	ctx->host = host;
	pthread_mutex_lock(&nic->all->lock);
	remote_host_ref(host);
	pthread_mutex_unlock(&nic->all->lock);
	list_init(&ctx->link);
	list_init(&ctx->base.mrs);
	list_init(&ctx->base.queues);
	for (unsigned int i = 0; i < REMOTE_N_FDS; i++)
		ctx->fds[i] = -1;
	return ctx;
}

/* Under the lock its host lives, or has died with this one among its contexts. */
static int link_ctx(struct remote_ctx *ctx)
{
	struct remote_link *link = remote_link_of(ctx->host, ctx->nic);
	int r;

	pthread_mutex_lock(&ctx->nic->all->lock);
	r = ctx->host->is_dead ? -ENODEV : 0;
	if (r == 0) {
		list_add_tail(&link->ctxs, &ctx->link);
		link->n_ctxs++;
	}
	pthread_mutex_unlock(&ctx->nic->all->lock);
	return r;
}

static int make_ctx(struct remote_nic *nic, struct remote_host *host, const struct nic_ctx_attr *attr,
		    const struct remote_opened *opened, struct remote_packet *answer, struct remote_ctx **ret_ctx)
{
	_cleanup_(remote_ctx_freep) struct remote_ctx *ctx = NULL;
	int r;

	if (answer->n_fds != REMOTE_N_FDS && answer->n_fds != REMOTE_FD_NIC_PAGE)
		return answer->n_fds == 0 ? -EMFILE : -EIO;
	ctx = ctx_alloc(nic, host, attr);
	if (!ctx)
		return -ENOMEM;
	ctx->id = opened->ctx;
	ctx->pdn = opened->pdn;
	ctx->past = opened->past;
	for (unsigned int i = 0; i < answer->n_fds; i++)
		ctx->fds[i] = remote_packet_take_fd(answer, i);
	ctx->base.doorbell = (struct nic_doorbell){
		.mode = NIC_DOORBELL_CPU,
		.page_fd = ctx->fds[REMOTE_FD_DOORBELL],
		.register_offset = opened->register_offset,
		.nic_page_fd = ctx->fds[REMOTE_FD_CLIENT_PAGE],
		.wake_fd = ctx->fds[REMOTE_FD_WAKE],
	};
	r = link_ctx(ctx);
	if (r == 0)
		*ret_ctx = take_ptr(ctx);
	return r;
}

/* Otherwise the host has a context that nobody closes, and never ends. */
static void forget_in_host(const struct remote_nic *nic, struct remote_host *host, uint64_t id)
{
	const struct remote_request request = {.head = {.op = REMOTE_CTX_UNIMPORT, .nic = nic->index, .ctx = id}};
	struct remote_packet answer;

	if (remote_call(host, &request, &answer) >= 0)
		remote_packet_deinit(&answer);
}

int remote_ctx_new(struct remote_nic *nic, struct remote_host *host, const struct nic_ctx_attr *attr, struct remote_packet *answer,
		   struct remote_ctx **ret_ctx)
{
	struct remote_reader reader = remote_reader(answer);
	struct remote_opened opened;
	int r;

	if (!remote_get(&reader, &opened, sizeof(opened)))
		return -EIO;
	r = make_ctx(nic, host, attr, &opened, answer, ret_ctx);
	if (r < 0)
		forget_in_host(nic, host, opened.ctx);
	return r;
}

/* ---- open ------------------------------------------------------------------------------------------------------------------- */

static int open_in(struct remote_nic *nic, struct remote_host *host, const struct nic_ctx_attr *attr, struct remote_ctx **ret_ctx)
{
	struct nic_ctx_attr plain = *attr;
	struct remote_request request = {.head = {.op = REMOTE_CTX_OPEN, .nic = nic->index, .bytes = sizeof(plain)}, .body = &plain};
	struct remote_packet answer;
	int r;

	plain.health_fd = -1;
	r = remote_call(host, &request, &answer);
	if (r < 0)
		return r;
	r = remote_ctx_new(nic, host, attr, &answer, ret_ctx);
	remote_packet_deinit(&answer);
	return r;
}

static int open_once(struct remote_nic *nic, const struct nic_ctx_attr *attr, struct remote_ctx **ret_ctx)
{
	struct remote_host *host;
	int r = remote_host_get(nic, attr->uid, &host);

	if (r < 0)
		return r;
	r = open_in(nic, host, attr, ret_ctx);
	remote_host_put(host);
	return r;
}

int remote_ctx_open(struct nic *base, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx)
{
	struct remote_nic *nic = remote_nic(base);
	struct soft_nic *face = soft_nic(nic->face);
	struct remote_ctx *ctx;
	int r = -ENODEV;

	/* The process has its address from here. */
	soft_fabric_settle(face->fabric, face->port);
	pthread_mutex_lock(&nic->all->lock);
	nic->is_open |= !nic->was_started;
	nic->was_started = true;
	pthread_mutex_unlock(&nic->all->lock);
	/* One that nobody used may have ended just now. */
	for (unsigned int i = 0; r == -ENODEV && i < REMOTE_TRIES; i++)
		r = open_once(nic, attr, &ctx);
	if (r == 0)
		*ret_ctx = &ctx->base;
	return r;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------ */

int remote_ctx_call(struct remote_ctx *ctx, struct remote_request *request, struct remote_packet *ret_answer)
{
	request->head.ctx = ctx->id;
	request->head.nic = ctx->nic->index;
	return remote_call(ctx->host, request, ret_answer);
}

int remote_ctx_ask(struct remote_ctx *ctx, struct remote_head head, size_t bytes, struct remote_packet *ret_answer)
{
	uint64_t nsec = ctx->base.patience_nsec ? ctx->base.patience_nsec : SOFT_ASK_NSEC;
	struct soft_fabric *fabric = soft_nic(ctx->nic->face)->fabric;
	struct remote_request request = {.head = head};
	uint64_t begin = nsec_now(), left = 0;
	int r;

	request.head.ctx = ctx->id;
	request.head.nic = ctx->nic->index;
	if (ctx->base.on_control) {
		left = soft_patience_left(fabric);
		nsec = left < nsec ? left : nsec;
	}
	r = remote_ask(ctx->host, &request, nsec, ret_answer);
	if (ctx->base.on_control && r == -EBUSY)
		soft_patience_spend(fabric, nsec_now() - begin);
	if (r < 0 || ret_answer->head.bytes == bytes)
		return r;
	remote_packet_deinit(ret_answer);
	return -EIO;
}

int remote_ctx_counters(struct nic_ctx *base, struct nic_counters *ret_counters)
{
	struct remote_ctx *ctx = remote_ctx(base);
	struct remote_packet answer;

	if (remote_ctx_ask(ctx, (struct remote_head){.op = REMOTE_CTX_COUNTERS}, sizeof(ctx->last), &answer) >= 0) {
		memcpy(&ctx->last, answer.body, sizeof(ctx->last));
		remote_packet_deinit(&answer);
	}
	*ret_counters = ctx->last;
	return 0;
}

void remote_ctx_quiesce(struct nic_ctx *base, uint64_t timeout_nsec)
{
	struct remote_request request = {.head = {.op = REMOTE_CTX_QUIESCE, .nsec = timeout_nsec}};
	struct remote_packet answer;

	if (remote_ctx_call(remote_ctx(base), &request, &answer) >= 0)
		remote_packet_deinit(&answer);
}

/* The host maps the ring and keeps both descriptors' copies. */
int remote_agent_attach(struct nic_ctx *base, int ring_fd, int wake_fd)
{
	const int fds[] = {ring_fd, wake_fd};
	struct remote_request request = {.head = {.op = REMOTE_AGENT_ATTACH}, .n_fds = 2, .fds = fds};
	struct remote_ctx *ctx = remote_ctx(base);
	struct remote_packet answer;
	int r = remote_ctx_call(ctx, &request, &answer);

	if (r < 0)
		return r;
	remote_packet_deinit(&answer);
	ctx->has_agent = true;
	return 0;
}

/* ---- close ------------------------------------------------------------------------------------------------------------------ */

/* The answer has the sum of the NIC. */
static void end_in_host(struct remote_ctx *ctx, enum remote_op op)
{
	struct remote_request request = {.head = {.op = op}};
	struct remote_packet answer;
	struct nic_counters sum;

	if (remote_ctx_call(ctx, &request, &answer) < 0)
		return;
	if (answer.head.bytes == sizeof(sum)) {
		memcpy(&sum, answer.body, sizeof(sum));
		remote_link_count(remote_link_of(ctx->host, ctx->nic), &sum);
	}
	remote_packet_deinit(&answer);
}

struct nic_ctx *remote_ctx_close(struct nic_ctx *base)
{
	struct remote_ctx *ctx;

	if (!base)
		return NULL;
	ctx = remote_ctx(base);
	end_in_host(ctx, REMOTE_CTX_CLOSE);
	remote_ctx_free(ctx);
	return NULL;
}

struct nic_ctx *remote_ctx_unimport(struct nic_ctx *base)
{
	struct remote_queues *queues, *next_queues;
	struct remote_mr *mr, *next_mr;
	struct remote_ctx *ctx;

	if (!base)
		return NULL;
	ctx = remote_ctx(base);
	end_in_host(ctx, REMOTE_CTX_UNIMPORT);
	list_for_each_entry_safe (queues, next_queues, &ctx->base.queues, base.link)
		remote_queues_free(queues);
	list_for_each_entry_safe (mr, next_mr, &ctx->base.mrs, base.link)
		remote_mr_free(mr);
	remote_ctx_free(ctx);
	return NULL;
}

/* ---- what outlives the daemon ----------------------------------------------------------------------------------------------- */

int remote_ctx_saved_fds(struct nic_ctx *base, struct nic_saved_fds *ret_saved)
{
	const struct remote_ctx *ctx = remote_ctx(base);

	if (ctx->has_agent || ctx->fds[REMOTE_FD_LEDGER] < 0 || ctx->fds[REMOTE_FD_NIC_PAGE] < 0)
		return -EOPNOTSUPP;
	*ret_saved = (struct nic_saved_fds){
		.n = SOFT_N_SAVED,
		.fds = {
			[SOFT_SAVED_DOORBELL] = ctx->fds[REMOTE_FD_DOORBELL],
			[SOFT_SAVED_WAKE] = ctx->fds[REMOTE_FD_WAKE],
			[SOFT_SAVED_NIC_PAGE] = ctx->fds[REMOTE_FD_NIC_PAGE],
			[SOFT_SAVED_LEDGER] = ctx->fds[REMOTE_FD_LEDGER],
		},
	};
	return 0;
}

int remote_ctx_export(struct nic_ctx *base, void **ret_part, size_t *ret_bytes)
{
	const struct remote_ctx *ctx = remote_ctx(base);
	struct soft_record record = {.nic = ctx->nic->index, .pdn = ctx->pdn, .past = ctx->past};

	if (ctx->has_agent || ctx->fds[REMOTE_FD_LEDGER] < 0 || ctx->fds[REMOTE_FD_NIC_PAGE] < 0)
		return -EOPNOTSUPP;
	record.n_ports = soft_fabric_gids(soft_nic(ctx->nic->face)->fabric, record.gids);
	return soft_record_encode(&record, ret_part, ret_bytes);
}

int remote_mr_export(const struct nic_mr *base, void **ret_part, size_t *ret_bytes)
{
	const struct remote_mr *mr = container_of(base, struct remote_mr, base);

	return soft_record_export_mr(mr->base.lkey, &mr->attr, ret_part, ret_bytes);
}

int remote_queues_export(const struct nic_queues *base, void **ret_part, size_t *ret_bytes)
{
	const struct remote_queues *queues = container_of(base, struct remote_queues, base);

	return soft_record_export_batch(queues->mem_offset, &base->layout, ret_part, ret_bytes);
}
