/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors whose last close waits for a hostile process: one of its threads holds a lock in the kernel while it touches
 * memory that does not arrive. An attacker is a process of its own, of another user if the test may change users.
 */
#ifndef SHMD_TESTS_SYSTEM_STALL_LAB_H
#define SHMD_TESTS_SYSTEM_STALL_LAB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STALL_SLOW_NSEC UINT64_C(100000000)

enum stall {
	STALL_SOCKET, /* a thread sends on it */
	STALL_PIPE, /* a thread writes into its other end */
	STALL_EVENTFD, /* a thread waits for it with epoll */
	STALL_USERFAULTFD, /* a thread maps memory in its process */
	STALL_EPOLL, /* watches many items, and closes each of them with itself */
	STALL_PACKET, /* a packet socket: the kernel waits for all its processors */
	STALL_INOTIFY, /* has many watches */
	STALL_N
};

enum stall_way {
	STALL_WITHDRAWN, /* published, and withdrawn again: the daemon closes it */
	STALL_PUBLISHED, /* published until the daemon dies or the test makes the attacker hang up */
	STALL_HANDED_OUT, /* the attacker watches descriptors that the daemon handed out, and hangs up */
	STALL_EARLY, /* before Hello, to a service manager's socket while no daemon runs */
	STALL_UNREAD, /* sent on command while no daemon runs, behind a packet that ends the session: no daemon reads it */
	STALL_LATE, /* sent on command while no daemon runs, for a kept session */
	STALL_WAY_N
};

struct stall_attacker {
	pid_t pid;
	int pipe; /* to tell it, and to hear of it */
	bool is_slow; /* its own request, in which the daemon lets go of the descriptor, took STALL_SLOW_NSEC or more */
};

const char *stall_name(enum stall stall);
/*
 * Returns when the attacker has done it. `resumes`: as a client that waits for another daemon. False: this machine or user has nothing of the
 * kind.
 */
bool stall_start(struct stall_attacker *attacker, enum stall stall, enum stall_way way, const char *socket, bool resumes);
/* STALL_UNREAD and STALL_LATE send, and all hang up; when it is done. */
void stall_go_on(struct stall_attacker *attacker);
void stall_end(struct stall_attacker *attacker); /* no thread waits any more */

#endif
