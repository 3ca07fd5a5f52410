/* SPDX-License-Identifier: Apache-2.0 */
/* A job while it runs: one thread, one loop. Shared by the files job*.c, which call each other downwards only. */
#ifndef SHMD_RUN_JOB_H
#define SHMD_RUN_JOB_H

#include <sys/types.h>

#include "libclient/runtime/run/input.h"
#include "libclient/runtime/run/keeper.h"
#include "libclient/runtime/run/output.h"
#include "libclient/runtime/run/pmi-server.h"
#include "libclient/runtime/run/run.h"

#define NEVER UINT64_MAX

/* The object of an event of the loop; with a rank where there is one. */
enum job_source {
	SOURCE_SIGNAL,
	SOURCE_KEEPER,
	SOURCE_PMI,
	SOURCE_STREAMS, /* a sink's set of streams; the rank is the sink's number */
	SOURCE_SINK,
	SOURCE_SINK_DONE,
	SOURCE_TERMINAL,
	SOURCE_INPUT,
};

struct pe {
	pid_t pid; /* 0: has not started */
	bool is_ended;
	bool is_refused; /* its program was not run; the reason has been reported */
	int pmi; /* -1: closed */
	bool is_deaf; /* its end does not take replies any more */
	char *replies; /* that the PE has not read */
	size_t n_replies, replies_size;
	struct stream *streams[2];
};

struct job_sink {
	struct sink *sink;
	int streams; /* an epoll of those that write here */
	bool is_listening; /* to its streams */
	bool is_waiting; /* for its reader */
};

struct job {
	const struct run_attr *attr;
	struct pe *pes;
	struct pmi_server *server;
	int epoll, signals, keeper, sinks_done;
	pid_t keeper_pid;
	struct job_sink sinks[2];
	unsigned int n_sinks; /* 1: stdout and stderr are one file */
	unsigned int n_sinks_done; /* threads that have ended */
	bool sink_failed;
	struct input input;
	bool is_terminal_watched, is_input_watched;
	bool is_stderr_terminal;
	unsigned int n_started, n_ended;
	int status; /* of the first failure */
	bool is_ending; /* SIGTERM went out */
	bool is_killed;
	bool is_finishing; /* all PEs have ended */
	bool is_swept; /* and all that they forked */
	int interrupt; /* the signal that the user sent, or 0 */
	uint64_t interrupt_nsec;
	uint64_t begin_nsec, kill_at, timeout_at, flush_at, progress_at; /* or NEVER */
};

/* ---- job-end.c: sentences and ends */

void job_say(struct job *job, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "PE 3 (pid 123, PROG)"; returns buf. */
const char *job_pe_name(const struct job *job, unsigned int rank, char buf[256]);
/* The first failure decides about the exit status; with keep_going the others run on. */
void job_fail(struct job *job, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void job_end(struct job *job);
void job_kill(struct job *job);

/* ---- job-output.c */

int job_output_open(struct job *job);
void job_output_close(struct job *job);
int job_output_add(struct job *job, unsigned int rank, const int fds[2]);
/* Reads what is there now, if its sinks have room. */
void job_output_drain(struct job *job, unsigned int rank);
void job_output_event(struct job *job, enum job_source source, unsigned int index);
/* After each round of events. */
void job_output_step(struct job *job);
/* Nobody writes any more: passes on the rest. True: all of it has been handed over. */
bool job_output_finish(struct job *job);

/* ---- job-pmi.c */

int job_pmi_open(struct job *job, const char *name);
void job_pmi_close(struct job *job);
int job_pmi_add(struct job *job, unsigned int rank, int fd);
void job_pmi_event(struct job *job, unsigned int rank);
/* The PE has ended: serves what it still said. Its last state. */
enum pmi_state job_pmi_end(struct job *job, unsigned int rank);
/* Others may be waiting for it. */
void job_pmi_forget(struct job *job, unsigned int rank);

/* ---- job-news.c */

/* Takes the reports of the keeper. */
void job_news_event(struct job *job);

/* ---- job-signal.c */

int job_signals_open(sigset_t *ret_mask);
/* True: end at once. */
bool job_signals_event(struct job *job);

/* ---- job.c */

static inline uint64_t job_event_data(enum job_source source, unsigned int index)
{
	return (uint64_t)source << 32 | index;
}

int job_run(struct job *job);

#endif
