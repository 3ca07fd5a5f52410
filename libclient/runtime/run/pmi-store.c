/* SPDX-License-Identifier: Apache-2.0 */
/* See pmi-store.h. */
#include "libclient/runtime/run/pmi-store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	struct entry *next; /* with the same hash value */
	const char *value; /* behind the key */
	char key[];
};

/* FNV-1a, written from its description. */
static uint64_t hash_of(const char *key)
{
	uint64_t sum = 0xcbf29ce484222325ull;

	for (; *key; key++)
		sum = (sum ^ (unsigned char)*key) * 0x100000001b3ull;
	return sum;
}

/* A caller's line bounds both texts. */
static struct entry *entry_new(const char *key, const char *value)
{
	size_t key_bytes = strlen(key) + 1, value_bytes = strlen(value) + 1;
	struct entry *entry = malloc(sizeof(*entry) + key_bytes + value_bytes); /* bounded by the line they stood in */

	if (!entry)
		return NULL;
	memcpy(entry->key, key, key_bytes);
	memcpy(entry->key + key_bytes, value, value_bytes);
	entry->value = entry->key + key_bytes;
	entry->next = NULL;
	return entry;
}

void pmi_store_init(struct pmi_store *store)
{
	hash_init(&store->hash);
	store->bytes = 0;
}

void pmi_store_deinit(struct pmi_store *store)
{
	struct entry *entry, *next;
	uint64_t sum;
	size_t pos = 0;

	while ((entry = hash_next(&store->hash, &pos, &sum)))
		for (; entry; entry = next) {
			next = entry->next;
			free(entry);
		}
	hash_deinit(&store->hash);
}

const char *pmi_store_get(const struct pmi_store *store, const char *key)
{
	struct entry *entry = hash_get(&store->hash, hash_of(key));

	while (entry && strcmp(entry->key, key))
		entry = entry->next;
	return entry ? entry->value : NULL;
}

int pmi_store_put(struct pmi_store *store, const char *key, const char *value)
{
	size_t bytes = sizeof(struct entry) + strlen(key) + strlen(value) + 2;
	struct entry *entry, *first;
	int r = 0;

	if (pmi_store_get(store, key))
		return -EEXIST;
	if (bytes > PMI_STORE_MAX_BYTES - store->bytes)
		return -ENOSPC;
	entry = entry_new(key, value);
	if (!entry)
		return -ENOMEM;
	first = hash_get(&store->hash, hash_of(key));
	if (first) {
		entry->next = first->next;
		first->next = entry;
	} else {
		r = hash_add(&store->hash, hash_of(key), entry);
	}
	if (r < 0)
		free(entry);
	else
		store->bytes += bytes;
	return r;
}
