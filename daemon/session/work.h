/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Something that may take as long as firmware does. Embedded in what it is about; whoever gave the registry its hook
 * for it has threads.
 */
#ifndef SHMEMD_SESSION_WORK_H
#define SHMEMD_SESSION_WORK_H

#include "proto/base/list.h"

#define WORK_USERS 2

struct work {
	struct list link; /* of whoever carries it out */
	/* The uid and the tenant that it is for, compared only: each has its share of the threads. NULL, NULL: the daemon's own. */
	const void *users[WORK_USERS];
	void (*run)(struct work *work); /* any thread: touches nothing but NICs and what is this work's alone */
	void (*done)(struct work *work); /* control thread, after run; may free it */
};

#endif
