/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_UNIT_NIC_RECORD_SEAL_H
#define SHMD_TESTS_UNIT_NIC_RECORD_SEAL_H

/* As any writer of records can: length and sum by their description, not by the code under test. */

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RECORD_HEAD_BYTES 12u
#define RECORD_SUM_BYTES 8u

static inline void record_say_length(uint8_t *data, size_t bytes)
{
	uint32_t total = htole32((uint32_t)bytes);

	memcpy(data + 8, &total, sizeof(total));
}

static inline void record_seal(uint8_t *data, size_t bytes)
{
	uint64_t sum = 0x2545f4914f6cdd1du ^ (bytes - RECORD_SUM_BYTES);

	for (size_t at = 0; at < bytes - RECORD_SUM_BYTES; at += 8) {
		size_t left = bytes - RECORD_SUM_BYTES - at;
		uint64_t word = 0;

		memcpy(&word, data + at, left < 8 ? left : 8);
		sum = (sum ^ le64toh(word)) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 29;
	}
	sum = htole64(sum);
	memcpy(data + bytes - RECORD_SUM_BYTES, &sum, sizeof(sum));
}

#endif
