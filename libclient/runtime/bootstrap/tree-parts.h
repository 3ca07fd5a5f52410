/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a tree, for the files that make it up: tree-send.c sends, tree-mend.c finds other parents, tree-route.c handles frames, tree.c has
 * the thread and tree-calls.c the calls.
 */
#ifndef SHMD_RUNTIME_TREE_PARTS_H
#define SHMD_RUNTIME_TREE_PARTS_H

#include <pthread.h>
#include <sys/types.h>

#include "libclient/runtime/bootstrap/members.h"
#include "libclient/runtime/bootstrap/reach.h"
#include "libclient/runtime/bootstrap/tree.h"

#define TREE_TEXT_BYTES 480

enum fate { FATE_ALIVE, FATE_GONE, FATE_CLOSED };

#define MEND_MOST_PROBES 16u
/* Ranks find another parent within milliseconds; a busy machine takes longer. */
#define MEND_LOOK_NSEC (100 * NSEC_PER_MSEC)

struct probe {
	struct reach reach;
	unsigned int rank;
};

/* How a tree whose ranks end is mended: tree-mend.h. */
struct mend {
	bool is_on; /* this rank looks for a parent */
	bool has_died; /* the one before; else it closed */
	uint64_t at; /* the next try, if none is under way */
	uint64_t pause, limit; /* of a try */
	unsigned int step; /* of members_candidate() */
	unsigned int n_alive; /* candidates so far that may be alive */
	bool has_asked_all; /* in vain */
	unsigned int asked;
	struct reach reach;
	uint64_t look_at; /* 0, or when to look after ranks whose parent has died */
	unsigned int look_from;
	struct probe probes[MEND_MOST_PROBES];
};

struct tree {
	unsigned int rank;
	unsigned int size;
	unsigned int place;
	uint64_t timeout_nsec; /* under the lock */
	uint64_t lost_nsec; /* a node that answers nothing for so long is lost */
	bool has_launcher;
	pid_t pid;
	int wake; /* an eventfd: something in `orders` has changed */
	pthread_t thread;

	/* The thread's own. */
	struct link *parent;
	struct link *children[JOIN_FANOUT];
	unsigned int n_children; /* that came so far */
	/* Links that replace those of dead ranks. They carry news and no collective calls. */
	struct link *guardian; /* the other parent */
	struct link **kin;     /* the other children */
	unsigned int n_kin;
	struct pollfd *fds; /* n_room + TREE_OTHER_FDS */
	struct link **polled;
	unsigned int n_room;
	struct members *members; /* NULL until the book has come */
	struct mend mend;
	struct gate *gate;
	struct gate *later_gate;
	uint8_t secret[UID_SECRET_BYTES];
	char *interface;
	union address first;
	uint16_t later_port;
	struct join *join;
	struct collect collect; /* rank 0 */
	uint8_t *routes; /* by rank: which child leads there */
	uint8_t *fates;	 /* by rank: enum fate */
	shmd_bootstrap_gone_fn gone;
	void *gone_arg;
	bool wants_close; /* and does so when nothing urgent is left, or when close_at has come */
	uint64_t close_at, close_n_done;
	bool is_closing;
	uint64_t closing_end, closing_limit; /* if no byte leaves until then; in any case */
	size_t closing_left;		     /* bytes, when it was last looked at */

	/* Between the thread and callers. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct {
		bool share, late, watch, abort, close;
		struct frame share_frame; /* its body is the caller's until the thread takes it */
		shmd_bootstrap_gone_fn gone;
		void *gone_arg;
		int abort_status;
		char abort_text[TREE_TEXT_BYTES];
	} orders;
	uint64_t seq;	 /* of the caller's next call */
	uint64_t n_done; /* calls that completed: 0 to n_done - 1 */
	bool is_in_call;
	bool has_result; /* of the call under way */
	char closed_text[TREE_TEXT_BYTES]; /* or "": the call under way completes, and later ones fail */
	struct tree_blame closed_blame;
	struct frame result;
	int error; /* 0, or what every call returns from now on */
	char error_text[TREE_TEXT_BYTES];
	struct tree_blame blame;
};

/* How many tree_link() has; some are NULL. */
static inline unsigned int tree_n_links(const struct tree *tree)
{
	return JOIN_FANOUT + 2 + tree->n_kin;
}

static inline struct link *tree_link(const struct tree *tree, unsigned int i)
{
	if (i < JOIN_FANOUT)
		return tree->children[i];
	if (i < JOIN_FANOUT + 2)
		return i == JOIN_FANOUT ? tree->parent : tree->guardian;
	return tree->kin[i - JOIN_FANOUT - 2];
}

/* tree.c: what the thread runs. */
void *tree_run(void *tree);

/* tree-send.c; all on the tree's thread. A connection to this rank; NULL without memory. */
struct link *tree_link_new(const struct tree *tree, int fd, unsigned int rank);
/* One more child: -ENOMEM. */
int tree_add_kin(struct tree *tree, struct link *link);
void tree_send_to(struct tree *tree, struct link *link, const struct frame *frame); /* NULL is fine */
void tree_send_down(struct tree *tree, const struct frame *frame);		     /* to the children of the opening */
/* Sends the children the frames that are still queued for them, as far as their sockets take them now. Never blocks. */
void tree_flush_down(struct tree *tree);
/* n_done: of a rank that has closed. */
void tree_note_fate(struct tree *tree, struct link *from, unsigned int rank, enum fate fate, uint64_t n_done);
void tree_start_watch(struct tree *tree);
void tree_flood(struct tree *tree, const struct link *except, const struct frame *frame);
void tree_send_abort(struct tree *tree, int status, const char *text);
void tree_flush_for(struct tree *tree, uint64_t nsec);
/*
 * This side has sent an abort. Waits until the other ends of all links but `except` have passed it on and ended their output, or until the time
 * is over.
 */
void tree_await_ends(struct tree *tree, const struct link *except, uint64_t nsec);
/* The first error stays. */
void tree_fail(struct tree *tree, int error, struct tree_blame blame, const char *text);
/* 0, or the error and a copy of its text (NULL: none). */
int tree_error(struct tree *tree, char *text);
/* This error for all ranks. */
void tree_fail_all(struct tree *tree, int error, const char *text);
void tree_fail_all_for(struct tree *tree, int error, struct tree_blame blame, const char *text);
void tree_no_memory(struct tree *tree, const char *what);
/* Looks after ranks whose parent has died, soon: tree-mend.h. */
void tree_look_soon(struct tree *tree);

/* tree-route.c; on the tree's thread, too. */
void tree_take(struct tree *tree, struct link *from, const struct frame *frame); /* does not free the body */
void tree_share(struct tree *tree, const struct frame *frame);			 /* of this rank, or of one below it */
void tree_late(struct tree *tree, const struct frame *frame);

#endif
