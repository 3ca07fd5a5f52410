/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that sessions publish for their peers on this node: up to 256 bytes and a descriptor under (uid, world, pe,
 * slot). The uid is part of the key, so a foreign user's entry is simply not there. An entry belongs to the session
 * that published it and goes with it.
 */
#ifndef SHMEMD_SESSION_PUBLISH_H
#define SHMEMD_SESSION_PUBLISH_H

#include <stdint.h>

#include "daemon/session/quota.h"
#include "proto/base/list.h"

#define PUBLISH_WORLD_BYTES 16
#define PUBLISH_DATA_BYTES 256

struct publish_key {
	uint32_t uid;
	uint32_t pe;
	uint32_t slot;
	uint8_t world[PUBLISH_WORLD_BYTES];
};

struct publish_entry {
	struct list link; /* bucket of the table; unlinked: not published */
	struct list owner_link; /* list of the session that published it */
	const void *owner;
	struct publish_key key;
	int fd; /* owned, or -1 */
	uint32_t data_bytes;
	uint8_t data[PUBLISH_DATA_BYTES];
	struct quota_charge charge;
	uint64_t number; /* among what its session has, if that is saved */
	uint32_t saved; /* number under which its descriptor outlives the daemon; 0: none does */
};

struct publish_table {
	struct list *buckets; /* owned */
	uint64_t seed[2]; /* keeps a client from choosing keys that collide */
};

int publish_table_init(struct publish_table *table);
void publish_table_deinit(struct publish_table *table); /* must be empty */

struct publish_entry *publish_entry_new(const struct publish_key *key);
/* Withdraws it, closes the descriptor, returns the charge. NULL allowed. */
struct publish_entry *publish_entry_free(struct publish_entry *entry);

/* The table does not own the entry. -EEXIST. */
int publish_add(struct publish_table *table, struct publish_entry *entry);
struct publish_entry *publish_find(const struct publish_table *table, const struct publish_key *key);

#endif
