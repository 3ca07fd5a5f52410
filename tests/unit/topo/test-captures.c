/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of real machines, in a folder that SHMEMD_TEST_TOPOLOGIES names; without it only those that are made here.
 *
 * Every capture is judged as it is, and with buses renumbered, names changed and siblings in another order.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"
#include "tests/unit/topo/capture.h"

#define MAX_ROWS 256
#define N_VARIANTS 6

static const char *folder(void)
{
	const char *path = getenv("SHMEMD_TEST_TOPOLOGIES");

	if (!path || !*path)
		test_skip("SHMEMD_TEST_TOPOLOGIES names no folder of captures");
	return path;
}

static unsigned int load_rows(const char *path, struct row rows[MAX_ROWS])
{
	char name[512];
	unsigned int n = 0;
	FILE *table;

	ASSERT_LT(snprintf(name, sizeof(name), "%s/expected.tsv", path), (int)sizeof(name));
	table = fopen(name, "re");
	ASSERT(table);
	while (n < MAX_ROWS && row_read(table, &rows[n]))
		n++;
	fclose(table);
	ASSERT_LT(n, MAX_ROWS);
	return n;
}

static struct element *load_capture(const char *path, const char *file)
{
	static const char *const kinds[] = {"nccl-xml", "hwloc-xml"};
	struct element *element;
	char name[128], *text = NULL;
	size_t n_bytes = 0;

	for (unsigned int i = 0; i < 2 && !text; i++) {
		snprintf(name, sizeof(name), "%s/%s", kinds[i], file);
		text = capture_load(path, name, &n_bytes);
	}
	ASSERT(text);
	element = capture_parse(text, n_bytes);
	free(text);
	return element;
}

/* fn for each file, with its rows. */
static unsigned int each_capture(void (*fn)(const struct element *original, const struct row *rows, unsigned int n_rows,
					    const char *file))
{
	static struct row rows[MAX_ROWS];
	const char *path = folder();
	unsigned int n = load_rows(path, rows), n_files = 0;

	for (unsigned int first = 0, next; first < n; first = next) {
		struct element *element = load_capture(path, rows[first].file);

		for (next = first; next < n && !strcmp(rows[next].file, rows[first].file); next++)
			;
		fn(element, &rows[first], next - first, rows[first].file);
		capture_free(element);
		n_files++;
	}
	return n_files;
}

static struct element *copy_of(const struct element *original)
{
	size_t n_bytes;
	char *text = capture_write(original, &n_bytes);
	struct element *copy = capture_parse(text, n_bytes);

	free(text);
	return copy;
}

/* ---- as it is ------------------------------------------------------------------------------------------------------ */

static void judge_as_it_is(const struct element *original, const struct row *rows, unsigned int n_rows, const char *file)
{
	struct topo *topo = capture_topo(original);

	printf("%s: %u GPUs, %u NICs\n", file, topo->n_gpus, topo->n_nics);
	rows_judge(topo, rows, n_rows, NULL);
	topo_free(topo);
}

TEST(every_capture_gets_the_nearest_nics)
{
	ASSERT_EQ(each_capture(judge_as_it_is), 10);
}

/* ---- changed ------------------------------------------------------------------------------------------------------- */

static struct topo_map *map_of(const struct topo *topo)
{
	struct topo_map *map = calloc(1, sizeof(*map));

	ASSERT(map);
	topo_assign(topo, NULL, map);
	return map;
}

/* The indexes are in the order of addresses, so the answer is the same in numbers. */
static void assert_same_map(const struct topo *a, const struct topo *b)
{
	struct topo_map *map_a = map_of(a), *map_b = map_of(b);

	ASSERT_EQ(a->n_gpus, b->n_gpus);
	ASSERT_EQ(a->n_nics, b->n_nics);
	for (unsigned int i = 0; i < a->n_gpus; i++) {
		ASSERT_EQ(map_a->gpus[i].n_nics, map_b->gpus[i].n_nics);
		ASSERT_MEMEQ(map_a->gpus[i].nics, map_b->gpus[i].nics, sizeof(map_a->gpus[i].nics[0]) * map_a->gpus[i].n_nics);
	}
	ASSERT_MEMEQ(map_a->excluded, map_b->excluded, sizeof(map_a->excluded[0]) * a->n_nics);
	free(map_a);
	free(map_b);
}

static void judge_in_order(const struct element *original, const struct row *rows, unsigned int n_rows, const char *file)
{
	struct topo *topo = capture_topo(original);

	for (unsigned int seed = 1; seed <= N_VARIANTS; seed++) {
		struct element *changed = copy_of(original);
		unsigned int random = seed;
		struct topo *variant;
		struct renumber renumber;

		capture_buses(changed, &renumber);
		renumber_make(&renumber, true, &random);
		capture_renumber(changed, &renumber);
		capture_rename(changed, &random);
		capture_shuffle_children(changed, &random);
		variant = capture_topo(changed);
		assert_same_map(topo, variant);
		rows_judge(variant, rows, n_rows, &renumber);
		topo_free(variant);
		capture_free(changed);
	}
	topo_free(topo);
}

TEST_TIMEOUT(new_numbers_names_and_orders_give_the_permuted_answer, 60)
{
	ASSERT_EQ(each_capture(judge_in_order), 10);
}

static void judge_in_any_order(const struct element *original, const struct row *rows, unsigned int n_rows, const char *file)
{
	for (unsigned int seed = 1; seed <= N_VARIANTS; seed++) {
		struct element *changed = copy_of(original);
		unsigned int random = seed;
		struct renumber renumber;
		struct topo *variant;

		capture_buses(changed, &renumber);
		renumber_make(&renumber, false, &random);
		capture_renumber(changed, &renumber);
		variant = capture_topo(changed);
		rows_judge(variant, rows, n_rows, &renumber);
		topo_free(variant);
		capture_free(changed);
	}
}

TEST_TIMEOUT(buses_in_any_order_keep_the_nearest_nics, 60)
{
	ASSERT_EQ(each_capture(judge_in_any_order), 10);
}

static void judge_dump(const struct element *original, const struct row *rows, unsigned int n_rows, const char *file)
{
	struct topo *topo = capture_topo(original), *again = NULL;
	char *text = NULL, why[TOPO_WHY_BYTES];
	size_t n_bytes = 0;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	topo_dump(topo, out);
	fclose(out);
	ASSERT_OK(topo_parse(text, n_bytes, &again, why));
	assert_same_map(topo, again);
	rows_judge(again, rows, n_rows, NULL);
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		for (unsigned int j = 0; j < topo->n_gpus; j++)
			ASSERT_EQ(topo_gpu_links(topo, i, j), topo_gpu_links(again, i, j));
	topo_free(again);
	topo_free(topo);
	free(text);
}

TEST(a_dump_of_a_capture_is_the_same_machine)
{
	ASSERT_EQ(each_capture(judge_dump), 10);
}

/* ---- matrices ------------------------------------------------------------------------------------------------------ */

#define MATRIX_MAX_ROWS 32

/* A row of a matrix that a user posted: the nearest NICs of a GPU. */
struct matrix_row {
	char name[32];
	unsigned int n_gpus;
	unsigned int n_nics;
	unsigned int gpu;
	char relation[8];
	bool is_near[TOPO_MAX_NICS];
};

static bool read_matrix_row(FILE *table, struct matrix_row *row)
{
	char line[1024], nics[256], *rest = NULL;

	*row = (struct matrix_row){.n_gpus = 0};
	do {
		if (!fgets(line, sizeof(line), table))
			return false;
	} while (line[0] == '#' || line[0] == '\n');
	ASSERT_EQ(sscanf(line, "%31[^\t]\t%*[^\t]\t%u\t%u\t%u\t%255[^\t]\t%7[^\t\n]", row->name, &row->n_gpus, &row->n_nics,
			 &row->gpu, nics, row->relation), 6);
	for (char *part = strtok_r(nics, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
		const char *digits = part + strlen(part);

		while (digits > part && digits[-1] >= '0' && digits[-1] <= '9')
			digits--;
		row->is_near[atoi(digits)] = true;
	}
	return true;
}

static void write_function(FILE *out, const char *class_code, unsigned int bus, bool has_own_switch)
{
	if (has_own_switch)
		fprintf(out, "<bridge hops=\"2\">");
	fprintf(out, "<bridge hops=\"1\"><function pci=\"0000:%02x:00.0\" class=\"%s\"/></bridge>", bus, class_code);
	if (has_own_switch)
		fprintf(out, "</bridge>");
}

/* Buses of NICs begin here, so that their order is that of their numbers. */
#define NIC_BUS 0x10
#define GPU_BUS 0x80

static bool same_nearest(const struct matrix_row *a, const struct matrix_row *b)
{
	return memcmp(a->is_near, b->is_near, sizeof(a->is_near)) == 0;
}

/* The GPUs with the same nearest NICs, and these, below a switch of their own. */
static void write_group(FILE *out, const struct matrix_row *rows, unsigned int n_rows, unsigned int first)
{
	bool is_pxb = !strcmp(rows[first].relation, "PXB");

	fprintf(out, "<host><bridge hops=\"1\"><bridge hops=\"1\">");
	for (unsigned int i = 0; i < n_rows; i++)
		if (same_nearest(&rows[i], &rows[first]))
			write_function(out, "0302", GPU_BUS + rows[i].gpu, false);
	for (unsigned int nic = 0; nic < rows[first].n_nics; nic++)
		if (rows[first].is_near[nic])
			write_function(out, "0207", NIC_BUS + nic, is_pxb);
	fprintf(out, "</bridge></bridge></host>");
}

/* A device without a row is far from everything. */
static void write_strangers(FILE *out, const struct matrix_row *rows, unsigned int n_rows)
{
	for (unsigned int gpu = 0; gpu < rows[0].n_gpus; gpu++) {
		bool has_row = false;

		for (unsigned int i = 0; i < n_rows; i++)
			has_row |= rows[i].gpu == gpu;
		if (!has_row)
			fprintf(out, "<host><function pci=\"%02x:00.0\" class=\"0302\"/></host>", GPU_BUS + gpu);
	}
	for (unsigned int nic = 0; nic < rows[0].n_nics; nic++) {
		bool has_row = false;

		for (unsigned int i = 0; i < n_rows; i++)
			has_row |= rows[i].is_near[nic];
		if (!has_row)
			fprintf(out, "<host><function pci=\"%02x:00.0\" class=\"0207\"/></host>", NIC_BUS + nic);
	}
}

static struct topo *rebuild(const struct matrix_row *rows, unsigned int n_rows)
{
	char *text = NULL, why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	fprintf(out, "<shmemd-topology version=\"1\" numa_nodes=\"2\">");
	for (unsigned int i = 0; i < n_rows; i++) {
		bool is_first = true;

		for (unsigned int before = 0; before < i; before++)
			is_first &= !same_nearest(&rows[i], &rows[before]);
		if (is_first)
			write_group(out, rows, n_rows, i);
	}
	write_strangers(out, rows, n_rows);
	fprintf(out, "</shmemd-topology>");
	fclose(out);
	ASSERT_OK(topo_parse(text, n_bytes, &topo, why));
	free(text);
	return topo;
}

static void judge_matrix(const struct matrix_row *rows, unsigned int n_rows)
{
	struct topo *topo = rebuild(rows, n_rows);
	struct topo_map *map = map_of(topo);

	printf("%s: %u GPUs, %u NICs\n", rows[0].name, topo->n_gpus, topo->n_nics);
	ASSERT_EQ(topo->n_gpus, rows[0].n_gpus);
	ASSERT_EQ(topo->n_nics, rows[0].n_nics);
	for (unsigned int i = 0; i < n_rows; i++) {
		const struct topo_gpu_map *got = &map->gpus[rows[i].gpu];

		ASSERT_GT(got->n_nics, 0);
		for (unsigned int j = 0; j < got->n_nics; j++) {
			ASSERT(rows[i].is_near[got->nics[j]]);
			ASSERT_STREQ(topo_word(topo_distance(topo, topo->gpus[rows[i].gpu].node, topo->nics[got->nics[j]].node)),
				     rows[i].relation);
		}
		for (unsigned int nic = 0; nic < topo->n_nics; nic++)
			if (rows[i].is_near[nic])
				ASSERT_GT(map->n_gpus[nic], 0);
	}
	free(map);
	topo_free(topo);
}

TEST(matrices_of_posts_give_the_nics_that_they_show)
{
	static struct matrix_row rows[MATRIX_MAX_ROWS];
	unsigned int n = 0, n_cases = 0;
	char name[512];
	FILE *table;

	ASSERT_LT(snprintf(name, sizeof(name), "%s/topo-m-cases.tsv", folder()), (int)sizeof(name));
	table = fopen(name, "re");
	ASSERT(table);
	while (n < MATRIX_MAX_ROWS && read_matrix_row(table, &rows[n]))
		n++;
	fclose(table);
	for (unsigned int first = 0, next; first < n; first = next, n_cases++) {
		for (next = first; next < n && !strcmp(rows[next].name, rows[first].name); next++)
			;
		judge_matrix(&rows[first], next - first);
	}
	ASSERT_EQ(n_cases, 4);
}

/* ---- trees of sysfs ------------------------------------------------------------------------------------------------ */

static struct topo *read_archive(const char *name)
{
	struct topo_host_attr attr = {0};
	struct sysfs_tree tree;
	char command[1024], sys[128];
	struct topo *topo = NULL;

	sysfs_tree_init(&tree);
	ASSERT_LT(snprintf(command, sizeof(command), "python3 '%s' '%s/sysfs/%s' '%s'", SHMD_TEST_EXTRACT, folder(), name,
			   tree.root), (int)sizeof(command));
	ASSERT_EQ(system(command), 0);
	snprintf(sys, sizeof(sys), "%s/sys", tree.root);
	attr.sys = sys;
	ASSERT_OK(topo_read_host(&attr, &topo));
	sysfs_tree_deinit(&tree);
	return topo;
}

TEST_TIMEOUT(a_two_socket_machine_with_one_nic_is_discovered, 60)
{
	struct topo *topo = read_archive("hwloc-sysfs-mlx4-2socket.tar.bz2");
	char pci[HOST_PCI_BYTES];

	ASSERT_EQ(topo->n_gpus, 0);
	/* The one in software on the same machine does not count. */
	ASSERT_EQ(topo->n_nics, 1);
	ASSERT_EQ(topo->n_numa, 2);
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx4_0");
	ASSERT_STREQ(host_pci_text(topo->nodes[topo->nics[0].node].pci, pci), "0000:82:00.0");
	ASSERT_EQ(topo->nodes[topo->nics[0].node].numa, 1);
	ASSERT_EQ(topo->nodes[topo->nics[0].node].depth, 3);
	ASSERT_EQ(topo->nics[0].seen.state, HOST_STATE_ACTIVE);
	ASSERT_EQ(topo->nics[0].seen.fabric, HOST_FABRIC_INFINIBAND);
	ASSERT_EQ(topo->nics[0].seen.rate_mbps, 56000);
	ASSERT_EQ(topo->nics[0].guid, 0x0002c90300f9bfa0);
	ASSERT_STREQ(topo->nics[0].seen.firmware, "2.11.500");
	topo_free(topo);
}

TEST_TIMEOUT(a_nic_of_an_old_class_is_one_by_its_rdma_device, 60)
{
	struct topo *topo = read_archive("hwloc-sysfs-qib-2socket.tar.bz2");

	ASSERT_EQ(topo->n_nics, 1);
	ASSERT_EQ(topo->n_numa, 4);
	ASSERT_STREQ(topo->nics[0].seen.name, "qib0");
	ASSERT_EQ(topo->nodes[topo->nics[0].node].class_code, 0x0c06);
	ASSERT_EQ(topo->nodes[topo->nics[0].node].numa, 2);
	ASSERT_EQ(topo->nics[0].seen.state, HOST_STATE_ACTIVE);
	ASSERT_EQ(topo->nics[0].seen.rate_mbps, 40000);
	topo_free(topo);
}

/* ---- without the folder -------------------------------------------------------------------------------------------- */

static const char *const small_hwloc =
	"<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
	"<object type=\"Machine\" nodeset=\"0x00000003\">"
	"<object type=\"Package\" nodeset=\"0x00000001\"><object type=\"NUMANode\" nodeset=\"0x00000001\"/>"
	"<object type=\"Bridge\" bridge_type=\"0-1\">"
	"<object type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"0000:01:00.0\">"
	"<object type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"0000:02:00.0\">"
	"<object type=\"PCIDev\" pci_busid=\"0000:03:00.0\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\"/></object>"
	"<object type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"0000:02:01.0\">"
	"<object type=\"PCIDev\" pci_busid=\"0000:04:00.0\" pci_type=\"0207 [15b3:1021] [15b3:0003] 00\">"
	"<object type=\"OSDev\" name=\"ib0\" osdev_type=\"2\"/>"
	"<object type=\"OSDev\" name=\"mlx5_1\" osdev_type=\"3\"><info name=\"Port1State\" value=\"4\"/></object></object></object>"
	"</object></object></object>"
	"<object type=\"Package\" nodeset=\"0x00000002\"><object type=\"NUMANode\" nodeset=\"0x00000002\"/>"
	"<object type=\"Bridge\" bridge_type=\"0-1\">"
	"<object type=\"PCIDev\" pci_busid=\"0000:81:00.0\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\"/></object>"
	"<object type=\"Bridge\" bridge_type=\"0-1\">"
	"<object type=\"PCIDev\" pci_busid=\"0000:c1:00.0\" pci_type=\"0200 [15b3:1021] [15b3:0003] 00\">"
	"<object type=\"OSDev\" name=\"mlx5_0\" osdev_type=\"3\"/></object>"
	"<object type=\"PCIDev\" pci_busid=\"0000:c2:00.0\" pci_type=\"0200 [8086:1521] [8086:0000] 00\">"
	"<object type=\"OSDev\" name=\"eth0\" osdev_type=\"2\"/></object></object></object>"
	"</object></topology>";

static const char *const small_nccl =
	"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"ffff:ff:01.0\" class=\"0x060400\">"
	"<pci busid=\"0000:03:00.0\" class=\"0x030200\" vendor=\"0x10de\"><gpu dev=\"0\">"
	"<nvlink target=\"0000:81:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>"
	"<pci busid=\"0000:04:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_1\" port=\"1\" guid=\"0x1\" speed=\"400000\"/></nic>"
	"</pci></pci></cpu>"
	"<cpu numaid=\"1\"><pci busid=\"0000:81:00.0\" class=\"0x030200\" vendor=\"0x10de\"/>"
	"<pci busid=\"0000:c1:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_0\" port=\"1\" guid=\"0x2\"/></nic></pci>"
	"<nic><net name=\"eth0\" port=\"0\" guid=\"0x0\"/></nic></cpu></system>";

static struct topo *parse_text(const char *text)
{
	char *copy = strdup(text), why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;

	ASSERT_OK(topo_parse(copy, strlen(copy), &topo, why));
	free(copy);
	return topo;
}

static void judge_small(struct topo *topo, enum topo_distance across)
{
	struct topo_map *map = map_of(topo);

	ASSERT_EQ(topo->n_gpus, 2);
	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_STREQ(topo->nics[map->gpus[0].nics[0]].seen.name, "mlx5_1");
	ASSERT_STREQ(topo->nics[map->gpus[1].nics[0]].seen.name, "mlx5_0");
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_PIX);
	ASSERT_EQ(topo_distance(topo, topo->gpus[1].node, topo->nics[1].node), across);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[1].node), TOPO_SYS);
	free(map);
	topo_free(topo);
}

TEST(small_machines_in_every_form_are_read)
{
	struct topo *topo = parse_text(small_nccl);
	char word[TOPO_WORD_BYTES];

	ASSERT_STREQ(topo_gpu_word(topo, 0, 1, word), "NV4");
	ASSERT_STREQ(topo_gpu_word(topo, 1, 0, word), "NV4");
	judge_small(topo, TOPO_PHB);
	topo = parse_text(small_hwloc);
	ASSERT_EQ(topo->nics[0].seen.state, HOST_STATE_ACTIVE);
	ASSERT_STREQ(topo->nics[0].seen.netdev, "ib0");
	judge_small(topo, TOPO_NODE);
}
