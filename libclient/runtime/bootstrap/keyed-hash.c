/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/keyed-hash.h"

#include <endian.h>
#include <string.h>

struct lanes {
	uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t load(const uint8_t *bytes)
{
	uint64_t x;

	memcpy(&x, bytes, sizeof(x));
	return le64toh(x);
}

static void store(uint8_t *bytes, uint64_t x)
{
	x = htole64(x);
	memcpy(bytes, &x, sizeof(x));
}

static void rounds(struct lanes *v, int n)
{
	while (n--) {
		v->a += v->b;
		v->c += v->d;
		v->b = rotate(v->b, 13) ^ v->a;
		v->d = rotate(v->d, 16) ^ v->c;
		v->a = rotate(v->a, 32);
		v->c += v->b;
		v->a += v->d;
		v->b = rotate(v->b, 17) ^ v->c;
		v->d = rotate(v->d, 21) ^ v->a;
		v->c = rotate(v->c, 32);
	}
}

static void mix(struct lanes *v, uint64_t word)
{
	v->d ^= word;
	rounds(v, 2);
	v->a ^= word;
}

static uint64_t squeeze(struct lanes *v)
{
	rounds(v, 4);
	return v->a ^ v->b ^ v->c ^ v->d;
}

void keyed_hash(const uint8_t key[16], const void *data, size_t bytes, uint8_t ret[KEYED_HASH_BYTES])
{
	uint64_t low = load(key), high = load(key + 8);
	struct lanes v = {low ^ UINT64_C(0x736f6d6570736575), high ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
			  low ^ UINT64_C(0x6c7967656e657261), high ^ UINT64_C(0x7465646279746573)};
	const uint8_t *at = data;
	uint8_t last[8] = {0};
	size_t left = bytes;

	for (; left >= 8; left -= 8, at += 8)
		mix(&v, load(at));
	if (left)
		memcpy(last, at, left);
	last[7] = (uint8_t)bytes;
	mix(&v, load(last));
	v.c ^= 0xee;
	store(ret, squeeze(&v));
	v.b ^= 0xdd;
	store(ret + 8, squeeze(&v));
}

bool keyed_hash_equal(const uint8_t a[KEYED_HASH_BYTES], const uint8_t b[KEYED_HASH_BYTES])
{
	unsigned int different = 0;

	for (int i = 0; i < KEYED_HASH_BYTES; i++)
		different |= (unsigned int)(a[i] ^ b[i]);
	return !different;
}
