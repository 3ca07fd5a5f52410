/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How plain structs and generated messages correspond: one table per message, read by the encoder, the decoder and
 * the formatter. Private to the proto room and its tests.
 */
#ifndef SHMEMD_PROTO_CODEC_TABLE_H
#define SHMEMD_PROTO_CODEC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/codec.h"

/* Type of the plain struct's field; comments name the type at .offset, and at .n_offset where there is one. */
enum field_type {
	FIELD_U32,	   /* uint32_t */
	FIELD_U64,	   /* uint64_t */
	FIELD_BOOL,	   /* bool */
	FIELD_ENUM,	   /* enum, within [min, max] */
	FIELD_TEXT,	   /* char[max], terminated */
	FIELD_BYTES_FIXED, /* uint8_t[max]: exactly max bytes */
	FIELD_BYTES,	   /* uint8_t[max], uint32_t: 0..max bytes */
	FIELD_BYTES_HEAP,  /* pointer to bytes, uint32_t: 0..max bytes; freed by msg_deinit */
	FIELD_U32_ARRAY,   /* uint32_t[max], unsigned int: how many */
	FIELD_U64_ARRAY,   /* uint64_t[max], all sent; missing ones are 0 */
	FIELD_MSG,	   /* struct; absent is all zero */
	FIELD_MSG_OPT,	   /* struct, bool: present */
	FIELD_MSG_ARRAY,   /* struct[max], unsigned int: how many */
	FIELD_MSG_HEAP,	   /* pointer to structs, unsigned int: how many, at most max; freed by msg_deinit */
};

/* Where the body of a struct msg starts: the union. */
#define MSG_BODY_OFFSET offsetof(struct msg, error_rep)

struct message;

struct field {
	unsigned int number; /* in the .proto */
	const char *name;    /* in the plain struct */
	enum field_type type;
	size_t offset;
	size_t n_offset;
	uint32_t min;
	uint32_t max;
	bool is_secret; /* never shown by msg_format */
	const struct message *sub;
};

struct message {
	const ProtobufCMessageDescriptor *generated;
	size_t plain_bytes;
	unsigned int n_fields; /* all of the generated message, in order of number */
	const struct field *fields;
};

struct message_kind {
	const char *name; /* "queue-create-req"; NULL: no such kind */
	const struct message *message;
};

extern const struct message_kind codec_kinds[MSG_KIND_MAX + 1];

const struct message_kind *codec_kind(unsigned int kind); /* NULL when unknown */

/*
 * The envelope as generated code wants it. `body` is set to the generated message of `kind`, or is NULL with kind 0
 * after decoding a body that this side does not know.
 */
struct codec_envelope {
	uint64_t id;
	uint32_t n_fds;
	unsigned int kind;
	ProtobufCMessage *body;
};

size_t codec_envelope_packed_bytes(const struct codec_envelope *envelope);
size_t codec_envelope_pack(const struct codec_envelope *envelope, uint8_t *buf);
int codec_envelope_unpack(const void *buf, size_t bytes, ProtobufCAllocator *allocator,
			  struct codec_envelope *ret_envelope); /* -EBADMSG */

#endif
