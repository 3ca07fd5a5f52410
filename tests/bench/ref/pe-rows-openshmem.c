/* SPDX-License-Identifier: Apache-2.0 */
/* The rows by whatever OpenSHMEM its compiler wrapper brings. Below version 1.5 put_signal is a put, a fence and a p. */
#include <shmem.h>

#include "tests/bench/pe-rows.h"

static void p(uint64_t *dest, uint64_t value, int pe)
{
	shmem_uint64_p(dest, value, pe);
}

static void put(void *dest, const void *source, size_t bytes, int pe)
{
	shmem_putmem(dest, source, bytes, pe);
}

static void put_signal(void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value, int pe)
{
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
	shmem_putmem_signal(dest, source, bytes, signal, value, SHMEM_SIGNAL_SET, pe);
#else
	shmem_putmem(dest, source, bytes, pe);
	shmem_fence();
	shmem_uint64_p(signal, value, pe);
#endif
}

static uint64_t fetch_add(uint64_t *dest, uint64_t value, int pe)
{
	/* Open MPI 4.1 has none for uint64_t. */
	return (uint64_t)shmem_long_atomic_fetch_add((long *)dest, (long)value, pe);
}

static void wait_equal(uint64_t *word, uint64_t value)
{
	shmem_uint64_wait_until(word, SHMEM_CMP_EQ, value);
	/* That of Open MPI 4.1.6 returns before. */
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		;
}

int main(void)
{
	const struct pe_rows_calls calls = {p, put, put_signal, fetch_add, wait_equal, shmem_quiet, shmem_barrier_all};
	struct pe_rows_memory *memory;

	shmem_init();
	memory = shmem_calloc(1, sizeof(*memory));
	if (shmem_n_pes() == 2 && memory)
		pe_rows_run(&calls, memory, shmem_my_pe());
	shmem_finalize();
	return 0;
}
