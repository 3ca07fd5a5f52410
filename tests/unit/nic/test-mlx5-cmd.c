/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of the mlx5 backend against bytes written by hand. Each expectation is a list of the bytes that are not 0,
 * at their offsets in the command; all others must be 0.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/nic/mlx5/mlx5-cmd.h"
#include "tests/lib/test.h"

struct at {
	unsigned int offset;
	uint8_t bytes[16];
	unsigned int n;
};
#define AT(offset, ...) {offset, {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})}

#define ASSERT_COMMAND(cmd, ...)                                              \
	do {                                                                  \
		static const struct at at[] = {__VA_ARGS__};                  \
		assert_command(TEST_WHERE, cmd, at, sizeof(at) / sizeof(at[0])); \
	} while (0)

static void assert_command(const char *where, const struct mlx5_cmd *cmd, const struct at *at, size_t n)
{
	uint8_t expected[MLX5_CMD_MAX_IN] = {0};

	for (size_t i = 0; i < n; i++)
		memcpy(expected + at[i].offset, at[i].bytes, at[i].n);
	for (unsigned int i = 0; i < cmd->in_bytes; i++)
		if (cmd->in[i] != expected[i])
			test_fail(where, "byte 0x%x of the command is 0x%02x, not 0x%02x", i, cmd->in[i],
				  expected[i]);
}

static const struct mlx5_caps roce_caps = {
	.log_max_msg = 30,
	.log_max_ra_req_qp = 4,
	.log_max_ra_res_qp = 4,
	.log_max_ra_req_dc = 3,
	.link = NIC_LINK_ETHERNET,
	.ts_format = PRM_TS_DEFAULT,
	.atomic_mode = PRM_ATOMIC_UP_TO_8B,
	.atomic_mode_dc = PRM_ATOMIC_IB_SPEC,
	.udp_sport_min = 0xc000,
	.udp_sport_max = 0xc000,
};

static const struct mlx5_port roce_port = {
	.link = NIC_LINK_ETHERNET, .number = 1, .gid_index = 3, .gid = {0xfd}, .mtu_log2 = 12};

static const struct mlx5_port ib_port = {
	.link = NIC_LINK_INFINIBAND, .number = 2, .gid = {0xfe, 0x80}, .lid = 5, .mtu_log2 = 12};

static const struct nic_qp_params params = {
	.timeout = 14, .retry_count = 7, .rnr_retry = 6, .min_rnr_timer = 12, .max_rd_atomic = 16,
	.traffic_class = 0x68};

static const struct nic_qp rc = {
	.qpn = 0x012345,
	.type = NIC_QP_RC,
	.log2_sq_wqebbs = 10,
	.n_rq_wqes = 16,
	.log2_rq_stride = 6,
	.send_cqn = 0x000401,
	.recv_cqn = 0x000402,
	.access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC,
	.rq_offset = 0x3000,
	.sq_offset = 0x3400,
	.dbrec_offset = 0x21c0,
	.addr = {.psn = 0xaabbcc, .mtu_log2 = 12},
};

static const struct nic_qp dci = {
	.qpn = 0x54321,
	.type = NIC_QP_DCI,
	.log2_sq_wqebbs = 6,
	.send_cqn = 0x401,
	.recv_cqn = 0x401,
	.rq_offset = 0x1000,
	.sq_offset = 0x1000,
	.dbrec_offset = 0x2000,
	.addr = {.dc_key = 0x0102030405060708u},
};

static const struct nic_addr remote = {
	.qpn = 0x000bcd,
	.psn = 0x112233,
	.lid = 0xbeef,
	.mtu_log2 = 10,
	.gid = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2},
};

/* ---- CQs, keys, counters, capabilities ----------------------------------------------------------------------- */

TEST(a_cq_lies_in_queue_memory_with_its_flags)
{
	const struct nic_cq cq = {.log2_entries = 7, .ring_offset = 0x1000, .dbrec_offset = 0x2140};
	const struct nic_cq collapsed = {
		.log2_entries = 5, .flags = NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE, .dbrec_offset = 0x40};
	struct mlx5_cq_args args = {.cq = &cq, .umem_id = 0x2a, .uar_page = 0x1234, .eqn = 7};
	struct mlx5_cmd cmd;

	mlx5_cmd_create_cq(&cmd, &args);
	ASSERT_EQ(cmd.in_bytes, 272u);
	ASSERT_EQ(cmd.out_bytes, 16u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x04, 0x00), AT(0x10, 0x02), AT(0x17, 0x2a), AT(0x1c, 0x07, 0x00, 0x12, 0x34),
		       AT(0x27, 0x07), AT(0x4e, 0x21, 0x40), AT(0x56, 0x10, 0x00), AT(0x5b, 0x2a), AT(0x5c, 0x80));
	args.cq = &collapsed;
	mlx5_cmd_create_cq(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x04, 0x00), AT(0x10, 0x02, 0x12), AT(0x17, 0x2a),
		       AT(0x1c, 0x05, 0x00, 0x12, 0x34), AT(0x27, 0x07), AT(0x4f, 0x40), AT(0x5b, 0x2a),
		       AT(0x5c, 0x80));
	mlx5_cmd_query_cq(&cmd, 0x40102);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x04, 0x02), AT(0x09, 0x04, 0x01, 0x02));
}

TEST(counters_are_asked_for_by_their_number)
{
	struct mlx5_cmd cmd;

	mlx5_cmd_alloc_q_counter(&cmd);
	ASSERT_EQ(cmd.in_bytes, 16u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x07, 0x71));
	mlx5_cmd_query_q_counter(&cmd, 0x5a);
	ASSERT_EQ(cmd.in_bytes, 32u);
	ASSERT_EQ(cmd.out_bytes, 256u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x07, 0x73), AT(0x1f, 0x5a));
}

TEST(capabilities_decide_formats)
{
	static uint8_t general[PRM_QUERY_HCA_CAP_OUT_BYTES], atomic[PRM_QUERY_HCA_CAP_OUT_BYTES],
		roce[PRM_QUERY_HCA_CAP_OUT_BYTES];
	struct mlx5_caps caps;
	struct mlx5_cmd cmd;

	mlx5_cmd_query_cap(&cmd, PRM_CAP_ROCE);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x01, 0x00), AT(0x07, 0x09));
	general[16 + 0x13] = 18; /* log_max_qp */
	general[16 + 0x36] = 0x01; /* port_type */
	general[16 + 0x38] = 0x1e; /* log_max_msg */
	mlx5_caps_init(&caps, general, NULL, NULL);
	ASSERT_EQ(caps.log_max_qp, 18u);
	ASSERT_EQ(caps.log_max_msg, 30u);
	ASSERT_EQ(caps.link, NIC_LINK_ETHERNET);
	ASSERT_EQ(caps.atomic_mode, PRM_ATOMIC_NONE);
	ASSERT_EQ(caps.atomics, 0u);
	ASSERT_EQ(caps.ts_format, PRM_TS_FREE_RUNNING);
	ASSERT_EQ(caps.udp_sport_min, 0xc000u);
	ASSERT_EQ(caps.udp_sport_max, 0xffffu);
	atomic[16 + 0x13] = 0x0f; /* operations */
	atomic[16 + 0x17] = 0x0c; /* sizes of QPs */
	roce[16 + 0x03] = 0x02; /* qp_ts_format */
	roce[16 + 0x18] = 0xd0; /* r_roce_max_src_udp_port */
	roce[16 + 0x1a] = 0xc8; /* r_roce_min_src_udp_port */
	mlx5_caps_init(&caps, general, atomic, roce);
	ASSERT_EQ(caps.atomic_mode, PRM_ATOMIC_UP_TO_8B);
	ASSERT_EQ(caps.atomic_mode_dc, PRM_ATOMIC_IB_SPEC);
	ASSERT_EQ(caps.ts_format, PRM_TS_DEFAULT);
	ASSERT_EQ(caps.udp_sport_min, 0xc800u);
	ASSERT_EQ(caps.udp_sport_max, 0xd000u);
}

/* struct mlx5_ifc_atomic_caps_bits of Linux; what each bit of sizes and operations means is get_atomic_caps() of mlx5_ib. */
TEST(capabilities_tell_which_atomics_there_are)
{
	static uint8_t general[PRM_QUERY_HCA_CAP_OUT_BYTES], atomic[PRM_QUERY_HCA_CAP_OUT_BYTES];
	static const struct {
		uint8_t host_order, operations, sizes_qp, sizes_dc;
		uint32_t atomics, atomics_dc;
		enum prm_atomic_mode mode, mode_dc;
	} cases[] = {
		{1, 0x0f, 0x0c, 0x0c, NIC_ATOMIC_8 | NIC_ATOMIC_MASKED_4 | NIC_ATOMIC_MASKED_8,
		 NIC_ATOMIC_8 | NIC_ATOMIC_MASKED_4 | NIC_ATOMIC_MASKED_8, PRM_ATOMIC_UP_TO_8B, PRM_ATOMIC_UP_TO_8B},
		{1, 0x0f, 0x0c, 0x00, NIC_ATOMIC_8 | NIC_ATOMIC_MASKED_4 | NIC_ATOMIC_MASKED_8, NIC_ATOMIC_8,
		 PRM_ATOMIC_UP_TO_8B, PRM_ATOMIC_IB_SPEC},
		{0, 0x0f, 0x08, 0x04, NIC_ATOMIC_8 | NIC_ATOMIC_MASKED_8 | NIC_ATOMIC_RESULT_BE,
		 NIC_ATOMIC_8 | NIC_ATOMIC_MASKED_4 | NIC_ATOMIC_RESULT_BE, PRM_ATOMIC_UP_TO_8B, PRM_ATOMIC_UP_TO_8B},
		{1, 0x03, 0x0c, 0x0c, NIC_ATOMIC_8, NIC_ATOMIC_8, PRM_ATOMIC_IB_SPEC, PRM_ATOMIC_IB_SPEC},
		{1, 0x07, 0x0c, 0x0c, NIC_ATOMIC_8, NIC_ATOMIC_8, PRM_ATOMIC_IB_SPEC, PRM_ATOMIC_IB_SPEC},
		{0, 0x02, 0x0c, 0x0c, 0, 0, PRM_ATOMIC_NONE, PRM_ATOMIC_NONE}, /* fetch-add alone */
	};
	struct mlx5_caps caps;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		atomic[16 + 0x08] = (uint8_t)(cases[i].host_order << 6);
		atomic[16 + 0x13] = cases[i].operations;
		atomic[16 + 0x17] = cases[i].sizes_qp;
		atomic[16 + 0x1b] = cases[i].sizes_dc;
		mlx5_caps_init(&caps, general, atomic, NULL);
		ASSERT_EQ(caps.atomics, cases[i].atomics);
		ASSERT_EQ(caps.atomics_dc, cases[i].atomics_dc);
		ASSERT_EQ(caps.atomic_mode, cases[i].mode);
		ASSERT_EQ(caps.atomic_mode_dc, cases[i].mode_dc);
	}
}

/* ---- QPs ------------------------------------------------------------------------------------------------------- */

TEST(an_rc_qp_has_a_receive_ring_before_its_send_ring)
{
	const struct mlx5_qp_args args = {.qp = &rc, .caps = &roce_caps, .umem_id = 0x2a, .pdn = 0xabcdef,
					  .uar_page = 0x1234, .user_index = 0x55};
	struct mlx5_cmd cmd;

	mlx5_cmd_create_qp(&cmd, &args);
	ASSERT_EQ(cmd.in_bytes, 272u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x00), /* qpc from 0x18 on */
		       AT(0x1a, 0x18), AT(0x1d, 0xab, 0xcd, 0xef), AT(0x21, 0x22, 0x50, 0x40),
		       AT(0x26, 0x12, 0x34), AT(0x2b, 0x55), AT(0x96, 0x04, 0x01),
		       AT(0xb6, 0x04, 0x02), AT(0xbe, 0x21, 0xc0), AT(0xe8, 0x10), AT(0xff, 0x2a),
		       AT(0x106, 0x30, 0x00), AT(0x10b, 0x2a), AT(0x10c, 0x80));
}

TEST(a_qp_without_receive_ring_says_so)
{
	struct nic_qp qp = rc;
	const struct mlx5_qp_args args = {.qp = &qp, .caps = &roce_caps, .umem_id = 1, .pdn = 2, .uar_page = 3};
	struct mlx5_cmd cmd;

	qp.n_rq_wqes = 0;
	qp.log2_rq_stride = 0;
	qp.rq_offset = qp.sq_offset;
	mlx5_cmd_create_qp(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x00), AT(0x1a, 0x18), AT(0x1f, 0x02), AT(0x22, 0x50, 0x40),
		       AT(0x27, 0x03), AT(0x96, 0x04, 0x01), AT(0xb6, 0x04, 0x02), AT(0xbe, 0x21, 0xc0),
		       AT(0xc4, 0x03), AT(0xe8, 0x10), AT(0xff, 0x01), AT(0x106, 0x34, 0x00), AT(0x10b, 0x01),
		       AT(0x10c, 0x80));
}

TEST(a_dci_is_recognized_by_its_service)
{
	const struct mlx5_qp_args args = {.qp = &dci, .caps = &roce_caps, .umem_id = 1, .pdn = 2, .uar_page = 3};
	struct mlx5_cmd cmd;

	mlx5_cmd_create_qp(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x00), AT(0x19, 0x05, 0x18), AT(0x1f, 0x02), AT(0x22, 0x30, 0x40),
		       AT(0x27, 0x03), AT(0x96, 0x04, 0x01), AT(0xb6, 0x04, 0x01), AT(0xbe, 0x20, 0x00),
		       AT(0xc4, 0x03), AT(0xe8, 0x10), AT(0xff, 0x01), AT(0x106, 0x10, 0x00), AT(0x10b, 0x01),
		       AT(0x10c, 0x80));
}

TEST(the_way_to_rts_over_roce)
{
	const struct mlx5_connect_args args = {.qp = &rc, .remote = &remote, .params = &params, .port = &roce_port,
					       .caps = &roce_caps, .counter_set_id = 9,
					       .next_hop_mac = {0x02, 0, 0, 0, 0, 0x07}};
	struct mlx5_cmd cmd;

	mlx5_cmd_rst2init(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x02), AT(0x09, 0x01, 0x23, 0x45), AT(0x1a, 0x18), AT(0x24, 0x09),
		       AT(0x55, 0x01), AT(0xa9, 0x03, 0xe0));
	mlx5_cmd_init2rtr(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x03), AT(0x09, 0x01, 0x23, 0x45), /* mtu 1024 of the peer */
		       AT(0x20, 0x7e), AT(0x2d, 0x00, 0x0b, 0xcd), /* ads from 0x30 on */
		       AT(0x39, 0x03, 0x00, 0x40), AT(0x3c, 0x06, 0x80), AT(0x4a, 0xff, 0xff, 0x0a, 0x00, 0x00, 0x02),
		       AT(0x51, 0x1a, 0xc0, 0x00), AT(0x55, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x07),
		       AT(0xa9, 0x83, 0xe0), AT(0xac, 0x0c, 0x11, 0x22, 0x33));
	mlx5_cmd_rtr2rts(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x04), AT(0x09, 0x01, 0x23, 0x45), AT(0x38, 0x70),
		       AT(0x89, 0x87, 0xc0), AT(0x91, 0xaa, 0xbb, 0xcc));
}

TEST(infiniband_paths_have_a_grh_only_between_subnets)
{
	struct mlx5_port demanding = ib_port;
	struct nic_addr near = remote;
	struct mlx5_connect_args args = {.qp = &rc, .remote = &near, .params = &params, .port = &ib_port,
					 .caps = &roce_caps};
	struct mlx5_cmd cmd;

	memcpy(near.gid, ib_port.gid, 8);
	mlx5_cmd_init2rtr(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x03), AT(0x09, 0x01, 0x23, 0x45), AT(0x20, 0x7e),
		       AT(0x2d, 0x00, 0x0b, 0xcd), AT(0x36, 0xbe, 0xef), AT(0x3c, 0x06, 0x80), AT(0x55, 0x02),
		       AT(0xa9, 0x83, 0xe0), AT(0xac, 0x0c, 0x11, 0x22, 0x33));
	args.remote = &remote;
	mlx5_cmd_init2rtr(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x03), AT(0x09, 0x01, 0x23, 0x45), AT(0x20, 0x7e),
		       AT(0x2d, 0x00, 0x0b, 0xcd), AT(0x35, 0x80, 0xbe, 0xef), AT(0x3b, 0x40), AT(0x3c, 0x06, 0x80),
		       AT(0x4a, 0xff, 0xff, 0x0a, 0x00, 0x00, 0x02), AT(0x55, 0x02), AT(0xa9, 0x83, 0xe0),
		       AT(0xac, 0x0c, 0x11, 0x22, 0x33));
	/* Within a subnet whose ports demand it as well. */
	ASSERT(!mlx5_needs_grh(&ib_port, &near));
	demanding.demands_grh = true;
	ASSERT(mlx5_needs_grh(&demanding, &near));
}

TEST(a_dci_goes_to_rts_without_a_peer)
{
	const struct mlx5_connect_args args = {.qp = &dci, .params = &params, .port = &roce_port, .caps = &roce_caps,
					       .counter_set_id = 9};
	struct mlx5_cmd cmd;

	mlx5_cmd_rst2init(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x02), AT(0x09, 0x05, 0x43, 0x21), AT(0x1a, 0x18), AT(0x24, 0x09), AT(0x55, 0x01),
		       AT(0xe0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08));
	mlx5_cmd_init2rtr(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x03), AT(0x09, 0x05, 0x43, 0x21), AT(0x13, 0x04), AT(0x20, 0xbe),
		       AT(0x3c, 0x06, 0x80), AT(0x51, 0x1a), AT(0x55, 0x01), AT(0xa9, 0x01, 0x20));
	mlx5_cmd_rtr2rts(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x04), AT(0x09, 0x05, 0x43, 0x21), AT(0x38, 0x70), AT(0x89, 0x67, 0xc0));
}

TEST(atomics_are_requested_only_of_a_nic_that_has_them)
{
	struct mlx5_caps caps = roce_caps;
	const struct mlx5_connect_args args = {.qp = &rc, .params = &params, .port = &roce_port, .caps = &caps};
	struct mlx5_cmd cmd;

	caps.atomic_mode = PRM_ATOMIC_NONE;
	mlx5_cmd_rst2init(&cmd, &args);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x02), AT(0x09, 0x01, 0x23, 0x45), AT(0x1a, 0x18), AT(0x55, 0x01),
		       AT(0xa9, 0x00, 0xc0));
}

TEST(other_transitions_name_the_qp_only)
{
	struct mlx5_cmd cmd;

	mlx5_cmd_qp(&cmd, PRM_OP_2ERR_QP, 0x12345);
	ASSERT_EQ(cmd.in_bytes, 16u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x07), AT(0x09, 0x01, 0x23, 0x45));
	mlx5_cmd_qp(&cmd, PRM_OP_SQD2RTS_QP, 0x12345);
	ASSERT_EQ(cmd.in_bytes, 272u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x0c), AT(0x09, 0x01, 0x23, 0x45));
	mlx5_cmd_query_qp(&cmd, 0x12345);
	ASSERT_EQ(cmd.out_bytes, 272u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x05, 0x0b), AT(0x09, 0x01, 0x23, 0x45));
}

TEST(a_query_tells_state_peer_and_indexes)
{
	uint8_t out[PRM_QUERY_QP_OUT_BYTES] = {0}, *qpc = out + 0x18;
	struct nic_qp_info info;

	qpc[0x00] = 0x60; /* ERR */
	qpc[0x15] = 0x01; /* remote_qpn 0x10203 */
	qpc[0x16] = 0x02;
	qpc[0x17] = 0x03;
	qpc[0xb5] = 0x11; /* hw_sq_wqebb_counter */
	qpc[0xb7] = 0x22; /* sw_sq_wqebb_counter */
	qpc[0xbb] = 0x33; /* hw_rq_counter */
	qpc[0xbf] = 0x44; /* sw_rq_counter */
	mlx5_qp_info_init(&info, out);
	ASSERT_EQ(info.state, NIC_QPS_ERR);
	ASSERT_EQ(info.dest_qpn, 0x10203u);
	ASSERT_EQ(info.sq_ci, 0x11u);
	ASSERT_EQ(info.sq_pi, 0x22u);
	ASSERT_EQ(info.rq_ci, 0x33u);
	ASSERT_EQ(info.rq_pi, 0x44u);
}

TEST(a_pool_of_receives_for_dcts)
{
	struct mlx5_cmd cmd;

	mlx5_cmd_create_rmp(&cmd, 0x2a, 0x21);
	ASSERT_EQ(cmd.in_bytes, 272u);
	/* Ready; PD; record at 1024; WQEs of 32 bytes, two of them; both in the umem, whose offset is 0. */
	ASSERT_COMMAND(&cmd, AT(0x00, 0x09, 0x0c), AT(0x21, 0x10), AT(0x5b, 0x21), AT(0x66, 0x04), AT(0x71, 0x05),
		       AT(0x73, 0x01), AT(0x74, 0xc0), AT(0x7b, 0x2a), AT(0x7f, 0x2a));
}

TEST(a_dct_by_hand)
{
	const struct nic_qp dct = {.type = NIC_QP_DCT, .recv_cqn = 0x401, .access = rc.access,
				   .addr = {.dc_key = 0x0102030405060708u}};
	const struct mlx5_dct_args args = {.qp = &dct, .params = &params, .port = &roce_port, .caps = &roce_caps,
					   .pdn = 0x21, .srqn = 0x203, .user_index = 0x11, .counter_set_id = 5};
	struct mlx5_cmd cmd;

	mlx5_cmd_create_dct(&cmd, &args);
	ASSERT_EQ(cmd.in_bytes, 176u);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x07, 0x10), AT(0x17, 0x11), AT(0x1a, 0x04, 0x01), AT(0x1c, 0x05, 0x1e),
		       AT(0x22, 0x0c), AT(0x26, 0x02, 0x03), AT(0x2b, 0x21), AT(0x2c, 0x68),
		       AT(0x30, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08), AT(0x38, 0x05, 0x01),
		       AT(0x3d, 0x03, 0x00, 0x40), AT(0x47, 0x1a));
	mlx5_cmd_dct(&cmd, PRM_OP_DRAIN_DCT, 0x40506);
	ASSERT_COMMAND(&cmd, AT(0x00, 0x07, 0x12), AT(0x09, 0x04, 0x05, 0x06));
}

TEST(udp_source_ports_are_spread_and_stable)
{
	const struct mlx5_caps caps = {.udp_sport_min = 0xc000, .udp_sport_max = 0xffff};
	const struct mlx5_caps few = {.udp_sport_min = 0xfffe, .udp_sport_max = 0xffff};
	uint8_t seen[0x4000] = {0};
	unsigned int n = 0;

	for (uint32_t i = 0; i < 1024; i++) {
		uint16_t port = mlx5_udp_sport(&caps, 0x1000 + i, 0x2000 + i);

		ASSERT_GE(port, 0xc000u);
		ASSERT_EQ(port, mlx5_udp_sport(&caps, 0x1000 + i, 0x2000 + i));
		ASSERT_GE(mlx5_udp_sport(&few, i, i), 0xfffeu);
		n += !seen[port - 0xc000];
		seen[port - 0xc000] = 1;
	}
	/* By chance alone 1024 draws of 16384 hit 993 different ones. */
	ASSERT_GT(n, 900u);
}

/* ---- in words ---------------------------------------------------------------------------------------------------- */

TEST(a_command_in_words_has_every_bit)
{
	const struct mlx5_connect_args args = {.qp = &dci, .params = &params, .port = &roce_port, .caps = &roce_caps};
	struct mlx5_cmd cmd;
	char text[8192], all[16384];

	mlx5_cmd_init2rtr(&cmd, &args);
	cmd.in[0x14] = 0x80;
	ASSERT_LT(mlx5_cmd_dump(text, sizeof(text), cmd.in, cmd.in_bytes, 0), (int)sizeof(text));
	ASSERT_STREQ(text, "INIT2RTR_QP in, 272 bytes\n"
			   "  0x000/16   OPCODE = 0x503\n"
			   "  0x048/24   QPN = 0x54321\n"
			   "  0x080/32   OPT_PARAM_MASK = 0x4\n"
			   "  0x0a0/32   ECE = 0x80000000\n"
			   "  0x100/3    QPC.MTU = 0x5\n"
			   "  0x103/5    QPC.LOG_MSG_MAX = 0x1e\n"
			   "  0x1e4/8    QPC.PATH.TCLASS = 0x68\n"
			   "  0x28a/6    QPC.PATH.DSCP = 0x1a\n"
			   "  0x2a8/8    QPC.PATH.PORT = 0x1\n"
			   "  0x54c/4    QPC.ATOMIC_MODE = 0x1\n"
			   "  0x552/1    QPC.RAE = 0x1\n");
	cmd.in[0x0c] = 0x01;
	mlx5_cmd_dump(text, sizeof(text), cmd.in, cmd.in_bytes, 0);
	ASSERT(strstr(text, "  0x060/32   in no field = 0x1000000\n"));
	mlx5_cmd_dump(all, sizeof(all), cmd.in, cmd.in_bytes, MLX5_DUMP_ALL);
	ASSERT(strstr(all, "  0x200/128  QPC.PATH.RGID = 00000000000000000000000000000000\n"));
	ASSERT(strstr(all, "QPC.Q_KEY = 0x0\n"));
}

TEST(an_answer_in_words_tells_its_status)
{
	uint8_t out[16] = {0x10, 0, 0, 0, 0x00, 0x12, 0x34, 0x56};
	static uint8_t cap[PRM_QUERY_HCA_CAP_OUT_BYTES];
	char text[1024];

	mlx5_out_dump(text, sizeof(text), PRM_OP_INIT2RTR_QP, 0, out, sizeof(out), 0);
	ASSERT_STREQ(text, "INIT2RTR_QP out, 16 bytes: QP is in the wrong state\n"
			   "  0x000/8    STATUS = 0x10\n"
			   "  0x020/32   SYNDROME = 0x123456\n");
	cap[16 + 0x1a] = 0x1c;
	mlx5_out_dump(text, sizeof(text), PRM_OP_QUERY_HCA_CAP, PRM_CAP_ROCE << 1 | 1, cap, sizeof(cap), 0);
	ASSERT_STREQ(text, "QUERY_HCA_CAP out, 4112 bytes: ok\n"
			   "  0x150/16   CAP.MIN_SRC_UDP_PORT = 0x1c00\n");
}

TEST(short_and_unknown_bytes_are_shown_as_they_are)
{
	const uint8_t unknown[] = {0x0f, 0xff, 0, 0, 0, 0, 0, 1};
	char text[256];

	mlx5_cmd_dump(text, sizeof(text), unknown, 1, 0);
	ASSERT_STREQ(text, "unknown command in, 1 bytes\n");
	mlx5_cmd_dump(text, sizeof(text), unknown, sizeof(unknown), 0);
	ASSERT_STREQ(text, "unknown command in, 8 bytes\n"
			   "  0x000/16   OPCODE = 0xfff\n"
			   "  0x030/16   OP_MOD = 0x1\n");
	ASSERT_GT(mlx5_cmd_dump(text, 8, unknown, sizeof(unknown), 0), 60);
	ASSERT_STREQ(text, "unknown");
}
