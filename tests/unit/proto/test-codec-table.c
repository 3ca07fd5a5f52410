/* SPDX-License-Identifier: Apache-2.0 */
/* The tables agree with the generated code in every field of every message. */
#include <string.h>

#include "proto/codec-table.h"
#include "proto/shmemd.pb-c.h"
#include "tests/lib/test.h"

static ProtobufCType expected_type(enum field_type type)
{
	switch (type) {
	case FIELD_U32:
	case FIELD_U32_ARRAY:
		return PROTOBUF_C_TYPE_UINT32;
	case FIELD_U64:
	case FIELD_U64_ARRAY:
		return PROTOBUF_C_TYPE_UINT64;
	case FIELD_BOOL:
		return PROTOBUF_C_TYPE_BOOL;
	case FIELD_ENUM:
		return PROTOBUF_C_TYPE_ENUM;
	case FIELD_TEXT:
		return PROTOBUF_C_TYPE_STRING;
	case FIELD_BYTES:
	case FIELD_BYTES_HEAP:
	case FIELD_BYTES_FIXED:
		return PROTOBUF_C_TYPE_BYTES;
	case FIELD_MSG:
	case FIELD_MSG_OPT:
	case FIELD_MSG_ARRAY:
	case FIELD_MSG_HEAP:
		return PROTOBUF_C_TYPE_MESSAGE;
	}
	return (ProtobufCType)-1;
}

static bool is_array(enum field_type type)
{
	return type == FIELD_U32_ARRAY || type == FIELD_U64_ARRAY || type == FIELD_MSG_ARRAY ||
	       type == FIELD_MSG_HEAP;
}

/* "specs.cqs" is "cqs"; one plain struct serves both handles, so its field has a name of its own. */
static bool is_same_name(const char *plain, const char *generated)
{
	const char *dot = strrchr(plain, '.');

	if (!strcmp(plain, "handle"))
		return !strcmp(generated, "mr") || !strcmp(generated, "queues");
	return !strcmp(dot ? dot + 1 : plain, generated);
}

static void check_field(const struct field *field, const ProtobufCFieldDescriptor *generated)
{
	ASSERT_EQ(field->number, generated->id);
	ASSERT(is_same_name(field->name, generated->name));
	ASSERT_EQ(expected_type(field->type), generated->type);
	ASSERT_EQ(is_array(field->type), generated->label == PROTOBUF_C_LABEL_REPEATED);
	if (field->sub)
		ASSERT_EQ(field->sub->generated, (const ProtobufCMessageDescriptor *)generated->descriptor);
}

static void check_enum(const struct field *field, const ProtobufCEnumDescriptor *generated)
{
	for (uint32_t value = field->min; value <= field->max; value++)
		ASSERT_NE(protobuf_c_enum_descriptor_get_value(generated, (int)value), NULL);
	ASSERT_EQ(protobuf_c_enum_descriptor_get_value(generated, (int)field->max + 1), NULL);
}

static void check_message(const struct message *message, bool is_top)
{
	ASSERT_EQ(message->n_fields, message->generated->n_fields);
	for (unsigned int i = 0; i < message->n_fields; i++) {
		const struct field *field = &message->fields[i];
		const ProtobufCFieldDescriptor *generated = &message->generated->fields[i];

		check_field(field, generated);
		if (field->type == FIELD_ENUM)
			check_enum(field, generated->descriptor);
		if (field->type == FIELD_MSG_HEAP || field->type == FIELD_BYTES_HEAP)
			ASSERT(is_top); /* msg_deinit looks no deeper */
		if (field->sub)
			check_message(field->sub, false);
	}
}

TEST(every_field_has_the_number_name_and_type_of_the_proto)
{
	unsigned int n_kinds = 0;

	for (unsigned int kind = 0; kind <= MSG_KIND_MAX; kind++) {
		if (!codec_kind(kind))
			continue;
		n_kinds++;
		check_message(codec_kind(kind)->message, true);
	}
	/* Envelope: id, n_fds and the bodies. */
	ASSERT_EQ(n_kinds + 2, shmemd__envelope__descriptor.n_fields);
}

TEST(every_kind_is_the_body_of_its_number)
{
	const ProtobufCMessageDescriptor *envelope = &shmemd__envelope__descriptor;

	for (unsigned int i = 0; i < envelope->n_fields; i++) {
		const ProtobufCFieldDescriptor *body = &envelope->fields[i];
		const struct message_kind *kind = codec_kind(body->id);
		char name[64];

		if (body->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		ASSERT_NE(kind, NULL);
		ASSERT_EQ(kind->message->generated, (const ProtobufCMessageDescriptor *)body->descriptor);
		strcpy(name, body->name);
		for (char *p = name; *p; p++)
			if (*p == '_')
				*p = '-';
		ASSERT_STREQ(msg_kind_name(body->id), name);
	}
}

TEST(unknown_kinds_have_a_name_too)
{
	ASSERT_STREQ(msg_kind_name(0), "unknown");
	ASSERT_STREQ(msg_kind_name(19), "unknown");
	ASSERT_STREQ(msg_kind_name(MSG_KIND_MAX + 1), "unknown");
	ASSERT_STREQ(msg_kind_name(UINT32_MAX), "unknown");
	ASSERT_EQ(codec_kind(UINT32_MAX), NULL);
}

/* Two fields of a message never share plain bytes, or one would overwrite the other unseen. */
TEST(plain_fields_do_not_overlap)
{
	for (unsigned int kind = 0; kind <= MSG_KIND_MAX; kind++) {
		const struct message *message = codec_kind(kind) ? codec_kind(kind)->message : NULL;

		for (unsigned int i = 0; message && i < message->n_fields; i++) {
			for (unsigned int j = 0; j < i; j++)
				ASSERT_NE(message->fields[i].offset, message->fields[j].offset);
			ASSERT_LT(message->fields[i].offset, message->plain_bytes);
		}
	}
}
