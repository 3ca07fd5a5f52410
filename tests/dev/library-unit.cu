/* SPDX-License-Identifier: Apache-2.0 */
/* The other unit of a program with tests/gpu/plain.cu, for check-library.py: it is linked, never run. */
#include <shmd/dev/rma.h>

#include "tests/gpu/kernels.h"

extern "C" __global__ void shmd_kernel_plain(struct shmd_kernel_args args);

extern "C" __global__ void quiet(struct shmd_dev_qp *qp, int *ret_status)
{
	*ret_status = shmd_dev_qp_quiet(qp, SHMD_DEV_NO_TIMEOUT);
}

int main(void)
{
	struct shmd_kernel_args args = {};

	shmd_kernel_plain<<<1, 1>>>(args);
	quiet<<<1, 1>>>(args.qp, args.status);
	return 0;
}
