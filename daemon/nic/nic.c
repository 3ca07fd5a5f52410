/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all backends share: names of counters, whose NIC it is, and the operations of a backend that offers nothing.
 *
 * A backend copies nic_ops_default's slots for what it cannot do, so that no slot of any table is NULL.
 * Pure; any thread.
 */
#include "daemon/nic/nic.h"

#include <errno.h>

const char *const nic_wqe_kind_names[8] = {
	"nop", "write", "write-imm", "read", "send", "send-imm", "atomic", "other",
};

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

struct nic_driven nic_driven_of(const struct nic_info *info)
{
	struct nic_driven driven = {.guid = info->guid, .port = info->port};

	memcpy(driven.name, info->name, sizeof(driven.name));
	return driven;
}

static struct nic *default_close(struct nic *nic)
{
	return NULL;
}

static int default_query(struct nic *nic, struct nic_info *ret_info)
{
	return -EOPNOTSUPP;
}

static int default_counters(struct nic *nic, struct nic_counters *ret_counters)
{
	return -EOPNOTSUPP;
}

static int default_next_event(struct nic *nic, struct nic_event *ret_event)
{
	return -EAGAIN;
}

static int default_port_set(struct nic *nic, enum nic_port_state state)
{
	return -EOPNOTSUPP;
}

static int default_ctx_open(struct nic *nic, const struct nic_ctx_attr *attr,
			    struct nic_ctx **ret_ctx)
{
	return -EOPNOTSUPP;
}

static struct nic_ctx *default_ctx_close(struct nic_ctx *ctx)
{
	return NULL;
}

static int default_ctx_to_cpu(struct nic_ctx *ctx)
{
	return -EOPNOTSUPP;
}

static int default_mr_reg(struct nic_ctx *ctx, const struct nic_mr_attr *attr,
			  struct nic_mr **ret_mr)
{
	return -EOPNOTSUPP;
}

static struct nic_mr *default_mr_dereg(struct nic_mr *mr)
{
	return NULL;
}

static int default_queues_create(struct nic_ctx *ctx, const struct nic_queue_mem *mem,
				 struct nic_layout *layout, struct nic_queues **ret_queues)
{
	return -EOPNOTSUPP;
}

static int default_queues_destroy(struct nic_queues *queues)
{
	return -EOPNOTSUPP;
}

static int default_connect(struct nic_ctx *ctx, unsigned int n, const struct nic_peer *peers,
			   const struct nic_qp_params *params, unsigned int *ret_n_done)
{
	return -EOPNOTSUPP;
}

static int default_resolve(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs,
			   uint8_t traffic_class, struct nic_dc_peer *ret_peers, unsigned int *ret_n_done)
{
	return -EOPNOTSUPP;
}

static int default_qp_modify(struct nic_ctx *ctx, uint32_t qpn, enum nic_qp_state state)
{
	return -EOPNOTSUPP;
}

static int default_qp_query(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info)
{
	return -EOPNOTSUPP;
}

static int default_queues_read(struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes)
{
	return -EOPNOTSUPP;
}

static int default_ctx_counters(struct nic_ctx *ctx, struct nic_counters *ret_counters)
{
	return -EOPNOTSUPP;
}

static void default_ctx_look(struct nic_ctx *ctx)
{
}

static void default_ctx_quiesce(struct nic_ctx *ctx, uint64_t timeout_nsec)
{
}

static int default_ctx_export(struct nic_ctx *ctx, void **ret_record, size_t *ret_bytes)
{
	return -EOPNOTSUPP;
}

static int default_ctx_keep(struct nic_ctx *ctx, struct nic_kept *ret_kept)
{
	return -EOPNOTSUPP;
}

static int default_ctx_import(struct nic *nic, const struct nic_import_attr *attr,
			      struct nic_imported *ret_imported)
{
	return -EOPNOTSUPP;
}

static struct nic_ctx *default_ctx_unimport(struct nic_ctx *ctx)
{
	return NULL;
}

/* Nothing was imported, so nothing rests. */
static void default_resume(struct nic *nic)
{
}

static int default_warm_set(struct nic *nic, const struct nic_warm_attr *attr)
{
	return -EOPNOTSUPP;
}

static int default_warm_query(struct nic *nic, struct nic_warm_info *ret_info)
{
	return -EOPNOTSUPP;
}

static int default_warm_step(struct nic *nic)
{
	return -EAGAIN;
}

static int default_queues_take(struct nic_ctx *ctx, struct nic_layout *layout, int *ret_fd,
			       struct nic_queues **ret_queues)
{
	return -ENOENT;
}

const struct nic_ops nic_ops_default = {
	.close = default_close,
	.query = default_query,
	.counters = default_counters,
	.next_event = default_next_event,
	.port_set = default_port_set,
	.ctx_open = default_ctx_open,
	.ctx_close = default_ctx_close,
	.ctx_to_cpu = default_ctx_to_cpu,
	.mr_reg = default_mr_reg,
	.mr_dereg = default_mr_dereg,
	.queues_create = default_queues_create,
	.queues_destroy = default_queues_destroy,
	.connect = default_connect,
	.resolve = default_resolve,
	.qp_modify = default_qp_modify,
	.qp_query = default_qp_query,
	.queues_read = default_queues_read,
	.ctx_counters = default_ctx_counters,
	.ctx_look = default_ctx_look,
	.ctx_quiesce = default_ctx_quiesce,
	.ctx_export = default_ctx_export,
	.ctx_keep = default_ctx_keep,
	.ctx_import = default_ctx_import,
	.ctx_unimport = default_ctx_unimport,
	.resume = default_resume,
	.warm_set = default_warm_set,
	.warm_query = default_warm_query,
	.warm_step = default_warm_step,
	.queues_take = default_queues_take,
};
