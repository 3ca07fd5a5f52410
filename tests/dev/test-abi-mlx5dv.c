/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our layouts and numbers against those of the installed rdma-core, and the WQEs of prepare against its setters.
 * Skipped where its headers are absent; test-prepare has the encoding that needs none.
 */
#include "config.h"

#include "tests/lib/test.h"

#if HAVE_RDMA_CORE

#include <endian.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "tests/dev/wqe-cases.h"

#define SAME_SIZE(ours, theirs) ASSERT_EQ(sizeof(struct ours), sizeof(struct theirs))
#define SAME_FIELD(ours, our_field, theirs, their_field)                                           \
	do {                                                                                       \
		ASSERT_EQ(offsetof(struct ours, our_field), offsetof(struct theirs, their_field)); \
		ASSERT_EQ(sizeof(((struct ours *)0)->our_field),                                   \
			  sizeof(((struct theirs *)0)->their_field));                              \
	} while (0)

TEST(wqe_segments_are_laid_out_as_in_mlx5dv)
{
	SAME_SIZE(shmd_wqe_ctrl_seg, mlx5_wqe_ctrl_seg);
	SAME_FIELD(shmd_wqe_ctrl_seg, opmod_idx_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
	SAME_FIELD(shmd_wqe_ctrl_seg, qpn_ds, mlx5_wqe_ctrl_seg, qpn_ds);
	SAME_FIELD(shmd_wqe_ctrl_seg, signature, mlx5_wqe_ctrl_seg, signature);
	SAME_FIELD(shmd_wqe_ctrl_seg, dci_stream_be, mlx5_wqe_ctrl_seg, dci_stream_channel_id);
	SAME_FIELD(shmd_wqe_ctrl_seg, fm_ce_se, mlx5_wqe_ctrl_seg, fm_ce_se);
	SAME_FIELD(shmd_wqe_ctrl_seg, imm, mlx5_wqe_ctrl_seg, imm);
	SAME_SIZE(shmd_wqe_raddr_seg, mlx5_wqe_raddr_seg);
	SAME_FIELD(shmd_wqe_raddr_seg, raddr, mlx5_wqe_raddr_seg, raddr);
	SAME_FIELD(shmd_wqe_raddr_seg, rkey, mlx5_wqe_raddr_seg, rkey);
	SAME_SIZE(shmd_wqe_data_seg, mlx5_wqe_data_seg);
	SAME_FIELD(shmd_wqe_data_seg, byte_count, mlx5_wqe_data_seg, byte_count);
	SAME_FIELD(shmd_wqe_data_seg, lkey, mlx5_wqe_data_seg, lkey);
	SAME_FIELD(shmd_wqe_data_seg, addr, mlx5_wqe_data_seg, addr);
	SAME_SIZE(shmd_wqe_inline_seg, mlx5_wqe_inl_data_seg);
	SAME_FIELD(shmd_wqe_inline_seg, byte_count, mlx5_wqe_inl_data_seg, byte_count);
	SAME_SIZE(shmd_wqe_atomic_seg, mlx5_wqe_atomic_seg);
	SAME_FIELD(shmd_wqe_atomic_seg, swap_add, mlx5_wqe_atomic_seg, swap_add);
	SAME_FIELD(shmd_wqe_atomic_seg, compare, mlx5_wqe_atomic_seg, compare);
}

TEST(address_vectors_are_laid_out_as_in_mlx5dv)
{
	SAME_SIZE(shmd_wqe_av_seg, mlx5_wqe_av);
	SAME_FIELD(shmd_wqe_av_seg, dc_key, mlx5_wqe_av, key);
	SAME_FIELD(shmd_wqe_av_seg, dqp_dct, mlx5_wqe_av, dqp_dct);
	SAME_FIELD(shmd_wqe_av_seg, stat_rate_sl, mlx5_wqe_av, stat_rate_sl);
	SAME_FIELD(shmd_wqe_av_seg, fl_mlid, mlx5_wqe_av, fl_mlid);
	SAME_FIELD(shmd_wqe_av_seg, rlid, mlx5_wqe_av, rlid);
	SAME_FIELD(shmd_wqe_av_seg, rmac, mlx5_wqe_av, rmac);
	SAME_FIELD(shmd_wqe_av_seg, tclass, mlx5_wqe_av, tclass);
	SAME_FIELD(shmd_wqe_av_seg, hop_limit, mlx5_wqe_av, hop_limit);
	SAME_FIELD(shmd_wqe_av_seg, grh_gid_fl, mlx5_wqe_av, grh_gid_fl);
	SAME_FIELD(shmd_wqe_av_seg, rgid, mlx5_wqe_av, rgid);
	ASSERT_EQ(SHMD_AV_EXTENDED, (uint32_t)MLX5_EXTENDED_UD_AV);
}

TEST(cqes_are_laid_out_as_in_mlx5dv)
{
	SAME_SIZE(shmd_wqe_srq_next_seg, mlx5_wqe_srq_next_seg);
	SAME_FIELD(shmd_wqe_srq_next_seg, next_wqe_index, mlx5_wqe_srq_next_seg, next_wqe_index);
	SAME_FIELD(shmd_wqe_srq_next_seg, signature, mlx5_wqe_srq_next_seg, signature);
	SAME_SIZE(shmd_cqe, mlx5_cqe64);
	SAME_FIELD(shmd_cqe, slid, mlx5_cqe64, slid);
	SAME_FIELD(shmd_cqe, flags_rqpn, mlx5_cqe64, flags_rqpn);
	SAME_FIELD(shmd_cqe, srqn_uidx, mlx5_cqe64, srqn_uidx);
	SAME_FIELD(shmd_cqe, imm_inval_pkey, mlx5_cqe64, imm_inval_pkey);
	SAME_FIELD(shmd_cqe, byte_cnt, mlx5_cqe64, byte_cnt);
	SAME_FIELD(shmd_cqe, timestamp, mlx5_cqe64, timestamp);
	SAME_FIELD(shmd_cqe, sop_drop_qpn, mlx5_cqe64, sop_drop_qpn);
	SAME_FIELD(shmd_cqe, wqe_counter, mlx5_cqe64, wqe_counter);
	SAME_FIELD(shmd_cqe, signature, mlx5_cqe64, signature);
	SAME_FIELD(shmd_cqe, op_own, mlx5_cqe64, op_own);
	SAME_SIZE(shmd_err_cqe, mlx5_err_cqe);
	SAME_FIELD(shmd_err_cqe, srqn, mlx5_err_cqe, srqn);
	SAME_FIELD(shmd_err_cqe, vendor_err_synd, mlx5_err_cqe, vendor_err_synd);
	SAME_FIELD(shmd_err_cqe, syndrome, mlx5_err_cqe, syndrome);
	SAME_FIELD(shmd_err_cqe, s_wqe_opcode_qpn, mlx5_err_cqe, s_wqe_opcode_qpn);
	SAME_FIELD(shmd_err_cqe, wqe_counter, mlx5_err_cqe, wqe_counter);
	SAME_FIELD(shmd_err_cqe, op_own, mlx5_err_cqe, op_own);
}

TEST(opcodes_are_those_of_mlx5dv)
{
	ASSERT_EQ(SHMD_OPCODE_NOP, MLX5_OPCODE_NOP);
	ASSERT_EQ(SHMD_OPCODE_SEND_INVAL, MLX5_OPCODE_SEND_INVAL);
	ASSERT_EQ(SHMD_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE);
	ASSERT_EQ(SHMD_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_WRITE_IMM);
	ASSERT_EQ(SHMD_OPCODE_SEND, MLX5_OPCODE_SEND);
	ASSERT_EQ(SHMD_OPCODE_SEND_IMM, MLX5_OPCODE_SEND_IMM);
	ASSERT_EQ(SHMD_OPCODE_TSO, MLX5_OPCODE_TSO);
	ASSERT_EQ(SHMD_OPCODE_RDMA_READ, MLX5_OPCODE_RDMA_READ);
	ASSERT_EQ(SHMD_OPCODE_ATOMIC_CS, MLX5_OPCODE_ATOMIC_CS);
	ASSERT_EQ(SHMD_OPCODE_ATOMIC_FA, MLX5_OPCODE_ATOMIC_FA);
	ASSERT_EQ(SHMD_OPCODE_ATOMIC_MASKED_CS, MLX5_OPCODE_ATOMIC_MASKED_CS);
	ASSERT_EQ(SHMD_OPCODE_ATOMIC_MASKED_FA, MLX5_OPCODE_ATOMIC_MASKED_FA);
	ASSERT_EQ(SHMD_OPCODE_LOCAL_INVAL, MLX5_OPCODE_LOCAL_INVAL);
	ASSERT_EQ(SHMD_OPCODE_UMR, MLX5_OPCODE_UMR);
}

TEST(cqe_numbers_are_those_of_mlx5dv)
{
	ASSERT_EQ(SHMD_CQE_REQ, MLX5_CQE_REQ);
	ASSERT_EQ(SHMD_CQE_RESP_WRITE_IMM, MLX5_CQE_RESP_WR_IMM);
	ASSERT_EQ(SHMD_CQE_RESP_SEND, MLX5_CQE_RESP_SEND);
	ASSERT_EQ(SHMD_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_IMM);
	ASSERT_EQ(SHMD_CQE_RESP_SEND_INV, MLX5_CQE_RESP_SEND_INV);
	ASSERT_EQ(SHMD_CQE_RESIZE, MLX5_CQE_RESIZE_CQ);
	ASSERT_EQ(SHMD_CQE_SIG_ERR, MLX5_CQE_SIG_ERR);
	ASSERT_EQ(SHMD_CQE_REQ_ERR, MLX5_CQE_REQ_ERR);
	ASSERT_EQ(SHMD_CQE_RESP_ERR, MLX5_CQE_RESP_ERR);
	ASSERT_EQ(SHMD_CQE_INVALID, MLX5_CQE_INVALID);
	ASSERT_EQ(SHMD_CQE_OWNER_MASK, MLX5_CQE_OWNER_MASK);
	ASSERT_EQ(SHMD_SYNDROME_LOCAL_LENGTH_ERR, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	ASSERT_EQ(SHMD_SYNDROME_LOCAL_QP_OP_ERR, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	ASSERT_EQ(SHMD_SYNDROME_LOCAL_PROT_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	ASSERT_EQ(SHMD_SYNDROME_WR_FLUSH_ERR, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	ASSERT_EQ(SHMD_SYNDROME_MW_BIND_ERR, MLX5_CQE_SYNDROME_MW_BIND_ERR);
	ASSERT_EQ(SHMD_SYNDROME_BAD_RESP_ERR, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	ASSERT_EQ(SHMD_SYNDROME_LOCAL_ACCESS_ERR, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
	ASSERT_EQ(SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
	ASSERT_EQ(SHMD_SYNDROME_REMOTE_ACCESS_ERR, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(SHMD_SYNDROME_REMOTE_OP_ERR, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
	ASSERT_EQ(SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	ASSERT_EQ(SHMD_SYNDROME_RNR_RETRY_EXC_ERR, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	ASSERT_EQ(SHMD_SYNDROME_REMOTE_ABORTED_ERR, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);
}

TEST(other_numbers_are_those_of_mlx5dv)
{
	ASSERT_EQ(SHMD_WQEBB_BYTES, MLX5_SEND_WQE_BB);
	ASSERT_EQ(SHMD_WQEBB_SHIFT, MLX5_SEND_WQE_SHIFT);
	ASSERT_EQ(SHMD_INLINE_SEG, (uint32_t)MLX5_INLINE_SEG);
	ASSERT_EQ(SHMD_LKEY_TERMINATE, MLX5_INVALID_LKEY);
	ASSERT_EQ(SHMD_WQE_CE_ALWAYS, MLX5_WQE_CTRL_CQ_UPDATE);
	ASSERT_EQ(SHMD_WQE_SOLICITED, MLX5_WQE_CTRL_SOLICITED);
	ASSERT_EQ(SHMD_WQE_FM_INITIATOR_SMALL, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
	/* rdma-core's name for its fence is the combined mode; the plain one has no name there. */
	ASSERT_EQ(SHMD_WQE_FM_FENCE_AND_SMALL, MLX5_WQE_CTRL_FENCE);
	ASSERT_EQ(SHMD_DB_CQ_ARM_OFFSET, MLX5_CQ_DOORBELL);
	ASSERT_EQ(offsetof(struct shmd_dbrec, rcv), MLX5_RCV_DBR * 4u);
	ASSERT_EQ(offsetof(struct shmd_dbrec, snd), MLX5_SND_DBR * 4u);
}

TEST(cqe_accessors_agree)
{
	struct shmd_cqe cqe;
	struct mlx5_cqe64 theirs;

	memset(&cqe, 0, sizeof(cqe));
	cqe.op_own = SHMD_CQE_REQ_ERR << 4 | SHMD_CQE_OWNER_MASK;
	memcpy(&theirs, &cqe, sizeof(theirs));
	ASSERT_EQ(mlx5dv_get_cqe_opcode(&theirs), SHMD_CQE_REQ_ERR);
	ASSERT_EQ(mlx5dv_get_cqe_owner(&theirs), 1);
}

/* ---- WQEs by rdma-core's setters ------------------------------------------------------------------------- */

/* An extended atomic as libmlx5 has no public struct for: the plain one twice, or its halves. */
static size_t put_atomic(uint8_t *at, const struct wqe_case *c)
{
	struct mlx5_wqe_atomic_seg seg = {.swap_add = htobe64(c->swap_or_add)};
	uint32_t words[4] = {htobe32((uint32_t)c->swap_or_add),
			     htobe32((uint32_t)c->compare_or_boundary), 0, 0};

	if (c->kind == KIND_MASKED_CS32) {
		words[2] = htobe32((uint32_t)c->swap_mask);
		words[3] = htobe32((uint32_t)c->compare_mask);
	}
	if (c->kind == KIND_MASKED_FA32 || c->kind == KIND_MASKED_CS32) {
		memcpy(at, words, 16);
		return 16;
	}
	if (c->kind != KIND_ATOMIC_FA)
		seg.compare = htobe64(c->compare_or_boundary);
	memcpy(at, &seg, 16);
	if (c->kind != KIND_MASKED_CS64)
		return 16;
	seg.swap_add = htobe64(c->swap_mask);
	seg.compare = htobe64(c->compare_mask);
	memcpy(at + 16, &seg, 16);
	return 32;
}

static size_t put_inline(uint8_t *at, const struct wqe_case *c)
{
	struct mlx5_wqe_inl_data_seg seg = {.byte_count = htobe32(c->bytes | MLX5_INLINE_SEG)};

	memcpy(at, &seg, sizeof(seg));
	memcpy(at + sizeof(seg), c->data, c->bytes);
	return (sizeof(seg) + c->bytes + 15) / 16 * 16;
}

struct shape {
	uint8_t opcode, opmod;
	bool has_raddr;
};

static struct shape shape_of(enum wqe_kind kind)
{
	static const struct shape shapes[N_KINDS] = {
		[KIND_NOP] = {MLX5_OPCODE_NOP, 0, false},
		[KIND_WRITE] = {MLX5_OPCODE_RDMA_WRITE, 0, true},
		[KIND_WRITE_IMM] = {MLX5_OPCODE_RDMA_WRITE_IMM, 0, true},
		[KIND_WRITE_IMM_EMPTY] = {MLX5_OPCODE_RDMA_WRITE_IMM, 0, true},
		[KIND_WRITE_VALUE] = {MLX5_OPCODE_RDMA_WRITE, 0, true},
		[KIND_WRITE_INLINE] = {MLX5_OPCODE_RDMA_WRITE, 0, true},
		[KIND_READ] = {MLX5_OPCODE_RDMA_READ, 0, true},
		[KIND_SEND] = {MLX5_OPCODE_SEND, 0, false},
		[KIND_SEND_IMM] = {MLX5_OPCODE_SEND_IMM, 0, false},
		[KIND_SEND_EMPTY] = {MLX5_OPCODE_SEND, 0, false},
		[KIND_ATOMIC_FA] = {MLX5_OPCODE_ATOMIC_FA, 0, true},
		[KIND_ATOMIC_CS] = {MLX5_OPCODE_ATOMIC_CS, 0, true},
		[KIND_MASKED_FA32] = {MLX5_OPCODE_ATOMIC_MASKED_FA, 8, true},
		[KIND_MASKED_FA64] = {MLX5_OPCODE_ATOMIC_MASKED_FA, 9, true},
		[KIND_MASKED_CS32] = {MLX5_OPCODE_ATOMIC_MASKED_CS, 8, true},
		[KIND_MASKED_CS64] = {MLX5_OPCODE_ATOMIC_MASKED_CS, 9, true},
	};

	return shapes[kind];
}

static size_t put_av(uint8_t *at, const struct wqe_case_av *av)
{
	struct mlx5_wqe_av seg = {.key.dc_key = htobe64(av->dc_key),
				  .dqp_dct = htobe32(MLX5_EXTENDED_UD_AV | av->dctn),
				  .stat_rate_sl = av->sl,
				  .fl_mlid = av->fl_mlid,
				  .rlid = htobe16(av->rlid),
				  .tclass = av->tclass,
				  .hop_limit = av->hop_limit,
				  .grh_gid_fl = htobe32(av->grh_gid_fl)};

	memcpy(seg.rmac, av->rmac, sizeof(seg.rmac));
	memcpy(seg.rgid, av->rgid, sizeof(seg.rgid));
	memcpy(at, &seg, sizeof(seg));
	return sizeof(seg);
}

static size_t encode(const struct wqe_case *c, uint8_t wqe[WQE_CASE_MAX_BYTES])
{
	struct shape shape = shape_of(c->kind);
	bool has_av = c->has_av && c->kind != KIND_NOP;
	uint8_t flags = has_av || c->kind == KIND_MASKED_CS64 ? c->flags & (uint8_t)~MLX5_WQE_CTRL_CQ_UPDATE
							      : c->flags;
	struct mlx5_wqe_raddr_seg raddr = {.raddr = htobe64(c->raddr), .rkey = htobe32(c->rkey)};
	struct mlx5_wqe_ctrl_seg ctrl = {0};
	struct mlx5_wqe_data_seg data;
	size_t n = sizeof(ctrl);

	if (has_av)
		n += put_av(wqe + n, &c->av);
	if (shape.has_raddr) {
		memcpy(wqe + n, &raddr, sizeof(raddr));
		n += sizeof(raddr);
	}
	if (c->kind >= KIND_ATOMIC_FA)
		n += put_atomic(wqe + n, c);
	if (c->kind == KIND_WRITE_VALUE || c->kind == KIND_WRITE_INLINE) {
		n += put_inline(wqe + n, c);
	} else if (c->kind != KIND_NOP && c->bytes) {
		mlx5dv_set_data_seg(&data, c->bytes, c->lkey, c->laddr);
		memcpy(wqe + n, &data, sizeof(data));
		n += sizeof(data);
	}
	mlx5dv_set_ctrl_seg(&ctrl, (uint16_t)c->index, shape.opcode, shape.opmod, WQE_CASE_QPN,
			    flags, (uint8_t)(n / 16), 0, htobe32(c->imm));
	memcpy(wqe, &ctrl, sizeof(ctrl));
	return n;
}

TEST(wqes_are_those_of_mlx5dv_setters)
{
	wqe_cases_run(encode);
}

#else

TEST(layouts_are_those_of_mlx5dv)
{
	test_skip("built without rdma-core's headers");
}

#endif
