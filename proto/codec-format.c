/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message as one line for people: "queue-create-req id 3 fds 0 nic 1 cqs 1 [count 4 log2_entries 10]".
 *
 * Fields that are zero are left out; of an array the first elements stand for the rest. Secrets show their presence
 * only. Never allocates, never writes beyond the buffer. Any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/codec-table.h"
#include "proto/codec.h"

#define FORMAT_MAX_ELEMENTS 2u

struct line {
	char *buf;
	size_t size;
	size_t n; /* written, without the NUL; below size */
};

static void format_message(struct line *line, const struct message *message, const void *plain);

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line->buf + line->n, line->size - line->n, format, args);
	va_end(args);
	if (n < 0)
		return;
	line->n = (size_t)n < line->size - line->n ? line->n + (size_t)n : line->size - 1;
}

/* A blank and the name; no blank after the bracket that opens a message. */
static void add_name(struct line *line, const char *name)
{
	bool is_first = line->n && line->buf[line->n - 1] == '[';

	add(line, "%s%s", is_first ? "" : " ", name);
}

static void format_hex(struct line *line, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(line, "%02x", bytes[i]);
}

static void format_u32_array(struct line *line, const char *name, const uint32_t *values,
			     unsigned int n)
{
	if (!n)
		return;
	add_name(line, name);
	add(line, " [");
	for (unsigned int i = 0; i < n; i++)
		add(line, "%s%" PRIu32, i ? " " : "", values[i]);
	add(line, "]");
}

static void format_u64_array(struct line *line, const char *name, const uint64_t *values,
			     unsigned int n)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < n; i++)
		all |= values[i];
	if (!all)
		return;
	add_name(line, name);
	add(line, " [");
	for (unsigned int i = 0; i < n; i++)
		add(line, "%s%" PRIu64, i ? " " : "", values[i]);
	add(line, "]");
}

static void format_array(struct line *line, const char *name, const struct message *sub,
			 const char *elements, unsigned int n)
{
	if (!n)
		return;
	add_name(line, name);
	add(line, " %u", n);
	for (unsigned int i = 0; i < n && i < FORMAT_MAX_ELEMENTS; i++) {
		add(line, " [");
		format_message(line, sub, elements + i * sub->plain_bytes);
		add(line, "]");
	}
	if (n > FORMAT_MAX_ELEMENTS)
		add(line, " ...");
}

static void format_sub(struct line *line, const char *name, const struct message *sub,
		       const void *plain)
{
	add_name(line, name);
	add(line, " [");
	format_message(line, sub, plain);
	add(line, "]");
}

static void format_number(struct line *line, const struct field *field, const char *name,
			  uint64_t value)
{
	if (!value)
		return;
	add_name(line, name);
	if (field->is_secret)
		add(line, " hidden");
	else
		add(line, " %" PRIu64, value);
}

static void format_bytes(struct line *line, const struct field *field, const char *name,
			 const uint8_t *bytes, uint32_t n)
{
	if (!n)
		return;
	add_name(line, name);
	add(line, " ");
	if (field->is_secret)
		add(line, "%" PRIu32 " bytes", n);
	else
		format_hex(line, bytes, n);
}

static void format_text(struct line *line, const char *name, const char *text, size_t max)
{
	if (!*text)
		return;
	add_name(line, name);
	add(line, " \"%.*s\"", (int)max, text);
}

static void format_field(struct line *line, const struct field *field, const char *name,
			 const char *plain)
{
	const void *at = plain + field->offset;
	const void *n = plain + field->n_offset;

	switch (field->type) {
	case FIELD_U32:
	case FIELD_ENUM:
		format_number(line, field, name, *(const uint32_t *)at);
		break;
	case FIELD_U64:
		format_number(line, field, name, *(const uint64_t *)at);
		break;
	case FIELD_BOOL:
		if (*(const bool *)at)
			add_name(line, name);
		break;
	case FIELD_TEXT:
		format_text(line, name, at, field->max);
		break;
	case FIELD_BYTES_FIXED:
		format_bytes(line, field, name, at, field->max);
		break;
	case FIELD_BYTES:
		format_bytes(line, field, name, at, *(const uint32_t *)n);
		break;
	case FIELD_BYTES_HEAP:
		format_bytes(line, field, name, *(const uint8_t *const *)at, *(const uint32_t *)n);
		break;
	case FIELD_U32_ARRAY:
		format_u32_array(line, name, at, *(const unsigned int *)n);
		break;
	case FIELD_U64_ARRAY:
		format_u64_array(line, name, at, field->max);
		break;
	case FIELD_MSG:
		format_sub(line, name, field->sub, at);
		break;
	case FIELD_MSG_OPT:
		if (*(const bool *)n)
			format_sub(line, name, field->sub, at);
		break;
	case FIELD_MSG_ARRAY:
		format_array(line, name, field->sub, at, *(const unsigned int *)n);
		break;
	case FIELD_MSG_HEAP:
		format_array(line, name, field->sub, *(const char *const *)at,
			     *(const unsigned int *)n);
		break;
	}
}

static void format_message(struct line *line, const struct message *message, const void *plain)
{
	for (unsigned int i = 0; i < message->n_fields; i++)
		format_field(line, &message->fields[i], message->generated->fields[i].name, plain);
}

int msg_format(const struct msg *msg, char *buf, size_t size)
{
	const struct message_kind *kind = codec_kind(msg->kind);
	struct line line = {.buf = buf, .size = size};

	if (!size)
		return -EINVAL;
	add(&line, "%s id %" PRIu64 " fds %" PRIu32, msg_kind_name(msg->kind), msg->id, msg->n_fds);
	if (kind)
		format_message(&line, kind->message, (const char *)msg + MSG_BODY_OFFSET);
	return (int)line.n;
}
