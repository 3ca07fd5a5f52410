/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the program that NICs read and write in place. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

#define BYTES (96u << 10) /* more than bounce memory has */

struct way {
	uint32_t paths;
	const char *rc_peers; /* SHMD_RC_PEERS */
};
static const struct way mapped = {SHMD_ALLOW_MAPPED, "16"}, by_rc = {SHMD_ALLOW_QUEUE, "16"}, by_dc = {SHMD_ALLOW_QUEUE, "1"};

static struct shmd_world *open_with(const struct world_lab *lab, int pe, const struct way *way)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", way->rc_peers, 1);
	mine.attr.paths = way->paths;
	return world_lab_open_started(&mine, pe);
}

static void run(const struct way *way, int n, world_lab_fn fn)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, n, fn, (void *)(uintptr_t)way);
	fixture_daemon_stop(&daemon);
}

static uint8_t *pages(size_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(memory != MAP_FAILED);
	return memory;
}

static void fill(uint8_t *at, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static void check_filled(const uint8_t *at, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		ASSERT_EQ(at[i], (uint8_t)(seed + i * 7 + i / 251));
}

/* Whether a child's writes stay its own. */
static void check_private(uint8_t *at, bool is_private)
{
	uint8_t was = *at;
	int status;
	pid_t child = fork();

	ASSERT_GE(child, 0);
	if (child == 0) {
		*at = (uint8_t)(was + 1);
		_exit(0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(*at, is_private ? was : (uint8_t)(was + 1));
	*at = was;
}

/* Without bounce memory only what is registered goes by a queue. */
static void take_bounce(struct shmd_world *world, bool is_taken)
{
	static uint64_t bytes;
	struct shmd_dev_ctx *ctx = shmd_ctx_dev(shmd_world_ctx(world));

	if (is_taken)
		bytes = ctx->bounce_bytes;
	ctx->bounce_bytes = is_taken ? 0 : bytes;
}

/* ---- in place */

static int puts_and_gets(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint8_t *buffer = pages(BYTES), *there;
	int right = (pe + 1) % lab->n, left = (pe + lab->n - 1) % lab->n;

	world_lab_must(shmd_malloc(world, BYTES, 0, (void **)&there), "malloc");
	for (unsigned int round = 0; round < 20; round++) {
		fill(buffer, BYTES, round + (unsigned int)pe);
		take_bounce(world, true);
		ASSERT_ERR(shmd_put(ctx, there, buffer, BYTES, right), EINVAL);
		world_lab_must(shmd_buffer_register(world, buffer, BYTES), "register");
		check_filled(buffer, BYTES, round + (unsigned int)pe);
		world_lab_must(shmd_put(ctx, there, buffer, BYTES, right), "put");
		world_lab_must(shmd_barrier_all(world), "barrier");
		check_filled(there, BYTES, round + (unsigned int)left);
		memset(buffer, 0, BYTES);
		world_lab_must(shmd_get_nbi(ctx, buffer, there, BYTES, right), "get");
		/* It completes the get. */
		world_lab_must(shmd_buffer_unregister(world, buffer), "unregister");
		check_filled(buffer, BYTES, round + (unsigned int)pe);
		ASSERT_ERR(shmd_get(ctx, buffer, there, BYTES, right), EINVAL);
		take_bounce(world, false);
		world_lab_must(shmd_get(ctx, buffer, there, BYTES, right), "get by bounce memory");
		check_filled(buffer, BYTES, round + (unsigned int)pe);
		world_lab_must(shmd_barrier_all(world), "barrier");
	}
	check_private(buffer, true);
	world_lab_must(shmd_buffer_register(world, buffer, BYTES), "register");
	check_private(buffer, false);
	world_lab_must(shmd_buffer_unregister(world, buffer), "unregister");
	check_private(buffer, true);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_registered_buffer_goes_by_queues_without_a_copy, 240)
{
	run(&by_rc, 2, puts_and_gets);
	run(&by_dc, 3, puts_and_gets);
}

static int registers_for_nothing(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(BYTES), *there;

	world_lab_must(shmd_malloc(world, BYTES, 0, (void **)&there), "malloc");
	fill(buffer, BYTES, 3);
	world_lab_must(shmd_buffer_register(world, buffer, BYTES), "register");
	ASSERT_ERR(shmd_buffer_register(world, buffer, BYTES), EEXIST);
	check_private(buffer, true);
	world_lab_must(shmd_put(shmd_world_ctx(world), there, buffer, BYTES, 1 - pe), "put");
	world_lab_must(shmd_barrier_all(world), "barrier");
	check_filled(there, BYTES, 3);
	world_lab_must(shmd_buffer_unregister(world, buffer), "unregister");
	ASSERT_ERR(shmd_buffer_unregister(world, buffer), EINVAL);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(where_no_pe_needs_a_queue_a_buffer_stays_as_it_is, 120)
{
	run(&mapped, 2, registers_for_nothing);
}

/* Any first byte and any length: the ends travel beside the pages. */
static int has_odd_ends(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint8_t *memory = malloc(BYTES), *there;
	unsigned int random = 11 + (unsigned int)pe;

	world_lab_must(shmd_malloc(world, BYTES, 0, (void **)&there), "malloc");
	for (unsigned int round = 0; round < 100; round++) {
		size_t first = (size_t)rand_r(&random) % 10000, bytes = 1 + (size_t)rand_r(&random) % (BYTES - 20000);
		size_t from = (size_t)rand_r(&random) % 10000, n = 1 + (size_t)rand_r(&random) % (BYTES - from - 1);

		fill(memory, BYTES, round);
		world_lab_must(shmd_buffer_register(world, memory + first, bytes), "register");
		check_filled(memory, BYTES, round);
		world_lab_must(shmd_put(ctx, there + from, memory + from, n, 1 - pe), "put");
		memset(memory + from, 0, n);
		world_lab_must(shmd_get(ctx, memory + from, there + from, n, 1 - pe), "get");
		check_filled(memory, BYTES, round);
		world_lab_must(shmd_buffer_unregister(world, memory + first), "unregister");
		check_filled(memory, BYTES, round);
	}
	free(memory);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(buffers_may_begin_and_end_anywhere, 240)
{
	run(&by_rc, 2, has_odd_ends);
}

/* ---- arguments */

static void check_table(struct shmd_world *world, uint64_t n)
{
	const struct shmd_dev_buffers *table = (const struct shmd_dev_buffers *)(uintptr_t)shmd_world_dev(world)->buffers_addr;
	const struct shmd_dev_buffer *buffers = (const struct shmd_dev_buffer *)(table + 1);

	ASSERT_EQ(table->n, n);
	for (uint64_t i = 0; i < n; i++) {
		ASSERT_LT(buffers[i].addr, buffers[i].end_addr);
		ASSERT_NE(buffers[i].lkey_be[0], 0);
		if (i)
			ASSERT_LE(buffers[i - 1].end_addr, buffers[i].addr);
	}
}

#define N_MANY 40u
#define STEP 8192u

static int registers_many(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *memory = pages(N_MANY * STEP);

	/* 17 and 40 have no common divisor: each once, out of order. */
	for (unsigned int i = 0; i < N_MANY; i++)
		world_lab_must(shmd_buffer_register(world, memory + i * 17 % N_MANY * STEP, STEP), "register");
	check_table(world, N_MANY);
	ASSERT_ERR(shmd_buffer_register(world, memory, STEP), EEXIST);
	ASSERT(strstr(shmd_error_text(), "overlaps"));
	ASSERT_ERR(shmd_buffer_register(world, memory + STEP + 1, 1), EEXIST);
	ASSERT_ERR(shmd_buffer_register(world, memory, N_MANY * STEP), EEXIST);
	ASSERT_ERR(shmd_buffer_unregister(world, memory + 1), EINVAL);
	for (unsigned int i = 1; i < N_MANY; i += 2)
		world_lab_must(shmd_buffer_unregister(world, memory + i * STEP), "unregister");
	check_table(world, N_MANY / 2);
	ASSERT_ERR(shmd_buffer_register(world, memory + STEP - 1, 2), EEXIST);
	ASSERT_ERR(shmd_buffer_register(world, memory + 2 * STEP - 1, 2), EEXIST);
	world_lab_must(shmd_buffer_register(world, memory + STEP, STEP), "register again");
	/* No whole page: in the list, not in the table. */
	world_lab_must(shmd_buffer_register(world, memory + 3 * STEP + 1, 4096), "register a little");
	ASSERT_ERR(shmd_buffer_register(world, memory + 3 * STEP, 4096), EEXIST);
	check_table(world, N_MANY / 2 + 1);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(overlapping_buffers_are_refused_and_others_found, 120)
{
	run(&by_rc, 2, registers_many);
}

static int passes_nonsense(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	struct shmd_world *world;
	uint8_t *buffer = pages(3 * STEP), *there, stack[3 * STEP] = {0};
	void *shared = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	mine.attr.paths = ((const struct way *)arg)->paths;
	world = world_lab_open(&mine, pe);
	ASSERT_ERR(shmd_buffer_register(world, buffer, STEP), ENOTCONN);
	ASSERT_ERR(shmd_buffer_unregister(world, buffer), ENOTCONN);
	world_lab_must(shmd_malloc(world, 2 * STEP, 0, (void **)&there), "malloc");
	ASSERT_ERR(shmd_buffer_register(NULL, buffer, STEP), EINVAL);
	ASSERT_ERR(shmd_buffer_unregister(NULL, buffer), EINVAL);
	ASSERT_ERR(shmd_buffer_register(world, NULL, STEP), EINVAL);
	ASSERT_ERR(shmd_buffer_register(world, buffer, 0), EINVAL);
	ASSERT_ERR(shmd_buffer_register(world, buffer, SIZE_MAX), EINVAL);
	ASSERT_ERR(shmd_buffer_unregister(world, NULL), EINVAL);
	ASSERT_ERR(shmd_buffer_unregister(world, buffer), EINVAL);
	ASSERT(strstr(shmd_error_text(), "no buffer is registered"));
	ASSERT_ERR(shmd_buffer_register(world, there, STEP), EINVAL);
	ASSERT(strstr(shmd_error_text(), "symmetric heap"));
	ASSERT_ERR(shmd_buffer_register(world, stack, sizeof(stack)), EINVAL);
	ASSERT_ERR(shmd_buffer_register(world, shared, STEP), EINVAL);
	ASSERT(strstr(shmd_error_text(), "private anonymous"));
	ASSERT_OK(mprotect(buffer + STEP, STEP, PROT_READ));
	ASSERT_ERR(shmd_buffer_register(world, buffer, 3 * STEP), EINVAL);
	ASSERT_OK(munmap(buffer + STEP, STEP));
	ASSERT_ERR(shmd_buffer_register(world, buffer, 3 * STEP), EINVAL);
	world_lab_must(shmd_buffer_register(world, buffer, STEP), "register");
	check_table(world, 1);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(memory_that_cannot_be_a_buffer_is_refused_with_a_sentence, 120)
{
	run(&by_rc, 2, passes_nonsense);
}

/* ---- in use */

/* Without time for it the buffer stays registered, the second time too. */
static int is_still_in_use(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	struct shmd_dev_ctx *dev = shmd_ctx_dev(shmd_world_ctx(world));
	const size_t bytes = 16u << 20;
	uint64_t limit = dev->timeout_nsec, deadline = nsec_now() + test_patience_nsec();
	uint8_t *buffer = pages(bytes), *there;
	int n_refused = 0, r = 0;

	world_lab_must(shmd_malloc(world, bytes, 0, (void **)&there), "malloc");
	fill(buffer, bytes, 1);
	while (n_refused < 3) {
		if (!r)
			world_lab_must(shmd_buffer_register(world, buffer, bytes), "register");
		world_lab_must(shmd_put_nbi(shmd_world_ctx(world), there, buffer, bytes, 1 - pe), "put");
		dev->timeout_nsec = 0;
		r = shmd_buffer_unregister(world, buffer);
		dev->timeout_nsec = limit;
		ASSERT(r == 0 || r == -ETIMEDOUT);
		n_refused += r == -ETIMEDOUT;
		ASSERT_LT(nsec_now(), deadline);
		if (r < 0)
			check_table(world, 1);
	}
	take_bounce(world, true);
	world_lab_must(shmd_put(shmd_world_ctx(world), there, buffer, bytes, 1 - pe), "put");
	world_lab_must(shmd_buffer_unregister(world, buffer), "unregister");
	ASSERT_ERR(shmd_put(shmd_world_ctx(world), there, buffer, bytes, 1 - pe), EINVAL);
	take_bounce(world, false);
	world_lab_must(shmd_barrier_all(world), "barrier");
	check_filled(there, bytes, 1);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_buffer_in_use_stays_registered_until_its_operations_are_done, 240)
{
	run(&by_rc, 2, is_still_in_use);
}

/* The put of a context with queues of its own has no announcement but that of the unregistering. */
static int is_in_use_by_a_context(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(STEP), *there, *back = pages(STEP);
	struct shmd_dev_mode mode;
	struct shmd_ctx *ctx;

	world_lab_must(shmd_malloc(world, STEP, 0, (void **)&there), "malloc");
	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &ctx), "a context");
	fill(buffer, STEP, 5);
	world_lab_must(shmd_buffer_register(world, buffer, STEP), "register");
	mode = shmd_dev_ctx_mode(shmd_ctx_dev(ctx), SHMD_DEV_THREAD);
	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_put_nbi_as(shmd_ctx_dev(ctx), there, buffer, STEP, 1 - (uint32_t)pe, mode), SHMD_DEV_OK);
	world_lab_must(shmd_buffer_unregister(world, buffer), "unregister");
	world_lab_must(shmd_get(shmd_world_ctx(world), back, there, STEP, 1 - pe), "get");
	check_filled(back, STEP, 5);
	world_lab_must(shmd_quiet(ctx), "quiet");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(operations_of_all_contexts_are_complete_when_a_buffer_ends, 120)
{
	run(&by_rc, 2, is_in_use_by_a_context);
	run(&by_dc, 2, is_in_use_by_a_context);
}

#define N_THREADS 3

struct mover {
	struct shmd_world *world;
	uint8_t *there; /* symmetric, of this thread */
	int to;
	unsigned int seed;
	bool registers;
	uint32_t *is_done;
};

static void *moves(void *arg)
{
	const struct mover *mover = arg;
	struct shmd_ctx *ctx = shmd_world_ctx(mover->world);
	uint8_t *buffer = pages(STEP);

	for (unsigned int i = 0; mover->registers ? i < 100 : !__atomic_load_n(mover->is_done, __ATOMIC_ACQUIRE); i++) {
		fill(buffer, STEP, mover->seed + i);
		if (mover->registers || i == 0)
			world_lab_must(shmd_buffer_register(mover->world, buffer, STEP), "register");
		world_lab_must(shmd_put(ctx, mover->there, buffer, STEP, mover->to), "put");
		memset(buffer, 0, STEP);
		world_lab_must(shmd_get(ctx, buffer, mover->there, STEP, mover->to), "get");
		check_filled(buffer, STEP, mover->seed + i);
		if (mover->registers)
			world_lab_must(shmd_buffer_unregister(mover->world, buffer), "unregister");
	}
	if (mover->registers)
		__atomic_store_n(mover->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* One thread registers and unregisters while others put from and get into their own buffers. */
static int moves_in_threads(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	struct mover movers[N_THREADS];
	pthread_t threads[N_THREADS];
	uint32_t is_done = 0;
	uint8_t *there;

	world_lab_must(shmd_malloc(world, N_THREADS * STEP, 0, (void **)&there), "malloc");
	for (unsigned int i = 0; i < N_THREADS; i++) {
		movers[i] = (struct mover){.world = world,
					   .there = there + i * STEP,
					   .to = 1 - pe,
					   .seed = i * 50,
					   .registers = i == 0,
					   .is_done = &is_done};
		ASSERT_EQ(pthread_create(&threads[i], NULL, moves, &movers[i]), 0);
	}
	for (unsigned int i = 0; i < N_THREADS; i++)
		ASSERT_EQ(pthread_join(threads[i], NULL), 0);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(threads_use_their_buffers_while_others_come_and_go, 240)
{
	run(&by_rc, 2, moves_in_threads);
}

/* ---- worlds and ends */

static int shares_a_buffer(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *one = open_with(lab, pe, &by_rc), *two;
	struct world_lab mine = *lab;
	uint8_t *buffer = pages(4 * STEP), *there;

	mine.uid = *(struct shmd_uid *)arg;
	two = open_with(&mine, pe, &by_rc);
	world_lab_must(shmd_malloc(two, STEP, 0, (void **)&there), "malloc");
	world_lab_must(shmd_buffer_register(one, buffer, 4 * STEP), "register");
	/* A part of it, in the other world. */
	world_lab_must(shmd_buffer_register(two, buffer + STEP, STEP), "register a part");
	fill(buffer, 4 * STEP, 8);
	world_lab_must(shmd_buffer_unregister(one, buffer), "unregister");
	check_private(buffer, false);
	take_bounce(two, true);
	world_lab_must(shmd_put(shmd_world_ctx(two), there, buffer + STEP, STEP, 1 - pe), "put");
	take_bounce(two, false);
	world_lab_must(shmd_barrier_all(two), "barrier");
	ASSERT_MEMEQ(there, buffer + STEP, STEP);
	world_lab_must(shmd_buffer_unregister(two, buffer + STEP), "unregister");
	check_private(buffer, true);
	check_filled(buffer, 4 * STEP, 8);
	/* Buffers that are left at the end of their world do no harm, also if the program has unmapped them. */
	world_lab_must(shmd_buffer_register(one, buffer, STEP), "register");
	world_lab_must(shmd_buffer_register(two, buffer, STEP), "register");
	ASSERT_OK(munmap(buffer, STEP));
	world_lab_close(one);
	world_lab_close(two);
	return 0;
}

TEST_TIMEOUT(worlds_of_a_process_share_a_buffer, 120)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};
	struct fixture_daemon daemon;
	struct shmd_uid second;

	fixture_daemon_start(&daemon, NULL);
	world_lab_must(bootstrap_uid_make(&how, &second), "uid");
	world_lab_run(&daemon, 2, shares_a_buffer, &second);
	fixture_daemon_stop(&daemon);
}

/* PE 1 dies while PE 0 puts to it from a buffer. */
static int outlives_its_peer(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(STEP), *second = pages(STEP), *there;
	int r;

	world_lab_must(shmd_calloc(world, 1, STEP, 0, (void **)&there), "calloc");
	world_lab_await_others(world, (uint64_t *)(void *)there, pe);
	if (pe == 1)
		raise(SIGKILL);
	world_lab_must(shmd_buffer_register(world, buffer, STEP), "register");
	do
		r = shmd_put_nbi(shmd_world_ctx(world), there, buffer, STEP, 1);
	while (!r);
	while (shmd_world_status(world) != SHMD_WORLD_BROKEN)
		usleep(1000);
	ASSERT_ERR(shmd_put(shmd_world_ctx(world), there, buffer, STEP, 1), EHOSTDOWN);
	world_lab_must(shmd_buffer_register(world, second, STEP), "register the second");
	world_lab_must(shmd_buffer_unregister(world, buffer), "unregister");
	check_private(buffer, true);
	check_table(world, 1);
	ASSERT_ERR(shmd_world_close(world), EHOSTDOWN);
	return 0;
}

TEST_TIMEOUT(a_buffer_outlives_the_peer_that_it_was_put_to, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 2};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, outlives_its_peer, (void *)(uintptr_t)&by_rc);
	ASSERT_EQ(world_lab_wait(&lab, 0), 0);
	ASSERT_EQ(world_lab_wait(&lab, 1), 128 + SIGKILL);
	fixture_daemon_stop(&daemon);
}

static int loses_its_daemon(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(STEP), *second = pages(STEP);

	fill(buffer, STEP, 4);
	world_lab_must(shmd_buffer_register(world, buffer, STEP), "register");
	world_lab_must(shmd_sync_all(world), "sync");
	if (pe == 0)
		ASSERT_OK(kill(lab->daemon->pid, SIGKILL));
	while (shmd_world_status(world) != SHMD_WORLD_BROKEN)
		usleep(1000);
	ASSERT_LT(shmd_buffer_register(world, second, STEP), 0);
	check_private(second, true);
	world_lab_must(shmd_buffer_unregister(world, buffer), "unregister");
	check_private(buffer, true);
	check_filled(buffer, STEP, 4);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_buffer_is_given_back_when_its_daemon_has_died, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, loses_its_daemon, (void *)(uintptr_t)&by_rc);
	fixture_daemon_kill(&daemon);
}
