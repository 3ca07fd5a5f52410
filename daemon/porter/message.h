/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets between the daemon and a porter, on a SOCK_SEQPACKET pair. Both are the same program, so there are no versions. A
 * slot is the socket of a session. A hold is the descriptors that came with one packet, or one descriptor of the daemon.
 */
#ifndef SHMEMD_PORTER_MESSAGE_H
#define SHMEMD_PORTER_MESSAGE_H

#include <stdint.h>

#include "daemon/porter/inspect.h"
#include "daemon/porter/words.h"

/* The daemon's orders, carried out one after the other. */
enum porter_op {
	PORTER_SOCKET = 1, /* with a descriptor: the socket of a new slot */
	PORTER_ATTACH, /* with a descriptor that stays open as long as the slot does */
	PORTER_HOLD, /* with a descriptor that stays open until it is dropped */
	PORTER_RECV, /* read one packet, and hold its descriptors under `hold` */
	PORTER_KEEP, /* `value`: the service manager has this socket (1), or not (0) */
	PORTER_DRAIN, /* drop the packets that nobody has read */
	PORTER_LAST, /* with the daemon's last descriptor of a hold, or of a slot's socket where `hold` is 0: to be closed with the rest */
	PORTER_END, /* drop what nobody has read, and close the slot */
	PORTER_DROP, /* close a hold */
	PORTER_FOLLOW, /* with a descriptor that hangs up once the service manager has heard that the slot's descriptors go: close them after that */
	PORTER_TELL, /* with a descriptor: write `words` into the health page that it names */
};

struct porter_order {
	uint32_t op, slot;
	uint64_t hold;
	uint32_t value, reserved;
	struct words words;
};

/* A porter's reports. */
enum porter_event {
	PORTER_STARTED = 1, /* the first one: the process runs */
	PORTER_PACKET, /* of PORTER_RECV; the bytes follow, and perhaps a descriptor comes with it */
	PORTER_CLOSED, /* of PORTER_DROP */
	PORTER_ENDED, /* of PORTER_END */
	PORTER_TOLD, /* of PORTER_TELL */
};

struct porter_news {
	uint32_t event, slot;
	uint64_t hold;
	int32_t r; /* of framing_recv */
	uint32_t n_fds; /* that came with the packet */
	struct inspect_info info; /* of the first one */
};

enum zygote_kind {
	ZYGOTE_PORTER,
	ZYGOTE_EXECUTOR, /* executes the queues of a user */
	ZYGOTE_MAPPER, /* maps and registers the memory of a user */
	ZYGOTE_KINDS,
};

/* The daemon to its zygote, with the channel of a new process and perhaps the lifeline. */
struct zygote_order {
	uint32_t kind;
	uint32_t uid;
	uint32_t linger_msec; /* how long sockets of the service manager stay open after the daemon's death */
};

#endif
