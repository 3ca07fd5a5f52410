/* SPDX-License-Identifier: Apache-2.0 */
/* See ibgda-images.h. */
#include "libclient/compat/nvshmem/ibgda-images.h"

#include <string.h>

#define BATCH 32u /* requests that one doorbell announces */

enum nvs_ibgda_group nvs_ibgda_group_of(struct nvs_version version)
{
	if (version.minor <= 4)
		return NVS_IBGDA_GROUP_A;
	return version.minor <= 7 ? NVS_IBGDA_GROUP_B : NVS_IBGDA_GROUP_C;
}

uint32_t nvs_ibgda_order_of(struct nvs_version version, uint32_t n_rc)
{
	return nvs_ibgda_orders(n_rc) > 1 && nvs_ibgda_group_of(version) != NVS_IBGDA_GROUP_A;
}

uint32_t nvs_ibgda_place(uint32_t order, uint32_t rc, uint32_t pe, uint32_t n_rc, uint32_t npes)
{
	return order ? rc * npes + pe : pe * n_rc + rc;
}

static uint32_t n_groups(uint32_t n_rc)
{
	return n_rc > 2 ? n_rc : 2;
}

/* One more than there are groups: 3.8 has a word for all of them. */
uint32_t nvs_ibgda_switches_bytes(uint32_t n_rc)
{
	return (n_groups(n_rc) + 1) * (uint32_t)sizeof(uint32_t);
}

void nvs_ibgda_state_fill(const struct nvs_ibgda_facts *facts, struct nvs_version version, struct nvs_ibgda_state *ret_state)
{
	memset(ret_state, 0, sizeof(*ret_state));
	*ret_state = (struct nvs_ibgda_state){
		.version = NVS_WORD(1, sizeof(*ret_state)),
		.num_shared_dcis = 1,
		.ndcts_per_pe = 1,
		.num_qp_groups = n_groups(facts->n_rc),
		.num_dct_groups = 1,
		.num_rc_per_pe = facts->n_rc + (nvs_ibgda_group_of(version) == NVS_IBGDA_GROUP_A ? 0 : facts->n_created),
		.num_requests_in_batch = BATCH,
		.log2_cumem_granularity = facts->log2_piece,
		.num_devices_initialized = 1,
		.support_half_av_seg = true,
		.may_skip_cst = true,
		.qp_group_switches = facts->switches,
		.cqs = facts->cqs,
		.dcis = facts->dcis,
		.rcs = facts->rcs,
		.local_only_mhandle_head = facts->buffers,
		.rkeys_table = facts->rkeys + NVS_IBGDA_CONST_KEYS * sizeof(struct nvs_ibgda_key),
		.num_default_rc_per_pe = nvs_ibgda_group_of(version) == NVS_IBGDA_GROUP_A ? 0 : facts->n_rc,
	};
	memcpy(ret_state->lkeys, facts->first_lkeys, sizeof(ret_state->lkeys));
	memcpy(ret_state->rkeys, facts->first_rkeys, sizeof(ret_state->rkeys));
}

/* ---- keys */

uint32_t nvs_ibgda_log2_piece(uint64_t heap_bytes)
{
	uint32_t log2 = NVS_IBGDA_LOG2_LEAST_PIECE;

	/* bounded: 64 pieces of 2^58 bytes are all that 64 bits count */
	while (nvs_ibgda_pieces(heap_bytes, log2) > NVS_IBGDA_CONST_KEYS)
		log2++;
	return log2;
}

uint64_t nvs_ibgda_pieces(uint64_t heap_bytes, uint32_t log2_piece)
{
	uint64_t part = heap_bytes & ((UINT64_C(1) << log2_piece) - 1);

	return (heap_bytes >> log2_piece) + !!part;
}

struct nvs_ibgda_range nvs_ibgda_range_of(uint64_t begin, uint64_t end, uint32_t log2_piece)
{
	return (struct nvs_ibgda_range){.begin = begin >> log2_piece << log2_piece, .end = end, .log2_piece = log2_piece};
}

void nvs_ibgda_lkeys_fill(struct nvs_ibgda_range range, uint64_t heap_base, uint32_t key_be, struct nvs_ibgda_key *lkeys)
{
	for (uint64_t i = range.begin >> range.log2_piece; i < nvs_ibgda_pieces(range.end, range.log2_piece); i++)
		lkeys[i] = (struct nvs_ibgda_key){.key_be = key_be, .next_addr = heap_base + range.end};
}

void nvs_ibgda_rkeys_fill(struct nvs_ibgda_range range, uint32_t pe, uint32_t npes, uint32_t key_be, struct nvs_ibgda_key *rkeys)
{
	for (uint64_t i = range.begin >> range.log2_piece; i < nvs_ibgda_pieces(range.end, range.log2_piece); i++)
		rkeys[i * npes + pe] = (struct nvs_ibgda_key){.key_be = key_be, .next_addr = range.end};
}

/* ---- QPs */

/* Device code tells by the distance of two indexes whether a request is under way, so the CQ counts as long as the ring. */
void nvs_ibgda_qp_fill(const struct nvs_ibgda_queue *queue, uint64_t at, uint64_t cq_at, struct nvs_ibgda_qp *ret_qp, struct nvs_ibgda_cq *ret_cq)
{
	uint64_t mvars = at + offsetof(struct nvs_ibgda_qp, mvars);

	memset(ret_qp, 0, sizeof(*ret_qp));
	memset(ret_cq, 0, sizeof(*ret_cq));
	ret_qp->version = NVS_WORD(1, sizeof(*ret_qp));
	ret_qp->qp_type = NVS_IBGDA_QP_RC;
	ret_qp->qpn = queue->qpn;
	ret_qp->ibuf = (struct nvs_ibgda_ibuf){.nslots = NVS_IBGDA_SLOTS, .buf = queue->results, .lkey_be = queue->results_lkey_be,
					       .rkey_be = queue->results_rkey_be};
	ret_qp->tx_wq = (struct nvs_ibgda_wq){.nwqes = (uint16_t)queue->wqebbs, .wqe = queue->ring, .dbrec = queue->dbrec, .bf = queue->doorbell,
					      .cq = cq_at, .prod_idx = mvars + offsetof(struct nvs_ibgda_mvars, prod_idx)};
	ret_qp->mvars.version = NVS_WORD(1, sizeof(ret_qp->mvars));
	ret_cq->version = NVS_WORD(1, sizeof(*ret_cq));
	ret_cq->qp_type = NVS_IBGDA_QP_RC;
	ret_cq->cqe = queue->cqes;
	ret_cq->prod_idx = mvars + offsetof(struct nvs_ibgda_mvars, prod_idx);
	ret_cq->cons_idx = mvars + offsetof(struct nvs_ibgda_mvars, cons_idx);
	ret_cq->resv_head = mvars + offsetof(struct nvs_ibgda_mvars, resv_head);
	ret_cq->ready_head = mvars + offsetof(struct nvs_ibgda_mvars, ready_head);
	ret_cq->ncqes = queue->wqebbs;
	ret_cq->qpn = queue->qpn;
}
