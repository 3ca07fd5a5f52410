/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem-queue-ops MINOR WAY: a PE of a job whose PEs do not map each other, which calls what kernels of the runtime carry out there: syncs, words and
 * collectives on streams, and collectives and atomics of the host. test-nvshmem-queues.py starts it.
 *
 * ops: kernels run in the thread that launches them. kernelless: a driver that has none of them.
 */
#include <string.h>
#include <unistd.h>

#include "tests/lib/fake-cuda.h"
#include "tests/lib/fake-kernels.h"
#include "tests/nvshmem/device-library.h"

#define SIGNAL_SET 9
#define SIGNAL_ADD 10
#define LARGE 100000u /* more than a kernel moves between PEs that are mapped */

extern int cuStreamCreate(stream_t *stream, unsigned int flags);

static int me, n, right, left;
static stream_t stream;

static void begin(void)
{
	CHECK(device_library_init(0, NULL) == 0 && host.nvshmemid_init_status() == 2);
	me = host.nvshmem_my_pe();
	n = host.nvshmem_n_pes();
	right = (me + 1) % n;
	left = (me + n - 1) % n;
	CHECK(!cuStreamCreate(&stream, 1));
}

static void *new_memory(size_t bytes)
{
	void *memory = host.nvshmem_calloc(1, bytes);

	CHECK(memory && !host.nvshmem_ptr(memory, right));
	return memory;
}

static void syncs(void)
{
	int32_t team = NVS_TEAM_INVALID;
	uint64_t *words = new_memory(64);

	CHECK(host.nvshmem_team_split_strided(NVS_TEAM_WORLD, 0, 1, 2, NULL, 0, &team) == 0 && (team != NVS_TEAM_INVALID) == (me < 2));
	for (uint64_t i = 0; i < 2; i++) {
		words[1] = i + 1;
		host.nvshmemx_putmem_on_stream(&words[0], &words[1], 8, right, stream);
		host.nvshmemx_barrier_all_on_stream(stream);
		CHECK(words[0] == i + 1);
		CHECK(host.nvshmemx_team_sync_on_stream(NVS_TEAM_WORLD, stream) == 0 && host.nvshmemx_barrier_on_stream(NVS_TEAM_WORLD, stream) == 0);
		CHECK(me > 1 || host.nvshmemx_team_sync_on_stream(team, stream) == 0);
	}
	fake_cuda_capture(1);
	CHECK(host.nvshmemx_team_sync_on_stream(NVS_TEAM_WORLD, stream) == 0);
	fake_cuda_capture(0);
	host.nvshmem_team_destroy(team);
}

static void words_on_streams(void)
{
	uint64_t *words = new_memory(4096);
	short *shorts = (short *)(void *)&words[16], *from = shorts + 100;

	words[0] = 70u + (uint64_t)me;
	host.nvshmem_barrier_all();
	host.nvshmemx_putmem_signal_on_stream(&words[1], &words[0], 8, &words[2], 5, SIGNAL_SET, right, stream);
	host.nvshmemx_signal_wait_until_on_stream(&words[2], 5, 5, stream);
	CHECK(words[1] == 70u + (uint64_t)left);
	host.nvshmemx_signal_op_on_stream(&words[2], 4, SIGNAL_ADD, right, stream);
	/* A kernel waits: streams that wait by the driver keep the agent from the GPU. */
	fake_cuda_fail_after("cuStreamWaitValue64_v2", 1, 0, 1);
	host.nvshmemx_signal_wait_until_on_stream(&words[2], 5, 9, stream);
	CHECK(!fake_cuda_failed());
	fake_cuda_fail_after("", 0, 0, 0);
	CHECK(words[2] == 9);
	host.nvshmemx_double_p_on_stream((double *)(void *)&words[3], 1.5 + me, right, stream);
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(host.nvshmemx_double_g_on_stream((double *)(void *)&words[3], right, stream) == 1.5 + me);
	for (short i = 0; i < 6; i++)
		from[i] = (short)(100 * me + i);
	host.nvshmem_barrier_all();
	host.nvshmemx_iget16_on_stream(shorts, from, 2, 1, 3, right, stream);
	CHECK(shorts[0] == 100 * right && shorts[1] == 0 && shorts[2] == 100 * right + 1 && shorts[4] == 100 * right + 2);
	host.nvshmemx_int_iput_on_stream((int *)(void *)&words[5], (int *)(void *)from, 2, 1, 2, right, stream);
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(((short *)(void *)&words[5])[0] == 100 * left && ((short *)(void *)&words[5])[4] == 100 * left + 2);
	/* No put without its signal. */
	host.nvshmemx_putmem_signal_on_stream(&words[7], &words[0], 8, &words[8], 1, 77, me, stream);
	CHECK(words[7] == 0 && words[8] == 0);
	host.nvshmem_barrier_all();
}

/* PE i has i + 1. */
static int sum(void)
{
	return n * (n + 1) / 2;
}

static void collectives_on_streams(void)
{
	char *data = new_memory(8 * LARGE);
	int *ints = new_memory(400);

	memset(data, me + 1, 2 * LARGE);
	ints[0] = me + 1;
	for (int i = 0; i < 5 * n; i++)
		ints[20 + i] = me + i;
	host.nvshmem_barrier_all();
	for (size_t bytes = 100; bytes <= LARGE; bytes *= 1000) {
		CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, data + 2 * LARGE, data, bytes, n - 1, stream) == 0);
		CHECK(data[2 * LARGE] == n && data[2 * LARGE + bytes - 1] == n);
		CHECK(host.nvshmemx_char_fcollect_on_stream(NVS_TEAM_WORLD, data + 3 * LARGE, data, bytes, stream) == 0);
		CHECK(data[3 * LARGE + (size_t)right * bytes] == right + 1 && data[3 * LARGE + (size_t)n * bytes - 1] == n);
		CHECK(host.nvshmemx_alltoallmem_on_stream(NVS_TEAM_WORLD, data + 3 * LARGE, data, bytes / 2, stream) == 0);
		CHECK(data[3 * LARGE + (size_t)left * (bytes / 2)] == left + 1);
		host.nvshmemx_barrier_all_on_stream(stream);
	}
	CHECK(host.nvshmemx_int_sum_reduce_on_stream(NVS_TEAM_WORLD, ints + 1, ints, 1, stream) == 0 && ints[1] == sum());
	CHECK(host.nvshmemx_int_sum_reducescatter_on_stream(NVS_TEAM_WORLD, ints + 10, ints + 20, 5, stream) == 0);
	CHECK(ints[14] == sum() - n + n * (5 * me + 4));
	host.nvshmem_barrier_all();
}

static void collectives_of_the_host(void)
{
	float *reals = new_memory(LARGE * sizeof(*reals));
	uint64_t *words = new_memory(64 * 8), own[2] = {0};
	int *ints = (int *)(void *)&words[40];

	reals[0] = reals[LARGE / 2 - 1] = 0.5f + (float)me;
	words[0] = 10u + (uint64_t)me;
	ints[0] = me + 1;
	CHECK(host.nvshmem_float_broadcast(NVS_TEAM_WORLD, reals + LARGE / 2, reals, LARGE / 2, n - 1) == 0);
	CHECK(reals[LARGE / 2] == 0.5f + (float)(n - 1) && reals[LARGE - 1] == 0.5f + (float)(n - 1));
	CHECK(host.nvshmem_uint64_fcollect(NVS_TEAM_WORLD, words + 8, words, 1) == 0);
	for (int pe = 0; pe < n; pe++)
		CHECK(words[8 + pe] == 10u + (uint64_t)pe);
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_WORLD, ints + 1, ints, 1) == 0 && ints[1] == sum());
	/* A member that cannot keeps nobody waiting; a wrong root is refused on all. */
	CHECK(host.nvshmem_uint64_fcollect(NVS_TEAM_WORLD, words + 8, me ? words : own, 1) == (me ? 7 : 1));
	CHECK(host.nvshmem_float_broadcast(NVS_TEAM_WORLD, reals, reals, 1, n) == 1);
	host.nvshmem_barrier_all();
}

/* All PEs on the words of PE 0. */
static void atomics_of_the_host(void)
{
	uint64_t *words = new_memory(64);
	int *narrow = (int *)(void *)&words[4];

	host.nvshmem_sync_all();
	for (int i = 0; i < 20; i++) {
		host.nvshmem_uint64_atomic_inc(&words[0], 0);
		host.nvshmem_int_atomic_add(&narrow[1], -2, 0);
	}
	host.nvshmem_barrier_all();
	CHECK(host.nvshmem_uint64_atomic_fetch(&words[0], 0) == 20u * (unsigned int)n);
	CHECK(me || (words[0] == 20u * (unsigned int)n && narrow[1] == -40 * n && narrow[0] == 0));
	CHECK(host.nvshmem_int64_atomic_compare_swap((int64_t *)&words[1], 0, -7, right) == 0);
	CHECK(host.nvshmem_int64_atomic_compare_swap((int64_t *)&words[1], -7, 8, right) == -7);
	host.nvshmem_barrier_all();
	CHECK(words[1] == 8);
}

static void ops(void)
{
	fake_kernels_add();
	begin();
	syncs();
	words_on_streams();
	collectives_on_streams();
	collectives_of_the_host();
	atomics_of_the_host();
	device_library_finalize();
	CHECK(fake_cuda_counts().modules == 0);
}

/* All that needs a kernel fails on all PEs at once, and changes nothing. */
static void kernelless(void)
{
	uint64_t *words;

	begin();
	words = new_memory(512);
	words[0] = 3;
	host.nvshmem_barrier_all();
	CHECK(host.nvshmemx_barrier_on_stream(NVS_TEAM_WORLD, stream) == 3);
	CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, words + 1, words, 8, 0, stream) == 3);
	CHECK(host.nvshmem_uint64_fcollect(NVS_TEAM_WORLD, words + 8, words, 1) == 3);
	host.nvshmemx_putmem_signal_on_stream(&words[1], &words[0], 8, &words[2], 5, SIGNAL_SET, right, stream);
	host.nvshmemx_signal_op_on_stream(&words[2], 5, SIGNAL_SET, right, stream);
	host.nvshmem_barrier_all();
	CHECK(words[1] == 0 && words[2] == 0 && words[8] == 0);
	device_library_finalize();
}

int main(int argc, char **argv)
{
	static const struct way ways[] = {{"ops", ops}, {"kernelless", kernelless}};

	(void)argc;
	return device_library_main(argv, ways, sizeof(ways) / sizeof(ways[0]), NULL);
}
