/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a picture below the machine: the legend, and the NICs that no GPU uses, with their reasons.
 *
 * One walk places everything; without an `out` it only counts, so that the height is known before anything is drawn.
 */
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/topology-picture.h"

#define GAP_ABOVE 18
#define LEGEND_ROW 18
#define LEGEND_SIZE 10
#define SAMPLE 34 /* of a line, or a box, before its text */
#define LEGEND_GAP 26
#define NOTE_ROW 13
#define NOTE_SIZE 9
#define NOTE_INDENT 12
#define MAX_NOTES 14 /* of lines */
#define NOTE_BYTES 512
#define MAX_NAMES 8 /* in a note */

struct foot {
	const struct picture *picture;
	FILE *out; /* NULL: nothing is drawn */
	unsigned int x, y;
	unsigned int n_notes; /* lines so far */
};

/* ---- the legend */

enum sample {
	SAMPLE_DEFAULT,
	SAMPLE_USES,
	SAMPLE_PCIE,
	SAMPLE_GPU_LINK,
	SAMPLE_ACTIVE,
	SAMPLE_DOWN,
	SAMPLE_UNKNOWN,
	SAMPLE_UNUSED,
	N_SAMPLES,
};

static void draw_sample(FILE *out, enum sample sample, unsigned int x, unsigned int y)
{
	static const char *const lines[N_SAMPLES] = {"class=\"sample default\" stroke=\"#444\"", "class=\"sample uses\" stroke=\"#444\"",
						     "class=\"pcie\"", "class=\"gpu-link\""};
	static const char *const bars[N_SAMPLES] = {[SAMPLE_ACTIVE] = "state active", "state down", "state unknown"};
	unsigned int middle = y - 4, end = x + SAMPLE - LEGEND_SIZE;

	if (lines[sample])
		ink_line(out, lines[sample], x, middle, end, middle);
	else if (bars[sample])
		ink_rect(out, bars[sample], &(struct rect){end - 4, middle - 6, 4, 12});
	else
		ink_rect(out, "nic excluded", &(struct rect){x, middle - 6, SAMPLE - LEGEND_SIZE, 12});
	if (sample == SAMPLE_DEFAULT)
		ink_mark(out, end, middle, "#444");
}

static bool has_state(const struct topo *topo, enum host_state state)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (topo->nics[i].seen.state == state)
			return true;
	return false;
}

static bool has_further_nics(const struct picture *picture)
{
	for (unsigned int i = 0; i < picture->topo->n_gpus; i++)
		if (picture->view->map->gpus[i].n_nics > 1)
			return true;
	return false;
}

static unsigned int count_unused(const struct picture *picture)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < picture->topo->n_nics; i++)
		n += topology_is_left(picture->view, i);
	return n;
}

/* Whether the picture has what the sample explains. */
static bool is_shown(const struct picture *picture, enum sample sample)
{
	const struct topo *topo = picture->topo;

	switch (sample) {
	case SAMPLE_DEFAULT:
		return topo->n_gpus && count_unused(picture) < topo->n_nics;
	case SAMPLE_USES:
		return has_further_nics(picture);
	case SAMPLE_PCIE:
		return topo->n_gpus + topo->n_nics > 0;
	case SAMPLE_GPU_LINK:
		return picture->has_bar;
	case SAMPLE_ACTIVE:
		return has_state(topo, HOST_STATE_ACTIVE);
	case SAMPLE_DOWN:
		return has_state(topo, HOST_STATE_DOWN);
	case SAMPLE_UNKNOWN:
		return has_state(topo, HOST_STATE_UNKNOWN);
	case SAMPLE_UNUSED:
		return count_unused(picture) > 0;
	case N_SAMPLES:
		break;
	}
	return false;
}

static const char *text_of(const struct picture *picture, enum sample sample)
{
	static const char *const texts[N_SAMPLES] = {"a GPU's default NIC", "a further NIC of the GPU", "PCIe", "NVLink", "port active",
						     "port down", "state of the port not known", "no GPU uses it"};

	return sample == SAMPLE_GPU_LINK && picture->topo->has_xgmi ? "XGMI" : texts[sample];
}

static void walk_legend(struct foot *foot)
{
	bool is_first = true;

	foot->x = PICTURE_MARGIN;
	for (enum sample sample = 0; sample < N_SAMPLES; sample++) {
		const char *text = text_of(foot->picture, sample);
		unsigned int width = SAMPLE + ink_width(strlen(text), LEGEND_SIZE);

		if (!is_shown(foot->picture, sample))
			continue;
		if (is_first || foot->x + width > foot->picture->width - PICTURE_MARGIN) {
			foot->x = PICTURE_MARGIN;
			foot->y += is_first ? GAP_ABOVE + LEGEND_SIZE : LEGEND_ROW;
		}
		is_first = false;
		if (foot->out) {
			draw_sample(foot->out, sample, foot->x, foot->y);
			ink_label(foot->out, "legend", foot->x + SAMPLE, foot->y, text, SIZE_MAX);
		}
		foot->x += width + LEGEND_GAP;
	}
}

/* ---- NICs that no GPU uses */

/* A text over as many lines as it needs, broken at blanks where there are any. */
static void walk_note(struct foot *foot, const char *text)
{
	unsigned int room = foot->picture->width - 2 * PICTURE_MARGIN, x = PICTURE_MARGIN;
	char line[NOTE_BYTES];

	while (*text) {
		size_t max = (room - (x - PICTURE_MARGIN)) / ink_width(1, NOTE_SIZE + 1), n = strlen(text);

		if (n > max) {
			for (n = max; n > 0 && text[n] != ' '; n--)
				;
			n = n ? n : max;
		}
		snprintf(line, sizeof(line), "%.*s", (int)n, text);
		foot->y += NOTE_ROW;
		foot->n_notes++;
		if (foot->out)
			ink_label(foot->out, "note", x, foot->y, line, SIZE_MAX);
		text += n;
		text += strspn(text, " ");
		x = PICTURE_MARGIN + NOTE_INDENT;
	}
}

static const char *reason_of(const struct picture *picture, unsigned int nic, char buf[TOPO_WHY_BYTES])
{
	return topo_reason_excluded(picture->topo, picture->view->map, nic, buf);
}

static bool is_same_reason(const struct picture *picture, unsigned int nic, const char *reason)
{
	char other[TOPO_WHY_BYTES];

	return topology_is_left(picture->view, nic) && !strcmp(reason_of(picture, nic, other), reason);
}

/* Whether an earlier NIC has this reason, so that its note names this one too. */
static bool is_told(const struct picture *picture, unsigned int nic, const char *reason)
{
	for (unsigned int i = 0; i < nic; i++)
		if (is_same_reason(picture, i, reason))
			return true;
	return false;
}

/* One note for all NICs of one reason. Returns how many. */
static unsigned int name_all(const struct picture *picture, unsigned int first, const char *reason, char text[NOTE_BYTES])
{
	char name[TOPO_NAME_BYTES];
	unsigned int n = 0;
	size_t used = 0;

	for (unsigned int i = first; i < picture->topo->n_nics; i++) {
		if (!is_same_reason(picture, i, reason))
			continue;
		if (n++ < MAX_NAMES)
			used += (size_t)snprintf(text + used, NOTE_BYTES - used, "%sNIC%u %.24s", used ? ", " : "", i,
						 topo_nic_text(picture->topo, i, name));
	}
	if (n > MAX_NAMES)
		snprintf(text + used, NOTE_BYTES - used, " and %u more", n - MAX_NAMES);
	return n;
}

/* Returns how many NICs the notes name. */
static unsigned int walk_reason(struct foot *foot, unsigned int nic, const char *reason)
{
	char text[NOTE_BYTES + TOPO_WHY_BYTES] = "";
	unsigned int n = name_all(foot->picture, nic, reason, text);

	snprintf(text + strlen(text), sizeof(text) - strlen(text), ": %s", reason);
	walk_note(foot, text);
	return n;
}

static void walk_unused(struct foot *foot)
{
	unsigned int n_left = count_unused(foot->picture);
	char reason[TOPO_WHY_BYTES], text[96];

	if (!n_left)
		return;
	foot->y += GAP_ABOVE + NOTE_SIZE;
	if (foot->out)
		ink_label(foot->out, "note-head", PICTURE_MARGIN, foot->y, "NICs that no GPU uses", SIZE_MAX);
	foot->y += 3;
	for (unsigned int i = 0; n_left && foot->n_notes < MAX_NOTES && i < foot->picture->topo->n_nics; i++)
		if (topology_is_left(foot->picture->view, i) && !is_told(foot->picture, i, reason_of(foot->picture, i, reason)))
			n_left -= walk_reason(foot, i, reason);
	if (!n_left)
		return;
	snprintf(text, sizeof(text), "and %u more, which shmemctl topology lists", n_left);
	walk_note(foot, text);
}

/* ---- what is absent */

const char *picture_absent(const struct picture *picture)
{
	if (!picture->topo->n_gpus && !picture->topo->n_nics)
		return "This machine has no GPUs and no RDMA NICs.";
	if (!picture->topo->n_gpus)
		return "This machine has no GPUs: its NICs belong to none.";
	return picture->topo->n_nics ? NULL : "This machine has no RDMA NICs: its GPUs can use none.";
}

/* In place of the machine, or below it if only one kind is absent. */
static void walk_absent(struct foot *foot)
{
	const char *text = picture_absent(foot->picture);
	struct rect at = {PICTURE_MARGIN, foot->y, foot->picture->width - 2 * PICTURE_MARGIN, 0};

	if (!text)
		return;
	if (!foot->picture->n_frames) {
		at.height = foot->y - PICTURE_SUMMARY_AT - 12;
		at.y -= at.height;
		if (foot->out)
			ink_rect(foot->out, "nothing", &at);
	} else {
		foot->y += GAP_ABOVE + LEGEND_SIZE;
	}
	if (foot->out)
		ink_label(foot->out, "absent", foot->picture->n_frames ? PICTURE_MARGIN : PICTURE_MARGIN + 16,
			  foot->picture->n_frames ? foot->y : at.y + at.height / 2 + 4, text, SIZE_MAX);
}

static void walk(struct foot *foot)
{
	walk_absent(foot);
	walk_legend(foot);
	walk_unused(foot);
}

unsigned int picture_foot_height(const struct picture *picture)
{
	struct foot foot = {.picture = picture, .y = picture->foot};

	walk(&foot);
	return foot.y - picture->foot;
}

void picture_draw_foot(const struct picture *picture)
{
	struct foot foot = {.picture = picture, .out = picture->out, .y = picture->foot};

	walk(&foot);
}
