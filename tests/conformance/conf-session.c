/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QPs within one session, a QP with itself, many QPs; queues that a GPU drives or that lie in the client's memory;
 * memory of every kind a client may register.
 */
#include "tests/conformance/conf.h"

#include <string.h>
#include <sys/mman.h>

#define LOC 4159u
#define REM 4227u

/* A write, a read, an atomic and a send: does the connection work at all? */
static void all_kinds(struct conf *c, size_t n)
{
	uint64_t old, value;
	struct conf_wqe w;
	uint16_t recv;

	conf_need(c, CONF_F_RECV | CONF_F_ATOMIC);
	for (size_t i = 0; i < n; i++) {
		conf_write(&w, c->a, LOC, REM, 5000);
		conf_want_copy(&c->tgt.mem, REM, &c->ini.mem, LOC, 5000);
		conf_do(c->a, &w);
		conf_read(&w, c->a, 32768, REM + 1, 4000);
		conf_want_copy(&c->ini.mem, 32768, &c->tgt.mem, REM + 1, 4000);
		conf_do(c->a, &w);
		memcpy(&old, c->tgt.mem.want + 64, 8);
		value = old + 5;
		conf_fetch_add(&w, c->a, 128, 64, 5);
		conf_want_bytes(&c->ini.mem, 128, &old, 8);
		conf_want_bytes(&c->tgt.mem, 64, &value, 8);
		conf_do(c->a, &w);
		recv = conf_post_recv(c->b, 50000, 3000);
		conf_send(&w, c->a, LOC, 3000);
		conf_want_copy(&c->tgt.mem, 50000, &c->ini.mem, LOC, 3000);
		conf_do(c->a, &w);
		conf_expect_recv(c->b, recv, SHMD_CQE_RESP_SEND, 3000);
	}
	conf_check(c);
}

TEST(conf_session_may_connect_its_own_qps)
{
	conf_each_variant(all_kinds, 5, &(struct conf_attr){.one_session = true, .rq_wqes = 4});
}

/* ---- a QP and itself --------------------------------------------------------------------------------------------- */

static void self_traffic(struct conf *c, size_t n)
{
	struct conf_qp *a = c->a;
	struct shmd_addr addr;
	struct conf_wqe w;
	uint16_t recv;

	conf_need(c, CONF_F_RECV);
	a->peer = a;
	ASSERT_OK(shmd_queues_addr(c->ini.queues, 0, &addr));
	ASSERT_OK(shmd_queues_connect(c->ini.queues, 0, 1, &addr, NULL, NULL));
	for (size_t i = 0; i < n; i++) {
		conf_write(&w, a, LOC + i, 20000, 5000);
		conf_want_copy(&c->ini.mem, 20000, &c->ini.mem, LOC + i, 5000);
		conf_do(a, &w);
		conf_read(&w, a, 30000, 20001, 4000);
		conf_want_copy(&c->ini.mem, 30000, &c->ini.mem, 20001, 4000);
		conf_do(a, &w);
		recv = conf_post_recv(a, 40000, 700);
		conf_send(&w, a, 30000, 700);
		conf_want_copy(&c->ini.mem, 40000, &c->ini.mem, 30000, 700);
		conf_do(a, &w);
		conf_expect_recv(a, recv, SHMD_CQE_RESP_SEND, 700);
	}
	conf_check(c);
}

TEST(conf_session_may_connect_a_qp_to_itself)
{
	conf_each_variant(self_traffic, 20, &(struct conf_attr){.unconnected = true, .rq_wqes = 4});
}

/* ---- keys of two NICs --------------------------------------------------------------------------------------------- */

TEST(conf_session_keys_of_one_nic_are_no_keys_on_its_other)
{
	struct conf_wqe w;
	struct conf c;

	conf_open(&c, &(struct conf_attr){.one_session = true, .two_nics = true});
	if (c.ini.nic == c.tgt.nic)
		test_skip("needs two NICs");
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, (uintptr_t)c.tgt.mem.addr, c.tgt.mem.rkey_be);
	conf_wqe_data(&w, (uintptr_t)c.tgt.mem.addr + 100, 8, c.tgt.mem.lkey_be);
	conf_expect_error(c.a, conf_run(c.a, &w), SHMD_SYNDROME_LOCAL_PROT_ERR);
	conf_check(&c);
	conf_close(&c);
}

/* ---- many QPs ------------------------------------------------------------------------------------------------------ */

static void many_qps(struct conf *c, size_t rounds)
{
	struct conf_wqe w;

	for (size_t r = 0; r < rounds; r++) {
		for (unsigned int i = 0; i < c->ini.n_qps; i++) {
			uint64_t value = 1000 * r + i;

			conf_write_inline(&w, &c->a[i], &value, 8, 8 * i);
			conf_want_bytes(&c->tgt.mem, 8 * i, &value, 8);
			conf_run(&c->a[i], &w);
		}
		for (unsigned int i = 0; i < c->ini.n_qps; i++)
			conf_expect_ok(&c->a[i], (uint16_t)r);
		conf_check(c);
	}
}

TEST(conf_session_drives_500_qps_at_once)
{
	conf_each_variant(many_qps, 3, &(struct conf_attr){.n_qps = 500, .sq_wqebbs = 16});
}

/* ---- queues ----------------------------------------------------------------------------------------------------------- */

static void without_wake(struct conf *c, size_t n)
{
	struct conf_wqe w;

	ASSERT_EQ(c->a->dev->flags & SHMD_QP_WAKE, 0);
	for (size_t i = 0; i < n; i++) {
		conf_sleep_msec(5);
		conf_write_inline(&w, c->a, &i, 8, 8 * i);
		conf_want_bytes(&c->tgt.mem, 8 * i, &i, 8);
		conf_post(c->a, &w);
		conf_dbrec(c->a);
		conf_doorbell(c->a, c->a->doorbell);
		conf_expect_ok(c->a, (uint16_t)i);
	}
	conf_check(c);
}

TEST(conf_queue_driven_by_a_gpu_needs_no_wake)
{
	conf_each_variant(without_wake, 10, &(struct conf_attr){.gpu_driven = true});
}

TEST(conf_queue_in_memory_of_the_client)
{
	conf_each_variant(all_kinds, 20, &(struct conf_attr){.own_queue_mem = true, .rq_wqes = 4});
}

TEST(conf_queues_of_seven_qps_in_memory_of_the_client)
{
	conf_each_variant(many_qps, 3, &(struct conf_attr){.own_queue_mem = true, .n_qps = 7});
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

/* Anonymous memory that was in use, moved under the same addresses. */
static void adopted(struct conf *c, size_t bytes)
{
	uint8_t *addr =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct conf_wqe w;

	ASSERT_NE(addr, MAP_FAILED);
	conf_pattern(addr, bytes, 31);
	ASSERT_OK(shmd_mem_adopt(c->tgt.client, addr, bytes, &mem));
	ASSERT_EQ(shmd_mem_addr(mem), addr);
	ASSERT_OK(shmd_mr_reg_mem(c->tgt.nic, mem, SHMD_ACCESS_ALL, &mr));
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_READ);
	conf_wqe_raddr(&w, (uintptr_t)addr, shmd_mr_rkey_be(mr));
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr, (uint32_t)bytes, c->ini.mem.lkey_be);
	conf_want_bytes(&c->ini.mem, 0, addr, bytes);
	conf_do(c->a, &w);
	conf_check(c);
	w.opcode = SHMD_OPCODE_RDMA_WRITE;
	conf_pattern(c->ini.mem.addr, bytes, 32);
	conf_do(c->a, &w);
	ASSERT_MEMEQ(addr, c->ini.mem.addr, bytes);
	ASSERT_OK(shmd_mr_dereg(mr));
	shmd_mem_free(mem);
	munmap(addr, bytes);
}

TEST(conf_memory_that_was_anonymous_is_read_and_written)
{
	conf_each_variant(adopted, 8192, NULL);
}

/* The handle and the mapping may go; the registration keeps the memory. */
static void outlives(struct conf *c, size_t bytes)
{
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct conf_wqe w;
	uint64_t iova;

	ASSERT_OK(shmd_mem_alloc(c->tgt.client, bytes, &mem));
	ASSERT_OK(shmd_mr_reg_mem(c->tgt.nic, mem, SHMD_ACCESS_ALL, &mr));
	iova = (uintptr_t)shmd_mem_addr(mem);
	conf_pattern(shmd_mem_addr(mem), bytes, 33);
	shmd_mem_free(mem);
	conf_wqe_init(&w, SHMD_OPCODE_RDMA_READ);
	conf_wqe_raddr(&w, iova, shmd_mr_rkey_be(mr));
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr, (uint32_t)bytes, c->ini.mem.lkey_be);
	conf_pattern(c->ini.mem.want, bytes, 33);
	conf_do(c->a, &w);
	conf_check(c);
	ASSERT_OK(shmd_mr_dereg(mr));
}

TEST(conf_memory_stays_registered_when_its_owner_unmaps_it)
{
	conf_each_variant(outlives, 8192, NULL);
}
