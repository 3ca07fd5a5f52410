/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of contexts: the fields are walked once, by the same functions for writing, counting and reading.
 *
 * What is read is complete and fits together before anybody sees it: numbers in their ranges, rings and dbrecs inside queue
 * memory, CQs that exist. Whether the objects are there only the kernel can say.
 *
 * Pure; any thread.
 */
#include "daemon/nic/mlx5/mlx5-record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"
#include "proto/base/coder.h"
#include "proto/base/hash.h"
#include "proto/base/overflow.h"

#define MAGIC 0x52354d53u /* "SM5R" */
#define NUMBER_MAX 0xffffffu
#define BATCHES_MAX 65536u

/* Least bytes of one element, so that no count makes more memory than the record has bytes for. */
#define MR_BYTES 21u
#define BATCH_BYTES 38u
#define CQ_BYTES 41u
#define QP_BYTES 111u

/* ---- one of each --------------------------------------------------------------------------------------------------------- */

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

static void code_mr(struct coder *c, struct mlx5_record_mr *mr)
{
	coder_bool(c, &mr->gone);
	coder_u32(c, &mr->handle);
	coder_u32(c, &mr->lkey);
	coder_u32(c, &mr->rkey);
	coder_u64(c, &mr->length_bytes);
	c->failed |= mr->length_bytes == 0 || (mr->gone && mr->handle);
}

static void code_cq(struct coder *c, struct nic_cq *cq, struct mlx5_object_record *object, uint64_t total)
{
	coder_u32(c, &cq->cqn);
	coder_u32(c, &cq->log2_entries);
	coder_u32(c, &cq->flags);
	coder_u64(c, &cq->ring_offset);
	coder_u64(c, &cq->dbrec_offset);
	code_object(c, object);
	c->failed |= !nic_cq_is_right(cq, total);
}

static bool qp_is_right(const struct nic_qp *qp, uint64_t total)
{
	return nic_qp_is_right(qp, total) && qp->addr.mtu_log2 >= 8 && qp->addr.mtu_log2 <= 12 &&
	       (qp->addr.link == NIC_LINK_ETHERNET || qp->addr.link == NIC_LINK_INFINIBAND) &&
	       (qp->type != NIC_QP_DCT || qp->sq_offset == qp->rq_offset);
}

static void code_addr(struct coder *c, struct nic_qp *qp)
{
	struct nic_addr *addr = &qp->addr;
	uint32_t lid = addr->lid;

	coder_u8(c, &addr->link);
	coder_u8(c, &addr->mtu_log2);
	coder_u32(c, &addr->psn);
	coder_u32(c, &lid);
	coder_bytes(c, addr->gid, sizeof(addr->gid));
	coder_bytes(c, addr->mac, sizeof(addr->mac));
	coder_u64(c, &addr->dc_key);
	c->failed |= lid > UINT16_MAX;
	if (!coder_reads(c))
		return;
	addr->lid = (uint16_t)lid;
	addr->qpn = qp->qpn;
	addr->qp_type = (uint8_t)qp->type;
}

static void code_qp(struct coder *c, struct nic_qp *qp, struct mlx5_object_record *object, uint64_t total)
{
	uint8_t type = (uint8_t)qp->type, state = (uint8_t)object->state;

	coder_u32(c, &qp->qpn);
	coder_u8(c, &type);
	if (coder_reads(c))
		qp->type = (enum nic_qp_type)type;
	coder_u32(c, &qp->log2_sq_wqebbs);
	coder_u32(c, &qp->n_rq_wqes);
	coder_u32(c, &qp->log2_rq_stride);
	coder_u32(c, &qp->send_cqn);
	coder_u32(c, &qp->recv_cqn);
	coder_u32(c, &qp->flags);
	coder_u32(c, &qp->access);
	coder_u64(c, &qp->rq_offset);
	coder_u64(c, &qp->sq_offset);
	coder_u64(c, &qp->dbrec_offset);
	code_addr(c, qp);
	code_object(c, object);
	coder_u8(c, &state);
	if (coder_reads(c))
		object->state = (enum nic_qp_state)state;
	c->failed |= state > NIC_QPS_ERR || !qp_is_right(qp, total);
}

/* ---- batches ------------------------------------------------------------------------------------------------------------- */

static void make_room(struct coder *c, struct mlx5_record_batch *batch)
{
	struct nic_layout *layout = &batch->layout;

	layout->cqs = coder_room(c, layout->n_cqs, sizeof(*layout->cqs));
	layout->qps = coder_room(c, layout->n_qps, sizeof(*layout->qps));
	batch->cqs = coder_room(c, layout->n_cqs, sizeof(*batch->cqs));
	batch->qps = coder_room(c, layout->n_qps, sizeof(*batch->qps));
}

static void code_batch(struct coder *c, struct mlx5_record_batch *batch)
{
	struct nic_layout *layout = &batch->layout;
	uint8_t kind = (uint8_t)batch->kind;
	uint64_t end;

	coder_u8(c, &kind);
	if (coder_reads(c))
		batch->kind = (enum nic_mem_kind)kind;
	coder_u64(c, &batch->mem_offset);
	coder_u64(c, &layout->total_bytes);
	code_object(c, &batch->umem);
	coder_count(c, &layout->n_cqs, NIC_MAX_BATCH_CQS, CQ_BYTES);
	coder_count(c, &layout->n_qps, NIC_MAX_BATCH_QPS, QP_BYTES);
	c->failed |= (kind != NIC_MEM_MEMFD && kind != NIC_MEM_DMABUF) || (batch->mem_offset & NIC_PAGE_MASK) ||
		     (layout->total_bytes & NIC_PAGE_MASK) ||
		     add_overflows(batch->mem_offset, layout->total_bytes, &end);
	if (coder_reads(c) && !c->failed)
		make_room(c, batch);
	for (uint32_t i = 0; !c->failed && i < layout->n_cqs; i++)
		code_cq(c, &layout->cqs[i], &batch->cqs[i], layout->total_bytes);
	for (uint32_t i = 0; !c->failed && i < layout->n_qps; i++)
		code_qp(c, &layout->qps[i], &batch->qps[i], layout->total_bytes);
}

static void code_mrs(struct coder *c, struct mlx5_record *record)
{
	coder_count(c, &record->n_mrs, UINT32_MAX, MR_BYTES);
	if (coder_reads(c) && !c->failed)
		record->mrs = coder_room(c, record->n_mrs, sizeof(*record->mrs));
	for (uint32_t i = 0; !c->failed && i < record->n_mrs; i++)
		code_mr(c, &record->mrs[i]);
}

static void code_batches(struct coder *c, struct mlx5_record *record)
{
	coder_count(c, &record->n_batches, BATCHES_MAX, BATCH_BYTES);
	if (coder_reads(c) && !c->failed)
		record->batches = coder_room(c, record->n_batches, sizeof(*record->batches));
	for (uint32_t i = 0; !c->failed && i < record->n_batches; i++)
		code_batch(c, &record->batches[i]);
}

/* The head is read before, as far as the length. */
static void code_record(struct coder *c, struct mlx5_record *record)
{
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
	coder_bool(c, &record->has_pool);
	if (!c->failed && record->has_pool) {
		code_object(c, &record->pool_umem);
		code_object(c, &record->pool);
	}
	/* As wide as their fields in commands. */
	c->failed |= record->pdn > NUMBER_MAX || record->uar.number > NUMBER_MAX || record->counters.number > UINT8_MAX ||
		     record->pool.number > NUMBER_MAX;
	code_mrs(c, record);
	code_batches(c, record);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------ */

#define HEAD_BYTES 12u
#define CRC_BYTES 4u

/* IEEE 802.3, reflected. */
static uint32_t crc32(const uint8_t *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static void code_head(struct coder *c, uint32_t *magic, uint32_t *version, uint32_t *total)
{
	coder_u32(c, magic);
	coder_u32(c, version);
	coder_u32(c, total);
}

int mlx5_record_encode(const struct mlx5_record *record, uint8_t **ret_data, size_t *ret_bytes)
{
	/* Nothing is stored but when reading. */
	struct mlx5_record *r = (struct mlx5_record *)(uintptr_t)record;
	uint32_t magic = MAGIC, version = MLX5_RECORD_VERSION, total, crc;
	struct coder c = {.direction = CODER_COUNTING};
	_cleanup_free_ uint8_t *data = NULL;

	code_record(&c, r);
	if (c.failed)
		return -EINVAL;
	if (c.n > NIC_RECORD_MAX_BYTES - HEAD_BYTES - CRC_BYTES)
		return -ENOSPC;
	total = (uint32_t)(c.n + HEAD_BYTES + CRC_BYTES);
	data = malloc(total);
	if (!data)
		return -ENOMEM;
	c = (struct coder){.direction = CODER_WRITING, .at = data, .size = total};
	code_head(&c, &magic, &version, &total);
	code_record(&c, r);
	crc = crc32(data, c.n);
	coder_u32(&c, &crc);
	*ret_data = take_ptr(data);
	*ret_bytes = total;
	return 0;
}

static int check_qp(const struct mlx5_record *record, struct nic_qp *qp, struct hash *qps, const struct hash *cqs)
{
	/* A DCT cannot be without one. */
	if (qp->type == NIC_QP_DCT && !record->has_pool)
		return -EINVAL;
	if (!hash_get(cqs, qp->send_cqn) || !hash_get(cqs, qp->recv_cqn))
		return -EINVAL;
	return hash_add(qps, qp->qpn, qp);
}

/*
 * QPs and CQs have one place each, and a QP's CQs are in the record, in its own batch or one before. The numbers of what is
 * gone may be others' by now.
 */
static int check_numbers(const struct mlx5_record *record)
{
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

static int read_all(const uint8_t *data, size_t bytes, struct mlx5_record *record)
{
	/* Reading changes nothing of it. */
	struct coder c = {.direction = CODER_READING, .at = (uint8_t *)(uintptr_t)data, .size = bytes};
	uint32_t magic = 0, version = 0, total = 0, crc = 0;

	code_head(&c, &magic, &version, &total);
	if (c.failed || magic != MAGIC)
		return -EINVAL;
	if (version != MLX5_RECORD_VERSION)
		return -EPROTONOSUPPORT;
	if (total != bytes || bytes < HEAD_BYTES + CRC_BYTES)
		return -EINVAL;
	c.size = bytes - CRC_BYTES;
	code_record(&c, record);
	if (c.no_memory)
		return -ENOMEM;
	if (c.failed || c.n != c.size)
		return -EINVAL;
	c.size = bytes;
	coder_u32(&c, &crc);
	return crc == crc32(data, bytes - CRC_BYTES) ? check_numbers(record) : -EINVAL;
}

int mlx5_record_decode(const void *data, size_t bytes, struct mlx5_record *ret_record)
{
	struct mlx5_record record = {0};
	int r = bytes <= NIC_RECORD_MAX_BYTES ? read_all(data, bytes, &record) : -EINVAL;

	if (r < 0) {
		mlx5_record_deinit(&record);
		return r;
	}
	*ret_record = record;
	return 0;
}

void mlx5_record_deinit(struct mlx5_record *record)
{
	for (uint32_t i = 0; record->batches && i < record->n_batches; i++) {
		nic_layout_deinit(&record->batches[i].layout);
		free(record->batches[i].cqs);
		free(record->batches[i].qps);
	}
	free(record->batches);
	free(record->mrs);
	*record = (struct mlx5_record){0};
}
