/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of firmware commands: accessors against bytes written by hand, tables against themselves. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/nic/mlx5/prm.h"
#include "tests/lib/test.h"

/* ---- accessors ----------------------------------------------------------------------------------------------- */

TEST(a_field_within_a_byte)
{
	uint8_t buf[4] = {0xff, 0xff, 0xff, 0xff};

	prm_set(buf, PRM_AT(11, 1), 0);
	ASSERT_MEMEQ(buf, ((uint8_t[]){0xff, 0xef, 0xff, 0xff}), 4);
	prm_set(buf, PRM_AT(0, 4), 0x6);
	ASSERT_MEMEQ(buf, ((uint8_t[]){0x6f, 0xef, 0xff, 0xff}), 4);
	ASSERT_EQ(prm_get(buf, PRM_AT(0, 4)), 0x6u);
	ASSERT_EQ(prm_get(buf, PRM_AT(11, 1)), 0u);
}

TEST(a_field_across_bytes)
{
	uint8_t buf[4] = {0};

	prm_set(buf, PRM_AT(4, 12), 0xabc);
	ASSERT_MEMEQ(buf, ((uint8_t[]){0x0a, 0xbc, 0, 0}), 4);
	prm_set(buf, PRM_AT(12, 13), 0x1fff);
	ASSERT_MEMEQ(buf, ((uint8_t[]){0x0a, 0xbf, 0xff, 0x80}), 4);
	ASSERT_EQ(prm_get(buf, PRM_AT(4, 12)), 0xabfu);
	ASSERT_EQ(prm_get(buf, PRM_AT(11, 15)), 0x7ffeu);
}

TEST(a_field_of_64_bits_at_any_bit)
{
	uint8_t buf[9] = {0};

	prm_set(buf, PRM_AT(0, 64), 0x0123456789abcdefu);
	ASSERT_MEMEQ(buf, ((uint8_t[]){0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0}), 9);
	memset(buf, 0, sizeof(buf));
	prm_set(buf, PRM_AT(4, 64), 0x0123456789abcdefu);
	ASSERT_MEMEQ(buf, ((uint8_t[]){0x00, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0}), 9);
	ASSERT_EQ(prm_get(buf, PRM_AT(4, 64)), 0x0123456789abcdefu);
}

TEST(fields_of_bytes)
{
	uint8_t buf[6] = {0}, got[3];

	prm_set_bytes(buf, PRM_AT(16, 24), "\x11\x22\x33");
	ASSERT_MEMEQ(buf, ((uint8_t[]){0, 0, 0x11, 0x22, 0x33, 0}), 6);
	prm_get_bytes(buf, PRM_AT(16, 24), got);
	ASSERT_MEMEQ(got, "\x11\x22\x33", 3);
}

static int signal_of(void (*act)(void))
{
	struct rlimit no_core = {0};
	int status;
	pid_t pid = fork();

	ASSERT(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		act();
		_exit(0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void set_too_long(void)
{
	uint8_t buf[PRM_QPC_BYTES] = {0};

	prm_set(buf, PRM_QPC_PD, 1u << 24);
}

static void set_longest(void)
{
	uint8_t buf[PRM_QPC_BYTES] = {0};

	prm_set(buf, PRM_QPC_PD, (1u << 24) - 1);
}

static void set_structure(void)
{
	uint8_t buf[PRM_QPC_BYTES] = {0};

	prm_set(buf, PRM_QPC_PATH, 0);
}

static void set_unaligned_bytes(void)
{
	uint8_t buf[4] = {0};

	prm_set_bytes(buf, PRM_AT(4, 8), "x");
}

TEST(value_that_does_not_fit_its_field_is_a_bug)
{
	ASSERT_EQ(signal_of(set_longest), 0);
	ASSERT_EQ(signal_of(set_too_long), SIGABRT);
	ASSERT_EQ(signal_of(set_structure), SIGABRT);
	ASSERT_EQ(signal_of(set_unaligned_bytes), SIGABRT);
}

/* ---- encodings written out by hand ------------------------------------------------------------------------------- */

static void assert_zero(const uint8_t *bytes, size_t from, size_t to)
{
	for (; from < to; from++)
		ASSERT_EQ(bytes[from], 0);
}

TEST(create_cq_by_hand)
{
	static const uint8_t head[] = {0x04, 0x00, 0x00, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	static const uint8_t cqc[] = {
		0x02, 0x12, 0x00, 0x00, /* dbr_umem_valid, cc, oi */
		0x00, 0x00, 0x00, 0x2a, /* dbr_umem_id */
		0x00, 0x00, 0x00, 0x00, /**/
		0x0c, 0x00, 0x12, 0x34, /* log_cq_size 12, uar_page 0x1234 */
		0x00, 0x00, 0x00, 0x00, /**/
		0x00, 0x00, 0x00, 0x07, /* eqn */
	};
	uint8_t in[PRM_CREATE_CQ_IN_BYTES] = {0};

	prm_set(in, PRM_IN_OPCODE, PRM_OP_CREATE_CQ);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_DBR_UMEM_VALID, 1);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_CC, 1);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_OI, 1);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_DBR_UMEM_ID, 0x2a);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_LOG_CQ_SIZE, 12);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_UAR_PAGE, 0x1234);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_EQN, 7);
	prm_set(in, PRM_CREATE_CQ_IN_CQC + PRM_CQC_DBR_ADDR, 0x140);
	prm_set(in, PRM_CREATE_CQ_IN_UMEM_OFFSET, 0x1000);
	prm_set(in, PRM_CREATE_CQ_IN_UMEM_ID, 0x2b);
	prm_set(in, PRM_CREATE_CQ_IN_UMEM_VALID, 1);

	ASSERT_EQ(sizeof(in), 272u);
	ASSERT_MEMEQ(in, head, sizeof(head));
	ASSERT_MEMEQ(in + 16, cqc, sizeof(cqc));
	assert_zero(in, 16 + sizeof(cqc), 72);
	ASSERT_MEMEQ(in + 72, ((uint8_t[]){0, 0, 0, 0, 0, 0, 0x01, 0x40}), 8);
	ASSERT_MEMEQ(in + 80, ((uint8_t[]){0, 0, 0, 0, 0, 0, 0x10, 0x00}), 8);
	ASSERT_MEMEQ(in + 88, ((uint8_t[]){0, 0, 0, 0x2b, 0x80, 0, 0, 0}), 8);
	assert_zero(in, 96, sizeof(in));
}

TEST(create_qp_by_hand)
{
	static const uint8_t qpc[] = {
		0x00, 0x05, 0x18, 0x00, /* st DCI, pm_state 3 */
		0x00, 0xab, 0xcd, 0xef, /* pd */
		0x00, 0x22, 0x50, 0x50, /* log_rq_size 4, stride 2, log_sq_size 10, ts_format 1, rlkey */
		0x09, 0x00, 0x12, 0x34, /* counter_set_id, uar_page */
		0x00, 0x00, 0x00, 0x55, /* user_index */
	};
	uint8_t in[PRM_CREATE_QP_IN_BYTES] = {0}, *q = in + 24;

	prm_set(in, PRM_IN_OPCODE, PRM_OP_CREATE_QP);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_ST, PRM_ST_DCI);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_PM_STATE, PRM_PM_MIGRATED);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_PD, 0xabcdef);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_LOG_RQ_SIZE, 4);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_LOG_RQ_STRIDE, 2);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_LOG_SQ_SIZE, 10);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_TS_FORMAT, PRM_TS_DEFAULT);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_RLKEY, 1);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_COUNTER_SET_ID, 9);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_UAR_PAGE, 0x1234);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_USER_INDEX, 0x55);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_CQN_SND, 0x010203);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_CQN_RCV, 0x040506);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_RQ_TYPE, PRM_RQ_NONE);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_DBR_ADDR, 0x1fc0);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_DBR_UMEM_VALID, 1);
	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_DBR_UMEM_ID, 0x77);
	prm_set(in, PRM_CREATE_QP_IN_UMEM_ID, 0x78);
	prm_set(in, PRM_CREATE_QP_IN_UMEM_VALID, 1);

	ASSERT_EQ(sizeof(in), 272u);
	ASSERT_MEMEQ(in, ((uint8_t[]){0x05, 0x00, 0, 0, 0, 0, 0, 0}), 8);
	ASSERT_MEMEQ(q, qpc, sizeof(qpc));
	ASSERT_MEMEQ(q + 0x7c, ((uint8_t[]){0, 0x01, 0x02, 0x03}), 4);
	ASSERT_MEMEQ(q + 0x9c, ((uint8_t[]){0, 0x04, 0x05, 0x06}), 4);
	ASSERT_MEMEQ(q + 0xa0, ((uint8_t[]){0, 0, 0, 0, 0, 0, 0x1f, 0xc0}), 8);
	ASSERT_MEMEQ(q + 0xac, ((uint8_t[]){0x03, 0, 0, 0}), 4);
	ASSERT_MEMEQ(q + 0xd0, ((uint8_t[]){0x10, 0, 0, 0}), 4);
	ASSERT_MEMEQ(q + 0xe4, ((uint8_t[]){0, 0, 0, 0x77}), 4);
	ASSERT_MEMEQ(in + 0x108, ((uint8_t[]){0, 0, 0, 0x78, 0x80, 0, 0, 0}), 8);
}

TEST(init2rtr_by_hand)
{
	static const uint8_t path[] = {
		0x00, 0x00, 0x00, 0x00, /* pkey_index */
		0x00, 0x00, 0x00, 0x00, /* grh, mlid, rlid */
		0x70, 0x03, 0x00, 0x40, /* ack_timeout 14, src_addr_index 3, hop_limit 64 */
		0x06, 0x80, 0x00, 0x00, /* tclass 0x68 */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* rgid */
		0x00, 0x00, 0xff, 0xff, 0x0a, 0x00, 0x00, 0x02, /**/
		0x00, 0x1a, 0xc1, 0x23, /* dscp 26, udp_sport */
		0x33, 0x01, 0x02, 0x00, /* eth_prio 3, sl 3, port 1, rmac */
		0x00, 0x00, 0x00, 0x07, /**/
	};
	static const uint8_t rgid[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2};
	static const uint8_t rmac[6] = {0x02, 0, 0, 0, 0, 0x07};
	const uint32_t q = PRM_MODIFY_QP_IN_QPC, p = q + PRM_QPC_PATH;
	uint8_t in[PRM_MODIFY_QP_IN_BYTES] = {0};

	prm_set(in, PRM_IN_OPCODE, PRM_OP_INIT2RTR_QP);
	prm_set(in, PRM_MODIFY_QP_IN_QPN, 0x012345);
	prm_set(in, q + PRM_QPC_MTU, 5);
	prm_set(in, q + PRM_QPC_LOG_MSG_MAX, 30);
	prm_set(in, q + PRM_QPC_REMOTE_QPN, 0x000bcd);
	prm_set(in, p + PRM_ADS_ACK_TIMEOUT, 14);
	prm_set(in, p + PRM_ADS_SRC_ADDR_INDEX, 3);
	prm_set(in, p + PRM_ADS_HOP_LIMIT, 64);
	prm_set(in, p + PRM_ADS_TCLASS, 0x68);
	prm_set_bytes(in, p + PRM_ADS_RGID, rgid);
	prm_set(in, p + PRM_ADS_DSCP, 26);
	prm_set(in, p + PRM_ADS_UDP_SPORT, 0xc123);
	prm_set(in, p + PRM_ADS_ETH_PRIO, 3);
	prm_set(in, p + PRM_ADS_SL, 3);
	prm_set(in, p + PRM_ADS_PORT, 1);
	prm_set_bytes(in, p + PRM_ADS_RMAC, rmac);
	prm_set(in, q + PRM_QPC_LOG_RRA_MAX, 4);
	prm_set(in, q + PRM_QPC_ATOMIC_MODE, PRM_ATOMIC_UP_TO_8B);
	prm_set(in, q + PRM_QPC_RRE, 1);
	prm_set(in, q + PRM_QPC_RWE, 1);
	prm_set(in, q + PRM_QPC_RAE, 1);
	prm_set(in, q + PRM_QPC_MIN_RNR_NAK, 12);
	prm_set(in, q + PRM_QPC_NEXT_RCV_PSN, 0x112233);

	ASSERT_MEMEQ(in, ((uint8_t[]){0x05, 0x03, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x23, 0x45}), 12);
	ASSERT_MEMEQ(in + 24 + 8, ((uint8_t[]){0xbe, 0, 0, 0}), 4);
	ASSERT_MEMEQ(in + 24 + 0x14, ((uint8_t[]){0, 0, 0x0b, 0xcd}), 4);
	ASSERT_MEMEQ(in + 24 + 0x18, path, sizeof(path));
	ASSERT_MEMEQ(in + 24 + 0x90, ((uint8_t[]){0x00, 0x83, 0xe0, 0x00}), 4);
	ASSERT_MEMEQ(in + 24 + 0x94, ((uint8_t[]){0x0c, 0x11, 0x22, 0x33}), 4);
}

TEST(infiniband_path_and_send_side_by_hand)
{
	const uint32_t q = PRM_MODIFY_QP_IN_QPC, p = q + PRM_QPC_PATH;
	uint8_t in[PRM_MODIFY_QP_IN_BYTES] = {0};

	prm_set(in, p + PRM_ADS_PKEY_INDEX, 2);
	prm_set(in, p + PRM_ADS_GRH, 1);
	prm_set(in, p + PRM_ADS_MLID, 0x15);
	prm_set(in, p + PRM_ADS_RLID, 0xbeef);
	prm_set(in, q + PRM_QPC_LOG_ACK_REQ_FREQ, 8);
	prm_set(in, q + PRM_QPC_LOG_SRA_MAX, 4);
	prm_set(in, q + PRM_QPC_RETRY_COUNT, 7);
	prm_set(in, q + PRM_QPC_RNR_RETRY, 6);
	prm_set(in, q + PRM_QPC_NEXT_SEND_PSN, 0xaabbcc);

	ASSERT_MEMEQ(in + 24 + 0x18, ((uint8_t[]){0, 0, 0, 2, 0, 0x95, 0xbe, 0xef}), 8);
	ASSERT_MEMEQ(in + 24 + 0x70, ((uint8_t[]){0x80, 0x87, 0xc0, 0x00}), 4);
	ASSERT_MEMEQ(in + 24 + 0x78, ((uint8_t[]){0, 0xaa, 0xbb, 0xcc}), 4);
}

TEST(create_dct_by_hand)
{
	static const uint8_t dctc[] = {
		0x00, 0x00, 0x00, 0x00, /* state */
		0x00, 0x00, 0x00, 0x11, /* user_index */
		0x00, 0x00, 0x04, 0x01, /* cqn */
		0x05, 0x3e, 0x00, 0x00, /* counter_set_id, atomic_mode 3, rre rwe rae */
		0x00, 0x00, 0x0c, 0x00, /* cs_res, min_rnr_nak 12 */
		0x00, 0x00, 0x02, 0x03, /* srqn */
		0x00, 0x00, 0x00, 0x21, /* pd */
		0x68, 0x00, 0x00, 0x00, /* tclass */
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* dc_access_key */
		0x05, 0x01, 0x00, 0x00, /* mtu 5, port 1, pkey_index */
		0x00, 0x03, 0x00, 0x40, /* my_addr_index, hop_limit */
	};
	const uint32_t d = PRM_CREATE_DCT_IN_DCTC;
	uint8_t in[PRM_CREATE_DCT_IN_BYTES] = {0};

	prm_set(in, d + PRM_DCTC_USER_INDEX, 0x11);
	prm_set(in, d + PRM_DCTC_CQN, 0x401);
	prm_set(in, d + PRM_DCTC_COUNTER_SET_ID, 5);
	prm_set(in, d + PRM_DCTC_ATOMIC_MODE, PRM_ATOMIC_UP_TO_8B);
	prm_set(in, d + PRM_DCTC_RRE, 1);
	prm_set(in, d + PRM_DCTC_RWE, 1);
	prm_set(in, d + PRM_DCTC_RAE, 1);
	prm_set(in, d + PRM_DCTC_MIN_RNR_NAK, 12);
	prm_set(in, d + PRM_DCTC_SRQN, 0x203);
	prm_set(in, d + PRM_DCTC_PD, 0x21);
	prm_set(in, d + PRM_DCTC_TCLASS, 0x68);
	prm_set(in, d + PRM_DCTC_DC_ACCESS_KEY, 0x0102030405060708u);
	prm_set(in, d + PRM_DCTC_MTU, 5);
	prm_set(in, d + PRM_DCTC_PORT, 1);
	prm_set(in, d + PRM_DCTC_MY_ADDR_INDEX, 3);
	prm_set(in, d + PRM_DCTC_HOP_LIMIT, 64);
	ASSERT_MEMEQ(in + 16, dctc, sizeof(dctc));
}

TEST(create_mkey_by_hand)
{
	static const uint8_t mkc[] = {
		0x00, 0x00, 0x5d, 0x00, /* a, rr, lw, lr, MTT */
		0xff, 0xff, 0xff, 0x42, /* qpn any, mkey_7_0 */
		0x00, 0x00, 0x00, 0x00, /**/
		0x00, 0x00, 0x00, 0x09, /* pd */
		0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00, /* start_addr */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, /* len */
	};
	const uint32_t m = PRM_CREATE_MKEY_IN_MKC;
	uint8_t in[PRM_CREATE_MKEY_IN_BYTES] = {0};

	prm_set(in, m + PRM_MKC_A, 1);
	prm_set(in, m + PRM_MKC_RR, 1);
	prm_set(in, m + PRM_MKC_LW, 1);
	prm_set(in, m + PRM_MKC_LR, 1);
	prm_set(in, m + PRM_MKC_ACCESS_MODE_1_0, 1 /* over pages */);
	prm_set(in, m + PRM_MKC_QPN, 0xffffff);
	prm_set(in, m + PRM_MKC_MKEY_7_0, 0x42);
	prm_set(in, m + PRM_MKC_PD, 9);
	prm_set(in, m + PRM_MKC_START_ADDR, 0x7f0000001000u);
	prm_set(in, m + PRM_MKC_LEN, 0x200000);
	prm_set(in, m + PRM_MKC_TRANSLATION_OCTWORDS, 256);
	prm_set(in, m + PRM_MKC_LOG_PAGE_SIZE, 12);
	ASSERT_MEMEQ(in + 16, mkc, sizeof(mkc));
	ASSERT_MEMEQ(in + 16 + 0x34, ((uint8_t[]){0, 0, 0x01, 0x00, 0, 0, 0, 0x0c}), 8);
}

TEST(capabilities_by_hand)
{
	uint8_t out[PRM_QUERY_HCA_CAP_OUT_BYTES] = {0}, *cap = out + 16;
	const uint32_t c = PRM_QUERY_HCA_CAP_OUT_CAP;

	cap[0x13] = 0x12; /* log_max_qp */
	cap[0x1b] = 0x18; /* log_max_cq */
	cap[0x36] = 0x01; /* port_type Ethernet */
	cap[0x37] = 0x02; /* num_ports */
	cap[0x43] = 0x26; /* dct, roce, atomic */
	cap[0x4d] = 0x09; /* log_bf_reg_size */
	cap[0x52] = 0x04; /* max_wqe_sz_sq 1024 */
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_LOG_MAX_QP), 18u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_LOG_MAX_CQ), 24u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_PORT_TYPE), PRM_PORT_ETHERNET);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_NUM_PORTS), 2u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_DCT), 1u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_ROCE), 1u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_ATOMIC), 1u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_ETH_NET_OFFLOADS), 0u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_LOG_BF_REG_SIZE), 9u);
	ASSERT_EQ(prm_get(out, c + PRM_HCA_CAP_MAX_WQE_SZ_SQ), 1024u);
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

static uint32_t field_bits(const struct prm_field *field)
{
	return field->inner ? field->inner->n_bits : PRM_WIDTH(field->at);
}

/* Marks the bits of a field and fails when one is taken. */
static void take(uint8_t *taken, const struct prm_struct *s, const char *name, uint32_t bit, uint32_t n)
{
	for (; n > 0; n--, bit++) {
		if (bit >= s->n_bits || taken[bit / 8] & 1 << bit % 8)
			test_fail(TEST_WHERE, "%s.%s: bit 0x%x is %s", s->name, name, bit,
				  bit >= s->n_bits ? "outside" : "taken");
		taken[bit / 8] |= (uint8_t)(1 << bit % 8);
	}
}

static void take_head(uint8_t *taken, const struct prm_struct *s)
{
	static const uint32_t in[] = {PRM_IN_OPCODE, PRM_IN_UID, PRM_IN_OP_MOD};
	static const uint32_t out[] = {PRM_OUT_STATUS, PRM_OUT_SYNDROME};

	for (size_t i = 0; s->kind == PRM_KIND_IN && i < 3; i++)
		take(taken, s, "head", PRM_BIT(in[i]), PRM_WIDTH(in[i]));
	for (size_t i = 0; s->kind == PRM_KIND_OUT && i < 2; i++)
		take(taken, s, "head", PRM_BIT(out[i]), PRM_WIDTH(out[i]));
}

TEST(fields_lie_in_their_structure_and_none_overlaps)
{
	ASSERT_GT(prm_n_structs, 40u);
	for (size_t i = 0; i < prm_n_structs; i++) {
		const struct prm_struct *s = prm_structs[i];
		uint8_t *taken = calloc(1, s->n_bits / 8);

		ASSERT(taken);
		ASSERT_EQ(s->n_bits % 32, 0u);
		ASSERT_GT(strlen(s->source), 4u);
		take_head(taken, s);
		for (uint32_t j = 0; j < s->n_fields; j++)
			take(taken, s, s->fields[j].name, PRM_BIT(s->fields[j].at),
			     field_bits(&s->fields[j]));
		free(taken);
	}
}

static size_t n_set_bits(const uint8_t *bytes, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (size_t)__builtin_popcount(bytes[i]);
	return sum;
}

static void check_field(const struct prm_struct *s, const struct prm_field *field)
{
	uint32_t width = PRM_WIDTH(field->at);
	uint64_t all = width == 64 ? UINT64_MAX : (1ull << width) - 1;
	uint8_t *bytes = calloc(1, s->n_bits / 8);

	ASSERT(bytes);
	prm_set(bytes, field->at, all);
	ASSERT_EQ(n_set_bits(bytes, s->n_bits / 8), width);
	ASSERT_EQ(prm_get(bytes, field->at), all);
	memset(bytes, 0xff, s->n_bits / 8);
	prm_set(bytes, field->at, 0);
	ASSERT_EQ(n_set_bits(bytes, s->n_bits / 8), s->n_bits - width);
	prm_set(bytes, field->at, 1);
	ASSERT_EQ(prm_get(bytes, field->at), 1u);
	free(bytes);
}

TEST(setting_a_field_changes_no_other_bit)
{
	for (size_t i = 0; i < prm_n_structs; i++) {
		const struct prm_struct *s = prm_structs[i];

		for (uint32_t j = 0; j < s->n_fields; j++) {
			if (!s->fields[j].inner && PRM_WIDTH(s->fields[j].at) <= 64)
				check_field(s, &s->fields[j]);
		}
	}
}

TEST(commands_are_distinguished)
{
	for (size_t i = 0; i < prm_n_commands; i++) {
		const struct prm_command *command = &prm_commands[i];

		ASSERT_EQ(prm_command_find(command->opcode), command);
		ASSERT_EQ(command->in->kind, PRM_KIND_IN);
		ASSERT_EQ(command->out->kind, PRM_KIND_OUT);
		ASSERT_STREQ(prm_opcode_name(command->opcode), command->name);
	}
	ASSERT_STREQ(prm_opcode_name(PRM_OP_RTR2RTS_QP), "RTR2RTS_QP");
	ASSERT_STREQ(prm_opcode_name(0xfff), "unknown command");
	ASSERT_STREQ(prm_cap_struct(PRM_CAP_ROCE << 1 | PRM_CAP_CURRENT)->name, "ROCE_CAP");
	ASSERT(!prm_cap_struct(0x7e));
}

TEST(every_status_has_words_and_an_errno)
{
	ASSERT_EQ(prm_status_errno(PRM_STATUS_OK), 0);
	ASSERT_EQ(prm_status_errno(PRM_STATUS_NO_RES), -ENOSPC);
	ASSERT_EQ(prm_status_errno(PRM_STATUS_BAD_QP_STATE), -EINVAL);
	ASSERT_EQ(prm_status_errno(PRM_STATUS_BAD_OP), -EOPNOTSUPP);
	ASSERT_EQ(prm_status_errno(0xee), -EIO);
	ASSERT_STREQ(prm_status_words(0x10), "QP is in the wrong state");
	ASSERT_STREQ(prm_status_words(0xee), "unknown status");
}
