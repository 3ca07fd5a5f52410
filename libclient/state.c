/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a client that everything above asks: its process, its lock, its health words, its first fatal error.
 *
 * A client is dead after the first fatal error and stays so: every later call returns the same error and text, and every health
 * word is set, so that waits on its queues end. A client belongs to the process that opened it: in a forked child the lock may be
 * held by a thread that does not exist there, so a child never takes it.
 */
#include "libclient/state.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOCK_SLICE_NSEC (100 * NSEC_PER_MSEC)

int client_check(const struct shmd_client *client)
{
	if (!client)
		return text_fail(-EINVAL, "client is NULL");
	if (client->pid != getpid())
		return text_fail(-ECHILD, "this client belongs to process %d, which forked this one; "
				 "open a client of its own here", (int)client->pid);
	return 0;
}

int client_check_out(const struct shmd_client *client, const void *out, const char *name)
{
	int r = client_check(client);

	return r < 0 || out ? r : text_fail(-EINVAL, "%s is NULL", name);
}

static _Thread_local struct shmd_request_limit limit;

struct shmd_request_limit shmd_request_limit_set(struct shmd_request_limit wanted)
{
	struct shmd_request_limit former = limit;

	limit = wanted;
	return former;
}

uint64_t client_timeout_nsec(const struct shmd_client *client)
{
	return limit.client == client ? limit.timeout_nsec : client->timeout_nsec;
}

/*
 * Not every C library has timed mutexes on the monotonic clock, and the wall clock may be set: the wait trusts it for a slice at a
 * time, and the monotonic clock decides about the deadline.
 */
int client_lock_until(struct shmd_client *client, uint64_t deadline_nsec)
{
	for (;;) {
		uint64_t now = nsec_now(), left = now < deadline_nsec ? deadline_nsec - now : 0;
		struct timespec wall;

		clock_gettime(CLOCK_REALTIME, &wall);
		wall = nsec_to_timespec((uint64_t)wall.tv_sec * NSEC_PER_SEC + (uint64_t)wall.tv_nsec +
					(left < LOCK_SLICE_NSEC ? left : LOCK_SLICE_NSEC));
		if (!pthread_mutex_timedlock(&client->lock, &wall))
			return 0;
		if (!left)
			return -EAGAIN;
	}
}

/* Final values stay; "all is well" and "port down", which the daemon may set and clear meanwhile, give way. */
static void set_health_word(uint32_t *word, uint32_t health)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (old == SHMD_HEALTH_OK || old == SHMD_HEALTH_PORT_DOWN)
		if (__atomic_compare_exchange_n(word, &old, health, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return;
}

void client_set_health(struct shmd_health_page *page, uint32_t health)
{
	if (!page)
		return;
	for (unsigned int i = 0; i < SHMD_HEALTH_NICS; i++)
		set_health_word(&page->nic[i], health);
	set_health_word(&page->session, health);
}

int client_die(struct shmd_client *client, int err, const char *text)
{
	if (!client->dead) {
		client->dead = err;
		text_copy(client->dead_text, sizeof(client->dead_text), text);
		client_set_health(client->health, SHMD_HEALTH_DAEMON_GONE);
		event_queue_signal(&client->events);
	}
	return text_fail(client->dead, "%s", client->dead_text);
}
