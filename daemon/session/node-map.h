/* SPDX-License-Identifier: Apache-2.0 */
/* The map of the node as sessions use it: which of the registry's NICs a GPU gets. Control thread. */
#ifndef SHMEMD_SESSION_NODE_MAP_H
#define SHMEMD_SESSION_NODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_map;
struct registry;
struct registry_nic;
struct topo;
struct topo_policy;

/*
 * Takes the topo, also when it fails with -ENOMEM. NICs are found by name and port, those that have another name now by their PCI
 * address; with by_order the registry's first NIC stands for the
 * map's first, and so on, whatever they are called. The registry outlives it.
 */
int node_map_new(struct topo *topo, struct registry *registry, bool by_order, struct node_map **ret_map);
struct node_map *node_map_free(struct node_map *map);
/* The machine has changed, or the registry has more NICs of it: takes the topo. Sessions keep their NICs; the next NIC that is opened for a GPU goes by the new map. */
void node_map_redraw(struct node_map *map, struct topo *topo);
/* The registry has more NICs, of a machine that is as it was. map may be NULL. */
void node_map_take_nics(struct node_map *map);

/* Whether the machine, with ports as they are now, can do what the policy wants: -EINVAL, and why. map may be NULL: nothing is known. */
int node_map_check_policy(struct node_map *map, const struct topo_policy *policy, char *why); /* TOPO_POLICY_WHY_BYTES */
/* Takes the policy, a block of malloc(); NULL: none. Sessions keep their NICs. map may be NULL. */
void node_map_set_policy(struct node_map *map, struct topo_policy *policy);
/*
 * Names in the policy that nothing has here, and whether it leaves no NIC to any session, in words; "": all is well. As of the last
 * time the machine, the registry's NICs or the policy changed. map may be NULL.
 */
const char *node_map_doubts(const struct node_map *map);
/* Whether the policy leaves the registry's NIC to anybody. map may be NULL, here and below. */
bool node_map_allows(const struct node_map *map, const struct registry_nic *rnic);
/*
 * Of one that it allows: is it for any GPU, with ports as they are now, not set aside, nor given to one alone? True for what the
 * map does not know.
 */
bool node_map_uses(struct node_map *map, const struct registry_nic *rnic);

/*
 * The NIC of a GPU, in the state that ports have now, and why, in words: the default, or the first that is not in `taken` (a bit
 * per registry index); where the policy says weights, the one with the fewest contexts for its weight. NULL: the map does not know
 * the GPU, or has no active NIC for it.
 */
struct registry_nic *node_map_find(struct node_map *map, const char *gpu, uint64_t taken, char *reason, size_t size);
/*
 * Whether the machine certainly has no such GPU, which is named by PCI address or UUID. Not certain: a machine on which no GPU was
 * found, one where something at the address may be a GPU that came late, and a UUID where that of some GPU is not known, or where a GPU
 * is split into MIG devices, which have UUIDs of their own. map may be NULL: nothing is certain.
 */
bool node_map_lacks_gpu(const struct node_map *map, const char *gpu);
/* The GPUs that there are, for people: as many as there is room for, and how many more. */
void node_map_gpus_text(const struct node_map *map, char *buf, size_t size);
/* All NICs of a GPU, a bit per registry index; 0: as above. map may be NULL. */
uint64_t node_map_nics(struct node_map *map, const char *gpu);

#endif
