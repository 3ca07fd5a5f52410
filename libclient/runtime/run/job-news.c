/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's reports about PEs, and how the job reacts; see job.h. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/runtime/run/job.h"
#include "libclient/runtime/run/spawn.h"
#include "libclient/runtime/run/words.h"
#include "proto/base/cleanup.h"
#include "proto/base/show.h"

static void note_started(struct job *job, unsigned int rank, pid_t pid, struct keeper_fds *fds)
{
	int out[2] = {fds->out, fds->err}, r;

	job->pes[rank].pid = pid;
	job->n_started++;
	r = job_output_add(job, rank, out);
	if (!r)
		r = job_pmi_add(job, rank, fds->pmi);
	if (fds->in >= 0)
		job->input.to = fds->in;
	if (r < 0)
		job_fail(job, RUN_EXIT_FAILED, "cannot serve PE %u: %s", rank, strerror(-r));
}

/* A sentence with the object of the step, and what helps. */
static void note_refused(struct job *job, unsigned int rank, const struct keeper_news *news)
{
	const struct run_attr *attr = job->attr;
	const char *why = strerror(news->value);
	char shown[SHOW_BUF_BYTES], path[4096] = "";

	job->pes[rank].is_refused = true;
	if (news->step == STEP_FORK)
		job_fail(job, RUN_EXIT_FAILED, "cannot start PE %u: fork: %s; the limits of processes are those of ulimit -u and of the cgroup",
			 rank, why);
	else if (news->step == STEP_FOLDER)
		job_fail(job, RUN_EXIT_FAILED, "cannot start PE %u in %s: %s", rank, show_text(attr->folder, shown), why);
	else if (news->step == STEP_EXEC)
		job_fail(job, RUN_EXIT_CANNOT_EXECUTE, "cannot execute %s: %s", show_text(attr->argv[0], shown), why);
	else if (news->step == STEP_OUTPUT_FILE && !spawn_file_name(attr->output_files, rank, path, sizeof(path)))
		job_fail(job, RUN_EXIT_FAILED, "cannot write %s, the output of PE %u: %s", show_text(path, shown), rank,
			 news->value == EINVAL ? "it is a FIFO" : why);
	else
		job_fail(job, RUN_EXIT_FAILED, "cannot start PE %u: %s: %s", rank, news->step == STEP_BIND ? "--bind" : "its pipes", why);
	/* It has no process, or that is about to end. */
	if (news->step == STEP_PIPE || news->step == STEP_FORK)
		job->n_ended += !job->pes[rank].pid;
	job->pes[rank].is_ended = job->pes[rank].is_ended || !job->pes[rank].pid;
	/* With keep_going, too: those that run would wait for it. */
	job_end(job);
}

/* A signal of the user's ends PEs as the user wants; one sentence is enough. */
static bool is_interrupted(struct job *job, int status)
{
	if (!job->interrupt || !WIFSIGNALED(status) || WTERMSIG(status) != job->interrupt)
		return false;
	if (!job->status)
		job->status = words_exit_status(status);
	if (!job->is_ending)
		job_say(job, "ended by signal %d (%s)", job->interrupt, strsignal(job->interrupt));
	if (!job->attr->keep_going)
		job_end(job);
	return true;
}

static void judge(struct job *job, unsigned int rank, int status, enum pmi_state state)
{
	char name[256], words[WORDS_BYTES];

	if (job->pes[rank].is_refused || is_interrupted(job, status))
		return;
	if (status)
		job_fail(job, words_exit_status(status), "%s %s", job_pe_name(job, rank, name), words_end(status, words));
	else if (state == PMI_READY)
		job_fail(job, RUN_EXIT_FAILED, "%s ended with status 0 after PMI init, without finalize", job_pe_name(job, rank, name));
}

/* Its last words come before the sentence about its end, and its last requests count. */
static void note_ended(struct job *job, unsigned int rank, int status)
{
	enum pmi_state state = job_pmi_end(job, rank);

	job_output_drain(job, rank);
	job->pes[rank].is_ended = true;
	job->n_ended++;
	judge(job, rank, status, state);
	job_pmi_forget(job, rank);
}

static void note_swept(struct job *job, int n_killed)
{
	job->is_swept = true;
	if (n_killed && !job->status)
		job_say(job, "killed %d process%s that PEs had left behind", n_killed, n_killed == 1 ? "" : "es");
}

/* The PEs died with it; the launcher is their next of kin. */
static void note_lost(struct job *job)
{
	if (!job->is_finishing)
		job_fail(job, RUN_EXIT_FAILED, "the process that kept the PEs was killed, and the PEs with it");
	for (unsigned int rank = 0; rank < job->attr->n_pes; rank++)
		job->pes[rank].is_ended = true;
	job->n_ended = job->attr->n_pes;
	job->is_finishing = job->is_swept = true;
	job->keeper = safe_close(job->keeper);
}

void job_news_event(struct job *job)
{
	struct keeper_fds fds = {-1, -1, -1, -1};
	struct keeper_news news;
	int r;

	while (job->keeper >= 0 && (r = keeper_next(job->keeper, &news, &fds)) != -EAGAIN) {
		if (!r)
			note_lost(job);
		else if (r < 0)
			job_fail(job, RUN_EXIT_FAILED, "cannot serve PE %u: %s", news.rank, strerror(-r));
		else if (news.kind == KEEPER_STARTED)
			note_started(job, news.rank, news.value, &fds);
		else if (news.kind == KEEPER_REFUSED)
			note_refused(job, news.rank, &news);
		else if (news.kind == KEEPER_ENDED)
			note_ended(job, news.rank, news.value);
		else
			note_swept(job, news.value);
	}
}
