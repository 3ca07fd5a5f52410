/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of a world that have failed: the error names the PE and the cause, and after shmd_world_forgive() the PEs that live reach each other
 * again.
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

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-lab.h"

#define FOR_EVER "--restart-grace=600000"
#define ADDS 200u

/* Shared by the test and its PEs. Words are atomic. */
struct board {
	const char *rc_peers; /* SHMD_RC_PEERS */
	uint32_t n_ready, is_mended; /* PEs */
	uint32_t n_failed; /* atomics whose outcome is unknown */
	uint64_t n_done; /* atomics that have a result */
};

static void arrive(uint32_t *word, uint32_t n)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < n) {
		ASSERT_LT(nsec_now(), end);
		usleep(200);
	}
}

static struct shmd_world *open_on_queues(const struct world_lab *lab, int pe, const struct board *board)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", board->rc_peers, 1);
	/* One sender for all, so that one failure is that of all. */
	setenv("SHMD_DCIS", "1", 1);
	mine.attr.paths = SHMD_ALLOW_QUEUE;
	mine.attr.timeout_nsec = test_patience_nsec();
	return world_lab_open_started(&mine, pe);
}

static struct board *board_new(const char *rc_peers)
{
	void *memory = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(memory != MAP_FAILED);
	*(struct board *)memory = (struct board){.rc_peers = rc_peers};
	return memory;
}

/* A value there and back. */
static void reach(struct shmd_ctx *ctx, uint64_t *word, uint64_t value, int pe)
{
	uint64_t got;

	world_lab_must(shmd_p(ctx, word, value, 8, pe), "p");
	world_lab_must(shmd_g(ctx, word, 8, pe, &got), "g");
	ASSERT_EQ(got, value);
}

/* ---- by the end of a PE */

static void post_silently(struct shmd_ctx *ctx, uint64_t *word, int pe)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(shmd_ctx_dev(ctx), SHMD_DEV_THREAD);

	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_p_as(shmd_ctx_dev(ctx), word, 1, 8, (uint32_t)pe, mode), SHMD_DEV_OK);
}

static unsigned int n_sessions(struct shmd_client *control)
{
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	return status.n_sessions;
}

static void await_end(const struct world_lab *lab, const struct shmd_world *world)
{
	struct shmd_client *control = lab_control(lab->daemon);
	uint64_t end = nsec_now() + test_patience_nsec();

	while (shmd_world_status(world) != SHMD_WORLD_BROKEN || n_sessions(control) > 2) {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
	shmd_client_close(control);
}

static void expect_named(int r, const char *name)
{
	ASSERT(r == -EHOSTDOWN || r == -EIO);
	if (!strstr(shmd_error_text(), name))
		ASSERT_STREQ(shmd_error_text(), name);
}

/* PEs 0 and 1 have a request under way to PE 2, which ends. */
static int loses_a_pe(const struct world_lab *lab, int pe, void *arg)
{
	struct board *board = arg;
	struct shmd_world *world = open_on_queues(lab, pe, board);
	struct shmd_ctx *own;
	uint64_t *words;

	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &own), "a context");
	world_lab_must(shmd_calloc(world, 4, 8, 0, (void **)&words), "calloc");
	/* Nothing is sent yet: the NIC is called when PE 2 has ended. */
	if (pe != 2) {
		post_silently(shmd_world_ctx(world), words, 2);
		post_silently(own, words, 2);
	}
	arrive(&board->n_ready, 3);
	if (pe == 2)
		raise(SIGKILL);
	await_end(lab, world);
	expect_named(shmd_quiet(shmd_world_ctx(world)), "PE 2 (");
	expect_named(shmd_quiet(own), "PE 2 (");
	world_lab_must(shmd_world_forgive(world), "forgive");
	reach(shmd_world_ctx(world), &words[1 + pe], 7, !pe);
	reach(own, &words[1 + pe], 8, !pe);
	world_lab_must(shmd_quiet(shmd_world_ctx(world)), "quiet");
	world_lab_must(shmd_quiet(own), "quiet");
	ASSERT_ERR(shmd_p(own, words, 1, 8, 2), EHOSTDOWN);
	arrive(&board->is_mended, 2);
	world_lab_close(world);
	return 0;
}

static void lose_a_pe(const char *rc_peers)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};
	struct board *board = board_new(rc_peers);

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_start(&lab, loses_a_pe, board);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 2 ? 128 + SIGKILL : 0);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(board, sizeof(*board)));
}

TEST_WAITS(pes_by_dc_reach_each_other_after_the_end_of_one_is_forgiven, 120)
{
	lose_a_pe("0");
}

TEST_WAITS(pes_by_rc_reach_each_other_after_the_end_of_one_is_forgiven, 120)
{
	lose_a_pe("16");
}

/* ---- by a request that the NIC refuses */

/* A key that nobody has. */
static void break_queue(struct shmd_ctx *ctx, int pe)
{
	const struct shmd_dev_pe_way *ways = (const void *)(uintptr_t)shmd_ctx_dev(ctx)->ways_addr;
	struct shmd_dev_qp *qp = (void *)(uintptr_t)ways[pe].qp_addr;
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, test_patience_nsec());

	mode.peer = (const void *)(uintptr_t)ways[pe].peer_addr;
	ASSERT_EQ(shmd_dev_qp_p_as(qp, shmd_dev_addr_of(4096, 1), 1, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet_as(qp, mode), SHMD_DEV_CQE_ERROR);
}

static int has_its_queue_broken(const struct world_lab *lab, int pe, void *arg)
{
	struct board *board = arg;
	struct shmd_world *world = open_on_queues(lab, pe, board);
	struct shmd_ctx *ctx = shmd_world_ctx(world), *own;
	uint64_t *words;
	void *more;

	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &own), "a context");
	world_lab_must(shmd_calloc(world, 4, 8, 0, (void **)&words), "calloc");
	if (pe == 0) {
		break_queue(ctx, 1);
		expect_named(shmd_quiet(ctx), "PE 1 (");
		expect_named(shmd_p(ctx, words, 1, 8, 1), "remote access error");
		/* Its queue is another one. */
		reach(own, &words[1], 3, 1);
	}
	arrive(&board->n_ready, 2);
	/* The other end of an RC QP fails, too, as soon as it is used. */
	if (pe == 1 && shmd_p(ctx, words, 1, 8, 0) == 0)
		(void)shmd_quiet(ctx);
	world_lab_must(shmd_world_forgive(world), "forgive");
	arrive(&board->is_mended, 2);
	reach(ctx, &words[2 + pe], 5, !pe);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_must(shmd_malloc(world, 8u << 20, 0, &more), "a chunk more");
	reach(ctx, more, 6, !pe);
	/* Once more, now that DCIs are in the place of RC QPs. */
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0) {
		break_queue(ctx, 1);
		world_lab_must(shmd_world_forgive(world), "forgive");
		reach(ctx, &words[2], 9, 1);
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

static void break_a_queue(const char *rc_peers)
{
	struct board *board = board_new(rc_peers);
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, 2, has_its_queue_broken, board);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(board, sizeof(*board)));
}

TEST_TIMEOUT(an_rc_queue_that_has_failed_is_replaced, 120)
{
	break_a_queue("16");
}

TEST_TIMEOUT(a_dc_sender_that_has_failed_is_made_anew, 120)
{
	break_a_queue("0");
}

/* ---- by a daemon that is killed in the middle of an atomic */

static void count_until_cut(struct board *board, struct shmd_world *world, uint64_t *word)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	uint64_t old;

	for (unsigned int i = 0; i < ADDS; i++) {
		int r = shmd_atomic_fetch(shmd_world_ctx(world), word, &add, 1, &old);

		if (!r) {
			board->n_done++;
			continue;
		}
		expect_named(r, "PE 1 (");
		expect_named(r, "the outcome of an atomic is unknown");
		board->n_failed++;
		world_lab_must(shmd_world_forgive(world), "forgive");
	}
}

static int counts(const struct world_lab *lab, int pe, void *arg)
{
	struct board *board = arg;
	struct shmd_world *world = open_on_queues(lab, pe, board);
	uint64_t *word;

	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	arrive(&board->n_ready, 3);
	if (pe == 0)
		count_until_cut(board, world, word);
	arrive(&board->is_mended, 2);
	if (pe == 1) {
		/* It learns of the cut at its own end when it uses it. */
		if (shmd_p(shmd_world_ctx(world), word, *word, 8, 0) || shmd_quiet(shmd_world_ctx(world)))
			world_lab_must(shmd_world_forgive(world), "forgive");
		ASSERT_GE(*word, board->n_done);
		ASSERT_LE(*word, board->n_done + board->n_failed);
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

/* One NIC, and no other traffic: the atomic that the fault point cuts is one of these. */
static void cut_an_atomic(const char *rc_peers, const char *step)
{
	struct board *board = board_new(rc_peers);
	struct fixture_keeper keeper = {0};
	struct world_lab lab = {.daemon = &keeper.daemon, .n = 2};
	char fault[64];

	fixture_keeper_start(&keeper, FOR_EVER, "--soft-nics=1", NULL);
	world_lab_start(&lab, counts, board);
	while (__atomic_load_n(&board->n_ready, __ATOMIC_ACQUIRE) < 2)
		usleep(200);
	snprintf(fault, sizeof(fault), "SHMEMD_FAULT=%s:20", step);
	fixture_keeper_set_env(&keeper, fault);
	fixture_keeper_restart(&keeper);
	arrive(&board->n_ready, 3);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), 0);
	ASSERT_EQ(fixture_keeper_n_starts(&keeper), 3);
	ASSERT_LE(board->n_failed, 1);
	printf("# %s: %u of %llu atomics unknown\n", step, board->n_failed, (unsigned long long)board->n_done + board->n_failed);
	fixture_keeper_stop(&keeper);
	ASSERT_OK(munmap(board, sizeof(*board)));
}

TEST_TIMEOUT(an_atomic_that_a_kill_of_the_daemon_cuts_has_a_status_and_the_world_goes_on, 240)
{
	cut_an_atomic("16", "engine.intent");
	cut_an_atomic("0", "engine.intent");
	cut_an_atomic("16", "engine.atomic");
	cut_an_atomic("0", "engine.atomic");
}
