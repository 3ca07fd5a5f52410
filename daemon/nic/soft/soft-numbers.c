/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of QPs and CQs.
 *
 * A number is found in one step, since doorbells and packets name QPs by it: its lower 16 bits are a slot, the
 * upper 8 a generation that moves on whenever the slots have gone round, so a packet for a QP that is gone
 * meets no new one. Both start at random, or behind the newest number of a former process.
 *
 * The table is shared by the executors of a NIC and has no lock: one compare-and-swap takes a slot, with number and executor in
 * one word. Only the executor knows which object has a number (struct soft_names). Executors in a process of their own find in the table
 * which numbers the daemon has taken for them.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <sys/random.h>

#include "proto/base/assert.h"

#define SLOT_MASK (SOFT_NUMBER_SLOTS - 1)
#define GENERATION_SHIFT 16
#define GENERATIONS 0xfeu
#define PLACES (GENERATIONS * SOFT_NUMBER_SLOTS)
#define EXEC_BITS 8

_Static_assert(SOFT_MAX_QPS <= SOFT_NUMBER_SLOTS && SOFT_MAX_CQS <= SOFT_NUMBER_SLOTS, "a slot for each");

int soft_shared_numbers_init(struct soft_shared_numbers *numbers)
{
	uint32_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	__atomic_store_n(&numbers->next, seed % PLACES, __ATOMIC_RELEASE);
	return 0;
}

/* Numbers are given out in a circle. */
static uint32_t number_at(uint32_t place)
{
	return (1 + place / SOFT_NUMBER_SLOTS) << GENERATION_SHIFT | (place & SLOT_MASK);
}

static uint32_t place_of(uint32_t number)
{
	return ((number >> GENERATION_SHIFT) - 1) * SOFT_NUMBER_SLOTS + (number & SLOT_MASK);
}

/* The next place, which is this caller's alone. */
static uint32_t take_place(struct soft_shared_numbers *numbers)
{
	uint32_t next = __atomic_load_n(&numbers->next, __ATOMIC_RELAXED), after;

	do {
		after = ((next & ~SOFT_NUMBERS_GOES_ON) + 1) % PLACES | (next & SOFT_NUMBERS_GOES_ON);
	} while (!__atomic_compare_exchange_n(&numbers->next, &next, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return next & ~SOFT_NUMBERS_GOES_ON;
}

static bool take_slot(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t number)
{
	uint32_t free_slot = 0;

	return __atomic_compare_exchange_n(&numbers->slots[number & SLOT_MASK], &free_slot, number << EXEC_BITS | exec,
					   false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

int soft_shared_number_alloc(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t *ret_number)
{
	for (uint32_t i = 0; i < SOFT_NUMBER_SLOTS; i++) {
		uint32_t number = number_at(take_place(numbers));

		if (!take_slot(numbers, exec, number))
			continue;
		*ret_number = number;
		return 0;
	}
	return -ENOSPC;
}

/* New numbers come behind this one, and behind all others that were reserved. */
static void go_on_behind(struct soft_shared_numbers *numbers, uint32_t number)
{
	uint32_t behind = (place_of(number) + 1) % PLACES;
	uint32_t next = __atomic_load_n(&numbers->next, __ATOMIC_RELAXED);

	do {
		uint32_t at = next & ~SOFT_NUMBERS_GOES_ON;

		if ((next & SOFT_NUMBERS_GOES_ON) && (behind + PLACES - at) % PLACES > PLACES / 2)
			return;
	} while (!__atomic_compare_exchange_n(&numbers->next, &next, behind | SOFT_NUMBERS_GOES_ON, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

int soft_shared_number_reserve(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t number)
{
	uint32_t generation = number >> GENERATION_SHIFT;

	if (generation < 1 || generation > GENERATIONS)
		return -EINVAL;
	if (!take_slot(numbers, exec, number))
		return -EEXIST;
	go_on_behind(numbers, number);
	return 0;
}

void soft_shared_number_dealloc(struct soft_shared_numbers *numbers, uint32_t exec, uint32_t number)
{
	uint32_t *slot = &numbers->slots[number & SLOT_MASK];

	assert_bug(__atomic_load_n(slot, __ATOMIC_RELAXED) == (number << EXEC_BITS | exec));
	__atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}

int soft_shared_number_exec(const struct soft_shared_numbers *numbers, uint32_t number)
{
	uint32_t slot = __atomic_load_n(&numbers->slots[number & SLOT_MASK], __ATOMIC_ACQUIRE);

	if (number == 0 || slot >> EXEC_BITS != number)
		return -1;
	return (int)(slot & (SOFT_MAX_EXECS - 1));
}

/* ---- what has them ------------------------------------------------------------------------------------------------------- */

void soft_names_init(struct soft_names *names, struct soft_shared_numbers *numbers, uint32_t exec)
{
	names->numbers = numbers;
	names->exec = exec;
	names->are_given = false;
	hash_init(&names->objects);
}

void soft_names_deinit(struct soft_names *names)
{
	hash_deinit(&names->objects);
}

static int add(struct soft_names *names, uint32_t number, void *object)
{
	int r = hash_add(&names->objects, number, object);

	if (r < 0 && !names->are_given)
		soft_shared_number_dealloc(names->numbers, names->exec, number);
	return r;
}

int soft_names_alloc(struct soft_names *names, void *object, uint32_t *ret_number)
{
	uint32_t number;
	int r = soft_shared_number_alloc(names->numbers, names->exec, &number);

	if (r == 0)
		r = add(names, number, object);
	if (r == 0)
		*ret_number = number;
	return r;
}

int soft_names_reserve(struct soft_names *names, uint32_t number, void *object)
{
	int r;

	if (names->are_given)
		r = soft_shared_number_exec(names->numbers, number) == (int)names->exec ? 0 : -EINVAL;
	else
		r = soft_shared_number_reserve(names->numbers, names->exec, number);
	return r < 0 ? r : add(names, number, object);
}

void soft_names_dealloc(struct soft_names *names, uint32_t number)
{
	if (!names->are_given)
		soft_shared_number_dealloc(names->numbers, names->exec, number);
	hash_remove(&names->objects, number);
}

void *soft_names_find(const struct soft_names *names, uint32_t number)
{
	return hash_get(&names->objects, number);
}
