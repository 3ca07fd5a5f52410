/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet to plain structs, by the tables of codec-table.c. The bytes are hostile.
 *
 * Form only: known kind, sizes of byte fields, counts, enum ranges, clean strings. protobuf-c allocates from a bounded
 * arena; plain arrays are allocated after their count was checked. Unknown fields are ignored. Any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/arena.h"
#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "proto/text.h"

static int decode_message(const struct message *message, const ProtobufCMessage *generated,
			  void *plain);

/* One field: where it is in both worlds. */
struct place {
	const struct field *field;
	void *plain;
	void *plain_n; /* count, size or presence */
	const void *generated;
	size_t generated_n;
};

static int decode_enum(const struct place *at)
{
	uint32_t value = *(const uint32_t *)at->generated;

	if (value < at->field->min || value > at->field->max)
		return -EBADMSG;
	*(uint32_t *)at->plain = value;
	return 0;
}

/* The arena knows how long the string was on the wire: a NUL inside it makes the two lengths differ. */
static int decode_text(const struct place *at)
{
	const char *text = *(const char *const *)at->generated;
	size_t bytes;

	if (!text || text == protobuf_c_empty_string)
		return 0;
	bytes = arena_size_of(text) - 1;
	if (bytes >= at->field->max)
		return -EMSGSIZE;
	if (!text_is_legal(text, bytes))
		return -EBADMSG;
	memcpy(at->plain, text, bytes + 1);
	/* Older peers send what is hidden. */
	text_clean(at->plain, bytes);
	return 0;
}

static int decode_bytes(const struct place *at)
{
	const ProtobufCBinaryData *data = at->generated;

	if (data->len > at->field->max)
		return -EMSGSIZE;
	if (at->field->type == FIELD_BYTES_FIXED && data->len != at->field->max)
		return -EBADMSG;
	if (data->len)
		memcpy(at->plain, data->data, data->len);
	if (at->field->type == FIELD_BYTES)
		*(uint32_t *)at->plain_n = (uint32_t)data->len;
	return 0;
}

static int decode_bytes_heap(const struct place *at)
{
	const ProtobufCBinaryData *data = at->generated;
	uint8_t *copy;

	if (data->len > at->field->max)
		return -EMSGSIZE;
	if (!data->len)
		return 0;
	copy = malloc(data->len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, data->data, data->len);
	*(uint8_t **)at->plain = copy; /* the message's from now on */
	*(uint32_t *)at->plain_n = (uint32_t)data->len;
	return 0;
}

static int decode_numbers(const struct place *at, size_t element_bytes)
{
	if (at->generated_n > at->field->max)
		return -EMSGSIZE;
	if (at->generated_n)
		memcpy(at->plain, *(const void *const *)at->generated,
		       at->generated_n * element_bytes);
	if (at->field->type == FIELD_U32_ARRAY)
		*(unsigned int *)at->plain_n = (unsigned int)at->generated_n;
	return 0;
}

static int decode_optional(const struct place *at, bool *ret_present)
{
	const ProtobufCMessage *generated = *(const ProtobufCMessage *const *)at->generated;
	int r;

	if (!generated)
		return 0;
	r = decode_message(at->field->sub, generated, at->plain);
	if (r < 0)
		return r;
	*ret_present = true;
	return 0;
}

static int decode_elements(const struct place *at, char *elements)
{
	const ProtobufCMessage *const *array =
		*(const ProtobufCMessage *const *const *)at->generated;
	const struct message *sub = at->field->sub;

	for (size_t i = 0; i < at->generated_n; i++) {
		int r = decode_message(sub, array[i], elements + i * sub->plain_bytes);

		if (r < 0)
			return r;
	}
	return 0;
}

static int decode_array(const struct place *at)
{
	char *elements = at->plain;
	int r;

	if (at->generated_n > at->field->max)
		return -EMSGSIZE;
	if (at->field->type == FIELD_MSG_HEAP) {
		if (!at->generated_n)
			return 0;
		elements = calloc(at->generated_n, at->field->sub->plain_bytes);
		if (!elements)
			return -ENOMEM;
		*(void **)at->plain = elements; /* the message's from now on */
	}
	*(unsigned int *)at->plain_n = (unsigned int)at->generated_n;
	r = decode_elements(at, elements);
#ifdef FUZZ_PLANT
	if (PLANTED("decode") && r < 0 && at->field->type == FIELD_MSG_HEAP && at->generated_n > 2)
		*(void **)at->plain = NULL;
#endif
	return r;
}

static int decode_field(const struct place *at)
{
	bool is_present;

	switch (at->field->type) {
	case FIELD_U32:
		*(uint32_t *)at->plain = *(const uint32_t *)at->generated;
		return 0;
	case FIELD_U64:
		*(uint64_t *)at->plain = *(const uint64_t *)at->generated;
		return 0;
	case FIELD_BOOL:
		*(bool *)at->plain = *(const protobuf_c_boolean *)at->generated;
		return 0;
	case FIELD_ENUM:
		return decode_enum(at);
	case FIELD_TEXT:
		return decode_text(at);
	case FIELD_BYTES_FIXED:
	case FIELD_BYTES:
		return decode_bytes(at);
	case FIELD_BYTES_HEAP:
		return decode_bytes_heap(at);
	case FIELD_U32_ARRAY:
		return decode_numbers(at, sizeof(uint32_t));
	case FIELD_U64_ARRAY:
		return decode_numbers(at, sizeof(uint64_t));
	case FIELD_MSG:
		return decode_optional(at, &is_present);
	case FIELD_MSG_OPT:
		return decode_optional(at, at->plain_n);
	case FIELD_MSG_ARRAY:
	case FIELD_MSG_HEAP:
		return decode_array(at);
	}
	return -EBADMSG;
}

/* plain is all zero. After an error it may hold part of the message; what it owns is released by msg_deinit. */
static int decode_message(const struct message *message, const ProtobufCMessage *generated,
			  void *plain)
{
	const ProtobufCMessageDescriptor *descriptor = message->generated;

	for (unsigned int i = 0; i < message->n_fields; i++) {
		const struct field *field = &message->fields[i];
		const ProtobufCFieldDescriptor *from = &descriptor->fields[i];
		struct place at = {
			.field = field,
			.plain = (char *)plain + field->offset,
			.plain_n = (char *)plain + field->n_offset,
			.generated = (const char *)generated + from->offset,
		};
		int r;

		if (from->label == PROTOBUF_C_LABEL_REPEATED)
			at.generated_n = *(const size_t *)((const char *)generated +
							   from->quantifier_offset);
		r = decode_field(&at);
		if (r < 0)
			return r;
	}
	return 0;
}

static int decode_in(struct arena *arena, const void *buf, size_t bytes, struct msg *ret_msg)
{
	struct codec_envelope envelope;
	const struct message_kind *kind;
	int r;

	if (codec_envelope_unpack(buf, bytes, &arena->allocator, &envelope) < 0)
		return arena->error ? arena->error : -EBADMSG;
	if (envelope.n_fds > FRAMING_MAX_FDS)
		return -EBADMSG;
	kind = codec_kind(envelope.kind);
	msg_init(ret_msg, kind ? (enum msg_kind)envelope.kind : 0, envelope.id);
	ret_msg->n_fds = envelope.n_fds;
	if (!kind || !envelope.body)
		return -ENOSYS;

	r = decode_message(kind->message, envelope.body, (char *)ret_msg + MSG_BODY_OFFSET);
	if (r < 0)
		msg_deinit(ret_msg);
	return r;
}

int msg_decode(const void *buf, size_t bytes, struct msg *ret_msg)
{
	struct arena arena;
	struct msg msg;
	int r;

	if (bytes > FRAMING_MAX_PACKET_BYTES)
		return -EMSGSIZE;
	if (!bytes)
		return -EBADMSG;
	arena_init(&arena);
	r = decode_in(&arena, buf, bytes, &msg);
	arena_deinit(&arena);
	if (r == 0 || r == -ENOSYS)
		*ret_msg = msg;
	return r;
}
