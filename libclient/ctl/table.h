/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned tables for people, and numbers with units.
 *
 * A table is filled cell by cell, row by row, and printed at once, because widths are known only then. Cells of
 * numbers are aligned to the right. Out of memory ends the program. Nothing but text is written: no colours, no borders.
 */
#ifndef SHMEMD_CTL_TABLE_H
#define SHMEMD_CTL_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_MAX_COLUMNS 16

struct table {
	unsigned int n_columns;
	const char *heads[TABLE_MAX_COLUMNS]; /* borrowed; a leading '>' aligns the column to the right */
	size_t n_cells;
	size_t max_cells;
	char **cells; /* row by row */
};

/* heads ends with NULL. */
void table_init(struct table *table, const char *const *heads);
void table_deinit(struct table *table);
void table_add(struct table *table, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Head and rows, or `none` where there is no row. */
void table_print(const struct table *table, const char *none, FILE *out);

#define UNITS_BYTES 32
/* "512 B", "4.0 KiB"; "3.2 ms", "1 min 20 s". Returns buf. */
const char *units_bytes(uint64_t bytes, char buf[UNITS_BYTES]);
const char *units_nsec(uint64_t nsec, char buf[UNITS_BYTES]);
const char *units_mbps(uint64_t mbps, char buf[UNITS_BYTES]); /* "100 Gb/s"; "-" for 0 */

#endif
