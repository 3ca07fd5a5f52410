/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that executors share: sparse memfds, since most ports have few executors and most executors few queues.
 *
 * Waking: who has news for a thread stores them and then looks at `asleep`; the thread stores `asleep` and then looks for news. Both
 * are sequentially consistent, so one of the two sees the other.
 */
#include "daemon/nic/soft/soft-shared.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/nic/nic.h"
#include "proto/base/cleanup.h"

_Static_assert(SOFT_MAX_EXECS <= 256, "eight bits in a slot of the numbers");

int soft_shared_new(struct soft_shared **ret_shared, int *ret_fd)
{
	void *map;
	int r = nic_mem_create("shmd-soft", sizeof(struct soft_shared), F_SEAL_FUTURE_WRITE, ret_fd, &map);

	if (r == 0)
		*ret_shared = map;
	return r;
}

int soft_shared_map(int fd, struct soft_shared **ret_shared)
{
	void *map;
	int r = nic_mem_view(fd, sizeof(struct soft_shared), false, &map);

	if (r == 0)
		*ret_shared = map;
	return r;
}

struct soft_shared *soft_shared_unmap(struct soft_shared *shared)
{
	if (shared)
		munmap(shared, sizeof(*shared));
	return NULL;
}

int soft_part_memfd(int *ret_fd)
{
	return nic_memfd_new("shmd-part", sizeof(struct soft_shared_part), ret_fd);
}

int soft_part_map(int fd, bool is_own, struct soft_shared_part **ret_part)
{
	void *map;
	int r = nic_mem_view(fd, sizeof(struct soft_shared_part), is_own, &map);

	if (r == 0)
		*ret_part = map;
	return r;
}

struct soft_shared_part *soft_part_unmap(struct soft_shared_part *part)
{
	if (part)
		munmap(part, sizeof(*part));
	return NULL;
}

bool soft_shared_lane_must_wake(struct soft_shared_lane *lane)
{
	return __atomic_load_n(&lane->asleep, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&lane->asleep, 0, __ATOMIC_SEQ_CST);
}

bool soft_shared_lane_ring(struct soft_shared_lane *lane)
{
	__sync_synchronize();
	if (!__atomic_load_n(&lane->bell, __ATOMIC_RELAXED))
		__atomic_exchange_n(&lane->bell, 1, __ATOMIC_SEQ_CST);
	return soft_shared_lane_must_wake(lane);
}
