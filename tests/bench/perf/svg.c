/* SPDX-License-Identifier: Apache-2.0 */
/* The ratios as a plot. */
#include "tests/bench/perf/table.h"

#include <string.h>

#define WIDTH 900
#define LEFT 320 /* of the bars; titles stand before them */
#define UNIT 250 /* the length of a bar of 1 */
#define ROW 34
#define TOP 70

/* As a time: of rates the inverse. */
static double as_time(const struct perf_row *row, double ratio)
{
	return row->more_is_better && ratio > 0 ? 1 / ratio : ratio;
}

static double ratio_of(const struct perf_table *table, unsigned int row, enum perf_side of, enum perf_side to)
{
	double a = perf_median(&table->figures[row][of]), b = perf_median(&table->figures[row][to]);

	return a > 0 && b > 0 ? as_time(&perf_rows[row], a / b) : 0;
}

static void xml_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		default:
			putc(*text, out);
		}
	}
}

static void bar(FILE *out, int y, double ratio, const char *color)
{
	double shown = ratio > PERF_SVG_MOST ? PERF_SVG_MOST : ratio;

	if (!(ratio > 0))
		return;
	fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"11\" fill=\"%s\"/>", LEFT, y, UNIT * shown, color);
	fprintf(out, "<text x=\"%.1f\" y=\"%d\">%.2f</text>\n", LEFT + UNIT * shown + 4, y + 10, ratio);
}

static void title(FILE *out, int y, const char *text)
{
	fprintf(out, "<text x=\"8\" y=\"%d\">", y);
	xml_text(out, text);
	fprintf(out, "</text>\n");
}

static bool has(const struct perf_table *table, enum perf_side side)
{
	unsigned int row;

	for (row = 0; row < perf_n_rows; row++) {
		if (table->figures[row][side].n)
			return true;
	}
	return false;
}

void perf_print_svg(FILE *out, const struct perf_table *table)
{
	enum perf_side to = has(table, PERF_NVSHMEM) ? PERF_NVSHMEM : PERF_FLOOR;
	int height = TOP + ROW * (int)perf_n_rows + 10;
	char head[256];
	unsigned int row;

	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n", WIDTH, height);
	fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", WIDTH, height);
	snprintf(head, sizeof(head), "%s, %s", table->gpu, table->mode);
	title(out, 20, head);
	snprintf(head, sizeof(head), "Times of ours (blue) and of a bare kernel (grey); 1 is %s's. Shorter is better.", to == PERF_NVSHMEM ? "NVSHMEM" : "the bare kernel");
	title(out, 40, head);
	for (row = 0; row < perf_n_rows; row++) {
		int y = TOP + ROW * (int)row;

		title(out, y + 12, perf_rows[row].title);
		bar(out, y, ratio_of(table, row, PERF_OURS, to), "#2a6fb0");
		bar(out, y + 13, ratio_of(table, row, PERF_FLOOR, to), "#a0a0a0");
	}
	fprintf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#c03030\"/>\n</svg>\n", LEFT + UNIT, TOP - 8, LEFT + UNIT, height - 8);
}
