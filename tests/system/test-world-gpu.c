/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds with a GPU heap, over a CUDA without a GPU whose memory is host memory: each PE calls the C build of the device functions on the copies
 * that kernels would have.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd-stream.h>
#include <shmemclient-admin.h>

#include "libclient/cuda/cuda-api.h"
#include "proto/base/nsec.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"
#include "tests/system/world-gpu-lab.h"

#define BYTES GPU_LAB_BYTES
#define GROWTH GPU_LAB_GROWTH

static struct shmd_world *open_with(const struct world_lab *lab, int pe, const char *gpu)
{
	return gpu_lab_open(lab, pe, gpu, 0);
}

static int uses_gpu_memory(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, "auto");
	uint8_t *first = gpu_lab_memory(world, 3 * BYTES), *large, *moved;
	struct shmd_team *team, *evens;
	void *host, *again;

	(void)arg;
	gpu_lab_kernel(world, shmd_world_ctx(world), shmd_team_world(world), first);
	large = gpu_lab_memory(world, GROWTH);
	ASSERT_EQ(large[GROWTH - 1], 0);
	gpu_lab_kernel(world, shmd_world_ctx(world), shmd_team_world(world), large + GROWTH - 4 * BYTES);
	/* One team after the other has the same scratch. */
	for (int i = 0; i < 3; i++) {
		memset(large, 0, 4 * BYTES);
		world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, lab->n, &team), "split");
		world_lab_must(shmd_sync_all(world), "sync");
		gpu_lab_kernel(world, shmd_world_ctx(world), team, large);
		world_lab_must(shmd_team_split_strided(team, 0, 2, (lab->n + 1) / 2, &evens), "split");
		if (evens)
			ASSERT_EQ(shmd_dev_team_sync(gpu_lab_ctx(shmd_world_ctx(world)), gpu_lab_team(evens)), 0);
		world_lab_must(shmd_team_destroy(evens), "destroy");
		world_lab_must(shmd_team_destroy(team), "destroy");
	}
	/* The address of a peer's copy holds here, too. */
	first[5] = (uint8_t)(70 + pe);
	world_lab_must(shmd_sync_all(world), "sync");
	ASSERT_EQ(*((uint8_t *)shmd_ptr(world, first, (pe + 1) % lab->n) + 5), 70 + (pe + 1) % lab->n);
	world_lab_must(shmd_sync_all(world), "sync");
	world_lab_must(shmd_realloc(world, first, 4u << 20, (void **)&moved), "realloc");
	ASSERT_EQ(moved[5], 70 + pe);
	world_lab_must(shmd_free(world, moved), "free");
	ASSERT_ERR(shmd_free(world, moved), EINVAL);
	/* Both heaps, and what all have freed serves again. */
	world_lab_must(shmd_malloc(world, 100, 0, &host), "malloc");
	world_lab_must(shmd_free(world, large), "free");
	world_lab_must(shmd_malloc(world, GROWTH, SHMD_HINT_GPU, &again), "malloc again");
	ASSERT_EQ(again, large);
	if (lab->n > 1)
		ASSERT_ERR(shmd_malloc(world, 100, pe ? SHMD_HINT_GPU : 0, &again), EINVAL);
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(kernels_use_the_gpu_memory_of_all_pes, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, uses_gpu_memory, NULL);
	world_lab_run(&daemon, 3, uses_gpu_memory, NULL);
	fixture_daemon_stop(&daemon);
}

/* As a kernel that has the context among its parameters, which it cannot write to. By queues its source is memory that no NIC knows. */
static void put_by_copy(const struct world_lab *lab, int pe, const struct shmd_dev_ctx *parameter, uint64_t *words)
{
	const struct shmd_dev_ctx before = *parameter;
	struct shmd_dev_ctx *ctx = shmd_dev_ctx_of(parameter);
	uint32_t right = (uint32_t)(pe + 1) % (uint32_t)lab->n;
	uint8_t *unknown = calloc(1, 300);
	uint64_t old = 0;

	ASSERT(unknown != NULL);
	memset(unknown, pe + 1, 300);
	ASSERT_EQ(shmd_dev_put(ctx, words + 8, unknown, 300, right), 0);
	ASSERT_EQ(shmd_dev_atomic_fetch(ctx, &words[0], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), right, &old), 0);
	ASSERT_EQ(shmd_dev_quiet(ctx), 0);
	ASSERT_EQ(shmd_dev_signal(ctx, shmd_dev_pe_signal_of(&words[1], SHMD_DEV_SIGNAL_ADD, 1), right), 0);
	ASSERT_EQ(shmd_dev_wait_until(ctx, &words[1], 8, SHMD_DEV_CMP_EQ, old + 1), 0);
	ASSERT_EQ(((uint8_t *)(words + 8))[299], (pe + lab->n - 1) % lab->n + 1);
	ASSERT(memcmp(&before, parameter, sizeof(before)) == 0);
	free(unknown);
}

static int copies_contexts(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = gpu_lab_open(lab, pe, "auto", *(const uint32_t *)arg);
	uint64_t *words = gpu_lab_memory(world, 4096), *later;
	const struct shmd_dev_ctx *shown = gpu_lab_ctx(shmd_world_ctx(world));
	SHMDI_ALIGNED16 struct shmd_dev_ctx copy, newer;

	world_lab_must(shmd_ctx_gpu_copy(shmd_world_ctx(world), &copy), "copy");
	ASSERT_EQ(copy.self_addr, (uintptr_t)shown);
	put_by_copy(lab, pe, &copy, words);
	world_lab_must(shmd_barrier_all(world), "barrier");
	/* Memory that came later is not at hand, and is reached all the same; whoever asks again has it at hand. */
	later = (uint64_t *)(void *)((uint8_t *)gpu_lab_memory(world, GROWTH) + GROWTH - 4096);
	put_by_copy(lab, pe, &copy, later);
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(shown->near.used_bytes, copy.near.used_bytes);
	world_lab_must(shmd_ctx_gpu_copy(shmd_world_ctx(world), &newer), "copy");
	ASSERT(newer.near.used_bytes >= copy.near.used_bytes + GROWTH);
	ASSERT_EQ(shown->near.used_bytes, newer.near.used_bytes);
	ASSERT_ERR(shmd_ctx_gpu_copy(NULL, &newer), EINVAL);
	ASSERT_ERR(shmd_ctx_gpu_copy(shmd_world_ctx(world), NULL), EINVAL);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(kernels_have_copies_of_contexts_among_their_parameters, 120)
{
	uint32_t all = 0, queues = SHMD_ALLOW_QUEUE;
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, copies_contexts, &all);
	world_lab_run(&daemon, 2, copies_contexts, &queues);
	fixture_daemon_stop(&daemon);
}

static int take_item(void *arg, const struct shmd_pe_item *item)
{
	struct shmd_pe_item *items = arg;

	items[item->pe] = *item;
	return 0;
}

static struct shmd_pe_gpu listed(const struct world_lab *lab, int pe)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL, .socket_path = lab->daemon->socket};
	struct shmd_pe_item items[3] = {0};
	struct shmd_client *client;

	world_lab_must(shmd_client_open(&attr, &client), "open");
	world_lab_must(shmd_admin_pes(client, take_item, items), "list");
	shmd_client_close(client);
	return items[pe].gpu;
}

/* By both kinds of copies, until the list shows some. The list has it with the first copy that comes a second later. */
static void copy_until_listed(const struct world_lab *lab, struct shmd_world *world, int pe, uint8_t *memory)
{
	struct shmd_pe_gpu gpu = {0};
	const struct cuda_api *cuda;
	uint8_t own[1000] = {0};
	void *stream;

	world_lab_must(cuda_api_get(&cuda), "CUDA");
	fake_cuda_set_current(pe % 2);
	ASSERT_OK(cuda->stream_create(&stream, CUDA_STREAM_NON_BLOCKING));
	for (uint64_t n = 1; !gpu.bytes_put || !gpu.bytes_got; n++) {
		world_lab_must(shmd_put(shmd_world_ctx(world), memory, own, sizeof(own), (pe + 1) % lab->n), "put");
		world_lab_must(shmd_get_on_stream(shmd_world_ctx(world), memory + 5000, memory, 10, (pe + 1) % lab->n, stream), "get");
		gpu = listed(lab, pe);
		ASSERT(gpu.bytes_put <= 1000 * n && gpu.bytes_put % 1000 == 0);
		ASSERT(gpu.bytes_got <= 10 * n && gpu.bytes_got % 10 == 0);
	}
	ASSERT_OK(cuda->stream_destroy(stream));
	fake_cuda_set_current(-1);
}

static int is_listed(const struct world_lab *lab, int pe, void *arg)
{
	uint32_t paths = *(const uint32_t *)arg;
	struct shmd_world *world = gpu_lab_open(lab, pe, "auto", paths);
	uint8_t *memory = gpu_lab_memory(world, 1u << 20), own[100] = {0};
	struct shmd_pe_gpu gpu = listed(lab, pe);

	ASSERT_STREQ(gpu.gpu, pe % 2 ? "0000:18:00.0" : "0000:17:00.0");
	ASSERT(gpu.used_bytes >= 1u << 20 && gpu.used_bytes <= gpu.heap_bytes);
	ASSERT_EQ(gpu.n_chunks, 1);
	ASSERT_EQ(gpu.n_mapped, paths ? 0 : 2);
	ASSERT_EQ(gpu.mem_kind, paths ? SHMD_MEM_AGENT : 0);
	world_lab_must(shmd_put(shmd_world_ctx(world), memory, own, sizeof(own), pe), "put to itself");
	ASSERT_EQ(listed(lab, pe).bytes_put, 0);
	if (!paths)
		copy_until_listed(lab, world, pe, memory);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(lists_show_the_gpu_heap_and_what_was_copied_over_it, 120)
{
	uint32_t all = 0, queues = SHMD_ALLOW_QUEUE;
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, is_listed, &all);
	world_lab_run(&daemon, 3, is_listed, &queues);
	fixture_daemon_stop(&daemon);
}

/* The list has it with the first call that comes a second after the last one that it has. */
static int reallocates(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, "auto");
	void *memory = gpu_lab_memory(world, 1u << 20);
	uint64_t end = nsec_now() + test_patience_nsec();

	(void)arg;
	while (listed(lab, pe).used_bytes < 2u << 20) {
		ASSERT_LT(nsec_now(), end);
		world_lab_must(shmd_realloc(world, memory, 2u << 20, &memory), "realloc");
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(lists_show_gpu_memory_that_was_reallocated, 120)
{
	world_lab_run_alone(1, reallocates, NULL);
}

/* PE 1 cannot: no PE has a world, or the memory, and nothing is left. */
static int fails(const struct world_lab *lab, int pe, void *arg)
{
	static const char *const at_start[] = {"cuMemAddressReserve", "cuMemCreate", "cuMemImportFromShareableHandle", "cuMemAlloc_v2"};
	struct world_lab mine = *lab;
	struct shmd_world *world;
	void *memory = NULL;

	(void)arg;
	mine.attr.gpu = "0";
	world = world_lab_open(&mine, pe);
	for (unsigned int i = 0; i < sizeof(at_start) / sizeof(at_start[0]); i++) {
		if (pe == 1)
			fake_cuda_fail(at_start[i], 1);
		ASSERT_ERR(shmd_world_start(world), EINVAL);
		ASSERT_EQ(fake_cuda_counts().mapped + fake_cuda_counts().reserved + fake_cuda_counts().allocations, 0);
	}
	world_lab_must(shmd_world_start(world), "start");
	if (pe == 1)
		fake_cuda_fail("cuMemSetAccess", 1);
	ASSERT_ERR(shmd_malloc(world, GROWTH, SHMD_HINT_GPU, &memory), EINVAL);
	world_lab_must(shmd_malloc(world, GROWTH, SHMD_HINT_GPU, &memory), "malloc");
	world_lab_close(world);
	return 0;
}

static int differs(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_world *world;

	(void)arg;
	mine.attr.gpu = pe == 1 ? "none" : "auto";
	world = world_lab_open(&mine, pe);
	ASSERT_ERR(shmd_world_start(world), EINVAL);
	ASSERT(strstr(shmd_error_text(), "PE 1 has no GPU heap"));
	world_lab_close(world);
	mine.attr.gpu = "second";
	ASSERT_ERR(shmd_world_open(&mine.attr, &world), EINVAL);
	return 0;
}

static int has_none(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	uint64_t addr;
	void *memory;

	(void)arg;
	ASSERT_ERR(shmd_malloc(world, 8, SHMD_HINT_GPU, &memory), EOPNOTSUPP);
	ASSERT_ERR(shmd_world_gpu_dev(world, &addr), EOPNOTSUPP);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(what_one_pe_cannot_no_pe_has, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, fails, NULL);
	world_lab_run(&daemon, 2, differs, NULL);
	world_lab_run(&daemon, 2, has_none, NULL);
	fixture_daemon_stop(&daemon);
}

/* PE 1 dies while the others wait in what would be a kernel; after forgiving, waits go on. */
static int waits_for_the_dead(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, "auto");
	uint64_t *words = gpu_lab_memory(world, 64);
	struct shmd_dev_ctx *ctx = gpu_lab_ctx(shmd_world_ctx(world));
	struct shmd_dev_mode soon = shmd_dev_ctx_mode(ctx, SHMD_DEV_THREAD);

	(void)arg;
	world_lab_must(shmd_sync_all(world), "sync");
	if (pe == 1) {
		usleep(200000);
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(shmd_dev_wait_until(ctx, words, 8, SHMD_DEV_CMP_EQ, 5), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_team_sync(ctx, gpu_lab_team(shmd_team_world(world))), SHMD_DEV_PE_GONE);
	ASSERT_EQ(shmd_dev_put(ctx, words, words, 8, 1), SHMD_DEV_PE_GONE);
	world_lab_must(shmd_world_forgive(world), "forgive");
	soon.timeout_nsec = 1000000;
	ASSERT_EQ(shmd_dev_wait_until_as(ctx, words, 8, SHMD_DEV_CMP_EQ, 5, soon), SHMD_DEV_TIMEOUT);
	world_lab_must(shmd_world_close(world), "close");
	return 0;
}

TEST_TIMEOUT(a_pe_that_dies_ends_the_waits_of_kernels, 60)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, waits_for_the_dead, NULL);
	ASSERT_EQ(world_lab_wait(&lab, 1), 128 + SIGKILL);
	ASSERT_EQ(world_lab_wait(&lab, 0), 0);
	ASSERT_EQ(world_lab_wait(&lab, 2), 0);
	fixture_daemon_stop(&daemon);
}

static int forks(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, "auto");
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
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_forked_child_leaves_the_gpu_alone, 60)
{
	world_lab_run_alone(1, forks, NULL);
}

static int asks_the_host(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, "auto");
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint8_t *memory = gpu_lab_memory(world, 8192);
	void *page = (void *)(((uintptr_t)memory + 4095) & ~(uintptr_t)4095), *alias;
	struct shmd_wait wait = {.words = memory, .n = 1, .bytes = 8, .cmp = SHMD_CMP_EQ};
	size_t index, n;

	(void)arg;
	ASSERT_ERR(shmd_wait_until(ctx, memory, 8, SHMD_CMP_EQ, 0), EINVAL);
	ASSERT_ERR(shmd_wait_until_all(ctx, &wait), EINVAL);
	ASSERT_ERR(shmd_wait_until_any(ctx, &wait, &index), EINVAL);
	ASSERT_ERR(shmd_wait_until_some(ctx, &wait, &index, &n), EINVAL);
	ASSERT_ERR(shmd_test(ctx, memory, 8, SHMD_CMP_EQ, 0), EINVAL);
	ASSERT_ERR(shmd_test_all(ctx, &wait), EINVAL);
	ASSERT_ERR(shmd_test_any(ctx, &wait, &index), EINVAL);
	ASSERT_ERR(shmd_test_some(ctx, &wait, &index, &n), EINVAL);
	ASSERT_ERR(shmd_buffer_register(world, memory, 64), EINVAL);
	ASSERT_ERR(shmd_buffer_register_symmetric(world, page, 4096, &alias), EINVAL);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(functions_of_the_host_refuse_gpu_memory, 60)
{
	world_lab_run_alone(1, asks_the_host, NULL);
}
