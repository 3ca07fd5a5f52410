/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a job; see job.h. Ends when all PEs have ended, nothing of them is left, and their output has been handed over. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "libclient/runtime/run/job.h"
#include "libclient/runtime/run/words.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#define N_EVENTS 64
/* For processes that PEs left behind, such as the tee of a script, to come to their end. */
#define FINISH_GRACE_NSEC NSEC_PER_SEC
#define PROGRESS_FIRST_NSEC (2 * NSEC_PER_SEC)
#define PROGRESS_NEXT_NSEC (250 * NSEC_PER_MSEC)

/* ---- time ------------------------------------------------------------------------------------------------------------------ */

static bool runs(const void *arg, unsigned int rank)
{
	const struct job *job = arg;

	return !job->pes[rank].is_ended;
}

static void time_out(struct job *job)
{
	char ranks[WORDS_BYTES];

	job->timeout_at = NEVER;
	job_fail(job, RUN_EXIT_TIMEOUT, "the time limit of %g s is over for %s", (double)job->attr->timeout_nsec / NSEC_PER_SEC,
		 words_ranks(job->attr->n_pes, runs, job, ranks));
	job_end(job);
}

static void kill_rest(struct job *job)
{
	char ranks[WORDS_BYTES];

	job_say(job, "%s did not end within %g s and get%s SIGKILL", words_ranks(job->attr->n_pes, runs, job, ranks),
		(double)job->attr->kill_after_nsec / NSEC_PER_SEC, job->attr->n_pes - job->n_ended == 1 ? "s" : "");
	job_kill(job);
}

/* A start that takes long: processes that are not there, or PEs that wait for others in init. */
static void show_progress(struct job *job)
{
	unsigned int n = job->attr->n_pes, n_ready = 0;
	char text[96] = "";

	for (unsigned int i = 0; i < n; i++)
		n_ready += pmi_server_state(job->server, i) != PMI_NEW;
	if (job->n_started < n)
		snprintf(text, sizeof(text), "shmemctl run: %u of %u PEs are started", job->n_started, n);
	else if (n_ready && n_ready < n)
		snprintf(text, sizeof(text), "shmemctl run: %u of %u PEs have called PMI init", n_ready, n);
	sink_progress(job->sinks[job->n_sinks - 1].sink, text);
	job->progress_at = nsec_add(nsec_now(), PROGRESS_NEXT_NSEC);
}

static void flush_input_prompts(struct job *job)
{
	job->flush_at = NEVER;
	for (unsigned int i = 0; i < 2; i++)
		if (job->pes[0].streams[i])
			stream_flush(job->pes[0].streams[i]);
}

static void run_timers(struct job *job)
{
	uint64_t now = nsec_now();

	if (now >= job->timeout_at && !job->is_finishing)
		time_out(job);
	if (now >= job->kill_at && !job->is_finishing)
		kill_rest(job);
	if (now >= job->flush_at)
		flush_input_prompts(job);
	if (now >= job->progress_at)
		show_progress(job);
}

/* For epoll_wait, rounded up. */
static int wait_msec(const struct job *job)
{
	const uint64_t times[] = {job->timeout_at, job->kill_at, job->flush_at, job->progress_at};
	uint64_t next = NEVER, now = nsec_now();

	for (unsigned int i = 0; i < sizeof(times) / sizeof(*times); i++)
		next = times[i] < next ? times[i] : next;
	if (next == NEVER)
		return -1;
	next = next > now ? (next - now) / NSEC_PER_MSEC + 1 : 0;
	return next > INT32_MAX ? INT32_MAX : (int)next;
}

/* ---- input ----------------------------------------------------------------------------------------------------------------- */

static void watch_input(struct job *job, bool *is_watched, bool wants, int fd, enum job_source source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = job_event_data(source, 0)};

	if (wants != *is_watched && fd >= 0)
		epoll_ctl(job->epoll, wants ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
	*is_watched = wants;
}

static void watch_inputs(struct job *job)
{
	struct input *input = &job->input;

	watch_input(job, &job->is_terminal_watched, input_wants_read(input), STDIN_FILENO, SOURCE_TERMINAL, EPOLLIN);
	watch_input(job, &job->is_input_watched, input_wants_write(input), input->to, SOURCE_INPUT, EPOLLOUT);
}

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

/* True: end at once. */
static bool dispatch(struct job *job, uint64_t data)
{
	unsigned int index = (unsigned int)data;

	switch ((enum job_source)(data >> 32)) {
	case SOURCE_SIGNAL:
		return job_signals_event(job);
	case SOURCE_KEEPER:
		job_news_event(job);
		break;
	case SOURCE_PMI:
		job_pmi_event(job, index);
		break;
	case SOURCE_STREAMS:
	case SOURCE_SINK:
	case SOURCE_SINK_DONE:
		job_output_event(job, data >> 32, index);
		break;
	case SOURCE_TERMINAL:
		input_read(&job->input);
		break;
	case SOURCE_INPUT:
		input_write(&job->input);
		break;
	}
	return false;
}

/* Nothing runs any more but processes that PEs left behind. */
static void finish(struct job *job)
{
	uint64_t grace_nsec = job->is_ending && job->attr->kill_after_nsec < FINISH_GRACE_NSEC ? job->attr->kill_after_nsec : FINISH_GRACE_NSEC;

	job->is_finishing = true;
	job->progress_at = job->timeout_at = job->kill_at = NEVER;
	sink_progress(job->sinks[job->n_sinks - 1].sink, "");
	keeper_finish(job->keeper, job->is_killed ? 0 : (unsigned int)(grace_nsec / NSEC_PER_MSEC));
}

/* True: the loop ends. */
static bool round_of_events(struct job *job)
{
	struct epoll_event events[N_EVENTS];
	int n = epoll_wait(job->epoll, events, N_EVENTS, wait_msec(job));
	bool is_end = false;

	for (int i = 0; i < n && !is_end; i++)
		is_end = dispatch(job, events[i].data.u64);
	run_timers(job);
	watch_inputs(job);
	return is_end;
}

static int watch_start(struct job *job)
{
	struct epoll_event signals = {.events = EPOLLIN, .data.u64 = job_event_data(SOURCE_SIGNAL, 0)};
	struct epoll_event keeper = {.events = EPOLLIN, .data.u64 = job_event_data(SOURCE_KEEPER, 0)};

	return epoll_ctl(job->epoll, EPOLL_CTL_ADD, job->signals, &signals) < 0 ||
			       epoll_ctl(job->epoll, EPOLL_CTL_ADD, job->keeper, &keeper) < 0 ?
		       -errno :
		       0;
}

/* The last lines: the sinks' threads hand them to a reader that may be slow. A signal ends the wait. */
static void hand_over(struct job *job)
{
	for (unsigned int i = 0; i < job->n_sinks; i++)
		sink_finish(job->sinks[i].sink);
	while (job->n_sinks_done < job->n_sinks)
		if (round_of_events(job))
			return;
}

int job_run(struct job *job)
{
	bool is_handed_over = false;
	int r = watch_start(job);

	if (r < 0)
		return r;
	job->begin_nsec = nsec_now();
	job->timeout_at = job->attr->timeout_nsec ? nsec_add(job->begin_nsec, job->attr->timeout_nsec) : NEVER;
	job->progress_at = job->is_stderr_terminal ? job->begin_nsec + PROGRESS_FIRST_NSEC : NEVER;
	while (!is_handed_over) {
		if (round_of_events(job))
			return 0;
		if (job->n_ended == job->attr->n_pes && !job->is_finishing)
			finish(job);
		job_output_step(job);
		if (job->is_swept)
			is_handed_over = job_output_finish(job);
	}
	hand_over(job);
	return 0;
}
