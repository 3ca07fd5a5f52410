/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does one NIC carry most of what several should? Samples of their counters in, a verdict out.
 *
 * NICs are judged in groups: those of a group should share one load, and one group's load says nothing about another. A NIC is hot in an
 * interval when it carries at least a share of the load of its group, which has several, and moves enough for anybody to be slowed.
 * The busiest of several hot ones is reported, with the others, until it is hot no more. Load is bytes over the port's rate, so a fast NIC beside a slow one is not hot for being used more; where
 * some rate is not known, all count alike. It is reported when it has been hot for a time without a break, once, and again
 * only after it was not for as long. NICs are not read in one moment, so a few intervals in a row must say it, however long they
 * are. Pure; no clock but that of the samples.
 */
#ifndef SHMEMD_SESSION_HOT_SPOT_H
#define SHMEMD_SESSION_HOT_SPOT_H

#include <stdbool.h>
#include <stdint.h>

#define HOT_SPOT_MAX_NICS 64u
#define HOT_SPOT_MIN_INTERVALS 3u

struct hot_spot_sample {
	uint64_t at_nsec;
	uint64_t assigned; /* a bit per NIC that sessions should use now and whose bytes are known */
	uint64_t groups[HOT_SPOT_MAX_NICS]; /* of each of these, those that should share its load, itself among them */
	uint64_t bytes[HOT_SPOT_MAX_NICS]; /* both ways, since whenever: differences count, modulo 2^64 */
	uint64_t rate_mbps[HOT_SPOT_MAX_NICS]; /* 0: not known */
};

struct hot_spot_rule {
	unsigned int share_percent; /* of the load of all assigned NICs of a group */
	uint64_t time_nsec; /* how long */
	uint64_t rate_mbps; /* of the NIC itself, at least */
};

struct hot_spot {
	bool has_last, is_told;
	int nic; /* that was hot last, or -1 */
	unsigned int share_percent; /* of it, in the last interval in which it was hot */
	uint64_t among; /* NICs of its group that were assigned then, a bit each */
	uint64_t others; /* of other groups that were hot then as well */
	uint64_t since_nsec, last_nsec; /* it was hot from, until */
	unsigned int n_intervals; /* in which it was, without a break; HOT_SPOT_MIN_INTERVALS at most */
	struct hot_spot_sample last;
};

enum hot_spot_news {
	HOT_SPOT_NOTHING,
	HOT_SPOT_BEGUN, /* spot->nic is reported from now on */
	HOT_SPOT_ENDED,
};

void hot_spot_init(struct hot_spot *spot);
enum hot_spot_news hot_spot_take(struct hot_spot *spot, const struct hot_spot_rule *rule, const struct hot_spot_sample *sample);

#endif
