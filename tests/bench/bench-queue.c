/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions of the runtime between two PEs that reach each other by queues, as two processes, against the same requests of device functions
 * on a bare QP of one process. The reference "many at once" is the row of bench-put.
 */
#include "bench.h"
#include "ref/ref.h"

#include <shmd.h>
#include <shmd/dev/rma.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIG_BYTES (1u << 20)
#define HEAP_BYTES (4u << 20)
#define DST_OFFSET (2u << 20)
#define SLICE_ROUNDS 200u
#define N_COPIES 8u

struct queue_bench {
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	uint8_t *heap; /* source, then destination */
	struct bench_end bare;
	struct shmd_dev_qp *qp;
	struct shmd_dev_addr src, dst;
	struct shmd_ctx *first, *beside, *other; /* by DC: two on the first NIC of the PE, one on the second; NULL: the daemon has one NIC */
};

/* ---- by the runtime -------------------------------------------------------------------------------------------------------- */

static double put_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < SLICE_ROUNDS; i++)
		if (shmd_put(b->ctx, b->heap + DST_OFFSET, b->heap, 8, 1))
			return -1;
	return (double)(ref_now_nsec() - start) / SLICE_ROUNDS;
}

static double p_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < SLICE_ROUNDS; i++)
		if (shmd_p(b->ctx, b->heap + DST_OFFSET, i, 8, 1) || shmd_quiet(b->ctx))
			return -1;
	return (double)(ref_now_nsec() - start) / SLICE_ROUNDS;
}

static double copies_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < N_COPIES; i++)
		if (shmd_put(b->ctx, b->heap + DST_OFFSET, b->heap, BIG_BYTES, 1))
			return -1;
	return (double)(ref_now_nsec() - start) / N_COPIES / 1e3;
}

static double copies_at_once_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < N_COPIES; i++)
		if (shmd_put_nbi(b->ctx, b->heap + DST_OFFSET, b->heap, BIG_BYTES, 1))
			return -1;
	return shmd_quiet(b->ctx) ? -1 : (double)(ref_now_nsec() - start) / N_COPIES / 1e3;
}

/* Half of them on each context. */
static double split_copies(const struct queue_bench *b, struct shmd_ctx *one, struct shmd_ctx *two)
{
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < N_COPIES; i++)
		if (shmd_put_nbi(i % 2 ? one : two, b->heap + DST_OFFSET, b->heap, BIG_BYTES, 1))
			return -1;
	return shmd_quiet(one) || shmd_quiet(two) ? -1 : (double)(ref_now_nsec() - start) / N_COPIES / 1e3;
}

static double one_rail_slice(void *arg)
{
	const struct queue_bench *b = arg;

	return split_copies(b, b->first, b->beside);
}

static double two_rails_slice(void *arg)
{
	const struct queue_bench *b = arg;

	return split_copies(b, b->first, b->other);
}

static double one_rail(void *arg)
{
	return bench_median_slice(one_rail_slice, arg);
}

static double two_rails(void *arg)
{
	return bench_median_slice(two_rails_slice, arg);
}

static double copies(void *arg)
{
	return bench_median_slice(copies_slice, arg);
}

static double copies_at_once(void *arg)
{
	return bench_median_slice(copies_at_once_slice, arg);
}

static double put(void *arg)
{
	return bench_median_slice(put_slice, arg);
}

static double p(void *arg)
{
	return bench_median_slice(p_slice, arg);
}

/* ---- by a bare QP ------------------------------------------------------------------------------------------------------------ */

static double bare_put_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < SLICE_ROUNDS; i++)
		if (shmd_dev_qp_put(b->qp, b->dst, b->src, 8, BENCH_WAIT_NSEC))
			return -1;
	return (double)(ref_now_nsec() - start) / SLICE_ROUNDS;
}

static double bare_p_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < SLICE_ROUNDS; i++)
		if (shmd_dev_qp_p(b->qp, b->dst, i, 8) || shmd_dev_qp_quiet(b->qp, BENCH_WAIT_NSEC))
			return -1;
	return (double)(ref_now_nsec() - start) / SLICE_ROUNDS;
}

static double bare_copies_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < N_COPIES; i++)
		if (shmd_dev_qp_put(b->qp, b->dst, b->src, BIG_BYTES, BENCH_WAIT_NSEC))
			return -1;
	return (double)(ref_now_nsec() - start) / N_COPIES / 1e3;
}

static double bare_copies_at_once_slice(void *arg)
{
	struct queue_bench *b = arg;
	uint64_t start = ref_now_nsec();

	for (unsigned int i = 0; i < N_COPIES; i++)
		if (shmd_dev_qp_put_nbi(b->qp, b->dst, b->src, BIG_BYTES))
			return -1;
	return shmd_dev_qp_quiet(b->qp, BENCH_WAIT_NSEC) ? -1 : (double)(ref_now_nsec() - start) / N_COPIES / 1e3;
}

static double bare_copies(void *arg)
{
	return bench_median_slice(bare_copies_slice, arg);
}

static double bare_copies_at_once(void *arg)
{
	return bench_median_slice(bare_copies_at_once_slice, arg);
}

static double bare_put(void *arg)
{
	return bench_median_slice(bare_put_slice, arg);
}

static double bare_p(void *arg)
{
	return bench_median_slice(bare_p_slice, arg);
}

/* ---- the two processes ---------------------------------------------------------------------------------------------------------- */

static int enter(struct queue_bench *b, const struct shmd_uid *uid, int rank)
{
	struct shmd_world_attr attr = {.uid = uid, .rank = rank, .size = 2, .paths = SHMD_ALLOW_QUEUE};
	int r = shmd_world_open(&attr, &b->world);

	if (!r)
		r = shmd_malloc(b->world, HEAP_BYTES, 0, (void **)&b->heap);
	if (r < 0)
		return r;
	memset(b->heap, 1, HEAP_BYTES);
	b->ctx = shmd_world_ctx(b->world);
	return shmd_barrier_all(b->world);
}

/* Sleeps while it is written to, until the first PE has closed its end of the pipe. */
static int serve(const struct shmd_uid *uid, const int pipe_fds[2])
{
	struct queue_bench b;
	int r = enter(&b, uid, 1);
	char byte;

	if (r < 0)
		return bench_complain("the second PE") ? 0 : 1;
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &byte, 1) < 0)
		return 1;
	return shmd_world_close(b.world) ? 1 : 0;
}

static bool open_bare(struct queue_bench *b)
{
	struct shmd_queues_attr attr = {.n_qps = 1, .sq_wqebbs = 256, .sharing = SHMD_SHARING_GPU};
	uint8_t *heap;

	if (bench_end_open(&b->bare, "soft0", HEAP_BYTES, &attr) < 0 || bench_end_connect(&b->bare, &b->bare, 1) < 0)
		return false;
	heap = shmd_mem_addr(b->bare.mem);
	memset(heap, 1, HEAP_BYTES);
	b->qp = shmd_queues_dev_qp(b->bare.queues, 0);
	b->src = shmd_dev_addr_of((uintptr_t)heap, shmd_mr_lkey_be(b->bare.mr));
	b->dst = shmd_dev_addr_of((uintptr_t)heap + DST_OFFSET, shmd_mr_rkey_be(b->bare.mr));
	return true;
}

static uint32_t rail_of(struct shmd_ctx *ctx)
{
	const struct shmd_dev_pe_way *ways = (const struct shmd_dev_pe_way *)(uintptr_t)shmd_ctx_dev(ctx)->ways_addr;

	return ways[1].rail;
}

/* The runtime spreads contexts over the NICs of the PE. */
static bool make_contexts(struct queue_bench *b)
{
	struct shmd_ctx *ctx;

	for (unsigned int i = 0; i < 4; i++) {
		if (shmd_ctx_create(shmd_team_world(b->world), NULL, &ctx) < 0)
			return false;
		if (rail_of(ctx))
			b->other = ctx;
		else if (b->first)
			b->beside = ctx;
		else
			b->first = ctx;
	}
	return true;
}

static bool measure(struct queue_bench *b)
{
	const struct bench_row rails = {.name = "put 1 MiB, contexts on 2 NICs", .unit = "us", .ours = two_rails, .reference = one_rail,
					.reference_name = "on 1 NIC", .arg = b};
	const struct bench_row rows[] = {
		{.name = "p 8 B, quiet", .unit = "ns", .ours = p, .reference = bare_p, .reference_name = "bare", .arg = b, .ratio_limit = 1.3},
		{.name = "put 8 B", .unit = "ns", .ours = put, .reference = bare_put, .reference_name = "bare", .arg = b, .ratio_limit = 1.3},
		{.name = "put 1 MiB", .unit = "us", .ours = copies, .reference = bare_copies, .reference_name = "bare", .arg = b, .ratio_limit = 1.3},
		{.name = "put 1 MiB, one by one", .unit = "us", .ours = copies, .reference = bare_copies_at_once, .reference_name = "bare, many at once", .arg = b, .ratio_limit = 1.3},
		{.name = "put 1 MiB, many at once", .unit = "us", .ours = copies_at_once, .reference = bare_copies_at_once, .reference_name = "bare", .arg = b, .ratio_limit = 1.3},
	};
	bool good = true;

	bench_header("host functions between two PEs by queues, soft NIC");
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		good = bench_run(&rows[i]) && good;
	if (!b->other || !b->beside) {
		printf("no row for two NICs: the daemon has one\n");
		return good;
	}
	return bench_run(&rails) && good;
}

int main(void)
{
	struct queue_bench b = {0};
	struct shmd_uid uid;
	bool good = false;
	int status = 1, pipe_fds[2];
	pid_t pid;

	setenv("SHMD_NICS_PER_PE", "2", 0);
	if (shmd_uid_make(&uid) < 0 || pipe(pipe_fds) < 0)
		return bench_complain("a unique id, or a pipe") ? 0 : 1;
	pid = fork();
	if (pid == 0)
		_exit(serve(&uid, pipe_fds));
	if (enter(&b, &uid, 0) < 0)
		bench_complain("the first PE");
	else if (!make_contexts(&b))
		bench_complain("contexts");
	else if (open_bare(&b))
		good = measure(&b);
	close(pipe_fds[1]);
	shmd_world_close(b.world);
	waitpid(pid, &status, 0);
	return good && !status ? 0 : 1;
}
