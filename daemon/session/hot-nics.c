/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/hot-nics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/node-map.h"
#include "daemon/session/registry.h"
#include "daemon/session/session.h"

#define MORE_BYTES 24u /* " and 4294967295 more" */

static uint64_t nics_of(struct registry *registry, const struct session *session)
{
	uint64_t nics = 0;

	for (unsigned int i = 0; i < session->n_nics; i++) {
		const struct session_nic *nic = session->nics[i];

		nics |= 1ull << nic->rnic->index;
		if (nic->gpu[0])
			nics |= node_map_nics(registry->node_map, nic->gpu);
	}
	return nics;
}

/* NICs of a process. */
struct user {
	uint32_t pid;
	uint64_t nics;
};

static int compare_users(const void *a, const void *b)
{
	const struct user *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Groups that have one of these become one group, with all of these. */
static void unite(uint64_t groups[HOT_SPOT_MAX_NICS], uint64_t nics)
{
	for (unsigned int i = 0; i < HOT_SPOT_MAX_NICS; i++)
		if (nics >> i & 1)
			nics |= groups[i];
	for (unsigned int i = 0; i < HOT_SPOT_MAX_NICS; i++)
		if (nics >> i & 1)
			groups[i] = nics;
}

/* One for each session, by process. */
static size_t list_users(struct registry *registry, struct user *users, size_t max)
{
	const struct session *session = registry_next_session(registry, 0);
	size_t n = 0;

	for (; session && n < max; session = registry_session_after(registry, session))
		users[n++] = (struct user){.pid = session->identity.pid, .nics = nics_of(registry, session)};
	qsort(users, n, sizeof(*users), compare_users);
	return n;
}

static size_t count_sessions(struct registry *registry)
{
	const struct session *session = registry_next_session(registry, 0);
	size_t n = 0;

	for (; session; session = registry_session_after(registry, session))
		n++;
	return n;
}

static uint64_t active_nics(const struct registry *registry)
{
	uint64_t nics = 0;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (registry->nics[i].info.state == NIC_PORT_ACTIVE)
			nics |= 1ull << i;
	return nics;
}

uint64_t hot_nics_assigned(struct registry *registry, uint64_t groups[HOT_SPOT_MAX_NICS])
{
	size_t n = count_sessions(registry);
	struct user *users = n ? calloc(n, sizeof(*users)) : NULL;
	uint64_t nics = 0, of_one = 0;

	memset(groups, 0, HOT_SPOT_MAX_NICS * sizeof(groups[0]));
	n = users ? list_users(registry, users, n) : 0;
	for (size_t i = 0; i < n; i++) {
		of_one = i && users[i].pid == users[i - 1].pid ? of_one | users[i].nics : users[i].nics;
		unite(groups, of_one);
		nics |= users[i].nics;
	}
	free(users);
	return nics & active_nics(registry);
}

/* False: there is no room for all of it, and nothing was added. */
static bool append(char *buf, size_t size, const char *text)
{
	size_t used = strlen(buf), bytes = strlen(text);

	if (bytes >= size - used)
		return false;
	memcpy(buf + used, text, bytes + 1);
	return true;
}

/* Once one is left out so are all behind it. */
static void append_more(char *buf, size_t size, unsigned int n_more)
{
	char text[MORE_BYTES];

	if (!n_more)
		return;
	snprintf(text, sizeof(text), " and %u more", n_more);
	append(buf, size, text);
}

void hot_nics_names(const struct registry *registry, uint64_t nics, char *buf, size_t size)
{
	char text[NIC_NAME_BYTES + 2];
	unsigned int n_more = 0;

	buf[0] = 0;
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		if (!(nics >> i & 1))
			continue;
		snprintf(text, sizeof(text), "%s%s", buf[0] ? ", " : "", registry->nics[i].info.name);
		if (n_more || !append(buf, size - MORE_BYTES, text))
			n_more++;
	}
	append_more(buf, size, n_more);
}

void hot_nics_processes(struct registry *registry, unsigned int nic, const struct session *caller, char *buf, size_t size)
{
	struct session *session = registry_next_session(registry, 0);
	char text[MSG_NAME_BYTES + 32];
	unsigned int n_more = 0;

	buf[0] = 0;
	for (; session; session = registry_session_after(registry, session)) {
		if (!session_nic_by_rnic(session, &registry->nics[nic]) ||
		    (caller && !session_may_see(caller, session->identity.uid)))
			continue;
		snprintf(text, sizeof(text), "%spid %u (%s)", buf[0] ? ", " : "", session->identity.pid, session->identity.command);
		if (n_more || !append(buf, size - MORE_BYTES, text))
			n_more++;
	}
	append_more(buf, size, n_more);
}
