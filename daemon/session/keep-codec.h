/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that one process of shmemd writes for a later one of the same version, on the same machine.
 *
 * A sequence of items, each with its tag and its size: the reader asks for what the writer wrote, in the same order, and
 * anything else is an error. Numbers are 64 bits, whatever their field has. A struct is put and got by one table, so
 * that both know the same fields. The first error stays: callers check once, at the end. Pure.
 */
#ifndef SHMEMD_SESSION_KEEP_CODEC_H
#define SHMEMD_SESSION_KEEP_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keep_writer {
	uint8_t *buf; /* owned */
	size_t n, size;
	int r; /* 0, or -ENOMEM: nothing more is written */
};

struct keep_reader {
	const uint8_t *at, *end; /* borrowed */
	int r; /* 0, or -EBADMSG, -ENOMEM: nothing more is read */
};

enum keep_type {
	KEEP_NUMBER, /* unsigned, an enum or a bool, of 1, 2, 4 or 8 bytes */
	KEEP_TEXT, /* an array of char with a NUL in it; what follows that is not kept */
	KEEP_BYTES, /* all of an array */
};

/* One field of a struct. */
struct keep_field {
	uint16_t tag;
	uint16_t type; /* enum keep_type */
	uint32_t offset, size;
	uint64_t max; /* of a number */
};

#define KEEP_FIELD(tag_, type_, of, name, max_) \
	{.tag = (tag_), .type = (type_), .offset = offsetof(struct of, name), \
	 .size = sizeof(((struct of *)0)->name), .max = (max_)}
#define KEEP_N(tag, of, name) KEEP_FIELD(tag, KEEP_NUMBER, of, name, UINT64_MAX)
#define KEEP_BOOL(tag, of, name) KEEP_FIELD(tag, KEEP_NUMBER, of, name, 1)
#define KEEP_ENUM(tag, of, name, max) KEEP_FIELD(tag, KEEP_NUMBER, of, name, max)
#define KEEP_T(tag, of, name) KEEP_FIELD(tag, KEEP_TEXT, of, name, 0)
#define KEEP_B(tag, of, name) KEEP_FIELD(tag, KEEP_BYTES, of, name, 0)

#define KEEP_TABLE(name, ...) \
	static const struct keep_field name##_rows[] = {__VA_ARGS__}; \
	static const struct keep_table name = {name##_rows, sizeof(name##_rows) / sizeof(name##_rows[0])}

struct keep_table {
	const struct keep_field *rows;
	unsigned int n;
};

void keep_writer_deinit(struct keep_writer *writer);
void keep_put(struct keep_writer *writer, uint16_t tag, uint64_t number);
void keep_put_bytes(struct keep_writer *writer, uint16_t tag, const void *bytes, size_t n);
void keep_put_fields(struct keep_writer *writer, const struct keep_table *table, const void *of);

/* 0 after an error, and above max, which is one. */
uint64_t keep_get(struct keep_reader *reader, uint16_t tag, uint64_t max);
/* Where they are, in the reader's own bytes, and how many; NULL after an error, or none. */
const void *keep_get_bytes(struct keep_reader *reader, uint16_t tag, size_t *ret_n);
bool keep_next_is(const struct keep_reader *reader, uint16_t tag); /* an item of this tag comes next; false after an error */
void keep_get_fields(struct keep_reader *reader, const struct keep_table *table, void *of);
/* Everything was read: 0, or the first error. */
int keep_reader_end(const struct keep_reader *reader);

#endif
