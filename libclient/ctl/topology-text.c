/* SPDX-License-Identifier: Apache-2.0 */
/* A machine in words: the matrix of distances with its legend, then who uses which NIC. */
#include <string.h>

#include "libclient/ctl/topology.h"

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static void print_legend(FILE *out)
{
	fputs("\n"
	      "  X     itself\n"
	      "  NV#   that many NVLinks (XGMI: links of AMD)\n"
	      "  PIX   at most one PCIe switch between them\n"
	      "  PXB   several PCIe switches, no host bridge\n"
	      "  PHB   a PCIe host bridge, typically the CPU\n"
	      "  NODE  host bridges of one NUMA node\n"
	      "  SYS   between NUMA nodes, or it is not known\n\n", out);
}

/* ---- tables */

/*
 * A port below its best rate shows that rate too. A port that is down shows no rate: its firmware reports the slowest one.
 */
static void add_rate(struct table *table, const struct topo_nic *nic)
{
	char rate[UNITS_BYTES], max[UNITS_BYTES];

	units_mbps(nic->seen.state == HOST_STATE_DOWN ? 0 : nic->seen.rate_mbps, rate);
	if (nic->seen.state == HOST_STATE_ACTIVE && nic->seen.rate_mbps &&
	    nic->seen.rate_mbps < nic->seen.max_rate_mbps)
		table_add_color(table, COLOR_YELLOW, "%s of %s", rate,
				units_mbps(nic->seen.max_rate_mbps, max));
	else
		table_add(table, "%s", rate);
}

static void print_nics(struct ctl *ctl, const struct topology_view *view)
{
	static const char *const heads[] = {"NIC", "NAME", "PCI", ">PORT", "STATE", ">RATE", "INTERFACE", ">GPUS", NULL};
	char name[TOPO_NAME_BYTES], pci[HOST_PCI_BYTES];
	struct table table;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (unsigned int i = 0; i < view->topo->n_nics; i++) {
		const struct topo_nic *nic = &view->topo->nics[i];

		table_add(&table, "NIC%u", i);
		table_add(&table, "%s", topo_nic_text(view->topo, i, name));
		table_add(&table, "%s", host_pci_text(view->topo->nodes[nic->node].pci, pci));
		table_add(&table, "%u", nic->seen.port);
		table_add_color(&table, nic->seen.state == HOST_STATE_DOWN ? COLOR_RED : COLOR_NONE, "%s", topology_state(nic));
		add_rate(&table, nic);
		table_add(&table, "%s", or_dash(nic->seen.netdev));
		table_add(&table, "%u", view->map->n_gpus[i]);
	}
	table_print(&table, "This machine has no RDMA NICs.", ctl->out);
	table_deinit(&table);
}

static void add_gpu(struct table *table, const struct topology_view *view, unsigned int gpu)
{
	const struct topo *topo = view->topo;
	char pci[HOST_PCI_BYTES];

	table_add_color(table, COLOR_BOLD, "GPU%u", gpu);
	table_add(table, "%s", host_pci_text(topo->nodes[topo->gpus[gpu].node].pci, pci));
}

static void print_assignment(struct ctl *ctl, const struct topology_view *view)
{
	static const char *const heads[] = {"GPU", "PCI", "USES", "~WHY", NULL};
	char name[TOPO_NAME_BYTES], reason[TOPO_WHY_BYTES];
	struct table table;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (unsigned int gpu = 0; gpu < view->topo->n_gpus; gpu++) {
		const struct topo_gpu_map *got = &view->map->gpus[gpu];

		for (unsigned int i = 0; i < got->n_nics; i++) {
			add_gpu(&table, view, gpu);
			table_add(&table, "%s", topo_nic_text(view->topo, got->nics[i], name));
			table_add(&table, "%s", topo_reason(view->topo, view->map, gpu, got->nics[i], reason));
		}
		if (got->n_nics)
			continue;
		add_gpu(&table, view, gpu);
		table_add_color(&table, COLOR_RED, "nothing");
		table_add(&table, "%s", topo_reason_none(view->topo, view->map, reason));
	}
	table_print(&table, "This machine has no GPUs.", ctl->out);
	table_deinit(&table);
}

static void print_excluded(struct ctl *ctl, const struct topology_view *view)
{
	static const char *const heads[] = {"NOT USED", "NAME", "~WHY", NULL};
	char name[TOPO_NAME_BYTES], reason[TOPO_WHY_BYTES];
	struct table table;
	bool is_any = false;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (unsigned int i = 0; i < view->topo->n_nics; i++) {
		if (!topology_is_left(view, i))
			continue;
		is_any = true;
		table_add(&table, "NIC%u", i);
		table_add(&table, "%s", topo_nic_text(view->topo, i, name));
		table_add(&table, "%s", topo_reason_excluded(view->topo, view->map, i, reason));
	}
	if (is_any) {
		fputc('\n', ctl->out);
		table_print(&table, "", ctl->out);
	}
	table_deinit(&table);
}

static void print_why(struct ctl *ctl, const struct topology_view *view)
{
	static const char *const heads[] = {"NIC", "NAME", "DISTANCE", "USED", "~WHY", NULL};
	char name[TOPO_NAME_BYTES], reason[TOPO_WHY_BYTES], pci[HOST_PCI_BYTES];
	const struct topo *topo = view->topo;
	unsigned int gpu = (unsigned int)view->why;
	uint16_t nics[TOPO_MAX_NICS];
	struct table table;

	fprintf(ctl->out, "GPU%u %s%s%s%s%s\n\n", gpu, host_pci_text(topo->nodes[topo->gpus[gpu].node].pci, pci),
		*topo->gpus[gpu].name ? ", " : "", topo->gpus[gpu].name, *topo->gpus[gpu].uuid ? ", " : "",
		topo->gpus[gpu].uuid);
	topology_by_distance(topo, gpu, nics);
	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		bool is_used = topology_has(view->map, gpu, nics[i]);

		table_add(&table, "NIC%u", nics[i]);
		table_add(&table, "%s", topo_nic_text(topo, nics[i], name));
		table_add(&table, "%s", topology_distance(topo, topo->gpus[gpu].node, topo->nics[nics[i]].node));
		table_add_color(&table, is_used ? COLOR_GREEN : COLOR_NONE, "%s", is_used ? "yes" : "no");
		table_add(&table, "%s", topo_reason(topo, view->map, gpu, nics[i], reason));
	}
	table_print(&table, "This machine has no RDMA NICs.", ctl->out);
	table_deinit(&table);
}

void topology_print(struct ctl *ctl, const struct topology_view *view)
{
	if (view->why >= 0) {
		print_why(ctl, view);
		return;
	}
	if (view->topo->n_gpus + view->topo->n_nics) {
		topology_print_matrix(view->topo, ctl->max_width, ctl->out);
		print_legend(ctl->out);
	}
	print_nics(ctl, view);
	fputc('\n', ctl->out);
	print_assignment(ctl, view);
	print_excluded(ctl, view);
}
