/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On a GPU: every device function in every scope and sharing, against the shmemd behind $SHMEMD_SOCKET. QPs are
 * connected to themselves; DCIs send to several DCTs of the same session. `gpu-selftest` runs everything; `gpu-selftest kill` kills the daemon while kernels wait and
 * wants each of them to end with a status. gpu-selftest-library is the same with the plain functions from the library.
 */
#include <cuda.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmemclient.h>
#include <shmemclient-admin.h>
#include <shmd/abi/cqe.h>
#include <shmd/dev/rma.h>

#include "tests/gpu/kernels.h"

#define WAIT_NSEC 5000000000ull
#define HEAP_BYTES (4u * SHMD_SELFTEST_BLOCK_BYTES)
#define REMOTE_OFFSET SHMD_SELFTEST_BLOCK_BYTES
#define WORD_OFFSET (2u * SHMD_SELFTEST_BLOCK_BYTES)
#define LOCAL_WORD_OFFSET (WORD_OFFSET + 4096u)
#define MAX_THREADS ((unsigned int)SHMD_SELFTEST_MAX_THREADS)
#define N_DCTS 3u
#define WAY_ROUNDS 40u
#define WAY_BLOCKS 4u
#define WAY_THREADS 96u

extern "C" {
__global__ void shmd_kernel_thread_exclusive(struct shmd_kernel_args args);
__global__ void shmd_kernel_thread_block(struct shmd_kernel_args args);
__global__ void shmd_kernel_thread_gpu(struct shmd_kernel_args args);
__global__ void shmd_kernel_warp_exclusive(struct shmd_kernel_args args);
__global__ void shmd_kernel_warp_block(struct shmd_kernel_args args);
__global__ void shmd_kernel_warp_gpu(struct shmd_kernel_args args);
__global__ void shmd_kernel_block_exclusive(struct shmd_kernel_args args);
__global__ void shmd_kernel_block_block(struct shmd_kernel_args args);
__global__ void shmd_kernel_block_gpu(struct shmd_kernel_args args);
__global__ void shmd_kernel_dc_thread_exclusive(struct shmd_kernel_args args);
__global__ void shmd_kernel_dc_thread_gpu(struct shmd_kernel_args args);
__global__ void shmd_kernel_dc_warp_block(struct shmd_kernel_args args);
__global__ void shmd_kernel_dc_block_gpu(struct shmd_kernel_args args);
__global__ void shmd_kernel_plain(struct shmd_kernel_args args);
__global__ void shmd_selftest(struct shmd_selftest_args args);
}

struct lab {
	struct shmd_client *client;
	struct shmd_gpu *gpu;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_dct *dcts[N_DCTS];
	uint8_t *heap;
	uint64_t gpu_heap;
	int *status; /* GPU memory, MAX_THREADS of each */
	uint32_t *done;
	struct shmd_selftest_result *result; /* GPU memory */
	unsigned int n_good, n_bad;
};

static void report(struct lab *lab, bool good, const char *name, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("%s %s%s%s\n", good ? "ok  " : "FAIL", name, text[0] ? ": " : "", text);
	fflush(stdout);
	if (good)
		lab->n_good++;
	else
		lab->n_bad++;
}

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "gpu-selftest: %s: %s\n", what, shmd_error_text());
	exit(1);
}

static void must_cuda(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "gpu-selftest: %s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

#ifdef SHMD_DEV_USE_LIBRARY
#define PLAIN_FROM "libshmd_device"
#else
#define PLAIN_FROM "the headers"
#endif

static uint64_t now_nsec(void)
{
	return shmd_dev_host_now_nsec();
}

static void open_lab(struct lab *lab)
{
	struct shmd_gpu_info info;

	memset(lab, 0, sizeof(*lab));
	must_cuda(cudaSetDevice(0), "GPU 0");
	must(shmd_client_open(NULL, &lab->client), "connect");
	must(shmd_gpu_open(lab->client, 0, &lab->gpu), "open the GPU");
	must(shmd_gpu_info(lab->gpu, &info), "GPU");
	must(shmd_nic_open(lab->client, NULL, &lab->nic), "open a NIC");
	must(shmd_mem_alloc(lab->client, HEAP_BYTES, &lab->mem), "heap");
	must(shmd_mr_reg_mem(lab->nic, lab->mem, SHMD_ACCESS_ALL, &lab->mr), "register the heap");
	must(shmd_gpu_map_mem(lab->gpu, lab->mem, &lab->gpu_heap), "heap on the GPU");
	for (unsigned int i = 0; i < N_DCTS; i++)
		must(shmd_dct_create(lab->nic, 0, &lab->dcts[i]), "make a DCT");
	must_cuda(cudaMalloc((void **)&lab->status, MAX_THREADS * sizeof(int)), "memory");
	must_cuda(cudaMalloc((void **)&lab->done, MAX_THREADS * sizeof(uint32_t)), "memory");
	must_cuda(cudaMalloc((void **)&lab->result, sizeof(*lab->result)), "memory");
	lab->heap = (uint8_t *)shmd_mem_addr(lab->mem);
	printf("GPU %s at %s; plain functions from " PLAIN_FROM "\n", info.name, info.pci);
}

static struct shmd_dev_qp *make_qp(struct lab *lab, enum shmd_sharing sharing, struct shmd_queues **ret_queues)
{
	struct shmd_queues_attr attr = {};
	struct shmd_addr addr;
	uint64_t qp;

	attr.n_qps = 1;
	attr.sq_wqebbs = 256;
	attr.rq_wqes = 16;
	attr.sharing = sharing;
	attr.gpu_driven = 1;
	must(shmd_queues_create(lab->nic, &attr, ret_queues), "queues");
	must(shmd_queues_addr(*ret_queues, 0, &addr), "address");
	must(shmd_queues_connect(*ret_queues, 0, 1, &addr, NULL, NULL), "connect a QP");
	must(shmd_gpu_dev_qp(lab->gpu, *ret_queues, 0, &qp), "queues on the GPU");
	memset(lab->heap, 0, HEAP_BYTES);
	*(uint64_t *)(lab->heap + LOCAL_WORD_OFFSET) = 1;
	return (struct shmd_dev_qp *)qp;
}

/* A DCI, with the DCTs in its table of peers. */
static struct shmd_dev_qp *make_dci(struct lab *lab, enum shmd_sharing sharing, struct shmd_queues **ret_queues,
				    const struct shmd_dev_peer **ret_peers)
{
	struct shmd_qp_params impatient = {};
	struct shmd_dev_peer peers[N_DCTS];
	struct shmd_addr addrs[N_DCTS];
	struct shmd_queues_attr attr = {};
	struct shmd_dev_state state;
	uint64_t state_addr, qp;

	attr.n_qps = 1;
	attr.sq_wqebbs = 256;
	attr.sharing = sharing;
	attr.gpu_driven = 1;
	attr.qp_type = SHMD_QP_TYPE_DCI;
	impatient.timeout = 14;
	impatient.retry_count = 2;
	impatient.rnr_retry = 1;
	impatient.min_rnr_timer = 1;
	impatient.max_rd_atomic = 16;
	must(shmd_queues_create(lab->nic, &attr, ret_queues), "a DCI");
	must(shmd_queues_connect(*ret_queues, 0, 1, NULL, &impatient, NULL), "make a DCI ready");
	for (unsigned int i = 0; i < N_DCTS; i++)
		must(shmd_dct_addr(lab->dcts[i], &addrs[i]), "address of a DCT");
	must(shmd_peers_resolve(lab->nic, N_DCTS, addrs, 0, peers, NULL), "resolve DCTs");
	must(shmd_queues_set_peers(*ret_queues, N_DCTS, peers), "table of peers");
	must(shmd_gpu_dev_state(lab->gpu, *ret_queues, &state_addr), "dev-state on the GPU");
	must(shmd_gpu_dev_qp(lab->gpu, *ret_queues, 0, &qp), "a DCI on the GPU");
	must_cuda(cudaMemcpy(&state, (const void *)state_addr, sizeof(state), cudaMemcpyDeviceToHost), "dev-state");
	*ret_peers = (const struct shmd_dev_peer *)state.peers_addr;
	memset(lab->heap, 0, HEAP_BYTES);
	*(uint64_t *)(lab->heap + LOCAL_WORD_OFFSET) = 1;
	return (struct shmd_dev_qp *)qp;
}

static struct shmd_dev_addr heap_at(const struct lab *lab, uint64_t offset, shmd_be32 key_be)
{
	return shmd_dev_addr{(uint64_t)lab->heap + offset, key_be};
}

static struct shmd_kernel_args args_of(const struct lab *lab, struct shmd_dev_qp *qp)
{
	struct shmd_kernel_args args = {};
	shmd_be32 rkey_be = shmd_mr_rkey_be(lab->mr);

	args.qp = qp;
	args.remote = heap_at(lab, REMOTE_OFFSET, rkey_be);
	args.local = heap_at(lab, 0, shmd_mr_lkey_be(lab->mr));
	args.word = heap_at(lab, WORD_OFFSET, rkey_be);
	/* Atomics of the others may make the word 0. */
	args.local_word = (const uint64_t *)(lab->gpu_heap + LOCAL_WORD_OFFSET);
	args.bytes = 256;
	args.value = 5;
	args.timeout_nsec = WAIT_NSEC;
	args.status = lab->status;
	args.done = lab->done;
	return args;
}

/* ---- kernels of our own ----------------------------------------------------------------------------------------- */

/* Receive entries for the two-sided requests of the plain kernel. */
static __global__ void post_receives(struct shmd_kernel_args args, uint32_t n)
{
	for (uint32_t i = 0; i < n && !args.status[0]; i++)
		args.status[0] = shmd_dev_qp_post_recv(args.qp, args.local, 64);
}

static __global__ void quiet(struct shmd_kernel_args args)
{
	args.status[0] = shmd_dev_qp_quiet(args.qp, args.timeout_nsec);
}

/* A key that does not exist: the QP fails, and says so ever after. */
static __global__ void wrong_key(struct shmd_kernel_args args)
{
	uint32_t index = 77;

	args.remote.key_be ^= 0x55555555u;
	args.status[0] = shmd_dev_qp_put(args.qp, args.remote, args.local, 8, args.timeout_nsec);
	args.status[1] = (int)shmd_dev_qp_error(args.qp, &index);
	args.status[2] = (int)index;
	args.status[3] = shmd_dev_qp_p(args.qp, args.remote, 1, 8);
	args.status[4] = shmd_dev_qp_quiet(args.qp, args.timeout_nsec);
	args.status[5] = (int)shmd_dev_qp_error(args.qp, 0);
}

/* No lane takes their results, or in scope warp one lane alone. */
static __global__ void without_outputs(struct shmd_kernel_args args)
{
	uint64_t limit = args.timeout_nsec, value = 0, index = 0;
	struct shmd_dev_mode mode = shmd_dev_mode_const(SHMD_DEV_WARP, SHMD_SHARING_GPU);
	bool is_first = threadIdx.x == 0;

	mode.timeout_nsec = limit;
	if (is_first) {
		args.status[0] = shmd_dev_qp_g(args.qp, args.word, 8, limit, 0);
		args.status[1] = shmd_dev_qp_atomic_fetch_inc(args.qp, args.word, 8, limit, 0);
		args.status[2] = shmd_dev_qp_reserve(args.qp, 1, 0);
		args.status[3] = (int)shmd_dev_qp_error(args.qp, 0);
	}
	__syncwarp();
	if (shmd_dev_qp_g_as(args.qp, args.word, 8, mode, is_first ? &value : 0) ||
	    shmd_dev_qp_atomic_fetch_as(args.qp, args.word, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), mode,
					is_first ? 0 : &value) ||
	    shmd_dev_qp_reserve_as(args.qp, 1, mode, is_first ? &index : 0))
		args.status[4] = SHMD_DEV_INVALID;
	if (is_first)
		shmd_dev_prepare_nop(args.qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS));
	if (shmd_dev_qp_publish_as(args.qp, __shfl_sync(0xffffffffu, index, 0), 1, mode) || value != 1)
		args.status[5] = SHMD_DEV_INVALID;
	__syncwarp();
	if (is_first)
		args.status[6] = shmd_dev_qp_quiet(args.qp, limit);
}

/* As if the NIC lacked some atomics, or answered big-endian. */
static __global__ void change_flags(struct shmd_kernel_args args, uint32_t flags)
{
	args.qp->flags |= flags;
}

/* Masked ones are not posted, nor is data with such a signal; plain ones are done. */
static __global__ void lacking(struct shmd_kernel_args args)
{
	struct shmd_dev_mode mode = shmd_dev_mode_const(SHMD_DEV_THREAD, SHMD_SHARING_GPU);
	uint64_t limit = args.timeout_nsec, old = 0;

	mode.timeout_nsec = limit;
	args.status[0] = shmd_dev_qp_atomic_swap(args.qp, args.word, 8, 9, limit, &old);
	args.status[1] = shmd_dev_qp_atomic_add(args.qp, args.word, 4, 9);
	args.status[2] = shmd_dev_qp_put_signal_nbi_as(args.qp, args.remote, args.local, 8,
						       shmd_dev_signal_of(args.word, SHMD_DEV_SIGNAL_SET, 9), mode);
	args.status[3] = shmd_dev_qp_atomic_fetch_add(args.qp, args.word, 8, 5, limit, &old);
	args.status[4] = shmd_dev_qp_atomic_fetch_add(args.qp, args.word, 8, 5, limit, &old);
	args.status[5] = old == (uint64_t)5 << 56 ? 0 : SHMD_DEV_INVALID;
	args.status[6] = shmd_dev_qp_quiet(args.qp, limit);
}

/* A peer that is gone: the DCI fails, for the others too. */
static __global__ void gone_peer(struct shmd_kernel_args args, uint32_t gone)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(args.qp, args.timeout_nsec);
	uint32_t index = 77;

	args.status[0] = shmd_dev_qp_put_as(args.qp, args.remote, args.local, 8, shmd_dev_mode_to(mode, &args.peers[0]));
	args.status[1] = shmd_dev_qp_put_as(args.qp, args.remote, args.local, 8,
					    shmd_dev_mode_to(mode, &args.peers[gone]));
	args.status[2] = (int)shmd_dev_qp_error(args.qp, &index);
	args.status[3] = (int)index;
	args.status[4] = shmd_dev_qp_put_as(args.qp, args.remote, args.local, 8, shmd_dev_mode_to(mode, &args.peers[0]));
}

/* Lanes of one warp with different peers, some of which have an RC QP of their own. */
static __global__ void write_by_ways(struct shmd_kernel_args args, const struct shmd_dev_state *state, uint64_t round)
{
	uint32_t me = blockIdx.x * blockDim.x + threadIdx.x, peer = me % N_DCTS;
	struct shmd_dev_way way = shmd_dev_way_to(state, args.qp, peer);
	struct shmd_dev_mode mode = shmd_dev_mode_const(SHMD_DEV_THREAD, SHMD_SHARING_GPU);
	uint64_t value = round << 32 | me, back = 0;
	uint32_t n = 0;
	int rc = 0;

	mode.timeout_nsec = args.timeout_nsec;
	args.remote.iova += me * 8;
	for (n = 0; n < WAY_ROUNDS && !rc; n++) {
		shmd_dev_way_count(state, peer, 3);
		rc = shmd_dev_qp_p_as(way.qp, args.remote, value, 8, shmd_dev_mode_to(mode, way.peer));
		if (!rc)
			rc = shmd_dev_qp_g_as(way.qp, args.remote, 8, shmd_dev_mode_to(mode, way.peer), &back);
		if (!rc && back != value)
			rc = SHMD_DEV_INVALID;
		if (!rc)
			rc = shmd_dev_qp_atomic_as(way.qp, args.word, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1),
						   shmd_dev_mode_to(mode, way.peer));
		value += 1ull << 32;
	}
	if (!rc)
		rc = shmd_dev_ways_quiet_as(state, args.qp, mode);
	args.status[me] = rc;
	args.done[me] = n;
}

static __global__ void wait_for_nothing(struct shmd_kernel_args args)
{
	args.status[0] = shmd_dev_qp_wait_until64(args.qp, args.local_word, SHMD_DEV_CMP_EQ, 99, args.timeout_nsec);
}

/* One thread waits for a word, the others put until something fails. */
static __global__ void run_until_the_end(struct shmd_kernel_args args)
{
	int rc = 0;

	if (threadIdx.x == 0)
		rc = shmd_dev_qp_wait_until64(args.qp, args.local_word, SHMD_DEV_CMP_EQ, 99, args.timeout_nsec);
	while (!rc)
		rc = shmd_dev_qp_put(args.qp, args.remote, args.local, 256, args.timeout_nsec);
	args.status[threadIdx.x] = rc;
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

typedef void (*kernel_fn)(struct shmd_kernel_args args);

static void read_status(struct lab *lab, int *status, uint32_t *done, unsigned int n)
{
	must_cuda(cudaDeviceSynchronize(), "kernel");
	must_cuda(cudaMemcpy(status, lab->status, n * sizeof(int), cudaMemcpyDeviceToHost), "status");
	must_cuda(cudaMemcpy(done, lab->done, n * sizeof(uint32_t), cudaMemcpyDeviceToHost), "status");
}

static void clear_status(struct lab *lab)
{
	must_cuda(cudaMemset(lab->status, 0, MAX_THREADS * sizeof(int)), "status");
	must_cuda(cudaMemset(lab->done, 0, MAX_THREADS * sizeof(uint32_t)), "status");
	must_cuda(cudaDeviceSynchronize(), "status");
}

static void check_all(struct lab *lab, const char *name, struct shmd_queues *queues, unsigned int n)
{
	static int status[MAX_THREADS];
	static uint32_t done[MAX_THREADS];
	struct shmd_qp_info info;

	read_status(lab, status, done, n);
	must(shmd_queues_query(queues, 0, &info), "query");
	for (unsigned int i = 0; i < n; i++) {
		if (status[i] || done[i] != done[0] || !done[0] || info.first_error) {
			report(lab, false, name, "thread %u: %s after %u calls; %s", i, shmd_dev_status_text(status[i]),
			       done[i], shmd_syndrome_text(info.first_error));
			return;
		}
	}
	report(lab, true, name, "%u threads, %u calls each, %llu requests executed", n, done[0],
	       (unsigned long long)info.counters.wqes);
}

struct kernel_case {
	const char *name;
	kernel_fn kernel;
	enum shmd_sharing sharing;
	unsigned int blocks, threads;
};

static void run_case(struct lab *lab, const struct kernel_case *c, bool is_dc)
{
	const struct shmd_dev_peer *peers = NULL;
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp = is_dc ? make_dci(lab, c->sharing, &queues, &peers) : make_qp(lab, c->sharing, &queues);
	struct shmd_kernel_args args = args_of(lab, qp);

	args.peers = peers;
	args.n_peers = N_DCTS;
	clear_status(lab);
	c->kernel<<<c->blocks, c->threads>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	check_all(lab, c->name, queues, c->blocks * c->threads);
	must(shmd_queues_destroy(queues), "destroy");
}

static const struct kernel_case kernel_cases[] = {
	{"thread, exclusive", shmd_kernel_thread_exclusive, SHMD_SHARING_EXCLUSIVE, 1, 1},
	{"thread, block", shmd_kernel_thread_block, SHMD_SHARING_BLOCK, 1, 64},
	{"thread, gpu", shmd_kernel_thread_gpu, SHMD_SHARING_GPU, 4, 48},
	{"warp, exclusive", shmd_kernel_warp_exclusive, SHMD_SHARING_EXCLUSIVE, 1, 32},
	{"warp, block", shmd_kernel_warp_block, SHMD_SHARING_BLOCK, 1, 128},
	{"warp, gpu", shmd_kernel_warp_gpu, SHMD_SHARING_GPU, 4, 64},
	{"block, exclusive", shmd_kernel_block_exclusive, SHMD_SHARING_EXCLUSIVE, 1, 96},
	{"block, block", shmd_kernel_block_block, SHMD_SHARING_BLOCK, 1, 256},
	{"block, gpu", shmd_kernel_block_gpu, SHMD_SHARING_GPU, 8, 64},
};

static const struct kernel_case dci_cases[] = {
	{"thread, exclusive, DCI", shmd_kernel_dc_thread_exclusive, SHMD_SHARING_EXCLUSIVE, 1, 1},
	{"thread, gpu, DCI", shmd_kernel_dc_thread_gpu, SHMD_SHARING_GPU, 4, 48},
	{"warp, block, DCI", shmd_kernel_dc_warp_block, SHMD_SHARING_BLOCK, 1, 128},
	{"block, gpu, DCI", shmd_kernel_dc_block_gpu, SHMD_SHARING_GPU, 8, 64},
};

/* The plain names and WQEs of one's own: one thread. */
static void run_plain(struct lab *lab)
{
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp = make_qp(lab, SHMD_SHARING_GPU, &queues);
	struct shmd_kernel_args args = args_of(lab, qp);

	clear_status(lab);
	post_receives<<<1, 1>>>(args, 2);
	must_cuda(cudaGetLastError(), "launch");
	must_cuda(cudaDeviceSynchronize(), "kernel");
	shmd_kernel_plain<<<1, 1>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	check_all(lab, "plain names, own WQEs", queues, 1);
	quiet<<<1, 1>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	check_all(lab, "sends received", queues, 1);
	must(shmd_queues_destroy(queues), "destroy");
}

static void run_selftest(struct lab *lab, const char *name, enum shmd_sharing sharing, unsigned int n_threads, bool is_dc)
{
	struct shmd_selftest_args args = {};
	struct shmd_selftest_result result;
	struct shmd_queues *queues;

	args.qp = is_dc ? make_dci(lab, sharing, &queues, &args.peers) : make_qp(lab, sharing, &queues);
	args.n_peers = N_DCTS;
	args.remote = heap_at(lab, 0, shmd_mr_rkey_be(lab->mr));
	args.local = heap_at(lab, 0, shmd_mr_lkey_be(lab->mr));
	args.memory = (uint8_t *)lab->gpu_heap;
	args.bytes = HEAP_BYTES;
	args.timeout_nsec = WAIT_NSEC;
	args.result = lab->result;
	must_cuda(cudaMemset(lab->result, 0, sizeof(result)), "result");
	shmd_selftest<<<1, n_threads>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	must_cuda(cudaDeviceSynchronize(), "kernel");
	must_cuda(cudaMemcpy(&result, lab->result, sizeof(result), cudaMemcpyDeviceToHost), "result");
	report(lab, !result.status && !result.step && !result.n_wrong && result.n_operations, name,
	       "%u threads, %llu operations, step %u, %llu wrong, %s", n_threads,
	       (unsigned long long)result.n_operations, result.step, (unsigned long long)result.n_wrong,
	       shmd_dev_status_text(result.status));
	must(shmd_queues_destroy(queues), "destroy");
}

/* One round of all threads, and what it left: words, the counter, the library's counts. */
static void run_ways(struct lab *lab, const char *name, struct shmd_queues *dci, struct shmd_hot *hot, uint64_t round)
{
	const uint64_t n_threads = WAY_BLOCKS * WAY_THREADS;
	const uint64_t *words = (const uint64_t *)(lab->heap + REMOTE_OFFSET);
	struct shmd_kernel_args args;
	uint64_t state, qp, posts, n_wrong = 0;

	must(shmd_gpu_dev_state(lab->gpu, dci, &state), "dev-state on the GPU");
	must(shmd_gpu_dev_qp(lab->gpu, dci, 0, &qp), "a DCI on the GPU");
	args = args_of(lab, (struct shmd_dev_qp *)qp);
	clear_status(lab);
	write_by_ways<<<WAY_BLOCKS, WAY_THREADS>>>(args, (const struct shmd_dev_state *)state, round * 1000);
	must_cuda(cudaGetLastError(), "launch");
	check_all(lab, name, dci, WAY_BLOCKS * WAY_THREADS);
	for (uint64_t i = 0; i < n_threads; i++)
		n_wrong += words[i] != ((round * 1000 + WAY_ROUNDS - 1) << 32 | i);
	n_wrong += *(uint64_t *)(lab->heap + WORD_OFFSET) != round * n_threads * WAY_ROUNDS;
	for (uint32_t peer = 0; peer < N_DCTS; peer++) {
		must(shmd_hot_posts(hot, peer, &posts), "posts of a peer");
		n_wrong += posts != round * 3 * WAY_ROUNDS * n_threads / N_DCTS;
	}
	report(lab, !n_wrong, name, "%llu words, counters or counts are wrong", (unsigned long long)n_wrong);
}

/* All by the DCI; then one peer by an RC QP of its own, whose other end is itself; then back. */
static void run_hot(struct lab *lab)
{
	struct shmd_hot_attr attr = {};
	struct shmd_dev_peer table[N_DCTS];
	struct shmd_addr addrs[N_DCTS], own;
	struct shmd_queues_attr dci = {};
	struct shmd_queues *queues;
	struct shmd_hot *hot;

	dci.n_qps = 1;
	dci.sharing = SHMD_SHARING_GPU;
	dci.gpu_driven = 1;
	dci.qp_type = SHMD_QP_TYPE_DCI;
	attr.max_peers = 1;
	memset(lab->heap, 0, HEAP_BYTES);
	must(shmd_queues_create(lab->nic, &dci, &queues), "a DCI");
	must(shmd_queues_connect(queues, 0, 1, NULL, NULL, NULL), "make a DCI ready");
	for (unsigned int i = 0; i < N_DCTS; i++)
		must(shmd_dct_addr(lab->dcts[i], &addrs[i]), "address of a DCT");
	must(shmd_peers_resolve(lab->nic, N_DCTS, addrs, 0, table, NULL), "resolve DCTs");
	must(shmd_queues_set_peers(queues, N_DCTS, table), "table of peers");
	must(shmd_hot_open(queues, &attr, &hot), "hot peers");
	run_ways(lab, "ways, all by a DCI", queues, hot, 1);
	must(shmd_hot_offer(hot, 1, &own), "offer");
	must(shmd_hot_accept(hot, 1, &own, NULL), "accept");
	must(shmd_hot_switch(hot, 1, true), "to RC");
	run_ways(lab, "ways, DCI and RC in each warp", queues, hot, 2);
	must(shmd_hot_switch(hot, 1, false), "back to DC");
	must(shmd_hot_retire(hot, 1), "retire");
	run_ways(lab, "ways, by the DCI again", queues, hot, 3);
	must(shmd_hot_close(hot), "close hot peers");
	must(shmd_queues_destroy(queues), "destroy");
}

/* QP 0 of two that are connected to each other: an error of the responder is not its own. */
static struct shmd_dev_qp *make_pair(struct lab *lab, struct shmd_queues **ret_queues)
{
	struct shmd_queues_attr attr = {};
	struct shmd_addr addrs[2];
	uint64_t qp;

	attr.n_qps = 2;
	attr.sharing = SHMD_SHARING_GPU;
	attr.gpu_driven = 1;
	must(shmd_queues_create(lab->nic, &attr, ret_queues), "queues");
	must(shmd_queues_addr(*ret_queues, 0, &addrs[1]), "address");
	must(shmd_queues_addr(*ret_queues, 1, &addrs[0]), "address");
	must(shmd_queues_connect(*ret_queues, 0, 2, addrs, NULL, NULL), "connect two QPs");
	must(shmd_gpu_dev_qp(lab->gpu, *ret_queues, 0, &qp), "queues on the GPU");
	return (struct shmd_dev_qp *)qp;
}

static void run_errors(struct lab *lab)
{
	struct shmd_queues *queues;
	struct shmd_kernel_args args = args_of(lab, make_pair(lab, &queues));
	uint64_t start = now_nsec();
	uint32_t done[6];
	int status[6];

	clear_status(lab);
	args.timeout_nsec = 100000000;
	wait_for_nothing<<<1, 1>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	read_status(lab, status, done, 1);
	report(lab, status[0] == SHMD_DEV_TIMEOUT && now_nsec() - start < WAIT_NSEC, "time limit", "%s",
	       shmd_dev_status_text(status[0]));
	clear_status(lab);
	args.timeout_nsec = WAIT_NSEC;
	wrong_key<<<1, 1>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	read_status(lab, status, done, 6);
	report(lab, status[0] == SHMD_DEV_CQE_ERROR && status[1] == SHMD_SYNDROME_REMOTE_ACCESS_ERR && status[2] == 0 &&
	       status[3] == SHMD_DEV_CQE_ERROR && status[4] == SHMD_DEV_CQE_ERROR && status[5] == status[1], "error CQE", "%s",
	       shmd_syndrome_text((uint32_t)status[1]));
	/* And the same QP, as new. */
	must(shmd_queues_destroy(queues), "destroy");
}

static void run_without_outputs(struct lab *lab)
{
	struct shmd_queues *queues;
	struct shmd_kernel_args args = args_of(lab, make_qp(lab, SHMD_SHARING_GPU, &queues));
	uint32_t done[7];
	int status[7];

	clear_status(lab);
	without_outputs<<<1, 32>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	read_status(lab, status, done, 7);
	report(lab, !status[0] && !status[1] && status[2] == SHMD_DEV_INVALID && !status[3] && !status[4] && !status[5] &&
	       !status[6], "outputs that are NULL", "%s", shmd_dev_status_text(status[0] ? status[0] : status[6]));
	must(shmd_queues_destroy(queues), "destroy");
}

static void run_lacking(struct lab *lab)
{
	struct shmd_queues *queues;
	struct shmd_kernel_args args = args_of(lab, make_qp(lab, SHMD_SHARING_GPU, &queues));
	uint32_t done[7];
	int status[7];

	clear_status(lab);
	change_flags<<<1, 1>>>(args, SHMD_QP_NO_MASKED_4 | SHMD_QP_NO_MASKED_8 | SHMD_QP_ATOMIC_8_BE);
	lacking<<<1, 1>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	read_status(lab, status, done, 7);
	report(lab, status[0] == SHMD_DEV_UNSUPPORTED && status[1] == SHMD_DEV_UNSUPPORTED && status[2] == SHMD_DEV_UNSUPPORTED &&
	       !status[3] && !status[4] && !status[5] && !status[6], "atomics that a NIC lacks", "%s",
	       shmd_dev_status_text(status[0]));
	must(shmd_queues_destroy(queues), "destroy");
}

/* The last DCT is destroyed afterwards. */
static void run_gone_peer(struct lab *lab)
{
	struct shmd_kernel_args args;
	struct shmd_queues *queues;
	const struct shmd_dev_peer *peers;
	uint32_t done[5];
	int status[5];

	args = args_of(lab, make_dci(lab, SHMD_SHARING_GPU, &queues, &peers));
	args.peers = peers;
	args.n_peers = N_DCTS;
	must(shmd_dct_destroy(lab->dcts[N_DCTS - 1]), "destroy a DCT");
	clear_status(lab);
	gone_peer<<<1, 1>>>(args, N_DCTS - 1);
	must_cuda(cudaGetLastError(), "launch");
	read_status(lab, status, done, 5);
	report(lab, status[0] == SHMD_DEV_OK && status[1] == SHMD_DEV_CQE_ERROR &&
	       status[2] == SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR && status[3] == 3 && status[4] == SHMD_DEV_CQE_ERROR,
	       "peer of a DCI is gone", "%s", shmd_syndrome_text((uint32_t)status[2]));
	must(shmd_queues_destroy(queues), "destroy");
}

/* GPU memory by dmabuf: as far as the NIC allows; it names the kinds that it takes. */
static void run_dmabuf(struct lab *lab)
{
	typedef CUresult (*export_fn)(void *handle, CUdeviceptr addr, size_t bytes, CUmemRangeHandleType type,
				      unsigned long long flags);
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	struct shmd_mr_attr attr = {};
	struct shmd_mr *mr;
	void *fn = NULL, *memory;
	CUresult result;
	int fd = -1, r;

	must_cuda(cudaMalloc(&memory, 2u << 20), "memory");
	must_cuda(cudaGetDriverEntryPointByVersion("cuMemGetHandleForAddressRange", &fn, 11070, cudaEnableDefault, &found),
		  "cuMemGetHandleForAddressRange");
	result = fn ? ((export_fn)fn)(&fd, (CUdeviceptr)memory, 2u << 20, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)
		    : CUDA_ERROR_NOT_SUPPORTED;
	if (result != CUDA_SUCCESS) {
		printf("skip dmabuf of GPU memory: the driver does not export it (%d)\n", (int)result);
	} else {
		attr.kind = SHMD_MEM_DMABUF;
		attr.fd = fd;
		attr.length_bytes = 2u << 20;
		attr.iova = (uint64_t)memory;
		attr.access = SHMD_ACCESS_ALL;
		r = shmd_mr_reg(lab->nic, &attr, &mr);
		report(lab, r == -EOPNOTSUPP && strstr(shmd_error_text(), "memfd"), "dmabuf of GPU memory", "%s",
		       r < 0 ? shmd_error_text() : "registered");
		close(fd);
	}
	must_cuda(cudaFree(memory), "memory");
}

/* ---- killing the daemon --------------------------------------------------------------------------------------------- */

static pid_t daemon_pid(void)
{
	struct shmd_client_attr attr = {};
	struct shmd_daemon_status status;
	struct shmd_client *client;

	attr.role = SHMD_ROLE_CONTROL;
	must(shmd_client_open(&attr, &client), "connect");
	must(shmd_admin_status(client, &status), "status");
	shmd_client_close(client);
	return (pid_t)status.pid;
}

static void run_kill(struct lab *lab)
{
	const uint64_t limit_nsec = 3 * WAIT_NSEC;
	struct shmd_queues *queues;
	struct shmd_kernel_args args = args_of(lab, make_qp(lab, SHMD_SHARING_GPU, &queues));
	struct timespec half = {0, 500000000};
	int status[64], ended = 0;
	uint32_t done[64];
	uint64_t start;

	args.timeout_nsec = limit_nsec;
	clear_status(lab);
	run_until_the_end<<<1, 64>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	nanosleep(&half, NULL);
	report(lab, cudaStreamQuery(0) == cudaErrorNotReady, "kernels run", "%s", "");
	start = now_nsec();
	if (kill(daemon_pid(), SIGKILL))
		report(lab, false, "kill", "%s", strerror(errno));
	read_status(lab, status, done, 64);
	start = now_nsec() - start;
	for (int i = 0; i < 64; i++)
		ended += status[i] == SHMD_DEV_HEALTH || status[i] == SHMD_DEV_TIMEOUT;
	report(lab, ended == 64 && start < limit_nsec, "the daemon is killed", "%d of 64 threads ended after %.1f ms: %s", ended,
	       (double)start / 1e6, shmd_dev_status_text(status[0]));
	report(lab, shmd_client_health(lab->client) == SHMD_HEALTH_DAEMON_GONE, "health", "%s",
	       shmd_health_text(shmd_client_health(lab->client)));
}

int main(int argc, char **argv)
{
	bool kills = argc == 2 && !strcmp(argv[1], "kill");
	struct lab lab;

	if (argc > 1 && !kills) {
		fprintf(stderr, "usage: gpu-selftest [kill]\n");
		return 2;
	}
	open_lab(&lab);
	if (kills) {
		run_kill(&lab);
	} else {
		for (const struct kernel_case &c : kernel_cases)
			run_case(&lab, &c, false);
		for (const struct kernel_case &c : dci_cases)
			run_case(&lab, &c, true);
		run_plain(&lab);
		run_hot(&lab);
		run_selftest(&lab, "effects, block", SHMD_SHARING_BLOCK, 256, false);
		run_selftest(&lab, "effects, gpu", SHMD_SHARING_GPU, 1024, false);
		run_selftest(&lab, "effects, one warp", SHMD_SHARING_GPU, 32, false);
		run_selftest(&lab, "own WQEs of one warp", SHMD_SHARING_EXCLUSIVE, 32, false);
		run_selftest(&lab, "effects, block, DCI", SHMD_SHARING_BLOCK, 256, true);
		run_selftest(&lab, "effects, gpu, DCI", SHMD_SHARING_GPU, 1024, true);
		run_selftest(&lab, "own WQEs of one warp, DCI", SHMD_SHARING_EXCLUSIVE, 32, true);
		run_errors(&lab);
		run_without_outputs(&lab);
		run_lacking(&lab);
		run_gone_peer(&lab);
		run_dmabuf(&lab);
	}
	shmd_client_close(lab.client);
	printf("%u passed, %u failed\n", lab.n_good, lab.n_bad);
	return lab.n_bad ? 1 : 0;
}
