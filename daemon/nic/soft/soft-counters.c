/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's counters as those of NICs. Any thread. */
#include "daemon/nic/soft/soft.h"

void soft_counters_add(struct nic_counters *sum, const struct engine_qp_counters *more)
{
	_Static_assert(sizeof(sum->wqes_by_kind) == sizeof(more->wqes_by_kind), "the same kinds");
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
