/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that notices a dead daemon while no thread is in the library.
 *
 * Kernels and threads that wait on a queue read the health word only, so the library must write "daemon gone" into it
 * even if no call is made. This thread sleeps in poll() until the connection hangs up,
 * writes the health words and ends. It blocks all signals.
 *
 * If the session outlives the daemon, a second socket hangs up when the daemon dies (restart.c). From then until the next daemon
 * has taken over or the grace is over, this thread reads the client's socket, since perhaps no other thread does. It takes the
 * lock if it is free and never waits for it: a thread that holds the lock reads the socket itself.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/request.h"
#include "proto/base/thread.h"

#define WATCHER_STACK_BYTES (256u * 1024u)
#define LOCKED_PAUSE_NSEC (10 * NSEC_PER_MSEC) /* another thread reads the socket meanwhile */

enum watched {
	WATCHED_SOCK,
	WATCHED_WAKE,
	WATCHED_DAEMON,
	N_WATCHED,
};

enum outcome {
	LOOK_AGAIN,
	GONE,
	BLIND, /* the kernel does not let it look */
};

/* The number of ready descriptors; 0 after that time; or a negative errno. */
static int wait_for(struct pollfd *pfds, nfds_t n, uint64_t left_nsec)
{
	const struct timespec left = nsec_to_timespec(left_nsec);
	int r = ppoll(pfds, n, left_nsec == UINT64_MAX ? NULL : &left, NULL);

	return r < 0 ? -errno : r;
}

static bool passes(int err)
{
	return err == -EINTR || err == -EAGAIN || err == -ENOMEM;
}

static bool take_wake(struct shmd_client *client, const struct pollfd *pfd)
{
	uint64_t count;

	return pfd->revents && read(client->restart.wake_fd, &count, sizeof(count)) == sizeof(count);
}

/* Reads packets that arrive while no daemon runs. */
static enum outcome read_news(struct shmd_client *client)
{
	struct pollfd wake = {.fd = client->restart.wake_fd, .events = POLLIN};
	int r;

	if (pthread_mutex_trylock(&client->lock)) {
		wait_for(&wake, 1, LOCKED_PAUSE_NSEC);
		return LOOK_AGAIN;
	}
	r = request_drain(client);
	client_unlock(client);
	return r < 0 ? GONE : LOOK_AGAIN;
}

static enum outcome give_up(struct shmd_client *client, uint32_t seen)
{
	if (!restart_give_up(&client->restart, seen))
		return LOOK_AGAIN;
	/* Wakes threads that wait in a request, and a daemon that comes late sees that the client is gone. */
	shutdown(client->sock, SHUT_RDWR);
	return GONE;
}

/*
 * The daemon has died: waits until the next one has taken over, the grace is over, or the connection ends. While a packet lies in
 * the socket and another thread holds the lock, it waits beyond the grace: the packet may be the news of the next daemon.
 */
static enum outcome wait_for_next(struct shmd_client *client, uint32_t seen)
{
	uint64_t deadline = nsec_add(nsec_now(), restart_grace(&client->restart));
	struct pollfd pfds[] = {
		[WATCHED_SOCK] = {.fd = client->sock, .events = POLLIN | POLLRDHUP},
		[WATCHED_WAKE] = {.fd = client->restart.wake_fd, .events = POLLIN},
	};
	enum outcome outcome = LOOK_AGAIN;

	while (outcome == LOOK_AGAIN && restart_state(&client->restart) == seen) {
		uint64_t now = nsec_now(), left = now < deadline ? deadline - now : 0;
		int r = wait_for(pfds, 2, left);

		if (r < 0 && !passes(r))
			return BLIND;
		if (r <= 0 && !left)
			return give_up(client, seen);
		if (r <= 0 || take_wake(client, &pfds[WATCHED_WAKE]))
			continue;
		outcome = pfds[WATCHED_SOCK].revents & ~POLLIN ? GONE : read_news(client);
	}
	return outcome;
}

/* Sleeps until something happens. */
static enum outcome watch(struct shmd_client *client)
{
	/* Before looking at the socket, which may be another one a moment later. */
	uint32_t seen = restart_state(&client->restart);
	struct pollfd pfds[] = {
		[WATCHED_SOCK] = {.fd = client->sock, .events = POLLRDHUP},
		[WATCHED_WAKE] = {.fd = client->restart.wake_fd, .events = POLLIN},
		[WATCHED_DAEMON] = {.fd = client->restart.watch_fd},
	};
	enum outcome outcome;
	int r = wait_for(pfds, N_WATCHED, UINT64_MAX);

	if (r < 0)
		return passes(r) ? LOOK_AGAIN : BLIND;
	if (pfds[WATCHED_SOCK].revents)
		return GONE;
	if (take_wake(client, &pfds[WATCHED_WAKE]) || !pfds[WATCHED_DAEMON].revents)
		return LOOK_AGAIN;
	restart_set_away(&client->restart, true);
	outcome = wait_for_next(client, seen);
	restart_set_away(&client->restart, false);
	return outcome;
}

static void *watcher_run(void *arg)
{
	struct shmd_client *client = arg;
	enum outcome outcome;

	do
		outcome = watch(client);
	while (outcome == LOOK_AGAIN);
	if (outcome == GONE && !__atomic_load_n(&client->closing, __ATOMIC_ACQUIRE))
		client_set_health(client->health, SHMD_HEALTH_DAEMON_GONE);
	return NULL;
}

int watcher_start(struct shmd_client *client)
{
	int r = thread_start(&client->watcher, WATCHER_STACK_BYTES, "shmd-watcher", watcher_run, client);

	if (r < 0)
		return text_fail(r, "cannot start the thread that watches the connection: %s", strerror(-r));
	client->has_watcher = true;
	return 0;
}

void watcher_stop(struct shmd_client *client)
{
	if (!client->has_watcher)
		return;
	pthread_join(client->watcher, NULL);
	client->has_watcher = false;
}
