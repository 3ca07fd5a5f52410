/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of QPs and CQs.
 *
 * A number is found in one step, since doorbells and packets name QPs by it: its lower 16 bits are a slot, the
 * upper 8 a generation that moves on whenever the slots have gone round, so a packet for a QP that is gone
 * meets no new one. Both start at random, or behind the newest number of a former process.
 *
 * A number is found without a lock: an executor looks up its own numbers, which nobody else adds or removes, and others ask
 * only which executor has one. The lock is for choosing numbers.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proto/base/assert.h"

#define NUMBERS_SLOTS 65536u
#define NUMBERS_SLOT_MASK (NUMBERS_SLOTS - 1)
#define NUMBERS_GENERATION_SHIFT 16
#define NUMBERS_GENERATIONS 0xfeu

_Static_assert(SOFT_MAX_QPS <= NUMBERS_SLOTS && SOFT_MAX_CQS <= NUMBERS_SLOTS, "a slot for each");

int soft_numbers_init(struct soft_numbers *numbers)
{
	struct soft_number *slots;
	uint32_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	slots = calloc(NUMBERS_SLOTS, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	pthread_mutex_init(&numbers->lock, NULL);
	numbers->next_slot = seed & NUMBERS_SLOT_MASK;
	numbers->generation = 1 + (seed >> 16) % NUMBERS_GENERATIONS;
	numbers->n_used = 0;
	numbers->goes_on = false;
	__atomic_store_n(&numbers->slots, slots, __ATOMIC_RELEASE);
	return 0;
}

void soft_numbers_deinit(struct soft_numbers *numbers)
{
	if (numbers->slots)
		pthread_mutex_destroy(&numbers->lock);
	free(numbers->slots);
	memset(numbers, 0, sizeof(*numbers));
}

static struct soft_number *next_slot(struct soft_numbers *numbers, uint32_t *ret_number)
{
	uint32_t slot = numbers->next_slot;

	*ret_number = numbers->generation << NUMBERS_GENERATION_SHIFT | slot;
	numbers->next_slot = (slot + 1) & NUMBERS_SLOT_MASK;
	if (numbers->next_slot == 0)
		numbers->generation = 1 + numbers->generation % NUMBERS_GENERATIONS;
	return &numbers->slots[slot];
}

static void fill(struct soft_number *slot, uint32_t exec, uint32_t number, void *object)
{
	slot->object = object;
	__atomic_store_n(&slot->exec, exec, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->number, number, __ATOMIC_RELEASE);
}

static int alloc_locked(struct soft_numbers *numbers, uint32_t exec, void *object, uint32_t *ret_number)
{
	struct soft_number *slot;
	uint32_t number;

	if (numbers->n_used == NUMBERS_SLOTS)
		return -ENOSPC;
	do {
		slot = next_slot(numbers, &number);
	} while (slot->number);
	fill(slot, exec, number, object);
	numbers->n_used++;
	*ret_number = number;
	return 0;
}

int soft_numbers_alloc(struct soft_numbers *numbers, uint32_t exec, void *object, uint32_t *ret_number)
{
	int r;

	pthread_mutex_lock(&numbers->lock);
	r = alloc_locked(numbers, exec, object, ret_number);
	pthread_mutex_unlock(&numbers->lock);
	return r;
}

/* Where a number lies in the order in which they are given out, which is a circle. */
static uint32_t place_of(uint32_t generation, uint32_t slot)
{
	return (generation - 1) * NUMBERS_SLOTS + slot;
}

/* New numbers come behind this one, and behind all others that were reserved. */
static void go_on_behind(struct soft_numbers *numbers, uint32_t number)
{
	const uint32_t n_places = NUMBERS_GENERATIONS * NUMBERS_SLOTS;
	uint32_t behind = place_of(number >> NUMBERS_GENERATION_SHIFT, number & NUMBERS_SLOT_MASK) + 1;
	uint32_t at = place_of(numbers->generation, numbers->next_slot);

	behind %= n_places;
	if (numbers->goes_on && (behind + n_places - at) % n_places > n_places / 2)
		return;
	numbers->goes_on = true;
	numbers->generation = 1 + behind / NUMBERS_SLOTS;
	numbers->next_slot = behind & NUMBERS_SLOT_MASK;
}

static int reserve_locked(struct soft_numbers *numbers, uint32_t exec, uint32_t number, void *object)
{
	struct soft_number *slot = &numbers->slots[number & NUMBERS_SLOT_MASK];

	if (slot->number)
		return -EEXIST;
	fill(slot, exec, number, object);
	numbers->n_used++;
	go_on_behind(numbers, number);
	return 0;
}

int soft_numbers_reserve(struct soft_numbers *numbers, uint32_t exec, uint32_t number, void *object)
{
	uint32_t generation = number >> NUMBERS_GENERATION_SHIFT;
	int r;

	if (generation < 1 || generation > NUMBERS_GENERATIONS)
		return -EINVAL;
	pthread_mutex_lock(&numbers->lock);
	r = reserve_locked(numbers, exec, number, object);
	pthread_mutex_unlock(&numbers->lock);
	return r;
}

void soft_numbers_dealloc(struct soft_numbers *numbers, uint32_t number)
{
	struct soft_number *slot = &numbers->slots[number & NUMBERS_SLOT_MASK];

	assert_bug(slot->number == number);
	pthread_mutex_lock(&numbers->lock);
	slot->object = NULL;
	__atomic_store_n(&slot->number, 0, __ATOMIC_RELEASE);
	numbers->n_used--;
	pthread_mutex_unlock(&numbers->lock);
}

/* A number that this executor has stays, and its object with it: its own thread alone removes it. */
void *soft_numbers_find(const struct soft_numbers *numbers, uint32_t exec, uint32_t number)
{
	const struct soft_number *slot = &numbers->slots[number & NUMBERS_SLOT_MASK];

	if (number == 0 || __atomic_load_n(&slot->number, __ATOMIC_ACQUIRE) != number ||
	    __atomic_load_n(&slot->exec, __ATOMIC_RELAXED) != exec)
		return NULL;
	return slot->object;
}

int soft_numbers_exec(const struct soft_numbers *numbers, uint32_t number)
{
	const struct soft_number *slots = __atomic_load_n(&numbers->slots, __ATOMIC_ACQUIRE);
	const struct soft_number *slot = slots ? &slots[number & NUMBERS_SLOT_MASK] : NULL;

	if (number == 0 || !slot || __atomic_load_n(&slot->number, __ATOMIC_ACQUIRE) != number)
		return -1;
	return (int)__atomic_load_n(&slot->exec, __ATOMIC_RELAXED);
}
