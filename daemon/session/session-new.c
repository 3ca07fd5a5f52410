/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session begins: the client's identity and a place among the connections of its user. Refuses users who have too many,
 * and tells them. No loop, no globals. Control thread.
 */
#include "daemon/session/session.h"

#include <errno.h>

#include "daemon/session/monitor.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

static int refuse_connection(struct session *session, enum quota_what what, uint64_t asked)
{
	enum shmd_status status = what == QUOTA_FDS ? SHMD_STATUS_QUOTA_FDS : SHMD_STATUS_QUOTA_SESSIONS;
	struct msg msg;

	msg_init(&msg, MSG_ERROR_REP, 0);
	msg.error_rep.status = status;
	quota_explain(&session->user, what, asked, msg.error_rep.text, sizeof(msg.error_rep.text));
	session_note_event(session, CATALOG_SESSION_REFUSED, "refused a connection: %s", msg.error_rep.text);
	session->registry->refused_total++;
	session_send(session, &msg, NULL);
	monitor_refused(session, status, msg.error_rep.text);
	return -EDQUOT;
}

/* An administrator must be able to list and kill when everything is used up. Hello then refuses a client. */
static bool take_admin_place(struct session *session, const struct quota_amount *amount, enum quota_what what)
{
	struct registry *registry = session->registry;

	if (!session_is_admin(session) || registry->n_admin_taken >= registry->attr.n_admin_places)
		return false;
	registry->n_admin_taken++;
	session->has_admin_place = true;
	session->admin_limit = what;
	quota_charge_adopt(&session->user, amount, &session->connection_charge);
	return true;
}

static int charge_connection(struct session *session)
{
	const struct quota_amount amount = {.n = {[QUOTA_CONNECTIONS] = 1, [QUOTA_FDS] = SESSION_CONNECTION_FDS}};
	int r;

	/* Sockets whose clients have read or gone meanwhile give their places back. */
	inflight_look(&session->registry->inflight, INFLIGHT_LOOKS);
	r = quota_fds_stuck(&session->user, SESSION_CONNECTION_FDS)
		? 1 + QUOTA_FDS : quota_charge(&session->user, &amount, &session->connection_charge);
	if (r == 0 || take_admin_place(session, &amount, r - 1))
		return 0;
	return refuse_connection(session, r - 1, amount.n[r - 1]);
}

/*
 * Where descriptors may be in the socket already its porter has it from the start: on a kernel that lets them through, or when it was
 * connected to a service manager's socket while no daemon ran. Else it has it when they are of use.
 */
static int set_passing(struct session *session)
{
	int sock = session->connection.fd, r = 0;

	if (!session->registry->attr.porters)
		r = framing_set_passing(sock, true);
	else if (framing_is_passing(sock))
		r = session_let_send_fds(session);
	return r == -EINPROGRESS || r == -ENOPROTOOPT ? 0 : r;
}

int session_new(struct registry *registry, int sock, struct session **ret_session)
{
	_cleanup_close_ int owned_sock = sock;
	_cleanup_(session_freep) struct session *session = session_alloc(registry);
	int r, r_identity;

	if (!session)
		return -ENOMEM;
	session->release = session_release;
	session_take_socket(session, take_fd(&owned_sock));

	r = framing_setup(session->connection.fd);
	if (r < 0)
		return r;
	r_identity = identity_init(&session->identity, session->connection.fd);
	r = quota_user_init(&session->user, &registry->quota, session->identity.uid,
			    session->identity.tenant);
	if (r < 0)
		return r;
	/* Also of a client that is gone already: what it sent has to be closed. */
	r = set_passing(session);
	if (r == 0)
		r = r_identity;
	if (r < 0)
		return r;
	r = inflight_new(&registry->inflight, &session->user, session->connection.fd, &session->connection.inflight);
	if (r < 0)
		return r;
	r = charge_connection(session);
	if (r < 0)
		return r;
	session->id = ++registry->last_id;
	list_add_tail(&registry->sessions, &session->link);
	*ret_session = take_ptr(session);
	return 0;
}
