/* SPDX-License-Identifier: Apache-2.0 */
/* The body of shim.h on NVIDIA's NVSHMEM, through its public interface. PEs find each other by a unique id in the file that SHMEMPERF_ID names. */
#ifndef SHMEMPERF_SHIM_NVSHMEM_H
#define SHMEMPERF_SHIM_NVSHMEM_H

#include <stdio.h>
#include <time.h>

#include <nvshmem.h>
#include <nvshmemx.h>

#define PERF_SIDE "nvshmem"

struct perf_env {
	uint32_t *bad; /* never raised: these calls have no status */
};

/* ---- in kernels -------------------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void perf_p(const struct perf_env &, uint64_t *dest, uint64_t value, int pe)
{
	nvshmem_uint64_p(dest, value, pe);
}

static __device__ __forceinline__ void perf_await(const struct perf_env &, uint64_t *word, uint64_t value)
{
	nvshmem_signal_wait_until(word, NVSHMEM_CMP_GE, value);
}

static __device__ __forceinline__ uint64_t perf_fetch_add(const struct perf_env &, uint64_t *dest, uint64_t value, int pe)
{
	return nvshmem_uint64_atomic_fetch_add(dest, value, pe);
}

static __device__ __forceinline__ void perf_quiet(const struct perf_env &)
{
	nvshmem_quiet();
}

static __device__ __forceinline__ void perf_put_block(const struct perf_env &, void *dest, const void *source, uint64_t bytes, int pe)
{
	nvshmemx_putmem_block(dest, source, bytes, pe);
}

static __device__ __forceinline__ void perf_put_signal_block(const struct perf_env &, void *dest, const void *source, uint64_t bytes,
							     uint64_t *word, uint64_t value, int pe)
{
	nvshmemx_putmem_signal_block(dest, source, bytes, word, value, NVSHMEM_SIGNAL_SET, pe);
}

static __device__ __forceinline__ void perf_barrier_block(const struct perf_env &)
{
	nvshmemx_barrier_all_block();
}

static __device__ __forceinline__ void perf_sync_block(const struct perf_env &)
{
	nvshmemx_sync_all_block();
}

static __device__ __forceinline__ void perf_sum_block(const struct perf_env &, float *dest, const float *source, uint64_t n)
{
	nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, dest, source, n);
}

static __device__ __forceinline__ void perf_alltoall_block(const struct perf_env &, void *dest, const void *source, uint64_t bytes)
{
	nvshmemx_alltoallmem_block(NVSHMEM_TEAM_WORLD, dest, source, bytes);
}

static __device__ __forceinline__ void perf_fcollect_block(const struct perf_env &, void *dest, const void *source, uint64_t bytes)
{
	nvshmemx_fcollectmem_block(NVSHMEM_TEAM_WORLD, dest, source, bytes);
}

/* ---- on the host: failures end the program -------------------------------------------------------------------------------------- */

static void perf_must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "shmemperf-nvshmem: %s failed\n", what);
	exit(1);
}

static void perf_id_write(const char *path, const nvshmemx_uniqueid_t *id)
{
	char beside[4096];
	FILE *file;

	snprintf(beside, sizeof(beside), "%s.new", path);
	file = fopen(beside, "w");
	perf_must(file && fwrite(id, sizeof(*id), 1, file) == 1 && !fclose(file), "write the unique id");
	perf_must(!rename(beside, path), "name the unique id");
}

static void perf_id_read(const char *path, nvshmemx_uniqueid_t *id)
{
	const struct timespec pause = {0, 200000};
	FILE *file = NULL;

	for (int i = 0; i < 50000 && !file; i++) {
		file = fopen(path, "r");
		if (!file)
			nanosleep(&pause, NULL);
	}
	perf_must(file && fread(id, sizeof(*id), 1, file) == 1, "read the unique id");
	fclose(file);
}

/* The GPU of the caller is chosen. */
static void perf_open(void)
{
	const char *rank = getenv("SHMD_RANK"), *path = getenv("SHMEMPERF_ID");
	nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
	nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;

	perf_must(rank && path, "starting without shmemperf");
	if (atoi(rank)) {
		perf_id_read(path, &id);
	} else {
		perf_must(!nvshmemx_get_uniqueid(&id), "make a unique id");
		perf_id_write(path, &id);
	}
	nvshmemx_set_attr_uniqueid_args(atoi(rank), 2, &id, &attr);
	perf_must(!nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr), "initialize");
	/* Several PEs of a GPU whose MPS shares are more than 100 % together may not wait for each other. */
	perf_must(nvshmemx_init_status() != NVSHMEM_STATUS_LIMITED_MPG, "initialize with PEs that may wait for each other");
}

static struct perf_env perf_env_of(uint32_t *bad)
{
	struct perf_env env = {bad};

	return env;
}

static int perf_me(void)
{
	return nvshmem_my_pe();
}

static int perf_n(void)
{
	return nvshmem_n_pes();
}

static void *perf_malloc(uint64_t bytes)
{
	void *memory = nvshmem_calloc(1, bytes);

	perf_must(memory, "allocate GPU memory");
	return memory;
}

static void *perf_malloc_plain(uint64_t bytes)
{
	void *memory = nvshmem_malloc(bytes);

	perf_must(memory, "allocate GPU memory");
	return memory;
}

static void perf_free(void *memory)
{
	nvshmem_free(memory);
}

static void perf_host_barrier(void)
{
	nvshmem_barrier_all();
}

static void perf_close(void)
{
	nvshmem_finalize();
}

#endif
