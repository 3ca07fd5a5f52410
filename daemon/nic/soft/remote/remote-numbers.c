/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of QPs and CQs, and how many regions there are, are the NIC's over all hosts. The daemon counts, and takes numbers before it
 * asks a host for what has them, so no host takes numbers, or packets, that are another's. They are free again when the daemon has let go of
 * the object, also if its host died before. Any thread.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <stdlib.h>

/* ---- regions ---------------------------------------------------------------------------------------------------------------- */

void remote_mr_uncount(struct remote_nic *nic)
{
	__atomic_sub_fetch(&nic->n_mrs, 1, __ATOMIC_RELAXED);
}

/* The limit is the NIC's, whichever hosts have them. */
int remote_mr_count(struct remote_nic *nic)
{
	if (__atomic_add_fetch(&nic->n_mrs, 1, __ATOMIC_RELAXED) <= SOFT_MAX_MRS)
		return 0;
	remote_mr_uncount(nic);
	return -ENOSPC;
}

void remote_mr_free(struct remote_mr *mr)
{
	remote_mr_uncount(remote_ctx(mr->base.ctx)->nic);
	list_del(&mr->base.link);
	free(mr);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------------------- */

static void drop(const struct remote_nic *nic, const struct remote_host *host, const struct nic_layout *layout, uint32_t n_cqs,
		 uint32_t n_qps)
{
	for (uint32_t i = 0; i < n_cqs; i++)
		soft_shared_number_dealloc(&remote_port(nic)->cqns, host->seat, layout->cqs[i].cqn);
	for (uint32_t i = 0; i < n_qps; i++)
		soft_shared_number_dealloc(&remote_port(nic)->qpns, host->seat, layout->qps[i].qpn);
}

void remote_numbers_drop(const struct remote_nic *nic, const struct remote_host *host, const struct nic_layout *layout)
{
	drop(nic, host, layout, layout->n_cqs, layout->n_qps);
}

int remote_numbers_take(const struct remote_ctx *ctx, struct nic_layout *layout)
{
	struct soft_shared_port *port = remote_port(ctx->nic);
	uint32_t n_cqs = 0, n_qps = 0;
	int r = 0;

	for (; r == 0 && n_cqs < layout->n_cqs; n_cqs += r == 0)
		r = soft_shared_number_alloc(&port->cqns, ctx->host->seat, &layout->cqs[n_cqs].cqn);
	for (; r == 0 && n_qps < layout->n_qps; n_qps += r == 0)
		r = soft_shared_number_alloc(&port->qpns, ctx->host->seat, &layout->qps[n_qps].qpn);
	if (r < 0)
		drop(ctx->nic, ctx->host, layout, n_cqs, n_qps);
	return r;
}

int remote_numbers_reserve(const struct remote_nic *nic, const struct remote_host *host, const struct nic_layout *layout)
{
	struct soft_shared_port *port = remote_port(nic);
	uint32_t n_cqs = 0, n_qps = 0;
	int r = 0;

	for (; r == 0 && n_cqs < layout->n_cqs; n_cqs += r == 0)
		r = soft_shared_number_reserve(&port->cqns, host->seat, layout->cqs[n_cqs].cqn);
	for (; r == 0 && n_qps < layout->n_qps; n_qps += r == 0)
		r = soft_shared_number_reserve(&port->qpns, host->seat, layout->qps[n_qps].qpn);
	if (r < 0)
		drop(nic, host, layout, n_cqs, n_qps);
	return r == -EEXIST ? -EINVAL : r;
}

void remote_queues_free(struct remote_queues *queues)
{
	const struct remote_ctx *ctx = remote_ctx(queues->base.ctx);

	remote_numbers_drop(ctx->nic, ctx->host, &queues->base.layout);
	list_del(&queues->base.link);
	nic_layout_deinit(&queues->base.layout);
	free(queues);
}
