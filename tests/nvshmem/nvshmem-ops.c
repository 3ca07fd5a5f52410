/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem-ops MINOR WAY: a PE of a job that calls what kernels of the library carry out: atomics, reductions, words on streams. As nvshmem-pe.c.
 *
 * all: with kernels, which run in the thread that launches them. none: a driver that has none of them. some: PE 0 alone has them.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fake-cuda.h"
#include "tests/lib/fake-kernels.h"
#include "tests/nvshmem/device-library.h"

#define SIGNAL_ADD 10
#define ONE_HALF 0x3c00 /* 1.0 */

extern int cuInit(unsigned int flags);
extern int cuModuleLoadData(void **ret_module, const void *image);
extern int cuModuleGetFunction(void **ret_function, void *module, const char *name);
extern int cuModuleUnload(void *module);
extern int cuStreamCreate(stream_t *stream, unsigned int flags);

static int me, n, right, left;
static stream_t stream;

static void begin(void)
{
	CHECK(device_library_init(0, NULL) == 0);
	me = host.nvshmem_my_pe();
	n = host.nvshmem_n_pes();
	right = (me + 1) % n;
	left = (me + n - 1) % n;
	CHECK(!cuStreamCreate(&stream, 1));
}

/* ---- atomics */

/* All PEs on the words of PE 0, by the host and as kernels do it. */
static void counts_together(void)
{
	uint64_t *words = host.nvshmem_calloc(8, 8), *theirs = host.nvshmem_ptr(words, 0);
	uint16_t *halves = (uint16_t *)(words + 3);
	int *narrow = (int *)(words + 4);

	host.nvshmem_sync_all();
	for (int i = 0; i < 50; i++) {
		host.nvshmem_uint64_atomic_inc(&words[0], 0);
		__atomic_fetch_add(&theirs[0], 1, __ATOMIC_SEQ_CST);
		host.nvshmem_int_atomic_add(&narrow[1], -2, 0);
		host.nvshmemx_double_atomic_add((double *)&words[1], 0.5, 0);
		/* 1.0: up to 150 exact, and its neighbour stays. */
		host.nvshmemx_half_atomic_add(&halves[1], ONE_HALF, 0);
	}
	host.nvshmem_barrier_all();
	CHECK(host.nvshmem_double_atomic_fetch((double *)&words[1], 0) == 25.0 * n);
	if (!me) {
		CHECK(words[0] == 100u * (unsigned int)n && narrow[1] == -100 * n && narrow[0] == 0);
		CHECK(halves[1] == (n == 1 ? 0x5240 : n == 2 ? 0x5640 : 0x58b0) && !halves[0] && !halves[2]);
	}
	host.nvshmem_barrier_all();
}

static void gets_former_values(void)
{
	uint64_t *words = host.nvshmem_calloc(8, 8);

	/* Each PE has those of its neighbour for itself. */
	CHECK(host.nvshmem_int64_atomic_compare_swap((int64_t *)&words[0], 0, -7, right) == 0);
	CHECK(host.nvshmem_int64_atomic_compare_swap((int64_t *)&words[0], 0, 8, right) == -7);
	CHECK(host.nvshmem_long_atomic_fetch_inc((long *)&words[0], right) == -7 && host.nvshmem_long_atomic_fetch_inc((long *)&words[0], right) == -6);
	CHECK(host.nvshmem_int64_atomic_compare_swap((int64_t *)&words[0], -5, 9, right) == -5);
	host.nvshmem_double_atomic_set((double *)&words[1], 1.5, right);
	CHECK(host.nvshmem_double_atomic_fetch((double *)&words[1], right) == 1.5);
	CHECK(host.nvshmem_float_atomic_swap((float *)&words[2], 2.5f, right) == 0);
	CHECK(host.nvshmemx_float_atomic_fetch_add((float *)&words[2], 0.25f, right) == 2.5f);
	host.nvshmem_uint_atomic_or((unsigned int *)&words[3], 0xff, right);
	CHECK(host.nvshmem_uint32_atomic_fetch_and((uint32_t *)&words[3], 0xf0, right) == 0xff);
	CHECK(host.nvshmem_int32_atomic_fetch_xor((int32_t *)&words[3], -1, right) == 0xf0);
	CHECK(host.nvshmem_int_atomic_fetch_add((int *)&words[3], 1, right) == ~0xf0);
	CHECK(host.nvshmemx_half_atomic_fetch_add((uint16_t *)&words[4], 0x4000, right) == 0);
	CHECK(host.nvshmemx_half_atomic_fetch_add((uint16_t *)&words[4], 0x4000, right) == 0x4000);
	CHECK(host.nvshmem_int_atomic_fetch_add((int *)&words[3], 1, n) == 0);
	/* Not between two halves. */
	CHECK(host.nvshmemx_half_atomic_fetch_add((uint16_t *)((uintptr_t)&words[4] + 1), 0x4000, right) == 0);
	host.nvshmem_barrier_all();
	CHECK(words[0] == 9 && *(float *)&words[2] == 2.75f && *(int *)&words[3] == ~0xf0 + 1 && words[4] == 0x4400);
	host.nvshmem_barrier_all();
}

/* ---- reductions: PE i has i + 1 and its multiples */

static int all_of(int op)
{
	int result = 1;

	for (int i = 2; i <= n; i++)
		result = op == '+' ? result + i : op == '*' ? result * i : op == '|' ? result | i : result ^ i;
	return result;
}

static void reduces(void)
{
	int *ints = host.nvshmem_calloc(4000, sizeof(*ints));
	double *reals = host.nvshmem_calloc(64, sizeof(*reals));
	uint16_t *halves = host.nvshmem_calloc(64, sizeof(*halves));
	signed char *chars = host.nvshmem_calloc(64, 1);

	for (int i = 0; i < 1000; i++)
		ints[i] = (me + 1) * (i + 1);
	host.nvshmem_barrier_all();
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_WORLD, ints + 1000, ints, 1000) == 0);
	CHECK(ints[1000] == all_of('+') && ints[1999] == 1000 * all_of('+'));
	CHECK(host.nvshmem_uint32_xor_reduce(NVS_TEAM_WORLD, (uint32_t *)ints + 1000, (uint32_t *)ints, 1) == 0 && ints[1000] == all_of('^'));
	/* Each member its block of the result. */
	CHECK(host.nvshmem_int_max_reducescatter(NVS_TEAM_WORLD, ints + 2000, ints, 10) == 0);
	CHECK(ints[2000] == n * (10 * me + 1) && ints[2009] == n * (10 * me + 10) && !ints[2010]);
	reals[0] = 0.5 * (me + 1);
	CHECK(host.nvshmem_double_min_reduce(NVS_TEAM_WORLD, reals + 1, reals, 1) == 0 && reals[1] == 0.5);
	/* 1.0 of all as half, 2.0 of all as bfloat16. */
	halves[0] = ONE_HALF;
	halves[1] = 0x4000;
	host.nvshmem_barrier_all();
	CHECK(host.nvshmem_half_sum_reduce(NVS_TEAM_WORLD, halves + 2, halves, 1) == 0 && halves[2] == (n == 1 ? ONE_HALF : n == 2 ? 0x4000 : 0x4200));
	CHECK(host.nvshmemx_bfloat16_prod_reduce_on_stream(NVS_TEAM_WORLD, halves + 3, halves + 1, 1, stream) == 0);
	CHECK(halves[3] == 0x3f80 + 0x80 * n);
	chars[0] = (signed char)(me ? -me : 5);
	CHECK(host.nvshmem_schar_min_reduce(NVS_TEAM_WORLD, chars + 1, chars, 1) == 0 && chars[1] == (n == 1 ? 5 : -(n - 1)));
	CHECK(host.nvshmem_int_sum_reduce(99, ints, ints, 1) == 1);
	host.nvshmem_barrier_all();
}

/*
 * A thread of PE 0 waits in a reduction for the others, who come to it behind a put and a reduction of another team, by another thread of
 * PE 0.
 */
static void *reduces_with_all(void *ints)
{
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_WORLD, (int *)ints + 2, ints, 1) == 0);
	return NULL;
}

static void reduces_in_threads(void)
{
	int *ints = host.nvshmem_calloc(64, sizeof(*ints)), one = 1;
	pthread_t thread;

	ints[0] = me + 1;
	host.nvshmem_barrier_all();
	CHECK(me || !pthread_create(&thread, NULL, reduces_with_all, ints));
	if (!me)
		usleep(100000);
	for (int pe = 1; !me && pe < n; pe++)
		host.nvshmem_putmem(&ints[1], &one, sizeof(one), pe);
	while (me && !*(volatile int *)&ints[1])
		usleep(1000);
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_SHARED, &ints[3], ints, 1) == 0 && ints[3] == all_of('+'));
	if (me)
		reduces_with_all(ints);
	CHECK(me || !pthread_join(thread, NULL));
	CHECK(ints[2] == all_of('+'));
	host.nvshmem_barrier_all();
}

/* The same with two teams of all PEs. */
static void *reduces_with_shared(void *ints)
{
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_SHARED, (int *)ints + 2, ints, 1) == 0);
	return NULL;
}

static void reduces_in_two_teams(void)
{
	int *ints = host.nvshmem_calloc(64, sizeof(*ints)), one = 1;
	pthread_t thread;

	ints[0] = me + 1;
	ints[4] = 100 * (me + 1);
	host.nvshmem_barrier_all();
	CHECK(me || !pthread_create(&thread, NULL, reduces_with_shared, ints));
	if (!me)
		usleep(100000);
	for (int pe = 1; !me && pe < n; pe++)
		host.nvshmem_putmem(&ints[1], &one, sizeof(one), pe);
	while (me && !*(volatile int *)&ints[1])
		usleep(1000);
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_MC_SHARED, &ints[3], &ints[4], 1) == 0 && ints[3] == 100 * all_of('+'));
	if (me)
		reduces_with_shared(ints);
	CHECK(me || !pthread_join(thread, NULL));
	CHECK(ints[2] == all_of('+'));
	host.nvshmem_barrier_all();
}

static void reduces_on_streams(void)
{
	int *ints = host.nvshmem_calloc(4000, sizeof(*ints));

	ints[0] = me + 1;
	for (int i = 0; i < 30; i++)
		ints[100 + i] = 100 * me + i;
	host.nvshmem_barrier_all();
	CHECK(host.nvshmemx_int_prod_reduce_on_stream(NVS_TEAM_WORLD, ints + 1, ints, 1, stream) == 0 && ints[1] == all_of('*'));
	CHECK(host.nvshmemx_int64_or_reduce_on_stream(NVS_TEAM_WORLD, (int64_t *)ints + 2, (int64_t *)ints, 1, stream) == 0);
	CHECK((ints[4] & 0xff) == all_of('|'));
	CHECK(host.nvshmemx_int_sum_reducescatter_on_stream(NVS_TEAM_WORLD, ints + 200, ints + 100, 5, stream) == 0);
	CHECK(ints[204] == 100 * (all_of('+') - n) + n * (5 * me + 4));
	host.nvshmem_barrier_all();
}

/* ---- collectives that move, and graphs */

static void moves_on_streams(void)
{
	size_t large = 100000;
	char *data = host.nvshmem_calloc(8, large);

	memset(data, me + 1, 2 * large);
	host.nvshmem_barrier_all();
	/* By a kernel, and by copies with a sync. */
	for (size_t bytes = 100; bytes <= large; bytes *= 1000) {
		CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, data + 2 * large, data, bytes, n - 1, stream) == 0);
		CHECK(data[2 * large] == n && data[2 * large + bytes - 1] == n && (bytes == large || !data[2 * large + bytes]));
		CHECK(host.nvshmemx_char_fcollect_on_stream(NVS_TEAM_WORLD, data + 3 * large, data, bytes, stream) == 0);
		CHECK(data[3 * large + (size_t)right * bytes] == right + 1 && data[3 * large + (size_t)n * bytes - 1] == n);
		CHECK(host.nvshmemx_barrier_on_stream(NVS_TEAM_WORLD, stream) == 0);
		memset(data + 2 * large, 0, 6 * large);
		CHECK(host.nvshmemx_barrier_on_stream(NVS_TEAM_WORLD, stream) == 0);
	}
}

/* While a stream is captured CUDA refuses calls that a graph cannot have; none is made. */
static void is_captured(void)
{
	int *ints = host.nvshmem_calloc(100, sizeof(*ints));

	ints[0] = me;
	host.nvshmem_barrier_all();
	fake_cuda_capture(1);
	CHECK(host.nvshmemx_team_sync_on_stream(NVS_TEAM_WORLD, stream) == 0);
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, ints + 1, ints, 4, n - 1, stream) == 0 && ints[1] == n - 1);
	CHECK(host.nvshmemx_alltoallmem_on_stream(NVS_TEAM_WORLD, ints + 10, ints + 20, 4, stream) == 0);
	CHECK(host.nvshmemx_int_max_reduce_on_stream(NVS_TEAM_WORLD, ints + 2, ints, 1, stream) == 0 && ints[2] == n - 1);
	host.nvshmemx_int_p_on_stream(&ints[3], 8, me, stream);
	fake_cuda_capture(0);
	CHECK(ints[3] == 8);
	host.nvshmem_barrier_all();
}

/* ---- words on streams */

static void words_on_streams(void)
{
	uint64_t *words = host.nvshmem_calloc(64, 8);
	short *shorts = (short *)(words + 20);
	int *skipped = (int *)(words + 40);
	long *values = (long *)(words + 44);

	host.nvshmemx_double_p_on_stream((double *)&words[0], 2.5 + me, right, stream);
	host.nvshmemx_schar_p_on_stream((signed char *)&words[1], (signed char)-1, right, stream);
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(*(double *)&words[0] == 2.5 + left && words[1] == 0xff);
	CHECK(host.nvshmemx_double_g_on_stream((double *)&words[0], right, stream) == 2.5 + me);
	host.nvshmemx_signal_op_on_stream(&words[2], 3, SIGNAL_ADD, 0, stream);
	host.nvshmemx_putmem_signal_on_stream(&words[3], &words[0], 8, &words[2], 1, SIGNAL_ADD, right, stream);
	host.nvshmemx_barrier_all_on_stream(stream);
	CHECK(words[2] == (me ? 1 : 3u * (unsigned int)n + 1) && *(double *)&words[3] == 2.5 + (left + n - 1) % n);
	/* All comparisons; numbers below 0 are below. */
	host.nvshmemx_signal_wait_until_on_stream(&words[2], 1, 77, stream);
	host.nvshmemx_signal_wait_until_on_stream(&words[2], 4, 77, stream);
	shorts[0] = -3;
	host.nvshmemx_short_wait_until_on_stream(&shorts[0], 4, 0, stream);
	host.nvshmemx_uint64_wait_until_on_stream(&words[1], 3, 0xff, stream);
	skipped[1] = 1;
	for (int i = 0; i < 4; i++) {
		values[i] = 5 + i;
		words[30 + i] = i == 1 ? 0 : 5u + (unsigned int)i;
	}
	host.nvshmemx_long_wait_until_all_on_stream((long *)&words[30], 4, skipped, 5, 5, stream);
	host.nvshmemx_long_wait_until_all_vector_on_stream((long *)&words[30], 4, skipped, 0, values, stream);
	host.nvshmemx_flush_on_stream(stream);
	host.nvshmemx_flush();
	host.nvshmemx_signal_counted_reset(&words[2]);
	CHECK(words[2] == 0);
	host.nvshmem_barrier_all();
}

static void *sets_later(void *word)
{
	usleep(50000);
	__atomic_store_n((uint64_t *)word, UINT64_MAX, __ATOMIC_RELEASE);
	return NULL;
}

/* Signals are numbers without a sign: none of these has come when the word is 0. */
static void waits_for_large_signals(void)
{
	static const struct {
		int cmp;
		uint64_t value;
	} cases[] = {{5, UINT64_MAX}, {5, (UINT64_C(1) << 63) + 1}, {2, UINT64_MAX - 1}, {2, (UINT64_C(1) << 63) - 1}};
	uint64_t *word = host.nvshmem_calloc(1, 8);
	pthread_t thread;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		*word = 0;
		CHECK(!pthread_create(&thread, NULL, sets_later, word));
		host.nvshmemx_signal_wait_until_on_stream(word, cases[i].cmp, cases[i].value, stream);
		CHECK(*word == UINT64_MAX && !pthread_join(thread, NULL));
	}
	host.nvshmem_barrier_all();
}

static void has_regions(void)
{
	uint32_t attrs[16] = {1};
	uint64_t handle = 0;
	int active = 7;

	CHECK(host.nvshmemx_region_is_active(1, &active) == 0 && !active);
	CHECK(host.nvshmemx_region_start(&handle, attrs) == 0 && host.nvshmemx_region_start(&handle, attrs) == 1);
	CHECK(host.nvshmemx_region_is_active(1, &active) == 0 && active);
	CHECK(host.nvshmemx_region_stop(handle + 1) == 1 && host.nvshmemx_region_stop(handle) == 0 && host.nvshmemx_region_stop(handle) == 1);
	CHECK(host.nvshmemx_region_is_active(1, &active) == 0 && !active && host.nvshmemx_region_is_active(6, &active) == 1);
}

/* ---- teams by id: the first and the last PE, the other way round; nobody else calls */

static void makes_teams_by_id(void)
{
	struct nvs_team_config config = {.version = (2 << 16) + 64, .num_contexts = 3}, back = {.num_contexts = 0};
	uint64_t *id = host.nvshmem_calloc(2, 8);
	int size = n > 1 ? 2 : 1;
	int32_t team = 7;

	if (!me) {
		CHECK(host.nvshmemx_team_get_uniqueid(&id[0]) == 0 && host.nvshmemx_team_get_uniqueid(&id[1]) == 0 && id[0] != id[1]);
		for (int pe = 1; pe < n; pe++)
			host.nvshmem_putmem(id, id, 16, pe);
	}
	host.nvshmem_barrier_all();
	CHECK(id[0] && id[0] == host.nvshmem_uint64_atomic_fetch(id, 0));
	for (int i = 0; (!me || me == n - 1) && i < 2; i++) {
		config.uniqueid = id[i];
		CHECK(host.nvshmemx_team_init(&team, &config, 1, size, me ? 0 : size - 1) == 0 && team == NVS_TEAM_FIRST);
		CHECK(host.nvshmem_team_n_pes(team) == size && host.nvshmem_team_my_pe(team) == (me ? 0 : size - 1));
		CHECK(host.nvshmem_team_translate_pe(team, 0, NVS_TEAM_WORLD) == n - 1);
		CHECK(host.nvshmem_team_get_config(team, &back) == 0 && back.num_contexts == 3);
		CHECK(host.nvshmemx_team_sync_on_stream(team, stream) == 0);
		host.nvshmem_team_destroy(team);
	}
	config.version = (1 << 16) + 64;
	CHECK(host.nvshmemx_team_init(&team, &config, 0, 1, 0) == 1 && team == NVS_TEAM_INVALID);
	host.nvshmem_barrier_all();
}

/* ---- launches */

struct launch_config {
	struct dims grid, block;
	size_t shared_bytes;
	void *stream;
	unsigned int *attributes; /* 18 words each: its number, and its value behind two of them */
	unsigned int n_attributes;
};

static int n_launched;

static void user_kernel(void **parameters)
{
	n_launched += *(int *)parameters[0];
}

static void *user_handle(void)
{
	void *module = NULL, *handle = NULL;

	fake_cuda_kernel("user", user_kernel);
	CHECK(!cuModuleLoadData(&module, "image") && !cuModuleGetFunction(&handle, module, "user") && !cuModuleUnload(module));
	return handle;
}

/* A function of the program stands for the kernel, as a CUDA runtime that is a shared library has it. */
__attribute__((visibility("default"))) int cudaGetFuncBySymbol(void **ret_function, const void *symbol);
int cudaGetFuncBySymbol(void **ret_function, const void *symbol)
{
	*ret_function = user_handle();
	return symbol == (const void *)(uintptr_t)user_kernel ? 0 : 98;
}

static void launches(void)
{
	struct dims none = {0, 0, 0}, block = {256, 1, 1};
	unsigned int attributes[18] = {2};
	struct launch_config config = {.grid = {3, 1, 1}, .block = block, .stream = stream, .attributes = attributes, .n_attributes = 1};
	int one = 1, blocks = 0;
	void *arguments[] = {&one}, *kernel = user_handle();

	CHECK(host.nvshmemx_collective_launch_query_gridsize(kernel, block, arguments, 0, &blocks) == 0 && blocks == 4 * FAKE_CUDA_MULTIPROCESSORS);
	CHECK(host.nvshmemx_collective_launch(kernel, none, block, arguments, 0, stream) == 0 && n_launched == 1);
	CHECK(fake_cuda_cooperative_blocks() == (unsigned int)blocks);
	CHECK(host.nvshmemx_collective_launch((const void *)(uintptr_t)user_kernel, (struct dims){2, 1, 3}, block, arguments, 0, stream) == 0);
	CHECK(fake_cuda_cooperative_blocks() == 6 && n_launched == 2);
	CHECK(host.nvshmemx_collective_launch(kernel, (struct dims){17, 1, 1}, block, arguments, 0, stream) == 6 && n_launched == 2);
	CHECK(host.nvshmemx_collective_launch(kernel, none, block, arguments, 1 << 20, stream) == 6);
	CHECK(host.nvshmemx_collective_launch(kernel, (struct dims){1, 0, 1}, block, arguments, 0, stream) == 1);
	CHECK(host.nvshmemx_collective_launch((const void *)(uintptr_t)launches, none, block, arguments, 0, stream) == 1);
	/* The user's word about it counts. */
	CHECK(host.nvshmemx_collective_launch_attr(&config, kernel, arguments) == 0 && fake_cuda_cooperative_blocks() == 0 && n_launched == 3);
	config.n_attributes = 0;
	CHECK(host.nvshmemx_collective_launch_attr(&config, kernel, arguments) == 0 && fake_cuda_cooperative_blocks() == 3);
}

/* ---- failures: of the host's at once, of a stream's at the end */

static void fails_on_all(void)
{
	int own[2] = {me, 0}, one = 1, *ints = host.nvshmem_calloc(4, sizeof(*ints));

	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_WORLD, &own[1], own, 1) == 1);
	/* A member that has failed keeps nobody waiting. */
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_WORLD, ints, me == n - 1 ? own : ints, 1) == (me == n - 1 ? 1 : 7));
	CHECK(host.nvshmemx_int_sum_reduce_on_stream(NVS_TEAM_WORLD, &own[1], own, 1, stream) == 1);
	CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, own, ints, 4, 0, stream) == 1);
	CHECK(host.nvshmemx_alltoallmem_on_stream(NVS_TEAM_WORLD, ints, own, 4, stream) == 1);
	CHECK(host.nvshmemx_char_fcollect_on_stream(NVS_TEAM_WORLD, (char *)own, (char *)ints, 4, stream) == 1);
	/* No put without its signal. */
	host.nvshmemx_putmem_signal_on_stream(ints, &one, 4, (uint64_t *)own, 1, SIGNAL_ADD, me, stream);
	CHECK(ints[0] == 0);
	/* There is no such root. */
	CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, ints, ints, 4, n, stream) == 0);
	/* That is no failure of what the host calls then. */
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_WORLD, &ints[1], &ints[2], 1) == 0);
	CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, ints, ints, 4, n, stream) == 0);
	CHECK(host.nvshmemx_team_sync_on_stream(NVS_TEAM_WORLD, stream) == 0 && own[1] == 0);
}

/* ---- ways */

static void does_all(void)
{
	begin();
	counts_together();
	gets_former_values();
	reduces();
	reduces_in_threads();
	reduces_in_two_teams();
	reduces_on_streams();
	moves_on_streams();
	is_captured();
	words_on_streams();
	waits_for_large_signals();
	has_regions();
	makes_teams_by_id();
	launches();
	fails_on_all();
	device_library_finalize();
	CHECK(fake_cuda_counts().modules == 0);
}

/* Syncs and copies work, by the driver, on all PEs; what needs a kernel fails and says why, but for an atomic where there is one. */
static void has_none(bool has_own)
{
	uint64_t *words;

	begin();
	words = host.nvshmem_calloc(8, 8);
	words[0] = (uint64_t)me;
	host.nvshmem_barrier_all();
	CHECK(host.nvshmemx_broadcastmem_on_stream(NVS_TEAM_WORLD, words + 1, words, 8, n - 1, stream) == 0 && words[1] == (uint64_t)n - 1);
	CHECK(host.nvshmemx_team_sync_on_stream(NVS_TEAM_WORLD, stream) == 0);
	fake_cuda_capture(1);
	CHECK(host.nvshmemx_team_sync_on_stream(NVS_TEAM_WORLD, stream) == 3);
	fake_cuda_capture(0);
	CHECK(host.nvshmem_int_sum_reduce(NVS_TEAM_WORLD, (int *)words, (int *)words, 1) == 3);
	host.nvshmemx_putmem_signal_on_stream(words + 2, words + 1, 8, words + 3, 1, SIGNAL_ADD, me, stream);
	host.nvshmemx_double_p_on_stream((double *)(words + 2), 1.5, me, stream);
	host.nvshmemx_uint64_wait_until_on_stream(words + 2, 0, 77, stream);
	host.nvshmem_uint64_atomic_inc(words + 3, me);
	CHECK(words[2] == 0 && words[3] == has_own);
	host.nvshmem_barrier_all();
	device_library_finalize();
}

int main(int argc, char **argv)
{
	bool has_own;

	CHECK(argc == 3);
	host_load();
	CHECK(!cuInit(0));
	fake_cuda_set_current(0);
	device_library_make(atoi(argv[1]));
	has_own = !strcmp(argv[2], "all") || (!strcmp(argv[2], "some") && !strcmp(getenv("SHMD_RANK"), "0"));
	if (has_own)
		fake_kernels_add();
	if (!strcmp(argv[2], "all"))
		does_all();
	else
		has_none(has_own);
	return 0;
}
