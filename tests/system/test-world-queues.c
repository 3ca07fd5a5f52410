/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds whose PEs reach each other by queues of soft NICs: RC, DC, some mapped and some not. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>
#include <shmemclient-admin.h>

#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

/* Which PEs of a lab may use mapped memory. */
struct wish {
	uint32_t (*paths)(int pe);
	const char *rc_peers; /* SHMD_RC_PEERS */
};

static uint32_t queues_only(int pe)
{
	(void)pe;
	return SHMD_ALLOW_QUEUE;
}

/* The first two PEs map each other. */
static uint32_t some_mapped(int pe)
{
	return pe < 2 ? SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE : SHMD_ALLOW_QUEUE;
}

static struct shmd_world *open_with(const struct world_lab *lab, int pe, const struct wish *wish)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", wish->rc_peers, 1);
	mine.attr.paths = wish->paths(pe);
	return world_lab_open_started(&mine, pe);
}

static void check_paths(const struct world_lab *lab, const struct shmd_world *world, const struct wish *wish, int pe)
{
	struct shmd_pe_info info;

	for (int i = 0; i < lab->n; i++) {
		bool is_mapped = wish->paths(pe) & wish->paths(i) & SHMD_ALLOW_MAPPED;

		ASSERT_OK(shmd_pe_info(world, i, &info));
		ASSERT_EQ(info.path, i == pe ? SHMD_PATH_SELF : is_mapped ? SHMD_PATH_MAPPED : SHMD_PATH_QUEUE);
		if (info.path == SHMD_PATH_QUEUE) {
			ASSERT_STREQ(info.reason, "a setting forbids mapped memory");
			ASSERT(strstr(info.nic, world_lab_is_connectx() ? "mlx5_" : "soft"));
		}
	}
}

/* As in OpenSHMEM, nothing has no place. */
static void move_nothing(struct shmd_world *world, uint64_t *word, int pe)
{
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	const struct shmd_stride none = {.block_bytes = 8};

	world_lab_must(shmd_put(ctx, NULL, NULL, 0, pe), "put");
	world_lab_must(shmd_put_nbi(ctx, NULL, NULL, 0, pe), "put_nbi");
	world_lab_must(shmd_get(ctx, NULL, NULL, 0, pe), "get");
	world_lab_must(shmd_put_strided(ctx, NULL, NULL, &none, pe), "put of blocks");
	world_lab_must(shmd_get_strided(ctx, NULL, NULL, &none, pe), "get of blocks");
	world_lab_must(shmd_put_batch_nbi(ctx, &(struct shmd_put_item){.pe = pe}, 1), "batch");
	world_lab_must(shmd_put_signal(ctx, NULL, NULL, 0, word, 0, SHMD_SIGNAL_ADD, pe), "put with signal");
	ASSERT_ERR(shmd_put(ctx, NULL, NULL, 0, shmd_n_pes(world)), EINVAL);
	ASSERT_ERR(shmd_put_strided(ctx, word, word, &(struct shmd_stride){.n = 3, .block_bytes = 8, .dest_stride_bytes = SIZE_MAX}, pe),
		   EINVAL);
}

/* Puts to all, atomics on PE 0, gets from all; data in the heap and outside of it. */
static void talk(const struct world_lab *lab, struct shmd_world *world, int pe)
{
	struct shmd_dev_ctx *ctx = shmd_ctx_dev(shmd_world_ctx(world));
	uint64_t *table, local = (uint64_t)pe + 1, got = 0;
	struct shmd_dev_amo add = shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, (uint64_t)pe + 1);

	world_lab_must(shmd_calloc(world, (size_t)lab->n + 1, 8, 0, (void **)&table), "calloc");
	for (int i = 0; i < lab->n; i++) {
		ASSERT_EQ(shmd_dev_put(ctx, &table[pe], &local, 8, (uint32_t)i), SHMD_DEV_OK);
		move_nothing(world, &table[lab->n], i);
	}
	ASSERT_EQ(shmd_dev_atomic(ctx, &table[lab->n], add, 0), SHMD_DEV_OK);
	world_lab_must(shmd_barrier_all(world), "barrier");
	for (int i = 0; i < lab->n; i++) {
		ASSERT_EQ(table[i], (uint64_t)i + 1);
		ASSERT_EQ(shmd_dev_g(ctx, &table[i], 8, (uint32_t)(lab->n - 1 - i), &got), SHMD_DEV_OK);
		ASSERT_EQ(got, (uint64_t)i + 1);
	}
	ASSERT_EQ(shmd_dev_g(ctx, &table[lab->n], 8, 0, &got), SHMD_DEV_OK);
	ASSERT_EQ(got, (uint64_t)lab->n * ((uint64_t)lab->n + 1) / 2);
}

/* A new chunk has keys of its own on all PEs. */
static void grow(struct shmd_world *world, int pe, int n)
{
	struct shmd_dev_ctx *ctx = shmd_ctx_dev(shmd_world_ctx(world));
	const size_t bytes = 12u << 20;
	uint8_t *large;
	int right = (pe + 1) % n;

	world_lab_must(shmd_calloc(world, 1, bytes, 0, (void **)&large), "a large block");
	memset(large, pe + 1, bytes / 2);
	ASSERT_EQ(shmd_dev_put(ctx, large + bytes / 2, large, bytes / 2, (uint32_t)right), SHMD_DEV_OK);
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(large[bytes / 2], (pe + n - 1) % n + 1);
	ASSERT_EQ(large[bytes - 1], (pe + n - 1) % n + 1);
	world_lab_must(shmd_free(world, large), "free");
}

static int uses_queues(const struct world_lab *lab, int pe, void *arg)
{
	const struct wish *wish = arg;
	struct shmd_world *world = open_with(lab, pe, wish);
	struct shmd_team *team;

	check_paths(lab, world, wish, pe);
	talk(lab, world, pe);
	grow(world, pe, lab->n);
	world_lab_must(shmd_team_split_strided(shmd_team_world(world), lab->n - 1, -1, lab->n, &team), "split");
	for (int i = 0; i < 20; i++)
		world_lab_must(shmd_team_sync(team), "sync");
	world_lab_must(shmd_team_destroy(team), "destroy");
	world_lab_close(world);
	return 0;
}

static void run(const struct wish *wish, const int *sizes, unsigned int n)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (unsigned int i = 0; i < n; i++)
		world_lab_run(&daemon, sizes[i], uses_queues, (void *)(uintptr_t)wish);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(pes_reach_each_other_by_rc, 240)
{
	static const struct wish wish = {queues_only, "16"};
	static const int sizes[] = {1, 2, 3, 8};

	run(&wish, sizes, 4);
}

TEST_TIMEOUT(pes_reach_each_other_by_dc, 240)
{
	static const struct wish wish = {queues_only, "0"};
	static const int sizes[] = {2, 3, 8};

	run(&wish, sizes, 3);
}

TEST_TIMEOUT(mapped_pes_and_others_live_in_one_world, 240)
{
	static const struct wish rc = {some_mapped, "16"}, dc = {some_mapped, "1"};
	static const int sizes[] = {3, 5};

	run(&rc, sizes, 2);
	run(&dc, sizes, 2);
}

static int meets_nobody(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_world *world;

	(void)arg;
	mine.attr.paths = pe == 1 ? SHMD_ALLOW_QUEUE : SHMD_ALLOW_MAPPED;
	world = world_lab_open(&mine, pe);
	ASSERT_ERR(shmd_world_start(world), EHOSTUNREACH);
	ASSERT(strstr(shmd_error_text(), "no path leads to"));
	world_lab_close(world);
	return 0;
}

/* ---- as shmemctl lists them ------------------------------------------------------------------------------------------- */

struct listed {
	unsigned int n;
	struct shmd_pe_item items[8]; /* by number */
};

static int take_item(void *arg, const struct shmd_pe_item *item)
{
	struct listed *listed = arg;

	ASSERT_LT(item->pe, 8);
	listed->items[item->pe] = *item;
	listed->n++;
	return 0;
}

/* By PE and its peer. */
static int take_path(void *arg, const struct shmd_path_item *item)
{
	struct shmd_path_item (*paths)[8] = arg;

	for (uint32_t i = item->first; i <= item->last; i++)
		paths[item->pe][i] = *item;
	return 0;
}

static void list_paths(const struct world_lab *lab, struct shmd_path_item paths[8][8])
{
	struct shmd_client_attr attr = {.socket_path = lab->daemon->socket, .role = SHMD_ROLE_CONTROL};
	struct shmd_client *control;

	memset(paths, 0, 64 * sizeof(paths[0][0]));
	world_lab_must(shmd_client_open(&attr, &control), "control");
	world_lab_must(shmd_admin_paths(control, take_path, paths), "list");
	shmd_client_close(control);
}

static void check_path(const struct shmd_path_item *item, bool is_mapped, bool is_rc)
{
	ASSERT_EQ(item->path, is_mapped ? SHMD_PE_PATH_MAPPED : is_rc ? SHMD_PE_PATH_RC : SHMD_PE_PATH_DC);
	ASSERT(is_mapped || item->nic[0]);
	/* Atomics on mapped memory go by a NIC that has its own. */
	ASSERT(!is_mapped || !item->nic[0] || world_lab_is_connectx());
	ASSERT_STREQ(item->reason, is_mapped ? "same node" : "a setting forbids mapped memory");
}

static void list_pes(const struct world_lab *lab, struct listed *ret)
{
	struct shmd_client_attr attr = {.socket_path = lab->daemon->socket, .role = SHMD_ROLE_CONTROL};
	struct shmd_client *control;

	memset(ret, 0, sizeof(*ret));
	world_lab_must(shmd_client_open(&attr, &control), "control");
	world_lab_must(shmd_admin_pes(control, take_item, ret), "list");
	shmd_client_close(control);
}

static void check_list(const struct world_lab *lab, const struct shmd_world *world, const struct wish *wish)
{
	struct shmd_world_info info;
	static struct shmd_path_item paths[8][8];
	struct shmd_pe_info pe;
	struct listed listed;

	world_lab_must(shmd_world_info(world, &info), "info");
	list_paths(lab, paths);
	list_pes(lab, &listed);
	ASSERT_EQ(listed.n, (unsigned int)lab->n);
	for (int i = 0; i < lab->n; i++) {
		const struct shmd_pe_item *item = &listed.items[i];
		uint32_t n_mapped = 0, n_queue;

		for (int peer = 0; peer < lab->n; peer++) {
			bool is_mapped = wish->paths(i) & wish->paths(peer) & SHMD_ALLOW_MAPPED;

			n_mapped += peer != i && is_mapped;
			if (peer != i)
				check_path(&paths[i][peer], is_mapped, strcmp(wish->rc_peers, "0") != 0);
		}
		n_queue = (uint32_t)lab->n - 1 - n_mapped;
		ASSERT_EQ(item->world, listed.items[0].world);
		ASSERT_EQ(item->n_pes, (uint32_t)lab->n);
		ASSERT_EQ(item->node_pe, (uint32_t)i);
		world_lab_must(shmd_pe_info(world, i, &pe), "PE");
		ASSERT_EQ(item->pid, (uint32_t)pe.pid);
		ASSERT_EQ(item->n_mapped, n_mapped);
		ASSERT_EQ(item->n_rc, strcmp(wish->rc_peers, "0") ? n_queue : 0);
		ASSERT_EQ(item->n_dc, strcmp(wish->rc_peers, "0") ? 0 : n_queue);
		ASSERT_EQ(item->heap_bytes, info.heap_bytes);
		ASSERT_STREQ(item->reason, n_queue ? "a setting forbids mapped memory" : "");
		ASSERT_EQ(item->nics[0] != 0, n_queue > 0);
	}
}

/* At the start, and with a heap that has grown. */
static int is_listed(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	void *much;

	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0)
		check_list(lab, world, arg);
	world_lab_must(shmd_malloc(world, 256u << 20, 0, &much), "malloc");
	world_lab_must(shmd_barrier_all(world), "barrier");
	if (pe == 0)
		check_list(lab, world, arg);
	world_lab_must(shmd_barrier_all(world), "barrier");
	world_lab_close(world);
	return 0;
}

static void expect_listed(const struct wish *wish, int n)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.n = n, .daemon = &daemon};
	struct listed listed;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, n, is_listed, (void *)(uintptr_t)wish);
	list_pes(&lab, &listed);
	ASSERT_EQ(listed.n, 0);
	fixture_daemon_stop(&daemon);
}

static uint32_t all_paths(int pe)
{
	(void)pe;
	return SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE;
}

#define N_RUNS 60u

static int count_run(void *arg, const struct shmd_path_item *item)
{
	struct shmd_path_item **next = arg;

	*(*next)++ = *item;
	return 0;
}

/* Runs of one PE, each by another NIC if `by_nic`. Returns how many the daemon lists. */
static unsigned int report_many(struct shmd_client *client, unsigned int n, bool by_nic, struct shmd_path_item *items)
{
	char nics[N_RUNS][16];
	struct shmd_pe_run runs[N_RUNS];
	const struct shmd_pe_report report = {.world = 7, .pe = 1, .n_pes = N_RUNS, .runs = runs, .n_runs = n};
	struct shmd_path_item *next = items;

	for (unsigned int i = 0; i < n; i++) {
		snprintf(nics[i], sizeof(nics[i]), "nic%u", by_nic ? i : i % 2);
		runs[i] = (struct shmd_pe_run){.first = i, .last = i, .path = SHMD_PE_PATH_RC, .nic = nics[i]};
	}
	ASSERT_OK(shmd_pe_report(client, &report));
	ASSERT_OK(shmd_admin_paths(client, count_run, &next));
	for (unsigned int i = 0; i < (unsigned int)(next - items); i++)
		ASSERT_EQ(items[i].first, i);
	ASSERT_EQ(next[-1].last, n - 1);
	return (unsigned int)(next - items);
}

TEST_TIMEOUT(paths_for_which_a_report_has_no_room_are_listed_as_several, 120)
{
	struct shmd_path_item items[N_RUNS];
	struct shmd_client_attr attr = {0};
	struct fixture_daemon daemon;
	struct shmd_client *client;

	fixture_daemon_start(&daemon, NULL);
	attr.socket_path = daemon.socket;
	ASSERT_OK(shmd_client_open(&attr, &client));
	ASSERT_EQ(report_many(client, 32, false, items), 32);
	ASSERT_EQ(items[31].path, SHMD_PE_PATH_RC);
	ASSERT_EQ(report_many(client, 33, false, items), 32);
	ASSERT_EQ(items[31].path, SHMD_PE_PATH_MORE);
	ASSERT(items[31].reason[0]);
	ASSERT_EQ(report_many(client, N_RUNS, false, items), 32);
	ASSERT_EQ(report_many(client, 8, true, items), 8);
	ASSERT_EQ(items[7].path, SHMD_PE_PATH_RC);
	ASSERT_EQ(report_many(client, 9, true, items), 8);
	ASSERT_EQ(items[6].path, SHMD_PE_PATH_RC);
	ASSERT_EQ(items[7].path, SHMD_PE_PATH_MORE);
	shmd_client_close(client);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(shmemd_lists_pes_with_their_paths_and_heap_until_they_end, 240)
{
	const struct wish mapped = {all_paths, "16"}, mixed = {some_mapped, "16"}, dc = {queues_only, "0"};

	expect_listed(&mapped, 4);
	expect_listed(&mixed, 4);
	expect_listed(&dc, 3);
	expect_listed(&mapped, 1);
}

TEST_TIMEOUT(a_world_without_a_path_between_two_pes_does_not_start, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, meets_nobody, NULL);
	fixture_daemon_stop(&daemon);
}

/* The quota of MRs lets no PE have queues: all fail, with a name, and the daemon has nothing left of it. */
static int lacks_quota(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_world *world;

	(void)arg;
	mine.attr.paths = SHMD_ALLOW_QUEUE;
	world = world_lab_open(&mine, pe);
	ASSERT_ERR(shmd_world_start(world), EDQUOT);
	ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_OPEN);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_pe_that_gets_no_queues_fails_all, 120)
{
	struct fixture_daemon daemon;

	/* Two of three PEs get theirs. */
	fixture_daemon_start(&daemon, "--max-qps=5", NULL);
	world_lab_run(&daemon, 3, lacks_quota, NULL);
	fixture_daemon_stop(&daemon);
}

static int is_killed_under_traffic(const struct world_lab *lab, int pe, void *arg)
{
	static const struct wish wish = {queues_only, "16"};
	struct shmd_world *world = open_with(lab, pe, &wish);
	int r = 0;

	(void)arg;
	for (int i = 0; !r; i++) {
		if (pe == 1 && i == 50)
			raise(SIGKILL);
		r = shmd_barrier_all(world);
	}
	ASSERT_EQ(r, -EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	ASSERT_ERR(shmd_world_close(world), EHOSTDOWN);
	return 0;
}

TEST_TIMEOUT(the_end_of_a_pe_behind_a_queue_ends_the_calls_of_all, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, is_killed_under_traffic, NULL);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 1 ? 128 + SIGKILL : 0);
	fixture_daemon_stop(&daemon);
}

/* A request that the NIC of PE 1 refuses, as one to a PE that has ended is refused. */
static void break_queue_to(struct shmd_dev_ctx *ctx, int pe)
{
	const struct shmd_dev_pe_way *way = (const struct shmd_dev_pe_way *)(uintptr_t)ctx->ways_addr + pe;
	struct shmd_dev_qp *qp = (struct shmd_dev_qp *)(uintptr_t)way->qp_addr;
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, ctx->timeout_nsec);

	mode.peer = (const struct shmd_dev_peer *)(uintptr_t)way->peer_addr;
	ASSERT_EQ(shmd_dev_qp_p_as(qp, shmd_dev_addr_of(0, 0), 1, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet_as(qp, mode), SHMD_DEV_CQE_ERROR);
}

static int mends_its_queue(const struct world_lab *lab, int pe, void *arg)
{
	static const struct wish wish = {queues_only, "0"};
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	uint64_t *word;

	(void)arg;
	setenv("SHMD_DCIS", "1", 1);
	world = open_with(lab, pe, &wish);
	ctx = shmd_world_ctx(world);
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	if (pe == 0) {
		break_queue_to(shmd_ctx_dev(ctx), 1);
		ASSERT_ERR(shmd_p(ctx, word, 7, 8, 2), EIO);
		world_lab_must(shmd_world_forgive(world), "forgive");
		world_lab_must(shmd_p(ctx, word, 7, 8, 2), "p to another PE");
		world_lab_must(shmd_p(ctx, word, 7, 8, 1), "p to the same PE");
	}
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(*word, pe ? 7 : 0);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(forgiving_mends_a_queue_that_leads_to_several_pes, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, mends_its_queue, NULL);
	fixture_daemon_stop(&daemon);
}
