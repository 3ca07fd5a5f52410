/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of soft contexts: the fields that no other backend has, and how they fit together.
 *
 * Refused when read, besides what all backends refuse: NICs that are named twice, numbers out of range or named twice, CQs that do
 * not exist. Pure; any thread.
 */
#include "daemon/nic/soft/soft-record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/wqe.h>

#include "daemon/nic/nic-record.h"
#include "proto/base/hash.h"
#include "proto/base/overflow.h"

#define MAGIC 0x52544653u /* "SFTR" */
#define NUMBER_MIN 2u
#define MR_BYTES 32u

/* ---- fields ----------------------------------------------------------------------------------------------------------------- */

static void code_mr(struct coder *c, void *arg)
{
	struct soft_record_mr *mr = arg;
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

static void code_batch(struct coder *c, void *arg)
{
	struct soft_record_batch *batch = arg;
	struct nic_layout *layout = &batch->layout;

	nic_record_code_layout(c, &batch->mem_offset, layout, NIC_RECORD_CQ_BYTES, NIC_RECORD_QP_BYTES);
	for (uint32_t i = 0; !c->failed && i < layout->n_cqs; i++) {
		nic_record_code_cq(c, &layout->cqs[i], layout->total_bytes);
		c->failed |= layout->cqs[i].cqn < NUMBER_MIN;
	}
	for (uint32_t i = 0; !c->failed && i < layout->n_qps; i++) {
		nic_record_code_qp(c, &layout->qps[i], layout->total_bytes);
		c->failed |= layout->qps[i].qpn < NUMBER_MIN;
	}
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

static void code_record(struct coder *c, void *arg)
{
	struct soft_record *record = arg;

	code_ports(c, record);
	coder_u32(c, &record->pdn);
	c->failed |= record->pdn == 0 || record->pdn > SOFT_RECORD_MAX_PDN;
	code_counters(c, &record->past);
	coder_count(c, &record->n_mrs, UINT32_MAX, MR_BYTES);
	nic_record_room(c, record->n_mrs, sizeof(*record->mrs), &record->mrs);
	for (uint32_t i = 0; !c->failed && i < record->n_mrs; i++)
		code_mr(c, &record->mrs[i]);
	coder_count(c, &record->n_batches, UINT32_MAX, NIC_RECORD_LAYOUT_BYTES);
	nic_record_room(c, record->n_batches, sizeof(*record->batches), &record->batches);
	for (uint32_t i = 0; !c->failed && i < record->n_batches; i++)
		code_batch(c, &record->batches[i]);
}

/* ---- how they fit together ---------------------------------------------------------------------------------------------------- */

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
static int check_numbers(const void *arg)
{
	const struct soft_record *record = arg;
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

static const struct nic_record_form form = {
	.magic = MAGIC, .version = SOFT_RECORD_VERSION, .code = code_record, .check = check_numbers, .deinit = soft_record_deinit};

int soft_record_export_mr(uint32_t key, const struct nic_mr_attr *attr, void **ret_data, size_t *ret_bytes)
{
	const struct soft_record_mr mr = {
		.key = key,
		.access = attr->access,
		.iova = attr->iova,
		.offset = attr->offset,
		.length_bytes = attr->length_bytes,
	};

	return nic_record_encode_part(code_mr, &mr, ret_data, ret_bytes);
}

int soft_record_export_batch(uint64_t mem_offset, const struct nic_layout *layout, void **ret_data, size_t *ret_bytes)
{
	/* Its arrays stay the caller's. */
	const struct soft_record_batch batch = {.mem_offset = mem_offset, .layout = *layout};

	return nic_record_encode_part(code_batch, &batch, ret_data, ret_bytes);
}

int soft_record_encode(const struct soft_record *record, void **ret_data, size_t *ret_bytes)
{
	return nic_record_encode(&form, record, ret_data, ret_bytes);
}

int soft_record_decode(const void *data, size_t bytes, struct soft_record *ret_record)
{
	*ret_record = (struct soft_record){0};
	return nic_record_decode(&form, data, bytes, ret_record);
}

void soft_record_deinit(void *arg)
{
	struct soft_record *record = arg;

	for (uint32_t i = 0; record->batches && i < record->n_batches; i++)
		nic_layout_deinit(&record->batches[i].layout);
	free(record->batches);
	free(record->mrs);
	memset(record, 0, sizeof(*record));
}
