/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C = A B where each PE has some rows of A and some columns of B: an all-gather of A, fused with the product in one kernel.
 *
 * Build and run it while shmemd runs:
 *
 *	nvcc gpu-gemm.cu -o gpu-gemm $(pkg-config --cflags --libs shmemclient)
 *	shmemctl run -n 2 ./gpu-gemm
 *
 * A PE needs all of A for its columns of C. The first blocks of the kernel put the PE's rows into the copies of all others, piece by piece, each
 * with a signal behind. All other blocks compute tiles of C: first those of the PE's own rows, then those of the next PE, and so on, as their
 * pieces arrive. So the product begins at once, and moving hides behind it. Blocks that send wait for nobody, and a GPU starts them
 * first, so tiles may wait however many blocks the GPU runs at once.
 *
 * The numbers are small integers, whose sums are exact in any order, so that the host can compare all of them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <shmd.h>
#include <shmd/dev/pe.h>

#define ROWS 256 /* of A, of each PE */
#define INNER 512 /* columns of A, rows of B */
#define COLUMNS 256 /* of B, of each PE */
#define ROUNDS 5
#define TILE 64 /* rows and columns; one row of tiles is a piece */
#define STEP 16 /* columns of A at a time */
#define PER_THREAD 4 /* rows and columns of a thread */
#define N_THREADS (TILE / PER_THREAD * TILE / PER_THREAD)
#define PIECES (ROWS / TILE)
#define SENDERS 4 /* blocks */

struct product {
	struct shmd_dev_ctx *ctx;
	float *a; /* symmetric: the rows of all PEs */
	uint64_t *arrived; /* symmetric: the round of each piece of each PE */
	float *b, *c; /* of this PE */
	int *status; /* the first failure; memory of the host that kernels see */
	uint64_t round;
	int me, n_pes;
};

/* ---- kernels */

static __device__ void note(const struct product &p, int status)
{
	if (status != SHMD_DEV_OK && threadIdx.x == 0)
		atomicCAS_system(p.status, SHMD_DEV_OK, status);
}

/* To all others, each of which wants this PE's rows in its turn: the PE before this one first. */
static __device__ void send_rows(const struct product &p)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(p.ctx, SHMD_DEV_BLOCK);

	for (int i = (int)blockIdx.x; i < (p.n_pes - 1) * PIECES; i += SENDERS) {
		int to = (p.me + p.n_pes - 1 - i / PIECES) % p.n_pes, piece = p.me * PIECES + i % PIECES;
		float *at = p.a + (size_t)piece * TILE * INNER;
		struct shmd_dev_put_item put = {at, at, TILE * INNER * sizeof(*at), (uint32_t)to};

		note(p, shmd_dev_put_signal_as(p.ctx, put, shmd_dev_pe_signal_of(&p.arrived[piece], SHMD_DEV_SIGNAL_SET, p.round), mode));
	}
}

static __device__ void compute_tile(const float *a, const float *b, float *c)
{
	__shared__ float part_a[STEP][TILE], part_b[STEP][TILE];
	int row = (int)threadIdx.x / (TILE / PER_THREAD) * PER_THREAD, column = (int)threadIdx.x % (TILE / PER_THREAD) * PER_THREAD;
	float sum[PER_THREAD][PER_THREAD] = {};

	for (int from = 0; from < INNER; from += STEP) {
		for (int i = (int)threadIdx.x; i < STEP * TILE; i += N_THREADS) {
			part_a[i % STEP][i / STEP] = a[(size_t)(i / STEP) * INNER + from + i % STEP];
			part_b[i / TILE][i % TILE] = b[(size_t)(from + i / TILE) * COLUMNS + i % TILE];
		}
		__syncthreads();
		for (int k = 0; k < STEP; k++)
			for (int i = 0; i < PER_THREAD; i++)
				for (int j = 0; j < PER_THREAD; j++)
					sum[i][j] += part_a[k][row + i] * part_b[k][column + j];
		__syncthreads();
	}
	for (int i = 0; i < PER_THREAD; i++)
		for (int j = 0; j < PER_THREAD; j++)
			c[(size_t)(row + i) * COLUMNS + column + j] = sum[i][j];
}

/* Block after block takes the next tile, in the order in which pieces arrive. */
static __device__ void compute_tiles(const struct product &p)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(p.ctx, SHMD_DEV_BLOCK);
	const int across = COLUMNS / TILE, n = p.n_pes * PIECES * across;

	for (int i = (int)blockIdx.x - SENDERS; i < n; i += (int)gridDim.x - SENDERS) {
		int piece = (p.me * PIECES + i / across) % (p.n_pes * PIECES), column = i % across * TILE;
		int status = SHMD_DEV_OK;

		if (piece / PIECES != p.me)
			status = shmd_dev_wait_until_as(p.ctx, &p.arrived[piece], 8, SHMD_DEV_CMP_GE, p.round, mode);
		note(p, status);
		/* All threads of the block have the same status. */
		if (status != SHMD_DEV_OK)
			return;
		compute_tile(p.a + (size_t)piece * TILE * INNER, p.b + column, p.c + (size_t)piece * TILE * COLUMNS + column);
	}
}

static __global__ void __launch_bounds__(N_THREADS) gather_and_multiply(const struct product p)
{
	if (blockIdx.x < SENDERS)
		send_rows(p);
	else
		compute_tiles(p);
}

/* ---- the host */

static void cuda(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static void must(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s\n", shmd_error_text());
	exit(1);
}

/* Numbers from -3 to 3: a sum of INNER products is below 2^24. */
static float value_a(uint64_t round, int row, int column)
{
	return (float)((int)((round * 7919 + (uint64_t)row * 31 + (uint64_t)column * 17 + (uint64_t)row * column) % 7) - 3);
}

static float value_b(int pe, int row, int column)
{
	return (float)((pe * 5 + row * 13 + column * 29 + row * column) % 7 - 3);
}

static void fill_rows(const struct product *p)
{
	static float rows[ROWS][INNER];

	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < INNER; k++)
			rows[i][k] = value_a(p->round, p->me * ROWS + i, k);
	cuda(cudaMemcpy(p->a + (size_t)p->me * ROWS * INNER, rows, sizeof(rows), cudaMemcpyHostToDevice), "fill A");
}

static void fill_columns(const struct product *p)
{
	static float columns[INNER][COLUMNS];

	for (int k = 0; k < INNER; k++)
		for (int j = 0; j < COLUMNS; j++)
			columns[k][j] = value_b(p->me, k, j);
	cuda(cudaMemcpy(p->b, columns, sizeof(columns), cudaMemcpyHostToDevice), "fill B");
}

/* A row of C, by the CPU. */
static void multiply_row(const struct product *p, int row, float *to)
{
	for (int j = 0; j < COLUMNS; j++)
		to[j] = 0;
	for (int k = 0; k < INNER; k++) {
		float a = value_a(p->round, row, k);

		for (int j = 0; j < COLUMNS; j++)
			to[j] += a * value_b(p->me, k, j);
	}
}

static long count_wrong(const struct product *p)
{
	size_t n = (size_t)p->n_pes * ROWS * COLUMNS;
	float *found = (float *)malloc(n * sizeof(*found)), wanted[COLUMNS];
	long n_wrong = 0;

	if (!found) {
		fprintf(stderr, "no memory\n");
		exit(1);
	}
	cuda(cudaMemcpy(found, p->c, n * sizeof(*found), cudaMemcpyDeviceToHost), "read C");
	for (int i = 0; i < p->n_pes * ROWS; i++) {
		multiply_row(p, i, wanted);
		for (int j = 0; j < COLUMNS; j++)
			n_wrong += found[(size_t)i * COLUMNS + j] != wanted[j];
	}
	free(found);
	return n_wrong;
}

static void prepare(struct shmd_world *world, struct product *p)
{
	void *a, *arrived;
	uint64_t ctx;

	p->me = shmd_my_pe(world);
	p->n_pes = shmd_n_pes(world);
	must(shmd_malloc(world, (size_t)p->n_pes * ROWS * INNER * sizeof(float), SHMD_HINT_GPU, &a));
	must(shmd_calloc(world, (size_t)p->n_pes * PIECES, sizeof(uint64_t), SHMD_HINT_GPU, &arrived));
	must(shmd_ctx_gpu_dev(shmd_world_ctx(world), &ctx));
	p->ctx = (struct shmd_dev_ctx *)ctx;
	p->a = (float *)a;
	p->arrived = (uint64_t *)arrived;
	cuda(cudaMalloc((void **)&p->b, (size_t)INNER * COLUMNS * sizeof(float)), "allocate B");
	cuda(cudaMalloc((void **)&p->c, (size_t)p->n_pes * ROWS * COLUMNS * sizeof(float)), "allocate C");
	cuda(cudaHostAlloc((void **)&p->status, sizeof(*p->status), cudaHostAllocMapped), "allocate a status");
	*p->status = SHMD_DEV_OK;
	fill_columns(p);
}

/* The number of wrong elements, or -1. */
static long run_round(struct shmd_world *world, const struct product *p)
{
	const int n_tiles = p->n_pes * PIECES * (COLUMNS / TILE);

	fill_rows(p);
	cuda(cudaMemset(p->c, 0xff, (size_t)p->n_pes * ROWS * COLUMNS * sizeof(float)), "clear C");
	cuda(cudaDeviceSynchronize(), "clear C");
	/* Until now others may have computed with the rows of the last round. */
	must(shmd_barrier_all(world));
	gather_and_multiply<<<SENDERS + n_tiles, N_THREADS>>>(*p);
	cuda(cudaGetLastError(), "launch");
	cuda(cudaDeviceSynchronize(), "compute");
	if (*p->status == SHMD_DEV_OK)
		return count_wrong(p);
	fprintf(stderr, "PE %d: a kernel returned status %d\n", p->me, *p->status);
	return -1;
}

/* 0 if all is right. */
static int run(struct shmd_world *world)
{
	struct product p = {};
	long n_wrong = 0, of_round;

	prepare(world, &p);
	for (p.round = 1; p.round <= ROUNDS; p.round++) {
		of_round = run_round(world, &p);
		if (of_round < 0)
			return 1;
		n_wrong += of_round;
	}
	must(shmd_barrier_all(world));
	printf("PE %d of %d: %d products of %d x %d by %d x %d: %ld elements are wrong\n", p.me, p.n_pes, ROUNDS, p.n_pes * ROWS, INNER, INNER,
	       COLUMNS, n_wrong);
	return n_wrong != 0;
}

/* PEs of a node take its GPUs in turn. */
static void choose_gpu(void)
{
	const char *rank = getenv("SHMD_NODE_RANK");
	int n = 0;

	cuda(cudaGetDeviceCount(&n), "count the GPUs");
	cuda(cudaSetDevice(rank ? atoi(rank) % n : 0), "choose the GPU");
	cuda(cudaFree(0), "start the GPU");
}

int main(void)
{
	struct shmd_world_attr attr = {};
	struct shmd_world *world;
	int failed;

	choose_gpu();
	attr.gpu = "current";
	must(shmd_world_open(&attr, &world));
	must(shmd_world_start(world));
	failed = run(world);
	must(shmd_world_close(world));
	return failed;
}
