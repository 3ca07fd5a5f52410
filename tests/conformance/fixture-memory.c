/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory with a copy of what it must contain. Both begin as the same pattern; tests apply the
 * effects they expect to the copy, and the whole range is compared, so that a byte written outside its target
 * is seen like a wrong one inside.
 */
#include "tests/conformance/conf.h"

#include <stdlib.h>
#include <string.h>

uint64_t conf_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void conf_pattern(void *buf, size_t bytes, uint64_t seed)
{
	uint64_t state = seed * 0x2545f4914f6cdd1dull;
	uint8_t *p = buf;

	for (; bytes >= 8; bytes -= 8, p += 8) {
		uint64_t word = conf_random(&state);

		memcpy(p, &word, 8);
	}
	if (bytes) {
		uint64_t word = conf_random(&state);

		memcpy(p, &word, bytes);
	}
}

void conf_mem_open(struct conf_side *side, struct conf_mem *mem, size_t bytes, uint32_t access)
{
	static uint64_t seed;

	memset(mem, 0, sizeof(*mem));
	ASSERT_OK(shmd_mem_alloc(side->client, bytes, &mem->mem));
	mem->addr = shmd_mem_addr(mem->mem);
	mem->bytes = shmd_mem_bytes(mem->mem);
	ASSERT_GE(mem->bytes, bytes);
	ASSERT_OK(shmd_mr_reg_mem(side->nic, mem->mem, access, &mem->mr));
	mem->lkey_be = shmd_mr_lkey_be(mem->mr);
	mem->rkey_be = shmd_mr_rkey_be(mem->mr);
	mem->want = malloc(mem->bytes);
	ASSERT(mem->want);
	conf_pattern(mem->want, mem->bytes, ++seed);
	memcpy(mem->addr, mem->want, mem->bytes);
}

void conf_mem_close(struct conf_mem *mem)
{
	if (mem->mr)
		ASSERT_OK(shmd_mr_dereg(mem->mr));
	shmd_mem_free(mem->mem);
	free(mem->want);
	memset(mem, 0, sizeof(*mem));
}

void conf_want_bytes(struct conf_mem *to, size_t off, const void *data, size_t bytes)
{
	ASSERT_LE(off + bytes, to->bytes);
	memcpy(to->want + off, data, bytes);
}

void conf_want_copy(struct conf_mem *to, size_t to_off, const struct conf_mem *from,
		    size_t from_off, size_t bytes)
{
	ASSERT_LE(from_off + bytes, from->bytes);
	ASSERT_LE(to_off + bytes, to->bytes);
	memmove(to->want + to_off, from->want + from_off, bytes);
}

void conf_check_mem_at(const char *where, const struct conf_mem *mem, const char *name)
{
	size_t first = 0, last = mem->bytes;

	if (!mem->addr || memcmp(mem->addr, mem->want, mem->bytes) == 0)
		return;
	while (mem->addr[first] == mem->want[first])
		first++;
	while (mem->addr[last - 1] == mem->want[last - 1])
		last--;
	test_fail(where,
		  "memory of the %s differs from byte %zu to %zu of %zu: 0x%02x, must be 0x%02x",
		  name, first, last - 1, mem->bytes, mem->addr[first], mem->want[first]);
}
