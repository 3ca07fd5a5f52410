/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions, batches, connections. The layout of a batch stays the daemon's own: the host adds numbers and addresses to it, and can say
 * nothing else of where queues lie.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"

/* ---- regions ---------------------------------------------------------------------------------------------------------------- */

/* It is counted already. */
int remote_mr_add(struct remote_ctx *ctx, const struct nic_mr_attr *attr, uint64_t id, uint32_t key, struct nic_mr **ret_mr)
{
	struct remote_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	mr->base = (struct nic_mr){.ctx = &ctx->base, .lkey = key, .rkey = key, .length_bytes = attr->length_bytes};
	mr->id = id;
	mr->attr = *attr;
	mr->attr.fd = -1;
	list_add_tail(&ctx->base.mrs, &mr->base.link);
	*ret_mr = &mr->base;
	return 0;
}

static void dereg(struct remote_ctx *ctx, uint64_t id)
{
	struct remote_request request = {.head = {.op = REMOTE_MR_DEREG, .object = id}};
	struct remote_packet answer;

	if (remote_ctx_call(ctx, &request, &answer) >= 0)
		remote_packet_deinit(&answer);
}

int remote_mr_reg(struct nic_ctx *base, const struct nic_mr_attr *attr, struct nic_mr **ret_mr)
{
	struct remote_request request = {.head = {.op = REMOTE_MR_REG, .bytes = sizeof(*attr)}, .body = attr,
					  .n_fds = attr->kind == NIC_MEM_MEMFD, .fds = &attr->fd};
	struct remote_ctx *ctx = remote_ctx(base);
	struct remote_packet answer;
	int r = soft_check_mr_kind(attr->kind);

	if (r < 0)
		return r;
	r = remote_mr_count(ctx->nic);
	if (r < 0)
		return r;
	r = remote_ctx_call(ctx, &request, &answer);
	if (r < 0) {
		remote_mr_uncount(ctx->nic);
		return r;
	}
	r = remote_mr_add(ctx, attr, answer.head.object, answer.head.number, ret_mr);
	if (r < 0) {
		dereg(ctx, answer.head.object);
		remote_mr_uncount(ctx->nic);
	}
	remote_packet_deinit(&answer);
	return r;
}

struct nic_mr *remote_mr_dereg(struct nic_mr *base)
{
	struct remote_mr *mr;

	if (!base)
		return NULL;
	mr = container_of(base, struct remote_mr, base);
	dereg(remote_ctx(base->ctx), mr->id);
	remote_mr_free(mr);
	return NULL;
}

/* ---- batches ---------------------------------------------------------------------------------------------------------------- */

/* False: the host says what cannot be. */
static bool take_numbers(struct nic_layout *layout, const struct nic_layout *told)
{
	bool right = layout->n_cqs == told->n_cqs && layout->n_qps == told->n_qps;

	for (uint32_t i = 0; right && i < layout->n_cqs; i++)
		right = layout->cqs[i].cqn == told->cqs[i].cqn;
	for (uint32_t i = 0; right && i < layout->n_qps; i++) {
		struct nic_qp *qp = &layout->qps[i];

		right = qp->qpn == told->qps[i].qpn;
		qp->send_cqn = told->qps[i].send_cqn;
		qp->recv_cqn = told->qps[i].recv_cqn;
		qp->addr = told->qps[i].addr;
	}
	return right;
}

int remote_queues_add(struct remote_ctx *ctx, uint64_t id, uint64_t mem_offset, struct nic_layout *layout,
		      struct nic_queues **ret_queues)
{
	struct remote_queues *queues = calloc(1, sizeof(*queues));

	if (!queues)
		return -ENOMEM;
	queues->base.ctx = &ctx->base;
	queues->base.layout = *layout;
	queues->id = id;
	queues->mem_offset = mem_offset;
	*layout = (struct nic_layout){0};
	list_add_tail(&ctx->base.queues, &queues->base.link);
	*ret_queues = &queues->base;
	return 0;
}

static int destroy(struct remote_ctx *ctx, uint64_t id)
{
	struct remote_request request = {.head = {.op = REMOTE_QUEUES_DESTROY, .object = id}};
	struct remote_packet answer;
	int r = remote_ctx_call(ctx, &request, &answer);

	if (r < 0)
		return r;
	if (answer.head.bytes == sizeof(ctx->past))
		memcpy(&ctx->past, answer.body, sizeof(ctx->past));
	remote_packet_deinit(&answer);
	return 0;
}

static int add_created(struct remote_ctx *ctx, const struct nic_queue_mem *mem, struct nic_layout *layout, const struct remote_packet *answer,
		       struct nic_queues **ret_queues)
{
	_cleanup_(nic_layout_deinit) struct nic_layout told_layout = {0};
	struct remote_reader reader = remote_reader(answer);
	struct remote_queues_told told;
	int r = remote_get_layout(&reader, &told, &told_layout);

	if (r == 0 && !take_numbers(layout, &told_layout))
		r = -EIO;
	if (r == 0)
		r = remote_queues_add(ctx, told.object, mem->offset, layout, ret_queues);
	/* A host that makes no sense has it until it ends. */
	if (r == -ENOMEM && told_layout.cqs && told_layout.qps)
		destroy(ctx, told.object);
	return r;
}

/* The layout has numbers, and is taken if it succeeds. */
static int create(struct remote_ctx *ctx, const struct nic_queue_mem *mem, struct nic_layout *layout, struct nic_queues **ret_queues)
{
	_cleanup_(remote_writer_deinit) struct remote_writer body = {0};
	struct remote_request request = {.head.op = REMOTE_QUEUES_CREATE, .n_fds = 1, .fds = &mem->fd};
	struct remote_packet answer;
	int r;

	remote_put_layout(&body, layout, 0, mem);
	if (body.is_short)
		return -ENOMEM;
	request.head.bytes = body.n;
	request.body = body.buf;
	r = remote_ctx_call(ctx, &request, &answer);
	if (r < 0)
		return r;
	r = add_created(ctx, mem, layout, &answer, ret_queues);
	remote_packet_deinit(&answer);
	return r;
}

int remote_queues_create(struct nic_ctx *base, const struct nic_queue_mem *mem, struct nic_layout *layout,
			 struct nic_queues **ret_queues)
{
	_cleanup_(nic_layout_deinit) struct nic_layout complete = {0};
	struct remote_ctx *ctx = remote_ctx(base);
	int r = soft_check_kind(mem->kind);

	if (r == 0)
		r = nic_layout_copy(&complete, layout);
	if (r == 0)
		r = remote_numbers_take(ctx, &complete);
	if (r < 0)
		return r;
	r = create(ctx, mem, &complete, ret_queues);
	if (r == 0)
		nic_layout_deinit(layout);
	else
		remote_numbers_drop(ctx->nic, ctx->host, &complete);
	return r;
}

/* -ENODEV: it is gone already. */
int remote_queues_destroy(struct nic_queues *base)
{
	struct remote_queues *queues = container_of(base, struct remote_queues, base);
	int r = destroy(remote_ctx(base->ctx), queues->id);

	if (r < 0 && r != -ENODEV)
		return r;
	remote_queues_free(queues);
	return 0;
}

int remote_queues_read(struct nic_queues *base, uint64_t offset, void *buf, size_t bytes)
{
	const struct remote_queues *queues = container_of(base, struct remote_queues, base);
	const struct remote_head head = {
		.op = REMOTE_QUEUES_READ, .object = queues->id, .offset = offset, .n = (uint32_t)bytes};
	struct remote_packet answer;
	int r;

	if (offset > base->layout.total_bytes || bytes > base->layout.total_bytes - offset || bytes > REMOTE_MAX_BYTES)
		return -ERANGE;
	r = remote_ctx_ask(remote_ctx(base->ctx), head, bytes, &answer);
	if (r < 0)
		return r;
	if (bytes)
		memcpy(buf, answer.body, bytes);
	remote_packet_deinit(&answer);
	return 0;
}

/* ---- connections -------------------------------------------------------------------------------------------------------------- */

int remote_connect(struct nic_ctx *base, unsigned int n, const struct nic_peer *peers, const struct nic_qp_params *params,
		   unsigned int *ret_n_done)
{
	_cleanup_(remote_writer_deinit) struct remote_writer body = {0};
	struct remote_request request = {.head = {.op = REMOTE_CONNECT, .n = n}};
	struct remote_packet answer;
	int r;

	*ret_n_done = 0;
	/* In this order: peers are aligned to more than the size of the parameters. */
	remote_put(&body, peers, (size_t)n * sizeof(*peers));
	remote_put(&body, params, sizeof(*params));
	if (body.is_short)
		return -ENOMEM;
	request.head.bytes = body.n;
	request.body = body.buf;
	r = remote_ctx_call(remote_ctx(base), &request, &answer);
	if (r < 0)
		return r;
	*ret_n_done = answer.head.n < n ? answer.head.n : n;
	r = remote_is_result((int32_t)answer.head.value) ? (int32_t)answer.head.value : -EIO;
	remote_packet_deinit(&answer);
	return r;
}

int remote_resolve(struct nic_ctx *base, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		   struct nic_dc_peer *ret_peers, unsigned int *ret_n_done)
{
	struct remote_request request = {
		.head = {.op = REMOTE_RESOLVE, .n = n, .number = traffic_class, .bytes = (uint64_t)n * sizeof(*addrs)}, .body = addrs};
	struct remote_packet answer;
	int r;

	*ret_n_done = 0;
	r = remote_ctx_call(remote_ctx(base), &request, &answer);
	if (r < 0)
		return r;
	r = (int32_t)answer.head.value;
	if (!remote_is_result(r) || answer.head.n > n || answer.head.bytes != (uint64_t)answer.head.n * sizeof(*ret_peers))
		r = -EIO;
	else if (answer.head.n > 0)
		memcpy(ret_peers, answer.body, answer.head.bytes);
	*ret_n_done = r == -EIO ? 0 : answer.head.n;
	remote_packet_deinit(&answer);
	return r;
}

int remote_qp_modify(struct nic_ctx *base, uint32_t qpn, enum nic_qp_state state)
{
	struct remote_request request = {.head = {.op = REMOTE_QP_MODIFY, .number = qpn, .value = state}};
	struct remote_packet answer;
	int r = remote_ctx_call(remote_ctx(base), &request, &answer);

	if (r >= 0)
		remote_packet_deinit(&answer);
	return r;
}

int remote_qp_query(struct nic_ctx *base, uint32_t qpn, struct nic_qp_info *ret_info)
{
	struct remote_packet answer;
	int r = remote_ctx_ask(remote_ctx(base), (struct remote_head){.op = REMOTE_QP_QUERY, .number = qpn}, sizeof(*ret_info), &answer);

	if (r < 0)
		return r;
	memcpy(ret_info, answer.body, sizeof(*ret_info));
	remote_packet_deinit(&answer);
	return 0;
}
