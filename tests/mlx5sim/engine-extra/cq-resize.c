/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CQ resize: the client's CQ goes on in another ring. Refuses a CQ with a ledger, since a restart in the midst of a resize
 * would not know which ring it is.
 */
#include "tests/mlx5sim/engine-extra/extra-private.h"

static bool fits(struct cq *cq, uint32_t log2_entries)
{
	return (cq->attr.flags & ENGINE_CQ_OVERRUN_IGNORE) || cq_n_unread(cq) <= 1u << log2_entries;
}

/* The CQE that says so takes an entry of its own, also by count in the new ring. */
int engine_cq_resize(struct engine *engine, uint32_t cqn, void *ring, uint32_t log2_entries)
{
	struct cq *cq = hash_get(&engine->cqs, cqn);
	struct engine_cq_attr attr;

	if (!cq)
		return -ENOENT;
	if (cq->slot)
		return -EOPNOTSUPP;
	attr = cq->attr;
	attr.ring = ring;
	attr.log2_entries = log2_entries;
	if (!cq_attr_is_valid(&attr) || (attr.flags & ENGINE_CQ_COLLAPSED) || cq->dead)
		return -EINVAL;
	if (cq_is_full(cq))
		return -ENOSPC;
	if (!fits(cq, log2_entries))
		return -EINVAL;
	cq_clear_ring(&attr);
	cq_write_mark(cq, SHMD_CQE_RESIZE);
	cq->attr = attr;
	return 0;
}
