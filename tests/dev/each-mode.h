/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_DEV_EACH_MODE_H
#define SHMD_TESTS_DEV_EACH_MODE_H

#include "tests/dev/mini-nic.h"
#include "tests/lib/test.h"

#define MSEC 1000000ull
#define SEC (1000ull * MSEC)
/* For waits that must succeed: far above what a loaded machine needs, far below the alarm. */
#define PATIENCE (10 * SEC)

/* Runs `run` on a fresh QP of each sharing and each kind of CQ, from an index whose 16 bits are about to wrap. */
static inline void each_mode(void (*run)(struct mini_nic *nic))
{
	static const enum shmd_sharing sharings[] = {SHMD_SHARING_EXCLUSIVE, SHMD_SHARING_BLOCK,
						     SHMD_SHARING_GPU};
	unsigned int i;

	for (i = 0; i < 6; i++) {
		struct mini_nic_attr attr = {
			.sharing = sharings[i / 2],
			.is_ordinary = i % 2,
			.start_index = 65536 - 5,
			.rq_wqes = 16,
			.rq_stride_shift = 5,
		};
		struct mini_nic *nic = mini_nic_new(&attr);

		run(nic);
		mini_nic_free(nic);
	}
}

/* WQE n of those executed so far. */
static inline const struct mini_nic_entry *executed(struct mini_nic *nic, uint64_t n)
{
	ASSERT_LT(n, mini_nic_get(&nic->n_wqes));
	return &nic->log[n % MINI_NIC_LOG];
}

static inline void fill(void *p, size_t bytes, unsigned int seed)
{
	uint8_t *b = (uint8_t *)p;
	size_t i;

	for (i = 0; i < bytes; i++)
		b[i] = (uint8_t)(seed * 131 + i * 7 + (i >> 8));
}

#endif
