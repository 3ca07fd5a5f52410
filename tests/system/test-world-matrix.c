/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation of the runtime over each path, by host calls and by device functions: mapped memory, queues with RC, queues with DC,
 * some PEs mapped and some not; 1 to 16 PEs, 8 threads a PE, teams of different sizes, several worlds at once, a hundred after one another.
 *
 * The NIC is the soft one, or the simulated ConnectX that the program runs on (tests/mlx5sim). The atomics of a ConnectX are not those of
 * the CPU, so there all atomics of a world with a queue go by queues, those to mapped PEs and to the caller itself, too.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient-admin.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/pe-calls-host.h"
#include "tests/system/world-lab.h"

#define N_WORLDS 100

enum transport { BY_MAP, BY_RC, BY_DC, BY_MAP_AND_RC, BY_MAP_AND_DC, N_TRANSPORTS };

struct run {
	enum transport transport;
	uint32_t n_threads;
	const struct shmd_uid *uids; /* of several worlds */
};

/* ---- worlds */

static bool is_dc(enum transport transport)
{
	return transport == BY_DC || transport == BY_MAP_AND_DC;
}

/* In a mixed world the first two PEs map each other. */
static bool may_map(enum transport transport, int pe)
{
	return transport == BY_MAP || (transport >= BY_MAP_AND_RC && pe < 2);
}

static struct shmd_world *open_world(const struct world_lab *lab, int pe, enum transport transport)
{
	struct world_lab mine = *lab;

	mine.attr.paths = (may_map(transport, pe) ? SHMD_ALLOW_MAPPED : 0) | (transport != BY_MAP ? SHMD_ALLOW_QUEUE : 0);
	setenv("SHMD_RC_PEERS", is_dc(transport) ? "0" : "16", 1);
	return world_lab_open_started(&mine, pe);
}

static enum shmd_path wanted_path(enum transport transport, int me, int pe)
{
	if (me == pe)
		return SHMD_PATH_SELF;
	return may_map(transport, me) && may_map(transport, pe) ? SHMD_PATH_MAPPED : SHMD_PATH_QUEUE;
}

/* Each path is the wanted one, each queue of the wanted kind, and all atomics go by queues where they must. */
static void check_paths(struct shmd_world *world, int me, int n, enum transport transport)
{
	const struct shmd_dev_ctx *ctx = shmd_ctx_dev(shmd_world_ctx(world));
	const struct shmd_dev_pe_way *ways = (const struct shmd_dev_pe_way *)(uintptr_t)ctx->ways_addr;
	bool has_queues = transport != BY_MAP && n > (transport >= BY_MAP_AND_RC ? 2 : 1);
	bool by_queue = has_queues && world_lab_is_connectx();
	struct shmd_pe_info info;

	ASSERT_EQ((shmd_world_dev(world)->flags & SHMD_WORLD_ATOMICS_BY_QUEUE) != 0, by_queue);
	for (int pe = 0; pe < n; pe++) {
		ASSERT_OK(shmd_pe_info(world, pe, &info));
		ASSERT_EQ(info.path, wanted_path(transport, me, pe));
		if (info.path != SHMD_PATH_QUEUE && !by_queue)
			continue;
		ASSERT(strstr(info.nic, world_lab_is_connectx() ? "mlx5_" : "soft"));
		ASSERT_NE(ways[pe].qp_addr, 0u);
		ASSERT_EQ(ways[pe].peer_addr != 0, is_dc(transport));
	}
}

/* ---- the program in a world */

struct meeting {
	struct shmd_team *team;
	pthread_barrier_t threads; /* of this PE */
};

static void meet(struct pe_home *home, int is_barrier)
{
	struct meeting *meeting = home->arg;

	pthread_barrier_wait(&meeting->threads);
	if (!home->thread) {
		/* A barrier completes the operations of the default context. */
		if (is_barrier)
			PE_CALL(home, quiet);
		world_lab_must(is_barrier ? shmd_team_barrier(meeting->team) : shmd_team_sync(meeting->team), "meet");
	}
	pthread_barrier_wait(&meeting->threads);
}

struct lane {
	struct pe_home home;
	pthread_t thread;
};

static void *lane_main(void *arg)
{
	struct lane *lane = arg;

	pe_program_run(&lane->home);
	return NULL;
}

static void run_lanes(const struct pe_home *home, uint32_t n_threads)
{
	struct lane lanes[PE_PROGRAM_THREADS];

	for (uint32_t t = 0; t < n_threads; t++) {
		lanes[t].home = *home;
		lanes[t].home.thread = t;
		ASSERT_OK(pthread_create(&lanes[t].thread, NULL, lane_main, &lanes[t]));
	}
	for (uint32_t t = 0; t < n_threads; t++)
		pthread_join(lanes[t].thread, NULL);
}

/* Memory of the PE itself is where it is, that of a mapped one somewhere else, and that behind a queue nowhere. */
static void check_ptr(struct shmd_world *world, struct shmd_team *team, struct shmd_ctx *ctx, void *memory)
{
	struct shmd_pe_info info;

	for (int i = 0; i < shmd_team_n_pes(team); i++) {
		int pe = shmd_team_translate(team, i, NULL);
		void *there = shmd_team_ptr(team, memory, i);

		ASSERT_OK(shmd_pe_info(world, pe, &info));
		ASSERT_EQ(there == memory, info.path == SHMD_PATH_SELF);
		ASSERT_EQ(there == NULL, info.path == SHMD_PATH_QUEUE);
		ASSERT_EQ(shmd_ptr(world, memory, pe), there);
		ASSERT_EQ(shmd_dev_ptr(shmd_ctx_dev(ctx), memory, (uint32_t)i), there);
	}
}

/* On a team, whose PEs are those of the context. */
static void run_program(struct shmd_world *world, struct shmd_team *team, struct shmd_ctx *ctx, const struct pe_calls *calls,
			uint32_t n_threads)
{
	struct meeting meeting = {.team = team};
	struct pe_home home = {
		.calls = calls,
		.ctx = calls == &pe_calls_dev ? (void *)shmd_ctx_dev(ctx) : (void *)ctx,
		.slot_bytes = PE_PROGRAM_LARGE_SLOT_BYTES,
		.pe = (uint32_t)shmd_team_my_pe(team),
		.n_pes = (uint32_t)shmd_team_n_pes(team),
		.n_threads = n_threads,
		.meet = meet,
		.arg = &meeting,
	};
	uint64_t bytes = pe_program_bytes((uint32_t)shmd_n_pes(world) * n_threads, n_threads, home.slot_bytes);

	world_lab_must(shmd_align(world, 64, bytes, 0, &home.room), "align");
	memset(home.room, 0, bytes);
	check_ptr(world, team, ctx, home.room);
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_OK(pthread_barrier_init(&meeting.threads, NULL, n_threads));
	run_lanes(&home, n_threads);
	ASSERT_OK(pthread_barrier_destroy(&meeting.threads));
	world_lab_must(shmd_free(world, home.room), "free");
}

/* Two teams at once, of PEs with even and with odd numbers, the last one first: each with a context of one thread. */
static void run_on_teams(struct shmd_world *world, int pe)
{
	const struct shmd_ctx_attr attr = {.flags = pe % 3 ? SHMD_CTX_PRIVATE : SHMD_CTX_SERIALIZED};
	struct shmd_team *team;
	struct shmd_ctx *ctx;

	world_lab_must(shmd_team_split_color(shmd_team_world(world), pe % 2, -pe, &team), "split");
	world_lab_must(shmd_ctx_create(team, &attr, &ctx), "context");
	run_program(world, team, ctx, &pe_calls_host, 1);
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	world_lab_must(shmd_team_destroy(team), "destroy");
}

static int makes_all(const struct world_lab *lab, int pe, void *arg)
{
	const struct run *run = arg;
	struct shmd_world *world = open_world(lab, pe, run->transport);

	check_paths(world, pe, lab->n, run->transport);
	run_program(world, shmd_team_world(world), shmd_world_ctx(world), &pe_calls_host, run->n_threads);
	run_program(world, shmd_team_world(world), shmd_world_ctx(world), &pe_calls_dev, run->n_threads);
	if (run->n_threads == 1)
		run_on_teams(world, pe);
	world_lab_close(world);
	return 0;
}

/* A simulated NIC takes long to make many queues; the longer form has all sizes on each path there too. */
static int most_pes(enum transport transport)
{
	if (!world_lab_is_connectx() || test_is_full())
		return LAB_MAX_PES;
	return transport == BY_RC ? 8 : 3;
}

static void run_sizes(enum transport transport, const int *sizes)
{
	struct run run = {.transport = transport, .n_threads = 1};
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (unsigned int i = 0; sizes[i]; i++) {
		if (sizes[i] <= most_pes(transport))
			world_lab_run(&daemon, sizes[i], makes_all, &run);
	}
	fixture_daemon_stop(&daemon);
}

static const int all_sizes[] = {1, 2, 3, 8, 16, 0}, mixed_sizes[] = {2, 3, 5, 8, 0};

TEST_TIMEOUT(every_operation_works_on_mapped_memory, 300)
{
	run_sizes(BY_MAP, all_sizes);
}

TEST_TIMEOUT(every_operation_works_by_rc, 300)
{
	run_sizes(BY_RC, all_sizes);
}

TEST_TIMEOUT(every_operation_works_by_dc, 300)
{
	run_sizes(BY_DC, all_sizes);
}

TEST_TIMEOUT(every_operation_works_where_some_pes_are_mapped_and_others_by_rc, 300)
{
	run_sizes(BY_MAP_AND_RC, mixed_sizes);
}

TEST_TIMEOUT(every_operation_works_where_some_pes_are_mapped_and_others_by_dc, 300)
{
	run_sizes(BY_MAP_AND_DC, mixed_sizes);
}

TEST_TIMEOUT(every_operation_works_in_eight_threads_of_each_pe, 600)
{
	/* Mapped memory alone knows no NIC. */
	enum transport transport = world_lab_is_connectx() ? BY_RC : BY_MAP;
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (; transport < N_TRANSPORTS; transport++) {
		struct run run = {.transport = transport, .n_threads = 8};

		world_lab_run(&daemon, 3, makes_all, &run);
	}
	fixture_daemon_stop(&daemon);
}

/* ---- several worlds */

static void make_uids(struct shmd_uid *uids, int n)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};

	for (int i = 0; i < n; i++)
		world_lab_must(bootstrap_uid_make(&how, &uids[i]), "uid");
}

/* One of several worlds of a process; each has a thread of its own, and a path of its own. */
struct one_world {
	struct shmd_world *world;
	pthread_t thread;
};

static void *world_main(void *arg)
{
	struct one_world *one = arg;

	for (int i = 0; i < 2; i++)
		run_program(one->world, shmd_team_world(one->world), shmd_world_ctx(one->world), i ? &pe_calls_dev : &pe_calls_host, 1);
	return NULL;
}

/* In the world of a transport each process has another number than in that of the next. */
static int works_in_all_at_once(const struct world_lab *lab, int pe, void *arg)
{
	const struct run *run = arg;
	struct one_world worlds[N_TRANSPORTS];

	for (enum transport i = BY_MAP; i < N_TRANSPORTS; i++) {
		struct world_lab mine = *lab;
		int me = (pe + (int)i) % lab->n;

		mine.uid = run->uids[i];
		worlds[i].world = open_world(&mine, me, i);
		check_paths(worlds[i].world, me, lab->n, i);
	}
	for (enum transport i = BY_MAP; i < N_TRANSPORTS; i++)
		ASSERT_OK(pthread_create(&worlds[i].thread, NULL, world_main, &worlds[i]));
	for (enum transport i = BY_MAP; i < N_TRANSPORTS; i++)
		pthread_join(worlds[i].thread, NULL);
	for (enum transport i = BY_MAP; i < N_TRANSPORTS; i++)
		world_lab_close(worlds[i].world);
	return 0;
}

TEST_TIMEOUT(worlds_of_each_path_work_at_once_in_one_process, 300)
{
	struct shmd_uid uids[N_TRANSPORTS];
	struct run run = {.uids = uids};
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	make_uids(uids, N_TRANSPORTS);
	world_lab_run(&daemon, 3, works_in_all_at_once, &run);
	fixture_daemon_stop(&daemon);
}

/* Counts those of all sessions. */
static void expect_no_queues(const struct world_lab *lab)
{
	struct shmd_client *control = lab_control(lab->daemon);

	ASSERT_EQ(shmd_admin_qps(control, NULL, NULL), 0);
	ASSERT_EQ(shmd_admin_mrs(control, NULL, NULL), 0);
	shmd_client_close(control);
}

static void live_once(const struct world_lab *lab, int pe, enum transport transport)
{
	struct shmd_world *world = open_world(lab, pe, transport);
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 5};
	uint64_t *words;

	world_lab_must(shmd_calloc(world, 2, 8, 0, (void **)&words), "calloc");
	world_lab_must(shmd_p(ctx, &words[0], (uint64_t)pe + 1, 8, (pe + 1) % lab->n), "p");
	world_lab_must(shmd_atomic(ctx, &words[1], &add, 0), "atomic");
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(words[0], (uint64_t)((pe + lab->n - 1) % lab->n) + 1);
	ASSERT_EQ(words[1], pe ? 0u : 5u * (unsigned int)lab->n);
	world_lab_close(world);
}

/* The session goes on all the time, since one world does. */
static int lives_often(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *first = open_world(lab, pe, BY_MAP);
	const struct shmd_uid *uids = arg;

	for (int i = 0; i < N_WORLDS; i++) {
		struct world_lab mine = *lab;

		mine.uid = uids[i];
		live_once(&mine, pe, (enum transport)(i % N_TRANSPORTS));
	}
	world_lab_must(shmd_barrier_all(first), "barrier");
	expect_no_queues(lab);
	world_lab_close(first);
	return 0;
}

TEST_TIMEOUT(a_hundred_worlds_of_each_path_follow_one_another_and_leave_no_queue_or_key, 300)
{
	struct shmd_uid uids[N_WORLDS];
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	make_uids(uids, N_WORLDS);
	world_lab_run(&daemon, 3, lives_often, uids);
	fixture_daemon_stop(&daemon);
}
