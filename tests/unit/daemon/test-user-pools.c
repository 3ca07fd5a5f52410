/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/clients/user-pools.h"
#include "tests/lib/test.h"

static void write_max_map_count(const char *text)
{
	char folder[] = "/tmp/shmd-room-XXXXXX", path[128];
	FILE *file;

	ASSERT(mkdtemp(folder));
	setenv("SHMEMD_PROCFS", folder, 1);
	snprintf(path, sizeof(path), "%s/sys", folder);
	ASSERT_OK(mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/sys/vm", folder);
	ASSERT_OK(mkdir(path, 0700));
	if (!text)
		return;
	snprintf(path, sizeof(path), "%s/sys/vm/max_map_count", folder);
	file = fopen(path, "we");
	ASSERT(file);
	fputs(text, file);
	fclose(file);
}

static void remove_it(void)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -r '%s'", getenv("SHMEMD_PROCFS"));
	ASSERT_EQ(system(command), 0);
}

static uint64_t pool_of(const char *text)
{
	struct quota_amount pools;

	write_max_map_count(text);
	user_pools_compute(1000, 2, &pools);
	remove_it();
	return pools.n[QUOTA_MAPS];
}

/* Threads, NICs and memory on its way back need mappings too, and controllers descriptors. */
TEST(an_eighth_of_the_mappings_and_a_quarter_of_the_descriptors_stay_with_the_daemon)
{
	struct quota_amount pools;

	ASSERT_EQ(pool_of("65530\n"), 65530 - 8191);
	ASSERT_EQ(pool_of("262144\n"), 262144 - 32768);
	user_pools_compute(65536, 2, &pools);
	ASSERT_EQ(pools.n[QUOTA_FDS], 49152 - 8);
	/* A larger part of a small number stays. */
	user_pools_compute(1024, 64, &pools);
	ASSERT_EQ(pools.n[QUOTA_FDS], 512);
	user_pools_compute(256, 64, &pools);
	ASSERT_EQ(pools.n[QUOTA_FDS], 64);
	ASSERT_EQ(pools.n[QUOTA_SESSIONS], 0);
}

TEST(limit_that_cannot_be_read_is_the_kernels_default)
{
	ASSERT_EQ(pool_of(NULL), 65530 - 8191);
	ASSERT_EQ(pool_of("many\n"), 65530 - 8191);
	ASSERT_EQ(pool_of("0\n"), 65530 - 8191);
}
