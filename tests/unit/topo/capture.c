/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/topo/capture.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/topo/xml.h"
#include "tests/lib/test.h"

#define MAX_CHILDREN 512

struct element {
	char *name;
	unsigned int n_attrs;
	char *keys[XML_MAX_ATTRS];
	char *values[XML_MAX_ATTRS];
	unsigned int n_children;
	struct element **children;
};

unsigned int capture_random(unsigned int *seed, unsigned int below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (*seed >> 8) % below;
}

char *capture_load(const char *folder, const char *path, size_t *ret_bytes)
{
	char full[512], *text = calloc(1, TOPO_MAX_FILE_BYTES / 8);
	FILE *file;

	ASSERT(text);
	ASSERT_LT(snprintf(full, sizeof(full), "%s/%s", folder, path), (int)sizeof(full));
	file = fopen(full, "re");
	if (!file) {
		free(text);
		return NULL;
	}
	*ret_bytes = fread(text, 1, TOPO_MAX_FILE_BYTES / 8 - 1, file);
	fclose(file);
	return text;
}

static struct element *new_element(const struct xml *xml)
{
	struct element *element = calloc(1, sizeof(*element));

	ASSERT(element);
	element->name = strdup(xml->name);
	for (unsigned int i = 0; i < xml->n_attrs; i++) {
		element->keys[i] = strdup(xml->attrs[i].name);
		element->values[i] = strdup(xml->attrs[i].value);
	}
	element->n_attrs = xml->n_attrs;
	element->children = calloc(MAX_CHILDREN, sizeof(*element->children));
	ASSERT(element->children);
	return element;
}

struct element *capture_parse(char *text, size_t n_bytes)
{
	struct element *open[XML_MAX_DEPTH + 1] = {NULL};
	struct xml *xml = calloc(1, sizeof(*xml));
	struct element *root;
	int event;

	ASSERT(xml);
	xml_init(xml, text, n_bytes);
	while ((event = xml_next(xml)) != XML_END) {
		struct element *above;

		ASSERT_GE(event, 0);
		if (event != XML_OPEN)
			continue;
		open[xml->depth] = new_element(xml);
		above = open[xml->depth - 1];
		if (!above)
			continue;
		ASSERT_LT(above->n_children, MAX_CHILDREN);
		above->children[above->n_children++] = open[xml->depth];
	}
	root = open[1];
	free(xml);
	return root;
}

void capture_free(struct element *element)
{
	for (unsigned int i = 0; i < element->n_children; i++)
		capture_free(element->children[i]);
	for (unsigned int i = 0; i < element->n_attrs; i++) {
		free(element->keys[i]);
		free(element->values[i]);
	}
	free(element->children);
	free(element->name);
	free(element);
}

static void write_element(const struct element *element, FILE *out)
{
	fprintf(out, "<%s", element->name);
	for (unsigned int i = 0; i < element->n_attrs; i++) {
		fprintf(out, " %s=\"", element->keys[i]);
		for (const char *at = element->values[i]; *at; at++)
			if (*at == '<' || *at == '&' || *at == '"')
				fputs(*at == '<' ? "&lt;" : *at == '&' ? "&amp;" : "&quot;", out);
			else
				fputc(*at, out);
		fputc('"', out);
	}
	fputs(">\n", out);
	for (unsigned int i = 0; i < element->n_children; i++)
		write_element(element->children[i], out);
	fprintf(out, "</%s>\n", element->name);
}

char *capture_write(const struct element *element, size_t *ret_bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_bytes);

	ASSERT(out);
	write_element(element, out);
	fclose(out);
	return text;
}

struct topo *capture_topo(const struct element *element)
{
	char why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;
	size_t n_bytes;
	char *text = capture_write(element, &n_bytes);

	ASSERT_OK(topo_parse(text, n_bytes, &topo, why));
	free(text);
	return topo;
}

/* ---- changing ------------------------------------------------------------------------------------------------------ */

static bool is_address(const struct element *element, unsigned int attr, uint64_t *ret_pci)
{
	const char *key = element->keys[attr];

	return (!strcmp(key, "busid") || !strcmp(key, "pci_busid") || !strcmp(key, "target") || !strcmp(key, "pci")) &&
	       host_pci_parse(element->values[attr], ret_pci);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void add_bus(struct renumber *buses, uint64_t bus)
{
	for (unsigned int i = 0; i < buses->n; i++)
		if (buses->from[i] == bus)
			return;
	ASSERT_LT(buses->n, CAPTURE_MAX_BUSES);
	buses->from[buses->n++] = bus;
}

static void find_buses(const struct element *element, struct renumber *buses)
{
	uint64_t pci;

	for (unsigned int i = 0; i < element->n_attrs; i++)
		if (is_address(element, i, &pci))
			add_bus(buses, pci >> 8);
	for (unsigned int i = 0; i < element->n_children; i++)
		find_buses(element->children[i], buses);
}

void capture_buses(const struct element *element, struct renumber *buses)
{
	buses->n = 0;
	find_buses(element, buses);
	qsort(buses->from, buses->n, sizeof(buses->from[0]), compare_u64);
}

void renumber_make(struct renumber *renumber, bool keeps_order, unsigned int *seed)
{
	uint64_t bus = 0;

	for (unsigned int i = 0; i < renumber->n; i++) {
		bus += 1 + capture_random(seed, 40);
		renumber->to[i] = bus;
	}
	for (unsigned int i = renumber->n; i > 1 && !keeps_order; i--) {
		unsigned int other = capture_random(seed, i);
		uint64_t swapped = renumber->to[i - 1];

		renumber->to[i - 1] = renumber->to[other];
		renumber->to[other] = swapped;
	}
}

uint64_t renumber_pci(const struct renumber *renumber, uint64_t pci)
{
	for (unsigned int i = 0; renumber && i < renumber->n; i++)
		if (renumber->from[i] == pci >> 8)
			return renumber->to[i] << 8 | (pci & 0xff);
	return pci;
}

void capture_renumber(struct element *element, const struct renumber *renumber)
{
	char text[HOST_PCI_BYTES];
	uint64_t pci;

	for (unsigned int i = 0; i < element->n_attrs; i++) {
		if (!is_address(element, i, &pci))
			continue;
		free(element->values[i]);
		element->values[i] = strdup(host_pci_text(renumber_pci(renumber, pci), text));
	}
	for (unsigned int i = 0; i < element->n_children; i++)
		capture_renumber(element->children[i], renumber);
}

void capture_keep(struct element *element, const char *name)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < element->n_children; i++) {
		if (strcmp(element->children[i]->name, name)) {
			capture_free(element->children[i]);
			continue;
		}
		capture_keep(element->children[i], name);
		element->children[n++] = element->children[i];
	}
	element->n_children = n;
}

void capture_shuffle_children(struct element *element, unsigned int *seed)
{
	for (unsigned int i = element->n_children; i > 1; i--) {
		unsigned int other = capture_random(seed, i);
		struct element *swapped = element->children[i - 1];

		element->children[i - 1] = element->children[other];
		element->children[other] = swapped;
	}
	for (unsigned int i = 0; i < element->n_children; i++)
		capture_shuffle_children(element->children[i], seed);
}

void capture_rename(struct element *element, unsigned int *seed)
{
	bool is_named = !strcmp(element->name, "net") || !strcmp(element->name, "nic") || !strcmp(element->name, "object");
	char name[32];

	for (unsigned int i = 0; is_named && i < element->n_attrs; i++) {
		if (strcmp(element->keys[i], "name"))
			continue;
		snprintf(name, sizeof(name), "x%u", capture_random(seed, 1000000));
		free(element->values[i]);
		element->values[i] = strdup(name);
	}
	for (unsigned int i = 0; i < element->n_children; i++)
		capture_rename(element->children[i], seed);
}

/* ---- expectations -------------------------------------------------------------------------------------------------- */

static void read_nics(char *text, struct row *row)
{
	char *rest = NULL;

	for (char *part = strtok_r(text, ",\n", &rest); part; part = strtok_r(NULL, ",\n", &rest)) {
		ASSERT_LT(row->n_nics, ROW_MAX_NICS);
		part[strcspn(part, " ")] = 0;
		ASSERT(host_pci_parse(part, &row->nics[row->n_nics++]));
	}
}

bool row_read(FILE *table, struct row *row)
{
	char line[2048], gpu[64], nics[1536] = "";

	*row = (struct row){.n_nics = 0};
	do {
		if (!fgets(line, sizeof(line), table))
			return false;
	} while (line[0] == '#' || line[0] == '\n');
	ASSERT_GE(sscanf(line, "%63[^\t]\t%63[^\t]\t%15[^\t\n]\t%1535[^\n]", row->file, gpu, row->relation, nics), 3);
	ASSERT(host_pci_parse(gpu, &row->gpu));
	read_nics(nics, row);
	return true;
}

int capture_gpu_of(const struct topo *topo, uint64_t pci)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if (topo->nodes[topo->gpus[i].node].pci == pci)
			return (int)i;
	return -1;
}

static uint64_t nic_pci(const struct topo *topo, unsigned int nic)
{
	return topo->nodes[topo->nics[nic].node].pci;
}

static bool row_has(const struct row *row, uint64_t pci, const struct renumber *renumber)
{
	for (unsigned int i = 0; i < row->n_nics; i++)
		if (renumber_pci(renumber, row->nics[i]) == pci)
			return true;
	return false;
}

static bool same_set(const struct row *a, const struct row *b)
{
	return a->n_nics == b->n_nics && memcmp(a->nics, b->nics, sizeof(a->nics[0]) * a->n_nics) == 0;
}

static void judge_relation(const struct topo *topo, unsigned int gpu, unsigned int nic, const struct row *row)
{
	enum topo_distance distance = topo_distance(topo, topo->gpus[gpu].node, topo->nics[nic].node);

	if (!strcmp(row->relation, "BRIDGE"))
		ASSERT(distance == TOPO_PIX || distance == TOPO_PXB);
	else if (!strcmp(row->relation, "NUMA"))
		ASSERT(distance == TOPO_PHB || distance == TOPO_NODE);
	else
		ASSERT_EQ(distance, TOPO_SYS);
}

static void judge_row(const struct topo *topo, const struct topo_map *map, const struct row *row,
		      const struct renumber *renumber)
{
	int gpu = capture_gpu_of(topo, renumber_pci(renumber, row->gpu));
	char why[TOPO_WHY_BYTES];

	ASSERT_GE(gpu, 0);
	if (!row->n_nics) {
		ASSERT_EQ(map->gpus[gpu].n_nics, 0);
		ASSERT_NE(topo_reason_none(topo, map, why)[0], 0);
		return;
	}
	ASSERT_GT(map->gpus[gpu].n_nics, 0);
	for (unsigned int i = 0; i < map->gpus[gpu].n_nics; i++) {
		unsigned int nic = map->gpus[gpu].nics[i];

		ASSERT(row_has(row, nic_pci(topo, nic), renumber));
		judge_relation(topo, (unsigned int)gpu, nic, row);
		ASSERT_NE(topo_reason(topo, map, (unsigned int)gpu, nic, why)[0], 0);
	}
}

/* The NICs of one set: as evenly loaded as can be, and none idle while there are GPUs to share. */
static void judge_set(const struct topo *topo, const struct topo_map *map, const struct row *set, unsigned int n_rows_of_set,
		      const struct renumber *renumber)
{
	unsigned int least = UINT32_MAX, most = 0;

	for (unsigned int nic = 0; nic < topo->n_nics; nic++) {
		if (!row_has(set, nic_pci(topo, nic), renumber))
			continue;
		least = map->n_gpus[nic] < least ? map->n_gpus[nic] : least;
		most = map->n_gpus[nic] > most ? map->n_gpus[nic] : most;
	}
	if (!set->n_nics)
		return;
	ASSERT_LE(most - least, 1);
	if (set->n_nics >= n_rows_of_set)
		ASSERT_EQ(least, 1);
}

void rows_judge(const struct topo *topo, const struct row *rows, unsigned int n_rows, const struct renumber *renumber)
{
	struct topo_map *map = calloc(1, sizeof(*map));

	ASSERT(map);
	topo_assign(topo, NULL, map);
	ASSERT_EQ(topo->n_gpus, n_rows);
	for (unsigned int i = 0; i < n_rows; i++) {
		unsigned int n_same = 0;

		judge_row(topo, map, &rows[i], renumber);
		for (unsigned int j = 0; j < n_rows; j++)
			n_same += same_set(&rows[i], &rows[j]);
		judge_set(topo, map, &rows[i], n_same, renumber);
	}
	free(map);
}
