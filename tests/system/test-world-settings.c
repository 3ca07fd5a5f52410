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
#define LOG_BYTES 16384

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

/* ---- the log of a job */

static int does_a_little_of_all(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_world *world;
	struct shmd_team *team;
	char path[256];
	void *memory;

	/* Lines from before a PE knows its rank are in a file without a rank alone. */
	name_log(arg, "all", path);
	ASSERT_OK(setenv("SHMD_LOG_FILE", path, 1));
	ASSERT_OK(setenv("SHMD_LOG", "trace", 1));
	mine.attr.paths = SHMD_ALLOW_QUEUE;
	world = world_lab_open_started(&mine, pe);
	world_lab_must(shmd_malloc(world, (size_t)64 << 20, 0, &memory), "malloc");
	world_lab_must(shmd_team_split_color(shmd_team_world(world), 0, 0, &team), "split");
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(trace_lets_a_reader_follow_each_part_of_a_job, 120)
{
	static const char *const lines[] = {
		" bootstrap info: rank 1 of 2 met the others by uid ", " bootstrap debug: rank 1 has place 1 in the tree, below rank 0, by IPv4",
		" settings debug: SHMD_LOG=trace (SHMD_LOG)", " world debug: the world has started",
		" world debug: closing the world", " path info: to PE", ", because a setting forbids mapped memory",
		" rma info: queues on soft", " heap info: the heap begins with ", " heap info: the heap grows by ",
		" heap trace: shmd_malloc of 67108864 bytes: done", " team debug: team 4 begins: 2 PEs", " team debug: team 4 ends",
	};
	struct fixture_daemon daemon;
	char text[LOG_BYTES];

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, N_PES, does_a_little_of_all, daemon.folder);
	read_log(daemon.folder, "all", text);
	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!strstr(text, lines[i]))
			test_fail(TEST_WHERE, "no line has \"%s\":\n%s", lines[i], text);
	fixture_daemon_stop(&daemon);
}

/* ---- huge pages */

static int asks_for_huge_pages(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;
	int r;

	(void)arg;
	ASSERT_OK(setenv("SHMD_HUGE_PAGES", "on", 1));
	world = world_lab_open(lab, pe);
	r = shmd_world_start(world);
	if (r < 0) {
		ASSERT_EQ(r, -ENOMEM);
		ASSERT(strstr(shmd_error_text(), "SHMD_HUGE_PAGES is on: "));
		ASSERT(strstr(shmd_error_text(), "vm.nr_hugepages"));
	}
	ASSERT_EQ(shmd_world_status(world), r < 0 ? SHMD_WORLD_OPEN : SHMD_WORLD_STARTED);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(without_free_huge_pages_a_world_that_insists_does_not_start_and_says_so, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, N_PES, asks_for_huge_pages, NULL);
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
