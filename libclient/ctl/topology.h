/* SPDX-License-Identifier: Apache-2.0 */
/* A machine, its map of GPUs and NICs, and the ways to show them: as tables, as JSON, as a picture. These decide nothing. */
#ifndef SHMEMD_CTL_TOPOLOGY_H
#define SHMEMD_CTL_TOPOLOGY_H

#include "daemon/topo/topo.h"
#include "libclient/ctl/ctl.h"

struct topology_view {
	const struct topo *topo;
	const struct topo_map *map;
	const char *source; /* a file, or "this machine" */
	int why; /* the GPU of --why, or -1 */
};

/* Whether no GPU of the machine gets this NIC: it is excluded, or each GPU has a nearer one or others by the settings. */
bool topology_is_left(const struct topology_view *view, unsigned int nic);
/* The machine of --from, or this one. 0, or an exit status after it has printed the error. */
int topology_load(const struct args *args, struct topo **ret_topo);

/* The result of reading and following the settings about NICs and GPUs; texts may be "". */
struct topology_settings {
	bool is_given; /* false: this machine's file does not exist, or another machine has none */
	bool is_followed; /* at least in part: the map is theirs */
	char unread[TOPO_POLICY_WHY_BYTES]; /* why the file cannot be read; a failure only for the file of --config */
	char error[TOPO_POLICY_WHY_BYTES]; /* why the file is refused, or this machine cannot follow it */
	char warning[TOPO_DOUBTS_BYTES]; /* names that this machine does not have */
};

/*
 * The map that a daemon with these settings would decide on. If the machine cannot follow them, for example because a port is
 * down, a daemon does not start, and a running one follows them as far as it can: so does the map. 0; or -EINVAL with no map; -ENOMEM.
 */
int topology_assign(const struct args *args, const struct topo *topo, struct topo_map *map, struct topology_settings *ret_settings);

void topology_print(struct ctl *ctl, const struct topology_view *view);
/* max_width in columns, 0: any. A line below the matrix names what it leaves out. Errors stay in `out`. */
void topology_print_matrix(const struct topo *topo, unsigned int max_width, FILE *out);
void topology_json(struct ctl *ctl, const struct topology_view *view);
/* Errors stay in `out`. */
void topology_svg(const struct topology_view *view, FILE *out);

/* NICs from the nearest to the GPU to the farthest; n_nics of them. */
void topology_by_distance(const struct topo *topo, unsigned int gpu, uint16_t nics[TOPO_MAX_NICS]);
bool topology_has(const struct topo_map *map, unsigned int gpu, unsigned int nic);
const char *topology_distance(const struct topo *topo, unsigned int node_a, unsigned int node_b);
const char *topology_state(const struct topo_nic *nic);

#endif
