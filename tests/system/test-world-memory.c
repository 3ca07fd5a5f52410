/* SPDX-License-Identifier: Apache-2.0 */
/* A PE without memory when a world starts: no other PE waits for it. */
#include <errno.h>
#include <stdlib.h>

#include "libclient/runtime/world/card.h"
#include "tests/lib/test.h"
#include "tests/system/world-lab.h"

#define N_PES 3

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static size_t refused;
#else
/* Allocations of this size fail; 0: none does. */
static size_t refused;

void *__libc_calloc(size_t n, size_t bytes);

__attribute__((visibility("default"))) void *calloc(size_t n, size_t bytes)
{
	if (!__atomic_load_n(&refused, __ATOMIC_RELAXED) || n * bytes != refused)
		return __libc_calloc(n, bytes);
	errno = ENOMEM;
	return NULL;
}
#endif

static int starts_without_memory_for_cards(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open(lab, pe);

	(void)arg;
	if (pe == 1)
		__atomic_store_n(&refused, N_PES * sizeof(struct world_card), __ATOMIC_RELAXED);
	/* Nothing of this size is allocated any more, so the start succeeds. */
	world_lab_must(shmd_world_start(world), "start");
	__atomic_store_n(&refused, 0, __ATOMIC_RELAXED);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_start_needs_no_memory_before_all_pes_know_how_it_goes, 120)
{
	struct fixture_daemon daemon;

	if (test_has_sanitizer())
		test_skip("a sanitizer has an allocator of its own");
	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, N_PES, starts_without_memory_for_cards, NULL);
	fixture_daemon_stop(&daemon);
}
