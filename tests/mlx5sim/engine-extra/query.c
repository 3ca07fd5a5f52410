/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of queues that only firmware answers; the core has no need of them. The engine's thread. */
#include "tests/mlx5sim/engine-extra/extra-private.h"

int engine_cq_producer(struct engine *engine, uint32_t cqn, uint32_t *ret_pi)
{
	const struct cq *cq = hash_get(&engine->cqs, cqn);

	if (!cq)
		return -ENOENT;
	*ret_pi = cq->pi;
	return 0;
}

int engine_srq_query(struct engine *engine, uint32_t srqn, struct engine_srq_info *ret_info)
{
	const struct srq *srq = hash_get(&engine->srqs, srqn);

	if (!srq)
		return -ENOENT;
	*ret_info = (struct engine_srq_info){
		.limit = srq->limit,
		.pi = srq->pi,
		.ci = srq->ci,
		.next_index = srq->next_index,
		.error = srq->error,
	};
	return 0;
}
