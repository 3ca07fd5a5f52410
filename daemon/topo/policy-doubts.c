/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in an administrator's settings (`nics-include`, `nics-exclude`, `gpu-nic-map`) that nothing on this machine has.
 *
 * They are not errors: one file may serve many nodes, and a NIC may come later. But a typing error in nics-include takes a node out
 * of service, so each is a warning, with the name that was probably meant: in the log at the start and at a reload, in the status
 * line, and in `shmemctl status`, `list nics`, `topology` and `doctor`. Pure; any thread.
 */
#include <stdarg.h>
#include <string.h>

#include "daemon/topo/topo-private.h"
#include "proto/base/show.h"
#include "proto/base/suggest.h"

#define MAX_SHOWN 4 /* names of what is there */

struct doubts {
	const struct topo *topo;
	const struct topo_apart *apart;
	unsigned int n_apart;
	char *text; /* TOPO_DOUBTS_BYTES */
	size_t used;
	unsigned int n;
};

static void __attribute__((format(printf, 2, 3))) add(struct doubts *doubts, const char *fmt, ...)
{
	va_list list;
	int n;

	va_start(list, fmt);
	n = vsnprintf(doubts->text + doubts->used, TOPO_DOUBTS_BYTES - doubts->used, fmt, list);
	va_end(list);
	doubts->used = n > 0 && (size_t)n < TOPO_DOUBTS_BYTES - doubts->used ? doubts->used + (size_t)n : TOPO_DOUBTS_BYTES - 1;
}

static bool is_there(const struct doubts *doubts, const struct topo_named *named)
{
	for (unsigned int i = 0; i < doubts->topo->n_nics; i++)
		if (topo_named_fits(named, doubts->topo, i))
			return true;
	for (unsigned int i = 0; i < doubts->n_apart; i++)
		if (topo_named_fits_apart(named, &doubts->apart[i]))
			return true;
	return false;
}

/* The name that was probably meant: by a name that is alike, or by that of its interface. */
static const char *meant(const struct doubts *doubts, const char *name)
{
	struct suggest near = suggest_begin(name);

	for (unsigned int i = 0; i < doubts->topo->n_nics; i++) {
		const struct topo_nic *nic = &doubts->topo->nics[i];

		if (nic->seen.netdev[0] && nic->seen.name[0] && !strcmp(nic->seen.netdev, name))
			return nic->seen.name;
		suggest_offer(&near, nic->seen.name);
	}
	for (unsigned int i = 0; i < doubts->n_apart; i++)
		suggest_offer(&near, doubts->apart[i].name);
	return suggest_result(&near);
}

static const char *name_of(const struct doubts *doubts, unsigned int i, char buf[TOPO_NAME_BYTES])
{
	return i < doubts->topo->n_nics ? topo_nic_text(doubts->topo, i, buf) : doubts->apart[i - doubts->topo->n_nics].name;
}

static void add_what_is_there(struct doubts *doubts)
{
	unsigned int n = doubts->topo->n_nics + doubts->n_apart, n_names = 0;
	char before[TOPO_NAME_BYTES] = "", buf[TOPO_NAME_BYTES];

	for (unsigned int i = 0; i < n; i++) {
		const char *name = name_of(doubts, i, buf);

		/* Ports of one device stand together. */
		if (!strcmp(name, before))
			continue;
		snprintf(before, sizeof(before), "%.63s", name);
		if (n_names++ < MAX_SHOWN)
			add(doubts, "%s%.40s", n_names > 1 ? ", " : " (it has ", name);
	}
	if (n_names > MAX_SHOWN)
		add(doubts, " and %u more", n_names - MAX_SHOWN);
	add(doubts, n_names ? ")" : " (it has no NIC)");
}

static void add_named(struct doubts *doubts, const char *key, const struct topo_named *named, unsigned int n_more)
{
	const char *near = meant(doubts, named->name);
	char port[16] = "", more[32] = "";

	if (named->port)
		snprintf(port, sizeof(port), ":%u", named->port);
	if (n_more)
		snprintf(more, sizeof(more), " and %u more NIC%s", n_more, plural_s(n_more));
	add(doubts, "%s%s names %s%s%s that this machine does not have", doubts->used ? "; " : "", key, named->name, port,
	    n_more ? more : ", a NIC");
	if (near && strcmp(near, named->name) != 0)
		add(doubts, " (did you mean %s?)", near);
	else
		add_what_is_there(doubts);
}

static void look_at(struct doubts *doubts, const char *key, const struct topo_named *list, unsigned int n)
{
	const struct topo_named *first = NULL;
	unsigned int n_absent = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (is_there(doubts, &list[i]))
			continue;
		if (!first)
			first = &list[i];
		n_absent++;
	}
	if (first)
		add_named(doubts, key, first, n_absent - 1);
	doubts->n += n_absent;
}

/* For a map that is in force all the same, and for one whose GPUs or NICs have gone since. */
static void look_at_map(struct doubts *doubts, const struct topo_policy *policy)
{
	for (unsigned int i = 0; i < policy->n_given; i++) {
		const struct topo_given *given = &policy->given[i];
		bool has_gpu = topo_find_gpu(doubts->topo, given->gpu) >= 0, has_nic = is_there(doubts, &given->nic);

		doubts->n += !has_gpu + !has_nic;
		if (!has_gpu) {
			add(doubts, "%sgpu-nic-map names GPU %s, which this machine does not have", doubts->used ? "; " : "", given->gpu);
			return;
		}
		if (!has_nic) {
			add_named(doubts, "gpu-nic-map", &given->nic, 0);
			return;
		}
	}
}

unsigned int topo_policy_doubts(const struct topo_policy *policy, const struct topo *topo, const struct topo_apart *apart,
				unsigned int n_apart, char text[TOPO_DOUBTS_BYTES])
{
	struct doubts doubts = {.topo = topo, .apart = apart, .n_apart = n_apart, .text = text};

	text[0] = 0;
	if (!policy)
		return 0;
	look_at(&doubts, "nics-include", policy->included, policy->n_included);
	look_at(&doubts, "nics-exclude", policy->excluded, policy->n_excluded);
	look_at_map(&doubts, policy);
	return doubts.n;
}
