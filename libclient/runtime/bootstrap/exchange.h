/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0's id to all ranks by the key-value store of a launcher. The ranks of a job open the worlds that meet in this way in the same order. Any
 * thread; one exchange of a store at a time.
 */
#ifndef SHMD_RUNTIME_EXCHANGE_H
#define SHMD_RUNTIME_EXCHANGE_H

#include "libclient/runtime/bootstrap/module.h"

struct key_store {
	int (*put)(void *arg, const char *key, const char *value, uint64_t deadline);
	int (*fence)(void *arg, uint64_t deadline);
	int (*get)(void *arg, const char *key, char *value, size_t bytes, uint64_t deadline);
	void *arg;
	unsigned int n; /* exchanges so far: each has a key of its own */
};

/* Rank 0 makes an id, all get it. -errno with a sentence. */
int exchange_uid(const struct bootstrap_attr *attr, struct key_store *store, int rank, uint64_t deadline, struct shmd_uid *ret);

/* The same for launchers that broadcast: rank 0 makes an id; the bytes are zero if it could not, and stay so with all ranks. */
void broadcast_make(const struct bootstrap_attr *attr, int rank, struct shmd_uid *ret);
/* After the broadcast: -EIO with a sentence if rank 0 could not make it. */
int broadcast_check(const struct shmd_uid *uid, int rank);

#endif
