/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tree whose ranks end is mended, so that every rank hears of every later death.
 *
 * A rank whose parent is gone asks others to be its parent, by members_candidate(): a lower place each, so the tree has no circles, and a rank
 * below which all are gone is its root. It asks again until one takes it. On a new connection both sides first send all that they know: ranks
 * that have died or closed, and ranks that hang below others than at first. New connections carry no collective calls; these fail after a death.
 *
 * A rank may die after its parent did and before another rank takes it, so that no connection tells of its death. The root, or a rank that has
 * asked all others in vain, therefore looks after ranks whose parent has died and which have not been seen since: such a rank has died if its
 * listener is gone. So a rank whose parent died and that is to close first waits until it has another one, a root until it has seen such ranks,
 * and each rank for the first frame on a new connection, which is news: for a second at most.
 *
 * A rank that closes when its parent has closed tells only those below it, so no rank can look after the ranks below one that closed: if such a
 * rank dies before it has another parent, that can go unnoticed.
 *
 * All on the tree's thread.
 */
#ifndef SHMD_RUNTIME_TREE_MEND_H
#define SHMD_RUNTIME_TREE_MEND_H

#include "libclient/runtime/bootstrap/tree-parts.h"

/* Entries of mend_poll(). */
#define MEND_MOST_FDS (1 + MEND_MOST_PROBES)
/* Entries of the tree's poll() beside those of links. */
#define TREE_OTHER_FDS (1 + MEND_MOST_FDS + GATE_MOST_VISITORS + 1)

void mend_init(struct tree *tree); /* of zeros */
void mend_send_book(struct tree *tree); /* of rank 0, when all have come */
void mend_take_book(struct tree *tree, const struct frame *frame);
void mend_take_move(struct tree *tree, const struct link *from, const struct frame *frame);
/* The connection of MEND_LEFT ended before it carried a frame. */
enum mend_why { MEND_DIED, MEND_CLOSED, MEND_LEFT };
void mend_parent_lost(struct tree *tree, enum mend_why why);

bool mend_judge(const struct tree *tree, const struct gate_visit *visit, struct wire_reply *reply);
void mend_keep(struct tree *tree, const struct gate_visit *visit, int fd);

/* A close that comes now is to wait: see above. */
bool mend_is_urgent(const struct tree *tree);

unsigned int mend_poll(const struct tree *tree, struct pollfd *fds);
int mend_wait_msec(const struct tree *tree, int most);
void mend_turn(struct tree *tree, const struct pollfd *fds); /* with the entries of mend_poll() after poll() */
void mend_end(struct tree *tree);
void mend_forget(struct tree *tree); /* the numbers of its descriptors: in a forked child */

#endif
