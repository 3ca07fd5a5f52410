/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On-demand paging, CQEs that may be compressed, entries of the GID table that are empty, addresses that are mapped to a QP: asked
 * through libibverbs and libmlx5. Runs under mlx5sim with two devices on RoCE.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mlx5sim/fixture.h"

#define PAGE 4096u
#define ON_DEMAND (ALL_ACCESS | IBV_ACCESS_ON_DEMAND)

/* Two connected QPs; the second side also has memory of which no page is pinned. */
struct lab {
	struct side sides[2];
	struct ibv_qp *qps[2];
	struct ibv_mr *mr;
	uint8_t *paged;
};

static uint8_t *map_at(void *at, size_t bytes)
{
	int fixed = at ? MAP_FIXED : 0;
	uint8_t *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

	ASSERT(p != MAP_FAILED);
	return p;
}

static void lab_connect(struct lab *lab)
{
	for (unsigned int i = 0; i < 2; i++) {
		lab->qps[i] = make_qp(&lab->sides[i], IBV_QPT_RC, NULL);
		ASSERT(lab->qps[i]);
	}
	for (unsigned int i = 0; i < 2; i++)
		connect_to(lab->qps[i], &lab->sides[!i], lab->qps[!i]->qp_num);
}

static void lab_init(struct lab *lab)
{
	sides_init(lab->sides);
	lab_connect(lab);
	lab->paged = map_at(NULL, 4 * PAGE);
	lab->mr = ibv_reg_mr(lab->sides[1].pd, lab->paged, 4 * PAGE, ON_DEMAND);
	if (!lab->mr && errno == EPERM)
		test_skip("another process may not read this one's memory (Yama, or a filter of system calls)");
	ASSERT(lab->mr);
}

static void lab_deinit(struct lab *lab)
{
	ASSERT_EQ(ibv_destroy_qp(lab->qps[0]), 0);
	ASSERT_EQ(ibv_destroy_qp(lab->qps[1]), 0);
	ASSERT_EQ(ibv_dereg_mr(lab->mr), 0);
	munmap(lab->paged, 4 * PAGE);
	sides_deinit(lab->sides);
}

static enum ibv_wc_status rdma(struct lab *lab, enum ibv_wr_opcode opcode, const void *at, uint32_t rkey, uint32_t bytes)
{
	struct ibv_send_wr wr = {.opcode = opcode, .wr.rdma = {(uintptr_t)at, rkey}};

	post_send(&lab->sides[0], lab->qps[0], wr, bytes);
	return wait_wc(lab->sides[0].cq).status;
}

/* Nothing is pinned: what the process maps there later is what the device finds, and what it unmaps is gone. */
TEST(odp_region_is_what_the_process_has_there_at_the_time)
{
	struct lab lab;

	lab_init(&lab);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged + PAGE - 32, lab.mr->rkey, 5000), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(lab.paged + PAGE - 32, lab.sides[0].memory, 5000);
	map_at(lab.paged, 4 * PAGE);
	ASSERT_EQ(lab.paged[PAGE], 0);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged + PAGE, lab.mr->rkey, 64), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(lab.paged + PAGE, lab.sides[0].memory, 64);
	memset(lab.paged + 3 * PAGE, 0x5b, 64);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_READ, lab.paged + 3 * PAGE, lab.mr->rkey, 64), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(lab.sides[0].memory, lab.paged + 3 * PAGE, 64);
	ASSERT_EQ(munmap(lab.paged + 2 * PAGE, PAGE), 0);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged + 2 * PAGE, lab.mr->rkey, 64), IBV_WC_REM_OP_ERR);
	lab_deinit(&lab);
}

TEST(odp_region_has_its_own_end_and_access)
{
	struct ibv_mr *mr;
	struct lab lab;

	lab_init(&lab);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged + 4 * PAGE - 63, lab.mr->rkey, 64), IBV_WC_REM_ACCESS_ERR);
	ASSERT_EQ(ibv_destroy_qp(lab.qps[0]), 0);
	ASSERT_EQ(ibv_destroy_qp(lab.qps[1]), 0);
	lab_connect(&lab);
	mr = ibv_reg_mr(lab.sides[1].pd, lab.paged, PAGE, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	ASSERT(mr);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_READ, lab.paged, mr->rkey, 64), IBV_WC_SUCCESS);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged, mr->rkey, 64), IBV_WC_REM_ACCESS_ERR);
	ASSERT_EQ(ibv_dereg_mr(mr), 0);
	lab_deinit(&lab);
}

/* Pages that may not be written are not, whatever the region may. */
TEST(odp_write_to_a_page_that_is_read_only_fails)
{
	struct lab lab;

	lab_init(&lab);
	ASSERT_EQ(mprotect(lab.paged, PAGE, PROT_READ), 0);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged, lab.mr->rkey, 64), IBV_WC_REM_OP_ERR);
	ASSERT_EQ(lab.paged[0], 0);
	lab_deinit(&lab);
}

TEST(odp_atomics_count_and_exchange)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
	uint64_t *word;
	struct lab lab;

	lab_init(&lab);
	word = (uint64_t *)(void *)(lab.paged + 8);
	*word = 40;
	wr.wr.atomic.remote_addr = (uintptr_t)word;
	wr.wr.atomic.rkey = lab.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	post_send(&lab.sides[0], lab.qps[0], wr, 8);
	ASSERT_EQ(wait_wc(lab.sides[0].cq).status, IBV_WC_SUCCESS);
	ASSERT_EQ(*word, 42);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 7;
	post_send(&lab.sides[0], lab.qps[0], wr, 8);
	ASSERT_EQ(wait_wc(lab.sides[0].cq).status, IBV_WC_SUCCESS);
	ASSERT_EQ(*word, 7);
	lab_deinit(&lab);
}

/* A stack cannot be pinned here, and on demand it need not be. */
TEST(odp_implicit_region_is_all_memory_of_the_process)
{
	uint8_t on_stack[64] = {0};
	struct ibv_mr *all;
	struct lab lab;

	lab_init(&lab);
	all = ibv_reg_mr(lab.sides[1].pd, NULL, SIZE_MAX, ON_DEMAND);
	ASSERT(all);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, on_stack, all->rkey, 64), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(on_stack, lab.sides[0].memory, 64);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged, all->rkey, 64), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(lab.paged, lab.sides[0].memory, 64);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, NULL, all->rkey, 64), IBV_WC_REM_OP_ERR);
	ASSERT_EQ(ibv_dereg_mr(all), 0);
	lab_deinit(&lab);
}

struct named {
	uint32_t key, handle;
};

static void register_and_end(const struct side *side, void *at, int to)
{
	const struct ibv_mr *mr = ibv_reg_mr(side->pd, at, PAGE, ON_DEMAND);
	struct named named = {0};

	if (mr)
		named = (struct named){mr->rkey, mr->handle};
	_exit(write(to, &named, sizeof(named)) == sizeof(named) ? 0 : 1);
}

/* The number of its process may be another one's by then. */
TEST(odp_region_of_a_process_that_ended_opens_nothing)
{
	struct named named;
	int ends[2], status;
	struct ibv_mr *mr;
	struct lab lab;
	pid_t pid;

	lab_init(&lab);
	ASSERT_EQ(pipe(ends), 0);
	pid = fork();
	ASSERT_NE(pid, -1);
	if (pid == 0)
		register_and_end(&lab.sides[1], lab.paged, ends[1]);
	ASSERT_EQ(read(ends[0], &named, sizeof(named)), sizeof(named));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	ASSERT_NE(named.key, 0);
	ASSERT_EQ(rdma(&lab, IBV_WR_RDMA_WRITE, lab.paged, named.key, 64), IBV_WC_REM_OP_ERR);
	mr = ibv_import_mr(lab.sides[1].pd, named.handle);
	ASSERT(mr);
	ASSERT_EQ(ibv_dereg_mr(mr), 0);
	close(ends[0]);
	close(ends[1]);
	lab_deinit(&lab);
}

static int advise(const struct lab *lab, struct ibv_pd *pd, enum ib_uverbs_advise_mr_advice advice, uint32_t key,
		  const void *at, uint32_t bytes, bool flush)
{
	struct ibv_sge sge = {(uintptr_t)at, bytes, key};

	return ibv_advise_mr(pd ? pd : lab->sides[1].pd, advice, flush ? IBV_ADVISE_MR_FLAG_FLUSH : 0, &sge, 1);
}

TEST(odp_prefetch_is_of_pages_that_are_there)
{
	const enum ib_uverbs_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH;
	const enum ib_uverbs_advise_mr_advice write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const enum ib_uverbs_advise_mr_advice no_fault = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	struct ibv_mr *read_only;
	struct ibv_pd *other;
	uint8_t present[4];
	struct lab lab;
	uint32_t key;

	lab_init(&lab);
	key = lab.mr->lkey;
	ASSERT_EQ(advise(&lab, NULL, write, key, lab.paged + 1, 4 * PAGE - 1, true), 0);
	ASSERT_EQ(mincore(lab.paged, 4 * PAGE, present), 0);
	ASSERT_EQ(advise(&lab, NULL, read, key, lab.paged, 4 * PAGE + 1, true), EFAULT);
	ASSERT_EQ(advise(&lab, NULL, read, key, lab.paged - 1, 1, true), EFAULT);
	ASSERT_EQ(advise(&lab, NULL, read, lab.sides[1].mr->lkey, lab.sides[1].memory, 1, false), ENOENT);
	ASSERT_EQ(advise(&lab, NULL, (enum ib_uverbs_advise_mr_advice)3, key, lab.paged, 1, false), EOPNOTSUPP);
	other = ibv_alloc_pd(lab.sides[1].context);
	ASSERT(other);
	ASSERT_EQ(advise(&lab, other, read, key, lab.paged, 1, false), EINVAL);
	ASSERT_EQ(ibv_dealloc_pd(other), 0);
	read_only = ibv_reg_mr(lab.sides[1].pd, lab.paged, PAGE, IBV_ACCESS_ON_DEMAND);
	ASSERT(read_only);
	ASSERT_EQ(advise(&lab, NULL, write, read_only->lkey, lab.paged, 1, false), EPERM);
	ASSERT_EQ(advise(&lab, NULL, read, read_only->lkey, lab.paged, 1, true), 0);
	ASSERT_EQ(ibv_dereg_mr(read_only), 0);
	ASSERT_EQ(munmap(lab.paged + PAGE, PAGE), 0);
	ASSERT_EQ(advise(&lab, NULL, read, key, lab.paged, 4 * PAGE, true), EFAULT);
	/* These are not waited for. */
	ASSERT_EQ(advise(&lab, NULL, read, key, lab.paged, 4 * PAGE, false), 0);
	ASSERT_EQ(advise(&lab, NULL, no_fault, key, lab.paged, 4 * PAGE, true), 0);
	lab_deinit(&lab);
}

TEST(odp_capabilities_are_reported)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_DC_ODP_CAPS};
	const uint32_t dc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
			    IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex attr;
	struct side side;

	side_init(&side, 0);
	ASSERT_EQ(ibv_query_device_ex(side.context, NULL, &attr), 0);
	ASSERT_EQ(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	ASSERT_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps, dc | IBV_ODP_SUPPORT_RECV);
	ASSERT_EQ(mlx5dv_query_device(side.context, &dv), 0);
	ASSERT_EQ(dv.dc_odp_caps, dc);
	side_deinit(&side);
}

/* ---- CQEs ---- */

static struct ibv_cq *make_compressed(const struct side *side, uint8_t format, uint16_t cqe_bytes)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 15};
	struct mlx5dv_cq_init_attr dv = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
		.cqe_comp_res_format = format,
		.cqe_size = cqe_bytes};
	struct ibv_cq_ex *cq = mlx5dv_create_cq(side->context, &attr, &dv);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

/* A permission, of which no use is made. */
TEST(cq_may_be_compressed_in_one_format_at_a_time)
{
	static const uint8_t formats[] = {MLX5DV_CQE_RES_FORMAT_HASH, MLX5DV_CQE_RES_FORMAT_CSUM,
					  MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX};

	for (unsigned int i = 0; i < 6; i++) {
		struct side sides[2];
		struct ibv_qp *a;

		sides_init(sides);
		ASSERT_EQ(ibv_destroy_cq(sides[0].cq), 0);
		sides[0].cq = make_compressed(&sides[0], formats[i % 3], i < 3 ? 64 : 128);
		ASSERT(sides[0].cq);
		a = make_qp(&sides[0], IBV_QPT_UC, NULL);
		ASSERT(a);
		connect_to(a, &sides[1], 0xabcd);
		for (unsigned int n = 0; n < 40; n++)
			ASSERT_EQ(send_bytes(&sides[0], a, n), IBV_WC_SUCCESS);
		ASSERT(!make_compressed(&sides[0], formats[i % 3] | formats[(i + 1) % 3], 64));
		ASSERT_EQ(errno, EINVAL);
		ASSERT_EQ(ibv_destroy_qp(a), 0);
		sides_deinit(sides);
	}
}

/* ---- addresses ---- */

TEST(gid_table_has_entries_without_a_gid)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	struct side side;

	side_init(&side, 0);
	ASSERT_EQ(ibv_query_port(side.context, 1, &port), 0);
	ASSERT_EQ(port.gid_tbl_len, 8);
	ASSERT_EQ(ibv_query_gid_ex(side.context, 1, GID_IPV4, &entry, 0), 0);
	ASSERT_EQ(ibv_query_gid_ex(side.context, 1, GID_IPV4 + 1, &entry, 0), ENODATA);
	ASSERT_EQ(ibv_query_gid_ex(side.context, 1, (uint32_t)port.gid_tbl_len, &entry, 0), EINVAL);
	side_deinit(&side);
}

TEST(address_is_mapped_to_a_qp_that_exists)
{
	struct dc dc;

	dc_init(&dc, ALL_ACCESS);
	/* Any context of the address's device will do. */
	ASSERT_NE(mlx5dv_map_ah_to_qp(dc.ah, 0xfffffe), 0);
	ASSERT_EQ(mlx5dv_map_ah_to_qp(dc.ah, dc.dci->qp_num), 0);
	ASSERT_EQ(mlx5dv_map_ah_to_qp(dc.ah, dc.dci->qp_num), 0);
	ASSERT_EQ(dc_request(&dc, IBV_WR_RDMA_WRITE, DC_KEY), IBV_WC_SUCCESS);
	dc_deinit(&dc);
}
