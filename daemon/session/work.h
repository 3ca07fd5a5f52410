/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Something that may take as long as firmware does, or as long as a user's memory lets a NIC's thread sleep. Embedded in what
 * it is about; whoever gave the registry its hook for it has threads.
 */
#ifndef SHMEMD_SESSION_WORK_H
#define SHMEMD_SESSION_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/list.h"

#define WORK_USERS 2

struct work {
	struct list link; /* of whoever carries it out */
	/* The uid and the tenant that it is for, compared only: each has its share of the threads. NULL, NULL: the daemon's own. */
	const void *users[WORK_USERS];
	bool may_stall; /* its uid decides how long it takes: one at a time of a uid, and it takes no thread from others */
	uint64_t until_nsec; /* if no thread takes it until then, done() comes without run(); 0: it waits for one */
	void (*run)(struct work *work); /* any thread: touches nothing but NICs and what is this work's alone */
	void (*done)(struct work *work); /* control thread, after run; may free it */
};

#endif
