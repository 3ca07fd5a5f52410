/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as a JSON document; shmemctl-json(5) has the keys. */
#include <arpa/inet.h>
#include <string.h>

#include "libclient/ctl/topology.h"

static int numa_of(const struct topo *topo, unsigned int node)
{
	int numa = topo->nodes[node].numa;

	return numa < TOPO_MAX_NUMA ? numa : TOPO_NO_NUMA;
}

static void put_place(struct json *json, const struct topo *topo, unsigned int node)
{
	char pci[HOST_PCI_BYTES];

	json_string(json, "pci", host_pci_text(topo->nodes[node].pci, pci));
	json_int(json, "numa_node", numa_of(topo, node));
}

static void put_name(struct json *json, const struct topo *topo, unsigned int nic)
{
	char name[TOPO_NAME_BYTES], pci[HOST_PCI_BYTES];

	json_string(json, "name", topo_nic_text(topo, nic, name));
	json_string(json, "pci", host_pci_text(topo->nodes[topo->nics[nic].node].pci, pci));
	json_uint(json, "port", topo->nics[nic].seen.port);
}

static void put_choice(struct json *json, const struct topology_view *view, unsigned int gpu, unsigned int nic)
{
	const struct topo *topo = view->topo;
	char reason[TOPO_WHY_BYTES];

	put_name(json, topo, nic);
	json_string(json, "distance", topology_distance(topo, topo->gpus[gpu].node, topo->nics[nic].node));
	json_string(json, "reason", topo_reason(topo, view->map, gpu, nic, reason));
}

static void put_distances(struct json *json, const struct topo *topo, unsigned int gpu)
{
	char word[TOPO_WORD_BYTES];

	json_begin_array(json, "gpu_distances");
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		json_string(json, NULL, topo_gpu_word(topo, gpu, i, word));
	json_end_array(json);
	json_begin_array(json, "nic_distances");
	for (unsigned int i = 0; i < topo->n_nics; i++)
		json_string(json, NULL, topology_distance(topo, topo->gpus[gpu].node, topo->nics[i].node));
	json_end_array(json);
}

static void put_gpu(struct json *json, const struct topology_view *view, unsigned int gpu)
{
	const struct topo *topo = view->topo;
	const struct topo_gpu_map *got = &view->map->gpus[gpu];
	char reason[TOPO_WHY_BYTES];

	json_begin_object(json, NULL);
	json_uint(json, "index", gpu);
	put_place(json, topo, topo->gpus[gpu].node);
	json_string(json, "uuid", topo->gpus[gpu].uuid);
	json_string(json, "name", topo->gpus[gpu].name);
	json_bool(json, "mig", topo->gpus[gpu].has_mig);
	json_begin_array(json, "nics");
	for (unsigned int i = 0; i < got->n_nics; i++) {
		json_begin_object(json, NULL);
		put_choice(json, view, gpu, got->nics[i]);
		json_end_object(json);
	}
	json_end_array(json);
	json_string(json, "reason", got->n_nics ? "" : topo_reason_none(topo, view->map, reason));
	put_distances(json, topo, gpu);
	json_end_object(json);
}

static const char *fabric_text(enum host_fabric fabric)
{
	static const char *const texts[] = {
		[HOST_FABRIC_UNKNOWN] = "unknown", [HOST_FABRIC_ETHERNET] = "ethernet", [HOST_FABRIC_INFINIBAND] = "infiniband"};

	return texts[fabric];
}

static const char *known_text(enum host_known known)
{
	static const char *const texts[] = {"unknown", "no", "yes"};

	return texts[known];
}

static void put_gids(struct json *json, const struct topo_nic *nic)
{
	char text[INET6_ADDRSTRLEN];

	json_begin_array(json, "gids");
	for (unsigned int i = 0; i < nic->seen.n_gids; i++) {
		const struct host_gid *gid = &nic->seen.gids[i];

		json_begin_object(json, NULL);
		json_uint(json, "index", gid->index);
		json_string(json, "address", inet_ntop(AF_INET6, gid->bytes, text, sizeof(text)));
		json_bool(json, "roce_v2", gid->type == HOST_GID_ROCE_V2);
		json_string(json, "interface", gid->netdev);
		json_end_object(json);
	}
	json_end_array(json);
}

/* Properties of a port besides state and rate. */
static void put_abilities(struct json *json, const struct topo_nic *nic)
{
	char pci[HOST_PCI_BYTES];

	json_uint(json, "phys_state", nic->seen.phys_state);
	json_uint(json, "lanes", nic->seen.n_lanes);
	json_uint(json, "max_rate_mbps", nic->seen.max_rate_mbps);
	json_uint(json, "max_lanes", nic->seen.max_lanes);
	json_uint(json, "active_mtu_bytes", nic->seen.active_mtu_bytes);
	json_uint(json, "max_mtu_bytes", nic->seen.max_mtu_bytes);
	json_hex(json, "node_guid", nic->seen.node_guid);
	json_string(json, "interface_up", known_text(nic->seen.netdev_is_up));
	json_string(json, "bond", nic->seen.bond);
	json_string(json, "pf", nic->seen.pf == HOST_NO_PCI ? "" : host_pci_text(nic->seen.pf, pci));
	json_string(json, "switch_manager", known_text(nic->seen.manages_switches));
	json_string(json, "devx", known_text(nic->seen.has_devx));
	json_string(json, "masked_atomics", known_text(nic->seen.has_masked_atomics));
	json_string(json, "dmabuf", known_text(nic->seen.has_dmabuf));
	json_string(json, "blueflame", known_text(nic->seen.has_blueflame));
	put_gids(json, nic);
}

static void put_nic(struct json *json, const struct topology_view *view, unsigned int index)
{
	const struct topo *topo = view->topo;
	const struct topo_nic *nic = &topo->nics[index];

	json_begin_object(json, NULL);
	json_uint(json, "index", index);
	put_name(json, topo, index);
	json_int(json, "numa_node", numa_of(topo, nic->node));
	json_string(json, "state", topology_state(nic));
	json_string(json, "link", fabric_text(nic->seen.fabric));
	json_uint(json, "rate_mbps", nic->seen.rate_mbps);
	json_uint(json, "lid", nic->seen.lid);
	json_hex(json, "guid", nic->guid);
	json_string(json, "interface", nic->seen.netdev);
	json_uint(json, "interface_mtu_bytes", nic->seen.mtu_bytes);
	json_string(json, "firmware", nic->seen.firmware);
	json_uint(json, "pci_mtps", nic->seen.link.mtps);
	json_uint(json, "pci_width", nic->seen.link.width);
	json_uint(json, "pci_max_mtps", nic->seen.link.max_mtps);
	json_uint(json, "pci_max_width", nic->seen.link.max_width);
	json_uint(json, "pci_link_mbps", topo->nodes[nic->node].link_mbps);
	put_abilities(json, nic);
	json_uint(json, "n_gpus", view->map->n_gpus[index]);
	json_begin_array(json, "nic_distances");
	for (unsigned int i = 0; i < topo->n_nics; i++)
		json_string(json, NULL, i == index ? "X" : topology_distance(topo, nic->node, topo->nics[i].node));
	json_end_array(json);
	json_end_object(json);
}

static void put_excluded(struct json *json, const struct topology_view *view)
{
	char reason[TOPO_WHY_BYTES];

	json_begin_array(json, "excluded");
	for (unsigned int i = 0; i < view->topo->n_nics; i++) {
		if (!topology_is_left(view, i))
			continue;
		json_begin_object(json, NULL);
		put_name(json, view->topo, i);
		json_string(json, "reason", topo_reason_excluded(view->topo, view->map, i, reason));
		json_end_object(json);
	}
	json_end_array(json);
}

static void put_why(struct json *json, const struct topology_view *view)
{
	uint16_t nics[TOPO_MAX_NICS];

	json_begin_array(json, "why");
	if (view->why >= 0)
		topology_by_distance(view->topo, (unsigned int)view->why, nics);
	for (unsigned int i = 0; view->why >= 0 && i < view->topo->n_nics; i++) {
		json_begin_object(json, NULL);
		json_uint(json, "gpu", (unsigned int)view->why);
		put_choice(json, view, (unsigned int)view->why, nics[i]);
		json_bool(json, "assigned", topology_has(view->map, (unsigned int)view->why, nics[i]));
		json_end_object(json);
	}
	json_end_array(json);
}

void topology_json(struct ctl *ctl, const struct topology_view *view)
{
	struct json json;

	ctl_json_begin(ctl, &json);
	json_string(&json, "source", view->source);
	json_uint(&json, "n_numa_nodes", view->topo->n_numa);
	json_begin_array(&json, "gpus");
	for (unsigned int i = 0; i < view->topo->n_gpus; i++)
		put_gpu(&json, view, i);
	json_end_array(&json);
	json_begin_array(&json, "nics");
	for (unsigned int i = 0; i < view->topo->n_nics; i++)
		put_nic(&json, view, i);
	json_end_array(&json);
	put_excluded(&json, view);
	put_why(&json, view);
	ctl_json_end(&json);
}
