/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0's book of the ranks that came. Each gets the next place in a tree, and the address of its parent, which came before it. So
 * no rank waits for another one, and rank 0 holds few connections however many ranks there are. No sockets; one thread at a time.
 */
#ifndef SHMD_RUNTIME_JOIN_H
#define SHMD_RUNTIME_JOIN_H

#include "libclient/runtime/bootstrap/gate.h"

#define JOIN_FANOUT 8u

/* Children of a place: places first to first + n - 1. */
unsigned int join_first_child(unsigned int place);
unsigned int join_children(unsigned int place, unsigned int size);

struct join;

int join_new(unsigned int size, const char *version, struct join **ret); /* -ENOMEM */
void join_free(struct join *join);					   /* NULL is fine */

/*
 * Answer a hello of WIRE_JOIN: fills the reply. Returns true if the connection becomes the link to rank 0. A sentence in
 * job_text[WIRE_TEXT_BYTES], and *ret_error: the whole job has failed, because the ranks do not fit together.
 */
bool join_answer(struct join *join, const struct gate_visit *visit, struct wire_reply *reply, int *ret_error, char *job_text);

bool join_is_complete(const struct join *join);
bool join_came(const struct join *join, unsigned int rank);
unsigned int join_rank_at(const struct join *join, unsigned int place); /* that came */
/* When all have come: size * MEMBERS_ENTRY_BYTES for members.h. Rank 0 listens at this port. */
void join_write_book(const struct join *join, uint16_t port, uint8_t *book);
/* A sentence about the last duplicate, or "". */
const char *join_note(const struct join *join);

#endif
