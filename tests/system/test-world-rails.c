/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PEs with several NICs (SHMD_NICS_PER_PE): contexts are spread over them, all kinds of memory have keys on each, order and atomics stay
 * what they are with one NIC, PEs may have different numbers of NICs, and a world outlives a PE or a port.
 *
 * The NICs are soft ones, or simulated ConnectX NICs, whose atomics are not those of the CPU. The simulator runs all its NICs on one thread, so
 * their atomics never collide: the test looks at the queues that atomics take instead.
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
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-lab.h"

#define N_PES 3
#define N_RAILS 2u
#define BLOCK 20000u
#define PAGE 65536u
#define N_ADDS 300u

struct setup {
	uint32_t paths; /* SHMD_ALLOW_* */
	const char *rc_peers; /* SHMD_RC_PEERS */
	const char *nics[N_PES]; /* SHMD_NICS_PER_PE; NULL: 2 */
};
static const struct setup rc = {SHMD_ALLOW_QUEUE, "16", {NULL}}, dc = {SHMD_ALLOW_QUEUE, "0", {NULL}},
			  uneven = {SHMD_ALLOW_QUEUE, "16", {"1", "2", "2"}}, uneven_dc = {SHMD_ALLOW_QUEUE, "0", {"2", "2", "1"}},
			  both = {SHMD_ALLOW_QUEUE | SHMD_ALLOW_MAPPED, "16", {NULL}};

static struct shmd_world *open_world(const struct world_lab *lab, int pe, const struct setup *setup)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", setup->rc_peers, 1);
	setenv("SHMD_NICS_PER_PE", setup->nics[pe] ? setup->nics[pe] : "2", 1);
	/* In a mixed world the last PE is mapped by nobody. */
	mine.attr.paths = setup->paths & SHMD_ALLOW_MAPPED && pe == N_PES - 1 ? SHMD_ALLOW_QUEUE : setup->paths;
	return world_lab_open_started(&mine, pe);
}

static struct shmd_ctx *make(struct shmd_world *world)
{
	struct shmd_ctx *ctx;

	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &ctx), "a context");
	return ctx;
}

static void run(world_lab_fn fn, const struct setup *setup)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, N_PES, fn, (void *)(uintptr_t)setup);
	fixture_daemon_stop(&daemon);
}

static const struct shmd_dev_pe_way *way_to(struct shmd_ctx *ctx, int pe)
{
	return (const struct shmd_dev_pe_way *)(uintptr_t)shmd_ctx_dev(ctx)->ways_addr + pe;
}

static uint32_t n_nics(const struct setup *setup, int pe)
{
	return setup->nics[pe] ? (uint32_t)atoi(setup->nics[pe]) : N_RAILS;
}

/* Each PE has its contexts on its NICs in turn, and each leads to one NIC of a peer. */
static void check_rail(struct shmd_world *world, struct shmd_ctx *ctx, uint32_t rail, const struct setup *setup)
{
	for (int pe = 0; pe < shmd_n_pes(world); pe++) {
		if (!way_to(ctx, pe)->qp_addr)
			continue;
		ASSERT_EQ(way_to(ctx, pe)->rail, rail);
		ASSERT_EQ(way_to(ctx, pe)->peer_rail, rail % n_nics(setup, pe));
	}
}

/* ---- memory of each kind */

struct area {
	uint64_t signal;
	uint8_t in[BLOCK], out[BLOCK];
};

static uint8_t byte_of(int pe, unsigned int at, uint8_t salt)
{
	return (uint8_t)((unsigned int)pe * 53 + at * 7 + salt);
}

static void fill(uint8_t *bytes, int pe, uint8_t salt)
{
	for (unsigned int at = 0; at < BLOCK; at++)
		bytes[at] = byte_of(pe, at, salt);
}

static void check(const uint8_t *bytes, int pe, uint8_t salt)
{
	for (unsigned int at = 0; at < BLOCK; at++)
		ASSERT_EQ(bytes[at], byte_of(pe, at, salt));
}

/* To the right by a signal, which the data must not follow, and back by a get. `local`: registered or not, in the heap or not. */
static void move(struct shmd_world *world, struct shmd_ctx *ctx, struct area *area, uint8_t *local)
{
	static uint8_t salt;
	int n = shmd_n_pes(world), me = shmd_my_pe(world), right = (me + 1) % n, left = (me + n - 1) % n;

	salt++;
	fill(local, me, salt);
	area->signal = 0;
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_must(shmd_put_signal(ctx, area->in, local, BLOCK, &area->signal, salt, SHMD_SIGNAL_SET, right), "put with signal");
	world_lab_must(shmd_wait_until(ctx, &area->signal, 8, SHMD_CMP_EQ, salt), "wait");
	check(area->in, left, salt);
	memset(local, 0, BLOCK);
	world_lab_must(shmd_get(ctx, local, area->in, BLOCK, right), "get");
	check(local, me, salt);
	world_lab_must(shmd_quiet(ctx), "quiet");
	world_lab_must(shmd_barrier_all(world), "barrier");
}

static void *pages(void)
{
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(memory != MAP_FAILED);
	return memory;
}

static int moves(const struct world_lab *lab, int pe, void *arg)
{
	const struct setup *setup = arg;
	struct shmd_world *world = open_world(lab, pe, setup);
	uint32_t n_rails = n_nics(setup, pe);
	uint8_t *plain = pages(), *registered = pages();
	struct shmd_ctx *contexts[3];
	struct area *area, *grown, *symmetric;

	ASSERT_EQ(shmd_world_dev(world)->n_rails, n_rails);
	contexts[0] = shmd_world_ctx(world);
	world_lab_must(shmd_buffer_register(world, registered, PAGE), "register");
	for (uint32_t i = 1; i < 3; i++)
		contexts[i] = make(world);
	/* Behind the first chunk. */
	world_lab_must(shmd_malloc(world, 6u << 20, 0, (void **)&grown), "malloc");
	world_lab_must(shmd_calloc(world, 1, sizeof(*area), 0, (void **)&area), "calloc");
	world_lab_must(shmd_buffer_register_symmetric(world, pages(), PAGE, (void **)&symmetric), "register symmetric");
	for (uint32_t i = 0; i < 3; i++) {
		check_rail(world, contexts[i], i % n_rails, setup);
		move(world, contexts[i], area, plain);
		move(world, contexts[i], area, registered);
		move(world, contexts[i], grown, area->out);
		move(world, contexts[i], symmetric, symmetric->out);
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(contexts_take_turns_on_the_nics_and_all_memory_is_reached_by_each, 120)
{
	run(moves, &rc);
	run(moves, &dc);
}

TEST_TIMEOUT(pes_have_different_numbers_of_nics, 120)
{
	run(moves, &uneven);
	run(moves, &uneven_dc);
}

/* "soft1,soft0": the NICs of this PE, rail 0 first. */
static void nics_of(const struct shmd_world *world, int pe, char names[N_RAILS][32])
{
	struct shmd_pe_info info;
	char *comma;

	ASSERT_OK(shmd_pe_info(world, pe, &info));
	comma = strchr(info.nic, ',');
	ASSERT(comma);
	*comma = '\0';
	snprintf(names[0], 32, "%s", info.nic);
	snprintf(names[1], 32, "%s", comma + 1);
}

static int shows_nics(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_world(lab, pe, arg);
	char names[N_RAILS][32];

	nics_of(world, (pe + 1) % lab->n, names);
	ASSERT(strcmp(names[0], names[1]) != 0);
	ASSERT(strstr(names[0], world_lab_is_connectx() ? "mlx5_" : "soft"));
	ASSERT(strstr(names[1], world_lab_is_connectx() ? "mlx5_" : "soft"));
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(the_nics_of_a_path_are_shown, 120)
{
	run(shows_nics, &rc);
}

/* Contexts that have gone do not count: the next one takes their NIC. */
static int spreads(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_world(lab, pe, arg);
	struct shmd_ctx *second = make(world), *first = make(world);
	int peer = (pe + 1) % lab->n;

	ASSERT_EQ(way_to(second, peer)->rail, 1);
	ASSERT_EQ(way_to(first, peer)->rail, 0);
	for (int i = 0; i < 5; i++) {
		world_lab_must(shmd_ctx_destroy(second), "destroy");
		second = make(world);
		ASSERT_EQ(way_to(second, peer)->rail, 1);
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(contexts_that_end_leave_their_place_on_a_nic, 120)
{
	run(spreads, &rc);
}

/* ---- atomics */

struct board {
	const struct setup *setup;
	uint8_t olds[N_PES * 3 * N_ADDS]; /* 1: an atomic has found this value */
};

/* NICs in software use the CPU's atomics; others, which are apart, have atomics go to the first NIC of a PE. */
static void check_amo_ways(struct shmd_ctx *ctx)
{
	const struct shmd_dev_ctx *dev = shmd_ctx_dev(ctx);
	const struct shmd_dev_pe_way *ways = (const struct shmd_dev_pe_way *)(uintptr_t)dev->amo_ways_addr;
	bool is_on_second = way_to(ctx, 0)->rail || way_to(ctx, 1)->rail;

	ASSERT_EQ(ways != NULL, is_on_second && getenv("SHMEMD_TEST_BACKEND"));
	for (int pe = 0; ways && pe < N_PES; pe++)
		if (ways[pe].qp_addr)
			ASSERT_EQ(ways[pe].peer_rail, 0);
}

/* Each of three contexts in turn, so that all NICs add to the words of all PEs. */
static int adds(const struct world_lab *lab, int pe, void *arg)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1}, add_4 = {.op = SHMD_ATOMIC_ADD, .bytes = 4, .value = 1};
	struct board *board = arg;
	struct shmd_world *world = open_world(lab, pe, board->setup);
	struct shmd_ctx *contexts[3] = {shmd_world_ctx(world), make(world), make(world)};
	uint64_t *words, old;

	check_amo_ways(contexts[1]);
	check_amo_ways(contexts[2]);
	world_lab_must(shmd_calloc(world, 4, 8, 0, (void **)&words), "calloc");
	for (unsigned int i = 0; i < 3 * N_ADDS; i++) {
		struct shmd_ctx *ctx = contexts[i % 3];

		world_lab_must(shmd_atomic_fetch(ctx, &words[0], &add, 0, &old), "fetching add");
		ASSERT_LT(old, sizeof(board->olds));
		ASSERT_EQ(__atomic_exchange_n(&board->olds[old], 1, __ATOMIC_RELAXED), 0);
		world_lab_must(shmd_atomic(ctx, &words[1], &add, (int)(i % N_PES)), "add");
		world_lab_must(shmd_atomic(ctx, &words[2], &add_4, (int)(i % N_PES)), "add of 4 bytes");
		world_lab_must(shmd_signal(ctx, &words[3], 1, SHMD_SIGNAL_ADD, (int)(i % N_PES)), "signal");
	}
	for (int i = 0; i < 3; i++)
		world_lab_must(shmd_quiet(contexts[i]), "quiet");
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(words[0], pe ? 0u : 3u * N_PES * N_ADDS);
	for (int i = 1; i < 4; i++)
		ASSERT_EQ(words[i], N_PES * N_ADDS);
	world_lab_close(world);
	return 0;
}

static void add_all(const struct setup *setup)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture_daemon daemon;

	ASSERT(board != MAP_FAILED);
	board->setup = setup;
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, N_PES, adds, board);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(board, sizeof(*board)));
}

TEST_TIMEOUT(atomics_by_all_nics_are_one_domain, 120)
{
	add_all(&rc);
	add_all(&uneven_dc);
	add_all(&both);
}

/* ---- order */

/* Numbers behind their data, by a fence, by quiet to one PE and by a signal. */
static int orders(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_world(lab, pe, arg);
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	struct shmd_ctx *ctx = make(world);
	int right = (pe + 1) % lab->n;
	struct area *area;

	world_lab_must(shmd_calloc(world, 1, sizeof(*area), 0, (void **)&area), "calloc");
	for (uint64_t i = 1; i <= 60; i++) {
		memset(area->out, (int)i, BLOCK);
		world_lab_must(shmd_put_nbi(ctx, area->in, area->out, BLOCK, right), "put");
		if (i % 3 == 0)
			world_lab_must(shmd_fence(ctx), "fence");
		if (i % 3 == 1)
			world_lab_must(shmd_quiet_pe(ctx, right), "quiet");
		if (i % 3 == 2)
			world_lab_must(shmd_put_signal_nbi(ctx, area->in, area->out, BLOCK, &area->signal, 1, SHMD_SIGNAL_ADD, right), "put");
		else
			world_lab_must(shmd_atomic(ctx, &area->signal, &add, right), "add");
		world_lab_must(shmd_wait_until(ctx, &area->signal, 8, SHMD_CMP_GE, i), "wait");
		for (unsigned int at = 0; at < BLOCK; at += 100)
			ASSERT_EQ(area->in[at], (uint8_t)i);
		world_lab_must(shmd_quiet(ctx), "quiet");
		world_lab_must(shmd_barrier_all(world), "barrier");
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_context_on_the_second_nic_keeps_order, 120)
{
	run(orders, &rc);
	run(orders, &both);
}

/* ---- ends */

static void reach(struct shmd_ctx *ctx, uint64_t *word, uint64_t value, int pe)
{
	uint64_t got;

	world_lab_must(shmd_p(ctx, word, value, 8, pe), "p");
	world_lab_must(shmd_g(ctx, word, 8, pe, &got), "g");
	ASSERT_EQ(got, value);
}

/* Until requests to PE 1 fail, which has ended; adds, since they have queues of their own on some NICs. */
static int add_to_the_dead(struct shmd_ctx *ctx, uint64_t *words)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	int r = 0;

	while (!r) {
		r = shmd_put(ctx, &words[2], &words[3], 8, 1);
		if (!r)
			r = shmd_atomic_fetch(ctx, &words[3], &add, 1, NULL);
	}
	return r;
}

struct mourning {
	const struct setup *setup;
	uint32_t n_done; /* atomic: PEs that have reached each other again; closing does not wait for them any more */
};

static void await_both(struct mourning *mourning)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	__atomic_add_fetch(&mourning->n_done, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&mourning->n_done, __ATOMIC_ACQUIRE) < N_PES - 1) {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
}

static int loses_a_pe(const struct world_lab *lab, int pe, void *arg)
{
	struct mourning *mourning = arg;
	struct shmd_world *world = open_world(lab, pe, mourning->setup);
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	struct shmd_ctx *ctx = make(world);
	uint64_t *words;
	int r;

	world_lab_must(shmd_calloc(world, 4, 8, 0, (void **)&words), "calloc");
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_await_others(world, words, pe);
	if (pe == 1)
		raise(SIGKILL);
	r = add_to_the_dead(ctx, words);
	ASSERT(r == -EHOSTDOWN || r == -EIO);
	ASSERT(strstr(shmd_error_text(), "PE 1 ("));
	while (shmd_world_status(world) != SHMD_WORLD_BROKEN)
		usleep(1000);
	(void)shmd_quiet(ctx);
	world_lab_must(shmd_world_forgive(world), "forgive");
	reach(ctx, &words[1], 7 + (uint64_t)pe, 2 - pe);
	world_lab_must(shmd_atomic_fetch(ctx, &words[1], &add, 2 - pe, NULL), "add");
	world_lab_must(shmd_quiet(ctx), "quiet");
	await_both(mourning);
	world_lab_close(world);
	return 0;
}

static void lose_a_pe(const struct setup *setup)
{
	struct mourning *mourning = mmap(NULL, sizeof(*mourning), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = N_PES};

	ASSERT(mourning != MAP_FAILED);
	mourning->setup = setup;
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_start(&lab, loses_a_pe, mourning);
	for (int pe = 0; pe < N_PES; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 1 ? 128 + SIGKILL : 0);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(mourning, sizeof(*mourning)));
}

TEST_TIMEOUT(the_end_of_a_pe_ends_requests_on_every_nic_and_contexts_go_on, 120)
{
	lose_a_pe(&rc);
	lose_a_pe(&dc);
}

struct port {
	struct setup setup;
	char of_others[32]; /* the one NIC of PE 1 */
};

static void set_port(const struct world_lab *lab, const char *nic, bool is_up)
{
	struct shmd_client *control = lab_control(lab->daemon);

	world_lab_must(shmd_admin_port_set(control, nic, is_up), "port");
	shmd_client_close(control);
}

static bool is_well(struct shmd_ctx *ctx, int pe)
{
	const struct shmd_dev_qp *qp = (const struct shmd_dev_qp *)(uintptr_t)way_to(ctx, pe)->qp_addr;

	return !__atomic_load_n((const uint32_t *)(uintptr_t)qp->health_addr, __ATOMIC_ACQUIRE);
}

/* The daemon reports a port that is up again a moment later, maybe after the first request has passed, and requests may have failed meanwhile. */
static void await_nic(struct shmd_world *world, struct shmd_ctx *ctx, uint64_t *words)
{
	uint64_t end = nsec_now() + test_patience_nsec(), value;

	while (shmd_g(ctx, words, 8, 1, &value) < 0 || !is_well(ctx, 1)) {
		ASSERT_LT(nsec_now(), end);
		world_lab_must(shmd_world_forgive(world), "forgive");
	}
}

/* PE 0 has two NICs; the port of that which PE 1 has not goes down. */
static void outlive_a_port(const struct world_lab *lab, struct shmd_world *world, uint64_t *words, const char *of_others)
{
	struct shmd_ctx *contexts[N_RAILS] = {shmd_world_ctx(world), make(world)}, *later;
	char names[N_RAILS][32];
	uint32_t down;
	int r;

	nics_of(world, 1, names);
	down = strcmp(names[0], of_others) ? 0 : 1;
	ASSERT_STREQ(names[!down], of_others);
	ASSERT_EQ(way_to(contexts[1], 1)->rail, 1);
	set_port(lab, names[down], false);
	do
		r = shmd_p(contexts[down], words, 5, 8, 1) ?: shmd_quiet(contexts[down]);
	while (!r);
	ASSERT(r == -ECONNRESET || r == -EIO);
	ASSERT(strstr(shmd_error_text(), "NIC"));
	reach(contexts[!down], words, 6, 1);
	later = make(world);
	ASSERT_EQ(way_to(later, 1)->rail, !down);
	reach(later, words, 7, 1);
	set_port(lab, names[down], true);
	await_nic(world, contexts[down], words);
	reach(contexts[down], words, 8, 1);
}

static int loses_a_port(const struct world_lab *lab, int pe, void *arg)
{
	struct port *port = arg;
	struct shmd_world *world = open_world(lab, pe, &port->setup);
	struct shmd_pe_info info;
	uint64_t *words;

	world_lab_must(shmd_calloc(world, 2, 8, 0, (void **)&words), "calloc");
	ASSERT_OK(shmd_pe_info(world, 0, &info));
	if (pe == 1)
		snprintf(port->of_others, sizeof(port->of_others), "%s", info.nic);
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0)
		outlive_a_port(lab, world, words, port->of_others);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_port_that_goes_down_takes_no_other_nic_of_a_pe_with_it, 120)
{
	struct port *port = mmap(NULL, sizeof(*port), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture_daemon daemon;

	ASSERT(port != MAP_FAILED);
	port->setup = (struct setup){SHMD_ALLOW_QUEUE, "16", {"2", "1"}};
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	world_lab_run(&daemon, 2, loses_a_port, port);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(port, sizeof(*port)));
}

/* ---- fewer NICs than wanted */

static int makes_do(const struct world_lab *lab, int pe, void *arg)
{
	const struct setup *setup = arg;
	struct shmd_world *world = open_world(lab, pe, setup);
	uint64_t *words;

	ASSERT_EQ(shmd_world_dev(world)->n_rails, 1);
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&words), "calloc");
	world_lab_must(shmd_p(make(world), words, 3, 8, (pe + 1) % lab->n), "p");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_pe_goes_on_with_the_nics_that_it_can_have, 120)
{
	/* One NIC; and an equal share of two, which is less than one. */
	static const struct setup many = {SHMD_ALLOW_QUEUE, "16", {"4", "4", "4"}}, share = {SHMD_ALLOW_QUEUE, "16", {"0", "0", "0"}};
	struct fixture_daemon daemon;

	if (!world_lab_is_connectx()) {
		setenv("SHMD_LOG", "error", 1);
		fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
		world_lab_run(&daemon, N_PES, makes_do, (void *)(uintptr_t)&many);
		fixture_daemon_stop(&daemon);
	}
	run(makes_do, &share);
}
