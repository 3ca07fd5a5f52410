/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl metrics: the daemon's lists, read as a whole before anything is printed. */
#ifndef SHMEMD_CTL_METRICS_H
#define SHMEMD_CTL_METRICS_H

#include <shmemclient-admin.h>

#include "libclient/ctl/exposition.h"

enum metrics_part {
	METRICS_DAEMON = 1 << 0,
	METRICS_NICS = 1 << 1,
	METRICS_SESSIONS = 1 << 2,
	METRICS_QPS = 1 << 3,
	METRICS_MRS = 1 << 4,
	METRICS_ALL = (1 << 5) - 1,
};

struct metrics_list {
	size_t item_bytes;
	size_t n, max;
	char *items; /* owned */
};

struct metrics_look {
	unsigned int parts; /* enum metrics_part */
	struct shmd_daemon_status status; /* of the daemon and for NICs */
	struct metrics_list nics, sessions, qps, mrs; /* of struct shmd_*_item */
};

void metrics_look_init(struct metrics_look *look, unsigned int parts);
void metrics_look_deinit(struct metrics_look *look);
/* A copy at the end of the list; false: out of memory. */
bool metrics_add(struct metrics_list *list, const void *item);
/*
 * Sorts the lists and leaves one of each name: an object that was destroyed and made again between two pages of an answer would
 * come twice, and a duplicate sample makes the whole output unreadable.
 */
void metrics_tidy(struct metrics_look *look);
void metrics_print(const struct metrics_look *look, struct exposition *to);

#endif
