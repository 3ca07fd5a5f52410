/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the XML of hwloc, of its versions 1 to 3 (lstopo --of xml).
 *
 * It does not use the library, which refuses files newer than itself, does not follow our bounds, and loads CUDA into its caller
 * by plug-ins. Bridges and functions are taken as they nest. An object's nodeset says where they are: if it is not empty it is a place,
 * whose number stands for the NUMA node. The whole machine is one only where it is a single package. Keeps nothing; any thread.
 */
#include <errno.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

#define NO_NIC (-1)
#define DEPTH_OF_MACHINE 2
#define MAX_NUMA_NODES TOPO_MAX_NUMA
#define MAX_PLACES 256
#define MAX_PORT UINT8_MAX

struct nodeset {
	uint32_t words[MAX_NUMA_NODES / 32]; /* the lowest first; empty: unknown */
};

/* An element that is open. */
struct frame {
	unsigned int node; /* the nearest one that became a node */
	struct nodeset nodeset; /* of the nearest one that has any */
	int nic; /* that infos are about */
	char netdev[TOPO_NAME_BYTES]; /* of a function */
};

struct reader {
	struct topo_builder *builder;
	struct xml *xml;
	unsigned int version; /* major */
	struct frame frames[XML_MAX_DEPTH + 1];
	struct nodeset machine;
	unsigned int n_packages;
	unsigned int n_places;
	struct nodeset places[MAX_PLACES];
};

/* ---- places -------------------------------------------------------------------------------------------------------- */

/* "0x00000003", or words of 32 bits from the highest. Empty beyond any machine. */
static struct nodeset parse_nodeset(const char *text)
{
	struct nodeset set = {0};
	unsigned int n_words = 1;

	for (const char *at = text; *at; at++)
		n_words += *at == ',';
	for (; text && n_words > 0 && n_words <= MAX_NUMA_NODES / 32; n_words--) {
		set.words[n_words - 1] = (uint32_t)host_number(text, 16, UINT32_MAX);
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
	return set;
}

static bool has_bit(const struct nodeset *set, unsigned int bit)
{
	return set->words[bit / 32] >> bit % 32 & 1;
}

static unsigned int count_bits(const struct nodeset *set)
{
	unsigned int n = 0;

	for (size_t i = 0; i < sizeof(set->words) / sizeof(set->words[0]); i++)
		n += (unsigned int)__builtin_popcount(set->words[i]);
	return n;
}

static bool is_same(const struct nodeset *a, const struct nodeset *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The index of the place of what has this set, until number_places(); TOPO_NO_NUMA: unknown. */
static int place_of(struct reader *reader, const struct nodeset *set)
{
	unsigned int i;

	if (count_bits(set) == 0)
		return TOPO_NO_NUMA;
	for (i = 0; i < reader->n_places && !is_same(&reader->places[i], set); i++)
		;
	if (i == MAX_PLACES)
		return TOPO_NO_NUMA;
	reader->places[i] = *set;
	reader->n_places += i == reader->n_places;
	return (int)i;
}

/* The first node of a place whose number no other place has; else a number beyond those of nodes. */
static int free_number(const struct nodeset *place, unsigned int rank, const bool *is_taken)
{
	for (unsigned int bit = 0; bit < MAX_NUMA_NODES; bit++)
		if (has_bit(place, bit) && !is_taken[bit])
			return (int)bit;
	return (int)(MAX_NUMA_NODES + rank);
}

/* Places of one node come first; then which has the lowest that the other has not. */
static bool is_before(const struct nodeset *a, const struct nodeset *b)
{
	bool several_a = count_bits(a) > 1, several_b = count_bits(b) > 1;

	if (several_a != several_b)
		return several_b;
	for (unsigned int bit = 0; bit < MAX_NUMA_NODES; bit++)
		if (has_bit(a, bit) != has_bit(b, bit))
			return has_bit(a, bit);
	return false;
}

/* Sorts places, so that the order in the file does not matter. */
static void sort_places(const struct reader *reader, unsigned int order[MAX_PLACES])
{
	for (unsigned int i = 0; i < reader->n_places; i++) {
		unsigned int at = i;

		for (; at > 0 && is_before(&reader->places[i], &reader->places[order[at - 1]]); at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

/* Between packages nothing is near. A package with several memories is a place, also where it is all that there is. */
static bool is_anywhere(const struct reader *reader, const struct nodeset *place)
{
	return count_bits(place) > 1 && is_same(place, &reader->machine) && reader->n_packages != 1;
}

/* A node alone has its own number; several have that of one of them, unless those are all places themselves. */
static void number_places(struct reader *reader)
{
	bool is_taken[MAX_NUMA_NODES + MAX_PLACES] = {false};
	struct topo *topo = reader->builder->topo;
	unsigned int order[MAX_PLACES];
	int numbers[MAX_PLACES] = {0};

	sort_places(reader, order);
	for (unsigned int i = 0; i < reader->n_places; i++) {
		const struct nodeset *place = &reader->places[order[i]];

		numbers[order[i]] = is_anywhere(reader, place) ? TOPO_NO_NUMA : free_number(place, i, is_taken);
		if (numbers[order[i]] >= 0)
			is_taken[numbers[order[i]]] = true;
	}
	/* Parents come first. A place without a node is where its parent is. */
	for (unsigned int i = 0; i < topo->n_nodes; i++) {
		struct topo_node *node = &topo->nodes[i];

		if (node->numa >= 0)
			node->numa = numbers[node->numa];
		if (node->numa < 0 && node->parent >= 0)
			node->numa = topo->nodes[node->parent].numa;
	}
}

/* ---- elements ------------------------------------------------------------------------------------------------------ */

static int take_pci(struct reader *reader, uint64_t *ret_pci)
{
	const char *text = xml_attr(reader->xml, "pci_busid");

	if (!text || !host_pci_parse(text, ret_pci))
		return topo_refuse(reader->builder, "line %u: a PCI device without an address", reader->xml->line);
	return 0;
}

static int open_bridge(struct reader *reader, struct frame *frame)
{
	const char *type = xml_attr(reader->xml, "bridge_type");
	struct topo_node like = {.kind = TOPO_HOST, .parent = (int)frame->node, .numa = place_of(reader, &frame->nodeset), .pci = HOST_NO_PCI};
	int node;

	if (!type || type[0] != '0') {
		like.kind = TOPO_BRIDGE;
		like.n_hops = 1;
		if (take_pci(reader, &like.pci) < 0)
			return -EBADMSG;
	}
	node = topo_add_node(reader->builder, &like);
	if (node >= 0)
		frame->node = (unsigned int)node;
	return node;
}

/* "63.015385", in 10^9 bytes a second. More than 10^5 of them are a damaged file. */
static uint32_t link_mbps(const char *text)
{
	double gbytes = text ? strtod(text, NULL) : 0;

	return gbytes > 0 && gbytes < 1e5 ? (uint32_t)(gbytes * 8000) : 0;
}

/* "0302 [10de:20b0] [10de:134f] a1" */
static int open_function(struct reader *reader, struct frame *frame)
{
	const char *type = xml_attr(reader->xml, "pci_type");
	struct topo_node like = {.kind = TOPO_FUNCTION, .parent = (int)frame->node, .numa = place_of(reader, &frame->nodeset)};
	unsigned int class_code, vendor, device;
	int node;

	if (take_pci(reader, &like.pci) < 0)
		return -EBADMSG;
	if (!type || sscanf(type, "%4x [%4x:%4x]", &class_code, &vendor, &device) != 3)
		return topo_refuse(reader->builder, "line %u: a PCI device without a class", reader->xml->line);
	like.class_code = (uint16_t)class_code;
	like.vendor = (uint16_t)vendor;
	like.device = (uint16_t)device;
	like.link_mbps = link_mbps(xml_attr(reader->xml, "pci_link_speed"));
	node = topo_add_function(reader->builder, &like);
	if (node >= 0)
		frame->node = (unsigned int)node;
	return node;
}

/* A number of its own for each kind; from version 3 on a set of bits. */
static bool is_osdev(const struct reader *reader, unsigned int kind)
{
	unsigned int type = (unsigned int)host_number(xml_attr(reader->xml, "osdev_type"), 0, UINT32_MAX);

	return reader->version < 3 ? type == kind : type >> (kind + 2) & 1;
}

#define OSDEV_NETWORK 2
#define OSDEV_OPENFABRICS 3

/*
 * The function of an RDMA device. One without PCI hangs near its NUMA node, and has a function of its own here. A device directly below
 * the machine is near nothing: a device in software, and 0 is the answer.
 */
static int find_function(struct reader *reader, const struct frame *frame)
{
	struct topo_node like = {.kind = TOPO_FUNCTION, .parent = (int)frame->node, .pci = HOST_NO_PCI};

	if (reader->builder->topo->nodes[frame->node].kind == TOPO_FUNCTION)
		return (int)frame->node;
	if (reader->xml->depth == DEPTH_OF_MACHINE + 1)
		return 0;
	like.numa = place_of(reader, &frame->nodeset);
	return topo_add_node(reader->builder, &like);
}

/* The first of several devices of one function is its own, the others are subfunctions, which have the same ports. */
static int open_rdma(struct reader *reader, struct frame *frame, const char *name, const char *netdev)
{
	int node = find_function(reader, frame);
	struct topo_nic *nic;

	if (node <= 0 || topo_nic_at(reader->builder->topo, (unsigned int)node, 1) >= 0)
		return node;
	frame->nic = topo_add_nic(reader->builder, (unsigned int)node);
	if (frame->nic < 0)
		return frame->nic;
	nic = &reader->builder->topo->nics[frame->nic];
	host_copy_text(nic->seen.name, sizeof(nic->seen.name), name);
	memcpy(nic->seen.netdev, netdev, sizeof(nic->seen.netdev));
	return 0;
}

static int open_osdev(struct reader *reader, struct frame *frame, struct frame *above)
{
	const char *name = xml_attr(reader->xml, "name");

	if (name && is_osdev(reader, OSDEV_NETWORK))
		host_copy_text(above->netdev, sizeof(above->netdev), name);
	if (!name || !is_osdev(reader, OSDEV_OPENFABRICS))
		return 0;
	return open_rdma(reader, frame, name, above->netdev);
}

static int open_object(struct reader *reader, struct frame *frame, struct frame *above)
{
	const char *type = xml_attr(reader->xml, "type"), *nodeset = xml_attr(reader->xml, "nodeset");

	if (nodeset)
		frame->nodeset = parse_nodeset(nodeset);
	if (reader->xml->depth == DEPTH_OF_MACHINE)
		reader->machine = frame->nodeset;
	if (!type)
		return topo_refuse(reader->builder, "line %u: an object without a type", reader->xml->line);
	if (strcmp(type, "NUMANode") == 0)
		reader->builder->topo->n_numa++;
	reader->n_packages += strcmp(type, "Package") == 0 || strcmp(type, "Socket") == 0;
	if (strcmp(type, "Bridge") == 0)
		return open_bridge(reader, frame);
	if (strcmp(type, "PCIDev") == 0)
		return open_function(reader, frame);
	if (strcmp(type, "OSDev") == 0)
		return open_osdev(reader, frame, above);
	return 0;
}

/* The NIC of the same device with this port; a second port is a copy of what is known of the first. */
static int port_of(struct reader *reader, int nic, unsigned int port)
{
	struct topo *topo = reader->builder->topo;
	unsigned int node = topo->nics[nic].node;
	const struct topo_nic *first;
	int added = topo_nic_at(topo, node, port);

	if (added >= 0)
		return added;
	added = topo_add_nic(reader->builder, node);
	if (added < 0)
		return added;
	first = &topo->nics[nic]; /* an added NIC may move all */
	topo->nics[added].seen.port = port;
	topo->nics[added].guid = first->guid;
	topo->nics[added].seen.node_guid = first->seen.node_guid;
	memcpy(topo->nics[added].seen.name, first->seen.name, sizeof(first->seen.name));
	return added;
}

/* "ec0d:9a03:0067:fdd4" */
static uint64_t parse_guid(const char *text)
{
	unsigned int part[4];

	if (sscanf(text, "%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3]) != 4)
		return 0;
	return (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 | part[3];
}

static int take_nic_info(struct reader *reader, int nic, const char *name, const char *value)
{
	unsigned int port, state;
	char last;
	int r;

	if (strcmp(name, "NodeGUID") == 0)
		reader->builder->topo->nics[nic].guid = reader->builder->topo->nics[nic].seen.node_guid = parse_guid(value);
	if (sscanf(name, "Port%3uStat%c", &port, &last) != 2 || port == 0 || port > MAX_PORT || sscanf(value, "%2u", &state) != 1)
		return 0;
	r = port_of(reader, nic, port);
	if (r < 0)
		return r;
	/* IBTA PortInfo: PortState 4 is Active. */
	reader->builder->topo->nics[r].seen.state = state == 4 ? HOST_STATE_ACTIVE : HOST_STATE_DOWN;
	return 0;
}

static int take_info(struct reader *reader, const struct frame *frame)
{
	const char *name = xml_attr(reader->xml, "name"), *value = xml_attr(reader->xml, "value");
	struct topo_gpu *gpu;

	if (!name || !value)
		return 0;
	if (frame->nic != NO_NIC)
		return take_nic_info(reader, frame->nic, name, value);
	gpu = strcmp(name, "NVIDIAUUID") == 0 || strcmp(name, "AMDUUID") == 0 ? topo_gpu_at(reader->builder, frame->node) : NULL;
	if (gpu)
		host_copy_text(gpu->uuid, sizeof(gpu->uuid), value);
	return 0;
}

static int open_element(struct reader *reader)
{
	struct frame *above = &reader->frames[reader->xml->depth - 1], *frame = above + 1;

	*frame = (struct frame){.node = above->node, .nodeset = above->nodeset, .nic = above->nic};
	if (strcmp(reader->xml->name, "object") == 0) {
		frame->nic = NO_NIC;
		return open_object(reader, frame, above);
	}
	return strcmp(reader->xml->name, "info") == 0 ? take_info(reader, above) : 0;
}

/* The outermost element is open. */
int topo_read_hwloc(struct topo_builder *builder, struct xml *xml)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	const char *version = xml_attr(xml, "version");
	int r = 0;

	if (!reader)
		return -ENOMEM;
	*reader = (struct reader){.builder = builder, .xml = xml, .version = version ? (unsigned int)host_number(version, 10, 99) : 1};
	reader->frames[1] = (struct frame){.nic = NO_NIC};
	while (r >= 0) {
		r = xml_next(xml);
		if (r == XML_OPEN)
			r = open_element(reader);
		else if (r == XML_END)
			break;
	}
	if (r >= 0)
		number_places(reader);
	free(reader);
	return r;
}
