/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of soft contexts: the fields are walked by the same functions for counting, writing and reading.
 *
 * Refused when read: counts that there are no bytes for, numbers out of range or named twice, rings and dbrecs outside of queue
 * memory, CQs that do not exist. Pure; any thread.
 */
#include "daemon/nic/soft/soft-record.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/wqe.h>

#include "proto/base/cleanup.h"
#include "proto/base/coder.h"
#include "proto/base/hash.h"
#include "proto/base/overflow.h"

#define MAGIC 0x52544653u /* "SFTR" */
#define HEAD_BYTES 12u
#define SUM_BYTES 8u
#define NUMBER_MIN 2u
#define MOST_MRS 16384u
#define MOST_BATCHES 65536u

/* Bytes of one element, so that no count makes more memory than the record has bytes for. */
#define MR_BYTES 32u
#define BATCH_BYTES 24u
#define CQ_BYTES 28u
#define QP_BYTES 72u

/* ---- one of each --------------------------------------------------------------------------------------------------------- */

static void code_mr(struct coder *c, struct soft_record_mr *mr)
{
	uint64_t end;

	coder_u32(c, &mr->key);
	coder_u32(c, &mr->access);
	coder_u64(c, &mr->iova);
	coder_u64(c, &mr->offset);
	coder_u64(c, &mr->length_bytes);
	c->failed |= mr->key <= SHMD_LKEY_TERMINATE || (mr->access & ~NIC_ACCESS_ALL) || mr->length_bytes == 0 ||
		     ((mr->iova ^ mr->offset) & NIC_PAGE_MASK) || add_overflows(mr->iova, mr->length_bytes, &end) ||
		     add_overflows(mr->offset, mr->length_bytes, &end);
}

static void code_cq(struct coder *c, struct nic_cq *cq, uint64_t total)
{
	coder_u32(c, &cq->cqn);
	coder_u32(c, &cq->log2_entries);
	coder_u32(c, &cq->flags);
	coder_u64(c, &cq->ring_offset);
	coder_u64(c, &cq->dbrec_offset);
	c->failed |= cq->cqn < NUMBER_MIN || !nic_cq_is_right(cq, total);
}

/* Of the address only what is not the NIC's. */
static void code_qp(struct coder *c, struct nic_qp *qp, uint64_t total)
{
	uint32_t type = (uint32_t)qp->type;

	coder_u32(c, &qp->qpn);
	coder_u32(c, &type);
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
	coder_u32(c, &qp->addr.psn);
	coder_u64(c, &qp->addr.dc_key);
	c->failed |= qp->qpn < NUMBER_MIN || !nic_qp_is_right(qp, total);
}

static void code_batch(struct coder *c, struct soft_record_batch *batch)
{
	struct nic_layout *layout = &batch->layout;
	uint64_t end;

	coder_u64(c, &batch->mem_offset);
	coder_u64(c, &layout->total_bytes);
	coder_count(c, &layout->n_cqs, NIC_MAX_BATCH_CQS, CQ_BYTES);
	coder_count(c, &layout->n_qps, NIC_MAX_BATCH_QPS, QP_BYTES);
	c->failed |= ((batch->mem_offset | layout->total_bytes) & NIC_PAGE_MASK) || layout->total_bytes == 0 ||
		     add_overflows(batch->mem_offset, layout->total_bytes, &end);
	if (coder_reads(c) && !c->failed) {
		layout->cqs = coder_room(c, layout->n_cqs, sizeof(*layout->cqs));
		layout->qps = coder_room(c, layout->n_qps, sizeof(*layout->qps));
	}
	for (uint32_t i = 0; !c->failed && i < layout->n_cqs; i++)
		code_cq(c, &layout->cqs[i], layout->total_bytes);
	for (uint32_t i = 0; !c->failed && i < layout->n_qps; i++)
		code_qp(c, &layout->qps[i], layout->total_bytes);
}

static void code_counters(struct coder *c, struct nic_counters *counters)
{
	coder_u64(c, &counters->wqes);
	for (unsigned int i = 0; i < 8; i++)
		coder_u64(c, &counters->wqes_by_kind[i]);
	coder_u64(c, &counters->bytes_sent);
	coder_u64(c, &counters->bytes_read);
	coder_u64(c, &counters->recv_wqes);
	coder_u64(c, &counters->error_cqes);
	coder_u64(c, &counters->rnr_naks);
	coder_u64(c, &counters->retries);
}

static void code_ports(struct coder *c, struct soft_record *record)
{
	coder_count(c, &record->n_ports, SOFT_RECORD_PORTS, sizeof(record->gids[0]));
	coder_u32(c, &record->nic);
	c->failed |= record->nic >= record->n_ports;
	for (uint32_t i = 0; !c->failed && i < record->n_ports; i++) {
		coder_bytes(c, record->gids[i], sizeof(record->gids[i]));
		for (uint32_t k = 0; k < i; k++)
			c->failed |= memcmp(record->gids[i], record->gids[k], sizeof(record->gids[i])) == 0;
	}
}

static void code_record(struct coder *c, struct soft_record *record)
{
	code_ports(c, record);
	coder_u32(c, &record->pdn);
	c->failed |= record->pdn == 0 || record->pdn > SOFT_RECORD_MAX_PDN;
	code_counters(c, &record->past);
	coder_count(c, &record->n_mrs, MOST_MRS, MR_BYTES);
	if (coder_reads(c) && !c->failed)
		record->mrs = coder_room(c, record->n_mrs, sizeof(*record->mrs));
	for (uint32_t i = 0; !c->failed && i < record->n_mrs; i++)
		code_mr(c, &record->mrs[i]);
	coder_count(c, &record->n_batches, MOST_BATCHES, BATCH_BYTES);
	if (coder_reads(c) && !c->failed)
		record->batches = coder_room(c, record->n_batches, sizeof(*record->batches));
	for (uint32_t i = 0; !c->failed && i < record->n_batches; i++)
		code_batch(c, &record->batches[i]);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------ */

/* Against mistakes, not against intent: each word is turned in by an odd factor, so that no single change stays unseen. */
static uint64_t check_sum(const uint8_t *data, size_t bytes)
{
	uint64_t sum = 0x2545f4914f6cdd1du ^ bytes;

	while (bytes > 0) {
		size_t n = bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t);
		uint64_t word = 0;

		memcpy(&word, data, n);
		sum = (sum ^ le64toh(word)) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 29;
		data += n;
		bytes -= n;
	}
	return sum;
}

static void code_head(struct coder *c, uint32_t *magic, uint32_t *version, uint32_t *total)
{
	coder_u32(c, magic);
	coder_u32(c, version);
	coder_u32(c, total);
}

int soft_record_encode(const struct soft_record *record, void **ret_data, size_t *ret_bytes)
{
	/* Nothing is stored there but when reading. */
	struct soft_record *r = (struct soft_record *)(uintptr_t)record;
	uint32_t magic = MAGIC, version = SOFT_RECORD_VERSION, total;
	struct coder c = {.direction = CODER_COUNTING};
	_cleanup_free_ uint8_t *data = NULL;
	uint64_t sum;

	code_record(&c, r);
	if (c.failed)
		return -EINVAL;
	if (c.n > NIC_RECORD_MAX_BYTES - HEAD_BYTES - SUM_BYTES)
		return -ENOSPC;
	total = (uint32_t)c.n + HEAD_BYTES + SUM_BYTES;
	data = malloc(total);
	if (!data)
		return -ENOMEM;
	c = (struct coder){.direction = CODER_WRITING, .at = data, .size = total};
	code_head(&c, &magic, &version, &total);
	code_record(&c, r);
	sum = check_sum(data, c.n);
	coder_u64(&c, &sum);
	*ret_data = take_ptr(data);
	*ret_bytes = total;
	return 0;
}

/* A number has one owner. */
static int add_numbers(struct hash *qps, struct hash *cqs, const struct nic_layout *layout)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = hash_add(cqs, layout->cqs[i].cqn, &layout->cqs[i]);
	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++) {
		const struct nic_qp *qp = &layout->qps[i];

		r = hash_add(qps, qp->qpn, &layout->qps[i]);
		if (r == 0 && (!hash_get(cqs, qp->send_cqn) || !hash_get(cqs, qp->recv_cqn)))
			r = -EINVAL;
	}
	return r;
}

/* A QP's CQs are in its own batch or in one before. */
static int check_numbers(const struct soft_record *record)
{
	struct hash qps, cqs, keys;
	int r = 0;

	hash_init(&qps);
	hash_init(&cqs);
	hash_init(&keys);
	for (uint32_t i = 0; r == 0 && i < record->n_batches; i++)
		r = add_numbers(&qps, &cqs, &record->batches[i].layout);
	for (uint32_t i = 0; r == 0 && i < record->n_mrs; i++)
		r = hash_add(&keys, record->mrs[i].key, &record->mrs[i]);
	hash_deinit(&qps);
	hash_deinit(&cqs);
	hash_deinit(&keys);
	return r == -EEXIST ? -EINVAL : r;
}

static int read_all(const void *data, size_t bytes, struct soft_record *record)
{
	/* Reading changes nothing of it. */
	struct coder c = {.direction = CODER_READING, .at = (uint8_t *)(uintptr_t)data, .size = bytes};
	uint32_t magic = 0, version = 0, total = 0;
	uint64_t sum = 0;

	code_head(&c, &magic, &version, &total);
	if (c.failed || magic != MAGIC)
		return -EINVAL;
	if (version != SOFT_RECORD_VERSION)
		return -EPROTONOSUPPORT;
	if (total != bytes || bytes < HEAD_BYTES + SUM_BYTES)
		return -EINVAL;
	c.size = bytes - SUM_BYTES;
	code_record(&c, record);
	if (c.no_memory)
		return -ENOMEM;
	if (c.failed || c.n != c.size)
		return -EINVAL;
	c.size = bytes;
	coder_u64(&c, &sum);
	if (sum != check_sum(data, bytes - SUM_BYTES))
		return -EINVAL;
	return check_numbers(record);
}

int soft_record_decode(const void *data, size_t bytes, struct soft_record *ret_record)
{
	struct soft_record record = {0};
	int r = bytes <= NIC_RECORD_MAX_BYTES ? read_all(data, bytes, &record) : -EINVAL;

	if (r < 0) {
		soft_record_deinit(&record);
		return r;
	}
	*ret_record = record;
	return 0;
}

void soft_record_deinit(struct soft_record *record)
{
	for (uint32_t i = 0; record->batches && i < record->n_batches; i++)
		nic_layout_deinit(&record->batches[i].layout);
	free(record->batches);
	free(record->mrs);
	memset(record, 0, sizeof(*record));
}
