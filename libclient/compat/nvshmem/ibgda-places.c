/* SPDX-License-Identifier: Apache-2.0 */
/* Which queue leads where, and where its structure is. See ibgda.h. */
#include "libclient/compat/nvshmem/ibgda.h"

int nvs_ibgda_peer_of(const struct nvs_ibgda_batch *batch, uint32_t queue)
{
	int me = nvs.facts.mype, other = (int)(queue / batch->n_to_each);

	if (batch->has_own && queue == batch->n - 1)
		return me;
	return other + (other >= me);
}

/* Rows that were created stand behind the others, in the order of later versions, which is the only one if there is one queue to each PE. */
uint64_t nvs_ibgda_place_at(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch, uint32_t number, int pe)
{
	uint32_t order = number / ibgda->n_rc, npes = (uint32_t)nvs.facts.npes;

	if (!batch->has_own)
		return ibgda->rcs_at[nvs_ibgda_orders(ibgda->n_rc) - 1] +
		       (uint64_t)((ibgda->n_rc + batch->first_row + number) * npes + (uint32_t)pe) * sizeof(struct nvs_ibgda_qp);
	return ibgda->rcs_at[order] +
	       (uint64_t)nvs_ibgda_place(order, number % ibgda->n_rc, (uint32_t)pe, ibgda->n_rc, npes) * sizeof(struct nvs_ibgda_qp);
}

uint64_t nvs_ibgda_qp_at(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch, uint32_t queue)
{
	if (batch->has_own && queue == batch->n - 1)
		return ibgda->dci_at;
	return nvs_ibgda_place_at(ibgda, batch, queue % batch->n_to_each, nvs_ibgda_peer_of(batch, queue));
}
