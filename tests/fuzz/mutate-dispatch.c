/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How libFuzzer changes an input of fuzz-dispatch: by whole records, which are said again, left out, added as fresh
 * messages, or changed in one field; and at times by bytes, since hostile packets need not decode.
 *
 * Wrong counts of descriptors end a session at once, so that fresh and changed packets mostly name what they bring.
 */
#include <string.h>

#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/proto/sample.h"

#define HEAD_BYTES 4u
#define MAX_RECORDS 64u
#define SAY 0x88u /* a packet, and its reply is taken */

struct input {
	uint8_t *data;
	size_t bytes, max_bytes;
	uint64_t seed;
	unsigned int n;
	size_t starts[MAX_RECORDS + 1]; /* the last one is the end */
};

static uint32_t below(struct input *in, size_t limit)
{
	return limit ? (uint32_t)(sample_random(&in->seed) % limit) : 0;
}

static void find_records(struct input *in)
{
	size_t at = 0;

	for (in->n = 0; in->n < MAX_RECORDS && in->bytes - at >= HEAD_BYTES; in->n++) {
		size_t length = (size_t)in->data[at + 2] | (size_t)in->data[at + 3] << 8;

		in->starts[in->n] = at;
		at += HEAD_BYTES;
		at += length < in->bytes - at ? length : in->bytes - at;
	}
	in->starts[in->n] = at;
}

static bool insert(struct input *in, size_t at, const void *bytes, size_t n)
{
	if (in->bytes + n > in->max_bytes)
		return false;
	memmove(in->data + at + n, in->data + at, in->bytes - at);
	memcpy(in->data + at, bytes, n);
	in->bytes += n;
	return true;
}

static void cut(struct input *in, unsigned int which)
{
	size_t from = in->starts[which], to = in->starts[which + 1];

	memmove(in->data + from, in->data + to, in->bytes - to);
	in->bytes -= to - from;
}

static bool repeat(struct input *in, unsigned int which)
{
	static uint8_t copy[HEAD_BYTES + UINT16_MAX];
	size_t n = in->starts[which + 1] - in->starts[which];

	memcpy(copy, in->data + in->starts[which], n);
	return insert(in, in->starts[below(in, in->n + 1)], copy, n);
}

/* ---- messages ----------------------------------------------------------------------------------------------------- */

/* Small ones are handles and indexes, the others try limits. */
static uint64_t new_number(struct input *in)
{
	switch (below(in, 4)) {
	case 0: return sample_random(&in->seed);
	case 1: return UINT64_C(1) << below(in, 64);
	default: return below(in, 9);
	}
}

static void change_body(struct input *in, const struct message *message, char *plain);

static void change_field(struct input *in, const struct field *field, char *plain)
{
	char *at = plain + field->offset;
	unsigned int n = 1;

	switch (field->type) {
	case FIELD_U32: *(uint32_t *)at = (uint32_t)new_number(in); break;
	case FIELD_U64: *(uint64_t *)at = new_number(in); break;
	case FIELD_BOOL: *(bool *)at ^= true; break;
	case FIELD_ENUM: *(uint32_t *)at = field->min + below(in, field->max - field->min + 1); break;
	case FIELD_MSG_OPT: *(bool *)(plain + field->n_offset) = true; break;
	case FIELD_MSG_ARRAY:
	case FIELD_MSG_HEAP: n = *(unsigned int *)(plain + field->n_offset); break;
	default: break;
	}
	if (!field->sub || !n)
		return;
	if (field->type == FIELD_MSG_HEAP)
		at = *(char **)at;
	change_body(in, field->sub, at + below(in, n) * field->sub->plain_bytes);
}

static void change_body(struct input *in, const struct message *message, char *plain)
{
	if (message->n_fields)
		change_field(in, &message->fields[below(in, message->n_fields)], plain);
}

/* The descriptors that most messages of this kind need. */
static uint8_t fds_for(struct input *in, struct msg *msg)
{
	bool one = (msg->kind == MSG_MEM_REG_REQ && msg->mem_reg_req.kind < MSG_MEM_AGENT) ||
		   (msg->kind == MSG_QUEUE_CREATE_REQ && msg->queue_create_req.mem_kind != MSG_MEM_UNSET) ||
		   (msg->kind == MSG_PUBLISH_REQ && msg->publish_req.has_fd);

	msg->n_fds = one;
	return one ? (uint8_t)(below(in, 2) ? 1 : 0x40 | below(in, 0x20)) : 0;
}

/* In place of the record `which`, or before it. */
static bool say(struct input *in, struct msg *msg, unsigned int which, bool in_place)
{
	static uint8_t record[HEAD_BYTES + FRAMING_MAX_PACKET_BYTES];
	int n;

	record[0] = (uint8_t)(SAY | below(in, 2));
	record[1] = fds_for(in, msg);
	msg->id = 1 + below(in, 100);
	n = msg_encode(msg, record + HEAD_BYTES, FRAMING_MAX_PACKET_BYTES);
	if (n < 0 || n > UINT16_MAX)
		return false;
	record[2] = (uint8_t)n;
	record[3] = (uint8_t)(n >> 8);
	if (in_place) {
		record[0] = in->data[in->starts[which]];
		cut(in, which);
	}
	return insert(in, in->starts[which], record, HEAD_BYTES + (size_t)n);
}

static bool change(struct input *in, unsigned int which)
{
	size_t at = in->starts[which] + HEAD_BYTES;
	struct msg msg;
	bool done;

	if (msg_decode(in->data + at, in->starts[which + 1] - at, &msg) != 0)
		return false;
	change_body(in, codec_kind(msg.kind)->message, (char *)&msg + MSG_BODY_OFFSET);
	done = say(in, &msg, which, below(in, 2));
	msg_deinit(&msg);
	return done;
}

static bool add_fresh(struct input *in, unsigned int which)
{
	unsigned int kind = below(in, MSG_KIND_MAX + 1);
	struct msg msg;
	bool done;

	if (!codec_kind(kind) || !strstr(msg_kind_name(kind), "-req"))
		return false;
	sample_init(&msg, kind, 0, below(in, 2) ? SAMPLE_MIN : SAMPLE_RANDOM, sample_random(&in->seed));
	done = say(in, &msg, which, false);
	msg_deinit(&msg);
	return done;
}

static bool change_head(struct input *in, unsigned int which)
{
	in->data[in->starts[which] + below(in, 2)] = (uint8_t)sample_random(&in->seed);
	return true;
}

static bool mutate(struct input *in)
{
	unsigned int which = below(in, in->n);

	switch (below(in, 8)) {
	case 0:
	case 1: return repeat(in, which);
	case 2: cut(in, which); return true;
	case 3: return change_head(in, which);
	case 4: return add_fresh(in, which);
	case 5:
	case 6: return change(in, which);
	default: return false;
	}
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned int seed)
{
	struct input in = {.data = data, .bytes = bytes, .max_bytes = max_bytes, .seed = seed};

	find_records(&in);
	if (in.n == 0 || in.bytes > max_bytes || !mutate(&in) || in.bytes == 0)
		return LLVMFuzzerMutate(data, in.bytes ? in.bytes : bytes, max_bytes);
	return in.bytes;
}
