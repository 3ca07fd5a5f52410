/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot peers of a world by DC: pairs have RC QPs as PEs name each other, order holds across each change, and PEs and QPs that end take no
 * other PE with them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <shmd/dev/pe.h>
#include <shmemclient-admin.h>

#include "libclient/runtime/world/world.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-lab.h"

#define WORDS 64
#define ROUNDS 60

static struct shmd_world *open_by_dc(const struct world_lab *lab, int pe, const char *hot_peers, const char *hot_start)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", "0", 1);
	setenv("SHMD_HOT_PEERS", hot_peers, 1);
	setenv("SHMD_HOT_START", hot_start, 1);
	mine.attr.paths = SHMD_ALLOW_QUEUE;
	mine.attr.timeout_nsec = test_patience_nsec();
	return world_lab_open_started(&mine, pe);
}

static void run(int n, world_lab_fn fn, void *arg)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, n, fn, arg);
	fixture_daemon_stop(&daemon);
}

/* The queue to a PE; that of a hot one has it as its only peer. */
static struct shmd_dev_way way_to(struct shmd_world *world, int pe)
{
	const struct shmd_dev_pe_way *way = (const struct shmd_dev_pe_way *)(uintptr_t)shmd_ctx_dev(shmd_world_ctx(world))->ways_addr + pe;

	/* Without hot peers. */
	if (!way->state_addr)
		return (struct shmd_dev_way){(void *)(uintptr_t)way->qp_addr, (const void *)(uintptr_t)way->peer_addr};
	return shmd_dev_way_to((const void *)(uintptr_t)way->state_addr, (void *)(uintptr_t)way->qp_addr, way->peer_index);
}

/* By what the library says, and by the queue that a put takes. */
static bool is_hot(struct shmd_world *world, int pe, uint64_t *word)
{
	struct shmd_dev_way way = way_to(world, pe);
	uint64_t before = way.qp->sq_rsvd_index;
	struct shmd_pe_info info;
	bool says;

	world_lab_must(shmd_pe_info(world, pe, &info), "info");
	ASSERT_EQ(info.path, SHMD_PATH_QUEUE);
	says = strstr(info.reason, "hot: by RC beside DC") != NULL;
	ASSERT_EQ(says, way.peer == NULL);
	world_lab_must(shmd_p(shmd_world_ctx(world), word, 1, 8, pe), "p");
	world_lab_must(shmd_quiet(shmd_world_ctx(world)), "quiet");
	ASSERT_GT(way.qp->sq_rsvd_index, before);
	return says;
}

static int n_hot(struct shmd_world *world, uint64_t *word)
{
	int n = 0;

	for (int pe = 0; pe < shmd_n_pes(world); pe++)
		n += pe != shmd_my_pe(world) && is_hot(world, pe, word);
	return n;
}

/* ---- who is hot */

static int take_item(void *arg, const struct shmd_pe_item *item)
{
	struct shmd_pe_item *items = arg;

	ASSERT_LT(item->pe, 8);
	items[item->pe] = *item;
	return 0;
}

static void expect_listed(const struct world_lab *lab, const uint32_t *n_rc)
{
	struct shmd_client *control = lab_control(lab->daemon);
	struct shmd_pe_item items[8] = {0};
	char text[96];

	world_lab_must(shmd_admin_pes(control, take_item, items), "list");
	for (int i = 0; i < lab->n; i++) {
		ASSERT_EQ(items[i].n_rc, n_rc[i]);
		ASSERT_EQ(items[i].n_dc, (uint32_t)lab->n - 1 - n_rc[i]);
		snprintf(text, sizeof(text), "a setting forbids mapped memory; %u hot by RC", n_rc[i]);
		ASSERT_STREQ(items[i].reason, n_rc[i] ? text : "a setting forbids mapped memory");
	}
	shmd_client_close(control);
}

/* PE 0 names 2; 3 names 2, and itself and 2 once more, which count for nothing. */
static int names_some(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, "8", "0");
	static const int of_0[] = {2}, of_3[] = {2, 3, 2};
	static const uint32_t first[] = {1, 0, 2, 1, 0}, then[] = {0, 1, 0, 1, 0}, none[] = {0, 0, 0, 0, 0};
	uint64_t *word;

	(void)arg;
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	ASSERT_EQ(n_hot(world, word), 0);
	world_lab_must(shmd_world_hot_peers(world, pe == 3 ? of_3 : of_0, pe == 3 ? 3 : pe == 0), "0 and 3 name 2");
	ASSERT_EQ(n_hot(world, word), (int)first[pe]);
	ASSERT_EQ(pe != 0 || is_hot(world, 2, word), true);
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0)
		expect_listed(lab, first);
	/* A call names all anew. */
	world_lab_must(shmd_world_hot_peers(world, &(int){3}, pe == 1), "1 names 3");
	ASSERT_EQ(n_hot(world, word), (int)then[pe]);
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0)
		expect_listed(lab, then);
	world_lab_must(shmd_world_hot_peers(world, &pe, 0), "none");
	ASSERT_EQ(n_hot(world, word), 0);
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0)
		expect_listed(lab, none);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_pair_is_hot_if_either_names_the_other_and_all_others_go_by_dc, 240)
{
	run(5, names_some, NULL);
}

/* All want PE 0, which has room for two: the PEs behind it. */
static int names_the_first(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, pe == 4 ? "0" : "2", "0");
	uint64_t *word;

	(void)arg;
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	world_lab_must(shmd_world_hot_peers(world, &(int){0}, pe > 0), "all name PE 0");
	ASSERT_EQ(n_hot(world, word), pe == 0 ? 2 : pe < 3);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(no_pe_has_more_hot_peers_than_its_limit, 240)
{
	run(5, names_the_first, NULL);
}

/* Each PE puts most to the next one. */
static int counts_its_operations(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, "1", "0");
	uint64_t *word;
	int partner = pe ^ 1;

	(void)arg;
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	for (int i = 0; i < 4000; i++)
		world_lab_must(shmd_p(shmd_world_ctx(world), word, 1, 8, i % 8 ? partner : (pe + 2) % lab->n), "p");
	world_lab_must(shmd_world_hot_peers(world, NULL, 0), "the busiest");
	ASSERT_EQ(is_hot(world, partner, word), true);
	ASSERT_EQ(n_hot(world, word), 1);
	/* It is still busy, then it is not. */
	for (int i = 0; i < 2000; i++)
		world_lab_must(shmd_p(shmd_world_ctx(world), word, 1, 8, partner), "p");
	world_lab_must(shmd_world_hot_peers(world, NULL, 0), "the busiest");
	ASSERT_EQ(n_hot(world, word), 1);
	world_lab_must(shmd_world_hot_peers(world, NULL, 0), "the busiest");
	ASSERT_EQ(n_hot(world, word), 0);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(the_busiest_peers_become_hot_and_cool_again, 240)
{
	run(4, counts_its_operations, NULL);
}

static int begins_with_some(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, "8", "2");
	uint64_t *word;

	(void)arg;
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	ASSERT_EQ(n_hot(world, word), 2);
	ASSERT_EQ(is_hot(world, (pe + 1) % lab->n, word), true);
	ASSERT_EQ(is_hot(world, (pe + lab->n - 1) % lab->n, word), true);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_setting_makes_the_nearest_hot_from_the_start, 240)
{
	run(5, begins_with_some, NULL);
}

static int needs_none(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;
	struct shmd_pe_info info;
	struct world_lab mine = *lab;

	mine.attr.paths = arg ? SHMD_ALLOW_QUEUE : SHMD_ALLOW_MAPPED;
	world = world_lab_open(&mine, pe);
	world_lab_must(shmd_world_hot_peers(world, &(int){1}, 1), "hot peers of a world that needs none");
	world_lab_must(shmd_pe_info(world, !pe, &info), "info");
	ASSERT_EQ(info.path, arg ? SHMD_PATH_QUEUE : SHMD_PATH_MAPPED);
	ASSERT(!strstr(info.reason, "hot"));
	ASSERT_ERR(shmd_world_hot_peers(world, &(int){2}, 1), EINVAL);
	ASSERT_ERR(shmd_world_hot_peers(world, NULL, 1), EINVAL);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(worlds_by_rc_or_mapped_memory_stay_as_they_are, 240)
{
	run(2, needs_none, NULL);
	run(2, needs_none, (void *)1);
}

/* One PE has a wrong argument: all get that error, and nothing changes. */
static int is_wrong_once(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, "8", "0");
	uint64_t *word;
	int next = (pe + 1) % lab->n;

	(void)arg;
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	world_lab_must(shmd_world_hot_peers(world, &next, 1), "hot");
	ASSERT_ERR(shmd_world_hot_peers(world, &(int){pe == 1 ? 7 : 0}, pe == 1), EINVAL);
	ASSERT(strstr(shmd_error_text(), "PE 7 is out of range: the world has 3 PEs"));
	ASSERT_EQ(n_hot(world, word), 2);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_wrong_argument_on_one_pe_changes_nothing_on_any, 240)
{
	run(3, is_wrong_once, NULL);
}

/* ---- order */

static void choose(struct shmd_world *world, int round)
{
	int pes[3], n = 0, size = shmd_n_pes(world);

	for (int i = 0; i < size && n < 3; i++)
		if ((round * 7 + i * (shmd_my_pe(world) + 3)) % 4 < round % 3)
			pes[n++] = i;
	world_lab_must(shmd_world_hot_peers(world, pes, n), "hot peers");
}

/* In each round: old values by the way before, new ones by the way after it, and a signal. */
static void put_across(struct shmd_world *world, uint64_t *mine, uint64_t *table, uint64_t *counts, int round)
{
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	int n = shmd_n_pes(world), me = shmd_my_pe(world);
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};

	for (int w = 0; w < WORDS; w++)
		mine[w] = (uint64_t)round * 2;
	for (int pe = 0; pe < n; pe++) {
		world_lab_must(shmd_put_nbi(ctx, &table[me * WORDS], mine, WORDS * 8, pe), "put");
		world_lab_must(shmd_atomic(ctx, &counts[n], &add, pe), "add");
	}
	choose(world, round);
	for (int w = 0; w < WORDS; w++)
		mine[w] = (uint64_t)round * 2 + 1;
	for (int pe = 0; pe < n; pe++)
		world_lab_must(shmd_put_signal_nbi(ctx, &table[me * WORDS], mine, WORDS * 8, &counts[me], 1, SHMD_SIGNAL_ADD, pe), "put_signal");
	world_lab_must(shmd_quiet(ctx), "quiet");
}

static void check_round(struct shmd_world *world, const uint64_t *table, const uint64_t *counts, int round)
{
	int n = shmd_n_pes(world);

	for (int pe = 0; pe < n; pe++) {
		world_lab_must(shmd_wait_until(shmd_world_ctx(world), &counts[pe], 8, SHMD_CMP_GE, (uint64_t)round), "wait");
		for (int w = 0; w < WORDS; w++)
			ASSERT_EQ(table[pe * WORDS + w], (uint64_t)round * 2 + 1);
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(counts[n], (uint64_t)round * (uint64_t)n);
	world_lab_must(shmd_barrier_all(world), "barrier");
}

static int changes_often(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, "2", "0");
	uint64_t *mine, *table, *counts;
	struct shmd_ctx *own;
	uint64_t got;

	(void)arg;
	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &own), "a context");
	world_lab_must(shmd_calloc(world, WORDS, 8, 0, (void **)&mine), "calloc");
	world_lab_must(shmd_calloc(world, (size_t)lab->n * WORDS, 8, 0, (void **)&table), "calloc");
	world_lab_must(shmd_calloc(world, (size_t)lab->n + 1, 8, 0, (void **)&counts), "calloc");
	for (int round = 1; round <= ROUNDS; round++) {
		put_across(world, mine, table, counts, round);
		check_round(world, table, counts, round);
		/* Senders of its own know nothing of it. */
		world_lab_must(shmd_g(own, &counts[pe], 8, (pe + 1) % lab->n, &got), "g");
		ASSERT_GE(got, (uint64_t)round);
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(order_holds_across_every_change, 480)
{
	run(4, changes_often, NULL);
}

/* ---- failures */

static void await_end(const struct shmd_world *world)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (shmd_world_status(world) != SHMD_WORLD_BROKEN) {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
}

static void await_arrivals(const uint32_t *word, uint32_t n)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < n) {
		ASSERT_LT(nsec_now(), end);
		usleep(200);
	}
}

static void arrive(uint32_t *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

static void expect_named(int r, const char *name)
{
	ASSERT(r == -EHOSTDOWN || r == -EIO);
	if (!strstr(shmd_error_text(), name))
		ASSERT_STREQ(shmd_error_text(), name);
}

/* PE 2 is hot for all and is killed; the others are hot for each other. */
static int loses_a_hot_peer(const struct world_lab *lab, int pe, void *n_arrived)
{
	struct shmd_world *world = open_by_dc(lab, pe, "8", "8");
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint64_t *word, got;
	int r;

	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	ASSERT_EQ(n_hot(world, word), lab->n - 1);
	world_lab_must(shmd_barrier_all(world), "barrier");
	/* A barrier fails where a PE has ended, so it ends when all are through. */
	if (pe == 2) {
		await_arrivals(n_arrived, 3);
		raise(SIGKILL);
	}
	arrive(n_arrived);
	do {
		r = shmd_put_nbi(ctx, word, word, 8, 2);
		r = r ? r : shmd_quiet(ctx);
	} while (!r);
	expect_named(r, "PE 2 (");
	await_end(world);
	expect_named(shmd_world_hot_peers(world, &pe, 0), "PE 2 (");
	world_lab_must(shmd_world_forgive(world), "forgive");
	ASSERT_ERR(shmd_p(ctx, word, 1, 8, 2), EHOSTDOWN);
	for (int i = 0; i < lab->n; i++)
		if (i != 2)
			world_lab_must(shmd_g(ctx, word, 8, i, &got), "g");
	world_lab_must(shmd_quiet(ctx), "quiet");
	/* A PE whose world is closed answers nobody. */
	arrive(n_arrived);
	await_arrivals(n_arrived, 6);
	shmd_world_close(world);
	return 0;
}

TEST_TIMEOUT(a_hot_peer_that_is_killed_takes_no_other_along, 240)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 4};
	uint32_t *n_arrived = mmap(NULL, sizeof(*n_arrived), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(n_arrived != MAP_FAILED);
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_start(&lab, loses_a_hot_peer, n_arrived);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 2 ? 128 + SIGKILL : 0);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(n_arrived, sizeof(*n_arrived)));
}

/* A key that nobody has. */
static void break_way(struct shmd_world *world, int pe)
{
	struct shmd_dev_way way = way_to(world, pe);
	struct shmd_dev_mode mode = shmd_dev_mode_of(way.qp, test_patience_nsec());

	mode.peer = way.peer;
	ASSERT_EQ(shmd_dev_qp_p_as(way.qp, shmd_dev_addr_of(4096, 1), 1, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet_as(way.qp, mode), SHMD_DEV_CQE_ERROR);
}

static void lose_the_queue(struct shmd_world *world, uint64_t *words)
{
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint64_t got;

	break_way(world, 1);
	expect_named(shmd_quiet(ctx), "PE 1 (");
	expect_named(shmd_p(ctx, words, 1, 8, 1), "remote access error");
	/* PEs by other queues notice nothing. */
	world_lab_must(shmd_g(ctx, words, 8, 2, &got), "g");
	world_lab_must(shmd_world_forgive(world), "forgive");
}

static int breaks_a_hot_queue(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, "8", "8");
	struct shmd_ctx *ctx = shmd_world_ctx(world), *apart;
	uint64_t *words;

	(void)arg;
	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &apart), "a context");
	world_lab_must(shmd_calloc(world, 4, 8, 0, (void **)&words), "calloc");
	ASSERT_EQ(n_hot(world, words), lab->n - 1);
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0) {
		lose_the_queue(world, words);
		world_lab_must(shmd_p(apart, &words[1], 1, 8, 1), "the news");
	}
	if (pe == 1) {
		world_lab_must(shmd_wait_until(apart, &words[1], 8, SHMD_CMP_EQ, 1), "wait");
		if (shmd_p(ctx, words, 1, 8, 0) || shmd_quiet(ctx))
			world_lab_must(shmd_world_forgive(world), "forgive");
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(n_hot(world, words), pe == 2 ? 2 : 1);
	/* The next call makes the pair anew. */
	for (int i = 0; i < 2; i++) {
		world_lab_must(shmd_world_hot_peers(world, (const int[]){0, 1, 2}, 3), "hot peers");
		ASSERT_EQ(n_hot(world, words), 2);
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_hot_queue_that_fails_is_dc_after_forgive_and_rc_after_the_next_call, 240)
{
	run(3, breaks_a_hot_queue, NULL);
}

/* PE 1 has not used its end since. */
static int breaks_it_silently(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_by_dc(lab, pe, "8", "8");
	uint64_t *words;

	(void)arg;
	world_lab_must(shmd_calloc(world, 4, 8, 0, (void **)&words), "calloc");
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_must(shmd_quiet(shmd_world_ctx(world)), "quiet");
	/* Not by queues, of which one breaks now. */
	world_lab_must(world->boot.ops->barrier(&world->boot), "barrier of the bootstrap");
	if (pe == 0)
		lose_the_queue(world, words);
	world_lab_must(shmd_world_hot_peers(world, (const int[]){0, 1, 2}, 3), "hot peers");
	ASSERT_EQ(n_hot(world, words), 2);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_pair_of_which_one_end_is_gone_is_made_anew, 240)
{
	run(3, breaks_it_silently, NULL);
}
