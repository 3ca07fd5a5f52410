/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On a GPU: payload in GPU memory behind the memory agent, against the shmemd behind $SHMEMD_SOCKET and its NIC in software.
 *
 * The self-test of a queue (tests/gpu/selftest.cu) runs on a QP connected to itself, with all memory on the GPU. Then one thread puts 8 bytes
 * again and again and looks whether each landed; printed is the time from post to completion. Both once on an idle GPU, and once while a
 * kernel of the program spins on all SMs but one for 3 s: the agent must not wait for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#include "tests/gpu/kernels.h"

#define WAIT_NSEC 5000000000ull
#define N_PUTS 2000u
#define N_WARM 100u
#define SPIN_THREADS 1024u
#define SPIN_NSEC 3000000000ull
#define SPIN_SHARED_BYTES (200 << 10)

extern "C" __global__ void shmd_selftest(struct shmd_selftest_args args);

struct put_result {
	int status;
	unsigned int n_wrong;
	uint64_t nsec[N_PUTS];
};

struct lab {
	struct shmd_client *client;
	struct shmd_gpu *gpu;
	struct shmd_nic *nic;
	struct shmd_gpu_mem *mem;
	struct shmd_gpu_mem_info info;
	struct shmd_selftest_result *selftest; /* this and what follows: host memory that the GPU sees */
	struct put_result *puts;
	unsigned int *n_spinning;
	cudaStream_t work, spin;
	int n_sms;
	unsigned int n_bad;
};

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "gpu-agent-selftest: %s: %s\n", what, shmd_error_text());
	exit(1);
}

static void must_cuda(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "gpu-agent-selftest: %s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

/* ---- kernels -------------------------------------------------------------------------------------------------------- */

static __global__ void put_words(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, const uint64_t *word, struct put_result *result)
{
	for (uint64_t i = 0; i < N_WARM + N_PUTS && !result->status; i++) {
		uint64_t start = shmdi_clock_nsec();
		int rc = shmd_dev_qp_p(qp, remote, i + 1, 8);

		if (!rc)
			rc = shmd_dev_qp_quiet(qp, WAIT_NSEC);
		if (i >= N_WARM)
			result->nsec[i - N_WARM] = shmdi_clock_nsec() - start;
		result->n_wrong += shmdi_word_load64(word) != i + 1;
		result->status = rc;
	}
}

/* By the clock of the GPU: a kernel that looks at host memory all the time takes the bus from everybody, the NIC in software too. */
static __global__ void spin(unsigned int *n_spinning)
{
	uint64_t begin = shmdi_clock_nsec();

	if (threadIdx.x == 0)
		atomicAdd_system(n_spinning, 1);
	while (shmdi_clock_nsec() - begin < SPIN_NSEC)
		;
}

/* ---- host ----------------------------------------------------------------------------------------------------------- */

static void open_lab(struct lab *lab)
{
	struct shmd_gpu_mem_attr attr = {};
	struct shmd_gpu_info gpu;

	memset(lab, 0, sizeof(*lab));
	/* Loading a kernel at its first launch would wait for the kernel that spins. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	/* A launch that changes the room for local memory would wait for it too. */
	must_cuda(cudaSetDeviceFlags(cudaDeviceLmemResizeToMax), "flags");
	must_cuda(cudaSetDevice(0), "GPU 0");
	must_cuda(cudaDeviceGetAttribute(&lab->n_sms, cudaDevAttrMultiProcessorCount, 0), "GPU 0");
	must_cuda(cudaStreamCreateWithFlags(&lab->work, cudaStreamNonBlocking), "stream");
	must_cuda(cudaStreamCreateWithFlags(&lab->spin, cudaStreamNonBlocking), "stream");
	must_cuda(cudaHostAlloc((void **)&lab->selftest, sizeof(*lab->selftest), cudaHostAllocMapped), "memory");
	must_cuda(cudaHostAlloc((void **)&lab->puts, sizeof(*lab->puts), cudaHostAllocMapped), "memory");
	must_cuda(cudaHostAlloc((void **)&lab->n_spinning, sizeof(*lab->n_spinning), cudaHostAllocMapped), "memory");
	*lab->n_spinning = 0;
	must(shmd_client_open(NULL, &lab->client), "connect");
	must(shmd_gpu_open(lab->client, 0, &lab->gpu), "open the GPU");
	must(shmd_gpu_info(lab->gpu, &gpu), "GPU");
	must(shmd_nic_open(lab->client, NULL, &lab->nic), "open a NIC");
	attr.bytes = SHMD_SELFTEST_MIN_BYTES + SHMD_SELFTEST_BLOCK_BYTES;
	attr.access = SHMD_ACCESS_ALL;
	attr.mode = SHMD_GPU_MEM_AGENT;
	must(shmd_gpu_mem_alloc(lab->gpu, lab->nic, &attr, &lab->mem), "memory of the GPU behind the agent");
	must(shmd_gpu_mem_info(lab->mem, &lab->info), "memory");
	printf("GPU %s at %s, %d SMs; payload in GPU memory, by the memory agent\n", gpu.name, gpu.pci, lab->n_sms);
}

static struct shmd_dev_qp *make_qp(struct lab *lab, struct shmd_queues **ret_queues)
{
	struct shmd_queues_attr attr = {};
	struct shmd_addr addr;
	uint64_t qp;

	attr.n_qps = 1;
	attr.sq_wqebbs = 256;
	attr.sharing = SHMD_SHARING_GPU;
	attr.gpu_driven = 1;
	must(shmd_queues_create(lab->nic, &attr, ret_queues), "queues");
	must(shmd_queues_addr(*ret_queues, 0, &addr), "address");
	must(shmd_queues_connect(*ret_queues, 0, 1, &addr, NULL, NULL), "connect a QP");
	must(shmd_gpu_dev_qp(lab->gpu, *ret_queues, 0, &qp), "queues on the GPU");
	return (struct shmd_dev_qp *)qp;
}

static void report(struct lab *lab, bool good, const char *name, const char *load)
{
	printf("%s %s, %s", good ? "ok  " : "FAIL", name, load);
	lab->n_bad += !good;
}

static void run_selftest(struct lab *lab, struct shmd_dev_qp *qp, const char *load)
{
	struct shmd_selftest_args args = {};
	struct shmd_selftest_result result;

	args.qp = qp;
	args.remote = shmd_dev_addr{lab->info.iova, shmd_mr_rkey_be(lab->info.mr)};
	args.local = shmd_dev_addr{lab->info.iova, shmd_mr_lkey_be(lab->info.mr)};
	args.memory = (uint8_t *)lab->info.addr;
	args.bytes = SHMD_SELFTEST_MIN_BYTES;
	args.timeout_nsec = WAIT_NSEC;
	args.result = lab->selftest;
	must_cuda(cudaMemsetAsync((void *)lab->info.addr, 0, SHMD_SELFTEST_MIN_BYTES, lab->work), "memory");
	memset(lab->selftest, 0, sizeof(result));
	shmd_selftest<<<1, 128, 0, lab->work>>>(args);
	must_cuda(cudaGetLastError(), "launch");
	must_cuda(cudaStreamSynchronize(lab->work), "kernel");
	result = *lab->selftest;
	report(lab, !result.status && !result.step && !result.n_wrong && result.n_operations, "puts, gets, signals and atomics", load);
	printf(": %llu operations, step %u, %llu wrong, %s\n", (unsigned long long)result.n_operations, result.step,
	       (unsigned long long)result.n_wrong, shmd_dev_status_text(result.status));
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void run_puts(struct lab *lab, struct shmd_dev_qp *qp, const char *load)
{
	static struct put_result result;
	struct shmd_dev_addr remote = {lab->info.iova + SHMD_SELFTEST_MIN_BYTES, shmd_mr_rkey_be(lab->info.mr)};
	const uint64_t *word = (const uint64_t *)(lab->info.addr + SHMD_SELFTEST_MIN_BYTES);

	memset(lab->puts, 0, sizeof(result));
	put_words<<<1, 1, 0, lab->work>>>(qp, remote, word, lab->puts);
	must_cuda(cudaGetLastError(), "launch");
	must_cuda(cudaStreamSynchronize(lab->work), "kernel");
	result = *lab->puts;
	qsort(result.nsec, N_PUTS, sizeof(result.nsec[0]), by_size);
	report(lab, !result.status && !result.n_wrong, "put of 8 bytes", load);
	printf(": post to completion %.2f us (least %.2f, 99 of 100 below %.2f), %u wrong, %s\n", (double)result.nsec[N_PUTS / 2] / 1e3,
	       (double)result.nsec[0] / 1e3, (double)result.nsec[N_PUTS * 99 / 100] / 1e3, result.n_wrong, shmd_dev_status_text(result.status));
}

int main(void)
{
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp;
	struct lab lab;

	setlinebuf(stdout);
	open_lab(&lab);
	qp = make_qp(&lab, &queues);
	run_selftest(&lab, qp, "idle GPU");
	run_puts(&lab, qp, "idle GPU");
	fflush(stdout);

	/* One block for each SM by its shared memory, and one SM for the test's own kernels. */
	must_cuda(cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, SPIN_SHARED_BYTES), "shared memory");
	spin<<<lab.n_sms - 1, SPIN_THREADS, SPIN_SHARED_BYTES, lab.spin>>>(lab.n_spinning);
	must_cuda(cudaGetLastError(), "launch");
	while (*(volatile unsigned int *)lab.n_spinning < (unsigned int)lab.n_sms - 1)
		;
	run_selftest(&lab, qp, "a kernel spins on all other SMs");
	run_puts(&lab, qp, "a kernel spins on all other SMs");
	report(&lab, cudaStreamQuery(lab.spin) == cudaErrorNotReady, "it still spins", "so nothing waited for its end");
	printf("\n");
	must_cuda(cudaStreamSynchronize(lab.spin), "the kernel that spins");

	must(shmd_queues_destroy(queues), "destroy");
	must(shmd_gpu_mem_free(lab.mem), "free the memory");
	must(shmd_gpu_close(lab.gpu), "close the GPU");
	shmd_client_close(lab.client);
	printf("gpu-agent-selftest: %u failed\n", lab.n_bad);
	return lab.n_bad ? 1 : 0;
}
