/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/suggest.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define COST_LETTER 4u /* one letter more, fewer or other */
#define COST_SWAP 3u /* two letters exchanged */
#define COST_LOOK_ALIKE 1u
#define COST_BEGINNING 2u
#define MIN_BEGINNING 2 /* letters */

static unsigned char look(char letter)
{
	switch (letter) {
	case 'O':
	case 'o':
		return '0';
	case 'l':
	case 'L':
	case 'i':
	case 'I':
		return '1';
	case '-':
		return '_';
	default:
		return (unsigned char)tolower((unsigned char)letter);
	}
}

static unsigned int exchange_cost(char a, char b)
{
	if (a == b)
		return 0;
	return look(a) == look(b) ? COST_LOOK_ALIKE : COST_LETTER;
}

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* The cheapest way from one word to the other, by letters; three rows of the usual table are enough. */
static unsigned int distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	unsigned int rows[3][SUGGEST_MAX_BYTES + 1];

	for (size_t k = 0; k <= n_b; k++)
		rows[0][k] = (unsigned int)k * COST_LETTER;
	for (size_t i = 1; i <= n_a; i++) {
		unsigned int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

		row[0] = (unsigned int)i * COST_LETTER;
		for (size_t k = 1; k <= n_b; k++) {
			row[k] = least(above[k], row[k - 1]) + COST_LETTER;
			row[k] = least(row[k], above[k - 1] + exchange_cost(a[i - 1], b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				row[k] = least(row[k], two_above[k - 2] + COST_SWAP);
		}
	}
	return rows[n_a % 3][n_b];
}

/* Somebody in a hurry typed the beginning, or a word with something behind it. */
static unsigned int cost_of(const char *typed, size_t n_typed, const char *word, size_t n_word)
{
	size_t n = n_typed < n_word ? n_typed : n_word, rest = n_typed + n_word - 2 * n;
	unsigned int cost = distance(typed, n_typed, word, n_word);

	if (n >= MIN_BEGINNING && !strncmp(typed, word, n))
		cost = least(cost, (n == n_typed ? COST_BEGINNING : COST_LETTER) + (unsigned int)rest);
	return cost;
}

/* Dear enough to be another word. */
static bool is_far(unsigned int cost, const char *typed, size_t n_typed, const char *word, size_t n_word)
{
	size_t n = n_typed < n_word ? n_typed : n_word;

	if (n >= MIN_BEGINNING && !strncmp(typed, word, n))
		return false;
	return cost > COST_LETTER * (n_word / 3 ? (unsigned int)n_word / 3 : 1);
}

void suggest_offer(struct suggest *suggest, const char *word)
{
	size_t n_typed = strlen(suggest->typed), n_word = strlen(word);
	unsigned int cost;

	if (!n_typed || !n_word || n_typed > SUGGEST_MAX_BYTES || n_word > SUGGEST_MAX_BYTES)
		return;
	cost = cost_of(suggest->typed, n_typed, word, n_word);
	if (is_far(cost, suggest->typed, n_typed, word, n_word) || (suggest->best && cost > suggest->cost))
		return;
	suggest->is_tied = suggest->best && cost == suggest->cost && strcmp(suggest->best, word) != 0;
	if (!suggest->is_tied)
		suggest->best = word;
	suggest->cost = cost;
}

const char *suggest_result(const struct suggest *suggest)
{
	return suggest->is_tied ? NULL : suggest->best;
}

const char *suggest_of(const char *typed, const char *const *words)
{
	struct suggest suggest = suggest_begin(typed);

	for (; *words; words++)
		suggest_offer(&suggest, *words);
	return suggest_result(&suggest);
}
