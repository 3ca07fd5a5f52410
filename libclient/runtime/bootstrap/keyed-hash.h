/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 with 16 bytes of output (Aumasson and Bernstein, 2012): a proof that its maker knows the key. Pure; any thread. */
#ifndef SHMD_RUNTIME_KEYED_HASH_H
#define SHMD_RUNTIME_KEYED_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYED_HASH_BYTES 16

void keyed_hash(const uint8_t key[16], const void *data, size_t bytes, uint8_t ret[KEYED_HASH_BYTES]);
/* In a time that does not depend on the bytes. */
bool keyed_hash_equal(const uint8_t a[KEYED_HASH_BYTES], const uint8_t b[KEYED_HASH_BYTES]);

#endif
