/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/rank-list.h"

#include <stdio.h>
#include <string.h>

#define DOTS ", ..."

/* Room for the dots is kept, and the dots are the end. */
static void append(char *text, size_t bytes, const char *more)
{
	size_t used = strlen(text), need = strlen(more);

	if (used >= 3 && !strcmp(text + used - 3, "..."))
		return;
	if (used + need + sizeof(DOTS) <= bytes)
		memcpy(text + used, more, need + 1);
	else if (used + sizeof(DOTS) <= bytes)
		memcpy(text + used, DOTS, sizeof(DOTS));
}

static void append_run(char *text, size_t bytes, const char *before, int first, int last)
{
	char run[32];

	if (first == last)
		snprintf(run, sizeof(run), "%s%d", before, first);
	else if (first + 1 == last)
		snprintf(run, sizeof(run), "%s%d, %d", before, first, last);
	else
		snprintf(run, sizeof(run), "%s%d-%d", before, first, last);
	append(text, bytes, run);
}

int rank_list(char *text, size_t bytes, int size, bool (*is_in)(const void *arg, int rank), const void *arg)
{
	int n = 0;

	for (int rank = 0; rank < size; rank++)
		n += is_in(arg, rank);
	snprintf(text, bytes, n == 1 ? "rank " : "ranks ");
	for (int rank = 0, runs = 0; rank < size; rank++) {
		int first = rank;

		if (!is_in(arg, rank))
			continue;
		while (rank + 1 < size && is_in(arg, rank + 1))
			rank++;
		append_run(text, bytes, runs++ ? ", " : "", first, rank);
	}
	return n;
}
