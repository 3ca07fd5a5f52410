/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the host with GPU memory on a side, over a CUDA without a GPU: by queues and memory agents, and by copies of CUDA where all
 * PEs map each other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fake-cuda.h"
#include "tests/lib/fake-kernels.h"
#include "tests/lib/test.h"
#include "tests/system/world-gpu-lab.h"

#define BYTES GPU_LAB_BYTES
#define N_ADDS 20u

enum paths {
	MAPPED,
	QUEUES_ONLY,
	MIXED, /* PE 2 maps nobody; the others map each other */
};

struct test {
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	int me, right, left, n;
	uint8_t *gpu, *host; /* symmetric, 4 * BYTES each */
	uint64_t *words, *host_words; /* symmetric, 512 each */
	uint8_t *own; /* BYTES, of the program */
	bool has_queues;
};

static void fill(uint8_t *at, int seed)
{
	for (unsigned int i = 0; i < BYTES; i++)
		at[i] = (uint8_t)(i * 3 + (i >> 7) + (unsigned int)seed * 50);
}

static void expect(const uint8_t *at, int seed)
{
	for (unsigned int i = 0; i < BYTES; i++)
		ASSERT_EQ(at[i], (uint8_t)(i * 3 + (i >> 7) + (unsigned int)seed * 50));
}

/* This PE's GPU memory, read as a program would. */
static void expect_gpu(const struct test *t, const uint8_t *at, int seed)
{
	memset(t->own, 0, BYTES);
	world_lab_must(shmd_get(t->ctx, t->own, at, BYTES, t->me), "get");
	expect(t->own, seed);
}

static void barrier(const struct test *t)
{
	world_lab_must(shmd_barrier_all(t->world), "barrier");
}

static int left_of(const struct test *t, int pe)
{
	return (pe + t->n - 1) % t->n;
}

static void moves(const struct test *t)
{
	fill(t->own, t->me);
	world_lab_must(shmd_put(t->ctx, t->gpu, t->own, BYTES, t->right), "put");
	barrier(t);
	expect_gpu(t, t->gpu, t->left);
	world_lab_must(shmd_put_nbi(t->ctx, t->gpu + BYTES, t->gpu, BYTES, t->right), "put from GPU to GPU");
	world_lab_must(shmd_put(t->ctx, t->host, t->gpu, BYTES, t->right), "put from GPU to host");
	barrier(t);
	expect_gpu(t, t->gpu + BYTES, left_of(t, t->left));
	expect(t->host, left_of(t, t->left));
	world_lab_must(shmd_get(t->ctx, t->gpu + 2 * BYTES, t->host, BYTES, t->right), "get from host to GPU");
	world_lab_must(shmd_get_nbi(t->ctx, t->gpu + 3 * BYTES, t->gpu, BYTES, t->right), "get from GPU to GPU");
	world_lab_must(shmd_quiet(t->ctx), "quiet");
	expect_gpu(t, t->gpu + 2 * BYTES, t->left);
	expect_gpu(t, t->gpu + 3 * BYTES, t->me);
	world_lab_must(shmd_put(t->ctx, t->gpu, t->gpu, 0, t->right), "put of nothing");
	barrier(t);
}

static void words(const struct test *t)
{
	uint64_t value = 0;

	for (size_t bytes = 1; bytes <= 8; bytes *= 2)
		world_lab_must(shmd_p(t->ctx, &t->words[bytes], 0x0102030405060708u + (unsigned int)t->me, bytes, t->right), "p");
	barrier(t);
	for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
		world_lab_must(shmd_g(t->ctx, &t->words[bytes], 8, t->me, &value), "g");
		ASSERT_EQ(value, (0x0102030405060708u + (unsigned int)t->left) & (UINT64_MAX >> (64 - 8 * bytes)));
	}
	world_lab_must(shmd_g(t->ctx, &t->words[2], 2, t->right, &value), "g");
	ASSERT_EQ(value, 0x0708u + (unsigned int)t->me);
	ASSERT_ERR(shmd_p(t->ctx, (uint8_t *)t->words + 1, 1, 4, t->right), EINVAL);
	ASSERT_ERR(shmd_p(t->ctx, t->words, 1, 3, t->right), EINVAL);
	ASSERT_ERR(shmd_g(t->ctx, t->words, 8, t->n, &value), EINVAL);
}

static void many(const struct test *t)
{
	const struct shmd_stride stride = {.n = 10, .block_bytes = 24, .dest_stride_bytes = 32, .source_stride_bytes = 48};
	struct shmd_put_item puts[3];
	struct shmd_get_item gets[3];

	fill(t->own, t->me);
	world_lab_must(shmd_put_strided(t->ctx, t->gpu, t->own, &stride, t->right), "put of blocks");
	for (unsigned int i = 0; i < 3; i++)
		puts[i] = (struct shmd_put_item){t->gpu + 4096 + 100 * i, t->own + 7 * i, 90, t->right};
	world_lab_must(shmd_put_batch_nbi(t->ctx, puts, 3), "batch of puts");
	barrier(t);
	memset(t->own, 0, BYTES);
	world_lab_must(shmd_get_strided(t->ctx, t->own, t->gpu, &(struct shmd_stride){10, 24, 48, 32}, t->me), "get of blocks");
	ASSERT_EQ(t->own[9 * 48 + 23], (uint8_t)((9 * 48 + 23) * 3 + (455 >> 7) + (unsigned int)t->left * 50));
	for (unsigned int i = 0; i < 3; i++)
		gets[i] = (struct shmd_get_item){t->own + 1000 + 100 * i, t->gpu + 4096 + 100 * i, 90, t->right};
	world_lab_must(shmd_get_batch_nbi(t->ctx, gets, 3), "batch of gets");
	world_lab_must(shmd_quiet(t->ctx), "quiet");
	ASSERT_EQ(t->own[1000 + 200 + 89], (uint8_t)((14 + 89) * 3 + (unsigned int)t->me * 50));
	barrier(t);
}

/* A flag in host memory after data in GPU memory, which takes its time. */
static void order(const struct test *t)
{
	fake_cuda_put_off(200);
	for (uint64_t i = 1; i <= 5; i++) {
		/* Registered memory, so that nothing waits for it. */
		fill(t->host, (int)i + t->me);
		world_lab_must(shmd_put_nbi(t->ctx, t->gpu, t->host, BYTES, t->right), "put");
		world_lab_must(shmd_fence(t->ctx), "fence");
		world_lab_must(shmd_p(t->ctx, &t->host_words[0], i, 8, t->right), "p");
		world_lab_must(shmd_wait_until(t->ctx, &t->host_words[0], 8, SHMD_CMP_EQ, i), "wait");
		expect(t->gpu, (int)i + t->left);
		barrier(t);
		fill(t->host, (int)i + 10 + t->me);
		world_lab_must(shmd_put_signal(t->ctx, t->gpu, t->host, BYTES, &t->host_words[1], i, SHMD_SIGNAL_SET, t->right), "put with signal");
		world_lab_must(shmd_wait_until(t->ctx, &t->host_words[1], 8, SHMD_CMP_EQ, i), "wait");
		expect(t->gpu, (int)i + 10 + t->left);
		barrier(t);
	}
	fake_cuda_put_off(0);
}

static void signals(const struct test *t)
{
	struct shmd_dev_ctx *kernel = gpu_lab_ctx(t->ctx);

	fill(t->host + BYTES, 30 + t->me);
	world_lab_must(shmd_put_signal_nbi(t->ctx, t->gpu, t->host + BYTES, BYTES, &t->words[20], 4, SHMD_SIGNAL_SET, t->right), "put with signal");
	ASSERT_EQ(shmd_dev_wait_until(kernel, &t->words[20], 8, SHMD_DEV_CMP_EQ, 4), 0);
	expect(t->gpu, 30 + t->left);
	/* From GPU to host memory, and the other way round. */
	barrier(t);
	world_lab_must(shmd_put_signal(t->ctx, t->host, t->gpu, BYTES, &t->words[20], 5, SHMD_SIGNAL_SET, t->right), "put with signal");
	ASSERT_EQ(shmd_dev_wait_until(kernel, &t->words[20], 8, SHMD_DEV_CMP_GE, 5), 0);
	expect(t->host, 30 + left_of(t, t->left));
	world_lab_must(shmd_put_signal(t->ctx, t->host + 2 * BYTES, t->host, BYTES, &t->words[20], 6, SHMD_SIGNAL_SET, t->right), "put with signal");
	ASSERT_EQ(shmd_dev_wait_until(kernel, &t->words[20], 8, SHMD_DEV_CMP_EQ, 6), 0);
	expect(t->host + 2 * BYTES, 30 + left_of(t, left_of(t, t->left)));
	barrier(t);
}

/* Exact with those of kernels, whether a queue or a kernel of the library carries them. */
static void count(const struct test *t)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	uint64_t value = 0;

	for (unsigned int i = 0; i < N_ADDS; i++) {
		world_lab_must(shmd_atomic(t->ctx, &t->words[30], &add, 0), "atomic");
		world_lab_must(shmd_signal(t->ctx, &t->words[30], 1, SHMD_SIGNAL_ADD, 0), "signal");
		ASSERT_EQ(shmd_dev_atomic(gpu_lab_ctx(t->ctx), &t->words[30], shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0), 0);
	}
	ASSERT_EQ(shmd_dev_quiet(gpu_lab_ctx(t->ctx)), 0);
	barrier(t);
	world_lab_must(shmd_atomic_fetch(t->ctx, &t->words[30], &(struct shmd_atomic){.op = SHMD_ATOMIC_FETCH, .bytes = 8}, 0, &value), "fetch");
	ASSERT_EQ(value, 3u * N_ADDS * (unsigned int)t->n);
	barrier(t);
}

static uint64_t fetch_with(const struct test *t, struct shmd_atomic atomic)
{
	uint64_t old = 77;

	world_lab_must(shmd_atomic_fetch(t->ctx, &t->words[31], &atomic, t->right, &old), "atomic");
	return old;
}

static void atomics(const struct test *t)
{
	struct shmd_atomic swap = {.op = SHMD_ATOMIC_COMPARE_SWAP, .bytes = 8, .value = 21, .compare = 20};
	struct shmd_atomic narrow = {.op = SHMD_ATOMIC_SWAP, .bytes = 4, .value = 9};
	uint32_t part[2] = {1, 1};

	count(t);
	ASSERT_EQ(fetch_with(t, (struct shmd_atomic){.op = SHMD_ATOMIC_SWAP, .bytes = 8, .value = 12}), 0);
	ASSERT_EQ(fetch_with(t, (struct shmd_atomic){.op = SHMD_ATOMIC_OR, .bytes = 8, .value = 16}), 12);
	ASSERT_EQ(fetch_with(t, (struct shmd_atomic){.op = SHMD_ATOMIC_AND, .bytes = 8, .value = 20}), 28);
	ASSERT_EQ(fetch_with(t, swap), 20);
	ASSERT_EQ(fetch_with(t, swap), 21);
	world_lab_must(shmd_atomic_fetch_nbi(t->ctx, &t->words[31], &narrow, t->right, part), "atomic");
	world_lab_must(shmd_quiet(t->ctx), "quiet");
	ASSERT_EQ(part[0], 21);
	ASSERT_EQ(part[1], 1);
	narrow.bytes = 3;
	ASSERT_ERR(shmd_atomic(t->ctx, &t->words[31], &narrow, t->right), EINVAL);
	ASSERT_ERR(shmd_atomic(t->ctx, &t->words[31], &swap, t->n), EINVAL);
	barrier(t);
	world_lab_must(shmd_put_signal(t->ctx, t->gpu, t->own, 8, &t->words[31], 2, SHMD_SIGNAL_ADD, t->right), "put with signal");
	barrier(t);
	ASSERT_EQ(fetch_with(t, (struct shmd_atomic){.op = SHMD_ATOMIC_FETCH, .bytes = 8}), 11);
	barrier(t);
}

/* A signal that is refused comes before the put. */
static void refuse_signals(const struct test *t)
{
	uint64_t *crooked = (uint64_t *)(void *)((char *)&t->words[40] + 4), value = 7;

	world_lab_must(shmd_p(t->ctx, &t->words[41], 9, 8, t->me), "p");
	ASSERT_ERR(shmd_put_signal(t->ctx, &t->words[41], &value, 8, crooked, 1, SHMD_SIGNAL_SET, t->me), EINVAL);
	ASSERT_ERR(shmd_put_signal(t->ctx, &t->words[41], &value, 8, &t->words[42], 1, (enum shmd_signal_op)77, t->me), EINVAL);
	ASSERT_ERR(shmd_signal(t->ctx, &t->words[42], 1, (enum shmd_signal_op)77, t->me), EINVAL);
	world_lab_must(shmd_quiet(t->ctx), "quiet");
	world_lab_must(shmd_g(t->ctx, &t->words[41], 8, t->me, &value), "g");
	ASSERT_EQ(value, 9);
}

static void refusals(const struct test *t)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	void *theirs = shmd_ptr(t->world, t->gpu, t->right);
	struct shmd_team *all = shmd_team_world(t->world);

	if (theirs && t->n > 1)
		ASSERT_ERR(shmd_put(t->ctx, t->gpu, theirs, 8, t->me), EINVAL);
	ASSERT_ERR(shmd_put(t->ctx, t->gpu, t->gpu, 1ull << 30, t->right), EINVAL);
	ASSERT_OK(shmd_put(t->ctx, (char *)t->gpu + (1ull << 30), "", 0, t->right));
	refuse_signals(t);
	ASSERT_ERR(shmd_get(t->ctx, t->own, t->gpu, 8, -1), EINVAL);
	ASSERT_ERR(shmd_put(t->ctx, t->own, t->gpu, 8, t->right), EINVAL);
	ASSERT_ERR(shmd_atomic_fetch_nbi(t->ctx, &t->host_words[2], &add, t->right, &t->words[3]), EINVAL);
	ASSERT_ERR(shmd_broadcast(all, t->gpu, t->gpu, 8, t->n), EINVAL);
	ASSERT_ERR(shmd_collect(all, t->gpu, t->gpu + BYTES, 8), EOPNOTSUPP);
	ASSERT_ERR(shmd_fcollect(all, t->host, t->gpu, 8), EINVAL);
	ASSERT_ERR(shmd_reduce(all, t->gpu, t->host, 1, SHMD_TYPE_INT32, SHMD_REDUCE_SUM), EINVAL);
	ASSERT_ERR(shmd_lock(t->ctx, t->words), EINVAL);
	ASSERT_ERR(shmd_lock_test(t->ctx, t->words), EINVAL);
	ASSERT_ERR(shmd_unlock(t->ctx, t->words), EINVAL);
}

/* Between host collectives of the host's heap, which count apart. Word i of source is 100 * (the PE) + i. */
static void collectives(const struct test *t, struct shmd_team *team)
{
	uint64_t *in = &t->words[64], *out = &t->words[128], own[8], sum = 0;
	size_t n = (size_t)t->n;

	for (unsigned int i = 0; i < 8; i++)
		own[i] = 100 * (unsigned int)t->me + i;
	world_lab_must(shmd_put(t->ctx, in, own, sizeof(own), t->me), "put");
	world_lab_must(shmd_broadcast(team, out, in, 16, 1), "broadcast");
	world_lab_must(shmd_get(t->ctx, own, out, 16, t->me), "get");
	ASSERT_EQ(own[1], 101);
	world_lab_must(shmd_reduce(team, &t->host_words[9], &t->host_words[8], 1, SHMD_TYPE_UINT64, SHMD_REDUCE_SUM), "reduction on the host");
	world_lab_must(shmd_fcollect(team, out, in, 8), "fcollect");
	world_lab_must(shmd_get(t->ctx, own, out, 8 * n, t->me), "get");
	ASSERT_EQ(own[n - 1], 100 * (n - 1));
	world_lab_must(shmd_alltoall(team, out, in, 8), "alltoall");
	world_lab_must(shmd_get(t->ctx, own, out, 8 * n, t->me), "get");
	for (size_t i = 0; i < n; i++, sum += 100 * i)
		ASSERT_EQ(own[i], 100 * i + (unsigned int)t->me);
	world_lab_must(shmd_reduce(team, out, in, 8, SHMD_TYPE_UINT64, SHMD_REDUCE_SUM), "reduction");
	world_lab_must(shmd_get(t->ctx, own, out, sizeof(own), t->me), "get");
	ASSERT_EQ(own[7], sum - 100 * n + 7 * n);
	world_lab_must(shmd_reduce_scatter(team, out, in, 2, SHMD_TYPE_UINT64, SHMD_REDUCE_MAX), "reduction by parts");
	world_lab_must(shmd_get(t->ctx, own, out, 16, t->me), "get");
	ASSERT_EQ(own[1], 100 * (n - 1) + 2 * (unsigned int)t->me + 1);
	barrier(t);
}

static void collectives_of_teams(const struct test *t)
{
	struct shmd_team *team;

	collectives(t, shmd_team_world(t->world));
	world_lab_must(shmd_team_split_strided(shmd_team_world(t->world), 0, 1, t->n, &team), "split");
	collectives(t, team);
	collectives(t, team);
	world_lab_must(shmd_team_destroy(team), "destroy");
}

/* A member that has ended is named, and its end ends the wait. */
static int waits_for_a_dead_pe(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = gpu_lab_open(lab, pe, "auto", 0);
	uint64_t *words = gpu_lab_memory(world, 4096), *told;
	int r;

	(void)arg;
	fake_kernels_add();
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&told), "calloc");
	world_lab_must(shmd_broadcast(shmd_team_world(world), words, &words[8], 64, 0), "broadcast");
	world_lab_await_others(world, told, pe);
	if (pe == 1)
		_exit(0);
	r = shmd_reduce(shmd_team_world(world), words, &words[8], 8, SHMD_TYPE_UINT64, SHMD_REDUCE_SUM);
	ASSERT_EQ(r, -EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	shmd_world_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(a_pe_that_dies_ends_collectives_of_the_host_on_gpu_memory, 60)
{
	world_lab_run_alone(3, waits_for_a_dead_pe, NULL);
}

/* How the next quiets of the library's kernels end, in place of what they find; 0: as they do. */
static int quiet_status;
static unsigned int n_quiets;

static void chosen_word(void **parameters)
{
	const struct stream_call *call = parameters[0];

	if (call->what != STREAM_QUIET) {
		stream_word(call);
		return;
	}
	n_quiets++;
	stream_end(call, quiet_status ? quiet_status : stream_word_status(call));
}

static int make_team(struct shmd_world *world, struct shmd_team **ret_team)
{
	return shmd_team_split_strided(shmd_team_world(world), 0, 1, shmd_n_pes(world), ret_team);
}

/* Without PE 0. */
static int make_team_of_others(struct shmd_world *world, struct shmd_team **ret_team)
{
	const int pes[] = {1, 2};
	const struct shmd_team_members members = {.tag = 1, .n_pes = 2, .pes = pes};

	return shmd_team_from_members(world, &members, ret_team);
}

/* A team with a collective; status: of the quiet at its end. */
static int end_a_team(struct shmd_world *world, uint64_t *words, int status)
{
	struct shmd_team *team;

	world_lab_must(make_team(world, &team), "split");
	world_lab_must(shmd_fcollect(team, words, &words[64], 8), "fcollect");
	n_quiets = 0;
	quiet_status = status;
	return shmd_team_destroy(team);
}

/* A kernel that failed may have left messages to the scratch of a team. Beside the teams that every world has there is room for one. */
static int ends_teams(const struct world_lab *lab, int pe, void *arg)
{
	uint32_t paths = *(const uint32_t *)arg;
	struct shmd_world *world;
	struct shmd_team *team;
	uint64_t *words;

	fake_kernels_add();
	fake_cuda_kernel("shmd_stream_word", chosen_word);
	setenv("SHMD_MAX_TEAMS", "5", 1);
	world = gpu_lab_open(lab, pe, "auto", paths);
	words = gpu_lab_memory(world, 4096);
	world_lab_must(end_a_team(world, words, 0), "destroy");
	ASSERT_EQ(n_quiets, paths ? 1 : 0);
	/* A queue that failed has no messages under way. */
	world_lab_must(end_a_team(world, words, SHMD_DEV_CQE_ERROR), "destroy");
	if (paths) {
		/* On one PE alone: the others do not wait for it, nor use the scratch to which its messages may come. */
		ASSERT_EQ(end_a_team(world, words, pe ? 0 : SHMD_DEV_TIMEOUT), pe ? 0 : -ETIMEDOUT);
		if (pe)
			ASSERT_ERR(make_team_of_others(world, &team), ENOSPC);
		else
			ASSERT(strstr(shmd_error_text(), "completing the operations of a team"));
	}
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(a_team_ends_only_when_messages_of_its_collectives_on_gpu_memory_are_complete, 60)
{
	uint32_t all = 0, queues = SHMD_ALLOW_QUEUE;

	world_lab_run_alone(3, ends_teams, &all);
	world_lab_run_alone(3, ends_teams, &queues);
}

static int uses_gpu_memory(const struct world_lab *lab, int pe, void *arg)
{
	enum paths paths = *(const enum paths *)arg;
	struct shmd_world *world =
		gpu_lab_open(lab, pe, "auto", paths == QUEUES_ONLY || (paths == MIXED && pe == 2) ? SHMD_ALLOW_QUEUE : 0);
	struct test t = {.world = world, .ctx = shmd_world_ctx(world), .me = pe, .n = lab->n, .has_queues = paths != MAPPED};

	fake_kernels_add();
	t.right = (pe + 1) % t.n;
	t.left = left_of(&t, pe);
	t.gpu = gpu_lab_memory(world, 4 * BYTES);
	t.words = gpu_lab_memory(world, 4096);
	world_lab_must(shmd_calloc(world, 4, BYTES, 0, (void **)&t.host), "calloc");
	world_lab_must(shmd_calloc(world, 512, 8, 0, (void **)&t.host_words), "calloc");
	t.own = malloc(BYTES);
	ASSERT(t.own);
	moves(&t);
	words(&t);
	many(&t);
	order(&t);
	signals(&t);
	atomics(&t);
	collectives_of_teams(&t);
	refusals(&t);
	free(t.own);
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

/* There is no put if there can be no signal. */
static int has_no_kernels(const struct world_lab *lab, int pe, void *arg)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	struct shmd_world *world = gpu_lab_open(lab, pe, "auto", 0);
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint64_t *words = gpu_lab_memory(world, 64);
	uint64_t own = 3;

	(void)arg;
	ASSERT(shmd_atomic(ctx, words, &add, pe) < 0);
	ASSERT(shmd_put_signal(ctx, &words[1], &own, 8, words, 1, SHMD_SIGNAL_ADD, pe) < 0);
	ASSERT_EQ(words[0] + words[1], 0);
	world_lab_close(world);
	gpu_lab_expect_nothing();
	return 0;
}

TEST_TIMEOUT(a_driver_that_has_no_kernels_fails_atomics_alone, 60)
{
	world_lab_run_alone(1, has_no_kernels, NULL);
}

static void run(enum paths paths)
{
	world_lab_run_alone(3, uses_gpu_memory, &paths);
}

TEST_TIMEOUT(the_host_copies_gpu_memory_of_mapped_pes, 60)
{
	run(MAPPED);
}

TEST_TIMEOUT(the_host_reaches_gpu_memory_by_queues, 60)
{
	run(QUEUES_ONLY);
}

TEST_TIMEOUT(the_host_reaches_gpu_memory_of_mapped_and_other_pes, 60)
{
	run(MIXED);
}
