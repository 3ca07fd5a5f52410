/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of the two PEs that shmemperf starts: it runs all rows once and PE 0 prints "ROW FIGURE" for each, and "# gpu NAME" and "# gpus NUMBER"
 * before them. Built twice, for this library and for NVSHMEM (shim.h).
 *
 *	shmemperf-ours [rows|floor]	floor: the bare kernels of ../ref in the same memory
 *	shmemperf-ours gpus		no PE: prints the number of GPUs
 *
 * It returns 0, 1 when something failed, and 77 without a GPU. Figures are medians of SLICES.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime.h>

#include "kernels.cuh"

#include "../ref/ref-pair-coll.cuh"
#include "../ref/ref-pair-sum.cuh"
#include "../ref/ref-pair-words.cuh"

#define SLICES 3
#define AREA_BYTES (256ull << 20)
#define WORDS_BYTES 4096ull
#define KIB 1024ull
#define MIB (1024ull * KIB)

/* How a figure comes from the time of n rounds. */
enum kind {
	HALF_TRIP, /* us, of both ways */
	ROUND, /* us */
	RATE, /* million a second; PE 0 alone, timed from outside */
	BANDWIDTH, /* GB/s; the same */
};

struct row {
	const char *name;
	void (*kernel)(struct perf_run);
	void (*floor)(struct ref_pair);
	enum kind kind;
	uint32_t blocks, threads;
	uint64_t bytes;
	uint32_t n;
};

static const struct row rows[] = {
	{"p_ping_pong", perf_ping_pong, ref_ping_pong, HALF_TRIP, 1, 1, 8, 2000},
	{"put_signal_8", perf_put_signal, ref_data_and_flag, HALF_TRIP, 1, 32, 8, 1000},
	{"put_signal_1k", perf_put_signal, ref_data_and_flag, HALF_TRIP, 1, 64, KIB, 1000},
	{"put_signal_16k", perf_put_signal, ref_data_and_flag, HALF_TRIP, 1, 1024, 16 * KIB, 1000},
	{"put_signal_64k", perf_put_signal, ref_data_and_flag, HALF_TRIP, 1, 1024, 64 * KIB, 1000},
	{"barrier", perf_barrier, ref_meet<true>, ROUND, 1, 128, 0, 1000},
	{"sync", perf_sync, ref_meet<false>, ROUND, 1, 128, 0, 1000},
	{"sum_8", perf_sum, ref_sum, ROUND, 1, 32, 8 * sizeof(float), 1000},
	{"sum_1024", perf_sum, ref_sum, ROUND, 1, 512, 1024 * sizeof(float), 1000},
	{"fetch_add", perf_fetch_adds, ref_fetch_add, RATE, 1, 1, 8, 5000},
	{"put_1k", perf_puts, ref_puts, BANDWIDTH, 1, 1024, KIB, 10000},
	{"put_1k_64_threads", perf_puts, ref_puts, BANDWIDTH, 1, 64, KIB, 10000},
	{"put_64k_1_block", perf_puts, ref_puts, BANDWIDTH, 1, 1024, 64 * KIB, 2000},
	{"put_64k_16_blocks", perf_puts, ref_puts, BANDWIDTH, 16, 1024, 64 * KIB, 2000},
	{"put_256m_1_block", perf_puts, ref_puts, BANDWIDTH, 1, 1024, 256 * MIB, 1},
	{"put_256m_4_blocks", perf_puts, ref_puts, BANDWIDTH, 4, 1024, 256 * MIB, 1},
	{"put_256m_16_blocks", perf_puts, ref_puts, BANDWIDTH, 16, 1024, 256 * MIB, 2},
	{"put_256m_32_blocks", perf_puts, ref_puts, BANDWIDTH, 32, 1024, 256 * MIB, 2},
	{"alltoall_64k", perf_alltoall, ref_blocks<false>, ROUND, 1, 512, 64 * KIB, 200},
	{"fcollect_64k", perf_fcollect, ref_blocks<true>, ROUND, 1, 512, 64 * KIB, 200},
	{"sum_16m", perf_sum_large, ref_sum_halves, ROUND, 1, 512, 16 * MIB, 3},
};

/* Memory of this PE, and what its kernels write to. */
struct pe {
	struct perf_env env;
	uint8_t *memory, *peer; /* words, source, own; peer: NULL where it is not asked for */
	uint64_t *nsec;
	uint32_t *bad;
	uint64_t first;
	cudaEvent_t begin, end;
	int me;
	bool is_floor;
};

static void must_cuda(const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "shmemperf-" PERF_SIDE ": %s: %s\n", what, cudaGetErrorString(error));
	exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1);
}

static double now_nsec(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return 1e9 * (double)at.tv_sec + (double)at.tv_nsec;
}

static bool is_of_pe_0(const struct row *row)
{
	return row->kind == RATE || row->kind == BANDWIDTH;
}

static double figure_of(const struct row *row, double nsec)
{
	switch (row->kind) {
	case HALF_TRIP:
		return nsec / row->n / 2e3;
	case ROUND:
		return nsec / row->n / 1e3;
	case RATE:
		return 1e3 * row->n / nsec;
	default:
		return (double)row->bytes * row->n / nsec;
	}
}

static struct perf_run run_of(struct pe *pe, const struct row *row)
{
	struct perf_run run = {};

	run.env = pe->env;
	run.r.own_words = (uint64_t *)pe->memory;
	run.r.peer_words = (uint64_t *)pe->peer;
	run.r.source = pe->memory + WORDS_BYTES;
	run.r.own = run.r.source + AREA_BYTES;
	run.r.peer = pe->peer + WORDS_BYTES + AREA_BYTES;
	run.r.bytes = row->bytes;
	run.r.first = pe->first;
	run.r.me = (uint32_t)pe->me;
	run.r.n = row->n;
	run.r.n_warm = is_of_pe_0(row) ? 0 : 1 + row->n / 10;
	run.r.ret_nsec = pe->nsec;
	run.r.ret_bad = pe->bad;
	/* A collective of the floor has two numbers for each round. */
	pe->first += 2 * (run.r.n_warm + row->n);
	return run;
}

static void launch(const struct pe *pe, const struct row *row, struct perf_run *run)
{
	void *arguments[] = {pe->is_floor ? (void *)&run->r : (void *)run};
	const void *kernel = pe->is_floor ? (const void *)row->floor : (const void *)row->kernel;

	must_cuda(row->name, cudaLaunchKernel(kernel, dim3(row->blocks), dim3(row->threads), arguments, 0, 0));
}

/* From outside, after one that warms up. The other PE only counts. */
static double time_pe_0(struct pe *pe, const struct row *row)
{
	struct perf_run run = run_of(pe, row);
	float ms = 0;

	if (pe->me)
		return 0;
	launch(pe, row, &run);
	must_cuda("note the begin", cudaEventRecord(pe->begin));
	launch(pe, row, &run);
	must_cuda("note the end", cudaEventRecord(pe->end));
	must_cuda(row->name, cudaDeviceSynchronize());
	must_cuda("look at the time", cudaEventElapsedTime(&ms, pe->begin, pe->end));
	return 1e6 * (double)ms;
}

static double time_both(struct pe *pe, const struct row *row)
{
	struct perf_run run = run_of(pe, row);

	*pe->nsec = 0;
	launch(pe, row, &run);
	must_cuda(row->name, cudaDeviceSynchronize());
	return (double)*(volatile uint64_t *)pe->nsec;
}

/* All of PE 1's or of both PEs' results are those of element `at` of the other's source, or the sum. */
static void fill(const struct pe *pe)
{
	uint64_t n = AREA_BYTES / sizeof(float);
	float *values = (float *)malloc(AREA_BYTES);

	for (uint64_t i = 0; i < n; i++)
		values[i] = (float)(i % 1000 + 1000u * (uint32_t)pe->me);
	must_cuda("fill source", cudaMemcpy(pe->memory + WORDS_BYTES, values, AREA_BYTES, cudaMemcpyDefault));
	must_cuda("clear the rest", cudaMemset(pe->memory + WORDS_BYTES + AREA_BYTES, 0, AREA_BYTES));
	free(values);
}

static float float_at(const struct pe *pe, uint64_t offset, uint64_t bytes)
{
	float value = 0;

	must_cuda("look at a result", cudaMemcpy(&value, pe->memory + WORDS_BYTES + offset + (bytes - sizeof(value)), sizeof(value), cudaMemcpyDefault));
	return value;
}

/* The last element of what a row wrote. */
static bool is_right(const struct pe *pe, const struct row *row)
{
	uint64_t n = row->bytes / sizeof(float);
	float one = (float)((n - 1) % 1000), others = 1000.0f * (float)(1 - pe->me);

	if (!strcmp(row->name, "sum_8") || !strcmp(row->name, "sum_1024"))
		return float_at(pe, row->bytes, row->bytes) == 2 * one + 1000;
	if (!strcmp(row->name, "sum_16m"))
		return float_at(pe, AREA_BYTES, row->bytes) == 2 * one + 1000;
	if (row->kernel == perf_put_signal || (row->kernel == perf_puts && pe->me))
		return float_at(pe, AREA_BYTES, row->bytes) == one + others;
	if (row->kernel == perf_fcollect)
		return float_at(pe, AREA_BYTES + row->bytes, row->bytes) == one + 1000;
	return true;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* So that no row is right by the data of a row before it. */
static void clear_results(const struct pe *pe, const struct row *row)
{
	must_cuda("clear the results", cudaMemset(pe->memory + WORDS_BYTES + AREA_BYTES, 0, row->bytes));
	must_cuda("clear the results", cudaDeviceSynchronize());
}

/* Negative: a result or a status was wrong. */
static double median_of_row(struct pe *pe, const struct row *row)
{
	double slices[SLICES];

	clear_results(pe, row);
	for (int i = 0; i < SLICES; i++) {
		perf_host_barrier();
		slices[i] = 0;
		if (!is_of_pe_0(row))
			slices[i] = time_both(pe, row);
		else
			slices[i] = time_pe_0(pe, row);
	}
	perf_host_barrier();
	if (*(volatile uint32_t *)pe->bad || !is_right(pe, row)) {
		fprintf(stderr, "shmemperf-" PERF_SIDE "%s: %s: wrong on PE %d\n", pe->is_floor ? ", floor" : "", row->name, pe->me);
		return -1;
	}
	qsort(slices, SLICES, sizeof(double), compare);
	return figure_of(row, slices[SLICES / 2]);
}

static void print(const struct pe *pe, const char *name, double figure)
{
	if (pe->me)
		return;
	printf("%s %.6g\n", name, figure);
	fflush(stdout);
}

/* ---- rows of the host ------------------------------------------------------------------------------------------------------------ */

#define HOST_BARRIERS 1000
#define BLOCKS 21

static void host_rows(const struct pe *pe)
{
	double begin, each[BLOCKS];
	void *blocks[BLOCKS];

	for (int i = 0; i < HOST_BARRIERS / 10; i++)
		perf_host_barrier();
	begin = now_nsec();
	for (int i = 0; i < HOST_BARRIERS; i++)
		perf_host_barrier();
	print(pe, "host_barrier", (now_nsec() - begin) / HOST_BARRIERS / 1e3);
	for (int i = 0; i < BLOCKS; i++) {
		begin = now_nsec();
		blocks[i] = perf_malloc_plain(MIB);
		each[i] = now_nsec() - begin;
	}
	for (int i = 0; i < BLOCKS; i++)
		perf_free(blocks[i]);
	qsort(each, BLOCKS, sizeof(double), compare);
	print(pe, "malloc_1m", each[BLOCKS / 2] / 1e3);
}

/* ---- begin and end ---------------------------------------------------------------------------------------------------------------- */

static int choose_gpu(void)
{
	const char *rank = getenv("SHMD_NODE_RANK");
	int n = 0;

	must_cuda("count the GPUs", cudaGetDeviceCount(&n));
	must_cuda("choose the GPU", cudaSetDevice(rank ? atoi(rank) % n : 0));
	must_cuda("start the GPU", cudaFree(0));
	return n;
}

static void prepare(struct pe *pe)
{
	struct cudaDeviceProp device;
	int gpu = 0;

	pe->me = perf_me();
	must_cuda("allocate a result", cudaHostAlloc((void **)&pe->nsec, 64, cudaHostAllocMapped));
	memset(pe->nsec, 0, 64);
	pe->bad = (uint32_t *)(pe->nsec + 1);
	pe->memory = (uint8_t *)perf_malloc(WORDS_BYTES + 2 * AREA_BYTES);
	/* Behind the allocation, so that a copy of a context knows the memory. */
	pe->env = perf_env_of(pe->bad);
	must_cuda("make an event", cudaEventCreate(&pe->begin));
	must_cuda("make an event", cudaEventCreate(&pe->end));
	must_cuda("look for the GPU", cudaGetDevice(&gpu));
	must_cuda("look at the GPU", cudaGetDeviceProperties(&device, gpu));
	if (!pe->me)
		printf("# gpu %s\n", device.name);
	fill(pe);
}

static int run_rows(struct pe *pe)
{
	int status = 0;

	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++) {
		double figure = median_of_row(pe, row);

		if (figure < 0)
			status = 1;
		else
			print(pe, row->name, figure);
	}
	return status;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "rows";
	struct pe pe = {};
	int status, n_gpus = choose_gpu();
	double begin = now_nsec();

	if (!strcmp(what, "gpus")) {
		printf("# gpus %d\n", n_gpus);
		return 0;
	}
	perf_open();
	perf_host_barrier();
	begin = now_nsec() - begin;
	if (perf_n() != 2) {
		fprintf(stderr, "shmemperf-" PERF_SIDE ": %d PEs instead of 2\n", perf_n());
		return 1;
	}
	prepare(&pe);
#ifndef SHMEMPERF_NVSHMEM
	pe.is_floor = !strcmp(what, "floor");
	if (pe.is_floor)
		pe.peer = (uint8_t *)perf_peer(pe.env, pe.memory, (void **)(pe.nsec + 2));
	if (pe.is_floor && !pe.peer) {
		fprintf(stderr, "shmemperf-ours: the other PE's memory is not mapped here\n");
		return 1;
	}
#endif
	status = run_rows(&pe);
	if (!pe.is_floor) {
		print(&pe, "world_open", begin / 1e6);
		host_rows(&pe);
	}
	perf_free(pe.memory);
	perf_close();
	return status;
}
