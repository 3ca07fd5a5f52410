/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds whose GPU heap is reached by queues that kernels drive, over a CUDA without a GPU: payload goes from the memory agent of one PE by the
 * NIC in software to that of another.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"
#include "tests/system/world-gpu-lab.h"

#define BYTES GPU_LAB_BYTES

enum paths {
	QUEUES_ONLY,
	MIXED, /* PE 2 maps nobody; the others map each other */
};

static uint32_t allowed(enum paths paths, int pe)
{
	return paths == QUEUES_ONLY || pe == 2 ? SHMD_ALLOW_QUEUE : 0;
}

static struct shmd_world *open_by(const struct world_lab *lab, int pe, enum paths paths)
{
	return gpu_lab_open(lab, pe, "auto", allowed(paths, pe));
}

static void expect_paths(struct shmd_world *world, const void *memory, enum paths paths)
{
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(shmd_world_ctx(world));
	int me = shmd_my_pe(world);

	for (int pe = 0; pe < shmd_n_pes(world); pe++) {
		bool is_mapped = pe == me || !(allowed(paths, pe) | allowed(paths, me));

		ASSERT_EQ(shmd_dev_ptr(ctx, memory, (uint32_t)pe) != NULL, is_mapped);
		ASSERT_EQ(shmd_ptr(world, memory, pe) != NULL, is_mapped);
	}
}

/* What the other test's kernel leaves out. words: symmetric and zero. */
static void more(struct shmd_ctx *host_ctx, uint64_t *words, uint32_t me, uint32_t n)
{
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(host_ctx);
	struct shmd_dev_amo add = shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, 3), swap = shmd_dev_amo_of(SHMD_DEV_AMO_COMPARE_SWAP, 8, 70 + me);
	uint32_t right = (me + 1) % n;
	uint64_t local[40], value = 0;

	/* Data that is not registered: in requests, and by the memory of the context. */
	for (unsigned int i = 0; i < 40; i++)
		local[i] = 1000 * me + i;
	ASSERT_EQ(shmd_dev_put(ctx, &words[100], local, 3 * sizeof(*local), right), 0);
	ASSERT_EQ(shmd_dev_put_nbi(ctx, &words[110], local, sizeof(local), right), 0);
	ASSERT_EQ(shmd_dev_fence(ctx), 0);
	ASSERT_EQ(shmd_dev_signal(ctx, shmd_dev_pe_signal_of(&words[0], SHMD_DEV_SIGNAL_SET, 5), right), 0);
	ASSERT_EQ(shmd_dev_wait_until(ctx, &words[0], 8, SHMD_DEV_CMP_EQ, 5), 0);
	ASSERT_EQ(words[149], 1000 * ((me + n - 1) % n) + 39);
	ASSERT_EQ(words[102], 1000 * ((me + n - 1) % n) + 2);
	memset(local, 0, sizeof(local));
	ASSERT_EQ(shmd_dev_get(ctx, local, &words[110], sizeof(local), right), 0);
	ASSERT_EQ(local[39], 1000 * me + 39);
	/* Atomics on the caller's own words meet those of others. */
	ASSERT_EQ(shmd_dev_atomic(ctx, &words[1], add, me), 0);
	ASSERT_EQ(shmd_dev_atomic(ctx, &words[1], add, right), 0);
	ASSERT_EQ(shmd_dev_quiet(ctx), 0);
	ASSERT_EQ(shmd_dev_wait_until(ctx, &words[1], 4, SHMD_DEV_CMP_EQ, 6), 0);
	swap.compare = 0;
	ASSERT_EQ(shmd_dev_atomic_fetch(ctx, &words[2], swap, me, &value), 0);
	ASSERT_EQ(value, 0);
	swap.compare = 1;
	ASSERT_EQ(shmd_dev_atomic_fetch(ctx, &words[2], swap, me, &value), 0);
	ASSERT_EQ(value, 70 + me);
	ASSERT_EQ(shmd_dev_p(ctx, &words[3], 8, 2, right), 0);
	ASSERT_EQ(shmd_dev_quiet(ctx), 0);
	ASSERT_EQ(shmd_dev_put(ctx, local, words, 8, right), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_put(ctx, words, words, 8, n), SHMD_DEV_INVALID);
}

static int uses_queues(const struct world_lab *lab, int pe, void *arg)
{
	enum paths paths = *(const enum paths *)arg;
	struct shmd_world *world = open_by(lab, pe, paths);
	uint8_t *first = gpu_lab_memory(world, 3 * BYTES), *large;
	struct shmd_team *all = shmd_team_world(world), *team;
	struct shmd_ctx *own;

	gpu_lab_kernel(world, shmd_world_ctx(world), all, first);
	expect_paths(world, first, paths);
	more(shmd_world_ctx(world), gpu_lab_memory(world, 8192), (uint32_t)pe, (uint32_t)lab->n);
	/* Keys of a chunk by which the heap grows. */
	large = gpu_lab_memory(world, GPU_LAB_GROWTH);
	gpu_lab_kernel(world, shmd_world_ctx(world), all, large + GPU_LAB_GROWTH - 4 * BYTES);
	/* A put over the end of a chunk has two keys. */
	world_lab_must(shmd_ctx_create(all, NULL, &own), "context");
	memset(large, 0, 3 * BYTES);
	world_lab_must(shmd_sync_all(world), "sync");
	gpu_lab_kernel(world, own, all, large);
	world_lab_must(shmd_team_split_strided(all, 0, 1, lab->n, &team), "split");
	memset(first, 0, 3 * BYTES);
	world_lab_must(shmd_sync_all(world), "sync");
	gpu_lab_kernel(world, own, team, first);
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_must(shmd_ctx_destroy(own), "destroy");
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

static void run(int n, world_lab_fn fn, enum paths paths)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, n, fn, &paths);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(kernels_reach_gpu_memory_by_queues, 120)
{
	run(3, uses_queues, QUEUES_ONLY);
}

TEST_TIMEOUT(kernels_reach_some_pes_by_queues_and_some_in_place, 120)
{
	run(3, uses_queues, MIXED);
}
