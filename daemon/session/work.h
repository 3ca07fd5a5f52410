/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Something that may take as long as firmware does, or as long as a user's memory lets a NIC's thread sleep. Embedded in what
 * it is about; whoever gave the registry its hook for it has threads.
 */
#ifndef SHMEMD_SESSION_WORK_H
#define SHMEMD_SESSION_WORK_H

#include <stdbool.h>

#include "proto/base/list.h"

struct work {
	struct list link; /* of whoever carries it out */
	const void *user; /* whose it is, compared only: users share the threads evenly; NULL: the daemon's own */
	bool may_stall; /* the user can make it take as long as it likes: one at a time of a user, and no thread is missed for it */
	void (*run)(struct work *work); /* any thread: touches nothing but NICs and what is this work's alone */
	void (*done)(struct work *work); /* control thread, after run; may free it */
};

#endif
