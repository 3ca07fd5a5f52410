/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc reads the same files: where it says two devices meet is where we say they do. */
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/capture.h"

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

/* On one NUMA node, by the nearest object above that is of CPUs or memory. */
static bool share_node(hwloc_topology_t theirs, hwloc_obj_t a, hwloc_obj_t b)
{
	hwloc_obj_t above_a = hwloc_get_non_io_ancestor_obj(theirs, a), above_b = hwloc_get_non_io_ancestor_obj(theirs, b);

	return hwloc_bitmap_weight(above_a->nodeset) == 1 && hwloc_bitmap_isequal(above_a->nodeset, above_b->nodeset);
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

static void compare(const struct topo *ours, hwloc_topology_t theirs, unsigned int node_a, unsigned int node_b)
{
	enum topo_distance distance = topo_distance(ours, node_a, node_b);
	hwloc_obj_t a = device_of(theirs, ours->nodes[node_a].pci), b = device_of(theirs, ours->nodes[node_b].pci), meeting;
	bool is_below_host;

	ASSERT(a && b);
	meeting = meeting_of(a, b);
	is_below_host = a->parent == meeting && b->parent == meeting;
	if (node_a == node_b)
		ASSERT_EQ(distance, TOPO_SELF);
	else if (meeting->type == HWLOC_OBJ_BRIDGE && meeting->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
		ASSERT(distance == TOPO_PIX || distance == TOPO_PXB);
	else if (meeting->type == HWLOC_OBJ_BRIDGE)
		ASSERT_EQ(distance, is_below_host ? TOPO_PIX : TOPO_PHB);
	else
		ASSERT_EQ(distance, share_node(theirs, a, b) ? TOPO_NODE : TOPO_SYS);
}

static void compare_all(const struct topo *ours, hwloc_topology_t theirs)
{
	for (unsigned int gpu = 0; gpu < ours->n_gpus; gpu++) {
		for (unsigned int nic = 0; nic < ours->n_nics; nic++)
			compare(ours, theirs, ours->gpus[gpu].node, ours->nics[nic].node);
		for (unsigned int other = 0; other < ours->n_gpus; other++)
			compare(ours, theirs, ours->gpus[gpu].node, ours->gpus[other].node);
	}
}

static unsigned int count_rdma(hwloc_topology_t theirs)
{
	unsigned int n = 0;

	for (hwloc_obj_t at = NULL; (at = hwloc_get_next_osdev(theirs, at));)
		n += at->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
	return n;
}

static bool judge(const char *folder, const char *name)
{
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
		compare_all(ours, theirs);
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
		n += judge(folder, names[i]);
	ASSERT_GE(n, 4);
}
