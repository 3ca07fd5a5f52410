/* SPDX-License-Identifier: Apache-2.0 */
/* Memory on soft NICs: mappings of the daemon, keys, holes and limits. contract-memory.c has what every backend promises. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "daemon/nic/soft/soft.h"
#include "proto/base/later.h"
#include "proto/base/list.h"
#include "tests/lib/test.h"

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
	rig_open_unsaved(&m->rig, 1);
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
		test_skip("this kernel does not report the flags of mappings");
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

struct gate {
	struct later later;
	sem_t open;
};

static void wait_at_gate(struct later *later)
{
	sem_wait(&container_of(later, struct gate, later)->open);
}

/* As this process's own list of mappings has it. */
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

/* After its client has died the last mapping of the pages is the daemon's. Unmapping takes half a second for each GiB. */
TEST(large_memory_is_unmapped_by_a_thread_that_serves_no_queues)
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

/* Number of pairs with the same value. Chance makes one such pair in two thousand runs. */
static unsigned int count_twins(const uint32_t *values, unsigned int n)
{
	unsigned int n_twins = 0;

	for (unsigned int i = 0; i < n; i++)
		for (unsigned int k = 0; k < i; k++)
			n_twins += values[i] == values[k];
	return n_twins;
}

/*
 * Keys of two NICs, one after the other, as of two daemons. The test finds counters, steps of any size, and generators of the
 * form x = a * x + c, whose lowest bits repeat.
 */
TEST(a_key_does_not_help_to_guess_another)
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

/* A client that punches holes makes the NIC read zeros; the NIC never faults. */
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

TEST(a_nic_page_that_is_not_kept_cannot_be_reopened_for_writing)
{
	struct memory_rig m;
	char path[64];
	void *page;
	int fd;

	open_rig(&m);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m.c.ctx->doorbell.nic_page_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(page == MAP_FAILED);
	close(fd);
	close_rig(&m);
}

