/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of a tag, a size and bytes.
 *
 * Refuses what it did not write: another tag than the one asked for, a size that the field has not or that passes the end,
 * numbers that their field cannot hold, texts without an end. Pure.
 */
#include "daemon/restart/save-codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/base/overflow.h"

struct item {
	uint16_t tag;
	uint16_t zero;
	uint32_t bytes;
};

#define MIN_BYTES 256u

/* ---- writing ------------------------------------------------------------------------------------------------------ */

void save_writer_deinit(struct save_writer *writer)
{
	free(writer->buf);
	*writer = (struct save_writer){0};
}

static bool grow(struct save_writer *writer, size_t n)
{
	size_t need, size = writer->size ? writer->size : MIN_BYTES;
	uint8_t *buf;

	if (add_overflows(writer->n, n, &need))
		return false;
	while (size < need)
		if (mul_overflows(size, 2, &size))
			return false;
	if (size != writer->size) {
		/* bounded: by what a session may have. */
		buf = realloc(writer->buf, size);
		if (!buf)
			return false;
		writer->buf = buf;
		writer->size = size;
	}
	return true;
}

void save_put_bytes(struct save_writer *writer, uint16_t tag, const void *bytes, size_t n)
{
	struct item item = {.tag = tag, .bytes = (uint32_t)n};

	if (writer->r == 0 && (n > UINT32_MAX || !grow(writer, sizeof(item) + n)))
		writer->r = -ENOMEM;
	if (writer->r < 0)
		return;
	memcpy(writer->buf + writer->n, &item, sizeof(item));
	if (n > 0)
		memcpy(writer->buf + writer->n + sizeof(item), bytes, n);
	writer->n += sizeof(item) + n;
}

void save_put(struct save_writer *writer, uint16_t tag, uint64_t number)
{
	save_put_bytes(writer, tag, &number, sizeof(number));
}

static uint64_t load(const void *from, uint32_t size)
{
	uint64_t wide = 0;
	uint32_t word;
	uint16_t half;

	switch (size) {
	case 1:
		return *(const uint8_t *)from;
	case 2:
		memcpy(&half, from, sizeof(half));
		return half;
	case 4:
		memcpy(&word, from, sizeof(word));
		return word;
	default:
		assert_bug(size == sizeof(wide));
		memcpy(&wide, from, sizeof(wide));
		return wide;
	}
}

void save_put_fields(struct save_writer *writer, const struct save_table *table, const void *of)
{
	for (unsigned int i = 0; i < table->n; i++) {
		const struct save_field *field = &table->rows[i];
		const char *from = (const char *)of + field->offset; /* bounded: a table's */

		if (field->type == FIELD_NUMBER)
			save_put(writer, field->tag, load(from, field->size));
		else if (field->type == FIELD_TEXT)
			save_put_bytes(writer, field->tag, from, strnlen(from, field->size - 1));
		else
			save_put_bytes(writer, field->tag, from, field->size);
	}
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static void fail(struct save_reader *reader)
{
	if (reader->r == 0)
		reader->r = -EBADMSG;
}

const void *save_get_bytes(struct save_reader *reader, uint16_t tag, size_t *ret_n)
{
	size_t left = (size_t)(reader->end - reader->at);
	const uint8_t *bytes;
	struct item item;

	*ret_n = 0;
	if (reader->r == 0 && left < sizeof(item))
		fail(reader);
	if (reader->r < 0)
		return NULL;
	memcpy(&item, reader->at, sizeof(item));
	if (item.tag != tag || item.zero || item.bytes > left - sizeof(item)) {
		fail(reader);
		return NULL;
	}
	bytes = reader->at + sizeof(item);
	reader->at = bytes + item.bytes; /* bounded: by what is left, above */
	*ret_n = item.bytes;
	return item.bytes ? bytes : NULL;
}

uint64_t save_get(struct save_reader *reader, uint16_t tag, uint64_t max)
{
	uint64_t number = 0;
	const void *from;
	size_t n;

	from = save_get_bytes(reader, tag, &n);
	if (from && n == sizeof(number))
		memcpy(&number, from, n);
	if (n == sizeof(number) && number <= max)
		return number;
	fail(reader);
	return 0;
}

bool save_next_is(const struct save_reader *reader, uint16_t tag)
{
	struct item item;

	if (reader->r < 0 || (size_t)(reader->end - reader->at) < sizeof(item))
		return false;
	memcpy(&item, reader->at, sizeof(item));
	return item.tag == tag;
}

static void store(void *to, uint32_t size, uint64_t number)
{
	uint32_t word = (uint32_t)number;
	uint16_t half = (uint16_t)number;

	if (size == 1)
		*(uint8_t *)to = (uint8_t)number;
	else if (size == sizeof(half))
		memcpy(to, &half, sizeof(half));
	else if (size == sizeof(word))
		memcpy(to, &word, sizeof(word));
	else
		memcpy(to, &number, sizeof(number));
}

static uint64_t most_of(const struct save_field *field)
{
	uint64_t holds = field->size == 8 ? UINT64_MAX : (1ull << (8 * field->size)) - 1;

	return field->max < holds ? field->max : holds;
}

/* A field of its size, or a text that ends in it. */
static void get_array(struct save_reader *reader, const struct save_field *field, char *to)
{
	const void *from;
	size_t n;

	from = save_get_bytes(reader, field->tag, &n);
	memset(to, 0, field->size);
	if (reader->r < 0)
		return;
	if (field->type == FIELD_BYTES ? n != field->size : n >= field->size || (from && memchr(from, 0, n)))
		fail(reader);
	else if (from)
		memcpy(to, from, n);
}

void save_get_fields(struct save_reader *reader, const struct save_table *table, void *of)
{
	for (unsigned int i = 0; i < table->n; i++) {
		const struct save_field *field = &table->rows[i];
		char *to = (char *)of + field->offset; /* bounded: a table's */

		if (field->type == FIELD_NUMBER)
			store(to, field->size, save_get(reader, field->tag, most_of(field)));
		else
			get_array(reader, field, to);
	}
}

int save_reader_end(const struct save_reader *reader)
{
	if (reader->r < 0)
		return reader->r;
	return reader->at == reader->end ? 0 : -EBADMSG;
}
