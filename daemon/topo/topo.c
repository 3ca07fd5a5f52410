/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a struct topo, whatever it is read from.
 *
 * Two GPUs of one address, or two NICs of one address and port, are refused, because they could not be distinguished. Devices without an address
 * are numbered by their place in the file. Nodes only grow, and a parent is there before its children, so depth and NUMA node are known as
 * soon as a node is. Pure; any thread.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

#define CLASS_INFINIBAND 0x0207
#define CLASS_BASE_DISPLAY 0x03
#define CLASS_VGA 0x0300
#define CLASS_3D 0x0302
#define CLASS_OTHER_DISPLAY 0x0380
#define CLASS_ACCELERATOR 0x1200
#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002

#define NODES_AT_FIRST 64u
#define NICS_AT_FIRST 16u /* doubled as needed */

void topo_free(struct topo *topo)
{
	if (!topo)
		return;
	free(topo->nodes);
	free(topo->gpus);
	free(topo->nics);
	free(topo->gpu_links);
	free(topo);
}

static struct topo *topo_new(void)
{
	_cleanup_(topo_freep) struct topo *topo = calloc(1, sizeof(*topo));

	if (!topo)
		return NULL;
	topo->nodes = calloc(NODES_AT_FIRST, sizeof(*topo->nodes));
	topo->gpus = calloc(TOPO_MAX_GPUS, sizeof(*topo->gpus));
	topo->nics = calloc(NICS_AT_FIRST, sizeof(*topo->nics));
	topo->gpu_links = calloc(TOPO_MAX_GPUS, sizeof(*topo->gpu_links));
	if (!topo->nodes || !topo->gpus || !topo->nics || !topo->gpu_links)
		return NULL;
	topo->n_nodes = 1;
	topo->nodes[0] = (struct topo_node){.kind = TOPO_MACHINE, .parent = -1, .numa = TOPO_NO_NUMA, .pci = HOST_NO_PCI};
	return take_ptr(topo);
}

int topo_builder_init(struct topo_builder *builder, char *why)
{
	*builder = (struct topo_builder){.topo = topo_new(), .why = why};
	return builder->topo ? 0 : -ENOMEM;
}

void topo_builder_deinit(struct topo_builder *builder)
{
	topo_free(builder->topo);
	builder->topo = NULL;
}

int topo_refuse(struct topo_builder *builder, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(builder->why, TOPO_WHY_BYTES, fmt, args);
	va_end(args);
	return -EBADMSG;
}

void topo_note(struct topo_builder *builder, const char *fmt, ...)
{
	size_t n = strlen(builder->why);
	va_list args;

	va_start(args, fmt);
	n += (size_t)snprintf(builder->why + n, TOPO_WHY_BYTES - n, "%s", n ? "; " : "");
	if (n < TOPO_WHY_BYTES)
		vsnprintf(builder->why + n, TOPO_WHY_BYTES - n, fmt, args);
	va_end(args);
}

static int too_many(struct topo_builder *builder, unsigned int max, const char *what)
{
	topo_refuse(builder, "there are more than %u %s", max, what);
	return -E2BIG;
}

/* Room for one more of n elements. It doubles, from a power of two. */
static int grow(void **array, unsigned int n, unsigned int at_first, size_t bytes_each)
{
	void *more;

	if (n < at_first || (n & (n - 1)))
		return 0;
	more = reallocarray(*array, n, 2 * bytes_each);
	if (!more)
		return -ENOMEM;
	*array = more;
	return 0;
}

int topo_add_node(struct topo_builder *builder, const struct topo_node *like)
{
	struct topo *topo = builder->topo;
	const struct topo_node *parent;
	struct topo_node *node;
	int r;

	if (topo->n_nodes == TOPO_MAX_NODES)
		return too_many(builder, TOPO_MAX_NODES, "bridges and functions");
	r = grow((void **)&topo->nodes, topo->n_nodes, NODES_AT_FIRST, sizeof(*topo->nodes));
	if (r < 0)
		return r;
	parent = &topo->nodes[like->parent];
	if (parent->depth + 1 == TOPO_MAX_DEPTH)
		return too_many(builder, TOPO_MAX_DEPTH, "bridges above each other");
	node = &topo->nodes[topo->n_nodes];
	*node = *like;
	node->depth = parent->depth + 1;
	if (node->numa < 0)
		node->numa = parent->numa;
	return (int)topo->n_nodes++;
}

/*
 * Chips that ATI and AMD made before GPUs that ROCm drives: numbers below those of the first of them, apart from the later R500 to
 * R700. Server boards had such a chip for their console: Rage XL (4752), ES1000 (515e, 5969). A function whose number is unknown may be newer.
 */
static bool is_old_amd(uint16_t device)
{
	return (device >= 0x3000 && device < 0x6600) || (device >= 0x7100 && device < 0x7300) ||
	       (device >= 0x9400 && device < 0x9800);
}

bool topo_is_gpu(uint16_t class_code, uint16_t vendor, uint16_t device)
{
	if (class_code == CLASS_3D || class_code == CLASS_OTHER_DISPLAY)
		return true;
	if (class_code == CLASS_ACCELERATOR)
		return vendor == VENDOR_AMD;
	if (class_code != CLASS_VGA)
		return false;
	return vendor == VENDOR_NVIDIA || (vendor == VENDOR_AMD && !is_old_amd(device));
}

bool topo_is_infiniband(uint16_t class_code)
{
	return class_code == CLASS_INFINIBAND;
}

bool topo_may_be_gpu(uint16_t class_code)
{
	return class_code >> 8 == CLASS_BASE_DISPLAY || class_code == CLASS_ACCELERATOR;
}

int topo_add_gpu(struct topo_builder *builder, unsigned int node)
{
	struct topo *topo = builder->topo;

	if (topo_gpu_at(builder, node))
		return 0;
	if (topo->n_gpus == TOPO_MAX_GPUS)
		return too_many(builder, TOPO_MAX_GPUS, "GPUs");
	topo->gpus[topo->n_gpus++] = (struct topo_gpu){.node = node};
	return 0;
}

int topo_add_function(struct topo_builder *builder, const struct topo_node *like)
{
	int node = topo_add_node(builder, like), r;

	if (node < 0 || !topo_is_gpu(like->class_code, like->vendor, like->device))
		return node;
	r = topo_add_gpu(builder, (unsigned int)node);
	return r < 0 ? r : node;
}

struct topo_gpu *topo_gpu_at(struct topo_builder *builder, unsigned int node)
{
	for (unsigned int i = 0; i < builder->topo->n_gpus; i++)
		if (builder->topo->gpus[i].node == node)
			return &builder->topo->gpus[i];
	return NULL;
}

int topo_add_nic(struct topo_builder *builder, unsigned int node)
{
	struct topo *topo = builder->topo;
	int r;

	if (topo->n_nics == TOPO_MAX_NICS)
		return too_many(builder, TOPO_MAX_NICS, "ports of NICs");
	r = grow((void **)&topo->nics, topo->n_nics, NICS_AT_FIRST, sizeof(*topo->nics));
	if (r < 0)
		return r;
	topo->nics[topo->n_nics] = (struct topo_nic){.node = node, .seen.port = 1, .seen.pf = HOST_NO_PCI};
	return (int)topo->n_nics++;
}

int topo_nic_at(const struct topo *topo, unsigned int node, unsigned int port)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (topo->nics[i].node == node && topo->nics[i].seen.port == port)
			return (int)i;
	return -1;
}

int topo_add_links(struct topo_builder *builder, uint64_t from, uint64_t to, unsigned int count)
{
	if (builder->n_links == TOPO_MAX_LINKS)
		return too_many(builder, TOPO_MAX_LINKS, "links between GPUs");
	builder->links[builder->n_links++] = (struct topo_link_seen){from, to, count};
	return 0;
}

/* ---- putting in order ---------------------------------------------------------------------------------------------- */

/* The order of PCI addresses; what has none comes last, as it was read. */
struct order {
	uint64_t pci;
	unsigned int node; /* of what has no address, else 0 */
	unsigned int port;
	unsigned int index; /* before */
};

static int compare_orders(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->pci != y->pci)
		return x->pci < y->pci ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static int refuse_twice(struct topo_builder *builder, const char *what, const struct order *order)
{
	char pci[HOST_PCI_BYTES];

	return topo_refuse(builder, "%s %s is there twice", what, host_pci_text(order->pci, pci));
}

static int sort_gpus(struct topo_builder *builder)
{
	struct topo *topo = builder->topo;
	struct topo_gpu *sorted = calloc(TOPO_MAX_GPUS, sizeof(*sorted));
	struct order orders[TOPO_MAX_GPUS];

	if (!sorted)
		return -ENOMEM;
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		orders[i] = (struct order){.pci = topo->nodes[topo->gpus[i].node].pci, .index = i};
	qsort(orders, topo->n_gpus, sizeof(orders[0]), compare_orders);
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		sorted[i] = topo->gpus[orders[i].index];
	free(topo->gpus);
	topo->gpus = sorted;
	for (unsigned int i = 1; i < topo->n_gpus; i++)
		if (orders[i].pci == orders[i - 1].pci)
			return refuse_twice(builder, "the GPU", &orders[i]);
	return 0;
}

static struct order order_of_nic(const struct topo *topo, unsigned int nic)
{
	unsigned int node = topo->nics[nic].node;
	uint64_t pci = topo->nodes[node].pci;

	return (struct order){pci, pci == HOST_NO_PCI ? node : 0, topo->nics[nic].seen.port, nic};
}

static int sort_nics(struct topo_builder *builder)
{
	struct topo *topo = builder->topo;
	_cleanup_free_ struct order *orders = calloc(TOPO_MAX_NICS, sizeof(*orders));
	struct topo_nic *sorted = orders ? calloc(topo->n_nics + 1, sizeof(*sorted)) : NULL;

	if (!sorted)
		return -ENOMEM;
	for (unsigned int i = 0; i < topo->n_nics; i++)
		orders[i] = order_of_nic(topo, i);
	qsort(orders, topo->n_nics, sizeof(orders[0]), compare_orders);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		sorted[i] = topo->nics[orders[i].index];
	free(topo->nics);
	topo->nics = sorted;
	for (unsigned int i = 1; i < topo->n_nics; i++)
		if (orders[i].pci == orders[i - 1].pci && orders[i].node == orders[i - 1].node && orders[i].port == orders[i - 1].port)
			return refuse_twice(builder, "the NIC", &orders[i]);
	return 0;
}

/* Functions that are InfiniBand by their class, and that no reader made a NIC. */
static int add_silent_nics(struct topo_builder *builder)
{
	struct topo *topo = builder->topo;
	unsigned int n_named = topo->n_nics;

	for (unsigned int node = 0; node < topo->n_nodes; node++) {
		bool is_known = !topo_is_infiniband(topo->nodes[node].class_code);

		for (unsigned int i = 0; i < n_named && !is_known; i++)
			is_known = topo->nodes[topo->nics[i].node].pci == topo->nodes[node].pci;
		/* The running machine may omit them if there is no room: they have no driver. */
		if (!is_known && !(builder->is_live && topo->n_nics == TOPO_MAX_NICS)) {
			int nic = topo_add_nic(builder, node);

			if (nic < 0)
				return nic;
			topo->nics[nic].has_no_driver = builder->is_live;
		}
	}
	return 0;
}

static int gpu_of_pci(const struct topo *topo, uint64_t pci)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if (topo->nodes[topo->gpus[i].node].pci == pci)
			return (int)i;
	return -1;
}

static unsigned int at_most_255(unsigned int n)
{
	return n < UINT8_MAX ? n : UINT8_MAX;
}

/* A file tells a link at one end or at both. */
static void place_links(struct topo_builder *builder)
{
	struct topo *topo = builder->topo;

	for (unsigned int i = 0; i < builder->n_links; i++) {
		const struct topo_link_seen *seen = &builder->links[i];
		unsigned int count = at_most_255(seen->count);
		int from = gpu_of_pci(topo, seen->from), to = gpu_of_pci(topo, seen->to);

		if (from < 0)
			continue;
		if (seen->to == HOST_NO_PCI) {
			topo->gpus[from].n_switch_links = at_most_255(topo->gpus[from].n_switch_links + count);
			continue;
		}
		/* Anything else is a CPU, or a GPU that the capturing process could not see. */
		if (to < 0 || from == to)
			continue;
		if (count > topo->gpu_links[from][to])
			topo->gpu_links[from][to] = topo->gpu_links[to][from] = (uint8_t)count;
	}
}

static unsigned int host_of(const struct topo *topo, unsigned int node)
{
	while (node && topo->nodes[node].kind != TOPO_HOST)
		node = (unsigned int)topo->nodes[node].parent;
	return node;
}

static bool has_gpus(const struct topo *topo, unsigned int host)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if (host_of(topo, topo->gpus[i].node) == host)
			return true;
	return false;
}

/* NICs do not count, so that an unusable NIC changes nothing. */
static void count_hosts(struct topo *topo)
{
	for (unsigned int node = 0; node < topo->n_nodes; node++)
		topo->n_hosts += topo->nodes[node].kind == TOPO_HOST && has_gpus(topo, node);
}

static bool is_plausible(uint64_t mbps)
{
	return !mbps || (mbps >= TOPO_MIN_RATE_MBPS && mbps <= TOPO_MAX_RATE_MBPS);
}

/* Nothing follows from a rate that no port has. */
static void drop_implausible_rates(struct topo_builder *builder)
{
	struct topo *topo = builder->topo;
	unsigned int n = 0, first = 0;
	uint64_t first_rate = 0;
	char name[TOPO_NAME_BYTES];

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		struct topo_nic *nic = &topo->nics[i];

		if (!is_plausible(nic->seen.max_rate_mbps))
			nic->seen.max_rate_mbps = 0;
		if (is_plausible(nic->seen.rate_mbps))
			continue;
		if (!n++) {
			first = i;
			first_rate = nic->seen.rate_mbps;
		}
		nic->seen.rate_mbps = 0;
	}
	if (n)
		topo_note(builder, "no port runs at %" PRIu64 " Mb/s (%s): the rate of %u NIC%s counts as unknown", first_rate,
			  topo_nic_text(topo, first, name), n, n > 1 ? "s" : "");
}

int topo_finish(struct topo_builder *builder, struct topo **ret_topo)
{
	int r = add_silent_nics(builder);

	if (!r)
		r = sort_gpus(builder);
	if (!r)
		r = sort_nics(builder);
	if (r)
		return r;
	drop_implausible_rates(builder);
	place_links(builder);
	count_hosts(builder->topo);
	*ret_topo = take_ptr(builder->topo);
	return 0;
}

/* ---- texts --------------------------------------------------------------------------------------------------------- */

const char *topo_nic_text(const struct topo *topo, unsigned int nic, char buf[TOPO_NAME_BYTES])
{
	if (topo->nics[nic].seen.name[0])
		memcpy(buf, topo->nics[nic].seen.name, TOPO_NAME_BYTES);
	else
		host_pci_text(topo->nodes[topo->nics[nic].node].pci, buf);
	return buf;
}

static int gpu_of_index(const struct topo *topo, const char *text)
{
	unsigned long index;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -1;
	index = strtoul(text, &end, 10);
	return *end == 0 && index < topo->n_gpus ? (int)index : -1;
}

int topo_find_gpu(const struct topo *topo, const char *text)
{
	uint64_t pci;

	if (host_pci_parse(text, &pci))
		return gpu_of_pci(topo, pci);
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if (topo->gpus[i].uuid[0] && strcasecmp(topo->gpus[i].uuid, text) == 0)
			return (int)i;
	return gpu_of_index(topo, text);
}
