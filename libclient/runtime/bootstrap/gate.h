/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener to which other ranks come, and any stranger.
 *
 * Connections prove that they know the secret (wire.h) before anything else happens. At most 128 may be busy with that, each
 * for 10 s; one more takes the place of the oldest, which tries again if it is a rank. Never blocks. One thread at a time.
 */
#ifndef SHMD_RUNTIME_GATE_H
#define SHMD_RUNTIME_GATE_H

#include <poll.h>
#include <stdint.h>

#include "libclient/runtime/bootstrap/wire.h"

#define GATE_MOST_VISITORS 128

struct gate;

/* A visitor whose proof is right. */
struct gate_visit {
	struct wire_hello hello;
	union address from; /* with the port where its children come to */
	bool is_here;	    /* it runs on this machine: other machines may know that by another address */
};
/* Fills the reply. Returns true if the connection is to stay. */
typedef bool (*gate_judge_fn)(void *arg, const struct gate_visit *visit, struct wire_reply *reply);
/* A connection that stays; its reply is sent. The callback owns fd. */
typedef void (*gate_keep_fn)(void *arg, const struct gate_visit *visit, const struct wire_reply *reply, int fd);

/* Owns the listener, also on failure: -ENOMEM. */
int gate_new(int listener, const uint8_t secret[UID_SECRET_BYTES], struct gate **ret);
void gate_free(struct gate *gate); /* NULL is fine */
void gate_forget(struct gate *gate); /* the numbers of its descriptors: in a forked child */

/* At most GATE_MOST_VISITORS + 1 entries. Returns how many. */
unsigned int gate_poll(struct gate *gate, struct pollfd *fds);
/* Msec until gate_turn() has something to end, at most `most`. */
int gate_wait_msec(const struct gate *gate, int most);
/* With the entries of gate_poll() after poll(). */
void gate_turn(struct gate *gate, const struct pollfd *fds, gate_judge_fn judge, gate_keep_fn keep, void *arg);

#endif
