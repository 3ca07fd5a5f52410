/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the tree: where each goes, and what it does here. A frame from the wrong side is dropped. A rank without memory for a frame
 * fails the collective calls of all.
 *
 * A rank may close as soon as its call has completed. Its BYE and the results of others go different ways, so a BYE says which calls its rank has
 * completed, and ends no call here that is among them. Rows of an alltoall leave rank 0 for the lowest places first: a rank has passed on all
 * rows of those below it when its own comes, and may close.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/last-words.h"
#include "libclient/runtime/bootstrap/rank-list.h"
#include "libclient/runtime/bootstrap/tree-mend.h"
#include "proto/base/nsec.h"

#define ABORT_FLUSH_NSEC NSEC_PER_SEC
/* Less than the rank that aborts waits for it (tree-send.c). */
#define BEHIND_ENDS_NSEC NSEC_PER_SEC
/* A launcher kills its processes within milliseconds after it knows of an abort, for which it may have to wait as long as that rank. */
#define LAUNCHER_MSEC 3000

/* A neighbour's sentence goes to a terminal: printable, and of a bounded length. */
static void text_of_frame(const struct frame *frame, char text[TREE_TEXT_BYTES])
{
	size_t n = frame->bytes < TREE_TEXT_BYTES - 1 ? frame->bytes : TREE_TEXT_BYTES - 1;

	for (size_t i = 0; i < n; i++)
		text[i] = frame->body[i] >= ' ' && frame->body[i] != 127 ? (char)frame->body[i] : '?';
	text[n] = 0;
}

/*
 * The caller takes it, or it is late and nobody's. The process may end as soon as its call has returned, so the share of the ranks below goes into
 * their connections first; what does not fit there is lost with it.
 */
static void deliver(struct tree *tree, const struct frame *frame)
{
	uint8_t *copy = frame->bytes ? malloc(frame->bytes) : NULL;

	if (frame->bytes && !copy) {
		tree_no_memory(tree, "the result of a collective call");
		return;
	}
	if (copy)
		memcpy(copy, frame->body, frame->bytes);
	tree_flush_down(tree);
	pthread_mutex_lock(&tree->lock);
	if (frame->seq + 1 == tree->seq && !tree->has_result && !tree->error) {
		tree->result = *frame;
		tree->result.body = copy;
		copy = NULL;
		tree->has_result = true;
		pthread_cond_broadcast(&tree->changed);
	}
	pthread_mutex_unlock(&tree->lock);
	free(copy);
}

static void send_rows(struct tree *tree)
{
	struct collect *collect = &tree->collect;
	struct frame frame = {.type = FRAME_ROW, .kind = collect->kind, .seq = collect->seq, .bytes = collect->bytes};

	frame.body = malloc(collect->bytes ? collect->bytes : 1);
	if (!frame.body) {
		tree_no_memory(tree, "the result of an alltoall");
		return;
	}
	for (unsigned int place = tree->size; place-- > 0;) {
		frame.rank = join_rank_at(tree->join, place);
		collect_row(collect, frame.rank, frame.body);
		if (place)
			tree_send_to(tree, tree->children[tree->routes[frame.rank]], &frame);
		else
			deliver(tree, &frame);
	}
	free(frame.body);
}

/* The size of the result is bounded: links.c refuses shares whose sum does not fit in a frame. */
static void send_results(struct tree *tree)
{
	struct collect *collect = &tree->collect;
	struct frame frame = {.type = FRAME_RESULT, .kind = collect->kind, .seq = collect->seq, .body = collect->shares,
			      .bytes = collect->bytes * collect->size};

	if (collect->kind == COLLECT_OPEN && tree->join && tree->later_port)
		mend_send_book(tree);
	if (collect->kind == COLLECT_ALLTOALL) {
		send_rows(tree);
	} else {
		tree_send_down(tree, &frame);
		deliver(tree, &frame);
	}
	collect_next(collect);
}

void tree_share(struct tree *tree, const struct frame *frame)
{
	char text[TREE_TEXT_BYTES];
	int n;

	/* Late: this call has failed at some rank, so it succeeds at none. */
	if (tree_error(tree, NULL))
		return;
	if (tree->rank) {
		tree_send_to(tree, tree->parent, frame);
		return;
	}
	n = collect_add(&tree->collect, frame->rank, frame->seq, frame->kind, frame->value, frame->body, frame->bytes, text,
			sizeof(text));
	if (n < 0)
		tree_fail_all(tree, n, text);
	else if (n)
		send_results(tree);
}

static bool is_missing(const void *arg, int rank)
{
	const struct tree *tree = arg;

	return !tree->collect.came[rank];
}

/* On rank 0, which knows who is missing. The limit is that of the rank that asks. */
static void end_late_call(struct tree *tree, uint32_t limit_msec)
{
	char ranks[TREE_TEXT_BYTES / 2], text[TREE_TEXT_BYTES];
	const char *note = tree->join ? join_note(tree->join) : "";
	bool opens = !tree->collect.seq;
	struct tree_blame blame = {0, (unsigned int)rank_list(ranks, sizeof(ranks), (int)tree->size, is_missing, tree)};

	while (blame.rank + 1 < tree->size && !is_missing(tree, (int)blame.rank))
		blame.rank++;
	snprintf(text, sizeof(text), "%s of %u did not %s%s within %g s%s%.200s", ranks, tree->size, opens ? "come" : "call ",
		 opens ? "" : collect_name(tree->collect.kind), (double)limit_msec / 1000,
		 opens && *note ? "; " : "", opens ? note : "");
	tree_fail_all_for(tree, -ETIMEDOUT, blame, text);
}

void tree_late(struct tree *tree, const struct frame *frame)
{
	if (tree->rank)
		tree_send_to(tree, tree->parent, frame);
	else if (frame->seq == tree->collect.seq)
		end_late_call(tree, frame->value);
}

static void end_process(struct tree *tree, struct link *from, const struct frame *frame)
{
	char text[TREE_TEXT_BYTES];

	text_of_frame(frame, text);
	tree_flood(tree, from, frame);
	tree_flush_for(tree, ABORT_FLUSH_NSEC);
	last_flush();
	tree_await_ends(tree, from, BEHIND_ENDS_NSEC);
	/* So `from` sees that this rank, and those behind it, are through. */
	shutdown(from->fd, SHUT_WR);
	last_words("shmemd: rank %u ended the job: %s\n", frame->rank, text);
	/* A launcher that sees this process end before it knows of the abort may report that, and another status. */
	if (tree->has_launcher)
		poll(NULL, 0, LAUNCHER_MSEC);
	_exit((int)frame->value);
}

/* Failures of all go to those who have not had them yet. */
static void take_failure(struct tree *tree, struct link *from, const struct frame *frame)
{
	char text[TREE_TEXT_BYTES];
	int error = (int32_t)frame->value;
	struct tree_blame blame = {frame->rank, frame->seq > tree->size ? tree->size : (unsigned int)frame->seq};

	if (tree_error(tree, NULL) || error >= 0 || error < -4095)
		return;
	text_of_frame(frame, text);
	tree_flood(tree, from, frame);
	tree_fail(tree, error, blame, text);
}

static void take_from_child(struct tree *tree, struct link *from, const struct frame *frame)
{
	unsigned int i = 0;

	while (i < JOIN_FANOUT && tree->children[i] != from)
		i++;
	if (i == JOIN_FANOUT)
		return;
	if (frame->type == FRAME_LATE) {
		tree_late(tree, frame);
		return;
	}
	tree->routes[frame->rank] = (uint8_t)i;
	tree_share(tree, frame);
}

static void take_from_parent(struct tree *tree, const struct frame *frame)
{
	if (frame->type == FRAME_RESULT)
		tree_send_down(tree, frame);
	else if (frame->rank != tree->rank)
		tree_send_to(tree, tree->children[tree->routes[frame->rank]], frame);
	if (frame->type == FRAME_RESULT || frame->rank == tree->rank)
		deliver(tree, frame);
}

void tree_take(struct tree *tree, struct link *from, const struct frame *frame)
{
	switch (frame->type) {
	case FRAME_SHARE:
	case FRAME_LATE:
		take_from_child(tree, from, frame);
		return;
	case FRAME_RESULT:
	case FRAME_ROW:
		if (from == tree->parent)
			take_from_parent(tree, frame);
		return;
	case FRAME_FAIL:
		take_failure(tree, from, frame);
		return;
	case FRAME_GONE:
	case FRAME_BYE:
		tree_note_fate(tree, from, frame->rank, frame->type == FRAME_GONE ? FATE_GONE : FATE_CLOSED, frame->seq);
		return;
	case FRAME_BOOK:
		if (from == tree->parent)
			mend_take_book(tree, frame);
		return;
	case FRAME_MOVED:
		mend_take_move(tree, from, frame);
		return;
	default:
		end_process(tree, from, frame);
	}
}
