/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: the ranges that can be registered, and the references to their memory. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

TEST(registration_is_checked)
{
	struct test_mem mem;
	struct engine *engine;
	struct world w;
	struct engine_mr_attr good = {.key = 0x101, .pdn = 1, .iova = 0x1000, .length_bytes = 4096},
			      bad;

	world_init(&w, MEM_POINTER);
	engine = w.nodes[0].engine;
	test_mem_init(&mem, MEM_POINTER, 8192, NULL, NULL);
	good.mem = &mem.mem;
#define REFUSED(field, value, err)                                                                 \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = (value);                                                               \
		ASSERT_ERR(engine_mr_create(engine, &bad), err);                                   \
	} while (0)
	REFUSED(key, 0x100, EINVAL);
	REFUSED(key, 0, EINVAL);
	REFUSED(mem, NULL, EINVAL);
	REFUSED(length_bytes, 0, EINVAL);
	REFUSED(length_bytes, 8193, EINVAL);
	REFUSED(length_bytes, UINT64_MAX, EINVAL);
	REFUSED(mem_offset, 4097, EINVAL);
	REFUSED(mem_offset, UINT64_MAX - 100, EINVAL);
	REFUSED(iova, UINT64_MAX - 4094, EINVAL);
	ASSERT_EQ(mem.mem.refs, 1);
	ASSERT_OK(engine_mr_create(engine, &good));
	ASSERT_EQ(mem.mem.refs, 2);
	REFUSED(key, 0x101, EEXIST);
	/* The last byte of the address space is an address. */
	good.key++;
	good.iova = UINT64_MAX - 4095;
	ASSERT_OK(engine_mr_create(engine, &good));
	ASSERT_OK(engine_mr_destroy(engine, 0x101));
	ASSERT_ERR(engine_mr_destroy(engine, 0x101), ENOENT);
	ASSERT_EQ(mem.mem.refs, 2);
	world_deinit(&w);
	ASSERT_EQ(mem.mem.refs, 1);
	test_mem_deinit(&mem);
#undef REFUSED
}

/* Address 0 and the top of the address space work like any other. */
TEST(iova_at_both_ends_of_the_address_space)
{
	static const uint64_t iovas[] = {0, UINT64_MAX - 4095};

	for (unsigned int i = 0; i < 2; i++) {
		struct tqp_attr attr = TQP_ATTR;
		struct engine_mr_attr mr = {.key = 0x9999,
					    .pdn = 1,
					    .access = 0xf,
					    .iova = iovas[i],
					    .length_bytes = 4096};
		struct region *local;
		struct test_mem mem;
		struct pair p;
		struct world w;
		struct wqe wqe;

		world_init(&w, MEM_POINTER);
		local = region_new(&w, 0, 4096);
		region_fill(local, 1);
		test_mem_init(&mem, MEM_POINTER, 4096, NULL, NULL);
		mr.mem = &mem.mem;
		ASSERT_OK(engine_mr_create(w.nodes[1].engine, &mr));
		pair_init(&p, &w, &attr);
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
		wqe_raddr(&wqe, iovas[i], mr.key);
		wqe_data(&wqe, local->iova, local->key, 4096);
		tqp_post(&p.a, &wqe);
		/* One byte further wraps round. */
		wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
		wqe_raddr(&wqe, iovas[i] + 1, mr.key);
		wqe_data(&wqe, local->iova, local->key, 4096);
		tqp_post(&p.a, &wqe);
		tqp_ring(&p.a);
		world_run(&w);
		expect_ok(&p.a, 0);
		expect_error(&p.a.scq, false, 1, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		ASSERT_MEMEQ(mem.bytes, local->bytes, 4096);
		pair_deinit(&p);
		world_deinit(&w);
		test_mem_deinit(&mem);
	}
}

/* A region that goes in the middle of a message ends it. */
TEST(deregistration_in_mid_message)
{
	for (unsigned int remote_goes = 0; remote_goes < 2; remote_goes++) {
		struct tqp_attr attr = TQP_ATTR;
		struct region *local, *remote;
		struct pair p;
		struct world w;

		world_init(&w, MEM_POINTER);
		local = region_new(&w, 0, 1 << 20);
		remote = region_new(&w, 1, 1 << 20);
		pair_init(&p, &w, &attr);
		w.budget = 1;
		post_write(&p.a, SIGNALED, local, 0, remote, 0, 1 << 20);
		tqp_ring(&p.a);
		for (unsigned int i = 0; i < 50; i++)
			world_step(&w);
		tcq_expect_none(&p.a.scq);
		region_dereg(remote_goes ? remote : local);
		world_run_timers(&w, 1000000);
		expect_error(&p.a.scq, false, 0,
			     remote_goes ? SHMD_SYNDROME_REMOTE_ACCESS_ERR
					 : SHMD_SYNDROME_LOCAL_PROT_ERR);
		pair_deinit(&p);
		world_deinit(&w);
	}
}

/* The same for a READ: at the end it comes from, and at the end it goes to. */
TEST(deregistration_in_mid_read)
{
	for (unsigned int remote_goes = 0; remote_goes < 2; remote_goes++) {
		struct tqp_attr attr = TQP_ATTR;
		struct region *local, *remote;
		struct pair p;
		struct world w;

		world_init(&w, MEM_POINTER);
		local = region_new(&w, 0, 1 << 20);
		remote = region_new(&w, 1, 1 << 20);
		region_fill(remote, 1);
		pair_init(&p, &w, &attr);
		w.budget = 1;
		post_read(&p.a, SIGNALED, local, 0, remote, 0, 1 << 20);
		tqp_ring(&p.a);
		for (unsigned int i = 0; i < 50; i++)
			world_step(&w);
		tcq_expect_none(&p.a.scq);
		region_dereg(remote_goes ? remote : local);
		world_run_timers(&w, 1000000);
		expect_error(&p.a.scq, false, 0,
			     remote_goes ? SHMD_SYNDROME_REMOTE_ACCESS_ERR
					 : SHMD_SYNDROME_LOCAL_PROT_ERR);
		ASSERT_EQ(tqp_info(&p.b).state, remote_goes ? ENGINE_QP_ERR : ENGINE_QP_RTS);
		ASSERT_MEMEQ(local->bytes, remote->bytes, 4096);
		pair_deinit(&p);
		world_deinit(&w);
	}
}

/* ---- 2 GiB, without the bytes ---- */

#define GIB (1ull << 30)

/* Counts what is asked of it, in order. */
struct counting_mem {
	struct engine_mem mem;
	uint64_t next_offset;
	uint64_t largest;
	uint64_t n;
};

static int count_op(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	struct counting_mem *c = container_of(mem, struct counting_mem, mem);

	ASSERT_EQ(offset, c->next_offset);
	c->next_offset += bytes;
	c->n++;
	if (bytes > c->largest)
		c->largest = bytes;
	return 0;
}

static int count_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes,
		      struct engine_memop *op)
{
	return count_op(mem, offset, bytes);
}

static int count_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes,
		       struct engine_memop *op)
{
	return count_op(mem, offset, bytes);
}

static void count_free(struct engine_mem *mem)
{
}

static const struct engine_mem_ops counting_ops = {
	.read = count_read, .write = count_write, .free = count_free};

static void huge(unsigned int opcode, uint32_t chunk_bytes)
{
	struct counting_mem src = {.largest = 0}, dst = {.largest = 0};
	struct tqp_attr attr = TQP_ATTR;
	struct engine_mr_attr mr = {
		.pdn = 1, .access = 0xf, .iova = 0x100000000ull, .length_bytes = 2 * GIB};
	bool read = opcode == SHMD_OPCODE_RDMA_READ;
	uint64_t most = 0;
	struct shmd_cqe cqe;
	struct pair p;
	struct world w;
	struct wqe wqe;

	world_init_chunk(&w, MEM_POINTER, chunk_bytes);
	engine_mem_init(&src.mem, &counting_ops, 2 * GIB);
	engine_mem_init(&dst.mem, &counting_ops, 2 * GIB);
	mr.key = 0x4000;
	mr.mem = read ? &dst.mem : &src.mem;
	ASSERT_OK(engine_mr_create(w.nodes[0].engine, &mr));
	mr.key = 0x5000;
	mr.mem = read ? &src.mem : &dst.mem;
	ASSERT_OK(engine_mr_create(w.nodes[1].engine, &mr));
	pair_init(&p, &w, &attr);
	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_raddr(&wqe, mr.iova, 0x5000);
	wqe_data(&wqe, mr.iova, 0x4000, 0x40000000);
	wqe_data(&wqe, mr.iova + GIB, 0x4000, 0x40000000);
	tqp_post(&p.a, &wqe);
	tqp_ring(&p.a);
	while (!tcq_poll(&p.a.scq, &cqe)) {
		uint64_t before = dst.n;

		if (!world_step(&w))
			world_run_timers(&w, 100000);
		most = dst.n - before > most ? dst.n - before : most;
	}
	ASSERT_EQ(cqe.op_own >> 4, SHMD_CQE_REQ);
	ASSERT_EQ(be32toh(cqe.byte_cnt), 0x80000000u);
	ASSERT_EQ(src.next_offset, 2 * GIB);
	ASSERT_EQ(dst.next_offset, 2 * GIB);
	ASSERT_LE(dst.largest, chunk_bytes);
	/* One call never does much of it. */
	ASSERT_LE(most, 2 * w.budget * (1 + chunk_bytes / 65536));
	ASSERT_EQ(tqp_info(&p.a).counters.retries, 0);
	pair_deinit(&p);
	world_deinit(&w);
}

TEST(requests_of_2_gib)
{
	huge(SHMD_OPCODE_RDMA_WRITE, 1 << 20);
	huge(SHMD_OPCODE_RDMA_READ, 1 << 20);
	huge(SHMD_OPCODE_RDMA_WRITE, 65536);
	huge(SHMD_OPCODE_RDMA_READ, 65536);
}

/* As many packets as half the PSN space has. */
TEST_TIMEOUT(a_request_of_8388608_packets, 60)
{
	if (!test_is_full() || test_has_sanitizer())
		test_skip("takes seconds: run with --full");
	huge(SHMD_OPCODE_RDMA_WRITE, 256);
	huge(SHMD_OPCODE_RDMA_READ, 256);
}
