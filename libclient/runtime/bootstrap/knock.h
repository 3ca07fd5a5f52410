/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to another rank's gate: again and again until it answers or the time is over, because it may start later. Blocks; any
 * thread.
 */
#ifndef SHMD_RUNTIME_KNOCK_H
#define SHMD_RUNTIME_KNOCK_H

#include "libclient/runtime/bootstrap/wire.h"

struct knock {
	const uint8_t *secret;
	const union address *addresses;
	unsigned int n_addresses;
	unsigned int n_ports;	     /* at each address, from its port on */
	const char *interface;	     /* connect from an address of these; NULL: the kernel chooses */
	uint64_t deadline;	     /* of the monotonic clock */
	struct wire_hello hello;     /* all but nonce and port */
	/* Called when connected, with the addresses of both sides, for hello.port; NULL: 0. -errno */
	int (*port)(void *arg, const union address *local, const union address *peer, uint16_t *ret_port);
	void *arg;
	const char *who; /* "rank 0" */
};

/*
 * Returns the connection, an own descriptor (own-fds.h), once it is welcome; what the listener refuses is returned with its error and text. An
 * address 0.0.0.0 in the reply has become the one that was reached.
 */
int knock(const struct knock *knock, struct wire_reply *ret);

#endif
