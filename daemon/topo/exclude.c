/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NICs that no GPU gets: each is set aside for the first of the reasons that is true of it. All but a NIC's own properties follow
 * from the others, so the order of the rules matters: a VF goes by its PF, a bond by its ports, and rates by what is left then.
 * Pure; any thread.
 */
#include <string.h>

#include "daemon/topo/topo-private.h"

/* A NIC at less than this part of others' rate is for something else. */
#define SLOW_PART 2
#define VENDOR_MELLANOX 0x15b3

static uint64_t pci_of(const struct topo *topo, unsigned int nic)
{
	return topo->nodes[topo->nics[nic].node].pci;
}

/* Reasons by the policy and by the NIC itself. A guess at its purpose does not count where the policy names it. */
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
	return topo->nics[nic].seen.state == HOST_STATE_DOWN ? TOPO_DOWN : TOPO_USED;
}

/* A VF is part of its PF: down with it, whatever its own port says, and never beside it. */
static void judge_vf(const struct topo *topo, struct topo_map *map, unsigned int nic)
{
	bool is_there = false;

	for (unsigned int pf = 0; pf < topo->n_nics; pf++) {
		if (pci_of(topo, pf) != topo->nics[nic].seen.pf || topo->nics[nic].seen.pf == HOST_NO_PCI)
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
	return nic->seen.bond[0] && nic->seen.fabric != HOST_FABRIC_INFINIBAND;
}

static void judge_bond(const struct topo *topo, struct topo_map *map, unsigned int nic)
{
	for (unsigned int first = 0; first < nic && is_bonded(&topo->nics[nic]); first++) {
		if (map->excluded[first] == TOPO_USED && is_bonded(&topo->nics[first]) &&
		    strcmp(topo->nics[first].seen.bond, topo->nics[nic].seen.bond) == 0) {
			map->excluded[nic] = TOPO_BOND_MEMBER;
			map->other[nic] = (uint16_t)first;
			return;
		}
	}
}

/* ---- managers of switches, without readable product data ------------------------------------------------------------- */

/* Two lanes of PCIe 5, which is all that such a manager has. */
#define MANAGER_LINK_MBPS 64000u
/* A NIC for data has a link of at least so many times that. */
#define DATA_LINK_TIMES 4u

static const struct topo_node *node_of(const struct topo *topo, unsigned int nic)
{
	return &topo->nodes[topo->nics[nic].node];
}

static bool is_same_kind(const struct topo_node *a, const struct topo_node *b)
{
	return a->vendor == b->vendor && a->device == b->device;
}

/* An InfiniBand function whose product data was not read. Only product data is proof. */
static bool may_manage(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	const struct topo_nic *seen = &topo->nics[nic];

	return map->excluded[nic] == TOPO_USED && node_of(topo, nic)->vendor == VENDOR_MELLANOX &&
	       topo_is_infiniband(node_of(topo, nic)->class_code) && seen->seen.fabric != HOST_FABRIC_ETHERNET &&
	       seen->seen.manages_switches == HOST_NOT_KNOWN;
}

static bool is_narrow(const struct topo *topo, unsigned int nic)
{
	uint32_t mbps = node_of(topo, nic)->link_mbps;

	return mbps && mbps <= MANAGER_LINK_MBPS;
}

/* The source knows nothing of its link and its port, for instance because a virtual machine hides both. */
static bool is_mute(const struct topo *topo, unsigned int nic)
{
	const struct topo_nic *seen = &topo->nics[nic];

	return !node_of(topo, nic)->link_mbps && seen->seen.state == HOST_STATE_UNKNOWN && !seen->seen.rate_mbps && !seen->seen.netdev[0];
}

/* A NIC that is for data beside this one: by its link, or, beside one that is mute, by another vendor or generation. */
static bool is_for_data(const struct topo *topo, const struct topo_map *map, unsigned int nic, unsigned int other)
{
	uint32_t mbps = node_of(topo, nic)->link_mbps, other_mbps = node_of(topo, other)->link_mbps;

	if (map->excluded[other] != TOPO_USED || node_of(topo, other) == node_of(topo, nic))
		return false;
	if (mbps)
		return other_mbps / DATA_LINK_TIMES >= mbps;
	return !is_same_kind(node_of(topo, nic), node_of(topo, other));
}

/* More NICs are for data than are like this one, so that what a virtual machine says of all its links excludes none. */
static bool seems_to_manage(const struct topo *topo, const struct topo_map *map, unsigned int nic, unsigned int *ret_other)
{
	unsigned int n_data = 0, n_like = 0;

	if (!may_manage(topo, map, nic) || !(is_narrow(topo, nic) || is_mute(topo, nic)))
		return false;
	for (unsigned int i = topo->n_nics; i-- > 0;) {
		bool is_data = is_for_data(topo, map, nic, i);

		n_data += is_data;
		n_like += !is_data && map->excluded[i] == TOPO_USED;
		*ret_other = is_data ? i : *ret_other;
	}
	return n_data > n_like;
}

static void judge_managers(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map)
{
	bool seems[TOPO_MAX_NICS] = {false};
	unsigned int other = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		seems[i] = !topo_policy_includes(policy, topo, i) && seems_to_manage(topo, map, i, &other);
		if (seems[i])
			map->other[i] = (uint16_t)other;
	}
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (seems[i])
			map->excluded[i] = TOPO_SEEMS_BRIDGE;
}

/* ---- rates --------------------------------------------------------------------------------------------------------- */

/* 0: it is set aside, or unknown, and then nothing follows from it. */
static uint64_t usable_rate(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	return map->excluded[nic] == TOPO_USED ? topo->nics[nic].seen.rate_mbps : 0;
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

/* Whether NICs of this rate and more carry more together than those of less. */
static bool can_miss_slower(const struct topo *topo, const struct topo_map *map, uint64_t least)
{
	uint64_t slower = 0, others = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		uint64_t rate = usable_rate(topo, map, i);

		if (rate < least)
			slower += rate;
		else
			others += rate;
	}
	return others > slower;
}

/* The fastest, unless NICs that are slow beside it are most of what the node has: then the next rate that there is, and so on. */
static uint64_t reference_rate(const struct topo *topo, const struct topo_map *map, unsigned int *ret_nic)
{
	uint64_t rate = UINT64_MAX;

	while (find_next_rate(topo, map, &rate, ret_nic))
		if (can_miss_slower(topo, map, rate / SLOW_PART))
			break;
	return rate;
}

/* Looks only at NICs with at least this rate: returns the highest rate among the nearest of them. */
static uint64_t fastest_of_nearest(const struct topo *topo, const struct topo_map *map, unsigned int gpu, uint64_t least)
{
	unsigned int best = UINT32_MAX;
	uint64_t fastest = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		uint64_t rate = usable_rate(topo, map, i);
		unsigned int rank;

		if (!rate || rate < least)
			continue;
		rank = topo_rank(topo, topo->gpus[gpu].node, topo->nics[i].node);
		if (rank > best)
			continue;
		fastest = rank == best && fastest > rate ? fastest : rate;
		best = rank;
	}
	return fastest;
}

/* Whether each GPU can have a NIC of this rate or more for itself, none has to take a farther one for it, and little is lost. */
static bool is_enough(const struct topo *topo, const struct topo_map *map, uint64_t least)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++)
		n += usable_rate(topo, map, i) >= least;
	if (!topo->n_gpus || n < topo->n_gpus || !can_miss_slower(topo, map, least))
		return false;
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		if (fastest_of_nearest(topo, map, gpu, least - 1) < least)
			return false;
	return true;
}

/*
 * Less than half the rate is slow. Just half of it, as a generation before has, is a peer, unless faster NICs are enough for all GPUs:
 * then it would only make one GPU differ from the others.
 */
static void judge_rates(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map)
{
	unsigned int reference = 0;
	uint64_t half = reference_rate(topo, map, &reference) / SLOW_PART, least = half && is_enough(topo, map, half + 1) ? half + 1 : half;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		uint64_t rate = usable_rate(topo, map, i);

		if (rate && rate < least && !topo_policy_includes(policy, topo, i)) {
			map->excluded[i] = TOPO_SLOW;
			map->other[i] = (uint16_t)reference;
		}
	}
}

void topo_exclude(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		map->excluded[i] = judge_alone(topo, policy, i);
	judge_managers(topo, policy, map);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (map->excluded[i] == TOPO_USED)
			judge_vf(topo, map, i);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (map->excluded[i] == TOPO_USED)
			judge_bond(topo, map, i);
	judge_rates(topo, policy, map);
}
