/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hello: fixes the protocol version and the role, and tells every limit the daemon enforces, so that clients
 * need not guess. A client's session counts from here on. Control thread.
 */
#include "daemon/session/dispatch.h"
#include "daemon/session/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "daemon/porter/porter.h"
#include "proto/framing.h"

static uint32_t limit32(const struct registry *registry, enum quota_what what)
{
	uint64_t limit = registry->attr.limits.n[what];

	return limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
}

static void fill_limits(struct msg_limits *limits, const struct registry *registry)
{
	*limits = (struct msg_limits){
		.max_packet_bytes = FRAMING_MAX_PACKET_BYTES,
		.max_fds_per_packet = FRAMING_MAX_FDS,
		.max_qps_per_request = MSG_MAX_QPS,
		.max_peers_per_request = MSG_MAX_PEERS,
		.max_nics_per_session = SESSION_MAX_NICS,
		.max_sessions = limit32(registry, QUOTA_SESSIONS),
		.max_qps = limit32(registry, QUOTA_QPS),
		.max_cqs = limit32(registry, QUOTA_CQS),
		.max_registered_bytes = registry->attr.limits.n[QUOTA_BYTES],
		.max_fds = limit32(registry, QUOTA_FDS),
		.max_mrs = limit32(registry, QUOTA_MRS),
		.max_published = limit32(registry, QUOTA_PUBLISHED),
	};
}

static int choose_version(struct request *req, uint32_t *ret_version)
{
	const struct msg_hello_req *hello = &req->msg->hello_req;
	uint32_t version = hello->version_max < SHMD_PROTOCOL_VERSION_MAX ? hello->version_max
									  : SHMD_PROTOCOL_VERSION_MAX;

	if (hello->version_min > hello->version_max)
		return request_fail(req, SHMD_STATUS_INVALID, "protocol versions %u to %u are not a range",
				    hello->version_min, hello->version_max);
	if (version < SHMD_PROTOCOL_VERSION_MIN || version < hello->version_min)
		return request_fail(req, SHMD_STATUS_VERSION,
				    "the daemon speaks protocol versions %u to %u, the client %u to %u; upgrade %s",
				    SHMD_PROTOCOL_VERSION_MIN, SHMD_PROTOCOL_VERSION_MAX,
				    hello->version_min, hello->version_max,
				    hello->version_max < SHMD_PROTOCOL_VERSION_MIN
					    ? "the client's library (libshmemclient)"
					    : "shmemd on this node");
	*ret_version = version;
	return 0;
}

static int add_watch(struct request *req)
{
	struct session *session = req->session;
	struct msg_hello_rep *rep = &req->rep->hello_rep;
	_cleanup_close_ int fd = -1;
	int r;

	if (!session->is_watched)
		return 0;
	fd = session_make_watch(session);
	if (fd < 0)
		return fd;
	r = fdlist_add(&req->rep_fds, fd);
	if (r < 0)
		return r;
	take_fd(&fd);
	rep->watch_fd = req->rep_fds.n;
	rep->restart_grace_nsec = session->registry->attr.restart_grace_nsec;
	return 0;
}

/* A client's place in the quota. */
static int charge_client(struct request *req)
{
	const struct quota_amount amount = session_own_amount(req->session);
	struct session *session = req->session;

	if (session->has_admin_place) {
		quota_explain(&session->user, session->admin_limit, 1, req->text, sizeof(req->text));
		return SHMD_STATUS_QUOTA_SESSIONS;
	}
	if (session->registry->draining)
		return request_fail(req, SHMD_STATUS_DRAINING, "an administrator is draining it");
	return request_charge(req, &amount, &session->session_charge);
}

static int check(struct request *req)
{
	const struct msg_hello_req *hello = &req->msg->hello_req;
	uint32_t version;
	int r = choose_version(req, &version);

	if (r != 0)
		return r;
	if (hello->role != MSG_ROLE_CLIENT && hello->role != MSG_ROLE_CONTROL)
		return request_fail(req, SHMD_STATUS_INVALID, "role %d is neither client nor control",
				    (int)hello->role);
	if (hello->role != MSG_ROLE_CLIENT)
		return 0;
	req->session->is_watched = hello->resumes && session_may_resume(req->session->registry);
	return charge_client(req);
}

/* The part that only a client has: a health page, and perhaps a socket to watch. */
static int admit_client(struct request *req)
{
	struct session *session = req->session;
	int r = session_make_health(&session->health_fd);

	if (r < 0)
		return r;
	session->has_page = true;
	r = request_add_fd(req, session->health_fd);
	if (r < 0)
		return r;
	r = add_watch(req);
	if (r == 0)
		session->registry->sessions_total++;
	return r;
}

static int hello(struct request *req)
{
	const struct msg_hello_req *hello = &req->msg->hello_req;
	struct session *session = req->session;
	struct msg_hello_rep *rep = &req->rep->hello_rep;
	uint32_t version = 0;
	int r = choose_version(req, &version);

	if (r == 0 && hello->role == MSG_ROLE_CLIENT)
		r = admit_client(req);
	/* It ended meanwhile: nobody reads the answer. */
	if (r != 0 || session->ended)
		return r;
	session->version = version;
	session->role = hello->role;
	memcpy(session->library, hello->library, sizeof(session->library));
	registry_save(session->registry);
	if (session->registry->attr.save)
		session->registry->attr.save->begin(session);

	req->rep->kind = MSG_HELLO_REP;
	rep->version = version;
	rep->session = session->id;
	rep->n_nics = session->registry->n_nics;
	snprintf(rep->daemon, sizeof(rep->daemon), "%s", session->registry->attr.daemon);
	fill_limits(&rep->limits, session->registry);
	session_note(session, LOG_DEBUG, NOTE_SESSION, "hello from %s (%s), protocol version %u",
		     session->identity.command, session->library, version);
	return 0;
}

static const char *trouble_of(const struct session *session, const char *otherwise)
{
	const char *trouble = porters_trouble(session->registry->attr.porters);

	return trouble ? trouble : otherwise;
}

/* Its porter has the socket. The session may be gone here. */
static void go_on(struct session *session)
{
	struct request *req = session->hello;
	int r;

	session->hello = NULL;
	session->is_reading = false;
	r = handle_hello(req);
	if (r == REQUEST_WAITS)
		return;
	req->answer(req, r);
	request_free(req);
	session_go_on(session);
}

/* 0, REQUEST_WAITS, or a refusal. */
static int await_porter(struct request *req)
{
	struct session *session = req->session;
	int r = req->msg->hello_req.role == MSG_ROLE_CLIENT ? session_let_send_fds(session) : 0;

	if (r == 0)
		return 0;
	if (r != -EINPROGRESS)
		return request_fail(req, SHMD_STATUS_NO_MEMORY,
				    "shmemd cannot start the process that receives descriptors of uid %u: %s; try again, and if that "
				    "does not help, have shmemd restarted",
				    session->identity.uid, trouble_of(session, strerror(-r)));
	session->hello = req;
	session->hello_go_on = go_on;
	session->is_reading = true;
	session_call_attention(session);
	return REQUEST_WAITS;
}

void hello_give_up(struct session *session, uint64_t msec)
{
	session_end(session, SHMD_STATUS_NO_MEMORY,
		    "shmemd cannot start the process that receives descriptors of uid %u: %s (tried for %" PRIu64 " ms)",
		    session->identity.uid, trouble_of(session, "it does not begin"), msec);
}

/* Refusals by a limit are counted where it binds. */
static int conclude(struct request *req, int r)
{
	if (r == SHMD_STATUS_DRAINING || r == SHMD_STATUS_VERSION)
		req->session->registry->refused_total++;
	if (r > 0)
		monitor_refused(req->session, (enum shmd_status)r, req->text);
	else if (r == 0 && !req->session->ended)
		monitor_session_opened(req->session);
	return r;
}

int handle_hello(struct request *req)
{
	int r = await_porter(req);

	if (r == REQUEST_WAITS)
		return r;
	if (r == 0)
		r = check(req);
	if (r == 0)
		r = hello(req);
	return conclude(req, r);
}
