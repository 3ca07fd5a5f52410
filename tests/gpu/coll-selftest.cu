/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self-test of <shmd/dev/coll.h> on a GPU, over mapped memory: each block of one launch is a PE, as in pe-selftest.cu. Every function is
 * called back to back without barriers, by a thread, a warp and a block of each PE, on overlapping teams, by each plan.
 * usage: gpu-coll-selftest [GPU [gpu-memory]], as gpu-pe-selftest. With gpu-memory it runs three PEs alone, for compute-sanitizer
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/coll.h>

#define MAX_PES 8u
#define N_TEAMS 3u /* all; all in the opposite order; every second one */
#define GRANULE 65536u
#define SCRATCH_BYTES GRANULE
#define AREA_BYTES (4u * GRANULE)
#define HEAP_BYTES (SCRATCH_BYTES + 2 * AREA_BYTES)
#define BOUNCE_BYTES 4096u /* for results of rounds on their way */
#define MAX_THREADS 512u
#define PATIENCE_NSEC 5000000000ull

/* A block has one of these for its PE, and puts its result there. */
struct pe {
	struct shmd_dev_world world;
	struct shmd_dev_ctx ctx;
	struct shmd_dev_team teams[N_TEAMS];
	struct shmd_dev_pe entries[MAX_PES];
	uint32_t backwards[MAX_PES];
	uint8_t bounce[BOUNCE_BYTES];
	uint8_t chunk_index[HEAP_BYTES / GRANULE];
	uint64_t chunk_ends[SHMD_DEV_HEAP_CHUNKS];
	uint32_t line; /* of the first check that failed; 0: all were good */
	uint32_t n_checks;
	int status; /* of the last bad call */
};

struct test {
	struct pe *pe;
	struct shmd_dev_team *team;
	uint8_t *source, *dest; /* AREA_BYTES each */
	struct shmd_dev_mode mode;
	uint32_t n, me; /* PEs of the team */
	uint32_t seed;
};

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x))                                                                          \
			atomicCAS(&t->pe->line, 0, __LINE__);                                      \
		else                                                                               \
			atomicAdd(&t->pe->n_checks, 1);                                            \
	} while (0)

/* The threads of the scope call, then all have seen the result. */
#define CALL(call)                                                                                 \
	do {                                                                                       \
		__syncthreads();                                                                   \
		if (threadIdx.x < n_callers(t)) {                                                  \
			int status_ = (call);                                                      \
                                                                                                   \
			if (status_)                                                               \
				t->pe->status = status_;                                           \
			CHECK(status_ == SHMD_DEV_OK);                                             \
		}                                                                                  \
		__syncthreads();                                                                   \
	} while (0)

static __device__ uint32_t n_callers(const struct test *t)
{
	return t->mode.scope == SHMD_DEV_THREAD ? 1 : t->mode.scope == SHMD_DEV_WARP ? 32 : blockDim.x;
}

/* Each function once, since they are long. */
#define ONE(name)                                                                                  \
	static __device__ __noinline__ int name(const struct test *t, const struct shmd_dev_coll *args) \
	{                                                                                          \
		return shmd_dev_##name##_as(&t->pe->ctx, t->team, args, t->mode);                  \
	}
ONE(broadcast)
ONE(fcollect)
ONE(collect)
ONE(alltoall)
ONE(alltoalls)
ONE(reduce)
ONE(reduce_scatter)
ONE(scan_inclusive)
ONE(scan_exclusive)

/* ---- moving ------------------------------------------------------------------------------------------------------------------ */

static __device__ uint8_t pattern(const struct test *t, uint32_t pe, uint64_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) + pe * 131 + t->seed * 17);
}

static __device__ void fill(const struct test *t, uint64_t bytes)
{
	for (uint64_t i = threadIdx.x; i < bytes; i += blockDim.x)
		t->source[i] = pattern(t, t->me, i);
}

/* `bytes` of dest from `at` on are those of a PE's source from `from` on. */
static __device__ void expect(const struct test *t, uint64_t at, uint64_t bytes, uint32_t pe, uint64_t from)
{
	uint64_t n_wrong = 0;

	for (uint64_t i = threadIdx.x; i < bytes; i += blockDim.x)
		n_wrong += *(const volatile uint8_t *)&t->dest[at + i] != pattern(t, pe, from + i);
	CHECK(n_wrong == 0);
}

static __device__ void broadcasts(struct test *t, uint64_t bytes)
{
	for (uint32_t root = 0; root < t->n; root++) {
		struct shmd_dev_coll args = shmd_dev_coll_of(t->dest, t->source, bytes);

		t->seed++;
		args.root = root;
		fill(t, bytes);
		CALL(broadcast(t, &args));
		expect(t, 0, bytes, root, 0);
	}
}

static __device__ void collects(struct test *t, uint64_t bytes)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(t->dest, t->source, bytes);
	uint64_t at = 0;

	t->seed++;
	fill(t, bytes);
	CALL(fcollect(t, &args));
	for (uint32_t pe = 0; pe < t->n; pe++)
		expect(t, pe * bytes, bytes, pe, 0);
	__syncthreads();
	t->seed++;
	fill(t, bytes);
	args.n = bytes * t->me / t->n;
	CALL(collect(t, &args));
	for (uint32_t pe = 0; pe < t->n; pe++) {
		expect(t, at, bytes * pe / t->n, pe, 0);
		at += bytes * pe / t->n;
	}
	__syncthreads();
}

static __device__ void each_alltoall(struct test *t, uint64_t bytes)
{
	struct shmd_dev_coll args = shmd_dev_coll_of(t->dest, t->source, bytes);
	uint64_t block = bytes / 2 > 24 ? 24 : bytes / 2, n = block ? bytes / 2 / block : 0;

	t->seed++;
	fill(t, t->n * bytes);
	CALL(alltoall(t, &args));
	for (uint32_t pe = 0; pe < t->n; pe++)
		expect(t, pe * bytes, bytes, pe, t->me * bytes);
	__syncthreads();
	t->seed++;
	fill(t, t->n * bytes);
	args.stride.n = n;
	args.stride.block_bytes = block;
	args.stride.dest_stride_bytes = block + block / 2;
	args.stride.source_stride_bytes = 2 * block;
	CALL(alltoalls(t, &args));
	for (uint32_t pe = 0; pe < t->n; pe++)
		for (uint64_t i = 0; i < n && i < 50; i++)
			expect(t, (pe * n + i) * (block + block / 2), block, pe, (t->me * n + i) * 2 * block);
	__syncthreads();
}

/* ---- computing --------------------------------------------------------------------------------------------------------------- */

/* Small numbers, so that each type has the sums. */
template <typename T> static __device__ T value(const struct test *t, uint32_t pe, uint64_t i)
{
	return (T)((i * 5 + pe * 3 + t->seed) % 3 + 1);
}

template <typename T> static __device__ T combine(uint32_t op, T a, T b)
{
	switch (op) {
	case SHMD_DEV_REDUCE_SUM:
		return (T)(a + b);
	case SHMD_DEV_REDUCE_PROD:
		return (T)(a * b);
	case SHMD_DEV_REDUCE_MIN:
		return a < b ? a : b;
	case SHMD_DEV_REDUCE_MAX:
		return a > b ? a : b;
	case SHMD_DEV_REDUCE_AND:
		return (T)((uint64_t)a & (uint64_t)b);
	case SHMD_DEV_REDUCE_OR:
		return (T)((uint64_t)a | (uint64_t)b);
	default:
		return (T)((uint64_t)a ^ (uint64_t)b);
	}
}

/* Elements from `from` on, over the first n_pes PEs. */
template <typename T> static __device__ void expect_math(const struct test *t, uint32_t op, uint64_t n, uint64_t from, uint32_t n_pes)
{
	uint64_t n_wrong = 0;

	for (uint64_t i = threadIdx.x; i < n; i += blockDim.x) {
		T want = value<T>(t, 0, from + i);

		for (uint32_t pe = 1; pe < n_pes; pe++)
			want = combine<T>(op, want, value<T>(t, pe, from + i));
		n_wrong += ((const volatile T *)t->dest)[i] != want;
	}
	CHECK(n_wrong == 0);
	__syncthreads();
}

template <typename T> static __device__ void fill_math(struct test *t, uint64_t n)
{
	t->seed++;
	for (uint64_t i = threadIdx.x; i < n; i += blockDim.x)
		((T *)t->source)[i] = value<T>(t, t->me, i);
}

template <typename T> static __device__ __noinline__ void compute(struct test *t, uint32_t type, uint32_t op, uint64_t n)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(t->dest, t->source, n, type, op);

	CHECK(shmd_dev_type_bytes(type) == sizeof(T));
	fill_math<T>(t, n);
	CALL(reduce(t, &args));
	expect_math<T>(t, op, n, 0, t->n);
	fill_math<T>(t, n * t->n);
	CALL(reduce_scatter(t, &args));
	expect_math<T>(t, op, n, t->me * n, t->n);
	fill_math<T>(t, n);
	CALL(scan_inclusive(t, &args));
	expect_math<T>(t, op, n, 0, t->me + 1);
	fill_math<T>(t, n);
	CALL(scan_exclusive(t, &args));
	if (t->me)
		expect_math<T>(t, op, n, 0, t->me);
	__syncthreads();
}

static __device__ void types_and_operations(struct test *t, uint64_t n)
{
	for (uint32_t op = SHMD_DEV_REDUCE_SUM; op <= SHMD_DEV_REDUCE_XOR; op++) {
		compute<int8_t>(t, SHMD_DEV_TYPE_INT8, op, n);
		compute<uint16_t>(t, SHMD_DEV_TYPE_UINT16, op, n);
		compute<int32_t>(t, SHMD_DEV_TYPE_INT32, op, n);
		compute<uint64_t>(t, SHMD_DEV_TYPE_UINT64, op, n);
		if (op > SHMD_DEV_REDUCE_MAX)
			continue;
		compute<float>(t, SHMD_DEV_TYPE_FLOAT, op, n);
		compute<double>(t, SHMD_DEV_TYPE_DOUBLE, op, n);
	}
}

/* ---- a PE -------------------------------------------------------------------------------------------------------------------- */

/* The plain functions, by one thread. */
static __device__ __noinline__ void plain(struct test *t)
{
	struct shmd_dev_ctx *ctx = &t->pe->ctx;
	struct shmd_dev_stride one = {1, 8, 8, 8};
	struct shmd_dev_coll sum = shmd_dev_coll_math(t->dest, t->source, 3, SHMD_DEV_TYPE_INT64, SHMD_DEV_REDUCE_SUM);

	t->mode.scope = SHMD_DEV_THREAD;
	t->seed++;
	fill(t, 8 * t->n);
	CALL(shmd_dev_broadcast(ctx, t->team, t->dest, t->source, 8, 0));
	expect(t, 0, 8, 0, 0);
	CALL(shmd_dev_fcollect(ctx, t->team, t->dest, t->source, 8));
	expect(t, 0, 8, 0, 0);
	CALL(shmd_dev_collect(ctx, t->team, t->dest, t->source, 8));
	expect(t, 8 * t->me, 8, t->me, 0);
	CALL(shmd_dev_alltoall(ctx, t->team, t->dest, t->source, 8));
	expect(t, 0, 8, 0, 8 * t->me);
	CALL(shmd_dev_alltoalls(ctx, t->team, t->dest, t->source, &one));
	expect(t, 0, 8, 0, 8 * t->me);
	fill_math<int64_t>(t, 3 * t->n);
	CALL(shmd_dev_reduce(ctx, t->team, &sum));
	expect_math<int64_t>(t, SHMD_DEV_REDUCE_SUM, 3, 0, t->n);
	CALL(shmd_dev_reduce_scatter(ctx, t->team, &sum));
	expect_math<int64_t>(t, SHMD_DEV_REDUCE_SUM, 3, 3 * t->me, t->n);
	CALL(shmd_dev_scan_inclusive(ctx, t->team, &sum));
	expect_math<int64_t>(t, SHMD_DEV_REDUCE_SUM, 3, 0, t->me + 1);
	CALL(shmd_dev_scan_exclusive(ctx, t->team, &sum));
	CHECK(t->me || *(volatile int64_t *)t->dest == 0);
	CHECK(shmd_dev_broadcast(ctx, t->team, t->dest, t->source, 8, t->n) == SHMD_DEV_INVALID);
	CHECK(shmd_dev_broadcast(ctx, t->team, t->pe, t->source, 8, 0) == SHMD_DEV_INVALID);
	__syncthreads();
}

static __device__ void on_team(struct test *t)
{
	const enum shmd_dev_scope scopes[] = {SHMD_DEV_THREAD, SHMD_DEV_WARP, SHMD_DEV_BLOCK};
	const uint64_t sizes[] = {0, 1, 8, 56, 57, 1000, 4096, 20001};

	for (uint32_t i = 0; i < 3; i++) {
		t->mode = shmd_dev_ctx_mode(&t->pe->ctx, scopes[i]);
		for (uint32_t k = 0; k < 8; k++) {
			broadcasts(t, sizes[k]);
			collects(t, sizes[k]);
			each_alltoall(t, sizes[k]);
		}
		types_and_operations(t, 5);
		types_and_operations(t, 1500);
	}
	plain(t);
}

static __global__ __launch_bounds__(MAX_THREADS) void run_pes(struct pe *pes, uint8_t *heaps)
{
	struct pe *pe = &pes[blockIdx.x];
	uint8_t *memory = heaps + (uint64_t)blockIdx.x * HEAP_BYTES + SCRATCH_BYTES;

	for (uint32_t i = 0; i < N_TEAMS; i++) {
		struct test t = {pe, &pe->teams[i], memory, memory + AREA_BYTES, {}, pe->teams[i].n_pes, pe->teams[i].my_pe, i * 1000};

		if (pe->teams[i].n_pes)
			on_team(&t);
	}
}

/* ---- the host ---------------------------------------------------------------------------------------------------------------- */

static void fail(const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "gpu-coll-selftest: %s: %s\n", what, cudaGetErrorString(error));
	exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

static void fill_teams(struct pe *pe, uint32_t me, uint32_t n_pes, uint32_t flags)
{
	for (uint32_t i = 0; i < N_TEAMS; i++) {
		struct shmd_dev_team *team = &pe->teams[i];

		team->world_addr = (uintptr_t)&pe->world;
		team->scratch_offset = i * SHMD_DEV_TEAM_SCRATCH_BYTES;
		team->id = i;
		team->n_pes = n_pes;
		team->my_pe = me;
		team->stride = 1;
		team->flags = flags;
	}
	for (uint32_t i = 0; i < n_pes; i++)
		pe->backwards[i] = n_pes - 1 - i;
	pe->teams[1].members_addr = (uintptr_t)pe->backwards;
	pe->teams[1].my_pe = n_pes - 1 - me;
	pe->teams[2].stride = 2;
	pe->teams[2].my_pe = me / 2;
	pe->teams[2].n_pes = me % 2 ? 0 : (n_pes + 1) / 2;
}

static void fill_pe(struct pe *pe, uint32_t me, uint32_t n_pes, uint8_t *heaps)
{
	struct shmd_dev_heap *heap = &pe->world.heap[0];

	pe->world.version = SHMD_DEV_WORLD_VERSION;
	pe->world.size_bytes = sizeof(pe->world);
	pe->world.my_pe = me;
	pe->world.n_pes = n_pes;
	pe->world.n_heaps = 1;
	pe->world.pes_addr = (uintptr_t)pe->entries;
	pe->world.world_team_addr = (uintptr_t)&pe->teams[0];
	pe->world.timeout_nsec = PATIENCE_NSEC;
	heap->own_addr = (uintptr_t)heaps + (uint64_t)me * HEAP_BYTES;
	heap->range_bytes = heap->used_bytes = HEAP_BYTES;
	heap->chunk_index_addr = (uintptr_t)pe->chunk_index;
	heap->chunk_ends_addr = (uintptr_t)pe->chunk_ends;
	heap->log2_granule = 16;
	pe->chunk_ends[0] = HEAP_BYTES;
	for (uint32_t i = 0; i < n_pes; i++) {
		pe->entries[i].heap_addr[0] = (uintptr_t)heaps + (uint64_t)i * HEAP_BYTES;
		pe->entries[i].path[0] = i == me ? SHMD_PATH_SELF : SHMD_PATH_MAPPED;
	}
	pe->ctx.world_addr = (uintptr_t)&pe->world;
	pe->ctx.timeout_nsec = PATIENCE_NSEC;
	pe->ctx.sharing = SHMD_SHARING_GPU;
	pe->ctx.bounce_addr = (uintptr_t)pe->bounce;
	pe->ctx.bounce_bytes = BOUNCE_BYTES;
}

static int report(const char *how, const struct pe *pes, uint32_t n_pes, unsigned int n_threads)
{
	uint64_t n_checks = 0;
	int result = 0;

	for (uint32_t i = 0; i < n_pes; i++) {
		n_checks += pes[i].n_checks;
		if (!pes[i].line)
			continue;
		fprintf(stderr, "gpu-coll-selftest: %s, %u PEs, %u threads: PE %u: the check in line %u failed, last bad status %d\n", how, n_pes,
			n_threads, i, pes[i].line, pes[i].status);
		result = 1;
	}
	if (result == 0)
		printf("%s, %u PEs of %u threads: %llu checks passed\n", how, n_pes, n_threads, (unsigned long long)n_checks);
	return result;
}

static int run_once(const char *how, uint8_t *heaps, uint32_t n_pes, unsigned int n_threads, uint32_t flags)
{
	struct pe *pes;
	int result;

	fail("allocate", cudaMallocManaged((void **)&pes, n_pes * sizeof(*pes)));
	memset(pes, 0, n_pes * sizeof(*pes));
	for (uint32_t i = 0; i < n_pes; i++) {
		fill_pe(&pes[i], i, n_pes, heaps);
		fill_teams(&pes[i], i, n_pes, flags);
	}
	fail("clear the heaps", cudaMemset(heaps, 0, n_pes * HEAP_BYTES));
	run_pes<<<n_pes, n_threads>>>(pes, heaps);
	fail("start the kernel", cudaGetLastError());
	fail("run the kernel", cudaDeviceSynchronize());
	result = report(how, pes, n_pes, n_threads);
	cudaFree(pes);
	return result;
}

static int run_all(const char *by_flags, const char *in_rounds, uint8_t *heaps)
{
	int result = 0;

	for (uint32_t n_pes = 1; n_pes <= MAX_PES; n_pes = n_pes * 2 - (n_pes == 2)) {
		result |= run_once(by_flags, heaps, n_pes, 128, SHMD_TEAM_MAPPED);
		result |= run_once(in_rounds, heaps, n_pes, 128, 0);
	}
	result |= run_once(by_flags, heaps, 4, 32, SHMD_TEAM_MAPPED);
	return result | run_once(by_flags, heaps, 4, MAX_THREADS, SHMD_TEAM_MAPPED);
}

int main(int argc, char **argv)
{
	uint8_t *on_gpu, *on_host;
	int result;

	fail("choose the GPU", cudaSetDevice(argc > 1 ? atoi(argv[1]) : 0));
	fail("allocate GPU memory", cudaMalloc((void **)&on_gpu, MAX_PES * HEAP_BYTES));
	fail("allocate pinned memory", cudaHostAlloc((void **)&on_host, MAX_PES * HEAP_BYTES, cudaHostAllocMapped));
	if (argc > 2 && !strcmp(argv[2], "gpu-memory")) {
		result = run_once("GPU memory, by flags", on_gpu, 3, 64, SHMD_TEAM_MAPPED);
		result |= run_once("GPU memory, in rounds", on_gpu, 3, 64, 0);
	} else {
		result = run_all("GPU memory, by flags", "GPU memory, in rounds", on_gpu);
		result |= run_all("host memory, by flags", "host memory, in rounds", on_host);
	}
	cudaFree(on_gpu);
	cudaFreeHost(on_host);
	return result;
}
