/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as a picture (SVG): grey lines are PCIe, the bar at the top is what links GPUs, coloured lines are the assignment. Lines
 * are drawn before the boxes and names that they pass. Every text that could be another's goes through put_text.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/topology-picture.h"

#define LABEL_CHARS 20 /* of a NIC */
#define CHAR_PERCENT 66 /* width of a character, of its size; some renderers round it up to pixels */
#define TITLE_CHARS 48

static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#e67e00", "#17a2b8", "#8c564b", "#c71585"};
#define N_COLORS (sizeof(colors) / sizeof(colors[0]))

static void put_ascii(FILE *out, char c)
{
	switch (c) {
	case '<':
		fputs("&lt;", out);
		break;
	case '>':
		fputs("&gt;", out);
		break;
	case '&':
		fputs("&amp;", out);
		break;
	case '"':
		fputs("&quot;", out);
		break;
	default:
		fputc(c < ' ' || c == 0x7f ? '?' : c, out);
	}
}

/* XML has no control characters and no noncharacters, and nobody is to be deceived by others that are hidden. */
static bool is_shown(const char *text, unsigned int n_bytes)
{
	return n_bytes && !json_is_hidden(text);
}

static void put_text(FILE *out, const char *text, size_t max_chars)
{
	for (size_t i = 0; *text && i < max_chars; i++) {
		unsigned int n = json_utf8_bytes(text);

		if (n == 1)
			put_ascii(out, *text);
		else if (is_shown(text, n))
			fwrite(text, 1, n, out);
		else
			fputc('?', out);
		text += n ? n : 1;
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

/* What links GPUs is a bar that each of them is tied to. */
static void draw_gpu_links(const struct picture *picture)
{
	const struct topo *topo = picture->topo;
	struct rect bar = picture->bar;

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

		draw_line(picture->out, "class=\"pcie\"", box->x + PICTURE_INSET / 2, box->y, box->x + PICTURE_INSET / 2, middle(at));
		draw_line(picture->out, "class=\"pcie\"", box->x + PICTURE_INSET / 2, middle(at), at->x, middle(at));
	}
	for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
		const struct rect *at = &picture->nics[i], *box = &picture->boxes[picture->nic_box[i]].at;
		unsigned int x = box->x + box->width - PICTURE_INSET / 2;

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

/*
 * A name with what is behind it covered, since lines pass there: not every renderer can draw the outline of letters below them. The
 * size is that of the style.
 */
static void draw_name(FILE *out, const char *class_name, unsigned int size, unsigned int x, unsigned int y, const char *text)
{
	unsigned int width = size * (unsigned int)strlen(text) * CHAR_PERCENT / 100 + 4;

	fprintf(out, "<rect class=\"behind\" x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\"/>\n", x - 2, y - size, width, size * 5 / 4);
	fprintf(out, "<text class=\"%s\" x=\"%u\" y=\"%u\">", class_name, x, y);
	put_text(out, text, SIZE_MAX);
	fputs("</text>\n", out);
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
		draw_name(picture->out, "frame-name", 13, at->x + 8, at->y + 16, name);
	}
}

static void draw_box_names(const struct picture *picture)
{
	static const char *const kinds[] = {"machine", "CPU", "host bridge", "switch", "slot"};
	char pci[TOPO_PCI_BYTES], name[TOPO_PCI_BYTES + 32];

	for (unsigned int i = 0; i < picture->n_boxes; i++) {
		const struct box *box = &picture->boxes[i];
		const struct topo_node *node = &picture->topo->nodes[box->node];

		if (node->pci != TOPO_NO_PCI && node->kind != TOPO_FUNCTION)
			snprintf(name, sizeof(name), "%s %u (%s)", kinds[node->kind], i, topo_pci_text(node->pci, pci));
		else
			snprintf(name, sizeof(name), "%s %u", kinds[node->kind], i);
		draw_name(picture->out, "switch-name", 10, box->at.x + PICTURE_INSET, box->at.y + 13, name);
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
	char name[TOPO_NAME_BYTES], why[TOPO_WHY_BYTES], label[TOPO_NAME_BYTES + 16];

	for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
		const struct rect *at = &picture->nics[i];
		bool is_excluded = topology_is_left(picture->view, i);

		topo_nic_text(picture->topo, i, name);
		draw_rect(picture->out, is_excluded ? "nic excluded" : "nic", "nic", i, at);
		fputs("><title>", picture->out);
		put_text(picture->out, name, TOPO_NAME_BYTES);
		if (is_excluded) {
			fputs(": ", picture->out);
			put_text(picture->out, topo_reason_excluded(picture->topo, picture->view->map, i, why), TOPO_WHY_BYTES);
		}
		snprintf(label, sizeof(label), "NIC%u %s", i, name);
		fprintf(picture->out, "</title></rect>\n<text class=\"device\" x=\"%u\" y=\"%u\">", at->x + 4, at->y + 13);
		put_text(picture->out, label, LABEL_CHARS);
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
		".title { font-size: 16px; } .frame-name { font-size: 13px; } .switch-name, .bar-name { font-size: 10px; fill: #555; }\n"
		".device { font-size: 9px; }\n"
		".page { fill: #fff; } .behind { fill: #f5f6f8; } .frame { fill: #f5f6f8; stroke: #b8bec8; } .switch { fill: none; stroke: #98a2b0; }\n"
		".gpu { fill: #fff; stroke-width: 2; } .nic { fill: #fff; stroke: #444; }\n"
		".excluded { fill: #eee; stroke: #aaa; stroke-dasharray: 3 2; }\n"
		".pcie { stroke: #c3c9d2; } .gpu-link { stroke: #d9e8c4; } .bar { fill: #eef6e2; stroke: #a8c780; }\n"
		".uses { stroke-width: 1.6; }\n"
		"</style>\n"
		"<rect class=\"page\" width=\"%u\" height=\"%u\"/>\n<text class=\"title\" x=\"%u\" y=\"30\">GPUs and NICs of ",
		PICTURE_PAGE_WIDTH, picture->height * PICTURE_PAGE_WIDTH / picture->width, picture->width, picture->height, picture->width,
		picture->height, PICTURE_MARGIN);
	put_text(picture->out, source, TITLE_CHARS);
	fputs("</text>\n", picture->out);
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
