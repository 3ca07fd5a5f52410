/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of its porters: one process for each uid that has sessions. A session with a slot may be sent descriptors:
 * its porter has the socket too, reads such packets, and keeps and closes what comes in them. No function here blocks.
 *
 * Knows no loop: whoever has one watches the channels. Control thread.
 */
#ifndef SHMEMD_PORTER_PORTER_H
#define SHMEMD_PORTER_PORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/porter/held.h"
#include "daemon/porter/words.h"
#include "proto/base/fdlist.h"

struct foreign_account;
struct porter;
struct porter_slot;
struct porters;

struct porters_hooks {
	void *arg;
	/* Call porter_readable() while fd is readable, until unwatch. NULL: it cannot be watched. */
	void *(*watch)(void *arg, int fd, struct porter *porter);
	void (*unwatch)(void *arg, void *watch);
	void (*alarm)(void *arg, uint64_t nsec); /* call porters_tick() after this time; only the last call counts */
	void (*failed)(void *arg, uint32_t uid, const char *text); /* for the log: a porter has ended, or cannot be started */
};

struct porters_attr {
	int zygote; /* taken */
	uint64_t linger_nsec; /* how long sockets that the service manager has stay open after the daemon's death */
	struct porters_hooks hooks;
};

/* 0 or -ENOMEM. Takes the zygote in any case. */
int porters_new(const struct porters_attr *attr, struct porters **ret_porters);
/* All slots are ended. The porters close the rest. NULL allowed; returns NULL. */
struct porters *porters_free(struct porters *porters);
/* fd hangs up when the service manager closes all that it kept. Taken; below 0: there is none. Before the first slot. */
void porters_set_lifeline(struct porters *porters, int fd);
/*
 * This daemon has taken over all that the service manager kept. Once its porters have that, too, those of former daemons end: the
 * daemon writes a byte into the pipe of the lifeline.
 */
void porters_tell_taken(struct porters *porters);
/* Call while the zygote's channel is readable. 0; -EPIPE: the zygote has ended, and no porter can be started any more. */
int porters_hear_zygote(struct porters *porters);
const char *porters_trouble(const struct porters *porters); /* why no porter can be started now; NULL: not known */
void porter_readable(struct porter *porter);
void porters_tick(struct porters *porters);

/* The packet of porter_slot_recv(); arguments as in framing_recv(). The caller closes what is left in *fds. */
typedef void (*porter_packet_fn)(void *arg, int r, const void *buf, size_t bytes, struct fdlist *fds);

/* The porter runs and has the socket, too: from here on the socket may take descriptors. */
typedef void (*porter_ready_fn)(void *arg);

/* The porter has written the words of porter_slot_tell(), and `unwritten` is NULL; or no porter can be started, and nobody has. */
typedef void (*porter_told_fn)(void *arg, const struct words *unwritten);

struct porter_slot_attr {
	uint32_t uid;
	struct foreign_account *account; /* counts descriptors that are not closed yet */
	int sock; /* borrowed until porter_slot_end() */
	porter_packet_fn packet;
	porter_ready_fn ready; /* for porter_slot_await() */
	porter_told_fn told; /* for porter_slot_tell() */
	void *arg;
};

/* -ENOMEM; or why no porter can be started. */
int porter_slot_new(struct porters *porters, const struct porter_slot_attr *attr, struct porter_slot **ret_slot);
/* True: its porter runs and has the socket. False: `ready` is called from the loop once that is so. */
bool porter_slot_await(struct porter_slot *slot);
/*
 * A descriptor of the daemon's own which the client has too and can watch: the porter holds it until the slot ends. fd is borrowed.
 * is_lasting: the daemon keeps using it, so each later porter of the slot holds it as well; costs a duplicate. 0 or negative errno.
 */
int porter_slot_attach(struct porter_slot *slot, int fd, bool is_lasting);
/*
 * A descriptor that hangs up once the service manager has heard that what it keeps of this slot goes: what is attached stays open for a second
 * longer. fd is borrowed. 0 or negative errno.
 */
int porter_slot_follow(struct porter_slot *slot, int fd);
/* Memory that the client has as well: its porter holds fd from here on, as if it had come in a packet. -ENOMEM. */
int porter_slot_hold(struct porter_slot *slot, int fd);
/*
 * The porter reads the next packet; nobody else reads this socket before that packet has come. If the porter dies, or none can be
 * started for 5 s, the packet comes with -EPIPE: the caller ends the slot. -ENOMEM; -EPIPE: no porter runs, and none can be started any
 * more.
 */
int porter_slot_recv(struct porter_slot *slot);
/*
 * The porter writes the words into the health page `fd` (borrowed), and `told` is called; until then it takes no others (-EBUSY).
 * After porter_slot_end() it still writes them, without a call. Another negative errno: there is no porter.
 */
int porter_slot_tell(struct porter_slot *slot, int fd, const struct words *words);
/* Waits for so long until the porters have written all that they were given. For a caller whose loop has ended. */
void porters_await_told(struct porters *porters, uint64_t nsec);
void porter_slot_keep(struct porter_slot *slot, bool is_kept); /* the service manager has the socket */
/* The socket is shut down. `packet` and `told` are not called any more, also not for a packet that the porter reads now. */
void porter_slot_drain(struct porter_slot *slot);
/* Ends the slot and takes the socket: this process closes it at once, the porter once it has dropped the input. */
void porter_slot_end(struct porter_slot *slot, int sock);
/* The same for a socket of any uid without a session. porters NULL: only closes it. If no porter can be started: only shuts it down. */
void porters_discard(struct porters *porters, int sock);

#endif
