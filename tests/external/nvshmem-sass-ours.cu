/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call per kernel, scope thread, for nvshmem-sass.py. exclusive and gpu have the sharing of the QP as a constant;
 * plain is the function without a mode, which reads it from the QP. Nothing has a time limit, as with NVSHMEM.
 */
#include <shmd/dev/rma.h>

#define KERNEL extern "C" __global__ void
#define EXCLUSIVE shmd_dev_mode_const(SHMD_DEV_THREAD, SHMD_SHARING_EXCLUSIVE)
#define GPU shmd_dev_mode_const(SHMD_DEV_THREAD, SHMD_SHARING_GPU)

struct ours_request {
	struct shmd_dev_addr remote, local;
	uint64_t bytes;
};

struct ours_signal {
	struct shmd_dev_addr word;
	uint64_t value;
};

static __device__ __forceinline__ struct shmd_dev_signal add_of(const struct ours_signal *signal)
{
	return shmd_dev_signal_of(signal->word, SHMD_DEV_SIGNAL_ADD, signal->value);
}

#define OURS(column, mode)                                                                         \
	KERNEL via_##column##_p(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,               \
				uint64_t value, int *ret_status)                                   \
	{                                                                                          \
		*ret_status = shmd_dev_qp_p_as(qp, remote, value, 8, mode);                        \
	}                                                                                          \
	KERNEL via_##column##_put(struct shmd_dev_qp *qp, struct ours_request r, int *ret_status)  \
	{                                                                                          \
		*ret_status = shmd_dev_qp_put_as(qp, r.remote, r.local, r.bytes, mode);            \
	}                                                                                          \
	KERNEL via_##column##_put_nbi(struct shmd_dev_qp *qp, struct ours_request r,               \
				      int *ret_status)                                             \
	{                                                                                          \
		*ret_status = shmd_dev_qp_put_nbi_as(qp, r.remote, r.local, r.bytes, mode);        \
	}                                                                                          \
	KERNEL via_##column##_put_signal(struct shmd_dev_qp *qp, struct ours_request r,            \
					 struct ours_signal signal, int *ret_status)               \
	{                                                                                          \
		*ret_status = shmd_dev_qp_put_signal_as(qp, r.remote, r.local, r.bytes,            \
							add_of(&signal), mode);                    \
	}                                                                                          \
	KERNEL via_##column##_put_signal_nbi(struct shmd_dev_qp *qp, struct ours_request r,        \
					     struct ours_signal signal, int *ret_status)           \
	{                                                                                          \
		*ret_status = shmd_dev_qp_put_signal_nbi_as(qp, r.remote, r.local, r.bytes,        \
							    add_of(&signal), mode);                \
	}                                                                                          \
	KERNEL via_##column##_quiet(struct shmd_dev_qp *qp, int *ret_status)                       \
	{                                                                                          \
		*ret_status = shmd_dev_qp_quiet_as(qp, mode);                                      \
	}

OURS(exclusive, EXCLUSIVE)
OURS(gpu, GPU)
/* The part that plain functions do themselves. */
OURS(plain, shmd_dev_mode_of(qp, SHMD_DEV_NO_TIMEOUT))
