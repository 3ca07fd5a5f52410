/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of contexts: the fields that no other backend has, and how they fit together.
 *
 * Refused when read, besides what all backends refuse: objects with a name that are gone, numbers out of range or named twice, CQs
 * that do not exist, a DCT without a receive memory pool. Pure; any thread.
 */
#include "daemon/nic/mlx5/mlx5-record.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/nic/nic-record.h"
#include "proto/base/hash.h"

#define MAGIC 0x52354d53u /* "SM5R" */
#define NUMBER_MAX 0xffffffu

/* Least bytes of one element, so that no count makes more memory than the record has bytes for. */
#define OBJECT_BYTES 13u
#define ADDR_BYTES 28u
#define MR_BYTES 21u
#define BATCH_BYTES (1u + OBJECT_BYTES + NIC_RECORD_LAYOUT_BYTES)
#define CQ_BYTES (NIC_RECORD_CQ_BYTES + OBJECT_BYTES)
#define QP_BYTES (NIC_RECORD_QP_BYTES + ADDR_BYTES + OBJECT_BYTES + 1u)

/* ---- objects and regions --------------------------------------------------------------------------------------------------- */

static void code_object(struct coder *c, struct mlx5_object_record *object)
{
	coder_u32(c, &object->number);
	coder_u32(c, &object->handle);
	coder_u32(c, &object->blob_bytes);
	c->failed |= object->blob_bytes > MLX5_BLOB_BYTES;
	if (!c->failed)
		coder_bytes(c, object->blob, object->blob_bytes);
	coder_bool(c, &object->gone);
	/* Its name may be another's by now. */
	c->failed |= object->gone && (object->handle || object->blob_bytes);
}

static void code_mr(struct coder *c, void *arg)
{
	struct mlx5_record_mr *mr = arg;

	coder_bool(c, &mr->gone);
	coder_u32(c, &mr->handle);
	coder_u32(c, &mr->lkey);
	coder_u32(c, &mr->rkey);
	coder_u64(c, &mr->length_bytes);
	c->failed |= mr->length_bytes == 0 || (mr->gone && mr->handle);
}

/* ---- queues ---------------------------------------------------------------------------------------------------------------- */

static bool addr_is_right(const struct nic_qp *qp)
{
	return qp->addr.mtu_log2 >= 8 && qp->addr.mtu_log2 <= 12 &&
	       (qp->addr.link == NIC_LINK_ETHERNET || qp->addr.link == NIC_LINK_INFINIBAND);
}

static void code_addr(struct coder *c, struct nic_qp *qp)
{
	struct nic_addr *addr = &qp->addr;
	uint32_t lid = addr->lid;

	coder_u8(c, &addr->link);
	coder_u8(c, &addr->mtu_log2);
	coder_u32(c, &lid);
	coder_bytes(c, addr->gid, sizeof(addr->gid));
	coder_bytes(c, addr->mac, sizeof(addr->mac));
	c->failed |= lid > UINT16_MAX || !addr_is_right(qp);
	if (!coder_reads(c))
		return;
	addr->lid = (uint16_t)lid;
	addr->qpn = qp->qpn;
	addr->qp_type = (uint8_t)qp->type;
}

static void code_cq(struct coder *c, struct nic_cq *cq, struct mlx5_object_record *object, uint64_t total)
{
	nic_record_code_cq(c, cq, total);
	code_object(c, object);
}

static void code_qp(struct coder *c, struct nic_qp *qp, struct mlx5_object_record *object, uint64_t total)
{
	uint8_t state = (uint8_t)object->state;

	nic_record_code_qp(c, qp, total);
	code_addr(c, qp);
	code_object(c, object);
	coder_u8(c, &state);
	if (coder_reads(c))
		object->state = (enum nic_qp_state)state;
	c->failed |= state > NIC_QPS_ERR || (qp->type == NIC_QP_DCT && qp->sq_offset != qp->rq_offset);
}

static void code_batch(struct coder *c, void *arg)
{
	struct mlx5_record_batch *batch = arg;
	struct nic_layout *layout = &batch->layout;
	uint8_t kind = (uint8_t)batch->kind;

	coder_u8(c, &kind);
	if (coder_reads(c))
		batch->kind = (enum nic_mem_kind)kind;
	c->failed |= kind != NIC_MEM_MEMFD && kind != NIC_MEM_DMABUF;
	code_object(c, &batch->umem);
	nic_record_code_layout(c, &batch->mem_offset, layout, CQ_BYTES, QP_BYTES);
	nic_record_room(c, layout->n_cqs, sizeof(*batch->cqs), &batch->cqs);
	nic_record_room(c, layout->n_qps, sizeof(*batch->qps), &batch->qps);
	for (uint32_t i = 0; !c->failed && i < layout->n_cqs; i++)
		code_cq(c, &layout->cqs[i], &batch->cqs[i], layout->total_bytes);
	for (uint32_t i = 0; !c->failed && i < layout->n_qps; i++)
		code_qp(c, &layout->qps[i], &batch->qps[i], layout->total_bytes);
}

/* ---- the context ------------------------------------------------------------------------------------------------------------ */

static void code_mrs(struct coder *c, struct mlx5_record *record)
{
	coder_count(c, &record->n_mrs, UINT32_MAX, MR_BYTES);
	nic_record_room(c, record->n_mrs, sizeof(*record->mrs), &record->mrs);
	for (uint32_t i = 0; !c->failed && i < record->n_mrs; i++)
		code_mr(c, &record->mrs[i]);
}

static void code_batches(struct coder *c, struct mlx5_record *record)
{
	coder_count(c, &record->n_batches, UINT32_MAX, BATCH_BYTES);
	nic_record_room(c, record->n_batches, sizeof(*record->batches), &record->batches);
	for (uint32_t i = 0; !c->failed && i < record->n_batches; i++)
		code_batch(c, &record->batches[i]);
}

static void code_record(struct coder *c, void *arg)
{
	struct mlx5_record *record = arg;

	coder_u64(c, &record->guid);
	coder_u8(c, &record->port);
	coder_bool(c, &record->meddled);
	coder_bool(c, &record->heard);
	coder_u32(c, &record->pd_handle);
	coder_u32(c, &record->pdn);
	code_object(c, &record->uar);
	coder_u64(c, &record->uar_mmap_off);
	c->failed |= (record->uar_mmap_off & NIC_PAGE_MASK) || record->uar_mmap_off > INT64_MAX;
	coder_bool(c, &record->has_counters);
	if (!c->failed && record->has_counters)
		code_object(c, &record->counters);
	coder_bool(c, &record->has_rmp);
	if (!c->failed && record->has_rmp) {
		code_object(c, &record->rmp_umem);
		code_object(c, &record->rmp);
	}
	/* As wide as their fields in commands. */
	c->failed |= record->pdn > NUMBER_MAX || record->uar.number > NUMBER_MAX || record->counters.number > UINT8_MAX ||
		     record->rmp.number > NUMBER_MAX;
	code_mrs(c, record);
	code_batches(c, record);
}

/* ---- how they fit together ---------------------------------------------------------------------------------------------------- */

static int check_qp(const struct mlx5_record *record, struct nic_qp *qp, struct hash *qps, const struct hash *cqs)
{
	/* A DCT cannot be without one. */
	if (qp->type == NIC_QP_DCT && !record->has_rmp)
		return -EINVAL;
	if (!hash_get(cqs, qp->send_cqn) || !hash_get(cqs, qp->recv_cqn))
		return -EINVAL;
	return hash_add(qps, qp->qpn, qp);
}

/*
 * QPs and CQs have one place each, and a QP's CQs are in the record, in its own batch or one before. The numbers of what is
 * gone may be others' by now.
 */
static int check_numbers(const void *arg)
{
	const struct mlx5_record *record = arg;
	struct hash qps, cqs;
	int r = 0;

	hash_init(&qps);
	hash_init(&cqs);
	for (uint32_t b = 0; r == 0 && b < record->n_batches; b++) {
		const struct mlx5_record_batch *batch = &record->batches[b];
		const struct nic_layout *layout = &batch->layout;

		for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
			if (!batch->cqs[i].gone)
				r = hash_add(&cqs, layout->cqs[i].cqn, &layout->cqs[i]);
		for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++)
			if (!batch->qps[i].gone)
				r = check_qp(record, &layout->qps[i], &qps, &cqs);
	}
	hash_deinit(&qps);
	hash_deinit(&cqs);
	return r == -EEXIST ? -EINVAL : r;
}

static const struct nic_record_form form = {
	.magic = MAGIC, .version = MLX5_RECORD_VERSION, .code = code_record, .check = check_numbers, .deinit = mlx5_record_deinit};

int mlx5_record_encode_mr(const struct mlx5_record_mr *mr, void **ret_data, size_t *ret_bytes)
{
	return nic_record_encode_part(code_mr, mr, ret_data, ret_bytes);
}

int mlx5_record_encode_batch(const struct mlx5_record_batch *batch, void **ret_data, size_t *ret_bytes)
{
	return nic_record_encode_part(code_batch, batch, ret_data, ret_bytes);
}

int mlx5_record_encode(const struct mlx5_record *record, void **ret_data, size_t *ret_bytes)
{
	return nic_record_encode(&form, record, ret_data, ret_bytes);
}

int mlx5_record_decode(const void *data, size_t bytes, struct mlx5_record *ret_record)
{
	*ret_record = (struct mlx5_record){0};
	return nic_record_decode(&form, data, bytes, ret_record);
}

void mlx5_record_deinit(void *arg)
{
	struct mlx5_record *record = arg;

	for (uint32_t i = 0; record->batches && i < record->n_batches; i++) {
		nic_layout_deinit(&record->batches[i].layout);
		free(record->batches[i].cqs);
		free(record->batches[i].qps);
	}
	free(record->batches);
	free(record->mrs);
	*record = (struct mlx5_record){0};
}
