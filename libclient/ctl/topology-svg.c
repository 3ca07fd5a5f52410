/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as a picture (SVG): grey lines are PCIe, the bar at the top links GPUs, coloured lines are the assignment. Lines
 * are drawn before the boxes and names that they pass. Every hostile text goes through ink_text().
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/topology-picture.h"

#define LABEL_CHARS 17 /* of a NIC, beside its rate */
#define LONG_LABEL_CHARS 27 /* if it has none */
#define TITLE_CHARS 48

/* Colours of GPUs, easy to tell apart. GPUs beyond the sixteenth repeat them with dashed lines. */
static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#e67e00", "#17a2b8", "#8c564b", "#c71585",
				     "#0000ff", "#ff00ff", "#2d4b0f", "#690fb4", "#a5a500", "#5aa578", "#0078ff", "#f07896"};
#define N_COLORS (sizeof(colors) / sizeof(colors[0]))

static void draw_rect(FILE *out, const char *class_name, const char *id, unsigned int index, const struct rect *at)
{
	fprintf(out, "<rect class=\"%s\" id=\"%s%u\" x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" rx=\"3\"", class_name, id, index,
		at->x, at->y, at->width, at->height);
}

static unsigned int middle(const struct rect *at)
{
	return at->y + at->height / 2;
}

static bool is_linked(const struct topo *topo, unsigned int gpu)
{
	for (unsigned int other = 0; other < topo->n_gpus; other++)
		if (topo_gpu_links(topo, gpu, other) > 0)
			return true;
	return false;
}

/* Lines tie each linked GPU to the bar. They reach the GPU's box before boxes are drawn, and the GPU itself after that. */
static void draw_gpu_links(const struct picture *picture, bool is_inside)
{
	for (unsigned int gpu = 0; gpu < picture->topo->n_gpus; gpu++) {
		const struct rect *at = &picture->gpus[gpu], *box = &picture->boxes[picture->gpu_box[gpu]].at;
		unsigned int x = at->x + at->width / 2, bottom = picture->bar.y + picture->bar.height;

		if (is_linked(picture->topo, gpu))
			ink_line(picture->out, "class=\"gpu-link\"", x, is_inside ? box->y : bottom, x, is_inside ? at->y : box->y);
	}
}

/* From the head of the box along its sides. */
static void draw_pcie(const struct picture *picture)
{
	for (unsigned int i = 0; i < picture->topo->n_gpus; i++) {
		const struct rect *at = &picture->gpus[i], *box = &picture->boxes[picture->gpu_box[i]].at;

		ink_line(picture->out, "class=\"pcie\"", box->x + PICTURE_INSET / 2, box->y, box->x + PICTURE_INSET / 2, middle(at));
		ink_line(picture->out, "class=\"pcie\"", box->x + PICTURE_INSET / 2, middle(at), at->x, middle(at));
	}
	for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
		const struct rect *at = &picture->nics[i], *box = &picture->boxes[picture->nic_box[i]].at;
		unsigned int x = box->x + box->width - PICTURE_INSET / 2;

		ink_line(picture->out, "class=\"pcie\"", x, box->y, x, middle(at));
		ink_line(picture->out, "class=\"pcie\"", x, middle(at), at->x + at->width, middle(at));
	}
}

/* The two ends of an edge. */
struct edge {
	unsigned int x1, y1, x2, y2;
};

/* Between the sides that face each other. */
static struct edge edge_of(const struct rect *from, const struct rect *to)
{
	if (to->x >= from->x + from->width)
		return (struct edge){from->x + from->width, middle(from), to->x, middle(to)};
	if (to->x + to->width <= from->x)
		return (struct edge){from->x, middle(from), to->x + to->width, middle(to)};
	if (to->y > from->y)
		return (struct edge){from->x + from->width / 2, from->y + from->height, to->x + to->width / 2, to->y};
	return (struct edge){from->x + from->width / 2, from->y, to->x + to->width / 2, to->y + to->height};
}

static void draw_edge(const struct picture *picture, unsigned int gpu, unsigned int nic, bool is_default)
{
	struct edge edge = edge_of(&picture->gpus[gpu], &picture->nics[nic]);
	const char *color = colors[gpu % N_COLORS];
	char attributes[160];

	snprintf(attributes, sizeof(attributes), "class=\"%s\" data-gpu=\"%u\" data-nic=\"%u\" stroke=\"%s\"%s",
		 is_default ? "uses default" : "uses", gpu, nic, color, gpu < N_COLORS ? "" : " stroke-dasharray=\"6 2\"");
	ink_line(picture->out, attributes, edge.x1, edge.y1, edge.x2, edge.y2);
}

/* Above the NICs, since a NIC may be the default of several GPUs. */
static void draw_marks(const struct picture *picture)
{
	for (unsigned int gpu = 0; gpu < picture->topo->n_gpus; gpu++) {
		const struct topo_gpu_map *got = &picture->view->map->gpus[gpu];
		struct edge edge;

		if (!got->n_nics)
			continue;
		edge = edge_of(&picture->gpus[gpu], &picture->nics[got->nics[0]]);
		ink_mark(picture->out, edge.x2, edge.y2, colors[gpu % N_COLORS]);
	}
}

static void draw_assignment(const struct picture *picture)
{
	for (unsigned int gpu = 0; gpu < picture->topo->n_gpus; gpu++) {
		const struct topo_gpu_map *got = &picture->view->map->gpus[gpu];

		for (unsigned int i = got->n_nics; i-- > 0;)
			draw_edge(picture, gpu, got->nics[i], i == 0);
	}
}

static void draw_frames(const struct picture *picture)
{
	for (unsigned int i = 0; i < picture->n_frames; i++) {
		draw_rect(picture->out, "frame", "numa", i, &picture->frames[i].at);
		fputs("/>\n", picture->out);
	}
}

static void draw_boxes(const struct picture *picture)
{
	for (unsigned int i = 0; i < picture->n_boxes; i++) {
		draw_rect(picture->out, "switch", "switch", i, &picture->boxes[i].at);
		fputs("/>\n", picture->out);
	}
}

static void draw_frame_names(const struct picture *picture)
{
	for (unsigned int i = 0; i < picture->n_frames; i++) {
		const struct rect *at = &picture->frames[i].at;
		char name[32] = "no NUMA node";

		if (picture->frames[i].numa >= TOPO_MAX_NUMA)
			snprintf(name, sizeof(name), "NUMA nodes, place %d", picture->frames[i].numa - TOPO_MAX_NUMA);
		else if (picture->frames[i].numa >= 0)
			snprintf(name, sizeof(name), "NUMA node %d", picture->frames[i].numa);
		ink_name(picture->out, "frame-name", 13, at->x + 8, at->y + 16, name);
	}
}

static void draw_box_names(const struct picture *picture)
{
	static const char *const kinds[] = {"machine", "CPU", "host bridge", "switch", "slot"};
	char pci[HOST_PCI_BYTES], name[HOST_PCI_BYTES + 32];

	for (unsigned int i = 0; i < picture->n_boxes; i++) {
		const struct box *box = &picture->boxes[i];
		const struct topo_node *node = &picture->topo->nodes[box->node];

		if (node->pci != HOST_NO_PCI && node->kind != TOPO_FUNCTION)
			snprintf(name, sizeof(name), "%s %u (%s)", kinds[node->kind], i, host_pci_text(node->pci, pci));
		else
			snprintf(name, sizeof(name), "%s %u", kinds[node->kind], i);
		ink_name(picture->out, "switch-name", 10, box->at.x + PICTURE_INSET, box->at.y + 13, name);
	}
}

static void draw_gpus(const struct picture *picture)
{
	const struct topo *topo = picture->topo;
	char pci[HOST_PCI_BYTES];

	for (unsigned int i = 0; i < topo->n_gpus; i++) {
		const struct rect *at = &picture->gpus[i];

		host_pci_text(topo->nodes[topo->gpus[i].node].pci, pci);
		draw_rect(picture->out, "gpu", "gpu", i, at);
		fprintf(picture->out, " stroke=\"%s\"%s><title>", colors[i % N_COLORS], i < N_COLORS ? "" : " stroke-dasharray=\"6 2\"");
		ink_text(picture->out, *topo->gpus[i].name ? topo->gpus[i].name : pci, TOPO_NAME_BYTES);
		fprintf(picture->out, "</title></rect>\n<text class=\"device\" x=\"%u\" y=\"%u\">GPU%u %s</text>\n", at->x + 4, at->y + 13, i,
			pci);
	}
}

static bool has_rate(const struct topo_nic *nic)
{
	return nic->seen.state == HOST_STATE_DOWN || nic->seen.rate_mbps;
}

static void draw_port(const struct picture *picture, unsigned int nic)
{
	static const char *const classes[] = {
		[HOST_STATE_UNKNOWN] = "state unknown", [HOST_STATE_DOWN] = "state down", [HOST_STATE_ACTIVE] = "state active"};
	const struct topo_nic *seen = &picture->topo->nics[nic];
	const struct rect *at = &picture->nics[nic];
	char rate[UNITS_BYTES];

	if (seen->seen.state == HOST_STATE_DOWN)
		snprintf(rate, sizeof(rate), "down");
	else
		units_mbps(seen->seen.rate_mbps, rate);
	if (has_rate(seen))
		ink_label(picture->out, seen->seen.state == HOST_STATE_DOWN ? "rate bad" : "rate", at->x + PICTURE_RATE_AT, at->y + 13, rate,
			  PICTURE_RATE_CHARS);
	ink_rect(picture->out, classes[seen->seen.state], &(struct rect){at->x + at->width - 7, at->y + 3, 4, at->height - 6});
}

static void draw_nic_title(const struct picture *picture, unsigned int nic, bool is_left)
{
	char name[TOPO_NAME_BYTES], pci[HOST_PCI_BYTES], why[TOPO_WHY_BYTES];

	fputs("><title>", picture->out);
	ink_text(picture->out, topo_nic_text(picture->topo, nic, name), TOPO_NAME_BYTES);
	fprintf(picture->out, ", %s, port %u, %s", host_pci_text(picture->topo->nodes[picture->topo->nics[nic].node].pci, pci),
		picture->topo->nics[nic].seen.port, topology_state(&picture->topo->nics[nic]));
	if (is_left) {
		fputs(": ", picture->out);
		ink_text(picture->out, topo_reason_excluded(picture->topo, picture->view->map, nic, why), TOPO_WHY_BYTES);
	}
	fputs("</title></rect>\n", picture->out);
}

static void draw_nics(const struct picture *picture)
{
	char name[TOPO_NAME_BYTES], label[TOPO_NAME_BYTES + 16];

	for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
		const struct rect *at = &picture->nics[i];
		bool is_left = topology_is_left(picture->view, i);

		draw_rect(picture->out, is_left ? "nic excluded" : "nic", "nic", i, at);
		draw_nic_title(picture, i, is_left);
		snprintf(label, sizeof(label), "NIC%u %s", i, topo_nic_text(picture->topo, i, name));
		ink_label(picture->out, is_left ? "device faint" : "device", at->x + 8, at->y + 13, label,
			  has_rate(&picture->topo->nics[i]) ? LABEL_CHARS : LONG_LABEL_CHARS);
		draw_port(picture, i);
	}
}

/* The model, if all GPUs are the same. */
static const char *model_of(const struct topo *topo)
{
	for (unsigned int i = 1; i < topo->n_gpus; i++)
		if (strcmp(topo->gpus[i].name, topo->gpus[0].name))
			return "";
	return topo->n_gpus ? topo->gpus[0].name : "";
}

static void draw_summary(const struct picture *picture)
{
	const struct topo *topo = picture->topo;
	unsigned int n_used = 0;
	char text[TOPO_NAME_BYTES + 96];
	const char *model = model_of(topo);

	if (!picture->n_frames)
		return;
	for (unsigned int i = 0; i < topo->n_nics; i++)
		n_used += picture->view->map->n_gpus[i] > 0;
	snprintf(text, sizeof(text), "%u GPU%s%s%.40s%s, %u NIC%s", topo->n_gpus, topo->n_gpus == 1 ? "" : "s", *model ? " (" : "", model,
		 *model ? ")" : "", topo->n_nics, topo->n_nics == 1 ? "" : "s");
	if (topo->n_gpus && topo->n_nics)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ", %u of them used", n_used);
	ink_label(picture->out, "summary", PICTURE_MARGIN, PICTURE_SUMMARY_AT, text, SIZE_MAX);
}

static const char style[] =
	"text { font-family: 'DejaVu Sans Mono', monospace; fill: #222; }\n"
	".title { font-size: 16px; } .frame-name { font-size: 13px; } .summary, .legend { font-size: 10px; fill: #444; }\n"
	".switch-name, .bar-name { font-size: 10px; fill: #555; } .note-head { font-size: 11px; } .note { font-size: 9px; fill: #444; }\n"
	".absent { font-size: 13px; fill: #555; }\n"
	".device { font-size: 9px; } .rate { font-size: 9px; fill: #555; } .faint { fill: #666; } .bad { fill: #b3261e; }\n"
	".page { fill: #fff; } .behind { fill: #f5f6f8; } .frame { fill: #f5f6f8; stroke: #b8bec8; }\n"
	".switch { fill: #f5f6f8; stroke: #98a2b0; } .nothing { fill: none; stroke: #b8bec8; stroke-dasharray: 6 4; }\n"
	".gpu { fill: #fff; stroke-width: 2; } .nic { fill: #fff; stroke: #444; }\n"
	".excluded { fill: #ececef; stroke: #999; stroke-dasharray: 3 2; }\n"
	".state { stroke: none; } .active { fill: #2e9e4f; } .down { fill: #d3302f; } .unknown { fill: #c3c9d2; }\n"
	".pcie { stroke: #c3c9d2; } .gpu-link { stroke: #a8c780; stroke-width: 1.5; } .bar { fill: #eef6e2; stroke: #a8c780; }\n"
	".uses { stroke-width: 1.2; } .default { stroke-width: 2.6; }\n";

static void draw_head(const struct picture *picture)
{
	const char *last = strrchr(picture->view->source, '/'), *source = last ? last + 1 : picture->view->source;

	fprintf(picture->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\">\n"
		"<style>\n%s</style>\n"
		"<rect class=\"page\" width=\"%u\" height=\"%u\"/>\n<text class=\"title\" x=\"%u\" y=\"30\">GPUs and NICs of ",
		picture->page_width, picture->height * picture->page_width / picture->width, picture->width, picture->height, style,
		picture->width, picture->height, PICTURE_MARGIN);
	ink_text(picture->out, source, TITLE_CHARS);
	fputs("</text>\n", picture->out);
	draw_summary(picture);
}

static void draw_bar(const struct picture *picture)
{
	struct rect bar = picture->bar;

	draw_rect(picture->out, "bar", "bar", 0, &bar);
	fprintf(picture->out, "/>\n<text class=\"bar-name\" x=\"%u\" y=\"%u\">%s between GPUs</text>\n", bar.x + 8, bar.y + 14,
		picture->topo->has_xgmi ? "XGMI" : "NVLink");
}

void topology_svg(const struct topology_view *view, FILE *out)
{
	struct picture *picture = calloc(1, sizeof(*picture));

	if (!picture)
		abort();
	picture->view = view;
	picture->out = out;
	picture_place(picture);
	draw_head(picture);
	draw_frames(picture);
	draw_gpu_links(picture, false);
	draw_boxes(picture);
	draw_gpu_links(picture, true);
	draw_pcie(picture);
	if (picture->has_bar)
		draw_bar(picture);
	draw_assignment(picture);
	draw_frame_names(picture);
	draw_box_names(picture);
	draw_gpus(picture);
	draw_nics(picture);
	draw_marks(picture);
	picture_draw_foot(picture);
	fputs("</svg>\n", out);
	free(picture);
}
