/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of 32 bits in the messages of a bootstrap. */
#ifndef SHMD_BOOTSTRAP_LITTLE_ENDIAN_H
#define SHMD_BOOTSTRAP_LITTLE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void put32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static inline uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

#endif
