/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the XML of hwloc, of its versions 1 to 3 (lstopo --of xml).
 *
 * Not by the library: that one refuses files newer than itself, follows no bounds of ours, and its plug-ins load CUDA into whoever
 * asks. Bridges and functions are taken as they nest; an object's nodeset says where they are. Keeps nothing; any thread.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

#define NO_NIC (-1)

/* An element that is open. */
struct frame {
	unsigned int node; /* the nearest one that became a node */
	int numa;
	int nic; /* that infos are about */
	char netdev[TOPO_NAME_BYTES]; /* of a function */
};

struct reader {
	struct topo_builder *builder;
	struct xml *xml;
	unsigned int version; /* major */
	struct frame frames[XML_MAX_DEPTH + 1];
};

/* "0x00000003", or words of 32 bits from the highest; the only bit that is set. */
static int single_bit(const char *text)
{
	int bit = TOPO_NO_NUMA, n_words = 1;

	for (const char *at = text; *at; at++)
		n_words += *at == ',';
	for (; text && n_words > 0; n_words--) {
		uint64_t word = topo_number(text, 16, UINT32_MAX);

		if (word && (bit >= 0 || (word & (word - 1))))
			return TOPO_NO_NUMA;
		if (word)
			bit = 32 * (n_words - 1) + __builtin_ctzll(word);
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
	return bit;
}

static int take_pci(struct reader *reader, uint64_t *ret_pci)
{
	const char *text = xml_attr(reader->xml, "pci_busid");

	if (!text || !topo_pci_parse(text, ret_pci))
		return topo_refuse(reader->builder, "line %u: a PCI device without an address", reader->xml->line);
	return 0;
}

static int open_bridge(struct reader *reader, struct frame *frame)
{
	const char *type = xml_attr(reader->xml, "bridge_type");
	struct topo_node like = {.kind = TOPO_HOST, .parent = (int)frame->node, .numa = frame->numa, .pci = TOPO_NO_PCI};
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

/* "0302 [10de:20b0] [10de:134f] a1" */
static int open_function(struct reader *reader, struct frame *frame)
{
	const char *type = xml_attr(reader->xml, "pci_type");
	struct topo_node like = {.kind = TOPO_FUNCTION, .parent = (int)frame->node, .numa = frame->numa};
	unsigned int class_code, vendor, device;
	int node;

	if (take_pci(reader, &like.pci) < 0)
		return -EBADMSG;
	if (!type || sscanf(type, "%4x [%4x:%4x]", &class_code, &vendor, &device) != 3)
		return topo_refuse(reader->builder, "line %u: a PCI device without a class", reader->xml->line);
	like.class_code = (uint16_t)class_code;
	like.vendor = (uint16_t)vendor;
	like.device = (uint16_t)device;
	node = topo_add_function(reader->builder, &like);
	if (node >= 0)
		frame->node = (unsigned int)node;
	return node;
}

/* A number of its own for each kind; from version 3 on a set of bits. */
static bool is_osdev(const struct reader *reader, unsigned int kind)
{
	unsigned int type = (unsigned int)topo_number(xml_attr(reader->xml, "osdev_type"), 0, UINT32_MAX);

	return reader->version < 3 ? type == kind : type >> (kind + 2) & 1;
}

#define OSDEV_NETWORK 2
#define OSDEV_OPENFABRICS 3

static int open_osdev(struct reader *reader, struct frame *frame, struct frame *above)
{
	const char *name = xml_attr(reader->xml, "name");
	struct topo_nic *nic;

	if (name && is_osdev(reader, OSDEV_NETWORK))
		topo_copy_text(above->netdev, name);
	if (!name || !is_osdev(reader, OSDEV_OPENFABRICS))
		return 0;
	frame->nic = topo_add_nic(reader->builder, frame->node);
	if (frame->nic < 0)
		return frame->nic;
	nic = &reader->builder->topo->nics[frame->nic];
	topo_copy_text(nic->name, name);
	memcpy(nic->netdev, above->netdev, sizeof(nic->netdev));
	return 0;
}

static int open_object(struct reader *reader, struct frame *frame, struct frame *above)
{
	const char *type = xml_attr(reader->xml, "type"), *nodeset = xml_attr(reader->xml, "nodeset");

	if (nodeset)
		frame->numa = single_bit(nodeset);
	if (!type)
		return topo_refuse(reader->builder, "line %u: an object without a type", reader->xml->line);
	if (strcmp(type, "NUMANode") == 0)
		reader->builder->topo->n_numa++;
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
	struct topo_nic *first = &topo->nics[nic];
	int added;

	if (port == 1)
		return nic;
	for (unsigned int i = (unsigned int)nic; i < topo->n_nics; i++)
		if (topo->nics[i].node == first->node && topo->nics[i].port == port)
			return (int)i;
	added = topo_add_nic(reader->builder, first->node);
	if (added < 0)
		return added;
	topo->nics[added].port = port;
	topo->nics[added].guid = first->guid;
	topo->nics[added].node_guid = first->node_guid;
	memcpy(topo->nics[added].name, first->name, sizeof(first->name));
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
		reader->builder->topo->nics[nic].guid = reader->builder->topo->nics[nic].node_guid = parse_guid(value);
	if (sscanf(name, "Port%3uStat%c", &port, &last) != 2 || port == 0 || sscanf(value, "%2u", &state) != 1)
		return 0;
	r = port_of(reader, nic, port);
	if (r < 0)
		return r;
	/* IBTA PortInfo: PortState 4 is Active. */
	reader->builder->topo->nics[r].state = state == 4 ? TOPO_STATE_ACTIVE : TOPO_STATE_DOWN;
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
	gpu = strcmp(name, "NVIDIAUUID") == 0 ? topo_gpu_at(reader->builder, frame->node) : NULL;
	if (gpu)
		topo_copy_text(gpu->uuid, value);
	return 0;
}

static int open_element(struct reader *reader)
{
	struct frame *above = &reader->frames[reader->xml->depth - 1], *frame = above + 1;

	*frame = (struct frame){.node = above->node, .numa = above->numa, .nic = above->nic};
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
	*reader = (struct reader){.builder = builder, .xml = xml, .version = version ? (unsigned int)topo_number(version, 10, 99) : 1};
	reader->frames[1] = (struct frame){.numa = TOPO_NO_NUMA, .nic = NO_NIC};
	while (r >= 0) {
		r = xml_next(xml);
		if (r == XML_OPEN)
			r = open_element(reader);
		else if (r == XML_END)
			break;
	}
	free(reader);
	return r;
}
