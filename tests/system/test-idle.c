/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting without burning: with eight soft NICs, sixteen sessions whose queues have all been used, and nothing to do,
 * the daemon spends at most a thousandth of the time on a CPU. Under a sanitizer only the order of magnitude is checked. A
 * CPU that is shared with others is slower at times: several waits are looked at, and what wakes up does so in each of them.
 */
#include "tests/lib/child.h"
#include "tests/lib/test.h"

#include <shmd/dev/rma.h>
#include <shmemclient.h>
#include <shmemclient-admin.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_PROCESSES 64u
#define N_NICS 8u
#define N_SESSIONS 16u
#define WAIT_NSEC 10000000000ull
#define N_WAITS 5
#define QUIET_MSEC (test_is_full() ? 10000 : 2000)

struct one {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
};

/* Time on a CPU of all threads of a process, to the nanosecond. */
static uint64_t process_nsec(pid_t pid)
{
	char path[320];
	struct dirent *entry;
	uint64_t sum = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	/* One without clients ends. */
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		unsigned long long nsec = 0;
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.32s/schedstat", pid, entry->d_name);
		file = fopen(path, "re");
		ASSERT(file);
		ASSERT_EQ(fscanf(file, "%llu", &nsec), 1);
		fclose(file);
		sum += nsec;
	}
	closedir(dir);
	return sum;
}

/* All threads of the daemon and of what it has started. */
static uint64_t cpu_nsec(uint32_t pid)
{
	pid_t pids[MOST_PROCESSES];
	unsigned int n = child_tree((pid_t)pid, pids, MOST_PROCESSES);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += process_nsec(pids[i]);
	return sum;
}

static void put_to_self(struct one *one)
{
	uint64_t heap = (uintptr_t)shmd_mem_addr(one->mem);
	struct shmd_addr addr;

	ASSERT_OK(shmd_queues_addr(one->queues, 0, &addr));
	ASSERT_OK(shmd_queues_connect(one->queues, 0, 1, &addr, NULL, NULL));
	memset(shmd_mem_addr(one->mem), 0x5a, 8);
	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(one->queues, 0),
				  shmd_dev_addr_of(heap + 64, shmd_mr_rkey_be(one->mr)),
				  shmd_dev_addr_of(heap, shmd_mr_lkey_be(one->mr)), 8, WAIT_NSEC),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ((uint8_t *)shmd_mem_addr(one->mem) + 64, shmd_mem_addr(one->mem), 8);
}

static void open_one(struct one *one, unsigned int i, int gpu_driven)
{
	struct shmd_queues_attr attr = {.n_qps = 1, .gpu_driven = gpu_driven};
	struct shmd_nic_attr nic = {0};
	char name[16];

	snprintf(name, sizeof(name), "soft%u", i % N_NICS);
	nic.nic = name;
	ASSERT_OK(shmd_client_open(NULL, &one->client));
	ASSERT_OK(shmd_nic_open(one->client, &nic, &one->nic));
	ASSERT_OK(shmd_mem_alloc(one->client, 4096, &one->mem));
	ASSERT_OK(shmd_mr_reg_mem(one->nic, one->mem, SHMD_ACCESS_ALL, &one->mr));
	ASSERT_OK(shmd_queues_create(one->nic, &attr, &one->queues));
	put_to_self(one);
}

static void sleep_msec(long msec)
{
	nanosleep(&(struct timespec){msec / 1000, msec % 1000 * 1000000}, NULL);
}

TEST_TIMEOUT(idle_sessions_cost_no_cpu, 90)
{
	static struct one ones[N_SESSIONS];
	struct shmd_daemon_status status;
	const uint64_t quiet_nsec = (uint64_t)QUIET_MSEC * 1000000;
	uint64_t limit = quiet_nsec / (test_has_sanitizer() ? 50 : 1000), spent = limit + 1;
	unsigned int i;

	for (i = 0; i < N_SESSIONS; i++)
		open_one(&ones[i], i, 0);
	ASSERT_OK(shmd_admin_status(ones[0].client, &status));
	ASSERT_EQ(status.n_nics, N_NICS);
	ASSERT_EQ(status.n_sessions, N_SESSIONS);
	sleep_msec(500);
	for (i = 0; i < N_WAITS && spent > limit; i++) {
		spent = cpu_nsec(status.pid);
		sleep_msec(QUIET_MSEC);
		spent = cpu_nsec(status.pid) - spent;
		printf("%d s of idleness: %.3f ms of CPU\n", QUIET_MSEC / 1000, (double)spent / 1e6);
	}
	ASSERT_LE(spent, limit);
	/* Asleep is not deaf. */
	for (i = 0; i < N_SESSIONS; i++) {
		struct shmd_dev_qp *qp = shmd_queues_dev_qp(ones[i].queues, 0);
		uint64_t heap = (uintptr_t)shmd_mem_addr(ones[i].mem);

		ASSERT_EQ(shmd_dev_qp_put(qp, shmd_dev_addr_of(heap + 128, shmd_mr_rkey_be(ones[i].mr)),
					  shmd_dev_addr_of(heap, shmd_mr_lkey_be(ones[i].mr)), 8,
					  WAIT_NSEC),
			  SHMD_DEV_OK);
		shmd_client_close(ones[i].client);
	}
}

/* A GPU cannot wake a thread: its queues are found by the timer. */
TEST(gpu_driven_queues_are_found_by_the_timer)
{
	struct one one;
	struct shmd_dev_qp *qp;
	uint64_t heap;

	open_one(&one, 0, 1);
	qp = shmd_queues_dev_qp(one.queues, 0);
	qp->flags &= ~SHMD_QP_WAKE;
	heap = (uintptr_t)shmd_mem_addr(one.mem);
	sleep_msec(200);
	ASSERT_EQ(shmd_dev_qp_put(qp, shmd_dev_addr_of(heap + 128, shmd_mr_rkey_be(one.mr)),
				  shmd_dev_addr_of(heap, shmd_mr_lkey_be(one.mr)), 8, WAIT_NSEC),
		  SHMD_DEV_OK);
	shmd_client_close(one.client);
}
