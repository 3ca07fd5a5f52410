/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon's side of the porters does with holds. Not for other rooms. */
#ifndef SHMEMD_PORTER_HELD_TABLE_H
#define SHMEMD_PORTER_HELD_TABLE_H

#include <stdbool.h>

#include "daemon/porter/foreign-account.h"
#include "daemon/porter/held.h"
#include "proto/base/list.h"

struct porter;

/* Born before its packet is read, freed when its porter has closed all of it. */
struct held {
	uint64_t id;
	struct porter *porter; /* referenced by it */
	unsigned int refs; /* descriptors of the daemon's table, and those of held_ref() */
	unsigned int n_fds; /* that its porter holds */
	struct inspect_info info;
	struct foreign_account *account; /* owned: they are counted there from the drop on */
	struct list link; /* the porter's: all of its holds */
	struct list pending; /* linked: the porter has to get it, or the order to drop it */
	int fd; /* one of its descriptors here; -1: not known */
	int left; /* owned: the last one, until the drop is sent with it; or -1 */
	bool is_there; /* its porter has it */
	bool is_dropped; /* the daemon has no descriptor of it, but `left` */
};

/* Memory for one: NULL: none, or no room in the table of numbers. */
struct held *held_new(struct porter *porter, uint64_t id, struct foreign_account *account);
void held_free(struct held *held); /* the porter has let go of it */
/* From now on fd is one of its descriptors. There is room since held_new(). */
void held_add(struct held *held, int fd);
/* A descriptor of it that is open here, or -1. May walk over the table: for the death of a porter. */
int held_find(struct held *held);

/* porter.c: nothing refers to it any more. */
void porter_drop(struct held *held);

#endif
