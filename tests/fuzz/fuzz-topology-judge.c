/* SPDX-License-Identifier: Apache-2.0 */
/* A machine and its map, judged by the promises of topo.h. */
#include "tests/fuzz/fuzz-topology.h"

#include <string.h>

#include "proto/base/assert.h"

size_t plain_bytes(const char *text)
{
	static const char plain[] = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~\n";

	return strspn(text, plain);
}

static bool is_plain(const char *text)
{
	return !text[plain_bytes(text)] && !strchr(text, '\n');
}

void judge_words(const char *text, size_t max_bytes)
{
	assert_bug(memchr(text, '\0', max_bytes));
	assert_bug(*text && is_plain(text));
}

/* ---- the machine --------------------------------------------------------------------------------------------------- */

static void judge_text(const char *name, size_t size)
{
	assert_bug(memchr(name, '\0', size));
	assert_bug(is_plain(name));
}

static void judge_name(const char name[TOPO_NAME_BYTES])
{
	judge_text(name, TOPO_NAME_BYTES);
}

static void judge_nodes(const struct topo *topo)
{
	assert_bug(topo->n_nodes >= 1 && topo->n_nodes <= TOPO_MAX_NODES);
	assert_bug(topo->nodes[0].kind == TOPO_MACHINE && topo->nodes[0].parent == -1 && topo->nodes[0].depth == 0);
	for (unsigned int i = 1; i < topo->n_nodes; i++) {
		const struct topo_node *node = &topo->nodes[i], *parent;

		assert_bug(node->parent >= 0 && (unsigned int)node->parent < i);
		parent = &topo->nodes[node->parent];
		assert_bug(node->kind > TOPO_MACHINE && node->kind <= TOPO_FUNCTION);
		assert_bug(node->depth == parent->depth + 1 && node->depth < TOPO_MAX_DEPTH);
		assert_bug(node->numa >= TOPO_NO_NUMA && (node->numa >= 0 || parent->numa < 0));
	}
}

static void judge_gpus(const struct topo *topo)
{
	assert_bug(topo->n_gpus <= TOPO_MAX_GPUS);
	for (unsigned int i = 0; i < topo->n_gpus; i++) {
		const struct topo_gpu *gpu = &topo->gpus[i];

		assert_bug(gpu->node < topo->n_nodes && topo->nodes[gpu->node].kind == TOPO_FUNCTION);
		assert_bug(i == 0 || topo->nodes[topo->gpus[i - 1].node].pci < topo->nodes[gpu->node].pci);
		judge_name(gpu->uuid);
		judge_name(gpu->name);
		assert_bug(topo->gpu_links[i][i] == 0);
		for (unsigned int other = 0; other < i; other++)
			assert_bug(topo->gpu_links[i][other] == topo->gpu_links[other][i]);
	}
}

/* A device without an address stands as it was read. */
static bool is_in_order(const struct topo *topo, const struct topo_nic *a, const struct topo_nic *b)
{
	uint64_t pci_a = topo->nodes[a->node].pci, pci_b = topo->nodes[b->node].pci;

	if (pci_a != pci_b)
		return pci_a < pci_b;
	if (pci_a == HOST_NO_PCI && a->node != b->node)
		return a->node < b->node;
	return a->seen.port < b->seen.port;
}

static void judge_nics(const struct topo *topo)
{
	assert_bug(topo->n_nics <= TOPO_MAX_NICS);
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		const struct topo_nic *nic = &topo->nics[i];

		assert_bug(nic->node < topo->n_nodes);
		assert_bug(i == 0 || is_in_order(topo, &topo->nics[i - 1], nic));
		assert_bug(nic->seen.state <= HOST_STATE_ACTIVE && nic->seen.fabric <= HOST_FABRIC_INFINIBAND && nic->role <= TOPO_ROLE_BRIDGE);
		judge_name(nic->seen.name);
		judge_name(nic->seen.netdev);
		judge_name(nic->seen.bond);
		judge_name(nic->seen.firmware);
		assert_bug(nic->seen.n_gids <= HOST_MAX_GIDS && (!nic->seen.n_gids || nic->seen.has_gids == HOST_YES));
		for (unsigned int gid = 0; gid < nic->seen.n_gids; gid++)
			judge_text(nic->seen.gids[gid].netdev, HOST_NETDEV_BYTES);
	}
}

void judge_machine(const struct topo *topo)
{
	judge_nodes(topo);
	judge_gpus(topo);
	judge_nics(topo);
}

/* ---- the map ------------------------------------------------------------------------------------------------------- */

static unsigned int rank_of(const struct topo *topo, unsigned int gpu, unsigned int nic)
{
	return topo_rank(topo, topo->gpus[gpu].node, topo->nics[nic].node);
}

static bool is_free(const struct topo_map *map, unsigned int nic)
{
	return map->excluded[nic] == TOPO_USED && !map->is_reserved[nic];
}

static void judge_list(const struct topo *topo, const struct topo_gpu_map *got, const struct topo_map *map, unsigned int *loads)
{
	bool is_seen[TOPO_MAX_NICS] = {false};

	assert_bug(got->n_nics <= topo->n_nics);
	for (unsigned int i = 0; i < got->n_nics; i++) {
		unsigned int nic = got->nics[i];

		assert_bug(nic < topo->n_nics && map->excluded[nic] == TOPO_USED && !is_seen[nic]);
		assert_bug(got->is_given || !map->is_reserved[nic]);
		if (got->is_given)
			assert_bug(got->weights[i] > 0 && (i == 0 || got->weights[i] <= got->weights[i - 1]));
		else
			assert_bug(i < 2 || nic > got->nics[i - 1]);
		is_seen[nic] = true;
		loads[nic]++;
	}
}

/* An unknown rate counts as the fastest one. */
static uint64_t rate_of(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	uint64_t fastest = TOPO_MIN_RATE_MBPS;

	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (map->excluded[i] == TOPO_USED && topo->nics[i].seen.rate_mbps > fastest)
			fastest = topo->nics[i].seen.rate_mbps;
	return topo->nics[nic].seen.rate_mbps ? topo->nics[nic].seen.rate_mbps : fastest;
}

/* A GPU that shares its NIC would get no larger share of a NIC that is as near; none of these is idle, and none is nearer. */
static void judge_nearest(const struct topo *topo, unsigned int gpu, const struct topo_map *map)
{
	const struct topo_gpu_map *got = &map->gpus[gpu];
	unsigned int best = UINT32_MAX;

	for (unsigned int nic = 0; nic < topo->n_nics; nic++)
		if (is_free(map, nic) && rank_of(topo, gpu, nic) < best)
			best = rank_of(topo, gpu, nic);
	assert_bug((got->n_nics > 0) == (best < UINT32_MAX));
	for (unsigned int i = 0; i < got->n_nics; i++)
		assert_bug(rank_of(topo, gpu, got->nics[i]) == best);
	for (unsigned int nic = 0; nic < topo->n_nics && got->n_nics; nic++) {
		unsigned int own = got->nics[0];

		if (!is_free(map, nic) || rank_of(topo, gpu, nic) != best)
			continue;
		assert_bug(map->n_gpus[nic] > 0);
		if (map->n_gpus[own] > 1)
			assert_bug(rate_of(topo, map, own) * (map->n_gpus[nic] + 1) >= rate_of(topo, map, nic) * map->n_gpus[own]);
	}
}

static void judge_given(const struct topo *topo, const struct topo_policy *policy, const struct topo_map *map)
{
	for (unsigned int i = 0; i < policy->n_given; i++) {
		int gpu = topo_find_gpu(topo, policy->given[i].gpu);

		assert_bug(gpu >= 0 && (unsigned int)gpu < topo->n_gpus);
		assert_bug(map->gpus[gpu].is_given && !map->gpus[gpu].lost_given);
	}
}

void judge_map(const struct topo *topo, const struct topo_policy *policy, bool is_followed, const struct topo_map *map)
{
	unsigned int loads[TOPO_MAX_NICS] = {0};

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++) {
		judge_list(topo, &map->gpus[gpu], map, loads);
		if (!map->gpus[gpu].is_given)
			judge_nearest(topo, gpu, map);
	}
	for (unsigned int nic = 0; nic < topo->n_nics; nic++) {
		assert_bug(map->n_gpus[nic] == loads[nic]);
		assert_bug(map->excluded[nic] <= TOPO_NOT_INCLUDED && map->other[nic] < topo->n_nics);
		assert_bug(map->excluded[nic] != TOPO_USED || topo_policy_allows(policy, topo, nic));
	}
	if (policy && is_followed)
		judge_given(topo, policy, map);
}
