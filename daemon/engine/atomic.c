/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on words the CPU can address.
 *
 * Any agent of this host may change the word at the same time, so every change is one compare-exchange (or a
 * plain fetch-add where no carry is stopped). Values are native-endian. Any thread.
 */
#include "daemon/engine/engine-private.h"
#include "proto/base/fields.h"

static uint64_t new_value(uint64_t old, const struct engine_atomic *what)
{
	if (!what->is_compare_swap)
		return fields_add(old, what->swap_or_add, what->boundary);
	return fields_compare_swap(old, what->compare, what->compare_mask, what->swap_or_add, what->swap_mask);
}

static uint64_t apply4(uint32_t *word, const struct engine_atomic *what)
{
	struct engine_atomic narrow = *what;
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	narrow.compare_mask &= UINT32_MAX;
	while (!__atomic_compare_exchange_n(word, &old, (uint32_t)new_value(old, &narrow), true,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	return old;
}

static uint64_t apply8(uint64_t *word, const struct engine_atomic *what)
{
	uint64_t old;

	if (!what->is_compare_swap && !what->boundary)
		return __atomic_fetch_add(word, what->swap_or_add, __ATOMIC_SEQ_CST);
	old = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(word, &old, new_value(old, what), true,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	return old;
}

uint64_t engine_atomic_apply(void *word, const struct engine_atomic *what)
{
	return what->bytes == 4 ? apply4(word, what) : apply8(word, what);
}
