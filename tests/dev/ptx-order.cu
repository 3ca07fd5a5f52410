/* SPDX-License-Identifier: Apache-2.0 */
/* The send path as PTX, for check-ptx.py: one inline write with constants for sharing and scope. */
#include <shmd/dev/rma.h>

#define PUT(name, sharing)                                                                         \
	extern "C" __global__ void name(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,       \
					uint64_t value, int *status)                               \
	{                                                                                          \
		*status = shmd_dev_qp_p_as(qp, remote, value, 8,                                   \
					   shmd_dev_mode_const(SHMD_DEV_WARP, sharing));           \
	}

PUT(put_exclusive, SHMD_SHARING_EXCLUSIVE)
PUT(put_block, SHMD_SHARING_BLOCK)
PUT(put_gpu, SHMD_SHARING_GPU)

/* The same to a peer of a DCI. */
#define PUT_DC(name, sharing)                                                                      \
	extern "C" __global__ void name(struct shmd_dev_qp *qp, const struct shmd_dev_peer *peer,  \
					struct shmd_dev_addr remote, uint64_t value, int *status)  \
	{                                                                                          \
		SHMDI_ASSUME(peer != 0);                                                           \
		*status = shmd_dev_qp_p_as(                                                        \
			qp, remote, value, 8,                                                      \
			shmd_dev_mode_to(shmd_dev_mode_const(SHMD_DEV_WARP, sharing), peer));      \
	}

PUT_DC(dc_exclusive, SHMD_SHARING_EXCLUSIVE)
PUT_DC(dc_block, SHMD_SHARING_BLOCK)
PUT_DC(dc_gpu, SHMD_SHARING_GPU)

extern "C" __global__ void wait_all(struct shmd_dev_qp *qp, int *status)
{
	*status = shmd_dev_qp_quiet_as(qp,
				       shmd_dev_mode_const(SHMD_DEV_WARP, SHMD_SHARING_EXCLUSIVE));
}

extern "C" __global__ void wait_word(struct shmd_dev_qp *qp, const uint64_t *word, int *status)
{
	*status = shmd_dev_qp_test64_as(qp, word, SHMD_DEV_CMP_EQ, 1,
					shmd_dev_mode_const(SHMD_DEV_WARP, SHMD_SHARING_EXCLUSIVE));
}
