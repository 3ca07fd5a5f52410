/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the process that executes the queues of one user. It has the soft NICs of the daemon, with the same addresses, and their
 * executors; all memory of the user's clients is mapped here and nowhere else.
 *
 * One thread carries out works, and may wait as long as the user's memory makes it wait. The process's first thread answers
 * questions and passes events on. A third one waits for the death of the daemon, a fourth one maps channels to executors of others.
 */
#ifndef SHMEMD_NIC_SOFT_REMOTE_SERVE_H
#define SHMEMD_NIC_SOFT_REMOTE_SERVE_H

#include <pthread.h>

#include "daemon/nic/soft/remote/remote-wire.h"
#include "daemon/nic/soft/soft.h"

struct serve_nic {
	struct nic *nic;
	int events; /* owned: the daemon's reader is at the other end; -1: nobody has opened this NIC */
	bool has_held; /* one that the socket had no room for */
	struct nic_event held;
};

struct serve_ctx {
	struct list link; /* serve->ctxs */
	struct nic_ctx *ctx;
	int lock_fd; /* owned: its lock says that this process lives; -1: the context is not saved */
};

struct serve {
	int works, asks, peers; /* owned */
	int want_fd; /* owned eventfd: the next wish for a channel */
	int daemon_pidfd; /* -1: the kernel has none */
	int nudge; /* eventfd: the first thread looks whether it is over */
	unsigned int n_nics;
	uint32_t linger_msec;
	struct serve_nic nics[REMOTE_MAX_NICS];

	/* A question about a context holds it, so that the context stays meanwhile. */
	pthread_mutex_t lock;
	struct list ctxs; /* under lock */
	bool is_busy; /* under lock: a work is under way */
	bool is_ending; /* under lock: no work begins any more */

	/* the thread of works: descriptors for the next import */
	unsigned int n_fds, max_fds;
	int *fds; /* owned */
};

/* An answer on its way. Descriptors are borrowed. */
struct serve_answer {
	struct remote_head head;
	struct remote_writer body;
	unsigned int n_fds;
	int fds[REMOTE_N_FDS];
};

/* NULL: it has gone. Under the lock, or on the thread of works. */
struct serve_ctx *serve_find_ctx(struct serve *serve, uint64_t id);
static inline uint64_t serve_id(const void *object)
{
	return (uintptr_t)object;
}

/* On its thread: carries a work out. *answer is all zero. Returns the result. */
int serve_work(struct serve *serve, struct remote_packet *request, struct serve_answer *answer);
int serve_ctx_import(struct serve *serve, struct remote_packet *request, struct serve_answer *answer);
int serve_fds(struct serve *serve, struct remote_packet *request);
void serve_fds_drop(struct serve *serve);
/* The context is new: into the list, and into the answer. Closes it on failure. `lock_fd` is taken. */
int serve_ctx_add(struct serve *serve, struct nic_ctx *ctx, int lock_fd, struct serve_answer *answer);
/* On the first thread: the same for questions. */
int serve_ask(struct serve *serve, struct remote_packet *request, struct serve_answer *answer);

/* A thread: asks for the channels that executors want, and gives them those that come (serve-peers.c). */
void *serve_peers(void *serve);

#endif
