/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A word keeps its first final value. "Port down" alone is not final: "active" clears it by compare-and-swap. The page is shared with
 * the client and may hold anything, so it is written and never trusted.
 */
#include "daemon/porter/words.h"

#include <errno.h>
#include <sys/mman.h>

#include <shmd/abi/doorbell.h>

bool words_are_any(const struct words *words)
{
	return words->has_ended || (words->lost | words->down | words->active) != 0;
}

void words_prepend(struct words *words, const struct words *older)
{
	uint64_t newer = words->down | words->active | words->lost;

	words->lost |= older->lost;
	words->down = (words->down | (older->down & ~newer)) & ~words->lost;
	words->active = (words->active | (older->active & ~newer)) & ~words->lost;
	words->has_ended |= older->has_ended;
}

static bool replace(uint32_t *word, uint32_t old, uint32_t value)
{
	return __atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* One try for each value that gives way: the library writes final values only. */
static void set_final(uint32_t *word, uint32_t value)
{
	if (!replace(word, SHMD_HEALTH_OK, value))
		replace(word, SHMD_HEALTH_PORT_DOWN, value);
}

static bool has(uint64_t bits, unsigned int i)
{
	return bits >> i & 1;
}

static void write_all(struct shmd_health_page *page, const struct words *words)
{
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++) {
		if (has(words->lost, i))
			set_final(&page->nic[i], SHMD_HEALTH_NIC_LOST);
		else if (has(words->down, i))
			replace(&page->nic[i], SHMD_HEALTH_OK, SHMD_HEALTH_PORT_DOWN);
		else if (has(words->active, i))
			replace(&page->nic[i], SHMD_HEALTH_PORT_DOWN, SHMD_HEALTH_OK);
	}
	if (!words->has_ended)
		return;
	set_final(&page->session, SHMD_HEALTH_SESSION_ENDED);
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		set_final(&page->nic[i], SHMD_HEALTH_SESSION_ENDED);
}

int words_write(int fd, const struct words *words)
{
	struct shmd_health_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	write_all(page, words);
	munmap(page, sizeof(*page));
	return 0;
}
