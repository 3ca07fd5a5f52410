/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unique ids. Programs make one on every PE and use that of PE 0 alone, for each job that they begin. An id keeps a socket, of which a process has
 * a limited number, so the library remembers the ids that no job has used here, and after so many gives out the oldest one again.
 */
#include <string.h>

#include "libclient/compat/nvshmem/nvs.h"

#define UID_VERSION NVS_WORD(1, NVS_UID_BYTES)
#define MAGIC "shu1" /* the first bytes of any id of the runtime, which the program's does not carry */
#define MAGIC_BYTES 4u
#define KEPT 32u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shmd_uid kept[KEPT]; /* in the order in which they are given out */
static unsigned int n_kept;

/* The oldest one becomes the newest. */
static void turn(void)
{
	struct shmd_uid oldest = kept[0];

	memmove(&kept[0], &kept[1], (n_kept - 1) * sizeof(kept[0]));
	kept[n_kept - 1] = oldest;
}

static int choose(struct shmd_uid *ret_uid)
{
	int r = 0;

	if (n_kept == KEPT)
		turn();
	else
		r = shmd_uid_make(&kept[n_kept]);
	if (!r && n_kept < KEPT)
		n_kept++;
	if (!r)
		*ret_uid = kept[n_kept - 1];
	return r;
}

static void forget(const struct shmd_uid *uid)
{
	for (unsigned int i = 0; i < n_kept; i++)
		if (!memcmp(&kept[i], uid, sizeof(*uid))) {
			memmove(&kept[i], &kept[i + 1], (n_kept - i - 1) * sizeof(kept[0]));
			n_kept--;
			return;
		}
}

void nvs_uid_use(const struct nvs_uid *uid, struct shmd_uid *ret_uid)
{
	memcpy(ret_uid->data, MAGIC, MAGIC_BYTES);
	memcpy(ret_uid->data + MAGIC_BYTES, uid->data, sizeof(uid->data));
	pthread_mutex_lock(&lock);
	forget(ret_uid);
	pthread_mutex_unlock(&lock);
}

NVS_API int nvshmemx_get_uniqueid(struct nvs_uid *ret_uid);
int nvshmemx_get_uniqueid(struct nvs_uid *ret_uid)
{
	struct shmd_uid uid;
	int r;

	pthread_mutex_lock(&lock);
	r = choose(&uid);
	pthread_mutex_unlock(&lock);
	if (!r) {
		ret_uid->version = UID_VERSION;
		memcpy(ret_uid->data, uid.data + MAGIC_BYTES, sizeof(ret_uid->data));
	}
	return nvs_result("nvshmemx_get_uniqueid", r);
}
