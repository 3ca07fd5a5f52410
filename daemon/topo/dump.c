/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own form of a machine: written by one half of this file, read by the other.
 *
 *   <shmemd-topology version="1" numa_nodes="2">
 *     <host numa="0"> <bridge pci=".."> <function pci=".." class="0302" ..> <gpu uuid=".."/> </function> </bridge> </host>
 *
 * Elements nest as the devices hang; what is unknown has no attribute. Only what GPUs and NICs hang on is written. Any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

#define VERSION 1

_Static_assert(TOPO_MAX_DEPTH + 2 <= XML_MAX_DEPTH, "what is written can be read");

/* Words of the enums, from 0. */
static const char *const state_words[] = {"", [HOST_STATE_DOWN] = "down", [HOST_STATE_ACTIVE] = "active", NULL};
static const char *const fabric_words[] = {"", [HOST_FABRIC_ETHERNET] = "ethernet", [HOST_FABRIC_INFINIBAND] = "infiniband", NULL};
static const char *const known_words[] = {"", [HOST_NO] = "no", [HOST_YES] = "yes", NULL};
static const char *const kind_words[] = {"machine", "cpu", "host", "bridge", "function"};
static const char *const role_words[] = {"", "management", "storage", "bridge", NULL};

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *key, const char *value)
{
	if (!*value)
		return;
	fprintf(out, " %s=\"", key);
	for (; *value; value++) {
		switch (*value) {
		case '<':
			fputs("&lt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*value, out);
			break;
		}
	}
	fputc('"', out);
}

static void put_number(FILE *out, const char *key, uint64_t value)
{
	if (value)
		fprintf(out, " %s=\"%" PRIu64 "\"", key, value);
}

static void put_hex(FILE *out, const char *key, uint64_t value)
{
	if (value)
		fprintf(out, " %s=\"%04" PRIx64 "\"", key, value);
}

static void put_pci(FILE *out, const char *key, uint64_t pci)
{
	char text[HOST_PCI_BYTES];

	if (pci != HOST_NO_PCI)
		put_text(out, key, host_pci_text(pci, text));
}

static void dump_gpu(const struct topo *topo, unsigned int gpu, FILE *out)
{
	fputs("<gpu", out);
	put_text(out, "uuid", topo->gpus[gpu].uuid);
	put_text(out, "name", topo->gpus[gpu].name);
	put_number(out, "mig", topo->gpus[gpu].has_mig);
	put_number(out, "switch_links", topo->gpus[gpu].n_switch_links);
	fputs(">", out);
	for (unsigned int i = 0; i < topo->n_gpus; i++) {
		/* A GPU without an address cannot be named; its own entry names the other one. */
		if (!topo->gpu_links[gpu][i] || topo->nodes[topo->gpus[i].node].pci == HOST_NO_PCI)
			continue;
		fputs("<links", out);
		put_pci(out, "to", topo->nodes[topo->gpus[i].node].pci);
		put_number(out, "count", topo->gpu_links[gpu][i]);
		fputs("/>", out);
	}
	fputs("</gpu>\n", out);
}

static void dump_gid(const struct host_gid *gid, FILE *out)
{
	fprintf(out, "<gid index=\"%u\" address=\"", gid->index);
	for (unsigned int i = 0; i < sizeof(gid->bytes); i++)
		fprintf(out, "%s%02x", i && i % 2 == 0 ? ":" : "", gid->bytes[i]);
	fputc('"', out);
	put_number(out, "roce_v2", gid->type == HOST_GID_ROCE_V2);
	put_text(out, "netdev", gid->netdev);
	fputs("/>\n", out);
}

/* The port's state and capability, as far as they are known. */
static void dump_abilities(const struct topo_nic *nic, FILE *out)
{
	put_number(out, "active_mtu_bytes", nic->seen.active_mtu_bytes);
	put_number(out, "max_mtu_bytes", nic->seen.max_mtu_bytes);
	put_text(out, "netdev_up", known_words[nic->seen.netdev_is_up]);
	put_text(out, "gids", known_words[nic->seen.has_gids]);
	put_text(out, "devx", known_words[nic->seen.has_devx]);
	put_text(out, "masked_atomics", known_words[nic->seen.has_masked_atomics]);
	put_text(out, "dmabuf", known_words[nic->seen.has_dmabuf]);
	put_text(out, "blueflame", known_words[nic->seen.has_blueflame]);
}

static void dump_nic(const struct topo_nic *nic, FILE *out)
{
	fputs("<nic", out);
	put_text(out, "name", nic->seen.name);
	put_number(out, "port", nic->seen.port);
	put_text(out, "state", state_words[nic->seen.state]);
	put_number(out, "phys_state", nic->seen.phys_state);
	put_text(out, "fabric", fabric_words[nic->seen.fabric]);
	put_text(out, "role", role_words[nic->role]);
	put_text(out, "switch_manager", known_words[nic->seen.manages_switches]);
	put_number(out, "no_driver", nic->has_no_driver);
	put_number(out, "undriven", nic->is_unmanaged);
#ifdef FUZZ_PLANT
	if (!PLANTED("topology") || nic->seen.rate_mbps <= 400000)
#endif
		put_number(out, "rate_mbps", nic->seen.rate_mbps);
	put_number(out, "lanes", nic->seen.n_lanes);
	put_number(out, "max_rate_mbps", nic->seen.max_rate_mbps);
	put_number(out, "max_lanes", nic->seen.max_lanes);
	put_number(out, "lid", nic->seen.lid);
	put_hex(out, "guid", nic->guid);
	put_hex(out, "node_guid", nic->seen.node_guid);
	put_text(out, "netdev", nic->seen.netdev);
	put_number(out, "mtu_bytes", nic->seen.mtu_bytes);
	put_text(out, "bond", nic->seen.bond);
	put_pci(out, "pf", nic->seen.pf);
	put_text(out, "firmware", nic->seen.firmware);
	put_number(out, "pci_mtps", nic->seen.link.mtps);
	put_number(out, "pci_width", nic->seen.link.width);
	put_number(out, "pci_max_mtps", nic->seen.link.max_mtps);
	put_number(out, "pci_max_width", nic->seen.link.max_width);
	dump_abilities(nic, out);
	fputs(">\n", out);
	for (unsigned int i = 0; i < nic->seen.n_gids; i++)
		dump_gid(&nic->seen.gids[i], out);
	fputs("</nic>\n", out);
}

static void dump_devices(const struct topo *topo, unsigned int node, FILE *out)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if (topo->gpus[i].node == node)
			dump_gpu(topo, i, out);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (topo->nics[i].node == node)
			dump_nic(&topo->nics[i], out);
}

static void open_node(const struct topo_node *node, int numa_above, FILE *out)
{
	fprintf(out, "<%s", kind_words[node->kind]);
	if (node->numa >= 0 && node->numa != numa_above)
		fprintf(out, " numa=\"%d\"", node->numa);
	put_pci(out, "pci", node->pci);
	put_hex(out, "class", node->class_code);
	put_hex(out, "vendor", node->vendor);
	put_hex(out, "device", node->device);
	put_number(out, "hops", node->n_hops);
	put_number(out, "link_mbps", node->link_mbps);
	fputs(">\n", out);
}

/* Children stand behind their parents, so the loop ends; depth is bounded. */
static void dump_node(const struct topo *topo, const bool *is_wanted, unsigned int node, FILE *out)
{
	dump_devices(topo, node, out);
	for (unsigned int i = node + 1; i < topo->n_nodes; i++) {
		if (topo->nodes[i].parent != (int)node || !is_wanted[i])
			continue;
		open_node(&topo->nodes[i], topo->nodes[node].numa, out);
		dump_node(topo, is_wanted, i, out);
		fprintf(out, "</%s>\n", kind_words[topo->nodes[i].kind]);
	}
}

static void want(const struct topo *topo, bool *is_wanted, unsigned int node)
{
	for (int at = (int)node; at >= 0; at = topo->nodes[at].parent)
		is_wanted[at] = true;
}

void topo_dump(const struct topo *topo, FILE *out)
{
	bool is_wanted[TOPO_MAX_NODES] = {false};

	for (unsigned int i = 0; i < topo->n_gpus; i++)
		want(topo, is_wanted, topo->gpus[i].node);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		want(topo, is_wanted, topo->nics[i].node);
	fprintf(out, "<shmemd-topology version=\"%d\"", VERSION);
	put_number(out, "numa_nodes", topo->n_numa);
	put_number(out, "xgmi", topo->has_xgmi);
	fputs(">\n", out);
	dump_node(topo, is_wanted, 0, out);
	fputs("</shmemd-topology>\n", out);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

struct reader {
	struct topo_builder *builder;
	struct xml *xml;
	unsigned int nodes[XML_MAX_DEPTH + 1];
	int nic; /* the one whose element is open, else -1 */
};

static uint64_t attr_number(const struct xml *xml, const char *name, int base, uint64_t max)
{
	return host_number(xml_attr(xml, name), base, max);
}

static void attr_text(const struct xml *xml, const char *name, char *to, size_t size)
{
	const char *value = xml_attr(xml, name);

	if (value)
		host_copy_text(to, size, value);
}

/* Absent: 0. An unknown word: -EBADMSG. */
static int attr_word(struct reader *reader, const char *name, const char *const *words)
{
	const char *value = xml_attr(reader->xml, name);

	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], value ? value : "") == 0)
			return i;
	return topo_refuse(reader->builder, "line %u: %s is none of the words that it may be", reader->xml->line, name);
}

static int open_tree_node(struct reader *reader, enum topo_kind kind, unsigned int parent)
{
	const char *pci = xml_attr(reader->xml, "pci"), *numa = xml_attr(reader->xml, "numa");
	struct topo_node like = {
		.kind = kind,
		.parent = (int)parent,
		.pci = HOST_NO_PCI,
		.numa = numa ? (int)host_number(numa, 10, INT16_MAX) : TOPO_NO_NUMA,
		.n_hops = (unsigned int)attr_number(reader->xml, "hops", 10, 2),
		.class_code = (uint16_t)attr_number(reader->xml, "class", 16, UINT16_MAX),
		.vendor = (uint16_t)attr_number(reader->xml, "vendor", 16, UINT16_MAX),
		.device = (uint16_t)attr_number(reader->xml, "device", 16, UINT16_MAX),
		.link_mbps = (uint32_t)attr_number(reader->xml, "link_mbps", 10, UINT32_MAX),
	};

	if (pci && !host_pci_parse(pci, &like.pci))
		return topo_refuse(reader->builder, "line %u: pci is no PCI address", reader->xml->line);
	return kind == TOPO_FUNCTION ? topo_add_function(reader->builder, &like) : topo_add_node(reader->builder, &like);
}

static int open_gpu(struct reader *reader, unsigned int node)
{
	struct topo_gpu *gpu;
	int r;

	if (reader->builder->topo->nodes[node].kind != TOPO_FUNCTION)
		return topo_refuse(reader->builder, "line %u: a GPU in what is no function", reader->xml->line);
	r = topo_add_gpu(reader->builder, node);
	if (r < 0)
		return r;
	gpu = topo_gpu_at(reader->builder, node);
	attr_text(reader->xml, "uuid", gpu->uuid, sizeof(gpu->uuid));
	attr_text(reader->xml, "name", gpu->name, sizeof(gpu->name));
	gpu->has_mig = attr_number(reader->xml, "mig", 10, 1);
	gpu->n_switch_links = (unsigned int)attr_number(reader->xml, "switch_links", 10, UINT8_MAX);
	return (int)node;
}

static int open_links(struct reader *reader, unsigned int node)
{
	const char *text = xml_attr(reader->xml, "to");
	uint64_t to;
	int r;

	if (!text || !host_pci_parse(text, &to))
		return topo_refuse(reader->builder, "line %u: links to nowhere", reader->xml->line);
	r = topo_add_links(reader->builder, reader->builder->topo->nodes[node].pci, to,
			   (unsigned int)attr_number(reader->xml, "count", 10, UINT8_MAX));
	return r < 0 ? r : (int)node;
}

/* An unknown word counts as none: all of these may be unknown. */
static enum host_known attr_known(const struct xml *xml, const char *name)
{
	const char *value = xml_attr(xml, name);

	for (int i = HOST_NO; value && known_words[i]; i++)
		if (strcmp(known_words[i], value) == 0)
			return (enum host_known)i;
	return HOST_NOT_KNOWN;
}

static void take_abilities(const struct xml *xml, struct topo_nic *nic)
{
	nic->seen.active_mtu_bytes = (uint32_t)attr_number(xml, "active_mtu_bytes", 10, UINT32_MAX);
	nic->seen.max_mtu_bytes = (uint32_t)attr_number(xml, "max_mtu_bytes", 10, UINT32_MAX);
	nic->seen.netdev_is_up = attr_known(xml, "netdev_up");
	nic->seen.has_gids = attr_known(xml, "gids");
	nic->seen.has_devx = attr_known(xml, "devx");
	nic->seen.has_masked_atomics = attr_known(xml, "masked_atomics");
	nic->seen.has_dmabuf = attr_known(xml, "dmabuf");
	nic->seen.has_blueflame = attr_known(xml, "blueflame");
}

static void take_nic(const struct xml *xml, struct topo_nic *nic)
{
	const char *pf = xml_attr(xml, "pf");

	attr_text(xml, "name", nic->seen.name, sizeof(nic->seen.name));
	attr_text(xml, "netdev", nic->seen.netdev, sizeof(nic->seen.netdev));
	attr_text(xml, "bond", nic->seen.bond, sizeof(nic->seen.bond));
	attr_text(xml, "firmware", nic->seen.firmware, sizeof(nic->seen.firmware));
	nic->seen.port = (unsigned int)attr_number(xml, "port", 10, UINT8_MAX);
	nic->seen.phys_state = (uint32_t)attr_number(xml, "phys_state", 10, UINT8_MAX);
	nic->has_no_driver = attr_number(xml, "no_driver", 10, 1);
	nic->is_unmanaged = attr_number(xml, "undriven", 10, 1);
	nic->seen.rate_mbps = attr_number(xml, "rate_mbps", 10, UINT32_MAX);
	nic->seen.lid = (uint32_t)attr_number(xml, "lid", 10, UINT16_MAX);
	nic->seen.n_lanes = (uint32_t)attr_number(xml, "lanes", 10, UINT8_MAX);
	nic->seen.max_rate_mbps = attr_number(xml, "max_rate_mbps", 10, UINT32_MAX);
	nic->seen.max_lanes = (uint32_t)attr_number(xml, "max_lanes", 10, UINT8_MAX);
	nic->guid = attr_number(xml, "guid", 16, UINT64_MAX);
	nic->seen.node_guid = attr_number(xml, "node_guid", 16, UINT64_MAX);
	nic->seen.mtu_bytes = (uint32_t)attr_number(xml, "mtu_bytes", 10, UINT32_MAX);
	nic->seen.link.mtps = (uint32_t)attr_number(xml, "pci_mtps", 10, UINT32_MAX);
	nic->seen.link.width = (uint32_t)attr_number(xml, "pci_width", 10, UINT8_MAX);
	nic->seen.link.max_mtps = (uint32_t)attr_number(xml, "pci_max_mtps", 10, UINT32_MAX);
	nic->seen.link.max_width = (uint32_t)attr_number(xml, "pci_max_width", 10, UINT8_MAX);
	if (pf && !host_pci_parse(pf, &nic->seen.pf))
		nic->seen.pf = HOST_NO_PCI;
}

static int open_nic(struct reader *reader, unsigned int node)
{
	int state = attr_word(reader, "state", state_words), fabric = attr_word(reader, "fabric", fabric_words);
	int role = attr_word(reader, "role", role_words), r;
	struct topo_nic *nic;

	if (state < 0 || fabric < 0 || role < 0)
		return -EBADMSG;
	r = topo_add_nic(reader->builder, node);
	if (r < 0)
		return r;
	nic = &reader->builder->topo->nics[r];
	take_nic(reader->xml, nic);
	nic->seen.state = (enum host_state)state;
	nic->seen.fabric = (enum host_fabric)fabric;
	nic->role = (enum topo_role)role;
	nic->seen.manages_switches = role == TOPO_ROLE_BRIDGE ? HOST_YES : attr_known(reader->xml, "switch_manager");
	take_abilities(reader->xml, nic);
	reader->nic = r;
	return (int)node;
}

static int open_gid(struct reader *reader, unsigned int node)
{
	const char *address = xml_attr(reader->xml, "address");
	struct host_gid gid = {.index = (uint16_t)attr_number(reader->xml, "index", 10, UINT16_MAX)};

	if (reader->nic < 0 || !address || !host_parse_groups(address, 8, gid.bytes))
		return topo_refuse(reader->builder, "line %u: a GID of no NIC, or without an address", reader->xml->line);
	gid.type = attr_number(reader->xml, "roce_v2", 10, 1) ? HOST_GID_ROCE_V2 : HOST_GID_UNKNOWN;
	attr_text(reader->xml, "netdev", gid.netdev, sizeof(gid.netdev));
	host_add_gid(&reader->builder->topo->nics[reader->nic].seen, &gid);
	return (int)node;
}

/* The node that the element became, or that it is in. */
static int open_element(struct reader *reader, unsigned int node)
{
	const char *name = reader->xml->name;

	if (strcmp(name, "gid") == 0)
		return open_gid(reader, node);
	reader->nic = -1;
	if (strcmp(name, "cpu") == 0)
		return open_tree_node(reader, TOPO_CPU, node);
	if (strcmp(name, "host") == 0)
		return open_tree_node(reader, TOPO_HOST, node);
	if (strcmp(name, "bridge") == 0)
		return open_tree_node(reader, TOPO_BRIDGE, node);
	if (strcmp(name, "function") == 0)
		return open_tree_node(reader, TOPO_FUNCTION, node);
	if (strcmp(name, "gpu") == 0)
		return open_gpu(reader, node);
	if (strcmp(name, "links") == 0)
		return open_links(reader, node);
	if (strcmp(name, "nic") == 0)
		return open_nic(reader, node);
	return topo_refuse(reader->builder, "line %u: an element that is not known", reader->xml->line);
}

/* The outermost element is open. */
int topo_read_own(struct topo_builder *builder, struct xml *xml)
{
	struct reader reader = {.builder = builder, .xml = xml, .nic = -1};
	int r;

	if (attr_number(xml, "version", 10, UINT32_MAX) != VERSION)
		return topo_refuse(builder, "it is of another version of shmemd");
	builder->topo->n_numa = (unsigned int)attr_number(xml, "numa_nodes", 10, XML_MAX_ELEMENTS);
	builder->topo->has_xgmi = attr_number(xml, "xgmi", 10, 1);
	while ((r = xml_next(xml)) > 0) {
		if (r == XML_CLOSE) {
			if (strcmp(xml->name, "gid") != 0)
				reader.nic = -1;
			continue;
		}
		r = open_element(&reader, reader.nodes[xml->depth - 1]);
		if (r < 0)
			return r;
		reader.nodes[xml->depth] = (unsigned int)r;
	}
	return r;
}
