/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lab whose daemon dies and comes again: a store that lives on, and registries before and after.
 *
 * A death leaves the store, sockets and pages as they are at that moment, as SIGKILL does.
 */
#ifndef SHMD_TESTS_SAVE_LAB_H
#define SHMD_TESTS_SAVE_LAB_H

#include "daemon/restart/save.h"
#include "tests/unit/session/lab.h"

#define SAVE_LAB_NAMES 512

struct save_lab {
	struct lab lab; /* of the daemon that lives */
	bool is_busy; /* the store's manager has not got everything */
	uint64_t lost_session; /* of which the manager did not take something; 0: none */
	bool blocks; /* NICs do: to set before save_lab_init */
	bool has_porters;
	unsigned int max; /* the store is full with so many */
	void *first_state; /* owned: the first state by which a session can be found, of the newest session */
	size_t first_bytes;
	unsigned int n;
	struct {
		char name[SAVE_NAME_BYTES];
		int fd; /* the store's */
		bool claimed; /* by this daemon, and not taken */
	} kept[SAVE_LAB_NAMES];
};

extern uint32_t save_lab_peer_uid; /* the user behind every socket, in place of the kernel's answer; 0: that answer */

void save_lab_init(struct save_lab *k, uint64_t limit);
void save_lab_init_porters(struct save_lab *k, uint64_t limit); /* for a test without a restart */
void save_lab_deinit(struct save_lab *k); /* nothing is saved but the daemon's own state */
bool save_lab_has(const struct save_lab *k, const char *name);
unsigned int save_lab_count(const struct save_lab *k); /* without the daemon's own */
/* Every session of a pair dies with its daemon; another daemon without sessions. */
void save_lab_restart(struct save_lab *k, struct pair **pairs, unsigned int n);
/* The session of this number, as session_import says; it has no owner. */
int save_lab_adopt(struct save_lab *k, uint64_t id, struct session **ret_session);
/* The same with these bytes for its state. */
int save_lab_adopt_bytes(struct save_lab *k, uint64_t id, const void *bytes, size_t n, struct session **ret_session);
/* A copy of what its state says now; to be freed. */
void *save_lab_state(struct save_lab *k, uint64_t id, size_t *ret_n);
/* Drops a session's entries in the store, as after an adoption that failed. */
void save_lab_let_go(struct save_lab *k, uint64_t id);

/* A client that can go on, and its session. */
void save_lab_hello(struct pair *pair, struct save_lab *k);

#endif
