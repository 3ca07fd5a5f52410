/* SPDX-License-Identifier: Apache-2.0 */
/* Work that takes long, can wait and never blocks: done by a thread of its own. */
#ifndef SHMD_BASE_LATER_H
#define SHMD_BASE_LATER_H

struct later {
	struct later *next; /* of the queue */
	void (*fn)(struct later *item); /* frees what the item is part of */
};

/* Beyond this many the caller does it itself, so that work does not pile up. */
#define LATER_MAX 4096u

/* 0, and item is no longer the caller's; or negative errno: nothing will come of it. Any thread. */
int later_run(struct later *item);

/* Until everything is done: for tests. */
void later_wait(void);

#endif
