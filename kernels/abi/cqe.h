/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlx5 completion queue entries, 64 bytes.
 *
 * Source: mlx5 PRM "Completion queue entry", rdma-core providers/mlx5/mlx5dv.h (struct mlx5_cqe64,
 * struct mlx5_err_cqe). A CQ ring is filled with 0xff before use (opcode 15, owner 1); an entry belongs to
 * software when its opcode is not 15 and its owner bit equals (consumer index >> log2 entries) & 1.
 * In a collapsed CQ every CQE overwrites entry 0; the poller reads wqe_counter and the opcode.
 * Writer: the NIC. Reader: the client. The last eight bytes are written last and together: a software NIC uses one
 * 64-bit release store there, and 64-bit relaxed stores before it, because a reader of a collapsed CQ may look at
 * the syndrome while the next CQE arrives. Readers load the same eight bytes with acquire.
 */
#ifndef SHMD_ABI_CQE_H
#define SHMD_ABI_CQE_H

#include "types.h"

#define SHMD_CQE_BYTES 64u

/* op_own bits 7:4 (MLX5_CQE_*). */
enum shmd_cqe_opcode {
	SHMD_CQE_REQ = 0x0,
	SHMD_CQE_RESP_WRITE_IMM = 0x1,
	SHMD_CQE_RESP_SEND = 0x2,
	SHMD_CQE_RESP_SEND_IMM = 0x3,
	SHMD_CQE_RESP_SEND_INV = 0x4,
	SHMD_CQE_RESIZE = 0x5,
	SHMD_CQE_SIG_ERR = 0xc,
	SHMD_CQE_REQ_ERR = 0xd,
	SHMD_CQE_RESP_ERR = 0xe,
	SHMD_CQE_INVALID = 0xf,
};

#define SHMD_CQE_OWNER_MASK 0x01u

/* Syndromes of error CQEs (MLX5_CQE_SYNDROME_*). */
enum shmd_cqe_syndrome {
	SHMD_SYNDROME_LOCAL_LENGTH_ERR = 0x01,
	SHMD_SYNDROME_LOCAL_QP_OP_ERR = 0x02,
	SHMD_SYNDROME_LOCAL_PROT_ERR = 0x04,
	SHMD_SYNDROME_WR_FLUSH_ERR = 0x05,
	SHMD_SYNDROME_MW_BIND_ERR = 0x06,
	SHMD_SYNDROME_BAD_RESP_ERR = 0x10,
	SHMD_SYNDROME_LOCAL_ACCESS_ERR = 0x11,
	SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR = 0x12, /* also of a right that the QP there lacks */
	SHMD_SYNDROME_REMOTE_ACCESS_ERR = 0x13, /* key, range or rights of the region there */
	SHMD_SYNDROME_REMOTE_OP_ERR = 0x14,
	SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR = 0x15,
	SHMD_SYNDROME_RNR_RETRY_EXC_ERR = 0x16,
	SHMD_SYNDROME_REMOTE_ABORTED_ERR = 0x22,
	SHMD_SYNDROME_OUTCOME_UNKNOWN = 0xf1, /* none of mlx5: an atomic was cut off by a restart of the soft NIC */
};

struct shmd_cqe {
	uint8_t reserved0[22];
	shmd_be16 slid; /* UD: source LID */
	shmd_be32 flags_rqpn; /* source qpn 23:0; UD: SL 27:24, GRH present 29:28 */
	uint8_t reserved1[4];
	shmd_be32 srqn_uidx; /* 23:0 */
	shmd_be32 imm_inval_pkey;
	uint8_t reserved2[4];
	shmd_be32 byte_cnt;
	shmd_be64 timestamp;
	shmd_be32 sop_drop_qpn; /* WQE opcode 31:24, qpn 23:0 */
	shmd_be16 wqe_counter; /* index in WQEBBs of the first WQEBB of the completed WQE */
	uint8_t signature;
	uint8_t op_own; /* opcode 7:4, inline scatter 3:2, owner 0 */
};
SHMD_PIN_SIZE(struct shmd_cqe, 64);
SHMD_PIN_OFFSET(struct shmd_cqe, slid, 22);
SHMD_PIN_OFFSET(struct shmd_cqe, flags_rqpn, 24);
SHMD_PIN_OFFSET(struct shmd_cqe, srqn_uidx, 32);
SHMD_PIN_OFFSET(struct shmd_cqe, imm_inval_pkey, 36);
SHMD_PIN_OFFSET(struct shmd_cqe, byte_cnt, 44);
SHMD_PIN_OFFSET(struct shmd_cqe, timestamp, 48);
SHMD_PIN_OFFSET(struct shmd_cqe, sop_drop_qpn, 56);
SHMD_PIN_OFFSET(struct shmd_cqe, wqe_counter, 60);
SHMD_PIN_OFFSET(struct shmd_cqe, signature, 62);
SHMD_PIN_OFFSET(struct shmd_cqe, op_own, 63);

/* Error CQE: the same 64 bytes; the syndrome overlays the timestamp. */
struct shmd_err_cqe {
	uint8_t reserved0[32];
	shmd_be32 srqn;
	uint8_t reserved1[16];
	uint8_t hw_err_synd;
	uint8_t hw_synd_type;
	uint8_t vendor_err_synd;
	uint8_t syndrome;
	shmd_be32 s_wqe_opcode_qpn; /* WQE opcode 31:24, qpn 23:0 */
	shmd_be16 wqe_counter;
	uint8_t signature;
	uint8_t op_own;
};
SHMD_PIN_SIZE(struct shmd_err_cqe, 64);
SHMD_PIN_OFFSET(struct shmd_err_cqe, srqn, 32);
SHMD_PIN_OFFSET(struct shmd_err_cqe, hw_err_synd, 52);
SHMD_PIN_OFFSET(struct shmd_err_cqe, vendor_err_synd, 54);
SHMD_PIN_OFFSET(struct shmd_err_cqe, syndrome, 55);
SHMD_PIN_OFFSET(struct shmd_err_cqe, s_wqe_opcode_qpn, 56);
SHMD_PIN_OFFSET(struct shmd_err_cqe, wqe_counter, 60);
SHMD_PIN_OFFSET(struct shmd_err_cqe, op_own, 63);

#endif
