/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a topology XML of NCCL or RCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).
 *
 * One of its PCI elements that is a bridge stands for a whole switch, and a CPU for all its host bridges. A "gpu" makes its function
 * one, whatever the class is. "net" elements are NICs where they are below a PCI function and no sockets. A file without any names no
 * NIC, so an Ethernet function beside a GPU, below the same bridge or, without any bridge, the same CPU, is taken for one. In a file
 * of several joined hosts (MNNVL) the host of the first CPU is read. Keeps nothing; any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

#define CLASS_ETHERNET 0x0200
#define CLASS_PCI_BRIDGE 0x0604
#define HOPS_OF_SWITCH 2
/* NCCL's class of the other end of a link, in all 24 bits: a switch has this one, a CPU one more. */
#define CLASS_SWITCH_END 0x068000
#define MAX_HOSTS 1024

struct reader {
	struct topo_builder *builder;
	struct xml *xml;
	bool names_nets;
	unsigned int n_hosts;
	uint64_t hosts[MAX_HOSTS]; /* their hashes; the first is read */
	unsigned int nodes[XML_MAX_DEPTH + 1]; /* of the elements that are open, the nearest that became a node */
};

static uint16_t attr_u16(const struct reader *reader, const char *name)
{
	return (uint16_t)host_number(xml_attr(reader->xml, name), 16, UINT16_MAX);
}

static uint16_t attr_class(const struct reader *reader, const char *name)
{
	return (uint16_t)(host_number(xml_attr(reader->xml, name), 16, 0xffffff) >> 8);
}

/* Whether it is of the host that is read. A file of one host has no hashes, or one. */
static bool is_of_first_host(struct reader *reader)
{
	uint64_t hash = host_number(xml_attr(reader->xml, "host_hash"), 0, UINT64_MAX);
	unsigned int i;

	for (i = 0; i < reader->n_hosts && reader->hosts[i] != hash; i++)
		;
	if (i == reader->n_hosts && i < MAX_HOSTS)
		reader->hosts[reader->n_hosts++] = hash;
	return i == 0;
}

static bool has_numa(const struct reader *reader, int numa)
{
	const struct topo *topo = reader->builder->topo;

	for (unsigned int i = 0; i < topo->n_nodes; i++)
		if (topo->nodes[i].kind == TOPO_CPU && topo->nodes[i].numa == numa)
			return true;
	return false;
}

static int open_cpu(struct reader *reader, unsigned int parent)
{
	const char *numa = xml_attr(reader->xml, "numaid");
	struct topo_node like = {.kind = TOPO_CPU, .parent = (int)parent, .pci = HOST_NO_PCI};

	like.numa = numa && numa[0] != '-' ? (int)host_number(numa, 10, INT16_MAX) : TOPO_NO_NUMA;
	reader->builder->topo->n_numa += !has_numa(reader, like.numa);
	return topo_add_node(reader->builder, &like);
}

/* A function that has functions below it is a bridge, whatever the file leaves out. */
static void take_for_bridge(struct topo_node *node)
{
	if (node->kind != TOPO_FUNCTION || node->class_code)
		return;
	node->kind = TOPO_BRIDGE;
	node->n_hops = HOPS_OF_SWITCH;
}

static int refuse_address(struct reader *reader, const char *pci)
{
	char shown[TOPO_NAME_BYTES];

	host_copy_text(shown, sizeof(shown), pci);
	return topo_refuse(reader->builder, "line %u: \"%.32s\" is no PCI address", reader->xml->line, shown);
}

static int open_pci(struct reader *reader, unsigned int parent)
{
	const char *pci = xml_attr(reader->xml, "busid");
	struct topo_node like = {
		.kind = TOPO_FUNCTION,
		.parent = (int)parent,
		.numa = TOPO_NO_NUMA,
		.class_code = attr_class(reader, "class"),
		.vendor = attr_u16(reader, "vendor"),
		.device = attr_u16(reader, "device"),
		.link_mbps = host_link_mbps(host_mtps(xml_attr(reader->xml, "link_speed")),
					    (uint32_t)host_number(xml_attr(reader->xml, "link_width"), 10, UINT8_MAX)),
	};

	if (like.class_code == CLASS_PCI_BRIDGE) {
		like.kind = TOPO_BRIDGE;
		like.n_hops = HOPS_OF_SWITCH;
		like.pci = HOST_NO_PCI;
	}
	/* Such files written by hand have invented addresses of bridges. */
	if ((!pci || !host_pci_parse(pci, &like.pci)) && like.kind != TOPO_BRIDGE)
		return refuse_address(reader, pci ? pci : "");
	take_for_bridge(&reader->builder->topo->nodes[parent]);
	return topo_add_function(reader->builder, &like);
}

static int open_gpu(struct reader *reader, unsigned int parent)
{
	if (reader->builder->topo->nodes[parent].kind != TOPO_FUNCTION)
		return 0;
	return topo_add_gpu(reader->builder, parent);
}

/* NCCL's own transport over sockets has no ports and reaches no GPU. GUIDs tell nothing: it counts them, as plug-ins do. */
static bool is_socket(const struct reader *reader)
{
	const char *port = xml_attr(reader->xml, "port");

	return port && host_number(port, 10, UINT8_MAX) == 0 && host_number(xml_attr(reader->xml, "gdr"), 10, 1) == 0;
}

static void take_net(const struct reader *reader, struct topo_nic *nic)
{
	const char *name = xml_attr(reader->xml, "name");

	if (name)
		host_copy_text(nic->seen.name, sizeof(nic->seen.name), name);
	nic->guid = host_number(xml_attr(reader->xml, "guid"), 0, UINT64_MAX);
	nic->seen.rate_mbps = host_number(xml_attr(reader->xml, "speed"), 10, UINT32_MAX);
}

/*
 * The first of several entries with one port of a function stands for all: they are subfunctions, or NCCL has merged them. A function that is a
 * NIC by its class is one without a "net" as well.
 */
static int open_net(struct reader *reader, unsigned int parent)
{
	const struct topo_node *node = &reader->builder->topo->nodes[parent];
	const char *port_text = xml_attr(reader->xml, "port");
	unsigned int port = port_text ? (unsigned int)host_number(port_text, 10, UINT8_MAX) : 1;
	struct topo_nic *nic;
	int r;

	reader->names_nets = true;
	if (node->kind != TOPO_FUNCTION || is_socket(reader) || topo_nic_at(reader->builder->topo, parent, port) >= 0)
		return 0;
	r = topo_add_nic(reader->builder, parent);
	if (r < 0)
		return r;
	nic = &reader->builder->topo->nics[r];
	nic->seen.port = port;
	take_net(reader, nic);
	if (topo_is_infiniband(node->class_code))
		nic->seen.fabric = HOST_FABRIC_INFINIBAND;
	return 0;
}

static int open_link(struct reader *reader, unsigned int parent)
{
	const struct topo_node *node = &reader->builder->topo->nodes[parent];
	unsigned int count = (unsigned int)host_number(xml_attr(reader->xml, "count"), 10, UINT8_MAX);
	const char *target = xml_attr(reader->xml, "target");
	uint64_t to = HOST_NO_PCI;

	reader->builder->topo->has_xgmi |= strcmp(reader->xml->name, "xgmi") == 0;
	if (node->kind != TOPO_FUNCTION)
		return 0;
	if (host_number(xml_attr(reader->xml, "tclass"), 16, UINT32_MAX) != CLASS_SWITCH_END &&
	    (!target || !host_pci_parse(target, &to)))
		return 0;
	return topo_add_links(reader->builder, node->pci, to, count);
}

/* The node that the element became, or that it is in. */
static int open_element(struct reader *reader, unsigned int parent)
{
	const char *name = reader->xml->name;
	int r = 0;

	if (strcmp(name, "cpu") == 0)
		return open_cpu(reader, parent);
	if (strcmp(name, "pci") == 0)
		return open_pci(reader, parent);
	if (strcmp(name, "net") == 0)
		r = open_net(reader, parent);
	else if (strcmp(name, "gpu") == 0)
		r = open_gpu(reader, parent);
	else if (strcmp(name, "nvlink") == 0 || strcmp(name, "xgmi") == 0)
		r = open_link(reader, parent);
	return r < 0 ? r : (int)parent;
}

static bool has_gpu_below(const struct topo *topo, unsigned int bridge)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		for (int node = (int)topo->gpus[i].node; node >= 0; node = topo->nodes[node].parent)
			if ((unsigned int)node == bridge)
				return true;
	return false;
}

/* Straight below a CPU, as in a virtual machine that shows no bridges. */
static bool has_gpu_straight_below(const struct topo *topo, unsigned int cpu)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if ((unsigned int)topo->nodes[topo->gpus[i].node].parent == cpu)
			return true;
	return false;
}

/* Below one switch with a GPU, or below its CPU if there is no switch. */
static bool is_beside_gpu(const struct topo *topo, unsigned int node)
{
	unsigned int parent = (unsigned int)topo->nodes[node].parent;

	if (topo->nodes[parent].kind == TOPO_CPU)
		return has_gpu_straight_below(topo, parent);
	for (; topo->nodes[parent].kind == TOPO_BRIDGE; parent = (unsigned int)topo->nodes[parent].parent)
		if (has_gpu_below(topo, parent))
			return true;
	return false;
}

static int guess_nics(struct reader *reader)
{
	struct topo *topo = reader->builder->topo;
	int r = 0;

	for (unsigned int i = 1; i < topo->n_nodes && r >= 0 && !reader->names_nets; i++)
		if (topo->nodes[i].class_code == CLASS_ETHERNET && is_beside_gpu(topo, i))
			r = topo_add_nic(reader->builder, i);
	return r < 0 ? r : 0;
}

static int pass_over(struct xml *xml)
{
	unsigned int outside = xml->depth - 1;
	int r = 0;

	while (r >= 0 && xml->depth > outside)
		r = xml_next(xml);
	return r < 0 ? r : 0;
}

/* Whether it is a CPU of another host, all of which is passed over: 1, 0 or an error. */
static int pass_host(struct reader *reader)
{
	int r;

	if (strcmp(reader->xml->name, "cpu") != 0 || is_of_first_host(reader))
		return 0;
	r = pass_over(reader->xml);
	return r < 0 ? r : 1;
}

static int read_elements(struct reader *reader)
{
	int r;

	while ((r = xml_next(reader->xml)) > 0) {
		if (r == XML_CLOSE)
			continue;
		r = pass_host(reader);
		if (r > 0)
			continue;
		if (r == 0)
			r = open_element(reader, reader->nodes[reader->xml->depth - 1]);
		if (r < 0)
			return r;
		reader->nodes[reader->xml->depth] = (unsigned int)r;
	}
	return r < 0 ? r : guess_nics(reader);
}

/* The outermost element is open. */
int topo_read_nccl(struct topo_builder *builder, struct xml *xml)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader)
		return -ENOMEM;
	reader->builder = builder;
	reader->xml = xml;
	r = read_elements(reader);
	if (!r && reader->n_hosts > 1)
		snprintf(builder->why, TOPO_WHY_BYTES, "the file has %u hosts: only the first one is read", reader->n_hosts);
	free(reader);
	return r;
}
