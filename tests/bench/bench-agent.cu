/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU behind the memory agent, by a soft NIC: one thread of a kernel puts, gets and adds 8 bytes and waits for each; and puts of 8 bytes, 64
 * under way, by one thread and by a warp. Against the bare round trip of an agent (ref/ref-agent.cuh), and against a batch of 64 stream memory operations, alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <shmd/dev/rma.h>

#include "ref/ref-agent-open.cuh"

extern "C" {
#include "bench.h"
}

#define IN_FLIGHT 64u
#define BATCHES 64u
#define LANES 32u
#define GPU_BYTES 65536u

struct result {
	int status;
	uint64_t nsec[REF_AGENT_ROUNDS];
};

struct agent_bench {
	struct shmd_client *client;
	struct shmd_gpu *gpu;
	struct shmd_nic *nic;
	struct shmd_gpu_mem *mem;
	struct shmd_gpu_mem_info info;
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp; /* as the GPU sees it */
	struct ref_agent ref;
	cudaStream_t stream;
	struct result *result; /* in GPU memory */
};

static double complain(const char *what, cudaError_t error)
{
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	return -1;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------------- */

enum what { PUT, GET, ADD };

/* The median of short times is taken on the host, so each is kept. */
template <enum what what> static __global__ void one_by_one(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, struct result *result)
{
	uint64_t value;
	int rc = 0;

	for (uint64_t i = 0; i < REF_AGENT_ROUNDS && !rc; i++) {
		uint64_t start = shmdi_clock_nsec();

		if (what == PUT)
			rc = shmd_dev_qp_p(qp, remote, i, 8);
		if (what == PUT && !rc)
			rc = shmd_dev_qp_quiet(qp, BENCH_WAIT_NSEC);
		if (what == GET)
			rc = shmd_dev_qp_g(qp, remote, 8, BENCH_WAIT_NSEC, &value);
		if (what == ADD)
			rc = shmd_dev_qp_atomic_fetch_add(qp, remote, 8, 1, BENCH_WAIT_NSEC, &value);
		result->nsec[i] = shmdi_clock_nsec() - start;
	}
	result->status = rc;
}

static __global__ void many_puts(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, struct result *result)
{
	uint64_t start = shmdi_clock_nsec();
	int rc = 0;

	for (uint64_t b = 0; b < BATCHES && !rc; b++) {
		struct shmd_dev_addr to = remote;

		for (uint64_t i = 0; i < IN_FLIGHT && !rc; i++, to.iova += 8)
			rc = shmd_dev_qp_p(qp, to, i, 8);
		rc = rc ? rc : shmd_dev_qp_quiet(qp, BENCH_WAIT_NSEC);
	}
	result->nsec[0] = shmdi_clock_nsec() - start;
	result->status = rc;
}

/* The same by lanes that call together: the NIC has many at once. */
static __global__ void lanes_put(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, struct result *result)
{
	uint64_t start = shmdi_clock_nsec();
	int rc = 0;

	for (uint64_t b = 0; b < BATCHES; b++) {
		struct shmd_dev_addr to = remote;

		to.iova += 8 * threadIdx.x;
		for (uint64_t i = 0; i < IN_FLIGHT / LANES; i++, to.iova += 8 * LANES) {
			__syncwarp();
			rc |= shmd_dev_qp_p(qp, to, b + to.iova, 8);
		}
		__syncwarp();
		if (!threadIdx.x)
			rc |= shmd_dev_qp_quiet(qp, BENCH_WAIT_NSEC);
		__syncwarp();
	}
	rc = (int)__reduce_or_sync(0xffffffffu, (unsigned int)rc);
	if (threadIdx.x)
		return;
	result->nsec[0] = shmdi_clock_nsec() - start;
	result->status = rc;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------- */

static struct shmd_dev_addr remote_of(const struct agent_bench *b)
{
	return shmd_dev_addr{b->info.iova, shmd_mr_rkey_be(b->info.mr)};
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Taken of the times that the kernel on the stream has left. Negative: it failed. */
static double median(const struct agent_bench *b)
{
	static struct result result;

	if (cudaMemcpyAsync(&result, b->result, sizeof(result), cudaMemcpyDeviceToHost, b->stream) != cudaSuccess ||
	    cudaStreamSynchronize(b->stream) != cudaSuccess || result.status)
		return -1;
	qsort(result.nsec, REF_AGENT_ROUNDS, sizeof(result.nsec[0]), by_size);
	return (double)result.nsec[REF_AGENT_ROUNDS / 2];
}

static double put(void *arg)
{
	struct agent_bench *b = (struct agent_bench *)arg;

	one_by_one<PUT><<<1, 1, 0, b->stream>>>(b->qp, remote_of(b), b->result);
	return median(b);
}

static double get(void *arg)
{
	struct agent_bench *b = (struct agent_bench *)arg;

	one_by_one<GET><<<1, 1, 0, b->stream>>>(b->qp, remote_of(b), b->result);
	return median(b);
}

static double add(void *arg)
{
	struct agent_bench *b = (struct agent_bench *)arg;

	one_by_one<ADD><<<1, 1, 0, b->stream>>>(b->qp, remote_of(b), b->result);
	return median(b);
}

/* The time of one put, by a kernel that has just been launched and leaves the sum. */
static double mean(const struct agent_bench *b)
{
	struct result result;

	if (cudaMemcpyAsync(&result, b->result, sizeof(result), cudaMemcpyDeviceToHost, b->stream) != cudaSuccess ||
	    cudaStreamSynchronize(b->stream) != cudaSuccess || result.status)
		return -1;
	return (double)result.nsec[0] / (IN_FLIGHT * BATCHES);
}

static double put_many(void *arg)
{
	struct agent_bench *b = (struct agent_bench *)arg;

	many_puts<<<1, 1, 0, b->stream>>>(b->qp, remote_of(b), b->result);
	return mean(b);
}

/* Each word must have what was put last. */
static double put_lanes(void *arg)
{
	struct agent_bench *b = (struct agent_bench *)arg;
	uint64_t words[IN_FLIGHT];
	double nsec;

	lanes_put<<<1, LANES, 0, b->stream>>>(b->qp, remote_of(b), b->result);
	nsec = mean(b);
	if (cudaMemcpyAsync(words, (void *)b->info.addr, sizeof(words), cudaMemcpyDeviceToHost, b->stream) != cudaSuccess ||
	    cudaStreamSynchronize(b->stream) != cudaSuccess)
		return -1;
	for (uint64_t i = 0; i < IN_FLIGHT; i++) {
		if (words[i] != BATCHES - 1 + b->info.iova + 8 * i)
			return -1;
	}
	return nsec;
}

static double bare_round_trip(void *arg)
{
	struct agent_bench *b = (struct agent_bench *)arg;

	b->ref.host[0] = 0;
	if (cudaMemsetAsync(b->ref.words, 0, 8, b->stream) != cudaSuccess || cudaStreamSynchronize(b->stream) != cudaSuccess)
		return -1;
	ref_agent_kernel<<<1, 1, 0, b->stream>>>(b->ref.host_on_gpu, b->ref.words, b->result->nsec);
	return cudaGetLastError() == cudaSuccess && ref_agent_answer(&b->ref) ? median(b) : -1;
}

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static double bare_batch(void *arg)
{
	struct ref_agent *ref = &((struct agent_bench *)arg)->ref;
	uint64_t begin = now_nsec();

	for (unsigned int i = 0; i < REF_AGENT_ROUNDS; i++) {
		if (!ref_agent_write(ref, IN_FLIGHT, i, true))
			return -1;
		while (ref->host[1] != ref->n_marks)
			;
	}
	return (double)(now_nsec() - begin) / (REF_AGENT_ROUNDS * IN_FLIGHT);
}

/* ---- the lab ---------------------------------------------------------------------------------------------------------- */

static bool open_memory(struct agent_bench *b)
{
	struct shmd_gpu_mem_attr attr = {};

	attr.bytes = GPU_BYTES;
	attr.access = SHMD_ACCESS_ALL;
	attr.mode = SHMD_GPU_MEM_AGENT;
	if (shmd_client_open(NULL, &b->client) < 0)
		return bench_complain("connect");
	if (shmd_gpu_open(b->client, 0, &b->gpu) < 0)
		return bench_complain("open the GPU");
	if (shmd_nic_open(b->client, NULL, &b->nic) < 0)
		return bench_complain("open a NIC");
	if (shmd_gpu_mem_alloc(b->gpu, b->nic, &attr, &b->mem) < 0 || shmd_gpu_mem_info(b->mem, &b->info) < 0)
		return bench_complain("memory of the GPU behind the agent");
	return true;
}

static bool open_queues(struct agent_bench *b)
{
	struct shmd_queues_attr attr = {};
	struct shmd_addr addr;
	uint64_t qp;

	attr.n_qps = 1;
	attr.sq_wqebbs = 256;
	attr.sharing = SHMD_SHARING_GPU;
	attr.gpu_driven = 1;
	if (shmd_queues_create(b->nic, &attr, &b->queues) < 0 || shmd_queues_addr(b->queues, 0, &addr) < 0 ||
	    shmd_queues_connect(b->queues, 0, 1, &addr, NULL, NULL) < 0 || shmd_gpu_dev_qp(b->gpu, b->queues, 0, &qp) < 0)
		return bench_complain("queues");
	b->qp = (struct shmd_dev_qp *)qp;
	return true;
}

static bool open_bench(struct agent_bench *b)
{
	cudaError_t error;

	/* Loading a kernel at its first launch would wait for what runs. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	error = cudaSetDevice(0);
	if (error == cudaSuccess)
		error = cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking);
	if (error == cudaSuccess)
		error = cudaMalloc((void **)&b->result, sizeof(*b->result));
	if (error == cudaSuccess)
		error = cudaMemset(b->result, 0, sizeof(*b->result));
	if (error == cudaSuccess)
		error = ref_agent_open(&b->ref);
	if (error != cudaSuccess)
		return complain("GPU 0", error) >= 0;
	return open_memory(b) && open_queues(b);
}

int main(void)
{
	static struct agent_bench b;
	const struct bench_row rows[] = {
		{"put, post to completion", "ns", put, bare_round_trip, "bare", &b, false, 1.5, 8400, 0, 0},
		{"get", "ns", get, NULL, NULL, &b, false, 0, 0, 0, 0},
		{"fetch-add", "ns", add, NULL, NULL, &b, false, 0, 0, 0, 0},
		{"put, 64 under way, each", "ns", put_many, bare_batch, "bare", &b, false, 0, 0, 0, 0},
		{"the same, by 32 lanes", "ns", put_lanes, bare_batch, "bare", &b, false, 0, 0, 0, 0},
	};
	bool good = true;

	if (!open_bench(&b))
		return 1;
	bench_header("8 bytes in memory of a GPU behind the memory agent, by a kernel and a soft NIC");
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		good = bench_run(&rows[i]) && good;
	shmd_client_close(b.client);
	return good ? 0 : 1;
}
