/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which peers deserve a QP of their own: a pure function of the operations in an interval and of the peers that have one.
 *
 * A peer gets hot at min_posts operations, and cools below half of that; in between nothing changes. The busiest come first; when
 * there is no room, a peer with more than twice the operations takes the place of the least busy. Without operations no peer
 * is hot. Equal numbers: the lower index first, so that the answer depends on nothing else.
 */
#ifndef SHMEMD_CLIENT_HOT_DECIDE_H
#define SHMEMD_CLIENT_HOT_DECIDE_H

#include <shmemclient.h>

struct hot_rules {
	unsigned int max_peers; /* 1..SHMD_HOT_MAX_PEERS */
	uint64_t min_posts; /* 0 is as 1 */
};

/*
 * routes	n_peers of them; only n_posts is read
 * hot		n_hot different peers, at most max_peers, that have a QP now
 * ret_changes	room for 2 * max_peers; those to retire come first. Returns how many.
 */
unsigned int hot_decide(const struct hot_rules *rules, const struct shmd_dev_route *routes, uint32_t n_peers,
			const uint32_t *hot, unsigned int n_hot, struct shmd_hot_change *ret_changes);

#endif
