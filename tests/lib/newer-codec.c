/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer of a later version: every message it sends carries, at every depth, fields that this version does not know.
 *
 * Linked with -Wl,--wrap=msg_encode into a daemon or a library. Fields are added as far as the packet has room.
 */
#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/codec.h"
#include "proto/shmemd.pb-c.h"

int __real_msg_encode(const struct msg *msg, void *buf, size_t size);
int __wrap_msg_encode(const struct msg *msg, void *buf, size_t size);

/* Not the test's asserts: this runs in daemons too. */
static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* One of each wire type. */
static const ProtobufCMessageUnknownField news[] = {
	{.tag = 1900, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 2, .data = (uint8_t *)"\xac\x02"},
	{.tag = 1901, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = 6, .data = (uint8_t *)"\x05newer"},
	{.tag = 1902, .wire_type = PROTOBUF_C_WIRE_TYPE_64BIT, .len = 8, .data = (uint8_t *)"12345678"},
	{.tag = 1903, .wire_type = PROTOBUF_C_WIRE_TYPE_32BIT, .len = 4, .data = (uint8_t *)"1234"},
};
#define N_NEWS (sizeof(news) / sizeof(news[0]))

static void add_news(ProtobufCMessage *message)
{
	message->unknown_fields = must(malloc(sizeof(news)));
	memcpy(message->unknown_fields, news, sizeof(news));
	message->n_unknown_fields = N_NEWS;
	for (unsigned int i = 0; i < N_NEWS; i++) {
		message->unknown_fields[i].data = must(malloc(news[i].len));
		memcpy(message->unknown_fields[i].data, news[i].data, news[i].len);
	}
}

static void add_news_everywhere(ProtobufCMessage *message);

static void add_news_below(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	char *at = (char *)message + field->offset;
	const void *quantifier = (const char *)message + field->quantifier_offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		for (size_t i = 0; i < *(const size_t *)quantifier; i++)
			add_news_everywhere((*(ProtobufCMessage ***)at)[i]);
		return;
	}
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *(const uint32_t *)quantifier != field->id)
		return;
	if (*(ProtobufCMessage **)at)
		add_news_everywhere(*(ProtobufCMessage **)at);
}

static void add_news_everywhere(ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;

	for (unsigned int i = 0; i < descriptor->n_fields; i++)
		if (descriptor->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
			add_news_below(message, &descriptor->fields[i]);
	add_news(message);
}

int __wrap_msg_encode(const struct msg *msg, void *buf, size_t size)
{
	int bytes = __real_msg_encode(msg, buf, size);
	Shmemd__Envelope *envelope;

	if (bytes < 0)
		return bytes;
	envelope = must(shmemd__envelope__unpack(NULL, (size_t)bytes, buf));
	add_news_everywhere(&envelope->base);
	if (shmemd__envelope__get_packed_size(envelope) <= size)
		bytes = (int)shmemd__envelope__pack(envelope, buf);
	shmemd__envelope__free_unpacked(envelope, NULL);
	return bytes;
}
