/* SPDX-License-Identifier: Apache-2.0 */
/* Teams that their members make by themselves: over each path, in threads, with PEs that come late, give up or die. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/team/meeting.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

static const int both[] = {0, 1};

/* How the PEs of a world reach each other. */
struct way {
	uint32_t paths;
	const char *rc_peers; /* SHMD_RC_PEERS */
};
static const struct way ways[] = {
	{SHMD_ALLOW_MAPPED, "16"},
	{SHMD_ALLOW_QUEUE, "16"},
	{SHMD_ALLOW_QUEUE, "1"}, /* DC */
};

static struct shmd_world *open_with(const struct world_lab *lab, int pe, const struct way *way)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", way->rc_peers, 1);
	mine.attr.paths = way->paths;
	return world_lab_open_started(&mine, pe);
}

static void run_each_way(int n, world_lab_fn fn)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		world_lab_run(&daemon, n, fn, (void *)(uintptr_t)&ways[i]);
	fixture_daemon_stop(&daemon);
}

/* Each member counts in the word of each, twice; the word is symmetric. */
static void count_members(struct shmd_world *world, struct shmd_team *team, uint64_t *word, int expected)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	struct shmd_ctx *ctx;
	uint64_t before = *word;

	ASSERT_EQ(shmd_team_n_pes(team), expected);
	world_lab_must(shmd_team_sync(team), "sync");
	world_lab_must(shmd_ctx_create(team, NULL, &ctx), "ctx");
	for (int round = 1; round <= 2; round++) {
		for (int i = 0; i < expected; i++)
			world_lab_must(shmd_atomic_fetch(ctx, word, &add, i, NULL), "count");
		world_lab_must(shmd_team_barrier(team), "barrier");
		world_lab_must(shmd_wait_until(shmd_world_ctx(world), word, 8, SHMD_CMP_GE, before + (uint64_t)(round * expected)), "wait");
		world_lab_must(shmd_team_sync(team), "sync");
	}
	world_lab_must(shmd_ctx_destroy(ctx), "ctx");
}

static uint64_t *zeroed_words(struct shmd_world *world, size_t n)
{
	uint64_t *words;

	world_lab_must(shmd_calloc(world, n, sizeof(*words), 0, (void **)&words), "calloc");
	return words;
}

static struct shmd_team *make(struct shmd_world *world, uint64_t tag, const int *pes, int n)
{
	const struct shmd_team_members members = {.tag = tag, .pes = pes, .n_pes = n};
	struct shmd_team *team = NULL;

	world_lab_must(shmd_team_from_members(world, &members, &team), "from members");
	return team;
}

static int place_in(const int *pes, int n, int pe)
{
	for (int i = 0; i < n; i++)
		if (pes[i] == pe)
			return i;
	return -1;
}

/* ---- members */

static const int few[] = {4, 1, 5};

/* The others of the world are in no call of the runtime before shmd_world_close(). */
static int makes_a_few(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint64_t *word = zeroed_words(world, 1);
	struct shmd_team *team;
	int place = place_in(few, 3, pe);

	for (int round = 0; place >= 0 && round < 5; round++) {
		team = make(world, 7, few, 3);
		ASSERT_EQ(shmd_team_my_pe(team), place);
		for (int i = 0; i < 3; i++)
			ASSERT_EQ(shmd_team_translate(team, i, NULL), few[i]);
		count_members(world, team, word, 3);
		world_lab_must(shmd_team_destroy(team), "destroy");
	}
	if (place >= 0) {
		team = make(world, 7, &few[place], 1);
		count_members(world, team, word, 1);
		world_lab_must(shmd_team_destroy(team), "destroy");
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(members_make_a_team_without_the_others_over_each_path, 300)
{
	run_each_way(6, makes_a_few);
}

/* Nobody knows the list: PE i is number (i * 3) % 5 of five. */
static int finds_the_others(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	struct shmd_team_members members = {.tag = 99, .n_pes = 5, .my_pe = pe * 3 % 5};
	uint64_t *word = zeroed_words(world, 1);
	struct shmd_team *team;

	for (int round = 0; pe < 5 && round < 5; round++) {
		world_lab_must(shmd_team_from_members(world, &members, &team), "by tag");
		ASSERT_EQ(shmd_team_my_pe(team), members.my_pe);
		for (int i = 0; i < 5; i++)
			ASSERT_EQ(shmd_team_translate(team, i * 3 % 5, NULL), i);
		count_members(world, team, word, 5);
		world_lab_must(shmd_team_destroy(team), "destroy");
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(members_that_know_only_the_tag_find_each_other_over_each_path, 300)
{
	run_each_way(6, finds_the_others);
}

/* A split of such a team, and such a team beside splits. */
static int splits(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	const int reversed[] = {3, 2, 1, 0};
	struct shmd_team *team = make(world, 1, reversed, 4), *half, *all;
	uint64_t *words = zeroed_words(world, 3);

	world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, 4, &all), "split of the world");
	world_lab_must(shmd_team_split_color(team, pe % 2, pe, &half), "split of the team");
	ASSERT_EQ(shmd_team_my_pe(half), pe / 2);
	count_members(world, half, &words[0], 2);
	count_members(world, team, &words[1], 4);
	count_members(world, all, &words[2], 4);
	world_lab_must(shmd_team_destroy(half), "destroy");
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_team_of_members_splits_as_any_other, 300)
{
	run_each_way(4, splits);
}

/* ---- arguments */

static int passes_nonsense(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open(lab, pe);
	const int twice[] = {pe, 1 - pe, pe}, other[] = {1 - pe}, beyond[] = {pe, 2}, below[] = {-1, pe};
	struct shmd_team *team = NULL;
	struct shmd_team_members members = {.n_pes = 1, .pes = &pe};

	(void)arg;
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), ENOTCONN);
	world_lab_must(shmd_world_start(world), "start");
	ASSERT_ERR(shmd_team_from_members(NULL, &members, &team), EINVAL);
	ASSERT_ERR(shmd_team_from_members(world, NULL, &team), EINVAL);
	ASSERT_ERR(shmd_team_from_members(world, &members, NULL), EINVAL);
	members = (struct shmd_team_members){.n_pes = 3, .pes = twice};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EINVAL);
	members = (struct shmd_team_members){.n_pes = 0, .pes = twice};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EINVAL);
	members = (struct shmd_team_members){.n_pes = 1, .pes = other};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EINVAL);
	ASSERT(strstr(shmd_error_text(), "the caller"));
	members = (struct shmd_team_members){.n_pes = 2, .pes = beyond};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EINVAL);
	members = (struct shmd_team_members){.n_pes = 2, .pes = below};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EINVAL);
	members = (struct shmd_team_members){.n_pes = 2, .my_pe = 2};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EINVAL);
	members = (struct shmd_team_members){.n_pes = 2, .my_pe = -1};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EINVAL);
	ASSERT(!team);
	world_lab_must(shmd_sync_all(world), "sync");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(arguments_that_name_no_team_are_refused_at_once, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, passes_nonsense, NULL);
	fixture_daemon_stop(&daemon);
}

/* PEs 0 and 1 both want to be number 0; PE 2 cannot know that. */
static int are_both_the_first(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_team_members members = {.tag = 1, .n_pes = 2, .my_pe = 0};
	struct shmd_world *world;
	struct shmd_team *team;
	int r;

	(void)arg;
	mine.attr.timeout_nsec = UINT64_C(500) * 1000 * 1000;
	world = world_lab_open_started(&mine, pe);
	r = shmd_team_from_members(world, &members, &team);
	/* One of them finds the other, which may see no entry of it any more. */
	ASSERT(r == -EINVAL || r == -ETIMEDOUT);
	if (r == -EINVAL)
		ASSERT(strstr(shmd_error_text(), "both PE"));
	/* The one that found the other waits for it no longer than its limit. */
	(void)shmd_world_close(world);
	return r == -EINVAL ? 0 : 3;
}

TEST_TIMEOUT(two_pes_of_one_number_are_refused, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 2};
	int n_refused = 0;

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, are_both_the_first, NULL);
	for (int pe = 0; pe < lab.n; pe++) {
		int status = world_lab_wait(&lab, pe);

		ASSERT(status == 0 || status == 1);
		n_refused += status == 0;
	}
	ASSERT_GE(n_refused, 1);
	fixture_daemon_stop(&daemon);
}

/* ---- threads */

#define N_THREAD_PES 4
#define N_PAIRS (N_THREAD_PES * (N_THREAD_PES - 1) / 2)

struct pair {
	struct shmd_world *world;
	uint64_t *word; /* symmetric, of this pair */
	int pes[2];
	uint64_t tag;
	int n_rounds;
};

static void *makes_pairs(void *arg)
{
	const struct pair *pair = arg;

	for (int i = 0; i < pair->n_rounds; i++) {
		struct shmd_team *team = make(pair->world, pair->tag, pair->pes, 2);

		for (int k = 0; k < 2; k++)
			world_lab_must(shmd_team_sync(team), "sync");
		world_lab_must(shmd_team_destroy(team), "destroy");
	}
	return NULL;
}

/* Every two PEs make teams, those of one PE all at once; each pair twice, told apart by the tag alone. */
static int makes_all_pairs(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	struct pair pairs[2 * N_PAIRS];
	pthread_t threads[2 * N_PAIRS];
	int n = 0;

	for (int tag = 0; tag < 2; tag++)
		for (int i = 0; i < lab->n; i++)
			if (i != pe)
				pairs[n++] = (struct pair){.world = world,
							   .pes = {i < pe ? i : pe, i < pe ? pe : i},
							   .tag = (uint64_t)tag,
							   .n_rounds = 10};
	for (int i = 0; i < n; i++)
		ASSERT_EQ(pthread_create(&threads[i], NULL, makes_pairs, &pairs[i]), 0);
	for (int i = 0; i < n; i++)
		ASSERT_EQ(pthread_join(threads[i], NULL), 0);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_pe_makes_several_teams_at_once, 600)
{
	run_each_way(N_THREAD_PES, makes_all_pairs);
}

/* More threads than there are places for calls under way: the others wait for one. */
#define N_CROWD 24

static int comes_in_a_crowd(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, &ways[0]);
	struct pair pairs[N_CROWD];
	pthread_t threads[N_CROWD];

	(void)arg;
	for (int i = 0; i < N_CROWD; i++) {
		pairs[i] = (struct pair){.world = world, .pes = {0, 1}, .tag = (uint64_t)i, .n_rounds = 1};
		/* Calls that both PEs begin first meet, and make room for the rest. */
		ASSERT_EQ(pthread_create(&threads[i], NULL, makes_pairs, &pairs[i]), 0);
		if (pe == 0 && i == N_CROWD / 2)
			usleep(20000);
	}
	for (int i = 0; i < N_CROWD; i++)
		ASSERT_EQ(pthread_join(threads[i], NULL), 0);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(calls_beyond_the_places_for_them_wait_for_one, 300)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, comes_in_a_crowd, NULL);
	fixture_daemon_stop(&daemon);
}

/* ---- PEs that come late, give up, die */

static void set_limit(struct shmd_world *world, uint64_t nsec)
{
	shmd_world_dev(world)->timeout_nsec = nsec;
}

/* More failures than there are words of ids: an id that a failure cost would be missed. */
static int waits_in_vain(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	const struct shmd_team_members members = {.tag = 3, .pes = both, .n_pes = 2};
	uint64_t *word = zeroed_words(world, 1), limit = shmd_world_dev(world)->timeout_nsec;
	struct shmd_team *teams[SHMD_DEV_MAX_TEAMS - 4], *team;

	for (int i = 0; pe == 0 && i < 40; i++) {
		set_limit(world, 1000 * 1000);
		ASSERT_ERR(shmd_team_from_members(world, &members, &team), ETIMEDOUT);
		ASSERT(strstr(shmd_error_text(), "PE 1 "));
		set_limit(world, limit);
	}
	world_lab_must(shmd_sync_all(world), "sync");
	for (unsigned int i = 0; i < sizeof(teams) / sizeof(teams[0]); i++)
		teams[i] = make(world, 3, both, 2);
	count_members(world, teams[1000], word, 2);
	world_lab_close(world);
	return 0;
}

TEST_WAITS(a_pe_that_does_not_come_is_named_and_costs_no_id, 600)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, waits_in_vain, (void *)(uintptr_t)&ways[0]);
	world_lab_run(&daemon, 2, waits_in_vain, (void *)(uintptr_t)&ways[1]);
	fixture_daemon_stop(&daemon);
}

static void sync_patiently(struct shmd_world *world)
{
	int r;

	while ((r = shmd_sync_all(world)) == -ETIMEDOUT)
		;
	world_lab_must(r, "sync of the world");
}

/*
 * PE 0 gives up after times that end its call at each step. However many of the PEs have the team then, those that have it agree about its
 * id, and a team that is made afterwards works.
 */
static int gives_up(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;
	const int all[] = {2, 0, 1};
	const struct shmd_team_members members = {.tag = 11, .pes = all, .n_pes = 3};
	uint64_t *words, *ids;
	struct shmd_team *team;
	unsigned int random = 5;

	world = open_with(lab, pe, arg);
	shmd_ctx_dev(shmd_world_ctx(world))->timeout_nsec = UINT64_C(60) * 1000 * 1000 * 1000;
	words = zeroed_words(world, 1);
	ids = zeroed_words(world, 3);
	set_limit(world, 20 * 1000 * 1000);
	for (int round = 0; round < (test_is_full() ? 1000 : 150); round++) {
		shmd_ctx_dev(shmd_world_ctx(world))->timeout_nsec = 20 * 1000 * 1000;
		if (pe == 0)
			set_limit(world, (uint64_t)(rand_r(&random) % 400000));
		team = NULL;
		if (!shmd_team_from_members(world, &members, &team))
			ASSERT(team);
		shmd_ctx_dev(shmd_world_ctx(world))->timeout_nsec = UINT64_C(60) * 1000 * 1000 * 1000;
		for (int i = 0; i < 3; i++)
			world_lab_must(shmd_p(shmd_world_ctx(world), &ids[pe], team ? shmd_team_dev(team)->id : 0, 8, i), "p");
		world_lab_must(shmd_barrier_all(world), "barrier");
		for (int i = 0; team && i < 3; i++)
			ASSERT(ids[i] == 0 || ids[i] == shmd_team_dev(team)->id);
		sync_patiently(world);
		/* If some have none, the others cannot end theirs, and an id is lost with each. Giving up is for calls that make a team. */
		set_limit(world, UINT64_C(60) * 1000 * 1000 * 1000);
		if (ids[0] && ids[1] && ids[2])
			world_lab_must(shmd_team_destroy(team), "destroy");
		set_limit(world, 20 * 1000 * 1000);
		sync_patiently(world);
	}
	set_limit(world, UINT64_C(60) * 1000 * 1000 * 1000);
	team = make(world, 11, all, 3);
	count_members(world, team, words, 3);
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_close(world);
	return 0;
}

TEST_WAITS(a_pe_that_gives_up_at_any_step_leaves_no_wrong_team, 600)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, gives_up, (void *)(uintptr_t)&ways[0]);
	world_lab_run(&daemon, 3, gives_up, (void *)(uintptr_t)&ways[1]);
	fixture_daemon_stop(&daemon);
}

/* PE 1 dies while the others wait for it; those make a team without it. */
static int outlives_one(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	const int all[] = {0, 1, 2, 3}, rest[] = {3, 0, 2};
	struct shmd_team_members members = {.tag = 5, .pes = all, .n_pes = 4};
	uint64_t *word = zeroed_words(world, 1);
	struct shmd_team *team;

	world_lab_await_others(world, word, pe);
	if (pe == 1) {
		usleep(50000);
		raise(SIGKILL);
	}
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1 "));
	while (shmd_world_status(world) != SHMD_WORLD_BROKEN)
		usleep(1000);
	members = (struct shmd_team_members){.tag = 5, .pes = rest, .n_pes = 3};
	ASSERT_ERR(shmd_team_from_members(world, &members, &team), EHOSTDOWN);
	ASSERT_OK(shmd_world_forgive(world));
	team = make(world, 5, rest, 3);
	count_members(world, team, word, 3);
	world_lab_must(shmd_team_destroy(team), "destroy");
	/* Also where only the tag is known. */
	members = (struct shmd_team_members){.tag = 6, .n_pes = 3, .my_pe = place_in(rest, 3, pe)};
	world_lab_must(shmd_team_from_members(world, &members, &team), "by tag");
	count_members(world, team, word, 3);
	world_lab_close(world);
	return 0;
}

TEST_WAITS(a_pe_that_dies_ends_the_call_and_the_others_make_a_team_without_it, 600)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct world_lab lab = {.daemon = &daemon, .n = 4};

		world_lab_start(&lab, outlives_one, (void *)(uintptr_t)&ways[i]);
		for (int pe = 0; pe < lab.n; pe++)
			ASSERT_EQ(world_lab_wait(&lab, pe), pe == 1 ? 128 + SIGKILL : 0);
	}
	fixture_daemon_stop(&daemon);
}

/* ---- entries, as PE 1 writes and reads them by hand */

struct puppet {
	struct shmd_world *world;
	struct meeting_slot *own, *other; /* those of PE 0 */
};

static struct meeting_slot *slots_of(const struct shmd_world *world, int pe)
{
	return (struct meeting_slot *)world_heap_at(&world->pes[pe], WORLD_MEETINGS_OFFSET);
}

static uint64_t view_with(const struct puppet *puppet, uint64_t nonce)
{
	return meeting_view(meeting_view(0, 0, puppet->other->entries[0].nonce), 1, nonce);
}

static void show(const struct puppet *puppet, uint32_t step, uint64_t nonce, uint64_t view)
{
	struct meeting_entry entry = {.tag = 21,
				      .list = meeting_list(both, 2),
				      .nonce = nonce,
				      .view = view,
				      .offer = {.ids = step ? UINT64_MAX << 3 : 0},
				      .step = step,
				      .place = 1};

	meeting_entry_seal(&entry);
	puppet->own->entries[step & 1] = entry;
	shmdi_pes_flush();
}

static bool is_in(const struct puppet *puppet, uint32_t step, uint64_t view)
{
	struct meeting_entry entry = puppet->other->entries[step & 1];

	shmdi_pes_flush();
	return meeting_entry_is_whole(&entry) && entry.step == step && entry.view == view;
}

static void await(const struct puppet *puppet, uint32_t step, uint64_t view)
{
	uint64_t deadline = nsec_now() + test_patience_nsec();

	while (!is_in(puppet, step, view)) {
		ASSERT_LT(nsec_now(), deadline);
		usleep(500);
	}
}

/* PE 0 has seen a call that PE 1 gave up. It must take no offer of that call, and go on with the next one. */
static void begins_anew(const struct puppet *puppet)
{
	uint64_t view, late;

	show(puppet, 0, 101, 0);
	await(puppet, 0, 0);
	late = view_with(puppet, 101);
	await(puppet, 1, late);
	memset(puppet->own, 0, sizeof(*puppet->own));
	show(puppet, 0, 103, 0);
	view = view_with(puppet, 103);
	await(puppet, 1, view);
	show(puppet, 1, 103, late);
	usleep(50000);
	ASSERT(!is_in(puppet, 2, view));
	show(puppet, 1, 103, view);
	await(puppet, 2, view);
}

/* PE 0 does not write to the scratch of a PE that has not said that it agrees. */
static void does_not_confirm(const struct puppet *puppet)
{
	const uint8_t *scratch = world_heap_at(&puppet->world->pes[1], WORLD_SCRATCH_OFFSET);

	usleep(100000);
	for (uint64_t i = 4 * SHMD_DEV_TEAM_SCRATCH_BYTES; i < (uint64_t)SHMD_DEV_MAX_TEAMS * SHMD_DEV_TEAM_SCRATCH_BYTES; i++)
		ASSERT_EQ(scratch[i], 0);
}

static int meets_a_puppet(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, &ways[0]);
	const struct shmd_team_members members = {.tag = 21, .pes = both, .n_pes = 2};
	struct puppet puppet = {.world = world, .own = slots_of(world, 1), .other = slots_of(world, 0)};
	struct shmd_team *team;

	(void)arg;
	if (pe == 0) {
		ASSERT_ERR(shmd_team_from_members(world, &members, &team), ETIMEDOUT);
		ASSERT(strstr(shmd_error_text(), "began anew"));
	} else {
		begins_anew(&puppet);
		does_not_confirm(&puppet);
		show(&puppet, 0, 105, 0);
		while (meeting_entry_is_whole(&puppet.other->entries[0]))
			usleep(1000);
		does_not_confirm(&puppet);
		memset(puppet.own, 0, sizeof(*puppet.own));
	}
	world_lab_must(shmd_sync_all(world), "sync");
	team = make(world, 21, both, 2);
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(offers_of_a_call_that_ended_do_not_count_and_only_agreement_makes_a_team, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, meets_a_puppet, NULL);
	fixture_daemon_stop(&daemon);
}

/* Or the next call with the same tag would take them for its own. */
static int leaves_no_entry(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, &ways[0]);

	(void)arg;
	for (int i = 0; i < 500; i++) {
		struct shmd_team *team = make(world, 21, both, 2);

		for (int k = 0; k < 2; k++)
			ASSERT(!meeting_entry_is_whole(&slots_of(world, 1 - pe)->entries[k]));
		world_lab_must(shmd_team_destroy(team), "destroy");
	}
	world_lab_close(world);
	return 0;
}

TEST_WAITS(nothing_of_a_call_is_left_on_any_member_when_it_returns, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, leaves_no_entry, NULL);
	fixture_daemon_stop(&daemon);
}

/* ---- as many as there are ids */

static int makes_many(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	const int all[] = {1, 2, 0}, two[] = {2, 0};
	const struct shmd_team_members members = {.tag = 1, .pes = all, .n_pes = 3};
	struct shmd_team *teams[SHMD_DEV_MAX_TEAMS - 4], *one;
	const int n = SHMD_DEV_MAX_TEAMS - 4;
	uint64_t *word = zeroed_words(world, 1);

	for (int i = 0; i < n; i++)
		if (i % 16 == 0)
			world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, 3, &teams[i]), "split");
		else
			teams[i] = make(world, (uint64_t)i % 3, all, 3);
	for (int i = 0; i < 3; i++) {
		ASSERT_ERR(shmd_team_from_members(world, &members, &one), ENOSPC);
		ASSERT_ERR(shmd_team_split_strided(shmd_team_world(world), 0, 1, 3, &one), ENOSPC);
	}
	for (int i = 0; i < n; i += 50) {
		world_lab_must(shmd_team_sync(teams[i]), "sync");
		world_lab_must(shmd_team_destroy(teams[i]), "destroy");
		teams[i] = i % 100 || pe != 1 ? NULL : make(world, 1, &pe, 1);
		if (i % 100 == 0 && pe != 1)
			teams[i] = make(world, 1, two, 2);
		if (i % 100)
			teams[i] = make(world, 1, all, 3);
		count_members(world, teams[i], word, i % 100 ? 3 : pe == 1 ? 1 : 2);
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(all_ids_serve_teams_of_members, 600)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, makes_many, (void *)(uintptr_t)&ways[0]);
	fixture_daemon_stop(&daemon);
}
