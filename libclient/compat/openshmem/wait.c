/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for one long or one signal, and locks (sections 9.11 and 9.13). */
#include "libclient/compat/openshmem/openshmem.h"

void pshmem_wait_until(long *ivar, int cmp, long cmp_value)
{
	osh_check("shmem_wait_until", shmd_wait_until(osh.ctx, ivar, sizeof(*ivar), (uint32_t)cmp | SHMD_CMP_SIGNED, (uint64_t)cmp_value));
}
OSH_WEAK(shmem_wait_until, pshmem_wait_until)

void pshmem_wait(long *ivar, long cmp_value)
{
	osh_check("shmem_wait", shmd_wait_until(osh.ctx, ivar, sizeof(*ivar), SHMD_CMP_NE, (uint64_t)cmp_value));
}
OSH_WEAK(shmem_wait, pshmem_wait)

static bool holds(uint64_t value, int cmp, uint64_t wanted)
{
	switch (cmp) {
	case SHMEM_CMP_EQ:
		return value == wanted;
	case SHMEM_CMP_NE:
		return value != wanted;
	case SHMEM_CMP_GT:
		return value > wanted;
	case SHMEM_CMP_GE:
		return value >= wanted;
	case SHMEM_CMP_LT:
		return value < wanted;
	default:
		return value <= wanted;
	}
}

/* It returns a value for which the comparison held, so one that has changed meanwhile is waited for again. */
uint64_t pshmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
{
	uint64_t value;

	do {
		osh_check("shmem_signal_wait_until", shmd_wait_until(osh.ctx, sig_addr, sizeof(*sig_addr), (uint32_t)cmp, cmp_value));
		value = shmd_signal_fetch(sig_addr);
	} while (!holds(value, cmp, cmp_value));
	return value;
}
OSH_WEAK(shmem_signal_wait_until, pshmem_signal_wait_until)

/* ---- locks */

void pshmem_set_lock(long *lock)
{
	osh_check("shmem_set_lock", shmd_lock(osh.ctx, osh_symmetric(lock)));
}
OSH_WEAK(shmem_set_lock, pshmem_set_lock)

void pshmem_clear_lock(long *lock)
{
	osh_check("shmem_clear_lock", shmd_unlock(osh.ctx, osh_symmetric(lock)));
}
OSH_WEAK(shmem_clear_lock, pshmem_clear_lock)

/* 0: the caller has it now; 1: another PE has it. */
int pshmem_test_lock(long *lock)
{
	int r = shmd_lock_test(osh.ctx, osh_symmetric(lock));

	osh_check("shmem_test_lock", r);
	return !r;
}
OSH_WEAK(shmem_test_lock, pshmem_test_lock)
