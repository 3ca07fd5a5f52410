/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as a picture, placed and not yet drawn: a frame for each NUMA node, in it a box for each switch (or slot of a host
 * bridge) with its GPUs at the left and its NICs at the right. Units are the picture's own; topology-svg.c enlarges them to the page.
 */
#ifndef SHMEMD_CTL_TOPOLOGY_PICTURE_H
#define SHMEMD_CTL_TOPOLOGY_PICTURE_H

#include "libclient/ctl/topology.h"

#define PICTURE_PAGE_WIDTH 1920
#define PICTURE_PAGE_HEIGHT 1080
#define PICTURE_MAX_PERCENT 150 /* the most that a small picture is enlarged */
#define PICTURE_MARGIN 20
#define PICTURE_SUMMARY_AT 46
#define PICTURE_RATE_AT 116 /* from the left side of a NIC */
#define PICTURE_RATE_CHARS 9
#define PICTURE_INSET 14 /* of devices from the sides of their box, where PCIe is drawn */
#define PICTURE_MAX_BOXES (TOPO_MAX_GPUS + TOPO_MAX_NICS)

struct rect {
	unsigned int x, y, width, height;
};

/* The devices below one switch. */
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
	unsigned int width, height;
	unsigned int page_width; /* the picture is enlarged to it */
	unsigned int foot; /* where legend and notes begin */
	struct rect bar; /* links GPUs */
	struct box boxes[PICTURE_MAX_BOXES];
	struct frame frames[PICTURE_MAX_BOXES];
	unsigned int gpu_box[TOPO_MAX_GPUS], nic_box[TOPO_MAX_NICS];
	struct rect gpus[TOPO_MAX_GPUS], nics[TOPO_MAX_NICS];
};

/* Places the machine of picture->view. */
void picture_place(struct picture *picture);

/* Below the machine: the legend, and the NICs that no GPU uses, with reasons. The height follows from the width. */
unsigned int picture_foot_height(const struct picture *picture);
void picture_draw_foot(const struct picture *picture);
/* A sentence about the kinds of devices that the machine lacks; NULL: it has GPUs and NICs. */
const char *picture_absent(const struct picture *picture);

#define INK_CHAR_PERCENT 66 /* width of a character, of its size; some renderers round it up to pixels */

void ink_text(FILE *out, const char *text, size_t max_chars);
void ink_line(FILE *out, const char *attributes, unsigned int x1, unsigned int y1, unsigned int x2, unsigned int y2);
void ink_rect(FILE *out, const char *class_name, const struct rect *at);
void ink_label(FILE *out, const char *class_name, unsigned int x, unsigned int y, const char *text, size_t max_chars);
/* Marks a GPU's default NIC. */
void ink_mark(FILE *out, unsigned int x, unsigned int y, const char *color);
unsigned int ink_width(size_t n_chars, unsigned int size);
/* A label that lines pass behind. */
void ink_name(FILE *out, const char *class_name, unsigned int size, unsigned int x, unsigned int y, const char *text);

#endif
