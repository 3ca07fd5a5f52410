/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a session's resources.
 *
 * Freed slots queue up at the end, so a handle comes back as late as possible and then with another
 * generation. Pure; control thread.
 */
#include "daemon/session/resource.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"

#define GENERATION_MASK ((1u << (32 - RESOURCE_SLOT_BITS)) - 1)

void resource_table_init(struct resource_table *table)
{
	memset(table, 0, sizeof(*table));
	for (int i = 0; i < RESOURCE_N; i++)
		list_init(&table->lists[i]);
}

void resource_table_deinit(struct resource_table *table)
{
	for (int i = 0; i < RESOURCE_N; i++)
		assert_bug(table->n[i] == 0);
	free(table->slots);
	table->slots = NULL;
	table->n_slots = table->first_free = table->last_free = 0;
	table->last_number = 0;
	table->n_freed = 0;
}

void resource_init(struct resource *resource, enum resource_kind kind)
{
	resource->kind = kind;
	resource->handle = 0;
	list_init(&resource->link);
}

static void push_free(struct resource_table *table, uint32_t slot)
{
	table->slots[slot].next_free = 0;
	if (table->last_free)
		table->slots[table->last_free - 1].next_free = slot + 1;
	else
		table->first_free = slot + 1;
	table->last_free = slot + 1;
}

static int grow(struct resource_table *table)
{
	uint32_t n = table->n_slots ? table->n_slots * 2 : 16;
	struct resource_slot *slots;

	if (n > RESOURCE_MAX)
		n = RESOURCE_MAX;
	if (n == table->n_slots)
		return -ENOSPC;
	slots = reallocarray(table->slots, n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots + table->n_slots, 0, (n - table->n_slots) * sizeof(*slots));
	table->slots = slots;
	for (uint32_t i = table->n_slots; i < n; i++)
		push_free(table, i);
	table->n_slots = n;
	return 0;
}

int resource_reserve(struct resource_table *table)
{
	return table->first_free ? 0 : grow(table);
}

int resource_add(struct resource_table *table, struct resource *resource)
{
	struct resource_slot *slot;
	uint32_t index;
	int r;

	assert_bug(resource->handle == 0);
	r = resource_reserve(table);
	if (r < 0)
		return r;
	index = table->first_free - 1;
	slot = &table->slots[index];
	table->first_free = slot->next_free;
	if (!table->first_free)
		table->last_free = 0;
	slot->resource = resource;
	resource->number = ++table->last_number;
	resource->reused = slot->freed;
	table->n_freed -= slot->freed > 0;
	slot->freed = 0;
	resource->handle = (uint32_t)slot->generation << RESOURCE_SLOT_BITS | (index + 1);
	list_add_head(&table->lists[resource->kind], &resource->link);
	table->n[resource->kind]++;
	return 0;
}

uint32_t resource_slot_of(uint32_t handle)
{
	return (handle & RESOURCE_MAX) - 1;
}

void resource_remove(struct resource_table *table, struct resource *resource)
{
	struct resource_slot *slot;

	if (!resource->handle)
		return;
	slot = &table->slots[resource_slot_of(resource->handle)];
	assert_bug(slot->resource == resource);
	slot->resource = NULL;
	slot->generation = (slot->generation + 1) & GENERATION_MASK;
	slot->freed = ++table->last_number;
	table->n_freed++;
	push_free(table, resource_slot_of(resource->handle));
	list_del(&resource->link);
	table->n[resource->kind]--;
	resource->handle = 0;
}

struct resource *resource_find(const struct resource_table *table, uint32_t handle,
			       enum resource_kind kind)
{
	uint32_t slot = resource_slot_of(handle);
	struct resource *resource;

	if (slot >= table->n_slots)
		return NULL;
	resource = table->slots[slot].resource;
	return resource && resource->handle == handle && resource->kind == kind ? resource : NULL;
}

struct resource *resource_next(const struct resource_table *table, enum resource_kind kind,
			       uint32_t *slot)
{
	for (uint32_t i = *slot; i < table->n_slots; i++) {
		struct resource *resource = table->slots[i].resource;

		if (resource && resource->kind == kind) {
			*slot = i;
			return resource;
		}
	}
	return NULL;
}

/* ---- a table made again -------------------------------------------------------------------------------------------- */

static bool in_free_list(const struct resource_table *table, uint32_t slot)
{
	return table->slots[slot].next_free || table->last_free == slot + 1;
}

int resource_table_restore(struct resource_table *table, uint32_t n_slots, const uint16_t *generations, uint32_t n_free,
			   const uint32_t *free_slots)
{
	assert_bug(table->n_slots == 0);
	if (n_slots > RESOURCE_MAX || n_free > n_slots)
		return -EINVAL;
	table->slots = calloc(n_slots ? n_slots : 1, sizeof(*table->slots));
	if (!table->slots)
		return -ENOMEM;
	table->n_slots = n_slots;
	for (uint32_t i = 0; i < n_slots; i++) {
		if (generations[i] > GENERATION_MASK)
			return -EINVAL;
		table->slots[i].generation = generations[i];
	}
	for (uint32_t i = 0; i < n_free; i++) {
		if (free_slots[i] >= n_slots || in_free_list(table, free_slots[i]))
			return -EINVAL;
		push_free(table, free_slots[i]);
	}
	return 0;
}

int resource_restore(struct resource_table *table, struct resource *resource, uint32_t handle)
{
	uint32_t slot = resource_slot_of(handle);

	assert_bug(resource->handle == 0);
	if (slot >= table->n_slots || in_free_list(table, slot) || table->slots[slot].resource ||
	    table->slots[slot].generation != handle >> RESOURCE_SLOT_BITS)
		return -EINVAL;
	table->slots[slot].resource = resource;
	resource->handle = handle;
	list_add_head(&table->lists[resource->kind], &resource->link);
	table->n[resource->kind]++;
	return 0;
}

bool resource_table_complete(const struct resource_table *table)
{
	for (uint32_t i = 0; i < table->n_slots; i++)
		if (!table->slots[i].resource && !in_free_list(table, i))
			return false;
	return true;
}
