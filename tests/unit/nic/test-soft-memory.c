/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may give to a soft NIC as memory, and what it gets from it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "daemon/nic/soft/soft.h"
#include "proto/base/later.h"
#include "proto/base/list.h"
#include "tests/lib/test.h"

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif

struct memory_rig {
	struct rig rig;
	struct client c;
	const struct nic_ops *ops;
	struct nic_mr_attr attr;
	int fd;
	uint8_t *map;
};

static void open_rig(struct memory_rig *m)
{
	rig_open_unkept(&m->rig, 1);
	client_open_ctx(&m->c, m->rig.nic[0], 1);
	m->ops = m->rig.nic[0]->ops;
	m->fd = client_memfd(8 * 4096, &m->map);
	m->attr = (struct nic_mr_attr){
		.kind = NIC_MEM_MEMFD,
		.fd = m->fd,
		.length_bytes = 8 * 4096,
		.iova = CLIENT_IOVA,
		.access = NIC_ACCESS_ALL,
	};
}

static void close_rig(struct memory_rig *m)
{
	munmap(m->map, 8 * 4096);
	close(m->fd);
	client_close(&m->c);
	rig_close(&m->rig);
}

static void refuse(struct memory_rig *m, const struct nic_mr_attr *attr, int err)
{
	struct nic_mr *mr = NULL;

	ASSERT_EQ(m->ops->mr_reg(m->c.ctx, attr, &mr), -err);
	ASSERT(!mr);
}

static void refuse_fd(struct memory_rig *m, int fd, int err)
{
	struct nic_mr_attr attr = m->attr;
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD, .fd = fd, .length_bytes = 8 * 4096};
	struct nic_queues *queues = NULL;
	struct nic_queues_attr queues_attr;
	struct nic_layout layout;

	attr.fd = fd;
	refuse(m, &attr, err);
	client_attr(&queues_attr, 1, 0);
	ASSERT_OK(nic_layout_init(&layout, &queues_attr));
	ASSERT_LE(layout.total_bytes, mem.length_bytes);
	ASSERT_EQ(m->ops->queues_create(m->c.ctx, &mem, &layout, &queues), -err);
	ASSERT(!queues);
	ASSERT_EQ(layout.n_qps, 1u); /* still the caller's */
	nic_layout_deinit(&layout);
}

TEST(memory_without_the_shrink_seal_is_refused)
{
	int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int sealed = memfd_create("no-seals", MFD_CLOEXEC);
	struct memory_rig m;

	open_rig(&m);
	ASSERT_OK(ftruncate(unsealed, 8 * 4096));
	ASSERT_OK(ftruncate(sealed, 8 * 4096));
	refuse_fd(&m, unsealed, EPERM);
	refuse_fd(&m, sealed, EPERM);
	ASSERT_OK(fcntl(unsealed, F_ADD_SEALS, F_SEAL_GROW));
	refuse_fd(&m, unsealed, EPERM);
	close(unsealed);
	close(sealed);
	close_rig(&m);
}

TEST(memory_that_is_no_memfd_is_refused)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int event_fd = eventfd(0, EFD_CLOEXEC);
	int dir_fd = open("/", O_RDONLY | O_CLOEXEC);
	int pipe_fds[2];
	struct memory_rig m;

	open_rig(&m);
	ASSERT_OK(pipe2(pipe_fds, O_CLOEXEC));
	refuse_fd(&m, null_fd, EBADF);
	refuse_fd(&m, event_fd, EBADF);
	refuse_fd(&m, dir_fd, EBADF);
	refuse_fd(&m, pipe_fds[0], EBADF);
	refuse_fd(&m, -1, EBADF);
	close(null_fd);
	close(event_fd);
	close(dir_fd);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close_rig(&m);
}

/* A hole punched in huge pages may not be filled again, and then faults. */
TEST(huge_pages_are_refused)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct memory_rig m;

	if (fd < 0)
		test_skip("no memfd of huge pages on this kernel");
	ASSERT_OK(ftruncate(fd, 1 << 30));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	open_rig(&m);
	refuse_fd(&m, fd, EBADF);
	close(fd);
	close_rig(&m);
}

TEST(memory_of_other_kinds_is_not_offered)
{
	struct nic_mr_attr attr;
	struct nic_info info;
	struct memory_rig m;

	open_rig(&m);
	attr = m.attr;
	attr.kind = NIC_MEM_DMABUF;
	refuse(&m, &attr, EOPNOTSUPP);
	attr.kind = NIC_MEM_AGENT;
	refuse(&m, &attr, EOPNOTSUPP);
	attr.kind = 0;
	refuse(&m, &attr, EINVAL);
	attr.kind = 77;
	refuse(&m, &attr, EINVAL);
	ASSERT_OK(nic_query(m.rig.nic[0], &info));
	ASSERT_EQ(info.accepted_kinds[0], NIC_MEM_MEMFD);
	ASSERT_EQ(info.accepted_kinds[1], 0u);
	close_rig(&m);
}

TEST(memory_outside_the_file_is_refused)
{
	struct memory_rig m;
	struct nic_mr_attr attr;

	open_rig(&m);
	attr = m.attr;
	attr.length_bytes = 0;
	refuse(&m, &attr, EINVAL);
	attr.length_bytes = 8 * 4096 + 1;
	refuse(&m, &attr, EINVAL);
	attr.length_bytes = UINT64_MAX;
	refuse(&m, &attr, EINVAL);
	attr.length_bytes = 4096;
	attr.offset = 8 * 4096;
	refuse(&m, &attr, EINVAL);
	attr.offset = UINT64_MAX - 4095;
	refuse(&m, &attr, EINVAL);
	attr.offset = 0;
	attr.iova = (uint64_t)0 - 4096;
	refuse(&m, &attr, EINVAL);
	attr.iova = CLIENT_IOVA + 8; /* another place in its page than offset 0 */
	refuse(&m, &attr, EINVAL);
	attr.iova = CLIENT_IOVA;
	attr.access = 0x10;
	refuse(&m, &attr, EINVAL);
	close_rig(&m);
}

TEST(a_region_may_start_inside_a_page)
{
	struct memory_rig m;
	struct nic_mr_attr attr;
	struct nic_mr *mr;

	open_rig(&m);
	attr = m.attr;
	attr.offset = 4096 + 24;
	attr.iova = CLIENT_IOVA + 24;
	attr.length_bytes = 8 * 4096 - attr.offset;
	ASSERT_OK(m.ops->mr_reg(m.c.ctx, &attr, &mr));
	ASSERT_EQ(mr->length_bytes, attr.length_bytes);
	ASSERT(!m.ops->mr_dereg(mr));
	attr.length_bytes++;
	refuse(&m, &attr, EINVAL);
	close_rig(&m);
}

/* The kernel's entry for the mapping that begins there. */
static bool is_left_out_of_core(const void *base)
{
	char line[512], start[32];
	FILE *f = fopen("/proc/self/smaps", "re");
	bool is_it = false, found = false;

	ASSERT(f);
	snprintf(start, sizeof(start), "%lx-", (unsigned long)base);
	while (!found && fgets(line, sizeof(line), f)) {
		is_it |= strncmp(line, start, strlen(start)) == 0;
		found = is_it && strncmp(line, "VmFlags:", 8) == 0;
	}
	fclose(f);
	if (!found)
		test_skip("this kernel tells no flags of mappings");
	return strstr(line, " dd");
}

TEST(memory_of_clients_is_in_no_core_file)
{
	struct soft_map theirs, made;
	uint8_t *map;
	int fd = client_memfd(8 * 4096, &map), made_fd;

	if (test_emulator())
		test_skip("an emulator of programs may drop what madvise asks");
	ASSERT(!is_left_out_of_core(map));
	ASSERT_OK(soft_map_memfd(fd, 0, 8 * 4096, true, &theirs));
	ASSERT(is_left_out_of_core(theirs.base));
	ASSERT_OK(soft_map_create("core", 4096, &made, &made_fd));
	ASSERT(is_left_out_of_core(made.base));
	soft_map_deinit(&theirs);
	soft_map_deinit(&made);
	munmap(map, 8 * 4096);
	close(fd);
	close(made_fd);
}

TEST(read_only_memory_serves_readers_only)
{
	char path[64];
	struct memory_rig m;
	struct nic_mr_attr attr;
	struct nic_mr *mr;
	int fd;

	open_rig(&m);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m.fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	attr = m.attr;
	attr.fd = fd;
	refuse(&m, &attr, EPERM);
	attr.access = NIC_ACCESS_REMOTE_READ;
	ASSERT_OK(m.ops->mr_reg(m.c.ctx, &attr, &mr));
	m.ops->mr_dereg(mr);
	close(fd);
	close_rig(&m);
}

struct gate {
	struct later later;
	sem_t open;
};

static void wait_at_gate(struct later *later)
{
	sem_wait(&container_of(later, struct gate, later)->open);
}

/* This process's count, by its own list. */
static uint64_t mapped_bytes(int fd)
{
	uint64_t from, to, ino, sum = 0;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	struct stat st;

	ASSERT(f);
	ASSERT_OK(fstat(fd, &st));
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64, &from, &to, &ino) == 3 &&
		    ino == st.st_ino)
			sum += to - from;
	fclose(f);
	return sum;
}

/* Its pages go with the daemon's mapping when its client has died: half a second for each GiB. */
TEST(large_memory_is_given_back_by_a_thread_that_serves_nobody)
{
	struct gate gate = {.later.fn = wait_at_gate};
	const uint64_t bytes = 80 << 20; /* more than a slice */
	struct nic_mr *mr = NULL;
	struct memory_rig m;
	uint64_t before;

	open_rig(&m);
	before = mapped_bytes(m.fd);
	ASSERT_OK(ftruncate(m.fd, (off_t)bytes));
	m.attr.length_bytes = bytes;
	ASSERT_OK(m.ops->mr_reg(m.c.ctx, &m.attr, &mr));
	ASSERT_EQ(mapped_bytes(m.fd), before + bytes);
	ASSERT_OK(sem_init(&gate.open, 0, 0));
	ASSERT_OK(later_run(&gate.later));
	ASSERT(!m.ops->mr_dereg(mr));
	ASSERT_EQ(mapped_bytes(m.fd), before + bytes);
	ASSERT_OK(sem_post(&gate.open));
	later_wait();
	ASSERT_EQ(mapped_bytes(m.fd), before);
	close_rig(&m);
}

TEST(keys_are_unique_and_above_the_terminator)
{
	struct memory_rig m;
	struct nic_mr *mr[64];

	open_rig(&m);
	for (int i = 0; i < 64; i++) {
		ASSERT_OK(m.ops->mr_reg(m.c.ctx, &m.attr, &mr[i]));
		ASSERT_GT(mr[i]->lkey, SHMD_LKEY_TERMINATE);
		ASSERT_EQ(mr[i]->lkey, mr[i]->rkey);
		for (int k = 0; k < i; k++)
			ASSERT_NE(mr[i]->lkey, mr[k]->lkey);
	}
	for (int i = 0; i < 64; i++)
		m.ops->mr_dereg(mr[i]);
	close_rig(&m);
}

#define N_KEYS 1024u
#define KEY_SLACK 256 /* of 2047 throws of a coin: more than eleven standard deviations off */

static void make_keys(uint32_t keys[N_KEYS])
{
	struct nic_mr *mr[N_KEYS];
	struct memory_rig m;

	open_rig(&m);
	for (unsigned int i = 0; i < N_KEYS; i++) {
		ASSERT_OK(m.ops->mr_reg(m.c.ctx, &m.attr, &mr[i]));
		keys[i] = mr[i]->rkey;
	}
	for (unsigned int i = 0; i < N_KEYS; i++)
		m.ops->mr_dereg(mr[i]);
	close_rig(&m);
}

/* How many values are there twice; by chance it is one pair in two thousand runs. */
static unsigned int count_twins(const uint32_t *values, unsigned int n)
{
	unsigned int n_twins = 0;

	for (unsigned int i = 0; i < n; i++)
		for (unsigned int k = 0; k < i; k++)
			n_twins += values[i] == values[k];
	return n_twins;
}

/*
 * Keys of one NIC and of the next, as of one daemon and the next. Counters, steps of any size and generators of the
 * x = a * x + c kind are seen: the lowest bits of those repeat.
 */
TEST(keys_do_not_tell_other_keys)
{
	static uint32_t keys[2 * N_KEYS], steps[2 * N_KEYS];
	const unsigned int last = 2 * N_KEYS - 1;

	make_keys(keys);
	make_keys(keys + N_KEYS);
	for (unsigned int i = 0; i < last; i++)
		steps[i] = keys[i + 1] - keys[i];
	ASSERT_LT(count_twins(keys, last + 1), 3);
	ASSERT_LT(count_twins(steps, last), 3);
	for (unsigned int bit = 0; bit < 32; bit++) {
		int n_set = 0, n_changed = 0;

		for (unsigned int i = 0; i < last; i++) {
			n_set += keys[i] >> bit & 1;
			n_changed += (keys[i] ^ keys[i + 1]) >> bit & 1;
		}
		ASSERT_LT(abs(n_set - (int)N_KEYS), KEY_SLACK);
		ASSERT_LT(abs(n_changed - (int)N_KEYS), KEY_SLACK);
	}
}

/* Whatever a client does to its descriptor, the NIC sees zeros and never a fault. */
TEST(punched_holes_read_as_zeros)
{
	struct client c;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	memset(c.mem, 0x55, CLIENT_MEM_BYTES);
	ASSERT_NE(ftruncate(c.mem_fd, 0), 0);
	ASSERT_OK(fallocate(c.mem_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536));
	client_post_write(&c, 0, 0, &c, 131072, 65536);
	client_ring(&c, 0);
	client_complete(&c, 0);
	ASSERT_EQ(c.mem[131072], 0);
	ASSERT_EQ(c.mem[131072 + 65535], 0);
	ASSERT_EQ(c.mem[131072 + 65536], 0x55);
	client_close(&c);
	rig_close(&rig);
}

TEST(queue_memory_must_be_large_enough)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues_attr attr;
	struct nic_queues *queues;
	struct nic_layout layout;
	struct memory_rig m;

	open_rig(&m);
	client_attr(&attr, 100, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	mem.fd = m.fd;
	mem.length_bytes = layout.total_bytes - 1;
	ASSERT_ERR(m.ops->queues_create(m.c.ctx, &mem, &layout, &queues), EINVAL);
	mem.length_bytes = layout.total_bytes; /* a lie: the file is smaller */
	ASSERT_ERR(m.ops->queues_create(m.c.ctx, &mem, &layout, &queues), EINVAL);
	mem.length_bytes = UINT64_MAX;
	ASSERT_ERR(m.ops->queues_create(m.c.ctx, &mem, &layout, &queues), EINVAL);
	mem.offset = 64;
	ASSERT_ERR(m.ops->queues_create(m.c.ctx, &mem, &layout, &queues), EINVAL);
	mem.offset = 0;
	mem.kind = NIC_MEM_DMABUF;
	ASSERT_ERR(m.ops->queues_create(m.c.ctx, &mem, &layout, &queues), EOPNOTSUPP);
	nic_layout_deinit(&layout);
	close_rig(&m);
}

static void refuse_cqs(struct memory_rig *m, uint32_t count, uint32_t log2_entries)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD, .fd = m->fd, .length_bytes = UINT64_MAX};
	struct nic_queues_attr attr = {
		.n_cq_specs = 1, .cqs = {{.count = count, .log2_entries = log2_entries}}};
	struct nic_queues *queues;
	struct nic_layout layout;

	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_ERR(m->ops->queues_create(m->c.ctx, &mem, &layout, &queues), ENOSPC);
	nic_layout_deinit(&layout);
}

/* The daemon fills the rings of CQs: what a request may make it fill is bounded. */
TEST(queue_memory_is_read_within_its_bounds_only)
{
	static const struct {
		uint64_t offset, bytes; /* offset: from the end */
	} outside[] = {{0, 1}, {(uint64_t)-1, 0}, {1, 2}, {64, 4096}, {4096, UINT64_MAX}, {4096, UINT64_MAX - 4095}};
	uint8_t buf[4096];
	struct client c;
	struct rig rig;
	uint64_t total;

	rig_open(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, 1);
	total = c.queues->layout.total_bytes;
	for (uint64_t i = 0; i < total; i++)
		c.queue_mem[i] = (uint8_t)(i * 7);
	for (uint64_t at = 0; at < total; at += sizeof(buf)) {
		memset(buf, 0, sizeof(buf));
		ASSERT_OK(rig.nic[0]->ops->queues_read(c.queues, at, buf, sizeof(buf)));
		ASSERT_MEMEQ(buf, c.queue_mem + at, sizeof(buf));
	}
	ASSERT_OK(rig.nic[0]->ops->queues_read(c.queues, total - 3, buf, 3));
	ASSERT_MEMEQ(buf, c.queue_mem + total - 3, 3);
	ASSERT_OK(rig.nic[0]->ops->queues_read(c.queues, total, buf, 0));
	for (unsigned int i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
		ASSERT_ERR(rig.nic[0]->ops->queues_read(c.queues, total - outside[i].offset, buf,
							outside[i].bytes), ERANGE);
	client_close(&c);
	rig_close(&rig);
}

TEST(cq_rings_are_bounded)
{
	struct nic_info info;
	struct memory_rig m;

	open_rig(&m);
	ASSERT_OK(nic_query(m.rig.nic[0], &info));
	refuse_cqs(&m, 1, info.max_log2_cq_entries + 1);
	refuse_cqs(&m, 129, info.max_log2_cq_entries);
	close_rig(&m);
}

TEST(nic_page_cannot_be_written_by_clients)
{
	struct memory_rig m;
	char path[64];
	void *page;
	int fd;

	open_rig(&m);
	fd = m.c.ctx->doorbell.nic_page_fd;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(page == MAP_FAILED);
	ASSERT_NE(mprotect((void *)(uintptr_t)m.c.nic_page, 4096, PROT_READ | PROT_WRITE), 0);
	ASSERT_NE(write(fd, "x", 1), 1);
	ASSERT_NE(ftruncate(fd, 0), 0);
	ASSERT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(page == MAP_FAILED);
	close(fd);
	close_rig(&m);
}

TEST(doorbell_page_cannot_be_taken_away)
{
	struct memory_rig m;
	int fd;

	open_rig(&m);
	fd = m.c.ctx->doorbell.page_fd;
	ASSERT_NE(ftruncate(fd, 0), 0);
	ASSERT_NE(ftruncate(fd, 8192), 0);
	/* A hole reads as "no doorbell". */
	ASSERT_OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	client_reg(&m.c);
	client_create(&m.c, 1, 0);
	client_connect(&m.c, 0, &m.c, 0);
	client_post_inline(&m.c, 0, 7, &m.c, 0);
	client_ring(&m.c, 0);
	client_complete(&m.c, 0);
	close_rig(&m);
}
