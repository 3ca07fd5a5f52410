/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives among processes, by host calls and by device functions: random programs on overlapping teams, compared with a model, over
 * mapped memory, queues with RC and with DC, and some PEs mapped and some not. A PE that dies within one ends it for the others, and one
 * that does not come is named.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/dev/coll-program.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-lab.h"

#define ROOM_BYTES (512u << 10)

enum transport { BY_MAP, BY_RC, BY_DC, BY_BOTH, N_TRANSPORTS };

struct run {
	enum transport transport;
	uint32_t n_steps;
	bool by_device;
};

static int call_host(void *ctx, void *team, enum coll_call call, const struct shmd_dev_coll *args)
{
	const struct shmd_stride stride = {.n = args->stride.n,
					   .block_bytes = args->stride.block_bytes,
					   .dest_stride_bytes = args->stride.dest_stride_bytes,
					   .source_stride_bytes = args->stride.source_stride_bytes};
	enum shmd_type type = (enum shmd_type)args->type;
	enum shmd_reduce_op op = (enum shmd_reduce_op)args->op;

	(void)ctx;
	switch (call) {
	case COLL_BROADCAST:
		return shmd_broadcast(team, args->dest, args->source, args->n, (int)args->root);
	case COLL_FCOLLECT:
		return shmd_fcollect(team, args->dest, args->source, args->n);
	case COLL_COLLECT:
		return shmd_collect(team, args->dest, args->source, args->n);
	case COLL_ALLTOALL:
		return shmd_alltoall(team, args->dest, args->source, args->n);
	case COLL_ALLTOALLS:
		return shmd_alltoalls(team, args->dest, args->source, &stride);
	case COLL_REDUCE:
		return shmd_reduce(team, args->dest, args->source, args->n, type, op);
	case COLL_REDUCE_SCATTER:
		return shmd_reduce_scatter(team, args->dest, args->source, args->n, type, op);
	case COLL_SCAN_INCLUSIVE:
		return shmd_scan_inclusive(team, args->dest, args->source, args->n, type, op);
	case COLL_SCAN_EXCLUSIVE:
		return shmd_scan_exclusive(team, args->dest, args->source, args->n, type, op);
	default:
		return shmd_team_sync(team);
	}
}

/* The world, the first two PEs, the odd ones, all in the opposite order, and those behind the first. */
static void make_teams(struct shmd_world *world, struct coll_team *teams, struct shmd_team **handles)
{
	struct shmd_team *all = shmd_team_world(world);
	int me = shmd_my_pe(world), n = shmd_n_pes(world);

	handles[0] = all;
	world_lab_must(shmd_team_split_strided(all, 0, 1, n < 2 ? n : 2, &handles[1]), "split");
	world_lab_must(shmd_team_split_strided(all, n > 1, 2, n > 1 ? n / 2 : 1, &handles[2]), "split");
	world_lab_must(shmd_team_split_color(all, 0, -me, &handles[3]), "split");
	world_lab_must(shmd_team_split_strided(all, n > 1, 1, n > 1 ? n - 1 : 1, &handles[4]), "split");
	for (int i = 0; i < n; i++) {
		teams[0].members[teams[0].n++] = (uint32_t)i;
		if (i < 2)
			teams[1].members[teams[1].n++] = (uint32_t)i;
		if (i % 2 || n == 1)
			teams[2].members[teams[2].n++] = (uint32_t)i;
		teams[3].members[teams[3].n++] = (uint32_t)(n - 1 - i);
		if (i || n == 1)
			teams[4].members[teams[4].n++] = (uint32_t)i;
	}
}

static void run_program(struct shmd_world *world, const struct run *run)
{
	struct coll_team teams[5] = {0};
	struct shmd_team *handles[5];
	struct coll_home home = {
		.call = run->by_device ? coll_call_dev : call_host,
		.ctx = shmd_ctx_dev(shmd_world_ctx(world)),
		.teams = teams,
		.n_teams = 5,
		.pe = (uint32_t)shmd_my_pe(world),
		.room_bytes = ROOM_BYTES,
		.seed = 11 + run->by_device,
		.n_steps = run->n_steps,
	};
	void *room;

	make_teams(world, teams, handles);
	for (int i = 0; i < 5; i++)
		teams[i].team = run->by_device ? (void *)shmd_team_dev(handles[i]) : (void *)handles[i];
	world_lab_must(shmd_align(world, 64, ROOM_BYTES, 0, &room), "align");
	home.room = room;
	coll_program_run(&home);
	world_lab_must(shmd_barrier_all(world), "barrier");
	for (int i = 1; i < 5; i++)
		world_lab_must(shmd_team_destroy(handles[i]), "destroy");
	world_lab_must(shmd_free(world, room), "free");
}

static struct shmd_world *open_world(const struct world_lab *lab, int pe, enum transport transport)
{
	struct world_lab mine = *lab;
	bool may_map = transport == BY_MAP || (transport == BY_BOTH && pe < 2);

	mine.attr.paths = (may_map ? SHMD_ALLOW_MAPPED : 0) | (transport != BY_MAP ? SHMD_ALLOW_QUEUE : 0);
	setenv("SHMD_RC_PEERS", transport == BY_DC ? "0" : "16", 1);
	return world_lab_open_started(&mine, pe);
}

static int makes_collectives(const struct world_lab *lab, int pe, void *arg)
{
	struct run run = *(const struct run *)arg;
	struct shmd_world *world = open_world(lab, pe, run.transport);

	run_program(world, &run);
	run.by_device = true;
	run_program(world, &run);
	world_lab_close(world);
	return 0;
}

static void run_sizes(enum transport transport, const int *sizes, uint32_t n_steps)
{
	struct run run = {.transport = transport, .n_steps = n_steps};
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (unsigned int i = 0; sizes[i]; i++)
		world_lab_run(&daemon, sizes[i], makes_collectives, &run);
	fixture_daemon_stop(&daemon);
}

static const int few[] = {2, 3, 6, 0};

TEST_TIMEOUT(collectives_work_on_mapped_memory, 600)
{
	static const int sizes[] = {1, 2, 3, 8, 18, 0};

	run_sizes(BY_MAP, sizes, 150);
}

TEST_TIMEOUT(collectives_work_by_rc, 600)
{
	run_sizes(BY_RC, few, 60);
}

TEST_TIMEOUT(collectives_work_by_dc, 600)
{
	run_sizes(BY_DC, few, 60);
}

TEST_TIMEOUT(collectives_work_where_some_pes_are_mapped, 600)
{
	run_sizes(BY_BOTH, few, 60);
}

/* ---- a PE that dies */

static int dies_or_hears_of_it(const struct world_lab *lab, int pe, void *arg)
{
	const struct run *run = arg;
	struct shmd_world *world = open_world(lab, pe, run->transport);
	uint64_t *words;
	int r = 0;

	world_lab_must(shmd_malloc(world, 4096, 0, (void **)&words), "malloc");
	memset(words, 0, 4096);
	for (int i = 0; !r && i < 1000000; i++) {
		if (pe == 1 && i == 20)
			raise(SIGKILL);
		r = shmd_reduce(shmd_team_world(world), words, words + 8, i % 2 ? 1 : 100, SHMD_TYPE_UINT64, SHMD_REDUCE_SUM);
	}
	ASSERT(r == -EHOSTDOWN || r == -EIO);
	/* The team has no collectives any more, the others have. */
	world_lab_must(shmd_world_forgive(world), "forgive");
	ASSERT_LT(shmd_reduce(shmd_team_world(world), words, words + 8, 1, SHMD_TYPE_UINT64, SHMD_REDUCE_SUM), 0);
	(void)shmd_world_close(world);
	return 0;
}

TEST_TIMEOUT(a_pe_that_dies_ends_collectives_of_the_others, 300)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (enum transport transport = BY_MAP; transport < N_TRANSPORTS; transport++) {
		struct run run = {.transport = transport};
		struct world_lab lab = {.daemon = &daemon, .n = 3};

		world_lab_start(&lab, dies_or_hears_of_it, &run);
		for (int pe = 0; pe < 3; pe++)
			ASSERT_EQ(world_lab_wait(&lab, pe), pe == 1 ? 128 + SIGKILL : 0);
	}
	fixture_daemon_stop(&daemon);
}

/* ---- a PE that stays away */

struct absence {
	enum transport transport;
	int *n_refused; /* shared: calls that failed */
};

static void await(const int *word, int value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
		usleep(1000);
}

/* The sentence names PE 0, with its process and node; behind queues in rounds only PE 1, who maps PE 0, knows it for sure. */
static void assert_names_the_first(const struct shmd_world *world, const char *call, const char *behind, bool is_sure)
{
	struct shmd_pe_info info;
	char text[512];

	ASSERT_OK(shmd_pe_info(world, 0, &info));
	snprintf(text, sizeof(text), "%s: PE 0 (pid %d on %s)%s did not come within the time limit (SHMD_TIMEOUT)", call, info.pid, info.host,
		 behind);
	if (is_sure)
		ASSERT_STREQ(shmd_error_text(), text);
	else
		ASSERT(strstr(shmd_error_text(), " did not come within the time limit (SHMD_TIMEOUT)"));
}

/* The first call gives up; when all others have, too, the next one says who did not come to that one, and has another root. */
static void give_up(struct shmd_world *world, const struct absence *absence, struct shmd_team *team, uint64_t *words, bool has_root)
{
	int n = shmd_n_pes(world), enough = (has_root ? 2 : 1) * (n - 1);

	for (int i = 0; i < 2; i++) {
		if (has_root)
			ASSERT_ERR(shmd_broadcast(team, words, words, 8, i ? 1 : 0), ETIMEDOUT);
		else
			ASSERT_ERR(shmd_fcollect(team, words + 64, words, 8), ETIMEDOUT);
		if (i == 0)
			__atomic_fetch_add(absence->n_refused, 1, __ATOMIC_RELEASE);
		await(absence->n_refused, enough);
	}
}

static int misses_the_first(const struct world_lab *lab, int pe, void *arg)
{
	const struct absence *absence = arg;
	struct shmd_world *world = open_world(lab, pe, absence->transport);
	struct shmd_team *teams[2];
	uint64_t *words;
	bool is_rounds = absence->transport == BY_BOTH, is_sure = !is_rounds || pe == 1;

	world_lab_must(shmd_calloc(world, 128, 8, 0, (void **)&words), "calloc");
	for (int i = 0; i < 2; i++)
		world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, lab->n, &teams[i]), "split");
	if (pe == 0) {
		await(absence->n_refused, 2 * (lab->n - 1));
	} else {
		shmd_ctx_dev(shmd_world_ctx(world))->timeout_nsec = NSEC_PER_SEC / 10;
		give_up(world, absence, teams[0], words, false);
		assert_names_the_first(world, "fcollect, after the fcollect that failed", "", is_sure);
		give_up(world, absence, teams[1], words, true);
		assert_names_the_first(world, "broadcast, after the broadcast that failed", is_rounds ? "" : ", or a PE that it waits for,", is_sure);
		shmd_ctx_dev(shmd_world_ctx(world))->timeout_nsec = test_patience_nsec();
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(collectives_name_the_pe_that_does_not_come, 120)
{
	const enum transport transports[] = {BY_MAP, BY_RC, BY_BOTH};
	int *n_refused = mmap(NULL, sizeof(*n_refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture_daemon daemon;

	ASSERT(n_refused != MAP_FAILED);
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (int i = 0; i < 3; i++) {
		struct absence absence = {.transport = transports[i], .n_refused = n_refused};

		*n_refused = 0;
		world_lab_run(&daemon, transports[i] == BY_BOTH ? 6 : 3, misses_the_first, &absence);
	}
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(n_refused, sizeof(*n_refused)));
}

/* ---- the end of a team */

#define LARGE (32u << 20)

static void assert_zero_scratch(struct shmd_world *world, uint64_t offset)
{
	const struct shmd_dev_world *dev = shmd_world_dev(world);
	const uint64_t *words = (const uint64_t *)(uintptr_t)(dev->heap[SHMD_DEV_HEAP_HOST].own_addr + offset);

	for (uint32_t i = 0; i < SHMD_DEV_TEAM_SCRATCH_BYTES / 8; i++)
		ASSERT_EQ(__atomic_load_n(&words[i], __ATOMIC_ACQUIRE), 0);
}

/* The numbers of a broadcast that fails at once stand in the queue behind much data. */
static void leave_numbers_under_way(struct shmd_ctx *ctx, struct shmd_team *team, uint8_t *room)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(shmd_ctx_dev(ctx), SHMD_DEV_THREAD);
	struct shmd_dev_coll args = shmd_dev_coll_of(room, room, 8);

	mode.timeout_nsec = 0;
	world_lab_must(shmd_put_nbi(ctx, room, room, LARGE, 1), "put");
	ASSERT_EQ(shmd_dev_broadcast_as(shmd_ctx_dev(ctx), shmd_team_dev(team), &args, mode), SHMD_DEV_TIMEOUT);
}

static int destroys_a_team_with_numbers_under_way(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_world(lab, pe, ((const struct run *)arg)->transport);
	struct shmd_ctx *ctx = NULL;
	struct shmd_team *team;
	uint64_t scratch;
	uint8_t *room;

	world_lab_must(shmd_malloc(world, LARGE, 0, (void **)&room), "malloc");
	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &ctx), "ctx");
	world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, 2, &team), "split");
	scratch = shmd_team_dev(team)->scratch_offset;
	if (pe == 0)
		leave_numbers_under_way(ctx, team, room);
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_must(shmd_quiet(ctx), "quiet");
	world_lab_must(shmd_barrier_all(world), "barrier");
	assert_zero_scratch(world, scratch);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(numbers_of_a_team_that_has_ended_do_not_meet_the_next_one, 300)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (enum transport transport = BY_RC; transport <= BY_DC; transport++) {
		struct run run = {.transport = transport};

		world_lab_run(&daemon, 2, destroys_a_team_with_numbers_under_way, &run);
	}
	fixture_daemon_stop(&daemon);
}
