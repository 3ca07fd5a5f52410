/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean": the word of a list that is nearest to one that was typed.
 *
 * Offer every word of the list, then ask for the result. No suggestion is better than a wrong one: words that differ in more
 * than a third of their letters are not suggested, nor is one of several that are equally near ("mlx5_9" beside mlx5_0 and mlx5_1).
 * Letters that look alike (0 and O, 1 and l, - and _) and upper case are nearly no difference. Pure; any thread.
 */
#ifndef SHMEMD_SUGGEST_H
#define SHMEMD_SUGGEST_H

#include <stdbool.h>

#define SUGGEST_MAX_BYTES 63 /* longer words are never suggested */

struct suggest {
	const char *typed; /* borrowed, as the words are */
	const char *best;
	unsigned int cost;
	bool is_tied;
};

static inline struct suggest suggest_begin(const char *typed)
{
	return (struct suggest){.typed = typed};
}

void suggest_offer(struct suggest *suggest, const char *word);
/* NULL: no word is near, or several are equally near. */
const char *suggest_result(const struct suggest *suggest);
/* The same for a list that ends with NULL. */
const char *suggest_of(const char *typed, const char *const *words);

#endif
