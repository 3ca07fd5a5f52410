/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlx5 send and receive work queue entries (WQEs).
 *
 * A send WQE is a control segment followed by segments that depend on the opcode, in units of 16 bytes
 * ("ds"); it occupies whole 64-byte basic blocks (WQEBBs), and wraps at the end of the ring block by block.
 * Source of every layout: mlx5 PRM, chapter "Work queue elements", as published in rdma-core's
 * providers/mlx5/mlx5dv.h (struct mlx5_wqe_*_seg) and in linux/mlx5/qp.h.
 */
#ifndef SHMD_ABI_WQE_H
#define SHMD_ABI_WQE_H

#include "types.h"

#define SHMD_WQEBB_BYTES 64u
#define SHMD_WQEBB_SHIFT 6
#define SHMD_DS_BYTES 16u
/* ds is a 6-bit field: 63 units at most, and a WQE never covers more than 16 WQEBBs. */
#define SHMD_WQE_MAX_DS 63u
#define SHMD_WQE_MAX_WQEBBS 16u

/* Opcodes, control segment dword 0 bits 7:0 (enum MLX5_OPCODE_*). */
enum shmd_wqe_opcode {
	SHMD_OPCODE_NOP = 0x00,
	SHMD_OPCODE_SEND_INVAL = 0x01,
	SHMD_OPCODE_RDMA_WRITE = 0x08,
	SHMD_OPCODE_RDMA_WRITE_IMM = 0x09,
	SHMD_OPCODE_SEND = 0x0a,
	SHMD_OPCODE_SEND_IMM = 0x0b,
	SHMD_OPCODE_TSO = 0x0e,
	SHMD_OPCODE_RDMA_READ = 0x10,
	SHMD_OPCODE_ATOMIC_CS = 0x11,
	SHMD_OPCODE_ATOMIC_FA = 0x12,
	SHMD_OPCODE_ATOMIC_MASKED_CS = 0x14,
	SHMD_OPCODE_ATOMIC_MASKED_FA = 0x15,
	SHMD_OPCODE_LOCAL_INVAL = 0x1b,
	SHMD_OPCODE_DUMP = 0x23,
	SHMD_OPCODE_UMR = 0x25,
};

/* opmod of the masked atomics, control segment dword 0 bits 31:24: size of the remote word. */
#define SHMD_OPMOD_EXT_ATOMIC_4 0x08u
#define SHMD_OPMOD_EXT_ATOMIC_8 0x09u

/* fm_ce_se, control segment byte 11. */
#define SHMD_WQE_SOLICITED 0x02u
#define SHMD_WQE_CE_MASK 0x0cu
#define SHMD_WQE_CE_ERROR_ONLY 0x00u /* CQE only when the WQE fails */
#define SHMD_WQE_CE_FIRST_ERROR 0x04u /* same as above for our purpose; PRM "only on first error" */
#define SHMD_WQE_CE_ALWAYS 0x08u /* MLX5_WQE_CTRL_CQ_UPDATE */
#define SHMD_WQE_CE_ALWAYS_EQE 0x0cu
#define SHMD_WQE_FM_MASK 0xe0u
#define SHMD_WQE_FM_NONE 0x00u
#define SHMD_WQE_FM_INITIATOR_SMALL 0x20u
#define SHMD_WQE_FM_FENCE 0x40u /* wait for all earlier reads and atomics of this QP */
#define SHMD_WQE_FM_STRONG 0x60u
#define SHMD_WQE_FM_FENCE_AND_SMALL 0x80u

struct shmd_wqe_ctrl_seg {
	shmd_be32 opmod_idx_opcode; /* opmod 31:24, WQE index (in WQEBBs, 16 bits) 23:8, opcode 7:0 */
	shmd_be32 qpn_ds; /* qpn 31:8, ds 5:0 */
	uint8_t signature;
	uint8_t dci_stream_be[2];
	uint8_t fm_ce_se;
	shmd_be32 imm; /* immediate, or rkey to invalidate, or UMR mkey */
};
SHMD_PIN_SIZE(struct shmd_wqe_ctrl_seg, 16);
SHMD_PIN_OFFSET(struct shmd_wqe_ctrl_seg, qpn_ds, 4);
SHMD_PIN_OFFSET(struct shmd_wqe_ctrl_seg, signature, 8);
SHMD_PIN_OFFSET(struct shmd_wqe_ctrl_seg, dci_stream_be, 9);
SHMD_PIN_OFFSET(struct shmd_wqe_ctrl_seg, fm_ce_se, 11);
SHMD_PIN_OFFSET(struct shmd_wqe_ctrl_seg, imm, 12);

struct shmd_wqe_raddr_seg {
	shmd_be64 raddr; /* bytes, in the address space (iova) of the remote memory region */
	shmd_be32 rkey;
	uint32_t reserved;
};
SHMD_PIN_SIZE(struct shmd_wqe_raddr_seg, 16);
SHMD_PIN_OFFSET(struct shmd_wqe_raddr_seg, raddr, 0);
SHMD_PIN_OFFSET(struct shmd_wqe_raddr_seg, rkey, 8);
SHMD_PIN_OFFSET(struct shmd_wqe_raddr_seg, reserved, 12);

/*
 * Data by reference. byte_count is 31 bits. Zero means 2^31 bytes to the hardware (IBTA message limit), so a
 * request without payload has no data segment at all.
 */
struct shmd_wqe_data_seg {
	shmd_be32 byte_count;
	shmd_be32 lkey;
	shmd_be64 addr;
};
SHMD_PIN_SIZE(struct shmd_wqe_data_seg, 16);
SHMD_PIN_OFFSET(struct shmd_wqe_data_seg, byte_count, 0);
SHMD_PIN_OFFSET(struct shmd_wqe_data_seg, lkey, 4);
SHMD_PIN_OFFSET(struct shmd_wqe_data_seg, addr, 8);

/* Data in the WQE: this word, then the bytes, padded to 16. */
#define SHMD_INLINE_SEG 0x80000000u
struct shmd_wqe_inline_seg {
	shmd_be32 byte_count; /* SHMD_INLINE_SEG | length */
};
SHMD_PIN_SIZE(struct shmd_wqe_inline_seg, 4);

/* ATOMIC_CS (swap, compare) and ATOMIC_FA (add, ignored), 8 bytes. */
struct shmd_wqe_atomic_seg {
	shmd_be64 swap_add;
	shmd_be64 compare;
};
SHMD_PIN_SIZE(struct shmd_wqe_atomic_seg, 16);
SHMD_PIN_OFFSET(struct shmd_wqe_atomic_seg, swap_add, 0);
SHMD_PIN_OFFSET(struct shmd_wqe_atomic_seg, compare, 8);

/* ATOMIC_MASKED_CS at 4 bytes: new = (old & compare_mask) == (compare & compare_mask)
 * ? (old & ~swap_mask) | (swap & swap_mask) : old */
struct shmd_wqe_masked_cs32_seg {
	shmd_be32 swap;
	shmd_be32 compare;
	shmd_be32 swap_mask;
	shmd_be32 compare_mask;
};
SHMD_PIN_SIZE(struct shmd_wqe_masked_cs32_seg, 16);

/* ATOMIC_MASKED_FA at 4 bytes. A set bit in the boundary stops the carry out of that bit. */
struct shmd_wqe_masked_fa32_seg {
	shmd_be32 add;
	shmd_be32 boundary;
	uint32_t reserved[2];
};
SHMD_PIN_SIZE(struct shmd_wqe_masked_fa32_seg, 16);

/* ATOMIC_MASKED_CS at 8 bytes: two ds units. */
struct shmd_wqe_masked_cs64_seg {
	shmd_be64 swap;
	shmd_be64 compare;
	shmd_be64 swap_mask;
	shmd_be64 compare_mask;
};
SHMD_PIN_SIZE(struct shmd_wqe_masked_cs64_seg, 32);

/* ATOMIC_MASKED_FA at 8 bytes. */
struct shmd_wqe_masked_fa64_seg {
	shmd_be64 add;
	shmd_be64 boundary;
};
SHMD_PIN_SIZE(struct shmd_wqe_masked_fa64_seg, 16);

/*
 * How the previous contents of the remote word arrive in the data segment of an atomic. Remote words are
 * native-endian in memory, operands are big-endian in the WQE. Results of 8 bytes, plain and masked, are
 * native-endian in the NIC's host-endianness mode for atomics, which drivers choose where the NIC has it; a NIC without it
 * gives them big-endian (SHMD_QP_ATOMIC_8_BE). Results of 4 bytes, which only masked atomics have, are big-endian, and the
 * reader swaps them.
 */
#define SHMD_ATOMIC_RESULT_8_IS_BE 0
#define SHMD_ATOMIC_RESULT_4_IS_BE 1

/*
 * Address vector of UD and DCI WQEs, behind the control segment (struct mlx5_wqe_av). The short form, without
 * SHMD_AV_EXTENDED, is its first 16 bytes.
 */
#define SHMD_AV_EXTENDED 0x80000000u
#define SHMD_AV_SHORT_BYTES 16u
#define SHMD_AV_GRH 0x40000000u /* in grh_gid_fl: GRH present, on InfiniBand; source GID index 27:20, flow label 19:0 */
#define SHMD_GRH_BYTES 40u /* in front of the payload of a UD message, in its receive buffer */
struct shmd_wqe_av_seg {
	shmd_be64 dc_key; /* UD: Q_Key in the upper 32 bits; its top bit set: the QP's own instead */
	shmd_be32 dqp_dct; /* SHMD_AV_EXTENDED | number */
	uint8_t stat_rate_sl;
	uint8_t fl_mlid;
	shmd_be16 rlid; /* RoCE: UDP source port */
	uint8_t reserved0[4];
	uint8_t rmac[6];
	uint8_t tclass;
	uint8_t hop_limit;
	shmd_be32 grh_gid_fl;
	uint8_t rgid[16];
};
SHMD_PIN_SIZE(struct shmd_wqe_av_seg, 48);
SHMD_PIN_OFFSET(struct shmd_wqe_av_seg, dqp_dct, 8);
SHMD_PIN_OFFSET(struct shmd_wqe_av_seg, rlid, 14);
SHMD_PIN_OFFSET(struct shmd_wqe_av_seg, rmac, 20);
SHMD_PIN_OFFSET(struct shmd_wqe_av_seg, grh_gid_fl, 28);
SHMD_PIN_OFFSET(struct shmd_wqe_av_seg, rgid, 32);

/* Follows the control segment in a WQE of an XRC QP (struct mlx5_wqe_xrc_seg): the SRQ that the message goes to. */
struct shmd_wqe_xrc_seg {
	shmd_be32 srqn; /* 24 bits */
	uint8_t reserved[12];
};
SHMD_PIN_SIZE(struct shmd_wqe_xrc_seg, 16);
SHMD_PIN_OFFSET(struct shmd_wqe_xrc_seg, srqn, 0);

/*
 * Follows the control segment in a WQE of a raw packet QP (struct mlx5_wqe_eth_seg): offloads, and the first bytes of the frame.
 * Bytes beyond the first two follow, padded to 16.
 */
struct shmd_wqe_eth_seg {
	uint8_t reserved0[4];
	uint8_t cs_flags;
	uint8_t reserved1;
	shmd_be16 mss;
	uint8_t reserved2[4];
	shmd_be16 inline_hdr_bytes;
	uint8_t inline_hdr[2];
};
SHMD_PIN_SIZE(struct shmd_wqe_eth_seg, 16);
SHMD_PIN_OFFSET(struct shmd_wqe_eth_seg, inline_hdr_bytes, 12);

/*
 * A WQE of a shared receive queue begins with this, then data segments as in a receive WQE. The NIC takes WQE 0 first and
 * follows the indexes; the client appends what it has got back behind the last one.
 */
struct shmd_wqe_srq_next_seg {
	uint8_t reserved0[2];
	shmd_be16 next_wqe_index;
	uint8_t signature;
	uint8_t reserved1[11];
};
SHMD_PIN_SIZE(struct shmd_wqe_srq_next_seg, 16);
SHMD_PIN_OFFSET(struct shmd_wqe_srq_next_seg, next_wqe_index, 2);
SHMD_PIN_OFFSET(struct shmd_wqe_srq_next_seg, signature, 4);

/*
 * A receive WQE is 2^n data segments in a fixed stride; a segment with this lkey and byte_count 0 ends the
 * list early. The value is therefore never issued as a key (mlx5 "terminate scatter list" key).
 */
#define SHMD_LKEY_TERMINATE 0x100u

#endif
