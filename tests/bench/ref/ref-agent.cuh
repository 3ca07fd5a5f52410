/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference: a memory agent without NIC, ring and library. A kernel stores a word to host memory; a CPU thread sees it and has a stream write
 * a word of GPU memory; the kernel sees that. And a batch of such writes with a mark in host memory behind them, for which the CPU waits.
 */
#include <stdint.h>

#include <cuda.h>

#define REF_AGENT_ROUNDS 1000u

struct ref_agent {
	CUresult (*batch)(CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int);
	CUstream stream;
	volatile uint64_t *host; /* request, mark */
	uint64_t *host_on_gpu, *words;
	uint64_t n_marks;
};

static __global__ void ref_agent_kernel(volatile uint64_t *request, volatile uint64_t *answer, uint64_t *nsec)
{
	uint64_t start, end;

	for (uint64_t i = 1; i <= REF_AGENT_ROUNDS; i++) {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
		*request = i;
		while (*answer != i)
			;
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
		nsec[i - 1] = end - start;
	}
}

static bool ref_agent_write(struct ref_agent *agent, unsigned int n, uint64_t value, bool marks)
{
	CUstreamBatchMemOpParams ops[128] = {};

	for (unsigned int k = 0; k < n + marks; k++) {
		ops[k].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
		ops[k].writeValue.address = (CUdeviceptr)(k < n ? agent->words + k : agent->host_on_gpu + 1);
		ops[k].writeValue.value64 = k < n ? value : ++agent->n_marks;
	}
	return agent->batch(agent->stream, n + marks, ops, 0) == CUDA_SUCCESS;
}

/* The CPU's part, while the kernel runs. */
static bool ref_agent_answer(struct ref_agent *agent)
{
	for (uint64_t i = 1; i <= REF_AGENT_ROUNDS; i++) {
		while (agent->host[0] != i)
			;
		if (!ref_agent_write(agent, 1, i, false))
			return false;
	}
	return true;
}
