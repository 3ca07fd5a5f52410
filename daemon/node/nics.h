/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's NICs: opened at its start or later (nic-hotplug.h), entered in its registry, their events read on its loop. Control thread. */
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

/* The owner sets the borrowed members before nics_open(). */
struct nics {
	struct loop *loop;
	struct registry *registry;
	const struct settings *settings;
	const char *fault; /* of soft NICs, or NULL */
	/* As start_process of struct nic_soft_attr and nic_mlx5_attr: NULL, or with its argument. */
	int (*start_executor)(void *arg, uint32_t uid, int *ret_channel);
	int (*start_mapper)(void *arg, uint32_t uid, int *ret_channel);
	void *start_arg;
	struct ctx_pool *ctx_pool; /* NULL: not yet, or no NIC has a pool */
	struct nic_mlx5_report report; /* as the start has logged it already */
	struct list list; /* struct nic.link, owned */
	struct nics_watch watched[REGISTRY_MAX_NICS];
};

#define NICS_TEXT_BYTES 48
/* "2 NICs", "1 simulated NIC": how many the daemon drives, for people. Returns buf. */
const char *nics_text(const struct registry *registry, char buf[NICS_TEXT_BYTES]);

void nics_init(struct nics *nics);
/* Call it when no session is left. */
void nics_deinit(struct nics *nics);
/* Opens the NICs of the backend that settings name. Blocks. Negative errno, logged. */
int nics_open(struct nics *nics);
/* A port that a backend manages, in the form that daemon/host takes. */
static inline struct host_managed nics_managed(const struct nic_info *info)
{
	struct host_managed managed = {.node_guid = info->guid, .port = info->port};

	_Static_assert(sizeof(managed.name) == sizeof(info->name), "both hold any name of a NIC");
	memcpy(managed.name, info->name, sizeof(managed.name));
	return managed;
}
/* The settings in the form that every backend's probe takes; it excludes no port. */
struct nic_probe_attr nics_probe_attr(const struct nics *nics);
/* Stops NICs between two requests, before the process leaves its sessions to the next one. Blocks for a second at most; logs. */
void nics_rest(struct nics *nics);
/* Adds a NIC that was queried already; on success moves it into `list`, which owns it. -ENOSPC, -ENOMEM; logged. */
int nics_add(struct nics *nics, struct nic *nic, const struct nic_info *info);

#endif
