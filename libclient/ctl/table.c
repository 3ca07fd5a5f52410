/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and units of shmemctl; see table.h. */
#include "libclient/ctl/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2
#define MIN_SENTENCE 40 /* columns that a sentence needs to be read easily */
#define MIN_LIST 16
#define CUT "..."

void table_init(struct table *table, const char *const *heads, bool has_color, unsigned int max_width)
{
	memset(table, 0, sizeof(*table));
	table->max_width = max_width;
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

static bool is_text(const struct table *table, unsigned int column)
{
	return table->heads[column][is_right(table, column)] == '~';
}

/* 0: the column is never left out. */
static unsigned int turn_of(const struct table *table, unsigned int column)
{
	char c = table->heads[column][is_right(table, column) + is_text(table, column)];

	return c >= '1' && c <= '9' ? (unsigned int)(c - '0') : 0;
}

static const char *head_of(const struct table *table, unsigned int column)
{
	return table->heads[column] + is_right(table, column) + is_text(table, column) + (turn_of(table, column) > 0);
}

static size_t width_of(const struct table *table, unsigned int column)
{
	size_t width = strlen(head_of(table, column));

	for (size_t i = column; i < table->n_cells; i += table->n_columns)
		if (strlen(table->cells[i].text) > width)
			width = strlen(table->cells[i].text);
	return width;
}

/* ---- what fits */

struct layout {
	size_t widths[TABLE_MAX_COLUMNS];
	bool is_left_out[TABLE_MAX_COLUMNS];
	unsigned int last; /* of the columns that are shown */
};

static size_t total_of(const struct table *table, const struct layout *layout)
{
	size_t total = 0;

	for (unsigned int c = 0; c < table->n_columns; c++)
		total += layout->is_left_out[c] ? 0 : layout->widths[c] + GAP;
	return total - GAP;
}

/* Narrows a column by the excess of the table, down to `least`. Returns whether the table then fits. */
static bool narrow(const struct table *table, struct layout *layout, unsigned int column, size_t least)
{
	size_t total = total_of(table, layout), over = total > table->max_width ? total - table->max_width : 0;
	size_t spare = layout->widths[column] > least ? layout->widths[column] - least : 0;

	layout->widths[column] -= over < spare ? over : spare;
	return over <= spare;
}

/* The column to leave out first; the last of several. False: none may go. */
static bool leave_one_out(const struct table *table, struct layout *layout)
{
	unsigned int best = table->n_columns;

	for (unsigned int c = 0; c < table->n_columns; c++)
		if (turn_of(table, c) && !layout->is_left_out[c] &&
		    (best == table->n_columns || turn_of(table, c) <= turn_of(table, best)))
			best = c;
	if (best == table->n_columns)
		return false;
	layout->is_left_out[best] = true;
	return true;
}

static void find_last(const struct table *table, struct layout *layout)
{
	for (unsigned int c = 0; c < table->n_columns; c++)
		if (!layout->is_left_out[c])
			layout->last = c;
}

/* Broken sentences are still easy to read, so that comes first; a cut list loses more than a column, so that comes last. */
static void fit(const struct table *table, struct layout *layout)
{
	find_last(table, layout);
	while (table->max_width && total_of(table, layout) > table->max_width) {
		size_t width = layout->widths[layout->last];

		if (is_text(table, layout->last) && narrow(table, layout, layout->last, MIN_SENTENCE))
			return;
		layout->widths[layout->last] = width;
		if (!leave_one_out(table, layout))
			break;
		find_last(table, layout);
	}
	for (unsigned int c = 0; table->max_width && c < table->n_columns; c++)
		if (is_text(table, c) && !layout->is_left_out[c])
			narrow(table, layout, c, c == layout->last ? MIN_SENTENCE : MIN_LIST);
}

/* ---- printing */

/* The bytes of a text that go on a line: up to the last blank that fits; a longer word is never broken. */
static size_t line_of(const char *text, size_t width)
{
	size_t n = strlen(text), at;

	if (n <= width)
		return n;
	for (at = width; at > 0 && text[at] != ' '; at--)
		;
	return at ? at : strcspn(text, " ");
}

static void put(const struct table *table, const struct table_cell *cell, const char *text, size_t n, FILE *out)
{
	fprintf(out, "%s%.*s%s", color_on(table->has_color, cell->color), (int)n, text, color_off(table->has_color, cell->color));
}

/* The last column is not padded, so that no line ends in blanks. Its further lines begin where it does. */
static void print_last(const struct table *table, const struct layout *layout, const struct table_cell *cell, FILE *out)
{
	size_t width = layout->widths[layout->last], indent = total_of(table, layout) - width, n_text = strlen(cell->text);
	size_t n = is_text(table, layout->last) ? line_of(cell->text, width) : n_text;

	if (is_right(table, layout->last))
		fprintf(out, "%*s", (int)(width - n_text), "");
	put(table, cell, cell->text, n, out);
	for (const char *rest = cell->text + n; *rest; rest += n) {
		rest += strspn(rest, " ");
		n = line_of(rest, width);
		fprintf(out, "\n%*s", (int)indent, "");
		put(table, cell, rest, n, out);
	}
	fputc('\n', out);
}

/* The number of bytes in whole characters among the first n bytes of UTF-8. */
static size_t whole_characters(const char *text, size_t n)
{
	while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

/* Blanks have no colour. */
static void print_cell(const struct table *table, const struct layout *layout, unsigned int column,
		       const struct table_cell *cell, FILE *out)
{
	size_t width = layout->widths[column], n = strlen(cell->text);
	bool is_cut = n > width;
	int blanks, before;

	if (layout->is_left_out[column])
		return;
	if (column == layout->last) {
		print_last(table, layout, cell, out);
		return;
	}
	n = is_cut ? whole_characters(cell->text, width - strlen(CUT)) : n;
	blanks = (int)(width - n - (is_cut ? strlen(CUT) : 0));
	before = is_right(table, column) ? blanks : 0;
	fprintf(out, "%*s", before, "");
	put(table, cell, cell->text, n, out);
	fprintf(out, "%s%*s", is_cut ? CUT : "", blanks - before + GAP, "");
}

static void print_left_out(const struct table *table, const struct layout *layout, FILE *out)
{
	const char *before = "left out: ";

	for (unsigned int c = 0; c < table->n_columns; c++) {
		if (!layout->is_left_out[c])
			continue;
		fprintf(out, "%s%s", before, head_of(table, c));
		before = ", ";
	}
	if (*before == ',')
		fputs(" (--wide shows all columns)\n", out);
}

void table_print(const struct table *table, const char *none, FILE *out)
{
	struct layout layout = {0};

	if (!table->n_cells) {
		fprintf(out, "%s\n", none);
		return;
	}
	for (unsigned int c = 0; c < table->n_columns; c++)
		layout.widths[c] = width_of(table, c);
	fit(table, &layout);
	for (unsigned int c = 0; c < table->n_columns; c++) {
		char *head = (char *)(uintptr_t)head_of(table, c);

		print_cell(table, &layout, c, &(struct table_cell){head, COLOR_BOLD}, out);
	}
	for (size_t i = 0; i < table->n_cells; i++)
		print_cell(table, &layout, (unsigned int)(i % table->n_columns), &table->cells[i], out);
	print_left_out(table, &layout, out);
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
