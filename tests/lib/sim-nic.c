/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim-nic.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"

/* The simulator's file "commands": eight bytes for each NIC, of each of these. */
#define NICS 8u
enum { COMMANDS, KILLS, CONTEXTS, OBJECTS, N_COUNTS };
#define COUNTS_BYTES (N_COUNTS * NICS * sizeof(uint64_t))
#define KILL_SENDER (UINT64_C(1) << 63)
#define LIMIT_NSEC (20 * NSEC_PER_SEC)

const char *sim_nic_path(char path[256], const char *name)
{
	const char *root = getenv("MLX5SIM_ROOT");

	if (!root)
		test_skip("only a simulated NIC can be told to do that");
	snprintf(path, 256, "%s/%s", root, name);
	return path;
}

void sim_nic_happen(const char *what)
{
	char path[256];
	FILE *file = fopen(sim_nic_path(path, "control"), "w");

	ASSERT(file);
	ASSERT_GT(fprintf(file, "%s\n", what), 0);
	ASSERT_OK(fclose(file));
}

static int open_commands(void)
{
	char path[256];
	int fd = open(sim_nic_path(path, "commands"), O_RDWR | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	return fd;
}

static uint64_t *map_counts(void)
{
	int fd = open_commands();
	void *map = mmap(NULL, COUNTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ASSERT(map != MAP_FAILED);
	close(fd);
	return map;
}

static uint64_t exchange(unsigned int nic, unsigned int what, uint64_t value)
{
	uint64_t *map = map_counts(), was;

	ASSERT_LT(nic, NICS);
	was = __atomic_exchange_n(&map[what * NICS + nic], value, __ATOMIC_RELAXED);
	munmap(map, COUNTS_BYTES);
	return was;
}

static uint64_t look(unsigned int nic, unsigned int what)
{
	uint64_t *map = map_counts(), n;

	ASSERT_LT(nic, NICS);
	n = __atomic_load_n(&map[what * NICS + nic], __ATOMIC_RELAXED);
	munmap(map, COUNTS_BYTES);
	return n;
}

uint64_t sim_nic_commands(unsigned int nic)
{
	return look(nic, COMMANDS);
}

void sim_nic_kill_after(unsigned int nic, uint64_t n)
{
	exchange(nic, KILLS, n ? sim_nic_commands(nic) + n : 0);
}

void sim_nic_kill_sender_after(unsigned int nic, uint64_t n)
{
	exchange(nic, KILLS, (sim_nic_commands(nic) + n) | KILL_SENDER);
}

bool sim_nic_kill_over(unsigned int nic)
{
	return exchange(nic, KILLS, 0) == 0;
}

uint64_t sim_nic_objects(unsigned int nic)
{
	return look(nic, OBJECTS);
}

static void wait_count(unsigned int nic, unsigned int what, uint64_t n, const char *words)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t end = nsec_now() + LIMIT_NSEC;

	while (look(nic, what) != n) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "%llu %s, not %llu", (unsigned long long)look(nic, what), words,
				  (unsigned long long)n);
		nanosleep(&pause, NULL);
	}
}

void sim_nic_wait_contexts(unsigned int nic, uint64_t n)
{
	wait_count(nic, CONTEXTS, n, "contexts are open");
}

void sim_nic_wait_objects(unsigned int nic, uint64_t n)
{
	wait_count(nic, OBJECTS, n, "objects are there");
}
