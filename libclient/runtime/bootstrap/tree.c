/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a tree, and the calls of others into it: callers leave orders under the lock and wake the thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/own-fds.h"
#include "libclient/runtime/bootstrap/tree-parts.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define MOST_FDS (2 + JOIN_FANOUT + GATE_MOST_VISITORS + 1)
/* Rank 0 answers a late rank at once; this is for a busy machine. */
#define GRACE_NSEC NSEC_PER_SEC
/* Neighbours that have everything answer a goodbye at once. */
#define CLOSE_NSEC NSEC_PER_SEC
/* A neighbour that takes no byte for so long is stopped or lost. */
#define STALL_NSEC (5 * NSEC_PER_SEC)

/* ---- the thread -------------------------------------------------------------------------------------------------------------- */

static struct link **place_of(struct tree *tree, struct link *link)
{
	for (unsigned int i = 0; i < JOIN_FANOUT; i++)
		if (tree->children[i] == link)
			return &tree->children[i];
	return &tree->parent;
}

static void drop_link(struct tree *tree, struct link *link)
{
	unsigned int rank = (unsigned int)link->rank;
	bool has_died = !link->has_closed && !tree->is_closing;

	*place_of(tree, link) = NULL;
	link_free(link);
	if (has_died)
		tree_note_fate(tree, NULL, rank, FATE_GONE, 0);
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

	if (error)
		return refuse(reply, error, text);
	if (visit->hello.purpose == WIRE_JOIN && tree->join)
		return judge_join(tree, visit, reply);
	if (visit->hello.purpose != WIRE_LINK || visit->hello.size != tree->size || place < first ||
	    place - first >= join_children(tree->place, tree->size) || tree->children[place - first])
		return refuse(reply, -EEXIST, "this rank has no place for that child in the tree");
	reply->place = place;
	return true;
}

static void keep_visitor(void *arg, const struct gate_visit *visit, const struct wire_reply *reply, int fd)
{
	struct tree *tree = arg;
	struct link **child = &tree->children[reply->place - join_first_child(tree->place)];
	struct link *link;

	if (*child) {
		own_fd_close(fd);
		return;
	}
	link = link_new(fd, (int)visit->hello.rank, tree->size);
	if (!link) {
		tree_no_memory(tree, "a connection");
		return;
	}
	*child = link;
	tree->n_children++;
}

static bool needs_gate(const struct tree *tree)
{
	return tree->n_children < join_children(tree->place, tree->size) || (tree->join && !join_is_complete(tree->join));
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
}

static void send_abort(struct tree *tree, int status, const char *text)
{
	struct frame frame = {.type = FRAME_ABORT, .rank = tree->rank, .value = (uint32_t)status, .bytes = (uint32_t)strlen(text),
			      .body = (uint8_t *)(uintptr_t)text};

	tree_flood(tree, NULL, &frame);
	tree_flush_for(tree, NSEC_PER_SEC);
}

static void carry_out_abort(struct tree *tree, int status, const char *text)
{
	send_abort(tree, status, text);
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
	if (orders.close)
		begin_close(tree, n_done);
}

static unsigned int fill_links(const struct tree *tree, struct link **links, struct pollfd *fds)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i <= JOIN_FANOUT; i++) {
		struct link *link = i < JOIN_FANOUT ? tree->children[i] : tree->parent;

		if (!link)
			continue;
		links[n] = link;
		fds[n++] = (struct pollfd){.fd = link->fd, .events = (short)(POLLIN | (link_has_output(link) ? POLLOUT : 0))};
	}
	return n;
}

static void flush_links(struct tree *tree)
{
	for (unsigned int i = 0; i <= JOIN_FANOUT; i++) {
		struct link *link = i < JOIN_FANOUT ? tree->children[i] : tree->parent;
		int err = link && link_has_output(link) ? link_flush(link) : 0;

		/* Frames that the other side sent before its end are still to be read; receive() finds the end itself. */
		if (err && err != -EAGAIN)
			receive(tree, link);
		else if (link && !err && tree->is_closing)
			shutdown(link->fd, SHUT_WR);
	}
}

static unsigned int count_links(const struct tree *tree, size_t *ret_left)
{
	unsigned int n = 0;

	*ret_left = 0;
	for (unsigned int i = 0; i <= JOIN_FANOUT; i++) {
		const struct link *link = i < JOIN_FANOUT ? tree->children[i] : tree->parent;

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

static void *run(void *arg)
{
	struct tree *tree = arg;
	struct pollfd fds[MOST_FDS];
	struct link *links[JOIN_FANOUT + 1];

	while (!is_closed(tree)) {
		unsigned int n = 1 + fill_links(tree, links, fds + 1), n_links = n - 1;
		int wait_msec = tree->is_closing ? 20 : -1;

		fds[0] = (struct pollfd){.fd = tree->wake, .events = POLLIN};
		if (tree->gate)
			poll(fds, n + gate_poll(tree->gate, fds + n), gate_wait_msec(tree->gate, 10000));
		else
			poll(fds, n, wait_msec);
		for (unsigned int i = 0; i < n_links; i++)
			if (fds[1 + i].revents & ~POLLOUT)
				receive(tree, links[i]);
		if (tree->gate)
			gate_turn(tree->gate, fds + n, judge_visit, keep_visitor, tree);
		if (fds[0].revents)
			take_orders(tree);
		if (tree->gate && !needs_gate(tree))
			close_gate(tree);
		flush_links(tree);
	}
	return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------- */

static void wake(struct tree *tree)
{
	uint64_t one = 1;

	/* Fails only if the counter is full, and then the thread wakes anyway. */
	if (write(tree->wake, &one, sizeof(one)) < 0)
		return;
}

/* In a forked child: own-fds.c has closed its copies of the connections. */
static void forget_descriptors(struct tree *tree)
{
	tree->wake = -1;
	if (tree->parent)
		tree->parent->fd = -1;
	for (unsigned int i = 0; i < JOIN_FANOUT; i++)
		if (tree->children[i])
			tree->children[i]->fd = -1;
	if (tree->gate)
		gate_forget(tree->gate);
}

static void release(struct tree *tree)
{
	if (tree->pid != getpid())
		forget_descriptors(tree);
	gate_free(tree->gate);
	link_free(tree->parent);
	for (unsigned int i = 0; i < JOIN_FANOUT; i++)
		link_free(tree->children[i]);
	join_free(tree->join);
	collect_deinit(&tree->collect);
	free(tree->routes);
	free(tree->fates);
	if (tree->has_result)
		free(tree->result.body);
	own_fd_close(tree->wake);
	/* A forked child has copies that threads of its parent may seem to use. */
	if (tree->pid == getpid()) {
		pthread_mutex_destroy(&tree->lock);
		pthread_cond_destroy(&tree->changed);
	}
	free(tree);
}

static int prepare(struct tree *tree)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&tree->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&tree->changed, &attr);
	pthread_condattr_destroy(&attr);
	tree->wake = own_eventfd();
	if (tree->wake < 0)
		return tree->wake;
	tree->routes = calloc(tree->size, sizeof(*tree->routes));
	tree->fates = calloc(tree->size, sizeof(*tree->fates));
	if (!tree->routes || !tree->fates)
		return -ENOMEM;
	return tree->rank ? 0 : collect_init(&tree->collect, tree->size);
}

int tree_new(const struct tree_attr *attr, struct tree **ret)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	int err;

	if (!tree) {
		gate_free(attr->gate);
		link_free(attr->parent);
		join_free(attr->join);
		return shmd_error_set(-ENOMEM, "no memory for the bootstrap's tree");
	}
	*tree = (struct tree){.rank = attr->rank, .size = attr->size, .place = attr->place, .timeout_nsec = attr->timeout_nsec,
			      .has_launcher = attr->has_launcher,
			      .pid = getpid(), .parent = attr->parent, .gate = attr->gate, .join = attr->join};
	err = prepare(tree);
	if (!err)
		err = thread_start(&tree->thread, 0, "shmd-bootstrap", run, tree);
	if (err) {
		release(tree);
		errno = -err;
		return shmd_error_set(err, "cannot start the bootstrap's thread: %m");
	}
	*ret = tree;
	return 0;
}

void tree_free(struct tree *tree)
{
	if (tree->pid == getpid()) {
		pthread_mutex_lock(&tree->lock);
		tree->orders.close = true;
		pthread_mutex_unlock(&tree->lock);
		wake(tree);
		pthread_join(tree->thread, NULL);
	}
	release(tree);
}

static int error_of(const struct tree *tree)
{
	return shmd_error_set(tree->error, "%s", tree->error_text);
}

/* With the lock. */
static void wait_until(struct tree *tree, uint64_t end)
{
	struct timespec at = nsec_to_timespec(end);

	while (!tree->has_result && !tree->error && nsec_now() < end)
		pthread_cond_timedwait(&tree->changed, &tree->lock, &at);
}

static void order_share(struct tree *tree, const struct frame *frame)
{
	tree->orders.share = true;
	tree->orders.share_frame = *frame;
	tree->orders.share_frame.seq = tree->seq++;
	tree->has_result = false;
	wake(tree);
}

static int end_call(struct tree *tree, uint8_t **ret, uint32_t *ret_bytes)
{
	if (!tree->has_result && !tree->error) {
		tree->error = -ETIMEDOUT;
		snprintf(tree->error_text, sizeof(tree->error_text), "rank 0 does not answer: the time limit of %g s is over",
			 (double)tree->timeout_nsec / (double)NSEC_PER_SEC);
	}
	if (!tree->has_result)
		return error_of(tree);
	*ret = tree->result.body;
	*ret_bytes = tree->result.bytes;
	tree->has_result = false;
	tree->n_done = tree->seq;
	if (*tree->closed_text && !tree->error) {
		tree->error = -ESHUTDOWN;
		memcpy(tree->error_text, tree->closed_text, sizeof(tree->error_text));
	}
	return 0;
}

static int call_locked(struct tree *tree, const struct frame *frame, uint64_t deadline, uint8_t **ret, uint32_t *ret_bytes)
{
	tree->is_in_call = true;
	order_share(tree, frame);
	wait_until(tree, deadline);
	if (!tree->has_result && !tree->error) {
		tree->orders.late = true;
		wake(tree);
		wait_until(tree, nsec_add(deadline, GRACE_NSEC));
	}
	tree->is_in_call = false;
	return end_call(tree, ret, ret_bytes);
}

int tree_call(struct tree *tree, uint8_t kind, const void *share, uint32_t bytes, uint32_t value, uint64_t deadline, uint8_t **ret,
	      uint32_t *ret_bytes)
{
	struct frame frame = {.type = FRAME_SHARE, .kind = kind, .rank = tree->rank, .value = value, .bytes = bytes};
	int err;

	if (tree->pid != getpid())
		return shmd_error_set(-ECHILD, "the bootstrap belongs to the process that opened it, not to its forked child");
	if (bytes) {
		frame.body = malloc(bytes);
		if (!frame.body)
			return shmd_error_set(-ENOMEM, "no memory for a share of %u bytes", bytes);
		memcpy(frame.body, share, bytes);
	}
	pthread_mutex_lock(&tree->lock);
	if (tree->error) {
		err = error_of(tree);
		free(frame.body);
	} else {
		err = call_locked(tree, &frame, deadline, ret, ret_bytes);
	}
	pthread_mutex_unlock(&tree->lock);
	return err;
}

void tree_limit(struct tree *tree, uint64_t timeout_nsec)
{
	pthread_mutex_lock(&tree->lock);
	tree->timeout_nsec = timeout_nsec;
	pthread_mutex_unlock(&tree->lock);
}

void tree_watch(struct tree *tree, shmd_bootstrap_gone_fn gone, void *arg)
{
	if (tree->pid != getpid())
		return;
	pthread_mutex_lock(&tree->lock);
	tree->orders.watch = true;
	tree->orders.gone = gone;
	tree->orders.gone_arg = arg;
	pthread_mutex_unlock(&tree->lock);
	wake(tree);
}

void tree_abort(struct tree *tree, int status, const char *why)
{
	uint64_t end = nsec_now() + 2 * NSEC_PER_SEC;
	struct timespec at = nsec_to_timespec(end);
	char text[TREE_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s", why ? why : "");
	if (tree->pid != getpid())
		return;
	if (pthread_equal(pthread_self(), tree->thread)) {
		send_abort(tree, status, text);
		return;
	}
	pthread_mutex_lock(&tree->lock);
	tree->orders.abort = true;
	tree->orders.abort_status = status;
	memcpy(tree->orders.abort_text, text, sizeof(text));
	wake(tree);
	while (tree->orders.abort && nsec_now() < end)
		pthread_cond_timedwait(&tree->changed, &tree->lock, &at);
	pthread_mutex_unlock(&tree->lock);
}
