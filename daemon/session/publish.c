/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind publish and fetch.
 *
 * Fixed number of buckets: quotas bound the entries, and the hash is seeded. Knows nothing of sessions but the
 * pointer that names the owner. Control thread.
 */
#include "daemon/session/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/porter/held.h"
#include "proto/base/assert.h"

#define PUBLISH_BUCKETS 8192u

int publish_table_init(struct publish_table *table)
{
	*table = (struct publish_table){0};
	if (getrandom(table->seed, sizeof(table->seed), 0) != sizeof(table->seed))
		return -errno;
	table->buckets = calloc(PUBLISH_BUCKETS, sizeof(*table->buckets));
	if (!table->buckets)
		return -ENOMEM;
	for (unsigned int i = 0; i < PUBLISH_BUCKETS; i++)
		list_init(&table->buckets[i]);
	return 0;
}

void publish_table_deinit(struct publish_table *table)
{
	for (unsigned int i = 0; table->buckets && i < PUBLISH_BUCKETS; i++)
		assert_bug(list_empty(&table->buckets[i]));
	free(table->buckets);
	table->buckets = NULL;
}

/* Both halves of a keyed 128-bit product: strong enough that collisions cannot be chosen without the seed. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static struct list *bucket_of(const struct publish_table *table, const struct publish_key *key)
{
	uint64_t world[2], h;

	memcpy(world, key->world, sizeof(world));
	h = mix(world[0] ^ table->seed[0], world[1] ^ table->seed[1]);
	h = mix(h ^ ((uint64_t)key->pe << 32 | key->slot) ^ table->seed[1], key->uid ^ table->seed[0]);
	return &table->buckets[h % PUBLISH_BUCKETS];
}

static bool same_key(const struct publish_key *a, const struct publish_key *b)
{
	return a->uid == b->uid && a->pe == b->pe && a->slot == b->slot &&
	       memcmp(a->world, b->world, sizeof(a->world)) == 0;
}

struct publish_entry *publish_entry_new(const struct publish_key *key)
{
	struct publish_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->key = *key;
	entry->fd = -1;
	list_init(&entry->link);
	list_init(&entry->owner_link);
	return entry;
}

struct publish_entry *publish_entry_free(struct publish_entry *entry)
{
	if (!entry)
		return NULL;
	list_del(&entry->link);
	list_del(&entry->owner_link);
	held_close(entry->fd);
	quota_charge_deinit(&entry->charge);
	free(entry);
	return NULL;
}

int publish_add(struct publish_table *table, struct publish_entry *entry)
{
	if (publish_find(table, &entry->key))
		return -EEXIST;
	list_add_tail(bucket_of(table, &entry->key), &entry->link);
	return 0;
}

struct publish_entry *publish_find(const struct publish_table *table, const struct publish_key *key)
{
	struct list *bucket = bucket_of(table, key);
	struct publish_entry *entry;

	list_for_each_entry(entry, bucket, link)
		if (same_key(&entry->key, key))
			return entry;
	return NULL;
}
