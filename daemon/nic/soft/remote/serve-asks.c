/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions, answered while works are under way. One about a context keeps it from going meanwhile, and waits for its executor as long
 * as the daemon has patience. The caller may have stopped waiting, so a context that a question names may be gone.
 */
#include "daemon/nic/soft/remote/serve.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/cleanup.h"

/* It knows of the answer before the daemon stops waiting. */
static void set_patience(struct nic_ctx *ctx, uint64_t nsec)
{
	ctx->patience_nsec = nsec - nsec / 8;
	ctx->patience_nsec += ctx->patience_nsec == 0;
}

static int query(struct nic_ctx *ctx, const struct remote_head *head, struct serve_answer *answer)
{
	struct nic_qp_info info;
	int r = ctx->nic->ops->qp_query(ctx, head->number, &info);

	if (r == 0)
		remote_put(&answer->body, &info, sizeof(info));
	return r;
}

static int count(struct nic_ctx *ctx, struct serve_answer *answer)
{
	struct nic_counters counters;
	int r = ctx->nic->ops->ctx_counters(ctx, &counters);

	if (r == 0)
		remote_put(&answer->body, &counters, sizeof(counters));
	return r;
}

static struct nic_queues *find_queues(struct nic_ctx *ctx, uint64_t id)
{
	struct nic_queues *queues, *found = NULL;

	/* A work may add a batch. None goes meanwhile: the caller has the lock that its end needs. */
	pthread_mutex_lock(&soft_ctx(ctx)->list_lock);
	list_for_each_entry (queues, &ctx->queues, link)
		if (serve_id(queues) == id)
			found = queues;
	pthread_mutex_unlock(&soft_ctx(ctx)->list_lock);
	return found;
}

static int read_queues(struct nic_ctx *ctx, const struct remote_head *head, struct serve_answer *answer)
{
	struct nic_queues *queues = find_queues(ctx, head->object);
	_cleanup_free_ void *buf = NULL;
	int r;

	if (!queues)
		return -EINVAL;
	if (head->offset > queues->layout.total_bytes || head->n > queues->layout.total_bytes - head->offset)
		return -ERANGE;
	/* bounded: queue memory is mapped. */
	buf = malloc((size_t)head->n + 1);
	if (!buf)
		return -ENOMEM;
	r = ctx->nic->ops->queues_read(queues, head->offset, buf, head->n);
	if (r == 0)
		remote_put(&answer->body, buf, head->n);
	return r;
}

static int ask_ctx(struct nic_ctx *ctx, const struct remote_head *head, struct serve_answer *answer)
{
	set_patience(ctx, head->nsec);
	switch (head->op) {
	case REMOTE_QP_QUERY:
		return query(ctx, head, answer);
	case REMOTE_QUEUES_READ:
		return read_queues(ctx, head, answer);
	default:
		return count(ctx, answer);
	}
}

static int ask_about_ctx(struct serve *serve, const struct remote_head *head, struct serve_answer *answer)
{
	struct serve_ctx *ctx;
	int r;

	pthread_mutex_lock(&serve->lock);
	ctx = serve_find_ctx(serve, head->ctx);
	r = ctx ? ask_ctx(ctx->ctx, head, answer) : -EINVAL;
	pthread_mutex_unlock(&serve->lock);
	return r;
}

static int count_nic(struct nic *nic, struct serve_answer *answer)
{
	struct nic_counters counters;
	int r = nic->ops->counters(nic, &counters);

	if (r == 0)
		remote_put(&answer->body, &counters, sizeof(counters));
	return r;
}

static int set_events(struct serve_nic *nic, struct remote_packet *request)
{
	safe_close(nic->events);
	nic->events = remote_packet_take_fd(request, 0);
	return 0;
}

static int ask_nic(struct serve_nic *nic, struct remote_packet *request, struct serve_answer *answer)
{
	const struct remote_head *head = &request->head;

	switch (head->op) {
	case REMOTE_NIC_COUNTERS:
		return count_nic(nic->nic, answer);
	case REMOTE_PORT_SET:
		return nic->nic->ops->port_set(nic->nic, (enum nic_port_state)head->value);
	case REMOTE_RESUME:
		nic->nic->ops->resume(nic->nic);
		return 0;
	case REMOTE_REST:
		answer->head.value = nic->nic->ops->rest(nic->nic);
		return 0;
	default:
		return set_events(nic, request);
	}
}

int serve_ask(struct serve *serve, struct remote_packet *request, struct serve_answer *answer)
{
	uint32_t op = request->head.op;

	if (op == REMOTE_QP_QUERY || op == REMOTE_QUEUES_READ || op == REMOTE_CTX_COUNTERS)
		return ask_about_ctx(serve, &request->head, answer);
	if (op < REMOTE_NIC_COUNTERS || op > REMOTE_EVENTS || request->head.nic >= serve->n_nics)
		return -EBADMSG;
	return ask_nic(&serve->nics[request->head.nic], request, answer);
}
