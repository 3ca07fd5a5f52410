/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided operations of the host among processes of one node: data, atomics, signals, waits, locks, and their errors in words. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

#define N_PES 4
#define N_ROUNDS 50
#define BLOCK 1000

struct room {
	uint8_t block[BLOCK];
	uint64_t arrived, count, lock, guarded;
	double sum;
	uint32_t words[N_PES];
};

static struct room *zeroed_room(struct shmd_world *world)
{
	struct room *room;

	world_lab_must(shmd_calloc(world, 1, sizeof(*room), 0, (void **)&room), "calloc");
	return room;
}

static void fill(uint8_t *block, int seed)
{
	for (int i = 0; i < BLOCK; i++)
		block[i] = (uint8_t)(seed * 31 + i * 7);
}

/* Each PE sends to the next, and reads back what it sent. */
static void pass_on(struct shmd_world *world, struct room *room, int pe, int n)
{
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	int next = (pe + 1) % n, before = (pe + n - 1) % n;
	uint8_t mine[BLOCK], other[BLOCK];

	for (uint64_t i = 1; i <= N_ROUNDS; i++) {
		fill(mine, pe * 1000 + (int)i);
		world_lab_must(shmd_put_signal(ctx, room->block, mine, BLOCK, &room->arrived, 1, SHMD_SIGNAL_ADD, next), "put_signal");
		world_lab_must(shmd_wait_until(ctx, &room->arrived, 8, SHMD_CMP_GE, i), "wait");
		fill(other, before * 1000 + (int)i);
		ASSERT_MEMEQ(room->block, other, BLOCK);
		memset(other, 0, BLOCK);
		world_lab_must(shmd_get(ctx, other, room->block, BLOCK, next), "get");
		ASSERT_MEMEQ(other, mine, BLOCK);
		world_lab_must(shmd_barrier_all(world), "barrier");
	}
}

/* All PEs count at PE 0: by atomics, and by get and put under a lock. */
static void count(struct shmd_world *world, struct room *room, int pe, int n)
{
	struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 2}, half = {.op = SHMD_ATOMIC_ADD_FLOAT, .bytes = 8};
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint64_t v;

	memcpy(&half.value, &(double){0.5}, 8);
	for (int i = 0; i < N_ROUNDS; i++) {
		world_lab_must(shmd_atomic(ctx, &room->count, &add, 0), "atomic");
		world_lab_must(shmd_atomic_fetch(ctx, &room->sum, &half, 0, NULL), "atomic_fetch");
		world_lab_must(shmd_lock(ctx, &room->lock), "lock");
		world_lab_must(shmd_g(ctx, &room->guarded, 8, 0, &v), "g");
		world_lab_must(shmd_p(ctx, &room->guarded, v + 1, 8, 0), "p");
		world_lab_must(shmd_unlock(ctx, &room->lock), "unlock");
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe)
		return;
	ASSERT_EQ(room->count, 2u * (uint64_t)n * N_ROUNDS);
	ASSERT_EQ(room->guarded, (uint64_t)n * N_ROUNDS);
	ASSERT_EQ((int)(2 * room->sum), n * N_ROUNDS);
}

/* PE 0 waits for one word of each PE, by every form of wait. */
static void wait_for_all(struct shmd_world *world, struct room *room, int pe, int n)
{
	struct shmd_wait wait = {.words = room->words, .n = (size_t)n, .bytes = 4, .cmp = SHMD_CMP_GT | SHMD_CMP_SIGNED, .value = 0};
	struct shmd_put_item items[2] = {{&room->words[pe], &(uint32_t){1}, 4, 0}, {room->block, room->block, 0, 0}};
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	size_t index = 0, indexes[N_PES], n_found = 0;

	if (!pe)
		ASSERT_EQ(shmd_test_all(ctx, &wait), 0);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_must(shmd_put_batch_nbi(ctx, items, 2), "batch");
	world_lab_must(shmd_quiet(ctx), "quiet");
	if (!pe) {
		world_lab_must(shmd_wait_until_any(ctx, &wait, &index), "any");
		ASSERT_EQ(room->words[index], 1u);
		world_lab_must(shmd_wait_until_some(ctx, &wait, indexes, &n_found), "some");
		ASSERT_GE(n_found, 1u);
		world_lab_must(shmd_wait_until_all(ctx, &wait), "all");
		ASSERT_EQ(shmd_test_all(ctx, &wait), 1);
		ASSERT_EQ(shmd_test_any(ctx, &wait, &index), 1);
		ASSERT_EQ(shmd_test_some(ctx, &wait, indexes, &n_found), 1);
		ASSERT_EQ(n_found, (size_t)n);
		ASSERT_EQ(shmd_test(ctx, room->words, 4, SHMD_CMP_EQ, 1), 1);
		ASSERT_EQ(shmd_test(ctx, room->words, 4, SHMD_CMP_NE, 1), 0);
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
}

/* arg: NULL on mapped memory, else by queues, and the most peers that have an RC QP. */
static int works(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_world *world;
	struct room *room;

	if (arg) {
		setenv("SHMD_RC_PEERS", arg, 1);
		mine.attr.paths = SHMD_ALLOW_QUEUE;
	}
	world = world_lab_open_started(&mine, pe);
	if (arg) {
		struct shmd_pe_info info;

		ASSERT_OK(shmd_pe_info(world, (pe + 1) % lab->n, &info));
		ASSERT_EQ(info.path, SHMD_PATH_QUEUE);
	}
	room = zeroed_room(world);
	pass_on(world, room, pe, lab->n);
	count(world, room, pe, lab->n);
	wait_for_all(world, room, pe, lab->n);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(data_atomics_locks_and_waits_work_among_processes, 300)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, works, NULL);
	world_lab_run(&daemon, N_PES, works, NULL);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(the_same_works_by_queues, 600)
{
	char all[] = "64", none[] = "0";
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, N_PES, works, all);
	world_lab_run(&daemon, N_PES, works, none);
	fixture_daemon_stop(&daemon);
}

/* PE 1 of a context on the team {1, 0} is PE 0 of the world. */
static int numbers_by_team(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct room *room = zeroed_room(world);
	struct shmd_team *team;
	struct shmd_ctx *ctx;

	(void)arg;
	world_lab_must(shmd_team_split_strided(shmd_team_world(world), 1, -1, 2, &team), "split");
	world_lab_must(shmd_ctx_create(team, NULL, &ctx), "context");
	if (pe)
		world_lab_must(shmd_p(ctx, &room->count, 77, 8, 1), "p");
	else
		world_lab_must(shmd_wait_until(ctx, &room->count, 8, SHMD_CMP_EQ, 77), "wait");
	ASSERT_ERR(shmd_p(ctx, &room->count, 1, 8, 2), EINVAL);
	ASSERT(strstr(shmd_error_text(), "PE 2 is out of range"));
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_context_on_a_team_numbers_pes_as_the_team, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, numbers_by_team, NULL);
	fixture_daemon_stop(&daemon);
}

/* In a forked child the parent's world is out of reach, and stays the parent's. */
static void expect_child_refused(struct shmd_ctx *ctx, struct room *room)
{
	pid_t pid;
	int status;

	world_lab_must(shmd_p(ctx, &room->count, 1, 8, 0), "p");
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		_exit(shmd_p(ctx, &room->count, 2, 8, 0) == -ECHILD && shmd_quiet(ctx) == -ECHILD ? 0 : 1);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	world_lab_must(shmd_p(ctx, &room->count, 3, 8, 0), "p after the fork");
}

static int refuses(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	struct room *room = zeroed_room(world);
	struct shmd_atomic wrong = {.op = SHMD_ATOMIC_ADD, .bytes = 3};
	uint64_t outside = 0;

	(void)arg;
	ASSERT_ERR(shmd_put(NULL, room, &outside, 8, 0), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "ctx is NULL: the context of a world is there when shmd_world_start() has made it");
	ASSERT_ERR(shmd_put(ctx, &outside, room, 8, 0), EINVAL);
	ASSERT(strstr(shmd_error_text(), "put: "));
	ASSERT_ERR(shmd_put(ctx, room, &outside, 8, -1), EINVAL);
	ASSERT_ERR(shmd_p(ctx, &room->count, 1, 8 + (1ull << 32), 0), EINVAL);
	ASSERT_ERR(shmd_atomic(ctx, &room->count, &wrong, 0), EINVAL);
	ASSERT_ERR(shmd_unlock(ctx, &room->lock), EINVAL);
	ASSERT_ERR(shmd_put(ctx, NULL, NULL, 0, 1), EINVAL);
	expect_child_refused(ctx, room);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(wrong_arguments_and_forked_children_are_refused, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, refuses, NULL);
	fixture_daemon_stop(&daemon);
}

/* PE 1 dies; PE 0 hears its name from operations and waits. */
static int loses_a_pe(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	struct room *room = zeroed_room(world);

	(void)arg;
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_await_others(world, &room->count, pe);
	if (pe)
		raise(SIGKILL);
	ASSERT_ERR(shmd_wait_until(ctx, &room->count, 8, SHMD_CMP_NE, 0), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	ASSERT_ERR(shmd_p(ctx, &room->count, 1, 8, 1), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1 (pid "));
	world_lab_must(shmd_world_forgive(world), "forgive");
	world_lab_must(shmd_p(ctx, &room->count, 1, 8, 0), "p to itself");
	ASSERT_ERR(shmd_p(ctx, &room->count, 1, 8, 1), EHOSTDOWN);
	return 0;
}

TEST_TIMEOUT(operations_on_a_pe_that_died_name_it, 120)
{
	struct world_lab lab = {.n = 2};
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	lab.daemon = &daemon;
	world_lab_start(&lab, loses_a_pe, NULL);
	ASSERT_EQ(world_lab_wait(&lab, 1), 128 + SIGKILL);
	ASSERT_EQ(world_lab_wait(&lab, 0), 0);
	fixture_daemon_stop(&daemon);
}
