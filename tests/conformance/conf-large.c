/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of 64 MiB always, of 2 GiB (the largest there is) in the long form. */
#include "tests/conformance/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
#define STEP 4093u /* prime: markers at every offset within a page */

/* Registered memory without a second copy of what it must contain. */
struct range {
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	uint8_t *addr;
};

static void range_open(struct conf_side *side, struct range *range, size_t bytes)
{
	ASSERT_OK(shmd_mem_alloc(side->client, bytes, &range->mem));
	ASSERT_OK(shmd_mr_reg_mem(side->nic, range->mem, SHMD_ACCESS_ALL, &range->mr));
	range->addr = shmd_mem_addr(range->mem);
}

static void range_close(struct range *range)
{
	ASSERT_OK(shmd_mr_dereg(range->mr));
	shmd_mem_free(range->mem);
}

static uint8_t mark(size_t i)
{
	return (uint8_t)(i * 167 / 256 + i + 1);
}

static void put_marks(uint8_t *addr, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += STEP)
		addr[i] = mark(i);
	addr[bytes - 1] = 0x5a;
}

static void check_marks(const uint8_t *addr, size_t bytes)
{
	for (size_t i = 0; i < bytes - 1; i += STEP)
		if (addr[i] != mark(i))
			test_fail(TEST_WHERE, "byte %zu is 0x%02x, must be 0x%02x", i, addr[i],
				  mark(i));
	ASSERT_EQ(addr[bytes - 1], 0x5a);
	ASSERT_EQ(addr[bytes], 0);
}

static void one_request(struct conf *c, uint8_t opcode, struct range *local, struct range *remote,
			uint64_t bytes)
{
	uint64_t local_addr = (uintptr_t)local->addr;
	struct conf_wqe w;

	conf_wqe_init(&w, opcode);
	conf_wqe_raddr(&w, (uintptr_t)remote->addr, shmd_mr_rkey_be(remote->mr));
	/* A byte count is 31 bits: 2 GiB take two segments. */
	for (uint64_t left = bytes; left; left -= left > 1024 * MIB ? 1024 * MIB : left)
		conf_wqe_data(&w, local_addr + bytes - left,
			      (uint32_t)(left > 1024 * MIB ? 1024 * MIB : left),
			      shmd_mr_lkey_be(local->mr));
	conf_do(c->a, &w);
}

static void large_write(struct conf *c, size_t mib)
{
	size_t bytes = mib * MIB;
	struct range from, to;

	conf_need_bytes(c, bytes);
	range_open(&c->ini, &from, bytes);
	range_open(&c->tgt, &to, bytes + MIB);
	put_marks(from.addr, bytes);
	one_request(c, SHMD_OPCODE_RDMA_WRITE, &from, &to, bytes);
	check_marks(to.addr, bytes);
	conf_check(c);
	range_close(&from);
	range_close(&to);
}

static void large_read(struct conf *c, size_t mib)
{
	size_t bytes = mib * MIB;
	struct range from, to;

	conf_need_bytes(c, bytes);
	range_open(&c->ini, &to, bytes + MIB);
	range_open(&c->tgt, &from, bytes);
	put_marks(from.addr, bytes);
	one_request(c, SHMD_OPCODE_RDMA_READ, &to, &from, bytes);
	check_marks(to.addr, bytes);
	conf_check(c);
	range_close(&from);
	range_close(&to);
}

TEST_TIMEOUT(conf_large_write_64_mebibytes, 60)
{
	conf_each_variant(large_write, 64, NULL);
}

TEST_TIMEOUT(conf_large_read_64_mebibytes, 60)
{
	conf_each_variant(large_read, 64, NULL);
}

/* Other QPs make progress while a large request runs. */
static void large_shares(struct conf *c, size_t mib)
{
	size_t bytes = mib * MIB, n_small = 0;
	struct range from, to;
	struct conf_cqe cqe;
	struct conf_wqe w;

	range_open(&c->ini, &from, bytes);
	range_open(&c->tgt, &to, bytes + MIB);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)to.addr, shmd_mr_rkey_be(to.mr));
	conf_wqe_data(&w, (uintptr_t)from.addr, (uint32_t)bytes, shmd_mr_lkey_be(from.mr));
	conf_run(&c->a[0], &w);
	for (; !conf_poll(&c->a[0], &cqe); n_small++) {
		conf_write_inline(&w, &c->a[1], &n_small, 8, 0);
		conf_do(&c->a[1], &w);
	}
	ASSERT_EQ(cqe.opcode, SHMD_CQE_REQ);
	ASSERT_GE(n_small, 3);
	range_close(&from);
	range_close(&to);
}

TEST_TIMEOUT(conf_large_write_lets_other_qps_progress, 60)
{
	conf_each_variant(large_shares, 64, &(struct conf_attr){.n_qps = 2});
}

static size_t available_mib(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	size_t kib = 0;
	char line[128];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %zu", &kib) == 1)
			break;
	fclose(f);
	return kib / 1024;
}

static void need_full(void)
{
	if (!test_is_full())
		test_skip("the long form (tools/test --full) has the request of 2 GiB");
	if (available_mib() < 6144)
		test_skip("needs 6 GiB of free memory");
	conf_wait_nsec = 5 * CONF_WAIT_NSEC; /* most of it goes into half a million new pages */
}

TEST_TIMEOUT(conf_large_write_2_gibibytes, 120)
{
	need_full();
	conf_each_variant(large_write, 2048, NULL);
}

TEST_TIMEOUT(conf_large_read_2_gibibytes, 120)
{
	need_full();
	conf_each_variant(large_read, 2048, NULL);
}

static void too_large(struct conf *c, size_t arg)
{
	uint64_t base = (uintptr_t)c->ini.mem.addr;
	struct conf_wqe w;

	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr, c->tgt.mem.rkey_be);
	for (int i = 0; i < 2; i++)
		conf_wqe_data(&w, base, 1u << 30, c->ini.mem.lkey_be);
	conf_wqe_data(&w, base, 1, c->ini.mem.lkey_be);
	conf_run(c->a, &w);
	conf_expect_error(c->a, 0, SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	conf_check(c);
}

TEST(conf_large_request_above_2_gibibytes_gives_local_length_error)
{
	conf_each_variant(too_large, 0, NULL);
}
