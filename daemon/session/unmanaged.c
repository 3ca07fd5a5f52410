/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NICs that no backend drives, as the watch of daemon/host reports them.
 *
 * They are listed, and monitors get port-state and nic-lost when they come, go or change their state. They have no `struct nic`, so
 * no object of a session refers to one. The error for a client that requests one by name gives the reason. A device
 * that was removed and made anew between two looks counts as gone and come. Control thread.
 */
#include "daemon/session/unmanaged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/session/monitor.h"
#include "daemon/session/registry.h"

static const struct host_nic *find(const struct host_list *list, const char *name)
{
	for (unsigned int i = 0; list && i < list->n; i++)
		if (strcmp(list->nics[i].name, name) == 0)
			return &list->nics[i];
	return NULL;
}

const struct host_nic *unmanaged_find(const struct registry *registry, const char *name)
{
	return find(registry->unmanaged, name);
}

static const char *state_word(const struct host_nic *seen)
{
	return seen->state == HOST_STATE_ACTIVE ? "active" : "down";
}

/* Whether a backend would manage it, as far as its driver shows. */
static bool is_claimed(const struct registry *registry, const struct host_nic *seen)
{
	const struct nic_backend *const *backend = registry->attr.backends;

	for (; backend && *backend; backend++)
		if ((*backend)->claims(seen->driver))
			return true;
	return false;
}

static bool is_name_taken(const struct registry *registry, const char *name)
{
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (strcmp(registry->nics[i].info.name, name) == 0)
			return true;
	return false;
}

bool unmanaged_is_openable(const struct registry *registry, const struct host_nic *seen)
{
	return registry->attr.has_hotplug && is_claimed(registry, seen) && registry->n_nics < REGISTRY_MAX_NICS &&
	       !is_name_taken(registry, seen->name);
}

void unmanaged_text(const struct registry *registry, const struct host_nic *seen, char *text, size_t size)
{
	const char *driver = seen->driver[0] ? seen->driver : "driver not known";

	if (!is_claimed(registry, seen))
		snprintf(text, size,
			 "shmemd does not support %s (%s), which is no ConnectX; choose another NIC (\"shmemctl list nics\"), or "
			 "start shmemd with --backend soft",
			 seen->name, driver);
	else if (registry->attr.no_mlx5)
		snprintf(text, size, "shmemd does not manage %s (%s): %s; choose another NIC (\"shmemctl list nics\")", seen->name,
			 driver, registry->attr.no_mlx5);
	else if (is_name_taken(registry, seen->name))
		snprintf(text, size,
			 "shmemd does not manage %s (%s): it has the name of a NIC that was lost; restart shmemd, or choose another NIC "
			 "(\"shmemctl list nics\")",
			 seen->name, driver);
	else if (registry->attr.has_hotplug && registry->n_nics == REGISTRY_MAX_NICS)
		snprintf(text, size,
			 "shmemd does not manage %s (%s): it has had %u NICs since its start, the most it can; restart shmemd, or "
			 "choose another NIC (\"shmemctl list nics\")",
			 seen->name, driver, REGISTRY_MAX_NICS);
	else if (unmanaged_is_openable(registry, seen))
		snprintf(text, size,
			 "shmemd does not manage %s (%s): it is new, or the log says why it cannot be used; shmemd tries it again every "
			 "minute; choose another NIC (\"shmemctl list nics\")",
			 seen->name, driver);
	else
		snprintf(text, size,
			 "shmemd does not manage %s (%s): it came after shmemd, or the log says why it cannot be used; restart shmemd, or "
			 "choose another NIC (\"shmemctl list nics\")",
			 seen->name, driver);
}

static void note(struct registry *registry, const struct host_nic *seen, const char *text)
{
	registry_note(registry, &(struct note){
		.level = LOG_NOTICE, .topic = NOTE_NIC, .nic = seen->name, .text = text});
}

static void tell_lost(struct registry *registry, const struct host_nic *seen)
{
	char text[MSG_TEXT_BYTES];

	snprintf(text, sizeof(text), "NIC %s is gone; no backend drove it", seen->name);
	note(registry, seen, text);
	monitor_unmanaged(registry, MSG_EVENT_NIC_LOST, seen, "no backend drove it");
}

static const char *driver_words(const struct registry *registry, const struct host_nic *seen)
{
	return unmanaged_is_openable(registry, seen) ? "it is about to be opened" : "shmemd does not manage it";
}

static void tell_found(struct registry *registry, const struct host_nic *seen)
{
	char text[MSG_TEXT_BYTES];

	snprintf(text, sizeof(text), "NIC %s is there, its port is %s; %s", seen->name, state_word(seen), driver_words(registry, seen));
	note(registry, seen, text);
	snprintf(text, sizeof(text), "it was found; %s", driver_words(registry, seen));
	monitor_unmanaged(registry, MSG_EVENT_PORT_STATE, seen, text);
}

static void tell_state(struct registry *registry, const struct host_nic *seen)
{
	char text[MSG_TEXT_BYTES];

	snprintf(text, sizeof(text), "the port of %s is %s; shmemd does not manage it", seen->name, state_word(seen));
	note(registry, seen, text);
	monitor_unmanaged(registry, MSG_EVENT_PORT_STATE, seen, text);
}

/* ---- NICs that were opened --------------------------------------------------------------------------------------- */

static bool is_of(const struct registry_nic *rnic, const struct host_nic *seen)
{
	const struct nic_info *info = &rnic->info;

	if (info->guid && seen->node_guid)
		return info->guid == seen->node_guid && info->port == seen->port;
	return strcmp(info->name, seen->name) == 0;
}

static void forget(struct host_list *list, const struct registry_nic *rnic)
{
	unsigned int n = 0;

	for (unsigned int i = 0; list && i < list->n; i++)
		if (!is_of(rnic, &list->nics[i]))
			list->nics[n++] = list->nics[i];
	if (list)
		list->n = n;
}

void unmanaged_forget(struct registry *registry, const struct registry_nic *rnic)
{
	forget(registry->unmanaged, rnic);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

static bool is_same(const struct host_nic *a, const struct host_nic *b)
{
	return a && b && a->life == b->life;
}

void unmanaged_update(struct registry *registry, struct host_list *list)
{
	struct host_list *before = registry->unmanaged;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		forget(list, &registry->nics[i]);
	registry->unmanaged = list;
	for (unsigned int i = 0; before && i < before->n; i++)
		if (!is_same(&before->nics[i], find(list, before->nics[i].name)))
			tell_lost(registry, &before->nics[i]);
	for (unsigned int i = 0; i < list->n; i++) {
		const struct host_nic *now = &list->nics[i], *was = find(before, now->name);

		if (!is_same(was, now))
			tell_found(registry, now);
		else if (was->state != now->state)
			tell_state(registry, now);
	}
	if (list->n_left_out > 0 && (!before || before->n_left_out != list->n_left_out))
		registry_note(registry, &(struct note){.level = LOG_WARNING, .topic = NOTE_NIC,
			.text = "some RDMA devices are not shown: more ports than 64, or names that are too long or cannot be printed"});
	free(before);
}
