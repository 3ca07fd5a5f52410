/* SPDX-License-Identifier: Apache-2.0 */
/* Records of contexts: what comes back, and what is refused. Pure. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/mlx5/mlx5-record.h"
#include "record-seal.h"
#include "tests/lib/test.h"

#define TOTAL_BYTES 16384u

/* Two batches: the second one's QP uses a CQ of the first. Offsets as no overlap demands; numbers distinct. */
static struct nic_cq cqs[2][2] = {
	{{.cqn = 0x81, .log2_entries = 5, .ring_offset = 0, .dbrec_offset = 8192},
	 {.cqn = 0x82, .log2_entries = 4, .flags = NIC_CQ_COLLAPSED, .ring_offset = 2048, .dbrec_offset = 8256}},
	{{.cqn = 0x83, .log2_entries = 6, .flags = NIC_CQ_OVERRUN_IGNORE, .dbrec_offset = 8192}},
};

#define ADDR                                                                                                    \
	{                                                                                                       \
		.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_RC, .mtu_log2 = 10, .qpn = 0x101, .psn = 0xabcdef, \
		.gid = {0xfe, 0x80}, .mac = {2, 4, 6, 8, 10, 12},                                               \
	}

static struct nic_qp qps[2][1] = {
	{{.qpn = 0x101, .type = NIC_QP_RC, .log2_sq_wqebbs = 5, .n_rq_wqes = 16, .log2_rq_stride = 5,
	  .send_cqn = 0x81, .recv_cqn = 0x82, .access = NIC_ACCESS_REMOTE_WRITE, .rq_offset = 4096,
	  .sq_offset = 4608, .dbrec_offset = 8320, .addr = ADDR}},
	{{.qpn = 0x102, .type = NIC_QP_RC, .log2_sq_wqebbs = 4, .send_cqn = 0x81, .recv_cqn = 0x83,
	  .flags = NIC_QP_GPU_DRIVEN, .rq_offset = 4096, .sq_offset = 4096, .dbrec_offset = 8256, .addr = ADDR}},
};

static struct mlx5_object_record handles[] = {{.handle = 7}, {.handle = 8}};
static struct mlx5_object_record blobs[] = {{.blob_bytes = 32, .blob = {1, 2, 3}}};

static struct mlx5_record_batch batches[] = {
	{.kind = NIC_MEM_MEMFD,
	 .mem_offset = 4096,
	 .umem = {.number = 0x900, .handle = 3},
	 .layout = {.n_cqs = 2, .n_qps = 1, .total_bytes = TOTAL_BYTES, .cqs = cqs[0], .qps = qps[0]},
	 .cqs = handles,
	 .qps = handles},
	{.kind = NIC_MEM_DMABUF,
	 .umem = {.number = 0x901, .blob_bytes = 8},
	 .layout = {.n_cqs = 1, .n_qps = 1, .total_bytes = TOTAL_BYTES, .cqs = cqs[1], .qps = qps[1]},
	 .cqs = blobs,
	 .qps = blobs},
};

static struct mlx5_record_mr mrs[] = {
	{.handle = 4, .lkey = 0x1234, .rkey = 0x1235, .length_bytes = 1 << 20},
	{.handle = 5, .lkey = 0x2234, .rkey = 0x2235, .length_bytes = UINT64_MAX},
};

static struct mlx5_record sample = {
	.guid = 0x0123456789abcdef,
	.port = 1,
	.pd_handle = 1,
	.pdn = 0x22,
	.uar = {.number = 0x33, .handle = 2},
	.uar_mmap_off = 0x900 << 12,
	.has_counters = true,
	.counters = {.number = 0x44, .handle = 6},
	.n_mrs = 2,
	.n_batches = 2,
	.mrs = mrs,
	.batches = batches,
};

static uint8_t *encode(size_t *ret_bytes)
{
	void *data;

	ASSERT_OK(mlx5_record_encode(&sample, &data, ret_bytes));
	return data;
}

static int decode(const uint8_t *data, size_t bytes)
{
	struct mlx5_record record;
	int r = mlx5_record_decode(data, bytes, &record);

	if (r == 0)
		mlx5_record_deinit(&record);
	return r;
}

TEST(a_record_comes_back_as_it_was)
{
	struct mlx5_record record;
	size_t bytes, bytes_again;
	uint8_t *data;
	void *again;

	data = encode(&bytes);
	ASSERT_OK(mlx5_record_decode(data, bytes, &record));
	ASSERT_EQ(record.guid, sample.guid);
	ASSERT_EQ(record.uar.number, 0x33u);
	ASSERT_EQ(record.counters.handle, 6u);
	ASSERT_EQ(record.mrs[1].length_bytes, UINT64_MAX);
	ASSERT_EQ(record.batches[0].mem_offset, 4096u);
	ASSERT_EQ(record.batches[0].layout.cqs[1].flags, NIC_CQ_COLLAPSED);
	ASSERT_EQ(record.batches[0].qps[0].handle, 7u);
	ASSERT_EQ(record.batches[1].layout.qps[0].addr.psn, 0xabcdefu);
	ASSERT_EQ(record.batches[1].layout.qps[0].addr.qpn, 0x102u);
	ASSERT_MEMEQ(record.batches[1].cqs[0].blob, blobs[0].blob, 32);
	ASSERT_OK(mlx5_record_encode(&record, &again, &bytes_again));
	ASSERT_EQ(bytes_again, bytes);
	ASSERT_MEMEQ(again, data, bytes);
	mlx5_record_deinit(&record);
	mlx5_record_deinit(&record);
	free(again);
	free(data);
}

/* Its bytes are a promise to the next version. */
TEST(a_records_head_and_length)
{
	uint8_t head[12] = {'S', 'M', '5', 'R', 3, 0, 0, 0};
	uint8_t *data;
	size_t bytes;

	data = encode(&bytes);
	ASSERT_EQ(bytes, 12 + 55 + 4 + 2 * 21 + 4 + 2 * 38 + 8 + 3 * 41 + 32 + 2 * 114 + 32 + 8u);
	head[8] = (uint8_t)bytes;
	head[9] = (uint8_t)(bytes >> 8);
	ASSERT_MEMEQ(data, head, sizeof(head));
	free(data);
}

TEST(every_truncation_is_refused)
{
	uint8_t *data, *cut;
	size_t bytes;

	data = encode(&bytes);
	for (size_t n = 0; n < bytes; n++) {
		/* Exactly as large as the record, so that a sanitizer sees a read beyond it. */
		cut = malloc(n ? n : 1);
		ASSERT(cut);
		memcpy(cut, data, n);
		ASSERT_ERR(decode(cut, n), EINVAL);
		/* One that says its length and has a sum. */
		if (n >= RECORD_HEAD_BYTES + RECORD_SUM_BYTES) {
			record_say_length(cut, n);
			record_seal(cut, n);
			ASSERT_ERR(decode(cut, n), EINVAL);
		}
		free(cut);
	}
	free(data);
}

TEST(more_than_a_record_is_refused)
{
	uint8_t *data, *more;
	size_t bytes;

	data = encode(&bytes);
	more = calloc(1, bytes + 8);
	ASSERT(more);
	memcpy(more, data, bytes);
	ASSERT_ERR(decode(more, bytes + 8), EINVAL);
	record_say_length(more, bytes + 8);
	record_seal(more, bytes + 8);
	ASSERT_ERR(decode(more, bytes + 8), EINVAL);
	ASSERT_ERR(decode(more, (size_t)NIC_RECORD_MAX_BYTES + 1), EINVAL);
	free(more);
	free(data);
}

static bool is_version(size_t bit)
{
	return bit / 8 >= 4 && bit / 8 < 8;
}

TEST(every_bit_that_flips_is_refused)
{
	uint8_t *data;
	size_t bytes;

	data = encode(&bytes);
	for (size_t bit = 0; bit < bytes * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ASSERT_ERR(decode(data, bytes), is_version(bit) ? EPROTONOSUPPORT : EINVAL);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ASSERT_OK(decode(data, bytes));
	free(data);
}

/* An accepted record is bit for bit one that an encoder would write. */
static bool is_refused_or_canonical(const uint8_t *data, size_t bytes)
{
	struct mlx5_record record;
	size_t bytes_again;
	void *again;
	int r = mlx5_record_decode(data, bytes, &record);

	if (r < 0)
		return r == -EINVAL;
	ASSERT_OK(mlx5_record_encode(&record, &again, &bytes_again));
	r = bytes_again == bytes ? memcmp(again, data, bytes) : -1;
	free(again);
	mlx5_record_deinit(&record);
	return r == 0;
}

TEST(hostile_records_with_a_right_sum_are_refused_or_make_sense)
{
	size_t bytes, n_refused = 0;
	uint8_t *data;

	data = encode(&bytes);
	for (size_t bit = 64; bit < (bytes - RECORD_SUM_BYTES) * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		record_seal(data, bytes);
		ASSERT(is_refused_or_canonical(data, bytes));
		n_refused += decode(data, bytes) < 0;
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	/* Most fields that are not free numbers are counts, kinds, flags, alignments, ranges and numbers of CQs. */
	ASSERT_GT(n_refused, bytes * 2);
	free(data);
}

/* One field each; the check that a decoder without it would lack. */
static int after_change(void *field, const void *value, size_t bytes)
{
	uint8_t was[8];
	void *data;
	size_t n;
	int r;

	memcpy(was, field, bytes);
	memcpy(field, value, bytes);
	r = mlx5_record_encode(&sample, &data, &n);
	if (r == 0) {
		r = decode(data, n);
		free(data);
	}
	memcpy(field, was, bytes);
	return r;
}

#define AFTER(field, value)                                                \
	({                                                                 \
		__typeof__(field) _value = (value);                        \
		after_change(&(field), &_value, sizeof(_value)); \
	})

TEST(contradictory_records_are_refused)
{
	ASSERT_OK(AFTER(qps[0][0].access, 0));
	ASSERT_ERR(AFTER(qps[1][0].qpn, 0x101), EINVAL); /* twice */
	ASSERT_ERR(AFTER(cqs[1][0].cqn, 0x81), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].send_cqn, 0x83), EINVAL); /* of a later batch */
	ASSERT_ERR(AFTER(qps[1][0].recv_cqn, 0x84), EINVAL); /* of none */
	ASSERT_ERR(AFTER(qps[0][0].sq_offset, TOTAL_BYTES - 1024), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].rq_offset, TOTAL_BYTES), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].dbrec_offset, TOTAL_BYTES), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].dbrec_offset, 8324), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].n_rq_wqes, 3), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].log2_rq_stride, 40), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].log2_sq_wqebbs, 64), EINVAL);
	ASSERT_ERR(AFTER(cqs[0][0].log2_entries, 9), EINVAL);
	ASSERT_ERR(AFTER(cqs[0][0].dbrec_offset, UINT64_MAX - 63), EINVAL);
	ASSERT_ERR(AFTER(batches[0].mem_offset, UINT64_MAX - 4095), EINVAL);
	ASSERT_ERR(AFTER(batches[0].mem_offset, 512), EINVAL);
	ASSERT_ERR(AFTER(batches[0].kind, NIC_MEM_AGENT), EINVAL);
	ASSERT_ERR(AFTER(handles[0].blob_bytes, MLX5_BLOB_BYTES + 1), EINVAL);
	ASSERT_ERR(AFTER(handles[0].state, (enum nic_qp_state)99), EINVAL);
	ASSERT_ERR(AFTER(handles[0].gone, true), EINVAL); /* and a handle */
	ASSERT_ERR(AFTER(mrs[0].gone, true), EINVAL);
	ASSERT_ERR(AFTER(mrs[0].length_bytes, 0), EINVAL);
	ASSERT_ERR(AFTER(sample.pdn, 1u << 24), EINVAL);
	ASSERT_ERR(AFTER(sample.uar.number, 1u << 24), EINVAL);
	ASSERT_ERR(AFTER(sample.counters.number, 256), EINVAL);
	ASSERT_ERR(AFTER(sample.uar_mmap_off, 1ull << 63), EINVAL);
}

/* ---- what is destroyed already ------------------------------------------------------------------------------------ */

/* A batch whose destruction was cut: its QP and one CQ are no more, and their numbers are another's. */
TEST(destroyed_objects_have_a_place_and_no_name)
{
	struct mlx5_object_record kept_qp = blobs[0], kept_cq = handles[1], gone = {.gone = true};
	struct mlx5_record record;
	uint8_t *data;
	size_t bytes;

	blobs[0] = handles[1] = gone;
	/* The QP of the first batch is there and uses the CQ that is gone. */
	ASSERT_ERR(AFTER(handles[0].state, NIC_QPS_RTS), EINVAL);
	handles[0] = gone;
	data = encode(&bytes);
	ASSERT_OK(mlx5_record_decode(data, bytes, &record));
	ASSERT(record.batches[0].qps[0].gone);
	ASSERT(record.batches[1].cqs[0].gone);
	ASSERT_EQ(record.batches[0].layout.qps[0].qpn, 0x101u);
	mlx5_record_deinit(&record);
	free(data);
	ASSERT_OK(AFTER(qps[1][0].qpn, 0x101));
	ASSERT_OK(AFTER(cqs[1][0].cqn, 0x81));
	mrs[0].handle = 0;
	ASSERT_OK(AFTER(mrs[0].gone, true));
	mrs[0].handle = 4;
	blobs[0] = kept_qp;
	handles[1] = kept_cq;
	handles[0] = (struct mlx5_object_record){.handle = 7};
}

/* ---- dynamic connections ----------------------------------------------------------------------------------------- */

/* The sample with a DCI and a DCT in place of its QPs, and the receive memory pool that the latter needs. */
static void make_dynamic(struct nic_qp kept[2])
{
	kept[0] = qps[0][0];
	kept[1] = qps[1][0];
	qps[0][0].type = NIC_QP_DCI;
	qps[0][0].n_rq_wqes = qps[0][0].log2_rq_stride = 0;
	qps[1][0].type = NIC_QP_DCT;
	qps[1][0].log2_sq_wqebbs = 0;
	qps[1][0].addr.dc_key = 0x1122334455667788u;
	sample.has_rmp = true;
	sample.rmp_umem = (struct mlx5_object_record){.number = 0x902, .handle = 9};
	sample.rmp = (struct mlx5_object_record){.number = 0x12, .handle = 10};
}

static void make_plain(const struct nic_qp kept[2])
{
	qps[0][0] = kept[0];
	qps[1][0] = kept[1];
	sample.has_rmp = false;
	sample.rmp = sample.rmp_umem = (struct mlx5_object_record){0};
}

TEST(dcis_and_dcts_come_back_with_key_and_rmp)
{
	struct mlx5_record record;
	struct nic_qp kept[2];
	uint8_t *data;
	size_t bytes;

	make_dynamic(kept);
	data = encode(&bytes);
	ASSERT_OK(mlx5_record_decode(data, bytes, &record));
	ASSERT_EQ(record.batches[0].layout.qps[0].type, NIC_QP_DCI);
	ASSERT_EQ(record.batches[1].layout.qps[0].type, NIC_QP_DCT);
	ASSERT_EQ(record.batches[1].layout.qps[0].addr.qp_type, NIC_QP_DCT);
	ASSERT_EQ(record.batches[1].layout.qps[0].addr.dc_key, 0x1122334455667788u);
	ASSERT(record.has_rmp);
	ASSERT_EQ(record.rmp_umem.handle, 9u);
	ASSERT_EQ(record.rmp.number, 0x12u);
	mlx5_record_deinit(&record);
	free(data);
	make_plain(kept);
}

TEST(dcis_and_dcts_that_cannot_be_are_refused)
{
	struct nic_qp kept[2];

	make_dynamic(kept);
	ASSERT_OK(AFTER(qps[0][0].access, 0));
	ASSERT_ERR(AFTER(sample.has_rmp, false), EINVAL);
	ASSERT_ERR(AFTER(sample.rmp.number, 1u << 24), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].n_rq_wqes, 16), EINVAL);
	ASSERT_ERR(AFTER(qps[0][0].addr.dc_key, 1), EINVAL);
	ASSERT_ERR(AFTER(qps[1][0].log2_sq_wqebbs, 5), EINVAL);
	ASSERT_ERR(AFTER(qps[1][0].n_rq_wqes, 16), EINVAL);
	ASSERT_ERR(AFTER(qps[1][0].sq_offset, 8192), EINVAL);
	ASSERT_ERR(AFTER(qps[1][0].dbrec_offset, TOTAL_BYTES), EINVAL);
	ASSERT_ERR(AFTER(qps[1][0].type, (enum nic_qp_type)4), EINVAL);
	make_plain(kept);
}
