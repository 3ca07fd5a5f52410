/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values that the PEs of a job put: each key once, all of them within a limit of bytes. Pure. */
#ifndef SHMD_RUN_PMI_STORE_H
#define SHMD_RUN_PMI_STORE_H

#include <stddef.h>

#include "proto/base/hash.h"

#define PMI_STORE_MAX_BYTES (64u << 20)

struct pmi_store {
	struct hash hash; /* of keys; entries of one hash value form a chain */
	size_t bytes;
};

void pmi_store_init(struct pmi_store *store);
void pmi_store_deinit(struct pmi_store *store);
/* Copies both. -EEXIST: the key is there; -ENOSPC: the limit; -ENOMEM. */
int pmi_store_put(struct pmi_store *store, const char *key, const char *value);
/* Valid until deinit. NULL: there is none. */
const char *pmi_store_get(const struct pmi_store *store, const char *key);

#endif
