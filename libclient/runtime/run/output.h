/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of PEs: lines of many streams become lines of two sinks, stdout and stderr.
 *
 * A line of up to OUTPUT_LINE_BYTES is passed on whole, with a prefix such as "[3] ". A longer one goes in pieces; if another PE's
 * line comes between two of them, the next piece begins on a line of its own with "[3]+ ". So no byte of a PE is lost or moved,
 * and what each PE wrote can be put together again. Without prefixes nothing is added.
 *
 * A sink takes as much as its reader reads: its thread writes to the real descriptor, which may block, out of a pipe. The caller
 * stops reading streams while sink_is_full(), so that memory has a bound: a line for each stream, and SINK_FULL_BYTES and a read
 * for each sink.
 */
#ifndef SHMD_RUN_OUTPUT_H
#define SHMD_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#define OUTPUT_LINE_BYTES 65536u
#define OUTPUT_READ_BYTES 16384u
#define SINK_FULL_BYTES 262144u

struct stream;
struct sink;

struct sink_attr {
	int fd; /* the real one; stays the caller's */
	int done; /* an eventfd that gets 1 when all is written, or cannot be */
	bool has_prefix;
	unsigned int n_colors;
	const char *const *colors;
	const char *color_off;
};

int sink_new(const struct sink_attr *attr, struct sink **ret_sink);
/* Does not wait for the thread if that still writes: the process is about to end then. */
struct sink *sink_free(struct sink *sink);
/* The descriptor to wait for while sink_has_pending(); then sink_write(). */
int sink_fd(const struct sink *sink);
bool sink_has_pending(const struct sink *sink);
bool sink_is_full(const struct sink *sink);
/* 0; or the errno with which the reader's end failed, negative. Nothing can be written any more then. */
int sink_write(struct sink *sink);
/* Nothing more comes: the thread writes what is left and adds to `done`. */
void sink_finish(struct sink *sink);
/* 0, or why not everything was written. After `done`. */
int sink_result(const struct sink *sink);
/* A line of the launcher's own. */
void sink_say(struct sink *sink, const char *line);
/* A line that the next output or progress replaces; only for terminals. "": takes it away. */
void sink_progress(struct sink *sink, const char *text);

/* `fd`, which does not block, becomes the stream's. */
int stream_new(int fd, unsigned int rank, struct sink *sink, struct stream **ret_stream);
struct stream *stream_free(struct stream *stream);
int stream_fd(const struct stream *stream);
struct sink *stream_sink(const struct stream *stream);
/* Reads once. 1: there may be more; 0: the end, and what was left has been passed on; -EAGAIN. */
int stream_read(struct stream *stream);
/* Passes on what there is of a line: a question to a person at a terminal. */
void stream_flush(struct stream *stream);
/* Nothing more comes: passes on what there is, and ends the line. */
void stream_end(struct stream *stream);
bool stream_has_part(const struct stream *stream);

#endif
