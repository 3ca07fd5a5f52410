/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory with a copy of what it must contain. Both begin as the same pattern; tests apply the
 * effects they expect to the copy, and the whole range is compared, so that a byte written outside its target
 * is seen like a wrong one inside.
 *
 * With SHMEMD_TEST_MEMORY=gpu it is memory of a GPU of tests/lib/fake-cuda.h, which the library's memory agent reaches for the NIC: the tests
 * look at it as at any other, and the NIC cannot.
 */
#include "tests/conformance/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake-cuda.h"

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

/* ---- where it lies -------------------------------------------------------------------------------------------- */

int cuMemAlloc_v2(uint64_t *addr, size_t bytes);
int cuMemFree_v2(uint64_t addr);

bool conf_memory_is_gpu(void)
{
	const char *memory = getenv("SHMEMD_TEST_MEMORY");

	return memory && !strcmp(memory, "gpu");
}

static void on_host(struct conf_side *side, struct conf_mem *mem, size_t bytes, uint32_t access)
{
	ASSERT_OK(shmd_mem_alloc(side->client, bytes, &mem->mem));
	mem->addr = shmd_mem_addr(mem->mem);
	mem->bytes = shmd_mem_bytes(mem->mem);
	ASSERT_GE(mem->bytes, bytes);
	ASSERT_OK(shmd_mr_reg_mem(side->nic, mem->mem, access, &mem->mr));
}

static struct shmd_mr *reg_on_gpu(struct conf_side *side, const struct conf_mem *mem, const struct shmd_mr_attr *part)
{
	const struct shmd_gpu_mr_attr attr = {.addr = (uintptr_t)mem->addr + part->offset,
					      .length_bytes = part->length_bytes,
					      .iova = part->iova,
					      .access = part->access,
					      .mode = SHMD_GPU_MEM_AGENT};
	struct shmd_mr *mr;

	if (shmd_gpu_mr_reg(mem->gpu, side->nic, &attr, &mr) < 0)
		test_fail(TEST_WHERE, "shmd_gpu_mr_reg: %s", shmd_error_text());
	return mr;
}

/* Two GPUs in turn; the library's calls leave this thread's context as it is. */
static void on_gpu(struct conf_side *side, struct conf_mem *mem, size_t bytes, uint32_t access)
{
	static int gpu;
	uint64_t addr;

	gpu = !gpu;
	ASSERT_OK(shmd_gpu_open(side->client, gpu, &mem->gpu));
	fake_cuda_set_current(gpu);
	ASSERT_EQ(cuMemAlloc_v2(&addr, bytes), 0);
	fake_cuda_set_current(-1);
	mem->addr = (uint8_t *)(uintptr_t)addr;
	mem->bytes = bytes;
	mem->mr = reg_on_gpu(side, mem, &(struct shmd_mr_attr){.length_bytes = bytes, .access = access});
}

static void free_on_gpu(struct conf_mem *mem)
{
	struct shmd_gpu_info info;

	ASSERT_OK(shmd_gpu_info(mem->gpu, &info));
	fake_cuda_set_current(info.ordinal);
	ASSERT_EQ(cuMemFree_v2((uintptr_t)mem->addr), 0);
	fake_cuda_set_current(-1);
	ASSERT_OK(shmd_gpu_close(mem->gpu));
}

/* ---- opening and closing --------------------------------------------------------------------------------------- */

void conf_mem_open(struct conf_side *side, struct conf_mem *mem, size_t bytes, uint32_t access)
{
	static uint64_t seed;

	memset(mem, 0, sizeof(*mem));
	if (conf_memory_is_gpu())
		on_gpu(side, mem, bytes, access);
	else
		on_host(side, mem, bytes, access);
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
	if (mem->gpu)
		free_on_gpu(mem);
	shmd_mem_free(mem->mem);
	free(mem->want);
	memset(mem, 0, sizeof(*mem));
}

struct shmd_mr *conf_mr_of_part(struct conf_side *side, const struct conf_mem *mem, const struct shmd_mr_attr *part)
{
	struct shmd_mr_attr attr = *part;
	struct shmd_mr *mr;

	if (mem->gpu)
		return reg_on_gpu(side, mem, part);
	attr.kind = SHMD_MEM_MEMFD;
	attr.fd = shmd_mem_fd(mem->mem);
	ASSERT_OK(shmd_mr_reg(side->nic, &attr, &mr));
	return mr;
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
