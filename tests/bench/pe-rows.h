/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same loops between two PEs for several libraries, so that they can be compared: the program of each library fills the calls and
 * runs the rows; PE 0 prints "NAME NSEC" for each. compare-openshmem reads that.
 */
#ifndef SHMEMD_BENCH_PE_ROWS_H
#define SHMEMD_BENCH_PE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#define PE_ROWS_BYTES (1u << 20)

/* Symmetric memory, zeroed. */
struct pe_rows_memory {
	uint64_t word, signal, counter, data;
	uint8_t source[PE_ROWS_BYTES], dest[PE_ROWS_BYTES];
};

/* Calls end the program when they fail. */
struct pe_rows_calls {
	void (*p)(uint64_t *dest, uint64_t value, int pe);
	void (*put)(void *dest, const void *source, size_t bytes, int pe);
	void (*put_signal)(void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value, int pe);
	uint64_t (*fetch_add)(uint64_t *dest, uint64_t value, int pe);
	void (*wait_equal)(uint64_t *word, uint64_t value);
	void (*quiet)(void);
	void (*barrier)(void);
};

/* There are two PEs, and both call. */
void pe_rows_run(const struct pe_rows_calls *calls, struct pe_rows_memory *memory, int me);

#endif
