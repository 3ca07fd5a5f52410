/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "libclient/runtime/team/ids.h"

void team_ids_init(struct team_ids *ids, uint32_t first, uint32_t n)
{
	memset(ids, 0, sizeof(*ids));
	for (uint32_t id = first; id < n && id < SHMD_DEV_MAX_TEAMS; id++)
		ids->free[id / 64] |= UINT64_C(1) << (id % 64);
}

void team_ids_return(struct team_ids *ids, uint32_t id)
{
	ids->free[id / 64] |= UINT64_C(1) << (id % 64);
}

/* Spreads keys that differ little. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Each pass visits each word once, from another start and with another (odd) step. */
static uint32_t word_of(const struct team_agreement *agreement)
{
	uint64_t random = mix(agreement->key + agreement->round / TEAM_ID_WORDS);
	uint32_t step = (uint32_t)(random >> 32) | 1;

	return ((uint32_t)random + (agreement->round % TEAM_ID_WORDS) * step) % TEAM_ID_WORDS;
}

void team_agreement_init(struct team_agreement *agreement, uint64_t key)
{
	*agreement = (struct team_agreement){.key = key, .all = UINT64_MAX};
}

struct team_offer team_agreement_offer(struct team_agreement *agreement, struct team_ids *ids)
{
	uint32_t word = word_of(agreement);
	struct team_offer offer = {
		.ids = ids->free[word] & ~ids->held[word],
		.is_short = (ids->free[word] & ids->held[word]) != 0,
	};

	ids->held[word] |= offer.ids;
	return offer;
}

void team_agreement_take(struct team_agreement *agreement, const struct team_offer *offer)
{
	agreement->all &= offer->ids;
	agreement->was_short |= offer->is_short != 0;
	if (!agreement->error)
		agreement->error = offer->error;
}

static int next_round(struct team_agreement *agreement)
{
	bool is_last = ++agreement->round % TEAM_ID_WORDS == 0;

	agreement->all = UINT64_MAX;
	if (!is_last)
		return -EAGAIN;
	if (!agreement->was_short || agreement->round / TEAM_ID_WORDS == TEAM_ID_PASSES)
		return -ENOSPC;
	agreement->was_short = false;
	return -EAGAIN;
}

int team_agreement_end(struct team_agreement *agreement, struct team_ids *ids, const struct team_offer *own, bool is_member)
{
	uint32_t word = word_of(agreement);
	int bit;

	ids->held[word] &= ~own->ids;
	if (agreement->error)
		return agreement->error;
	if (!agreement->all)
		return next_round(agreement);
	bit = __builtin_ctzll(agreement->all);
	if (is_member)
		ids->free[word] &= ~(UINT64_C(1) << bit);
	return (int)(word * 64) + bit;
}
