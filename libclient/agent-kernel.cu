/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of a memory agent: many small writes, in their order, by one warp. See agent-kernel.h. */
#include "libclient/agent-kernel-page.h"

#define ALL 0xffffffffu
#define EACH ((AGENT_KERNEL_WRITES + AGENT_KERNEL_THREADS - 1) / AGENT_KERNEL_THREADS)

static __device__ void store(const struct agent_kernel_write *write)
{
	uint64_t addr = write->addr & ~(uint64_t)AGENT_KERNEL_NARROW;

	if (write->addr & AGENT_KERNEL_NARROW)
		*(volatile uint32_t *)addr = (uint32_t)write->value;
	else
		*(volatile uint64_t *)addr = write->value;
}

/* Lanes whose words overlap take turns. */
static __device__ void store_together(const struct agent_kernel_write *write, bool is_mine)
{
	unsigned int same = __match_any_sync(ALL, is_mine ? write->addr >> 3 : UINT64_MAX - threadIdx.x);

	if (__all_sync(ALL, !(same & (same - 1)))) {
		if (is_mine)
			store(write);
		return;
	}
	for (unsigned int lane = 0; lane < AGENT_KERNEL_THREADS; lane++) {
		if (lane == threadIdx.x && is_mine)
			store(write);
		__syncwarp();
	}
}

/* For all lanes. */
static __device__ bool may_go_on(volatile struct agent_kernel_page *page, uint64_t turn)
{
	unsigned int verdict = 0;

	if (!threadIdx.x) {
		uint64_t word;

		page->begun = turn;
		do
			word = page->verdict;
		while (word >> 1 != turn);
		verdict = word & 1;
	}
	return __shfl_sync(ALL, verdict, 0);
}

extern "C" __global__ void __launch_bounds__(AGENT_KERNEL_THREADS)
	shmd_agent_writes(volatile struct agent_kernel_page *page, uint64_t turn, uint32_t n)
{
	struct agent_kernel_write writes[EACH];

	/* On their way while the kernel asks. */
	for (unsigned int i = 0; i < EACH; i++) {
		uint32_t at = i * AGENT_KERNEL_THREADS + threadIdx.x;

		writes[i].addr = at < n ? page->writes[at].addr : 0;
		writes[i].value = at < n ? page->writes[at].value : 0;
	}
	if (may_go_on(page, turn)) {
		for (unsigned int i = 0; i < EACH; i++) {
			store_together(&writes[i], writes[i].addr != 0);
			__syncwarp();
		}
		__threadfence_system();
		__syncwarp();
	}
	if (!threadIdx.x)
		page->ended = turn;
}
