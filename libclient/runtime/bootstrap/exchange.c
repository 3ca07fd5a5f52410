/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <shmemclient.h>

#define FAILED "none"

static int no_uid(void)
{
	return shmd_error_set(-EIO, "rank 0 could not make a unique id; its error says why");
}

static int get_uid(struct key_store *store, const char *key, uint64_t deadline, struct shmd_uid *ret)
{
	char text[BOOTSTRAP_UID_TEXT_BYTES];
	int err = store->get(store->arg, key, text, sizeof(text), deadline);

	if (!err && !strcmp(text, FAILED))
		return no_uid();
	return err ? err : bootstrap_uid_from_text(text, ret);
}

static int exchange_as_first(const struct bootstrap_attr *attr, struct key_store *store, const char *key, uint64_t deadline,
			     struct shmd_uid *ret)
{
	char text[BOOTSTRAP_UID_TEXT_BYTES] = FAILED;
	int made = bootstrap_uid_make(attr, ret), err;

	if (!made)
		bootstrap_uid_text(ret, text);
	/* Without an id the others learn so, and do not wait. */
	err = store->put(store->arg, key, text, deadline);
	if (!err)
		err = store->fence(store->arg, deadline);
	if (err && !made)
		bootstrap_uid_drop(ret);
	return err ? err : made;
}

static int exchange_as_other(struct key_store *store, const char *key, uint64_t deadline, struct shmd_uid *ret)
{
	int err = store->fence(store->arg, deadline);

	return err ? err : get_uid(store, key, deadline, ret);
}

int exchange_uid(const struct bootstrap_attr *attr, struct key_store *store, int rank, uint64_t deadline, struct shmd_uid *ret)
{
	char key[32];

	snprintf(key, sizeof(key), "shmd-uid-%u", store->n++);
	return rank ? exchange_as_other(store, key, deadline, ret) : exchange_as_first(attr, store, key, deadline, ret);
}

void broadcast_make(const struct bootstrap_attr *attr, int rank, struct shmd_uid *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (!rank && bootstrap_uid_make(attr, ret))
		memset(ret, 0, sizeof(*ret));
}

int broadcast_check(const struct shmd_uid *uid, int rank)
{
	static const struct shmd_uid none;

	if (memcmp(uid, &none, sizeof(none)))
		return 0;
	/* Rank 0 keeps the sentence that says why. */
	return rank ? no_uid() : -EIO;
}
