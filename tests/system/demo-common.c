/* SPDX-License-Identifier: Apache-2.0 */
/* What the demos of CPU and GPU share: the page that all PEs see, the barrier on it, a first look at the daemon. */
#include "demo.h"

#include <stdio.h>
#include <sys/mman.h>

bool demo_barrier(struct demo_shared *shared)
{
	uint32_t generation = __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE);
	uint64_t limit = shmd_dev_host_now_nsec() + 2 * DEMO_WAIT_NSEC;
	uint32_t round = 0;

	if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == shared->n_pes) {
		__atomic_store_n(&shared->arrived, 0, __ATOMIC_RELAXED);
		__atomic_add_fetch(&shared->generation, 1, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE) == generation) {
		if (__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE) || shmd_dev_host_now_nsec() > limit)
			return false;
		shmd_dev_host_relax(round++);
	}
	return !__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE);
}

struct demo_shared *demo_shared_new(unsigned int n_pes)
{
	struct demo_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return NULL;
	shared->n_pes = n_pes;
	return shared;
}

bool demo_daemon_answers(const char *program)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	struct shmd_client *client;

	if (shmd_client_open(&attr, &client) < 0) {
		fprintf(stderr, "%s: %s\n", program, shmd_error_text());
		return false;
	}
	shmd_client_close(client);
	return true;
}
