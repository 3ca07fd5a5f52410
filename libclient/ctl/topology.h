/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to show a machine: as tables, as JSON, as a picture. Each writes what `view` has, and decides nothing. */
#ifndef SHMEMD_CTL_TOPOLOGY_H
#define SHMEMD_CTL_TOPOLOGY_H

#include "daemon/topo/topo.h"
#include "libclient/ctl/ctl.h"

struct topology_view {
	const struct topo *topo;
	const struct topo_map *map;
	const char *source; /* a file, or "this machine" */
	int why; /* the GPU that was asked about, or -1 */
};

/* Whether no GPU gets a NIC, on a machine that has GPUs: it is excluded, or each has a nearer one or others by the settings. */
bool topology_is_left(const struct topology_view *view, unsigned int nic);
/* What --from names, or this machine. 0, or an exit status when it has said what is wrong. */
int topology_load(const struct args *args, struct topo **ret_topo);

/* What came of the settings about NICs and GPUs, in words; "": nothing. */
struct topology_settings {
	bool is_given; /* else this machine's file is not there, or another machine has none */
	bool is_followed; /* at least in part: the map is theirs */
	char unread[TOPO_POLICY_WHY_BYTES]; /* why the file cannot be read; for others than the one that was named no failure */
	char error[TOPO_POLICY_WHY_BYTES]; /* why the file is refused, or this machine cannot follow it */
	char warning[TOPO_DOUBTS_BYTES]; /* names that this machine does not have */
};

/*
 * The map as a daemon with the settings would decide. Where the machine cannot follow them, since a port is down maybe, a daemon does
 * not start, and one that runs follows them as far as it can: so does the map. 0; or -EINVAL with no map; -ENOMEM.
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
