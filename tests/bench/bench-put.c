/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts by one CPU thread through one QP of the soft NIC: latency of 8 bytes against a bare ping-pong, rate at 32
 * requests for each doorbell, bandwidth of 1 MiB against memcpy.
 */
#include "bench.h"
#include "ref/ref.h"

#include <shmd/dev/rma.h>

#include <stdio.h>
#include <string.h>

#define HEAP_BYTES (4u << 20)
#define BIG_BYTES (1u << 20)
#define DST_OFFSET (2u << 20)
#define BATCH 32u
#define SLICE_ROUNDS 2000u

struct put_bench {
	struct bench_end end;
	struct shmd_dev_qp *qp;
	uint8_t *heap;
	struct shmd_dev_addr src, dst;
};

static double latency_slice(void *arg)
{
	struct put_bench *b = arg;
	const unsigned int rounds = SLICE_ROUNDS;
	uint64_t start = ref_now_nsec();
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		if (shmd_dev_qp_put(b->qp, b->dst, b->src, 8, BENCH_WAIT_NSEC) != SHMD_DEV_OK)
			return -1;
	}
	return (double)(ref_now_nsec() - start) / rounds;
}

static double inline_slice(void *arg)
{
	struct put_bench *b = arg;
	const unsigned int rounds = SLICE_ROUNDS;
	uint64_t start = ref_now_nsec();
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		if (shmd_dev_qp_p(b->qp, b->dst, i, 8) != SHMD_DEV_OK ||
		    shmd_dev_qp_quiet(b->qp, BENCH_WAIT_NSEC) != SHMD_DEV_OK)
			return -1;
	}
	return (double)(ref_now_nsec() - start) / rounds;
}

static double pingpong_slice(void *arg)
{
	return ref_pingpong_nsec(SLICE_ROUNDS);
}

static double latency(void *arg)
{
	return bench_median_slice(latency_slice, arg);
}

static double inline_latency(void *arg)
{
	return bench_median_slice(inline_slice, arg);
}

static double pingpong(void *arg)
{
	return bench_median_slice(pingpong_slice, arg);
}

/* One reservation, BATCH WQEs of which the last asks for a CQE, one doorbell. */
static bool post_batch(struct put_bench *b)
{
	uint64_t index = 0;
	unsigned int i;

	if (shmd_dev_qp_reserve(b->qp, BATCH, &index) != SHMD_DEV_OK)
		return false;
	for (i = 0; i < BATCH; i++) {
		unsigned int flags = i == BATCH - 1 ? SHMD_WQE_CE_ALWAYS : SHMD_WQE_CE_ERROR_ONLY;

		shmd_dev_prepare_write_value(b->qp, shmd_dev_wqe_at(index + i, flags), b->dst, index + i, 8);
	}
	return shmd_dev_qp_ready(b->qp, index, BATCH) == SHMD_DEV_OK &&
	       shmd_dev_qp_submit(b->qp, index + BATCH, 0) == SHMD_DEV_OK;
}

static double rate(void *arg)
{
	struct put_bench *b = arg;
	const unsigned int batches = 20000;
	uint64_t start = ref_now_nsec();
	unsigned int i;

	for (i = 0; i < batches; i++) {
		if (!post_batch(b))
			return -1;
	}
	if (shmd_dev_qp_quiet(b->qp, BENCH_WAIT_NSEC) != SHMD_DEV_OK)
		return -1;
	return (double)batches * BATCH * 1e9 / (double)(ref_now_nsec() - start) / 1e6;
}

static double bandwidth(void *arg)
{
	struct put_bench *b = arg;
	const unsigned int rounds = 1000;
	uint64_t start = ref_now_nsec();
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		if (shmd_dev_qp_put_nbi(b->qp, b->dst, b->src, BIG_BYTES) != SHMD_DEV_OK)
			return -1;
	}
	if (shmd_dev_qp_quiet(b->qp, BENCH_WAIT_NSEC) != SHMD_DEV_OK)
		return -1;
	return (double)rounds * BIG_BYTES / (double)(ref_now_nsec() - start);
}

static double memcpy_bandwidth(void *arg)
{
	struct put_bench *b = arg;

	return ref_memcpy_bytes_per_sec(b->heap + DST_OFFSET, b->heap, BIG_BYTES, 1000) / 1e9;
}

static bool open_bench(struct put_bench *b)
{
	struct shmd_queues_attr attr = {.n_qps = 1, .sq_wqebbs = 1024};

	if (bench_end_open(&b->end, "soft0", HEAP_BYTES, &attr) < 0 ||
	    bench_end_connect(&b->end, &b->end, 1) < 0)
		return false;
	b->qp = shmd_queues_dev_qp(b->end.queues, 0);
	b->heap = shmd_mem_addr(b->end.mem);
	b->src = shmd_dev_addr_of((uintptr_t)b->heap, shmd_mr_lkey_be(b->end.mr));
	b->dst = shmd_dev_addr_of((uintptr_t)b->heap + DST_OFFSET, shmd_mr_rkey_be(b->end.mr));
	memset(b->heap, 1, HEAP_BYTES);
	return true;
}

int main(void)
{
	struct put_bench b;
	const struct bench_row rows[] = {
		{"put 8 B, inline", "ns", inline_latency, pingpong, "ping-pong", &b, false, 3.0, 0, 0},
		{"put 8 B", "ns", latency, pingpong, "ping-pong", &b, false, 3.0, 0, 0},
		{"put 8 B, 32 per doorbell", "M/s", rate, NULL, NULL, &b, true, 0, 5, 0},
		{"put 1 MiB", "GB/s", bandwidth, memcpy_bandwidth, "memcpy", &b, true, 0.8, 0, 0},
	};
	bool good = true;
	unsigned int i;

	if (!open_bench(&b))
		return 1;
	bench_header("puts, one QP, soft NIC, driven by a CPU thread");
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		good = bench_run(&rows[i]) && good;
	bench_end_close(&b.end);
	return good ? 0 : 1;
}
