/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NICs no GPU gets: each is set aside for the first of the reasons that is true of it. All but what a NIC says of itself is told
 * from the others, so the order of the rules matters: a VF goes by its PF, a bond by its ports, and rates by what is left then.
 * Pure; any thread.
 */
#include <string.h>

#include "daemon/topo/topo-private.h"

/* A NIC at less than this part of others' rate is for something else. */
#define SLOW_PART 2

static uint64_t pci_of(const struct topo *topo, unsigned int nic)
{
	return topo->nodes[topo->nics[nic].node].pci;
}

/* What the policy and a NIC itself say. What it seems to be for does not count where it is asked for by name. */
static enum topo_exclusion judge_alone(const struct topo *topo, const struct topo_policy *policy, unsigned int nic)
{
	enum topo_exclusion by_policy = topo_policy_judge(policy, topo, nic);
	bool is_wanted = topo_policy_includes(policy, topo, nic);

	if (by_policy != TOPO_USED)
		return by_policy;
	if (topo->nics[nic].role == TOPO_ROLE_MANAGEMENT && !is_wanted)
		return TOPO_IS_MANAGEMENT;
	if (topo->nics[nic].role == TOPO_ROLE_STORAGE && !is_wanted)
		return TOPO_IS_STORAGE;
	if (topo->nics[nic].role == TOPO_ROLE_BRIDGE)
		return TOPO_IS_BRIDGE;
	if (topo->nics[nic].has_no_driver)
		return TOPO_NO_DRIVER;
	return topo->nics[nic].state == TOPO_STATE_DOWN ? TOPO_DOWN : TOPO_USED;
}

/* A VF is part of its PF: down with it, whatever its own port says, and never beside it. */
static void judge_vf(const struct topo *topo, struct topo_map *map, unsigned int nic)
{
	bool is_there = false;

	for (unsigned int pf = 0; pf < topo->n_nics; pf++) {
		if (pci_of(topo, pf) != topo->nics[nic].pf || topo->nics[nic].pf == TOPO_NO_PCI)
			continue;
		is_there = true;
		map->other[nic] = (uint16_t)pf;
		if (map->excluded[pf] == TOPO_USED) {
			map->excluded[nic] = TOPO_PF_TAKEN;
			return;
		}
	}
	if (is_there && map->excluded[map->other[nic]] == TOPO_DOWN)
		map->excluded[nic] = TOPO_PF_DOWN;
}

/* A bond of InfiniBand interfaces is one of IP alone: verbs have each of the ports. */
static bool is_bonded(const struct topo_nic *nic)
{
	return nic->bond[0] && nic->fabric != TOPO_FABRIC_INFINIBAND;
}

static void judge_bond(const struct topo *topo, struct topo_map *map, unsigned int nic)
{
	for (unsigned int first = 0; first < nic && is_bonded(&topo->nics[nic]); first++) {
		if (map->excluded[first] == TOPO_USED && is_bonded(&topo->nics[first]) &&
		    strcmp(topo->nics[first].bond, topo->nics[nic].bond) == 0) {
			map->excluded[nic] = TOPO_BOND_MEMBER;
			map->other[nic] = (uint16_t)first;
			return;
		}
	}
}

/* 0: it is set aside, or unknown, and then nothing follows from it. */
static uint64_t usable_rate(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	return map->excluded[nic] == TOPO_USED ? topo->nics[nic].rate_mbps : 0;
}

/* The fastest NIC of those below a rate, the first of several. False: there is none. */
static bool find_next_rate(const struct topo *topo, const struct topo_map *map, uint64_t *rate, unsigned int *ret_nic)
{
	uint64_t best = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		uint64_t other = usable_rate(topo, map, i);

		if (other < *rate && other > best) {
			best = other;
			*ret_nic = i;
		}
	}
	*rate = best;
	return best > 0;
}

/* Whether the others carry more than those that are slow beside this rate. */
static bool can_miss_slow(const struct topo *topo, const struct topo_map *map, uint64_t rate)
{
	uint64_t slow = 0, others = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		uint64_t other = usable_rate(topo, map, i);

		if (other < rate / SLOW_PART)
			slow += other;
		else
			others += other;
	}
	return others > slow;
}

/* What is slow beside the fastest is set aside, unless it is most of what the node has: then beside the next rate that others have. */
static void judge_rates(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map)
{
	uint64_t rate = UINT64_MAX;
	unsigned int reference = 0;

	while (find_next_rate(topo, map, &rate, &reference))
		if (can_miss_slow(topo, map, rate))
			break;
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		uint64_t other = usable_rate(topo, map, i);

		if (other && other < rate / SLOW_PART && !topo_policy_includes(policy, topo, i)) {
			map->excluded[i] = TOPO_SLOW;
			map->other[i] = (uint16_t)reference;
		}
	}
}

void topo_exclude(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		map->excluded[i] = judge_alone(topo, policy, i);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (map->excluded[i] == TOPO_USED)
			judge_vf(topo, map, i);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (map->excluded[i] == TOPO_USED)
			judge_bond(topo, map, i);
	judge_rates(topo, policy, map);
}
