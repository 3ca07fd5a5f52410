/* SPDX-License-Identifier: Apache-2.0 */
/* Applies settings to the running daemon, at its start and at each SIGHUP. */
#ifndef SHMEMD_SETTINGS_APPLY_H
#define SHMEMD_SETTINGS_APPLY_H

#include "daemon/clients/listener.h"
#include "daemon/session/registry.h"
#include "daemon/settings/settings.h"
#include "daemon/node/ctx-pool.h"

/* Fills in the fields of *attr that come from settings, and sets target and level of the log. */
void settings_apply_registry(const struct settings *settings, struct registry_attr *attr);
/* Queues have the layout that the client library asks for. */
void settings_apply_ctx_pool(const struct settings *settings, struct nic_ctx_pool_attr *ret_attr);
/* Raises RLIMIT_NOFILE as far as allowed and returns it; logs a warning if max-fds is higher. */
uint64_t settings_apply_fd_limit(const struct settings *settings);

struct node_map;

/*
 * At the start, with the ports as they are: what nics-include, nics-exclude and gpu-nic-map want of this machine. -EINVAL, logged, where
 * it cannot be done; with has_sessions it is done as far as it can be, since they would end with this daemon, and where a port is down
 * likewise, since it may come up.
 */
int settings_apply_policy(const struct settings *settings, struct node_map *map, bool has_sessions);

struct settings_apply_target {
	struct settings *settings;
	const struct settings_source *source;
	struct listener *listener;
	struct registry *registry;
	struct ctx_pool *ctx_pool;
};

/* Reads the settings again. All that may change does, or nothing does: negative errno, and why. Logs either. */
int settings_apply_reload(const struct settings_apply_target *target, struct settings_error *ret_error);

#endif
