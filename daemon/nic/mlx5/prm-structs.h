/* SPDX-License-Identifier: Apache-2.0 */
/* The structures of firmware commands and their fields; prm.h explains them and names the sources. */
#ifndef SHMEMD_NIC_MLX5_PRM_STRUCTS_H
#define SHMEMD_NIC_MLX5_PRM_STRUCTS_H

#include <stdint.h>

/* Widths above 64 are byte strings (a GID), for prm_set_bytes; width 0 is an embedded structure. */
#define PRM_AT(bit, width) ((bit) << 8 | (width))
#define PRM_BIT(field) ((uint32_t)(field) >> 8)
#define PRM_WIDTH(field) ((uint32_t)(field) & 0xff)

/* ---- structures: name, kind, bits, where its layout is published ------------------------------------------------- */

/* An IN begins with PRM_IN_*, an OUT with PRM_OUT_*; a CONTEXT is embedded. */
enum prm_kind { PRM_KIND_CONTEXT, PRM_KIND_IN, PRM_KIND_OUT };

/*
 * Lengths that sources give differently:
 *
 *	CREATE_DCT_IN	176 bytes as in UCX (ib_mlx5_ifc.h, create_dct_in, of a dctc of 0x380 bits) and DOCA GPUNetIO, whose comment says that
 *			Windows demands them. Linux sends 128 (mlx5_ifc.h, a dctc of 0x200 bits), and so did older UCX. Both work on Linux: what is
 *			beyond 128 is 0. QUERY_DCT_OUT is 128 in Linux and rdma-core.
 *	QUERY_QP_OUT	272 bytes as in rdma-core (mlx5_ifc.h, query_qp_out) and UCX. Linux 6.13 and later make room for 464: the extension of
 *			192 bytes is answered to a QUERY_QP that sets qpc_ext, bit 0x40, which nobody does here.
 *	DCTC.ECE	is left out: Linux has it at 0x1e0, UCX at 0x200.
 */
#define PRM_STRUCTS(S)                                                                                      \
	S(CQC, CONTEXT, 0x200, "PRM Completion Queue Context; DPDK cqc, rdma-core SwCqc")                   \
	S(ADS, CONTEXT, 0x160, "PRM Address Path; Linux and rdma-core ads, SwAds")                          \
	S(QPC, CONTEXT, 0x740, "PRM Queue Pair Context; Linux and rdma-core qpc, SwQpc")                    \
	S(DCTC, CONTEXT, 0x380, "PRM DC Target Context; Linux and UCX dctc")                                \
	S(MKC, CONTEXT, 0x200, "PRM Memory Key Context; Linux and rdma-core mkc, SwMkc")                    \
	S(HCA_CAP, CONTEXT, 0x800, "PRM HCA Capabilities; Linux and rdma-core cmd_hca_cap")                 \
	S(HCA_CAP_2, CONTEXT, 0x800, "PRM HCA Capabilities 2; rdma-core CmdHcaCap2")                        \
	S(ATOMIC_CAP, CONTEXT, 0x800, "PRM Atomic Capabilities; rdma-core and UCX atomic_caps")             \
	S(ODP_CAP, CONTEXT, 0x800, "PRM On-Demand Paging Capabilities; Linux and rdma-core odp_cap")        \
	S(ROCE_CAP, CONTEXT, 0x800, "PRM RoCE Capabilities; Linux roce_cap, rdma-core roce_cap")            \
	S(ROCE_ADDR, CONTEXT, 0x100, "PRM RoCE Address Table Entry; Linux roce_addr_layout")                \
	S(WQ, CONTEXT, 0x600, "PRM Work Queue; UCX wq")                                                     \
	S(RMPC, CONTEXT, 0x780, "PRM Receive Memory Pool Context; UCX rmpc")                                \
	S(HCA_VPORT, CONTEXT, 0x1000, "PRM HCA Vport Context; UCX hca_vport_context, HcaVportContext")      \
	S(EMPTY_IN, IN, 0x80, "PRM: a command without arguments; Linux alloc_pd_in")                        \
	S(EMPTY_OUT, OUT, 0x80, "PRM: an answer without values; Linux destroy_qp_out")                      \
	S(QUERY_HCA_CAP_IN, IN, 0x80, "PRM QUERY_HCA_CAP; rdma-core query_hca_cap_in")                      \
	S(QUERY_HCA_CAP_OUT, OUT, 0x8080, "PRM QUERY_HCA_CAP; rdma-core query_hca_cap_out")                 \
	S(CREATE_MKEY_IN, IN, 0x880, "PRM CREATE_MKEY; UCX create_mkey_in")                                 \
	S(CREATE_MKEY_OUT, OUT, 0x80, "PRM CREATE_MKEY; rdma-core create_mkey_out")                         \
	S(QUERY_MKEY_IN, IN, 0x80, "PRM QUERY_MKEY; Linux query_mkey_in")                                   \
	S(QUERY_MKEY_OUT, OUT, 0x980, "PRM QUERY_MKEY; Linux query_mkey_out")                               \
	S(DESTROY_MKEY_IN, IN, 0x80, "PRM DESTROY_MKEY; rdma-core destroy_mkey_in")                         \
	S(QUERY_SPECIAL_CONTEXTS_OUT, OUT, 0x100, "PRM QUERY_SPECIAL_CONTEXTS; Linux likewise")             \
	S(CREATE_CQ_IN, IN, 0x880, "PRM CREATE_CQ; DPDK and UCX create_cq_in, CreateCqIn")                  \
	S(CREATE_CQ_OUT, OUT, 0x80, "PRM CREATE_CQ; DPDK create_cq_out")                                    \
	S(CQ_IN, IN, 0x80, "PRM DESTROY_CQ, QUERY_CQ; Linux destroy_cq_in, query_cq_in")                    \
	S(QUERY_CQ_OUT, OUT, 0x880, "PRM QUERY_CQ; Linux query_cq_out")                                     \
	S(MODIFY_CQ_IN, IN, 0x880, "PRM MODIFY_CQ; Linux modify_cq_in")                                     \
	S(CREATE_QP_IN, IN, 0x880, "PRM CREATE_QP; DPDK create_qp_in, rdma-core CreateQpIn")                \
	S(CREATE_QP_OUT, OUT, 0x80, "PRM CREATE_QP; rdma-core create_qp_out, UCX create_qp_out")            \
	S(QP_IN, IN, 0x80, "PRM DESTROY_QP, QUERY_QP, 2ERR_QP, 2RST_QP; Linux qp_2err_in")                  \
	S(MODIFY_QP_IN, IN, 0x880, "PRM RST2INIT_QP and its kin; Linux init2rtr_qp_in, ModifyQpIn")         \
	S(MODIFY_QP_OUT, OUT, 0x80, "PRM RST2INIT_QP and its kin; UCX init2rtr_qp_out")                     \
	S(QUERY_QP_OUT, OUT, 0x880, "PRM QUERY_QP; rdma-core query_qp_out")                                 \
	S(CREATE_DCT_IN, IN, 0x580, "PRM CREATE_DCT; UCX create_dct_in")                                    \
	S(CREATE_DCT_OUT, OUT, 0x80, "PRM CREATE_DCT; UCX create_dct_out")                                  \
	S(DCT_IN, IN, 0x80, "PRM DESTROY_DCT, DRAIN_DCT, QUERY_DCT; Linux drain_dct_in")                    \
	S(QUERY_DCT_OUT, OUT, 0x400, "PRM QUERY_DCT; Linux query_dct_out")                                  \
	S(QUERY_ROCE_ADDRESS_IN, IN, 0x80, "PRM QUERY_ROCE_ADDRESS; Linux query_roce_address_in")           \
	S(QUERY_ROCE_ADDRESS_OUT, OUT, 0x180, "PRM QUERY_ROCE_ADDRESS; Linux query_roce_address_out")       \
	S(QUERY_HCA_VPORT_CONTEXT_IN, IN, 0x80, "PRM QUERY_HCA_VPORT_CONTEXT; UCX likewise")                \
	S(QUERY_HCA_VPORT_CONTEXT_OUT, OUT, 0x1080, "PRM QUERY_HCA_VPORT_CONTEXT; UCX likewise")            \
	S(QUERY_LAG_OUT, OUT, 0x80, "PRM QUERY_LAG; rdma-core and UCX query_lag_out")                       \
	S(CREATE_RMP_IN, IN, 0x880, "PRM CREATE_RMP; UCX create_rmp_in")                                    \
	S(CREATE_RMP_OUT, OUT, 0x80, "PRM CREATE_RMP; UCX create_rmp_out")                                  \
	S(RMP_IN, IN, 0x80, "PRM DESTROY_RMP, QUERY_RMP; Linux query_rmp_in")                               \
	S(QUERY_RMP_OUT, OUT, 0x880, "PRM QUERY_RMP; Linux query_rmp_out")                                  \
	S(ARM_RQ_IN, IN, 0x80, "PRM ARM_RQ; Linux arm_rq_in")                                               \
	S(ALLOC_Q_COUNTER_OUT, OUT, 0x80, "PRM ALLOC_Q_COUNTER; DPDK alloc_q_counter_out")                  \
	S(DEALLOC_Q_COUNTER_IN, IN, 0x80, "PRM DEALLOC_Q_COUNTER; Linux dealloc_q_counter_in")              \
	S(QUERY_Q_COUNTER_IN, IN, 0x100, "PRM QUERY_Q_COUNTER; DPDK query_q_counter_in")                    \
	S(QUERY_Q_COUNTER_OUT, OUT, 0x800, "PRM QUERY_Q_COUNTER; DPDK query_q_counter_out")                 \
	S(ALLOC_PD_OUT, OUT, 0x80, "PRM ALLOC_PD; DPDK alloc_pd_out")                                       \
	S(DEALLOC_PD_IN, IN, 0x80, "PRM DEALLOC_PD; Linux dealloc_pd_in")                                   \
	S(ALLOC_UAR_OUT, OUT, 0x80, "PRM ALLOC_UAR; Linux alloc_uar_out")                                   \
	S(DEALLOC_UAR_IN, IN, 0x80, "PRM DEALLOC_UAR; Linux dealloc_uar_in")                                \
	S(CREATE_AV_QP_MAPPING_IN, IN, 0x280, "PRM CREATE_GENERAL_OBJECT; rdma-core create_av_qp_mapping_in") \
	S(CREATE_GENERAL_OBJECT_OUT, OUT, 0x80, "PRM CREATE_GENERAL_OBJECT; rdma-core general_obj_out_cmd_hdr")

/* Heads of every command and every answer; not repeated below. */
#define PRM_IN_OPCODE PRM_AT(0x00, 16)
#define PRM_IN_UID PRM_AT(0x10, 16) /* the kernel writes it */
#define PRM_IN_OP_MOD PRM_AT(0x30, 16)
#define PRM_OUT_STATUS PRM_AT(0x00, 8)
#define PRM_OUT_SYNDROME PRM_AT(0x20, 32)

/* ---- fields: structure, name, first bit, bits; N(): an embedded structure ------------------------------------------ */

#define PRM_FIELDS_CQC(F, N)                 \
	F(CQC, STATUS, 0x00, 4)              \
	F(CQC, AS_NOTIFY, 0x04, 1)           \
	F(CQC, INITIATOR_SRC_DCT, 0x05, 1)   \
	F(CQC, DBR_UMEM_VALID, 0x06, 1)      \
	F(CQC, CQE_SZ, 0x08, 3)              \
	F(CQC, CC, 0x0b, 1)                  \
	F(CQC, SCQE_BREAK_MODERATION, 0x0d, 1) \
	F(CQC, OI, 0x0e, 1)                  \
	F(CQC, PERIOD_MODE, 0x0f, 2)         \
	F(CQC, CQE_COMP_EN, 0x11, 1)         \
	F(CQC, MINI_CQE_FORMAT, 0x12, 2)     \
	F(CQC, ST, 0x14, 4)                  \
	F(CQC, DBR_UMEM_ID, 0x20, 32)        \
	F(CQC, PAGE_OFFSET, 0x54, 6)         \
	F(CQC, TIMESTAMP_FORMAT, 0x5e, 2)    \
	F(CQC, LOG_CQ_SIZE, 0x63, 5)         \
	F(CQC, UAR_PAGE, 0x68, 24)           \
	F(CQC, PERIOD, 0x84, 12)             \
	F(CQC, MAX_COUNT, 0x90, 16)          \
	F(CQC, EQN, 0xb8, 8)                 \
	F(CQC, LOG_PAGE_SIZE, 0xc3, 5)       \
	F(CQC, LAST_NOTIFIED, 0x108, 24)     \
	F(CQC, LAST_SOLICIT, 0x128, 24)      \
	F(CQC, CONSUMER_COUNTER, 0x148, 24)  \
	F(CQC, PRODUCER_COUNTER, 0x168, 24)  \
	F(CQC, DBR_ADDR, 0x1c0, 64)

/* PORT is "vhca_port_num" in rdma-core. */
#define PRM_FIELDS_ADS(F, N)              \
	F(ADS, FL, 0x00, 1)               \
	F(ADS, FREE_AR, 0x01, 1)          \
	F(ADS, PKEY_INDEX, 0x10, 16)      \
	F(ADS, GRH, 0x28, 1)              \
	F(ADS, MLID, 0x29, 7)             \
	F(ADS, RLID, 0x30, 16)            \
	F(ADS, ACK_TIMEOUT, 0x40, 5)      \
	F(ADS, SRC_ADDR_INDEX, 0x48, 8)   \
	F(ADS, LOG_RTM, 0x50, 4)          \
	F(ADS, STAT_RATE, 0x54, 4)        \
	F(ADS, HOP_LIMIT, 0x58, 8)        \
	F(ADS, TCLASS, 0x64, 8)           \
	F(ADS, FLOW_LABEL, 0x6c, 20)      \
	F(ADS, RGID, 0x80, 128)           \
	F(ADS, F_DSCP, 0x104, 1)          \
	F(ADS, F_ECN, 0x105, 1)           \
	F(ADS, F_ETH_PRIO, 0x107, 1)      \
	F(ADS, ECN, 0x108, 2)             \
	F(ADS, DSCP, 0x10a, 6)            \
	F(ADS, UDP_SPORT, 0x110, 16)      \
	F(ADS, DEI_CFI, 0x120, 1)         \
	F(ADS, ETH_PRIO, 0x121, 3)        \
	F(ADS, SL, 0x124, 4)              \
	F(ADS, PORT, 0x128, 8)            \
	F(ADS, RMAC, 0x130, 48)

#define PRM_FIELDS_QPC(F, N)                     \
	F(QPC, STATE, 0x00, 4)                   \
	F(QPC, LAG_TX_PORT, 0x04, 4)             \
	F(QPC, ST, 0x08, 8)                      \
	F(QPC, PM_STATE, 0x13, 2)                \
	F(QPC, E2E_CREDIT_MODE, 0x16, 2)         \
	F(QPC, OFFLOAD_TYPE, 0x18, 4)            \
	F(QPC, END_PADDING_MODE, 0x1c, 2)        \
	F(QPC, WQ_SIGNATURE, 0x20, 1)            \
	F(QPC, BLOCK_LB_MC, 0x21, 1)             \
	F(QPC, ATOMIC_LIKE_WRITE_EN, 0x22, 1)    \
	F(QPC, LATENCY_SENSITIVE, 0x23, 1)       \
	F(QPC, DRAIN_SIGERR, 0x25, 1)            \
	F(QPC, PD, 0x28, 24)                     \
	F(QPC, MTU, 0x40, 3)                     \
	F(QPC, LOG_MSG_MAX, 0x43, 5)             \
	F(QPC, LOG_RQ_SIZE, 0x49, 4)             \
	F(QPC, LOG_RQ_STRIDE, 0x4d, 3)           \
	F(QPC, NO_SQ, 0x50, 1)                   \
	F(QPC, LOG_SQ_SIZE, 0x51, 4)             \
	F(QPC, RETRY_MODE, 0x56, 2)              \
	F(QPC, TS_FORMAT, 0x58, 2)               \
	F(QPC, DATA_IN_ORDER, 0x5a, 1)           \
	F(QPC, RLKEY, 0x5b, 1)                   \
	F(QPC, ULP_STATELESS_MODE, 0x5c, 4)      \
	F(QPC, COUNTER_SET_ID, 0x60, 8)          \
	F(QPC, UAR_PAGE, 0x68, 24)               \
	F(QPC, SEND_DBR_MODE, 0x80, 2)           \
	F(QPC, FULL_HANDSHAKE, 0x83, 1)          \
	F(QPC, CNAK_REVERSE_SL, 0x84, 4)         \
	F(QPC, USER_INDEX, 0x88, 24)             \
	F(QPC, LOG_PAGE_SIZE, 0xa3, 5)           \
	F(QPC, REMOTE_QPN, 0xa8, 24)             \
	N(QPC, PATH, 0xc0, ADS)                  \
	N(QPC, PATH_2, 0x220, ADS)               \
	F(QPC, LOG_ACK_REQ_FREQ, 0x380, 4)       \
	F(QPC, LOG_SRA_MAX, 0x388, 3)            \
	F(QPC, RETRY_COUNT, 0x38d, 3)            \
	F(QPC, RNR_RETRY, 0x390, 3)              \
	F(QPC, FRE, 0x394, 1)                    \
	F(QPC, CUR_RNR_RETRY, 0x395, 3)          \
	F(QPC, CUR_RETRY_COUNT, 0x398, 3)        \
	F(QPC, RATE_LIMIT_INDEX, 0x3b0, 16)      \
	F(QPC, NEXT_SEND_PSN, 0x3c8, 24)         \
	F(QPC, LOG_DCI_STREAMS, 0x3e3, 5)        \
	F(QPC, CQN_SND, 0x3e8, 24)               \
	F(QPC, LOG_DCI_ERRORED, 0x403, 5)        \
	F(QPC, DETH_SQPN, 0x408, 24)             \
	F(QPC, LAST_ACKED_PSN, 0x448, 24)        \
	F(QPC, SSN, 0x468, 24)                   \
	F(QPC, LOG_RRA_MAX, 0x488, 3)            \
	F(QPC, ATOMIC_MODE, 0x48c, 4)            \
	F(QPC, RRE, 0x490, 1)                    \
	F(QPC, RWE, 0x491, 1)                    \
	F(QPC, RAE, 0x492, 1)                    \
	F(QPC, PAGE_OFFSET, 0x494, 6)            \
	F(QPC, CD_SLAVE_RECEIVE, 0x49d, 1)       \
	F(QPC, CD_SLAVE_SEND, 0x49e, 1)          \
	F(QPC, CD_MASTER, 0x49f, 1)              \
	F(QPC, MIN_RNR_NAK, 0x4a3, 5)            \
	F(QPC, NEXT_RCV_PSN, 0x4a8, 24)          \
	F(QPC, XRCD, 0x4c8, 24)                  \
	F(QPC, CQN_RCV, 0x4e8, 24)               \
	F(QPC, DBR_ADDR, 0x500, 64)              \
	F(QPC, Q_KEY, 0x540, 32)                 \
	F(QPC, RQ_TYPE, 0x565, 3)                \
	F(QPC, SRQN, 0x568, 24)                  \
	F(QPC, RMSN, 0x588, 24)                  \
	F(QPC, HW_SQ_WQEBB_COUNTER, 0x5a0, 16)   \
	F(QPC, SW_SQ_WQEBB_COUNTER, 0x5b0, 16)   \
	F(QPC, HW_RQ_COUNTER, 0x5c0, 32)         \
	F(QPC, SW_RQ_COUNTER, 0x5e0, 32)         \
	F(QPC, CGS, 0x62f, 1)                    \
	F(QPC, CS_REQ, 0x630, 8)                 \
	F(QPC, CS_RES, 0x638, 8)                 \
	F(QPC, DC_ACCESS_KEY, 0x640, 64)         \
	F(QPC, DBR_UMEM_VALID, 0x683, 1)         \
	F(QPC, DBR_UMEM_ID, 0x720, 32)

#define PRM_FIELDS_DCTC(F, N)                    \
	F(DCTC, STATE, 0x04, 4)                  \
	F(DCTC, OFFLOAD_TYPE, 0x18, 4)           \
	F(DCTC, DATA_IN_ORDER, 0x1d, 1)          \
	F(DCTC, USER_INDEX, 0x28, 24)            \
	F(DCTC, CQN, 0x48, 24)                   \
	F(DCTC, COUNTER_SET_ID, 0x60, 8)         \
	F(DCTC, ATOMIC_MODE, 0x68, 4)            \
	F(DCTC, RRE, 0x6c, 1)                    \
	F(DCTC, RWE, 0x6d, 1)                    \
	F(DCTC, RAE, 0x6e, 1)                    \
	F(DCTC, ATOMIC_LIKE_WRITE_EN, 0x6f, 1)   \
	F(DCTC, LATENCY_SENSITIVE, 0x70, 1)      \
	F(DCTC, RLKEY, 0x71, 1)                  \
	F(DCTC, FULL_HANDSHAKE, 0x72, 1)         \
	F(DCTC, CS_RES, 0x88, 8)                 \
	F(DCTC, MIN_RNR_NAK, 0x93, 5)            \
	F(DCTC, SRQN, 0xa8, 24)                  \
	F(DCTC, PD, 0xc8, 24)                    \
	F(DCTC, TCLASS, 0xe0, 8)                 \
	F(DCTC, FLOW_LABEL, 0xec, 20)            \
	F(DCTC, DC_ACCESS_KEY, 0x100, 64)        \
	F(DCTC, MTU, 0x145, 3)                   \
	F(DCTC, PORT, 0x148, 8)                  \
	F(DCTC, PKEY_INDEX, 0x150, 16)           \
	F(DCTC, MY_ADDR_INDEX, 0x168, 8)         \
	F(DCTC, HOP_LIMIT, 0x178, 8)             \
	F(DCTC, KEY_VIOLATIONS, 0x180, 32)       \
	F(DCTC, DEI_CFI, 0x1b4, 1)               \
	F(DCTC, ETH_PRIO, 0x1b5, 3)              \
	F(DCTC, ECN, 0x1b8, 2)                   \
	F(DCTC, DSCP, 0x1ba, 6)

#define PRM_FIELDS_MKC(F, N)                       \
	F(MKC, FREE, 0x01, 1)                      \
	F(MKC, ACCESS_MODE_4_2, 0x03, 3)           \
	F(MKC, RELAXED_ORDERING_WRITE, 0x0d, 1)    \
	F(MKC, UMR_EN, 0x10, 1)                    \
	F(MKC, A, 0x11, 1)                         \
	F(MKC, RW, 0x12, 1)                        \
	F(MKC, RR, 0x13, 1)                        \
	F(MKC, LW, 0x14, 1)                        \
	F(MKC, LR, 0x15, 1)                        \
	F(MKC, ACCESS_MODE_1_0, 0x16, 2)           \
	F(MKC, QPN, 0x20, 24)                      \
	F(MKC, MKEY_7_0, 0x38, 8)                  \
	F(MKC, LENGTH64, 0x60, 1)                  \
	F(MKC, BSF_EN, 0x61, 1)                    \
	F(MKC, SYNC_UMR, 0x62, 1)                  \
	F(MKC, SIGERR_COUNT, 0x65, 1)              \
	F(MKC, EN_RINVAL, 0x67, 1)                 \
	F(MKC, PD, 0x68, 24)                       \
	F(MKC, START_ADDR, 0x80, 64)               \
	F(MKC, LEN, 0xc0, 64)                      \
	F(MKC, BSF_OCTWORDS, 0x100, 32)            \
	F(MKC, TRANSLATION_OCTWORDS, 0x1a0, 32)    \
	F(MKC, RELAXED_ORDERING_READ, 0x1d9, 1)    \
	F(MKC, LOG_PAGE_SIZE, 0x1da, 6)

#define PRM_FIELDS_HCA_CAP(F, N)                      \
	F(HCA_CAP, HCA_CAP_2, 0x20, 1)                \
	F(HCA_CAP, VHCA_ID, 0x30, 16)                 \
	F(HCA_CAP, QP_DATA_IN_ORDER, 0x62, 1)         \
	F(HCA_CAP, LOG_MAX_SRQ_SZ, 0x80, 8)           \
	F(HCA_CAP, LOG_MAX_QP_SZ, 0x88, 8)            \
	F(HCA_CAP, LOG_MAX_QP, 0x9b, 5)               \
	F(HCA_CAP, ECE, 0xa0, 1)                      \
	F(HCA_CAP, LOG_MAX_SRQ, 0xab, 5)              \
	F(HCA_CAP, LOG_MAX_CQ_SZ, 0xc8, 8)            \
	F(HCA_CAP, LOG_MAX_CQ, 0xdb, 5)               \
	F(HCA_CAP, LOG_MAX_EQ_SZ, 0xe0, 8)            \
	F(HCA_CAP, RELAXED_ORDERING_WRITE, 0xe8, 1)   \
	F(HCA_CAP, RELAXED_ORDERING_READ, 0xe9, 1)    \
	F(HCA_CAP, LOG_MAX_MKEY, 0xea, 6)             \
	F(HCA_CAP, LOG_MAX_EQ, 0xfc, 4)               \
	F(HCA_CAP, MAX_INDIRECTION, 0x100, 8)         \
	F(HCA_CAP, FIXED_BUFFER_SIZE, 0x108, 1)       \
	F(HCA_CAP, LOG_MAX_MRW_SZ, 0x109, 7)          \
	F(HCA_CAP, UMR_EXT_TRANSLATION, 0x118, 1)     \
	F(HCA_CAP, NULL_MKEY, 0x119, 1)               \
	F(HCA_CAP, LOG_MAX_KLM_LIST, 0x11a, 6)        \
	F(HCA_CAP, QPC_EXTENSION, 0x122, 1)           \
	F(HCA_CAP, LOG_MAX_RA_REQ_DC, 0x12a, 6)       \
	F(HCA_CAP, LOG_MAX_RA_RES_DC, 0x13a, 6)       \
	F(HCA_CAP, LOG_MAX_RA_REQ_QP, 0x14a, 6)       \
	F(HCA_CAP, RTS2RTS_UDP_SPORT, 0x151, 1)       \
	F(HCA_CAP, RTS2RTS_LAG_TX_PORT, 0x152, 1)     \
	F(HCA_CAP, LOG_MAX_RA_RES_QP, 0x15a, 6)       \
	F(HCA_CAP, END_PAD, 0x160, 1)                 \
	F(HCA_CAP, START_PAD, 0x163, 1)               \
	F(HCA_CAP, CACHE_LINE_128BYTE, 0x164, 1)      \
	F(HCA_CAP, GID_TABLE_SIZE, 0x170, 16)         \
	F(HCA_CAP, OUT_OF_SEQ_CNT, 0x180, 1)          \
	F(HCA_CAP, VPORT_COUNTERS, 0x181, 1)          \
	F(HCA_CAP, RETRANSMISSION_COUNTERS, 0x182, 1) \
	F(HCA_CAP, MAX_QP_CNT, 0x186, 10)             \
	F(HCA_CAP, PKEY_TABLE_SIZE, 0x190, 16)        \
	F(HCA_CAP, LOCAL_CA_ACK_DELAY, 0x1ab, 5)      \
	F(HCA_CAP, ENHANCED_ERROR_COUNTERS, 0x1b1, 1) \
	F(HCA_CAP, PORT_TYPE, 0x1b6, 2)               \
	F(HCA_CAP, NUM_PORTS, 0x1b8, 8)               \
	F(HCA_CAP, LOG_MAX_MSG, 0x1c3, 5)             \
	F(HCA_CAP, STAT_RATE_SUPPORT, 0x1e0, 16)      \
	F(HCA_CAP, CQE_VERSION, 0x1fc, 4)             \
	F(HCA_CAP, COMPACT_AV, 0x200, 1)              \
	F(HCA_CAP, UMR_MODIFY_ENTITY_DISABLED, 0x207, 1) \
	F(HCA_CAP, UMR_MODIFY_ATOMIC_DISABLED, 0x208, 1) \
	F(HCA_CAP, UMR_INDIRECT_DISABLED, 0x209, 1)   \
	F(HCA_CAP, UMR_FENCE, 0x20a, 2)               \
	F(HCA_CAP, DRAIN_SIGERR, 0x20f, 1)            \
	F(HCA_CAP, WQ_SIGNATURE, 0x214, 1)            \
	F(HCA_CAP, SCATTER_DATA_CQE, 0x215, 1)        \
	F(HCA_CAP, DCT, 0x21a, 1)                     \
	F(HCA_CAP, QOS, 0x21b, 1)                     \
	F(HCA_CAP, ETH_NET_OFFLOADS, 0x21c, 1)        \
	F(HCA_CAP, ROCE, 0x21d, 1)                    \
	F(HCA_CAP, ATOMIC, 0x21e, 1)                  \
	F(HCA_CAP, CQ_OI, 0x220, 1)                   \
	F(HCA_CAP, CQ_RESIZE, 0x221, 1)               \
	F(HCA_CAP, CQ_MODERATION, 0x222, 1)           \
	F(HCA_CAP, PG, 0x227, 1)                      \
	F(HCA_CAP, BLOCK_LB_MC, 0x228, 1)             \
	F(HCA_CAP, CD, 0x22c, 1)                      \
	F(HCA_CAP, APM, 0x22e, 1)                     \
	F(HCA_CAP, UMR_PTR_RLKEY, 0x230, 1)           \
	F(HCA_CAP, IMAICL, 0x231, 1)                  \
	F(HCA_CAP, QKV, 0x236, 1)                     \
	F(HCA_CAP, PKV, 0x237, 1)                     \
	F(HCA_CAP, XRC, 0x23c, 1)                     \
	F(HCA_CAP, UD, 0x23d, 1)                      \
	F(HCA_CAP, UC, 0x23e, 1)                      \
	F(HCA_CAP, RC, 0x23f, 1)                      \
	F(HCA_CAP, UAR_4K, 0x240, 1)                  \
	F(HCA_CAP, UAR_SZ, 0x24a, 6)                  \
	F(HCA_CAP, UMEM_UID_0, 0x252, 1)              \
	F(HCA_CAP, LOG_PG_SZ, 0x258, 8)               \
	F(HCA_CAP, BF, 0x260, 1)                      \
	F(HCA_CAP, DRIVER_VERSION, 0x261, 1)          \
	F(HCA_CAP, LOG_BF_REG_SIZE, 0x26b, 5)         \
	F(HCA_CAP, LAG_DCT, 0x276, 2)                 \
	F(HCA_CAP, LAG_TX_PORT, 0x278, 1)             \
	F(HCA_CAP, LAG_MASTER, 0x27b, 1)              \
	F(HCA_CAP, NUM_LAG_PORTS, 0x27c, 4)           \
	F(HCA_CAP, MAX_WQE_SZ_SQ, 0x290, 16)          \
	F(HCA_CAP, MAX_WQE_SZ_RQ, 0x2b0, 16)          \
	F(HCA_CAP, MAX_WQE_SZ_SQ_DC, 0x2d0, 16)       \
	F(HCA_CAP, MAX_QP_MCG, 0x2e7, 25)             \
	F(HCA_CAP, LOG_MAX_MCG, 0x318, 8)             \
	F(HCA_CAP, LOG_MAX_TRANSPORT_DOMAIN, 0x323, 5) \
	F(HCA_CAP, LOG_MAX_PD, 0x32b, 5)              \
	F(HCA_CAP, LOG_MAX_XRCD, 0x33b, 5)            \
	F(HCA_CAP, GENERAL_OBJ_TYPES, 0x400, 64)      \
	F(HCA_CAP, SQ_TS_FORMAT, 0x440, 2)            \
	F(HCA_CAP, RQ_TS_FORMAT, 0x442, 2)            \
	F(HCA_CAP, MAX_NUM_EQS, 0x470, 16)            \
	F(HCA_CAP, LOG_UAR_PAGE_SZ, 0x490, 16)        \
	F(HCA_CAP, FREQUENCY_MHZ, 0x4c0, 32)          \
	F(HCA_CAP, FREQUENCY_KHZ, 0x4e0, 32)          \
	F(HCA_CAP, NUM_OF_UARS_PER_PAGE, 0x520, 32)   \
	F(HCA_CAP, LOG_MAX_ATOMIC_SIZE_QP, 0x580, 8)  \
	F(HCA_CAP, LOG_MAX_DCI_STREAMS, 0x58b, 5)     \
	F(HCA_CAP, LOG_MAX_DCI_ERRORED, 0x593, 5)     \
	F(HCA_CAP, LOG_MAX_ATOMIC_SIZE_DC, 0x598, 8)  \
	F(HCA_CAP, CQE_128_ALWAYS, 0x5bd, 1)          \
	F(HCA_CAP, CQE_COMPRESSION_128, 0x5be, 1)     \
	F(HCA_CAP, CQE_COMPRESSION, 0x5bf, 1)         \
	F(HCA_CAP, NATIVE_PORT_NUM, 0x608, 8)         \
	F(HCA_CAP, NUM_VHCA_PORTS, 0x610, 8)          \
	F(HCA_CAP, SW_OWNER_ID, 0x61e, 1)

#define PRM_FIELDS_HCA_CAP_2(F, N)                    \
	F(HCA_CAP_2, SEND_NO_DBR_INT, 0x2e0, 1)       \
	F(HCA_CAP_2, SEND_NO_DBR_EXT, 0x2e1, 1)       \
	F(HCA_CAP_2, LOG_MAX_NO_DBR_SQ, 0x2e3, 5)

/* Bits of OPERATIONS: 0 compare-swap, 1 fetch-add, 2 masked compare-swap, 3 masked fetch-add. Sizes: bit n is 2^n. */
#define PRM_FIELDS_ATOMIC_CAP(F, N)                   \
	F(ATOMIC_CAP, REQ_8B_ENDIANNESS, 0x40, 2)     \
	F(ATOMIC_CAP, REQ_8B_ENDIANNESS_1, 0x46, 1)   \
	F(ATOMIC_CAP, OPERATIONS, 0x90, 16)           \
	F(ATOMIC_CAP, SIZE_QP, 0xb0, 16)              \
	F(ATOMIC_CAP, SIZE_DC, 0xd0, 16)              \
	F(ATOMIC_CAP, PCI_FETCH_ADD, 0x280, 16)       \
	F(ATOMIC_CAP, PCI_SWAP, 0x290, 16)            \
	F(ATOMIC_CAP, PCI_COMPARE_SWAP, 0x2a0, 16)

/* Bits of each: 31 send, 30 receive, 29 write, 28 read, 27 atomic, 26 receive from an SRQ. */
#define PRM_FIELDS_ODP_CAP(F, N)                      \
	F(ODP_CAP, RC, 0x80, 32)                      \
	F(ODP_CAP, UC, 0xa0, 32)                      \
	F(ODP_CAP, UD, 0xc0, 32)                      \
	F(ODP_CAP, XRC, 0xe0, 32)                     \
	F(ODP_CAP, DC, 0x100, 32)

#define PRM_FIELDS_ROCE_CAP(F, N)                     \
	F(ROCE_CAP, ROCE_APM, 0x00, 1)                \
	F(ROCE_CAP, SRC_UDP_PORT, 0x04, 1)            \
	F(ROCE_CAP, FL_RC_ROCE_DISABLED, 0x05, 1)     \
	F(ROCE_CAP, FL_RC_ROCE_ENABLED, 0x06, 1)      \
	F(ROCE_CAP, QP_TS_FORMAT, 0x1e, 2)            \
	F(ROCE_CAP, L3_TYPE, 0x8c, 4)                 \
	F(ROCE_CAP, ROCE_VERSION, 0x98, 8)            \
	F(ROCE_CAP, DST_UDP_PORT, 0xb0, 16)           \
	F(ROCE_CAP, MAX_SRC_UDP_PORT, 0xc0, 16)       \
	F(ROCE_CAP, MIN_SRC_UDP_PORT, 0xd0, 16)       \
	F(ROCE_CAP, ADDRESS_TABLE_SIZE, 0xf0, 16)

#define PRM_FIELDS_ROCE_ADDR(F, N)               \
	F(ROCE_ADDR, GID, 0x00, 128)             \
	F(ROCE_ADDR, VLAN_VALID, 0x83, 1)        \
	F(ROCE_ADDR, VLAN_ID, 0x84, 12)          \
	F(ROCE_ADDR, MAC, 0x90, 48)              \
	F(ROCE_ADDR, L3_TYPE, 0xd4, 4)           \
	F(ROCE_ADDR, VERSION, 0xd8, 8)

#define PRM_FIELDS_WQ(F, N)                  \
	F(WQ, WQ_TYPE, 0x00, 4)              \
	F(WQ, WQ_SIGNATURE, 0x04, 1)         \
	F(WQ, END_PADDING_MODE, 0x05, 2)     \
	F(WQ, CD_SLAVE, 0x07, 1)             \
	F(WQ, PAGE_OFFSET, 0x2b, 5)          \
	F(WQ, LWM, 0x30, 16)                 \
	F(WQ, PD, 0x48, 24)                  \
	F(WQ, UAR_PAGE, 0x68, 24)            \
	F(WQ, DBR_ADDR, 0x80, 64)            \
	F(WQ, HW_COUNTER, 0xc0, 32)          \
	F(WQ, SW_COUNTER, 0xe0, 32)          \
	F(WQ, LOG_WQ_STRIDE, 0x10c, 4)       \
	F(WQ, LOG_WQ_PG_SZ, 0x113, 5)        \
	F(WQ, LOG_WQ_SZ, 0x11b, 5)           \
	F(WQ, DBR_UMEM_VALID, 0x120, 1)      \
	F(WQ, WQ_UMEM_VALID, 0x121, 1)       \
	F(WQ, DBR_UMEM_ID, 0x140, 32)        \
	F(WQ, WQ_UMEM_ID, 0x160, 32)         \
	F(WQ, WQ_UMEM_OFFSET, 0x180, 64)

#define PRM_FIELDS_RMPC(F, N)                \
	F(RMPC, STATE, 0x08, 4)              \
	F(RMPC, BASIC_CYCLIC_RCV_WQE, 0x20, 1) \
	N(RMPC, WQ, 0x180, WQ)

#define PRM_FIELDS_HCA_VPORT(F, N)                 \
	F(HCA_VPORT, FIELD_SELECT, 0x00, 32)       \
	F(HCA_VPORT, HAS_SMI, 0x101, 1)            \
	F(HCA_VPORT, GRH_REQUIRED, 0x103, 1)       \
	F(HCA_VPORT, PORT_PHYSICAL_STATE, 0x110, 4) \
	F(HCA_VPORT, PORT_STATE, 0x118, 4)         \
	F(HCA_VPORT, VPORT_STATE, 0x11c, 4)        \
	F(HCA_VPORT, SYSTEM_IMAGE_GUID, 0x140, 64) \
	F(HCA_VPORT, PORT_GUID, 0x180, 64)         \
	F(HCA_VPORT, NODE_GUID, 0x1c0, 64)         \
	F(HCA_VPORT, CAP_MASK1, 0x200, 32)         \
	F(HCA_VPORT, CAP_MASK2, 0x240, 32)         \
	F(HCA_VPORT, LID, 0x2e0, 16)               \
	F(HCA_VPORT, LMC, 0x2f8, 3)                \
	F(HCA_VPORT, SUBNET_TIMEOUT, 0x2fb, 5)     \
	F(HCA_VPORT, SM_LID, 0x300, 16)            \
	F(HCA_VPORT, SM_SL, 0x310, 4)

#define PRM_FIELDS_EMPTY_IN(F, N)
#define PRM_FIELDS_EMPTY_OUT(F, N)

#define PRM_FIELDS_QUERY_HCA_CAP_IN(F, N)               \
	F(QUERY_HCA_CAP_IN, OTHER_FUNCTION, 0x40, 1)    \
	F(QUERY_HCA_CAP_IN, FUNCTION_ID, 0x50, 16)

/* The structure at CAP depends on the op_mod that was asked for. */
#define PRM_FIELDS_QUERY_HCA_CAP_OUT(F, N) N(QUERY_HCA_CAP_OUT, CAP, 0x80, HCA_CAP)

#define PRM_FIELDS_CREATE_MKEY_IN(F, N)                 \
	F(CREATE_MKEY_IN, INPUT_INDEX, 0x48, 24)        \
	F(CREATE_MKEY_IN, PG_ACCESS, 0x60, 1)           \
	F(CREATE_MKEY_IN, UMEM_VALID, 0x61, 1)          \
	N(CREATE_MKEY_IN, MKC, 0x80, MKC)               \
	F(CREATE_MKEY_IN, ACTUAL_OCTWORDS, 0x300, 32)   \
	F(CREATE_MKEY_IN, UMEM_ID, 0x320, 32)           \
	F(CREATE_MKEY_IN, UMEM_OFFSET, 0x340, 64)

#define PRM_FIELDS_CREATE_MKEY_OUT(F, N) F(CREATE_MKEY_OUT, INDEX, 0x48, 24)
#define PRM_FIELDS_QUERY_MKEY_IN(F, N)            \
	F(QUERY_MKEY_IN, INDEX, 0x48, 24)         \
	F(QUERY_MKEY_IN, PG_ACCESS, 0x60, 1)
#define PRM_FIELDS_QUERY_MKEY_OUT(F, N) N(QUERY_MKEY_OUT, MKC, 0x80, MKC)
#define PRM_FIELDS_DESTROY_MKEY_IN(F, N) F(DESTROY_MKEY_IN, INDEX, 0x48, 24)

#define PRM_FIELDS_QUERY_SPECIAL_CONTEXTS_OUT(F, N)                    \
	F(QUERY_SPECIAL_CONTEXTS_OUT, DUMP_FILL_MKEY, 0x40, 32)        \
	F(QUERY_SPECIAL_CONTEXTS_OUT, RESERVED_LKEY, 0x60, 32)         \
	F(QUERY_SPECIAL_CONTEXTS_OUT, NULL_MKEY, 0x80, 32)

#define PRM_FIELDS_CREATE_CQ_IN(F, N)               \
	N(CREATE_CQ_IN, CQC, 0x80, CQC)             \
	F(CREATE_CQ_IN, UMEM_OFFSET, 0x280, 64)     \
	F(CREATE_CQ_IN, UMEM_ID, 0x2c0, 32)         \
	F(CREATE_CQ_IN, UMEM_VALID, 0x2e0, 1)

#define PRM_FIELDS_CREATE_CQ_OUT(F, N) F(CREATE_CQ_OUT, CQN, 0x48, 24)
#define PRM_FIELDS_CQ_IN(F, N) F(CQ_IN, CQN, 0x48, 24)
#define PRM_FIELDS_QUERY_CQ_OUT(F, N) N(QUERY_CQ_OUT, CQC, 0x80, CQC)

#define PRM_FIELDS_MODIFY_CQ_IN(F, N)              \
	F(MODIFY_CQ_IN, CQN, 0x48, 24)             \
	F(MODIFY_CQ_IN, FIELD_SELECT, 0x60, 32)    \
	N(MODIFY_CQ_IN, CQC, 0x80, CQC)            \
	F(MODIFY_CQ_IN, UMEM_OFFSET, 0x280, 64)    \
	F(MODIFY_CQ_IN, UMEM_ID, 0x2c0, 32)        \
	F(MODIFY_CQ_IN, UMEM_VALID, 0x2e0, 1)

#define PRM_FIELDS_CREATE_QP_IN(F, N)               \
	F(CREATE_QP_IN, QPC_EXT, 0x40, 1)           \
	F(CREATE_QP_IN, INPUT_QPN, 0x48, 24)        \
	F(CREATE_QP_IN, OPT_PARAM_MASK, 0x80, 32)   \
	F(CREATE_QP_IN, ECE, 0xa0, 32)              \
	N(CREATE_QP_IN, QPC, 0xc0, QPC)             \
	F(CREATE_QP_IN, UMEM_OFFSET, 0x800, 64)     \
	F(CREATE_QP_IN, UMEM_ID, 0x840, 32)         \
	F(CREATE_QP_IN, UMEM_VALID, 0x860, 1)

#define PRM_FIELDS_CREATE_QP_OUT(F, N)              \
	F(CREATE_QP_OUT, QPN, 0x48, 24)             \
	F(CREATE_QP_OUT, ECE, 0x60, 32)

#define PRM_FIELDS_QP_IN(F, N) F(QP_IN, QPN, 0x48, 24)

#define PRM_FIELDS_MODIFY_QP_IN(F, N)               \
	F(MODIFY_QP_IN, QPC_EXT, 0x40, 1)           \
	F(MODIFY_QP_IN, QPN, 0x48, 24)              \
	F(MODIFY_QP_IN, OPT_PARAM_MASK, 0x80, 32)   \
	F(MODIFY_QP_IN, ECE, 0xa0, 32)              \
	N(MODIFY_QP_IN, QPC, 0xc0, QPC)             \
	F(MODIFY_QP_IN, OPT_PARAM_MASK_95_32, 0x840, 64)

#define PRM_FIELDS_MODIFY_QP_OUT(F, N) F(MODIFY_QP_OUT, ECE, 0x60, 32)

#define PRM_FIELDS_QUERY_QP_OUT(F, N)               \
	F(QUERY_QP_OUT, OPT_PARAM_MASK, 0x80, 32)   \
	F(QUERY_QP_OUT, ECE, 0xa0, 32)              \
	N(QUERY_QP_OUT, QPC, 0xc0, QPC)

#define PRM_FIELDS_CREATE_DCT_IN(F, N) N(CREATE_DCT_IN, DCTC, 0x80, DCTC)
#define PRM_FIELDS_CREATE_DCT_OUT(F, N)             \
	F(CREATE_DCT_OUT, DCTN, 0x48, 24)           \
	F(CREATE_DCT_OUT, ECE, 0x60, 32)
#define PRM_FIELDS_DCT_IN(F, N) F(DCT_IN, DCTN, 0x48, 24)
#define PRM_FIELDS_QUERY_DCT_OUT(F, N) N(QUERY_DCT_OUT, DCTC, 0x80, DCTC)

#define PRM_FIELDS_QUERY_ROCE_ADDRESS_IN(F, N)              \
	F(QUERY_ROCE_ADDRESS_IN, INDEX, 0x40, 16)           \
	F(QUERY_ROCE_ADDRESS_IN, PORT, 0x5c, 4)
#define PRM_FIELDS_QUERY_ROCE_ADDRESS_OUT(F, N) N(QUERY_ROCE_ADDRESS_OUT, ADDR, 0x80, ROCE_ADDR)

#define PRM_FIELDS_QUERY_HCA_VPORT_CONTEXT_IN(F, N)               \
	F(QUERY_HCA_VPORT_CONTEXT_IN, OTHER_VPORT, 0x40, 1)       \
	F(QUERY_HCA_VPORT_CONTEXT_IN, PORT, 0x4c, 4)              \
	F(QUERY_HCA_VPORT_CONTEXT_IN, VPORT, 0x50, 16)
#define PRM_FIELDS_QUERY_HCA_VPORT_CONTEXT_OUT(F, N) \
	N(QUERY_HCA_VPORT_CONTEXT_OUT, CONTEXT, 0x80, HCA_VPORT)

#define PRM_FIELDS_QUERY_LAG_OUT(F, N) F(QUERY_LAG_OUT, STATE, 0x5d, 3)

#define PRM_FIELDS_CREATE_RMP_IN(F, N) N(CREATE_RMP_IN, RMPC, 0x100, RMPC)
#define PRM_FIELDS_CREATE_RMP_OUT(F, N) F(CREATE_RMP_OUT, RMPN, 0x48, 24)
#define PRM_FIELDS_RMP_IN(F, N) F(RMP_IN, RMPN, 0x48, 24)
#define PRM_FIELDS_QUERY_RMP_OUT(F, N) N(QUERY_RMP_OUT, RMPC, 0x100, RMPC)
#define PRM_FIELDS_ARM_RQ_IN(F, N)      \
	F(ARM_RQ_IN, SRQN, 0x48, 24)    \
	F(ARM_RQ_IN, LWM, 0x70, 16)

/* The type of the object stands where other commands have their op_mod. AV: the address vector of a UD QP. */
#define PRM_OBJ_AV_QP_MAPPING 0x3au
#define PRM_FIELDS_CREATE_AV_QP_MAPPING_IN(F, N)             \
	F(CREATE_AV_QP_MAPPING_IN, QPN, 0xe0, 32)            \
	F(CREATE_AV_QP_MAPPING_IN, AV_SL, 0x164, 4)          \
	F(CREATE_AV_QP_MAPPING_IN, AV_SRC_ADDR_INDEX, 0x1e4, 8) \
	F(CREATE_AV_QP_MAPPING_IN, AV_RGID, 0x200, 128)
#define PRM_FIELDS_CREATE_GENERAL_OBJECT_OUT(F, N) F(CREATE_GENERAL_OBJECT_OUT, OBJ_ID, 0x40, 32)

#define PRM_FIELDS_ALLOC_Q_COUNTER_OUT(F, N) F(ALLOC_Q_COUNTER_OUT, COUNTER_SET_ID, 0x58, 8)
#define PRM_FIELDS_DEALLOC_Q_COUNTER_IN(F, N) F(DEALLOC_Q_COUNTER_IN, COUNTER_SET_ID, 0x58, 8)
#define PRM_FIELDS_QUERY_Q_COUNTER_IN(F, N)                 \
	F(QUERY_Q_COUNTER_IN, CLEAR, 0xc0, 1)               \
	F(QUERY_Q_COUNTER_IN, COUNTER_SET_ID, 0xf8, 8)

#define PRM_FIELDS_QUERY_Q_COUNTER_OUT(F, N)                               \
	F(QUERY_Q_COUNTER_OUT, RX_WRITE_REQUESTS, 0x80, 32)                \
	F(QUERY_Q_COUNTER_OUT, RX_READ_REQUESTS, 0xc0, 32)                 \
	F(QUERY_Q_COUNTER_OUT, RX_ATOMIC_REQUESTS, 0x100, 32)              \
	F(QUERY_Q_COUNTER_OUT, RX_DCT_CONNECT, 0x140, 32)                  \
	F(QUERY_Q_COUNTER_OUT, OUT_OF_BUFFER, 0x180, 32)                   \
	F(QUERY_Q_COUNTER_OUT, OUT_OF_SEQUENCE, 0x1c0, 32)                 \
	F(QUERY_Q_COUNTER_OUT, DUPLICATE_REQUEST, 0x200, 32)               \
	F(QUERY_Q_COUNTER_OUT, RNR_NAK_RETRY_ERR, 0x240, 32)               \
	F(QUERY_Q_COUNTER_OUT, PACKET_SEQ_ERR, 0x280, 32)                  \
	F(QUERY_Q_COUNTER_OUT, IMPLIED_NAK_SEQ_ERR, 0x2c0, 32)             \
	F(QUERY_Q_COUNTER_OUT, LOCAL_ACK_TIMEOUT_ERR, 0x300, 32)           \
	F(QUERY_Q_COUNTER_OUT, RESP_LOCAL_LENGTH_ERROR, 0x3c0, 32)         \
	F(QUERY_Q_COUNTER_OUT, REQ_LOCAL_LENGTH_ERROR, 0x3e0, 32)          \
	F(QUERY_Q_COUNTER_OUT, RESP_LOCAL_QP_ERROR, 0x400, 32)             \
	F(QUERY_Q_COUNTER_OUT, LOCAL_OPERATION_ERROR, 0x420, 32)           \
	F(QUERY_Q_COUNTER_OUT, RESP_LOCAL_PROTECTION, 0x440, 32)           \
	F(QUERY_Q_COUNTER_OUT, REQ_LOCAL_PROTECTION, 0x460, 32)            \
	F(QUERY_Q_COUNTER_OUT, RESP_CQE_ERROR, 0x480, 32)                  \
	F(QUERY_Q_COUNTER_OUT, REQ_CQE_ERROR, 0x4a0, 32)                   \
	F(QUERY_Q_COUNTER_OUT, REQ_MW_BINDING, 0x4c0, 32)                  \
	F(QUERY_Q_COUNTER_OUT, REQ_BAD_RESPONSE, 0x4e0, 32)                \
	F(QUERY_Q_COUNTER_OUT, REQ_REMOTE_INVALID_REQUEST, 0x500, 32)      \
	F(QUERY_Q_COUNTER_OUT, RESP_REMOTE_INVALID_REQUEST, 0x520, 32)     \
	F(QUERY_Q_COUNTER_OUT, REQ_REMOTE_ACCESS_ERRORS, 0x540, 32)        \
	F(QUERY_Q_COUNTER_OUT, RESP_REMOTE_ACCESS_ERRORS, 0x560, 32)       \
	F(QUERY_Q_COUNTER_OUT, REQ_REMOTE_OPERATION_ERRORS, 0x580, 32)     \
	F(QUERY_Q_COUNTER_OUT, REQ_TRANSPORT_RETRIES_EXCEEDED, 0x5a0, 32)  \
	F(QUERY_Q_COUNTER_OUT, CQ_OVERFLOW, 0x5c0, 32)                     \
	F(QUERY_Q_COUNTER_OUT, RESP_CQE_FLUSH_ERROR, 0x5e0, 32)            \
	F(QUERY_Q_COUNTER_OUT, REQ_CQE_FLUSH_ERROR, 0x600, 32)

#define PRM_FIELDS_ALLOC_PD_OUT(F, N) F(ALLOC_PD_OUT, PD, 0x48, 24)
#define PRM_FIELDS_DEALLOC_PD_IN(F, N) F(DEALLOC_PD_IN, PD, 0x48, 24)
#define PRM_FIELDS_ALLOC_UAR_OUT(F, N) F(ALLOC_UAR_OUT, UAR, 0x48, 24)
#define PRM_FIELDS_DEALLOC_UAR_IN(F, N) F(DEALLOC_UAR_IN, UAR, 0x48, 24)

/* PRM_CQC_STATUS and all the others; PRM_CREATE_QP_IN_BYTES, sizes for buffers. */
#define PRM_FIELD_ENUM(s, name, bit, width) PRM_##s##_##name = PRM_AT(bit, width),
#define PRM_NEST_ENUM(s, name, bit, inner) PRM_##s##_##name = PRM_AT(bit, 0),
#define PRM_STRUCT_ENUM(s, kind, bits, source) \
	PRM_##s##_BYTES = (bits) / 8, PRM_FIELDS_##s(PRM_FIELD_ENUM, PRM_NEST_ENUM)
enum prm_fields { PRM_STRUCTS(PRM_STRUCT_ENUM) };
#undef PRM_FIELD_ENUM
#undef PRM_NEST_ENUM
#undef PRM_STRUCT_ENUM

#endif
