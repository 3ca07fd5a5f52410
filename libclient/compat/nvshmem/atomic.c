/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics of the host: those of the runtime, whose kernel is exact against the atomics of kernels of the program. */
#include <errno.h>
#include <string.h>

#include <shmd/dev/coll.h>

#include "libclient/compat/nvshmem/rma.h"

static int atomic(void *dest, const struct shmd_atomic *atomic, int pe, uint64_t *ret_old)
{
	int r = nvs_ready();

	if (!r)
		r = nvs_quiet();
	return r ? r : shmd_atomic_fetch(shmd_world_ctx(nvs.world), dest, atomic, pe, ret_old);
}

uint64_t nvs_atomic(const char *name, const void *dest, struct shmd_atomic what, int pe)
{
	uint64_t old = 0;

	(void)nvs_result(name, atomic((void *)(uintptr_t)dest, &what, pe, &old));
	return old;
}

/* The word of 4 bytes around it changes as long as nobody else has changed it in between. */
static int add_half(void *dest, nvs_half value, int pe, nvs_half *ret_old)
{
	unsigned int shift = (uintptr_t)dest % 4 * 8;
	void *word = (char *)dest - (uintptr_t)dest % 4;
	struct shmd_atomic fetch = {.op = SHMD_ATOMIC_FETCH, .bytes = 4}, swap = {.op = SHMD_ATOMIC_COMPARE_SWAP, .bytes = 4};
	uint64_t old = 0;
	int r = (uintptr_t)dest % 2 ? shmd_error_set(-EINVAL, "a half lies at an even address, not at %p", dest) : atomic(word, &fetch, pe, &old);

	while (!r) {
		*ret_old = (nvs_half)(old >> shift);
		swap.compare = old;
		swap.value = (old & ~(UINT64_C(0xffff) << shift)) |
			     (uint64_t)shmd_dev_half_of_float(shmd_dev_float_of_half(*ret_old) + shmd_dev_float_of_half(value)) << shift;
		r = atomic(word, &swap, pe, &old);
		if (!r && old == swap.compare)
			break;
	}
	return r;
}

nvs_half nvs_atomic_half(const char *name, void *dest, nvs_half value, int pe)
{
	nvs_half old = 0;

	return nvs_result(name, add_half(dest, value, pe, &old)) ? 0 : old;
}
