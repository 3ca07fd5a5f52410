/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer of shmemctl; see json.h. Writes only the types of values that shmemctl prints. */
#include "libclient/ctl/json.h"

#include <inttypes.h>
#include <string.h>

#include "proto/base/unicode.h"

#define REPLACEMENT "\\ufffd"

void json_init(struct json *json, FILE *out)
{
	json->out = out;
	json->needs_comma = false;
}

void json_end(struct json *json)
{
	fputc('\n', json->out);
	json->needs_comma = false;
}

unsigned int json_utf8_bytes(const char *text)
{
	uint32_t code;

	return *text ? unicode_decode(text, strnlen(text, 4), &code) : 1;
}

bool json_is_hidden(const char *text)
{
	uint32_t code;

	return unicode_decode(text, strnlen(text, 4), &code) && (unicode_is_control(code) || unicode_is_hidden(code));
}

/* Keeps the character for programs, in a form that a terminal does not act on. */
static void put_escaped(FILE *out, const char *text)
{
	uint32_t code = 0;

	unicode_decode(text, strnlen(text, 4), &code);
	if (code > 0xffff)
		fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
	else
		fprintf(out, "\\u%04x", code);
}

static void put_ascii(FILE *out, unsigned char c)
{
	switch (c) {
	case '"':
		fputs("\\\"", out);
		break;
	case '\\':
		fputs("\\\\", out);
		break;
	case '\n':
		fputs("\\n", out);
		break;
	case '\t':
		fputs("\\t", out);
		break;
	default:
		if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
}

static void put_string(FILE *out, const char *value)
{
	fputc('"', out);
	while (*value) {
		unsigned int n = json_utf8_bytes(value);

		if (n == 1)
			put_ascii(out, (unsigned char)*value);
		else if (n && json_is_hidden(value))
			put_escaped(out, value);
		else if (n)
			fwrite(value, 1, n, out);
		else
			fputs(REPLACEMENT, out);
		value += n ? n : 1;
	}
	fputc('"', out);
}

/* The text before a value: comma and key. */
static void put_head(struct json *json, const char *key)
{
	if (json->needs_comma)
		fputc(',', json->out);
	if (key) {
		put_string(json->out, key);
		fputc(':', json->out);
	}
	json->needs_comma = true;
}

static void put_begin(struct json *json, const char *key, char bracket)
{
	put_head(json, key);
	fputc(bracket, json->out);
	json->needs_comma = false;
}

static void put_end(struct json *json, char bracket)
{
	fputc(bracket, json->out);
	json->needs_comma = true;
}

void json_begin_object(struct json *json, const char *key)
{
	put_begin(json, key, '{');
}

void json_end_object(struct json *json)
{
	put_end(json, '}');
}

void json_begin_array(struct json *json, const char *key)
{
	put_begin(json, key, '[');
}

void json_end_array(struct json *json)
{
	put_end(json, ']');
}

void json_string(struct json *json, const char *key, const char *value)
{
	put_head(json, key);
	put_string(json->out, value);
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
	put_head(json, key);
	fprintf(json->out, "%" PRIu64, value);
}

void json_int(struct json *json, const char *key, int64_t value)
{
	put_head(json, key);
	fprintf(json->out, "%" PRId64, value);
}

void json_bool(struct json *json, const char *key, bool value)
{
	put_head(json, key);
	fputs(value ? "true" : "false", json->out);
}

void json_rate(struct json *json, const char *key, double value)
{
	put_head(json, key);
	fprintf(json->out, "%.1f", value);
}

void json_hex(struct json *json, const char *key, uint64_t value)
{
	put_head(json, key);
	fprintf(json->out, "\"0x%" PRIx64 "\"", value);
}

void json_seconds(struct json *json, const char *key, uint64_t nsec)
{
	put_head(json, key);
	fprintf(json->out, "%" PRIu64 ".%09" PRIu64, nsec / 1000000000, nsec % 1000000000);
}
