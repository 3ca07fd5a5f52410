/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of the node for sessions.
 *
 * It is redrawn, from the NICs that the daemon has, when the policy changes, when GPUs, NICs or bonds of ports come or go, and when
 * a port goes up or down or trains to another rate. While a GPU's NIC is down the GPU gets the next nearest one, and afterwards its own again.
 * Sessions keep their NICs. The map may have NICs that the daemon lacks; no session gets those.
 *
 * A client that names a GPU which the machine certainly lacks is rejected, with the list of GPUs; otherwise a typing error would get
 * any NIC. A PCI address is rejected if the map has GPUs, none at this address, and sysfs shows no display controller or
 * accelerator there: such a device came after the last reading. A UUID is rejected only if every GPU of the map has one, the
 * driver has no further GPU, and none is split into MIG devices, whose UUIDs the map lacks. A daemon that sees no GPU rejects none.
 * With SHMEMD_TOPOLOGY the file is the whole machine. Control thread.
 */
#include "daemon/session/node-map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/registry.h"
#include "daemon/topo/topo.h"
#include "proto/base/cleanup.h"

#define NO_NIC UINT32_MAX

struct node_map {
	struct registry *registry; /* borrowed */
	struct topo *topo; /* owned */
	bool by_order; /* else NICs are found by name and port */
	struct topo_policy *policy; /* owned; NULL: none */
	unsigned int nics[TOPO_MAX_NICS]; /* the registry's index of each NIC of the map, or NO_NIC */
	struct topo_map map;
	char doubts[TOPO_DOUBTS_BYTES];
};

DEFINE_CLEANUP(struct node_map *, node_map_free);

struct node_map *node_map_free(struct node_map *map)
{
	if (map) {
		topo_free(map->topo);
		free(map->policy);
	}
	free(map);
	return NULL;
}

static bool is_at(const struct nic_info *info, uint64_t pci)
{
	uint64_t own;

	return pci != HOST_NO_PCI && host_pci_parse(info->pci, &own) && own == pci;
}

/* udev may give a device another name when it is open already. */
static unsigned int find_nic(const struct registry *registry, const struct topo *topo, const struct topo_nic *nic)
{
	unsigned int found = NO_NIC;

	for (unsigned int i = 0; i < registry->n_nics; i++) {
		const struct nic_info *info = &registry->nics[i].info;

		if (info->port != nic->seen.port)
			continue;
		if (topo_is_of_device(info->name, nic->seen.name))
			return i;
		if (is_at(info, topo->nodes[nic->node].pci) && found == NO_NIC)
			found = i;
	}
	return found;
}

static enum host_state state_of(const struct node_map *map, unsigned int nic)
{
	if (map->nics[nic] == NO_NIC)
		return HOST_STATE_DOWN;
	return map->registry->nics[map->nics[nic]].info.state == NIC_PORT_ACTIVE ? HOST_STATE_ACTIVE : HOST_STATE_DOWN;
}

/* A port trains to another rate while the machine stays as it was read; the registry knows it. True: it is another one. */
static bool take_rate(struct node_map *map, unsigned int nic)
{
	const struct registry_nic *rnic = map->nics[nic] == NO_NIC ? NULL : &map->registry->nics[map->nics[nic]];

	if (map->by_order || !rnic || rnic->info.state != NIC_PORT_ACTIVE || !rnic->info.rate_mbps ||
	    rnic->info.rate_mbps == map->topo->nics[nic].seen.rate_mbps)
		return false;
	map->topo->nics[nic].seen.rate_mbps = rnic->info.rate_mbps;
	return true;
}

/* True when something changed. */
static bool take_states(struct node_map *map)
{
	bool is_new = false;

	for (unsigned int i = 0; i < map->topo->n_nics; i++) {
		is_new |= map->topo->nics[i].seen.state != state_of(map, i);
		map->topo->nics[i].seen.state = state_of(map, i);
		is_new |= take_rate(map, i);
	}
	return is_new;
}

static void draw(struct node_map *map)
{
	topo_assign(map->topo, map->policy, &map->map);
}

static bool is_of_map(const struct node_map *map, unsigned int index)
{
	for (unsigned int i = 0; i < map->topo->n_nics; i++)
		if (map->nics[i] == index)
			return true;
	return false;
}

static bool allows_any(const struct node_map *map)
{
	for (unsigned int i = 0; i < map->registry->n_nics; i++)
		if (node_map_allows(map, &map->registry->nics[i]))
			return true;
	return false;
}

/* Behind draw(): names are held against the machine and the daemon's own NICs, which no machine has. */
static void doubt(struct node_map *map)
{
	struct topo_apart apart[REGISTRY_MAX_NICS];
	char names[TOPO_DOUBTS_BYTES];
	unsigned int n = 0;

	for (unsigned int i = 0; i < map->registry->n_nics; i++) {
		const struct nic_info *info = &map->registry->nics[i].info;

		if (!is_of_map(map, i))
			apart[n++] = (struct topo_apart){.name = info->name, .pci = info->pci, .port = info->port};
	}
	topo_policy_doubts(map->policy, map->topo, apart, n, names);
	if (map->registry->n_nics && !allows_any(map))
		snprintf(map->doubts, sizeof(map->doubts), "no session can open a NIC: %.200s",
			 *names ? names : "nics-include and nics-exclude leave none");
	else
		memcpy(map->doubts, names, sizeof(names));
}

static void place(struct node_map *map, struct topo *topo)
{
	map->topo = topo;
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		unsigned int in_order = i < map->registry->n_nics ? i : NO_NIC;

		map->nics[i] = map->by_order ? in_order : find_nic(map->registry, topo, &topo->nics[i]);
		topo->nics[i].is_unmanaged = map->nics[i] == NO_NIC;
	}
	take_states(map);
	draw(map);
	doubt(map);
}

int node_map_new(struct topo *topo, struct registry *registry, bool by_order, struct node_map **ret_map)
{
	_cleanup_(node_map_freep) struct node_map *map = calloc(1, sizeof(*map));

	if (!map) {
		topo_free(topo);
		return -ENOMEM;
	}
	map->registry = registry;
	map->by_order = by_order;
	place(map, topo);
	*ret_map = take_ptr(map);
	return 0;
}

void node_map_redraw(struct node_map *map, struct topo *topo)
{
	topo_free(map->topo);
	place(map, topo);
}

void node_map_take_nics(struct node_map *map)
{
	if (map)
		place(map, map->topo);
}

/* ---- policy ------------------------------------------------------------------------------------------------------- */

int node_map_check_policy(struct node_map *map, const struct topo_policy *policy, char *why)
{
	if (!map) {
		snprintf(why, TOPO_POLICY_WHY_BYTES,
			 "there is no map of this machine for nics-include, nics-exclude and gpu-nic-map");
		return policy->n_included || policy->n_excluded || policy->n_given ? -EINVAL : 0;
	}
	if (take_states(map))
		draw(map);
	return topo_policy_check(policy, map->topo, why);
}

void node_map_set_policy(struct node_map *map, struct topo_policy *policy)
{
	if (!map) {
		free(policy);
		return;
	}
	free(map->policy);
	map->policy = policy;
	draw(map);
	doubt(map);
}

const char *node_map_doubts(const struct node_map *map)
{
	return map ? map->doubts : "";
}

bool node_map_allows(const struct node_map *map, const struct registry_nic *rnic)
{
	const struct topo_apart apart = {.name = rnic->info.name, .pci = rnic->info.pci, .port = rnic->info.port};

	for (unsigned int i = 0; map && i < map->topo->n_nics; i++)
		if (map->nics[i] == rnic->index)
			return topo_policy_allows(map->policy, map->topo, i);
	return !map || topo_policy_allows_apart(map->policy, &apart);
}

bool node_map_uses(struct node_map *map, const struct registry_nic *rnic)
{
	if (map && take_states(map))
		draw(map);
	for (unsigned int i = 0; map && i < map->topo->n_nics; i++)
		if (map->nics[i] == rnic->index)
			return map->map.excluded[i] == TOPO_USED && !map->map.is_reserved[i];
	/* Nothing speaks against it; whether anybody may have it at all, by the policy too, node_map_allows() says. */
	return true;
}

/* ---- a GPU's NIC -------------------------------------------------------------------------------------------------- */

/* One that the daemon does not have is down, so no GPU has it; who asks all the same finds it taken and empty. */
static unsigned int n_sessions(const struct node_map *map, unsigned int nic)
{
	return map->nics[nic] == NO_NIC ? 0 : map->registry->nics[map->nics[nic]].n_sessions;
}

static bool is_taken(const struct node_map *map, unsigned int nic, uint64_t taken)
{
	return map->nics[nic] == NO_NIC || (taken >> map->nics[nic] & 1);
}

/* The first of the GPU's NICs that is not taken; the default where all are. */
static unsigned int pick_first(const struct node_map *map, const struct topo_gpu_map *got, uint64_t taken)
{
	for (unsigned int i = 0; i < got->n_nics; i++)
		if (!is_taken(map, got->nics[i], taken))
			return got->nics[i];
	return got->nics[0];
}

/* Whether a would have fewer contexts for its weight than b, with one more each. */
static bool is_lighter(const struct node_map *map, const struct topo_gpu_map *got, unsigned int a, unsigned int b)
{
	uint64_t n_a = (uint64_t)n_sessions(map, got->nics[a]) + 1;
	uint64_t n_b = (uint64_t)n_sessions(map, got->nics[b]) + 1;

	return n_a * got->weights[b] < n_b * got->weights[a];
}

static unsigned int pick_by_weight(const struct node_map *map, const struct topo_gpu_map *got, uint64_t taken)
{
	unsigned int best = 0;

	for (unsigned int i = 1; i < got->n_nics; i++) {
		bool best_taken = is_taken(map, got->nics[best], taken), taken_too = is_taken(map, got->nics[i], taken);

		if (best_taken != taken_too ? best_taken : is_lighter(map, got, i, best))
			best = i;
	}
	return got->nics[best];
}

struct registry_nic *node_map_find(struct node_map *map, const char *gpu, uint64_t taken, char *reason, size_t size)
{
	int index = map ? topo_find_gpu(map->topo, gpu) : -1;
	const struct topo_gpu_map *got;
	char why[TOPO_WHY_BYTES];
	unsigned int nic;

	if (index < 0)
		return NULL;
	if (take_states(map))
		draw(map);
	got = &map->map.gpus[index];
	if (!got->n_nics)
		return NULL;
	nic = got->is_given && got->is_weighted ? pick_by_weight(map, got, taken) : pick_first(map, got, taken);
	if (map->nics[nic] == NO_NIC)
		return NULL;
	snprintf(reason, size, "GPU%d: %s", index, topo_reason(map->topo, &map->map, (unsigned int)index, nic, why));
	return &map->registry->nics[map->nics[nic]];
}

uint64_t node_map_nics(struct node_map *map, const char *gpu)
{
	int index = map ? topo_find_gpu(map->topo, gpu) : -1;
	uint64_t nics = 0;

	if (index < 0)
		return 0;
	if (take_states(map))
		draw(map);
	for (unsigned int i = 0; i < map->map.gpus[index].n_nics; i++) {
		unsigned int nic = map->nics[map->map.gpus[index].nics[i]];

		nics |= nic == NO_NIC ? 0 : 1ull << nic;
	}
	return nics;
}

/* ---- a GPU that is not there ---------------------------------------------------------------------------------------- */

static bool has_all_uuids(const struct node_map *map)
{
	const struct registry_attr *attr = &map->registry->attr;

	for (unsigned int i = 0; i < map->topo->n_gpus; i++)
		if (!map->topo->gpus[i].uuid[0])
			return false;
	return !attr->knows_uuids || attr->knows_uuids(map->topo->n_gpus);
}

bool node_map_lacks_gpu(const struct node_map *map, const char *gpu)
{
	uint64_t pci;

	if (!map || !map->topo->n_gpus || topo_find_gpu(map->topo, gpu) >= 0)
		return false;
	if (host_pci_parse(gpu, &pci))
		return !map->registry->attr.sees_gpu || !map->registry->attr.sees_gpu(gpu);
	return has_all_uuids(map);
}

#define ROOM_FOR_REST 16 /* " and 63 more" */

void node_map_gpus_text(const struct node_map *map, char *buf, size_t size)
{
	char pci[HOST_PCI_BYTES];
	size_t used = 0;

	buf[0] = 0;
	for (unsigned int i = 0; i < map->topo->n_gpus; i++) {
		host_pci_text(map->topo->nodes[map->topo->gpus[i].node].pci, pci);
		if (used + strlen(pci) + 2 + ROOM_FOR_REST > size) {
			snprintf(buf + used, size - used, " and %u more", map->topo->n_gpus - i);
			return;
		}
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "", pci);
	}
}
