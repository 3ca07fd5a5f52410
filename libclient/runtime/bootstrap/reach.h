/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One try to get through another rank's gate that never blocks: for a thread that has other things to do meanwhile. knock.h is the patient
 * one. One thread at a time.
 */
#ifndef SHMD_RUNTIME_REACH_H
#define SHMD_RUNTIME_REACH_H

#include <poll.h>

#include "libclient/runtime/bootstrap/wire.h"

enum reach_step { REACH_CONNECTS, REACH_CHALLENGE, REACH_REPLY };

struct reach {
	int fd; /* an own descriptor (own-fds.h); -1: no try is under way */
	enum reach_step step;
	uint64_t deadline;
	bool connects_only; /* done once the other side's kernel has answered */
	struct wire_hello hello; /* all but nonce */
	uint8_t challenge[WIRE_NONCE_BYTES];
	size_t have;
	uint8_t bytes[WIRE_REPLY_BYTES];
};

/* interface as in knock.h. -errno: no try is under way. */
int reach_begin(struct reach *reach, const union address *to, const char *interface, uint64_t nsec);
struct pollfd reach_poll(const struct reach *reach);
/*
 * 1: done, and the connection is the caller's, in reach->fd; its reply may be a refusal. 0: not yet. -errno: the try has ended, -ETIMEDOUT
 * after its time, -ECONNREFUSED if nobody listens.
 */
int reach_turn(struct reach *reach, const uint8_t *secret, const struct pollfd *entry, struct wire_reply *ret);
void reach_end(struct reach *reach);

#endif
