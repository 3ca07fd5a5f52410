/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon is killed under a running world, by a service manager that keeps descriptors. PEs put, count and allocate on, by queues and on
 * mapped memory: data is right, and each atomic took effect once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

#define FOR_EVER "--restart-grace=600000"
#define N_PES 3
#define FEW_KILLS 10u
#define MANY_KILLS 100u
#define KILLS_PER_HASTE 4u /* one of them does not wait for the PEs */
#define BLOCK 1024u
#define MOST_ADDS (1u << 22)
#define MOST_WORLDS 4096u

/* How the PEs reach each other. */
struct way {
	uint32_t paths;
	const char *rc_peers; /* SHMD_RC_PEERS */
	bool is_hot; /* pairs of hot peers change in each round */
	bool has_two_nics; /* requests go by the second one */
};

/* Shared by the test and its PEs. Words are atomic. */
struct board {
	const struct way *way;
	uint32_t stop;
	uint32_t n_rounds[N_PES];
	uint8_t olds[MOST_ADDS]; /* 1: an atomic of all has returned this value */
};

/* Symmetric memory. */
struct area {
	uint64_t counter; /* of PE 0: fetching adds of all */
	uint64_t silent; /* of each PE: adds of the PE before it, without a result */
	uint64_t signal; /* the same, by signals behind data */
	uint64_t stop; /* of PE 0, for all */
	uint8_t put[2 * BLOCK], signalled[BLOCK];
};

struct pe {
	const struct world_lab *lab;
	struct board *board;
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	struct area *area;
	int me, right, left;
	uint64_t round, n_adds;
};

static uint8_t byte_of(int pe, uint64_t round, unsigned int i)
{
	return (uint8_t)((uint64_t)pe * 89 + round * 31 + i);
}

static void fill(uint8_t *bytes, unsigned int n, int pe, uint64_t round)
{
	for (unsigned int i = 0; i < n; i++)
		bytes[i] = byte_of(pe, round, i);
}

static void check(const struct pe *pe, const uint8_t *bytes, unsigned int n, int from, const char *what)
{
	for (unsigned int i = 0; i < n; i++)
		if (bytes[i] != byte_of(from, pe->round, i))
			test_fail(TEST_WHERE, "PE %d, round %llu, %s of PE %d: byte %u is wrong", pe->me, (unsigned long long)pe->round,
				  what, from, i);
}

/* A value comes back twice if an atomic is carried out twice and its first result is lost. */
static void count(struct pe *pe)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	uint64_t old = 0;

	world_lab_must(shmd_atomic_fetch(pe->ctx, &pe->area->counter, &add, 0, &old), "fetching add");
	ASSERT_LT(old, MOST_ADDS);
	if (__atomic_exchange_n(&pe->board->olds[old], 1, __ATOMIC_RELAXED))
		test_fail(TEST_WHERE, "PE %d: two atomics found %llu", pe->me, (unsigned long long)old);
	pe->n_adds++;
}

static void write_to_right(struct pe *pe)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	uint8_t local[BLOCK];

	fill(local, BLOCK, pe->me, pe->round);
	/* One by memory of the context, one by that of the heap: its own second half. */
	world_lab_must(shmd_put(pe->ctx, pe->area->put, local, BLOCK, pe->right), "put");
	world_lab_must(shmd_atomic(pe->ctx, &pe->area->silent, &add, pe->right), "add");
	world_lab_must(shmd_put_signal(pe->ctx, pe->area->signalled, local, BLOCK, &pe->area->signal, 1, SHMD_SIGNAL_ADD, pe->right),
		       "put with signal");
}

static void look(struct pe *pe)
{
	uint8_t back[BLOCK];

	world_lab_must(shmd_wait_until(pe->ctx, &pe->area->signal, 8, SHMD_CMP_GE, pe->round + 1), "wait for the signal");
	check(pe, pe->area->signalled, BLOCK, pe->left, "signalled data");
	/* A barrier completes the default context alone. */
	world_lab_must(shmd_quiet(pe->ctx), "quiet");
	world_lab_must(shmd_barrier_all(pe->world), "barrier");
	check(pe, pe->area->put, BLOCK, pe->left, "data");
	ASSERT_EQ(pe->area->silent, pe->round + 1);
	ASSERT_EQ(pe->area->signal, pe->round + 1);
	world_lab_must(shmd_get(pe->ctx, back, pe->area->put, BLOCK, pe->right), "get");
	check(pe, back, BLOCK, pe->me, "data at the right");
}

/* Now and then a chunk of the heap more, which the daemon passes on and registers, and a team. */
static void allocate(struct pe *pe)
{
	struct shmd_team *team = NULL;
	void *memory;

	if (pe->round % 64 == 63) {
		world_lab_must(shmd_malloc(pe->world, 3u << 20, 0, &memory), "malloc");
		if (pe->round % 128 == 127)
			world_lab_must(shmd_free(pe->world, memory), "free");
	}
	if (pe->round % 16 == 15) {
		world_lab_must(shmd_team_split_strided(shmd_team_world(pe->world), 0, 1, N_PES, &team), "split");
		world_lab_must(shmd_team_destroy(team), "destroy");
	}
}

/* PE 0 decides, and all learn it in the same round. */
static bool goes_on(struct pe *pe)
{
	if (pe->me == 0 && __atomic_load_n(&pe->board->stop, __ATOMIC_ACQUIRE))
		for (int to = 0; to < N_PES; to++)
			world_lab_must(shmd_p(pe->ctx, &pe->area->stop, 1, 8, to), "p");
	world_lab_must(shmd_quiet(pe->ctx), "quiet");
	world_lab_must(shmd_barrier_all(pe->world), "barrier");
	return !__atomic_load_n(&pe->area->stop, __ATOMIC_ACQUIRE);
}

/* One pair, or none. Between the operations of a round, which have an order. */
static void change_hot_peers(struct pe *pe)
{
	if (pe->board->way->is_hot)
		world_lab_must(shmd_world_hot_peers(pe->world, pe->round % 2 ? &pe->right : &pe->left, pe->me == 0 && pe->round % 3),
			       "hot peers");
}

static void one_round(struct pe *pe)
{
	count(pe);
	write_to_right(pe);
	change_hot_peers(pe);
	count(pe);
	look(pe);
	allocate(pe);
	pe->round++;
	__atomic_store_n(&pe->board->n_rounds[pe->me], (uint32_t)pe->round, __ATOMIC_RELEASE);
}

static int works(const struct world_lab *lab, int me, void *arg)
{
	struct board *board = arg;
	struct world_lab mine = *lab;
	struct pe pe = {.lab = lab, .board = board, .me = me, .right = (me + 1) % N_PES, .left = (me + N_PES - 1) % N_PES};

	setenv("SHMD_RC_PEERS", board->way->rc_peers, 1);
	setenv("SHMD_NICS_PER_PE", board->way->has_two_nics ? "2" : "1", 1);
	mine.attr.paths = board->way->paths;
	mine.attr.timeout_nsec = test_patience_nsec();
	pe.world = world_lab_open_started(&mine, me);
	pe.ctx = shmd_world_ctx(pe.world);
	if (board->way->has_two_nics)
		world_lab_must(shmd_ctx_create(shmd_team_world(pe.world), NULL, &pe.ctx), "a context");
	world_lab_must(shmd_calloc(pe.world, 1, sizeof(*pe.area), 0, (void **)&pe.area), "calloc");
	do
		one_round(&pe);
	while (goes_on(&pe));
	if (me == 0)
		ASSERT_EQ(pe.area->counter, N_PES * pe.n_adds);
	for (uint64_t i = 0; me == 0 && i < pe.area->counter; i++)
		ASSERT_EQ(board->olds[i], 1);
	world_lab_close(pe.world);
	return 0;
}

/* ---- the test */

static uint32_t fewest_rounds(const struct board *board)
{
	uint32_t fewest = UINT32_MAX;

	for (int pe = 0; pe < N_PES; pe++) {
		uint32_t n = __atomic_load_n(&board->n_rounds[pe], __ATOMIC_ACQUIRE);

		fewest = n < fewest ? n : fewest;
	}
	return fewest;
}

static void await_rounds(const struct board *board, uint32_t more)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	uint32_t least = fewest_rounds(board) + more;

	while (fewest_rounds(board) < least) {
		ASSERT_LT(nsec_now(), end);
		usleep(200);
	}
}

static void kill_at_random(struct fixture_keeper *keeper, const struct board *board, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (i % KILLS_PER_HASTE)
			await_rounds(board, 1);
		usleep((useconds_t)(random() % 20000));
		fixture_keeper_kill_daemon(keeper);
	}
}

static void work_through_kills(const struct way *way)
{
	unsigned int n = test_is_full() ? MANY_KILLS : FEW_KILLS;
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture_keeper keeper = {0};
	struct world_lab lab = {.daemon = &keeper.daemon, .n = N_PES};

	ASSERT(board != MAP_FAILED);
	board->way = way;
	srandom((unsigned int)getpid());
	fixture_keeper_start(&keeper, FOR_EVER, "--soft-nics=2", NULL);
	world_lab_start(&lab, works, board);
	await_rounds(board, 1);
	kill_at_random(&keeper, board, n);
	await_rounds(board, 2);
	__atomic_store_n(&board->stop, 1, __ATOMIC_RELEASE);
	for (int pe = 0; pe < N_PES; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), 0);
	printf("# %u kills, %u rounds\n", n, fewest_rounds(board));
	fixture_keeper_stop(&keeper);
	ASSERT_OK(munmap(board, sizeof(*board)));
}

TEST_WAITS(a_world_on_queues_works_through_kills_of_the_daemon, 300)
{
	static const struct way rc = {SHMD_ALLOW_QUEUE, "16"};

	work_through_kills(&rc);
}

TEST_WAITS(a_world_on_dynamic_connections_works_through_kills_of_the_daemon, 300)
{
	static const struct way dc = {SHMD_ALLOW_QUEUE, "0"};

	work_through_kills(&dc);
}

TEST_WAITS(a_world_whose_hot_peers_change_works_through_kills_of_the_daemon, 300)
{
	static const struct way hot = {SHMD_ALLOW_QUEUE, "0", true};

	work_through_kills(&hot);
}

TEST_TIMEOUT(a_world_of_pes_with_two_nics_works_through_kills_of_the_daemon, 300)
{
	static const struct way two = {SHMD_ALLOW_QUEUE, "16", false, true};

	work_through_kills(&two);
}

TEST_TIMEOUT(a_mapped_world_works_through_kills_of_the_daemon, 300)
{
	static const struct way mapped = {SHMD_ALLOW_MAPPED, "16"};

	work_through_kills(&mapped);
}

/* ---- opening without a daemon, and through kills */

struct opening {
	const struct way *way;
	uint64_t timeout_nsec;
	uint32_t stop, n_worlds; /* atomic */
	struct shmd_uid uids[MOST_WORLDS];
};

static struct opening *opening_new(const struct way *way)
{
	struct opening *opening = mmap(NULL, sizeof(*opening), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(opening != MAP_FAILED);
	opening->way = way;
	return opening;
}

static struct shmd_world *open_one(const struct world_lab *lab, int pe, const struct opening *opening)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", opening->way->rc_peers, 1);
	mine.attr.paths = opening->way->paths;
	mine.attr.timeout_nsec = opening->timeout_nsec;
	return world_lab_open(&mine, pe);
}

static int opens(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_one(lab, pe, arg);
	uint64_t *word;

	world_lab_must(shmd_world_start(world), "start");
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	world_lab_must(shmd_p(shmd_world_ctx(world), word, 7, 8, (pe + 1) % N_PES), "p");
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(*word, 7);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_world_that_opens_while_the_daemon_is_down_waits_for_the_next_one, 300)
{
	static const struct way queue = {SHMD_ALLOW_QUEUE, "16"};
	struct opening *opening = opening_new(&queue);
	struct fixture_keeper keeper = {0};
	struct world_lab lab = {.daemon = &keeper.daemon, .n = N_PES};

	opening->timeout_nsec = test_patience_nsec();
	fixture_keeper_start(&keeper, FOR_EVER, "--soft-nics=2", NULL);
	fixture_keeper_hold(&keeper);
	world_lab_start(&lab, opens, opening);
	usleep(300000);
	fixture_keeper_go(&keeper);
	for (int pe = 0; pe < N_PES; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), 0);
	fixture_keeper_stop(&keeper);
	ASSERT_OK(munmap(opening, sizeof(*opening)));
}

static int opens_in_vain(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_one(lab, pe, arg);
	uint64_t begin = nsec_now();

	ASSERT_ERR(shmd_world_start(world), ETIMEDOUT);
	/* Ten limits: less than the library's own, which holds for sessions without one. */
	ASSERT_LT(nsec_now() - begin, 5 * NSEC_PER_SEC);
	ASSERT(strstr(shmd_error_text(), "shmemd"));
	ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_OPEN);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_world_whose_daemon_stays_down_does_not_start_and_says_so_within_its_limit, 300)
{
	static const struct way mapped = {SHMD_ALLOW_MAPPED, "16"};
	struct opening *opening = opening_new(&mapped);
	struct fixture_keeper keeper = {0};

	opening->timeout_nsec = NSEC_PER_SEC / 2;
	fixture_keeper_start(&keeper, FOR_EVER, "--soft-nics=2", NULL);
	fixture_keeper_hold(&keeper);
	world_lab_run(&keeper.daemon, N_PES, opens_in_vain, opening);
	fixture_keeper_go(&keeper);
	fixture_keeper_stop(&keeper);
	ASSERT_OK(munmap(opening, sizeof(*opening)));
}

/* All PEs see the same number: PE 0 decides whether there is one more. */
static int opens_often(const struct world_lab *lab, int pe, void *arg)
{
	struct opening *opening = arg;
	struct world_lab mine = *lab;
	uint32_t n = 0;

	while (__atomic_load_n(&opening->n_worlds, __ATOMIC_ACQUIRE) != UINT32_MAX) {
		mine.uid = opening->uids[n];
		(void)opens(&mine, pe, opening);
		n++;
		if (pe == 0)
			__atomic_store_n(&opening->n_worlds,
					 n == MOST_WORLDS || __atomic_load_n(&opening->stop, __ATOMIC_ACQUIRE) ? UINT32_MAX : n,
					 __ATOMIC_RELEASE);
		while (__atomic_load_n(&opening->n_worlds, __ATOMIC_ACQUIRE) < n)
			usleep(100);
	}
	return 0;
}

static void open_through_kills(const struct way *way)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};
	unsigned int n = test_is_full() ? MANY_KILLS : FEW_KILLS;
	struct opening *opening = opening_new(way);
	struct fixture_keeper keeper = {0};
	struct world_lab lab = {.daemon = &keeper.daemon, .n = N_PES};

	opening->timeout_nsec = test_patience_nsec();
	for (unsigned int i = 0; i < MOST_WORLDS; i++)
		world_lab_must(bootstrap_uid_make(&how, &opening->uids[i]), "uid");
	fixture_keeper_start(&keeper, FOR_EVER, "--soft-nics=2", NULL);
	world_lab_start(&lab, opens_often, opening);
	for (unsigned int i = 0; i < n; i++) {
		usleep((useconds_t)(random() % 40000));
		fixture_keeper_kill_daemon(&keeper);
	}
	__atomic_store_n(&opening->stop, 1, __ATOMIC_RELEASE);
	for (int pe = 0; pe < N_PES; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), 0);
	fixture_keeper_stop(&keeper);
	ASSERT_OK(munmap(opening, sizeof(*opening)));
}

TEST_WAITS(worlds_on_queues_open_and_close_through_kills_of_the_daemon, 300)
{
	static const struct way rc = {SHMD_ALLOW_QUEUE, "16"}, dc = {SHMD_ALLOW_QUEUE, "0"};

	open_through_kills(&rc);
	open_through_kills(&dc);
}

TEST_WAITS(mapped_worlds_open_and_close_through_kills_of_the_daemon, 300)
{
	static const struct way mapped = {SHMD_ALLOW_MAPPED, "16"};

	open_through_kills(&mapped);
}
