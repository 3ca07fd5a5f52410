/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of a wait, on stderr: a spinner on a terminal, elsewhere a line when the words
 * change, at most every ten seconds. A wait of less than two seconds prints nothing.
 */
#ifndef SHMEMD_CTL_PROGRESS_H
#define SHMEMD_CTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
	FILE *out;
	bool is_terminal;
	uint64_t begin_nsec, last_nsec; /* last: of the last line that was printed */
	unsigned int n_turns;
	char last_text[128];
};

void progress_begin(struct progress *progress, FILE *out, bool is_terminal, uint64_t now_nsec);
void progress_show(struct progress *progress, uint64_t now_nsec, const char *text);
/* Removes the spinner. */
void progress_end(struct progress *progress);

#endif
