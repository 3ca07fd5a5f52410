/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that the peer reports: keys, ranges, rights of region and QP, alignment. The target's memory stays as it was. */
#include "tests/conformance/conf.h"

#include <string.h>

#define LOC 4159u
#define REM 4224u

struct remote {
	uint64_t raddr;
	uint32_t bytes;
	shmd_be32 rkey_be;
};

static void with_remote(struct conf *c, uint8_t opcode, const struct remote *remote,
			uint8_t syndrome)
{
	struct shmd_wqe_atomic_seg seg = {.swap_add = htobe64(1)};
	struct conf_wqe w;

	conf_wqe_init(&w, opcode);
	conf_wqe_raddr(&w, remote->raddr, remote->rkey_be);
	if (opcode == SHMD_OPCODE_ATOMIC_FA || opcode == SHMD_OPCODE_ATOMIC_CS)
		conf_wqe_segment(&w, &seg, sizeof(seg));
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr + LOC, remote->bytes, c->ini.mem.lkey_be);
	conf_run(c->a, &w);
	conf_expect_error(c->a, 0, syndrome);
	ASSERT_EQ(conf_query(c->a).state, SHMD_QP_ERR);
	ASSERT_EQ(conf_query(c->a).first_error, syndrome);
	conf_check(c);
}

static void access_error(struct conf *c, uint8_t opcode, uint64_t raddr, uint32_t bytes,
			 shmd_be32 rkey_be)
{
	with_remote(c, opcode, &(struct remote){raddr, bytes, rkey_be},
		    SHMD_SYNDROME_REMOTE_ACCESS_ERR);
}

static uint64_t remote_addr(const struct conf *c)
{
	return (uintptr_t)c->tgt.mem.addr + REM;
}

/* ---- keys and ranges ------------------------------------------------------------------------------------------ */

static void bad_rkey(struct conf *c, size_t opcode)
{
	access_error(c, (uint8_t)opcode, remote_addr(c), 8,
		     htobe32(be32toh(c->tgt.mem.rkey_be) ^ 0x5500));
}

TEST(conf_bad_rkey_of_a_write_gives_remote_access_error)
{
	conf_each_variant(bad_rkey, SHMD_OPCODE_RDMA_WRITE, NULL);
}

TEST(conf_bad_rkey_of_a_read_gives_remote_access_error)
{
	conf_each_variant(bad_rkey, SHMD_OPCODE_RDMA_READ, NULL);
}

TEST(conf_bad_rkey_of_a_fetch_add_gives_remote_access_error)
{
	conf_each_variant(bad_rkey, SHMD_OPCODE_ATOMIC_FA, NULL);
}

TEST(conf_bad_rkey_of_a_compare_swap_gives_remote_access_error)
{
	conf_each_variant(bad_rkey, SHMD_OPCODE_ATOMIC_CS, NULL);
}

static void past_end(struct conf *c, size_t opcode)
{
	access_error(c, (uint8_t)opcode, (uintptr_t)c->tgt.mem.addr + c->tgt.mem.bytes - 9999,
		     10000, c->tgt.mem.rkey_be);
}

TEST(conf_write_one_byte_past_the_end_gives_remote_access_error)
{
	conf_each_variant(past_end, SHMD_OPCODE_RDMA_WRITE, NULL);
}

TEST(conf_read_one_byte_past_the_end_gives_remote_access_error)
{
	conf_each_variant(past_end, SHMD_OPCODE_RDMA_READ, NULL);
}

static void before_start(struct conf *c, size_t opcode)
{
	access_error(c, (uint8_t)opcode, (uintptr_t)c->tgt.mem.addr - 1, 100, c->tgt.mem.rkey_be);
}

TEST(conf_write_one_byte_before_the_start_gives_remote_access_error)
{
	conf_each_variant(before_start, SHMD_OPCODE_RDMA_WRITE, NULL);
}

static void wraps_around(struct conf *c, size_t opcode)
{
	access_error(c, (uint8_t)opcode, UINT64_MAX - 10, 100, c->tgt.mem.rkey_be);
}

TEST(conf_write_range_that_wraps_around_gives_remote_access_error)
{
	conf_each_variant(wraps_around, SHMD_OPCODE_RDMA_WRITE, NULL);
}

/* A large write whose last packet alone is out of range may have placed the others, but nothing outside. */
static void large_past_end(struct conf *c, size_t bytes)
{
	size_t at = c->tgt.mem.bytes - bytes + 1;
	struct conf_wqe w;

	conf_write(&w, c->a, 0, at, bytes);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_MEMEQ(c->tgt.mem.addr, c->tgt.mem.want, at);
}

TEST(conf_write_of_a_mebibyte_past_the_end_gives_remote_access_error)
{
	conf_each_variant(large_past_end, 1 << 20,
			  &(struct conf_attr){.mem_bytes = (1 << 20) + 65536});
}

static void own_rkey(struct conf *c, size_t opcode)
{
	access_error(c, (uint8_t)opcode, (uintptr_t)c->ini.mem.addr, 8, c->ini.mem.rkey_be);
}

TEST(conf_rkey_of_the_requesters_own_session_gives_remote_access_error)
{
	conf_each_variant(own_rkey, SHMD_OPCODE_RDMA_WRITE, NULL);
}

/* A third session's region on the target's NIC: its key is real, but of another PD. */
static void third_rkey(struct conf *c, size_t nic)
{
	struct conf_side third = {.client = conf_client_open()};

	third.nic = conf_nic_open(third.client, (unsigned int)nic);
	conf_mem_open(&third, &third.mem, 4096, SHMD_ACCESS_ALL);
	access_error(c, SHMD_OPCODE_RDMA_WRITE, (uintptr_t)third.mem.addr, 8, third.mem.rkey_be);
	conf_check_mem_at(TEST_WHERE, &third.mem, "third session");
	conf_mem_close(&third.mem);
	ASSERT_OK(shmd_nic_close(third.nic));
	shmd_client_close(third.client);
}

TEST(conf_rkey_of_a_third_session_gives_remote_access_error)
{
	for (unsigned int nic = 0; nic < 2; nic++) {
		struct conf c;

		conf_open(&c, &(struct conf_attr){.two_nics = nic == 1, .ordinary_cq = nic == 1});
		third_rkey(&c, nic);
		conf_close(&c);
	}
}

static void after_dereg(struct conf *c, size_t opcode)
{
	struct conf_mem mem;
	shmd_be32 rkey_be;

	conf_mem_open(&c->tgt, &mem, 4096, SHMD_ACCESS_ALL);
	rkey_be = mem.rkey_be;
	ASSERT_OK(shmd_mr_dereg(mem.mr));
	mem.mr = NULL;
	access_error(c, (uint8_t)opcode, (uintptr_t)mem.addr, 8, rkey_be);
	conf_check_mem_at(TEST_WHERE, &mem, "region without registration");
	conf_mem_close(&mem);
}

TEST(conf_rkey_after_deregistration_gives_remote_access_error)
{
	conf_each_variant(after_dereg, SHMD_OPCODE_RDMA_WRITE, NULL);
}

/* ---- rights ------------------------------------------------------------------------------------------------------ */

static void not_allowed(struct conf *c, size_t opcode)
{
	access_error(c, (uint8_t)opcode, remote_addr(c), 8, c->tgt.mem.rkey_be);
}

#define ALL_BUT(right_) (SHMD_ACCESS_ALL & ~SHMD_ACCESS_REMOTE_##right_)
#define QP_ALL_BUT(right_) (ALL_BUT(right_) & ~SHMD_ACCESS_LOCAL_WRITE)

TEST(conf_write_to_a_region_without_remote_write_gives_remote_access_error)
{
	conf_each_variant(not_allowed, SHMD_OPCODE_RDMA_WRITE,
			  &(struct conf_attr){.mr_access = ALL_BUT(WRITE)});
}

TEST(conf_read_of_a_region_without_remote_read_gives_remote_access_error)
{
	conf_each_variant(not_allowed, SHMD_OPCODE_RDMA_READ,
			  &(struct conf_attr){.mr_access = ALL_BUT(READ)});
}

TEST(conf_atomic_on_a_region_without_remote_atomic_gives_remote_access_error)
{
	conf_each_variant(not_allowed, SHMD_OPCODE_ATOMIC_FA,
			  &(struct conf_attr){.mr_access = ALL_BUT(ATOMIC)});
}

static void qp_forbids(struct conf *c, size_t opcode)
{
	with_remote(c, (uint8_t)opcode, &(struct remote){remote_addr(c), 8, c->tgt.mem.rkey_be},
		    SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
}

TEST(conf_write_through_a_qp_without_remote_write_is_refused)
{
	conf_each_variant(qp_forbids, SHMD_OPCODE_RDMA_WRITE,
			  &(struct conf_attr){.qp_access = QP_ALL_BUT(WRITE)});
}

TEST(conf_read_through_a_qp_without_remote_read_is_refused)
{
	conf_each_variant(qp_forbids, SHMD_OPCODE_RDMA_READ,
			  &(struct conf_attr){.qp_access = QP_ALL_BUT(READ)});
}

TEST(conf_atomic_through_a_qp_without_remote_atomic_is_refused)
{
	conf_each_variant(qp_forbids, SHMD_OPCODE_ATOMIC_FA,
			  &(struct conf_attr){.qp_access = QP_ALL_BUT(ATOMIC)});
}

/* The remaining access is allowed, and works. */
static void still_allowed(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_read(&w, c->a, LOC, REM, 5000);
	conf_want_copy(&c->ini.mem, LOC, &c->tgt.mem, REM, 5000);
	conf_do(c->a, &w);
	conf_check(c);
}

TEST(conf_region_and_qp_with_remote_read_alone_can_be_read)
{
	conf_each_variant(still_allowed, 0,
			  &(struct conf_attr){.mr_access = SHMD_ACCESS_REMOTE_READ,
					      .qp_access = SHMD_ACCESS_REMOTE_READ});
}

/* ---- invalid requests ---------------------------------------------------------------------------------------------- */

static void misaligned(struct conf *c, size_t off)
{
	conf_need(c, CONF_F_ATOMIC);
	with_remote(c, SHMD_OPCODE_ATOMIC_FA,
		    &(struct remote){remote_addr(c) + off, 8, c->tgt.mem.rkey_be},
		    SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
}

TEST(conf_atomic_at_an_odd_address_gives_remote_invalid_request_error)
{
	conf_each_variant(misaligned, 1, NULL);
}

TEST(conf_atomic_of_8_bytes_at_4_gives_remote_invalid_request_error)
{
	conf_each_variant(misaligned, 4, NULL);
}
