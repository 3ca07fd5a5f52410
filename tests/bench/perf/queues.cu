/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of the two PEs of shmemperf's rows by queues: kernels of PE 0 put 8 bytes into the GPU heap of PE 1, to which no mapped memory leads, and
 * PE 0 prints "ROW FIGURE" for each row. Payload is in GPU memory, so behind a soft NIC the memory agent of PE 1 has a part in each completion.
 *
 *	shmemperf-queues [rows|floor]	floor: the bare loops of ../ref on the same QP, and a bare agent
 *
 * It returns 0, 1 when something failed, and 77 without a GPU. Figures are medians of SLICES launches, whose own are medians of their parts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include <shmd.h>
#include <shmd/dev/pe.h>

#include "../ref/ref-agent-open.cuh"
#include "../ref/ref-dc-post.cuh"

#define SLICES 3
#define DEPTH 4096u
#define LANES 32u
#define TRIPS REF_AGENT_ROUNDS
#define BURSTS 8u
#define BURST 1024u /* of puts that fit the ring */

struct queue_run {
	struct shmd_dev_ctx ctx; /* among the parameters of a kernel */
	uint64_t *dest;
	uint64_t *nsec; /* of each part; TRIPS of them */
	int *status;
};

struct row {
	const char *name;
	void (*kernel)(struct queue_run);
	void (*floor)(struct queue_run); /* NULL: the bare agent */
	bool is_exclusive, is_rate;
	uint32_t threads, n, puts; /* of a part */
};

struct pe {
	struct shmd_world *world;
	struct shmd_ctx *alone; /* one thread at a time uses it */
	struct queue_run shared, exclusive;
	struct ref_agent agent;
	cudaStream_t stream;
	bool is_floor;
};

/* ---- ours ---------------------------------------------------------------------------------------------------------------------------- */

/* Posts alone: the NIC's speed is not in it. */
static __global__ void issue(const __grid_constant__ struct queue_run p)
{
	struct shmd_dev_ctx *ctx = shmd_dev_ctx_of(&p.ctx);
	int rc = 0;

	for (uint32_t b = 0; b < BURSTS; b++) {
		uint64_t begin = shmdi_clock_nsec();

		for (uint32_t i = 0; i < BURST; i++)
			rc |= shmd_dev_p(ctx, p.dest, i, 8, 1);
		p.nsec[b] = shmdi_clock_nsec() - begin;
		rc |= shmd_dev_quiet(ctx);
	}
	*p.status = rc;
}

static __global__ void trip(const __grid_constant__ struct queue_run p)
{
	struct shmd_dev_ctx *ctx = shmd_dev_ctx_of(&p.ctx);
	int rc = 0;

	for (uint32_t i = 0; i < TRIPS && !rc; i++) {
		uint64_t begin = shmdi_clock_nsec();

		rc = shmd_dev_p(ctx, p.dest, i, 8, 1);
		rc = rc ? rc : shmd_dev_quiet(ctx);
		p.nsec[i] = shmdi_clock_nsec() - begin;
	}
	*p.status = rc;
}

/* Lanes that know nothing of each other, until all is complete. */
static __global__ void together(const __grid_constant__ struct queue_run p)
{
	struct shmd_dev_ctx *ctx = shmd_dev_ctx_of(&p.ctx);
	int rc = 0;

	for (uint32_t b = 0; b < BURSTS; b++) {
		uint64_t begin = shmdi_clock_nsec();

		for (uint32_t i = 0; i < BURST / LANES; i++) {
			__syncwarp();
			rc |= shmd_dev_p(ctx, p.dest + threadIdx.x, i, 8, 1);
		}
		__syncwarp();
		if (!threadIdx.x)
			rc |= shmd_dev_quiet(ctx);
		__syncwarp();
		if (!threadIdx.x)
			p.nsec[b] = shmdi_clock_nsec() - begin;
	}
	rc = (int)__reduce_or_sync(0xffffffffu, (unsigned int)rc);
	if (!threadIdx.x)
		*p.status = rc;
}

/* ---- bare ---------------------------------------------------------------------------------------------------------------------------- */

/* Goes on where the QP stands. A CQE names the first of the two WQEBBs of its request. */
static __device__ struct ref_dc bare_begin(const struct queue_run *p)
{
	const struct shmd_dev_ctx *ctx = &p->ctx;
	const struct shmd_dev_world *world = (const struct shmd_dev_world *)ctx->world_addr;
	const struct shmd_dev_pe_way *way = (const struct shmd_dev_pe_way *)ctx->ways_addr + 1;
	const struct shmd_dev_qp *qp = (const struct shmd_dev_qp *)way->qp_addr;
	struct shmdi_pe_at at = {0, 0, SHMD_DEV_HEAP_GPU, 1};
	struct shmd_dev_addr remote;
	struct ref_dc dc = {};
	uint64_t left;

	at.offset = (uint64_t)p->dest - world->heap[SHMD_DEV_HEAP_GPU].own_addr;
	remote = shmdi_remote_of(world, &at, way->peer_rail, &left);
	dc.av = (const ulonglong2 *)((const struct shmd_dev_peer *)way->peer_addr)->av;
	dc.q = {(uint8_t *)qp->sq_addr, (uint32_t *)qp->sq_dbrec_addr, (uint64_t *)qp->doorbell_addr, (const uint64_t *)(qp->cq_addr + 56),
		qp->qpn, qp->sq_wqebbs, remote.key_be, remote.iova, qp->sq_rsvd_index, qp->sq_rsvd_index ? qp->sq_rsvd_index - 1 : 0};
	*p->status = (qp->flags & SHMD_QP_CQ_COLLAPSED) ? 0 : SHMD_DEV_INVALID;
	return dc;
}

static __device__ void bare_end(const struct queue_run *p, const struct ref_dc *dc)
{
	const struct shmd_dev_pe_way *way = (const struct shmd_dev_pe_way *)p->ctx.ways_addr + 1;
	struct shmd_dev_qp *qp = (struct shmd_dev_qp *)way->qp_addr;

	qp->sq_rsvd_index = qp->sq_ready_index = qp->sq_wqe_pi = qp->db_index = qp->cqe_ci = dc->q.pi;
}

static __device__ __forceinline__ void bare_post(struct ref_dc *dc, uint64_t value, uint32_t ce)
{
	ref_dc_wqe(dc, dc->q.pi, value, ce);
	dc->q.pi += REF_DC_WQEBBS;
	ref_ring(&dc->q, dc->q.pi);
}

static __global__ void bare_issue(const __grid_constant__ struct queue_run p)
{
	struct ref_dc dc = bare_begin(&p);

	for (uint32_t b = 0; b < BURSTS; b++) {
		uint64_t begin = shmdi_clock_nsec();

		for (uint32_t i = 0; i < BURST; i++)
			bare_post(&dc, i, i == BURST - 1 ? REF_DC_CE : 0);
		p.nsec[b] = shmdi_clock_nsec() - begin;
		ref_dc_wait(&dc, dc.q.pi);
	}
	bare_end(&p, &dc);
}

static __global__ void bare_trip(const __grid_constant__ struct queue_run p)
{
	struct ref_dc dc = bare_begin(&p);

	for (uint32_t i = 0; i < TRIPS; i++) {
		uint64_t begin = shmdi_clock_nsec();

		bare_post(&dc, i, REF_DC_CE);
		ref_dc_wait(&dc, dc.q.pi);
		p.nsec[i] = shmdi_clock_nsec() - begin;
	}
	bare_end(&p, &dc);
}

/* One doorbell for all lanes. */
static __global__ void bare_together(const __grid_constant__ struct queue_run p)
{
	struct ref_dc dc = bare_begin(&p);

	dc.q.remote += 8 * threadIdx.x;
	for (uint32_t b = 0; b < BURSTS; b++) {
		uint64_t begin = shmdi_clock_nsec();

		for (uint32_t i = 0; i < BURST / LANES; i++) {
			ref_dc_wqe(&dc, dc.q.pi + REF_DC_WQEBBS * threadIdx.x, i, threadIdx.x == LANES - 1 ? REF_DC_CE : 0);
			__syncwarp();
			dc.q.pi += REF_DC_WQEBBS * LANES;
			if (!threadIdx.x)
				ref_ring(&dc.q, dc.q.pi);
		}
		if (!threadIdx.x)
			ref_dc_wait(&dc, dc.q.pi);
		__syncwarp();
		if (!threadIdx.x)
			p.nsec[b] = shmdi_clock_nsec() - begin;
	}
	__syncwarp();
	if (!threadIdx.x)
		bare_end(&p, &dc);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------------- */

static const struct row rows[] = {
	{"queue_issue", issue, bare_issue, true, false, 1, BURSTS, BURST},
	{"queue_issue_shared", issue, bare_issue, false, false, 1, BURSTS, BURST},
	{"queue_trip", trip, bare_trip, true, false, 1, TRIPS, 1},
	{"queue_rate", together, bare_together, false, true, LANES, BURSTS, BURST},
	{"agent_put", trip, NULL, true, false, 1, TRIPS, 1},
};

static void must_cuda(const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "shmemperf-queues: %s: %s\n", what, cudaGetErrorString(error));
	exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "shmemperf-queues: %s: %s\n", what, shmd_error_text());
	exit(1);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, uint32_t n)
{
	qsort(values, n, sizeof(double), compare);
	return values[n / 2];
}

/* The CPU of the bare agent has its part while the kernel runs. */
static void launch(struct pe *pe, const struct row *row, struct queue_run *run)
{
	void *arguments[] = {run};
	const void *kernel = pe->is_floor ? (const void *)row->floor : (const void *)row->kernel;

	if (kernel) {
		must_cuda(row->name, cudaLaunchKernel(kernel, dim3(1), dim3(row->threads), arguments, 0, pe->stream));
		return;
	}
	pe->agent.host[0] = 0;
	must_cuda("clear a word", cudaMemsetAsync(pe->agent.words, 0, 8, pe->stream));
	must_cuda("clear a word", cudaStreamSynchronize(pe->stream));
	ref_agent_kernel<<<1, 1, 0, pe->stream>>>(pe->agent.host_on_gpu, pe->agent.words, run->nsec);
	must_cuda(row->name, cudaGetLastError());
	if (!ref_agent_answer(&pe->agent))
		must_cuda("write by a stream", cudaErrorUnknown);
}

/* Nanoseconds of a part, the median of all. */
static double run_once(struct pe *pe, const struct row *row)
{
	struct queue_run run = row->is_exclusive ? pe->exclusive : pe->shared;
	uint64_t nsec[TRIPS];
	double values[TRIPS];
	int status;

	must_cuda("clear the status", cudaMemsetAsync(run.status, 0, sizeof(status), pe->stream));
	launch(pe, row, &run);
	must_cuda(row->name, cudaMemcpyAsync(nsec, run.nsec, sizeof(nsec), cudaMemcpyDeviceToHost, pe->stream));
	must_cuda(row->name, cudaMemcpyAsync(&status, run.status, sizeof(status), cudaMemcpyDeviceToHost, pe->stream));
	must_cuda(row->name, cudaStreamSynchronize(pe->stream));
	if (status) {
		fprintf(stderr, "shmemperf-queues: %s: status %d\n", row->name, status);
		exit(1);
	}
	for (uint32_t i = 0; i < row->n; i++)
		values[i] = (double)nsec[i];
	return median(values, row->n);
}

static void run_row(struct pe *pe, const struct row *row)
{
	double slices[SLICES], nsec;

	for (int i = 0; i < SLICES; i++)
		slices[i] = run_once(pe, row);
	nsec = median(slices, SLICES);
	printf("%s %.6g\n", row->name, row->is_rate ? 1e3 * row->puts / nsec : nsec / row->puts / 1e3);
	fflush(stdout);
}

/* ---- begin and end ------------------------------------------------------------------------------------------------------------------- */

static void choose_gpu(void)
{
	const char *rank = getenv("SHMD_NODE_RANK");
	int n = 0;

	/* Loading a kernel at its first launch would wait for what runs. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	must_cuda("count the GPUs", cudaGetDeviceCount(&n));
	must_cuda("choose the GPU", cudaSetDevice(rank ? atoi(rank) % n : 0));
	must_cuda("start the GPU", cudaFree(0));
}

static void open_world(struct pe *pe)
{
	struct shmd_world_attr attr = {};
	char depth[16];

	snprintf(depth, sizeof(depth), "%u", DEPTH);
	setenv("SHMD_QUEUE_DEPTH", depth, 1);
	setenv("SHMD_PATHS", "self,queue", 1);
	attr.gpu = "current";
	must(shmd_world_open(&attr, &pe->world), "open the world");
	must(shmd_world_start(pe->world), "start the world");
}

static void prepare(struct pe *pe)
{
	struct shmd_ctx_attr attr = {};
	void *dest;

	attr.flags = SHMD_CTX_SERIALIZED;
	must(shmd_calloc(pe->world, 1, 4096, SHMD_HINT_GPU, &dest), "allocate GPU memory");
	must(shmd_ctx_create(shmd_team_world(pe->world), &attr, &pe->alone), "a context");
	must_cuda("a stream", cudaStreamCreateWithFlags(&pe->stream, cudaStreamNonBlocking));
	must_cuda("memory for times", cudaMalloc((void **)&pe->shared.nsec, TRIPS * sizeof(uint64_t)));
	must_cuda("memory for times", cudaMemset(pe->shared.nsec, 0, TRIPS * sizeof(uint64_t)));
	must_cuda("memory for a status", cudaMalloc((void **)&pe->shared.status, sizeof(int)));
	must_cuda("a bare agent", ref_agent_open(&pe->agent));
	pe->shared.dest = (uint64_t *)dest;
	pe->exclusive = pe->shared;
	must(shmd_ctx_gpu_copy(shmd_world_ctx(pe->world), &pe->shared.ctx), "the context of the world");
	must(shmd_ctx_gpu_copy(pe->alone, &pe->exclusive.ctx), "a context of one thread");
}

int main(int argc, char **argv)
{
	static struct pe pe;

	pe.is_floor = argc > 1 && !strcmp(argv[1], "floor");
	choose_gpu();
	open_world(&pe);
	prepare(&pe);
	must(shmd_barrier_all(pe.world), "barrier");
	for (const struct row *row = rows; !shmd_my_pe(pe.world) && row < rows + sizeof(rows) / sizeof(rows[0]); row++)
		run_row(&pe, row);
	must(shmd_barrier_all(pe.world), "barrier");
	must(shmd_ctx_destroy(pe.alone), "end a context");
	must(shmd_world_close(pe.world), "close the world");
	return 0;
}
