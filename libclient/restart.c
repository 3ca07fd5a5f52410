/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that dies while the service manager keeps the connection open, and the next daemon.
 *
 * Hello brings a socket that hangs up when the daemon dies. The watcher then waits for ResumedEvent for the grace, and gives up
 * after it: it closes the connection, and everything goes on as if the connection had broken. The thread that reads the event, in a
 * request or the watcher, puts its new socket in the place of the old one, under the same number, so that no
 * descriptor is closed while the watcher sleeps on it.
 *
 * A client that gets the event before the answer to its Hello repeats Hello: the daemon that died had the session, and had not
 * answered. A client whose connection ends before that has no session: it connects anew (open.c).
 *
 * `state` decides between restart and giving up: one number that counts the restarts and has a bit for "given up", changed by
 * compare-and-swap. A restart after that bit is set changes nothing.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libclient/state.h"

#define GIVEN_UP (UINT32_C(1) << 31)

static bool is_watchable(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

void restart_init(struct restart *restart)
{
	*restart = (struct restart){.watch_fd = -1, .wake_fd = -1};
}

void restart_deinit(struct restart *restart)
{
	restart->watch_fd = safe_close(restart->watch_fd);
	restart->wake_fd = safe_close(restart->wake_fd);
}

void restart_expect(struct restart *restart)
{
	restart->in_hello = true;
}

void restart_none(struct restart *restart)
{
	restart->in_hello = false;
	__atomic_store_n(&restart->state, 0, __ATOMIC_RELEASE);
}

int restart_begin(struct restart *restart, int watch_fd, uint64_t grace_nsec)
{
	_cleanup_close_ int fd = watch_fd;

	if (!is_watchable(fd))
		return text_fail(-EPROTO, "shmemd sent something to watch that is not a socket");
	restart->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (restart->wake_fd < 0)
		return text_fail(-errno, "cannot watch for restarts of shmemd: %s", strerror(errno));
	restart->watch_fd = take_fd(&fd);
	restart->grace_nsec = grace_nsec;
	return 0;
}

uint32_t restart_state(const struct restart *restart)
{
	return __atomic_load_n(&restart->state, __ATOMIC_ACQUIRE);
}

unsigned int restart_count(const struct restart *restart)
{
	return restart_state(restart) & ~GIVEN_UP;
}

bool restart_gave_up(const struct restart *restart)
{
	return restart_state(restart) & GIVEN_UP;
}

bool restart_give_up(struct restart *restart, uint32_t seen)
{
	return __atomic_compare_exchange_n(&restart->state, &seen, seen | GIVEN_UP, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* Lock held: no other thread counts. False: the watcher has given up. */
static bool count_restart(struct restart *restart)
{
	uint32_t seen = restart_state(restart);

	return !(seen & GIVEN_UP) && __atomic_compare_exchange_n(&restart->state, &seen, seen + 1, false,
								 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void wake_watcher(struct restart *restart)
{
	const uint64_t one = 1;

	/* Non-blocking; a full counter is readable all the same. */
	if (write(restart->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void tell_restart(struct shmd_client *client, const struct msg_resumed_event *news)
{
	char text[MSG_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s has restarted and taken this session over", news->daemon);
	event_queue_push_resumed(&client->events, restart_count(&client->restart), text);
}

int restart_resume(struct shmd_client *client, const struct msg_resumed_event *news, struct fdlist *fds)
{
	struct restart *restart = &client->restart;
	_cleanup_close_ int fd = fdlist_take(fds, news->watch_fd);

	/* The answer to Hello brings one as well. */
	if (restart->in_hello) {
		count_restart(restart);
		return 0;
	}
	if (restart->watch_fd < 0)
		return client_die(client, -EPROTO, "shmemd sent news of a restart to a client that watches for none");
	if (!is_watchable(fd))
		return client_die(client, -EPROTO, "shmemd sent news of a restart without a socket to watch");
	if (dup3(fd, restart->watch_fd, O_CLOEXEC) < 0)
		return client_die(client, -errno, "cannot watch for the next restart of shmemd");
	__atomic_store_n(&restart->grace_nsec, news->restart_grace_nsec, __ATOMIC_RELEASE);
	if (!count_restart(restart))
		return 0;
	wake_watcher(restart);
	tell_restart(client, news);
	return 0;
}

uint64_t restart_grace(const struct restart *restart)
{
	return __atomic_load_n(&restart->grace_nsec, __ATOMIC_ACQUIRE);
}

bool restart_is_away(const struct restart *restart)
{
	return __atomic_load_n(&restart->is_away, __ATOMIC_RELAXED);
}

void restart_set_away(struct restart *restart, bool is_away)
{
	__atomic_store_n(&restart->is_away, is_away, __ATOMIC_RELAXED);
}

unsigned int shmd_client_restarts(const struct shmd_client *client)
{
	return client ? restart_count(&client->restart) : 0;
}
