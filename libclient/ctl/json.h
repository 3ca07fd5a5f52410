/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small JSON writer: one document on one line.
 *
 * The writer places commas and quotes; the caller pairs begin and end. `key` is NULL inside arrays and for
 * the outermost value. Strings may hold any bytes: forbidden characters are escaped, and bytes that are not UTF-8 become U+FFFD.
 */
#ifndef SHMEMD_CTL_JSON_H
#define SHMEMD_CTL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool needs_comma;
};

void json_init(struct json *json, FILE *out);
void json_end(struct json *json); /* the newline behind the document */

void json_begin_object(struct json *json, const char *key);
void json_end_object(struct json *json);
void json_begin_array(struct json *json, const char *key);
void json_end_array(struct json *json);

void json_string(struct json *json, const char *key, const char *value);
void json_uint(struct json *json, const char *key, uint64_t value);
void json_int(struct json *json, const char *key, int64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_rate(struct json *json, const char *key, double value); /* one decimal */
void json_hex(struct json *json, const char *key, uint64_t value); /* a string: readers round large numbers */
void json_seconds(struct json *json, const char *key, uint64_t nsec); /* nine decimals */

/* Bytes of the UTF-8 character at s (which is terminated), or 0 if there is none. */
unsigned int json_utf8_bytes(const char *s);
bool json_is_hidden(const char *s); /* a control or hidden character (proto/base/unicode.h), which a terminal must not show */

#endif
