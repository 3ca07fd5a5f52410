/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a context: its objects as bytes for another process, in the form of nic-record.h. Pure: no rdma-core, no NIC.
 */
#ifndef SHMEMD_NIC_MLX5_RECORD_H
#define SHMEMD_NIC_MLX5_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/nic/nic.h"

#define MLX5_RECORD_VERSION 3u
#define MLX5_BLOB_BYTES 64u /* most that libmlx5 exports of one object */

/* An object of the kernel's. */
struct mlx5_object_record {
	uint32_t number; /* what firmware and WQEs know it by; 0 for CQs and QPs, whose layout has it */
	uint32_t handle; /* the kernel's */
	uint32_t blob_bytes; /* 0: made by own calls */
	uint8_t blob[MLX5_BLOB_BYTES];
	bool gone; /* it was destroyed, and what it belongs to not yet: all but the number is 0 */
	enum nic_qp_state state; /* of a QP, as its maker left it; in the record of QPs only */
};

struct mlx5_record_mr {
	bool gone; /* as above */
	uint32_t handle;
	uint32_t lkey, rkey;
	uint64_t length_bytes;
};

struct mlx5_record_batch {
	enum nic_mem_kind kind;
	uint64_t mem_offset;
	struct mlx5_object_record umem;
	struct nic_layout layout; /* owned */
	struct mlx5_object_record *cqs; /* owned, as many as the layout has */
	struct mlx5_object_record *qps;
};

struct mlx5_record {
	uint64_t guid; /* of the NIC, as libibverbs tells it */
	uint8_t port;
	bool meddled;
	bool heard; /* doorbell mode cpu */
	uint32_t pd_handle, pdn;
	struct mlx5_object_record uar;
	uint64_t uar_mmap_off;
	bool has_counters;
	struct mlx5_object_record counters;
	bool has_rmp; /* of receives, for DCTs */
	struct mlx5_object_record rmp_umem, rmp;
	uint32_t n_mrs, n_batches;
	struct mlx5_record_mr *mrs; /* owned */
	struct mlx5_record_batch *batches; /* owned */
};

/* Errors are those of nic-record.h. */
int mlx5_record_encode_mr(const struct mlx5_record_mr *mr, void **ret_data, size_t *ret_bytes); /* a part */
int mlx5_record_encode_batch(const struct mlx5_record_batch *batch, void **ret_data, size_t *ret_bytes);
int mlx5_record_encode(const struct mlx5_record *record, void **ret_data, size_t *ret_bytes);
int mlx5_record_decode(const void *data, size_t bytes, struct mlx5_record *ret_record);
void mlx5_record_deinit(void *record); /* also after a failure, which leaves zeros */

#endif
