/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/world-gpu-lab.h"

#include <string.h>

#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"

#define BYTES GPU_LAB_BYTES

struct shmd_world *gpu_lab_open(const struct world_lab *lab, int pe, const char *gpu, uint32_t paths)
{
	struct world_lab mine = *lab;

	mine.attr.gpu = gpu;
	mine.attr.gpu_heap_bytes = 4u << 20;
	mine.attr.paths = paths;
	return world_lab_open_started(&mine, pe);
}

struct shmd_dev_ctx *gpu_lab_ctx(struct shmd_ctx *ctx)
{
	uint64_t addr = 0;

	world_lab_must(shmd_ctx_gpu_dev(ctx, &addr), "context for kernels");
	return (struct shmd_dev_ctx *)(uintptr_t)addr;
}

struct shmd_dev_team *gpu_lab_team(struct shmd_team *team)
{
	uint64_t addr = 0;

	world_lab_must(shmd_team_gpu_dev(team, &addr), "team for kernels");
	return (struct shmd_dev_team *)(uintptr_t)addr;
}

void *gpu_lab_memory(struct shmd_world *world, size_t bytes)
{
	void *memory = NULL;

	world_lab_must(shmd_calloc(world, 1, bytes, SHMD_HINT_GPU, &memory), "calloc");
	return memory;
}

void gpu_lab_kernel(struct shmd_world *world, struct shmd_ctx *host_ctx, struct shmd_team *team, uint8_t *memory)
{
	uint32_t n = (uint32_t)shmd_n_pes(world), me = (uint32_t)shmd_my_pe(world), right = (me + 1) % n, left = (me + n - 1) % n;
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(host_ctx);
	struct shmd_dev_team *dev = gpu_lab_team(team);
	uint64_t *words = (uint64_t *)(void *)(memory + 2 * BYTES), old, count = 0;
	struct shmd_dev_coll sum = shmd_dev_coll_math(&words[4], &words[8], 1, SHMD_DEV_TYPE_UINT64, SHMD_DEV_REDUCE_SUM);

	memset(memory, (int)me + 1, BYTES);
	words[8] = me + 1;
	ASSERT_EQ(shmd_dev_put_signal(ctx, memory + BYTES, memory, BYTES, shmd_dev_pe_signal_of(&words[0], SHMD_DEV_SIGNAL_ADD, 1), right), 0);
	ASSERT_EQ(shmd_dev_wait_until(ctx, &words[0], 8, SHMD_DEV_CMP_EQ, 1), 0);
	ASSERT_EQ(memory[BYTES], left + 1);
	ASSERT_EQ(memory[2 * BYTES - 1], left + 1);
	ASSERT_EQ(shmd_dev_team_barrier(ctx, dev), 0);
	ASSERT_EQ(shmd_dev_get(ctx, memory + BYTES, memory, BYTES, right), 0);
	ASSERT_EQ(memory[2 * BYTES - 1], right + 1);
	ASSERT_EQ(shmd_dev_atomic_fetch(ctx, &words[1], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0, &old), 0);
	ASSERT_EQ(shmd_dev_team_barrier(ctx, dev), 0);
	ASSERT_EQ(shmd_dev_g(ctx, &words[1], 8, 0, &count), 0);
	ASSERT_EQ(count, n);
	ASSERT_EQ(shmd_dev_reduce(ctx, dev, &sum), 0);
	ASSERT_EQ(words[4], n * (n + 1) / 2);
	ASSERT_EQ(shmd_dev_team_barrier(ctx, dev), 0);
}

void gpu_lab_break_queue(struct shmd_dev_ctx *ctx, uint32_t pe)
{
	const struct shmd_dev_pe_way *ways = (const void *)(uintptr_t)ctx->ways_addr;
	struct shmd_dev_qp *qp = (void *)(uintptr_t)ways[pe].qp_addr;
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, test_patience_nsec());

	mode.peer = (const void *)(uintptr_t)ways[pe].peer_addr;
	ASSERT_EQ(shmd_dev_qp_p_as(qp, shmd_dev_addr_of(4096, (shmd_be32)0x12345678), 1, 8, mode), 0);
	ASSERT_EQ(shmd_dev_quiet(ctx), SHMD_DEV_CQE_ERROR);
}

void gpu_lab_expect_nothing(void)
{
	struct fake_cuda_counts counts = fake_cuda_counts();

	ASSERT_EQ(counts.mapped + counts.memories + counts.reserved, 0);
	ASSERT_EQ(counts.allocations + counts.streams + counts.registered + counts.contexts, 0);
}
