/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks that the C build of the device functions asks for, without libshmemclient. */
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <shmd/dev/hooks.h>

#include "tests/dev/mini-nic.h"

#define NSEC_PER_SEC 1000000000ull
#define SPIN_ROUNDS 16u
#define YIELD_ROUNDS 200u
#define SLEEP_NSEC 100000l

uint64_t mini_nic_n_wakes;

uint64_t shmd_dev_host_now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

void shmd_dev_host_relax(uint32_t round)
{
	struct timespec ts = {.tv_nsec = SLEEP_NSEC};

	if (round <= SPIN_ROUNDS)
		return;
	if (round <= YIELD_ROUNDS)
		sched_yield();
	else
		nanosleep(&ts, NULL);
}

void shmd_dev_host_wake(uint64_t wake_handle)
{
	uint64_t one = 1;

	__atomic_fetch_add(&mini_nic_n_wakes, 1, __ATOMIC_RELAXED);
	/* A full eventfd is a woken one. */
	if (write((int)wake_handle, &one, sizeof(one)) < 0)
		return;
}
