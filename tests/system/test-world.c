/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds on one node, with mapped memory: opening, starting, the heap, closing; many at once and one after the other. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

static uint64_t *word_of(const struct shmd_world *world, uint64_t *own, int pe)
{
	uint64_t *at = shmd_ptr(world, own, pe);

	ASSERT(at);
	return at;
}

/* ---- one world */

static int opens_and_closes(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open(lab, pe);
	struct shmd_world_info info;
	void *memory;

	(void)arg;
	ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_OPEN);
	ASSERT_EQ(shmd_my_pe(world), pe);
	ASSERT_EQ(shmd_n_pes(world), lab->n);
	ASSERT(!shmd_team_world(world));
	ASSERT_ERR(shmd_free(world, &info), ENOTCONN);
	ASSERT_ERR(shmd_barrier_all(world), ENOTCONN);
	ASSERT_STREQ(shmd_error_text(), "the world has no heap yet: call shmd_world_start() first");
	ASSERT_ERR(shmd_team_sync(shmd_team_world(world)), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "team is NULL: the teams of a world are there when shmd_world_start() has made them");
	ASSERT_ERR(shmd_quiet(shmd_world_ctx(world)), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "ctx is NULL: the context of a world is there when shmd_world_start() has made it");
	world_lab_must(shmd_malloc(world, 100, 0, &memory), "malloc");
	ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_STARTED);
	ASSERT_OK(shmd_world_info(world, &info));
	ASSERT_EQ(info.pe, pe);
	ASSERT_EQ(info.node, 0);
	ASSERT_EQ(info.n_nodes, 1);
	ASSERT_EQ(info.node_pe, pe);
	ASSERT_EQ(info.n_node_pes, lab->n);
	ASSERT_EQ(info.n_gone, 0);
	ASSERT_EQ(info.heap_used_bytes, 100);
	ASSERT_STREQ(info.bootstrap, "uid");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(worlds_of_every_size_open_and_close, 120)
{
	static const int sizes[] = {1, 2, 3, 8, 16};
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		world_lab_run(&daemon, sizes[i], opens_and_closes, NULL);
	fixture_daemon_stop(&daemon);
}

/* ---- the heap */

/* Each PE writes its number into its place in the memory of all PEs. */
static int all_write_to_all(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	uint64_t *table;

	(void)arg;
	world_lab_must(shmd_calloc(world, (size_t)lab->n, sizeof(*table), 0, (void **)&table), "calloc");
	for (int i = 0; i < lab->n; i++)
		__atomic_store_n(&word_of(world, table, i)[pe], (uint64_t)pe + 1, __ATOMIC_RELEASE);
	world_lab_must(shmd_barrier_all(world), "barrier");
	for (int i = 0; i < lab->n; i++)
		ASSERT_EQ(table[i], (uint64_t)i + 1);
	ASSERT(!shmd_ptr(world, &world, 0));
	ASSERT(!shmd_ptr(world, table, lab->n));
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(the_address_of_one_copy_names_the_copies_of_all, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, all_write_to_all, NULL);
	world_lab_run(&daemon, 3, all_write_to_all, NULL);
	world_lab_run(&daemon, 16, all_write_to_all, NULL);
	fixture_daemon_stop(&daemon);
}

static int grows(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_world_info info;
	uint8_t *parts[8];

	(void)arg;
	for (int i = 0; i < 8; i++) {
		world_lab_must(shmd_malloc(world, 8u << 20, 0, (void **)&parts[i]), "malloc");
		memset(parts[i], pe + i, 8u << 20);
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	for (int i = 0; i < 8; i++)
		for (int other = 0; other < lab->n; other++) {
			const uint8_t *at = shmd_ptr(world, parts[i], other);

			ASSERT_EQ(at[0], other + i);
			ASSERT_EQ(at[(8u << 20) - 1], other + i);
		}
	ASSERT_OK(shmd_world_info(world, &info));
	ASSERT_GE(info.heap_bytes, UINT64_C(64) << 20);
	ASSERT_EQ(info.heap_used_bytes, UINT64_C(64) << 20);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(the_heap_grows_on_all_pes, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, grows, NULL);
	fixture_daemon_stop(&daemon);
}

/* Frees are local; the memory serves again when all PEs have freed it. */
static int reuses(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_world_info before, info;
	void *parts[1000];

	(void)arg;
	(void)lab;
	ASSERT_OK(shmd_world_info(world, &before));
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 1000; i++)
			world_lab_must(shmd_malloc(world, 3000, 0, &parts[i]), "malloc");
		for (int i = 0; i < 1000; i++)
			ASSERT_OK(shmd_free(world, parts[pe % 2 ? i : 999 - i]));
	}
	ASSERT_ERR(shmd_free(world, parts[0]), EINVAL);
	ASSERT_ERR(shmd_free(world, &info), EINVAL);
	ASSERT_OK(shmd_free(world, NULL));
	ASSERT_OK(shmd_world_info(world, &info));
	ASSERT_EQ(info.heap_bytes, before.heap_bytes);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(memory_that_all_have_freed_is_used_again, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, reuses, NULL);
	fixture_daemon_stop(&daemon);
}

static int is_full(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	void *memory = NULL, *small;

	(void)arg;
	(void)lab;
	ASSERT_ERR(shmd_malloc(world, UINT64_C(4) << 30, 0, &memory), ENOMEM);
	ASSERT(!memory);
	ASSERT_ERR(shmd_calloc(world, SIZE_MAX, 3, 0, &memory), ENOMEM);
	world_lab_must(shmd_malloc(world, 4096, 0, &small), "malloc");
	world_lab_must(shmd_malloc(world, 0, 0, &memory), "malloc of nothing");
	ASSERT(!memory);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_heap_that_is_full_fails_on_all_pes_and_goes_on, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, is_full, NULL);
	fixture_daemon_stop(&daemon);
}

static int differs(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	void *memory;

	(void)arg;
	(void)lab;
	ASSERT_ERR(shmd_malloc(world, pe == 1 ? 200 : 100, 0, &memory), EINVAL);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	world_lab_must(shmd_malloc(world, 100, 0, &memory), "malloc");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(calls_that_differ_fail_on_all_pes_with_a_name, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, differs, NULL);
	fixture_daemon_stop(&daemon);
}

static int resizes(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	uint8_t *memory = NULL, *wall;

	(void)arg;
	(void)lab;
	world_lab_must(shmd_realloc(world, NULL, 1000, (void **)&memory), "realloc of nothing");
	memset(memory, pe + 1, 1000);
	world_lab_must(shmd_malloc(world, 64, 0, (void **)&wall), "malloc");
	world_lab_must(shmd_realloc(world, memory, 1u << 20, (void **)&memory), "realloc");
	for (int i = 0; i < 1000; i++)
		ASSERT_EQ(memory[i], pe + 1);
	ASSERT_ERR(shmd_realloc(world, pe == 0 ? memory + 1 : memory, 10, (void **)&memory), EINVAL);
	world_lab_must(shmd_align(world, 1u << 16, 10, 0, (void **)&wall), "align");
	ASSERT_EQ((uintptr_t)wall % (1u << 16), 0);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(memory_keeps_its_contents_when_it_is_resized, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, resizes, NULL);
	fixture_daemon_stop(&daemon);
}

/* ---- several worlds */

static int opens_often(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_uid *uids = arg;
	struct world_lab mine = *lab;

	for (int i = 0; i < 100; i++) {
		struct shmd_world *world;
		void *memory;

		mine.uid = uids[i];
		world = world_lab_open(&mine, pe);
		world_lab_must(shmd_malloc(world, 1000, 0, &memory), "malloc");
		world_lab_close(world);
	}
	return 0;
}

static void make_uids(struct shmd_uid *uids, int n)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};

	for (int i = 0; i < n; i++)
		world_lab_must(bootstrap_uid_make(&how, &uids[i]), "uid");
}

TEST_TIMEOUT(a_hundred_worlds_follow_one_another, 240)
{
	struct fixture_daemon daemon;
	struct shmd_uid uids[100];

	fixture_daemon_start(&daemon, NULL);
	make_uids(uids, 100);
	world_lab_run(&daemon, 3, opens_often, uids);
	fixture_daemon_stop(&daemon);
}

static int count_own(void *arg, const struct shmd_pe_item *item)
{
	*(unsigned int *)arg += item->pid == (uint32_t)getpid();
	return 0;
}

/* PEs that this process is, as shmemctl lists them. */
static unsigned int n_listed(const struct world_lab *lab)
{
	struct shmd_client_attr attr = {.socket_path = lab->daemon->socket, .role = SHMD_ROLE_CONTROL};
	struct shmd_client *control;
	unsigned int n = 0;

	world_lab_must(shmd_client_open(&attr, &control), "control");
	world_lab_must(shmd_admin_pes(control, count_own, &n), "list");
	shmd_client_close(control);
	return n;
}

/* All of four PEs, the first three, the last two: each with memory of its own. */
static int opens_three_at_once(const struct world_lab *lab, int pe, void *arg)
{
	static const int first[] = {0, 0, 2}, size[] = {4, 3, 2};
	struct shmd_uid *uids = arg;
	struct shmd_world *worlds[3] = {NULL};
	unsigned int n_left = 0;
	uint64_t *words[3];

	for (int i = 0; i < 3; i++) {
		struct world_lab mine = *lab;

		if (pe < first[i] || pe >= first[i] + size[i])
			continue;
		mine.uid = uids[i];
		mine.n = size[i];
		worlds[i] = world_lab_open(&mine, pe - first[i]);
		world_lab_must(shmd_calloc(worlds[i], 1, 8, 0, (void **)&words[i]), "calloc");
		ASSERT_EQ(n_listed(lab), ++n_left);
	}
	for (int i = 0; i < 3; i++) {
		if (!worlds[i])
			continue;
		for (int other = 0; other < size[i]; other++)
			__atomic_add_fetch(word_of(worlds[i], words[i], other), (uint64_t)i + 1, __ATOMIC_RELAXED);
		world_lab_must(shmd_barrier_all(worlds[i]), "barrier");
		ASSERT_EQ(*words[i], (uint64_t)(i + 1) * (uint64_t)size[i]);
	}
	for (int i = 2; i >= 0; i--) {
		world_lab_must(shmd_world_close(worlds[i]), "close");
		n_left -= worlds[i] != NULL;
		ASSERT_EQ(n_listed(lab), n_left);
	}
	return 0;
}

TEST_TIMEOUT(worlds_of_different_sizes_live_at_once, 120)
{
	struct fixture_daemon daemon;
	struct shmd_uid uids[3];

	fixture_daemon_start(&daemon, NULL);
	make_uids(uids, 3);
	world_lab_run(&daemon, 4, opens_three_at_once, uids);
	fixture_daemon_stop(&daemon);
}
