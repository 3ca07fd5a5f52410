/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds whose GPU heap is reached by queues that kernels drive, over a CUDA without a GPU: payload goes from the memory agent of one PE by the
 * NIC in software to that of another.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-gpu-lab.h"

#define BYTES GPU_LAB_BYTES
#define N_ADDS 50u

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

static void expect_reason(const struct shmd_pe_info *info, bool is_mapped)
{
	const char *at = strstr(info->reason, "GPU heap");
	bool is_soft = !strncmp(info->nic, "soft", 4);

	ASSERT(at);
	if (is_mapped)
		ASSERT_STREQ(at, "GPU heap mapped, its atomics by queues");
	else
		ASSERT_STREQ(at, is_soft ? "GPU heap by queues, memory agent" : "GPU heap by queues, peermem");
}

static void expect_paths(struct shmd_world *world, const void *memory, enum paths paths)
{
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(shmd_world_ctx(world));
	struct shmd_pe_info info;
	int me = shmd_my_pe(world);

	for (int pe = 0; pe < shmd_n_pes(world); pe++) {
		bool is_mapped = pe == me || !(allowed(paths, pe) | allowed(paths, me));

		ASSERT_EQ(shmd_dev_ptr(ctx, memory, (uint32_t)pe) != NULL, is_mapped);
		ASSERT_EQ(shmd_ptr(world, memory, pe) != NULL, is_mapped);
		world_lab_must(shmd_pe_info(world, pe, &info), "info");
		if (pe != me)
			expect_reason(&info, is_mapped);
	}
}

/* Operations that gpu_lab_kernel() leaves out. words: symmetric and zero. */
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

/* All count on PE 0, itself too, whose agent is slow. */
static void count(struct shmd_world *world, uint64_t *word)
{
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(shmd_world_ctx(world));
	uint64_t found = 0;

	fake_cuda_put_off(20);
	for (unsigned int i = 0; i < N_ADDS; i++) {
		ASSERT_EQ(shmd_dev_atomic(ctx, word, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0), 0);
		usleep(20);
	}
	ASSERT_EQ(shmd_dev_team_barrier(ctx, gpu_lab_team(shmd_team_world(world))), 0);
	ASSERT_EQ(shmd_dev_g(ctx, word, 8, 0, &found), 0);
	ASSERT_EQ(found, (uint64_t)shmd_n_pes(world) * N_ADDS);
	fake_cuda_put_off(0);
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
	count(world, gpu_lab_memory(world, 64));
	/* Keys of a chunk by which the heap grows. */
	large = gpu_lab_memory(world, GPU_LAB_GROWTH);
	gpu_lab_kernel(world, shmd_world_ctx(world), all, large + GPU_LAB_GROWTH - 4 * BYTES);
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
	world_lab_run_alone(n, fn, &paths);
}

TEST_TIMEOUT(kernels_reach_gpu_memory_by_queues, 120)
{
	run(3, uses_queues, QUEUES_ONLY);
}

TEST_TIMEOUT(kernels_reach_some_pes_by_queues_and_some_in_place, 120)
{
	run(3, uses_queues, MIXED);
}

/* ---- several NICs */

/* Contexts have the NICs in turn, and all of their atomics meet the first one of a PE. */
static void expect_rail(struct shmd_ctx *host_ctx, uint32_t rail, const uint32_t *n_nics)
{
	const struct shmd_dev_ctx *ctx = gpu_lab_ctx(host_ctx);
	const struct shmd_dev_pe_way *ways = (const void *)(uintptr_t)ctx->ways_addr, *amo_ways = (const void *)(uintptr_t)ctx->amo_ways_addr;

	ASSERT_EQ(amo_ways != NULL, rail != 0);
	for (uint32_t pe = 0; pe < 3; pe++) {
		ASSERT_EQ(ways[pe].rail, rail);
		ASSERT_EQ(ways[pe].peer_rail, rail % n_nics[pe]);
		if (rail)
			ASSERT_EQ(amo_ways[pe].peer_rail, 0);
	}
}

static int uses_nics(const struct world_lab *lab, int pe, void *arg)
{
	const uint32_t *n_nics = arg;
	struct shmd_world *world;
	struct shmd_team *all;
	struct shmd_ctx *own[2];
	uint8_t *memory;

	setenv("SHMD_NICS_PER_PE", n_nics[pe] == 2 ? "2" : "1", 1);
	world = gpu_lab_open(lab, pe, "auto", SHMD_ALLOW_QUEUE);
	all = shmd_team_world(world);
	for (int i = 0; i < 2; i++)
		world_lab_must(shmd_ctx_create(all, NULL, &own[i]), "context");
	expect_rail(shmd_world_ctx(world), 0, n_nics);
	expect_rail(own[0], n_nics[pe] == 2 ? 1 : 0, n_nics);
	for (int i = 0; i < 2; i++) {
		memory = gpu_lab_memory(world, i ? GPU_LAB_GROWTH : 3 * BYTES);
		gpu_lab_kernel(world, own[i], all, memory);
		more(own[i], gpu_lab_memory(world, 8192), (uint32_t)pe, (uint32_t)lab->n);
		world_lab_must(shmd_sync_all(world), "sync");
	}
	world_lab_must(shmd_world_forgive(world), "forgive");
	for (int i = 0; i < 2; i++)
		world_lab_must(shmd_ctx_destroy(own[i]), "destroy");
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(kernels_of_contexts_have_the_nics_of_a_pe_in_turn, 120)
{
	uint32_t even[] = {2, 2, 2}, uneven[] = {2, 1, 2};
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, 3, uses_nics, even);
	world_lab_run(&daemon, 3, uses_nics, uneven);
	fixture_daemon_stop(&daemon);
}

/* PE 0 has one QP left: too few for the second NIC, since the atomics of kernels need another on the first one. */
static int lacks_a_queue(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_dev_amo add = shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 3);
	const struct shmd_dev_pe_way *ways;
	struct shmd_dev_ctx *ctx;
	struct shmd_world *world;
	struct shmd_ctx *own;
	uint64_t *words, i = 7;

	(void)arg;
	setenv("SHMD_NICS_PER_PE", "2", 1);
	world = gpu_lab_open(lab, pe, "auto", SHMD_ALLOW_QUEUE);
	words = gpu_lab_memory(world, 64);
	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &own), "context");
	world_lab_must(shmd_sync_all(world), "sync");
	if (pe == 0) {
		/* The queues of the host are on the second one. */
		ways = (const void *)(uintptr_t)shmd_ctx_dev(own)->ways_addr;
		ASSERT_EQ(ways[1].rail, 1);
		ctx = gpu_lab_ctx(own);
		ways = (const void *)(uintptr_t)ctx->ways_addr;
		ASSERT_EQ(ways[1].rail, 0);
		ASSERT_EQ(ctx->amo_ways_addr, 0);
		ASSERT(ctx->bounce_lkey_be[0]);
		ASSERT(!ctx->bounce_lkey_be[1]);
		ASSERT_EQ(shmd_dev_put(ctx, words, &i, sizeof(i), 1), 0);
		ASSERT_EQ(shmd_dev_atomic(ctx, words, add, 1), 0);
		ASSERT_EQ(shmd_dev_quiet(ctx), 0);
	}
	world_lab_must(shmd_sync_all(world), "sync");
	ASSERT_EQ(words[0], pe ? 10 : 0);
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(kernels_of_a_context_go_by_the_first_nic_if_its_own_does_not_serve_them, 60)
{
	struct fixture_daemon daemon;

	/* Each PE has an RC QP to each, a DCT on each NIC and the DCI of a context: ten, and one more. */
	fixture_daemon_start(&daemon, "--soft-nics=2", "--max-qps=11", NULL);
	world_lab_run(&daemon, 2, lacks_a_queue, NULL);
	fixture_daemon_stop(&daemon);
}

/* ---- GPUs that CUDA keeps apart */

#define NO_PEER_ACCESS 217

static bool are_apart(int a, int b)
{
	return a + b == 1;
}

static void expect_apart(struct shmd_world *world, const void *memory)
{
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(shmd_world_ctx(world));
	struct shmd_pe_info info;
	int me = shmd_my_pe(world);

	for (int pe = 0; pe < shmd_n_pes(world); pe++) {
		ASSERT_EQ(shmd_dev_ptr(ctx, memory, (uint32_t)pe) == NULL, are_apart(pe, me));
		world_lab_must(shmd_pe_info(world, pe, &info), "info");
		if (pe == me)
			continue;
		ASSERT_EQ(info.path, SHMD_PATH_MAPPED);
		ASSERT_STREQ(strstr(info.reason, "GPU heap"), are_apart(pe, me) ? "GPU heap by queues, memory agent: CUDA does not map it" :
							       "GPU heap mapped, its atomics by queues");
	}
}

/* CUDA gives PE 1 no way to the memory of PE 0; the other way there would be one. arg: the call that fails. */
static int is_kept_apart(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;
	uint8_t *memory, *large;
	struct shmd_team *team;

	if (pe == 1)
		fake_cuda_fail_after(arg, NO_PEER_ACCESS, strcmp(arg, "cuMemSetAccess") ? 0 : 1, 1);
	world = gpu_lab_open(lab, pe, "auto", 0);
	ASSERT(pe != 1 || fake_cuda_failed());
	memory = gpu_lab_memory(world, 3 * BYTES);
	gpu_lab_kernel(world, shmd_world_ctx(world), shmd_team_world(world), memory);
	expect_apart(world, memory);
	large = gpu_lab_memory(world, GPU_LAB_GROWTH);
	world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, lab->n, &team), "split");
	gpu_lab_kernel(world, shmd_world_ctx(world), team, large + GPU_LAB_GROWTH - 4 * BYTES);
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

static int is_refused(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_world *world;

	mine.attr.gpu = "auto";
	mine.attr.paths = SHMD_ALLOW_MAPPED;
	world = world_lab_open(&mine, pe);
	if (pe == 1)
		fake_cuda_fail(arg, NO_PEER_ACCESS);
	ASSERT_ERR(shmd_world_start(world), EXDEV);
	ASSERT(strstr(shmd_error_text(), "map a peer's GPU memory for this GPU"));
	world_lab_must(shmd_world_start(world), "start");
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(gpu_memory_that_cuda_does_not_map_goes_by_queues_if_these_are_allowed, 120)
{
	char take[] = "cuMemImportFromShareableHandle", access[] = "cuMemSetAccess";
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, is_kept_apart, take);
	world_lab_run(&daemon, 4, is_kept_apart, take);
	world_lab_run(&daemon, 3, is_kept_apart, access);
	world_lab_run(&daemon, 3, is_refused, take);
	fixture_daemon_stop(&daemon);
}

/* ---- what one PE cannot, no PE has */

static int lacks_at_start(const struct world_lab *lab, int pe, void *arg)
{
	static const char *const calls[] = {"cuMemHostRegister_v2", "cuStreamCreateWithPriority", "cuMemImportFromShareableHandle"};
	struct world_lab mine = *lab;
	struct shmd_world *world;

	(void)arg;
	mine.attr.gpu = "0";
	mine.attr.paths = allowed(MIXED, pe);
	world = world_lab_open(&mine, pe);
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (pe == 1)
			fake_cuda_fail(calls[i], 1);
		ASSERT_LT(shmd_world_start(world), 0);
		gpu_lab_expect_nothing();
	}
	world_lab_must(shmd_world_start(world), "start");
	gpu_lab_kernel(world, shmd_world_ctx(world), shmd_team_world(world), gpu_lab_memory(world, 3 * BYTES));
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(a_start_without_queues_for_one_pe_is_undone_on_all, 120)
{
	run(3, lacks_at_start, MIXED);
}

static uint32_t n_regions(const struct world_lab *lab)
{
	struct shmd_client *control = lab_control(lab->daemon);
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	shmd_client_close(control);
	return status.n_mrs;
}

/* One region is left for two PEs, until contexts give theirs back. */
static int lacks_a_region(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by(lab, pe, QUEUES_ONLY);
	struct shmd_ctx *ctx[2] = {NULL};
	void *large = NULL;
	uint32_t n;

	(void)arg;
	for (int i = 0; i < 2 - pe; i++)
		world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &ctx[i]), "context");
	world_lab_must(shmd_sync_all(world), "sync");
	n = n_regions(lab);
	world_lab_must(shmd_sync_all(world), "sync");
	ASSERT_ERR(shmd_malloc(world, GPU_LAB_GROWTH, SHMD_HINT_GPU, &large), EDQUOT);
	world_lab_must(shmd_sync_all(world), "sync");
	ASSERT_EQ(n_regions(lab), n);
	world_lab_must(shmd_sync_all(world), "sync");
	for (int i = 0; i < 2; i++)
		world_lab_must(shmd_ctx_destroy(ctx[i]), "destroy");
	world_lab_must(shmd_sync_all(world), "sync");
	large = gpu_lab_memory(world, GPU_LAB_GROWTH);
	gpu_lab_kernel(world, shmd_world_ctx(world), shmd_team_world(world), (uint8_t *)large + GPU_LAB_GROWTH - 4 * BYTES);
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(a_chunk_that_one_nic_refuses_is_undone_on_all, 120)
{
	struct fixture_daemon daemon;

	/* Less than both PEs need with their contexts, by one. */
	fixture_daemon_start(&daemon, "--max-mrs=15", NULL);
	world_lab_run(&daemon, 2, lacks_a_region, NULL);
	fixture_daemon_stop(&daemon);
}

/* ---- ends */

static void arrive(uint32_t *word, uint32_t n)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < n) {
		ASSERT_LT(nsec_now(), end);
		usleep(200);
	}
}

/* PE 2 ends, and a request of the others' kernels fails. */
static int loses_a_pe(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by(lab, pe, QUEUES_ONLY);
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(shmd_world_ctx(world));
	uint64_t *words = gpu_lab_memory(world, 4096), value = 0;
	uint32_t *n_arrived = arg, other = !pe;

	arrive(&n_arrived[0], 3);
	if (pe == 2)
		raise(SIGKILL);
	ASSERT_EQ(shmd_dev_wait_until(ctx, words, 8, SHMD_DEV_CMP_EQ, 5), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_put(ctx, words, words, 8, 2), SHMD_DEV_PE_GONE);
	gpu_lab_break_queue(ctx, other);
	ASSERT_EQ(shmd_dev_g(ctx, words, 8, other, &value), SHMD_DEV_CQE_ERROR);
	world_lab_must(shmd_world_forgive(world), "forgive");
	ASSERT_EQ(shmd_dev_p(ctx, &words[1 + pe], 7, 8, other), 0);
	ASSERT_EQ(shmd_dev_g(ctx, &words[1 + pe], 8, other, &value), 0);
	ASSERT_EQ(value, 7);
	ASSERT_EQ(shmd_dev_put(ctx, words, words, 8, 2), SHMD_DEV_PE_GONE);
	arrive(&n_arrived[1], 2);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(kernels_reach_each_other_after_a_failure_is_forgiven, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};
	void *board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(board != MAP_FAILED);
	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, loses_a_pe, board);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 2 ? 128 + SIGKILL : 0);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(board, 4096));
}

static int loses_the_daemon(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by(lab, pe, QUEUES_ONLY);
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(shmd_world_ctx(world));
	uint64_t *words = gpu_lab_memory(world, 64);
	uint32_t *n_arrived = arg;

	arrive(&n_arrived[0], 2);
	if (pe == 0)
		ASSERT_OK(kill(lab->daemon->pid, SIGKILL));
	ASSERT_EQ(shmd_dev_wait_until(ctx, words, 8, SHMD_DEV_CMP_EQ, 5), SHMD_DEV_HEALTH);
	ASSERT_EQ(shmd_dev_get(ctx, words, words, 8, (uint32_t)!pe), SHMD_DEV_HEALTH);
	/* The end of a PE would be news, too. */
	arrive(&n_arrived[1], 2);
	/* With an error, and all is freed. */
	(void)shmd_world_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(the_end_of_the_daemon_ends_the_waits_of_kernels, 60)
{
	struct fixture_daemon daemon;
	void *board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(board != MAP_FAILED);
	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, loses_the_daemon, board);
	fixture_daemon_kill(&daemon);
	ASSERT_OK(munmap(board, 4096));
}

static int forks(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by(lab, pe, QUEUES_ONLY);
	int status = -1;
	pid_t child;

	(void)arg;
	(void)gpu_lab_ctx(shmd_world_ctx(world));
	child = fork();
	if (!child) {
		(void)shmd_world_close(world);
		_exit(fake_cuda_counts().in_children);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	gpu_lab_kernel(world, shmd_world_ctx(world), shmd_team_world(world), gpu_lab_memory(world, 3 * BYTES));
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_forked_child_leaves_the_queues_alone, 60)
{
	run(2, forks, QUEUES_ONLY);
}
