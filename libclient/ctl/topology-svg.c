/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as a picture: a frame for each NUMA node, in it a box for each switch (or slot of a host bridge) with its GPUs at the left and
 * its NICs at the right; grey lines are PCIe, the bar at the top is what links GPUs, coloured lines are the assignment.
 *
 * Everything is placed before anything is drawn, on the narrowest of a few widths that, enlarged to PAGE_WIDTH, is no higher than
 * PAGE_HEIGHT; so small machines are shown large, and only one that fits on none is higher. Lines are drawn before the boxes and
 * names that they pass.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/topology.h"

#define PAGE_WIDTH 1920
#define PAGE_HEIGHT 1080
#define MARGIN 20
#define TOP_WITHOUT_BAR 46 /* of the frames */
#define TOP_WITH_BAR 80
#define FRAME_HEAD 24
#define FRAME_GAP 16
#define BOX_WIDTH 284 /* of a switch */
#define BOX_HEAD 20
#define BOX_GAP 10
#define ROW 22
#define GPU_WIDTH 108
#define NIC_WIDTH 116
#define DEVICE_HEIGHT 18
#define INSET 14
#define NAME_CHARS 14
#define TITLE_CHARS 48
#define MAX_BOXES (TOPO_MAX_GPUS + TOPO_MAX_NICS)

struct rect {
	unsigned int x, y, width, height;
};

/* What shares a switch. */
struct box {
	unsigned int node; /* the bridge, host bridge or function that it is named after */
	unsigned int n_gpus, n_nics;
	unsigned int frame;
	struct rect at;
};

struct frame {
	int numa;
	unsigned int n_boxes;
	struct rect at;
};

struct picture {
	const struct topology_view *view;
	const struct topo *topo;
	FILE *out;
	unsigned int n_boxes, n_frames;
	bool has_bar;
	unsigned int width, height; /* in units of our own, that the page enlarges */
	struct box boxes[MAX_BOXES];
	struct frame frames[MAX_BOXES];
	unsigned int gpu_box[TOPO_MAX_GPUS], nic_box[TOPO_MAX_NICS];
	struct rect gpus[TOPO_MAX_GPUS], nics[TOPO_MAX_NICS];
};

static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#e67e00", "#17a2b8", "#8c564b", "#c71585"};
#define N_COLORS (sizeof(colors) / sizeof(colors[0]))

/* ---- placing ------------------------------------------------------------------------------------------------------- */

/* The deepest bridge above with more than one device below, else the device itself. */
static bool has_others(const struct topo *topo, unsigned int bridge, unsigned int self)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < topo->n_gpus + topo->n_nics; i++) {
		unsigned int node = i < topo->n_gpus ? topo->gpus[i].node : topo->nics[i - topo->n_gpus].node;
		bool is_below = false;

		for (int at = (int)node; at >= 0; at = topo->nodes[at].parent)
			is_below |= (unsigned int)at == bridge;
		n += is_below && node != self;
	}
	return n > 0;
}

static unsigned int find_switch(const struct topo *topo, unsigned int node)
{
	for (int at = (int)node; at > 0; at = topo->nodes[at].parent) {
		enum topo_kind kind = topo->nodes[at].kind;
		bool is_flat = kind == TOPO_HOST && topo->nodes[node].parent == at;

		if ((kind == TOPO_BRIDGE || is_flat) && has_others(topo, (unsigned int)at, node))
			return (unsigned int)at;
	}
	return node;
}

static unsigned int find_frame(struct picture *picture, int numa)
{
	unsigned int i;

	for (i = 0; i < picture->n_frames && picture->frames[i].numa != numa; i++)
		;
	return i;
}

/* In the order of NUMA nodes. */
static void make_frame(struct picture *picture, int numa)
{
	unsigned int at = picture->n_frames;

	if (find_frame(picture, numa) < picture->n_frames)
		return;
	for (; at > 0 && picture->frames[at - 1].numa > numa; at--)
		picture->frames[at] = picture->frames[at - 1];
	picture->frames[at] = (struct frame){.numa = numa};
	picture->n_frames++;
}

/* A host bridge may have devices of several NUMA nodes, and then has a box on each. */
static unsigned int find_box(struct picture *picture, unsigned int device)
{
	unsigned int node = find_switch(picture->topo, device), i;
	unsigned int frame = find_frame(picture, picture->topo->nodes[device].numa);
	bool is_host = picture->topo->nodes[node].kind == TOPO_HOST;

	for (i = 0; i < picture->n_boxes; i++)
		if (picture->boxes[i].node == node && (!is_host || picture->boxes[i].frame == frame))
			return i;
	picture->boxes[picture->n_boxes++] = (struct box){.node = node, .frame = frame};
	return i;
}

static void make_boxes(struct picture *picture)
{
	const struct topo *topo = picture->topo;

	for (unsigned int i = 0; i < topo->n_gpus; i++)
		make_frame(picture, topo->nodes[topo->gpus[i].node].numa);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		make_frame(picture, topo->nodes[topo->nics[i].node].numa);
	for (unsigned int i = 0; i < topo->n_gpus; i++) {
		picture->gpu_box[i] = find_box(picture, topo->gpus[i].node);
		picture->boxes[picture->gpu_box[i]].n_gpus++;
	}
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		picture->nic_box[i] = find_box(picture, topo->nics[i].node);
		picture->boxes[picture->nic_box[i]].n_nics++;
	}
	for (unsigned int i = 0; i < picture->n_boxes; i++)
		picture->frames[picture->boxes[i].frame].n_boxes++;
}

/* Boxes of a frame side by side, as many as fit, row by row. Returns how high the frame becomes. */
static unsigned int place_boxes(struct picture *picture, unsigned int frame, unsigned int width)
{
	unsigned int n_beside = (width - BOX_GAP) / (BOX_WIDTH + BOX_GAP), n = 0, y = FRAME_HEAD, row_height = 0;
	const struct rect *at = &picture->frames[frame].at;

	for (unsigned int i = 0; i < picture->n_boxes; i++) {
		struct box *box = &picture->boxes[i];
		unsigned int n_rows = box->n_gpus > box->n_nics ? box->n_gpus : box->n_nics;

		if (box->frame != frame)
			continue;
		if (n && n % n_beside == 0) {
			y += row_height + BOX_GAP;
			row_height = 0;
		}
		box->at = (struct rect){at->x + BOX_GAP + n % n_beside * (BOX_WIDTH + BOX_GAP), at->y + y, BOX_WIDTH,
					BOX_HEAD + n_rows * ROW + 6};
		row_height = box->at.height > row_height ? box->at.height : row_height;
		n++;
	}
	return y + row_height + BOX_GAP;
}

static void place_frames(struct picture *picture)
{
	unsigned int room = picture->width - 2 * MARGIN, y = picture->has_bar ? TOP_WITH_BAR : TOP_WITHOUT_BAR, row_height = 0;
	unsigned int n_fit = (room + FRAME_GAP) / (BOX_WIDTH + 2 * BOX_GAP + FRAME_GAP);
	unsigned int n_columns = picture->n_frames < n_fit ? picture->n_frames : n_fit;
	unsigned int width = n_columns ? (room - (n_columns - 1) * FRAME_GAP) / n_columns : 0;

	for (unsigned int i = 0; i < picture->n_frames; i++) {
		struct rect *at = &picture->frames[i].at;

		if (i && i % n_columns == 0) {
			y += row_height + FRAME_GAP;
			row_height = 0;
		}
		*at = (struct rect){MARGIN + i % n_columns * (width + FRAME_GAP), y, width, 0};
		at->height = place_boxes(picture, i, width);
		row_height = at->height > row_height ? at->height : row_height;
	}
	picture->height = y + row_height + MARGIN;
}

static void place_all(struct picture *picture)
{
	static const unsigned int widths[] = {760, 960, 1280, 1600, PAGE_WIDTH};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		picture->width = widths[i];
		place_frames(picture);
		if (picture->height * PAGE_WIDTH <= PAGE_HEIGHT * picture->width)
			return;
	}
}

static void place_devices(struct picture *picture)
{
	unsigned int used[MAX_BOXES] = {0};

	for (unsigned int i = 0; i < picture->topo->n_gpus; i++) {
		const struct rect *box = &picture->boxes[picture->gpu_box[i]].at;

		picture->gpus[i] = (struct rect){box->x + INSET, box->y + BOX_HEAD + used[picture->gpu_box[i]]++ * ROW, GPU_WIDTH,
						 DEVICE_HEIGHT};
	}
	memset(used, 0, sizeof(used));
	for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
		const struct rect *box = &picture->boxes[picture->nic_box[i]].at;

		picture->nics[i] = (struct rect){box->x + box->width - INSET - NIC_WIDTH,
						 box->y + BOX_HEAD + used[picture->nic_box[i]]++ * ROW, NIC_WIDTH, DEVICE_HEIGHT};
	}
}

/* ---- drawing ------------------------------------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *text, size_t max_chars)
{
	for (size_t i = 0; text[i] && i < max_chars; i++) {
		if (text[i] == '<')
			fputs("&lt;", out);
		else if (text[i] == '&')
			fputs("&amp;", out);
		else
			fputc(text[i], out);
	}
}

static void draw_rect(FILE *out, const char *class_name, const char *id, unsigned int index, const struct rect *at)
{
	fprintf(out, "<rect class=\"%s\" id=\"%s%u\" x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" rx=\"3\"", class_name, id, index,
		at->x, at->y, at->width, at->height);
}

static void draw_line(FILE *out, const char *attributes, unsigned int x1, unsigned int y1, unsigned int x2, unsigned int y2)
{
	fprintf(out, "<line %s x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\"/>\n", attributes, x1, y1, x2, y2);
}

static unsigned int middle(const struct rect *at)
{
	return at->y + at->height / 2;
}

static struct rect bar_of(const struct picture *picture)
{
	return (struct rect){MARGIN, 44, picture->width - 2 * MARGIN, 20};
}

static unsigned int count_links(const struct topo *topo)
{
	unsigned int n = 0;

	for (unsigned int a = 0; a < topo->n_gpus; a++)
		for (unsigned int b = 0; b < a; b++)
			n += topo_gpu_links(topo, a, b) > 0;
	return n;
}

/* What links GPUs is a bar that each of them is tied to. */
static void draw_gpu_links(const struct picture *picture)
{
	const struct topo *topo = picture->topo;
	struct rect bar = bar_of(picture);

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++) {
		const struct rect *at = &picture->gpus[gpu];
		bool is_linked = false;

		for (unsigned int other = 0; other < topo->n_gpus; other++)
			is_linked |= topo_gpu_links(topo, gpu, other) > 0;
		if (is_linked)
			draw_line(picture->out, "class=\"gpu-link\"", at->x + at->width / 2, bar.y + bar.height,
				  at->x + at->width / 2, at->y);
	}
}

/* From the head of the box along its sides. */
static void draw_pcie(const struct picture *picture)
{
	for (unsigned int i = 0; i < picture->topo->n_gpus; i++) {
		const struct rect *at = &picture->gpus[i], *box = &picture->boxes[picture->gpu_box[i]].at;

		draw_line(picture->out, "class=\"pcie\"", box->x + INSET / 2, box->y, box->x + INSET / 2, middle(at));
		draw_line(picture->out, "class=\"pcie\"", box->x + INSET / 2, middle(at), at->x, middle(at));
	}
	for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
		const struct rect *at = &picture->nics[i], *box = &picture->boxes[picture->nic_box[i]].at;
		unsigned int x = box->x + box->width - INSET / 2;

		draw_line(picture->out, "class=\"pcie\"", x, box->y, x, middle(at));
		draw_line(picture->out, "class=\"pcie\"", x, middle(at), at->x + at->width, middle(at));
	}
}

/* Between the sides that face each other. */
static void draw_edge(FILE *out, const char *attributes, const struct rect *from, const struct rect *to)
{
	if (to->x >= from->x + from->width)
		draw_line(out, attributes, from->x + from->width, middle(from), to->x, middle(to));
	else if (to->x + to->width <= from->x)
		draw_line(out, attributes, from->x, middle(from), to->x + to->width, middle(to));
	else if (to->y > from->y)
		draw_line(out, attributes, from->x + from->width / 2, from->y + from->height, to->x + to->width / 2, to->y);
	else
		draw_line(out, attributes, from->x + from->width / 2, from->y, to->x + to->width / 2, to->y + to->height);
}

static void draw_assignment(const struct picture *picture)
{
	for (unsigned int gpu = 0; gpu < picture->topo->n_gpus; gpu++) {
		const struct topo_gpu_map *got = &picture->view->map->gpus[gpu];
		const struct rect *from = &picture->gpus[gpu];

		for (unsigned int i = 0; i < got->n_nics; i++) {
			const struct rect *to = &picture->nics[got->nics[i]];
			char attributes[128];

			snprintf(attributes, sizeof(attributes), "class=\"uses\" data-gpu=\"%u\" data-nic=\"%u\" stroke=\"%s\"", gpu,
				 (unsigned int)got->nics[i], colors[gpu % N_COLORS]);
			draw_edge(picture->out, attributes, from, to);
		}
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

		fprintf(picture->out, "<text class=\"frame-name\" x=\"%u\" y=\"%u\">", at->x + 8, at->y + 16);
		if (picture->frames[i].numa >= 0)
			fprintf(picture->out, "NUMA node %d</text>\n", picture->frames[i].numa);
		else
			fprintf(picture->out, "no NUMA node</text>\n");
	}
}

static void draw_box_names(const struct picture *picture)
{
	static const char *const kinds[] = {"machine", "CPU", "host bridge", "switch", "slot"};
	char pci[TOPO_PCI_BYTES];

	for (unsigned int i = 0; i < picture->n_boxes; i++) {
		const struct box *box = &picture->boxes[i];
		const struct topo_node *node = &picture->topo->nodes[box->node];

		fprintf(picture->out, "<text class=\"switch-name\" x=\"%u\" y=\"%u\">%s %u", box->at.x + INSET,
			box->at.y + 13, kinds[node->kind], i);
		if (node->pci != TOPO_NO_PCI && node->kind != TOPO_FUNCTION)
			fprintf(picture->out, " (%s)", topo_pci_text(node->pci, pci));
		fputs("</text>\n", picture->out);
	}
}

static void draw_gpus(const struct picture *picture)
{
	const struct topo *topo = picture->topo;
	char pci[TOPO_PCI_BYTES];

	for (unsigned int i = 0; i < topo->n_gpus; i++) {
		const struct rect *at = &picture->gpus[i];

		topo_pci_text(topo->nodes[topo->gpus[i].node].pci, pci);
		draw_rect(picture->out, "gpu", "gpu", i, at);
		fprintf(picture->out, " stroke=\"%s\"><title>", colors[i % N_COLORS]);
		put_text(picture->out, *topo->gpus[i].name ? topo->gpus[i].name : pci, TOPO_NAME_BYTES);
		fprintf(picture->out, "</title></rect>\n<text class=\"device\" x=\"%u\" y=\"%u\">GPU%u %s</text>\n", at->x + 4, at->y + 13, i,
			pci);
	}
}

static void draw_nics(const struct picture *picture)
{
	char name[TOPO_NAME_BYTES], why[TOPO_WHY_BYTES];

	for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
		const struct rect *at = &picture->nics[i];
		bool is_excluded = topology_is_left(picture->view, i);

		topo_nic_text(picture->topo, i, name);
		draw_rect(picture->out, is_excluded ? "nic excluded" : "nic", "nic", i, at);
		fputs("><title>", picture->out);
		put_text(picture->out, name, TOPO_NAME_BYTES);
		if (is_excluded)
			fprintf(picture->out, ": %s", topo_reason_excluded(picture->topo, picture->view->map, i, why));
		fprintf(picture->out, "</title></rect>\n<text class=\"device\" x=\"%u\" y=\"%u\">NIC%u ", at->x + 4, at->y + 13, i);
		put_text(picture->out, name, NAME_CHARS);
		fputs("</text>\n", picture->out);
	}
}

static void draw_head(const struct picture *picture)
{
	const char *last = strrchr(picture->view->source, '/'), *source = last ? last + 1 : picture->view->source;

	fprintf(picture->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\">\n"
		"<style>\n"
		"text { font-family: 'DejaVu Sans Mono', monospace; fill: #222; }\n"
		".frame-name, .switch-name { paint-order: stroke; stroke: #f5f6f8; stroke-width: 3px; }\n"
		".title { font-size: 16px; } .frame-name { font-size: 13px; } .switch-name, .bar-name { font-size: 10px; fill: #555; }\n"
		".device { font-size: 9px; }\n"
		".page { fill: #fff; } .frame { fill: #f5f6f8; stroke: #b8bec8; } .switch { fill: none; stroke: #98a2b0; }\n"
		".gpu { fill: #fff; stroke-width: 2; } .nic { fill: #fff; stroke: #444; }\n"
		".excluded { fill: #eee; stroke: #aaa; stroke-dasharray: 3 2; }\n"
		".pcie { stroke: #c3c9d2; } .gpu-link { stroke: #d9e8c4; } .bar { fill: #eef6e2; stroke: #a8c780; }\n"
		".uses { stroke-width: 1.6; }\n"
		"</style>\n"
		"<rect class=\"page\" width=\"%u\" height=\"%u\"/>\n<text class=\"title\" x=\"%u\" y=\"30\">GPUs and NICs of ",
		PAGE_WIDTH, picture->height * PAGE_WIDTH / picture->width, picture->width, picture->height, picture->width,
		picture->height, MARGIN);
	put_text(picture->out, source, TITLE_CHARS);
	fputs("</text>\n", picture->out);
}

static void draw_bar(const struct picture *picture)
{
	struct rect bar = bar_of(picture);

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
	picture->topo = view->topo;
	picture->out = out;
	picture->has_bar = count_links(view->topo) > 0;
	make_boxes(picture);
	place_all(picture);
	place_devices(picture);
	draw_head(picture);
	draw_frames(picture);
	if (picture->has_bar)
		draw_gpu_links(picture);
	draw_pcie(picture);
	draw_boxes(picture);
	if (picture->has_bar)
		draw_bar(picture);
	draw_assignment(picture);
	draw_frame_names(picture);
	draw_box_names(picture);
	draw_gpus(picture);
	draw_nics(picture);
	fputs("</svg>\n", out);
	free(picture);
}
