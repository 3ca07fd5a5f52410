/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assignment of NICs.
 *
 * A client that names a NIC gets it. A client that names a GPU gets that GPU's NIC on the map of the node (node-map.c). Without one
 * on the map (a container hides the GPU, or the NIC has no place) the GPU gets its former NIC, or the one with the fewest GPUs. A
 * client that names neither gets the least loaded NIC. In the last two cases NICs that the map sets aside, such as a slow one
 * beside fast ones, or leaves to one GPU alone, come last.
 *
 * Ties go to fewer sessions, fewer QPs, then the order of probing, so the answer is predictable. A session opens a NIC once:
 * without a name, among NICs that the map treats alike, one that it has not opened yet comes first. Only NICs with an active port are
 * assigned, and none that the policy sets aside. The table of GPUs is bounded: names cannot be verified here, so the oldest entry
 * gives way. Pure except for the registry; control thread.
 */
#include "daemon/session/assign.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/session/save.h"
#include "daemon/session/node-map.h"
#include "daemon/topo/topo.h"

static bool parse_uuid(const char *text, char *buf)
{
	static const char shape[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i;

	if (strlen(text) != sizeof(shape) - 1)
		return false;
	for (i = 0; shape[i]; i++) {
		if (shape[i] == 'x' ? !isxdigit((unsigned char)text[i]) : text[i] != shape[i])
			return false;
		buf[i] = shape[i] == 'x' ? (char)tolower((unsigned char)text[i]) : text[i];
	}
	buf[i] = 0;
	return true;
}

static bool parse_pci(const char *text, char *buf)
{
	uint64_t pci;

	if (!host_pci_parse(text, &pci))
		return false;
	host_pci_text(pci, buf);
	return true;
}

int assign_parse_gpu(const char *text, char *buf)
{
	return parse_uuid(text, buf) || parse_pci(text, buf) ? 0 : -EINVAL;
}

static struct registry_gpu *find_gpu(struct registry *registry, const char *gpu)
{
	for (unsigned int i = 0; i < REGISTRY_MAX_GPUS; i++)
		if (strcmp(registry->gpus[i].gpu, gpu) == 0)
			return &registry->gpus[i];
	return NULL;
}

static void remember_gpu(struct registry *registry, const char *gpu, unsigned int nic)
{
	struct registry_gpu *entry = find_gpu(registry, gpu);

	/* It had one that it cannot have any more. */
	if (!entry)
		entry = find_gpu(registry, "");
	if (!entry) {
		entry = &registry->gpus[registry->next_gpu];
		registry->next_gpu = (registry->next_gpu + 1) % REGISTRY_MAX_GPUS;
	}
	snprintf(entry->gpu, sizeof(entry->gpu), "%s", gpu);
	entry->nic = nic;
}

static unsigned int count_gpus(const struct registry *registry, unsigned int nic)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < REGISTRY_MAX_GPUS; i++)
		n += registry->gpus[i].gpu[0] && registry->gpus[i].nic == nic;
	return n;
}

/* Less is better: set aside by the map, taken already, GPUs if one is asked for, sessions, QPs. */
#define N_LOADS 5

struct load {
	unsigned int n[N_LOADS];
};

static struct load load_of(const struct registry *registry, const struct registry_nic *rnic,
			   const struct assign_request *request)
{
	return (struct load){{
		!node_map_uses(registry->node_map, rnic),
		request->taken >> rnic->index & 1,
		request->gpu[0] ? count_gpus(registry, rnic->index) : 0,
		rnic->n_sessions,
		rnic->n_qps,
	}};
}

static bool load_less(const struct load *a, const struct load *b)
{
	for (int i = 0; i < N_LOADS; i++)
		if (a->n[i] != b->n[i])
			return a->n[i] < b->n[i];
	return false;
}

static bool is_usable(const struct registry *registry, const struct registry_nic *rnic)
{
	return rnic->info.state == NIC_PORT_ACTIVE && node_map_allows(registry->node_map, rnic);
}

static struct registry_nic *least_loaded(struct registry *registry,
					 const struct assign_request *request)
{
	struct registry_nic *best = NULL;
	struct load best_load = {{0}};

	for (unsigned int i = 0; i < registry->n_nics; i++) {
		struct registry_nic *rnic = &registry->nics[i];
		struct load load = load_of(registry, rnic, request);

		if (!is_usable(registry, rnic))
			continue;
		if (!best || load_less(&load, &best_load)) {
			best = rnic;
			best_load = load;
		}
	}
	return best;
}

/* One that the map has set aside since stays the GPU's only while there is none better. */
static struct registry_nic *nic_of_gpu(struct registry *registry, const char *gpu)
{
	struct registry_gpu *entry = gpu[0] ? find_gpu(registry, gpu) : NULL;
	struct registry_nic *rnic = entry ? &registry->nics[entry->nic] : NULL;

	if (!rnic || !is_usable(registry, rnic))
		return NULL;
	if (node_map_uses(registry->node_map, rnic))
		return rnic;
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (is_usable(registry, &registry->nics[i]) && node_map_uses(registry->node_map, &registry->nics[i]))
			return NULL;
	return rnic;
}

static int assign_by_name(struct registry *registry, const struct assign_request *request,
			  struct registry_nic **ret_rnic)
{
	struct registry_nic *rnic = registry_find_nic(registry, request->nic);

	if (!rnic)
		return -ENOENT;
	if (rnic->info.state == NIC_PORT_LOST)
		return -ENODEV;
	if (!node_map_allows(registry->node_map, rnic))
		return -EPERM;
	*ret_rnic = rnic;
	return 0;
}

int assign_nic(struct registry *registry, const struct assign_request *request, char *reason,
	       size_t size, struct registry_nic **ret_rnic)
{
	struct registry_nic *rnic;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		registry_refresh_nic(&registry->nics[i]);
	if (request->nic[0]) {
		snprintf(reason, size, "the client named it");
		return assign_by_name(registry, request, ret_rnic);
	}
	rnic = request->gpu[0] ? node_map_find(registry->node_map, request->gpu, request->taken, reason, size) : NULL;
	if (rnic) {
		*ret_rnic = rnic;
		return 0;
	}
	rnic = nic_of_gpu(registry, request->gpu);
	if (rnic) {
		snprintf(reason, size, "GPU %s has this NIC", request->gpu);
		*ret_rnic = rnic;
		return 0;
	}
	rnic = least_loaded(registry, request);
	if (!rnic)
		return -ENODEV;
	if (request->gpu[0]) {
		remember_gpu(registry, request->gpu, rnic->index);
		registry_save(registry);
		snprintf(reason, size, "GPU %s had none, and it has the fewest GPUs", request->gpu);
	} else {
		snprintf(reason, size, "no GPU was named, and it is the least loaded of %u",
			 registry->n_nics);
	}
	*ret_rnic = rnic;
	return 0;
}
