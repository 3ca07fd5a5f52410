/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of device code: every offset and size that the table of the interface gives, and the images. */
#include <stdio.h>
#include <string.h>

#include "libclient/compat/nvshmem/ibgda-images.h"
#include "tests/lib/test.h"

struct row {
	const char *name;
	size_t is, should;
	size_t is_bytes, bytes;
};
#define ROW(type, field, offset, bytes) {#type "." #field, offsetof(struct type, field), (offset), sizeof(((struct type *)0)->field), (bytes)}

static const struct row rows[] = {
	ROW(nvs_ibgda_state, version, 0, 4), ROW(nvs_ibgda_state, num_shared_dcis, 4, 4), ROW(nvs_ibgda_state, num_exclusive_dcis, 8, 4),
	ROW(nvs_ibgda_state, dci_map_type, 12, 4), ROW(nvs_ibgda_state, ndcts_per_pe, 16, 4), ROW(nvs_ibgda_state, num_qp_groups, 20, 4),
	ROW(nvs_ibgda_state, num_dct_groups, 24, 4), ROW(nvs_ibgda_state, num_rc_per_pe, 28, 4), ROW(nvs_ibgda_state, rc_map_type, 32, 4),
	ROW(nvs_ibgda_state, num_requests_in_batch, 36, 4), ROW(nvs_ibgda_state, log2_cumem_granularity, 40, 8),
	ROW(nvs_ibgda_state, num_devices_initialized, 48, 4), ROW(nvs_ibgda_state, nic_buf_on_gpumem, 52, 1),
	ROW(nvs_ibgda_state, support_half_av_seg, 53, 1), ROW(nvs_ibgda_state, may_skip_cst, 54, 1), ROW(nvs_ibgda_state, use_async_postsend, 55, 1),
	ROW(nvs_ibgda_state, lkeys, 56, 1024), ROW(nvs_ibgda_state, rkeys, 1080, 1024), ROW(nvs_ibgda_state, dcts, 2104, 6144),
	ROW(nvs_ibgda_state, qp_group_switches, 8248, 8), ROW(nvs_ibgda_state, cqs, 8256, 8), ROW(nvs_ibgda_state, dcis, 8264, 8),
	ROW(nvs_ibgda_state, rcs, 8272, 8), ROW(nvs_ibgda_state, local_only_mhandle_head, 8280, 8), ROW(nvs_ibgda_state, dcts_table, 8288, 8),
	ROW(nvs_ibgda_state, lkeys_table, 8296, 8), ROW(nvs_ibgda_state, rkeys_table, 8304, 8), ROW(nvs_ibgda_state, num_default_rc_per_pe, 8312, 4),
	ROW(nvs_ibgda_state, use_address_stable_amo, 8316, 1), ROW(nvs_ibgda_state, extra, 8320, 8),
	ROW(nvs_ibgda_state, region_batch_rma_pending_qps, 8328, 8), ROW(nvs_ibgda_state, region_batch_rma_pending_qps_threshold, 8336, 4),
	ROW(nvs_ibgda_key, key_be, 0, 4), ROW(nvs_ibgda_key, next_addr, 8, 8),
	ROW(nvs_ibgda_qp, qp_type, 4, 4), ROW(nvs_ibgda_qp, qpn, 8, 4), ROW(nvs_ibgda_qp, dev_idx, 12, 4), ROW(nvs_ibgda_qp, ibuf.nslots, 16, 4),
	ROW(nvs_ibgda_qp, ibuf.buf, 24, 8), ROW(nvs_ibgda_qp, ibuf.lkey_be, 32, 4), ROW(nvs_ibgda_qp, ibuf.rkey_be, 36, 4),
	ROW(nvs_ibgda_qp, tx_wq.nwqes, 40, 2), ROW(nvs_ibgda_qp, tx_wq.wqe, 48, 8), ROW(nvs_ibgda_qp, tx_wq.dbrec, 56, 8),
	ROW(nvs_ibgda_qp, tx_wq.bf, 64, 8), ROW(nvs_ibgda_qp, tx_wq.cq, 72, 8), ROW(nvs_ibgda_qp, tx_wq.prod_idx, 80, 8),
	ROW(nvs_ibgda_qp, mvars, 88, 96), ROW(nvs_ibgda_mvars, post_send_lock, 4, 4), ROW(nvs_ibgda_mvars, resv_head, 8, 8),
	ROW(nvs_ibgda_mvars, ready_head, 16, 8), ROW(nvs_ibgda_mvars, prod_idx, 24, 8), ROW(nvs_ibgda_mvars, cons_idx, 32, 8),
	ROW(nvs_ibgda_mvars, get_head, 40, 8), ROW(nvs_ibgda_mvars, get_tail, 48, 8), ROW(nvs_ibgda_mvars, ibuf_head, 56, 8),
	ROW(nvs_ibgda_mvars, ibuf_tail, 64, 8),
	ROW(nvs_ibgda_cq, qp_type, 4, 4), ROW(nvs_ibgda_cq, dbrec, 8, 8), ROW(nvs_ibgda_cq, cqe, 16, 8), ROW(nvs_ibgda_cq, prod_idx, 24, 8),
	ROW(nvs_ibgda_cq, cons_idx, 32, 8), ROW(nvs_ibgda_cq, resv_head, 40, 8), ROW(nvs_ibgda_cq, ready_head, 48, 8), ROW(nvs_ibgda_cq, cqn, 56, 4),
	ROW(nvs_ibgda_cq, ncqes, 60, 4), ROW(nvs_ibgda_cq, qpn, 64, 4),
	ROW(nvs_ibgda_buffer, is_sysmem_scope, 4, 1), ROW(nvs_ibgda_buffer, start, 8, 8), ROW(nvs_ibgda_buffer, end, 16, 8),
	ROW(nvs_ibgda_buffer, next, 24, 8), ROW(nvs_ibgda_buffer, lkeys_be, 32, 60),
};

TEST(queues_have_the_offsets_that_device_code_reads)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].is != rows[i].should || rows[i].is_bytes != rows[i].bytes)
			printf("%s: %zu, %zu bytes\n", rows[i].name, rows[i].is, rows[i].is_bytes);
		ASSERT_EQ(rows[i].is, rows[i].should);
		ASSERT_EQ(rows[i].is_bytes, rows[i].bytes);
	}
	ASSERT_EQ(sizeof(struct nvs_ibgda_state), 8384);
	ASSERT_EQ(sizeof(struct nvs_ibgda_key), 16);
	ASSERT_EQ(sizeof(struct nvs_ibgda_qp), 184);
	ASSERT_EQ(sizeof(struct nvs_ibgda_mvars), 96);
	ASSERT_EQ(sizeof(struct nvs_ibgda_cq), 72);
	ASSERT_EQ(sizeof(struct nvs_ibgda_buffer), 96);
}

static struct nvs_version version(int minor)
{
	return (struct nvs_version){3, minor, 0};
}

TEST(a_version_finds_a_queue_where_it_looks)
{
	/* One queue to a PE: all versions alike. */
	ASSERT_EQ(nvs_ibgda_orders(1), 1);
	for (int minor = 0; minor <= 8; minor++)
		ASSERT_EQ(nvs_ibgda_place(nvs_ibgda_order_of(version(minor), 1), 0, 2, 1, 3), 2);
	/* Several: up to 3.4 those of a PE stand together, later those of a number. */
	ASSERT_EQ(nvs_ibgda_orders(4), 2);
	ASSERT_EQ(nvs_ibgda_place(nvs_ibgda_order_of(version(4), 4), 3, 2, 4, 3), 2 * 4 + 3);
	for (int minor = 5; minor <= 8; minor++)
		ASSERT_EQ(nvs_ibgda_place(nvs_ibgda_order_of(version(minor), 4), 3, 2, 4, 3), 3 * 3 + 2);
}

static const struct nvs_ibgda_key first_lkeys[NVS_IBGDA_CONST_KEYS] = {{1, 10}, {2, 20}}, first_rkeys[NVS_IBGDA_CONST_KEYS] = {{3, 30}};
static const struct nvs_ibgda_facts facts = {
	.npes = 3,
	.n_rc = 4,
	.log2_piece = 30,
	.switches = 100,
	.cqs = 200,
	.dcis = 300,
	.rcs = 400,
	.n_created = 2,
	.rkeys = 5000,
	.first_lkeys = first_lkeys,
	.first_rkeys = first_rkeys,
};

TEST(the_state_says_that_there_is_one_NIC_with_RC_queues_in_host_memory)
{
	struct nvs_ibgda_state state;

	nvs_ibgda_state_fill(&facts, version(4), &state);
	ASSERT_EQ(state.version, (1 << 16) + 8384);
	ASSERT_EQ(state.num_shared_dcis, 1);
	ASSERT_EQ(state.num_exclusive_dcis, 0);
	ASSERT_EQ(state.ndcts_per_pe, 1);
	ASSERT_EQ(state.num_dct_groups, 1);
	ASSERT_EQ(state.num_rc_per_pe, 4);
	ASSERT(state.num_qp_groups >= 2);
	ASSERT_EQ(state.num_requests_in_batch & (state.num_requests_in_batch - 1), 0);
	ASSERT_EQ(state.num_devices_initialized, 1);
	ASSERT_EQ(state.log2_cumem_granularity, 30);
	ASSERT(!state.nic_buf_on_gpumem && state.support_half_av_seg && state.may_skip_cst && !state.use_async_postsend);
	ASSERT_EQ(state.qp_group_switches, 100);
	ASSERT_EQ(state.cqs, 200);
	ASSERT_EQ(state.dcis, 300);
	ASSERT_EQ(state.rcs, 400);
	ASSERT_EQ(state.local_only_mhandle_head, 0);
	/* Up to 3.4 an address is there. */
	ASSERT_EQ(state.num_default_rc_per_pe, 0);
	nvs_ibgda_state_fill(&facts, version(5), &state);
	ASSERT_EQ(state.num_default_rc_per_pe, 4);
	/* With those that the program has created. */
	ASSERT_EQ(state.num_rc_per_pe, 6);
	ASSERT(!state.use_address_stable_amo && !state.extra && !state.region_batch_rma_pending_qps);
	/* 3.8 counts in words, and in one more than there are groups. */
	ASSERT(nvs_ibgda_switches_bytes(1) >= 3 * 4);
	ASSERT(nvs_ibgda_switches_bytes(4) >= 5 * 4);
}

TEST(local_keys_and_the_first_remote_ones_are_in_the_state)
{
	struct nvs_ibgda_state state;

	nvs_ibgda_state_fill(&facts, version(4), &state);
	ASSERT_EQ(state.lkeys[1].key_be, 2);
	ASSERT_EQ(state.lkeys[1].next_addr, 20);
	ASSERT_EQ(state.rkeys[0].next_addr, 30);
	ASSERT_EQ(state.lkeys_table, 0);
	ASSERT_EQ(state.rkeys_table, 5000 + 64 * 16);
}

TEST(each_piece_of_a_registration_has_its_key_and_its_end)
{
	struct nvs_ibgda_range range = nvs_ibgda_range_of((UINT64_C(2) << 29) + 4096, (UINT64_C(4) << 29) + 4096, 29);
	struct nvs_ibgda_key lkeys[8] = {{0, 0}}, rkeys[8 * 3] = {{0, 0}};
	uint64_t base = UINT64_C(1) << 45;

	ASSERT_EQ(range.begin, UINT64_C(2) << 29);
	ASSERT_EQ(range.end, (UINT64_C(4) << 29) + 4096);
	nvs_ibgda_lkeys_fill(range, base, 7, lkeys);
	nvs_ibgda_rkeys_fill(range, 1, 3, 8, rkeys);
	for (size_t i = 0; i < 8; i++) {
		bool is_in = i >= 2 && i < 5;

		ASSERT_EQ(lkeys[i].key_be, is_in ? 7 : 0);
		ASSERT_EQ(lkeys[i].next_addr, is_in ? base + range.end : 0);
		ASSERT_EQ(rkeys[i * 3 + 1].key_be, is_in ? 8 : 0);
		ASSERT_EQ(rkeys[i * 3 + 1].next_addr, is_in ? range.end : 0);
		ASSERT_EQ(rkeys[i * 3].key_be + rkeys[i * 3 + 2].key_be, 0);
	}
}

TEST(the_state_has_the_local_keys_of_every_heap)
{
	ASSERT_EQ(nvs_ibgda_log2_piece(1), 29);
	ASSERT_EQ(nvs_ibgda_log2_piece(UINT64_C(64) << 29), 29);
	ASSERT_EQ(nvs_ibgda_log2_piece((UINT64_C(64) << 29) + 1), 30);
	ASSERT_EQ(nvs_ibgda_log2_piece(UINT64_MAX), 58);
	ASSERT_EQ(nvs_ibgda_pieces(UINT64_MAX, 58), NVS_IBGDA_CONST_KEYS);
	ASSERT_EQ(nvs_ibgda_pieces((UINT64_C(5) << 29) + 1, 29), 6);
	ASSERT_EQ(nvs_ibgda_pieces(0, 29), 0);
}

TEST(a_queue_counts_in_its_own_structure)
{
	static const struct nvs_ibgda_queue queue = {.qpn = 0x123456, .wqebbs = 1024, .ring = 0x1000, .dbrec = 0x2004, .doorbell = 0x3000, .cqes = 0x4000,
						     .results = 0x5000, .results_lkey_be = 0x60, .results_rkey_be = 0x70};
	struct nvs_ibgda_qp qp;
	struct nvs_ibgda_cq cq;

	nvs_ibgda_qp_fill(&queue, 0x10000, 0x20000, &qp, &cq);
	ASSERT_EQ(qp.qp_type, 3);
	ASSERT_EQ(qp.qpn, 0x123456);
	ASSERT_EQ(qp.ibuf.nslots & (qp.ibuf.nslots - 1), 0);
	/* The threads of a warp take one each at once. */
	ASSERT(qp.ibuf.nslots >= 32);
	ASSERT_EQ(qp.ibuf.buf, 0x5000);
	ASSERT_EQ(qp.ibuf.lkey_be, 0x60);
	ASSERT_EQ(qp.tx_wq.nwqes, 1024);
	ASSERT_EQ(qp.tx_wq.wqe, 0x1000);
	ASSERT_EQ(qp.tx_wq.dbrec, 0x2004);
	ASSERT_EQ(qp.tx_wq.bf, 0x3000);
	ASSERT_EQ(qp.tx_wq.cq, 0x20000);
	ASSERT_EQ(qp.tx_wq.prod_idx, 0x10000 + 88 + 24);
	ASSERT_EQ(qp.mvars.resv_head + qp.mvars.ready_head + qp.mvars.prod_idx + qp.mvars.cons_idx, 0);
	ASSERT_EQ(cq.qp_type, 3);
	ASSERT_EQ(cq.cqe, 0x4000);
	ASSERT_EQ(cq.prod_idx, 0x10000 + 112);
	ASSERT_EQ(cq.cons_idx, 0x10000 + 120);
	ASSERT_EQ(cq.resv_head, 0x10000 + 96);
	ASSERT_EQ(cq.ready_head, 0x10000 + 104);
	ASSERT_EQ(cq.ncqes, 1024);
	ASSERT_EQ(cq.qpn, 0x123456);
}
