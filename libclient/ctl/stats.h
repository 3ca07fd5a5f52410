/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl stats: looks at the counters, and the difference of two looks. */
#ifndef SHMEMD_CTL_STATS_H
#define SHMEMD_CTL_STATS_H

#include "libclient/ctl/ctl.h"

enum stats_what { STATS_NICS, STATS_SESSIONS, STATS_QPS, STATS_PES };

struct stats_row {
	uint64_t session;
	char nic[64];
	uint64_t world; /* of a PE; else 0 */
	uint32_t pe, n_pes;
	uint32_t qpn, state, uid, pid;
	char command[64];
	struct shmd_counters counters; /* since the beginning, or in the interval; of a PE: what it put and got by copies, as sent and read */
};

struct stats_look {
	uint64_t at_nsec, interval_nsec;
	size_t n_rows, max_rows;
	struct stats_row *rows; /* sorted by NIC, world, session, QP and PE */
};

/* Replaces now's counters by those of the interval; sorts the busiest first. */
void stats_between(const struct stats_look *before, struct stats_look *now);

/* Nothing counted in the interval. */
bool stats_is_idle(const struct stats_row *row);
void stats_print_table(struct ctl *ctl, enum stats_what what, const struct stats_look *rates);
void stats_print_json(struct ctl *ctl, enum stats_what what, const struct stats_look *rates);

#endif
