/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that handles what clients hand over, and runs as the daemon's user, gives up all that it does not need: so that somebody
 * who takes it over is not the daemon, nor a process of another user.
 *
 * By a filter of system calls it does not trace, read or write other processes, send them signals, change their limits or their
 * scheduling, take their descriptors, start processes or programs, change modes, owners and times of files by name, use rings of
 * io_uring, or make a socket or connect one: on the daemon's own it would be an administrator. It can make pairs of sockets, and send
 * to others only from a datagram socket that its client hands over. By Landlock it opens no file but those in its own folder of /proc
 * and memory that it has a descriptor of, and the kernel refuses it all that needs the right to trace, like another process's
 * /proc/PID/mem.
 *
 * Not in builds with sanitizers, whose own threads and processes need more.
 */
#ifndef SHMD_BASE_SANDBOX_H
#define SHMD_BASE_SANDBOX_H

#include <stdbool.h>

struct sandbox {
	bool has_filter, has_landlock; /* what this kernel and this build have */
};

/*
 * For the whole process, which has one thread, and for all that come later; never undone. A kernel that lacks one of the two gives the
 * other one. may_signal: it sends signals to other processes, as a fault point of tests does.
 */
struct sandbox sandbox_enter(bool may_signal);
/* A child enters it, to learn what there is. For a process with one thread. 0 or negative errno. */
int sandbox_try(struct sandbox *ret_sandbox);
/* Words for the log; NULL: nothing is missing. */
const char *sandbox_lack(const struct sandbox *sandbox);

#endif
