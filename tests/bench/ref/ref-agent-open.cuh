/* SPDX-License-Identifier: Apache-2.0 */
/* What the reference of ref-agent.cuh needs: a stream, its batches of memory operations, words of host memory and of the GPU's. */
#ifndef REF_AGENT_OPEN_CUH
#define REF_AGENT_OPEN_CUH

#include <cuda_runtime.h>

#include "ref-agent.cuh"

static inline cudaError_t ref_agent_open(struct ref_agent *ref)
{
	cudaDriverEntryPointQueryResult found;
	cudaError_t error = cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", (void **)&ref->batch, 12000, cudaEnableDefault, &found);

	if (error == cudaSuccess)
		error = cudaStreamCreateWithFlags(&ref->stream, cudaStreamNonBlocking);
	if (error == cudaSuccess)
		error = cudaHostAlloc((void **)&ref->host, 4096, cudaHostAllocMapped);
	if (error == cudaSuccess)
		error = cudaHostGetDevicePointer((void **)&ref->host_on_gpu, (void *)ref->host, 0);
	if (error != cudaSuccess)
		return error;
	ref->host[0] = ref->host[1] = 0;
	error = cudaMalloc((void **)&ref->words, 4096);
	return error == cudaSuccess ? cudaMemset(ref->words, 0, 4096) : error;
}

#endif
