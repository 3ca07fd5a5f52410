/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self-test of worlds with a GPU heap: each process is a PE, and its kernels use the other PEs' GPU memory through the library's view of the
 * world. usage: shmemctl run -n 2 gpu-world-selftest [mapped|queues|mixed]
 *
 *	mapped	all PEs map each other's memory (the default)
 *	queues	none does: kernels drive queues
 *	mixed	the last PE maps nobody, and the others each other: from three PEs on both paths are there
 *
 * PEs share the GPUs there are, one after the other. Every wait ends with the world's time limit. It returns 0 if all checks passed, 1 if one
 * failed, and 77 without a GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd.h>
#include <shmd/dev/coll.h>
#include <shmd/dev/pe.h>

#define N_THREADS 128u
#define AREA_BYTES 65536u
#define N_WORDS 1024u
#define N_FLOATS 1000u
#define N_ROUNDS 10u
#define GROWTH_BYTES (100ull << 20)
#define N_PUTS 200u /* of one word, timed */
#define LOCAL_WORDS 300u

struct result {
	uint32_t line; /* of the first check that failed; 0: all were good */
	uint32_t n_checks;
	int status; /* of the last call that failed */
};

struct test {
	struct shmd_dev_ctx *ctx;
	struct shmd_dev_team *team, *own; /* of all PEs; made by a split */
	uint8_t *source, *dest; /* AREA_BYTES each */
	uint64_t *words;
	struct result *result;
	uint32_t me, n;
};

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x))                                                                          \
			atomicCAS(&t.result->line, 0, __LINE__);                                   \
		else                                                                               \
			atomicAdd(&t.result->n_checks, 1);                                         \
	} while (0)

#define CALL(call)                                                                                 \
	do {                                                                                       \
		int status_ = (call);                                                              \
                                                                                                   \
		if (status_)                                                                       \
			t.result->status = status_;                                                \
		CHECK(status_ == SHMD_DEV_OK);                                                     \
	} while (0)

static __host__ __device__ uint8_t pattern(uint64_t i, uint32_t seed)
{
	return (uint8_t)(i * 7 + (i >> 8) + seed * 131);
}

static __device__ void fill(uint8_t *at, uint64_t bytes, uint32_t seed)
{
	for (uint64_t i = threadIdx.x; i < bytes; i += blockDim.x)
		at[i] = pattern(i, seed);
	__syncthreads();
}

static __device__ void expect(const struct test &t, const uint8_t *at, uint64_t bytes, uint32_t seed)
{
	uint64_t n_wrong = 0;

	for (uint64_t i = threadIdx.x; i < bytes; i += blockDim.x)
		n_wrong += *(const volatile uint8_t *)&at[i] != pattern(i, seed);
	CHECK(n_wrong == 0);
	__syncthreads();
}

static __device__ struct shmd_dev_mode block_mode(const struct test &t)
{
	return shmd_dev_ctx_mode(t.ctx, SHMD_DEV_BLOCK);
}

static __device__ void barrier(const struct test &t)
{
	CALL(shmd_dev_team_barrier_as(t.ctx, t.team, block_mode(t)));
}

static __device__ uint32_t next_pe(const struct test &t)
{
	return (t.me + 1) % t.n;
}

static __device__ uint32_t previous_pe(const struct test &t)
{
	return (t.me + t.n - 1) % t.n;
}

static __global__ void barriers(struct test t)
{
	for (uint32_t i = 0; i < N_ROUNDS; i++) {
		barrier(t);
		CALL(shmd_dev_team_sync_as(t.ctx, t.team, block_mode(t)));
	}
}

static __global__ void put_and_get(struct test t)
{
	const uint64_t sizes[] = {1, 12345, AREA_BYTES};

	for (uint32_t i = 0; i < 3; i++) {
		fill(t.source, sizes[i], i * 10 + t.me);
		barrier(t);
		CALL(shmd_dev_put_as(t.ctx, t.dest, t.source, sizes[i], next_pe(t), block_mode(t)));
		barrier(t);
		expect(t, t.dest, sizes[i], i * 10 + previous_pe(t));
		CALL(shmd_dev_get_as(t.ctx, t.dest, t.source, sizes[i], next_pe(t), block_mode(t)));
		__syncthreads();
		expect(t, t.dest, sizes[i], i * 10 + next_pe(t));
		barrier(t);
	}
}

static __global__ void single_words(struct test t)
{
	uint64_t found = 0;

	CALL(shmd_dev_p(t.ctx, &t.words[threadIdx.x], 1000 * t.me + threadIdx.x, 8, next_pe(t)));
	barrier(t);
	CHECK(*(volatile uint64_t *)&t.words[threadIdx.x] == 1000 * previous_pe(t) + threadIdx.x);
	CALL(shmd_dev_g(t.ctx, &t.words[threadIdx.x], 8, next_pe(t), &found));
	CHECK(found == 1000 * t.me + threadIdx.x);
	barrier(t);
}

static __global__ void signals(struct test t)
{
	struct shmd_dev_put_item put = {t.dest, t.source, 20000, next_pe(t)};
	uint64_t *arrived = &t.words[N_WORDS - 1], *answered = &t.words[N_WORDS - 2];

	for (uint64_t i = 1; i <= N_ROUNDS; i++) {
		fill(t.source, 20000, 80 + t.me + i);
		CALL(shmd_dev_put_signal_as(t.ctx, put, shmd_dev_pe_signal_of(arrived, SHMD_DEV_SIGNAL_SET, i), block_mode(t)));
		CALL(shmd_dev_wait_until_as(t.ctx, arrived, 8, SHMD_DEV_CMP_GE, i, block_mode(t)));
		expect(t, t.dest, 20000, 80 + previous_pe(t) + i);
		CALL(shmd_dev_signal_as(t.ctx, shmd_dev_pe_signal_of(answered, SHMD_DEV_SIGNAL_ADD, 1), previous_pe(t), block_mode(t)));
		CALL(shmd_dev_wait_until_as(t.ctx, answered, 8, SHMD_DEV_CMP_EQ, i, block_mode(t)));
	}
}

static __global__ void atomics(struct test t)
{
	uint64_t *counter = &t.words[N_WORDS - 3], found = 0;

	for (uint32_t i = 0; i < N_ROUNDS; i++)
		CALL(shmd_dev_atomic_fetch(t.ctx, counter, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0, &found));
	CHECK(found < (uint64_t)t.n * blockDim.x * N_ROUNDS);
	barrier(t);
	CALL(shmd_dev_g(t.ctx, counter, 8, 0, &found));
	CHECK(found == (uint64_t)t.n * blockDim.x * N_ROUNDS);
	barrier(t);
}

static __global__ void collectives(struct test t)
{
	float *from = (float *)t.source, *to = (float *)t.dest;
	struct shmd_dev_coll sum = shmd_dev_coll_math(to, from, N_FLOATS, SHMD_DEV_TYPE_FLOAT, SHMD_DEV_REDUCE_SUM);
	struct shmd_dev_coll few = shmd_dev_coll_math(to, from, 4, SHMD_DEV_TYPE_FLOAT, SHMD_DEV_REDUCE_SUM);
	struct shmd_dev_coll all = shmd_dev_coll_of(t.dest, t.source, 1000);

	for (uint32_t i = threadIdx.x; i < N_FLOATS; i += blockDim.x)
		from[i] = (float)(i + t.me);
	__syncthreads();
	CALL(shmd_dev_reduce_as(t.ctx, t.team, &few, block_mode(t)));
	__syncthreads();
	CHECK(*(volatile float *)&to[3] == (float)(3 * t.n + t.n * (t.n - 1) / 2));
	barrier(t);
	CALL(shmd_dev_reduce_as(t.ctx, t.team, &sum, block_mode(t)));
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < N_FLOATS; i += blockDim.x)
		CHECK(*(volatile float *)&to[i] == (float)(i * t.n + t.n * (t.n - 1) / 2));
	barrier(t);
	fill(t.source, 1000, 90 + t.me);
	CALL(shmd_dev_fcollect_as(t.ctx, t.team, &all, block_mode(t)));
	__syncthreads();
	for (uint32_t pe = 0; pe < t.n; pe++)
		expect(t, t.dest + 1000ull * pe, 1000, 90 + pe);
	barrier(t);
}

/* The team has the PEs in the same order. */
static __global__ void team_of_a_split(struct test t)
{
	for (uint32_t i = 1; i <= N_ROUNDS; i++) {
		if (threadIdx.x == 0)
			CALL(shmd_dev_p(t.ctx, &t.words[N_WORDS - 4], i, 8, next_pe(t)));
		CALL(shmd_dev_team_barrier_as(t.ctx, t.own, block_mode(t)));
		CHECK(*(volatile uint64_t *)&t.words[N_WORDS - 4] == i);
		CALL(shmd_dev_team_sync_as(t.ctx, t.own, block_mode(t)));
	}
}

/* Data outside the heap: shared memory of a block. */
static __global__ void not_registered(struct test t)
{
	__shared__ uint64_t local[LOCAL_WORDS];
	uint64_t n_wrong = 0;

	for (uint32_t i = threadIdx.x; i < LOCAL_WORDS; i += blockDim.x)
		local[i] = 5000 * t.me + i;
	__syncthreads();
	CALL(shmd_dev_put_as(t.ctx, t.words, local, sizeof(local), next_pe(t), block_mode(t)));
	barrier(t);
	__syncthreads();
	CALL(shmd_dev_get_as(t.ctx, local, t.words, sizeof(local), t.me, block_mode(t)));
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < LOCAL_WORDS; i += blockDim.x)
		n_wrong += local[i] != 5000 * previous_pe(t) + i;
	CHECK(n_wrong == 0);
	barrier(t);
}

/* One after the other, by one thread. */
static __global__ void puts_of_a_word(struct test t)
{
	for (uint32_t i = 0; i < N_PUTS; i++) {
		CALL(shmd_dev_p(t.ctx, &t.words[0], i, 8, next_pe(t)));
		CALL(shmd_dev_quiet(t.ctx));
	}
}

/* The host of the PE before brings data and a signal meanwhile. */
static __global__ void waits_for_a_host(struct test t)
{
	CALL(shmd_dev_wait_until_as(t.ctx, &t.words[N_WORDS - 5], 8, SHMD_DEV_CMP_EQ, 7, block_mode(t)));
	expect(t, t.dest, AREA_BYTES, 60 + previous_pe(t));
}

static __global__ void refusals(struct test t)
{
	struct shmd_dev_mode soon = shmd_dev_ctx_mode(t.ctx, SHMD_DEV_THREAD);

	soon.timeout_nsec = 1000000;
	CHECK(shmd_dev_put(t.ctx, t.result, t.source, 8, next_pe(t)) == SHMD_DEV_INVALID);
	CHECK(shmd_dev_put(t.ctx, t.dest, t.source, 8, t.n) == SHMD_DEV_INVALID);
	CHECK(shmd_dev_wait_until_as(t.ctx, &t.words[0], 8, SHMD_DEV_CMP_EQ, 0xdead, soon) == SHMD_DEV_TIMEOUT);
	barrier(t);
}

/* ---- the host ---------------------------------------------------------------------------------------------------------------- */

static void cuda(const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "gpu-world-selftest: %s: %s\n", what, cudaGetErrorString(error));
	exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "gpu-world-selftest: %s: %s\n", what, shmd_error_text());
	exit(1);
}

static int n_failed;

static void judge(struct test *t, const char *name)
{
	cuda(name, cudaGetLastError());
	cuda(name, cudaDeviceSynchronize());
	if (t->result->line)
		printf("PE %u: %s: FAILED in line %u, last bad status %d\n", t->me, name, t->result->line, t->result->status);
	else
		printf("PE %u: %s: %u checks passed\n", t->me, name, t->result->n_checks);
	fflush(stdout);
	n_failed += t->result->line != 0;
	memset(t->result, 0, sizeof(*t->result));
}

#define RUN(kernel)                                                                                \
	do {                                                                                       \
		kernel<<<1, N_THREADS>>>(*t);                                                      \
		judge(t, #kernel);                                                                 \
	} while (0)

static void run_all(struct test *t)
{
	RUN(barriers);
	RUN(put_and_get);
	RUN(single_words);
	RUN(signals);
	RUN(atomics);
	RUN(collectives);
	RUN(team_of_a_split);
	RUN(not_registered);
	RUN(refusals);
}

/* The other PEs run no kernel meanwhile. */
static void time_puts(struct shmd_world *world, struct test *t)
{
	cudaEvent_t begin, end;
	float ms = 0;

	must(shmd_barrier_all(world), "barrier");
	if (!t->me) {
		cuda("make an event", cudaEventCreate(&begin));
		cuda("make an event", cudaEventCreate(&end));
		puts_of_a_word<<<1, 1>>>(*t);
		cuda("note the begin", cudaEventRecord(begin));
		puts_of_a_word<<<1, 1>>>(*t);
		cuda("note the end", cudaEventRecord(end));
		judge(t, "puts_of_a_word");
		cuda("look at the time", cudaEventElapsedTime(&ms, begin, end));
		printf("a put of 8 bytes, post to completion: %.2f us\n", 1e3 * ms / N_PUTS);
	}
	must(shmd_barrier_all(world), "barrier");
}

static void prepare(struct shmd_world *world, struct shmd_team *split, struct test *t)
{
	uint64_t ctx, team, own;
	void *memory;

	must(shmd_calloc(world, 1, 2 * AREA_BYTES + N_WORDS * sizeof(uint64_t), SHMD_HINT_GPU, &memory), "allocate GPU memory");
	must(shmd_ctx_gpu_dev(shmd_world_ctx(world), &ctx), "the context");
	must(shmd_team_gpu_dev(shmd_team_world(world), &team), "the team");
	must(shmd_team_gpu_dev(split, &own), "the team of a split");
	t->ctx = (struct shmd_dev_ctx *)ctx;
	t->team = (struct shmd_dev_team *)team;
	t->own = (struct shmd_dev_team *)own;
	t->source = (uint8_t *)memory;
	t->dest = t->source + AREA_BYTES;
	t->words = (uint64_t *)(t->dest + AREA_BYTES);
	t->me = (uint32_t)shmd_my_pe(world);
	t->n = (uint32_t)shmd_n_pes(world);
}

static void must_be(bool holds, const char *what)
{
	if (!holds)
		printf("the host: FAILED: %s\n", what);
	n_failed += !holds;
}

static bool host_finds(const uint8_t *at, uint32_t seed)
{
	uint64_t n_wrong = 0;

	for (uint64_t i = 0; i < AREA_BYTES; i++)
		n_wrong += at[i] != pattern(i, seed);
	return !n_wrong;
}

/* Functions of the host on GPU memory, first while a kernel waits for them. */
static void host_moves(struct shmd_world *world, struct test *t, bool has_queues)
{
	const struct shmd_atomic add = {SHMD_ATOMIC_ADD, 8, 1, 0};
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint32_t right = (t->me + 1) % t->n, left = (t->me + t->n - 1) % t->n;
	uint8_t *own = (uint8_t *)malloc(AREA_BYTES);
	uint64_t found = 0;

	must(shmd_barrier_all(world), "barrier");
	waits_for_a_host<<<1, N_THREADS>>>(*t);
	for (uint64_t i = 0; i < AREA_BYTES; i++)
		own[i] = pattern(i, 60 + t->me);
	must(shmd_put_signal(ctx, t->dest, own, AREA_BYTES, &t->words[N_WORDS - 5], 7, SHMD_SIGNAL_SET, (int)right), "put with signal");
	judge(t, "waits_for_a_host");
	must(shmd_barrier_all(world), "barrier");
	must(shmd_put(ctx, t->source, t->dest, AREA_BYTES, (int)right), "put from GPU to GPU");
	must(shmd_p(ctx, &t->words[N_WORDS - 6], 40 + t->me, 8, (int)right), "p");
	must(shmd_barrier_all(world), "barrier");
	must(shmd_get(ctx, own, t->source, AREA_BYTES, (int)t->me), "get");
	must_be(host_finds(own, 60 + (left + t->n - 1) % t->n), "put from GPU to GPU");
	must(shmd_g(ctx, &t->words[N_WORDS - 6], 8, (int)t->me, &found), "g");
	must_be(found == 40 + left, "p and g");
	if (has_queues)
		must(shmd_atomic(ctx, &t->words[N_WORDS - 7], &add, 0), "atomic");
	must(shmd_barrier_all(world), "barrier");
	must(shmd_g(ctx, &t->words[N_WORDS - 7], 8, 0, &found), "g");
	must_be(found == (has_queues ? t->n : 0), "atomics");
	must(shmd_barrier_all(world), "barrier");
	printf("PE %u: moves by the host: done\n", t->me);
	free(own);
}

/* The same in a chunk by which the heap has grown. */
static void in_new_chunk(struct shmd_world *world, struct test *t)
{
	struct test moved = *t;
	void *large;

	must(shmd_calloc(world, 1, GROWTH_BYTES, SHMD_HINT_GPU, &large), "grow the GPU heap");
	moved.dest = (uint8_t *)large + GROWTH_BYTES - 2 * AREA_BYTES;
	moved.source = moved.dest + AREA_BYTES;
	t = &moved;
	RUN(put_and_get);
	must(shmd_free(world, large), "free");
}

static int choose_gpu(void)
{
	const char *rank = getenv("SHMD_NODE_RANK");
	int n = 0;

	cuda("count the GPUs", cudaGetDeviceCount(&n));
	cuda("choose the GPU", cudaSetDevice(rank ? atoi(rank) % n : 0));
	cuda("start the GPU", cudaFree(0));
	return n;
}

/* Paths that this PE allows. */
static uint32_t paths_of(const char *mode)
{
	const char *rank = getenv("SHMD_NODE_RANK"), *size = getenv("SHMD_NODE_SIZE");
	bool is_last = rank && size && atoi(rank) + 1 == atoi(size);

	if (!strcmp(mode, "mapped"))
		return 0;
	if (!strcmp(mode, "queues"))
		return SHMD_ALLOW_QUEUE;
	if (!strcmp(mode, "mixed"))
		return is_last ? SHMD_ALLOW_QUEUE : 0;
	fprintf(stderr, "usage: shmemctl run -n 2 gpu-world-selftest [mapped|queues|mixed]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "mapped";
	struct shmd_world_attr attr = {};
	struct shmd_world *world;
	struct shmd_team *split;
	struct test t = {};
	int n_gpus = choose_gpu();

	attr.gpu = "current";
	attr.paths = paths_of(mode);
	must(shmd_world_open(&attr, &world), "open the world");
	must(shmd_world_start(world), "start the world");
	must(shmd_team_split_strided(shmd_team_world(world), 0, 1, shmd_n_pes(world), &split), "split");
	cuda("allocate a result", cudaHostAlloc((void **)&t.result, sizeof(*t.result), cudaHostAllocMapped));
	memset(t.result, 0, sizeof(*t.result));
	prepare(world, split, &t);
	if (!t.me)
		printf("%u PEs on %d GPUs, %s\n", t.n, n_gpus, mode);
	run_all(&t);
	time_puts(world, &t);
	host_moves(world, &t, strcmp(mode, "mapped") && t.n > 1);
	in_new_chunk(world, &t);
	must(shmd_team_destroy(split), "destroy the team");
	must(shmd_world_close(world), "close the world");
	return n_failed ? 1 : 0;
}
