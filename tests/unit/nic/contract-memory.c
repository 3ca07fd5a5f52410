/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of nic.h: memory that a client gives, and memory that it gets. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "contract.h"
#include "tests/lib/test.h"

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif

#define FILE_BYTES (8u * 4096)

struct bench {
	struct rig rig;
	struct client c;
	const struct nic_ops *ops;
	struct nic_mr_attr attr; /* a region that is accepted */
	uint8_t *map;
};

static void bench_open_as(struct bench *bench, void (*open_ctx)(struct client *c, struct nic *nic, uint64_t session_id))
{
	contract_open(&bench->rig, 1);
	open_ctx(&bench->c, bench->rig.nic[0], 1);
	bench->ops = bench->rig.nic[0]->ops;
	bench->attr = (struct nic_mr_attr){
		.kind = NIC_MEM_MEMFD,
		.fd = client_memfd(FILE_BYTES, &bench->map),
		.length_bytes = FILE_BYTES,
		.iova = CLIENT_IOVA,
		.access = NIC_ACCESS_ALL,
	};
}

static void bench_open(struct bench *bench)
{
	bench_open_as(bench, contract_open_ctx);
}

static void bench_close(struct bench *bench)
{
	munmap(bench->map, FILE_BYTES);
	close(bench->attr.fd);
	client_close(&bench->c);
	rig_close(&bench->rig);
}

static void refuse(struct bench *bench, const struct nic_mr_attr *attr, int err)
{
	struct nic_mr *mr = NULL;

	ASSERT_EQ(bench->ops->mr_reg(bench->c.ctx, attr, &mr), -err);
	ASSERT(!mr);
}

static void accept_region(struct bench *bench, const struct nic_mr_attr *attr)
{
	struct nic_mr *mr;

	ASSERT_OK(bench->ops->mr_reg(bench->c.ctx, attr, &mr));
	ASSERT_EQ(mr->length_bytes, attr->length_bytes);
	ASSERT(!bench->ops->mr_dereg(mr));
}

/* As memory, and as memory of queues. */
static void refuse_fd(struct bench *bench, int fd, int err)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD, .fd = fd, .length_bytes = FILE_BYTES};
	struct nic_mr_attr attr = bench->attr;
	struct nic_queues *queues = NULL;
	struct nic_queues_attr queues_attr;
	struct nic_layout layout;

	attr.fd = fd;
	refuse(bench, &attr, err);
	client_attr(&queues_attr, 1, 0);
	ASSERT_OK(nic_layout_init(&layout, &queues_attr));
	ASSERT_LE(layout.total_bytes, mem.length_bytes);
	ASSERT_EQ(bench->ops->queues_create(bench->c.ctx, &mem, &layout, &queues), -err);
	ASSERT(!queues);
	ASSERT_EQ(layout.n_qps, 1u); /* still the caller's */
	nic_layout_deinit(&layout);
}

/* ---- memory of clients ------------------------------------------------------------------------------------------------ */

TEST(memory_without_the_shrink_seal_is_refused)
{
	int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int unsealable = memfd_create("no-seals", MFD_CLOEXEC);
	struct bench bench;

	bench_open(&bench);
	ASSERT_OK(ftruncate(unsealed, FILE_BYTES));
	ASSERT_OK(ftruncate(unsealable, FILE_BYTES));
	refuse_fd(&bench, unsealed, EPERM);
	refuse_fd(&bench, unsealable, EPERM);
	ASSERT_OK(fcntl(unsealed, F_ADD_SEALS, F_SEAL_GROW));
	refuse_fd(&bench, unsealed, EPERM);
	close(unsealed);
	close(unsealable);
	bench_close(&bench);
}

TEST(a_descriptor_that_is_no_memfd_is_refused)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int event_fd = eventfd(0, EFD_CLOEXEC);
	int dir_fd = open("/", O_RDONLY | O_CLOEXEC);
	struct bench bench;
	int pipe_fds[2];

	bench_open(&bench);
	ASSERT_OK(pipe2(pipe_fds, O_CLOEXEC));
	refuse_fd(&bench, null_fd, EBADF);
	refuse_fd(&bench, event_fd, EBADF);
	refuse_fd(&bench, dir_fd, EBADF);
	refuse_fd(&bench, pipe_fds[0], EBADF);
	refuse_fd(&bench, -1, EBADF);
	close(null_fd);
	close(event_fd);
	close(dir_fd);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	bench_close(&bench);
}

/* A hole punched in huge pages may not be filled again, and then faults; and a part of one is never unmapped. */
TEST(huge_pages_are_refused)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct bench bench;

	if (fd < 0)
		test_skip("no memfd of huge pages on this kernel");
	ASSERT_OK(ftruncate(fd, 1 << 30));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	bench_open(&bench);
	refuse_fd(&bench, fd, EBADF);
	close(fd);
	bench_close(&bench);
}

TEST(kinds_of_memory_that_a_nic_does_not_list_are_refused)
{
	struct nic_mr_attr attr;
	struct bench bench;

	bench_open(&bench);
	attr = bench.attr;
	attr.kind = NIC_MEM_AGENT;
	/* No agent serves this context. */
	refuse(&bench, &attr, contract_backend()->kinds[1] == NIC_MEM_AGENT ? EINVAL : EOPNOTSUPP);
	attr.kind = NIC_MEM_DMABUF;
	if (contract_backend()->kinds[0] != NIC_MEM_DMABUF)
		refuse(&bench, &attr, EOPNOTSUPP);
	attr.kind = 0;
	refuse(&bench, &attr, EINVAL);
	attr.kind = 77;
	refuse(&bench, &attr, EINVAL);
	bench_close(&bench);
}

TEST(a_region_outside_its_file_or_address_space_is_refused)
{
	static const struct {
		uint64_t offset, length_bytes, iova;
		uint32_t access;
	} bad[] = {
		{0, 0, CLIENT_IOVA, NIC_ACCESS_ALL},
		{0, FILE_BYTES + 1, CLIENT_IOVA, NIC_ACCESS_ALL},
		{0, UINT64_MAX, CLIENT_IOVA, NIC_ACCESS_ALL},
		{FILE_BYTES, 4096, CLIENT_IOVA, NIC_ACCESS_ALL},
		{UINT64_MAX - 4095, 4096, CLIENT_IOVA, NIC_ACCESS_ALL},
		{0, 4096, (uint64_t)0 - 4096, NIC_ACCESS_ALL},
		/* Another place in its page than the file's. */
		{0, 4096, CLIENT_IOVA + 8, NIC_ACCESS_ALL},
		{0x800, FILE_BYTES, CLIENT_IOVA + 0x800, NIC_ACCESS_ALL},
		{0, 4096, CLIENT_IOVA, 0x10},
	};
	struct bench bench;

	bench_open(&bench);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct nic_mr_attr attr = bench.attr;

		attr.offset = bad[i].offset;
		attr.length_bytes = bad[i].length_bytes;
		attr.iova = bad[i].iova;
		attr.access = bad[i].access;
		refuse(&bench, &attr, EINVAL);
	}
	accept_region(&bench, &bench.attr);
	bench_close(&bench);
}

TEST(a_region_may_start_inside_a_page)
{
	struct nic_mr_attr attr;
	struct bench bench;

	bench_open(&bench);
	attr = bench.attr;
	attr.offset = 4096 + 24;
	attr.iova = CLIENT_IOVA + 24;
	attr.length_bytes = FILE_BYTES - attr.offset;
	accept_region(&bench, &attr);
	attr.length_bytes++;
	refuse(&bench, &attr, EINVAL);
	bench_close(&bench);
}

TEST(memory_that_is_read_only_serves_readers_only)
{
	struct nic_mr_attr attr;
	struct bench bench;
	char path[64];

	bench_open(&bench);
	attr = bench.attr;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", bench.attr.fd);
	attr.fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(attr.fd, 0);
	refuse(&bench, &attr, EPERM);
	attr.access = NIC_ACCESS_REMOTE_READ;
	accept_region(&bench, &attr);
	close(attr.fd);
	bench_close(&bench);
}

TEST(keys_are_unique_and_never_the_terminator)
{
	struct nic_mr *mr[64];
	struct bench bench;

	bench_open(&bench);
	for (int i = 0; i < 64; i++) {
		ASSERT_OK(bench.ops->mr_reg(bench.c.ctx, &bench.attr, &mr[i]));
		ASSERT_GT(mr[i]->lkey, SHMD_LKEY_TERMINATE);
		ASSERT_EQ(mr[i]->lkey, mr[i]->rkey);
		for (int k = 0; k < i; k++)
			ASSERT_NE(mr[i]->lkey, mr[k]->lkey);
	}
	for (int i = 0; i < 64; i++)
		ASSERT(!bench.ops->mr_dereg(mr[i]));
	bench_close(&bench);
}

/* The client's descriptor and mapping are its own business: the NIC goes on with the pages. */
TEST(a_region_outlives_the_descriptor_and_mapping_it_was_made_from)
{
	struct contract_pair pair;
	uint64_t first;

	contract_open_pair(&pair, 1);
	client_fill(&pair.b, 0, 4096, 9);
	memcpy(&first, pair.b.mem, sizeof(first));
	munmap(pair.b.mem, CLIENT_MEM_BYTES);
	close(pair.b.mem_fd);
	pair.b.mem_fd = -1;
	client_post_read(&pair.a, 0, 0, &pair.b, 0, 4096);
	client_ring(&pair.a, 0);
	client_complete(&pair.a, 0);
	ASSERT_EQ(client_word(&pair.a, 0), first);
	ASSERT_NE(first, 0u);
	contract_close_pair(&pair);
}

/* ---- memory of queues ------------------------------------------------------------------------------------------------- */

static void refuse_queues(struct bench *bench, struct nic_layout *layout, const struct nic_queue_mem *mem, int err)
{
	struct nic_queues *queues = NULL;

	ASSERT_EQ(bench->ops->queues_create(bench->c.ctx, mem, layout, &queues), -err);
	ASSERT(!queues);
}

TEST(queue_memory_that_is_too_small_or_misplaced_is_refused)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues_attr attr;
	struct nic_layout layout;
	struct bench bench;

	bench_open(&bench);
	client_attr(&attr, 100, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	mem.fd = bench.attr.fd;
	mem.length_bytes = layout.total_bytes - 1;
	refuse_queues(&bench, &layout, &mem, EINVAL);
	mem.length_bytes = layout.total_bytes; /* a lie: the file is smaller */
	refuse_queues(&bench, &layout, &mem, EINVAL);
	mem.length_bytes = UINT64_MAX;
	refuse_queues(&bench, &layout, &mem, EINVAL);
	mem.offset = 64;
	refuse_queues(&bench, &layout, &mem, EINVAL);
	mem.offset = 0;
	mem.kind = NIC_MEM_AGENT;
	refuse_queues(&bench, &layout, &mem, EOPNOTSUPP);
	nic_layout_deinit(&layout);
	bench_close(&bench);
}

/* The daemon fills the rings of CQs: a request cannot make it fill more than the NIC takes. */
TEST(a_cq_larger_than_the_limit_of_the_nic_is_refused)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD, .length_bytes = UINT64_MAX};
	struct nic_queues_attr attr = {.n_cq_specs = 1, .cqs = {{.count = 1}}};
	struct nic_layout layout;
	struct nic_info info;
	struct bench bench;

	bench_open(&bench);
	ASSERT_OK(nic_query(bench.rig.nic[0], &info));
	mem.fd = bench.attr.fd;
	attr.cqs[0].log2_entries = info.max_log2_cq_entries + 1;
	if (nic_layout_init(&layout, &attr) == 0) {
		refuse_queues(&bench, &layout, &mem, ENOSPC);
		nic_layout_deinit(&layout);
	} else {
		ASSERT_EQ(info.max_log2_cq_entries, NIC_MAX_LOG2_CQ_ENTRIES);
	}
	bench_close(&bench);
}

/* An executor that gets no CPU for 250 ms lets a question go without an answer. */
static int read_queues(const struct nic_ops *ops, struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes)
{
	int r;

	do
		r = ops->queues_read(queues, offset, buf, bytes);
	while (r == -EBUSY);
	return r;
}

TEST(queue_memory_is_read_within_its_bounds_only)
{
	static const struct {
		uint64_t offset, bytes; /* offset: from the end */
	} outside[] = {{0, 1}, {(uint64_t)-1, 0}, {1, 2}, {64, 4096}, {4096, UINT64_MAX}, {4096, UINT64_MAX - 4095}};
	const struct nic_ops *ops;
	uint8_t buf[4096];
	struct client c;
	struct rig rig;
	uint64_t total;

	contract_open(&rig, 1);
	ops = rig.nic[0]->ops;
	contract_open_client(&c, rig.nic[0], 1, 1);
	ASSERT_OK(read_queues(ops, c.queues, c.queues->layout.cqs[0].ring_offset, buf, 1));
	ASSERT_EQ(buf[0], 0xff); /* as a new CQ is filled */
	total = c.queues->layout.total_bytes;
	for (uint64_t i = 0; i < total; i++)
		c.queue_mem[i] = (uint8_t)(i * 7);
	for (uint64_t at = 0; at < total; at += sizeof(buf)) {
		memset(buf, 0, sizeof(buf));
		ASSERT_OK(read_queues(ops, c.queues, at, buf, sizeof(buf)));
		ASSERT_MEMEQ(buf, c.queue_mem + at, sizeof(buf));
	}
	ASSERT_OK(read_queues(ops, c.queues, total - 3, buf, 3));
	ASSERT_MEMEQ(buf, c.queue_mem + total - 3, 3);
	ASSERT_OK(read_queues(ops, c.queues, total, buf, 0));
	ASSERT_ERR(read_queues(ops, c.queues, UINT64_MAX, buf, 1), ERANGE);
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
		ASSERT_ERR(read_queues(ops, c.queues, total - outside[i].offset, buf, outside[i].bytes), ERANGE);
	client_close(&c);
	rig_close(&rig);
}

/* ---- memory that clients get ------------------------------------------------------------------------------------------ */

TEST(the_nic_page_cannot_be_written_by_clients)
{
	struct bench bench;
	void *page;
	int fd;

	bench_open_as(&bench, contract_open_ctx_cpu);
	fd = bench.c.ctx->doorbell.nic_page_fd;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(page == MAP_FAILED);
	ASSERT_NE(mprotect((void *)(uintptr_t)bench.c.nic_page, 4096, PROT_READ | PROT_WRITE), 0);
	ASSERT_NE(write(fd, "x", 1), 1);
	ASSERT_NE(ftruncate(fd, 0), 0);
	ASSERT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	bench_close(&bench);
}

TEST(the_doorbell_page_cannot_be_taken_away)
{
	struct bench bench;
	int fd;

	bench_open_as(&bench, contract_open_ctx_cpu);
	fd = bench.c.ctx->doorbell.page_fd;
	ASSERT_NE(ftruncate(fd, 0), 0);
	ASSERT_NE(ftruncate(fd, 8192), 0);
	/* A hole reads as "no doorbell". */
	ASSERT_OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	client_reg(&bench.c);
	client_create(&bench.c, 1, 0);
	client_connect(&bench.c, 0, &bench.c, 0);
	client_post_inline(&bench.c, 0, 7, &bench.c, 0);
	client_ring(&bench.c, 0);
	client_complete(&bench.c, 0);
	ASSERT_EQ(client_word(&bench.c, 0), 7u);
	bench_close(&bench);
}
