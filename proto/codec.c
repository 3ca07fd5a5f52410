/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a message: init, deinit, names of kinds. Arrays that decoding allocated are released here, and only here.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/codec-table.h"
#include "proto/codec.h"

void msg_init(struct msg *msg, enum msg_kind kind, uint64_t id)
{
	memset(msg, 0, sizeof(*msg));
	msg->kind = kind;
	msg->id = id;
}

/* Heap arrays stand at the top level of a body only; test-codec-table sees to it. */
void msg_deinit(struct msg *msg)
{
	const struct message_kind *kind = msg ? codec_kind(msg->kind) : NULL;

	if (!kind)
		return;
	for (unsigned int i = 0; i < kind->message->n_fields; i++) {
		const struct field *field = &kind->message->fields[i];
		char *body = (char *)msg + MSG_BODY_OFFSET;

		if (field->type != FIELD_MSG_HEAP && field->type != FIELD_BYTES_HEAP)
			continue;
		free(*(void **)(body + field->offset));
		*(void **)(body + field->offset) = NULL;
		*(unsigned int *)(body + field->n_offset) = 0;
	}
}

const char *msg_kind_name(unsigned int kind)
{
	const struct message_kind *known = codec_kind(kind);

	return known ? known->name : "unknown";
}
