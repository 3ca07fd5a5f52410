/* SPDX-License-Identifier: Apache-2.0 */
/* Emptying the daemon: no new sessions, and an end for those that live. */
#ifndef SHMEMD_SESSION_DRAIN_H
#define SHMEMD_SESSION_DRAIN_H

#include <stdint.h>

struct registry;

/* Clients get an event; after grace_nsec their sessions end. While it drains already: the new time counts. */
void drain_begin(struct registry *registry, uint64_t grace_nsec);
/* Sessions that have not ended go on, new ones are accepted again. */
void drain_stop(struct registry *registry);
/* When the alarm of the registry's hook goes off; too early or too often does no harm. */
void drain_run(struct registry *registry);
/* Until sessions are ended; 0: they are, or nothing is drained. */
uint64_t drain_left_nsec(const struct registry *registry);

#endif
