/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and sinks of a job; see job.h and output.h. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libclient/runtime/run/job.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define N_EVENTS 32
/* A question to a person ends without a newline. */
#define FLUSH_NSEC (100 * NSEC_PER_MSEC)

/* ---- sinks ----------------------------------------------------------------------------------------------------------------- */

static bool are_one_file(int a, int b)
{
	struct stat st_a, st_b;

	return !fstat(a, &st_a) && !fstat(b, &st_b) && st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino;
}

static int add_sink(struct job *job, int fd)
{
	const struct run_attr *attr = job->attr;
	struct sink_attr sink_attr = {
		.fd = fd,
		.done = job->sinks_done,
		.has_prefix = !attr->has_no_prefix,
		.n_colors = attr->has_color[fd == STDERR_FILENO] ? attr->n_colors : 0,
		.colors = attr->colors,
		.color_off = attr->color_off,
	};
	struct job_sink *sink = &job->sinks[job->n_sinks];
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = job_event_data(SOURCE_STREAMS, job->n_sinks)};
	int r = sink_new(&sink_attr, &sink->sink);

	if (r < 0)
		return r;
	job->n_sinks++;
	sink->streams = epoll_create1(EPOLL_CLOEXEC);
	if (sink->streams < 0 || epoll_ctl(job->epoll, EPOLL_CTL_ADD, sink->streams, &event) < 0)
		return -errno;
	sink->is_listening = true;
	return 0;
}

int job_output_open(struct job *job)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = job_event_data(SOURCE_SINK_DONE, 0)};
	int r;

	job->sinks_done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (job->sinks_done < 0 || epoll_ctl(job->epoll, EPOLL_CTL_ADD, job->sinks_done, &event) < 0)
		return -errno;
	r = add_sink(job, STDOUT_FILENO);
	if (!r && !are_one_file(STDOUT_FILENO, STDERR_FILENO))
		r = add_sink(job, STDERR_FILENO);
	return r;
}

void job_output_close(struct job *job)
{
	for (unsigned int i = 0; i < 2 * job->attr->n_pes; i++)
		stream_free(job->pes[i / 2].streams[i % 2]);
	for (unsigned int i = 0; i < job->n_sinks; i++) {
		sink_free(job->sinks[i].sink);
		safe_close(job->sinks[i].streams);
	}
	/* A sink's thread that still writes may use sinks_done: the process ends soon. */
}

/* Both sinks are of use until the end, so a failure of one ends the job. */
static void note_failure(struct job *job, int r)
{
	if (job->sink_failed)
		return;
	job->sink_failed = true;
	job_fail(job, RUN_EXIT_FAILED, "cannot pass on output: %s", strerror(-r));
}

static void write_sink(struct job *job, unsigned int index)
{
	struct job_sink *sink = &job->sinks[index];
	struct epoll_event event = {.events = EPOLLOUT, .data.u64 = job_event_data(SOURCE_SINK, index)};
	bool is_pending;
	int r = sink_write(sink->sink);

	if (r < 0)
		note_failure(job, sink_result(sink->sink) < 0 ? sink_result(sink->sink) : r);
	is_pending = sink_has_pending(sink->sink);
	if (is_pending != sink->is_waiting)
		epoll_ctl(job->epoll, is_pending ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, sink_fd(sink->sink), &event);
	sink->is_waiting = is_pending;
}

/* A full sink does not listen to its streams: their pipes fill, and the PEs wait. */
static void choose_listening(struct job *job, unsigned int index)
{
	struct job_sink *sink = &job->sinks[index];
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = job_event_data(SOURCE_STREAMS, index)};
	bool is_listening = !sink_is_full(sink->sink);

	if (is_listening != sink->is_listening)
		epoll_ctl(job->epoll, is_listening ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, sink->streams, &event);
	sink->is_listening = is_listening;
}

void job_output_step(struct job *job)
{
	/* A sink that has failed drops what comes, so that the PEs can end. */
	for (unsigned int i = 0; i < job->n_sinks; i++) {
		write_sink(job, i);
		choose_listening(job, i);
	}
}

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

static struct job_sink *sink_of(struct job *job, unsigned int which)
{
	return &job->sinks[which < job->n_sinks ? which : 0];
}

int job_output_add(struct job *job, unsigned int rank, const int fds[2])
{
	for (unsigned int i = 0; i < 2; i++) {
		struct job_sink *sink = sink_of(job, i);
		struct epoll_event event = {.events = EPOLLIN, .data.u64 = 2 * (uint64_t)rank + i};
		int r;

		if (fds[i] < 0)
			continue;
		r = stream_new(fds[i], rank, sink->sink, &job->pes[rank].streams[i]);
		if (!r && epoll_ctl(sink->streams, EPOLL_CTL_ADD, fds[i], &event) < 0)
			r = -errno;
		if (r < 0)
			return r;
	}
	return 0;
}

/* Returns what stream_read() did. */
static int read_stream(struct job *job, unsigned int rank, unsigned int which)
{
	struct stream **stream = &job->pes[rank].streams[which];
	int r = stream_read(*stream);

	if (!r) {
		*stream = stream_free(*stream);
	} else if (!rank && job->input.to >= 0 && stream_has_part(*stream)) {
		job->flush_at = nsec_now() + FLUSH_NSEC;
	}
	return r;
}

void job_output_drain(struct job *job, unsigned int rank)
{
	for (unsigned int i = 0; i < 2; i++)
		while (job->pes[rank].streams[i] && !sink_is_full(sink_of(job, i)->sink) && read_stream(job, rank, i) > 0)
			;
}

static void read_streams(struct job *job, struct job_sink *sink)
{
	struct epoll_event events[N_EVENTS];
	int n = epoll_wait(sink->streams, events, N_EVENTS, 0);

	for (int i = 0; i < n && !sink_is_full(sink->sink); i++)
		if (job->pes[events[i].data.u64 / 2].streams[events[i].data.u64 % 2])
			read_stream(job, (unsigned int)(events[i].data.u64 / 2), events[i].data.u64 % 2);
}

void job_output_event(struct job *job, enum job_source source, unsigned int index)
{
	uint64_t n;

	if (source == SOURCE_STREAMS)
		read_streams(job, &job->sinks[index]);
	if (source != SOURCE_SINK_DONE || read(job->sinks_done, &n, sizeof(n)) != sizeof(n))
		return; /* of a sink that takes more: job_output_step() writes */
	job->n_sinks_done += (unsigned int)n;
	for (unsigned int i = 0; i < job->n_sinks; i++)
		if (sink_result(job->sinks[i].sink) < 0)
			note_failure(job, sink_result(job->sinks[i].sink));
}

/* True: all streams are at their end. */
static bool finish_streams(struct job *job)
{
	for (unsigned int i = 0; i < 2 * job->attr->n_pes; i++) {
		struct stream **stream = &job->pes[i / 2].streams[i % 2];

		job_output_drain(job, i / 2);
		if (!*stream)
			continue;
		if (sink_is_full(sink_of(job, i % 2)->sink))
			return false;
		/* Somebody outside the job holds the other end; all that is there has been read. */
		stream_end(*stream);
		*stream = stream_free(*stream);
	}
	return true;
}

bool job_output_finish(struct job *job)
{
	bool is_read, is_waiting = false;

	if (job->sink_failed)
		return true;
	/* A sink that waits for its reader brings an event. */
	do {
		is_read = finish_streams(job);
		job_output_step(job);
		for (unsigned int i = 0; i < job->n_sinks; i++)
			is_waiting = is_waiting || job->sinks[i].is_waiting;
	} while (!is_read && !is_waiting);
	return is_read && !is_waiting;
}
