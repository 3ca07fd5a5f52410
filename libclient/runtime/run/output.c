/* SPDX-License-Identifier: Apache-2.0 */
/* See output.h. The caller's thread owns everything but the read end of a sink's pipe, which is the sink's thread's. */
#include "libclient/runtime/run/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define PREFIX_BYTES 64
#define LEAST_BYTES 4096u
#define CLEAR_LINE "\r\033[K"

struct sink {
	struct sink_attr attr;
	int pipe[2]; /* to the thread; [0] is closed by it */
	pthread_t thread;
	bool has_thread;
	atomic_bool is_done;
	atomic_int error; /* of the thread */
	struct stream *open; /* whose line is not ended; NULL: none */
	bool has_progress;
	char *buf;
	size_t begin, end, size;
};

struct stream {
	int fd;
	unsigned int rank;
	struct sink *sink;
	bool is_continued;
	char *buf;
	size_t n, size;
};

/* ---- the thread of a sink -------------------------------------------------------------------------------------------------- */

/* Somebody may have made the real descriptor one that does not block. */
static int write_all(int fd, const char *data, size_t bytes)
{
	struct pollfd poll_fd = {fd, POLLOUT, 0};

	while (bytes > 0) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EAGAIN)
			poll(&poll_fd, 1, -1);
		else if (n < 0 && errno != EINTR)
			return -errno;
		data += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void *pass_on(void *arg)
{
	struct sink *sink = arg;
	char buf[OUTPUT_READ_BYTES];
	uint64_t one = 1;
	ssize_t n;
	int r = 0;

	while (!r && (n = read(sink->pipe[0], buf, sizeof(buf))))
		r = n > 0 ? write_all(sink->attr.fd, buf, (size_t)n) : errno == EINTR ? 0 : -errno;
	atomic_store(&sink->error, r);
	/* From here on the caller's writes fail. */
	close(sink->pipe[0]);
	atomic_store(&sink->is_done, true);
	(void)!write(sink->attr.done, &one, sizeof(one));
	return NULL;
}

/* ---- sinks ----------------------------------------------------------------------------------------------------------------- */

static int sink_open(struct sink *sink)
{
	int r;

	if (pipe2(sink->pipe, O_CLOEXEC) < 0 || fcntl(sink->pipe[1], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	r = -pthread_create(&sink->thread, NULL, pass_on, sink);
	sink->has_thread = !r;
	return r;
}

int sink_new(const struct sink_attr *attr, struct sink **ret_sink)
{
	struct sink *sink = calloc(1, sizeof(*sink));
	int r;

	if (!sink)
		return -ENOMEM;
	sink->attr = *attr;
	sink->pipe[0] = sink->pipe[1] = -1;
	r = sink_open(sink);
	if (r < 0) {
		if (!sink->has_thread)
			safe_close(sink->pipe[0]);
		sink_free(sink);
		return r;
	}
	*ret_sink = sink;
	return 0;
}

struct sink *sink_free(struct sink *sink)
{
	if (!sink)
		return NULL;
	sink->pipe[1] = safe_close(sink->pipe[1]);
	if (sink->has_thread && !atomic_load(&sink->is_done))
		return NULL;
	if (sink->has_thread)
		pthread_join(sink->thread, NULL);
	free(sink->buf);
	free(sink);
	return NULL;
}

int sink_fd(const struct sink *sink)
{
	return sink->pipe[1];
}

bool sink_has_pending(const struct sink *sink)
{
	return sink->begin < sink->end;
}

bool sink_is_full(const struct sink *sink)
{
	return sink->end - sink->begin >= SINK_FULL_BYTES;
}

int sink_result(const struct sink *sink)
{
	return atomic_load(&sink->error);
}

int sink_write(struct sink *sink)
{
	while (sink->begin < sink->end) {
		ssize_t n = write(sink->pipe[1], sink->buf + sink->begin, sink->end - sink->begin);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno != EINTR) {
			sink->begin = sink->end = 0;
			return -errno;
		}
		sink->begin += n > 0 ? (size_t)n : 0;
	}
	sink->begin = sink->end = 0;
	return 0;
}

void sink_finish(struct sink *sink)
{
	sink->pipe[1] = safe_close(sink->pipe[1]);
}

static void append(struct sink *sink, const char *data, size_t bytes)
{
	char *buf;
	size_t size = sink->size ? sink->size : LEAST_BYTES;

	if (sink->pipe[1] < 0)
		return;
	if (sink->end + bytes > sink->size && sink->begin) {
		memmove(sink->buf, sink->buf + sink->begin, sink->end - sink->begin);
		sink->end -= sink->begin;
		sink->begin = 0;
	}
	while (sink->end + bytes > size)
		size *= 2;
	if (size != sink->size) {
		buf = realloc(sink->buf, size);
		/* Lost output would be worse than a lost job; the keeper ends the PEs. */
		if (!buf)
			abort();
		sink->buf = buf;
		sink->size = size;
	}
	memcpy(sink->buf + sink->end, data, bytes);
	sink->end += bytes;
}

static void append_text(struct sink *sink, const char *text)
{
	append(sink, text, strlen(text));
}

/* Another one writes now: the open line ends here, and goes on later under its "+". */
static void end_open_line(struct sink *sink)
{
	if (sink->has_progress)
		append_text(sink, CLEAR_LINE);
	sink->has_progress = false;
	if (sink->open && sink->attr.has_prefix) {
		append_text(sink, "\n");
		sink->open->is_continued = true;
	}
	sink->open = NULL;
}

void sink_say(struct sink *sink, const char *line)
{
	bool is_open = sink->open;

	end_open_line(sink);
	if (is_open && !sink->attr.has_prefix)
		append_text(sink, "\n");
	append_text(sink, line);
	append_text(sink, "\n");
}

void sink_progress(struct sink *sink, const char *text)
{
	if (sink->open || (!*text && !sink->has_progress))
		return;
	append_text(sink, CLEAR_LINE);
	append_text(sink, text);
	sink->has_progress = *text;
}

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

int stream_new(int fd, unsigned int rank, struct sink *sink, struct stream **ret_stream)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	*stream = (struct stream){.fd = fd, .rank = rank, .sink = sink};
	*ret_stream = stream;
	return 0;
}

struct stream *stream_free(struct stream *stream)
{
	if (!stream)
		return NULL;
	if (stream->sink->open == stream)
		stream->sink->open = NULL;
	safe_close(stream->fd);
	free(stream->buf);
	free(stream);
	return NULL;
}

int stream_fd(const struct stream *stream)
{
	return stream->fd;
}

struct sink *stream_sink(const struct stream *stream)
{
	return stream->sink;
}

bool stream_has_part(const struct stream *stream)
{
	return stream->n;
}

static void put_prefix(struct stream *stream)
{
	const struct sink_attr *attr = &stream->sink->attr;
	char prefix[PREFIX_BYTES];

	if (!attr->has_prefix)
		return;
	snprintf(prefix, sizeof(prefix), "%s[%u]%s%s ", attr->n_colors ? attr->colors[stream->rank % attr->n_colors] : "",
		 stream->rank, stream->is_continued ? "+" : "", attr->n_colors ? attr->color_off : "");
	append_text(stream->sink, prefix);
	stream->is_continued = false;
}

/* A line, or a piece of one. */
static void put(struct stream *stream, const char *data, size_t bytes)
{
	struct sink *sink = stream->sink;

	if (sink->open != stream) {
		end_open_line(sink);
		put_prefix(stream);
	}
	append(sink, data, bytes);
	sink->open = data[bytes - 1] == '\n' ? NULL : stream;
}

static void put_lines(struct stream *stream)
{
	size_t begin = 0;
	char *newline;

	while ((newline = memchr(stream->buf + begin, '\n', stream->n - begin))) {
		size_t end = (size_t)(newline - stream->buf) + 1;

		put(stream, stream->buf + begin, end - begin);
		begin = end;
	}
	stream->n -= begin;
	memmove(stream->buf, stream->buf + begin, stream->n);
}

void stream_flush(struct stream *stream)
{
	if (stream->n)
		put(stream, stream->buf, stream->n);
	stream->n = 0;
}

void stream_end(struct stream *stream)
{
	stream_flush(stream);
	if (stream->sink->open == stream && stream->sink->attr.has_prefix) {
		append_text(stream->sink, "\n");
		stream->sink->open = NULL;
	}
	free(take_ptr(stream->buf));
	stream->size = 0;
}

static int make_room(struct stream *stream)
{
	size_t size = stream->n + OUTPUT_READ_BYTES;
	char *buf;

	if (size <= stream->size)
		return 0;
	buf = realloc(stream->buf, size);
	if (!buf)
		return -ENOMEM;
	stream->buf = buf;
	stream->size = size;
	return 0;
}

int stream_read(struct stream *stream)
{
	ssize_t n;

	if (make_room(stream) < 0)
		return -EAGAIN;
	n = read(stream->fd, stream->buf + stream->n, OUTPUT_READ_BYTES);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0) {
		stream_end(stream);
		return 0;
	}
	stream->n += (size_t)n;
	put_lines(stream);
	if (stream->n >= OUTPUT_LINE_BYTES)
		stream_flush(stream);
	/* An idle stream holds no memory. */
	if (!stream->n) {
		free(take_ptr(stream->buf));
		stream->size = 0;
	}
	return 1;
}
