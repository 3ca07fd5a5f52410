/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "libclient/runtime/bootstrap/keyed-hash.h"
#include "libclient/runtime/bootstrap/little-endian.h"

#define HELLO_PROVED (WIRE_HELLO_BYTES - KEYED_HASH_BYTES)
#define REPLY_PROVED (WIRE_REPLY_BYTES - KEYED_HASH_BYTES)
#define REPLY_TEXT 48

_Static_assert(REPLY_TEXT + WIRE_TEXT_BYTES == REPLY_PROVED, "the text fills a reply");

void wire_challenge(const uint8_t nonce[WIRE_NONCE_BYTES], uint8_t bytes[WIRE_CHALLENGE_BYTES])
{
	memcpy(bytes, "SHMc", 4);
	put32(bytes + 4, WIRE_VERSION);
	memcpy(bytes + 8, nonce, WIRE_NONCE_BYTES);
}

int wire_challenge_read(const uint8_t bytes[WIRE_CHALLENGE_BYTES], uint8_t ret_nonce[WIRE_NONCE_BYTES])
{
	if (memcmp(bytes, "SHMc", 4) || get32(bytes + 4) != WIRE_VERSION)
		return -EPROTO;
	memcpy(ret_nonce, bytes + 8, WIRE_NONCE_BYTES);
	return 0;
}

/* A letter in front keeps the proofs of both sides apart. */
static void prove_hello(const uint8_t *bytes, const uint8_t *secret, const uint8_t *challenge, uint8_t *ret)
{
	uint8_t text[1 + WIRE_NONCE_BYTES + HELLO_PROVED] = {'h'};

	memcpy(text + 1, challenge, WIRE_NONCE_BYTES);
	memcpy(text + 1 + WIRE_NONCE_BYTES, bytes, HELLO_PROVED);
	keyed_hash(secret, text, sizeof(text), ret);
}

static void prove_reply(const uint8_t *bytes, const uint8_t *secret, const uint8_t *challenge, const uint8_t *nonce, uint8_t *ret)
{
	uint8_t text[1 + 2 * WIRE_NONCE_BYTES + REPLY_PROVED] = {'r'};

	memcpy(text + 1, challenge, WIRE_NONCE_BYTES);
	memcpy(text + 1 + WIRE_NONCE_BYTES, nonce, WIRE_NONCE_BYTES);
	memcpy(text + 1 + 2 * WIRE_NONCE_BYTES, bytes, REPLY_PROVED);
	keyed_hash(secret, text, sizeof(text), ret);
}

void wire_hello(const struct wire_hello *hello, const uint8_t *secret, const uint8_t *challenge, uint8_t bytes[WIRE_HELLO_BYTES])
{
	memset(bytes, 0, WIRE_HELLO_BYTES);
	memcpy(bytes, "SHMh", 4);
	put32(bytes + 4, WIRE_VERSION);
	put32(bytes + 8, hello->purpose);
	put32(bytes + 12, hello->rank);
	put32(bytes + 16, hello->size);
	put32(bytes + 20, hello->place);
	put32(bytes + 24, hello->port);
	memcpy(bytes + 32, hello->version, WIRE_VERSION_BYTES);
	memcpy(bytes + 48, hello->instance, WIRE_NONCE_BYTES);
	memcpy(bytes + 64, hello->nonce, WIRE_NONCE_BYTES);
	prove_hello(bytes, secret, challenge, bytes + HELLO_PROVED);
}

static bool is_text(const char *text, size_t bytes)
{
	size_t n = strnlen(text, bytes);

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return n < bytes;
}

int wire_hello_read(const uint8_t bytes[WIRE_HELLO_BYTES], const uint8_t *secret, const uint8_t *challenge, struct wire_hello *ret)
{
	struct wire_hello hello = {.purpose = get32(bytes + 8), .rank = get32(bytes + 12), .size = get32(bytes + 16),
				   .place = get32(bytes + 20), .port = (uint16_t)get32(bytes + 24)};
	uint8_t proof[KEYED_HASH_BYTES];

	if (memcmp(bytes, "SHMh", 4) || get32(bytes + 4) != WIRE_VERSION)
		return -EPROTO;
	prove_hello(bytes, secret, challenge, proof);
	if (!keyed_hash_equal(proof, bytes + HELLO_PROVED))
		return -EACCES;
	memcpy(hello.version, bytes + 32, WIRE_VERSION_BYTES);
	memcpy(hello.instance, bytes + 48, WIRE_NONCE_BYTES);
	memcpy(hello.nonce, bytes + 64, WIRE_NONCE_BYTES);
	if (hello.purpose < WIRE_JOIN || hello.purpose > WIRE_MEND || hello.size < 1 || hello.size > WIRE_MOST_RANKS ||
	    hello.rank >= hello.size || hello.place >= hello.size || !is_text(hello.version, WIRE_VERSION_BYTES))
		return -EINVAL;
	*ret = hello;
	return 0;
}

void wire_reply(const struct wire_reply *reply, const uint8_t *secret, const uint8_t *challenge, const uint8_t *hello_nonce,
		uint8_t bytes[WIRE_REPLY_BYTES])
{
	memset(bytes, 0, WIRE_REPLY_BYTES);
	memcpy(bytes, "SHMr", 4);
	put32(bytes + 4, WIRE_VERSION);
	put32(bytes + 8, (uint32_t)reply->error);
	put32(bytes + 12, reply->place);
	put32(bytes + 16, reply->parent);
	put32(bytes + 20, address_port(&reply->address));
	uid_pack_address(&reply->address, bytes + 24);
	memcpy(bytes + REPLY_TEXT, reply->text, strnlen(reply->text, WIRE_TEXT_BYTES - 1));
	prove_reply(bytes, secret, challenge, hello_nonce, bytes + REPLY_PROVED);
}

int wire_reply_read(const uint8_t bytes[WIRE_REPLY_BYTES], const uint8_t *secret, const uint8_t *challenge,
		    const uint8_t *hello_nonce, struct wire_reply *ret)
{
	struct wire_reply reply = {.error = (int32_t)get32(bytes + 8), .place = get32(bytes + 12), .parent = get32(bytes + 16)};
	uint8_t proof[KEYED_HASH_BYTES];

	if (memcmp(bytes, "SHMr", 4) || get32(bytes + 4) != WIRE_VERSION)
		return -EPROTO;
	prove_reply(bytes, secret, challenge, hello_nonce, proof);
	if (!keyed_hash_equal(proof, bytes + REPLY_PROVED))
		return -EACCES;
	memcpy(reply.text, bytes + REPLY_TEXT, WIRE_TEXT_BYTES);
	if (reply.error > 0 || reply.error < -4095 || !is_text(reply.text, WIRE_TEXT_BYTES) ||
	    uid_unpack_address(bytes + 24, (uint16_t)get32(bytes + 20), &reply.address))
		return -EINVAL;
	*ret = reply;
	return 0;
}
