/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places everything in a picture before anything is drawn. Takes the narrowest of a few widths at which the picture, enlarged to
 * the page's width, is no higher than the page: so small machines appear large, and only a machine that fits no width is higher.
 * Boxes share the width of their frame, so that lines have room.
 */
#include <string.h>

#include "libclient/ctl/topology-picture.h"

#define TOP_WITHOUT_BAR 58 /* of the frames */
#define TOP_WITH_BAR 92
#define BAR_TOP 56
#define ABSENT_HEIGHT 60
#define BAR_HEIGHT 20
#define FRAME_HEAD 24
#define FRAME_GAP 16
#define BOX_WIDTH 360 /* of a switch, at least */
#define BOX_HEAD 20
#define BOX_GAP 10
#define ROW 22
#define GPU_WIDTH 112
#define NIC_WIDTH 182
#define DEVICE_HEIGHT 18

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

/* The deepest bridge above with more than one device below, else the device itself. */
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

static unsigned int n_rows_of(const struct box *box)
{
	return box->n_gpus > box->n_nics ? box->n_gpus : box->n_nics;
}

/* A frame has no box if all its devices are below switches of other nodes. */
static unsigned int count_beside(const struct frame *frame, unsigned int n_fit)
{
	unsigned int n = frame->n_boxes < n_fit ? frame->n_boxes : n_fit;

	return n ? n : 1;
}

/* Boxes of a frame side by side, as many as fit, row by row; together as wide as the frame. Returns the frame's height. */
static unsigned int place_boxes(struct picture *picture, unsigned int frame, unsigned int width)
{
	unsigned int n_fit = (width - BOX_GAP) / (BOX_WIDTH + BOX_GAP), n = 0, y = FRAME_HEAD, row_height = 0;
	unsigned int n_beside = count_beside(&picture->frames[frame], n_fit);
	unsigned int box_width = (width - BOX_GAP) / n_beside - BOX_GAP;
	const struct rect *at = &picture->frames[frame].at;

	for (unsigned int i = 0; i < picture->n_boxes; i++) {
		struct box *box = &picture->boxes[i];

		if (box->frame != frame)
			continue;
		if (n && n % n_beside == 0) {
			y += row_height + BOX_GAP;
			row_height = 0;
		}
		box->at = (struct rect){at->x + BOX_GAP + n % n_beside * (box_width + BOX_GAP), at->y + y, box_width,
					BOX_HEAD + n_rows_of(box) * ROW + 6};
		row_height = box->at.height > row_height ? box->at.height : row_height;
		n++;
	}
	return y + row_height + BOX_GAP;
}

static void place_frames(struct picture *picture)
{
	unsigned int room = picture->width - 2 * PICTURE_MARGIN, y = picture->has_bar ? TOP_WITH_BAR : TOP_WITHOUT_BAR, row_height = 0;
	unsigned int n_fit = (room + FRAME_GAP) / (BOX_WIDTH + 2 * BOX_GAP + FRAME_GAP);
	unsigned int n_columns = picture->n_frames < n_fit ? picture->n_frames : n_fit;
	unsigned int width = n_columns ? (room - (n_columns - 1) * FRAME_GAP) / n_columns : 0;

	for (unsigned int i = 0; i < picture->n_frames; i++) {
		struct rect *at = &picture->frames[i].at;

		if (i && i % n_columns == 0) {
			y += row_height + FRAME_GAP;
			row_height = 0;
		}
		*at = (struct rect){PICTURE_MARGIN + i % n_columns * (width + FRAME_GAP), y, width, 0};
		at->height = place_boxes(picture, i, width);
		row_height = at->height > row_height ? at->height : row_height;
	}
	picture->foot = y + (picture->n_frames ? row_height : ABSENT_HEIGHT);
	picture->height = picture->foot + picture_foot_height(picture) + PICTURE_MARGIN;
}

/* The full width of the page, unless that shows a small machine in huge letters or makes the picture too high. */
static void choose_page(struct picture *picture)
{
	picture->page_width = picture->width * PICTURE_MAX_PERCENT / 100;
	if (picture->page_width > PICTURE_PAGE_WIDTH)
		picture->page_width = PICTURE_PAGE_WIDTH;
}

static void place_all(struct picture *picture)
{
	static const unsigned int widths[] = {760, 960, 1280, 1600, PICTURE_PAGE_WIDTH};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		picture->width = widths[i];
		place_frames(picture);
		choose_page(picture);
		if (picture->height * picture->page_width <= PICTURE_PAGE_HEIGHT * picture->width)
			return;
	}
}

/* The k-th of n at one side of a box, evenly over its height. */
static struct rect place_device(const struct box *box, unsigned int k, unsigned int n, unsigned int width, bool is_right)
{
	unsigned int x = is_right ? box->at.width - PICTURE_INSET - width : PICTURE_INSET;
	unsigned int y = ((2 * k + 1) * n_rows_of(box) * ROW / n - ROW) / 2;

	return (struct rect){box->at.x + x, box->at.y + BOX_HEAD + y, width, DEVICE_HEIGHT};
}

static void place_gpus(struct picture *picture)
{
	unsigned int used[PICTURE_MAX_BOXES] = {0};

	for (unsigned int i = 0; i < picture->topo->n_gpus; i++) {
		const struct box *box = &picture->boxes[picture->gpu_box[i]];

		picture->gpus[i] = place_device(box, used[picture->gpu_box[i]]++, box->n_gpus, GPU_WIDTH, false);
	}
}

static unsigned int first_user(const struct picture *picture, unsigned int nic)
{
	unsigned int gpu;

	for (gpu = 0; gpu < picture->topo->n_gpus && !topology_has(picture->view->map, gpu, nic); gpu++)
		;
	return gpu;
}

/* In the order of the GPUs that have them, so that lines within a box do not cross; NICs without a GPU come last. */
static void place_nics(struct picture *picture)
{
	unsigned int used[PICTURE_MAX_BOXES] = {0}, users[TOPO_MAX_NICS];

	for (unsigned int i = 0; i < picture->topo->n_nics; i++)
		users[i] = first_user(picture, i);
	for (unsigned int gpu = 0; gpu <= picture->topo->n_gpus; gpu++) {
		for (unsigned int i = 0; i < picture->topo->n_nics; i++) {
			const struct box *box = &picture->boxes[picture->nic_box[i]];

			if (users[i] == gpu)
				picture->nics[i] = place_device(box, used[picture->nic_box[i]]++, box->n_nics, NIC_WIDTH, true);
		}
	}
}

static bool has_links(const struct topo *topo)
{
	for (unsigned int a = 0; a < topo->n_gpus; a++)
		for (unsigned int b = 0; b < a; b++)
			if (topo_gpu_links(topo, a, b) > 0)
				return true;
	return false;
}

void picture_place(struct picture *picture)
{
	picture->topo = picture->view->topo;
	picture->has_bar = has_links(picture->topo);
	make_boxes(picture);
	place_all(picture);
	picture->bar = (struct rect){PICTURE_MARGIN, BAR_TOP, picture->width - 2 * PICTURE_MARGIN, BAR_HEIGHT};
	place_gpus(picture);
	place_nics(picture);
}
