/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned tables for people, and numbers with units.
 *
 * A table is filled cell by cell, row by row, and printed as a whole, because widths depend on all cells. Out of memory
 * ends the program. No borders; colours only if has_color is set.
 *
 * A table that is wider than max_width loses columns and says which; its last column may be broken into lines, and long
 * lists in other columns may be cut. A column is left out only if its head allows it.
 */
#ifndef SHMEMD_CTL_TABLE_H
#define SHMEMD_CTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libclient/ctl/color.h"

#define TABLE_MAX_COLUMNS 18

struct table_cell {
	char *text;
	enum color color;
};

struct table {
	bool has_color;
	unsigned int n_columns;
	/*
	 * Borrowed. Marks before the name, in this order: '>' aligns the column to the right; '~' marks a column of sentences or
	 * lists, which may be broken or cut; a digit allows leaving the column out, "1" before "2".
	 */
	const char *heads[TABLE_MAX_COLUMNS];
	unsigned int max_width; /* columns of a terminal; 0: any */
	size_t n_cells;
	size_t max_cells;
	struct table_cell *cells; /* row by row */
};

#define TABLE_WIDTH 120u /* without --wide */

/* heads ends with NULL. */
void table_init(struct table *table, const char *const *heads, bool has_color, unsigned int max_width);
void table_deinit(struct table *table);
void table_add(struct table *table, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, coloured. */
void table_add_color(struct table *table, enum color color, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Head and rows, and below them the names of columns left out; or `none` if there is no row. */
void table_print(const struct table *table, const char *none, FILE *out);

#define UNITS_BYTES 32
/* "512 B", "4.0 KiB"; "3.2 ms", "1 min 20 s". Returns buf. */
const char *units_bytes(uint64_t bytes, char buf[UNITS_BYTES]);
const char *units_nsec(uint64_t nsec, char buf[UNITS_BYTES]);
const char *units_mbps(uint64_t mbps, char buf[UNITS_BYTES]); /* "100 Gb/s"; "-" for 0 */
/* "0", "7.5", "12.3 k", "4.1 M": things per second. */
const char *units_rate(double per_sec, char buf[UNITS_BYTES]);

#endif
