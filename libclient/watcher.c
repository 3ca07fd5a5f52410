/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that notices a dead daemon while nobody is in the library.
 *
 * Kernels and threads that wait on a queue read the health word only; someone must write "daemon gone" into it
 * even when no call into the library is made. This thread sleeps in poll() until the connection hangs up,
 * writes the health words and ends. It takes no lock, reads nothing from the socket and has all signals blocked.
 */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "libclient/client-private.h"

#define WATCHER_STACK_BYTES (256u * 1024u)

static void *watcher_run(void *arg)
{
	struct shmd_client *client = arg;
	struct pollfd pfd = {.fd = client->sock, .events = POLLRDHUP};

	while (poll(&pfd, 1, -1) < 0)
		if (errno != EINTR && errno != EAGAIN && errno != ENOMEM)
			return NULL;
	if (!__atomic_load_n(&client->closing, __ATOMIC_ACQUIRE))
		client_set_health(client->health, SHMD_HEALTH_DAEMON_GONE);
	return NULL;
}

static int watcher_create(struct shmd_client *client, const pthread_attr_t *attr)
{
	sigset_t all, before;
	int r;

	/* The new thread inherits the mask: a signal handler of the application never runs here. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&client->watcher, attr, watcher_run, client);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		return text_fail(-r, "cannot start the thread that watches the connection: %s",
				 strerror(r));
	pthread_setname_np(client->watcher, "shmd-watcher");
	client->has_watcher = true;
	return 0;
}

int watcher_start(struct shmd_client *client)
{
	pthread_attr_t attr;
	int r;

	r = pthread_attr_init(&attr);
	if (r)
		return text_fail(-r, "cannot start a thread: %s", strerror(r));
	pthread_attr_setstacksize(&attr, WATCHER_STACK_BYTES);
	r = watcher_create(client, &attr);
	pthread_attr_destroy(&attr);
	return r;
}

void watcher_stop(struct shmd_client *client)
{
	if (!client->has_watcher)
		return;
	pthread_join(client->watcher, NULL);
	client->has_watcher = false;
}
