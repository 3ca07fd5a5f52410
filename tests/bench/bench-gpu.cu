/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline puts of 8 bytes by kernels through soft NICs, against the loop that does the least (ref/ref-gpu-post.cuh): time to
 * issue, post to completion, rate of one warp that writes its WQEs together, of one whose lanes each call p, and of
 * eight QPs on eight NICs.
 *
 * Both drive the same QP in turn: where its memory lies makes a tenth of the time, and must favour neither.
 * A completion comes when the NIC thread looks, whose rhythm with the GPU's has two states some 30 % apart, each for
 * several runs, and so has the rate of one warp: many runs find both sides in both. Issue time is taken over bursts that fit in the ring, so the NIC's
 * own speed is not in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/rma.h>

#include "ref/ref-gpu-post.cuh"
#include "ref/ref-gpu.h"

extern "C" {
#include "bench.h"
}

#define MAX_NICS 8
#define WQEBBS 4096u
#define BURST 1024u
#define BURSTS 32u
#define ROUND_TRIPS 5000u
#define BATCHES 8000u
#define BATCH 32u

/* One NIC as kernels see it. */
struct port {
	struct shmd_dev_qp *qp;
	struct ref_queue ref;
	struct shmd_dev_addr remote;
};

struct result {
	int status;
	uint64_t nsec, start, end;
};

struct gpu_bench {
	struct bench_end ends[MAX_NICS];
	unsigned int n_ports;
	struct port *ports; /* in GPU memory */
	struct result *results; /* in GPU memory */
};

static __device__ __forceinline__ uint64_t now(void)
{
	return shmdi_clock_nsec();
}

static __device__ __forceinline__ struct shmd_dev_mode mode_of(enum shmd_sharing sharing)
{
	struct shmd_dev_mode mode = shmd_dev_mode_const(SHMD_DEV_THREAD, sharing);

	mode.timeout_nsec = BENCH_WAIT_NSEC;
	return mode;
}

/* The reference goes on where the QP stands, and leaves it as our own functions would. */
static __device__ struct ref_queue ref_begin(const struct port *port)
{
	struct ref_queue q = port->ref;

	q.pi = port->qp->sq_rsvd_index;
	q.done = q.pi;
	return q;
}

static __device__ void ref_end(const struct port *port, const struct ref_queue *q)
{
	struct shmd_dev_qp *qp = port->qp;

	qp->sq_rsvd_index = qp->sq_ready_index = qp->sq_wqe_pi = qp->db_index = qp->cqe_ci = q->pi;
}

/* ---- issue ------------------------------------------------------------------------------------------------ */

template <enum shmd_sharing sharing> static __global__ void issue_ours(struct port *port, struct result *result)
{
	struct shmd_dev_qp *qp = port->qp;
	struct shmd_dev_addr remote = port->remote;
	uint64_t nsec = 0;
	int rc = 0;

	for (uint32_t b = 0; b < BURSTS; b++) {
		uint64_t start = now();

		for (uint32_t i = 0; i < BURST; i++)
			rc |= shmd_dev_qp_p_as(qp, remote, i, 8, mode_of(sharing));
		nsec += now() - start;
		rc |= shmd_dev_qp_quiet_as(qp, mode_of(sharing));
	}
	result->status = rc;
	result->nsec = nsec;
}

static __global__ void issue_ref(struct port *port, struct result *result)
{
	struct ref_queue q = ref_begin(port);
	uint64_t nsec = 0;

	for (uint32_t b = 0; b < BURSTS; b++) {
		uint64_t start = now();

		for (uint32_t i = 0; i < BURST; i++) {
			ref_wqe(&q, q.pi, i, 8);
			ref_ring(&q, ++q.pi);
		}
		nsec += now() - start;
		q.done = ref_wait(&q, q.done, q.pi);
	}
	ref_end(port, &q);
	result->status = 0;
	result->nsec = nsec;
}

/* ---- post to completion --------------------------------------------------------------------------------------- */

static __global__ void round_trip_ours(struct port *port, struct result *result)
{
	struct shmd_dev_mode mode = mode_of(SHMD_SHARING_EXCLUSIVE);
	struct shmd_dev_qp *qp = port->qp;
	struct shmd_dev_addr remote = port->remote;
	uint64_t start = now();
	int rc = 0;

	for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
		rc |= shmd_dev_qp_p_as(qp, remote, i, 8, mode);
		rc |= shmd_dev_qp_quiet_as(qp, mode);
	}
	result->nsec = now() - start;
	result->status = rc;
}

static __global__ void round_trip_ref(struct port *port, struct result *result)
{
	struct ref_queue q = ref_begin(port);
	uint64_t start = now();

	for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
		ref_wqe(&q, q.pi, i, 8);
		ref_ring(&q, ++q.pi);
		q.done = ref_wait(&q, q.done, q.pi);
	}
	result->nsec = now() - start;
	result->status = 0;
	ref_end(port, &q);
}

/* ---- one warp for each port, 32 WQEs for each doorbell ---------------------------------------------------------- */

/* The warp owns the queue: lane 0 reserves and announces, each lane writes a WQE. */
static __device__ int post_batch(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value)
{
	struct shmd_dev_mode mode = shmd_dev_mode_const(SHMD_DEV_WARP, SHMD_SHARING_EXCLUSIVE);
	unsigned int lane = threadIdx.x;
	uint64_t index;
	int rc = shmd_dev_qp_reserve_as(qp, BATCH, mode, &index);

	if (rc)
		return rc;
	shmd_dev_prepare_write_value(qp, shmd_dev_wqe_at(index + lane, lane == BATCH - 1 ? SHMD_WQE_CE_ALWAYS : 0),
				     remote, value, 8);
	return shmd_dev_qp_publish_as(qp, index, BATCH, mode);
}

static __global__ void rate_ours(struct port *ports, struct result *results)
{
	struct shmd_dev_addr remote = ports[blockIdx.x].remote;
	struct shmd_dev_qp *qp = ports[blockIdx.x].qp;
	struct result *result = &results[blockIdx.x];
	uint64_t start = now();
	int rc = 0;

	for (uint32_t i = 0; i < BATCHES && !rc; i++)
		rc = post_batch(qp, remote, i);
	if (threadIdx.x)
		return;
	rc = rc ? rc : shmd_dev_qp_quiet_as(qp, mode_of(SHMD_SHARING_EXCLUSIVE));
	result->start = start;
	result->end = now();
	result->status = rc;
}

/* The same by lanes that know nothing of each other, on a QP that others of the block may use. */
static __global__ void together_ours(struct port *ports, struct result *results)
{
	struct shmd_dev_mode mode = mode_of(SHMD_SHARING_BLOCK);
	struct shmd_dev_addr remote = ports[blockIdx.x].remote;
	struct shmd_dev_qp *qp = ports[blockIdx.x].qp;
	struct result *result = &results[blockIdx.x];
	uint64_t start = now();
	int rc = 0;

	for (uint32_t i = 0; i < BATCHES; i++) {
		/* Lanes that call together share a reservation, a CQE and a doorbell. */
		__syncwarp();
		rc |= shmd_dev_qp_p_as(qp, remote, i, 8, mode);
	}
	rc |= shmd_dev_qp_quiet_as(qp, mode);
	rc = __reduce_or_sync(0xffffffffu, (unsigned int)rc);
	if (threadIdx.x)
		return;
	result->start = start;
	result->end = now();
	result->status = rc;
}

static __global__ void rate_ref(struct port *ports, struct result *results)
{
	struct port *port = &ports[blockIdx.x];
	struct result *result = &results[blockIdx.x];
	struct ref_queue q = ref_begin(port);
	uint64_t start = now();

	for (uint32_t i = 0; i < BATCHES; i++) {
		if (q.pi + BATCH - q.done > q.wqebbs) {
			if (threadIdx.x == 0)
				q.done = ref_wait(&q, q.done, q.pi + BATCH - q.wqebbs);
			q.done = __shfl_sync(0xffffffffu, (unsigned long long)q.done, 0);
		}
		ref_wqe(&q, q.pi + threadIdx.x, i, threadIdx.x == BATCH - 1 ? 8 : 0);
		__syncwarp();
		q.pi += BATCH;
		if (threadIdx.x == 0)
			ref_ring(&q, q.pi);
	}
	if (threadIdx.x)
		return;
	q.done = ref_wait(&q, q.done, q.pi);
	result->start = start;
	result->end = now();
	result->status = 0;
	ref_end(port, &q);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static double complain(const char *what, cudaError_t error)
{
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	return -1;
}

typedef void (*bench_kernel)(struct port *ports, struct result *results);

/* Nanoseconds from the first start to the last end, or the sum that the kernel took itself; negative for failures. */
static double launch(const struct gpu_bench *b, bench_kernel kernel, unsigned int n_ports, unsigned int n_threads)
{
	struct result r[MAX_NICS];
	uint64_t start = UINT64_MAX, end = 0;
	cudaError_t error;

	cudaMemset(b->results, 0, sizeof(r));
	kernel<<<n_ports, n_threads>>>(b->ports, b->results);
	error = cudaDeviceSynchronize();
	if (error == cudaSuccess)
		error = cudaMemcpy(r, b->results, sizeof(r), cudaMemcpyDeviceToHost);
	if (error != cudaSuccess)
		return complain("kernel", error);
	for (unsigned int i = 0; i < n_ports; i++) {
		if (r[i].status) {
			fprintf(stderr, "kernel: status %d\n", r[i].status);
			return -1;
		}
		start = r[i].start < start ? r[i].start : start;
		end = r[i].end > end ? r[i].end : end;
	}
	return r[0].nsec ? (double)r[0].nsec : (double)(end - start);
}

static double per(double nsec, double n)
{
	return nsec < 0 ? -1 : nsec / n;
}

static double millions(double nsec, double n)
{
	return nsec < 0 ? -1 : n * 1e3 / nsec;
}

#define ISSUE(name, kernel)                                                                                   \
	static double name(void *arg)                                                                         \
	{                                                                                                     \
		return per(launch((struct gpu_bench *)arg, kernel, 1, 1), (double)BURST * BURSTS);            \
	}
ISSUE(issue_exclusive, issue_ours<SHMD_SHARING_EXCLUSIVE>)
ISSUE(issue_shared, issue_ours<SHMD_SHARING_GPU>)
ISSUE(issue_reference, issue_ref)

static double round_trip(void *arg)
{
	return per(launch((struct gpu_bench *)arg, round_trip_ours, 1, 1), ROUND_TRIPS);
}

static double round_trip_reference(void *arg)
{
	return per(launch((struct gpu_bench *)arg, round_trip_ref, 1, 1), ROUND_TRIPS);
}

static double mailbox(void *arg)
{
	(void)arg;
	return ref_mailbox_nsec(ROUND_TRIPS);
}

#define RATE(name, kernel, n)                                                                                 \
	static double name(void *arg)                                                                         \
	{                                                                                                     \
		return millions(launch((struct gpu_bench *)arg, kernel, n, BATCH), (double)BATCHES * BATCH * (n)); \
	}
RATE(rate_one, rate_ours, 1)
RATE(rate_one_reference, rate_ref, 1)
RATE(rate_together, together_ours, 1)
RATE(rate_eight, rate_ours, MAX_NICS)
RATE(rate_eight_reference, rate_ref, MAX_NICS)

/* ---- set-up --------------------------------------------------------------------------------------------------------- */

static int open_port(struct bench_end *end, unsigned int i, struct port *port)
{
	struct shmd_queues_attr attr = {};
	struct shmd_gpu *gpu;
	struct shmd_dev_qp ref;
	uint64_t qps = 0;
	char name[16];
	int r;

	attr.n_qps = 1;
	attr.sq_wqebbs = WQEBBS;
	attr.sharing = SHMD_SHARING_EXCLUSIVE; /* rows that share say so in their mode */
	attr.gpu_driven = 1;
	snprintf(name, sizeof(name), "soft%u", i);
	r = bench_end_open(end, name, 65536, &attr);
	if (r >= 0)
		r = bench_end_connect(end, end, 1);
	if (r >= 0)
		r = shmd_gpu_open(end->client, 0, &gpu);
	if (r >= 0)
		r = shmd_gpu_dev_qp(gpu, end->queues, 0, &qps);
	if (r < 0) {
		bench_complain("open a GPU");
		return r;
	}
	port->qp = (struct shmd_dev_qp *)qps;
	port->remote = shmd_dev_addr{(uint64_t)shmd_mem_addr(end->mem), shmd_mr_rkey_be(end->mr)};
	if (cudaMemcpy(&ref, (struct shmd_dev_qp *)qps, sizeof(ref), cudaMemcpyDeviceToHost) != cudaSuccess)
		return -1;
	port->ref.sq = (uint8_t *)ref.sq_addr;
	port->ref.dbrec = (uint32_t *)ref.sq_dbrec_addr;
	port->ref.doorbell = (uint64_t *)ref.doorbell_addr;
	port->ref.cqe_tail = (const uint64_t *)(ref.cq_addr + 56);
	port->ref.qpn = ref.qpn;
	port->ref.wqebbs = WQEBBS;
	port->ref.rkey_be = port->remote.key_be;
	port->ref.remote = port->remote.iova + 4096;
	return 0;
}

static bool open_bench(struct gpu_bench *b, unsigned int n_ports)
{
	struct port ports[MAX_NICS] = {};

	if (cudaSetDevice(0) != cudaSuccess)
		return complain("GPU 0", cudaGetLastError()) >= 0;
	for (b->n_ports = 0; b->n_ports < n_ports; b->n_ports++) {
		if (open_port(&b->ends[b->n_ports], b->n_ports, &ports[b->n_ports]) < 0)
			return false;
	}
	return cudaMalloc((void **)&b->ports, sizeof(ports)) == cudaSuccess &&
	       cudaMalloc((void **)&b->results, MAX_NICS * sizeof(struct result)) == cudaSuccess &&
	       cudaMemcpy(b->ports, ports, sizeof(ports), cudaMemcpyHostToDevice) == cudaSuccess;
}

static const char *const row_names[] = {
	"issue", "issue-shared", "completion", "mailbox", "rate", "rate-together", "rate-8",
};
#define N_ROWS (sizeof(row_names) / sizeof(row_names[0]))

static int wanted_row(const char *name)
{
	for (unsigned int i = 0; i < N_ROWS; i++) {
		if (!strcmp(name, row_names[i]))
			return (int)i;
	}
	fprintf(stderr, "usage: bench-gpu [ROW]\nrows:");
	for (unsigned int i = 0; i < N_ROWS; i++)
		fprintf(stderr, " %s", row_names[i]);
	fprintf(stderr, "\nWants 8 soft NICs: shmemd --soft-nics 8 --spin-usec 1000000\n");
	return -1;
}

int main(int argc, char **argv)
{
	static struct gpu_bench b;
	const struct bench_row rows[N_ROWS] = {
		{"issue, exclusive QP", "ns", issue_exclusive, issue_reference, "minimal", &b, false, 1.15, 0, 0, 0},
		{"issue, QP of the whole GPU", "ns", issue_shared, issue_reference, "minimal", &b, false, 2.0, 0, 0, 0},
		{"post to completion", "ns", round_trip, round_trip_reference, "minimal", &b, false, 1.2, 0, 0, BENCH_MAX_RUNS},
		{"mailbox, for comparison", "ns", mailbox, NULL, NULL, &b, false, 0, 0, 0, 0},
		{"one warp, 32 per doorbell", "M/s", rate_one, rate_one_reference, "minimal", &b, true, 0.85, 5, 0, BENCH_MAX_RUNS},
		{"32 lanes that each call p", "M/s", rate_together, rate_one_reference, "minimal", &b, true, 0, 0, 0,
		 BENCH_MAX_RUNS},
		{"8 QPs on 8 NICs", "M/s", rate_eight, rate_eight_reference, "minimal", &b, true, 0.85, 0, 0, 0},
	};
	int only = argc > 1 ? wanted_row(argv[1]) : (int)N_ROWS;
	bool good = true;

	if (only < 0)
		return 2;
	if (!open_bench(&b, MAX_NICS))
		return 1;
	bench_header("inline puts of 8 bytes, soft NICs, driven by kernels");
	for (unsigned int i = 0; i < N_ROWS; i++) {
		if (only == (int)N_ROWS || only == (int)i)
			good = bench_run(&rows[i]) && good;
	}
	for (unsigned int i = 0; i < b.n_ports; i++)
		bench_end_close(&b.ends[i]);
	return good ? 0 : 1;
}
