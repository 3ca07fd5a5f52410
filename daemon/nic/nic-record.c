/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/nic/nic-record.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/overflow.h"

#define HEAD_BYTES 12u
#define SUM_BYTES 8u
#define TOTAL_OFFSET 8u /* of the length, in the head */

/* ---- parts of a walk --------------------------------------------------------------------------------------------------- */

void nic_record_room(struct coder *c, uint32_t n, size_t bytes_each, void *ret_array)
{
	void *room;

	if (!coder_reads(c) || c->failed)
		return;
	room = coder_room(c, n, bytes_each);
	memcpy(ret_array, &room, sizeof(room));
}

void nic_record_code_layout(struct coder *c, uint64_t *mem_offset, struct nic_layout *layout, size_t cq_bytes,
			    size_t qp_bytes)
{
	uint64_t end;

	coder_u64(c, mem_offset);
	coder_u64(c, &layout->total_bytes);
	coder_count(c, &layout->n_cqs, NIC_MAX_BATCH_CQS, cq_bytes);
	coder_count(c, &layout->n_qps, NIC_MAX_BATCH_QPS, qp_bytes);
	c->failed |= ((*mem_offset | layout->total_bytes) & NIC_PAGE_MASK) || layout->total_bytes == 0 ||
		     add_overflows(*mem_offset, layout->total_bytes, &end);
	nic_record_room(c, layout->n_cqs, sizeof(*layout->cqs), &layout->cqs);
	nic_record_room(c, layout->n_qps, sizeof(*layout->qps), &layout->qps);
}

void nic_record_code_cq(struct coder *c, struct nic_cq *cq, uint64_t total_bytes)
{
	coder_u32(c, &cq->cqn);
	coder_u32(c, &cq->log2_entries);
	coder_u32(c, &cq->flags);
	coder_u64(c, &cq->ring_offset);
	coder_u64(c, &cq->dbrec_offset);
	c->failed |= !nic_cq_is_right(cq, total_bytes);
}

void nic_record_code_qp(struct coder *c, struct nic_qp *qp, uint64_t total_bytes)
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
	c->failed |= !nic_qp_is_right(qp, total_bytes);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------- */

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

/* Counts the fields; *c is to write them, with `more` bytes, into memory that is to be freed. */
static int make_room(void (*code)(struct coder *c, void *part), void *part, size_t more, struct coder *c)
{
	struct coder counter = {.direction = CODER_COUNTING};

	code(&counter, part);
	if (counter.failed)
		return -EINVAL;
	if (counter.n > NIC_RECORD_MAX_BYTES - more)
		return -ENOSPC;
	*c = (struct coder){.direction = CODER_WRITING, .size = counter.n + more};
	/* bounded: NIC_RECORD_MAX_BYTES. */
	c->at = malloc(c->size + 1);
	return c->at ? 0 : -ENOMEM;
}

int nic_record_encode(const struct nic_record_form *form, const void *record, void **ret_data, size_t *ret_bytes)
{
	/* Nothing is stored there but when reading. */
	void *p = (void *)(uintptr_t)record;
	uint32_t magic = form->magic, version = form->version, total;
	struct coder c;
	uint64_t sum;
	int r = make_room(form->code, p, HEAD_BYTES + SUM_BYTES, &c);

	if (r < 0)
		return r;
	total = (uint32_t)c.size;
	code_head(&c, &magic, &version, &total);
	form->code(&c, p);
	sum = check_sum(c.at, c.n);
	coder_u64(&c, &sum);
	*ret_data = c.at;
	*ret_bytes = total;
	return 0;
}

int nic_record_encode_part(void (*code)(struct coder *c, void *part), const void *part, void **ret_data, size_t *ret_bytes)
{
	void *p = (void *)(uintptr_t)part; /* as above */
	struct coder c;
	int r = make_room(code, p, 0, &c);

	if (r < 0)
		return r;
	code(&c, p);
	*ret_data = c.at;
	*ret_bytes = c.size;
	return 0;
}

/* ---- joining ----------------------------------------------------------------------------------------------------------- */

#define COUNT_BYTES 4u

static void code_parts(struct coder *c, uint32_t n, const struct nic_record_part *parts)
{
	coder_u32(c, &n);
	for (uint32_t i = 0; i < n; i++)
		coder_bytes(c, (void *)(uintptr_t)parts[i].bytes, parts[i].n); /* writing changes nothing of it */
}

static uint64_t bytes_of(uint32_t n, const struct nic_record_part *parts)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += parts[i].n; /* bounded: they are in memory */
	return bytes;
}

/* Parts go before the two counts and the sum, which end the record of a context without any. */
static int check_empty(const struct nic_record_part *ctx, size_t *ret_bytes)
{
	const uint8_t *data = ctx->bytes;
	uint64_t sum;

	if (ctx->n < HEAD_BYTES + 2 * COUNT_BYTES + SUM_BYTES)
		return -EINVAL;
	memcpy(&sum, data + ctx->n - SUM_BYTES, sizeof(sum));
	*ret_bytes = ctx->n - SUM_BYTES - 2 * COUNT_BYTES;
	for (size_t i = *ret_bytes; i < ctx->n - SUM_BYTES; i++)
		if (data[i])
			return -EINVAL;
	return le64toh(sum) == check_sum(data, ctx->n - SUM_BYTES) ? 0 : -EINVAL;
}

int nic_record_join(const struct nic_record_part *ctx, uint32_t n_mrs, const struct nic_record_part *mrs, uint32_t n_queues,
		    const struct nic_record_part *queues, void **ret_data, size_t *ret_bytes)
{
	uint64_t bytes = ctx->n + bytes_of(n_mrs, mrs) + bytes_of(n_queues, queues), sum;
	uint32_t total = htole32((uint32_t)bytes);
	struct coder c = {.direction = CODER_WRITING};
	size_t own;
	int r = check_empty(ctx, &own);

	if (r < 0)
		return r;
	if (bytes > NIC_RECORD_MAX_BYTES)
		return -ENOSPC;
	c.size = bytes;
	c.at = malloc(bytes);
	if (!c.at)
		return -ENOMEM;
	coder_bytes(&c, (void *)(uintptr_t)ctx->bytes, own);
	memcpy(c.at + TOTAL_OFFSET, &total, sizeof(total));
	code_parts(&c, n_mrs, mrs);
	code_parts(&c, n_queues, queues);
	sum = check_sum(c.at, c.n);
	coder_u64(&c, &sum);
	*ret_data = c.at;
	*ret_bytes = bytes;
	return 0;
}

/* ---- a context that was imported --------------------------------------------------------------------------------------- */

static unsigned int count(const struct list *list)
{
	unsigned int n = 0;

	for (const struct list *at = list->next; at != list; at = at->next)
		n++;
	return n;
}

int nic_imported_init(struct nic_imported *imported, struct nic_ctx *ctx)
{
	struct nic_queues *queues;
	struct nic_mr *mr;

	*imported = (struct nic_imported){
		.ctx = ctx,
		.mrs = calloc((size_t)count(&ctx->mrs) + 1, sizeof(struct nic_mr *)),
		.queues = calloc((size_t)count(&ctx->queues) + 1, sizeof(struct nic_queues *)),
	};
	if (!imported->mrs || !imported->queues) {
		nic_imported_deinit(imported);
		return -ENOMEM;
	}
	list_for_each_entry(mr, &ctx->mrs, link)
		imported->mrs[imported->n_mrs++] = mr;
	list_for_each_entry(queues, &ctx->queues, link)
		imported->queues[imported->n_queues++] = queues;
	return 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

static int read_all(const struct nic_record_form *form, const void *data, size_t bytes, void *record)
{
	/* Reading changes nothing of it. */
	struct coder c = {.direction = CODER_READING, .at = (uint8_t *)(uintptr_t)data, .size = bytes};
	uint32_t magic = 0, version = 0, total = 0;
	uint64_t sum = 0;

	code_head(&c, &magic, &version, &total);
	if (c.failed || magic != form->magic)
		return -EINVAL;
	if (version != form->version)
		return -EPROTONOSUPPORT;
	if (total != bytes || bytes < HEAD_BYTES + SUM_BYTES)
		return -EINVAL;
	c.size = bytes - SUM_BYTES;
	form->code(&c, record);
	if (c.no_memory)
		return -ENOMEM;
	if (c.failed || c.n != c.size)
		return -EINVAL;
	c.size = bytes;
	coder_u64(&c, &sum);
	if (sum != check_sum(data, bytes - SUM_BYTES))
		return -EINVAL;
	return form->check(record);
}

int nic_record_decode(const struct nic_record_form *form, const void *data, size_t bytes, void *record)
{
	int r = bytes <= NIC_RECORD_MAX_BYTES ? read_all(form, data, bytes, record) : -EINVAL;

	if (r < 0)
		form->deinit(record);
	return r;
}
