/* SPDX-License-Identifier: Apache-2.0 */
/* Which queue leads where, and where its structure is. See ibgda.h. */
#include "libclient/compat/nvshmem/ibgda.h"

static int me(void)
{
	return nvs.facts.mype;
}

uint32_t nvs_ibgda_first_to(const struct nvs_ibgda *ibgda, int pe)
{
	if (pe == me())
		return ibgda->n_queues - 1;
	return (uint32_t)(pe - (pe > me())) * ibgda->n_to_each;
}

int nvs_ibgda_peer_of(const struct nvs_ibgda *ibgda, uint32_t queue)
{
	int other = (int)(queue / ibgda->n_to_each);

	if (queue == ibgda->n_queues - 1)
		return me();
	return other + (other >= me());
}

uint64_t nvs_ibgda_place_at(const struct nvs_ibgda *ibgda, uint32_t number, int pe)
{
	uint32_t order = number / ibgda->n_rc;

	return ibgda->rcs_at[order] + (uint64_t)nvs_ibgda_place(order, number % ibgda->n_rc, (uint32_t)pe, ibgda->n_rc, (uint32_t)nvs.facts.npes) *
					      sizeof(struct nvs_ibgda_qp);
}

uint64_t nvs_ibgda_qp_at(const struct nvs_ibgda *ibgda, uint32_t queue)
{
	if (queue == ibgda->n_queues - 1)
		return ibgda->dci_at;
	return nvs_ibgda_place_at(ibgda, queue % ibgda->n_to_each, nvs_ibgda_peer_of(ibgda, queue));
}
