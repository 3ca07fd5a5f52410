/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl topology: the GPUs and NICs of a machine, and who uses which.
 *
 * Asks no daemon: the map follows from the machine and the daemon's file of settings, so what is shown here is what a daemon
 * decides that was told nothing else on its command line. SHMEMD_SYSFS names a folder in place of /sys, as for the daemon; GPUs and
 * NICs then are what that folder has, without their drivers.
 */
#include "libclient/ctl/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the views share */

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

/* Two ports of one function are as near as can be. */
const char *topology_distance(const struct topo *topo, unsigned int node_a, unsigned int node_b)
{
	return topo_word(node_a == node_b ? TOPO_PIX : topo_distance(topo, node_a, node_b));
}

const char *topology_state(const struct topo_nic *nic)
{
	switch (nic->state) {
	case TOPO_STATE_ACTIVE:
		return "active";
	case TOPO_STATE_DOWN:
		return "down";
	case TOPO_STATE_UNKNOWN:
		break;
	}
	return "unknown";
}

/* ---- the command */

int topology_load(const struct args *args, struct topo **ret_topo)
{
	const char *path = args->values[OPTION_FROM], *sys = getenv("SHMEMD_SYSFS");
	struct topo_host_attr attr = {.sys = "/sys",
				      .proc = "/proc",
				      .nvml = TOPOLOGY_NVML,
				      .verbs = TOPOLOGY_VERBS,
				      .mlx5 = TOPOLOGY_MLX5};
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

static int find_why(const struct args *args, const struct topo *topo, int *ret_gpu)
{
	*ret_gpu = -1;
	if (!args_has(args, OPTION_WHY))
		return 0;
	*ret_gpu = topo_find_gpu(topo, args->values[OPTION_WHY]);
	if (*ret_gpu >= 0)
		return 0;
	if (!topo->n_gpus)
		return ctl_fail("there is no GPU %s: this machine has no GPUs", args->values[OPTION_WHY]);
	return ctl_fail("there is no GPU %s: a GPU is named by index (0 to %u), PCI address or UUID",
			args->values[OPTION_WHY], topo->n_gpus - 1);
}

static int write_picture(struct ctl *ctl, const struct topology_view *view, const char *path)
{
	FILE *out;
	bool is_whole;

	/* The caller reports errors of standard output, as for every answer. */
	if (!strcmp(path, "-")) {
		topology_svg(view, ctl->out);
		return 0;
	}
	out = fopen(path, "we");
	if (!out)
		return ctl_fail("%s: %s", path, strerror(errno));
	topology_svg(view, out);
	is_whole = !ferror(out);
	if (fclose(out) || !is_whole)
		return ctl_fail("%s: %s", path, strerror(errno));
	return 0;
}

/* The daemon's settings are about this machine, so another one has none unless they are named. */
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
	/* A file that only the daemon may read does not keep anybody from looking. */
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

static int tell_settings(const struct topology_settings *settings)
{
	if (*settings->unread)
		fprintf(stderr, "shmemctl: %s: the map is drawn without its nics-include, nics-exclude and gpu-nic-map\n", settings->unread);
	if (*settings->warning)
		fprintf(stderr, "shmemctl: warning: %s\n", settings->warning);
	if (!*settings->error)
		return 0;
	return ctl_fail("%s%s", settings->error, settings->is_followed ? "; the map follows the other settings" : "");
}

static int draw(struct ctl *ctl, const struct topology_view *view)
{
	if (args_has(ctl->args, OPTION_SVG))
		return write_picture(ctl, view, ctl->args->values[OPTION_SVG]);
	if (ctl->is_json)
		topology_json(ctl, view);
	else
		topology_print(ctl, view);
	return 0;
}

static int show(struct ctl *ctl, const struct topo *topo)
{
	struct topology_view view = {.topo = topo};
	struct topology_settings settings;
	struct topo_map *map;
	int r = find_why(ctl->args, topo, &view.why), status;

	if (r)
		return r;
	map = calloc(1, sizeof(*map));
	if (!map)
		return ctl_fail("out of memory");
	view.map = map;
	view.source = ctl->args->values[OPTION_FROM] ? ctl->args->values[OPTION_FROM] : "this machine";
	r = topology_assign(ctl->args, topo, map, &settings);
	status = r == -ENOMEM ? ctl_fail("out of memory") : tell_settings(&settings);
	r = r == 0 ? draw(ctl, &view) : status;
	free(map);
	return r ? r : status;
}

int ctl_topology(struct ctl *ctl)
{
	bool is_dump = ctl->args->n_words;
	struct topo *topo = NULL;
	int r;

	if (is_dump && (ctl->is_json || args_has(ctl->args, OPTION_WHY) || args_has(ctl->args, OPTION_SVG) ||
			args_has(ctl->args, OPTION_CONFIG)))
		return ctl_fail("topology dump writes XML, and takes neither --json nor --why nor --svg nor --config");
	if (args_has(ctl->args, OPTION_SVG) && (ctl->is_json || args_has(ctl->args, OPTION_WHY)))
		return ctl_fail("--svg writes a picture and nothing else: ask once more with --json or --why");
	r = topology_load(ctl->args, &topo);
	if (!r && is_dump)
		topo_dump(topo, ctl->out);
	else if (!r)
		r = show(ctl, topo);
	topo_free(topo);
	return r;
}
