/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the objects that a daemon holds, by the kernel's and by the daemon's own account. */
#ifndef SHMEMD_TESTS_DAEMON_USAGE_H
#define SHMEMD_TESTS_DAEMON_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/lib/raw-client.h"

struct daemon_usage {
	unsigned int n_fds; /* open descriptors of the process */
	unsigned int n_shared; /* mappings of memfds: memory that belongs to clients */
	uint64_t rss_bytes, peak_rss_bytes;
};

/* Descriptors that a process has open now. */
unsigned int daemon_n_fds(pid_t pid);
/* Lines of its /proc/PID/maps. */
unsigned int daemon_n_maps(pid_t pid);
/* Memory that no file is behind: the heap, and what is shared with clients and the daemons to come. */
uint64_t daemon_own_kib(pid_t pid);
/* Once descriptors and mappings stay: some go a while after their session. */
void daemon_usage(pid_t pid, struct daemon_usage *ret_usage);
/* Waits until there are no more of them than in `most`; fails the test when that does not happen. */
void daemon_expect_usage(pid_t pid, const struct daemon_usage *most, struct daemon_usage *ret_usage);

/* CPU time that threads of this name have had in the daemon and in its processes: "shmd-soft0". */
uint64_t daemon_thread_nsec(pid_t pid, const char *thread);

/* No session, object, byte or descriptor is counted any more? ctl is a controller's connection. */
bool daemon_is_empty(struct raw_client *ctl);
/*
 * Wait for that; fails the test when it takes more than limit_nsec (five times that under a sanitizer). The time for which
 * the daemon's control thread, or the caller, was ready to run and others had the CPU does not count. Returns how long it
 * took.
 */
uint64_t daemon_expect_empty(struct raw_client *ctl, uint64_t limit_nsec);
/* The same for whatever is_so() looks at; `what` for the message: "the heaps". */
uint64_t daemon_expect(struct raw_client *ctl, bool (*is_so)(struct raw_client *ctl, void *arg), void *arg, const char *what,
		       uint64_t limit_nsec);

#endif
