/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the program as symmetric memory, over each path. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd/dev/pe.h>

#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

#define BYTES (3u << 20) /* more than a granule of the heap, and no multiple of it */
#define PAGE 65536u /* a multiple of any kernel's page */

struct way {
	uint32_t (*paths)(int pe);
	const char *rc_peers; /* SHMD_RC_PEERS */
};

static uint32_t mapped_only(int pe)
{
	(void)pe;
	return SHMD_ALLOW_MAPPED;
}

static uint32_t queues_only(int pe)
{
	(void)pe;
	return SHMD_ALLOW_QUEUE;
}

static uint32_t first_two_mapped(int pe)
{
	return pe < 2 ? SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE : SHMD_ALLOW_QUEUE;
}

static const struct way mapped = {mapped_only, "16"};
static const struct way ways[] = {{mapped_only, "16"}, {queues_only, "16"}, {queues_only, "1"}, {first_two_mapped, "16"}};

static struct shmd_world *open_with(const struct world_lab *lab, int pe, const struct way *way)
{
	struct world_lab mine = *lab;

	setenv("SHMD_RC_PEERS", way->rc_peers, 1);
	mine.attr.paths = way->paths(pe);
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

static uint8_t *pages(size_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(memory != MAP_FAILED);
	return memory;
}

/* The pattern of a seed has rows of a prime number of bytes, of which each begins with another byte. */
#define ROW 251u

static void fill_row(uint8_t *at, size_t bytes, unsigned int seed, size_t row)
{
	uint8_t first = (uint8_t)(seed * 31 + row * (7 * ROW + 1));

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(first + i * 7);
}

static size_t row_bytes(size_t bytes, size_t row)
{
	return bytes - row * ROW < ROW ? bytes - row * ROW : ROW;
}

static void fill(uint8_t *at, size_t bytes, unsigned int seed)
{
	for (size_t row = 0; row * ROW < bytes; row++)
		fill_row(at + row * ROW, row_bytes(bytes, row), seed, row);
}

static void check_filled(const uint8_t *at, size_t bytes, unsigned int seed)
{
	uint8_t wanted[ROW];

	for (size_t row = 0; row * ROW < bytes; row++) {
		fill_row(wanted, row_bytes(bytes, row), seed, row);
		ASSERT_MEMEQ(at + row * ROW, wanted, row_bytes(bytes, row));
	}
}

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

/* Whole buffers, a counter, and the copy of another PE by loads where it is mapped. */
static void use(const struct world_lab *lab, struct shmd_world *world, int pe, uint8_t *buffer, uint8_t *symmetric, size_t bytes)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	int right = (pe + 1) % lab->n, left = (pe + lab->n - 1) % lab->n;
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	uint8_t *source = malloc(bytes);
	uint8_t *there;

	fill(source, bytes, (unsigned int)pe);
	world_lab_must(shmd_put(ctx, symmetric, source, bytes, right), "put");
	world_lab_must(shmd_barrier_all(world), "barrier");
	check_filled(buffer, bytes, (unsigned int)left);
	check_filled(symmetric, bytes, (unsigned int)left);
	world_lab_must(shmd_get(ctx, source, symmetric, bytes, left), "get");
	check_filled(source, bytes, (unsigned int)(left + lab->n - 1) % (unsigned int)lab->n);
	there = shmd_ptr(world, symmetric, left);
	if (there)
		check_filled(there, bytes, (unsigned int)(left + lab->n - 1) % (unsigned int)lab->n);
	world_lab_must(shmd_sync_all(world), "sync");
	memset(buffer, 0, 8);
	world_lab_must(shmd_sync_all(world), "sync");
	for (int i = 0; i < lab->n; i++)
		world_lab_must(shmd_atomic_fetch(ctx, symmetric, &add, i, NULL), "count");
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(*(uint64_t *)(void *)buffer, (uint64_t)lab->n);
	free(source);
}

/* Between chunks of the heap, which grows behind it. */
static int registers(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(BYTES), *second = pages(PAGE), *symmetric, *other;
	void *large;

	fill(buffer, BYTES, 50);
	world_lab_must(shmd_buffer_register_symmetric(world, buffer, BYTES, (void **)&symmetric), "register");
	check_filled(symmetric, BYTES, 50);
	world_lab_must(shmd_sync_all(world), "sync");
	use(lab, world, pe, buffer, symmetric, BYTES);
	world_lab_must(shmd_buffer_register_symmetric(world, second, PAGE, (void **)&other), "register the second");
	world_lab_must(shmd_calloc(world, 1, 12u << 20, 0, &large), "a chunk behind them");
	use(lab, world, pe, large, large, 1u << 20);
	use(lab, world, pe, second, other, PAGE);
	use(lab, world, pe, buffer, symmetric, BYTES);
	ASSERT_ERR(shmd_free(world, symmetric), EINVAL);
	fill(buffer, BYTES, 51);
	check_private(buffer, false);
	world_lab_must(shmd_buffer_unregister_symmetric(world, symmetric), "unregister");
	check_private(buffer, true);
	check_filled(buffer, BYTES, 51);
	use(lab, world, pe, second, other, PAGE);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_buffer_of_each_pe_is_symmetric_memory_over_each_path, 300)
{
	run_each_way(3, registers);
}

/* More than the heap has chunks, one after the other, of changing sizes and out of another memory each. */
static int comes_and_goes(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *memory = pages(4 * PAGE), *symmetric, *first = NULL;

	for (unsigned int round = 0; round < SHMD_DEV_HEAP_CHUNKS + 6; round++) {
		size_t bytes = (1 + round % 3) * PAGE;
		uint8_t *buffer = memory + round % 2 * PAGE;

		world_lab_must(shmd_buffer_register_symmetric(world, buffer, bytes, (void **)&symmetric), "register");
		first = first ? first : symmetric;
		ASSERT_EQ(symmetric, first);
		if (round % 10 == 0)
			use(lab, world, pe, buffer, symmetric, bytes);
		world_lab_must(shmd_buffer_unregister_symmetric(world, symmetric), "unregister");
	}
	check_private(memory, true);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(the_place_of_a_buffer_serves_again, 300)
{
	run_each_way(2, comes_and_goes);
}

/* ---- arguments, which differ among PEs */

static int passes_nonsense(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint8_t *buffer = pages(4 * PAGE), *symmetric = NULL, *second, *heap;

	ASSERT_ERR(shmd_buffer_register_symmetric(NULL, buffer, PAGE, (void **)&symmetric), EINVAL);
	ASSERT_ERR(shmd_buffer_register_symmetric(world, buffer, PAGE, NULL), EINVAL);
	ASSERT_ERR(shmd_buffer_unregister_symmetric(NULL, buffer), EINVAL);
	/* Each of these is wrong on PE 1 alone. */
	ASSERT_ERR(shmd_buffer_register_symmetric(world, pe == 1 ? buffer + 1 : buffer, PAGE, (void **)&symmetric), EINVAL);
	ASSERT(strstr(shmd_error_text(), "pages"));
	ASSERT_ERR(shmd_buffer_register_symmetric(world, pe == 1 ? NULL : buffer, PAGE, (void **)&symmetric), EINVAL);
	ASSERT_ERR(shmd_buffer_register_symmetric(world, buffer, pe == 1 ? 0 : PAGE, (void **)&symmetric), EINVAL);
	ASSERT_ERR(shmd_buffer_register_symmetric(world, pe == 1 ? shared : buffer, PAGE, (void **)&symmetric), EINVAL);
	ASSERT(strstr(shmd_error_text(), "private anonymous"));
	ASSERT(pe == 1 || strstr(shmd_error_text(), "PE 1 "));
	ASSERT_ERR(shmd_buffer_register_symmetric(world, buffer, pe == 1 ? 2 * PAGE : PAGE, (void **)&symmetric), EINVAL);
	ASSERT(strstr(shmd_error_text(), "on PE 1"));
	ASSERT_ERR(shmd_buffer_register_symmetric(world, buffer, UINT64_C(1) << 40, (void **)&symmetric), ENOMEM);
	ASSERT(!symmetric);
	check_private(buffer, true);
	/* Nothing is left of them. */
	world_lab_must(shmd_buffer_register_symmetric(world, buffer, PAGE, (void **)&symmetric), "register");
	world_lab_must(shmd_malloc(world, PAGE, 0, (void **)&heap), "malloc");
	/* A second time, by itself or as a part: its memory is in a memfd already. */
	world_lab_must(shmd_buffer_register_symmetric(world, buffer, PAGE, (void **)&second), "register again");
	ASSERT_NE(second, symmetric);
	use(lab, world, pe, buffer, second, PAGE);
	ASSERT_ERR(shmd_buffer_register_symmetric(world, buffer, 2 * PAGE, (void **)&second), EINVAL);
	ASSERT_ERR(shmd_buffer_register_symmetric(world, heap, PAGE, (void **)&second), EINVAL);
	ASSERT_ERR(shmd_buffer_unregister_symmetric(world, pe == 1 ? buffer : symmetric), EINVAL);
	ASSERT_ERR(shmd_buffer_unregister_symmetric(world, pe == 1 ? second : symmetric), EINVAL);
	ASSERT_ERR(shmd_buffer_unregister_symmetric(world, heap), EINVAL);
	world_lab_must(shmd_buffer_unregister_symmetric(world, symmetric), "unregister");
	ASSERT_ERR(shmd_buffer_unregister_symmetric(world, symmetric), EINVAL);
	use(lab, world, pe, buffer, second, PAGE);
	world_lab_must(shmd_buffer_unregister_symmetric(world, second), "unregister");
	check_private(buffer, true);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(what_is_wrong_on_one_pe_fails_on_all_and_leaves_nothing, 120)
{
	run_each_way(2, passes_nonsense);
}

/* As many as the heap has chunks, then none; those that end make room. */
static int fills_the_heap(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *memory = pages(SHMD_DEV_HEAP_CHUNKS * PAGE), *symmetric[SHMD_DEV_HEAP_CHUNKS], *one;
	unsigned int n = 0;
	int r;

	while (!(r = shmd_buffer_register_symmetric(world, memory + n * PAGE, PAGE, (void **)&symmetric[n])))
		n++;
	ASSERT_EQ(r, -ENOMEM);
	ASSERT_EQ(n, SHMD_DEV_HEAP_CHUNKS - 1);
	world_lab_must(shmd_buffer_unregister_symmetric(world, symmetric[20]), "unregister");
	world_lab_must(shmd_buffer_register_symmetric(world, memory + 20 * PAGE, PAGE, (void **)&one), "register again");
	ASSERT_EQ(one, symmetric[20]);
	for (unsigned int i = 0; i < n; i += 9)
		use(lab, world, pe, memory + i * PAGE, symmetric[i], PAGE);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(as_many_buffers_as_chunks_are_symmetric_at_once, 240)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, fills_the_heap, (void *)(uintptr_t)&ways[0]);
	world_lab_run(&daemon, 2, fills_the_heap, (void *)(uintptr_t)&ways[1]);
	fixture_daemon_stop(&daemon);
}

/* ---- use, ends */

/* PE 0 puts without waiting; the data has arrived when the call returns on PE 1. */
static int is_still_in_use(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(BYTES), *source = pages(BYTES), *symmetric;

	fill(source, BYTES, (unsigned int)pe);
	for (int round = 0; round < 10; round++) {
		world_lab_must(shmd_buffer_register_symmetric(world, buffer, BYTES, (void **)&symmetric), "register");
		world_lab_must(shmd_put_nbi(shmd_world_ctx(world), symmetric, source, BYTES, 1 - pe), "put");
		world_lab_must(shmd_buffer_unregister_symmetric(world, symmetric), "unregister");
		check_filled(buffer, BYTES, (unsigned int)(1 - pe));
		memset(buffer, 0, BYTES);
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(operations_under_way_are_complete_when_a_buffer_ends, 240)
{
	run_each_way(2, is_still_in_use);
}

static void put_silently(struct shmd_ctx *ctx, uint8_t *dest, const uint8_t *source, int pe)
{
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(shmd_ctx_dev(ctx), SHMD_DEV_THREAD);

	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_put_nbi_as(shmd_ctx_dev(ctx), dest, source, PAGE / 2, (uint32_t)pe, mode), SHMD_DEV_OK);
}

/* The same of a context with queues of its own, if it has any. */
static int is_in_use_by_a_context(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(PAGE), *source = pages(PAGE), *symmetric;
	struct shmd_ctx *ctx;

	fill(source, PAGE, (unsigned int)pe);
	world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &ctx), "a context");
	world_lab_must(shmd_buffer_register_symmetric(world, buffer, PAGE, (void **)&symmetric), "register");
	put_silently(ctx, symmetric, source, 1 - pe);
	world_lab_must(shmd_buffer_unregister_symmetric(world, symmetric), "unregister");
	check_filled(buffer, PAGE / 2, (unsigned int)(1 - pe));
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(operations_of_all_contexts_are_complete_when_a_buffer_ends, 240)
{
	run_each_way(2, is_in_use_by_a_context);
}

static int outlives_one(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(PAGE), *symmetric;
	void *other;

	world_lab_must(shmd_buffer_register_symmetric(world, buffer, PAGE, (void **)&symmetric), "register");
	world_lab_await_others(world, (uint64_t *)(void *)symmetric, pe);
	if (pe == 1)
		raise(SIGKILL);
	while (shmd_world_status(world) != SHMD_WORLD_BROKEN)
		usleep(1000);
	ASSERT_EQ(shmd_put(shmd_world_ctx(world), symmetric, &pe, sizeof(pe), 1), -EHOSTDOWN);
	ASSERT_ERR(shmd_buffer_register_symmetric(world, buffer, PAGE, &other), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1 "));
	ASSERT_ERR(shmd_buffer_unregister_symmetric(world, symmetric), EHOSTDOWN);
	/* The memory is the program's still, as it was. */
	fill(buffer, PAGE, 2);
	ASSERT_ERR(shmd_world_close(world), EHOSTDOWN);
	check_filled(buffer, PAGE, 2);
	return 0;
}

TEST_TIMEOUT(the_end_of_a_pe_ends_the_calls_of_the_others, 240)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct world_lab lab = {.daemon = &daemon, .n = 3};

		world_lab_start(&lab, outlives_one, (void *)(uintptr_t)&ways[i]);
		for (int pe = 0; pe < lab.n; pe++)
			ASSERT_EQ(world_lab_wait(&lab, pe), pe == 1 ? 128 + SIGKILL : 0);
	}
	fixture_daemon_stop(&daemon);
}

/* Mapped PEs need it for new buffers only. */
static int outlives_the_daemon(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = open_with(lab, pe, arg);
	uint8_t *buffer = pages(PAGE), *second = pages(PAGE), *symmetric;
	void *other;

	world_lab_must(shmd_buffer_register_symmetric(world, buffer, PAGE, (void **)&symmetric), "register");
	if (pe == 0)
		ASSERT_OK(kill(lab->daemon->pid, SIGKILL));
	while (shmd_world_status(world) != SHMD_WORLD_BROKEN)
		usleep(1000);
	ASSERT_LT(shmd_buffer_register_symmetric(world, second, PAGE, &other), 0);
	check_private(second, true);
	use(lab, world, pe, buffer, symmetric, PAGE);
	world_lab_must(shmd_buffer_unregister_symmetric(world, symmetric), "unregister");
	check_private(buffer, true);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(mapped_pes_keep_their_buffers_without_the_daemon, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, outlives_the_daemon, (void *)(uintptr_t)&mapped);
	fixture_daemon_kill(&daemon);
}
