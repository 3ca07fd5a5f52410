/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of other threads into a tree: callers leave orders under the lock and wake the tree's thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/own-fds.h"
#include "libclient/runtime/bootstrap/tree-mend.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

/* Rank 0 answers a late rank at once; this is for a busy machine. */
#define GRACE_NSEC NSEC_PER_SEC

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
	for (unsigned int i = 0; i < tree_n_links(tree); i++)
		if (tree_link(tree, i))
			tree_link(tree, i)->fd = -1;
	if (tree->gate)
		gate_forget(tree->gate);
	if (tree->later_gate)
		gate_forget(tree->later_gate);
	mend_forget(tree);
}

static void release(struct tree *tree)
{
	if (tree->pid != getpid())
		forget_descriptors(tree);
	mend_end(tree);
	gate_free(tree->gate);
	gate_free(tree->later_gate);
	for (unsigned int i = 0; i < tree_n_links(tree); i++)
		link_free(tree_link(tree, i));
	free(tree->kin);
	free(tree->fds);
	free(tree->polled);
	members_free(tree->members);
	free(tree->interface);
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

static int prepare(struct tree *tree, const struct tree_attr *how)
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
	if (how->interface) {
		tree->interface = strdup(how->interface);
		if (!tree->interface)
			return -ENOMEM;
	}
	tree->routes = calloc(tree->size, sizeof(*tree->routes));
	tree->fates = calloc(tree->size, sizeof(*tree->fates));
	tree->n_room = tree_n_links(tree);
	tree->fds = calloc(tree->n_room + TREE_OTHER_FDS, sizeof(*tree->fds));
	tree->polled = calloc(tree->n_room, sizeof(struct link *));
	if (!tree->routes || !tree->fates || !tree->fds || !tree->polled)
		return -ENOMEM;
	return tree->rank ? 0 : collect_init(&tree->collect, tree->size);
}

int tree_new(const struct tree_attr *attr, struct tree **ret)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	int err;

	if (!tree) {
		gate_free(attr->gate);
		gate_free(attr->later_gate);
		link_free(attr->parent);
		join_free(attr->join);
		return shmd_error_set(-ENOMEM, "no memory for the bootstrap's tree");
	}
	*tree = (struct tree){.rank = attr->rank, .size = attr->size, .place = attr->place, .timeout_nsec = attr->timeout_nsec,
			      .lost_nsec = attr->lost_nsec,
			      .has_launcher = attr->has_launcher,
			      .pid = getpid(), .parent = attr->parent, .gate = attr->gate, .later_gate = attr->later_gate,
			      .later_port = attr->later_port, .first = attr->first, .join = attr->join};
	if (attr->secret)
		memcpy(tree->secret, attr->secret, UID_SECRET_BYTES);
	mend_init(tree);
	if (tree->parent)
		socket_patience(tree->parent->fd, tree->lost_nsec);
	err = prepare(tree, attr);
	if (!err)
		err = thread_start(&tree->thread, 0, "shmd-bootstrap", tree_run, tree);
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
		tree->blame = (struct tree_blame){0, 1};
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
		tree->blame = tree->closed_blame;
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

struct tree_blame tree_blame(struct tree *tree)
{
	struct tree_blame blame = {0};

	/* In a forked child a thread of its parent may seem to hold the lock. */
	if (tree->pid != getpid())
		return blame;
	pthread_mutex_lock(&tree->lock);
	blame = tree->blame;
	pthread_mutex_unlock(&tree->lock);
	return blame;
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
	uint64_t end = nsec_now() + 3 * NSEC_PER_SEC;
	struct timespec at = nsec_to_timespec(end);
	char text[TREE_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s", why ? why : "");
	if (tree->pid != getpid())
		return;
	if (pthread_equal(pthread_self(), tree->thread)) {
		tree_send_abort(tree, status, text);
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
