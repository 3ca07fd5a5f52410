/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers of order.h as instructions of 64-bit Arm, for check-arm.py: one function for each need. */
#include <shmd/dev/impl/order.h>

void announce_polled(void *wqe, uint64_t dbrec, uint64_t doorbell, const uint32_t *asleep, uint32_t *status);
void announce_uar(void *wqe, uint64_t dbrec, uint64_t doorbell);
void publish(uint64_t *index, uint64_t v);
void publish_exclusive(uint64_t *index, uint64_t v);
uint64_t acquire(const uint64_t *index);
void raise_index(uint64_t *index, uint64_t v);
int claim(uint64_t *index, uint64_t *expected, uint64_t v);
int lock_try(uint32_t *lock);
void lock_drop(uint32_t *lock);
uint32_t flag_load(const uint32_t *flag);
uint64_t cqe_load(const uint64_t *tail);
uint32_t word_load32(const uint32_t *word);

void announce_polled(void *wqe, uint64_t dbrec, uint64_t doorbell, const uint32_t *asleep, uint32_t *status)
{
	shmdi_ring_store(wqe, 1, 2);
	shmdi_dbrec_store(dbrec, 3, SHMD_PLACEMENT_HOST);
	shmdi_doorbell_store(doorbell, 4, SHMD_PLACEMENT_HOST, SHMD_DOORBELL_CPU);
	*status = shmdi_asleep_load(asleep);
}

void announce_uar(void *wqe, uint64_t dbrec, uint64_t doorbell)
{
	shmdi_ring_store(wqe, 1, 2);
	shmdi_dbrec_store(dbrec, 3, SHMD_PLACEMENT_HOST);
	shmdi_doorbell_store(doorbell, 4, SHMD_PLACEMENT_HOST, SHMD_DOORBELL_UAR_MMAP);
}

void publish(uint64_t *index, uint64_t v)
{
	shmdi_index_publish(index, v, SHMD_SHARING_GPU);
}

void publish_exclusive(uint64_t *index, uint64_t v)
{
	shmdi_index_publish(index, v, SHMD_SHARING_EXCLUSIVE);
}

uint64_t acquire(const uint64_t *index)
{
	return shmdi_index_acquire(index, SHMD_SHARING_GPU);
}

void raise_index(uint64_t *index, uint64_t v)
{
	shmdi_index_raise(index, v, SHMD_SHARING_GPU);
}

int claim(uint64_t *index, uint64_t *expected, uint64_t v)
{
	return shmdi_index_claim(index, expected, v, SHMD_SHARING_GPU);
}

int lock_try(uint32_t *lock)
{
	return shmdi_lock_try(lock, SHMD_SHARING_GPU);
}

void lock_drop(uint32_t *lock)
{
	shmdi_lock_drop(lock, SHMD_SHARING_GPU);
}

uint32_t flag_load(const uint32_t *flag)
{
	return shmdi_flag_load(flag, SHMD_SHARING_GPU);
}

uint64_t cqe_load(const uint64_t *tail)
{
	return shmdi_cqe_load(tail, SHMD_PLACEMENT_HOST);
}

uint32_t word_load32(const uint32_t *word)
{
	return shmdi_word_load32(word);
}
