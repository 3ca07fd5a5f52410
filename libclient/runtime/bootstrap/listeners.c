/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/listeners.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <shmemclient.h>

#include "proto/base/cleanup.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	bool used;
	int fd;
	struct shmd_uid uid;
} listeners[LISTENERS_MOST];

int listeners_add(const struct shmd_uid *uid, int fd)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (i < LISTENERS_MOST && listeners[i].used)
		i++;
	if (i < LISTENERS_MOST) {
		listeners[i].used = true;
		listeners[i].fd = fd;
		listeners[i].uid = *uid;
	}
	pthread_mutex_unlock(&lock);
	if (i < LISTENERS_MOST)
		return 0;
	safe_close(fd);
	return shmd_error_set(-EMFILE, "%d unique ids of this process wait for their jobs; open or drop one first", LISTENERS_MOST);
}

int listeners_take(const struct shmd_uid *uid)
{
	int fd = -1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < LISTENERS_MOST && fd < 0; i++)
		if (listeners[i].used && !memcmp(&listeners[i].uid, uid, sizeof(*uid))) {
			fd = listeners[i].fd;
			listeners[i].used = false;
		}
	pthread_mutex_unlock(&lock);
	return fd;
}
