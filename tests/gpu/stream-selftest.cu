/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self-test of calls on streams: each process is a PE. usage: shmemctl run -n 2 gpu-stream-selftest. Kernels of this file only fill and
 * compare memory; everything between is in the stream, eagerly, and then as a CUDA graph that is launched many times. It returns 0 if all
 * checks passed, 1 if one failed, and 77 without a GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>
#include <shmd-stream.h>
#include <shmd.h>

#define BYTES (1u << 20)
#define N_ELEMENTS 5000u
#define N_REPLAYS 50u

static unsigned int n_failed, n_checks;

static void cuda(const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "gpu-stream-selftest: %s: %s\n", what, cudaGetErrorString(error));
	exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "gpu-stream-selftest: %s: %s\n", what, shmd_error_text());
	exit(1);
}

#define CHECK(x)                                                                \
	do {                                                                    \
		n_checks++;                                                     \
		if (!(x)) {                                                     \
			n_failed++;                                             \
			printf("FAIL line %d: %s\n", __LINE__, #x);             \
		}                                                               \
	} while (0)

static __global__ void fill(uint32_t *at, uint32_t n, uint32_t value)
{
	for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
		at[i] = value + i;
}

static __global__ void count_wrong(const uint32_t *at, uint32_t n, uint32_t value, uint32_t step, uint32_t *wrong)
{
	for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
		if (at[i] != value + i * step)
			atomicAdd(wrong, 1);
}

struct scene {
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	struct shmd_team *team;
	cudaStream_t stream;
	uint32_t *in, *out; /* of the GPU heap, BYTES times the number of PEs */
	uint64_t *words;
	uint32_t *wrong; /* of the host */
	uint32_t me, n;
};

static void pass(struct scene *s)
{
	cuda("pass the stream", cudaStreamSynchronize(s->stream));
	must(shmd_stream_status(s->world), "status");
}

/* In the stream: out of this PE has these numbers. */
static void expect(struct scene *s, const uint32_t *at, uint32_t n, uint32_t value, uint32_t step)
{
	count_wrong<<<1, 256, 0, s->stream>>>(at, n, value, step, s->wrong);
}

static void check_none_wrong(struct scene *s, const char *what)
{
	pass(s);
	n_checks++;
	if (!*s->wrong)
		return;
	n_failed++;
	printf("FAIL PE %u: %s: %u numbers are wrong\n", s->me, what, *s->wrong);
	*s->wrong = 0;
}

/* ---- eagerly */

static void put_and_signal(struct scene *s, uint32_t round)
{
	uint32_t right = (s->me + 1) % s->n, left = (s->me + s->n - 1) % s->n, n = BYTES / 4;

	fill<<<1, 256, 0, s->stream>>>(s->in, n, 1000 * s->me + round);
	must(shmd_put_signal_on_stream(s->ctx, s->out, s->in, BYTES, &s->words[0], round, SHMD_SIGNAL_SET, (int)right, s->stream), "put");
	must(shmd_wait_until_on_stream(s->ctx, &s->words[0], 8, SHMD_CMP_EQ, round, s->stream), "wait");
	expect(s, s->out, n, 1000 * left + round, 1);
	must(shmd_team_barrier_on_stream(s->team, s->stream), "barrier");
	must(shmd_get_on_stream(s->ctx, s->out, s->in, BYTES, (int)right, s->stream), "get");
	expect(s, s->out, n, 1000 * right + round, 1);
	must(shmd_team_barrier_on_stream(s->team, s->stream), "barrier");
}

static void collect(struct scene *s)
{
	uint32_t n = N_ELEMENTS, sum = 1000 * (s->n * (s->n - 1) / 2);

	fill<<<1, 256, 0, s->stream>>>(s->in, n * s->n, 1000 * s->me);
	must(shmd_broadcast_on_stream(s->team, s->out, s->in, 4 * n, (int)(s->n - 1), s->stream), "broadcast");
	expect(s, s->out, n, 1000 * (s->n - 1), 1);
	must(shmd_fcollect_on_stream(s->team, s->out, s->in, 4 * n, s->stream), "fcollect");
	for (uint32_t pe = 0; pe < s->n; pe++)
		expect(s, s->out + pe * n, n, 1000 * pe, 1);
	must(shmd_alltoall_on_stream(s->team, s->out, s->in, 4 * n, s->stream), "alltoall");
	for (uint32_t pe = 0; pe < s->n; pe++)
		expect(s, s->out + pe * n, n, 1000 * pe + s->me * n, 1);
	must(shmd_reduce_on_stream(s->team, s->out, s->in, n, SHMD_TYPE_UINT32, SHMD_REDUCE_SUM, s->stream), "reduce");
	expect(s, s->out, n, sum, s->n);
	must(shmd_reduce_scatter_on_stream(s->team, s->out, s->in, n, SHMD_TYPE_UINT32, SHMD_REDUCE_SUM, s->stream), "reduce_scatter");
	expect(s, s->out, n, sum + s->n * s->me * n, s->n);
	must(shmd_team_sync_on_stream(s->team, s->stream), "sync");
}

/* Calls of the host on the same memory, between those on streams. */
static void collect_by_host(struct scene *s)
{
	uint32_t n = 1000;

	fill<<<1, 256, 0, s->stream>>>(s->in, n * s->n, s->me * 100000);
	pass(s);
	must(shmd_broadcast(s->team, s->out, s->in, n * 4, 0), "broadcast");
	expect(s, s->out, n, 0, 1);
	pass(s);
	must(shmd_fcollect(s->team, s->out, s->in, n * 4), "fcollect");
	for (uint32_t pe = 0; pe < s->n; pe++)
		expect(s, s->out + pe * n, n, pe * 100000, 1);
	pass(s);
	must(shmd_alltoall(s->team, s->out, s->in, n * 4), "alltoall");
	for (uint32_t pe = 0; pe < s->n; pe++)
		expect(s, s->out + pe * n, n, pe * 100000 + s->me * n, 1);
	pass(s);
	must(shmd_reduce(s->team, s->out, s->in, n, SHMD_TYPE_UINT32, SHMD_REDUCE_SUM), "reduction");
	expect(s, s->out, n, 100000 * (s->n * (s->n - 1) / 2), s->n);
	pass(s);
	must(shmd_reduce_scatter(s->team, s->out, s->in, n, SHMD_TYPE_UINT32, SHMD_REDUCE_MAX), "reduction by parts");
	expect(s, s->out, n, (s->n - 1) * 100000 + s->me * n, 1);
	pass(s);
	CHECK(shmd_collect(s->team, s->out, s->in, 4) < 0);
}

static void count_signals(struct scene *s)
{
	for (uint32_t pe = 0; pe < s->n; pe++)
		must(shmd_signal_on_stream(s->ctx, &s->words[8], 1, SHMD_SIGNAL_ADD, (int)pe, s->stream), "signal");
	must(shmd_quiet_on_stream(s->ctx, s->stream), "quiet");
	must(shmd_wait_until_on_stream(s->ctx, &s->words[8], 8, SHMD_CMP_GE, s->n, s->stream), "wait");
	pass(s);
}

/* ---- as a graph */

static void replay(struct scene *s)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	cuda("begin a capture", cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
	collect(s);
	must(shmd_put_on_stream(s->ctx, s->out, s->in, BYTES, (int)((s->me + 1) % s->n), s->stream), "put");
	must(shmd_signal_on_stream(s->ctx, &s->words[16], 1, SHMD_SIGNAL_ADD, (int)((s->me + 1) % s->n), s->stream), "signal");
	must(shmd_team_barrier_on_stream(s->team, s->stream), "barrier");
	cuda("end a capture", cudaStreamEndCapture(s->stream, &graph));
	cuda("make a graph", cudaGraphInstantiate(&exec, graph, 0));
	for (uint32_t i = 0; i < N_REPLAYS; i++)
		cuda("launch a graph", cudaGraphLaunch(exec, s->stream));
	must(shmd_wait_until_on_stream(s->ctx, &s->words[16], 8, SHMD_CMP_EQ, N_REPLAYS, s->stream), "wait");
	check_none_wrong(s, "50 launches of a graph");
	cuda("end a graph", cudaGraphExecDestroy(exec));
	cuda("end a graph", cudaGraphDestroy(graph));
}

/* ---- failures */

static void fail_late(struct scene *s)
{
	must(shmd_broadcast_on_stream(s->team, s->out, s->in, 8, 77, s->stream), "broadcast");
	cuda("pass the stream", cudaStreamSynchronize(s->stream));
	CHECK(shmd_stream_status(s->world) < 0);
	CHECK(shmd_stream_status(s->world) == 0);
}

static void time_them(struct scene *s)
{
	cudaEvent_t begin, end;
	float msec = 0;

	cuda("make an event", cudaEventCreate(&begin));
	cuda("make an event", cudaEventCreate(&end));
	cuda("record", cudaEventRecord(begin, s->stream));
	for (int i = 0; i < 100; i++)
		must(shmd_team_barrier_on_stream(s->team, s->stream), "barrier");
	cuda("record", cudaEventRecord(end, s->stream));
	pass(s);
	cuda("read the time", cudaEventElapsedTime(&msec, begin, end));
	if (!s->me)
		printf("a barrier on a stream, %u PEs: %.2f us\n", s->n, 1000 * msec / 100);
}

static void scene_open(struct scene *s)
{
	struct shmd_world_attr attr = {};
	const char *rank = getenv("SHMD_NODE_RANK");
	void *memory;
	int n = 0;

	cuda("count the GPUs", cudaGetDeviceCount(&n));
	cuda("choose the GPU", cudaSetDevice(rank ? atoi(rank) % n : 0));
	cuda("start the GPU", cudaFree(0));
	attr.gpu = "current";
	must(shmd_world_open(&attr, &s->world), "open the world");
	must(shmd_world_start(s->world), "start the world");
	s->ctx = shmd_world_ctx(s->world);
	s->team = shmd_team_world(s->world);
	s->me = (uint32_t)shmd_my_pe(s->world);
	s->n = (uint32_t)shmd_n_pes(s->world);
	must(shmd_calloc(s->world, 1, 2 * BYTES + 4096, SHMD_HINT_GPU, &memory), "calloc");
	s->in = (uint32_t *)memory;
	s->out = s->in + BYTES / 4;
	s->words = (uint64_t *)(s->out + BYTES / 4);
	cuda("make a stream", cudaStreamCreate(&s->stream));
	cuda("allocate a count", cudaHostAlloc((void **)&s->wrong, sizeof(*s->wrong), cudaHostAllocMapped));
	*s->wrong = 0;
}

int main(void)
{
	struct scene s = {};

	scene_open(&s);
	/* The first call under capture: it loads and allocates there. */
	replay(&s);
	for (uint32_t round = 1; round <= 10; round++)
		put_and_signal(&s, round);
	check_none_wrong(&s, "puts, signals and gets");
	for (uint32_t round = 0; round < 10; round++)
		collect(&s);
	check_none_wrong(&s, "collectives");
	for (uint32_t round = 0; round < 10; round++)
		collect_by_host(&s);
	check_none_wrong(&s, "collectives of the host");
	count_signals(&s);
	time_them(&s);
	fail_late(&s);
	printf("PE %u of %u: %u checks, %u failed\n", s.me, s.n, n_checks, n_failed);
	must(shmd_world_close(s.world), "close the world");
	return n_failed ? 1 : 0;
}
