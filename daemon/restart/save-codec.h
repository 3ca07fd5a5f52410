/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that one process of shmemd writes for a later one of the same version, on the same machine.
 *
 * A sequence of items, each with its tag and its size: the reader asks for what the writer wrote, in the same order, and
 * anything else is an error. Numbers are 64 bits, whatever their field has. A struct is put and got by one table, so
 * that both know the same fields. The first error stays: callers check once, at the end. Pure.
 */
#ifndef SHMEMD_RESTART_SAVE_CODEC_H
#define SHMEMD_RESTART_SAVE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct save_writer {
	uint8_t *buf; /* owned */
	size_t n, size;
	int r; /* 0, or -ENOMEM: nothing more is written */
};

struct save_reader {
	const uint8_t *at, *end; /* borrowed */
	int r; /* 0, or -EBADMSG, -ENOMEM: nothing more is read */
};

enum save_type {
	FIELD_NUMBER, /* unsigned, an enum or a bool, of 1, 2, 4 or 8 bytes */
	FIELD_TEXT, /* an array of char with a NUL in it; what follows that is not saved */
	FIELD_BYTES, /* all of an array */
};

/* One field of a struct. */
struct save_field {
	uint16_t tag;
	uint16_t type; /* enum save_type */
	uint32_t offset, size;
	uint64_t max; /* of a number */
};

#define FIELD(tag_, type_, of, name, max_) \
	{.tag = (tag_), .type = (type_), .offset = offsetof(struct of, name), \
	 .size = sizeof(((struct of *)0)->name), .max = (max_)}
#define FIELD_N(tag, of, name) FIELD(tag, FIELD_NUMBER, of, name, UINT64_MAX)
#define FIELD_BOOL(tag, of, name) FIELD(tag, FIELD_NUMBER, of, name, 1)
#define FIELD_ENUM(tag, of, name, max) FIELD(tag, FIELD_NUMBER, of, name, max)
#define FIELD_T(tag, of, name) FIELD(tag, FIELD_TEXT, of, name, 0)
#define FIELD_B(tag, of, name) FIELD(tag, FIELD_BYTES, of, name, 0)

#define FIELD_TABLE(name, ...) \
	static const struct save_field name##_rows[] = {__VA_ARGS__}; \
	static const struct save_table name = {name##_rows, sizeof(name##_rows) / sizeof(name##_rows[0])}

struct save_table {
	const struct save_field *rows;
	unsigned int n;
};

void save_writer_deinit(struct save_writer *writer);
void save_put(struct save_writer *writer, uint16_t tag, uint64_t number);
void save_put_bytes(struct save_writer *writer, uint16_t tag, const void *bytes, size_t n);
void save_put_fields(struct save_writer *writer, const struct save_table *table, const void *of);

/* 0 after an error, and above max, which is one. */
uint64_t save_get(struct save_reader *reader, uint16_t tag, uint64_t max);
/* Where they are, in the reader's own bytes, and how many; NULL after an error, or none. */
const void *save_get_bytes(struct save_reader *reader, uint16_t tag, size_t *ret_n);
bool save_next_is(const struct save_reader *reader, uint16_t tag); /* an item of this tag comes next; false after an error */
void save_get_fields(struct save_reader *reader, const struct save_table *table, void *of);
/* Everything was read: 0, or the first error. */
int save_reader_end(const struct save_reader *reader);

#endif
