/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works: what changes contexts, regions and queues. The daemon has checked what a session may ask for and names only objects that
 * there are, so these are the addresses of objects here. A work that ends an object waits for questions about it.
 */
#include "daemon/nic/soft/remote/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"

/* ---- contexts ------------------------------------------------------------------------------------------------------------- */

static int lock_new(struct nic_ctx *ctx, int *ret_fd)
{
	struct nic_saved_fds saved;

	*ret_fd = -1;
	return ctx->nic->ops->ctx_saved_fds(ctx, &saved) < 0 ? 0 : soft_lock_take(saved.fds[SOFT_SAVED_LEDGER], 0, ret_fd);
}

static int open_ctx(struct serve *serve, struct remote_packet *request, struct serve_answer *answer)
{
	struct nic *nic = serve->nics[request->head.nic].nic;
	struct nic_ctx_attr attr;
	struct nic_ctx *ctx;
	int lock_fd, r;

	if (request->head.bytes != sizeof(attr))
		return -EBADMSG;
	memcpy(&attr, request->body, sizeof(attr));
	r = nic->ops->ctx_open(nic, &attr, &ctx);
	if (r < 0)
		return r;
	r = lock_new(ctx, &lock_fd);
	if (r < 0) {
		nic->ops->ctx_close(ctx);
		return r;
	}
	return serve_ctx_add(serve, ctx, lock_fd, answer);
}

/* Returns what is left to be closed. */
static struct nic_ctx *remove_ctx(struct serve *serve, struct serve_ctx *of, int *ret_lock_fd)
{
	struct nic_ctx *ctx = of->ctx;

	pthread_mutex_lock(&serve->lock);
	list_del(&of->link);
	pthread_mutex_unlock(&serve->lock);
	*ret_lock_fd = of->lock_fd;
	free(of);
	return ctx;
}

/*
 * Answers with the NIC's counters, since the process may end before the daemon asks again. This thread may wait for the executor,
 * and the first thread alone has the budget of questions.
 */
static int close_ctx(struct serve *serve, struct serve_ctx *of, bool is_forgotten, struct serve_answer *answer)
{
	struct nic *nic = of->ctx->nic;
	struct nic_counters sum;
	int lock_fd;
	struct nic_ctx *ctx = remove_ctx(serve, of, &lock_fd);

	soft_exec_recount(soft_ctx(ctx)->exec);
	if (is_forgotten)
		nic->ops->ctx_unimport(ctx);
	else
		nic->ops->ctx_close(ctx);
	safe_close(lock_fd);
	soft_counters_known(soft_nic(nic), &sum);
	remote_put(&answer->body, &sum, sizeof(sum));
	return 0;
}

/* ---- regions and queues --------------------------------------------------------------------------------------------------- */

static int reg(struct nic_ctx *ctx, struct remote_packet *request, struct serve_answer *answer)
{
	struct nic_mr_attr attr;
	struct nic_mr *mr;
	int r;

	if (request->head.bytes != sizeof(attr))
		return -EBADMSG;
	memcpy(&attr, request->body, sizeof(attr));
	attr.fd = request->n_fds ? request->fds[0] : -1;
	r = ctx->nic->ops->mr_reg(ctx, &attr, &mr);
	if (r < 0)
		return r;
	answer->head.object = serve_id(mr);
	answer->head.number = mr->lkey;
	return 0;
}

static int dereg(struct nic_ctx *ctx, const struct remote_head *head)
{
	ctx->nic->ops->mr_dereg((struct nic_mr *)(uintptr_t)head->object);
	return 0;
}

static int create(struct serve *serve, struct nic_ctx *ctx, struct remote_packet *request, struct serve_answer *answer)
{
	struct remote_reader reader = remote_reader(request);
	_cleanup_(nic_layout_deinit) struct nic_layout layout = {0};
	struct remote_queues_told told;
	struct nic_queues *queues;
	int r = remote_get_layout(&reader, &told, &layout);

	if (r < 0)
		return r;
	told.mem.fd = request->n_fds ? request->fds[0] : -1;
	r = ctx->nic->ops->queues_create(ctx, &told.mem, &layout, &queues);
	if (r < 0)
		return r;
	answer->head.object = serve_id(queues);
	remote_put_layout(&answer->body, &queues->layout, serve_id(queues), &told.mem);
	return 0;
}

static int destroy(struct serve *serve, struct nic_ctx *ctx, const struct remote_head *head, struct serve_answer *answer)
{
	int r;

	/* No question is at the batch. */
	pthread_mutex_lock(&serve->lock);
	r = ctx->nic->ops->queues_destroy((struct nic_queues *)(uintptr_t)head->object);
	pthread_mutex_unlock(&serve->lock);
	if (r == 0)
		remote_put(&answer->body, &soft_ctx(ctx)->past, sizeof(struct nic_counters));
	return r;
}

/* ---- connections ---------------------------------------------------------------------------------------------------------- */

static int connect_qps(struct nic_ctx *ctx, const struct remote_packet *request, struct serve_answer *answer)
{
	const struct nic_peer *peers = (const void *)request->body;
	uint32_t n = request->head.n;
	struct nic_qp_params params;

	if (request->head.bytes != sizeof(params) + (uint64_t)n * sizeof(*peers))
		return -EBADMSG;
	memcpy(&params, peers + n, sizeof(params));
	answer->head.value = (uint32_t)ctx->nic->ops->connect(ctx, n, peers, &params, &answer->head.n);
	return 0;
}

static int resolve(struct nic_ctx *ctx, const struct remote_packet *request, struct serve_answer *answer)
{
	uint32_t n = request->head.n;
	_cleanup_free_ struct nic_dc_peer *peers = NULL;
	int r;

	if (request->head.bytes != (uint64_t)n * sizeof(struct nic_addr))
		return -EBADMSG;
	peers = calloc((size_t)n + 1, sizeof(*peers));
	if (!peers)
		return -ENOMEM;
	r = ctx->nic->ops->resolve(ctx, n, (const void *)request->body, (uint8_t)request->head.number, peers, &answer->head.n);
	answer->head.value = (uint32_t)r;
	/* bounded: the body has as many addresses. */
	remote_put(&answer->body, peers, (size_t)answer->head.n * sizeof(*peers));
	return 0;
}

/* ---- all of them ---------------------------------------------------------------------------------------------------------- */

static int work_in_ctx(struct serve *serve, struct serve_ctx *of, struct remote_packet *request, struct serve_answer *answer)
{
	const struct remote_head *head = &request->head;
	struct nic_ctx *ctx = of->ctx;

	switch (head->op) {
	case REMOTE_CTX_CLOSE:
	case REMOTE_CTX_UNIMPORT:
		return close_ctx(serve, of, head->op == REMOTE_CTX_UNIMPORT, answer);
	case REMOTE_CTX_QUIESCE:
		ctx->nic->ops->ctx_quiesce(ctx, head->nsec);
		return 0;
	case REMOTE_AGENT_ATTACH:
		return request->n_fds == 2 ? ctx->nic->ops->agent_attach(ctx, request->fds[0], request->fds[1]) : -EMFILE;
	case REMOTE_MR_REG:
		return reg(ctx, request, answer);
	case REMOTE_MR_DEREG:
		return dereg(ctx, head);
	case REMOTE_QUEUES_CREATE:
		return create(serve, ctx, request, answer);
	case REMOTE_QUEUES_DESTROY:
		return destroy(serve, ctx, head, answer);
	case REMOTE_CONNECT:
		return connect_qps(ctx, request, answer);
	case REMOTE_RESOLVE:
		return resolve(ctx, request, answer);
	case REMOTE_QP_MODIFY:
		return ctx->nic->ops->qp_modify(ctx, head->number, (enum nic_qp_state)head->value);
	default:
		return -EBADMSG;
	}
}

int serve_work(struct serve *serve, struct remote_packet *request, struct serve_answer *answer)
{
	struct serve_ctx *of;

	if (request->head.nic >= serve->n_nics)
		return -EBADMSG;
	if (request->head.op == REMOTE_FDS)
		return serve_fds(serve, request);
	if (request->head.op == REMOTE_CTX_OPEN)
		return open_ctx(serve, request, answer);
	if (request->head.op == REMOTE_CTX_IMPORT)
		return serve_ctx_import(serve, request, answer);
	of = serve_find_ctx(serve, request->head.ctx);
	return of ? work_in_ctx(serve, of, request, answer) : -EBADMSG;
}
