/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for one long or one signal, and locks (sections 9.11 and 9.13). */
#include "libclient/compat/openshmem/typed.h"

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

/* ---- any of several words */

/* Words of a wait from `first` on, up to `end`: all sums are bounded by the program's array. */
static size_t test_part(const char *name, const struct shmd_wait *wait, size_t first, size_t end)
{
	struct shmd_wait part = *wait;
	size_t index = 0;

	part.n = end - first;
	part.words = (const char *)wait->words + first * wait->bytes;
	part.status = wait->status ? wait->status + first : NULL;
	part.values = wait->values ? (const char *)wait->values + first * wait->bytes : NULL;
	return part.n && osh_looked(name, shmd_test_any(osh.ctx, &part, &index)) ? first + index : SIZE_MAX;
}

/*
 * Each call begins at a word by chance, so every word that satisfies is found after some calls. A turn for each thread would not do: a program
 * that looks at two arrays in turn might see every second word only.
 */
size_t osh_test_any(const char *name, const struct shmd_wait *wait)
{
	static _Thread_local uint64_t chance;
	size_t first, found;

	chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	first = wait->n ? (chance >> 33) % wait->n : 0;
	found = test_part(name, wait, first, wait->n);
	return found != SIZE_MAX ? found : test_part(name, wait, 0, first);
}

size_t osh_wait_until_any(const char *name, const struct shmd_wait *wait)
{
	size_t index = osh_test_any(name, wait);

	if (index == SIZE_MAX)
		osh_check(name, shmd_wait_until_any(osh.ctx, wait, &index));
	return index;
}

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
