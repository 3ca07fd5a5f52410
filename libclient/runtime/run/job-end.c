/* SPDX-License-Identifier: Apache-2.0 */
/* How a job ends, and the sentences about it; see job.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/run/job.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#define SENTENCE_BYTES 1024

static void say(struct job *job, const char *fmt, va_list args)
{
	char text[SENTENCE_BYTES];
	int n = snprintf(text, sizeof(text), "shmemctl run: ");

	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	if (job->n_sinks)
		sink_say(job->sinks[job->n_sinks - 1].sink, text);
	else
		fprintf(stderr, "%s\n", text);
}

void job_say(struct job *job, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(job, fmt, args);
	va_end(args);
}

const char *job_pe_name(const struct job *job, unsigned int rank, char buf[256])
{
	char shown[SHOW_BUF_BYTES];

	snprintf(buf, 256, "PE %u (pid %d, %s)", rank, job->pes[rank].pid, show_text(job->attr->argv[0], shown));
	return buf;
}

void job_kill(struct job *job)
{
	job->is_killed = job->is_ending = true;
	job->kill_at = NEVER;
	keeper_signal(job->keeper, KEEPER_ALL, SIGKILL);
}

/* A stopped PE hears SIGTERM when it goes on. */
void job_end(struct job *job)
{
	if (job->is_ending)
		return;
	job->is_ending = true;
	job->timeout_at = NEVER;
	keeper_signal(job->keeper, KEEPER_ALL, SIGTERM);
	keeper_signal(job->keeper, KEEPER_ALL, SIGCONT);
	job->kill_at = nsec_add(nsec_now(), job->attr->kill_after_nsec);
}

void job_fail(struct job *job, int status, const char *fmt, ...)
{
	unsigned int n_others = 0;
	char text[SENTENCE_BYTES];
	va_list args;

	if (job->is_ending)
		return;
	for (unsigned int i = 0; i < job->attr->n_pes; i++)
		n_others += !job->pes[i].is_ended && !job->pes[i].is_refused;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!job->status)
		job->status = status;
	if (job->attr->keep_going || !n_others)
		job_say(job, "%s", text);
	else
		job_say(job, "%s; the %u PE%s still running get%s SIGTERM", text, n_others, plural_s(n_others), n_others == 1 ? "s" : "");
	if (!job->attr->keep_going)
		job_end(job);
}
