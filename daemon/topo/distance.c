/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How near two nodes are, in the words of nvidia-smi.
 *
 * A switch is two bridges when its ports are separate nodes, and one when a hypervisor or a file has flattened it, so PIX is at most one
 * bridge between each end and the bridge that both are below. Some hypervisors go further and show each switch as a host bridge with
 * its devices straight below, which no hardware has: that is PIX, too, unless it is the only one with GPUs. Others hang all devices
 * of a node on one host bridge: there NUMA nodes decide. Speeds of links play no part: bridges of virtual machines say whatever they
 * like about theirs. Pure; any thread.
 */
#include <stdlib.h>

#include "daemon/topo/topo.h"

/* Between a node and something above it, both left out. */
static unsigned int bridges_between(const struct topo *topo, unsigned int node, unsigned int above)
{
	unsigned int n = 0;

	while (node != above) {
		node = (unsigned int)topo->nodes[node].parent;
		n += node == above ? 0 : topo->nodes[node].n_hops;
	}
	return n;
}

/* The deepest node above both, or one of them. */
static unsigned int meeting_point(const struct topo *topo, unsigned int a, unsigned int b)
{
	while (a != b) {
		if (topo->nodes[a].depth >= topo->nodes[b].depth)
			a = (unsigned int)topo->nodes[a].parent;
		else
			b = (unsigned int)topo->nodes[b].parent;
	}
	return a;
}

/* On a machine of one NUMA node everything is on it, also what says nothing. */
static bool share_numa(const struct topo *topo, unsigned int a, unsigned int b)
{
	int numa_a = topo->nodes[a].numa, numa_b = topo->nodes[b].numa;

	if (topo->n_numa <= 1)
		return true;
	return numa_a >= 0 && numa_a == numa_b;
}

/* Told, and not the same: no bus is on two NUMA nodes, so whoever put both below one host bridge has flattened PCI. */
static bool are_on_other_numa(const struct topo *topo, unsigned int a, unsigned int b)
{
	return topo->nodes[a].numa >= 0 && topo->nodes[b].numa >= 0 && !share_numa(topo, a, b);
}

static bool is_flat_switch(const struct topo *topo, unsigned int host, unsigned int a, unsigned int b)
{
	return topo->n_hosts > 1 && topo->nodes[a].parent == (int)host && topo->nodes[b].parent == (int)host;
}

/* A host bridge, or a CPU that stands for all of its own. */
static enum topo_distance below_host(const struct topo *topo, unsigned int host, unsigned int a, unsigned int b)
{
	if (are_on_other_numa(topo, a, b))
		return TOPO_SYS;
	return topo->nodes[host].kind == TOPO_HOST && is_flat_switch(topo, host, a, b) ? TOPO_PIX : TOPO_PHB;
}

enum topo_distance topo_distance(const struct topo *topo, unsigned int a, unsigned int b)
{
	unsigned int meeting = meeting_point(topo, a, b);

	if (a == b)
		return TOPO_SELF;
	switch (topo->nodes[meeting].kind) {
	case TOPO_MACHINE:
		return share_numa(topo, a, b) ? TOPO_NODE : TOPO_SYS;
	case TOPO_CPU:
	case TOPO_HOST:
		return below_host(topo, meeting, a, b);
	case TOPO_BRIDGE:
	case TOPO_FUNCTION:
		break;
	}
	return bridges_between(topo, a, meeting) <= 1 && bridges_between(topo, b, meeting) <= 1 ? TOPO_PIX : TOPO_PXB;
}

unsigned int topo_rank(const struct topo *topo, unsigned int from, unsigned int to)
{
	enum topo_distance distance = topo_distance(topo, from, to);

	if (distance == TOPO_PIX || distance == TOPO_PXB)
		return TOPO_MAX_DEPTH - topo->nodes[meeting_point(topo, from, to)].depth;
	return distance == TOPO_SELF ? 0 : TOPO_MAX_DEPTH + distance;
}

const char *topo_word(enum topo_distance distance)
{
	switch (distance) {
	case TOPO_SELF:
		return "X";
	case TOPO_PIX:
		return "PIX";
	case TOPO_PXB:
		return "PXB";
	case TOPO_PHB:
		return "PHB";
	case TOPO_NODE:
		return "NODE";
	case TOPO_SYS:
		return "SYS";
	}
	abort();
}

unsigned int topo_gpu_links(const struct topo *topo, unsigned int a, unsigned int b)
{
	unsigned int x = topo->gpus[a].n_switch_links, y = topo->gpus[b].n_switch_links;

	if (a == b)
		return 0;
	return topo->gpu_links[a][b] ? topo->gpu_links[a][b] : x < y ? x : y;
}

const char *topo_gpu_word(const struct topo *topo, unsigned int a, unsigned int b, char buf[TOPO_WORD_BYTES])
{
	unsigned int n = topo_gpu_links(topo, a, b);

	if (n && topo->has_xgmi)
		snprintf(buf, TOPO_WORD_BYTES, "XGMI");
	else if (n)
		snprintf(buf, TOPO_WORD_BYTES, "NV%u", n);
	else
		snprintf(buf, TOPO_WORD_BYTES, "%s", topo_word(topo_distance(topo, topo->gpus[a].node, topo->gpus[b].node)));
	return buf;
}
