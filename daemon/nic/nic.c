/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all backends: names of counters, and operations for slots that a backend does not offer.
 *
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
