/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lab whose daemon dies and comes again: a store that lives on, and registries before and after.
 *
 * A death leaves the store, sockets and pages as they are at that moment, as SIGKILL does.
 */
#ifndef SHMD_TESTS_KEEP_LAB_H
#define SHMD_TESTS_KEEP_LAB_H

#include "daemon/restart/save.h"
#include "tests/unit/session/lab.h"

#define KEEP_LAB_NAMES 512

struct keep_lab {
	struct lab lab; /* of the daemon that lives */
	bool blocks; /* NICs do: to set before keep_lab_init */
	unsigned int max; /* the store is full with so many */
	void *first_state; /* owned: a session's as it was when somebody could find it, the newest of them */
	size_t first_bytes;
	unsigned int n;
	struct {
		char name[SAVE_NAME_BYTES];
		int fd; /* the store's */
		bool claimed; /* by this daemon, and not taken */
	} kept[KEEP_LAB_NAMES];
};

extern uint32_t keep_lab_peer_uid; /* what the kernel says of the user behind every socket; 0: as it is */

void keep_lab_init(struct keep_lab *k, uint64_t limit);
void keep_lab_deinit(struct keep_lab *k); /* nothing is kept but what is the daemon's own */
bool keep_lab_has(const struct keep_lab *k, const char *name);
unsigned int keep_lab_count(const struct keep_lab *k); /* without the daemon's own */
/* Every session of a pair dies with its daemon; another daemon without sessions. */
void keep_lab_restart(struct keep_lab *k, struct pair **pairs, unsigned int n);
/* The session of this number, as session_import says; it has no owner. */
int keep_lab_adopt(struct keep_lab *k, uint64_t id, struct session **ret_session);
/* The same with these bytes for its state. */
int keep_lab_adopt_bytes(struct keep_lab *k, uint64_t id, const void *bytes, size_t n, struct session **ret_session);
/* A copy of what its state says now; to be freed. */
void *keep_lab_state(struct keep_lab *k, uint64_t id, size_t *ret_n);
/* Drops a session's entries in the store, as after an adoption that failed. */
void keep_lab_let_go(struct keep_lab *k, uint64_t id);

/* A client that can go on, and its session. */
void keep_lab_hello(struct pair *pair, struct keep_lab *k);

#endif
