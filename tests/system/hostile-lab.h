/* SPDX-License-Identifier: Apache-2.0 */
/* Counts from outside what the daemon holds, for tests that try to make it hold more. */
#ifndef SHMD_TESTS_SYSTEM_HOSTILE_LAB_H
#define SHMD_TESTS_SYSTEM_HOSTILE_LAB_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/strange-fd.h"

/* Descriptors that the daemon has open, once the number stays: what was closed a moment ago may still be there. */
unsigned int hostile_settled_fds(const struct fixture_daemon *daemon);
/* A process's memory, without what it shares with clients. */
uint64_t hostile_rss_bytes(pid_t pid);

/* Fails the test unless the daemon has at most n descriptors within a few seconds. */
void hostile_expect_fds(const struct fixture_daemon *daemon, unsigned int n);
/* The same, for connections and sessions other than the one that asks. */
void hostile_expect_alone(struct raw_client *raw);

/* As memory, as queue memory, and published as PE `kind`: taken only where it is what it must be, and never looked into. */
void hostile_try_everything(struct raw_client *raw, enum strange_fd kind);

/* The longest of n status requests, in nanoseconds. */
uint64_t hostile_slowest_reply_nsec(struct raw_client *raw, unsigned int n);

#endif
