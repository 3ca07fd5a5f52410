/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self-test of a queue from a GPU: one block drives a QP whose peer is its own process and looks at every effect.
 *
 * Launched with one block of a multiple of 32 threads, at most 1024, on a QP of sharing BLOCK or GPU; or with one warp on
 * one of sharing EXCLUSIVE, for the one step in which a single thread uses the QP. Memory is three
 * areas of SHMD_SELFTEST_BLOCK_BYTES: source, destination, words. Every step ends with the block's agreement on its
 * status, so all threads leave together.
 */
#include <shmd/dev/rma.h>

#include "kernels.h"

/* The words area: 64-bit counters and signals first, then one 64-bit word for each thread. */
#define WORD_TICKET64 0u
#define WORD_TICKET32 1u
#define WORD_SIGNAL 2u
#define WORD_OF_THREADS 16u

struct selftest {
	struct shmd_selftest_args args;
	uint32_t thread;
	uint32_t n_threads;
};

static __device__ uint8_t pattern(uint64_t i, uint32_t seed)
{
	return (uint8_t)(i * 7 + (i >> 8) + seed * 131);
}

static __device__ struct shmd_dev_addr at(struct shmd_dev_addr addr, uint64_t offset)
{
	addr.iova += offset;
	return addr;
}

static __device__ uint64_t word_offset(uint32_t i)
{
	return 2ull * SHMD_SELFTEST_BLOCK_BYTES + i * 8ull;
}

static __device__ uint64_t *word(const struct selftest *t, uint32_t i)
{
	return (uint64_t *)(t->args.memory + word_offset(i));
}

static __device__ void fill(const struct selftest *t, uint64_t offset, uint32_t seed)
{
	uint64_t i;

	for (i = t->thread; i < SHMD_SELFTEST_BLOCK_BYTES; i += t->n_threads)
		t->args.memory[offset + i] = pattern(i, seed);
	__syncthreads();
}

/* Loads past the cache: the NIC wrote. */
static __device__ void check(const struct selftest *t, uint64_t offset, uint32_t seed)
{
	uint64_t i, n_wrong = 0;

	for (i = t->thread; i < SHMD_SELFTEST_BLOCK_BYTES / 8; i += t->n_threads) {
		const uint64_t *p = (const uint64_t *)(t->args.memory + offset) + i;
		uint64_t v = shmdi_word_load64(p);
		uint32_t b;

		for (b = 0; b < 8; b++)
			n_wrong += (uint8_t)(v >> 8 * b) != pattern(i * 8 + b, seed);
	}
	if (n_wrong)
		atomicAdd((unsigned long long *)&t->args.result->n_wrong, n_wrong);
	__syncthreads();
}

static __device__ void expect(const struct selftest *t, uint64_t a, uint64_t b)
{
	if (a != b)
		atomicAdd((unsigned long long *)&t->args.result->n_wrong, 1ull);
}

/* The worst status of the block, to all; records the first step that failed. */
static __device__ int agree(const struct selftest *t, int status, enum shmd_selftest_step step,
			    uint32_t n_operations)
{
	int failed = __syncthreads_or(status != SHMD_DEV_OK);

	if (status)
		atomicCAS(&t->args.result->status, SHMD_DEV_OK, status);
	if (t->thread == 0 && failed)
		t->args.result->step = step;
	if (t->thread == 0 && !failed)
		t->args.result->n_operations += n_operations;
	__syncthreads();
	return failed;
}

/* On a DCI threads and warps take turns with the peers. */
static __device__ const struct shmd_dev_peer *peer_of(const struct selftest *t, uint8_t scope)
{
	uint32_t turn = scope == SHMD_DEV_THREAD ? t->thread : scope == SHMD_DEV_WARP ? t->thread / 32 : 0;

	return t->args.peers ? &t->args.peers[turn % t->args.n_peers] : NULL;
}

static __device__ struct shmd_dev_mode mode_of(const struct selftest *t, uint8_t scope)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(t->args.qp, t->args.timeout_nsec);

	mode.scope = scope;
	return shmd_dev_mode_to(mode, peer_of(t, scope));
}

static __device__ int test_put(const struct selftest *t)
{
	int rc;

	fill(t, 0, 1);
	rc = shmd_dev_qp_put_as(t->args.qp, at(t->args.remote, SHMD_SELFTEST_BLOCK_BYTES),
				t->args.local, SHMD_SELFTEST_BLOCK_BYTES,
				mode_of(t, SHMD_DEV_BLOCK));
	if (agree(t, rc, SHMD_SELFTEST_PUT, 1))
		return 1;
	check(t, SHMD_SELFTEST_BLOCK_BYTES, 1);
	return 0;
}

static __device__ int test_get(const struct selftest *t)
{
	int rc;

	fill(t, SHMD_SELFTEST_BLOCK_BYTES, 2);
	rc = shmd_dev_qp_get_as(t->args.qp, at(t->args.remote, SHMD_SELFTEST_BLOCK_BYTES),
				t->args.local, SHMD_SELFTEST_BLOCK_BYTES,
				mode_of(t, SHMD_DEV_BLOCK));
	if (agree(t, rc, SHMD_SELFTEST_GET, 1))
		return 1;
	check(t, 0, 2);
	return 0;
}

/* Each warp puts its part and adds to the signal; the block waits for all of them. */
static __device__ int test_warps(const struct selftest *t)
{
	uint32_t n_warps = t->n_threads / 32, warp = t->thread / 32;
	uint64_t part = SHMD_SELFTEST_BLOCK_BYTES / n_warps / 8 * 8, from = warp * part;
	struct shmd_dev_signal signal = shmd_dev_signal_of(
		at(t->args.remote, word_offset(WORD_SIGNAL)), SHMD_DEV_SIGNAL_ADD, 1);
	int rc;

	fill(t, 0, 3);
	if (warp == n_warps - 1)
		part = SHMD_SELFTEST_BLOCK_BYTES - from;
	rc = shmd_dev_qp_put_signal_nbi_as(
		t->args.qp, at(t->args.remote, SHMD_SELFTEST_BLOCK_BYTES + from),
		at(t->args.local, from), part, signal, mode_of(t, SHMD_DEV_WARP));
	if (agree(t, rc, SHMD_SELFTEST_WARPS, 2 * n_warps))
		return 1;
	rc = shmd_dev_qp_wait_until64_as(t->args.qp, word(t, WORD_SIGNAL), SHMD_DEV_CMP_EQ, n_warps,
					 mode_of(t, SHMD_DEV_BLOCK));
	if (agree(t, rc, SHMD_SELFTEST_WARPS, 0))
		return 1;
	check(t, SHMD_SELFTEST_BLOCK_BYTES, 3);
	return 0;
}

static __device__ int test_threads(const struct selftest *t)
{
	struct shmd_dev_addr mine = at(t->args.remote, word_offset(WORD_OF_THREADS + t->thread));
	uint64_t value = 0x0102030405060708ull * (t->thread + 1), back = 0;
	int rc;

	rc = shmd_dev_qp_p_as(t->args.qp, mine, value, 8, mode_of(t, SHMD_DEV_THREAD));
	if (agree(t, rc, SHMD_SELFTEST_THREADS, t->n_threads))
		return 1;
	rc = shmd_dev_qp_g_as(t->args.qp, mine, 8, mode_of(t, SHMD_DEV_THREAD), &back);
	if (agree(t, rc, SHMD_SELFTEST_THREADS, t->n_threads))
		return 1;
	expect(t, back, value);
	return 0;
}

/* Each thread draws a ticket of both sizes; the sum of the tickets says that each was drawn once. */
static __device__ int test_tickets(const struct selftest *t)
{
	struct shmd_dev_mode mode = mode_of(t, SHMD_DEV_THREAD);
	uint64_t n = t->n_threads, a = 0, b = 0;
	__shared__ unsigned long long sum;
	int rc;

	if (t->thread == 0)
		sum = 0;
	__syncthreads();
	rc = shmd_dev_qp_atomic_fetch_as(t->args.qp, at(t->args.remote, word_offset(WORD_TICKET64)),
					 shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), mode, &a);
	if (agree(t, rc, SHMD_SELFTEST_TICKETS, t->n_threads))
		return 1;
	rc = shmd_dev_qp_atomic_fetch_as(t->args.qp, at(t->args.remote, word_offset(WORD_TICKET32)),
					 shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 4, 1), mode, &b);
	if (agree(t, rc, SHMD_SELFTEST_TICKETS, t->n_threads))
		return 1;
	atomicAdd(&sum, a + b);
	__syncthreads();
	if (t->thread == 0) {
		expect(t, sum, n * (n - 1));
		expect(t, shmdi_word_load64(word(t, WORD_TICKET64)), n);
		expect(t, shmdi_word_load64(word(t, WORD_TICKET32)), n);
	}
	return 0;
}

/* WQEs of one's own: each lane of a warp writes one of a reservation of the warp. */
/* The same of a DCI, each lane to a peer of its own: the CQE is asked for by a NOP behind them. */
static __device__ int post_batch_to_peers(const struct selftest *t, struct shmd_dev_addr to, uint64_t value)
{
	const uint32_t n = 32 * SHMD_DEV_DC_WQEBBS + 1;
	struct shmd_dev_mode mode = mode_of(t, SHMD_DEV_WARP);
	struct shmd_dev_av av = shmd_dev_av_of(peer_of(t, SHMD_DEV_THREAD));
	uint32_t lane = t->thread % 32;
	struct shmd_dev_wqe wqe;
	uint64_t index;
	int rc = shmd_dev_qp_reserve_as(t->args.qp, n, mode, &index);

	if (rc)
		return rc;
	wqe = shmd_dev_wqe_to(shmd_dev_wqe_at(index + lane * SHMD_DEV_DC_WQEBBS, 0), &av);
	shmd_dev_prepare_write_value(t->args.qp, wqe, to, value, 8);
	if (lane == 31)
		shmd_dev_prepare_nop(t->args.qp, shmd_dev_wqe_at(index + n - 1, SHMD_WQE_CE_ALWAYS));
	rc = shmd_dev_qp_publish_as(t->args.qp, index, n, mode);
	return rc ? rc : shmd_dev_qp_wait_as(t->args.qp, index + n, mode);
}

static __device__ int post_batch(const struct selftest *t, struct shmd_dev_addr to, uint64_t value)
{
	struct shmd_dev_mode mode = mode_of(t, SHMD_DEV_WARP);
	struct shmd_dev_qp *qp = t->args.qp;
	uint32_t lane = t->thread % 32;
	uint64_t index;
	int rc;

	if (t->args.peers)
		return post_batch_to_peers(t, to, value);
	rc = shmd_dev_qp_reserve_as(qp, 32, mode, &index);
	if (rc)
		return rc;
	shmd_dev_prepare_write_value(qp, shmd_dev_wqe_at(index + lane, lane == 31 ? SHMD_WQE_CE_ALWAYS : 0), to, value,
				     8);
	rc = shmd_dev_qp_publish_as(qp, index, 32, mode);
	return rc ? rc : shmd_dev_qp_wait_as(qp, index + 32, mode);
}

static __device__ int test_batches(const struct selftest *t)
{
	uint32_t mine = WORD_OF_THREADS + t->thread, i;
	int rc = 0;

	for (i = 1; i <= 16 && !rc; i++)
		rc = post_batch(t, at(t->args.remote, word_offset(mine)), (uint64_t)i << 32 | t->thread);
	if (agree(t, rc, SHMD_SELFTEST_BATCHES, 16 * t->n_threads))
		return 1;
	expect(t, shmdi_word_load64(word(t, mine)), 16ull << 32 | t->thread);
	return 0;
}

extern "C" __global__ void __launch_bounds__(SHMD_SELFTEST_MAX_THREADS) shmd_selftest(struct shmd_selftest_args args)
{
	struct selftest t;
	uint32_t i;

	t.args = args;
	t.thread = threadIdx.x;
	t.n_threads = blockDim.x;
	if (args.bytes < SHMD_SELFTEST_MIN_BYTES || blockDim.x % 32 || gridDim.x != 1 ||
	    (args.qp->sharing == SHMD_SHARING_EXCLUSIVE && blockDim.x != 32)) {
		args.result->status = SHMD_DEV_INVALID;
		return;
	}
	for (i = t.thread; i < WORD_OF_THREADS; i += t.n_threads)
		*word(&t, i) = 0;
	/* The NIC is about to use what was just cleared. */
	__threadfence_system();
	__syncthreads();
	if (args.qp->sharing == SHMD_SHARING_EXCLUSIVE) {
		(void)test_batches(&t);
		return;
	}
	(void)(test_put(&t) || test_get(&t) || test_warps(&t) || test_threads(&t) ||
	       test_tickets(&t) || test_batches(&t));
}
