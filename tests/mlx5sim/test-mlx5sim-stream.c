/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of DCIs, asked through libmlx5 and by commands written by hand. Runs under mlx5sim with two devices on RoCE. */
#include "tests/lib/test.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "tests/mlx5sim/fixture.h"

#define LOG2_STREAMS 3
#define LOG2_ERRORED 2

static struct ibv_qp *make_dci(const struct dc *dc, enum mlx5dv_dc_type type, uint8_t log2_streams, uint8_t log2_errored)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_DRIVER,
					   .send_cq = dc->sides[0].cq,
					   .recv_cq = dc->sides[0].cq,
					   .cap = {.max_send_wr = 16, .max_send_sge = 1},
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = dc->sides[0].pd,
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS,
		.dc_init_attr = {.dc_type = type, .dci_streams = {log2_streams, log2_errored}}};

	return mlx5dv_create_qp(dc->sides[0].context, &attr, &dv);
}

static void streams_init(struct dc *dc)
{
	dc_init(dc, ALL_ACCESS);
	ASSERT_EQ(ibv_destroy_qp(dc->dci), 0);
	dc->dci = make_dci(dc, MLX5DV_DCTYPE_DCI, LOG2_STREAMS, LOG2_ERRORED);
	ASSERT(dc->dci);
	dc->dci_ex = ibv_qp_to_qp_ex(dc->dci);
	dc->dci_dv = mlx5dv_qp_ex_from_ibv_qp_ex(dc->dci_ex);
	start_dci(dc);
}

static enum ibv_wc_status write_in(const struct dc *dc, uint16_t stream, uint32_t lkey, uint32_t rkey)
{
	ibv_wr_start(dc->dci_ex);
	dc->dci_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(dc->dci_ex, rkey, (uintptr_t)dc->sides[1].memory + 128);
	mlx5dv_wr_set_dc_addr_stream(dc->dci_dv, dc->ah, dc->dct->qp_num, DC_KEY, stream);
	ibv_wr_set_sge(dc->dci_ex, lkey, (uintptr_t)dc->sides[0].memory, 64);
	ASSERT_EQ(ibv_wr_complete(dc->dci_ex), 0);
	return wait_wc(dc->sides[0].cq).status;
}

static enum ibv_wc_status good_write(const struct dc *dc, uint16_t stream)
{
	memset(dc->sides[1].memory + 128, 0, 64);
	return write_in(dc, stream, dc->sides[0].mr->lkey, dc->sides[1].mr->rkey);
}

static enum ibv_wc_status bad_write(const struct dc *dc, uint16_t stream)
{
	return write_in(dc, stream, dc->sides[0].mr->lkey ^ 0x80, dc->sides[1].mr->rkey);
}

TEST(dci_goes_on_with_other_streams_than_the_one_in_error)
{
	struct dc dc;

	streams_init(&dc);
	ASSERT_EQ(good_write(&dc, 1), IBV_WC_SUCCESS);
	ASSERT_EQ(bad_write(&dc, 1), IBV_WC_LOC_PROT_ERR);
	ASSERT_EQ(good_write(&dc, 1), IBV_WC_WR_FLUSH_ERR);
	ASSERT_EQ(dc.sides[1].memory[128], 0);
	ASSERT_EQ(good_write(&dc, 2), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(dc.sides[1].memory + 128, dc.sides[0].memory, 64);
	ASSERT_EQ(write_in(&dc, 3, dc.sides[0].mr->lkey, dc.sides[1].mr->rkey ^ 0x80), IBV_WC_REM_ACCESS_ERR);
	ASSERT_EQ(good_write(&dc, 0), IBV_WC_SUCCESS);
	ASSERT_EQ(state_of(dc.dci), IBV_QPS_RTS);
	ASSERT_NE(mlx5dv_dci_stream_id_reset(dc.dci, 2), 0);
	ASSERT_EQ(mlx5dv_dci_stream_id_reset(dc.dci, 1), 0);
	ASSERT_NE(mlx5dv_dci_stream_id_reset(dc.dci, 1), 0);
	ASSERT_EQ(good_write(&dc, 1), IBV_WC_SUCCESS);
	ASSERT_EQ(good_write(&dc, 3), IBV_WC_WR_FLUSH_ERR);
	dc_deinit(&dc);
}

TEST(dci_with_as_many_streams_in_error_as_it_allows_is_in_error)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct dc dc;

	streams_init(&dc);
	for (uint16_t i = 0; i < 1u << LOG2_ERRORED; i++) {
		ASSERT_EQ(state_of(dc.dci), IBV_QPS_RTS);
		ASSERT_EQ(bad_write(&dc, (uint16_t)(1000 * i)), IBV_WC_LOC_PROT_ERR);
	}
	ASSERT_EQ(state_of(dc.dci), IBV_QPS_ERR);
	ASSERT_EQ(good_write(&dc, 7), IBV_WC_WR_FLUSH_ERR);
	ASSERT_EQ(ibv_modify_qp(dc.dci, &attr, IBV_QP_STATE), 0);
	start_dci(&dc);
	ASSERT_EQ(good_write(&dc, 1000), IBV_WC_SUCCESS);
	dc_deinit(&dc);
}

TEST(streams_are_as_many_as_the_device_has_and_of_dcis_only)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS};
	struct ibv_qp *most;
	struct dc dc;

	dc_init(&dc, ALL_ACCESS);
	ASSERT_EQ(mlx5dv_query_device(dc.sides[0].context, &dv), 0);
	ASSERT_EQ(dv.dci_streams_caps.max_log_num_concurent, 6);
	ASSERT_EQ(dv.dci_streams_caps.max_log_num_errored, 6);
	most = make_dci(&dc, MLX5DV_DCTYPE_DCI, 6, 6);
	ASSERT(most);
	ASSERT_EQ(ibv_destroy_qp(most), 0);
	ASSERT(!make_dci(&dc, MLX5DV_DCTYPE_DCI, 7, 6));
	ASSERT(!make_dci(&dc, MLX5DV_DCTYPE_DCI, 6, 7));
	/* A DCI without any has none to reset, and one error is its end. */
	ASSERT_EQ(write_in(&dc, 3, dc.sides[0].mr->lkey ^ 0x80, dc.sides[1].mr->rkey), IBV_WC_LOC_PROT_ERR);
	ASSERT_EQ(state_of(dc.dci), IBV_QPS_ERR);
	dc_deinit(&dc);
}

/* Delivery status of a command: PRM. */
enum { STATUS_OK = 0, STATUS_BAD_PARAM = 0x3, STATUS_BAD_QP_STATE = 0x10, STATUS_BAD_INPUT_LENGTH = 0x50 };

#define OP_RTS2RTS 0x505u
#define WITH_EXTENSION 0x1d0u

static void put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, 4);
}

/*
 * rts2rts_qp_in, in bytes: the extension is there 0x8 (top bit), QP number 0x9, mask 0x10, lower half of the extension's mask
 * 0x10c, the stream 0x112 (rdma-core mlx5_ifc.h).
 */
static uint32_t reset_by_command(const struct dc *dc, size_t bytes, bool has_ext, uint32_t ext_mask, uint32_t mask,
				 uint16_t stream)
{
	uint8_t in[WITH_EXTENSION] = {0}, out[16] = {0};

	put32(in, OP_RTS2RTS << 16);
	put32(in + 0x8, (has_ext ? 0x80000000u : 0) | dc->dci->qp_num);
	put32(in + 0x10, mask);
	put32(in + 0x10c, ext_mask);
	put32(in + 0x110, stream);
	(void)mlx5dv_devx_qp_modify(dc->dci, in, bytes, out, sizeof(out));
	return out[0];
}

TEST(stream_is_reset_by_a_command_that_says_nothing_else)
{
	struct dc dc;

	streams_init(&dc);
	ASSERT_EQ(bad_write(&dc, 9), IBV_WC_LOC_PROT_ERR);
	ASSERT_EQ(reset_by_command(&dc, 0x110, true, 1, 0, 9), STATUS_BAD_INPUT_LENGTH);
	ASSERT_EQ(reset_by_command(&dc, WITH_EXTENSION, true, 0, 0, 9), STATUS_BAD_PARAM);
	ASSERT_EQ(reset_by_command(&dc, WITH_EXTENSION, true, 3, 0, 9), STATUS_BAD_PARAM);
	ASSERT_EQ(reset_by_command(&dc, WITH_EXTENSION, false, 1, 0, 9), STATUS_BAD_PARAM);
	ASSERT_EQ(reset_by_command(&dc, WITH_EXTENSION, true, 1, 2, 9), STATUS_BAD_PARAM);
	ASSERT_EQ(reset_by_command(&dc, WITH_EXTENSION, true, 1, 0, 8), STATUS_BAD_PARAM);
	ASSERT_EQ(good_write(&dc, 9), IBV_WC_WR_FLUSH_ERR);
	ASSERT_EQ(reset_by_command(&dc, WITH_EXTENSION, true, 1, 0, 9), STATUS_OK);
	ASSERT_EQ(good_write(&dc, 9), IBV_WC_SUCCESS);
	ASSERT_EQ(ibv_modify_qp(dc.dci, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE), 0);
	ASSERT_EQ(reset_by_command(&dc, WITH_EXTENSION, true, 1, 0, 9), STATUS_BAD_QP_STATE);
	dc_deinit(&dc);
}
