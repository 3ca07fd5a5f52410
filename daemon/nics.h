/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's NICs: found at its start or later (nic-hotplug.h), in its registry, and with their news on its loop. Control thread. */
#ifndef SHMEMD_NICS_H
#define SHMEMD_NICS_H

#include "daemon/host/host.h"
#include "daemon/loop.h"
#include "daemon/nic/nic.h"
#include "daemon/session/registry.h"
#include "daemon/settings/settings.h"

struct nics;
struct ctx_pool;

struct nics_watch {
	struct nics *nics;
	struct registry_nic *rnic;
	struct loop_watch *watch; /* NULL: the NIC has none */
};

/* What is borrowed is set before nics_open(). */
struct nics {
	struct loop *loop;
	struct registry *registry;
	const struct settings *settings;
	const char *fault; /* of soft NICs, or NULL */
	struct ctx_pool *ctx_pool; /* NULL: not yet, or no NIC has a pool */
	struct nic_mlx5_report report; /* what the start has told already */
	struct list list; /* struct nic.link, owned */
	struct nics_watch watched[REGISTRY_MAX_NICS];
};

#define NICS_TEXT_BYTES 48
/* "2 NICs", "1 simulated NIC": how many the daemon drives, for people. Returns buf. */
const char *nics_text(const struct registry *registry, char buf[NICS_TEXT_BYTES]);

void nics_init(struct nics *nics);
/* No session is left. */
void nics_deinit(struct nics *nics);
/* Those of the backend that settings name. Blocks. Negative errno, logged. */
int nics_open(struct nics *nics);
/* A port that a backend manages, for those who look at the host. */
static inline struct host_managed nics_managed(const struct nic_info *info)
{
	struct host_managed managed = {.node_guid = info->guid, .port = info->port};

	_Static_assert(sizeof(managed.name) == sizeof(info->name), "both hold any name of a NIC");
	memcpy(managed.name, info->name, sizeof(managed.name));
	return managed;
}
/* What the settings say to every backend's probe; no port is left alone. */
struct nic_probe_attr nics_probe_attr(const struct nics *nics);
/* Before the process ends with sessions that it leaves to the next one: NICs stop between two requests. For a second at most; logged. */
void nics_rest(struct nics *nics);
/* Adds a NIC that was queried already; on success moves it into `list`, which owns it. -ENOSPC, -ENOMEM; logged. */
int nics_add(struct nics *nics, struct nic *nic, const struct nic_info *info);

#endif
