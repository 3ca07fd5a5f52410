/* SPDX-License-Identifier: Apache-2.0 */
/* Fills and compares plain structs by the tables of proto/codec-table.c. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/codec-table.h"
#include "tests/unit/proto/sample.h"

struct filler {
	enum sample_fill fill;
	uint64_t seed;
	unsigned int only_heap; /* of the heap arrays of a list reply, the one to fill */
	bool is_list;
};

static void fill_message(struct filler *f, const struct message *message, char *plain);

uint64_t sample_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Numbers of all magnitudes: varints of every length. */
static uint64_t number(struct filler *f)
{
	uint64_t x;

	if (f->fill != SAMPLE_RANDOM)
		return f->fill == SAMPLE_MAX ? UINT64_MAX : 0;
	x = sample_random(&f->seed);
	return x >> (sample_random(&f->seed) % 64);
}

static uint32_t below(struct filler *f, uint32_t limit)
{
	return (uint32_t)(sample_random(&f->seed) % limit);
}

static uint32_t count(struct filler *f, const struct field *field)
{
	if (f->fill != SAMPLE_RANDOM)
		return f->fill == SAMPLE_MAX ? field->max : 0;
	return below(f, field->max < 4 ? field->max + 1 : 4);
}

/* A reader takes more sessions than a sender sends: so many full ones do not fit a packet. */
static uint32_t count_heap(struct filler *f, const struct field *field)
{
	uint32_t n = count(f, field);

	return strcmp(field->name, "sessions") == 0 && n > MSG_FULL_SESSION_ITEMS ? MSG_FULL_SESSION_ITEMS : n;
}

static void fill_text(struct filler *f, const struct field *field, char *text)
{
	size_t bytes = f->fill == SAMPLE_MAX ? field->max - 1 : 0;

	if (f->fill == SAMPLE_RANDOM)
		bytes = below(f, 20);
	for (size_t i = 0; i < bytes; i++)
		text[i] = (char)('a' + i % 26);
	if (bytes >= 4 && f->fill == SAMPLE_RANDOM)
		memcpy(text, "\xc3\xa9", 2); /* e acute */
}

static void fill_bytes(struct filler *f, uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)number(f);
}

static void fill_numbers(struct filler *f, const struct field *field, char *at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (field->type == FIELD_U32_ARRAY)
			((uint32_t *)at)[i] = (uint32_t)number(f);
		else
			((uint64_t *)at)[i] = number(f);
	}
}

static void fill_elements(struct filler *f, const struct field *field, char *elements, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fill_message(f, field->sub, elements + i * field->sub->plain_bytes);
}

static void fill_heap(struct filler *f, const struct field *field, char *at, uint32_t n)
{
	char *elements = calloc(n, field->sub->plain_bytes);

	assert_bug(elements);
	*(void **)at = elements;
	fill_elements(f, field, elements, n);
}

static void fill_bytes_heap(struct filler *f, char *at, uint32_t n)
{
	uint8_t *bytes = n ? malloc(n) : NULL;

	assert_bug(bytes || !n);
	*(void **)at = bytes;
	fill_bytes(f, bytes, n);
}

static void fill_field(struct filler *f, const struct field *field, char *plain)
{
	char *at = plain + field->offset;
	uint32_t *n = (uint32_t *)(plain + field->n_offset);

	switch (field->type) {
	case FIELD_U32:
		*(uint32_t *)at = (uint32_t)number(f);
		break;
	case FIELD_U64:
		*(uint64_t *)at = number(f);
		break;
	case FIELD_BOOL:
		*(bool *)at = number(f) & 1;
		break;
	case FIELD_ENUM:
		*(uint32_t *)at = f->fill == SAMPLE_MAX ? field->max : field->min;
		if (f->fill == SAMPLE_RANDOM)
			*(uint32_t *)at = field->min + below(f, field->max - field->min + 1);
		break;
	case FIELD_TEXT:
		fill_text(f, field, at);
		break;
	case FIELD_BYTES_FIXED:
		fill_bytes(f, (uint8_t *)at, field->max);
		break;
	case FIELD_BYTES:
		*n = count(f, field);
		fill_bytes(f, (uint8_t *)at, *n);
		break;
	case FIELD_BYTES_HEAP:
		*n = count(f, field);
		fill_bytes_heap(f, at, *n);
		break;
	case FIELD_U32_ARRAY:
		*n = count(f, field);
		fill_numbers(f, field, at, *n);
		break;
	case FIELD_U64_ARRAY:
		fill_numbers(f, field, at, field->max);
		break;
	case FIELD_MSG_OPT:
		*(bool *)(plain + field->n_offset) = number(f) & 1;
		if (*(bool *)(plain + field->n_offset))
			fill_message(f, field->sub, at);
		break;
	case FIELD_MSG:
		fill_message(f, field->sub, at);
		break;
	case FIELD_MSG_ARRAY:
		*n = count(f, field);
		fill_elements(f, field, at, *n);
		break;
	case FIELD_MSG_HEAP:
		if (f->is_list && f->only_heap-- != 0)
			break;
		*n = count_heap(f, field);
		if (*n)
			fill_heap(f, field, at, *n);
		break;
	}
}

static void fill_message(struct filler *f, const struct message *message, char *plain)
{
	for (unsigned int i = 0; i < message->n_fields; i++)
		fill_field(f, &message->fields[i], plain);
}

unsigned int sample_n_variants(enum msg_kind kind)
{
	return kind == MSG_LIST_REP ? 4 : 1;
}

void sample_init(struct msg *msg, enum msg_kind kind, unsigned int variant, enum sample_fill fill,
		 uint64_t seed)
{
	struct filler f = {
		.fill = fill,
		.seed = seed,
		.only_heap = variant,
		.is_list = kind == MSG_LIST_REP,
	};

	msg_init(msg, kind, number(&f));
	if (fill != SAMPLE_MIN)
		msg->n_fds = fill == SAMPLE_MAX ? 16 : below(&f, 17);
	fill_message(&f, codec_kind(kind)->message, (char *)msg + MSG_BODY_OFFSET);
}

/* ---- comparison -------------------------------------------------------------------------------------------- */

static bool message_is_equal(const struct message *message, const char *a, const char *b);

static bool elements_are_equal(const struct message *sub, const char *a, const char *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!message_is_equal(sub, a + i * sub->plain_bytes, b + i * sub->plain_bytes))
			return false;
	return true;
}

static bool field_is_equal(const struct field *field, const char *plain_a, const char *plain_b)
{
	const char *a = plain_a + field->offset, *b = plain_b + field->offset;
	uint32_t n = *(const uint32_t *)(plain_a + field->n_offset);
	uint32_t n_b = *(const uint32_t *)(plain_b + field->n_offset);

	switch (field->type) {
	case FIELD_U32:
	case FIELD_ENUM:
		return !memcmp(a, b, 4);
	case FIELD_U64:
		return !memcmp(a, b, 8);
	case FIELD_BOOL:
		return *(const bool *)a == *(const bool *)b;
	case FIELD_TEXT:
		return !strcmp(a, b);
	case FIELD_BYTES_FIXED:
		return !memcmp(a, b, field->max);
	case FIELD_BYTES:
		return n == n_b && !memcmp(a, b, n);
	case FIELD_BYTES_HEAP:
		return n == n_b && (!n || !memcmp(*(const char *const *)a, *(const char *const *)b, n));
	case FIELD_U32_ARRAY:
		return n == n_b && !memcmp(a, b, n * 4);
	case FIELD_U64_ARRAY:
		return !memcmp(a, b, field->max * 8);
	case FIELD_MSG_OPT:
		if (*(const bool *)(plain_a + field->n_offset) !=
		    *(const bool *)(plain_b + field->n_offset))
			return false;
		return message_is_equal(field->sub, a, b);
	case FIELD_MSG:
		return message_is_equal(field->sub, a, b);
	case FIELD_MSG_ARRAY:
		return n == n_b && elements_are_equal(field->sub, a, b, n);
	case FIELD_MSG_HEAP:
		return n == n_b && elements_are_equal(field->sub, *(const char *const *)a,
						      *(const char *const *)b, n);
	}
	return false;
}

static bool message_is_equal(const struct message *message, const char *a, const char *b)
{
	for (unsigned int i = 0; i < message->n_fields; i++)
		if (!field_is_equal(&message->fields[i], a, b))
			return false;
	return true;
}

bool sample_is_equal(const struct msg *a, const struct msg *b)
{
	const struct message_kind *kind = codec_kind(a->kind);

	if (a->id != b->id || a->n_fds != b->n_fds || a->kind != b->kind || !kind)
		return false;
	return message_is_equal(kind->message, (const char *)a + MSG_BODY_OFFSET,
				(const char *)b + MSG_BODY_OFFSET);
}
