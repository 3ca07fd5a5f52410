/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as a picture, placed and not yet drawn: a frame for each NUMA node, in it a box for each switch (or slot of a host bridge)
 * with its GPUs at the left and its NICs at the right. Units are our own; who draws enlarges them to the page.
 */
#ifndef SHMEMD_CTL_TOPOLOGY_PICTURE_H
#define SHMEMD_CTL_TOPOLOGY_PICTURE_H

#include "libclient/ctl/topology.h"

#define PICTURE_PAGE_WIDTH 1920
#define PICTURE_PAGE_HEIGHT 1080
#define PICTURE_MARGIN 20
#define PICTURE_INSET 14 /* of devices from the sides of their box, where PCIe is drawn */
#define PICTURE_MAX_BOXES (TOPO_MAX_GPUS + TOPO_MAX_NICS)

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
	unsigned int width, height;
	struct rect bar; /* what links GPUs */
	struct box boxes[PICTURE_MAX_BOXES];
	struct frame frames[PICTURE_MAX_BOXES];
	unsigned int gpu_box[TOPO_MAX_GPUS], nic_box[TOPO_MAX_NICS];
	struct rect gpus[TOPO_MAX_GPUS], nics[TOPO_MAX_NICS];
};

/* Of picture->view. */
void picture_place(struct picture *picture);

#endif
