/* SPDX-License-Identifier: Apache-2.0 */
/* Progress; see progress.h. The clock is the caller's, so that tests need not wait. */
#include "libclient/ctl/progress.h"

#include <string.h>

#define QUIET_NSEC 2000000000ull
#define LINE_NSEC 10000000000ull

void progress_begin(struct progress *progress, FILE *out, bool is_terminal, uint64_t now_nsec)
{
	*progress = (struct progress){.out = out, .is_terminal = is_terminal, .begin_nsec = now_nsec};
}

void progress_show(struct progress *progress, uint64_t now_nsec, const char *text)
{
	static const char turns[] = "|/-\\";

	if (now_nsec - progress->begin_nsec < QUIET_NSEC)
		return;
	if (progress->is_terminal) {
		fprintf(progress->out, "\r\033[K%c %s", turns[progress->n_turns++ % 4], text);
		fflush(progress->out);
		return;
	}
	if (progress->n_turns && (!strcmp(progress->last_text, text) || now_nsec - progress->last_nsec < LINE_NSEC))
		return;
	fprintf(progress->out, "%s\n", text);
	fflush(progress->out);
	progress->last_nsec = now_nsec;
	snprintf(progress->last_text, sizeof(progress->last_text), "%s", text);
	progress->n_turns++;
}

void progress_end(struct progress *progress)
{
	if (progress->is_terminal && progress->n_turns)
		fputs("\r\033[K", progress->out);
	fflush(progress->out);
}
