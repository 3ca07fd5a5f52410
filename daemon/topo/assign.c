/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The assignment of NICs to GPUs.
 *
 * First NICs that no GPU gets are set aside, each with its reason, and GPUs get the NICs of the policy. The rest is a matching
 * of GPUs with the NICs nearest to them, and the matching is optimal: a GPU takes the least loaded NIC that can be had, if need
 * be by moving other GPUs along a path of NICs that are as near to them. So no NIC serves two GPUs while an idle one is as near
 * to either; and GPUs share NICs in proportion to their rates, so that the GPU with the least has as much as it can. Among equal
 * NICs a GPU takes one that is no other GPU's nearest. Only the NIC at which a path ends gets a GPU more, and each further GPU makes
 * a NIC less attractive: so the best path for each GPU in turn is the best for all. NICs left over are dealt out then. Loops run in
 * the order of PCI addresses and nothing else breaks a tie. Pure; any thread.
 */
#include <string.h>

#include "daemon/topo/topo-private.h"

/* ---- what the policy gives ------------------------------------------------------------------------------------------ */

static bool has(const struct topo_gpu_map *got, unsigned int nic)
{
	for (unsigned int i = 0; i < got->n_nics; i++)
		if (got->nics[i] == nic)
			return true;
	return false;
}

/*
 * Set aside by a rule that guesses: an administrator who names the NIC knows better. NICs that the policy itself sets aside, or that cannot work, stay out. A VF below
 * a PF that is down is a guess as well: where it cannot work its own port is down.
 */
static bool may_lift(const struct topo *topo, const struct topo_policy *policy, const struct topo_map *map, unsigned int nic)
{
	if (topo->nics[nic].seen.state == HOST_STATE_DOWN || topo->nics[nic].has_no_driver)
		return false;
	switch (map->excluded[nic]) {
	case TOPO_IS_MANAGEMENT:
	case TOPO_IS_STORAGE:
		return topo_policy_judge(policy, topo, nic) == TOPO_USED;
	case TOPO_PF_DOWN:
	case TOPO_PF_TAKEN:
	case TOPO_BOND_MEMBER:
	case TOPO_SLOW:
	case TOPO_SEEMS_BRIDGE:
		return true;
	case TOPO_USED:
	case TOPO_BY_POLICY:
	case TOPO_IS_BRIDGE:
	case TOPO_NO_DRIVER:
	case TOPO_DOWN:
	case TOPO_NOT_INCLUDED:
		break;
	}
	return false;
}

/* Heavier ones stand first, equal ones as they were written. */
static void give_weighted(struct topo_gpu_map *got, unsigned int nic, unsigned int weight)
{
	unsigned int at = got->n_nics++;

	for (; at > 0 && got->weights[at - 1] < weight; at--) {
		got->nics[at] = got->nics[at - 1];
		got->weights[at] = got->weights[at - 1];
	}
	got->nics[at] = (uint16_t)nic;
	got->weights[at] = (uint16_t)weight;
}

/* False: it cannot be used. */
static bool try_to_give(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map,
			unsigned int nic)
{
	if (may_lift(topo, policy, map, nic)) {
		map->excluded[nic] = TOPO_USED;
		map->is_reserved[nic] = true;
	}
	return map->excluded[nic] == TOPO_USED;
}

static void give_one(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map,
		     const struct topo_given *given)
{
	int gpu = topo_find_gpu(topo, given->gpu);
	struct topo_gpu_map *got = gpu >= 0 ? &map->gpus[gpu] : NULL;
	bool is_lost = true;

	for (unsigned int nic = 0; got && nic < topo->n_nics; nic++) {
		if (!topo_named_fits(&given->nic, topo, nic) || !try_to_give(topo, policy, map, nic))
			continue;
		is_lost = false;
		if (has(got, nic))
			continue;
		give_weighted(got, nic, given->weight ? given->weight : 1);
		got->is_given = true;
		got->is_weighted |= given->weight > 0;
		map->n_gpus[nic]++;
	}
	if (got)
		got->lost_given |= is_lost;
}

/* ---- matching ------------------------------------------------------------------------------------------------------ */

#define NONE UINT16_MAX

struct matching {
	const struct topo *topo;
	struct topo_map *map;
	uint64_t near_to[TOPO_MAX_NICS]; /* GPUs that have none nearer, a bit each */
	uint16_t ranks[TOPO_MAX_NICS]; /* of the one of them that it is nearest to */
	uint64_t rates[TOPO_MAX_NICS]; /* never 0 */
	uint16_t chosen[TOPO_MAX_GPUS]; /* its default */
	/* State of one search: how it reached a NIC. */
	uint16_t via_gpu[TOPO_MAX_NICS]; /* the GPU that would move to it; NONE: not reached */
	uint16_t queue[TOPO_MAX_NICS];
	unsigned int n_queued;
};

_Static_assert(TOPO_MAX_GPUS <= 64, "a bit for each GPU");
#define NO_RANK UINT16_MAX

static bool is_near(const struct matching *m, unsigned int gpu, unsigned int nic)
{
	return m->near_to[nic] >> gpu & 1;
}

static uint16_t rank_of(const struct matching *m, unsigned int gpu, unsigned int nic)
{
	return (uint16_t)topo_rank(m->topo, m->topo->gpus[gpu].node, m->topo->nics[nic].node);
}

static void find_nearest(struct matching *m, unsigned int gpu)
{
	uint16_t ranks[TOPO_MAX_NICS], best = NO_RANK;

	for (unsigned int nic = 0; nic < m->topo->n_nics; nic++) {
		bool is_free = m->map->excluded[nic] == TOPO_USED && !m->map->is_reserved[nic];

		ranks[nic] = is_free ? rank_of(m, gpu, nic) : NO_RANK;
		best = ranks[nic] < best ? ranks[nic] : best;
	}
	for (unsigned int nic = 0; nic < m->topo->n_nics && best != NO_RANK; nic++) {
		if (ranks[nic] != best)
			continue;
		m->near_to[nic] |= UINT64_C(1) << gpu;
		if (best < m->ranks[nic])
			m->ranks[nic] = best;
	}
}

static void reach_from(struct matching *m, unsigned int gpu)
{
	for (unsigned int nic = 0; nic < m->topo->n_nics; nic++) {
		if (is_near(m, gpu, nic) && m->via_gpu[nic] == NONE) {
			m->via_gpu[nic] = (uint16_t)gpu;
			m->queue[m->n_queued++] = (uint16_t)nic;
		}
	}
}

/*
 * An idle one comes first, then the one that has more for each of its GPUs once another one is added, then the less loaded one. Among
 * equals the one that others are less near to: what a GPU is nearest to is left to that one.
 */
static bool is_better(const struct matching *m, uint16_t nic, uint16_t best)
{
	unsigned int load = m->map->n_gpus[nic], best_load = m->map->n_gpus[best];
	uint64_t share = m->rates[nic] * (best_load + 1), best_share = m->rates[best] * (load + 1);

	if (!load != !best_load)
		return !load;
	if (share != best_share)
		return share > best_share;
	return load != best_load ? load < best_load : m->ranks[nic] > m->ranks[best];
}

/* The best NIC that `gpu` can have, itself or by moving others; NONE without any. The nearest in moves among equals. */
static uint16_t search(struct matching *m, unsigned int gpu)
{
	uint16_t best = NONE;

	m->n_queued = 0;
	for (unsigned int nic = 0; nic < m->topo->n_nics; nic++)
		m->via_gpu[nic] = NONE;
	reach_from(m, gpu);
	for (unsigned int i = 0; i < m->n_queued; i++) {
		uint16_t nic = m->queue[i];

		if (best == NONE || is_better(m, nic, best))
			best = nic;
		for (unsigned int other = 0; other < gpu; other++)
			if (m->chosen[other] == nic)
				reach_from(m, other);
	}
	return best;
}

static void match(struct matching *m, unsigned int gpu)
{
	uint16_t nic = search(m, gpu);

	m->chosen[gpu] = NONE;
	if (nic == NONE)
		return;
	m->map->n_gpus[nic]++;
	/* From the end of the path back: each GPU moves to the NIC by which it was reached. */
	for (unsigned int mover = m->via_gpu[nic]; mover != gpu; mover = m->via_gpu[nic]) {
		uint16_t left = m->chosen[mover];

		m->chosen[mover] = nic;
		nic = left;
	}
	m->chosen[gpu] = nic;
}

/* Moves leave the GPUs of one set in whatever order; the first of them by address gets the first NIC by address. */
static void straighten(struct matching *m)
{
	for (unsigned int a = 0; a < m->topo->n_gpus; a++) {
		for (unsigned int b = a + 1; b < m->topo->n_gpus; b++) {
			uint16_t low = m->chosen[b], high = m->chosen[a];

			if (high == NONE || low == NONE || low >= high || !is_near(m, a, low) || !is_near(m, b, high))
				continue;
			m->chosen[a] = low;
			m->chosen[b] = high;
		}
	}
}

static void give(struct topo_map *map, unsigned int gpu, unsigned int nic)
{
	map->gpus[gpu].nics[map->gpus[gpu].n_nics++] = (uint16_t)nic;
}

/* Its part of the rates of its NICs. */
static uint64_t share_of(const struct matching *m, unsigned int gpu)
{
	const struct topo_gpu_map *got = &m->map->gpus[gpu];
	uint64_t sum = 0;

	for (unsigned int i = 0; i < got->n_nics; i++)
		sum += m->rates[got->nics[i]] / m->map->n_gpus[got->nics[i]];
	return sum;
}

/* Whether a left-over NIC is better with `gpu`: nearer to it, or as near and it has less so far. */
static bool deserves(const struct matching *m, unsigned int gpu, unsigned int other, unsigned int nic)
{
	unsigned int rank = rank_of(m, gpu, nic), other_rank = rank_of(m, other, nic);

	return rank != other_rank ? rank < other_rank : share_of(m, gpu) < share_of(m, other);
}

/* Gives a NIC without a GPU to one of the GPUs that have none nearer. */
static void deal_out(struct matching *m, unsigned int nic)
{
	int best = -1;

	for (unsigned int gpu = 0; gpu < m->topo->n_gpus; gpu++)
		if (is_near(m, gpu, nic) && (best < 0 || deserves(m, gpu, (unsigned int)best, nic)))
			best = (int)gpu;
	if (best < 0)
		return;
	give(m->map, (unsigned int)best, nic);
	m->map->n_gpus[nic]++;
}

/* An unknown rate counts as the highest known one. */
static void find_rates(struct matching *m)
{
	uint64_t fastest = TOPO_MIN_RATE_MBPS;

	for (unsigned int nic = 0; nic < m->topo->n_nics; nic++)
		if (m->map->excluded[nic] == TOPO_USED && m->topo->nics[nic].seen.rate_mbps > fastest)
			fastest = m->topo->nics[nic].seen.rate_mbps;
	for (unsigned int nic = 0; nic < m->topo->n_nics; nic++)
		m->rates[nic] = m->topo->nics[nic].seen.rate_mbps ? m->topo->nics[nic].seen.rate_mbps : fastest;
}

/* GPUs that the policy gives none, in the order of PCI addresses. */
static void match_all(struct matching *m)
{
	for (unsigned int nic = 0; nic < m->topo->n_nics; nic++)
		m->ranks[nic] = NO_RANK;
	for (unsigned int gpu = 0; gpu < m->topo->n_gpus; gpu++)
		if (!m->map->gpus[gpu].is_given)
			find_nearest(m, gpu);
	for (unsigned int gpu = 0; gpu < m->topo->n_gpus; gpu++)
		match(m, gpu);
	straighten(m);
}

void topo_assign(const struct topo *topo, const struct topo_policy *policy, struct topo_map *ret_map)
{
	struct matching m = {.topo = topo, .map = ret_map};

	memset(ret_map, 0, sizeof(*ret_map));
	topo_exclude(topo, policy, ret_map);
	for (unsigned int i = 0; policy && i < policy->n_given; i++)
		give_one(topo, policy, ret_map, &policy->given[i]);
	find_rates(&m);
	match_all(&m);
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		if (m.chosen[gpu] != NONE)
			give(ret_map, gpu, m.chosen[gpu]);
	for (unsigned int nic = 0; nic < topo->n_nics; nic++)
		if (ret_map->excluded[nic] == TOPO_USED && !ret_map->n_gpus[nic])
			deal_out(&m, nic);
}
