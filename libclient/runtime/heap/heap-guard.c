/* SPDX-License-Identifier: Apache-2.0 */
/* Filling and checking guard zones, counting leaks; heap-guard.h has the contract. */
#include "libclient/runtime/heap/heap-guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include <shmemclient.h>

#include "proto/base/show.h"

/* Differs from byte to byte, so that a zone that was copied elsewhere, or cleared, does not pass. */
static uint8_t pattern_at(uint64_t offset)
{
	return (uint8_t)(0x5d + offset * 31);
}

static void fill(struct heap_span span, uint8_t *base)
{
	for (uint64_t i = 0; i < span.bytes; i++)
		base[span.offset + i] = pattern_at(span.offset + i); /* bounded: the span lies in a chunk */
}

void heap_guard_fill(const struct heap_info *info, void *base)
{
	fill(heap_zone_before(info), base);
	fill(heap_zone_behind(info), base);
}

struct damage {
	uint64_t n; /* bytes */
	uint64_t first, last; /* offsets */
};

static struct damage look(struct heap_span span, const uint8_t *base)
{
	struct damage damage = {0};

	for (uint64_t i = 0; i < span.bytes; i++) {
		uint64_t offset = span.offset + i; /* bounded: the span lies in a chunk */

		if (base[offset] == pattern_at(offset))
			continue;
		damage.first = damage.n++ ? damage.first : offset;
		damage.last = offset;
	}
	return damage;
}

int heap_guard_check(const struct heap_info *info, const void *base)
{
	struct heap_span behind = heap_zone_behind(info);
	struct damage damage = look(heap_zone_before(info), base);
	char text[HEAP_TEXT_BYTES];

	if (damage.n)
		return shmd_error_set(-EFAULT,
				      "a PE wrote before the start of %s: %" PRIu64 " byte%s changed, the nearest %" PRIu64
				      " before it", heap_info_text(info,
								   text), damage.n, plural_s(damage.n), info->offset - damage.last);
	/* bounded: the damage lies in the span */
	damage = look(behind, base);
	if (damage.n)
		return shmd_error_set(-EFAULT, "a PE wrote past the end of %s: %" PRIu64 " byte%s changed, the first %" PRIu64
				      " behind it", heap_info_text(info, text), damage.n, plural_s(damage.n),
				      damage.first - behind.offset + 1);
	return 0;
}

/* The sentence of the first one is the last that is written. */
int heap_guard_check_all(const struct heap *heap, const void *base, uint64_t *ret_n_damaged)
{
	struct heap_info info, first = {0};
	struct heap_walk walk = {0};
	uint64_t n = 0;

	while (heap_walk(heap, &walk, &info)) {
		if (info.is_hole || heap_guard_check(&info, base) == 0)
			continue;
		first = n++ ? first : info;
	}
	*ret_n_damaged = n;
	return n ? heap_guard_check(&first, base) : 0;
}

void heap_leaks(const struct heap *heap, uint64_t n_shown, heap_leak_fn fn, void *arg, struct heap_leaks *ret_leaks)
{
	struct heap_leaks leaks = {0};
	struct heap_walk walk = {0};
	struct heap_info info;

	while (heap_walk(heap, &walk, &info)) {
		if (info.is_hole || info.is_freed_here)
			continue;
		if (fn && leaks.n < n_shown)
			fn(arg, &info);
		leaks.n++;
		leaks.bytes += info.size;
	}
	*ret_leaks = leaks;
}
