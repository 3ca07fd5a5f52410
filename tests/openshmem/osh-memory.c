/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric heap, and questions about addresses: sections 9.3 and 9.1.7 to 9.1.10. */
#include <stdlib.h>

#include "tests/openshmem/osh.h"

/* All PEs have the same block: what is written through it arrives there. */
static void check_symmetric(long *block, size_t n)
{
	shmem_long_p(&block[n - 1], shmem_my_pe() + 100, next_pe());
	shmem_barrier_all();
	CHECK(block[n - 1] == previous_pe() + 100);
	shmem_barrier_all();
}

static void try_malloc(void)
{
	long *block = shmem_malloc(10 * sizeof(*block)), *hinted;

	CHECK(block && (uintptr_t)block % _Alignof(max_align_t) == 0);
	check_symmetric(block, 10);
	hinted = shmem_malloc_with_hints(sizeof(*hinted), SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
	CHECK(hinted && hinted != block);
	check_symmetric(hinted, 1);
	/* 9.3.1, 9.3.4, 9.3.5, 9.3.6: no bytes, no block. */
	CHECK(!shmem_malloc(0) && !shmem_calloc(0, 8) && !shmem_calloc(8, 0) && !shmem_align(64, 0) && !shmem_malloc_with_hints(0, 0));
	/* 9.3.2: a null pointer is no block. */
	shmem_free(NULL);
	shmem_free(hinted);
	shmem_free(block);
}

static void try_zeroed_and_aligned(void)
{
	long *block = shmem_malloc(4096), *zeroed, *aligned;

	memset(block, 0xff, 4096);
	shmem_free(block);
	zeroed = shmem_calloc(512, 8);
	for (int i = 0; i < 512; i++)
		CHECK(zeroed[i] == 0);
	shmem_barrier_all();
	check_symmetric(zeroed, 512);
	for (size_t alignment = 8; alignment <= 65536; alignment *= 8) {
		aligned = shmem_align(alignment, 24);
		CHECK(aligned && (uintptr_t)aligned % alignment == 0);
		check_symmetric(aligned, 3);
		shmem_free(aligned);
	}
	/* 9.3.4: otherwise a null pointer. */
	CHECK(!shmem_align(0, 24) && !shmem_align(3, 24) && !shmem_align(65, 24));
	shmem_free(zeroed);
}

static void try_realloc(void)
{
	long *block = shmem_realloc(NULL, 4 * sizeof(*block));

	for (int i = 0; i < 4; i++)
		block[i] = shmem_my_pe() + i;
	block = shmem_realloc(block, 1000 * sizeof(*block));
	CHECK(block);
	for (int i = 0; i < 4; i++)
		CHECK(block[i] == shmem_my_pe() + i);
	shmem_barrier_all();
	check_symmetric(block, 1000);
	block = shmem_realloc(block, 2 * sizeof(*block));
	CHECK(block && block[0] == shmem_my_pe() && block[1] == shmem_my_pe() + 1);
	shmem_barrier_all();
	check_symmetric(block, 2);
	/* 9.3.3: no bytes free the block. */
	CHECK(!shmem_realloc(block, 0));
}

/* 9.3.1: without room a null pointer on all PEs, and the library goes on. */
static void try_too_much(void)
{
	long *block;

	CHECK(!shmem_malloc(SIZE_MAX / 4) && !shmem_calloc(SIZE_MAX / 4, 8));
	block = shmem_malloc(64);
	CHECK(block && !shmem_realloc(block, SIZE_MAX / 4));
	check_symmetric(block, 8);
	shmem_free(block);
}

/* The heap grows: more than it has at first. */
static void try_much(void)
{
	enum { MANY = 4, BYTES = 32 << 20 };
	char *blocks[MANY];

	for (int i = 0; i < MANY; i++) {
		blocks[i] = shmem_malloc(BYTES);
		CHECK(blocks[i]);
		check_symmetric((long *)blocks[i], BYTES / sizeof(long));
	}
	for (int i = 0; i < MANY; i++)
		shmem_free(blocks[i]);
}

static void try_addresses(void)
{
	int *block = shmem_malloc(sizeof(*block)), on_stack, *seen;

	for (int pe = 0; pe < shmem_n_pes(); pe++)
		CHECK(shmem_pe_accessible(pe) == 1 && shmem_addr_accessible(block, pe) == 1);
	CHECK(shmem_pe_accessible(-1) == 0 && shmem_pe_accessible(shmem_n_pes()) == 0);
	CHECK(shmem_addr_accessible(&on_stack, 0) == 0 && shmem_addr_accessible(NULL, 0) == 0);
	CHECK(shmem_addr_accessible(block, shmem_n_pes()) == 0);
	CHECK(shmem_ptr(block, shmem_my_pe()) == block && shmem_team_ptr(SHMEM_TEAM_WORLD, block, shmem_my_pe()) == block);
	CHECK(!shmem_ptr(&on_stack, next_pe()) && !shmem_team_ptr(SHMEM_TEAM_INVALID, block, 0));
	/* Where others are mapped, stores by the pointer arrive; where they are not, there is none. */
	*block = -1;
	shmem_barrier_all();
	seen = shmem_ptr(block, next_pe());
	CHECK(seen == shmem_team_ptr(SHMEM_TEAM_WORLD, block, next_pe()));
	CHECK(!!seen == (shmem_team_n_pes(SHMEM_TEAM_SHARED) == shmem_n_pes()));
	if (seen)
		*seen = shmem_my_pe();
	shmem_barrier_all();
	CHECK(*block == (seen ? previous_pe() : -1));
	shmem_barrier_all();
	shmem_free(block);
}

int main(void)
{
	shmem_init();
	try_malloc();
	try_zeroed_and_aligned();
	try_realloc();
	try_too_much();
	try_much();
	try_addresses();
	shmem_finalize();
	return 0;
}
