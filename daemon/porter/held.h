/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of clients in the daemon's table. Each is a duplicate of one that a porter holds open for longer, so that no close
 * here is the last one. Which ones those are is remembered by number: others may be given to these functions as well.
 * Control thread.
 */
#ifndef SHMEMD_PORTER_HELD_H
#define SHMEMD_PORTER_HELD_H

#include "daemon/porter/inspect.h"

struct held;

/* Closes it and, with the last duplicate and reference, has the porter close its own. Below 0: nothing. Errno kept. */
void held_close(int fd);
int held_dup(int fd); /* close-on-exec, and held as fd is; or negative errno */
/* What it is, as its porter found. Of one that no porter holds: as it looks from here. */
void held_inspect(int fd, struct inspect_info *ret_info);

/* Its porter holds it at least so long, whatever is closed here: for what the kernel goes on to use. NULL: no porter does. */
struct held *held_ref(int fd);
struct held *held_unref(struct held *held); /* NULL allowed; returns NULL */

#endif
