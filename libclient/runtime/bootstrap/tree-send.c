/* SPDX-License-Identifier: Apache-2.0 */
/* Sends frames of a tree to its neighbours: collective calls, failures that concern all ranks, and news of ranks that ended. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/tree-parts.h"
#include "proto/base/nsec.h"

/* Connections that tree_flush_for() waits for at a time. */
#define FLUSHED_AT_ONCE 64u
#define ABORT_FLUSH_NSEC NSEC_PER_SEC
/* Other ranks flush their output meanwhile, before a launcher kills them. */
#define ABORT_ENDS_NSEC (3 * NSEC_PER_SEC / 2)

struct link *tree_link_new(const struct tree *tree, int fd, unsigned int rank)
{
	struct link *link = link_new(fd, (int)rank, tree->size);

	if (link)
		socket_patience(link->fd, tree->lost_nsec);
	return link;
}

int tree_add_kin(struct tree *tree, struct link *link)
{
	/* bounded: at most one link for each rank, and WIRE_MOST_RANKS of these */
	struct link **more = realloc(tree->kin, (tree->n_kin + 1) * sizeof(struct link *));

	if (!more)
		return -ENOMEM;
	tree->kin = more;
	tree->kin[tree->n_kin++] = link;
	return 0;
}

void tree_fail(struct tree *tree, int error, struct tree_blame blame, const char *text)
{
	pthread_mutex_lock(&tree->lock);
	if (!tree->error) {
		tree->error = error;
		tree->blame = blame;
		snprintf(tree->error_text, sizeof(tree->error_text), "%s", text);
		pthread_cond_broadcast(&tree->changed);
	}
	pthread_mutex_unlock(&tree->lock);
}

int tree_error(struct tree *tree, char *text)
{
	int error;

	pthread_mutex_lock(&tree->lock);
	error = tree->error;
	if (text)
		memcpy(text, tree->error_text, sizeof(tree->error_text));
	pthread_mutex_unlock(&tree->lock);
	return error;
}

void tree_send_to(struct tree *tree, struct link *link, const struct frame *frame)
{
	if (link && !link->is_shut && link_send(link, frame))
		tree_no_memory(tree, "a message");
}

void tree_flood(struct tree *tree, const struct link *except, const struct frame *frame)
{
	for (unsigned int i = 0; i < tree_n_links(tree); i++)
		if (tree_link(tree, i) != except)
			tree_send_to(tree, tree_link(tree, i), frame);
}

void tree_send_down(struct tree *tree, const struct frame *frame)
{
	for (unsigned int i = 0; i < JOIN_FANOUT; i++)
		tree_send_to(tree, tree->children[i], frame);
}

void tree_flush_down(struct tree *tree)
{
	/* The thread's turn ends with what is left, and sees links that broke. */
	for (unsigned int i = 0; i < JOIN_FANOUT; i++)
		if (tree->children[i] && link_has_output(tree->children[i]))
			(void)link_flush(tree->children[i]);
}

static struct frame text_frame(uint8_t type, unsigned int rank, int value, const char *text)
{
	return (struct frame){.type = type, .rank = rank, .value = (uint32_t)value, .bytes = (uint32_t)strlen(text),
			      .body = (uint8_t *)(uintptr_t)text};
}

void tree_fail_all_for(struct tree *tree, int error, struct tree_blame blame, const char *text)
{
	struct frame frame = text_frame(FRAME_FAIL, blame.rank, error, text);

	frame.seq = blame.n;
	if (tree_error(tree, NULL))
		return;
	/* First here: without memory for these frames this is called again. */
	tree_fail(tree, error, blame, text);
	tree_flood(tree, NULL, &frame);
}

void tree_fail_all(struct tree *tree, int error, const char *text)
{
	tree_fail_all_for(tree, error, (struct tree_blame){0}, text);
}

void tree_no_memory(struct tree *tree, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "rank %u has no memory for %s of the bootstrap", tree->rank, what);
	tree_fail_all(tree, -ENOMEM, text);
}

void tree_look_soon(struct tree *tree)
{
	if (!tree->mend.look_at && !tree->is_closing)
		tree->mend.look_at = nsec_now() + MEND_LOOK_NSEC;
}

static void report_gone(struct tree *tree, unsigned int rank)
{
	char why[64];

	snprintf(why, sizeof(why), "rank %u has ended, or its node cannot be reached", rank);
	if (tree->gone)
		tree->gone(tree->gone_arg, (int)rank, why);
}

void tree_start_watch(struct tree *tree)
{
	for (unsigned int rank = 0; rank < tree->size; rank++)
		if (tree->fates[rank] == FATE_GONE)
			report_gone(tree, rank);
}

static void note_closed(struct tree *tree, unsigned int rank, uint64_t n_done, const char *text)
{
	bool completes;

	pthread_mutex_lock(&tree->lock);
	completes = tree->is_in_call && !tree->has_result && n_done >= tree->seq;
	if (completes) {
		snprintf(tree->closed_text, sizeof(tree->closed_text), "%s", text);
		tree->closed_blame = (struct tree_blame){rank, 1};
	}
	pthread_mutex_unlock(&tree->lock);
	if (!completes)
		tree_fail(tree, -ESHUTDOWN, (struct tree_blame){rank, 1}, text);
}

void tree_note_fate(struct tree *tree, struct link *from, unsigned int rank, enum fate fate, uint64_t n_done)
{
	struct frame frame = {.type = fate == FATE_GONE ? FRAME_GONE : FRAME_BYE, .rank = rank, .seq = n_done};
	char text[64];

	if (from && from->rank == (int)rank)
		from->has_closed = fate == FATE_CLOSED;
	if (tree->fates[rank] || rank == tree->rank)
		return;
	tree->fates[rank] = (uint8_t)fate;
	if (tree->members)
		tree->members->all[rank].n_done = n_done;
	if (tree->members && fate == FATE_GONE)
		tree_look_soon(tree);
	tree_flood(tree, from, &frame);
	snprintf(text, sizeof(text), fate == FATE_GONE ? "rank %u has ended, or its node cannot be reached" : "rank %u has closed its bootstrap",
		 rank);
	if (fate == FATE_CLOSED) {
		note_closed(tree, rank, n_done, text);
		return;
	}
	tree_fail(tree, -EHOSTDOWN, (struct tree_blame){rank, 1}, text);
	report_gone(tree, rank);
}

/* Waits until a connection takes some of what is left; false: nothing is left. */
static bool flush_some(struct tree *tree)
{
	struct pollfd fds[FLUSHED_AT_ONCE];
	struct link *links[FLUSHED_AT_ONCE];
	unsigned int n = 0;
	bool moves = false;

	for (unsigned int i = 0; i < tree_n_links(tree) && n < FLUSHED_AT_ONCE; i++) {
		struct link *link = tree_link(tree, i);

		if (!link || !link_has_output(link))
			continue;
		/* A connection that takes all of it at once leaves room for the others. */
		if (link_flush(link) == 0)
			moves = true;
		else
			fds[n] = (struct pollfd){.fd = link->fd, .events = POLLOUT}, links[n++] = link;
	}
	if (!n || moves || poll(fds, n, 20) <= 0)
		return n || moves;
	for (unsigned int i = 0; i < n; i++)
		moves |= fds[i].revents && link_flush(links[i]) == 0;
	/* The links that are left are broken or full, and a broken one is always ready. */
	if (!moves)
		poll(NULL, 0, 1);
	return true;
}

void tree_flush_for(struct tree *tree, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;

	while (flush_some(tree) && nsec_now() < end)
		;
}

/* Its connection has ended, or an abort of its own side came and crossed ours. */
static bool is_through(struct link *link)
{
	struct frame frame;
	int r;

	while ((r = link_receive(link, &frame)) == 1) {
		free(frame.body);
		if (frame.type == FRAME_ABORT)
			return true;
	}
	return r < 0 && r != -ENOMEM;
}

void tree_await_ends(struct tree *tree, const struct link *except, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;

	for (unsigned int i = 0; i < tree_n_links(tree); i++) {
		struct link *link = tree_link(tree, i);

		while (link && link != except && !is_through(link) && nsec_now() < end)
			poll(&(struct pollfd){.fd = link->fd, .events = POLLIN}, 1, 20);
	}
}

void tree_send_abort(struct tree *tree, int status, const char *text)
{
	struct frame frame = text_frame(FRAME_ABORT, tree->rank, status, text);

	tree_flood(tree, NULL, &frame);
	tree_flush_for(tree, ABORT_FLUSH_NSEC);
	tree_await_ends(tree, NULL, ABORT_ENDS_NSEC);
}
