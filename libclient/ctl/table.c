/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and units of shmemctl; see table.h. */
#include "libclient/ctl/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2

void table_init(struct table *table, const char *const *heads, bool has_color)
{
	memset(table, 0, sizeof(*table));
	table->has_color = has_color;
	while (heads[table->n_columns] && table->n_columns < TABLE_MAX_COLUMNS) {
		table->heads[table->n_columns] = heads[table->n_columns];
		table->n_columns++;
	}
}

void table_deinit(struct table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	memset(table, 0, sizeof(*table));
}

static void exit_no_memory(void)
{
	fprintf(stderr, "shmemctl: out of memory\n");
	exit(EXIT_FAILURE);
}

static void table_grow(struct table *table)
{
	if (table->n_cells < table->max_cells)
		return;
	table->max_cells = table->max_cells ? table->max_cells * 2 : 64;
	table->cells = reallocarray(table->cells, table->max_cells, sizeof(*table->cells));
	if (!table->cells)
		exit_no_memory();
}

static void add(struct table *table, enum color color, const char *fmt, va_list args)
{
	struct table_cell *cell;

	table_grow(table);
	cell = &table->cells[table->n_cells];
	if (vasprintf(&cell->text, fmt, args) < 0)
		exit_no_memory();
	cell->color = color;
	table->n_cells++;
}

void table_add(struct table *table, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(table, COLOR_NONE, fmt, args);
	va_end(args);
}

void table_add_color(struct table *table, enum color color, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(table, color, fmt, args);
	va_end(args);
}

static bool is_right(const struct table *table, unsigned int column)
{
	return table->heads[column][0] == '>';
}

static const char *head_of(const struct table *table, unsigned int column)
{
	return table->heads[column] + is_right(table, column);
}

static size_t width_of(const struct table *table, unsigned int column)
{
	size_t width = strlen(head_of(table, column));

	for (size_t i = column; i < table->n_cells; i += table->n_columns)
		if (strlen(table->cells[i].text) > width)
			width = strlen(table->cells[i].text);
	return width;
}

/* The last column is not padded, so that no line ends in blanks; blanks have no colour. */
static void print_cell(const struct table *table, unsigned int column, const struct table_cell *cell, size_t width,
		       FILE *out)
{
	bool is_last = column + 1 == table->n_columns;
	int blanks = (int)(width - strlen(cell->text));
	int before = is_right(table, column) ? blanks : 0;

	fprintf(out, "%*s%s%s%s", before, "", color_on(table->has_color, cell->color), cell->text,
		color_off(table->has_color, cell->color));
	if (is_last)
		fputc('\n', out);
	else
		fprintf(out, "%*s", blanks - before + GAP, "");
}

void table_print(const struct table *table, const char *none, FILE *out)
{
	size_t widths[TABLE_MAX_COLUMNS];

	if (!table->n_cells) {
		fprintf(out, "%s\n", none);
		return;
	}
	for (unsigned int c = 0; c < table->n_columns; c++)
		widths[c] = width_of(table, c);
	for (unsigned int c = 0; c < table->n_columns; c++) {
		char *head = (char *)(uintptr_t)head_of(table, c);

		print_cell(table, c, &(struct table_cell){head, COLOR_BOLD}, widths[c], out);
	}
	for (size_t i = 0; i < table->n_cells; i++) {
		unsigned int c = (unsigned int)(i % table->n_columns);

		print_cell(table, c, &table->cells[i], widths[c], out);
	}
}

/* ---- units */

const char *units_bytes(uint64_t bytes, char buf[UNITS_BYTES])
{
	static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes / 1024;
	unsigned int i = 0;

	if (bytes < 1024) {
		snprintf(buf, UNITS_BYTES, "%" PRIu64 " B", bytes);
		return buf;
	}
	/* 1023.95 would print as 1024.0. */
	while (value >= 1023.95 && i < 5) {
		value /= 1024;
		i++;
	}
	snprintf(buf, UNITS_BYTES, "%.1f %s", value, names[i]);
	return buf;
}

static void print_long_time(uint64_t sec, char buf[UNITS_BYTES])
{
	if (sec < 3600)
		snprintf(buf, UNITS_BYTES, "%" PRIu64 " min %" PRIu64 " s", sec / 60, sec % 60);
	else if (sec < 86400)
		snprintf(buf, UNITS_BYTES, "%" PRIu64 " h %" PRIu64 " min", sec / 3600, sec % 3600 / 60);
	else
		snprintf(buf, UNITS_BYTES, "%" PRIu64 " d %" PRIu64 " h", sec / 86400, sec % 86400 / 3600);
}

const char *units_nsec(uint64_t nsec, char buf[UNITS_BYTES])
{
	if (nsec < 1000)
		snprintf(buf, UNITS_BYTES, "%" PRIu64 " ns", nsec);
	else if (nsec < 1000000)
		snprintf(buf, UNITS_BYTES, "%.1f us", (double)nsec / 1e3);
	else if (nsec < 1000000000)
		snprintf(buf, UNITS_BYTES, "%.1f ms", (double)nsec / 1e6);
	else if (nsec < 60000000000)
		snprintf(buf, UNITS_BYTES, "%.1f s", (double)nsec / 1e9);
	else
		print_long_time(nsec / 1000000000, buf);
	return buf;
}

const char *units_mbps(uint64_t mbps, char buf[UNITS_BYTES])
{
	if (!mbps)
		return strcpy(buf, "-");
	if (mbps < 1000)
		snprintf(buf, UNITS_BYTES, "%" PRIu64 " Mb/s", mbps);
	else
		snprintf(buf, UNITS_BYTES, "%g Gb/s", (double)mbps / 1000);
	return buf;
}

const char *units_rate(double per_sec, char buf[UNITS_BYTES])
{
	static const char *const names[] = {"", " k", " M", " G", " T"};
	unsigned int i = 0;

	/* 999.95 would print as 1000.0. */
	while (per_sec >= 999.95 && i < 4) {
		per_sec /= 1000;
		i++;
	}
	snprintf(buf, UNITS_BYTES, !i && per_sec < 0.05 ? "0" : "%.1f%s", per_sec, names[i]);
	return buf;
}
