/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assignment of NICs.
 *
 * By name when the client names one. Else a GPU gets the NIC that it was given before, or the one with the fewest
 * GPUs; who names no GPU gets the least loaded one. Ties go to fewer sessions, fewer QPs, then the order of
 * probing, so the answer can be predicted. Only NICs with an active port are assigned. The table of GPUs is bounded:
 * names cannot be verified here, so the oldest entry gives way. Pure but for the registry; control thread.
 */
#include "daemon/session/assign.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

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

/* Up to max_digits hex digits, then `end`. Moves *text behind it. */
static bool take_hex(const char **text, unsigned int max_digits, char end, unsigned int *ret)
{
	unsigned int value = 0, n = 0;

	for (; isxdigit((unsigned char)**text) && n < max_digits; (*text)++, n++) {
		int c = tolower((unsigned char)**text);

		value = value << 4 | (unsigned int)(isdigit(c) ? c - '0' : c - 'a' + 10);
	}
	if (n == 0 || **text != end)
		return false;
	*text += end != 0;
	*ret = value;
	return true;
}

static bool parse_pci(const char *text, char *buf)
{
	unsigned int domain = 0, bus, slot, function;
	const char *first = strchr(text, ':');

	if (first && strchr(first + 1, ':') && !take_hex(&text, 8, ':', &domain))
		return false;
	if (!take_hex(&text, 2, ':', &bus) || !take_hex(&text, 2, '.', &slot) ||
	    !take_hex(&text, 1, 0, &function) || slot > 31 || function > 7)
		return false;
	snprintf(buf, REGISTRY_GPU_BYTES, "%04x:%02x:%02x.%x", domain, bus, slot, function);
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
	struct registry_gpu *entry = find_gpu(registry, "");

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

/* Less is better: taken already, GPUs if one is asked for, sessions, QPs. */
struct load {
	unsigned int n[4];
};

static struct load load_of(const struct registry *registry, const struct registry_nic *rnic,
			   const struct assign_request *request)
{
	return (struct load){{
		request->taken >> rnic->index & 1,
		request->gpu[0] ? count_gpus(registry, rnic->index) : 0,
		rnic->n_sessions,
		rnic->n_qps,
	}};
}

static bool load_less(const struct load *a, const struct load *b)
{
	for (int i = 0; i < 4; i++)
		if (a->n[i] != b->n[i])
			return a->n[i] < b->n[i];
	return false;
}

static struct registry_nic *least_loaded(struct registry *registry,
					 const struct assign_request *request)
{
	struct registry_nic *best = NULL;
	struct load best_load = {{0}};

	for (unsigned int i = 0; i < registry->n_nics; i++) {
		struct registry_nic *rnic = &registry->nics[i];
		struct load load = load_of(registry, rnic, request);

		if (rnic->info.state != NIC_PORT_ACTIVE)
			continue;
		if (!best || load_less(&load, &best_load)) {
			best = rnic;
			best_load = load;
		}
	}
	return best;
}

static struct registry_nic *nic_of_gpu(struct registry *registry, const char *gpu)
{
	struct registry_gpu *entry = gpu[0] ? find_gpu(registry, gpu) : NULL;
	struct registry_nic *rnic = entry ? &registry->nics[entry->nic] : NULL;

	return rnic && rnic->info.state == NIC_PORT_ACTIVE ? rnic : NULL;
}

static int assign_by_name(struct registry *registry, const struct assign_request *request,
			  struct registry_nic **ret_rnic)
{
	struct registry_nic *rnic = registry_find_nic(registry, request->nic);

	if (!rnic)
		return -ENOENT;
	if (rnic->info.state == NIC_PORT_LOST)
		return -ENODEV;
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
		snprintf(reason, size, "GPU %s had none, and it has the fewest GPUs", request->gpu);
	} else {
		snprintf(reason, size, "no GPU was named, and it is the least loaded of %u",
			 registry->n_nics);
	}
	*ret_rnic = rnic;
	return 0;
}
