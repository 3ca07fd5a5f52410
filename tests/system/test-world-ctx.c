/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts with queues of their own: order and completion of one have nothing to do with others, by RC and by DC; they come and go on one PE
 * alone, and leave nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmd/dev/pe.h>
#include <shmemclient-admin.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-lab.h"

#define N_THREADS 4
#define N_MESSAGES 60u
#define BLOCK 3000u
#define N_CONTEXTS 20u

/* How the PEs reach each other, and what contexts get. */
struct way {
	const char *rc_peers, *ctx_dcis; /* SHMD_RC_PEERS, SHMD_CTX_DCIS */
};
static const struct way rc = {"16", "1"}, dc = {"0", "1"}, several = {"16", "3"}, shared = {"16", "0"};

static struct shmd_world *open_on_queues(const struct world_lab *lab, int pe, const struct way *way)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", way->rc_peers, 1);
	setenv("SHMD_CTX_DCIS", way->ctx_dcis, 1);
	mine.attr.paths = SHMD_ALLOW_QUEUE;
	return world_lab_open_started(&mine, pe);
}

static struct shmd_ctx *make(struct shmd_team *team, uint32_t flags)
{
	const struct shmd_ctx_attr attr = {.flags = flags};
	struct shmd_ctx *ctx;

	world_lab_must(shmd_ctx_create(team, &attr, &ctx), "a context");
	return ctx;
}

static void run(int n, world_lab_fn fn, const struct way *way)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, n, fn, (void *)(uintptr_t)way);
	fixture_daemon_stop(&daemon);
}

/* ---- completion */

/* A request that waits in the queue of its context until a call announces it. */
static void post_silently(struct shmd_ctx *ctx, uint64_t *word, uint64_t value, int pe)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(shmd_ctx_dev(ctx), SHMD_DEV_THREAD);

	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_p_as(shmd_ctx_dev(ctx), word, value, 8, (uint32_t)pe, mode), SHMD_DEV_OK);
}

static uint64_t get(struct shmd_ctx *ctx, const uint64_t *word, int pe)
{
	uint64_t value;

	world_lab_must(shmd_g(ctx, word, 8, pe, &value), "g");
	return value;
}

static void expect_apart(struct shmd_ctx *a, struct shmd_ctx *b, uint64_t *word, uint64_t value, bool is_apart)
{
	post_silently(a, word, value, 1);
	world_lab_must(shmd_quiet(b), "quiet of the other");
	/* Another context that shares the queue has announced it. */
	ASSERT_EQ(get(b, word, 1), is_apart ? value - 1 : value);
	world_lab_must(shmd_quiet(a), "quiet");
	ASSERT_EQ(get(b, word, 1), value);
}

static int completes_apart(const struct world_lab *lab, int pe, void *arg)
{
	const struct way *way = arg;
	struct shmd_world *world = open_on_queues(lab, pe, way);
	bool is_apart = way->ctx_dcis[0] != '0';
	uint64_t *word;

	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	if (pe == 0) {
		struct shmd_ctx *first = make(shmd_team_world(world), 0), *second = make(shmd_team_world(world), SHMD_CTX_PRIVATE);

		expect_apart(first, second, word, 1, is_apart);
		expect_apart(second, first, word, 2, is_apart);
		expect_apart(first, shmd_world_ctx(world), word, 3, is_apart);
		expect_apart(shmd_world_ctx(world), second, word, 4, is_apart);
		/* The end of a context completes its operations. */
		post_silently(first, word, 5, 1);
		world_lab_must(shmd_ctx_destroy(first), "destroy");
		ASSERT_EQ(get(second, word, 1), 5);
		world_lab_must(shmd_ctx_destroy(second), "destroy");
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_quiet_of_one_context_is_none_of_another, 120)
{
	run(2, completes_apart, &rc);
	run(2, completes_apart, &dc);
	run(3, completes_apart, &several);
}

TEST_TIMEOUT(contexts_share_queues_where_a_setting_wants_it, 120)
{
	run(2, completes_apart, &shared);
}

/* Nothing but the close of PE 0 announces the put. */
static int leaves_work_to_the_close(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_on_queues(lab, pe, arg);
	struct shmd_ctx *ctx = make(shmd_team_world(world), 0);
	uint64_t *word;

	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	if (pe == 0)
		post_silently(ctx, word, 9, 1);
	if (pe == 1)
		world_lab_must(shmd_wait_until(ctx, word, 8, SHMD_CMP_EQ, 9), "what the close of PE 0 completes");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(the_close_of_a_world_completes_all_contexts, 120)
{
	run(2, leaves_work_to_the_close, &rc);
	run(2, leaves_work_to_the_close, &dc);
}

/* ---- order, from several threads */

struct room {
	uint64_t sum;
	struct {
		uint64_t arrived;
		uint8_t data[BLOCK];
	} of[N_THREADS];
};

static pthread_barrier_t meeting; /* of the threads of a PE */

struct sender {
	pthread_t thread;
	struct shmd_world *world;
	struct room *room;
	int number;
};

static uint8_t byte_of(int thread, uint64_t message)
{
	return (uint8_t)((uint64_t)thread * 67 + message);
}

/* Puts, an add, a fence and a word: who sees the word sees the data. The next message waits for all. */
static void send_one(const struct sender *me, struct shmd_ctx *ctx, uint64_t message)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	int to = (shmd_my_pe(me->world) + 1) % shmd_n_pes(me->world);
	uint8_t data[BLOCK];

	memset(data, byte_of(me->number, message), BLOCK);
	world_lab_must(shmd_put(ctx, me->room->of[me->number].data, data, BLOCK, to), "put");
	world_lab_must(shmd_atomic(ctx, &me->room->sum, &add, to), "add");
	world_lab_must(shmd_fence(ctx), "fence");
	world_lab_must(shmd_p(ctx, &me->room->of[me->number].arrived, message, 8, to), "p");
	world_lab_must(shmd_wait_until(ctx, &me->room->of[me->number].arrived, 8, SHMD_CMP_GE, message), "wait");
	for (unsigned int at = 0; at < BLOCK; at++)
		ASSERT_EQ(me->room->of[me->number].data[at], byte_of(me->number, message));
}

static void *send_all(void *arg)
{
	struct sender *me = arg;
	struct shmd_ctx *ctx = make(shmd_team_world(me->world), me->number % 2 ? SHMD_CTX_PRIVATE : SHMD_CTX_SERIALIZED);

	for (uint64_t message = 1; message <= N_MESSAGES; message++) {
		send_one(me, ctx, message);
		pthread_barrier_wait(&meeting);
		if (me->number == 0)
			world_lab_must(shmd_barrier_all(me->world), "barrier");
		pthread_barrier_wait(&meeting);
	}
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	return NULL;
}

static int sends_from_threads(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_on_queues(lab, pe, arg);
	struct sender senders[N_THREADS];
	struct room *room;

	world_lab_must(shmd_calloc(world, 1, sizeof(*room), 0, (void **)&room), "calloc");
	ASSERT_OK(pthread_barrier_init(&meeting, NULL, N_THREADS));
	for (int i = 0; i < N_THREADS; i++) {
		senders[i] = (struct sender){.world = world, .room = room, .number = i};
		ASSERT_OK(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]));
	}
	for (int i = 0; i < N_THREADS; i++)
		ASSERT_OK(pthread_join(senders[i].thread, NULL));
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(room->sum, (uint64_t)N_THREADS * N_MESSAGES);
	ASSERT_OK(pthread_barrier_destroy(&meeting));
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(threads_with_a_context_each_keep_the_order_of_each, 240)
{
	run(2, sends_from_threads, &rc);
	run(3, sends_from_threads, &dc);
}

/* ---- teams, coming and going */

static int numbers_as_its_team(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_on_queues(lab, pe, arg);
	struct shmd_team *reversed;
	struct shmd_ctx *ctx;
	uint64_t *words;

	world_lab_must(shmd_calloc(world, (size_t)lab->n, 8, 0, (void **)&words), "calloc");
	world_lab_must(shmd_team_split_strided(shmd_team_world(world), lab->n - 1, -1, lab->n, &reversed), "split");
	ctx = make(reversed, 0);
	for (int i = 0; i < lab->n; i++)
		world_lab_must(shmd_p(ctx, &words[pe], (uint64_t)i + 1, 8, i), "p");
	world_lab_must(shmd_quiet(ctx), "quiet");
	world_lab_must(shmd_barrier_all(world), "barrier");
	for (int i = 0; i < lab->n; i++)
		ASSERT_EQ(words[i], (uint64_t)(lab->n - pe));
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	world_lab_must(shmd_team_destroy(reversed), "destroy");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_context_numbers_pes_as_its_team, 120)
{
	run(4, numbers_as_its_team, &rc);
	run(4, numbers_as_its_team, &dc);
}

static unsigned int n_qps(const struct world_lab *lab)
{
	struct shmd_client *control = lab_control(lab->daemon);
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	shmd_client_close(control);
	return status.n_qps;
}

static int comes_and_goes(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_on_queues(lab, pe, arg);
	struct shmd_ctx *contexts[N_CONTEXTS];
	unsigned int before = n_qps(lab);

	world_lab_must(shmd_sync_all(world), "sync");
	for (unsigned int round = 0; pe == 0 && round < 5; round++) {
		for (unsigned int i = 0; i < N_CONTEXTS; i++)
			contexts[i] = make(shmd_team_world(world), 0);
		ASSERT_EQ(n_qps(lab), before + N_CONTEXTS);
		for (unsigned int i = 0; i < N_CONTEXTS; i++)
			world_lab_must(shmd_ctx_destroy(contexts[(i * 7 + round) % N_CONTEXTS]), "destroy");
		ASSERT_EQ(n_qps(lab), before);
	}
	world_lab_must(shmd_sync_all(world), "sync");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(contexts_come_and_go_on_one_pe_alone, 120)
{
	run(2, comes_and_goes, &rc);
	run(2, comes_and_goes, &dc);
}

/* The world goes on with the queues that it has. */
static int lacks_room(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_on_queues(lab, pe, arg);
	struct shmd_ctx *contexts[N_CONTEXTS];
	unsigned int n = 0, before;
	uint64_t *word;
	int r = 0;

	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	if (pe == 0) {
		before = n_qps(lab);
		while (n < N_CONTEXTS && !(r = shmd_ctx_create(shmd_team_world(world), NULL, &contexts[n])))
			n++;
		ASSERT_EQ(r, -EDQUOT);
		ASSERT_EQ(n_qps(lab), before + n);
		while (n)
			world_lab_must(shmd_ctx_destroy(contexts[--n]), "destroy");
		ASSERT_EQ(n_qps(lab), before);
	}
	world_lab_must(shmd_p(shmd_world_ctx(world), word, 4, 8, !pe), "p");
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(*word, 4);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_context_without_room_for_its_queues_fails_and_leaves_nothing, 120)
{
	struct fixture_daemon daemon;

	/* Each PE has an RC QP and a DCT. */
	fixture_daemon_start(&daemon, "--max-qps=7", NULL);
	world_lab_run(&daemon, 2, lacks_room, (void *)(uintptr_t)&rc);
	fixture_daemon_stop(&daemon);
}

/* ---- time limits */

#define SHORT_NSEC NSEC_PER_SEC

struct limits {
	struct shmd_uid uids[2];
	uint64_t nsec[2]; /* of the worlds, in the order in which they start */
};

static void *wakes_the_daemon(void *arg)
{
	const struct world_lab *lab = arg;

	usleep(2 * SHORT_NSEC / NSEC_PER_USEC);
	ASSERT_OK(kill(lab->daemon->pid, SIGCONT));
	return NULL;
}

/* The world with the short limit fails soon, the other one waits until the daemon answers again. */
static void make_while_the_daemon_hangs(const struct world_lab *lab, struct shmd_world *hasty, struct shmd_world *patient)
{
	struct shmd_ctx *ctx;
	pthread_t thread;
	uint64_t begin;

	ASSERT_OK(kill(lab->daemon->pid, SIGSTOP));
	begin = nsec_now();
	ASSERT_ERR(shmd_ctx_create(shmd_team_world(hasty), NULL, &ctx), ETIMEDOUT);
	ASSERT_GE(nsec_now() - begin, SHORT_NSEC);
	ASSERT_LT(nsec_now() - begin, test_patience_nsec());
	ASSERT_EQ(pthread_create(&thread, NULL, wakes_the_daemon, (void *)(uintptr_t)lab), 0);
	world_lab_must(shmd_ctx_create(shmd_team_world(patient), NULL, &ctx), "a context of the patient world");
	ASSERT_EQ(pthread_join(thread, NULL), 0);
}

static int has_two_limits(const struct world_lab *lab, int pe, void *arg)
{
	const struct limits *limits = arg;
	struct shmd_world *worlds[2];

	for (unsigned int i = 0; i < 2; i++) {
		struct world_lab mine = *lab;

		mine.uid = limits->uids[i];
		mine.attr.timeout_nsec = limits->nsec[i];
		worlds[i] = open_on_queues(&mine, pe, &rc);
	}
	if (pe == 0)
		make_while_the_daemon_hangs(lab, worlds[limits->nsec[0] != SHORT_NSEC], worlds[limits->nsec[0] == SHORT_NSEC]);
	world_lab_close(worlds[limits->nsec[0] == SHORT_NSEC]);
	world_lab_close(worlds[limits->nsec[0] != SHORT_NSEC]);
	return 0;
}

static void run_with_limits(uint64_t first_nsec, uint64_t second_nsec)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};
	struct limits limits = {.nsec = {first_nsec, second_nsec}};
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	for (unsigned int k = 0; k < 2; k++)
		world_lab_must(bootstrap_uid_make(&how, &limits.uids[k]), "uid");
	world_lab_run(&daemon, 2, has_two_limits, &limits);
	fixture_daemon_stop(&daemon);
}

TEST_WAITS(each_world_of_a_process_has_its_own_limit_for_requests, 240)
{
	run_with_limits(2 * test_patience_nsec(), SHORT_NSEC);
}

TEST_WAITS(a_world_that_opens_later_does_not_change_the_limit_of_the_first_one, 240)
{
	run_with_limits(SHORT_NSEC, 2 * test_patience_nsec());
}
