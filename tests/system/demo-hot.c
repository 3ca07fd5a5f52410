/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot peers of the demo: the pairs with most operations change to RC during the run, and back to DC when they cool down. The
 * page of shared memory carries counts, wishes and addresses; a pair is made if both ends want it.
 */
#include "demo.h"

#include <shmd/dev/rma.h>

#define MIN_POSTS 16u /* in an interval; the demo's are short */

bool demo_hot_open(struct demo_pe *pe)
{
	const struct shmd_hot_attr attr = {.max_peers = pe->shared->n_hot, .min_posts = MIN_POSTS};

	return !pe->shared->n_hot || demo_good_call(pe, "hot peers", shmd_hot_open(pe->queues, &attr, &pe->hot));
}

static bool is_wanted_by_both(const struct demo_pe *pe, unsigned int peer)
{
	return pe->info->wants[peer] && pe->shared->pes[peer].wants[pe->me];
}

static bool tell_posts(struct demo_pe *pe)
{
	for (unsigned int i = 0; i < pe->n; i++)
		if (!demo_good_call(pe, "posts of a peer", shmd_hot_posts(pe->hot, i, &pe->info->posts[i])))
			return false;
	return true;
}

/* Both ends of a pair judge by what went over it in both directions. */
static bool decide(struct demo_pe *pe)
{
	struct shmd_hot_change changes[2 * DEMO_MAX_PES];
	unsigned int n = 0;

	for (unsigned int i = 0; i < pe->n; i++)
		if (i != pe->me && !demo_good_call(pe, "count", shmd_hot_count(pe->hot, i, pe->shared->pes[i].posts[pe->me])))
			return false;
	if (!demo_good_call(pe, "decide", shmd_hot_decide(pe->hot, changes, &n)))
		return false;
	for (unsigned int i = 0; i < pe->n; i++)
		pe->info->wants[i] = shmd_hot_state(pe->hot, i) != SHMD_HOT_DC;
	for (unsigned int i = 0; i < n; i++)
		pe->info->wants[changes[i].peer] = changes[i].action == SHMD_HOT_OFFER;
	return true;
}

/* Whatever goes another way from now on has been carried out. */
static bool quiet(struct demo_pe *pe)
{
	struct shmd_dev_qp *dci = shmd_queues_dev_qp(pe->queues, 0);
	int status = shmd_dev_ways_quiet_as(shmd_queues_dev_state(pe->queues), dci,
					    shmd_dev_mode_of(dci, pe->shared->wait_nsec));

	return status == SHMD_DEV_OK || demo_fail(pe, "quiet before ways change: %s", shmd_dev_status_text(status));
}

static bool leave(struct demo_pe *pe)
{
	if (!quiet(pe))
		return false;
	for (unsigned int i = 0; i < pe->n; i++) {
		if (shmd_hot_state(pe->hot, i) != SHMD_HOT_RC || is_wanted_by_both(pe, i))
			continue;
		if (!demo_good_call(pe, "back to DC", shmd_hot_switch(pe->hot, i, false)))
			return false;
		pe->info->n_to_dc++;
	}
	return true;
}

static bool retire_and_offer(struct demo_pe *pe)
{
	for (unsigned int i = 0; i < pe->n; i++)
		if (shmd_hot_state(pe->hot, i) == SHMD_HOT_CONNECTED &&
		    !demo_good_call(pe, "retire", shmd_hot_retire(pe->hot, i)))
			return false;
	for (unsigned int i = 0; i < pe->n; i++)
		if (shmd_hot_state(pe->hot, i) == SHMD_HOT_DC && is_wanted_by_both(pe, i) &&
		    !demo_good_call(pe, "offer", shmd_hot_offer(pe->hot, i, &pe->info->offers[i])))
			return false;
	return true;
}

static bool accept_offers(struct demo_pe *pe)
{
	for (unsigned int i = 0; i < pe->n; i++)
		if (shmd_hot_state(pe->hot, i) == SHMD_HOT_OFFERED &&
		    !demo_good_call(pe, "accept",
				    shmd_hot_accept(pe->hot, i, &pe->shared->pes[i].offers[pe->me], NULL)))
			return false;
	return true;
}

static bool use(struct demo_pe *pe)
{
	for (unsigned int i = 0; i < pe->n; i++) {
		if (shmd_hot_state(pe->hot, i) != SHMD_HOT_CONNECTED)
			continue;
		if (!demo_good_call(pe, "to RC", shmd_hot_switch(pe->hot, i, true)))
			return false;
		pe->info->n_to_rc++;
	}
	return true;
}

bool demo_hot_step(struct demo_pe *pe)
{
	static bool (*const steps[])(struct demo_pe *pe) = {tell_posts,	      decide, leave, retire_and_offer,
							    accept_offers, use};

	if (!pe->hot)
		return true;
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (!steps[i](pe) || !demo_pe_barrier(pe))
			return false;
	return true;
}
