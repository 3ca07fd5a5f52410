/* SPDX-License-Identifier: Apache-2.0 */
/* See words.h. */
#include "libclient/runtime/run/words.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "proto/base/show.h"

#define ROOM_FOR_REST 32 /* " and 32768 others" */

const char *words_end(int status, char buf[WORDS_BYTES])
{
	if (WIFSIGNALED(status))
		snprintf(buf, WORDS_BYTES, "was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
			 WCOREDUMP(status) ? ", core dumped" : "");
	else
		snprintf(buf, WORDS_BYTES, "ended with status %d", WEXITSTATUS(status));
	return buf;
}

int words_exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

const char *words_ranks(unsigned int n, bool (*has)(const void *arg, unsigned int rank), const void *arg, char buf[WORDS_BYTES])
{
	char list[WORDS_BYTES] = "";
	unsigned int n_all = 0, n_rest = 0, last;
	size_t used = 0;

	for (unsigned int rank = 0; rank < n; rank = last + 1) {
		for (last = rank; last < n && has(arg, last);)
			last++;
		if (last == rank)
			continue;
		n_all += last - rank;
		if (used + ROOM_FOR_REST + 16 > sizeof(list))
			n_rest += last - rank;
		else
			used += (size_t)snprintf(list + used, sizeof(list) - used, last - rank == 1 ? "%s%u" : "%s%u-%u",
						 used ? ", " : "", rank, last - 1);
	}
	if (n_rest)
		snprintf(list + used, sizeof(list) - used, " and %u other%s", n_rest, plural_s(n_rest));
	snprintf(buf, WORDS_BYTES, "PE%s %.*s", plural_s(n_all), WORDS_BYTES - 8, list);
	return buf;
}
