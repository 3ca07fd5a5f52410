/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all backends: sums of counters, checks of requests, and operations for slots that a backend does not offer.
 *
 * Pure; any thread.
 */
#include "daemon/nic/nic.h"

#include <errno.h>

#include "proto/base/overflow.h"

void nic_counters_add(struct nic_counters *sum, const struct nic_counters *more)
{
	sum->wqes += more->wqes;
	for (unsigned int i = 0; i < 8; i++)
		sum->wqes_by_kind[i] += more->wqes_by_kind[i];
	sum->bytes_sent += more->bytes_sent;
	sum->bytes_read += more->bytes_read;
	sum->recv_wqes += more->recv_wqes;
	sum->error_cqes += more->error_cqes;
	sum->rnr_naks += more->rnr_naks;
	sum->retries += more->retries;
}

bool nic_mr_attr_is_right(const struct nic_mr_attr *attr)
{
	uint64_t end;

	return attr->length_bytes > 0 && !(attr->access & ~NIC_ACCESS_ALL) &&
	       !add_overflows(attr->iova, attr->length_bytes, &end) && (attr->kind == NIC_MEM_AGENT || !((attr->iova ^ attr->offset) & NIC_PAGE_MASK));
}

bool nic_qp_params_are_right(const struct nic_qp_params *params)
{
	return params->timeout <= 31 && params->retry_count <= 7 && params->rnr_retry <= 7 && params->min_rnr_timer <= 31;
}

bool nic_remote_is_right(const struct nic_qp *qp, const struct nic_addr *remote, enum nic_link link)
{
	if (qp->type == NIC_QP_DCI)
		return remote->link == 0;
	return qp->type == NIC_QP_RC && remote->link == link && remote->qp_type == NIC_QP_RC && remote->mtu_log2 >= 8 &&
	       remote->mtu_log2 <= 12 && remote->psn <= NIC_PSN_MASK && remote->qpn <= 0xffffffu;
}

/* Here, since builds without the backend report its NICs too. */
bool nic_mlx5_claims(const char *driver)
{
	return strncmp(driver, "mlx5", 4) == 0;
}

/* ---- what a backend does not offer ----------------------------------------------------------------------------------- */

int nic_no_port_set(struct nic *nic, enum nic_port_state state)
{
	return -EOPNOTSUPP;
}

int nic_no_agent_attach(struct nic_ctx *ctx, int ring_fd, int wake_fd)
{
	return -EOPNOTSUPP;
}

void nic_no_ctx_look(struct nic_ctx *ctx)
{
}

int nic_no_ctx_pool_set(struct nic *nic, const struct nic_ctx_pool_attr *attr)
{
	return -EOPNOTSUPP;
}

int nic_no_ctx_pool_query(struct nic *nic, struct nic_ctx_pool_info *ret_info)
{
	return -EOPNOTSUPP;
}

int nic_no_ctx_pool_step(struct nic *nic)
{
	return -EAGAIN;
}

/* No thread of this process executes queues. */
bool nic_no_rest(struct nic *nic)
{
	return true;
}

int nic_no_queues_take(struct nic_ctx *ctx, struct nic_layout *layout, int *ret_fd, struct nic_queues **ret_queues)
{
	return -ENOENT;
}
