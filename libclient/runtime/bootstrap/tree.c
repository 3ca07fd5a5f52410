/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a tree. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/own-fds.h"
#include "libclient/runtime/bootstrap/tree-mend.h"
#include "proto/base/nsec.h"

/* Neighbours that have everything answer a goodbye at once. */
#define CLOSE_NSEC NSEC_PER_SEC
/* A neighbour that takes no byte for so long is stopped or lost. */
#define STALL_NSEC (5 * NSEC_PER_SEC)

static void unlink_from(struct tree *tree, const struct link *link)
{
	for (unsigned int i = 0; i < JOIN_FANOUT; i++)
		if (tree->children[i] == link)
			tree->children[i] = NULL;
	for (unsigned int i = 0; i < tree->n_kin; i++)
		if (tree->kin[i] == link)
			tree->kin[i] = tree->kin[--tree->n_kin];
	if (tree->parent == link)
		tree->parent = NULL;
	if (tree->guardian == link)
		tree->guardian = NULL;
}

static void drop_link(struct tree *tree, struct link *link)
{
	unsigned int rank = (unsigned int)link->rank;
	enum mend_why why = link->is_new ? MEND_LEFT : link->has_closed ? MEND_CLOSED : MEND_DIED;
	bool is_above = link == tree->parent || link == tree->guardian;

	unlink_from(tree, link);
	link_free(link);
	if (why == MEND_DIED && !tree->is_closing)
		tree_note_fate(tree, NULL, rank, FATE_GONE, 0);
	if (is_above)
		mend_parent_lost(tree, why);
}

static void close_gate(struct tree *tree)
{
	struct gate *gate = tree->gate;

	tree->gate = NULL;
	gate_free(gate);
}

static bool refuse(struct wire_reply *reply, int error, const char *text)
{
	reply->error = error;
	snprintf(reply->text, sizeof(reply->text), "%.*s", WIRE_TEXT_BYTES - 1, text);
	return false;
}

static bool judge_join(struct tree *tree, const struct gate_visit *visit, struct wire_reply *reply)
{
	char text[WIRE_TEXT_BYTES];
	int error;
	bool stays = join_answer(tree->join, visit, reply, &error, text);

	if (error)
		tree_fail_all(tree, error, text);
	return stays;
}

static bool judge_visit(void *arg, const struct gate_visit *visit, struct wire_reply *reply)
{
	struct tree *tree = arg;
	unsigned int first = join_first_child(tree->place), place = visit->hello.place;
	char text[TREE_TEXT_BYTES];
	int error = tree_error(tree, text);

	if (visit->hello.purpose == WIRE_MEND)
		return mend_judge(tree, visit, reply);
	if (error)
		return refuse(reply, error, text);
	if (visit->hello.purpose == WIRE_JOIN && tree->join)
		return judge_join(tree, visit, reply);
	if (visit->hello.purpose != WIRE_LINK || tree->members || visit->hello.size != tree->size || place < first ||
	    place - first >= join_children(tree->place, tree->size) || tree->children[place - first])
		return refuse(reply, -EEXIST, "this rank has no place for that child in the tree");
	reply->place = place;
	return true;
}

static void keep_visitor(void *arg, const struct gate_visit *visit, const struct wire_reply *reply, int fd)
{
	struct tree *tree = arg;
	struct link **child, *link;

	if (visit->hello.purpose == WIRE_MEND) {
		mend_keep(tree, visit, fd);
		return;
	}
	child = &tree->children[reply->place - join_first_child(tree->place)];
	if (*child) {
		own_fd_close(fd);
		return;
	}
	link = tree_link_new(tree, fd, visit->hello.rank);
	if (!link) {
		tree_no_memory(tree, "a connection");
		return;
	}
	*child = link;
	tree->n_children++;
}

/* All have come; a gate that is left serves the tree's mending. */
static bool is_complete(const struct tree *tree)
{
	return tree->n_children == join_children(tree->place, tree->size) && (!tree->join || join_is_complete(tree->join));
}

static void change_gate(struct tree *tree)
{
	close_gate(tree);
	tree->gate = tree->later_gate;
	tree->later_gate = NULL;
}

static void receive(struct tree *tree, struct link *link)
{
	struct frame frame;
	int n;

	while ((n = link_receive(link, &frame)) > 0) {
		tree_take(tree, link, &frame);
		free(frame.body);
	}
	if (n == -ENOMEM)
		tree_no_memory(tree, "a message");
	else if (n < 0)
		drop_link(tree, link);
}

static void begin_close(struct tree *tree, uint64_t n_done)
{
	struct frame bye = {.type = FRAME_BYE, .rank = tree->rank, .seq = n_done};

	tree_flood(tree, NULL, &bye);
	tree->is_closing = true;
	tree->closing_end = nsec_now() + STALL_NSEC;
	tree->closing_limit = nsec_add(nsec_now(), tree->timeout_nsec > CLOSE_NSEC ? tree->timeout_nsec : CLOSE_NSEC);
	tree->closing_left = SIZE_MAX;
	if (tree->gate)
		close_gate(tree);
	mend_end(tree);
}

static void carry_out_abort(struct tree *tree, int status, const char *text)
{
	tree_send_abort(tree, status, text);
	pthread_mutex_lock(&tree->lock);
	tree->orders.abort = false;
	pthread_cond_broadcast(&tree->changed);
	pthread_mutex_unlock(&tree->lock);
}

/* At least 1; 49 days stand for more. */
static uint32_t msec_of(uint64_t nsec)
{
	uint64_t msec = nsec / NSEC_PER_MSEC;

	return msec > UINT32_MAX ? UINT32_MAX : msec ? (uint32_t)msec : 1;
}

static void take_orders(struct tree *tree)
{
	__typeof__(tree->orders) orders;
	uint64_t count, seq, n_done, timeout_nsec;

	if (read(tree->wake, &count, sizeof(count)) != sizeof(count))
		return;
	pthread_mutex_lock(&tree->lock);
	orders = tree->orders;
	seq = tree->seq;
	n_done = tree->n_done;
	timeout_nsec = tree->timeout_nsec;
	tree->orders.share = tree->orders.late = tree->orders.watch = tree->orders.close = false;
	pthread_mutex_unlock(&tree->lock);
	if (orders.share) {
		tree_share(tree, &orders.share_frame);
		free(orders.share_frame.body);
	}
	if (orders.late)
		tree_late(tree, &(struct frame){.type = FRAME_LATE, .rank = tree->rank, .value = msec_of(timeout_nsec), .seq = seq - 1});
	if (orders.watch) {
		tree->gone = orders.gone;
		tree->gone_arg = orders.gone_arg;
		tree_start_watch(tree);
	}
	if (orders.abort)
		carry_out_abort(tree, orders.abort_status, orders.abort_text);
	if (orders.close) {
		tree->wants_close = true;
		tree->close_at = nsec_now() + CLOSE_NSEC;
		tree->close_n_done = n_done;
	}
}

/* Without memory for more entries the newest links wait. No rank has more links than twice WIRE_MOST_RANKS. */
static void make_room(struct tree *tree)
{
	unsigned int n = 2 * tree_n_links(tree);
	struct pollfd *fds;
	struct link **links;

	if (tree_n_links(tree) <= tree->n_room)
		return;
	/* bounded: see above */
	fds = realloc(tree->fds, (n + TREE_OTHER_FDS) * sizeof(*fds));
	if (fds)
		tree->fds = fds;
	/* bounded, too */
	links = realloc(tree->polled, n * sizeof(struct link *));
	if (links)
		tree->polled = links;
	if (fds && links)
		tree->n_room = n;
}

static unsigned int fill_links(struct tree *tree)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < tree_n_links(tree) && n < tree->n_room; i++) {
		struct link *link = tree_link(tree, i);

		if (!link)
			continue;
		tree->polled[n] = link;
		tree->fds[1 + n++] = (struct pollfd){.fd = link->fd, .events = (short)(POLLIN | (link_has_output(link) ? POLLOUT : 0))};
	}
	return n;
}

static void flush_links(struct tree *tree)
{
	/* Downwards: a link that is dropped gives its place among the kin to the last. */
	for (unsigned int i = tree_n_links(tree); i-- > 0;) {
		struct link *link = tree_link(tree, i);
		int err = link && link_has_output(link) ? link_flush(link) : 0;

		/* Frames that the other side sent before its end are still to be read; receive() finds the end itself. */
		if (err && err != -EAGAIN)
			receive(tree, link);
		else if (link && !err && tree->is_closing && !link->is_shut)
			link->is_shut = !shutdown(link->fd, SHUT_WR);
	}
}

static unsigned int count_links(const struct tree *tree, size_t *ret_left)
{
	unsigned int n = 0;

	*ret_left = 0;
	for (unsigned int i = 0; i < tree_n_links(tree); i++) {
		const struct link *link = tree_link(tree, i);

		if (!link)
			continue;
		n++;
		*ret_left += link_bytes_left(link);
	}
	return n;
}

static bool is_closed(struct tree *tree)
{
	uint64_t now = nsec_now();
	size_t left;

	if (!tree->is_closing)
		return false;
	if (!count_links(tree, &left))
		return true;
	if (left < tree->closing_left)
		tree->closing_end = now + (left ? STALL_NSEC : CLOSE_NSEC);
	tree->closing_left = left;
	return now >= tree->closing_end || now >= tree->closing_limit;
}

static int wait_msec(const struct tree *tree)
{
	int msec = tree->is_closing ? 20 : mend_wait_msec(tree, -1);

	if (tree->wants_close && (msec < 0 || msec > 20))
		msec = 20;
	return tree->gate ? gate_wait_msec(tree->gate, msec < 0 ? INT_MAX : msec) : msec;
}

static void take_turn(struct tree *tree)
{
	unsigned int n_links = fill_links(tree), n;
	struct pollfd *fds = tree->fds, *mends = fds + 1 + n_links, *gates;

	fds[0] = (struct pollfd){.fd = tree->wake, .events = POLLIN};
	gates = mends + mend_poll(tree, mends);
	n = (unsigned int)(gates - fds) + (tree->gate ? gate_poll(tree->gate, gates) : 0);
	poll(fds, n, wait_msec(tree));
	for (unsigned int i = 0; i < n_links; i++)
		if (fds[1 + i].revents & ~POLLOUT)
			receive(tree, tree->polled[i]);
	mend_turn(tree, mends);
	if (tree->gate)
		gate_turn(tree->gate, gates, judge_visit, keep_visitor, tree);
	if (fds[0].revents)
		take_orders(tree);
	if (tree->later_gate && !tree->is_closing && is_complete(tree))
		change_gate(tree);
	if (tree->wants_close && !tree->is_closing && (!mend_is_urgent(tree) || nsec_now() >= tree->close_at))
		begin_close(tree, tree->close_n_done);
	flush_links(tree);
}

void *tree_run(void *arg)
{
	struct tree *tree = arg;

	while (!is_closed(tree)) {
		make_room(tree);
		take_turn(tree);
	}
	return NULL;
}
