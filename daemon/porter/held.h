/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of clients in the daemon's table. A porter holds a duplicate of each for longer, so that no close here is the last
 * one. These functions know such descriptors by number, and accept any other as well. Control thread.
 */
#ifndef SHMEMD_PORTER_HELD_H
#define SHMEMD_PORTER_HELD_H

#include "daemon/porter/inspect.h"

struct held;

/* Closes it and, with the last duplicate and reference, has the porter close its own. Below 0: nothing. Errno kept. */
void held_close(int fd);
int held_dup(int fd); /* close-on-exec, and held as fd is; or negative errno */
/* Its kind, as its porter found; this process looks itself if no porter holds it. */
void held_inspect(int fd, struct inspect_info *ret_info);

/* For a descriptor that the kernel goes on to use: its porter holds it until held_unref(). NULL: no porter holds it. */
struct held *held_ref(int fd);
struct held *held_unref(struct held *held); /* NULL allowed; returns NULL */

#endif
