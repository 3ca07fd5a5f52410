/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of queues in words: those that are shown, their states, the one that failed. */

#include <shmd/abi/cqe.h>

#include "kernels/host/wqe-dump.h"
#include "libclient/ctl/dump.h"

#define N_CONSUMED_SHOWN 4u

/* ---- rings */

struct ring_walk {
	const struct dump *dump;
	bool is_sq;
	size_t n_consumed, n_hidden; /* all of them; how many of the oldest are hidden */
	dump_line_fn *fn; /* NULL: only count */
	void *arg;
};

static enum color state_color(enum walk_state state)
{
	static const enum color colors[] = {COLOR_DIM, COLOR_NONE, COLOR_YELLOW, COLOR_YELLOW};

	return colors[state];
}

static void ring_entry(void *arg, const struct walk_entry *entry)
{
	struct ring_walk *walk = arg;
	const struct dump *dump = walk->dump;
	char text[DUMP_TEXT_BYTES];
	struct dump_line line = {
		.index = entry->index, .slot = entry->slot, .n_entries = entry->n_entries, .text = text,
		.state = walk_state_text(entry->state), .color = state_color(entry->state)};

	if (entry->state == WALK_CONSUMED && walk->n_consumed++ < walk->n_hidden)
		return;
	if (!walk->fn)
		return;
	if (walk->is_sq)
		wqe_dump(text, sizeof(text), entry->at, entry->bytes, dump->hide);
	else
		wqe_dump_recv(text, sizeof(text), entry->at, entry->bytes, dump->hide);
	line.is_failed = walk->is_sq && entry->index == dump->failed_index;
	if (line.is_failed)
		line.color = COLOR_RED;
	walk->fn(walk->arg, &line);
}

size_t dump_wqes(const struct dump *dump, bool is_sq, dump_line_fn *fn, void *arg)
{
	struct ring_walk walk = {.dump = dump, .is_sq = is_sq};
	const struct walk_ring *ring = is_sq ? &dump->sq : &dump->rq;
	size_t n_hidden = 0;

	if (!ring->bytes)
		return 0;
	if (is_sq)
		walk_sq(ring, ring_entry, &walk);
	else
		walk_rq(ring, ring_entry, &walk);
	if (!args_has(dump->ctl->args, OPTION_ALL) && walk.n_consumed > N_CONSUMED_SHOWN)
		n_hidden = walk.n_consumed - N_CONSUMED_SHOWN;
	walk = (struct ring_walk){.dump = dump, .is_sq = is_sq, .n_hidden = n_hidden, .fn = fn, .arg = arg};
	if (is_sq)
		walk_sq(ring, ring_entry, &walk);
	else
		walk_rq(ring, ring_entry, &walk);
	return n_hidden;
}

/* ---- CQs */

static bool is_error(const uint8_t *cqe)
{
	return cqe[63] >> 4 == SHMD_CQE_REQ_ERR || cqe[63] >> 4 == SHMD_CQE_RESP_ERR;
}

static void cq_line(const struct dump_cq *cq, uint32_t index, const char *state, enum color color, const uint8_t *cqe,
		    dump_line_fn *fn, void *arg)
{
	char text[DUMP_TEXT_BYTES];
	struct dump_line line = {
		.index = index, .slot = index & (cq->n_entries - 1), .n_entries = 1, .state = state,
		.color = is_error(cqe) ? COLOR_RED : color, .is_failed = is_error(cqe), .text = text};

	cqe_dump(text, sizeof(text), cqe);
	fn(arg, &line);
}

/*
 * Returns the number of consumed entries. Calls fn, unless it is NULL, for each but the oldest n_hidden.
 * Places in cq->bytes are bounded by n_read, whose entries were allocated.
 */
static size_t walk_cq(const struct dump_cq *cq, size_t n_hidden, dump_line_fn *fn, void *arg)
{
	size_t n_consumed = 0;
	enum walk_state state;

	for (uint32_t i = 0; i < cq->n_indexes; i++) {
		uint32_t index = (cq->first + i) & 0xffffff;
		const uint8_t *cqe = cq->bytes + (size_t)(i % cq->n_read) * SHMD_CQE_BYTES;

		if (!walk_cqe(cqe, index, cq->ci, cq->log2_entries, &state))
			continue;
		if (state == WALK_CONSUMED && n_consumed++ < n_hidden)
			continue;
		if (fn)
			cq_line(cq, index, walk_state_text(state), state_color(state), cqe, fn, arg);
	}
	return n_consumed;
}

size_t dump_cqes(const struct dump *dump, const struct dump_cq *cq, dump_line_fn *fn, void *arg)
{
	size_t n_hidden = 0, n_consumed;

	if (!cq->bytes)
		return 0;
	if (cq->is_collapsed) {
		if (cq->bytes[63] >> 4 != SHMD_CQE_INVALID)
			cq_line(cq, 0, "newest", COLOR_NONE, cq->bytes, fn, arg);
		return 0;
	}
	n_consumed = walk_cq(cq, 0, NULL, NULL);
	if (!args_has(dump->ctl->args, OPTION_ALL) && n_consumed > N_CONSUMED_SHOWN)
		n_hidden = n_consumed - N_CONSUMED_SHOWN;
	walk_cq(cq, n_hidden, fn, arg);
	return n_hidden;
}

/* ---- the WQE that failed */

static bool names_cause(const uint8_t *cqe)
{
	return cqe[63] >> 4 == SHMD_CQE_REQ_ERR && cqe[55] != SHMD_SYNDROME_WR_FLUSH_ERR;
}

/* Places are bounded by n_read, as above. */
void dump_find_failed(struct dump *dump)
{
	const struct dump_cq *cq = &dump->send_cq;

	for (uint32_t i = 0; cq->bytes && i < cq->n_read; i++) {
		const uint8_t *cqe = cq->bytes + (size_t)i * SHMD_CQE_BYTES;

		if (names_cause(cqe))
			dump->failed_index = cqe[60] << 8 | cqe[61];
	}
}
