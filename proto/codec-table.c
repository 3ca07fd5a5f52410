/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables, which codec-tables.py makes from shmemd.proto, and the only include of protobuf-c's generated code.
 *
 * Encoder, decoder and formatter follow the tables, so they cannot disagree. Read-only data, any thread.
 */
#include <errno.h>

#include "proto/codec-table.h"
#include "proto/shmemd.pb-c.h"
#include "proto/codec-tables.h"

/* Members that the tables call numbers of 4 bytes. */
_Static_assert(sizeof(enum msg_kind) == 4 && sizeof(unsigned int) == 4, "uint32_t");

const struct message_kind *codec_kind(unsigned int kind)
{
	if (kind > MSG_KIND_MAX || !codec_kinds[kind].name)
		return NULL;
	return &codec_kinds[kind];
}

static Shmemd__Envelope to_generated(const struct codec_envelope *envelope)
{
	Shmemd__Envelope generated = SHMEMD__ENVELOPE__INIT;

	generated.id = envelope->id;
	generated.n_fds = envelope->n_fds;
	generated.body_case = (Shmemd__Envelope__BodyCase)envelope->kind;
	generated.ok_rep =
		(Shmemd__OkRep *)envelope->body; /* all bodies are one union of pointers */
	return generated;
}

size_t codec_envelope_packed_bytes(const struct codec_envelope *envelope)
{
	Shmemd__Envelope generated = to_generated(envelope);

	return shmemd__envelope__get_packed_size(&generated);
}

size_t codec_envelope_pack(const struct codec_envelope *envelope, uint8_t *buf)
{
	Shmemd__Envelope generated = to_generated(envelope);

	return shmemd__envelope__pack(&generated, buf);
}

int codec_envelope_unpack(const void *buf, size_t bytes, ProtobufCAllocator *allocator,
			  struct codec_envelope *ret_envelope)
{
	Shmemd__Envelope *generated = shmemd__envelope__unpack(allocator, bytes, buf);

	if (!generated)
		return -EBADMSG;
	*ret_envelope = (struct codec_envelope){
		.id = generated->id,
		.n_fds = generated->n_fds,
		.kind = generated->body_case,
		.body = generated->ok_rep ? &generated->ok_rep->base : NULL,
	};
	return 0;
}
