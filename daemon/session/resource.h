/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that a session owns by handle: the common head, and the table that finds it. A handle is a slot and a generation, so a
 * stale one is NOT_FOUND and never another object.
 */
#ifndef SHMEMD_SESSION_RESOURCE_H
#define SHMEMD_SESSION_RESOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/session/quota.h"
#include "proto/base/list.h"

enum resource_kind {
	RESOURCE_QUEUES,
	RESOURCE_MR,
	RESOURCE_N,
};

struct resource {
	enum resource_kind kind;
	uint32_t handle; /* 0: in no table */
	uint64_t number; /* rises with every resource that the table gets, and is never used again */
	uint64_t reused; /* the number under which its slot was freed before; 0: it is the first in that slot */
	struct list link; /* owner's list of this kind, newest first */
	struct quota_charge charge;
	bool is_saved; /* its memory outlives the daemon, under the handle */
	size_t part_bytes; /* of its NIC's record, where the session outlives the daemon */
};

struct resource_slot {
	struct resource *resource; /* NULL: free */
	uint32_t next_free; /* slot + 1; 0: last */
	uint16_t generation;
	uint64_t freed; /* numbered as resources are; 0: taken, or never used */
};

/*
 * Handles are a slot and a generation, so that one is not soon used again and a stale one is not taken for a live
 * one. The first handle of every slot is slot + 1.
 */
struct resource_table {
	struct resource_slot *slots; /* owned */
	uint32_t n_slots;
	uint32_t first_free, last_free; /* slot + 1; slots that were never used come first */
	uint64_t last_number;
	uint32_t n_freed; /* slots that are free and were used */
	struct list lists[RESOURCE_N];
	uint32_t n[RESOURCE_N];
};

#define RESOURCE_SLOT_BITS 20
#define RESOURCE_MAX ((1u << RESOURCE_SLOT_BITS) - 1)

void resource_table_init(struct resource_table *table);
void resource_table_deinit(struct resource_table *table); /* must be empty */
void resource_init(struct resource *resource, enum resource_kind kind);
/* Room for one more, so that the next resource_add does not fail. -ENOMEM, -ENOSPC. */
int resource_reserve(struct resource_table *table);
/* Links it and gives it a handle. -ENOMEM, -ENOSPC. */
int resource_add(struct resource_table *table, struct resource *resource);
void resource_remove(struct resource_table *table, struct resource *resource); /* may be called twice */
/* NULL: no such handle, or of another kind. */
struct resource *resource_find(const struct resource_table *table, uint32_t handle,
			       enum resource_kind kind);
/* First resource of a kind in slot *slot or later, and *slot set to where it was; NULL at the end. */
struct resource *resource_next(const struct resource_table *table, enum resource_kind kind,
			       uint32_t *slot);

uint32_t resource_slot_of(uint32_t handle); /* RESOURCE_MAX or more: not a handle */
/*
 * An empty table as another one was: generations of all its slots, and which are free. -EINVAL: no table was like that;
 * -ENOMEM.
 */
int resource_table_restore(struct resource_table *table, uint32_t n_slots, const uint16_t *generations, uint32_t n_free,
			   const uint32_t *free_slots);
/* The object that had this handle there. -EINVAL: its slot is free, or another's, or of another generation. */
int resource_restore(struct resource_table *table, struct resource *resource, uint32_t handle);
/* Every slot is free or taken. */
bool resource_table_complete(const struct resource_table *table);

#endif
