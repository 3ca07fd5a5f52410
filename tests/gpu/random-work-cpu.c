/* SPDX-License-Identifier: Apache-2.0 */
/* See random-work.h: by the calling thread, over the CUDA of tests (tests/lib/fake-cuda.h). */
#include <stdlib.h>

#include "libclient/cuda/cuda-api.h"
#include "tests/gpu/random-kernel.h"
#include "tests/lib/fake-cuda.h"

void *work_memory(uint64_t bytes)
{
	return calloc(1, bytes);
}

void *work_gpu_memory(uint64_t bytes)
{
	const struct cuda_api *cuda;
	cuda_address addr = 0;

	if (cuda_api_get(&cuda) < 0 || cuda->alloc(&addr, bytes) != CUDA_OK)
		return NULL;
	return (void *)(uintptr_t)addr;
}

int work_choose_gpu(int pe)
{
	int gpu = pe % FAKE_CUDA_GPUS;
	const struct cuda_api *cuda;

	if (cuda_api_get(&cuda) < 0)
		return -1;
	fake_cuda_set_current(gpu);
	return gpu;
}

int work_run(const struct work *works, uint32_t n, struct work_failure *failure)
{
	carry_out(works, n, failure);
	return 0;
}
