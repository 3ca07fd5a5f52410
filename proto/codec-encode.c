/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain structs to a packet, by the tables of codec-table.c.
 *
 * Generated messages live in an arena for the call; strings and byte arrays are not copied, they point into the plain
 * struct. Counts and sizes above the limits and enums out of range are the caller's mistake: -EINVAL. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "proto/arena.h"
#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "proto/text.h"

static int encode_message(struct arena *arena, const struct message *message, const void *plain,
			  ProtobufCMessage **ret_generated);

/* One field: where it is in both worlds. */
struct place {
	const struct field *field;
	const void *plain;
	const void *plain_n; /* count, size or presence */
	void *generated;
	size_t *generated_n;
};

static uint32_t get_u32(const void *p)
{
	return *(const uint32_t *)p;
}

static int encode_enum(const struct place *at)
{
	uint32_t value = get_u32(at->plain);

	if (value < at->field->min || value > at->field->max)
		return -EINVAL;
	*(uint32_t *)at->generated = value;
	return 0;
}

/* Text that may not stand on the wire (a command name holds any byte) is sent with '?' in its place. */
static int encode_text(struct arena *arena, const struct place *at)
{
	const char *text = at->plain;
	size_t bytes = strnlen(text, at->field->max);
	char *copy = (char *)text; /* protobuf-c only reads it */

	if (bytes == at->field->max)
		return -EINVAL;
	if (!text_is_clean(text, bytes)) {
		copy = arena_alloc(arena, bytes + 1);
		if (!copy)
			return arena->error;
		memcpy(copy, text, bytes + 1);
		text_clean(copy, bytes);
	}
	*(char **)at->generated = copy;
	return 0;
}

static int encode_bytes(const struct place *at, const void *data, size_t bytes)
{
	if (bytes > at->field->max || (bytes && !data))
		return -EINVAL;
	*(ProtobufCBinaryData *)at->generated =
		(ProtobufCBinaryData){.len = bytes, .data = (uint8_t *)data};
	return 0;
}

static int encode_numbers(const struct place *at, size_t n)
{
	if (n > at->field->max)
		return -EINVAL;
	*at->generated_n = n;
	*(const void **)at->generated = at->plain;
	return 0;
}

/* Zeros at the end need not travel: the decoder has them already. */
static size_t n_to_last_used(const uint64_t *values, size_t n)
{
	while (n && !values[n - 1])
		n--;
	return n;
}

static int encode_array(struct arena *arena, const struct place *at, const char *elements)
{
	const struct message *sub = at->field->sub;
	unsigned int n = get_u32(at->plain_n);
	ProtobufCMessage **array;

	if (n > at->field->max || (n && !elements))
		return -EINVAL;
	if (!n)
		return 0;
	array = arena_alloc(arena, n * sizeof(*array)); /* n is at most field->max */
	if (!array)
		return arena->error;
	for (unsigned int i = 0; i < n; i++) {
		int r = encode_message(arena, sub, elements + i * sub->plain_bytes, &array[i]);

		if (r < 0)
			return r;
	}
	*at->generated_n = n;
	*(ProtobufCMessage ***)at->generated = array;
	return 0;
}

static int encode_field(struct arena *arena, const struct place *at)
{
	switch (at->field->type) {
	case FIELD_U32:
		*(uint32_t *)at->generated = get_u32(at->plain);
		return 0;
	case FIELD_U64:
		*(uint64_t *)at->generated = *(const uint64_t *)at->plain;
		return 0;
	case FIELD_BOOL:
		*(protobuf_c_boolean *)at->generated = *(const bool *)at->plain;
		return 0;
	case FIELD_ENUM:
		return encode_enum(at);
	case FIELD_TEXT:
		return encode_text(arena, at);
	case FIELD_BYTES_FIXED:
		return encode_bytes(at, at->plain, at->field->max);
	case FIELD_BYTES:
		return encode_bytes(at, at->plain, get_u32(at->plain_n));
	case FIELD_BYTES_HEAP:
		return encode_bytes(at, *(const void *const *)at->plain, get_u32(at->plain_n));
	case FIELD_U32_ARRAY:
		return encode_numbers(at, get_u32(at->plain_n));
	case FIELD_U64_ARRAY:
		return encode_numbers(at, n_to_last_used(at->plain, at->field->max));
	case FIELD_MSG:
		return encode_message(arena, at->field->sub, at->plain, at->generated);
	case FIELD_MSG_OPT:
		if (!*(const bool *)at->plain_n)
			return 0;
		return encode_message(arena, at->field->sub, at->plain, at->generated);
	case FIELD_MSG_ARRAY:
		return encode_array(arena, at, at->plain);
	case FIELD_MSG_HEAP:
		return encode_array(arena, at, *(const char *const *)at->plain);
	}
	return -EINVAL;
}

static int encode_message(struct arena *arena, const struct message *message, const void *plain,
			  ProtobufCMessage **ret_generated)
{
	const ProtobufCMessageDescriptor *descriptor = message->generated;
	char *generated = arena_alloc(arena, descriptor->sizeof_message);

	if (!generated)
		return arena->error;
	descriptor->message_init((ProtobufCMessage *)generated);
	for (unsigned int i = 0; i < message->n_fields; i++) {
		const struct field *field = &message->fields[i];
		const ProtobufCFieldDescriptor *to = &descriptor->fields[i];
		struct place at = {
			.field = field,
			.plain = (const char *)plain + field->offset,
			.plain_n = (const char *)plain + field->n_offset,
			.generated = generated + to->offset,
			.generated_n = (size_t *)(generated + to->quantifier_offset),
		};
		int r = encode_field(arena, &at);

		if (r < 0)
			return r;
	}
	*ret_generated = (ProtobufCMessage *)generated;
	return 0;
}

static int encode_in(struct arena *arena, const struct msg *msg, void *buf, size_t size)
{
	const struct message_kind *kind = codec_kind(msg->kind);
	struct codec_envelope envelope = {.id = msg->id, .n_fds = msg->n_fds, .kind = msg->kind};
	size_t bytes;
	int r;

	if (!kind || msg->n_fds > FRAMING_MAX_FDS)
		return -EINVAL;
	r = encode_message(arena, kind->message, (const char *)msg + MSG_BODY_OFFSET,
			   &envelope.body);
	if (r < 0)
		return r;
	bytes = codec_envelope_packed_bytes(&envelope);
	if (bytes > size || bytes > FRAMING_MAX_PACKET_BYTES)
		return -EMSGSIZE;
	return (int)codec_envelope_pack(&envelope, buf);
}

int msg_encode(const struct msg *msg, void *buf, size_t size)
{
	struct arena arena;
	int r;

	arena_init(&arena);
	r = encode_in(&arena, msg, buf, size);
	arena_deinit(&arena);
	return r;
}
