/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of NICs, which never fall: readers take that for a start from 0.
 *
 * A NIC counts what its contexts do, those that were taken over with all that they had done. Kept beside them are the counts of
 * ended contexts, added with the end of their session; and the figures reported last, for contexts that are kept
 * nowhere else when a daemon is killed: contexts of sessions that end with it. Control thread.
 */
#include "daemon/session/registry.h"

#include <string.h>

#include "daemon/session/keep.h"
#include "daemon/session/session.h"

#define N_COUNTERS (sizeof(struct nic_counters) / sizeof(uint64_t))

static int nic_counters(struct registry_nic *rnic, struct nic_counters *ret_counters)
{
	struct nic_counters sum;
	int r = rnic->nic->ops->counters(rnic->nic, &sum);

	if (r < 0)
		return r;
	nic_counters_add(&sum, &rnic->before);
	*ret_counters = sum;
	return 0;
}

int registry_counters_for_reader(struct registry_nic *rnic, struct nic_counters *ret_counters)
{
	uint64_t *now = (uint64_t *)ret_counters, *told = (uint64_t *)&rnic->told;
	int r = nic_counters(rnic, ret_counters);

	for (unsigned int i = 0; r == 0 && i < N_COUNTERS; i++) {
		/* Firmware's have 32 bits, and whoever has a context's command descriptor can clear them. */
		if (now[i] < told[i])
			now[i] = told[i];
		if (now[i] > told[i])
			rnic->registry->has_told = true;
		told[i] = now[i];
	}
	return r;
}

void registry_keep_told(struct registry *registry)
{
	if (registry->has_told)
		registry_keep(registry);
	registry->has_told = false;
}

void registry_count_ended(struct session *session)
{
	struct registry *registry = session->registry;

	if (!registry->attr.keep || session->n_nics == 0)
		return;
	for (unsigned int i = 0; i < session->n_nics; i++)
		nic_counters_add(&session->nics[i]->rnic->ended, &session->nics[i]->last);
	registry->counted = session->id;
	registry_keep(registry);
}

/* Contexts that are gone were counted all the same. */
static void raise_to_told(struct registry_nic *rnic)
{
	uint64_t *ended = (uint64_t *)&rnic->ended;
	const uint64_t *told = (const uint64_t *)&rnic->told;
	struct nic_counters sum;

	if (rnic->nic->ops->counters(rnic->nic, &sum) < 0)
		return;
	for (unsigned int i = 0; i < N_COUNTERS; i++) {
		uint64_t now = ended[i] + ((const uint64_t *)&sum)[i];

		ended[i] += told[i] > now ? told[i] - now : 0;
	}
}

void registry_count_on(struct registry *registry)
{
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		raise_to_told(&registry->nics[i]);
		registry->nics[i].before = registry->nics[i].ended;
	}
}

void registry_count_added(struct registry_nic *rnic)
{
	struct registry *registry = rnic->registry;

	for (unsigned int i = 0; i < registry->n_absent; i++) {
		struct registry_absent *absent = &registry->absent[i];

		if (strcmp(absent->name, rnic->info.name) != 0)
			continue;
		rnic->ended = absent->ended;
		rnic->told = absent->told;
		if (absent->is_taken_down)
			registry_take_down(rnic);
		*absent = registry->absent[--registry->n_absent];
		raise_to_told(rnic);
		rnic->before = rnic->ended;
		return;
	}
}
