/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections, and holds the sockets of ended sessions until their clients have read everything.
 *
 * Neither the listening socket nor a new connection takes descriptors (SO_PASSRIGHTS); a client's socket does once its porter
 * has it. So a connection that is refused or never says Hello holds nothing that blocks when it is closed. Connections get
 * numbers below seven eighths of RLIMIT_NOFILE; requests use the rest for the descriptors that come with them. While there are no
 * descriptors or no memory, the backlog waits.
 *
 * The kernel charges descriptors that a client has not read to the daemon's user, even after the session ends: see
 * session/inflight-fds.c. Control thread.
 */
#include "daemon/clients/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/session/inflight-fds.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define ACCEPTS_PER_TURN 16
#define PAUSE_NSEC (100 * NSEC_PER_MSEC)
#define ENDED_PER_TURN 256 /* a microsecond for each at most */
#define ENDED_LOOK_NSEC (100 * NSEC_PER_MSEC)
/* Connections never use one part in this many of the descriptors that the process may open. */
#define RESERVED_SHARE 8u

struct accept {
	struct accept_attr attr;
	struct loop_watch *watch; /* NULL: it accepts no connection */
	struct loop_timer *pause;
	int end_fd, last_fd; /* clients are accepted below this number; the number of the last one */
	struct loop_timer *look; /* at sockets of ended sessions */
	bool look_armed;
};

DEFINE_CLEANUP(struct accept *, accept_free);

/* ---- connections -------------------------------------------------------------------------------------------------- */

static void on_pause_over(void *arg)
{
	struct accept *accept = arg;

	if (accept->watch)
		loop_watch_set(accept->watch, LOOP_READ);
}

/* Instead of spinning on the backlog. */
static void pause_accept(struct accept *accept)
{
	log_provoked(LOG_ERR, &(struct log_fields){.event = CATALOG_ACCEPT_PAUSED},
		     "cannot accept a client now: %m");
	loop_watch_set(accept->watch, 0);
	loop_timer_arm(accept->pause, PAUSE_NSEC);
}

/* New descriptors get the lowest free number. */
static bool has_room(struct accept *accept)
{
	if (accept->last_fd < accept->end_fd)
		return true;
	accept->last_fd = fcntl(accept->attr.listener->fd, F_DUPFD_CLOEXEC, 0);
	if (accept->last_fd < 0)
		accept->last_fd = INT_MAX;
	else
		close(accept->last_fd);
	errno = EMFILE;
	return accept->last_fd < accept->end_fd;
}

static int accept_now(struct accept *accept)
{
	int sock = -1;

	if (has_room(accept))
		sock = accept4(accept->attr.listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock >= 0)
		accept->last_fd = sock;
	return sock;
}

static bool accept_one(struct accept *accept)
{
	int sock = accept_now(accept);
	int r;

	if (sock < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			pause_accept(accept);
		return false;
	}
	if (accept->attr.hang_in && --accept->attr.hang_in == 0)
		for (;;)
			pause();
	r = accept->attr.serve(accept->attr.arg, sock);
	if (r < 0 && r != -EDQUOT && r != -ESRCH)
		log_provoked(LOG_WARNING, NULL, "cannot serve a new client: %s", strerror(-r));
	return true;
}

static void on_accept(void *arg, unsigned int events)
{
	struct accept *accept = arg;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++)
		if (!accept_one(accept))
			return;
}

/* ---- sockets of ended sessions ------------------------------------------------------------------------------------- */

/* Only while there are some: an idle daemon sleeps. */
void accept_look(struct accept *accept)
{
	if (accept && accept->attr.registry->inflight.n_ended > 0 && !accept->look_armed)
		accept->look_armed = loop_timer_arm(accept->look, ENDED_LOOK_NSEC) == 0;
}

static void on_look(void *arg)
{
	struct accept *accept = arg;

	accept->look_armed = false;
	inflight_look(&accept->attr.registry->inflight, ENDED_PER_TURN);
	accept_look(accept);
}

/* ---- birth and death ----------------------------------------------------------------------------------------------- */

int accept_new(const struct accept_attr *attr, struct accept **ret_accept)
{
	_cleanup_(accept_freep) struct accept *accept = calloc(1, sizeof(*accept));
	int r;

	if (!accept)
		return -ENOMEM;
	accept->attr = *attr;
	accept->end_fd = (int)(attr->max_fds - attr->max_fds / RESERVED_SHARE);
	r = loop_timer_new(attr->loop, on_pause_over, accept, &accept->pause);
	if (r == 0)
		r = loop_timer_new(attr->loop, on_look, accept, &accept->look);
	if (r == 0)
		*ret_accept = take_ptr(accept);
	return r;
}

int accept_begin(struct accept *accept)
{
	return loop_watch_new(accept->attr.loop, accept->attr.listener->fd, LOOP_READ, on_accept, accept, &accept->watch);
}

void accept_stop(struct accept *accept)
{
	if (accept)
		accept->watch = loop_watch_free(accept->watch);
}

struct accept *accept_free(struct accept *accept)
{
	if (!accept)
		return NULL;
	loop_watch_free(accept->watch);
	loop_timer_free(accept->pause);
	loop_timer_free(accept->look);
	free(accept);
	return NULL;
}
