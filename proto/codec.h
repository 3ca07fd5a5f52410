/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as plain structs, and the only code that touches protobuf-c's types.
 *
 * codec-tables.py makes the structs from shmemd.proto: NicOpenReq is struct msg_nic_open_req, with the same fields. Values of
 * enum msg_kind are the field numbers of Envelope.body.
 *
 * Strings are fixed arrays, always terminated; encoding refuses nothing that fits, decoding refuses what does
 * not (-EMSGSIZE). On the wire they are UTF-8 without control characters: encoding puts '?' for what may not
 * stand, decoding refuses it. Arrays are owned by the message and released by msg_deinit. Decoding checks form
 * (known kind, sizes of byte fields, counts, enum ranges of the .proto, without 0 where an enum here has none)
 * and leaves meaning to the handlers.
 */
#ifndef SHMEMD_PROTO_CODEC_H
#define SHMEMD_PROTO_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MSG_TEXT_BYTES 256
#define MSG_NAME_BYTES 64
#define MSG_MEM_REASON_BYTES 112 /* a full list of regions, each with one, fits a packet */
#define MSG_REASON_BYTES 96 /* in lists, whose replies are long */
#define MSG_PE_REASON_BYTES 96
#define MSG_CGROUP_BYTES 256
#define MSG_ADDR_BYTES 64
#define MSG_AV_BYTES 48
#define MSG_DATA_BYTES 256
#define MSG_WORLD_BYTES 16
#define MSG_WQE_KINDS 8
#define MSG_MAX_NICS 64
#define MSG_MAX_GIDS 16
#define MSG_MAX_SPECS 8
#define MSG_MAX_QPS 256   /* per request */
#define MSG_MAX_CQS 512   /* per request */
#define MSG_MAX_PEERS 512 /* per request */
#define MSG_MAX_SESSION_ITEMS 48 /* per list reply, as the next ones: read from daemons whose items were shorter ... */
#define MSG_FULL_SESSION_ITEMS 37 /* ... and so many are sent; a full reply always fits a packet */
#define MSG_MAX_QP_ITEMS 256
#define MSG_MAX_MR_ITEMS 256
#define MSG_MAX_UNDRIVEN 32
#define MSG_MAX_PE_ITEMS 64
#define MSG_MAX_PE_WAYS 8
#define MSG_MAX_PE_RUNS 32
#define MSG_MAX_PATH_ITEMS 128
#define MSG_DUMP_BYTES 16384

#define MSG_ATOMICS_TOLD 0x80000000u /* in msg_nic.atomics; missing: of a daemon that does not tell */

/* enum msg_kind, the other enums, a struct for each message of shmemd.proto, and struct msg, which has one of them. */
#include "proto/codec-messages.h"

void msg_init(struct msg *msg, enum msg_kind kind, uint64_t id); /* all zero but these */
void msg_deinit(struct msg *msg); /* frees arrays; may be called twice */

/*
 * Returns the bytes written; -EMSGSIZE when buf is too small; -EINVAL for a count or size above its limit, an enum
 * out of range or an unterminated string; -ENOMEM, only for messages with arrays. A message within the limits fits
 * FRAMING_MAX_PACKET_BYTES.
 */
int msg_encode(const struct msg *msg, void *buf, size_t size);

/*
 * 0 and *ret_msg (caller calls msg_deinit); -EBADMSG malformed; -ENOSYS a body this side does not know (id and
 * n_fds of *ret_msg are valid then); -EMSGSIZE a string, bytes field or array above its limit; -ENOMEM.
 */
int msg_decode(const void *buf, size_t bytes, struct msg *ret_msg);

const char *msg_kind_name(unsigned int kind); /* "queue-create-req"; "unknown" */

/*
 * One line of text for SHMEMD_DEBUG=proto, cut to the buffer; secrets (worlds, keys, addresses, published data) are
 * not shown. Returns its length; -EINVAL for size 0.
 */
int msg_format(const struct msg *msg, char *buf, size_t size);

#endif
