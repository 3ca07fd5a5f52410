/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a client learns that the daemon died while somebody keeps its connection open: a pair of sockets for each session, one of
 * which this process alone has. Nothing is ever sent on it, and nothing can be: this end is shut down for reading, so that its
 * close finds an empty queue. Not a pipe: who can open its end again for writing holds the lock that a close takes. The
 * client's end may be polled by anybody, and a porter holds it too, so that no close of it here is the last one. Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define OWN_FDS 1 /* health page; socket and pidfd are the connection's */
#define RESUME_FDS 2 /* of one that outlives the daemon: its pair to watch, and its state */

/* A client that says Hello once more gets another pair, and the porter holds all: no client needs so many. */
#define WATCHES_MAX 64u

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

/* The first one stays: it may be what its client watches. */
static void own_watch(struct session *session, int fd)
{
	int *place = &session->watch_fds[session->watch_fds[0] >= 0];

	safe_close(*place);
	*place = fd;
}

int session_make_watch(struct session *session)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int fds[2], r;

	if (session->n_watches == WATCHES_MAX)
		return -EMFILE;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	ours = fds[0];
	theirs = fds[1];
	if (shutdown(ours, SHUT_RD) < 0)
		return -errno;
	r = session_attach(session, theirs, false);
	if (r < 0)
		return r;
	own_watch(session, take_fd(&ours));
	session->n_watches++;
	return take_fd(&theirs);
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
		session_end(session, SHMD_STATUS_NO_MEMORY, "the daemon has restarted and cannot create a socket to watch for this session: %s",
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
