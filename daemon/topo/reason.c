/* SPDX-License-Identifier: Apache-2.0 */
/* The map in words. Everything said here is in the machine or the map already; nothing is decided. Any thread. */
#include <inttypes.h>
#include <string.h>

#include "daemon/topo/topo.h"
#include "proto/base/show.h"

static unsigned int rank_of(const struct topo *topo, unsigned int gpu, unsigned int nic)
{
	return topo_rank(topo, topo->gpus[gpu].node, topo->nics[nic].node);
}

static const char *word_of(const struct topo *topo, unsigned int gpu, unsigned int nic)
{
	return topo_word(topo_distance(topo, topo->gpus[gpu].node, topo->nics[nic].node));
}

static bool has(const struct topo_map *map, unsigned int gpu, unsigned int nic)
{
	for (unsigned int i = 0; i < map->gpus[gpu].n_nics; i++)
		if (map->gpus[gpu].nics[i] == nic)
			return true;
	return false;
}

static bool is_free(const struct topo_map *map, unsigned int nic)
{
	return map->excluded[nic] == TOPO_USED && !map->is_reserved[nic];
}

/* The rank of the nearest NIC that the GPU could have. */
static unsigned int nearest_rank(const struct topo *topo, const struct topo_map *map, unsigned int gpu)
{
	unsigned int best = UINT32_MAX;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		unsigned int rank = is_free(map, i) ? rank_of(topo, gpu, i) : UINT32_MAX;

		best = rank < best ? rank : best;
	}
	return best;
}

static unsigned int count_nearest(const struct topo *topo, const struct topo_map *map, unsigned int gpu)
{
	unsigned int best = nearest_rank(topo, map, gpu), n = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++)
		n += is_free(map, i) && rank_of(topo, gpu, i) == best;
	return n;
}

/* GPUs and NICs among which somebody has to share. */
struct crowd {
	bool gpus[TOPO_MAX_GPUS];
	bool nics[TOPO_MAX_NICS];
	unsigned int n_gpus, n_nics;
};

static bool add_nearest(const struct topo *topo, const struct topo_map *map, unsigned int gpu, struct crowd *crowd)
{
	unsigned int n = crowd->n_nics, best = nearest_rank(topo, map, gpu);

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		if (crowd->nics[i] || !is_free(map, i) || rank_of(topo, gpu, i) != best)
			continue;
		crowd->nics[i] = true;
		crowd->n_nics++;
	}
	return crowd->n_nics > n;
}

/* A GPU that has a NIC of the crowd joins, with its own nearest NICs: it could make room only by moving to one of them. */
static bool add_users(const struct topo *topo, const struct topo_map *map, struct crowd *crowd)
{
	bool has_grown = false;

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++) {
		if (crowd->gpus[gpu] || map->gpus[gpu].is_given || !map->gpus[gpu].n_nics || !crowd->nics[map->gpus[gpu].nics[0]])
			continue;
		crowd->gpus[gpu] = true;
		crowd->n_gpus++;
		has_grown |= add_nearest(topo, map, gpu, crowd);
	}
	return has_grown;
}

static void find_crowd(const struct topo *topo, const struct topo_map *map, unsigned int gpu, struct crowd *crowd)
{
	*crowd = (struct crowd){0};
	add_nearest(topo, map, gpu, crowd);
	while (add_users(topo, map, crowd))
		;
}

/* The first GPU that gpu-nic-map gives the NIC to; -1: there is none. */
static int given_to(const struct topo *topo, const struct topo_map *map, unsigned int nic)
{
	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		if (map->gpus[gpu].is_given && has(map, gpu, nic))
			return (int)gpu;
	return -1;
}

/* With the cause where the GPU could have another one; the first word of the reason tells that it has none as near. */
static void sharing_text(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int nic, char *buf,
			 size_t n_bytes)
{
	int given = given_to(topo, map, nic);
	struct crowd crowd;

	find_crowd(topo, map, gpu, &crowd);
	if (given >= 0)
		snprintf(buf, n_bytes, ", shared with GPU%d, to which gpu-nic-map gives it", given);
	else if (count_nearest(topo, map, gpu) > 1 && crowd.n_gpus > crowd.n_nics)
		snprintf(buf, n_bytes, ", shared by %u GPUs since %u GPUs have %u NICs among them", map->n_gpus[nic], crowd.n_gpus,
			 crowd.n_nics);
	else
		snprintf(buf, n_bytes, ", shared by %u GPUs", map->n_gpus[nic]);
}

static unsigned int weight_of(const struct topo_gpu_map *got, unsigned int nic)
{
	for (unsigned int i = 0; i < got->n_nics; i++)
		if (got->nics[i] == nic)
			return got->weights[i];
	return 0;
}

static void reason_given(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int nic,
			 char buf[TOPO_WHY_BYTES])
{
	const struct topo_gpu_map *got = &map->gpus[gpu];
	unsigned int n_sharing = map->n_gpus[nic];
	char weight[32] = "", sharing[32] = "";

	if (got->is_weighted)
		snprintf(weight, sizeof(weight), ", with weight %u", weight_of(got, nic));
	if (n_sharing > 1)
		snprintf(sharing, sizeof(sharing), ", shared by %u GPU%s", n_sharing, plural_s(n_sharing));
	snprintf(buf, TOPO_WHY_BYTES, "%s: gpu-nic-map gives it%s%s", word_of(topo, gpu, nic), weight, sharing);
}

static void reason_for(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int nic,
		       char buf[TOPO_WHY_BYTES])
{
	unsigned int n_equals = count_nearest(topo, map, gpu), n_sharing = map->n_gpus[nic];
	int n;

	if (n_equals == 1)
		n = snprintf(buf, TOPO_WHY_BYTES, "%s: the nearest NIC", word_of(topo, gpu, nic));
	else
		n = snprintf(buf, TOPO_WHY_BYTES, "%s: one of the %u nearest NICs", word_of(topo, gpu, nic), n_equals);
	if (n_sharing > 1)
		sharing_text(topo, map, gpu, nic, buf + n, TOPO_WHY_BYTES - (size_t)n);
	else if (n_equals > 1)
		snprintf(buf + n, TOPO_WHY_BYTES - (size_t)n, ", and no other GPU has it");
	n = (int)strlen(buf);
	if (map->gpus[gpu].lost_given)
		snprintf(buf + n, TOPO_WHY_BYTES - (size_t)n, ", while those of gpu-nic-map cannot be used");
}

static void reason_against(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int nic,
			   char buf[TOPO_WHY_BYTES])
{
	unsigned int first = map->gpus[gpu].n_nics ? map->gpus[gpu].nics[0] : nic, owner;

	for (owner = 0; owner < topo->n_gpus && !has(map, owner, nic); owner++)
		;
	if (map->gpus[gpu].is_given) {
		snprintf(buf, TOPO_WHY_BYTES, "%s: gpu-nic-map gives this GPU others", word_of(topo, gpu, nic));
		return;
	}
	if (map->is_reserved[nic]) {
		snprintf(buf, TOPO_WHY_BYTES, "%s: only for GPU%u, by gpu-nic-map", word_of(topo, gpu, nic), owner);
		return;
	}
	if (rank_of(topo, gpu, nic) > rank_of(topo, gpu, first))
		snprintf(buf, TOPO_WHY_BYTES, "%s: farther than %s", word_of(topo, gpu, nic), word_of(topo, gpu, first));
	else
		snprintf(buf, TOPO_WHY_BYTES, "%s: as near, and GPU%u has it", word_of(topo, gpu, nic), owner);
	/* PIX and PXB do not say how deep the shared bridge is. */
	if (rank_of(topo, gpu, nic) > rank_of(topo, gpu, first) && !strcmp(word_of(topo, gpu, nic), word_of(topo, gpu, first)))
		snprintf(buf, TOPO_WHY_BYTES, "%s: by a bridge nearer to the CPU than that of the nearest",
			 word_of(topo, gpu, nic));
}

const char *topo_reason(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int nic,
			char buf[TOPO_WHY_BYTES])
{
	if (map->excluded[nic] != TOPO_USED)
		return topo_reason_excluded(topo, map, nic, buf);
	if (has(map, gpu, nic) && map->gpus[gpu].is_given)
		reason_given(topo, map, gpu, nic, buf);
	else if (has(map, gpu, nic))
		reason_for(topo, map, gpu, nic, buf);
	else
		reason_against(topo, map, gpu, nic, buf);
	return buf;
}

const char *topo_reason_none(const struct topo *topo, const struct topo_map *map, char buf[TOPO_WHY_BYTES])
{
	if (!topo->n_nics)
		snprintf(buf, TOPO_WHY_BYTES, "the node has no RDMA NIC");
	else
		snprintf(buf, TOPO_WHY_BYTES, "none of the %u NIC%s of this machine can be used", topo->n_nics, plural_s(topo->n_nics));
	return buf;
}

static const char *state_text(uint32_t phys_state)
{
	/* IBTA PortPhysicalState. */
	static const char *const texts[] = {"", "asleep", "polling", "disabled", "training", "up", "in error recovery"};

	return phys_state < sizeof(texts) / sizeof(texts[0]) ? texts[phys_state] : "";
}

static void down_text(const struct topo_nic *nic, char buf[TOPO_WHY_BYTES])
{
	const char *physical = state_text(nic->seen.phys_state);

	snprintf(buf, TOPO_WHY_BYTES, "its port is down%s%s", *physical ? ", physically " : "", physical);
}

/* A VF goes with its PF, and that may be set aside itself, later than the VF. */
static const char *pf_text(const struct topo_map *map, unsigned int pf)
{
	switch (map->excluded[pf]) {
	case TOPO_USED:
		return "which is in use";
	case TOPO_SLOW:
		return "which is slow beside others";
	case TOPO_SEEMS_BRIDGE:
		return "which seems to manage the switches of GPU links";
	case TOPO_BOND_MEMBER:
		return "which is a further port of a bond";
	default:
		return "which is set aside";
	}
}

/* A guess, so it says by what, and how to overrule it. */
static void manager_text(const struct topo *topo, unsigned int nic, unsigned int other, char buf[TOPO_WHY_BYTES])
{
	uint32_t mbps = topo->nodes[topo->nics[nic].node].link_mbps;
	char name[TOPO_NAME_BYTES];

	topo_nic_text(topo, other, name);
	if (mbps)
		snprintf(buf, TOPO_WHY_BYTES,
			 "it seems to manage the switches of GPU links: its PCIe link carries %u Gb/s, that of %.32s %u; nics-include overrules this",
			 (mbps + 500) / 1000, name, (topo->nodes[topo->nics[other].node].link_mbps + 500) / 1000);
	else
		snprintf(buf, TOPO_WHY_BYTES,
			 "it seems to manage the switches of GPU links: nothing tells of its port, and %.32s is of another kind; "
			 "nics-include overrules this", name);
}

/* Nothing is wrong with it. */
static const char *left_text(const struct topo *topo, const struct topo_map *map)
{
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		if (map->gpus[i].is_given)
			return "each GPU has a nearer one, or others by gpu-nic-map";
	return "each GPU has a nearer one";
}

const char *topo_reason_excluded(const struct topo *topo, const struct topo_map *map, unsigned int nic,
				 char buf[TOPO_WHY_BYTES])
{
	const struct topo_nic *seen = &topo->nics[nic];
	char other[TOPO_NAME_BYTES];
	static const char *const plain[] = {
		[TOPO_BY_POLICY] = "by policy: nics-exclude names it",
		[TOPO_IS_MANAGEMENT] = "it is for management, by policy",
		[TOPO_IS_STORAGE] = "it is for storage, by policy",
		[TOPO_IS_BRIDGE] = "it manages the switches of GPU links and carries no traffic",
		[TOPO_NO_DRIVER] = "it has no RDMA device: its driver is not loaded",
		[TOPO_NOT_INCLUDED] = "by policy: nics-include does not name it",
	};

	topo_nic_text(topo, map->other[nic], other);
	switch (map->excluded[nic]) {
	case TOPO_USED:
		snprintf(buf, TOPO_WHY_BYTES, "%s", left_text(topo, map));
		break;
	case TOPO_SEEMS_BRIDGE:
		manager_text(topo, nic, map->other[nic], buf);
		break;
	case TOPO_DOWN:
		down_text(seen, buf);
		break;
	case TOPO_PF_DOWN:
		snprintf(buf, TOPO_WHY_BYTES, "it is a virtual function of %s, whose port is down", other);
		break;
	case TOPO_PF_TAKEN:
		snprintf(buf, TOPO_WHY_BYTES, "it is a virtual function of %s, %s", other, pf_text(map, map->other[nic]));
		break;
	case TOPO_BOND_MEMBER:
		snprintf(buf, TOPO_WHY_BYTES, "it is a further port of the bond %s, which %s stands for", seen->seen.bond, other);
		break;
	case TOPO_SLOW:
		snprintf(buf, TOPO_WHY_BYTES, "it is slow: %" PRIu64 " Gb/s beside the %" PRIu64 " Gb/s of %s",
			 seen->seen.rate_mbps / 1000, topo->nics[map->other[nic]].seen.rate_mbps / 1000, other);
		break;
	default:
		snprintf(buf, TOPO_WHY_BYTES, "%s", plain[map->excluded[nic]]);
		break;
	}
	return buf;
}
