/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat spreads over a plate in GPU memory whose rows are divided among the PEs: a halo exchange by kernels.
 *
 * Build and run it while shmemd runs:
 *
 *	nvcc gpu-halo.cu -o gpu-halo $(pkg-config --cflags --libs shmemclient)
 *	shmemctl run -n 2 ./gpu-halo
 *
 * Each PE has a band of rows, and above and below it a row of its neighbours, the halo. A step is one kernel. Its first two blocks have the outer
 * rows of the band: they wait for the halo, compute, and put the new row into the neighbour's halo with a signal behind; all other blocks
 * compute meanwhile. The host launches all steps at once and takes no part in the exchange.
 *
 * Two fields are used in turn. A neighbour can be one step ahead, because it waits for this PE's rows of the next step; the block that sends
 * a row has read the halo before. So no step needs a barrier. At the end each PE computes the whole plate by itself and compares, digit for digit.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <shmd.h>
#include <shmd/dev/pe.h>

#define COLUMNS 512
#define ROWS 512 /* of the plate, without its edge */
#define STEPS 200
#define N_THREADS 256
#define INNER_BLOCKS 30
#define HOT 100.0f

/* Room for the whole plate on each PE, so that a row has the same address everywhere. A PE touches its band and halo only. */
struct memory {
	float field[2][ROWS + 2][COLUMNS];
	uint64_t steps[2]; /* signals: the halo of so many steps came from there */
};

enum side {
	FROM_ABOVE = 0,
	FROM_BELOW = 1,
};

struct band {
	struct shmd_dev_ctx *ctx;
	struct memory *memory;
	int *status; /* the first failure; memory of the host that kernels see */
	int first, last; /* rows of the plate, from 1 */
	int above, below; /* PEs, or -1 at the edge of the plate */
};

/* ---- kernels */

static __device__ void note(const struct band &band, int status)
{
	if (status != SHMD_DEV_OK && threadIdx.x == 0)
		atomicCAS_system(band.status, SHMD_DEV_OK, status);
}

static __device__ void compute(const struct band &band, int row, uint64_t step)
{
	const float (*from)[COLUMNS] = band.memory->field[step % 2];
	float *to = band.memory->field[(step + 1) % 2][row];

	for (int j = 1 + threadIdx.x; j < COLUMNS - 1; j += blockDim.x)
		to[j] = (from[row - 1][j] + from[row + 1][j] + from[row][j - 1] + from[row][j + 1]) / 4;
	__syncthreads();
}

static __device__ void wait_halo(const struct band &band, int pe, enum side side, uint64_t step)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(band.ctx, SHMD_DEV_BLOCK);

	/* All PEs begin with the same plate. */
	if (pe >= 0 && step > 0)
		note(band, shmd_dev_wait_until_as(band.ctx, &band.memory->steps[side], 8, SHMD_DEV_CMP_GE, step, mode));
}

static __device__ void send(const struct band &band, int pe, enum side side, int row, uint64_t step)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(band.ctx, SHMD_DEV_BLOCK);
	float *at = band.memory->field[(step + 1) % 2][row];
	struct shmd_dev_put_item put = {at, at, COLUMNS * sizeof(*at), (uint32_t)pe};

	if (pe >= 0)
		note(band, shmd_dev_put_signal_as(band.ctx, put, shmd_dev_pe_signal_of(&band.memory->steps[side], SHMD_DEV_SIGNAL_SET, step + 1), mode));
}

/* The first or the last row of the band, or both in one. */
static __device__ void outer_row(const struct band &band, int row, uint64_t step)
{
	if (row == band.first)
		wait_halo(band, band.above, FROM_ABOVE, step);
	if (row == band.last)
		wait_halo(band, band.below, FROM_BELOW, step);
	compute(band, row, step);
	if (row == band.first)
		send(band, band.above, FROM_BELOW, row, step);
	if (row == band.last)
		send(band, band.below, FROM_ABOVE, row, step);
}

static __global__ void one_step(const struct band band, uint64_t step)
{
	/* After a failure nobody waits any more. */
	if (*(volatile int *)band.status != SHMD_DEV_OK)
		return;
	if (blockIdx.x == 0)
		outer_row(band, band.first, step);
	else if (blockIdx.x == 1 && band.last > band.first)
		outer_row(band, band.last, step);
	for (int row = band.first + (int)blockIdx.x - 1; blockIdx.x > 1 && row < band.last; row += (int)gridDim.x - 2)
		compute(band, row, step);
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

static void heat_edge(float (*field)[COLUMNS])
{
	for (int j = 0; j < COLUMNS; j++)
		field[0][j] = HOT;
}

static int first_row(int pe, int n_pes)
{
	return 1 + (int)((long)ROWS * pe / n_pes);
}

static void prepare(struct shmd_world *world, struct band *band)
{
	static float plate[ROWS + 2][COLUMNS];
	int me = shmd_my_pe(world), n_pes = shmd_n_pes(world);
	uint64_t ctx;
	void *memory;

	if (n_pes > ROWS) {
		fprintf(stderr, "%d PEs are too many for %d rows\n", n_pes, ROWS);
		exit(1);
	}
	must(shmd_calloc(world, 1, sizeof(*band->memory), SHMD_HINT_GPU, &memory));
	must(shmd_ctx_gpu_dev(shmd_world_ctx(world), &ctx));
	band->ctx = (struct shmd_dev_ctx *)ctx;
	band->memory = (struct memory *)memory;
	band->first = first_row(me, n_pes);
	band->last = first_row(me + 1, n_pes) - 1;
	band->above = me - 1;
	band->below = me + 1 < n_pes ? me + 1 : -1;
	cuda(cudaHostAlloc((void **)&band->status, sizeof(*band->status), cudaHostAllocMapped), "allocate a status");
	*band->status = SHMD_DEV_OK;
	heat_edge(plate);
	for (int i = 0; i < 2; i++)
		cuda(cudaMemcpy(band->memory->field[i], plate, sizeof(plate), cudaMemcpyHostToDevice), "heat the edge");
	must(shmd_barrier_all(world));
}

/* The whole plate, by the CPU. */
static float (*reference(void))[COLUMNS]
{
	static float field[2][ROWS + 2][COLUMNS];

	heat_edge(field[0]);
	heat_edge(field[1]);
	for (int step = 0; step < STEPS; step++) {
		const float (*from)[COLUMNS] = field[step % 2];

		for (int i = 1; i <= ROWS; i++)
			for (int j = 1; j < COLUMNS - 1; j++)
				field[(step + 1) % 2][i][j] = (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]) / 4;
	}
	return field[STEPS % 2];
}

static long count_wrong(const struct band *band)
{
	static float found[ROWS + 2][COLUMNS];
	float (*wanted)[COLUMNS] = reference();
	long n_wrong = 0;

	cuda(cudaMemcpy(found, band->memory->field[STEPS % 2], sizeof(found), cudaMemcpyDeviceToHost), "read the field");
	for (int i = band->first; i <= band->last; i++)
		for (int j = 0; j < COLUMNS; j++)
			n_wrong += found[i][j] != wanted[i][j];
	return n_wrong;
}

/* 0 if the band is right. */
static int run(struct shmd_world *world)
{
	struct band band;
	long n_wrong;

	prepare(world, &band);
	for (uint64_t step = 0; step < STEPS; step++)
		one_step<<<2 + INNER_BLOCKS, N_THREADS>>>(band, step);
	cuda(cudaGetLastError(), "launch");
	cuda(cudaDeviceSynchronize(), "compute");
	if (*band.status != SHMD_DEV_OK) {
		fprintf(stderr, "PE %d: a kernel returned status %d\n", shmd_my_pe(world), *band.status);
		return 1;
	}
	n_wrong = count_wrong(&band);
	must(shmd_barrier_all(world));
	printf("PE %d of %d: %d steps of rows %d to %d: %ld values are wrong\n", shmd_my_pe(world), shmd_n_pes(world), STEPS, band.first, band.last,
	       n_wrong);
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
