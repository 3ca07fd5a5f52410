/* SPDX-License-Identifier: Apache-2.0 */
/* An administrator who asks the daemon during an attack, and notes how long each answer takes. */
#ifndef SHMD_TESTS_SYSTEM_STALL_ADMIN_H
#define SHMD_TESTS_SYSTEM_STALL_ADMIN_H

#include <stdint.h>

#include "tests/lib/raw-client.h"

/* Promised; a test allows ten times as much, as it runs on busy machines. */
#define STALL_ADMIN_PROMISED_NSEC (100 * NSEC_PER_MSEC)

struct stall_admin {
	struct raw_client raw;
	uint64_t status_nsec, sessions_nsec, qps_nsec, kill_nsec; /* the longest */
	unsigned int n; /* times that all was asked */
};

void stall_admin_open(struct stall_admin *admin, const char *socket);
/* Status, sessions, QPs. Returns the number of QPs. */
unsigned int stall_admin_ask(struct stall_admin *admin);
void stall_admin_kill(struct stall_admin *admin, uint64_t session);
/* Prints what it noted, and fails the test if an answer took too long. */
void stall_admin_close(struct stall_admin *admin);

#endif
