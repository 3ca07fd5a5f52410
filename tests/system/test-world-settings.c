/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that change what a world reports: the log, guards and leaks of the heap. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

#define N_PES 2
#define LOG_BYTES 8192

static void name_log(const char *folder, const char *rank, char path[256])
{
	snprintf(path, 256, "%s/log.%s", folder, rank);
}

static void read_log(const char *folder, const char *rank, char text[LOG_BYTES])
{
	char path[256];
	FILE *file;
	size_t n;

	name_log(folder, rank, path);
	file = fopen(path, "r");
	ASSERT(file);
	n = fread(text, 1, LOG_BYTES - 1, file);
	text[n] = '\0';
	fclose(file);
	unlink(path);
}

static void set_log(const char *folder)
{
	char path[256];

	name_log(folder, "%r", path);
	ASSERT_OK(setenv("SHMD_LOG_FILE", path, 1));
	ASSERT_OK(setenv("SHMD_LOG", "info", 1));
}

static int leaks_and_grows(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;
	void *kept, *freed;

	set_log(arg);
	ASSERT_OK(setenv("SHMD_HEAP_DEBUG", "leaks", 1));
	world = world_lab_open_started(lab, pe);
	world_lab_must(shmd_malloc(world, 64, 0, &kept), "malloc");
	world_lab_must(shmd_malloc(world, (size_t)256 << 20, 0, &freed), "malloc");
	world_lab_must(shmd_free(world, freed), "free");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(log_has_the_world_its_growth_and_what_was_not_freed, 120)
{
	struct fixture_daemon daemon;
	char text[LOG_BYTES];

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, N_PES, leaks_and_grows, daemon.folder);
	for (int pe = 0; pe < N_PES; pe++) {
		read_log(daemon.folder, pe ? "1" : "0", text);
		ASSERT(strstr(text, "a world of 2 PEs, by uid"));
		ASSERT(strstr(text, "the heap grows by "));
		ASSERT(strstr(text, "not freed: 64 bytes"));
		ASSERT(strstr(text, "1 allocations of 64 bytes in all were not freed"));
	}
	fixture_daemon_stop(&daemon);
}

static int writes_past_the_end(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;
	char *first, *second;

	set_log(arg);
	ASSERT_OK(setenv("SHMD_HEAP_DEBUG", "guard", 1));
	world = world_lab_open_started(lab, pe);
	world_lab_must(shmd_calloc(world, 100, 1, 0, (void **)&first), "calloc");
	world_lab_must(shmd_malloc(world, 100, 0, (void **)&second), "malloc");
	world_lab_must(shmd_realloc(world, second, 300, (void **)&second), "realloc");
	memset(first, 1, 100);
	memset(second, 2, 300);
	ASSERT_EQ(first[99], 1);
	if (pe == 0)
		first[100] = 3;
	if (pe == 1)
		second[300] = 4;
	if (pe == 0)
		ASSERT_ERR(shmd_free(world, first), EFAULT);
	else
		ASSERT_OK(shmd_free(world, first));
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(guards_find_a_byte_behind_an_allocation_at_its_free_and_at_the_end, 120)
{
	struct fixture_daemon daemon;
	char text[LOG_BYTES];

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, N_PES, writes_past_the_end, daemon.folder);
	read_log(daemon.folder, "0", text);
	read_log(daemon.folder, "1", text);
	ASSERT(strstr(text, "1 allocations are damaged"));
	fixture_daemon_stop(&daemon);
}

static int has_guards_on_one_pe(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;

	(void)arg;
	if (pe == 1)
		ASSERT_OK(setenv("SHMD_HEAP_DEBUG", "guard", 1));
	world = world_lab_open(lab, pe);
	ASSERT_ERR(shmd_world_start(world), EINVAL);
	ASSERT(strstr(shmd_error_text(), "guard in SHMD_HEAP_DEBUG is 1 on PE 1, and 0 on PE 0"));
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(guards_on_one_pe_alone_are_refused, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, N_PES, has_guards_on_one_pe, NULL);
	fixture_daemon_stop(&daemon);
}
