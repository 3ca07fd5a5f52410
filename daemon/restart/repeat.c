/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon carried a request out and died before its client read the answer: this one answers it, and does not carry it out again.
 *
 * Descriptors of the answer are those of the session, which it has again; only a socket to watch is another one. Control thread.
 */
#include "daemon/restart/save.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "proto/base/cleanup.h"

static int add_dup(struct fdlist *fds, int borrowed_fd)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (borrowed_fd < 0)
		return 0;
	fd = fcntl(borrowed_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	r = fdlist_add(fds, fd);
	if (r == 0)
		take_fd(&fd);
	return r;
}

static int hello_fds(struct session *session, struct fdlist *fds)
{
	_cleanup_close_ int fd = -1;
	int r = add_dup(fds, session->health_fd);

	if (r < 0)
		return r;
	fd = session_make_watch(session);
	r = fd < 0 ? fd : fdlist_add(fds, fd);
	if (r == 0)
		take_fd(&fd);
	return r;
}

/* In the order of the handlers. */
static int reply_fds(struct session *session, const struct msg *rep, struct fdlist *fds)
{
	const struct nic_doorbell *doorbell;
	struct session_nic *nic;
	int r;

	if (rep->kind == MSG_HELLO_REP)
		return hello_fds(session, fds);
	if (rep->kind == MSG_QUEUE_CREATE_REP)
		return add_dup(fds, session->saved.reply_fd);
	if (rep->kind != MSG_NIC_OPEN_REP)
		return 0;
	nic = session_nic_by_index(session, rep->nic_open_rep.nic);
	if (!nic)
		return -ENOENT;
	doorbell = &nic->ctx->doorbell;
	r = add_dup(fds, doorbell->page_fd);
	if (r == 0)
		r = add_dup(fds, doorbell->nic_page_fd);
	return r < 0 ? r : add_dup(fds, doorbell->wake_fd);
}

static int answer_again(struct session *session)
{
	const struct session_saved *saved = &session->saved;
	_cleanup_(msg_deinit) struct msg rep;
	_cleanup_(fdlist_deinit) struct fdlist fds;
	int r;

	fdlist_init(&fds);
	msg_init(&rep, MSG_OK_REP, 0);
	r = msg_decode(saved->reply, saved->reply_bytes, &rep);
	if (r == 0)
		r = reply_fds(session, &rep, &fds);
	if (r == 0 && fds.n != rep.n_fds)
		r = -EBADMSG;
	if (r == 0)
		session_send_packet(session, &rep, saved->reply, saved->reply_bytes, &fds);
	return r;
}

bool save_repeat(struct session *session, const struct msg *request)
{
	const struct session_saved *saved = &session->saved;
	int r;

	if (!saved->imported || !saved->reply || request->id != saved->request || request->kind != saved->kind)
		return false;
	r = answer_again(session);
	if (r < 0)
		session_end(session, SHMD_STATUS_INTERNAL, "the answers from before the restart are lost: %s", strerror(-r));
	return true;
}
