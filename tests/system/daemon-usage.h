/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon holds, as the kernel and the daemon itself count it. */
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

/* Once the mappings stay: large ones go a while after their session. */
void daemon_usage(pid_t pid, struct daemon_usage *ret_usage);

/* CPU time that the daemon's thread of this name has had: "shmd-soft0". */
uint64_t daemon_thread_nsec(pid_t pid, const char *thread);

/* No session, object, byte or descriptor is counted any more? ctl is a controller's connection. */
bool daemon_is_empty(struct raw_client *ctl);
/* Wait for that; fails the test after limit_nsec (five times that under a sanitizer). Returns how long it took. */
uint64_t daemon_expect_empty(struct raw_client *ctl, uint64_t limit_nsec);

#endif
