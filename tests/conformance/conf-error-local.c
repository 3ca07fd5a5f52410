/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that the requester finds by itself: malformed WQEs and bad local memory. Nothing reaches the peer. */
#include "tests/conformance/conf.h"

#include <string.h>

#define LOC 4159u
#define REM 4227u

static void expect_local_error(struct conf *c, const struct conf_wqe *w, uint8_t syndrome)
{
	conf_expect_error(c->a, conf_run(c->a, w), syndrome);
	ASSERT_EQ(conf_query(c->a).state, SHMD_QP_ERR);
	conf_check(c);
}

/* ---- malformed: local QP operation error ---------------------------------------------------------------------- */

static void bad_opcode(struct conf *c, size_t opcode)
{
	struct conf_wqe w;

	conf_write(&w, c->a, LOC, REM, 100);
	w.opcode = (uint8_t)opcode;
	expect_local_error(c, &w, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
}

TEST(conf_unknown_opcode_gives_local_qp_operation_error)
{
	conf_each_variant(bad_opcode, 0x7f, NULL);
}

TEST(conf_opcode_not_offered_gives_local_qp_operation_error)
{
	conf_each_variant(bad_opcode, SHMD_OPCODE_TSO, NULL);
}

static void bad_ds(struct conf *c, size_t ds)
{
	struct conf_wqe w;

	conf_write(&w, c->a, LOC, REM, 100);
	w.ds_written = (int)ds;
	expect_local_error(c, &w, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
}

TEST(conf_ds_of_zero_gives_local_qp_operation_error)
{
	conf_each_variant(bad_ds, 0, NULL);
}

TEST(conf_ds_too_small_for_the_opcode_gives_local_qp_operation_error)
{
	conf_each_variant(bad_ds, 1, NULL);
}

static void bad_qpn(struct conf *c, size_t xor)
{
	struct conf_wqe w;

	conf_write(&w, c->a, LOC, REM, 100);
	w.qpn_xor = (uint32_t) xor ;
	expect_local_error(c, &w, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
}

TEST(conf_qpn_of_another_qp_in_the_wqe_gives_local_qp_operation_error)
{
	conf_each_variant(bad_qpn, 1, NULL);
}

/* The WQE claims more blocks than the dbrec has announced. */
static void beyond_producer(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_nop(&w);
	w.ds_written = 40;
	expect_local_error(c, &w, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
}

TEST(conf_wqe_longer_than_what_was_posted_gives_local_qp_operation_error)
{
	conf_each_variant(beyond_producer, 0, NULL);
}

static void atomic_size(struct conf *c, size_t bytes)
{
	struct shmd_wqe_atomic_seg seg = {.swap_add = htobe64(1)};
	struct conf_wqe w;

	conf_need(c, CONF_F_ATOMIC);
	conf_wqe_init(&w, SHMD_OPCODE_ATOMIC_FA);
	conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr, c->tgt.mem.rkey_be);
	conf_wqe_segment(&w, &seg, sizeof(seg));
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr, (uint32_t)bytes, c->ini.mem.lkey_be);
	conf_run(c->a, &w);
	ASSERT_EQ(conf_wait(c->a, 0).opcode, SHMD_CQE_REQ_ERR);
	conf_check(c);
}

TEST(conf_atomic_with_a_result_of_four_bytes_is_an_error)
{
	conf_each_variant(atomic_size, 4, NULL);
}

/* ---- local protection error ---------------------------------------------------------------------------------------- */

struct local {
	uint64_t addr;
	uint32_t bytes;
	shmd_be32 lkey_be;
};

static void with_local(struct conf *c, uint8_t opcode, const struct local *local)
{
	struct shmd_wqe_atomic_seg seg = {.swap_add = htobe64(1)};
	struct conf_wqe w;

	conf_wqe_init(&w, opcode);
	if (opcode != SHMD_OPCODE_SEND)
		conf_wqe_raddr(&w, (uintptr_t)c->tgt.mem.addr, c->tgt.mem.rkey_be);
	if (opcode == SHMD_OPCODE_ATOMIC_FA)
		conf_wqe_segment(&w, &seg, sizeof(seg));
	conf_wqe_data(&w, local->addr, local->bytes, local->lkey_be);
	conf_run(c->a, &w);
	conf_expect_error(c->a, 0, SHMD_SYNDROME_LOCAL_PROT_ERR);
	ASSERT_EQ(conf_query(c->a).state, SHMD_QP_ERR);
	conf_check_mem_at(TEST_WHERE, &c->ini.mem, "initiator");
	if (opcode != SHMD_OPCODE_ATOMIC_FA)
		conf_check_mem_at(TEST_WHERE, &c->tgt.mem, "target");
}

static void bad_lkey(struct conf *c, size_t opcode)
{
	struct local local = {(uintptr_t)c->ini.mem.addr, 8,
			      htobe32(be32toh(c->ini.mem.lkey_be) ^ 0x5500)};

	with_local(c, (uint8_t)opcode, &local);
}

TEST(conf_bad_lkey_of_a_write_gives_local_protection_error)
{
	conf_each_variant(bad_lkey, SHMD_OPCODE_RDMA_WRITE, NULL);
}

TEST(conf_bad_lkey_of_a_read_gives_local_protection_error)
{
	conf_each_variant(bad_lkey, SHMD_OPCODE_RDMA_READ, NULL);
}

TEST(conf_bad_lkey_of_a_send_gives_local_protection_error)
{
	conf_each_variant(bad_lkey, SHMD_OPCODE_SEND, NULL);
}

TEST(conf_bad_lkey_of_an_atomic_gives_local_protection_error)
{
	conf_each_variant(bad_lkey, SHMD_OPCODE_ATOMIC_FA, NULL);
}

static void lkey_100(struct conf *c, size_t key)
{
	with_local(c, SHMD_OPCODE_RDMA_WRITE,
		   &(struct local){(uintptr_t)c->ini.mem.addr, 8, htobe32((uint32_t)key)});
}

TEST(conf_lkey_of_the_terminator_is_no_key)
{
	conf_each_variant(lkey_100, SHMD_LKEY_TERMINATE, NULL);
}

TEST(conf_lkey_of_zero_is_no_key)
{
	conf_each_variant(lkey_100, 0, NULL);
}

static void local_range(struct conf *c, uint64_t addr, uint32_t bytes)
{
	with_local(c, SHMD_OPCODE_RDMA_WRITE, &(struct local){addr, bytes, c->ini.mem.lkey_be});
}

static void local_past_end(struct conf *c, size_t arg)
{
	local_range(c, (uintptr_t)c->ini.mem.addr + c->ini.mem.bytes - 99, 100);
}

TEST(conf_local_range_one_byte_too_long_gives_local_protection_error)
{
	conf_each_variant(local_past_end, 0, NULL);
}

static void local_before_start(struct conf *c, size_t arg)
{
	local_range(c, (uintptr_t)c->ini.mem.addr - 1, 100);
}

TEST(conf_local_range_one_byte_too_early_gives_local_protection_error)
{
	conf_each_variant(local_before_start, 0, NULL);
}

static void local_wraps(struct conf *c, size_t arg)
{
	local_range(c, UINT64_MAX - 10, 100);
}

TEST(conf_local_range_that_wraps_around_gives_local_protection_error)
{
	conf_each_variant(local_wraps, 0, NULL);
}

/* The second of two segments is bad: the first must not have been sent on its own. */
static void second_segment(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_need_sges(c, 2);
	conf_write(&w, c->a, LOC, REM, 16);
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr, 16, htobe32(0x12345600));
	expect_local_error(c, &w, SHMD_SYNDROME_LOCAL_PROT_ERR);
}

TEST(conf_bad_lkey_of_the_second_segment_gives_local_protection_error)
{
	conf_each_variant(second_segment, 0, NULL);
}

static void other_session(struct conf *c, size_t arg)
{
	with_local(c, SHMD_OPCODE_RDMA_WRITE,
		   &(struct local){(uintptr_t)c->tgt.mem.addr, 8, c->tgt.mem.lkey_be});
}

TEST(conf_lkey_of_another_session_gives_local_protection_error)
{
	conf_each_variant(other_session, 0, NULL);
}

static void not_writable(struct conf *c, size_t opcode)
{
	struct conf_mem mem;

	conf_mem_open(&c->ini, &mem, 4096, SHMD_ACCESS_REMOTE_READ);
	with_local(c, (uint8_t)opcode, &(struct local){(uintptr_t)mem.addr, 8, mem.lkey_be});
	conf_check_mem_at(TEST_WHERE, &mem, "region without local write");
	conf_mem_close(&mem);
}

TEST(conf_read_into_memory_without_local_write_gives_local_protection_error)
{
	conf_each_variant(not_writable, SHMD_OPCODE_RDMA_READ, NULL);
}

TEST(conf_atomic_into_memory_without_local_write_gives_local_protection_error)
{
	conf_each_variant(not_writable, SHMD_OPCODE_ATOMIC_FA, NULL);
}

static void after_dereg(struct conf *c, size_t arg)
{
	struct conf_mem mem;
	shmd_be32 lkey_be;

	conf_mem_open(&c->ini, &mem, 4096, SHMD_ACCESS_ALL);
	lkey_be = mem.lkey_be;
	ASSERT_OK(shmd_mr_dereg(mem.mr));
	mem.mr = NULL;
	with_local(c, SHMD_OPCODE_RDMA_WRITE, &(struct local){(uintptr_t)mem.addr, 8, lkey_be});
	conf_mem_close(&mem);
}

TEST(conf_lkey_after_deregistration_gives_local_protection_error)
{
	conf_each_variant(after_dereg, 0, NULL);
}
