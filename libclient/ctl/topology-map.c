/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that topology, doctor and config look at, and the map of its GPUs and NICs.
 *
 * Asks no daemon: the map follows from the machine and the daemon's file of settings, so it shows the decisions of a daemon without
 * settings on its command line. SHMEMD_SYSFS names a folder in place of /sys, as for the daemon; the folder then has the only GPUs
 * and NICs, without their drivers.
 */
#include "libclient/ctl/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the machine */

int topology_load(const struct args *args, struct topo **ret_topo)
{
	const char *path = args->values[OPTION_FROM], *sys = getenv("SHMEMD_SYSFS");
	struct topo_host_attr attr = {.sys = "/sys",
				      .proc = "/proc",
				      .nvml = HOST_NVML,
				      .verbs = HOST_VERBS,
				      .mlx5 = HOST_MLX5};
	char why[TOPO_WHY_BYTES] = "";
	int r;

	if (sys && *sys == '/')
		attr = (struct topo_host_attr){.sys = sys};
	attr.why = why;
	r = path ? topo_read_file(path, ret_topo, why) : topo_read_host(&attr, ret_topo);
	if (!r && *why)
		fprintf(stderr, "shmemctl: %s%s%s\n", path ? path : "", path ? ": " : "", why);
	if (!r)
		return 0;
	return ctl_fail("%s: %s", path ? path : "cannot read this machine",
			*why ? why : strerror(-r));
}

/* ---- the map */

/* The daemon's settings are about this machine; another one has none unless --config names them. */
static int read_policy(const struct args *args, struct topo_policy *policy, struct topology_settings *settings)
{
	const char *path = args->values[OPTION_CONFIG];
	char why[TOPO_POLICY_WHY_BYTES];
	int r;

	if (!path && args->values[OPTION_FROM])
		return 0;
	r = topo_policy_read(policy, path ? path : SHMD_SYSCONFDIR "/shmemd/shmemd.conf", why);
	settings->is_given = r == 0;
	if (r == 0 || (!path && r == -ENOENT))
		return 0;
	/* If only the daemon may read the file, the command still shows the map. */
	memcpy(!path && r == -EACCES ? settings->unread : settings->error, why, sizeof(why));
	return !path && r == -EACCES ? 0 : -EINVAL;
}

/* On a machine without NICs a daemon may simulate up to 64, which the settings may name. */
#define MAX_SOFT_NICS 64

static void doubt(const struct topo_policy *policy, const struct topo *topo, char text[TOPO_DOUBTS_BYTES])
{
	struct topo_apart soft[MAX_SOFT_NICS];
	char names[MAX_SOFT_NICS][16];
	unsigned int n = topo->n_nics ? 0 : MAX_SOFT_NICS;

	for (unsigned int i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "soft%u", i);
		soft[i] = (struct topo_apart){.name = names[i], .pci = "", .port = 1};
	}
	topo_policy_doubts(policy, topo, soft, n, text);
}

int topology_assign(const struct args *args, const struct topo *topo, struct topo_map *map, struct topology_settings *ret_settings)
{
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	int r;

	*ret_settings = (struct topology_settings){0};
	if (!policy)
		return -ENOMEM;
	r = read_policy(args, policy, ret_settings);
	if (r == 0) {
		topo_assign(topo, policy, map);
		ret_settings->is_followed = true;
		if (topo_policy_check(policy, topo, ret_settings->error) == 0)
			doubt(policy, topo, ret_settings->warning);
	}
	free(policy);
	return r;
}

/* ---- for the views */

bool topology_has(const struct topo_map *map, unsigned int gpu, unsigned int nic)
{
	for (unsigned int i = 0; i < map->gpus[gpu].n_nics; i++)
		if (map->gpus[gpu].nics[i] == nic)
			return true;
	return false;
}

bool topology_is_left(const struct topology_view *view, unsigned int nic)
{
	return view->map->excluded[nic] != TOPO_USED || (view->topo->n_gpus && !view->map->n_gpus[nic]);
}

void topology_by_distance(const struct topo *topo, unsigned int gpu, uint16_t nics[TOPO_MAX_NICS])
{
	unsigned int node = topo->gpus[gpu].node;

	for (unsigned int i = 0; i < topo->n_nics; i++) {
		unsigned int rank = topo_rank(topo, node, topo->nics[i].node), at = i;

		for (; at > 0 && topo_rank(topo, node, topo->nics[nics[at - 1]].node) > rank; at--)
			nics[at] = nics[at - 1];
		nics[at] = (uint16_t)i;
	}
}

/* Two ports of one function have the shortest distance. */
const char *topology_distance(const struct topo *topo, unsigned int node_a, unsigned int node_b)
{
	return topo_word(node_a == node_b ? TOPO_PIX : topo_distance(topo, node_a, node_b));
}

const char *topology_state(const struct topo_nic *nic)
{
	switch (nic->seen.state) {
	case HOST_STATE_ACTIVE:
		return "active";
	case HOST_STATE_DOWN:
		return "down";
	case HOST_STATE_UNKNOWN:
		break;
	}
	return "unknown";
}
