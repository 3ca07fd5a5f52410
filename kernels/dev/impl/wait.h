/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: time limit, health word, and the pause between two looks.
 *
 * Every loop of the device functions that waits calls shmdi_wait_round() once a round and ends when that returns an error,
 * so none can hang. Most rounds skip the clock and the health word: the health word is in host memory and costs a kernel a
 * trip over PCIe.
 */
#ifndef SHMDI_WAIT_H
#define SHMDI_WAIT_H

#include <shmd/abi/dev-state.h>
#include <shmd/dev/impl/annotate.h>
#include <shmd/dev/args.h>
#include <shmd/dev/hooks.h>
#include <shmd/dev/impl/order.h>

#if SHMDI_CUDA
#define SHMDI_FIRST_LOOKS 16u /* polls before a wait reads the clock: some 15 us */
#define SHMDI_LOOKS_PER_ROUND 8u /* polls of a CQ: a round costs as much as one */
#define SHMDI_CLOCK_ROUNDS 64u
#define SHMDI_HEALTH_ROUNDS 1024u
#define SHMDI_SPIN_ROUNDS 16u
#else
/* The hook sleeps in late rounds, so these check every time. */
#define SHMDI_LOOKS_PER_ROUND 1u
#define SHMDI_CLOCK_ROUNDS 16u
#define SHMDI_HEALTH_ROUNDS 16u
#define SHMDI_SLEEPY_ROUNDS 256u
#endif

struct shmdi_wait {
	uint64_t health_addr;
	uint64_t timeout_nsec;
	uint64_t start_nsec; /* 0: the clock was not read yet */
	uint32_t round;
};

SHMDI_FN void shmdi_wait_init(struct shmdi_wait *wait, const struct shmd_dev_qp *qp,
			      uint64_t timeout_nsec)
{
	wait->health_addr = SHMDI_FIXED(qp->health_addr);
	wait->timeout_nsec = timeout_nsec;
	wait->start_nsec = 0;
	wait->round = 0;
}

/* The time limit of waits for room in a queue. */
SHMDI_FN uint64_t shmdi_post_timeout(const struct shmd_dev_qp *qp)
{
	return SHMDI_FIXED(qp->post_timeout_nsec) ? SHMDI_FIXED(qp->post_timeout_nsec) : SHMD_DEV_NO_TIMEOUT;
}

SHMDI_FN int shmdi_wait_is_due(const struct shmdi_wait *wait, uint32_t every)
{
#if !SHMDI_CUDA
	if (wait->round > SHMDI_SLEEPY_ROUNDS)
		return 1;
#endif
	return wait->round % every == 0;
}

SHMDI_FN int shmdi_wait_is_over(struct shmdi_wait *wait)
{
	uint64_t now;

	if (wait->timeout_nsec == SHMD_DEV_NO_TIMEOUT)
		return 0;
#if SHMDI_CUDA
	now = shmdi_clock_nsec();
#else
	now = shmd_dev_host_now_nsec();
#endif
	if (!wait->start_nsec)
		wait->start_nsec = now;
	return now - wait->start_nsec >= wait->timeout_nsec;
}

/* One round. Returns SHMD_DEV_OK (look again), SHMD_DEV_TIMEOUT or SHMD_DEV_HEALTH. */
SHMDI_SLOW int shmdi_wait_round(struct shmdi_wait *wait)
{
	if (wait->timeout_nsec == 0)
		return SHMD_DEV_TIMEOUT;
	/* The first round starts the clock. */
	if (wait->round == 0 || shmdi_wait_is_due(wait, SHMDI_CLOCK_ROUNDS)) {
		if (shmdi_wait_is_over(wait))
			return SHMD_DEV_TIMEOUT;
	}
	wait->round++;
	if (wait->health_addr && shmdi_wait_is_due(wait, SHMDI_HEALTH_ROUNDS)) {
		if (shmdi_health_load(wait->health_addr))
			return SHMD_DEV_HEALTH;
	}
#if SHMDI_CUDA
	/* Also lets diverged lanes of this warp run: it may be waiting for them. */
	if (wait->round > SHMDI_SPIN_ROUNDS)
		__nanosleep(20);
#else
	shmd_dev_host_relax(wait->round);
#endif
	return SHMD_DEV_OK;
}

#endif
