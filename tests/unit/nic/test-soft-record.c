/* SPDX-License-Identifier: Apache-2.0 */
/* Records of soft contexts, and the numbers of a former process. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/soft/soft-record.h"
#include "daemon/nic/soft/soft.h"
#include "record-seal.h"
#include "tests/lib/test.h"

static void number(struct nic_layout *layout, uint32_t first)
{
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		layout->cqs[i].cqn = first + i;
	for (uint32_t i = 0; i < layout->n_qps; i++) {
		struct nic_qp *qp = &layout->qps[i];

		qp->qpn = first + 0x100 + i;
		qp->send_cqn = first + (qp->send_cqn & ~NIC_CQ_BY_INDEX);
		qp->recv_cqn = first + (qp->recv_cqn & ~NIC_CQ_BY_INDEX);
		qp->addr.psn = 0x123400 + i;
		if (qp->type == NIC_QP_DCT)
			qp->addr.dc_key = 0x8877665544332211ull + i;
	}
}

static const struct nic_queues_attr queues_attr = {
	.n_cq_specs = 2,
	.cqs = {{.count = 3, .log2_entries = 7}, {.count = 1, .log2_entries = 10, .flags = NIC_CQ_COLLAPSED}},
	.n_qp_specs = 3,
	.qps = {{.count = 3,
		 .type = NIC_QP_RC,
		 .log2_sq_wqebbs = 6,
		 .n_rq_wqes = 16,
		 .log2_rq_stride = 4,
		 .send_cq_step = 1,
		 .recv_cq_step = 1,
		 .flags = NIC_QP_GPU_DRIVEN,
		 .access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ},
		{.count = 2, .type = NIC_QP_DCI, .log2_sq_wqebbs = 5, .send_cq_first = 3, .recv_cq_first = 3},
		{.count = 1, .type = NIC_QP_DCT, .send_cq_first = 3, .recv_cq_first = 3, .access = NIC_ACCESS_REMOTE_WRITE}},
};

static void make(struct soft_record *record)
{
	*record = (struct soft_record){.n_ports = 3, .nic = 1, .pdn = 7, .n_mrs = 2, .n_batches = 2};
	for (uint32_t i = 0; i < record->n_ports; i++)
		memset(record->gids[i], (int)(0xa0 + i), sizeof(record->gids[i]));
	record->past = (struct nic_counters){.wqes = 1, .wqes_by_kind = {2, 3}, .bytes_sent = 4, .retries = 5};
	record->mrs = calloc(2, sizeof(*record->mrs));
	record->batches = calloc(2, sizeof(*record->batches));
	ASSERT(record->mrs && record->batches);
	record->mrs[0] = (struct soft_record_mr){
		.key = 0x5551, .access = NIC_ACCESS_ALL, .iova = 0x7000000000ull, .offset = 4096, .length_bytes = 100};
	record->mrs[1] = (struct soft_record_mr){.key = 0xfffffff1u, .iova = 16, .offset = 16, .length_bytes = 1ull << 40};
	for (uint32_t i = 0; i < 2; i++) {
		ASSERT_OK(nic_layout_init(&record->batches[i].layout, &queues_attr));
		number(&record->batches[i].layout, 0x30000 + i * 0x1000);
		record->batches[i].mem_offset = i * 8192ull;
	}
	/* A QP of the second batch may use a CQ of the first. */
	record->batches[1].layout.qps[0].send_cqn = record->batches[0].layout.cqs[2].cqn;
}

static uint8_t *encode(const struct soft_record *record, size_t *ret_bytes)
{
	void *data;

	ASSERT_OK(soft_record_encode(record, &data, ret_bytes));
	return data;
}

TEST(a_record_comes_back_as_it_was)
{
	struct soft_record record, back = {0};
	size_t bytes, again_bytes;
	uint8_t *data, *again;

	make(&record);
	data = encode(&record, &bytes);
	ASSERT_OK(soft_record_decode(data, bytes, &back));
	ASSERT_EQ(back.n_ports, 3u);
	ASSERT_EQ(back.nic, 1u);
	ASSERT_EQ(back.pdn, 7u);
	ASSERT_MEMEQ(back.gids, record.gids, sizeof(record.gids));
	ASSERT_MEMEQ(&back.past, &record.past, sizeof(record.past));
	ASSERT_EQ(back.n_mrs, 2u);
	ASSERT_MEMEQ(back.mrs, record.mrs, 2 * sizeof(*record.mrs));
	ASSERT_EQ(back.n_batches, 2u);
	for (uint32_t i = 0; i < 2; i++) {
		const struct nic_layout *was = &record.batches[i].layout, *is = &back.batches[i].layout;

		ASSERT_EQ(is->total_bytes, was->total_bytes);
		ASSERT_EQ(is->n_cqs, was->n_cqs);
		ASSERT_EQ(is->n_qps, was->n_qps);
		ASSERT_MEMEQ(is->cqs, was->cqs, was->n_cqs * sizeof(*was->cqs));
		ASSERT_MEMEQ(is->qps, was->qps, was->n_qps * sizeof(*was->qps));
	}
	again = encode(&back, &again_bytes);
	ASSERT_EQ(again_bytes, bytes);
	ASSERT_MEMEQ(again, data, bytes);
	free(again);
	free(data);
	soft_record_deinit(&back);
	soft_record_deinit(&record);
}

TEST(truncated_records_are_refused)
{
	struct soft_record record, back;
	size_t bytes;
	uint8_t *data;

	make(&record);
	data = encode(&record, &bytes);
	for (size_t n = 0; n < bytes; n++) {
		uint8_t *part = malloc(n ? n : 1);

		ASSERT(part);
		memcpy(part, data, n);
		ASSERT_ERR(soft_record_decode(part, n, &back), EINVAL);
		if (n >= RECORD_HEAD_BYTES + RECORD_SUM_BYTES) {
			record_say_length(part, n);
			record_seal(part, n);
			ASSERT_ERR(soft_record_decode(part, n, &back), EINVAL);
		}
		free(part);
	}
	free(data);
	soft_record_deinit(&record);
}

/* No change stays unseen without the sum; with it nothing is read that does not fit together. */
TEST(altered_records_are_refused_or_make_sense)
{
	struct soft_record record, back;
	unsigned int n_taken = 0;
	size_t bytes;
	uint8_t *data;

	make(&record);
	data = encode(&record, &bytes);
	for (size_t bit = 0; bit < bytes * 8; bit++) {
		int r;

		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		r = soft_record_decode(data, bytes, &back);
		ASSERT(r == -EINVAL || r == -EPROTONOSUPPORT);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t bit = RECORD_HEAD_BYTES * 8; bit < (bytes - RECORD_SUM_BYTES) * 8; bit++) {
		size_t again_bytes;
		uint8_t *again;

		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		record_seal(data, bytes);
		if (soft_record_decode(data, bytes, &back) == 0) {
			n_taken++;
			again = encode(&back, &again_bytes);
			ASSERT_EQ(again_bytes, bytes);
			ASSERT_MEMEQ(again, data, bytes);
			free(again);
			soft_record_deinit(&back);
		}
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ASSERT_GT(n_taken, 0u);
	free(data);
	soft_record_deinit(&record);
}

static void expect_refused(const struct soft_record *record)
{
	void *data;
	size_t bytes;

	ASSERT_ERR(soft_record_encode(record, &data, &bytes), EINVAL);
}

TEST(impossible_records_are_refused)
{
	struct soft_record record, back;
	uint32_t version = htole32(SOFT_RECORD_VERSION + 1);
	struct nic_layout *layout;
	size_t bytes;
	uint8_t *data;

	make(&record);
	layout = &record.batches[0].layout;
	record.nic = 3;
	expect_refused(&record);
	record.nic = 1;
	memcpy(record.gids[2], record.gids[0], 16);
	expect_refused(&record);
	record.gids[2][0]++;
	record.pdn = 0;
	expect_refused(&record);
	record.pdn = SOFT_RECORD_MAX_PDN + 1;
	expect_refused(&record);
	record.pdn = 7;
	record.mrs[0].iova += 8;
	expect_refused(&record);
	record.mrs[0].iova -= 8;
	record.mrs[0].key = SHMD_LKEY_TERMINATE;
	expect_refused(&record);
	record.mrs[0].key = 0x5551;
	layout->qps[0].sq_offset = layout->total_bytes - 64;
	expect_refused(&record);
	layout->qps[0].sq_offset = layout->qps[1].sq_offset;
	layout->cqs[0].dbrec_offset = UINT64_MAX - 63;
	expect_refused(&record);
	layout->cqs[0].dbrec_offset = layout->cqs[1].dbrec_offset;
	/* Numbers twice, and a CQ that does not exist: seen when it is read. */
	record.mrs[1].key = 0x5551;
	data = encode(&record, &bytes);
	ASSERT_ERR(soft_record_decode(data, bytes, &back), EINVAL);
	free(data);
	record.mrs[1].key = 0x5552;
	layout->qps[1].qpn = layout->qps[0].qpn;
	data = encode(&record, &bytes);
	ASSERT_ERR(soft_record_decode(data, bytes, &back), EINVAL);
	free(data);
	layout->qps[1].qpn++;
	layout->qps[1].recv_cqn = record.batches[1].layout.cqs[0].cqn;
	data = encode(&record, &bytes);
	ASSERT_ERR(soft_record_decode(data, bytes, &back), EINVAL);
	free(data);
	layout->qps[1].recv_cqn = layout->cqs[0].cqn;
	data = encode(&record, &bytes);
	ASSERT_OK(soft_record_decode(data, bytes, &back));
	soft_record_deinit(&back);
	memcpy(data + 4, &version, sizeof(version));
	record_seal(data, bytes);
	ASSERT_ERR(soft_record_decode(data, bytes, &back), EPROTONOSUPPORT);
	free(data);
	soft_record_deinit(&record);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------------- */

static void init_names(struct soft_names *names)
{
	struct soft_shared_numbers *numbers = aligned_alloc(64, sizeof(*numbers));

	ASSERT(numbers);
	memset(numbers, 0, sizeof(*numbers));
	ASSERT_OK(soft_shared_numbers_init(numbers));
	soft_names_init(names, numbers, 0);
}

static void deinit_names(struct soft_names *names)
{
	free(names->numbers);
	soft_names_deinit(names);
}

TEST(new_numbers_come_behind_those_of_a_former_process)
{
	struct soft_names names;
	uint32_t number;
	int object;

	init_names(&names);
	ASSERT_OK(soft_names_reserve(&names, 0x05fffe, &object));
	ASSERT_OK(soft_names_reserve(&names, 0x060001, &object));
	ASSERT_OK(soft_names_reserve(&names, 0x050010, &object));
	ASSERT_EQ(soft_names_find(&names, 0x05fffe), (void *)&object);
	ASSERT(!soft_names_find(&names, 0x06fffe));
	ASSERT_ERR(soft_names_reserve(&names, 0x07fffe, &object), EEXIST);
	ASSERT_ERR(soft_names_reserve(&names, 0x000003, &object), EINVAL);
	ASSERT_ERR(soft_names_reserve(&names, 0xff0003, &object), EINVAL);
	ASSERT_ERR(soft_names_reserve(&names, 0x1000003, &object), EINVAL);
	ASSERT_OK(soft_names_alloc(&names, &object, &number));
	ASSERT_EQ(number, 0x060002u);
	soft_names_dealloc(&names, 0x05fffe);
	ASSERT(!soft_names_find(&names, 0x05fffe));
	deinit_names(&names);
}

TEST(the_circle_of_numbers_has_no_seam)
{
	struct soft_names names;
	uint32_t number;
	int object;

	init_names(&names);
	ASSERT_OK(soft_names_reserve(&names, 0xfeffff, &object));
	ASSERT_OK(soft_names_alloc(&names, &object, &number));
	ASSERT_EQ(number, 0x010000u);
	/* One of before the seam does not set it back. */
	ASSERT_OK(soft_names_reserve(&names, 0xfefffe, &object));
	ASSERT_OK(soft_names_alloc(&names, &object, &number));
	ASSERT_EQ(number, 0x010001u);
	deinit_names(&names);
}

TEST(all_slots_but_the_reserved_ones_are_given_out)
{
	struct soft_names names;
	uint32_t number, n = 0;
	int object, other;

	init_names(&names);
	for (uint32_t i = 0; i < 1000; i++)
		ASSERT_OK(soft_names_reserve(&names, 0x100000 | i * 61, &object));
	while (soft_names_alloc(&names, &other, &number) == 0) {
		ASSERT_EQ(soft_names_find(&names, number), (void *)&other);
		n++;
	}
	ASSERT_EQ(n, 65536u - 1000);
	for (uint32_t i = 0; i < 1000; i++)
		ASSERT_EQ(soft_names_find(&names, 0x100000 | i * 61), (void *)&object);
	deinit_names(&names);
}
