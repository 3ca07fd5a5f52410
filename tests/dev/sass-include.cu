/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that know nothing of queues, for check-sass.py: as they are, with our headers, and with one call. */
#include <stdint.h>

#if WITH_HEADERS
#include <shmd/dev/rma.h>
#else
struct shmd_dev_qp;
#endif

extern "C" __global__ void scale(struct shmd_dev_qp *qp, double *v, uint64_t n, double factor)
{
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] *= factor;
#if WITH_CALL
	(void)shmd_dev_qp_quiet(qp, SHMD_DEV_NO_TIMEOUT);
#else
	(void)qp;
#endif
}

extern "C" __global__ void sum(const uint64_t *v, uint64_t n, unsigned long long *ret_total)
{
	__shared__ unsigned long long total;
	uint64_t i;

	if (threadIdx.x == 0)
		total = 0;
	__syncthreads();
	for (i = threadIdx.x; i < n; i += blockDim.x)
		atomicAdd(&total, (unsigned long long)v[i]);
	__syncthreads();
	if (threadIdx.x == 0)
		*ret_total = total;
}
