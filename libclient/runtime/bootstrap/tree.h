/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of links among all ranks, and the thread that owns them.
 *
 * A share of a collective call goes up the tree to rank 0, which sends the result down. A link that breaks without a BYE means that the rank at
 * its other end has died; its neighbours send that to all others, so each rank learns of it, and every later call fails. Ranks below a rank that
 * is gone find another parent (tree-mend.h), so each rank learns of later deaths, too.
 *
 * Threads: one tree_call() at a time; tree_abort() at any time, also from the gone callback, which runs on the tree's thread without a
 * lock. A forked child has no connection: its copies are closed.
 */
#ifndef SHMD_RUNTIME_TREE_H
#define SHMD_RUNTIME_TREE_H

#include "libclient/runtime/bootstrap/collect.h"
#include "libclient/runtime/bootstrap/gate.h"
#include "libclient/runtime/bootstrap/join.h"
#include "libclient/runtime/bootstrap/link.h"

struct tree;

/* The ranks that a failure is about: the first, and how many; 0: none. */
struct tree_blame {
	unsigned int rank, n;
};

struct tree_attr {
	unsigned int rank;
	unsigned int size;
	unsigned int place;
	uint64_t timeout_nsec, lost_nsec;
	bool has_launcher; /* which an abort tells: it ends the processes, and reports the status */
	const uint8_t *secret; /* UID_SECRET_BYTES */
	const char *interface; /* to connect from; NULL: the kernel chooses */
	union address first;   /* where this rank has reached rank 0 */
	uint16_t later_port;   /* of later_gate */
	/* The tree owns these, also when tree_new() fails; NULL is none. */
	struct link *parent;
	struct gate *gate;
	struct gate *later_gate; /* takes the place of rank 0's gate when all have come: that may be at a port that others need */
	struct join *join; /* of rank 0 */
};

int tree_new(const struct tree_attr *attr, struct tree **ret);
/*
 * Says goodbye to the neighbours and ends the thread. Blocks until they have taken what was sent: at most for the time limit, and for 5 s
 * without a byte that is taken.
 */
void tree_free(struct tree *tree);

/* Another time limit, as sentences and the close have it. Calls have their deadline. */
void tree_limit(struct tree *tree, uint64_t timeout_nsec);

/*
 * Bring a share and wait for the result, which is the caller's to free: ret_bytes of it, NULL if none. Errors as in <shmd-bootstrap.h>, with a
 * sentence.
 */
int tree_call(struct tree *tree, uint8_t kind, const void *share, uint32_t bytes, uint32_t value, uint64_t deadline, uint8_t **ret,
	      uint32_t *ret_bytes);
/* The ranks that the tree's error is about; none in a forked child. */
struct tree_blame tree_blame(struct tree *tree);
void tree_watch(struct tree *tree, shmd_bootstrap_gone_fn gone, void *arg);
/* Sends it to all ranks, which end; this one does not. Blocks until they have flushed their output, for three seconds at most. */
void tree_abort(struct tree *tree, int status, const char *why);

#endif
