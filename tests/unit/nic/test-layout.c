/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of queue memory: nothing overlaps, everything is aligned, and no request is too strange. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/nic.h"
#include "tests/lib/test.h"

struct area {
	uint64_t start;
	uint64_t end;
};

static struct nic_queues_attr simple(void)
{
	return (struct nic_queues_attr){
		.n_cq_specs = 1,
		.n_qp_specs = 1,
		.cqs = {{.count = 2, .log2_entries = 6}},
		.qps = {{.count = 2, .type = NIC_QP_RC, .log2_sq_wqebbs = 6, .send_cq_step = 1,
			 .recv_cq_first = 1}},
	};
}

static int by_start(const void *a, const void *b)
{
	const struct area *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void assert_disjoint(struct area *areas, size_t n, uint64_t total)
{
	qsort(areas, n, sizeof(*areas), by_start);
	for (size_t i = 0; i < n; i++) {
		ASSERT_LT(areas[i].start, areas[i].end);
		ASSERT_LE(areas[i].end, i + 1 < n ? areas[i + 1].start : total);
	}
}

static void assert_sane(const struct nic_layout *layout)
{
	struct area *areas = calloc(2 * (layout->n_cqs + layout->n_qps), sizeof(*areas));
	size_t n = 0;

	ASSERT(areas);
	ASSERT_EQ(layout->total_bytes % 4096, 0u);
	for (uint32_t i = 0; i < layout->n_cqs; i++) {
		const struct nic_cq *cq = &layout->cqs[i];
		uint64_t bytes = 64ull << cq->log2_entries;

		ASSERT_EQ(cq->ring_offset % (bytes < 4096 ? bytes : 4096), 0u);
		ASSERT_EQ(cq->dbrec_offset % SHMD_DBREC_STRIDE, 0u);
		areas[n++] = (struct area){cq->ring_offset, cq->ring_offset + bytes};
		areas[n++] = (struct area){cq->dbrec_offset, cq->dbrec_offset + SHMD_DBREC_STRIDE};
	}
	for (uint32_t i = 0; i < layout->n_qps; i++) {
		const struct nic_qp *qp = &layout->qps[i];
		uint64_t rq_bytes = (uint64_t)qp->n_rq_wqes << qp->log2_rq_stride;

		ASSERT_EQ(qp->rq_offset + rq_bytes, qp->sq_offset);
		ASSERT_EQ(qp->rq_offset % 64, 0u);
		ASSERT_EQ(qp->sq_offset % 64, 0u);
		ASSERT_EQ(qp->dbrec_offset % SHMD_DBREC_STRIDE, 0u);
		areas[n++] = (struct area){qp->rq_offset,
					   qp->sq_offset + (64ull << qp->log2_sq_wqebbs)};
		areas[n++] = (struct area){qp->dbrec_offset, qp->dbrec_offset + SHMD_DBREC_STRIDE};
	}
	assert_disjoint(areas, n, layout->total_bytes);
	free(areas);
}

TEST(layout_places_queues_apart)
{
	struct nic_queues_attr attr = simple();
	struct nic_layout layout;

	attr.n_cq_specs = 3;
	attr.cqs[1] = (struct nic_cq_spec){.count = 5, .log2_entries = 10, .flags = NIC_CQ_COLLAPSED};
	attr.cqs[2] = (struct nic_cq_spec){.count = 3};
	attr.n_qp_specs = 3;
	attr.qps[1] = (struct nic_qp_spec){.count = 7, .type = NIC_QP_RC, .log2_sq_wqebbs = 4,
					   .n_rq_wqes = 256, .log2_rq_stride = 5};
	attr.qps[2] = (struct nic_qp_spec){.count = 3, .type = NIC_QP_RC, .log2_sq_wqebbs = 15,
					   .n_rq_wqes = 2, .log2_rq_stride = 9};
	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_EQ(layout.n_cqs, 10u);
	ASSERT_EQ(layout.n_qps, 12u);
	assert_sane(&layout);
	nic_layout_deinit(&layout);
	ASSERT(!layout.cqs && !layout.qps);
}

TEST(layout_of_1000_qps_is_sane)
{
	struct nic_queues_attr attr = simple();
	struct nic_layout layout;

	attr.cqs[0].count = 1000;
	attr.cqs[0].flags = NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE;
	attr.qps[0].count = 1000;
	attr.qps[0].recv_cq_first = 0;
	attr.qps[0].recv_cq_step = 1;
	ASSERT_OK(nic_layout_init(&layout, &attr));
	assert_sane(&layout);
	/* Rings and dbrecs, and no page of padding for each. */
	ASSERT_LE(layout.total_bytes, 1000u * ((64u << attr.cqs[0].log2_entries) + 4096 + 2 * 64) + 3 * 4096);
	nic_layout_deinit(&layout);
}

TEST(layout_collapsed_cq_has_its_whole_ring)
{
	struct nic_queues_attr attr = {
		.n_cq_specs = 1,
		.cqs = {{.count = 8, .log2_entries = 10, .flags = NIC_CQ_COLLAPSED}},
	};
	struct nic_layout layout;

	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_EQ(layout.total_bytes, 8 * (64u << 10) + 4096);
	nic_layout_deinit(&layout);
}

TEST(layout_names_cqs_by_index_or_number)
{
	struct nic_queues_attr attr = simple();
	struct nic_layout layout;

	attr.n_qp_specs = 2;
	attr.qps[1] = attr.qps[0];
	attr.qps[1].send_cqn = 0x4711;
	attr.qps[1].send_cq_first = 99; /* not looked at */
	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_EQ(layout.qps[0].send_cqn, NIC_CQ_BY_INDEX | 0u);
	ASSERT_EQ(layout.qps[1].send_cqn, NIC_CQ_BY_INDEX | 1u);
	ASSERT_EQ(layout.qps[1].recv_cqn, NIC_CQ_BY_INDEX | 1u);
	ASSERT_EQ(layout.qps[2].send_cqn, 0x4711u);
	ASSERT_EQ(layout.qps[2].recv_cqn, NIC_CQ_BY_INDEX | 1u);
	nic_layout_deinit(&layout);
}

TEST(layout_raises_a_receive_ring_to_one_wqebb)
{
	struct nic_queues_attr attr = simple();
	struct nic_layout layout;

	attr.qps[0].n_rq_wqes = 1;
	attr.qps[0].log2_rq_stride = 4;
	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_EQ(layout.qps[0].n_rq_wqes, 4u);
	assert_sane(&layout);
	nic_layout_deinit(&layout);
}

TEST(layout_dct_has_no_rings)
{
	struct nic_queues_attr attr = simple();
	struct nic_layout layout;

	attr.qps[0].type = NIC_QP_DCT;
	attr.qps[0].log2_sq_wqebbs = 0;
	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_EQ(layout.qps[0].rq_offset, layout.qps[0].sq_offset);
	nic_layout_deinit(&layout);
	attr.qps[0].log2_sq_wqebbs = 4;
	ASSERT_ERR(nic_layout_init(&layout, &attr), EINVAL);
}

#define REFUSE(change)                                                 \
	do {                                                           \
		struct nic_queues_attr attr = simple();                \
		struct nic_layout layout = {.n_cqs = 77};              \
                                                                       \
		change;                                                \
		ASSERT_ERR(nic_layout_init(&layout, &attr), EINVAL);   \
		ASSERT_EQ(layout.n_cqs, 77u);                          \
	} while (0)

TEST(layout_refuses_strange_cqs)
{
	REFUSE(attr.n_cq_specs = NIC_MAX_SPECS + 1);
	REFUSE(attr.n_cq_specs = 0);
	REFUSE(attr.n_cq_specs = attr.n_qp_specs = 0);
	REFUSE(attr.cqs[0].count = 0);
	REFUSE(attr.cqs[0].count = NIC_MAX_BATCH_CQS + 1);
	REFUSE(attr.cqs[0].count = UINT32_MAX);
	REFUSE(attr.cqs[0].log2_entries = NIC_MAX_LOG2_CQ_ENTRIES + 1);
	REFUSE(attr.cqs[0].log2_entries = UINT32_MAX);
	REFUSE(attr.cqs[0].flags = 4);
	REFUSE(attr.n_cq_specs = 2; attr.cqs[1] = attr.cqs[0]; attr.cqs[0].count = NIC_MAX_BATCH_CQS);
}

TEST(layout_refuses_strange_qps)
{
	REFUSE(attr.n_qp_specs = NIC_MAX_SPECS + 1);
	REFUSE(attr.qps[0].count = 0);
	REFUSE(attr.qps[0].count = UINT32_MAX; attr.qps[0].send_cq_step = 0);
	REFUSE(attr.qps[0].type = 0);
	REFUSE(attr.qps[0].type = NIC_QP_DCT + 1);
	REFUSE(attr.qps[0].log2_sq_wqebbs = 3);
	REFUSE(attr.qps[0].log2_sq_wqebbs = 16);
	REFUSE(attr.qps[0].log2_sq_wqebbs = UINT32_MAX);
	REFUSE(attr.qps[0].flags = 2);
	REFUSE(attr.qps[0].access = NIC_ACCESS_LOCAL_WRITE);
	REFUSE(attr.qps[0].access = UINT32_MAX);
}

TEST(layout_refuses_strange_receive_rings)
{
	REFUSE(attr.qps[0].n_rq_wqes = 3; attr.qps[0].log2_rq_stride = 6);
	REFUSE(attr.qps[0].n_rq_wqes = 1u << 16; attr.qps[0].log2_rq_stride = 6);
	REFUSE(attr.qps[0].n_rq_wqes = 4; attr.qps[0].log2_rq_stride = 3);
	REFUSE(attr.qps[0].n_rq_wqes = 4; attr.qps[0].log2_rq_stride = 10);
	REFUSE(attr.qps[0].n_rq_wqes = 4; attr.qps[0].log2_rq_stride = UINT32_MAX);
}

TEST(layout_refuses_cqs_that_do_not_exist)
{
	REFUSE(attr.qps[0].send_cq_first = 2);
	REFUSE(attr.qps[0].send_cq_step = 2);
	REFUSE(attr.qps[0].recv_cq_first = UINT32_MAX);
	REFUSE(attr.qps[0].recv_cq_step = UINT32_MAX);
	REFUSE(attr.qps[0].count = 1000; attr.qps[0].send_cq_step = 0x80000000u);
	REFUSE(attr.qps[0].send_cqn = NIC_CQ_BY_INDEX);
	REFUSE(attr.qps[0].recv_cqn = NIC_CQ_BY_INDEX | 1);
}

/* The largest request there is: sizes near 2^44 stay exact. */
TEST(layout_of_the_largest_request_is_exact)
{
	struct nic_queues_attr attr = {
		.n_cq_specs = 1,
		.cqs = {{.count = NIC_MAX_BATCH_CQS, .log2_entries = NIC_MAX_LOG2_CQ_ENTRIES}},
	};
	struct nic_layout layout;
	uint64_t rings = (uint64_t)NIC_MAX_BATCH_CQS << (NIC_MAX_LOG2_CQ_ENTRIES + 6);

	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_EQ(layout.total_bytes, rings + (uint64_t)NIC_MAX_BATCH_CQS * SHMD_DBREC_STRIDE);
	nic_layout_deinit(&layout);
}
