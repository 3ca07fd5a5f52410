/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of the symmetric heap, without memory: nsec of a malloc and of a free beside 10, 10,000 and 100,000 live
 * allocations, in a heap that programs have used: half of what was allocated is freed, at random.
 */
#include <stdio.h>
#include <stdlib.h>

#include "libclient/runtime/heap/heap-alloc.h"
#include "proto/base/nsec.h"
#include "tests/bench/bench.h"

#define MIB (UINT64_C(1) << 20)
#define N_EACH 100u

struct scene {
	struct heap *heap;
	uint64_t *offsets;
	unsigned int n_live;
	uint64_t random;
};

static uint64_t random_below(struct scene *scene, uint64_t n)
{
	scene->random ^= scene->random << 13;
	scene->random ^= scene->random >> 7;
	scene->random ^= scene->random << 17;
	return scene->random % n;
}

static uint64_t get(struct scene *scene, uint64_t size)
{
	uint64_t offset;

	if (heap_reserve(scene->heap) < 0 || heap_malloc(scene->heap, &(struct heap_request){.size = size}, &offset) < 0)
		abort();
	return offset;
}

/* Local free, list, agreement of the only PE. */
static void put(struct scene *scene, uint64_t offset)
{
	uint32_t slot;

	if (heap_release(scene->heap, offset) < 0 || heap_take_freed(scene->heap, &slot, 1) != 1 ||
	    heap_apply_freed(scene->heap, 0, &slot, 1) < 0)
		abort();
}

static uint64_t small_size(struct scene *scene)
{
	return 1 + random_below(scene, UINT64_C(1) << (6 + random_below(scene, 8)));
}

static void make_scene(struct scene *scene, unsigned int n_live)
{
	unsigned int n = 2 * n_live;

	scene->random = 88172645463325252ull;
	scene->offsets = calloc(n, sizeof(*scene->offsets));
	if (!scene->offsets || heap_new(&(struct heap_attr){.n_pes = 1, .range_bytes = MIB << 16}, &scene->heap) < 0 ||
	    heap_add_chunk(scene->heap, 0, MIB << 16) < 0)
		abort();
	for (unsigned int i = 0; i < n; i++)
		scene->offsets[i] = get(scene, small_size(scene));
	for (; n > n_live; n--) {
		uint64_t one = random_below(scene, n);

		put(scene, scene->offsets[one]);
		scene->offsets[one] = scene->offsets[n - 1];
	}
	scene->n_live = n_live;
}

static double malloc_large(void *arg)
{
	struct scene *scene = arg;
	uint64_t offsets[N_EACH], start = nsec_now();

	for (unsigned int i = 0; i < N_EACH; i++)
		offsets[i] = get(scene, MIB);
	start = nsec_now() - start;
	for (unsigned int i = 0; i < N_EACH; i++)
		put(scene, offsets[i]);
	return (double)start / N_EACH;
}

/* One of the live ones goes, and one of another size comes: the two together. */
static double replace_small(void *arg)
{
	struct scene *scene = arg;
	uint64_t start = nsec_now();

	for (unsigned int i = 0; i < N_EACH; i++) {
		uint64_t *one = &scene->offsets[random_below(scene, scene->n_live)];

		put(scene, *one);
		*one = get(scene, small_size(scene));
	}
	return (double)(nsec_now() - start) / N_EACH;
}

static double malloc_run(void *arg)
{
	return bench_median_slice(malloc_large, arg);
}

static double replace_run(void *arg)
{
	return bench_median_slice(replace_small, arg);
}

int main(void)
{
	const unsigned int n_live[] = {10, 10000, 100000};
	bool good = true;

	bench_header("symmetric heap: the allocator");
	for (unsigned int i = 0; i < sizeof(n_live) / sizeof(n_live[0]); i++) {
		struct scene scene = {0};
		char name[2][64];

		make_scene(&scene, n_live[i]);
		snprintf(name[0], sizeof(name[0]), "malloc 1 MiB, %u live", n_live[i]);
		snprintf(name[1], sizeof(name[1]), "free + malloc, %u live", n_live[i]);
		good = bench_run(&(struct bench_row){.name = name[0], .unit = "ns", .ours = malloc_run, .arg = &scene,
				 .goal = 2000,
						     .fail_limit = 20000}) && good;
		good = bench_run(&(struct bench_row){.name = name[1], .unit = "ns", .ours = replace_run, .arg = &scene,
				 .goal = 4000,
						     .fail_limit = 40000}) && good;
		heap_free(scene.heap);
		free(scene.offsets);
	}
	return good ? 0 : 1;
}
