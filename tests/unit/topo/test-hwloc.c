/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc reads the same files, as we do: for every two devices, GPUs and NICs, the common bridge, the bridges on the
 * way and the NUMA nodes must be the same.
 */
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/capture.h"
#include "tests/unit/topo/machine.h"

#define CLASS_BRIDGE 0x0604

static hwloc_topology_t load(const char *text, size_t n_bytes)
{
	hwloc_topology_t theirs;

	/* Its plug-ins are not wanted: they load the libraries of GPUs. */
	setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
	ASSERT_OK(hwloc_topology_init(&theirs));
	ASSERT_OK(hwloc_topology_set_io_types_filter(theirs, HWLOC_TYPE_FILTER_KEEP_ALL));
	if (hwloc_topology_set_xmlbuffer(theirs, text, (int)n_bytes + 1) || hwloc_topology_load(theirs)) {
		hwloc_topology_destroy(theirs);
		return NULL;
	}
	return theirs;
}

static hwloc_obj_t device_of(hwloc_topology_t theirs, uint64_t pci)
{
	return hwloc_get_pcidev_by_busid(theirs, (unsigned int)(pci >> 16), pci >> 8 & 0xff, pci >> 3 & 0x1f, pci & 7);
}

/* The NUMA nodes of a device, of which the object above it that is of CPUs or memory is. */
static hwloc_const_nodeset_t nodes_of(hwloc_topology_t theirs, hwloc_obj_t device)
{
	return hwloc_get_non_io_ancestor_obj(theirs, device)->nodeset;
}

/* In one place: on the same NUMA nodes, and there are others, or no more than one at all, or no more than one package. */
static bool share_place(hwloc_topology_t theirs, hwloc_obj_t a, hwloc_obj_t b)
{
	bool is_part = hwloc_bitmap_weight(nodes_of(theirs, a)) < hwloc_get_nbobjs_by_type(theirs, HWLOC_OBJ_NUMANODE);

	return (is_part || hwloc_get_nbobjs_by_type(theirs, HWLOC_OBJ_NUMANODE) == 1 ||
		hwloc_get_nbobjs_by_type(theirs, HWLOC_OBJ_PACKAGE) == 1) &&
	       hwloc_bitmap_isequal(nodes_of(theirs, a), nodes_of(theirs, b));
}

/* The library's own function knows no devices. */
static hwloc_obj_t meeting_of(hwloc_obj_t a, hwloc_obj_t b)
{
	for (; a; a = a->parent)
		for (hwloc_obj_t above = b; above; above = above->parent)
			if (above == a)
				return a;
	return NULL;
}

static hwloc_obj_t host_of(hwloc_obj_t at)
{
	while (at && (at->type != HWLOC_OBJ_BRIDGE ||
		      at->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_HOST))
		at = at->parent;
	return at;
}

static unsigned int bridges_between(hwloc_obj_t device, hwloc_obj_t above)
{
	unsigned int n = 0;

	for (hwloc_obj_t at = device->parent; at != above; at = at->parent)
		n += at->type == HWLOC_OBJ_BRIDGE;
	return n;
}

struct judge {
	const struct topo *ours;
	hwloc_topology_t theirs;
	bool is_split; /* hwloc has a host bridge once for each NUMA node of its devices, and we once */
	bool has_hosts; /* several with GPUs */
	unsigned int n_seen[TOPO_SYS + 1]; /* pairs at this distance */
};

static bool is_same_host(const struct judge *judge, hwloc_obj_t a, hwloc_obj_t b)
{
	return a == b || (judge->is_split && a->attr->bridge.downstream.pci.domain == b->attr->bridge.downstream.pci.domain &&
			  a->attr->bridge.downstream.pci.secondary_bus == b->attr->bridge.downstream.pci.secondary_bus);
}

static void judge_init(struct judge *judge, const struct topo *ours, hwloc_topology_t theirs)
{
	hwloc_obj_t first = NULL;

	judge->ours = ours;
	judge->theirs = theirs;
	judge->has_hosts = false;
	for (unsigned int gpu = 0; gpu < ours->n_gpus; gpu++) {
		hwloc_obj_t host =
			host_of(device_of(theirs, ours->nodes[ours->gpus[gpu].node].pci));

		judge->has_hosts |= first && host && !is_same_host(judge, host, first);
		first = first ? first : host;
	}
}

/* In words of README.md: a host bridge is a flat switch where it is not the only one with GPUs. */
static enum topo_distance distance_by_hwloc(const struct judge *judge, hwloc_obj_t a, hwloc_obj_t b)
{
	hwloc_obj_t meeting = meeting_of(a, b);
	bool is_below_host = a->parent == meeting && b->parent == meeting;

	if (a == b)
		return TOPO_SELF;
	if (meeting->type != HWLOC_OBJ_BRIDGE)
		return share_place(judge->theirs, a, b) ? TOPO_NODE : TOPO_SYS;
	if (host_of(meeting) == meeting)
		return is_below_host && judge->has_hosts ? TOPO_PIX : TOPO_PHB;
	return bridges_between(a, meeting) <= 1 && bridges_between(b, meeting) <= 1 ? TOPO_PIX
										    : TOPO_PXB;
}

static void compare(struct judge *judge, unsigned int node_a, unsigned int node_b)
{
	enum topo_distance distance = topo_distance(judge->ours, node_a, node_b);
	hwloc_obj_t a = device_of(judge->theirs, judge->ours->nodes[node_a].pci);
	hwloc_obj_t b = device_of(judge->theirs, judge->ours->nodes[node_b].pci);

	ASSERT(a && b);
	ASSERT_EQ(distance, distance_by_hwloc(judge, a, b));
	judge->n_seen[distance]++;
}

/* GPUs, then NICs. */
static unsigned int node_of(const struct topo *topo, unsigned int device)
{
	return device < topo->n_gpus ? topo->gpus[device].node
				     : topo->nics[device - topo->n_gpus].node;
}

static void compare_all(struct judge *judge)
{
	unsigned int n = judge->ours->n_gpus + judge->ours->n_nics;

	for (unsigned int a = 0; a < n; a++)
		for (unsigned int b = 0; b < n; b++)
			compare(judge, node_of(judge->ours, a), node_of(judge->ours, b));
}

static unsigned int count_rdma(hwloc_topology_t theirs)
{
	unsigned int n = 0;

	for (hwloc_obj_t at = NULL; (at = hwloc_get_next_osdev(theirs, at));)
		n += at->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
	return n;
}

static bool judge_capture(const char *folder, const char *name)
{
	struct judge judge = {0};
	hwloc_topology_t theirs;
	size_t n_bytes = 0;
	char *text = capture_load(folder, name, &n_bytes);
	struct element *element = capture_parse(text, n_bytes);
	struct topo *ours = capture_topo(element);

	free(text);
	/* Without its plug-ins it knows neither comments nor much else of XML. */
	capture_keep(element, "object");
	text = capture_write(element, &n_bytes);
	theirs = load(text, n_bytes);
	printf("%s: %s, %u GPUs, %u NICs\n", name, theirs ? "read" : "not read", ours->n_gpus, ours->n_nics);
	if (theirs) {
		ASSERT_EQ(ours->n_nics, count_rdma(theirs));
		judge_init(&judge, ours, theirs);
		compare_all(&judge);
		hwloc_topology_destroy(theirs);
	}
	topo_free(ours);
	capture_free(element);
	free(text);
	return theirs;
}

/* One of the captures is of a newer version than the hwloc of Debian 12 reads. */
TEST(hwloc_sees_the_distances_that_we_see)
{
	static const char *const names[] = {"hwloc-xml/nixl-p4d-a100.xml", "hwloc-xml/nixl-p5-h100-32efa.xml",
					    "hwloc-xml/nixl-g6-l4.xml", "hwloc-xml/mpibind-pascal-p100.xml",
					    "hwloc-xml/hwloc-dgx2-v100.xml"};
	const char *folder = getenv("SHMEMD_TEST_TOPOLOGIES");
	unsigned int n = 0;

	if (!folder || !*folder)
		test_skip("SHMEMD_TEST_TOPOLOGIES names no folder of captures");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		n += judge_capture(folder, names[i]);
	ASSERT_GE(n, 4);
}

/* ---- machines at random, in the form of hwloc ------------------------------------------------------------------------ */

struct writer {
	const struct topo *topo;
	FILE *out;
	unsigned int n_objects;
	unsigned int n_memories; /* NUMA nodes of each package; the first has its number */
};

static void open_object(struct writer *writer, const char *type)
{
	fprintf(writer->out, "<object type=\"%s\" gp_index=\"%u\" ", type, ++writer->n_objects);
}

static void put_sets(struct writer *writer, unsigned int cpus, unsigned int nodes)
{
	fprintf(writer->out, "cpuset=\"0x%x\" complete_cpuset=\"0x%x\" nodeset=\"0x%x\" complete_nodeset=\"0x%x\"", cpus, cpus, nodes, nodes);
}

static void put_pci(struct writer *writer, const struct topo_node *node, unsigned int class_code)
{
	char pci[HOST_PCI_BYTES];

	fprintf(writer->out,
		"pci_busid=\"%s\" pci_type=\"%04x [%04x:%04x] [0000:0000] 00\" "
		"pci_link_speed=\"0.0\"",
		host_pci_text(node->pci, pci), class_code, node->vendor, node->device);
}

static void put_nics(struct writer *writer, unsigned int node)
{
	for (unsigned int i = 0; i < writer->topo->n_nics; i++) {
		if (writer->topo->nics[i].node != node)
			continue;
		open_object(writer, "OSDev");
		fprintf(writer->out, "name=\"%s\" osdev_type=\"3\"/>\n",
			writer->topo->nics[i].seen.name);
	}
}

/* Writes a host bridge with its bus, and below it only the devices of this NUMA node. */
static void put_tree(struct writer *writer, unsigned int index, int numa)
{
	const struct topo_node *node = &writer->topo->nodes[index];

	open_object(writer, node->kind == TOPO_FUNCTION ? "PCIDev" : "Bridge");
	if (node->kind == TOPO_HOST)
		fprintf(writer->out, "bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"%04x:[%02x-%02x]\"",
			(unsigned int)(node->pci >> 16), (unsigned int)(node->pci >> 8 & 0xff),
			(unsigned int)(node->pci >> 8 & 0xff));
	if (node->kind == TOPO_BRIDGE) {
		fprintf(writer->out,
			"bridge_type=\"1-1\" depth=\"%u\" bridge_pci=\"0000:[00-ff]\" ",
			node->depth);
		put_pci(writer, node, CLASS_BRIDGE);
	}
	if (node->kind == TOPO_FUNCTION)
		put_pci(writer, node, node->class_code);
	fprintf(writer->out, ">\n");
	put_nics(writer, index);
	for (unsigned int i = index + 1; i < writer->topo->n_nodes; i++)
		if (writer->topo->nodes[i].parent == (int)index && writer->topo->nodes[i].numa == numa)
			put_tree(writer, i, numa);
	fprintf(writer->out, "</object>\n");
}

/* hwloc knows NUMA nodes by where a host bridge stands, so one with devices of several stands on each of them. */
static bool has_on_node(const struct topo *topo, unsigned int host, int numa)
{
	for (unsigned int i = host + 1; i < topo->n_nodes; i++)
		if (topo->nodes[i].parent == (int)host && topo->nodes[i].numa == numa)
			return true;
	return false;
}

static void put_unit(struct writer *writer, const char *type, unsigned int index, unsigned int cpus, unsigned int nodes)
{
	open_object(writer, type);
	fprintf(writer->out, "os_index=\"%u\" ", index);
	put_sets(writer, cpus, nodes);
	fprintf(writer->out, "/>\n");
}

/* Processor i, and NUMA nodes i, i + n, i + 2n. */
static unsigned int nodes_of_package(const struct writer *writer, unsigned int package)
{
	unsigned int nodes = 0;

	for (unsigned int memory = 0; memory < writer->n_memories; memory++)
		nodes |= 1u << (package + memory * writer->topo->n_numa);
	return nodes;
}

static void put_package(struct writer *writer, unsigned int package)
{
	open_object(writer, "Package");
	fprintf(writer->out, "os_index=\"%u\" ", package);
	put_sets(writer, 1u << package, nodes_of_package(writer, package));
	fprintf(writer->out, ">\n");
	for (unsigned int memory = 0; memory < writer->n_memories; memory++) {
		unsigned int node = package + memory * writer->topo->n_numa;

		put_unit(writer, "NUMANode", node, 1u << package, 1u << node);
	}
	put_unit(writer, "PU", package, 1u << package, nodes_of_package(writer, package));
	for (unsigned int i = 0; i < writer->topo->n_nodes; i++)
		if (writer->topo->nodes[i].kind == TOPO_HOST && has_on_node(writer->topo, i, (int)package))
			put_tree(writer, i, (int)package);
	fprintf(writer->out, "</object>\n");
}

static char *write_hwloc(const struct topo *topo, unsigned int n_memories, size_t *ret_bytes)
{
	struct writer writer = {.topo = topo, .n_memories = n_memories};
	char *text = NULL;

	writer.out = open_memstream(&text, ret_bytes);
	ASSERT(writer.out);
	fprintf(writer.out, "<topology version=\"2.0\">\n");
	open_object(&writer, "Machine");
	fprintf(writer.out, "os_index=\"0\" ");
	put_sets(&writer, (1u << topo->n_numa) - 1, (1u << n_memories * topo->n_numa) - 1);
	fprintf(writer.out, ">\n");
	for (unsigned int numa = 0; numa < topo->n_numa; numa++)
		put_package(&writer, numa);
	fprintf(writer.out, "</object>\n</topology>\n");
	fclose(writer.out);
	return text;
}

static struct topo *parse(const char *text)
{
	char *copy = strdup(text), why[TOPO_WHY_BYTES];
	struct topo *topo = NULL;

	ASSERT_OK(topo_parse(copy, strlen(copy), &topo, why));
	free(copy);
	return topo;
}

/* The machine as it was made, which knows no memories but one for each package, and as it is read of hwloc's form. */
static void judge_machine(struct judge *judge, unsigned int seed, unsigned int n_memories)
{
	size_t n_bytes;
	char *made = machine_make(seed, &n_bytes);
	struct topo *topos[2] = {parse(made)};
	char *text = write_hwloc(topos[0], n_memories, &n_bytes);
	hwloc_topology_t theirs = load(text, n_bytes);

	ASSERT(theirs);
	topos[1] = parse(text);
	ASSERT_EQ(topos[1]->n_gpus, topos[0]->n_gpus);
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_EQ(topos[i]->n_nics, count_rdma(theirs));
		judge->is_split = i == 0;
		judge_init(judge, topos[i], theirs);
		if (i == 1 || n_memories == 1 || topos[i]->n_numa > 1)
			compare_all(judge);
		topo_free(topos[i]);
	}
	hwloc_topology_destroy(theirs);
	free(text);
	free(made);
}

static void judge_machines(unsigned int n_memories)
{
	struct judge judge = {0};

	for (unsigned int seed = 1; seed <= MACHINES; seed++)
		judge_machine(&judge, seed, n_memories);
	for (unsigned int i = 0; i <= TOPO_SYS; i++)
		ASSERT_GT(judge.n_seen[i], 1000);
}

TEST(hwloc_sees_the_same_in_machines_at_random)
{
	judge_machines(1);
}

TEST(hwloc_agrees_if_packages_have_several_memories)
{
	judge_machines(3);
}
