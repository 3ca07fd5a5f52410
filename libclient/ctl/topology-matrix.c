/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix of distances, in the form of nvidia-smi topo -m, no wider than the limit.
 *
 * If it is too wide, devices that are alike share a row and a column: neighbours by index whose distances to all others are the
 * same. NICs join first, then GPUs. If that is not enough, only GPUs have rows, and columns come in blocks below each other. A
 * line below the matrix names what it leaves out.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/topology.h"

#define LEAST_COLUMN 6 /* if there is room */
#define HEAD_BYTES 24
#define NUMA_HEAD "NUMA"

/* Devices are numbered through: GPUs, then NICs. */
struct group {
	unsigned int first, n;
	unsigned int width; /* of its column, with a blank behind it */
	char head[HEAD_BYTES];
};

struct matrix {
	const struct topo *topo;
	FILE *out;
	unsigned int n_groups;
	unsigned int n_rows; /* groups that have one: the first */
	unsigned int row_head;
	struct group groups[TOPO_MAX_GPUS + TOPO_MAX_NICS];
};

static bool is_gpu(const struct topo *topo, unsigned int device)
{
	return device < topo->n_gpus;
}

static unsigned int node_of(const struct topo *topo, unsigned int device)
{
	return is_gpu(topo, device) ? topo->gpus[device].node : topo->nics[device - topo->n_gpus].node;
}

static const char *word_of(const struct topo *topo, unsigned int a, unsigned int b, char buf[TOPO_WORD_BYTES])
{
	if (a == b)
		return " X";
	if (is_gpu(topo, a) && is_gpu(topo, b))
		return topo_gpu_word(topo, a, b, buf);
	return topology_distance(topo, node_of(topo, a), node_of(topo, b));
}

static const char *numa_of(const struct topo *topo, unsigned int device, char buf[TOPO_WORD_BYTES])
{
	int numa = topo->nodes[node_of(topo, device)].numa;

	if (numa < 0 || numa >= TOPO_MAX_NUMA)
		return "-";
	snprintf(buf, TOPO_WORD_BYTES, "%d", numa);
	return buf;
}

/* ---- groups */

static bool are_alike(const struct topo *topo, unsigned int a, unsigned int b)
{
	char word_a[TOPO_WORD_BYTES], word_b[TOPO_WORD_BYTES];

	if (is_gpu(topo, a) != is_gpu(topo, b) || strcmp(numa_of(topo, a, word_a), numa_of(topo, b, word_b)))
		return false;
	for (unsigned int i = 0; i < topo->n_gpus + topo->n_nics; i++)
		if (i != a && i != b && strcmp(word_of(topo, a, i, word_a), word_of(topo, b, i, word_b)))
			return false;
	return true;
}

static void name_group(const struct topo *topo, struct group *group)
{
	unsigned int number = is_gpu(topo, group->first) ? group->first : group->first - topo->n_gpus;
	const char *kind = is_gpu(topo, group->first) ? "GPU" : "NIC";

	if (group->n == 1)
		snprintf(group->head, HEAD_BYTES, "%s%u", kind, number);
	else
		snprintf(group->head, HEAD_BYTES, "%s%u-%u", kind, number, number + group->n - 1);
}

/* Devices from this index on may join their neighbours. */
static void make_groups(struct matrix *matrix, unsigned int first_joining)
{
	const struct topo *topo = matrix->topo;

	matrix->n_groups = 0;
	for (unsigned int i = 0; i < topo->n_gpus + topo->n_nics; i++) {
		struct group *last = matrix->n_groups ? &matrix->groups[matrix->n_groups - 1] : NULL;

		if (last && last->first >= first_joining && are_alike(topo, last->first, i))
			last->n++;
		else
			matrix->groups[matrix->n_groups++] = (struct group){.first = i, .n = 1};
	}
	matrix->n_rows = matrix->n_groups;
	for (unsigned int i = 0; i < matrix->n_groups; i++)
		name_group(topo, &matrix->groups[i]);
}

/* All distances between members of a group are the same. */
static const char *cell_of(const struct matrix *matrix, unsigned int row, unsigned int column, char buf[TOPO_WORD_BYTES])
{
	const struct group *a = &matrix->groups[row], *b = &matrix->groups[column];

	return word_of(matrix->topo, a->first, row == column && a->n > 1 ? a->first + 1 : b->first, buf);
}

/* ---- widths */

static unsigned int width_of(const struct matrix *matrix, unsigned int column, unsigned int least)
{
	unsigned int width = (unsigned int)strlen(matrix->groups[column].head);
	char word[TOPO_WORD_BYTES];

	for (unsigned int row = 0; row < matrix->n_rows; row++) {
		unsigned int n = (unsigned int)strlen(cell_of(matrix, row, column, word));

		width = n > width ? n : width;
	}
	return width + 1 > least ? width + 1 : least;
}

static unsigned int measure(struct matrix *matrix, unsigned int least)
{
	unsigned int total = 0;

	matrix->row_head = 0;
	for (unsigned int i = 0; i < matrix->n_groups; i++) {
		unsigned int n = (unsigned int)strlen(matrix->groups[i].head) + 1;

		matrix->groups[i].width = width_of(matrix, i, least);
		total += matrix->groups[i].width;
		if (i < matrix->n_rows && n > matrix->row_head)
			matrix->row_head = n;
	}
	if (least && matrix->row_head <= least)
		matrix->row_head = least + 1;
	return total + matrix->row_head + (unsigned int)strlen(NUMA_HEAD);
}

/* Columns of the usual width if they fit, else as narrow as possible. */
static bool fits(struct matrix *matrix, unsigned int max_width)
{
	return measure(matrix, LEAST_COLUMN) <= max_width || !max_width || measure(matrix, 0) <= max_width;
}

/* ---- printing */

static void print_block(const struct matrix *matrix, unsigned int first, unsigned int end)
{
	bool is_last = end == matrix->n_groups;
	char word[TOPO_WORD_BYTES];

	fprintf(matrix->out, "%-*s", (int)matrix->row_head, "");
	for (unsigned int i = first; i < end; i++)
		fprintf(matrix->out, "%-*s", i + 1 < end || is_last ? (int)matrix->groups[i].width : 0, matrix->groups[i].head);
	fputs(is_last ? NUMA_HEAD "\n" : "\n", matrix->out);
	for (unsigned int row = 0; row < matrix->n_rows; row++) {
		fprintf(matrix->out, "%-*s", (int)matrix->row_head, matrix->groups[row].head);
		for (unsigned int i = first; i < end; i++)
			fprintf(matrix->out, "%-*s", i + 1 < end || is_last ? (int)matrix->groups[i].width : 0,
				cell_of(matrix, row, i, word));
		fprintf(matrix->out, "%s\n", is_last ? numa_of(matrix->topo, matrix->groups[row].first, word) : "");
	}
}

/* As many columns beside each other as fit, at least one. */
static void print_blocks(const struct matrix *matrix, unsigned int max_width)
{
	unsigned int first = 0;

	while (first < matrix->n_groups) {
		unsigned int width = matrix->row_head + (unsigned int)strlen(NUMA_HEAD), end = first;

		while (end < matrix->n_groups && (end == first || !max_width || width + matrix->groups[end].width <= max_width))
			width += matrix->groups[end++].width;
		if (first)
			fputc('\n', matrix->out);
		print_block(matrix, first, end);
		first = end;
	}
}

static void print_notes(const struct matrix *matrix)
{
	bool has_shared = matrix->n_groups < matrix->topo->n_gpus + matrix->topo->n_nics;
	bool has_left_out = matrix->n_rows < matrix->n_groups;

	if (has_shared || has_left_out)
		fputc('\n', matrix->out);
	if (has_shared)
		fputs("Devices that are equally far from all others share a row and a column (--wide shows each).\n", matrix->out);
	if (has_left_out)
		fputs("left out: distances between NICs (--wide shows them)\n", matrix->out);
}

static void leave_out_nics(struct matrix *matrix)
{
	unsigned int n = 0;

	while (n < matrix->n_groups && is_gpu(matrix->topo, matrix->groups[n].first))
		n++;
	matrix->n_rows = n ? n : matrix->n_groups;
}

/* Takes each step only if the ones before were not enough. */
static void arrange(struct matrix *matrix, unsigned int max_width)
{
	if (fits(matrix, max_width))
		return;
	make_groups(matrix, matrix->topo->n_gpus);
	if (fits(matrix, max_width))
		return;
	make_groups(matrix, 0);
	if (fits(matrix, max_width))
		return;
	leave_out_nics(matrix);
	if (!fits(matrix, max_width))
		measure(matrix, LEAST_COLUMN);
}

void topology_print_matrix(const struct topo *topo, unsigned int max_width, FILE *out)
{
	struct matrix *matrix = calloc(1, sizeof(*matrix));
	unsigned int n_devices = topo->n_gpus + topo->n_nics;

	if (!matrix)
		abort();
	matrix->topo = topo;
	matrix->out = out;
	make_groups(matrix, n_devices);
	arrange(matrix, max_width);
	print_blocks(matrix, max_width);
	print_notes(matrix);
	free(matrix);
}
