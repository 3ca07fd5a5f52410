/* SPDX-License-Identifier: Apache-2.0 */
/* The rows by the host functions of this library. */
#include <stdio.h>
#include <stdlib.h>

#include <shmd.h>

#include "tests/bench/pe-rows.h"

static struct shmd_world *world;
static struct shmd_ctx *ctx;

static void must(int r)
{
	if (r < 0) {
		fprintf(stderr, "pe-rows-shmd: %s\n", shmd_error_text());
		exit(1);
	}
}

static void p(uint64_t *dest, uint64_t value, int pe)
{
	must(shmd_p(ctx, dest, value, 8, pe));
}

static void put(void *dest, const void *source, size_t bytes, int pe)
{
	must(shmd_put(ctx, dest, source, bytes, pe));
}

static void put_signal(void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value, int pe)
{
	must(shmd_put_signal(ctx, dest, source, bytes, signal, value, SHMD_SIGNAL_SET, pe));
}

static uint64_t fetch_add(uint64_t *dest, uint64_t value, int pe)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = value};
	uint64_t old;

	must(shmd_atomic_fetch(ctx, dest, &add, pe, &old));
	return old;
}

static void wait_equal(uint64_t *word, uint64_t value)
{
	must(shmd_wait_until(ctx, word, 8, SHMD_CMP_EQ, value));
}

static void quiet(void)
{
	must(shmd_quiet(ctx));
}

static void barrier(void)
{
	must(shmd_barrier_all(world));
}

int main(void)
{
	const struct pe_rows_calls calls = {p, put, put_signal, fetch_add, wait_equal, quiet, barrier};
	struct pe_rows_memory *memory;

	must(shmd_world_open(NULL, &world));
	must(shmd_calloc(world, 1, sizeof(*memory), 0, (void **)&memory));
	ctx = shmd_world_ctx(world);
	if (shmd_n_pes(world) != 2) {
		fprintf(stderr, "pe-rows-shmd: run it with two PEs: shmemctl run -n 2\n");
		exit(2);
	}
	pe_rows_run(&calls, memory, shmd_my_pe(world));
	must(shmd_world_close(world));
	return 0;
}
