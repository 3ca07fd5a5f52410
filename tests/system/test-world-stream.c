/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on streams, over a CUDA without a GPU: kernels are their C build, which cuLaunchKernel() runs.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd-stream.h>

#include "libclient/cuda/cuda-api.h"
#include "libclient/runtime/stream/kernels.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/fake-kernels.h"
#include "tests/lib/test.h"
#include "tests/system/world-gpu-lab.h"

#define BYTES GPU_LAB_BYTES

enum paths { ALL, QUEUES, MIXED /* queues from and to PE 2 */ };

struct scene {
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	struct shmd_team *team;
	void *stream;
	uint8_t *memory; /* of the GPU heap: 4 * BYTES, then words */
	uint64_t *words;
	uint32_t n, me;
	enum paths paths;
	uint64_t on_gpu; /* 64 bytes */
};

static void use_gpu(struct scene *s)
{
	const struct cuda_api *cuda;

	ASSERT_OK(cuda_api_get(&cuda));
	fake_cuda_set_current(0);
	ASSERT_OK(cuda->stream_create(&s->stream, CUDA_STREAM_NON_BLOCKING));
	ASSERT_OK(cuda->alloc(&s->on_gpu, 64));
	fake_cuda_set_current(-1);
}

static void pass(void *stream)
{
	const struct cuda_api *cuda;

	ASSERT_OK(cuda_api_get(&cuda));
	fake_cuda_set_current(0);
	ASSERT_OK(cuda->stream_sync(stream));
	fake_cuda_set_current(-1);
}

static void scene_open(struct scene *s, const struct world_lab *lab, int pe, enum paths paths)
{
	fake_kernels_add();
	s->paths = paths;
	s->world = gpu_lab_open(lab, pe, "0", paths == QUEUES || (paths == MIXED && pe == 2) ? SHMD_ALLOW_QUEUE : 0);
	s->ctx = shmd_world_ctx(s->world);
	s->team = shmd_team_world(s->world);
	use_gpu(s);
	s->memory = gpu_lab_memory(s->world, 5 * BYTES);
	s->words = (uint64_t *)(void *)(s->memory + 4 * BYTES);
	s->n = (uint32_t)shmd_n_pes(s->world);
	s->me = (uint32_t)shmd_my_pe(s->world);
}

static void scene_close(struct scene *s)
{
	const struct cuda_api *cuda;

	ASSERT_OK(cuda_api_get(&cuda));
	fake_cuda_set_current(0);
	ASSERT_OK(cuda->stream_destroy(s->stream));
	ASSERT_OK(cuda->free(s->on_gpu));
	fake_cuda_set_current(-1);
	world_lab_close(s->world);
	gpu_lab_expect_nothing();
	ASSERT_EQ(fake_cuda_counts().modules, 0);
	ASSERT_EQ(fake_cuda_counts().pushed, 0);
}

/* ---- what they do */

/* 64 bytes that are not symmetric: any memory, or where a kernel may carry them, memory of the GPU. */
static uint8_t *other_side(struct scene *s)
{
	static uint8_t on_host[64];

	if (s->paths == ALL)
		return on_host;
	if (s->paths == QUEUES)
		ASSERT_ERR(shmd_put_on_stream(s->ctx, s->memory, on_host, 64, (int)((s->me + 1) % s->n), s->stream), EINVAL);
	return (uint8_t *)(uintptr_t)s->on_gpu;
}

/* Values of all sizes, and a wait for several words, of which one is left out. */
static void words_of_the_right(struct scene *s)
{
	uint32_t right = (s->me + 1) % s->n, left = (s->me + s->n - 1) % s->n;
	struct shmd_wait wait = {.words = &s->words[4], .n = 3, .bytes = 8, .cmp = SHMD_CMP_GE, .value = 100};
	int *status = (int *)(void *)&s->words[8];

	status[1] = 1;
	ASSERT_OK(shmd_p_on_stream(s->ctx, &s->words[4], 100 + s->me, 8, (int)right, s->stream));
	ASSERT_OK(shmd_p_on_stream(s->ctx, &s->words[5], 0x142, 1, (int)right, s->stream));
	ASSERT_OK(shmd_p_on_stream(s->ctx, &s->words[6], 200, 4, (int)right, s->stream));
	wait.status = status;
	ASSERT_OK(shmd_wait_until_all_on_stream(s->ctx, &wait, s->stream));
	wait.n = 0;
	ASSERT_OK(shmd_wait_until_all_on_stream(s->ctx, &wait, s->stream));
	ASSERT_OK(shmd_team_barrier_on_stream(s->team, s->stream));
	pass(s->stream);
	ASSERT_EQ(s->words[4], 100 + left);
	ASSERT_EQ(s->words[5], 0x42);
	ASSERT_EQ(s->words[6], 200);
}

static void put_and_get(struct scene *s)
{
	uint32_t right = (s->me + 1) % s->n, left = (s->me + s->n - 1) % s->n;
	uint8_t *mine = other_side(s);

	memset(s->memory, (int)s->me + 1, BYTES);
	ASSERT_OK(shmd_put_signal_on_stream(s->ctx, s->memory + BYTES, s->memory, BYTES, &s->words[0], 3, SHMD_SIGNAL_SET, (int)right,
					    s->stream));
	ASSERT_OK(shmd_wait_until_on_stream(s->ctx, &s->words[0], 8, SHMD_CMP_EQ, 3, s->stream));
	pass(s->stream);
	ASSERT_EQ(s->memory[BYTES], left + 1);
	ASSERT_EQ(s->memory[2 * BYTES - 1], left + 1);
	ASSERT_OK(shmd_team_barrier_on_stream(s->team, s->stream));
	ASSERT_OK(shmd_get_on_stream(s->ctx, mine, s->memory, 64, (int)right, s->stream));
	pass(s->stream);
	ASSERT_EQ(mine[63], right + 1);
	memset(mine, 99, 64);
	ASSERT_OK(shmd_put_on_stream(s->ctx, s->memory + 2 * BYTES, mine, 64, (int)right, s->stream));
	ASSERT_OK(shmd_signal_on_stream(s->ctx, &s->words[1], 5, SHMD_SIGNAL_ADD, (int)right, s->stream));
	ASSERT_OK(shmd_wait_until_on_stream(s->ctx, &s->words[1], 8, SHMD_CMP_GE, 5, s->stream));
	ASSERT_OK(shmd_quiet_on_stream(s->ctx, s->stream));
	pass(s->stream);
	ASSERT_EQ(s->memory[2 * BYTES + 63], 99);
	ASSERT_OK(shmd_put_on_stream(s->ctx, NULL, NULL, 0, (int)right, s->stream));
	words_of_the_right(s);
}

static void collect(struct scene *s, struct shmd_team *team)
{
	uint32_t *in = (uint32_t *)(void *)s->memory, *out = (uint32_t *)(void *)(s->memory + BYTES);
	uint32_t n = (uint32_t)shmd_team_n_pes(team), me = (uint32_t)shmd_team_my_pe(team), root = n - 1;

	for (uint32_t i = 0; i < 8 * n; i++)
		in[i] = 1000 * me + i;
	ASSERT_OK(shmd_broadcast_on_stream(team, out, in, 32, (int)root, s->stream));
	ASSERT_OK(shmd_team_barrier_on_stream(team, s->stream));
	ASSERT_EQ(out[7], 1000 * root + 7);
	ASSERT_OK(shmd_fcollect_on_stream(team, out, in, 32, s->stream));
	ASSERT_OK(shmd_team_sync_on_stream(team, s->stream));
	for (uint32_t i = 0; i < n; i++)
		ASSERT_EQ(out[8 * i + 3], 1000 * i + 3);
	ASSERT_OK(shmd_alltoall_on_stream(team, out, in, 32, s->stream));
	ASSERT_OK(shmd_team_sync_on_stream(team, s->stream));
	for (uint32_t i = 0; i < n; i++)
		ASSERT_EQ(out[8 * i + 3], 1000 * i + 8 * me + 3);
	ASSERT_OK(shmd_reduce_on_stream(team, out, in, 8, SHMD_TYPE_UINT32, SHMD_REDUCE_SUM, s->stream));
	ASSERT_OK(shmd_team_sync_on_stream(team, s->stream));
	ASSERT_EQ(out[5], 1000 * (n * (n - 1) / 2) + 5 * n);
	ASSERT_OK(shmd_reduce_scatter_on_stream(team, out, in, 8, SHMD_TYPE_UINT32, SHMD_REDUCE_MAX, s->stream));
	ASSERT_OK(shmd_team_barrier_on_stream(team, s->stream));
	ASSERT_EQ(out[5], 1000 * root + 8 * me + 5);
}

/* PEs are those of the team, on every path. */
static void use_ctx_of(struct scene *s, struct shmd_team *team)
{
	int n = shmd_team_n_pes(team), me = shmd_team_my_pe(team), right = (me + 1) % n, left = (me + n - 1) % n;
	uint8_t *to = s->memory + 3 * BYTES, *mine = (uint8_t *)(uintptr_t)s->on_gpu;
	struct shmd_ctx *ctx;

	world_lab_must(shmd_ctx_create(team, NULL, &ctx), "a context");
	memset(s->memory, 50 + me, 64);
	ASSERT_OK(shmd_put_signal_on_stream(ctx, to, s->memory, 64, &s->words[3], 0x70005, SHMD_SIGNAL_SET, right, s->stream));
	ASSERT_OK(shmd_wait_until_on_stream(ctx, &s->words[3], 8, SHMD_CMP_EQ, 0x70005, s->stream));
	ASSERT_OK(shmd_wait_until_on_stream(ctx, &s->words[3], 4, SHMD_CMP_EQ, 0x70005, s->stream));
	ASSERT_OK(shmd_wait_until_on_stream(ctx, &s->words[3], 2, SHMD_CMP_EQ, 5, s->stream));
	pass(s->stream);
	ASSERT_EQ(to[63], 50 + left);
	ASSERT_OK(shmd_team_barrier_on_stream(team, s->stream));
	ASSERT_OK(shmd_get_on_stream(ctx, mine, s->memory, 64, right, s->stream));
	pass(s->stream);
	ASSERT_EQ(mine[63], 50 + right);
	ASSERT_ERR(shmd_put_on_stream(ctx, to, s->memory, 64, n, s->stream), EINVAL);
	ASSERT_ERR(shmd_signal_on_stream(ctx, s->words, 1, SHMD_SIGNAL_SET, n, s->stream), EINVAL);
	ASSERT_OK(shmd_team_barrier_on_stream(team, s->stream));
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
}

static int works(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_team *evens;
	struct scene s;

	scene_open(&s, lab, pe, *(enum paths *)arg);
	put_and_get(&s);
	collect(&s, s.team);
	world_lab_must(shmd_team_split_strided(s.team, 0, 2, ((int)s.n + 1) / 2, &evens), "split");
	if (evens) {
		collect(&s, evens);
		use_ctx_of(&s, evens);
	}
	world_lab_must(shmd_team_destroy(evens), "destroy");
	ASSERT_OK(shmd_stream_status(s.world));
	ASSERT_GT(fake_cuda_counts().launches, 12);
	world_lab_must(shmd_sync_all(s.world), "sync");
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(calls_on_streams_do_what_those_of_kernels_do, 120)
{
	enum paths paths = ALL;
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, works, &paths);
	for (paths = ALL; paths <= MIXED; paths++)
		world_lab_run(&daemon, 3, works, &paths);
	fixture_daemon_stop(&daemon);
}

static unsigned int n_runs[STREAM_N_KERNELS];

#define COUNTED_KERNEL(name, kernel)                          \
	static void counted_##name(void **parameters)         \
	{                                                     \
		n_runs[kernel]++;                             \
		name(parameters[0]);                          \
	}
COUNTED_KERNEL(stream_word, STREAM_KERNEL_WORD)
COUNTED_KERNEL(stream_order, STREAM_KERNEL_ORDER)
COUNTED_KERNEL(stream_move, STREAM_KERNEL_MOVE)
COUNTED_KERNEL(stream_reduce, STREAM_KERNEL_REDUCE)

/* CUDA's first launch of a kernel with much stack waits for kernels that run, which may wait for a memory agent that the launch keeps out. */
static int launches_all_at_first(const struct world_lab *lab, int pe, void *arg)
{
	static void (*const runs[STREAM_N_KERNELS])(void **) = {counted_stream_word, counted_stream_order, counted_stream_move,
								counted_stream_reduce};
	static const char *const names[STREAM_N_KERNELS] = STREAM_NAMES;
	struct scene s;

	(void)arg;
	scene_open(&s, lab, pe, QUEUES);
	for (int i = 0; i < STREAM_N_KERNELS; i++)
		fake_cuda_kernel(names[i], runs[i]);
	ASSERT_OK(shmd_quiet_on_stream(s.ctx, s.stream));
	for (int i = 0; i < STREAM_N_KERNELS; i++)
		ASSERT_EQ(n_runs[i], i == STREAM_KERNEL_WORD ? 2u : 1u);
	ASSERT_OK(shmd_quiet_on_stream(s.ctx, s.stream));
	ASSERT_EQ(n_runs[STREAM_KERNEL_WORD], 3u);
	ASSERT_OK(shmd_stream_status(s.world));
	world_lab_must(shmd_sync_all(s.world), "sync");
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(a_first_call_launches_each_kernel_once_so_that_no_later_launch_waits_for_kernels, 60)
{
	world_lab_run_alone(1, launches_all_at_first, NULL);
}

/* The word is this PE's own, where nothing else shows that it has arrived. */
static int signals_completely(const struct world_lab *lab, int pe, void *arg)
{
	struct scene s;

	scene_open(&s, lab, pe, *(enum paths *)arg);
	for (uint64_t i = 1; i <= 200; i++) {
		ASSERT_OK(shmd_signal_on_stream(s.ctx, s.words, i, SHMD_SIGNAL_SET, (int)s.me, s.stream));
		pass(s.stream);
		ASSERT_EQ(__atomic_load_n(s.words, __ATOMIC_ACQUIRE), i);
	}
	ASSERT_OK(shmd_stream_status(s.world));
	world_lab_must(shmd_sync_all(s.world), "sync");
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(a_signal_is_complete_when_the_stream_has_passed_it, 60)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	for (enum paths paths = ALL; paths <= QUEUES; paths++)
		world_lab_run(&daemon, 2, signals_completely, &paths);
	fixture_daemon_stop(&daemon);
}

/* ---- the order of a stream */

static int keeps_order(const struct world_lab *lab, int pe, void *arg)
{
	struct scene s;
	uint8_t now = 0;

	(void)arg;
	scene_open(&s, lab, pe, ALL);
	fake_cuda_put_off(1000000);
	memset(s.memory, 7, 64);
	ASSERT_OK(shmd_put_on_stream(s.ctx, s.memory + BYTES, s.memory, 64, 0, s.stream));
	now = s.memory[BYTES];
	/* The put is in the stream, and has not happened; a kernel behind it sees it done. */
	ASSERT_EQ(now, 0);
	ASSERT_OK(shmd_signal_on_stream(s.ctx, &s.words[0], 1, SHMD_SIGNAL_SET, 0, s.stream));
	ASSERT_EQ(s.memory[BYTES], 7);
	ASSERT_EQ(s.words[0], 1);
	fake_cuda_put_off(0);
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(a_call_waits_for_what_is_before_it_in_the_stream, 60)
{
	world_lab_run_alone(1, keeps_order, NULL);
}

/* A thread that captures must not allocate, and the first calls do. */
static int captures(const struct world_lab *lab, int pe, void *arg)
{
	struct scene s;

	(void)arg;
	scene_open(&s, lab, pe, ALL);
	fake_cuda_capture(1);
	ASSERT_OK(shmd_quiet_on_stream(s.ctx, s.stream));
	ASSERT_OK(shmd_team_barrier_on_stream(s.team, s.stream));
	ASSERT_OK(shmd_reduce_on_stream(s.team, s.memory, s.memory + BYTES, 1, SHMD_TYPE_FLOAT, SHMD_REDUCE_SUM, s.stream));
	ASSERT_OK(shmd_stream_status(s.world));
	fake_cuda_capture(0);
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(first_calls_work_while_the_thread_captures_a_stream, 60)
{
	world_lab_run_alone(2, captures, NULL);
}

/* 0: it leaves the GPU and the kernels to its parent. */
static int child_of(struct scene *s)
{
	int wrong = shmd_put_on_stream(s->ctx, s->memory, s->memory + 64, 8, 0, s->stream) != -ECHILD;

	wrong += shmd_signal_on_stream(s->ctx, s->words, 1, SHMD_SIGNAL_SET, 0, s->stream) != -ECHILD;
	wrong += shmd_team_sync_on_stream(s->team, s->stream) != -ECHILD;
	wrong += shmd_stream_status(s->world) != -ECHILD;
	(void)shmd_world_close(s->world);
	return wrong + fake_cuda_counts().in_children;
}

static int forks(const struct world_lab *lab, int pe, void *arg)
{
	int status = -1;
	struct scene s;
	pid_t child;

	(void)arg;
	scene_open(&s, lab, pe, ALL);
	ASSERT_OK(shmd_quiet_on_stream(s.ctx, s.stream));
	child = fork();
	if (!child)
		_exit(child_of(&s));
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	ASSERT_OK(shmd_team_barrier_on_stream(s.team, s.stream));
	ASSERT_OK(shmd_stream_status(s.world));
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(a_forked_child_makes_no_calls_on_streams, 60)
{
	world_lab_run_alone(1, forks, NULL);
}

/* ---- failures */

static void refuse_waits(struct scene *s)
{
	struct shmd_wait wait = {.words = s->words, .n = SIZE_MAX, .bytes = 8};

	ASSERT_ERR(shmd_wait_until_all_on_stream(s->ctx, &wait, s->stream), EINVAL);
	wait.n = 1;
	wait.cmp = 6;
	ASSERT_ERR(shmd_wait_until_all_on_stream(s->ctx, &wait, s->stream), EINVAL);
	wait.cmp = SHMD_CMP_EQ;
	wait.bytes = 3;
	ASSERT_ERR(shmd_wait_until_all_on_stream(s->ctx, &wait, s->stream), EINVAL);
	wait.bytes = 8;
	wait.values = &wait;
	ASSERT_ERR(shmd_wait_until_all_on_stream(s->ctx, &wait, s->stream), EINVAL);
}

static void refuse_arguments(struct scene *s)
{
	uint64_t own = 0;

	ASSERT_ERR(shmd_put_on_stream(NULL, s->memory, &own, 8, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_put_on_stream(s->ctx, &own, s->memory, 8, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_put_on_stream(s->ctx, s->memory, &own, SIZE_MAX, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_put_on_stream(s->ctx, s->memory, s->memory, 1u << 30, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_put_on_stream(s->ctx, s->memory, &own, 8, (int)s->n, s->stream), EINVAL);
	ASSERT_ERR(shmd_put_on_stream(s->ctx, s->memory, &own, 0, -1, s->stream), EINVAL);
	ASSERT_ERR(shmd_get_on_stream(s->ctx, s->memory, &own, 8, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_get_on_stream(s->ctx, s->memory, s->memory, 8, -1, s->stream), EINVAL);
	ASSERT_ERR(shmd_signal_on_stream(s->ctx, &own, 1, SHMD_SIGNAL_SET, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_signal_on_stream(s->ctx, (uint64_t *)(void *)(s->memory + 4), 1, SHMD_SIGNAL_SET, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_signal_on_stream(s->ctx, s->words, 1, (enum shmd_signal_op)77, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_signal_on_stream(s->ctx, s->words, 1, SHMD_SIGNAL_SET, (int)s->n, s->stream), EINVAL);
	ASSERT_ERR(shmd_put_signal_on_stream(s->ctx, s->memory, s->memory + 64, 8, &own, 1, SHMD_SIGNAL_SET, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_put_signal_on_stream(s->ctx, s->memory, s->memory + 64, 8, s->words, 1, (enum shmd_signal_op)77, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_wait_until_on_stream(s->ctx, s->words, 3, SHMD_CMP_EQ, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_wait_until_on_stream(s->ctx, s->words, 8, 6, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_wait_until_on_stream(s->ctx, &own, 8, SHMD_CMP_EQ, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_p_on_stream(s->ctx, s->words, 1, 3, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_p_on_stream(s->ctx, &own, 1, 8, 0, s->stream), EINVAL);
	ASSERT_ERR(shmd_p_on_stream(s->ctx, s->words, 1, 8, (int)s->n, s->stream), EINVAL);
	refuse_waits(s);
	ASSERT_ERR(shmd_team_sync_on_stream(NULL, s->stream), EINVAL);
	ASSERT_OK(shmd_stream_status(s->world));
}

/* Without nvcc it is no wonder that CUDA does not load an image. */
static int error_of(const char *load)
{
	return stream_image_bytes || !strcmp(load, "cuMemAlloc_v2") ? EINVAL : EOPNOTSUPP;
}

static int refuses(const struct world_lab *lab, int pe, void *arg)
{
	static const char *const loads[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2"};
	struct scene s;

	(void)arg;
	scene_open(&s, lab, pe, ALL);
	refuse_arguments(&s);
	for (unsigned int i = 0; i < sizeof(loads) / sizeof(*loads); i++) {
		int before = fake_cuda_counts().allocations;

		fake_cuda_fail(loads[i], 1);
		ASSERT_ERR(shmd_quiet_on_stream(s.ctx, s.stream), error_of(loads[i]));
		ASSERT_EQ(fake_cuda_counts().modules, 0);
		ASSERT_EQ(fake_cuda_counts().allocations, before);
	}
	/* There is no put if there can be no signal. */
	fake_cuda_fail("cuModuleLoadData", 1);
	memset(s.memory + 64, 7, 8);
	ASSERT_ERR(shmd_put_signal_on_stream(s.ctx, s.memory, s.memory + 64, 8, s.words, 1, SHMD_SIGNAL_SET, 0, s.stream),
		   error_of("cuModuleLoadData"));
	pass(s.stream);
	ASSERT_EQ(s.memory[0], 0);
	fake_cuda_fail("cuLaunchKernel", 1);
	ASSERT_ERR(shmd_quiet_on_stream(s.ctx, s.stream), EINVAL);
	fake_cuda_fail("", 0);
	ASSERT_OK(shmd_quiet_on_stream(s.ctx, s.stream));
	scene_close(&s);
	return 0;
}

static int has_no_gpu_heap(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	uint64_t own = 0;

	(void)arg;
	ASSERT_ERR(shmd_put_on_stream(shmd_world_ctx(world), &own, &own, 8, 0, NULL), EOPNOTSUPP);
	ASSERT_ERR(shmd_team_sync_on_stream(shmd_team_world(world), NULL), EOPNOTSUPP);
	ASSERT_ERR(shmd_stream_status(world), EOPNOTSUPP);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(arguments_are_checked_before_anything_is_in_the_stream, 60)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, refuses, NULL);
	world_lab_run(&daemon, 1, has_no_gpu_heap, NULL);
	fixture_daemon_stop(&daemon);
}

/* A wait in a stream ends, and the stream goes on; the first failure is reported once. */
static int fails_late(const struct world_lab *lab, int pe, void *arg)
{
	const struct shmd_ctx_attr attr = {.timeout_nsec = 20000000};
	struct shmd_ctx *ctx;
	struct scene s;

	(void)arg;
	scene_open(&s, lab, pe, ALL);
	world_lab_must(shmd_ctx_create(s.team, &attr, &ctx), "a context");
	ASSERT_OK(shmd_wait_until_on_stream(ctx, &s.words[0], 8, SHMD_CMP_EQ, 5, s.stream));
	ASSERT_OK(shmd_broadcast_on_stream(s.team, s.memory, s.memory + BYTES, 8, 77, s.stream));
	ASSERT_OK(shmd_put_on_stream(s.ctx, s.memory, "passed.", 8, 0, s.stream));
	pass(s.stream);
	ASSERT_EQ(memcmp(s.memory, "passed.", 8), 0);
	ASSERT_ERR(shmd_stream_status(s.world), ETIMEDOUT);
	ASSERT(strstr(shmd_error_text(), "wait on a stream"));
	ASSERT_OK(shmd_stream_status(s.world));
	ASSERT_OK(shmd_broadcast_on_stream(s.team, s.memory, s.memory + BYTES, 8, 77, s.stream));
	ASSERT_ERR(shmd_stream_status(s.world), EINVAL);
	ASSERT(strstr(shmd_error_text(), "broadcast on a stream"));
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(a_failure_in_a_stream_is_reported_once_and_the_stream_goes_on, 60)
{
	world_lab_run_alone(1, fails_late, NULL);
}

/* A queue of a context of the program's: what the NIC has said is in the sentence, though it is not the default context's. */
static int breaks_a_queue(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_ctx *ctx;
	struct scene s;

	(void)arg;
	scene_open(&s, lab, pe, QUEUES);
	world_lab_must(shmd_ctx_create(s.team, NULL, &ctx), "a context");
	/* One of the host has failed before. */
	gpu_lab_break_queue(shmd_ctx_dev(shmd_world_ctx(s.world)), (uint32_t)!pe);
	gpu_lab_break_queue(gpu_lab_ctx(ctx), (uint32_t)!pe);
	ASSERT_OK(shmd_signal_on_stream(ctx, s.words, 1, SHMD_SIGNAL_SET, !pe, s.stream));
	pass(s.stream);
	ASSERT_ERR(shmd_stream_status(s.world), EIO);
	ASSERT(strstr(shmd_error_text(), "signal on a stream, the world: "));
	ASSERT(strstr(shmd_error_text(), shmd_syndrome_text(SHMD_SYNDROME_REMOTE_ACCESS_ERR)));
	world_lab_must(shmd_world_forgive(s.world), "forgive");
	ASSERT_OK(shmd_signal_on_stream(ctx, s.words, 1, SHMD_SIGNAL_SET, !pe, s.stream));
	ASSERT_OK(shmd_stream_status(s.world));
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	world_lab_must(shmd_sync_all(s.world), "sync");
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(the_reason_why_a_queue_failed_is_named_whichever_context_has_it, 60)
{
	world_lab_run_alone(2, breaks_a_queue, NULL);
}

/* The limit that the program gave a context is its own business. */
static int waits_briefly(const struct world_lab *lab, int pe, void *arg)
{
	const struct shmd_ctx_attr attr = {.timeout_nsec = 1000000};
	struct shmd_ctx *ctx;
	struct scene s;

	(void)arg;
	setenv("SHMD_ABORT_ON_ERROR", "on", 1);
	scene_open(&s, lab, pe, ALL);
	world_lab_must(shmd_ctx_create(s.team, &attr, &ctx), "a context");
	ASSERT_OK(shmd_wait_until_on_stream(ctx, s.words, 8, SHMD_CMP_EQ, 1, s.stream));
	pass(s.stream);
	ASSERT_ERR(shmd_stream_status(s.world), ETIMEDOUT);
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	scene_close(&s);
	return 0;
}

TEST_TIMEOUT(with_abort_on_error_a_limit_of_a_context_ends_nothing_in_a_stream, 60)
{
	world_lab_run_alone(1, waits_briefly, NULL);
}

static int waits_for_the_dead(const struct world_lab *lab, int pe, void *arg)
{
	struct scene s;

	(void)arg;
	scene_open(&s, lab, pe, ALL);
	world_lab_must(shmd_sync_all(s.world), "sync");
	if (pe == 1) {
		usleep(200000);
		kill(getpid(), SIGKILL);
	}
	/* The library's own thread reports the end to kernels, also while the program captures. */
	fake_cuda_capture(pe == 0);
	ASSERT_OK(shmd_wait_until_on_stream(s.ctx, &s.words[0], 8, SHMD_CMP_EQ, 5, s.stream));
	fake_cuda_capture(0);
	ASSERT_ERR(shmd_stream_status(s.world), EHOSTDOWN);
	ASSERT_OK(shmd_team_barrier_on_stream(s.team, s.stream));
	ASSERT_ERR(shmd_stream_status(s.world), EHOSTDOWN);
	ASSERT_ERR(shmd_put_on_stream(s.ctx, s.memory, s.memory + 64, 8, 1, s.stream), EHOSTDOWN);
	ASSERT_OK(shmd_put_on_stream(s.ctx, s.memory, s.memory + 64, 8, pe ? 0 : 2, s.stream));
	(void)shmd_world_close(s.world);
	return 0;
}

TEST_TIMEOUT(a_pe_that_dies_ends_waits_in_streams, 60)
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
