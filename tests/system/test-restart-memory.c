/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session with more memory than the service manager has names for: daemons die while it registers and deregisters, and NICs still
 * reach all of it. At the end the manager has nothing of it.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define N_MEMORIES 200u
#define N_KILLS 12u
#define NAMES_BYTES (1u << 16)
#define FEW_NAMES 100u

struct memory {
	struct shmd_mem *mem;
	struct shmd_mr *mr;
};

static const struct shmd_queues_attr one_qp = {.n_qps = 1};
static struct memory memories[N_MEMORIES];
static struct lab_side side;
static bool stop; /* atomic */

static void reg(struct memory *memory)
{
	ASSERT_OK(shmd_mem_alloc(side.client, 4096, &memory->mem));
	ASSERT_OK(shmd_mr_reg_mem(side.nic, memory->mem, SHMD_ACCESS_ALL, &memory->mr));
}

static void dereg(struct memory *memory)
{
	ASSERT_OK(shmd_mr_dereg(memory->mr));
	shmd_mem_free(memory->mem);
}

/* By the NIC, into this memory. */
static void put_and_verify(const struct memory *memory, uint64_t value)
{
	uint8_t *to = shmd_mem_addr(memory->mem);

	memcpy(lab_byte(&side, 0), &value, sizeof(value));
	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(side.queues, 0),
				  shmd_dev_addr_of((uintptr_t)to, shmd_mr_rkey_be(memory->mr)), lab_local(&side, 0),
				  sizeof(value), test_patience_nsec()),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(to, &value, sizeof(value));
}

/* Every third goes and comes again: in the middle of what is kept. */
static void *change_until_stopped(void *arg)
{
	unsigned int *n = arg;

	for (unsigned int i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i = (i + 3) % N_MEMORIES) {
		dereg(&memories[i]);
		reg(&memories[i]);
		(*n)++;
	}
	return NULL;
}

static void kill_many(struct fixture_keeper *keeper)
{
	unsigned int n_changes = 0;
	pthread_t thread;

	ASSERT_OK(pthread_create(&thread, NULL, change_until_stopped, &n_changes));
	for (unsigned int i = 0; i < N_KILLS; i++) {
		usleep((useconds_t)(i * 7919 % 20000));
		if (i % 4 == 3)
			fixture_keeper_restart(keeper);
		else
			fixture_keeper_kill_daemon(keeper);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	ASSERT_OK(pthread_join(thread, NULL));
	printf("# %u kills, %u changes\n", N_KILLS, n_changes);
}

static unsigned int count_regions(const struct fixture_keeper *keeper)
{
	struct shmd_client *control = lab_control(&keeper->daemon);
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	shmd_client_close(control);
	return status.n_mrs;
}

static void await_names(struct fixture_keeper *keeper, unsigned int n)
{
	static char names[NAMES_BYTES];
	uint64_t end = nsec_now() + test_patience_nsec();

	while (fixture_keeper_list(keeper, names, sizeof(names)) != n && nsec_now() < end)
		usleep(1000);
	if (fixture_keeper_list(keeper, names, sizeof(names)) != n)
		test_fail(TEST_WHERE, "the manager keeps, not %u names:\n%s", n, names);
}

TEST_TIMEOUT(memory_of_many_regions_outlives_many_kills, 300)
{
	struct fixture_keeper keeper = {0};
	static char names[NAMES_BYTES];
	unsigned int n_before, n_regions;

	fixture_keeper_start(&keeper, "--soft-nics=1", "--restart-grace=600000", NULL);
	n_before = fixture_keeper_list(&keeper, names, sizeof(names));
	lab_side_open_on(&side, lab_client_limited(&keeper.daemon, test_patience_nsec()), &one_qp);
	lab_connect(&side, 0, &side, 0);
	for (unsigned int i = 0; i < N_MEMORIES; i++)
		reg(&memories[i]);
	ASSERT_LT(fixture_keeper_list(&keeper, names, sizeof(names)), FEW_NAMES);
	n_regions = count_regions(&keeper);
	kill_many(&keeper);
	for (unsigned int i = 0; i < N_MEMORIES; i++)
		put_and_verify(&memories[i], i + 1);
	ASSERT_EQ(count_regions(&keeper), n_regions);
	for (unsigned int i = 0; i < N_MEMORIES; i++)
		dereg(&memories[i]);
	lab_side_close(&side);
	await_names(&keeper, n_before);
	fixture_keeper_stop(&keeper);
}
