/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a client learns that the daemon died while somebody keeps its connection open: a pipe for each session, whose writing
 * end this process alone has. Nothing is ever written. Not one pipe for all: clients do not trust each other, and whoever can
 * open its reading end again as a writing one would keep the daemon's death from the others. Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define OWN_FDS 1 /* health page; socket and pidfd are the connection's */
#define RESUME_FDS 2 /* of one that outlives the daemon: its pipe, and its state */

bool session_may_resume(const struct registry *registry)
{
	return registry->keeps_sessions && registry->attr.restart_grace_nsec > 0;
}

struct quota_amount session_own_amount(const struct session *session)
{
	return (struct quota_amount){
		.n = {[QUOTA_SESSIONS] = 1, [QUOTA_MAPS] = SESSION_MAPS,
		      [QUOTA_FDS] = OWN_FDS + (session->is_watched ? RESUME_FDS : 0)}};
}

/* Another reading end of that pipe: the one before may be what its client watches. */
static int open_reading_end(int watch_fd)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", watch_fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int session_make_watch(struct session *session)
{
	int fds[2];

	if (session->watch_fd >= 0)
		return open_reading_end(session->watch_fd);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	session->watch_fd = fds[1];
	return fds[0];
}

void session_tell_resumed(struct session *session)
{
	struct registry *registry = session->registry;
	struct fdlist fds;
	struct msg msg;
	int fd;

	if (session->ended || !session->is_watched)
		return;
	fd = session_make_watch(session);
	if (fd < 0) {
		session_end(session, SHMD_STATUS_NO_MEMORY, "the daemon has restarted and cannot create a pipe for this session: %s",
			    strerror(-fd));
		return;
	}
	registry->resumed_total++;
	fdlist_init(&fds);
	fds.fds[fds.n++] = fd;
	msg_init(&msg, MSG_RESUMED_EVENT, 0);
	msg.resumed_event.restart_grace_nsec = registry->attr.restart_grace_nsec;
	snprintf(msg.resumed_event.daemon, sizeof(msg.resumed_event.daemon), "%s", registry->attr.daemon);
	session_send(session, &msg, &fds);
	fdlist_deinit(&fds);
}
