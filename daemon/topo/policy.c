/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the policy of an administrator against a machine.
 *
 * It rejects a map that names an absent or unusable device, and lists the valid ones: a GPU that silently gets another NIC is found
 * weeks later. A NIC to exclude may be absent, so that one file serves many nodes. Pure; any thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

/* ---- one NIC ------------------------------------------------------------------------------------------------------- */

static bool fits_port(const struct topo_named *named, unsigned int port)
{
	return !named->port || !port || named->port == port;
}

bool topo_named_fits(const struct topo_named *named, const struct topo *topo, unsigned int nic)
{
	const struct topo_nic *seen = &topo->nics[nic];
	uint64_t pci;

	if (!fits_port(named, seen->seen.port))
		return false;
	if (seen->seen.name[0] && strcmp(named->name, seen->seen.name) == 0)
		return true;
	return host_pci_parse(named->name, &pci) && pci == topo->nodes[seen->node].pci;
}

static const struct topo_named *find_named(const struct topo_named *list, unsigned int n, const struct topo *topo,
					   unsigned int nic)
{
	for (unsigned int i = 0; i < n; i++)
		if (topo_named_fits(&list[i], topo, nic))
			return &list[i];
	return NULL;
}

bool topo_policy_includes(const struct topo_policy *policy, const struct topo *topo, unsigned int nic)
{
	return policy && find_named(policy->included, policy->n_included, topo, nic);
}

enum topo_exclusion topo_policy_judge(const struct topo_policy *policy, const struct topo *topo, unsigned int nic)
{
	const struct topo_named *out;

	if (!policy)
		return TOPO_USED;
	out = find_named(policy->excluded, policy->n_excluded, topo, nic);
	if (out && out->role == TOPO_ROLE_MANAGEMENT)
		return TOPO_IS_MANAGEMENT;
	if (out && out->role == TOPO_ROLE_STORAGE)
		return TOPO_IS_STORAGE;
	if (out)
		return TOPO_BY_POLICY;
	return policy->n_included && !topo_policy_includes(policy, topo, nic) ? TOPO_NOT_INCLUDED : TOPO_USED;
}

bool topo_policy_allows(const struct topo_policy *policy, const struct topo *topo, unsigned int nic)
{
	return topo_policy_judge(policy, topo, nic) == TOPO_USED;
}

bool topo_is_of_device(const char *nic, const char *device)
{
	size_t n = strcspn(nic, ":");

	return strlen(device) == n && memcmp(nic, device, n) == 0;
}

/* Addresses have many spellings. */
static bool is_same_pci(const char *a, const char *b)
{
	uint64_t pci_a, pci_b;

	return host_pci_parse(a, &pci_a) && host_pci_parse(b, &pci_b) && pci_a == pci_b;
}

bool topo_named_fits_apart(const struct topo_named *named, const struct topo_apart *nic)
{
	return fits_port(named, nic->port) && (topo_is_of_device(nic->name, named->name) || is_same_pci(nic->pci, named->name));
}

static bool names(const struct topo_named *list, unsigned int n, const struct topo_apart *nic)
{
	for (unsigned int i = 0; i < n; i++)
		if (topo_named_fits_apart(&list[i], nic))
			return true;
	return false;
}

bool topo_policy_allows_apart(const struct topo_policy *policy, const struct topo_apart *nic)
{
	if (!policy || names(policy->excluded, policy->n_excluded, nic))
		return !policy;
	return !policy->n_included || names(policy->included, policy->n_included, nic);
}

#define PORT_IS_DOWN "its port is down"

/* Why a NIC cannot be given to anybody; NULL: it can. */
static const char *why_unusable(const struct topo_policy *policy, const struct topo *topo, unsigned int nic)
{
	enum topo_exclusion by_policy = topo_policy_judge(policy, topo, nic);
	const struct topo_nic *seen = &topo->nics[nic];

	if (by_policy == TOPO_NOT_INCLUDED)
		return "nics-include does not name it";
	if (by_policy != TOPO_USED)
		return "nics-exclude names it";
	if (seen->has_no_driver)
		return "its driver is not loaded";
	if (seen->role == TOPO_ROLE_BRIDGE)
		return "it manages the switches of GPU links and carries no traffic";
	if (seen->is_unmanaged)
		return "the daemon does not drive it";
	return seen->seen.state == HOST_STATE_DOWN ? PORT_IS_DOWN : NULL;
}

/* ---- refusing ------------------------------------------------------------------------------------------------------ */

struct words {
	char *buf; /* TOPO_POLICY_WHY_BYTES */
	size_t used;
	unsigned int n_items, n_left_out;
};

static void __attribute__((format(printf, 2, 3))) add(struct words *words, const char *fmt, ...)
{
	va_list list;
	int n;

	va_start(list, fmt);
	n = vsnprintf(words->buf + words->used, TOPO_POLICY_WHY_BYTES - words->used, fmt, list);
	va_end(list);
	if (n > 0 && (size_t)n < TOPO_POLICY_WHY_BYTES - words->used)
		words->used += (size_t)n;
	else
		words->used = TOPO_POLICY_WHY_BYTES - 1;
}

/* As many as there is room for, and the number of the others. */
#define ROOM_FOR_REST 24

static void add_item(struct words *words, const char *text)
{
	if (words->n_left_out || words->used + strlen(text) + 2 > TOPO_POLICY_WHY_BYTES - ROOM_FOR_REST)
		words->n_left_out++;
	else
		add(words, "%s%s", words->n_items++ ? ", " : "", text);
}

static void add_nic(struct words *words, const struct topo *topo, unsigned int nic)
{
	char name[TOPO_NAME_BYTES], item[TOPO_NAME_BYTES + 12];

	topo_nic_text(topo, nic, name);
	if (topo->nics[nic].seen.port)
		snprintf(item, sizeof(item), "%s:%u", name, topo->nics[nic].seen.port);
	else
		snprintf(item, sizeof(item), "%s", name);
	add_item(words, item);
}

/* All, or those that can be given. */
static int refuse_with_nics(struct words *words, const struct topo_policy *policy, const struct topo *topo, bool only_usable)
{
	add(words, "; valid NICs: ");
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (!only_usable || !why_unusable(policy, topo, i))
			add_nic(words, topo, i);
	if (words->n_left_out)
		add(words, " and %u more", words->n_left_out);
	else if (!words->n_items)
		add(words, "none");
	return -EINVAL;
}

static void add_named(struct words *words, const struct topo_named *named)
{
	if (named->port)
		add(words, "%s:%u", named->name, named->port);
	else
		add(words, "%s", named->name);
}

static int refuse_gpu(struct words *words, const struct topo_given *given, const struct topo *topo)
{
	add(words, "gpu-nic-map: this machine has no GPU %s; ", given->gpu);
	if (topo->n_gpus == 0)
		add(words, "it has none at all");
	else
		add(words, "valid GPUs: 0 to %u, their PCI addresses and, where they are known, their UUIDs", topo->n_gpus - 1);
	return -EINVAL;
}

/* A port at least must be there and usable. */
static int check_given(const struct topo_policy *policy, const struct topo_given *given, const struct topo *topo,
		       struct words *words)
{
	const char *why = NULL;

	if (topo_find_gpu(topo, given->gpu) < 0)
		return refuse_gpu(words, given, topo);
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		if (!topo_named_fits(&given->nic, topo, i))
			continue;
		why = why_unusable(policy, topo, i);
		if (!why)
			return 0;
	}
	add(words, "gpu-nic-map: ");
	if (!why)
		add(words, "this machine has no NIC ");
	add_named(words, &given->nic);
	if (why)
		add(words, " cannot be used: %s", why);
	refuse_with_nics(words, policy, topo, true);
	return why && strcmp(why, PORT_IS_DOWN) == 0 ? -ENETDOWN : -EINVAL;
}

static int check_included(const struct topo_policy *policy, const struct topo *topo, struct words *words)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (topo_policy_includes(policy, topo, i))
			return 0;
	add(words, "nics-include: this machine has none of these NICs");
	return refuse_with_nics(words, policy, topo, false);
}

int topo_policy_check(const struct topo_policy *policy, const struct topo *topo, char why[TOPO_POLICY_WHY_BYTES])
{
	struct words words = {.buf = why};
	int r = 0;

	*why = 0;
	if (policy->n_included && topo->n_nics)
		r = check_included(policy, topo, &words);
	for (unsigned int i = 0; i < policy->n_given && r != -EINVAL; i++) {
		struct words given = {.buf = why};
		int found = check_given(policy, &policy->given[i], topo, &given);

		if (found < 0)
			r = found;
	}
	return r;
}
