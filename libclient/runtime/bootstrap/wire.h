/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two ranks begin a connection: three messages of fixed size.
 *
 *	listener	challenge: a fresh number
 *	connector	hello: rank, size, version, a number of its own, and a proof: the keyed hash of challenge and hello
 *	listener	reply: welcome or a sentence, and a proof over both numbers and the reply
 *
 * The secret is the key of the proofs and does not travel. Bytes from outside are hostile: a hello counts once its proof is right,
 * and then still has its numbers checked. Numbers are little-endian. Pure; any thread.
 */
#ifndef SHMD_RUNTIME_WIRE_H
#define SHMD_RUNTIME_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/runtime/bootstrap/uid.h"

#define WIRE_VERSION 1
#define WIRE_CHALLENGE_BYTES 24
#define WIRE_HELLO_BYTES 128
#define WIRE_REPLY_BYTES 384
#define WIRE_NONCE_BYTES 16
#define WIRE_VERSION_BYTES 16
#define WIRE_TEXT_BYTES 320
#define WIRE_MOST_RANKS (1 << 20)

enum wire_purpose {
	WIRE_JOIN = 1, /* to rank 0: who is my parent? */
	WIRE_LINK = 2, /* to the parent: I am your child */
	WIRE_MEND = 3, /* to another rank of an open job: my parent is gone, be mine */
};

struct wire_hello {
	uint32_t purpose;
	uint32_t rank;
	uint32_t size;
	uint32_t place; /* WIRE_LINK, WIRE_MEND: in the tree, as rank 0 said */
	uint16_t port;	/* WIRE_JOIN: where ranks come to that are or become this rank's children */
	char version[WIRE_VERSION_BYTES];
	uint8_t instance[WIRE_NONCE_BYTES]; /* of this process's call: the same in all its tries */
	uint8_t nonce[WIRE_NONCE_BYTES];
};

struct wire_reply {
	int32_t error; /* 0: welcome; else a negative errno, and text */
	uint32_t place;
	uint32_t parent; /* its rank; 0: this connection is the link */
	union address address; /* of the parent; 0.0.0.0: rank 0's machine, at the address by which this rank has reached it */
	char text[WIRE_TEXT_BYTES];
};

void wire_challenge(const uint8_t nonce[WIRE_NONCE_BYTES], uint8_t bytes[WIRE_CHALLENGE_BYTES]);
int wire_challenge_read(const uint8_t bytes[WIRE_CHALLENGE_BYTES], uint8_t ret_nonce[WIRE_NONCE_BYTES]); /* -EPROTO */

void wire_hello(const struct wire_hello *hello, const uint8_t *secret, const uint8_t *challenge, uint8_t bytes[WIRE_HELLO_BYTES]);
/* -EPROTO: other bytes or another layout; -EACCES: the proof is wrong; -EINVAL: numbers out of range. */
int wire_hello_read(const uint8_t bytes[WIRE_HELLO_BYTES], const uint8_t *secret, const uint8_t *challenge, struct wire_hello *ret);

void wire_reply(const struct wire_reply *reply, const uint8_t *secret, const uint8_t *challenge, const uint8_t *hello_nonce,
		uint8_t bytes[WIRE_REPLY_BYTES]);
int wire_reply_read(const uint8_t bytes[WIRE_REPLY_BYTES], const uint8_t *secret, const uint8_t *challenge,
		    const uint8_t *hello_nonce, struct wire_reply *ret);

#endif
