/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/hot-spot.h"

#include <string.h>

/* Samples of one interval. */
struct interval {
	bool is_blind; /* it says nothing */
	int nic; /* that is hot, or -1 */
	unsigned int share_percent; /* of it */
	uint64_t among;
	uint64_t others; /* that are hot as well */
};

void hot_spot_init(struct hot_spot *spot)
{
	memset(spot, 0, sizeof(*spot));
	spot->nic = -1;
}

static bool has(uint64_t nics, unsigned int nic)
{
	return nics >> nic & 1;
}

/* Equal weights where the rates do not say how much each could carry. */
static bool knows_rates(const struct hot_spot_sample *sample, uint64_t among)
{
	for (unsigned int i = 0; i < HOT_SPOT_MAX_NICS; i++)
		if (has(among, i) && !sample->rate_mbps[i])
			return false;
	return true;
}

static double mbps_of(uint64_t bytes, uint64_t nsec)
{
	return (double)bytes * 8e3 / (double)nsec;
}

/* Counters that were reset in between count backwards. */
static bool counted_backwards(uint64_t bytes)
{
	return bytes > UINT64_MAX / 2;
}

/* A NIC's load: carried bytes over its rate. */
static double load_of(const struct hot_spot_sample *before, const struct hot_spot_sample *now, unsigned int nic, bool weighs)
{
	uint64_t bytes = now->bytes[nic] - before->bytes[nic];

	return (double)bytes / (weighs && bytes ? (double)now->rate_mbps[nic] : 1);
}

/* The busiest of a group: hot, or -1. */
static struct interval judge_group(const struct hot_spot_sample *before, const struct hot_spot_sample *now,
				   const struct hot_spot_rule *rule, uint64_t among)
{
	struct interval found = {.nic = -1, .among = among};
	bool weighs = knows_rates(now, among);
	double sum = 0, most = 0;
	int busiest = -1;

	for (unsigned int i = 0; i < HOT_SPOT_MAX_NICS; i++) {
		double load = has(among, i) ? load_of(before, now, i, weighs) : 0;

		sum += load;
		if (load > most) {
			most = load;
			busiest = (int)i;
		}
	}
	if (busiest < 0 || !(among & (among - 1)))
		return found;
	found.share_percent = (unsigned int)(most * 100 / sum);
	if (most * 100 >= sum * rule->share_percent &&
	    mbps_of(now->bytes[busiest] - before->bytes[busiest], now->at_nsec - before->at_nsec) >= (double)rule->rate_mbps)
		found.nic = busiest;
	return found;
}

static bool is_blind(const struct hot_spot_sample *before, const struct hot_spot_sample *now, uint64_t among)
{
	for (unsigned int i = 0; i < HOT_SPOT_MAX_NICS; i++)
		if (has(among, i) && counted_backwards(now->bytes[i] - before->bytes[i]))
			return true;
	return false;
}

/* Among several hot NICs the one reported before, else the busiest. */
static bool is_preferred(const struct hot_spot *spot, const struct hot_spot_sample *now, int nic, int best)
{
	const struct hot_spot_sample *before = &spot->last;

	if (best < 0 || nic == spot->nic)
		return true;
	return best != spot->nic && now->bytes[nic] - before->bytes[nic] > now->bytes[best] - before->bytes[best];
}

static struct interval judge(const struct hot_spot *spot, const struct hot_spot_sample *now, const struct hot_spot_rule *rule)
{
	uint64_t among = spot->last.assigned & now->assigned, left = among, hot = 0;
	struct interval found = {.is_blind = is_blind(&spot->last, now, among), .nic = -1};

	while (left && !found.is_blind) {
		uint64_t group = now->groups[__builtin_ctzll(left)] & among;
		struct interval one = judge_group(&spot->last, now, rule, group);

		left &= ~group & (left - 1);
		if (one.nic < 0)
			continue;
		hot |= 1ull << one.nic;
		if (is_preferred(spot, now, one.nic, found.nic))
			found = one;
	}
	found.others = found.nic < 0 ? 0 : hot & ~(1ull << found.nic);
	return found;
}

static void forget(struct hot_spot *spot)
{
	spot->nic = -1;
	spot->is_told = false;
	spot->n_intervals = 0;
}

static enum hot_spot_news take_hot(struct hot_spot *spot, const struct hot_spot_rule *rule, const struct interval *found,
				   uint64_t begin_nsec, uint64_t end_nsec)
{
	if (spot->nic != found->nic)
		spot->since_nsec = begin_nsec;
	if (spot->n_intervals < HOT_SPOT_MIN_INTERVALS)
		spot->n_intervals++;
	spot->nic = found->nic;
	spot->share_percent = found->share_percent;
	spot->among = found->among;
	spot->others = found->others;
	spot->last_nsec = end_nsec;
	if (spot->is_told || spot->n_intervals < HOT_SPOT_MIN_INTERVALS || end_nsec - spot->since_nsec < rule->time_nsec)
		return HOT_SPOT_NOTHING;
	spot->is_told = true;
	return HOT_SPOT_BEGUN;
}

/* Another NIC's turn, or nobody's. A reported one is forgotten when it has not been hot for as long. */
static enum hot_spot_news take_other(struct hot_spot *spot, const struct hot_spot_rule *rule, uint64_t end_nsec)
{
	if (spot->is_told && end_nsec - spot->last_nsec < rule->time_nsec)
		return HOT_SPOT_NOTHING;
	if (spot->is_told) {
		forget(spot);
		return HOT_SPOT_ENDED;
	}
	forget(spot);
	return HOT_SPOT_NOTHING;
}

enum hot_spot_news hot_spot_take(struct hot_spot *spot, const struct hot_spot_rule *rule, const struct hot_spot_sample *sample)
{
	uint64_t begin = spot->last.at_nsec;
	struct interval found = {.is_blind = true};
	enum hot_spot_news news;

	if (spot->has_last && sample->at_nsec > begin)
		found = judge(spot, sample, rule);
	spot->last = *sample;
	spot->has_last = true;
	if (found.is_blind)
		return HOT_SPOT_NOTHING;
	if (found.nic >= 0 && found.nic == spot->nic)
		return take_hot(spot, rule, &found, begin, sample->at_nsec);
	news = take_other(spot, rule, sample->at_nsec);
	if (found.nic < 0 || spot->is_told || news != HOT_SPOT_NOTHING)
		return news;
	return take_hot(spot, rule, &found, begin, sample->at_nsec);
}
